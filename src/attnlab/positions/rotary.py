r"""Rotary positions: a query and a key are turned by angles that grow with their positions.

The D numbers of a head are taken as D/2 pairs. At position :math:`p` pair :math:`i` is turned by

.. math::
    p \, \theta_i, \qquad \theta_i = b^{-2i/D}, \quad i = 0, \dots, D/2 - 1, \quad b = 10000

A turn by :math:`m\theta_i` of the query and by :math:`n\theta_i` of the key changes their product as a turn
by :math:`(m - n)\theta_i` of one of them would: the scores depend on distance alone.

Which numbers make a pair is a convention, and weights trained with one layout are wrong in the other:

===========  ====================================  ==============================================
layout       pair :math:`i`                        class
===========  ====================================  ==============================================
interleaved  :math:`(2i, 2i + 1)`, as in the paper  :class:`InterleavedRotary`
half-split   :math:`(i, i + D/2)`, as in Llama     :class:`HalfSplitRotary`
===========  ====================================  ==============================================

Axes: T = positions, D = ``d_head``. Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position
Embedding", 2021, section 3.2 and, for computing it pair by pair, section 3.4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["HalfSplitRotary", "InterleavedRotary", "RotaryPositions", "rotary_permutation"]


class RotaryPositions(nn.Module, ABC):
    """What both layouts share: the angles, the checks and the types. Use one of the two classes below.

    The sines and cosines are buffers, worked out in float64 so that late positions are exact, and rounded
    once. They move with the module between devices and types and are made anew when they do; but they are
    never narrower than float32. They are not saved with the parameters.

    Args:
        d_head: Width of a head, D; even.
        max_length: Number of positions that the tables cover.
        base: What the angles are powers of, :math:`b`; larger means slower turns and a longer reach.

    Raises:
        ValueError: If ``d_head`` is odd or below 2, ``max_length`` below 1, or ``base`` not above 0.

    Source: Su et al. 2021, section 3.2.
    """

    cos: Tensor  # (max_length, D/2)
    sin: Tensor  # (max_length, D/2)

    def __init__(self, d_head: int, max_length: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        _check_even(d_head)
        if max_length < 1:
            raise ValueError(f"max_length: expected at least 1, got {max_length}")
        if not base > 0:
            raise ValueError(f"base: expected a number above 0, got {base}")
        self.d_head, self.max_length, self.base = d_head, max_length, float(base)
        cos, sin = self._tables(torch.get_default_dtype(), torch.get_default_device())
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, heads: Tensor, offset: int = 0) -> Tensor:
        """Turn queries or keys that stand at the positions ``offset`` to ``offset + T - 1``.

        Inputs of half precision are turned in float32 and rounded once, at the end.

        Args:
            heads: ``(..., T, D)``.
            offset: Position of the first row, as when earlier keys are kept in a cache.

        Returns:
            ``(..., T, D)``, of the type of ``heads``; every row keeps its length.

        Raises:
            ValueError: If ``offset + T`` is past the end of the tables, ``offset`` is negative, or D is not
                ``d_head``.
        """
        if heads.ndim < 2 or heads.shape[-1] != self.d_head:
            raise ValueError(f"heads: expected (..., length, d_head={self.d_head}), got {tuple(heads.shape)}")
        if offset < 0:
            raise ValueError(f"offset: expected a position, 0 or more, got {offset}")
        length = heads.shape[-2]
        if offset + length > self.max_length:
            raise ValueError(
                f"heads: length {length} from offset {offset} is past the end of the tables, "
                f"max_length={self.max_length}; make the module with a larger max_length"
            )
        rows = slice(offset, offset + length)
        return self._turn(heads, self.cos[rows], self.sin[rows]).to(heads.dtype)

    @abstractmethod
    def _turn(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Turn each pair of ``heads`` ``(..., T, D)`` by the angles of ``cos`` and ``sin`` ``(T, D/2)``."""

    def _tables(self, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
        # Made in float64 on the CPU: in float32 the angle of a late position is already off in the fourth
        # digit, and not every accelerator knows float64.
        position = torch.arange(self.max_length, dtype=torch.float64, device="cpu")[:, None]  # (T, 1)
        even = torch.arange(0, self.d_head, 2, dtype=torch.float64, device="cpu")  # (D/2,) each 2i
        angle = position * self.base ** (-even / self.d_head)  # (T, D/2)
        dtype = torch.promote_types(dtype, torch.float32)
        return angle.cos().to(device, dtype), angle.sin().to(device, dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RotaryPositions:
        before = self.cos
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if (before.dtype, before.device) != (self.cos.dtype, self.cos.device):
            # A float32 table made float64 would keep float32's errors; a float16 one is too coarse.
            self.cos, self.sin = self._tables(self.cos.dtype, self.cos.device)
        return self


class InterleavedRotary(RotaryPositions):
    """Rotary positions on the pairs ``(0, 1), (2, 3), ...``: the layout of the paper.

    Arguments, shapes and errors are those of :class:`RotaryPositions`.

    Source: Su et al. 2021, section 3.2.
    """

    def _turn(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        even, odd = heads[..., 0::2], heads[..., 1::2]  # (..., T, D/2)
        turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)  # (..., T, D/2, 2)
        return turned.flatten(-2)  # (..., T, D)


class HalfSplitRotary(RotaryPositions):
    """Rotary positions on the pairs ``(0, D/2), (1, D/2 + 1), ...``: the layout of Llama and GPT-NeoX.

    Arguments, shapes and errors are those of :class:`RotaryPositions`. :func:`rotary_permutation` leads from
    one layout to the other.

    Source: Su et al. 2021, section 3.2, with the numbers of a head in another order.
    """

    def _turn(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        first, second = heads.chunk(2, dim=-1)  # (..., T, D/2)
        return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)  # (..., T, D)


def rotary_permutation(d_head: int) -> Tensor:
    """The index that turns the interleaved layout into the half-split one: ``0, 2, 4, ..., 1, 3, 5, ...``.

    ``HalfSplitRotary(x[..., index])`` equals ``InterleavedRotary(x)[..., index]``. The way back is
    ``index.argsort()``. To convert a trained model, permute the rows of each head in the weights of the
    query and of the key; the values are not turned and stay as they are.

    Args:
        d_head: Width of a head, D; even.

    Returns:
        Integers ``(D,)``.

    Raises:
        ValueError: If ``d_head`` is odd or below 2.
    """
    _check_even(d_head)
    return torch.arange(d_head).view(-1, 2).T.flatten()  # (D,)


def _check_even(d_head: int) -> None:
    if d_head < 2 or d_head % 2:
        raise ValueError(f"d_head: expected an even width, since numbers turn in pairs, got {d_head}")
