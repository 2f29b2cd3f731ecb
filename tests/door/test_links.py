"""Every relative link in the door, the pages and the notebooks leads to a file and a heading that exist."""

import json
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
MARKDOWN = MarkdownIt("commonmark").enable("table")
FOLDERS = ("notebooks", "exercises", "solutions")
DOOR = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "book/pages").glob("*.md"))]
NOTEBOOKS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.ipynb"))
GENERATED = sorted((ROOT / "notebooks").glob("*.md"))
MANUSCRIPTS = sorted((ROOT / "book").glob("*/[0-9][0-9]_*.py"))


@cache
def text_of(path):
    """The Markdown of a page, or of all text cells of a notebook."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def links(text):
    """Where the links and images of a text lead; text in code does not count."""
    found = []
    for token in MARKDOWN.parse(text):
        for child in token.children or []:
            if child.type in ("link_open", "image"):
                found.append(child.attrGet("href" if child.type == "link_open" else "src"))
    return found


@cache
def anchors(path):
    """The anchors that GitHub and the website give the headings of a page."""
    found, tokens = [], MARKDOWN.parse(text_of(path))
    for opening, inline in zip(tokens, tokens[1:], strict=False):
        if opening.type != "heading_open":
            continue
        shown = "".join(child.content for child in inline.children if child.type in ("text", "code_inline"))
        slug = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        before = sum(re.fullmatch(rf"{re.escape(slug)}(-\d+)?", other) is not None for other in found)
        found.append(f"{slug}-{before}" if before else slug)
    return set(found)


def broken(text, page):
    """The links of a text standing at ``page`` that lead nowhere, each with the reason."""
    found = []
    for link in links(text):
        parts = urlsplit(link)
        if parts.scheme in ("http", "https", "mailto") or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if not target.is_relative_to(ROOT) or not target.exists():
            found.append(f"{link}: no such file")
        elif parts.fragment and unquote(parts.fragment) not in anchors(target):
            found.append(f"{link}: {target.name} has no such heading")
    return found


def prose_of_manuscript(path):
    """The text cells of a py:percent manuscript."""
    cells = re.split(r"^# %%", path.read_text(encoding="utf-8"), flags=re.M)[1:]
    texts = [cell.split("\n", 1)[1] for cell in cells if cell.startswith(" [markdown]")]
    return "\n\n".join(re.sub(r"^# ?", "", text, flags=re.M) for text in texts)


def named(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", [*DOOR, *GENERATED, *NOTEBOOKS], ids=named)
def test_every_relative_link_leads_somewhere(path):
    assert broken(text_of(path), path) == []


@pytest.mark.parametrize("path", MANUSCRIPTS, ids=named)
def test_every_glossary_link_of_a_manuscript_is_a_heading(path):
    glossary = [link for link in links(prose_of_manuscript(path)) if "glossary.md" in link]
    assert glossary, "a lesson links its terms to the glossary"
    headings = anchors(ROOT / "book/pages/glossary.md")
    prefix = "../book/pages/glossary.md#"
    assert [
        link for link in glossary if not link.startswith(prefix) or link[len(prefix) :] not in headings
    ] == []


def test_there_is_something_to_look_at():
    lessons, exercises = (list((ROOT / "book" / kind).glob("*.py")) for kind in ("lessons", "exercises"))
    assert len(NOTEBOOKS) == len(lessons) + 2 * len(exercises) > 0  # an exercise has its solution
    assert MANUSCRIPTS and GENERATED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[a](missing.md)", "no such file"),
        ("![a](images/missing.png)", "no such file"),
        ("[a](../../../outside.md)", "no such file"),
        ("[a](glossary.md#no-such-term)", "no such heading"),
        ("[a](#no-such-heading)", "no such heading"),
        ("| a |\n| - |\n| [a](missing.md) |", "no such file"),
    ],
)
def test_a_broken_link_is_found(text, reason):
    assert reason in broken(text, ROOT / "book/pages/index.md")[0]


@pytest.mark.parametrize(
    "text",
    [
        "[a](glossary.md#query)",
        "[a](#the-lessons)",
        "[a](https://example.org/x#y)",
        "`[a](missing.md)`",
        "[a](../pages/)",
    ],
)
def test_a_good_link_is_not(text):
    assert broken(text, ROOT / "book/pages/index.md") == []
