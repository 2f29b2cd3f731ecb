"""Flag pairs of submissions whose code is alike once names, comments and layout are taken away.

Each answer is read as a sequence of syntax, cut into overlapping pieces; each piece becomes a fingerprint.
Pieces that the course itself gives, and pieces that many in the class have, say nothing and are left out; two
submissions that share most of the rest are a pair. A pair is a reason to read both, never a mark.

Source: S. Schleimer, D. S. Wilkerson and A. Aiken, "Winnowing: local algorithms for document fingerprinting",
SIGMOD 2003, for the idea of fingerprints of overlapping pieces; our pieces are syntax, and all of them are
kept, since answers are short.
"""

from __future__ import annotations

import ast
import builtins
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .sources import code_cells, definitions

__all__ = ["Pair", "fingerprints", "similar_pairs"]

_PIECE = 12
_FEWEST = 25
_BUILT_IN = set(dir(builtins))


@dataclass(frozen=True)
class Pair:
    """Two submissions that are alike.

    Attributes:
        first, second: their names.
        share: of the pieces that are rare in the class, the part that the smaller one shares with the other.
        pieces: how many pieces they share.
    """

    first: str
    second: str
    share: float
    pieces: int

    def __str__(self) -> str:
        return (
            f"{self.first} and {self.second}: {self.share:.0%} of the code that is rare in this class is the "
            f"same but for names ({self.pieces} pieces)"
        )


def similar_pairs(
    files: Mapping[str, Path], given: Iterable[Sequence[str]] = (), *, share: float = 0.8, common: float = 0.2
) -> list[Pair]:
    """Pairs of submissions that are alike, the likest first.

    Args:
        files: submissions by name.
        given: cells of the course's own notebooks, whose code all have.
        share: from which part on a pair is told, 0 to 1.
        common: a piece that more than this part of the submissions have (and more than three) says nothing.
    """
    prints = {name: fingerprints(code_cells(path)) for name, path in files.items()}
    ours = frozenset[int]().union(*(fingerprints(cells) for cells in given))
    counts = Counter(itertools.chain.from_iterable(prints.values()))
    limit = max(3, common * len(files))
    rare = {
        name: {one for one in own if counts[one] <= limit and one not in ours} for name, own in prints.items()
    }
    holders: dict[int, list[str]] = {}
    for name in sorted(rare):
        for one in rare[name]:
            holders.setdefault(one, []).append(name)
    shared = Counter(
        itertools.chain.from_iterable(itertools.combinations(names, 2) for names in holders.values())
    )
    pairs = [
        Pair(first, second, pieces / min(len(rare[first]), len(rare[second])), pieces)
        for (first, second), pieces in shared.items()
        if pieces >= _FEWEST
    ]
    return sorted(
        (pair for pair in pairs if pair.share >= share), key=lambda pair: (-pair.share, -pair.pieces)
    )


def fingerprints(cells: Sequence[str]) -> frozenset[int]:
    """The fingerprints of every function and class of the cells."""
    found: set[int] = set()
    for node in definitions(cells).values():
        words = list(_words(node, {}))
        found.update(hash(tuple(words[i : i + _PIECE])) for i in range(max(0, len(words) - _PIECE + 1)))
    return frozenset(found)


def _words(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """Syntax as words: kinds of nodes, names that the learner did not choose, and numbers; no annotations."""
    yield type(node).__name__
    if isinstance(node, ast.Name):
        yield node.id if node.id in _BUILT_IN else names.setdefault(node.id, f"name {len(names)}")
    elif isinstance(node, ast.arg):
        names.setdefault(node.arg, f"name {len(names)}")
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Constant):
        yield "text" if isinstance(node.value, str) else repr(node.value)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment", "ctx"):
            continue
        for child in _without_docstring(name, value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST):
                yield from _words(child, names)


def _without_docstring(field: str, children: Sequence[object]) -> Sequence[object]:
    first = children[0] if field == "body" and children else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return children[1:]
    return children
