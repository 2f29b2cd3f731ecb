"""The contract of rotary positions: scores depend on the distance between two positions alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnlab.contracts.shared import num_positions, require, require_close, tolerance_for

__all__ = ["rotary_shift_invariant"]


def rotary_shift_invariant(
    rotate: Callable[[Tensor, int], Tensor],
    query: Tensor,
    key: Tensor,
    *,
    shifts: Sequence[int] = (1, 2, 5),
    tolerance: float | None = None,
) -> None:
    """Scores between rotated queries and keys depend on distance, and on distance alone.

    Three things are tried: a row rotated by itself at its own offset is what it is in the sequence; moving
    queries and keys on by the same number of positions changes no score; moving the queries alone does. The
    first is what a cache relies on, and the third refuses a rotation that does nothing.

    Args:
        rotate: Called as ``rotate(heads, offset)`` with ``(..., T, D)`` and the position of the first row.
        query: ``(..., T, D)`` with at least two positions.
        key: ``(..., S, D)``.
        shifts: By how many positions to move, each above 0.
        tolerance: Largest allowed difference, in units of the largest score where that is above 1.

    Raises:
        AssertionError: If one of the three does not hold; the message says which.
        ValueError: If there are fewer than two positions, or a shift is below 1.
    """
    num_positions(query)
    if not shifts or min(shifts) < 1:
        raise ValueError(f"shifts: expected numbers above 0, got {list(shifts)}")
    with torch.no_grad():
        for offset in (0, *shifts):
            _require_rows_alone(rotate, query, offset, tolerance)
        scores = rotate(query, 0) @ rotate(key, 0).transpose(-2, -1)  # (..., T, S)
        allowed = tolerance_for(scores, tolerance) * max(1.0, scores.abs().max().item())
        for shift in shifts:
            moved = rotate(query, shift)  # (..., T, D)
            words = f"moving queries and keys on by {shift} changes a score"
            require_close(moved @ rotate(key, shift).transpose(-2, -1), scores, allowed, words)
            change = (moved @ rotate(key, 0).transpose(-2, -1) - scores).abs().max().item()
            require(
                change > allowed,
                f"moving the queries alone on by {shift} changes no score by more than {change:.3g}: "
                "the rotation tells no positions apart",
            )


def _require_rows_alone(
    rotate: Callable[[Tensor, int], Tensor], heads: Tensor, offset: int, tolerance: float | None
) -> None:
    """Rows rotated together from ``offset`` on are what each is when rotated by itself where it stands."""
    together = rotate(heads, offset)
    shapes = f"shape {tuple(together.shape)} against {tuple(heads.shape)}"
    require(together.shape == heads.shape, f"the rotation changes the shape: {shapes}")
    allowed = tolerance_for(heads, tolerance) * max(1.0, heads.abs().max().item())
    for row in range(heads.shape[-2]):
        alone = rotate(heads[..., row : row + 1, :], offset + row)
        words = f"row {row} rotated from offset {offset} on is another than alone with offset {offset + row}"
        require_close(alone, together[..., row : row + 1, :], allowed, words)
