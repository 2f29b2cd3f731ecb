"""Reading order: no lesson uses a term, a symbol or a part of the library before it is introduced.

``python -m tools.reading_order`` prints every complaint as ``file:line: what is wrong``. The rules:

*Terms.* An entry of the glossary names its lesson, "Introduced in lesson 4", and may name others that use
the term earlier, "lesson 1 already needs one". A lesson that an entry names links to it, before it uses the
term in any other way; its first cell, which says what is to come, and its headings are let pass. No lesson
that comes before the one that introduces a term uses it, unless the entry names it.

*Symbols.* The last column of the tables on notation is the lesson that introduces a symbol. Formulas of
earlier lessons do not hold it. Single letters are left out: they stand for different things in different
places.

*The library.* ``LESSON_OF`` says which lesson introduces a module or a name. A lesson that imports it
earlier says so: its text names that lesson. The lesson itself names what it introduces.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools import chapters
from tools.notebooks import code
from tools.notebooks.manuscript import Manuscript, load
from tools.notebooks.markdown import LINK, MATH, mask, prose_only

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY, NOTATION = "book/pages/glossary.md", "book/pages/notation.md"

#: The lesson that introduces a module, or one name of it; 0 for the course's tools, which any lesson may use.
LESSON_OF = {
    **dict.fromkeys(
        ("claim", "seed", "plots", "widgets", "contracts", "measured", "memory", "tasks", "training"), 0
    ),
    "recurrent": 1,
    "attention": 3,
    "attention.causal_mask": 4,
    "attention.padding_mask": 4,
    "multihead": 5,
    "positions": 6,
    "layers": 7,
    "transformer": 8,
    "export": 9,
    "decoder_only": 10,
    "cache": 11,
    "efficient": 13,
    "pretrained": 17,
}
#: Terms that are also everyday words: only a link to the glossary counts as a use of the term.
EVERYDAY = {
    "attention",
    "claim",
    "evidence",
    "gate",
    "head",
    "key",
    "mask",
    "padding",
    "query",
    "score",
    "value",
}
POINTER = re.compile(r"\b(?:Introduced|First used|first used)\b[^.;]*?[Ll]esson (\d+)")
LINK_TO_GLOSSARY = re.compile(r"\[[^\[\]]*\]\([^()]*glossary\.md#[^()]*\)")
HEADING = re.compile(r"^#+ .*$", re.M)
NAMED = re.compile(r"[Ll]essons? (\d+)(?: and (\d+))?")


@dataclass(frozen=True)
class Term:
    """An entry of the glossary: its anchor, the lesson that introduces it, and all lessons that it names."""

    name: str
    lesson: int
    named: frozenset[int]

    @property
    def anchor(self) -> str:
        """The anchor of its heading."""
        return re.sub(r"[^\w\- ]", "", self.name.lower()).replace(" ", "-")

    @cached_property
    def word(self) -> re.Pattern[str]:
        """What counts as a use of the term in prose, beside a link."""
        ending = "(?:s|es)?" if self.name[-1].isalpha() else ""
        spelled = r"[\s-]+".join(map(re.escape, re.split(r"[\s-]", self.name)))
        return re.compile(rf"(?<![\w-]){spelled}{ending}(?![\w-])", re.I)


class Lesson:
    """A lesson's text as this check reads it."""

    def __init__(self, manuscript: Manuscript, number: int) -> None:
        self.manuscript, self.number = manuscript, number
        self.cells = manuscript.of_kind("markdown")

    def complaint(self, line: int, what: str) -> str:
        """Return a complaint about a line."""
        return f"{self.manuscript.where}:{line}: {what}"

    def links(self, anchor: str) -> list[int]:
        """Return the lines that link to an entry of the glossary."""
        pattern = re.compile(rf"\]\(\.\./{re.escape(GLOSSARY)}#{re.escape(anchor)}\)")
        return [cell.line_at(found.start()) for cell in self.cells for found in pattern.finditer(cell.source)]

    @cached_property
    def prose(self) -> list[tuple[int, str]]:
        """Line and text of each text cell; code, formulas, headings and links to the glossary are blank."""
        return [
            (cell.line, mask(prose_only(cell.source), LINK_TO_GLOSSARY, HEADING, MATH, LINK))
            for cell in self.cells
        ]

    @cached_property
    def announced(self) -> int:
        """The last line of the first cell, which says what is to come."""
        return self.cells[0].stop if self.cells else 0

    @cached_property
    def formulas(self) -> list[tuple[int, str]]:
        """Line and text of every formula."""
        return [
            (cell.line_at(found.start()), found[0])
            for cell in self.cells
            for found in MATH.finditer(prose_only(cell.source))
        ]

    def uses(self, term: Term) -> list[int]:
        """Return the lines that use a term in plain words."""
        if term.name.casefold() in EVERYDAY:
            return []
        return [
            line + text.count("\n", 0, found.start())
            for line, text in self.prose
            for found in term.word.finditer(text)
        ]

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """Line and name, ``module`` or ``module.name``, of all that is imported from the library."""
        found = []
        for cell in self.manuscript.of_kind("code"):
            for node in ast.walk(code.parse(cell.source)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "attnlab":
                    module = (node.module or "").partition(".")[2]
                    names = [f"{module}.{alias.name}".lstrip(".") for alias in node.names]
                    found += [(cell.line + node.lineno - 1, name) for name in names]
        return found

    def names(self, lesson: int) -> bool:
        """Return whether the text names another lesson."""
        return any(re.search(rf"\b[Ll]essons? (?:\d+ and )?{lesson}\b", cell.source) for cell in self.cells)


def terms(root: Path = ROOT) -> list[Term]:
    """Read the glossary. Raises ``ValueError`` for an entry that names no lesson, and no page."""
    text = (root / GLOSSARY).read_text(encoding="utf-8")
    found = []
    for name, entry in re.findall(r"^### (.+)\n\n((?:[^#\n].*\n|\n)+)", text, re.M):
        named = [int(number) for pair in NAMED.findall(entry) for number in pair if number]
        pointer = POINTER.search(entry)
        if named:
            found.append(Term(name, int(pointer[1]) if pointer else min(named), frozenset(named)))
        elif "](" not in entry:
            raise ValueError(f"{GLOSSARY}:1: {name} names no lesson")
    return found


def symbols(root: Path = ROOT) -> dict[str, int]:
    """Read the page on notation: TeX of each symbol that is more than a letter, and its lesson."""
    found: dict[str, int] = {}
    for line in (root / NOTATION).read_text(encoding="utf-8").split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and cells[-1].isdigit():
            for tex in re.findall(r"\$([^$]+)\$", cells[0]):
                for symbol in (part.strip() for part in tex.split("=")):
                    if len(symbol) > 1:
                        found.setdefault(symbol, int(cells[-1]))
    return found


def problems(root: Path = ROOT) -> list[str]:
    """Return every place where a lesson runs ahead."""
    written = [one for one in chapters.lessons_of(chapters.read(root))]
    lessons = []
    for one in written:
        path = root / "book/lessons" / f"{one.slug}.py"
        if path.exists():
            lessons.append(Lesson(load(path, root, "lesson"), one.number))
    found: list[str] = []
    for lesson in lessons:
        for term in terms(root):
            found += _term_problems(lesson, term)
        found += _symbol_problems(lesson, symbols(root))
        found += _library_problems(lesson)
    return found


def _term_problems(lesson: Lesson, term: Term) -> Iterator[str]:
    links, uses = lesson.links(term.anchor), lesson.uses(term)
    if lesson.number in term.named:
        if not links:
            yield lesson.complaint(1, f"the glossary says that this lesson uses {term.name!r}: link it")
        elif early := [line for line in uses if lesson.announced < line < min(links)]:
            yield lesson.complaint(
                early[0], f"{term.name!r} is used before line {min(links)} links it to the glossary"
            )
    elif lesson.number < term.lesson and (links or uses):
        yield lesson.complaint(
            min([*links, *uses]),
            f"{term.name!r} is introduced in lesson {term.lesson}: say it in other words, or let the "
            "glossary's entry name this lesson, too",
        )


def _symbol_problems(lesson: Lesson, known: dict[str, int]) -> Iterator[str]:
    for symbol, number in known.items():
        if lesson.number >= number:
            continue
        spelled = re.escape(symbol).replace(r"\ ", r"\s*")
        pattern = re.compile(rf"(?<![A-Za-z\\]){spelled}(?![A-Za-z])")
        line = next((line for line, text in lesson.formulas if pattern.search(text)), None)
        if line:
            yield lesson.complaint(line, f"the symbol ${symbol}$ is introduced in lesson {number}")


def _library_problems(lesson: Lesson) -> Iterator[str]:
    for line, name in lesson.imports:
        module = name.partition(".")[0]
        number = LESSON_OF.get(name, LESSON_OF.get(module))
        if number is None:
            yield lesson.complaint(
                line, f"LESSON_OF in tools/reading_order.py does not say who introduces {name}"
            )
        elif number > lesson.number and not lesson.names(number):
            yield lesson.complaint(
                line,
                f"{name} is introduced in lesson {number}, and the text does not say so: name that lesson",
            )
    for name, number in LESSON_OF.items():
        wanted = name.partition(".")[2] or f"attnlab.{name}"
        if number == lesson.number and wanted not in lesson.manuscript.text:
            yield lesson.complaint(
                1, f"this lesson introduces {name} of the library: say {wanted!r} somewhere"
            )


def main() -> int:
    """Print the complaints; 1 if there are any."""
    found = problems()
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
