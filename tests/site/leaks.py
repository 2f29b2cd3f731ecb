"""Look for solutions where they must not be: the marks of each solution, and every text of a file.

A mark is a line of code that stands between the solution marks of a manuscript, or some words from the
beginning of a cell that the solutions alone have. What the exercise itself shows is no mark.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sphinx.search.en import SearchEnglish

from tools.notebooks import manuscript, solutions

ROOT = Path(__file__).resolve().parents[2]
MANUSCRIPTS = ROOT / "book" / "exercises"
SHORTEST_CODE = 12  # characters, spaces left out: `return x` could stand anywhere
SHORTEST_WORDS = 24  # letters
SENTENCES = 2

#: What parts the words of Markdown: code, formulas, emphasis, links, quotation marks; a page sets them anew.
MARKUP = re.compile(r"`[^`]*`|\$[^$]*\$|\]\([^)]*\)|[*_\[\]<>#|\"'“”‘’]")


@dataclass(frozen=True)
class Solution:
    """A block of a solution, or a cell that only the solutions have: where it stands and what marks it."""

    where: str
    code: tuple[str, ...] = ()  # without spaces
    words: tuple[str, ...] = ()  # letters and digits alone

    def found_in(self, texts: Texts) -> list[str]:
        """The marks of this solution that are in some texts."""
        found = [mark for mark in self.code if any(mark in text for text in texts.code)]
        return found + [mark for mark in self.words if any(mark in text for text in texts.words)]


@dataclass(frozen=True)
class Texts:
    """Everything that a file says, as code and as words are compared."""

    code: list[str]
    words: list[str]

    @classmethod
    def of(cls, *texts: str) -> Texts:
        """Each text as it stands, and as a reader of its HTML sees it."""
        forms = [html.unescape(form) for text in texts for form in (text, re.sub(r"<[^>]*>", "", text))]
        return cls([without_spaces(form) for form in forms], [letters(form) for form in forms])


def without_spaces(text: str) -> str:
    return re.sub(r"\s+", "", text)


def letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def solutions_of(path: Path) -> list[Solution]:
    """The solutions of a manuscript, in its order, with their marks."""
    read = manuscript.load(path, ROOT, "exercise")
    given = Texts.of("\n".join(cell.source for cell in solutions.view(read, "exercise")))
    out = []
    for cell in read.cells:
        where = f"{read.where}:{cell.line}"
        only = "solution-only" in cell.tags
        if cell.kind == "code":
            lines = [
                line.text for line in solutions.classify(cell.source)[0] if only or line.part == "solution"
            ]
            marks = [mark for line in lines if len(mark := code_of(line)) >= SHORTEST_CODE]
            if lines:
                out.append(Solution(where, code=tuple(mark for mark in marks if mark not in given.code[0])))
        elif only and not cell.source.startswith("# "):  # the title of the page is no solution
            marks = [mark for mark in phrases(cell.source) if mark not in given.words[0]]
            out.append(Solution(where, words=tuple(marks)))
    return out


def code_of(line: str) -> str:
    """A line without its comment, as code is compared."""
    return without_spaces(re.sub(r"(^|\s)#\s.*", "", line))


def phrases(source: str) -> list[str]:
    """Words of a cell's first sentences between two marks of Markdown; of all if those are too few."""
    for text in (" ".join(re.split(r"(?<=[.?!:])\s+", source)[:SENTENCES]), source):
        marks = [mark for part in MARKUP.split(text) if len(mark := letters(part)) >= SHORTEST_WORDS]
        if marks:
            return marks
    return []


def notebook_texts(raw: str) -> Texts:
    """Every text in a notebook: cells, outputs, metadata, and the names in them."""
    return Texts.of(*strings(json.loads(raw)))


def strings(value: Any) -> Iterator[str]:
    """The strings of a JSON value, and its names. A list of strings is one text; a picture is none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        if value and all(isinstance(entry, str) for entry in value):
            yield "".join(value)
        else:
            for entry in value:
                yield from strings(entry)
    elif isinstance(value, dict):
        for name, entry in value.items():
            picture = name.startswith("image/") and name != "image/svg+xml" and not isinstance(entry, dict)
            yield from () if picture else (name, *strings(entry))


def leaks(found: list[Solution], texts: Texts) -> dict[str, list[str]]:
    """The marks that are in some texts, by the place of the solution that they give away."""
    return {one.where: marks for one in found if (marks := one.found_in(texts))}


# --- the search ------------------------------------------------------------------------------------------


def index_words(raw: str, page: str) -> set[str]:
    """The words under which a search index has a page."""
    index = json.loads(raw.removeprefix("Search.setIndex(").removesuffix(")"))
    number = index["docnames"].index(page)
    return {
        word
        for terms in (index["terms"], index["titleterms"])
        for word, pages in terms.items()
        if number in (pages if isinstance(pages, list) else [pages])
    }


def telling_words(path: Path, given: str) -> set[str]:
    """Words, as an index has them, of a manuscript's solutions that are not in the exercise notebook."""
    read = manuscript.load(path, ROOT, "exercise")
    solved = " ".join(cell.source for cell in solutions.view(read, "solution"))
    return stems(solved) - stems(" ".join(strings(json.loads(given))))


def stems(text: str) -> set[str]:
    """The words of a text as Sphinx puts them into its index."""
    language = SearchEnglish({})
    return {
        language.stem(word.lower()) for word in language.split(text) if language.word_filter(word.lower())
    }
