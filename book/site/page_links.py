"""Where a page comes from and where it can be opened: plain functions from a page's name to addresses.

A page's name is its path in the repository without the ending: ``notebooks/03_query_key_value``.
"""

from __future__ import annotations

import re
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


def issue_link(repository: str, page: str) -> str:
    """Address of a new issue that names ``page``."""
    return f"{repository.rstrip('/')}/issues/new?title={quote(f'[{page}] ', safe='')}"


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


def siblings(page: str, pages: set[str]) -> list[tuple[str, str]]:
    """The lesson, exercises and solutions of the chapter of ``page`` that exist, as (label, page)."""
    match = CHAPTER.fullmatch(page)
    if not match:
        return []
    labels = {"notebooks": "Lesson", "exercises": "Exercises", "solutions": "Solutions"}
    found = [(label, f"{folder}/{match[2]}") for folder, label in labels.items()]
    return [(label, name) for label, name in found if name in pages]
