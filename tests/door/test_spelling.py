"""The prose keeps to British spelling. (Slips of the pen are codespell's work, over text and code alike.)"""

import re
from pathlib import Path

import codespell_lib
import jupytext
import pytest

from tools.notebooks.markdown import LINK, mask, prose_only

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "book/pages").glob("*.md"))]
MANUSCRIPTS = sorted((ROOT / "book").glob("*/[0-9][0-9]_*.py"))
# Right in Britain as well: a program for a computer, practice as a noun, a story told, a meter to read.
ALSO_BRITISH = {"program", "programs", "practice", "practices", "story", "stories", "meter", "meters"}


def american_words():
    """American spellings and what they are in Britain, from codespell's dictionary read backwards."""
    dictionary = Path(codespell_lib.__file__).parent / "data/dictionary_en-GB_to_en-US.txt"
    found = {}
    for line in dictionary.read_text(encoding="utf-8").splitlines():
        british, _, american = line.partition("->")
        found.update((word.strip(), british) for word in american.split(",") if word.strip())
    return {word: british for word, british in found.items() if word not in ALSO_BRITISH}


AMERICAN = american_words()


def slips(text):
    """The American spellings in the prose of a Markdown text; code, formulas and addresses do not count."""
    prose = mask(prose_only(text), LINK, re.compile(r"\$[^$\n]+\$"))
    return sorted({word for word in re.findall(r"[a-z]+", prose.lower()) if word in AMERICAN})


def prose_of(path):
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    return "\n\n".join(cell.source for cell in jupytext.read(path).cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("path", [*PAGES, *MANUSCRIPTS], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_prose_is_british(path):
    assert {word: AMERICAN[word] for word in slips(prose_of(path))} == {}


@pytest.mark.parametrize(
    "text", ["The color of a key.", "Layer *Normalization*", "- optimizer", "| a gray line |"]
)
def test_an_american_spelling_is_found(text):
    assert len(slips(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "`color`",
        "```python\ncolor = 1\n```",
        "[the colour](LICENSE)",
        "a program",
        "$color$",
        "initialisation",
    ],
)
def test_code_and_british_spelling_are_not(text):
    assert slips(text) == []
