"""Teacher forcing: the decoder reads the target one step behind what it has to say.

Axes: B batch, T target positions. Source: Vaswani et al. 2017, section 3.1: the outputs are "offset by one
position".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from attnlab.attention import padding_mask

__all__ = ["pad_by_length", "shift_right", "teacher_forcing_pair"]


def teacher_forcing_pair(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Split rows that begin with ``bos`` into what the decoder reads and what it has to say.

    Position ``t`` reads the tokens up to ``t`` and has to say token ``t + 1``. Cutting the last column is
    right for padded rows too: a short row then reads its own ``eos``, but what it would have to say there is
    padding, which the loss leaves out. ``[bos, a, eos, pad, pad]`` gives the inputs ``[bos, a, eos, pad]``,
    the labels ``[a, eos, pad, pad]``, and so two real targets.

    Args:
        rows: Token ids ``(B, T + 1)``, padded at the end.

    Returns:
        The inputs and the labels, each ``(B, T)``.

    Raises:
        TypeError: If the ids are not integers.
        ValueError: If the shape is not ``(B, at least 2)``.
    """
    _check_ids("rows", rows)
    if rows.shape[1] < 2:
        raise ValueError(f"rows: expected (B, at least 2): bos and one more token, got {tuple(rows.shape)}")
    return rows[:, :-1], rows[:, 1:]


def shift_right(target: Tensor, bos: int) -> Tensor:
    """Put ``bos`` in front and drop the last column: what the decoder reads to say ``target``.

    Args:
        target: Token ids ``(B, T)`` without ``bos``, padded at the end.
        bos: Id of the token that begins a target.

    Returns:
        ``(B, T)``: column 0 is ``bos``, column ``t`` the target's column ``t - 1``.

    Raises:
        TypeError: If the ids are not integers.
        ValueError: If the shape is not ``(B, T)``.
    """
    _check_ids("target", target)
    shifted = target.roll(1, dims=1)
    shifted[:, :1] = bos
    return shifted


def pad_by_length(rows: Tensor, lengths: Tensor | Sequence[int], *, pad: int) -> Tensor:
    """Replace what stands behind the end of each row by ``pad``.

    Data whose padding is filled with ``eos`` cannot be told from its end by value; by length it can. With
    lengths of 3, ``[5, 6, eos, eos, eos]`` becomes ``[5, 6, eos, pad, pad]``.

    Args:
        rows: Token ids ``(B, T)``.
        lengths: Number of real tokens of each row, ``(B,)``.
        pad: What to write; a loss's ignored index will do too, such as -100.

    Returns:
        ``(B, T)``, a copy.

    Raises:
        TypeError: If the ids or the lengths are not integers.
        ValueError: If there is not one length for each row, or one is beyond T.
    """
    _check_ids("rows", rows)
    real = padding_mask(torch.as_tensor(lengths, device=rows.device), rows.shape[1])[:, 0]  # (B, T)
    if real.shape != rows.shape:
        raise ValueError(f"lengths: expected one for each of the {rows.shape[0]} rows, got {real.shape[0]}")
    return rows.masked_fill(~real, pad)


def _check_ids(name: str, ids: Tensor) -> None:
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise TypeError(f"{name}: expected integer token ids, got {ids.dtype}")
    if ids.ndim != 2:
        raise ValueError(f"{name}: expected (B, T) token ids, got shape {tuple(ids.shape)}")
