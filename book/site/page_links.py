"""Where a page comes from and where it can be opened: plain functions from a page's name to addresses.

A page's name is its path in the repository without the ending: ``notebooks/03_query_key_value``.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

#: Folders of generated notebooks, and the folder of the manuscripts that they are made from.
MANUSCRIPTS = {"notebooks": "book/lessons", "exercises": "book/exercises", "solutions": "book/exercises"}

#: Generated pages that are not made from a manuscript, and what a person would edit to change them.
GENERATED = {"notebooks/bibliography": "book/references.bib", "notebooks/evidence": None}

CHAPTER = re.compile(r"(notebooks|exercises|solutions)/(\d\d_\w+)")


def manuscript(page: str, source: str) -> str | None:
    """File that a person edits to change ``page``, which Sphinx read from ``source``; None if none is."""
    if page in GENERATED:
        return GENERATED[page]
    match = CHAPTER.fullmatch(page)
    return f"{MANUSCRIPTS[match[1]]}/{match[2]}.py" if match else source


def edit_link(repository: str, branch: str, path: str) -> str:
    """Address at which GitHub opens ``path`` for editing."""
    return f"{repository.rstrip('/')}/edit/{quote(branch)}/{quote(path)}"


def issue_link(repository: str, page: str, version: str) -> str:
    """Address of a new issue that names ``page`` and the version of the course."""
    body = f"Page: {page}\nVersion: {version}\n\nWhat is wrong, and what did you expect?\n"
    title = quote(f"[{page}] ", safe="")
    return f"{repository.rstrip('/')}/issues/new?title={title}&body={quote(body, safe='')}"


def version_of(package: Path) -> str:
    """The version that the package's ``__init__.py`` states, read without running it.

    Raises:
        ValueError: it states none.
    """
    match = re.search(r'^__version__ = "([^"]+)"$', package.read_text(encoding="utf-8"), re.MULTILINE)
    if not match:
        raise ValueError(f"{package}: expected a line with __version__")
    return match[1]


def colab_link(colab: str, repository: str, branch: str, notebook: str) -> str:
    """Address at which Google Colab opens ``notebook``, a path in a repository on GitHub.

    Raises:
        ValueError: the repository is not on GitHub, which is the only place that Colab opens by address.
    """
    match = re.fullmatch(r"https://github\.com/([^/]+/[^/]+?)/?", repository)
    if not match:
        raise ValueError(
            f"repository.url: expected https://github.com/OWNER/NAME for Colab links, got {repository!r}"
        )
    return f"{colab.rstrip('/')}/github/{match[1]}/blob/{quote(branch)}/{quote(notebook)}"


def is_lesson(page: str) -> bool:
    """Whether a page is a lesson, as against exercises and pages of other kinds."""
    match = CHAPTER.fullmatch(page)
    return match is not None and match[1] == "notebooks"


def siblings(page: str, pages: set[str]) -> list[tuple[str, str]]:
    """The lesson, exercises and solutions of the chapter of ``page`` that exist, as (label, page)."""
    match = CHAPTER.fullmatch(page)
    if not match:
        return []
    labels = {"notebooks": "Lesson", "exercises": "Exercises", "solutions": "Solutions"}
    found = [(label, f"{folder}/{match[2]}") for folder, label in labels.items()]
    return [(label, name) for label, name in found if name in pages]
