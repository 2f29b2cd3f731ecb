"""Solution marks: one manuscript holds an exercise and its solution.

::

    # BEGIN SOLUTION
    # STUB return ...          (optional: what the stub says instead of raising)
    return q @ k.transpose(-2, -1)
    # END SOLUTION
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .manuscript import Cell, Manuscript

BEGIN = re.compile(r"[ \t]*# BEGIN SOLUTION[ \t]*")
END = re.compile(r"[ \t]*# END SOLUTION[ \t]*")
STRAY = re.compile(r"[ \t]*(?:# )?(?:BEGIN|END) SOLUTION[ \t]*")
STUB = re.compile(r"(?P<indent>[ \t]*)# STUB(?: (?P<text>.*))?")
NEARLY = re.compile(r"#\s*(?:begin|end)[ _-]*solutions?\b", re.I)
DEFAULT = 'raise NotImplementedError("your turn")'
ONLY = {"exercise": "exercise-only", "solution": "solution-only"}


@dataclass(frozen=True)
class Line:
    """A line of a code cell and the part it plays: plain, begin, end, stub or solution."""

    part: str
    text: str
    number: int


@dataclass(frozen=True)
class Shown:
    """A line that a reader sees; ``origin`` is its place among the cell's lines."""

    text: str
    origin: int


@dataclass(frozen=True)
class ViewCell:
    """A cell as one notebook shows it, and the manuscript's line of each line of its source."""

    cell: Cell
    source: str
    lines: list[int]

    def line(self, number: int) -> int:
        """Return the manuscript's line for a line of the source, counted from 1."""
        return self.lines[min(max(number, 1), len(self.lines)) - 1]


def classify(source: str) -> tuple[list[Line], list[tuple[int, str]]]:
    """Give every line its part; also return what is wrong as (line counted from 0, complaint)."""
    lines: list[Line] = []
    wrong: list[tuple[int, str]] = []
    opened: int | None = None
    for number, text in enumerate(source.split("\n")):
        part = "plain" if opened is None else "solution"
        if BEGIN.fullmatch(text):
            if opened is not None:
                wrong.append((number, "nested solution marks: BEGIN SOLUTION inside a solution"))
            part, opened = "begin", number
        elif END.fullmatch(text):
            if opened is None:
                wrong.append((number, "unbalanced solution marks: END SOLUTION without BEGIN SOLUTION"))
            part, opened = "end", None
        elif NEARLY.search(text):
            wrong.append(
                (
                    number,
                    f"not a solution mark: {text.strip()!r}; write '# BEGIN SOLUTION' or '# END SOLUTION'",
                )
            )
        elif STUB.fullmatch(text):
            if opened is None:
                wrong.append((number, "a '# STUB' line outside a solution"))
            part = "stub"
        lines.append(Line(part, text, number))
    if opened is not None:
        wrong.append((opened, "unbalanced solution marks: BEGIN SOLUTION without END SOLUTION"))
    return lines, wrong


def shown(lines: list[Line], variant: str) -> list[Shown]:
    """Return the lines that a variant of the notebook shows (``lesson``, ``exercise`` or ``solution``)."""
    if variant == "lesson":
        return [Shown(line.text, place) for place, line in enumerate(lines)]
    if variant == "solution":
        return [
            Shown(line.text, place) for place, line in enumerate(lines) if line.part in ("plain", "solution")
        ]
    out: list[Shown] = []
    for place, line in enumerate(lines):
        if line.part == "plain":
            out.append(Shown(line.text, place))
        elif line.part == "stub" and (found := STUB.fullmatch(line.text)):
            text = found["text"] or ""
            out.append(Shown(found["indent"] + text if text else "", place))
        elif line.part == "begin" and not has_stub(lines, place):
            indent = re.match(r"[ \t]*", line.text)
            out.append(Shown((indent[0] if indent else "") + DEFAULT, place))
    return out


def has_stub(lines: list[Line], begin: int) -> bool:
    """Return whether the solution that begins at a place has its own ``# STUB`` lines."""
    for line in lines[begin + 1 :]:
        if line.part in ("end", "begin"):
            return False
        if line.part == "stub":
            return True
    return False


def variants(manuscript: Manuscript) -> tuple[str, ...]:
    """Return the notebooks that a manuscript gives, the one whose claims are read first."""
    return ("lesson",) if manuscript.kind == "lesson" else ("solution", "exercise")


def view(manuscript: Manuscript, variant: str) -> list[ViewCell]:
    """Return the cells of one notebook."""
    hidden = {tag for name, tag in ONLY.items() if variant != "lesson" and name != variant}
    out = []
    for cell in manuscript.cells:
        if hidden.intersection(cell.tags):
            continue
        lines = [Shown(text, place) for place, text in enumerate(cell.source.split("\n"))]
        if cell.kind == "code":
            lines = shown(classify(cell.source)[0], variant)
        out.append(ViewCell(cell, _joined(lines), [cell.line + line.origin for line in lines] or [cell.line]))
    return out


def _joined(lines: Iterable[Shown]) -> str:
    return "\n".join(line.text for line in lines)


def complain(manuscript: Manuscript) -> None:
    """Note everything that is wrong with the solution marks."""
    for cell in manuscript.cells:
        if cell.kind == "code" and manuscript.kind == "exercise":
            for number, what in classify(cell.source)[1]:
                manuscript.complaints.add(cell.line + number, what)
            continue
        for number, text in enumerate(cell.source.split("\n")):
            if STRAY.fullmatch(text):
                place = "a lesson" if manuscript.kind == "lesson" else "a text cell"
                manuscript.complaints.add(cell.line + number, f"a solution mark in {place}")
        if manuscript.kind == "lesson" and set(ONLY.values()).intersection(cell.tags):
            manuscript.complaints.add(cell.line, "a lesson has no solution: remove the tag")
