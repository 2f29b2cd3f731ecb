"""Read a manuscript (jupytext's py:percent) into cells that know the lines they stand on."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jupytext

from .files import digest, read
from .problems import Complaints, Problems

MARKER = re.compile(r"# %%(?:\s|$)")
NAME = re.compile(r"(?P<number>\d\d)_(?P<slug>[a-z][a-z0-9_]*)")
FOLDERS = {"lesson": "book/lessons", "exercise": "book/exercises"}


@dataclass(frozen=True)
class Cell:
    """One cell of a manuscript.

    ``line`` is the manuscript's line of the first line of ``source``, counted from 1; ``start`` and ``stop``
    are the cell's span of lines, marker included, counted from 0.
    """

    index: int
    kind: str
    source: str
    metadata: dict[str, Any]
    line: int
    start: int
    stop: int

    @property
    def tags(self) -> list[str]:
        """The cell's tags."""
        return list(self.metadata.get("tags", []))

    def line_at(self, offset: int) -> int:
        """Return the manuscript's line for an offset into the source."""
        return self.line + self.source.count("\n", 0, offset)


@dataclass
class Manuscript:
    """A lesson, or an exercise together with its solution."""

    path: Path
    root: Path
    kind: str
    text: str
    header: str
    cells: list[Cell]
    kernel: str
    complaints: Complaints = field(repr=False)

    @property
    def stem(self) -> str:
        """The name of the file without its ending, ``03_query_key_value``."""
        return self.path.stem

    @property
    def number(self) -> str:
        """The two digits at the start of the name."""
        return self.stem.partition("_")[0]

    @property
    def where(self) -> str:
        """The path that complaints show."""
        return self.path.relative_to(self.root).as_posix()

    @property
    def digest(self) -> str:
        """A fingerprint of the whole text."""
        return digest(self.text)

    def of_kind(self, kind: str) -> list[Cell]:
        """Return the code cells or the markdown cells."""
        return [cell for cell in self.cells if cell.kind == kind]

    @property
    def title(self) -> str:
        """The first heading, or the stem where there is none."""
        for cell in self.of_kind("markdown"):
            if found := re.search(r"^# +(.+)$", cell.source, re.M):
                return found[1].strip()
        return self.stem


def load(path: Path, root: Path, kind: str) -> Manuscript:
    """Read a manuscript from a file. Raises ``Problems`` where its cells cannot be told apart."""
    return parse(read(path), path, root, kind)


def parse(text: str, path: Path, root: Path, kind: str) -> Manuscript:
    """Read a manuscript from its text; ``path`` names it."""
    complaints = Complaints(path.relative_to(root).as_posix())
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if MARKER.match(line)]
    if not starts:
        raise Problems(f"{complaints.where}:1: no cell: a cell begins with a line '# %%'")
    try:
        notebook = jupytext.reads(text, fmt="py:percent")
    except Exception as error:  # jupytext raises many kinds, all of them about the text
        raise Problems(f"{complaints.where}:1: jupytext cannot read it: {error}") from None
    if len(notebook.cells) != len(starts):
        stray = _after_header(lines, starts[0])
        what = "text before the first '# %%' line" if stray else "a '# %%' line inside a string"
        raise Problems(f"{complaints.where}:{stray or starts[0] + 1}: {what}: its cells cannot be told apart")
    cells = []
    for index, cell in enumerate(notebook.cells):
        start, stop = starts[index], [*starts, len(lines)][index + 1]
        metadata = {key: value for key, value in cell.metadata.items() if key != "lines_to_next_cell"}
        line = _first_line(lines, start, stop, cell.source)
        cells.append(Cell(index, cell.cell_type, cell.source, metadata, line, start, stop))
    kernel = notebook.metadata.get("kernelspec", {}).get("name", "")
    header = "\n".join(lines[: starts[0]])
    return Manuscript(path, root, kind, text, header, cells, kernel, complaints)


def _after_header(lines: list[str], first: int) -> int:
    """Return the line, counted from 1, of text between the header and the first cell; 0 for none."""
    fences = [number for number in range(first) if lines[number].strip() == "# ---"]
    begin = fences[1] + 1 if len(fences) >= 2 else 0
    return next((number + 1 for number in range(begin, first) if lines[number].strip()), 0)


def _first_line(lines: list[str], start: int, stop: int, source: str) -> int:
    """Return the line, counted from 1, on which a cell's source begins."""
    wanted = source.split("\n", 1)[0].strip()
    for number in range(start + 1, stop):
        line = lines[number].strip()
        if source and wanted in (line, re.sub(r"^# ?", "", line).strip()):
            return number + 1
    return start + 1


def manuscripts(root: Path) -> list[tuple[Path, str]]:
    """Return path and kind of every manuscript, lessons and exercises, sorted by name."""
    return [(path, kind) for kind, folder in FOLDERS.items() for path in sorted((root / folder).glob("*.py"))]
