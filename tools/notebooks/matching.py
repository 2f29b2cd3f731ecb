"""Which cell of an edited notebook is which cell of the manuscript."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

ALIKE = 0.6


@dataclass(frozen=True)
class Known:
    """A cell as the build wrote it."""

    identifier: str
    kind: str
    source: str


def match(old: Sequence[Known], new: Sequence[Known]) -> list[int | None]:
    """Return, for each new cell, the place of the old cell that it is; None for a new one.

    Jupyter keeps the ids of cells that are edited or moved, and so an id decides. Where ids are gone (some
    editors drop them) equal text decides, then text that is alike.
    """
    places: list[int | None] = [None] * len(new)
    by_id = {cell.identifier: place for place, cell in enumerate(old)}
    taken: set[int] = set()
    for place, cell in enumerate(new):
        found = by_id.get(cell.identifier)
        if found is not None and found not in taken:
            places[place] = found
            taken.add(found)
    known_ids = any(place is not None for place in places)
    for place, cell in enumerate(new):
        if places[place] is not None:
            continue
        equal = [other for other in range(len(old)) if other not in taken and _same(old[other], cell)]
        if equal:
            places[place] = equal[0]
            taken.add(equal[0])
    if not known_ids:
        _by_likeness(old, new, places, taken)
    return places


def _same(old: Known, new: Known) -> bool:
    return old.kind == new.kind and bool(new.source.strip()) and old.source.strip() == new.source.strip()


def _by_likeness(
    old: Sequence[Known], new: Sequence[Known], places: list[int | None], taken: set[int]
) -> None:
    """Match what is left by likeness, the most alike first."""
    pairs = []
    for place, cell in enumerate(new):
        if places[place] is not None:
            continue
        for other, known in enumerate(old):
            if other not in taken and known.kind == cell.kind:
                ratio = SequenceMatcher(None, known.source, cell.source, autojunk=False).ratio()
                if ratio >= ALIKE:
                    pairs.append((-ratio, place, other))
    for _, place, other in sorted(pairs):
        if places[place] is None and other not in taken:
            places[place] = other
            taken.add(other)
