"""The order of the pages, from ``_toc.yml``: parts, and the pages in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Part:
    """Pages that stand together, by name; ``caption`` is empty where the table of contents gives none."""

    caption: str
    pages: tuple[str, ...]


def _names(entry: dict[str, Any]) -> Iterator[str]:
    if "file" in entry:
        yield str(entry["file"])
    for key in ("chapters", "sections"):
        for child in entry.get(key, []):
            yield from _names(child)


def read(toc: Path) -> list[Part]:
    """The parts of a book in order; the first holds the root alone."""
    entry = yaml.safe_load(toc.read_text(encoding="utf-8"))
    parts = [Part("", (str(entry["root"]),))]
    for part in entry.get("parts", [entry]):
        pages = tuple(_names({key: value for key, value in part.items() if key != "file"}))
        if pages:
            parts.append(Part(part.get("caption", ""), pages))
    return parts
