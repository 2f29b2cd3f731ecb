"""How sums with sinusoids, turned heads and their scores are compared in lesson 6."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..compare import expect_close, expect_tensor, normal
from ..verdict import Failed
from . import references
from .inputs import added, half_split, interleaved, placed_heads

NEAR = 1e-3


def expect_sum(answer: Any, sizes: dict[str, int], x: Tensor, *offset: int, near: float = NEAR) -> None:
    table, start = references.sinusoids(sizes["max_length"], sizes["d_model"]), sum(offset)
    wanted = (x.double() + table[start : start + x.shape[1]]).to(x.dtype)
    expect_close(added(answer, sizes, x, *offset), wanted, "the result", absolute=near)


def expect_turned(answer: Any, heads: Tensor, positions: Tensor, pairs: Tensor, near: float = NEAR) -> None:
    wanted = references.rotate(heads, positions, pairs)
    expect_close(answer(heads, positions, pairs), wanted, "the result", absolute=near)


def expect_scores_by_distance(answer: Any, g: torch.Generator) -> None:
    """Pass a turn after which scores stay the same when queries and keys move on together, and only then."""
    (query, at), key = placed_heads(g, 2, 3, 4, 8), normal(g, 2, 3, 4, 8)
    on = torch.tensor([[7], [20]])  # each sequence is moved on by another number of places
    for pairs in (interleaved(8), half_split(8)):
        near, far, alone = (
            expect_tensor(answer(query, q_at, pairs), query.shape)
            @ expect_tensor(answer(key, k_at, pairs), key.shape).transpose(-2, -1)
            for q_at, k_at in ((at, at), (at + on, at + on), (at + on, at))
        )
        expect_close(far, near, "the scores, after queries and keys have moved on", absolute=10 * NEAR)
        if float((alone - near).abs().max()) < 0.1:
            raise Failed("queries that move on alone do not change the scores")
