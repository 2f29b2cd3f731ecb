"""Is a printed book readable? Every sheet has something on it, and every link leads somewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from pypdf import PdfReader
from pypdf.generic import Destination

FOOTER = 12  # characters: what a sheet has that holds nothing but its number


@dataclass(frozen=True)
class Book:
    """What was found in a PDF: sheets, titles in the outline with their depth, links, and what is wrong."""

    sheets: int
    outline: list[tuple[int, str]]
    inside: int
    outside: int
    complaints: list[str]


def _titles(entries: list[Any], depth: int = 0) -> Iterator[tuple[int, str]]:
    for entry in entries:
        if isinstance(entry, list):
            yield from _titles(entry, depth + 1)
        elif isinstance(entry, Destination):
            yield depth, str(entry.title)


def _is_blank(sheet: Any) -> bool:
    """Whether a sheet shows neither text, but for its number, nor a picture."""
    return len(sheet.extract_text().strip()) <= FOOTER and not len(sheet.images)


def sheets_of_places(data: bytes) -> dict[str, int]:
    """On which sheet each place of a PDF stands that a link leads to, counted from 1, by the place's id."""
    reader = PdfReader(BytesIO(data))
    found = {}
    for name, at in reader.named_destinations.items():
        number = reader.get_destination_page_number(at)
        if number is not None:
            found[name.removeprefix("/")] = number + 1
    return found


def look(path: Path) -> Book:
    """Read a PDF through and say what is wrong with it."""
    reader = PdfReader(path)
    complaints = []
    inside = outside = 0
    for number, sheet in enumerate(reader.pages, 1):
        if _is_blank(sheet):
            complaints.append(f"sheet {number} is blank")
        for note in sheet.get("/Annots") or []:
            link = note.get_object()
            action = link.get("/A", {})
            target = link.get("/Dest") or action.get("/D")
            if target is None:
                outside += 1
                address = str(action.get("/URI", ""))
                if "course.invalid" in address:
                    complaints.append(f"sheet {number}: a link leads nowhere: {address}")
            elif isinstance(target, str) and target not in reader.named_destinations:
                complaints.append(f"sheet {number}: a link leads nowhere: {target}")
            else:
                inside += 1
    return Book(len(reader.pages), list(_titles(reader.outline)), inside, outside, complaints)
