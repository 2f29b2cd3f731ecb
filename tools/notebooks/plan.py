"""The cells of a manuscript after an edit: kept, changed, new, moved or gone; and the text they make."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jupytext

from . import nodes
from .manuscript import MARKER, Manuscript

FORMAT = {"extension": ".py", "format_name": "percent"}


@dataclass(frozen=True)
class Planned:
    """A cell of the manuscript to be; ``origin`` is its index in the old one, None for a new cell."""

    origin: int | None
    kind: str
    source: str
    metadata: dict[str, Any]
    changed: bool


def unchanged(manuscript: Manuscript) -> list[Planned]:
    """Return the plan that changes nothing."""
    return [Planned(cell.index, cell.kind, cell.source, cell.metadata, False) for cell in manuscript.cells]


def ordered(manuscript: Manuscript, visible: Sequence[int], wanted: Sequence[Planned]) -> list[Planned]:
    """Put the cells that a notebook does not show between the wanted ones, each behind the cell it followed.

    ``visible`` holds the indices of the cells that the notebook showed.
    """
    followers: dict[int | None, list[Planned]] = {}
    last: int | None = None
    for cell in unchanged(manuscript):
        if cell.origin in visible:
            last = cell.origin
        else:
            followers.setdefault(last, []).append(cell)
    out = followers.pop(None, [])
    present = {cell.origin for cell in wanted}
    for cell in wanted:
        out.append(cell)
        if cell.origin is not None:
            out += followers.pop(cell.origin, [])
    for index in sorted(key for key in followers if key is not None):
        # The cell before is gone: stay behind the nearest one before it.
        before = max((key for key in visible if key < index and key in present), default=None)
        at = next((place + 1 for place, cell in enumerate(out) if cell.origin == before), 0)
        out[at:at] = followers[index]
    return out


def merge(
    manuscript: Manuscript, one: list[Planned], other: list[Planned]
) -> tuple[list[Planned], list[int]]:
    """Join two plans of one manuscript; also return the cells on which they disagree (-1: the order)."""
    before = [cell.origin for cell in unchanged(manuscript)]
    structure = [cell.origin for cell in other]
    if structure != before and [cell.origin for cell in one] not in (before, structure):
        return one, [-1]
    base, extra = (other, one) if structure != before else (one, other)
    changes = {cell.origin: cell for cell in extra if cell.changed and cell.origin is not None}
    present = {cell.origin for cell in base}
    clashes = [index for index in changes if index not in present]
    out = []
    for cell in base:
        change = changes.get(cell.origin) if cell.origin is not None else None
        if change and cell.changed and replace(change, changed=True) != replace(cell, changed=True):
            clashes.append(change.origin or 0)
        out.append(change or cell)
    return out, clashes


def text(manuscript: Manuscript, plan: Sequence[Planned]) -> str:
    """Return the manuscript's text after a plan; cells that do not change keep their bytes."""
    lines = manuscript.text.split("\n")
    parts = []
    for cell in plan:
        old = None if cell.origin is None else manuscript.cells[cell.origin]
        segment = "\n".join(lines[old.start : old.stop]) if old else "\n"
        tail = segment[len(segment.rstrip("\n")) :]
        parts.append((_written(cell) if cell.changed or not old else segment.rstrip("\n")) + tail)
    return "\n".join([manuscript.header, *parts])


def _written(cell: Planned) -> str:
    """Write one cell as py:percent does."""
    node = nodes.new_cell(cell.kind, cell.source, cell.metadata)
    lines = str(jupytext.writes(nodes.new_notebook([node], {}), fmt=FORMAT)).split("\n")
    # jupytext indents the marker of a cell whose code is indented.
    first = next(number for number, line in enumerate(lines) if MARKER.match(line.lstrip()))
    return "\n".join([lines[first].lstrip(), *lines[first + 1 :]]).rstrip("\n")
