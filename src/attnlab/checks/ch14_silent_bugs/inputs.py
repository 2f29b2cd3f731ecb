"""What the checks of lesson 14 hand to an answer: all sizes different, padding of every length."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..compare import normal

Piece = tuple[Tensor, Tensor]
SIZES = {"D": 8, "V": 9, "heads": 2, "longest": 11}


def piece(g: torch.Generator, rows: int, length: int, *, pad: int = 0, classes: int = 6) -> Piece:
    """Logits ``(rows, length, classes)``, and labels of which every row ends in padding but the last."""
    labels = torch.randint(1, classes, (rows, length), generator=g)
    labels[labels == pad] = 0 if pad else 1
    for row in range(rows - 1):
        labels[row, 1 + (2 * row) % (length - 1) :] = pad
    return 2 * normal(g, rows, length, classes), labels


def three_pieces(g: torch.Generator, *, pad: int = 0) -> list[Piece]:
    """Pieces of other numbers of rows, lengths and real tokens."""
    return [piece(g, 2, 3, pad=pad), piece(g, 4, 5, pad=pad), piece(g, 1, 4, pad=pad)]


def nothing(g: torch.Generator, *, pad: int = 0) -> Piece:
    """A piece that is all padding."""
    return normal(g, 2, 3, 6), torch.full((2, 3), pad)


def gradients(g: torch.Generator, steps: int, *, long: int | None = None) -> list[float]:
    """Gradients of both signs, mostly shorter than 1; the one at ``long`` is fifty times as long."""
    row = (0.6 * normal(g, steps)).tolist()
    if long is not None:
        row[long] = 50.0 * (1.0 if row[long] >= 0 else -1.0) * max(abs(row[long]), 0.5)
    return [float(number) for number in row]


def translator(g: torch.Generator) -> dict[str, Tensor]:
    """Weights of the small translator of the repair."""
    D, V = SIZES["D"], SIZES["V"]
    return {
        "source": 1.2 * normal(g, V, D),
        "target": 1.2 * normal(g, V, D),
        "place": normal(g, SIZES["longest"], D),
        "output": 0.7 * normal(g, D, V),
    }


def pairs(g: torch.Generator, sizes: Sequence[tuple[int, int]]) -> list[Piece]:
    """Pieces of sources ``(B, longest + 1)`` and targets ``(B, longest + 2)`` with ends of their own."""
    return [_pairs(g, rows, longest) for rows, longest in sizes]


def _pairs(g: torch.Generator, rows: int, longest: int) -> Piece:
    lengths = 1 + torch.arange(rows)[:, None] % longest  # (B, 1)
    beyond = torch.arange(longest) >= lengths  # (B, longest)
    source = torch.zeros(rows, longest + 1, dtype=torch.int64)
    target = torch.zeros(rows, longest + 2, dtype=torch.int64)
    for tokens, start in ((source, 0), (target, 1)):
        drawn = torch.randint(3, SIZES["V"], (rows, longest), generator=g)
        tokens[:, start : start + longest] = drawn.masked_fill(beyond, 0)
    target[:, 0] = 1
    return source.scatter(1, lengths, 2), target.scatter(1, lengths + 1, 2)


def attended(g: torch.Generator, *, heads: int = 2, B: int = 3, T: int = 4, S: int = 6) -> tuple[object, ...]:
    """``x`` (B, T, D), what it reads (B, S, D), which of that is real (B, S), and the number of heads."""
    real = torch.arange(S) < (2 + torch.arange(B) % (S - 2))[:, None]  # (B, S), padding in every row
    return normal(g, B, T, 6), normal(g, B, S, 6), real, heads
