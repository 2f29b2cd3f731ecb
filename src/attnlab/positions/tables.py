r"""Positions that are added to the embeddings: one row of a table for each position.

Sinusoidal positions, for position :math:`p` and dimensions :math:`2i` and :math:`2i+1` of ``d_model``:

.. math::
    PE(p, 2i) = \sin(p / 10000^{2i/d_{model}}) \qquad PE(p, 2i+1) = \cos(p / 10000^{2i/d_{model}})

Learned positions have the same shape, but every entry is a parameter.

Axes: T = positions, D = ``d_model``. Source: Vaswani et al. 2017, section 3.5, which tried both. The paper
counts on an even ``d_model``; with an odd one the last sine has no cosine beside it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

__all__ = ["LearnedPositions", "SinusoidalPositions", "sinusoidal_positions"]


def sinusoidal_positions(
    length: int,
    d_model: int,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """The table of sinusoidal positions, one row a position.

    Args:
        length: Number of positions, T; the first is position 0.
        d_model: Width of a row, D; odd widths are allowed.
        dtype: Of the result; the default dtype where it is left out.
        device: Of the result; the default device where it is left out.

    Returns:
        ``(T, D)``, every entry between -1 and 1.

    Raises:
        ValueError: If ``length`` is below 0 or ``d_model`` below 1.

    Source: Vaswani et al. 2017, section 3.5.
    """
    if length < 0:
        raise ValueError(f"length: expected at least 0, got {length}")
    if d_model < 1:
        raise ValueError(f"d_model: expected at least 1, got {d_model}")
    # Made in float64 on the CPU: in float32 the angle of a late position is already off in the fourth digit,
    # and not every accelerator knows float64.
    position = torch.arange(length, dtype=torch.float64, device="cpu")[:, None]  # (T, 1)
    even = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")  # (ceil(D/2),) each 2i
    angle = position * 10_000.0 ** (-even / d_model)  # (T, ceil(D/2))
    table = torch.empty(length, d_model, dtype=torch.float64, device="cpu")  # (T, D)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle[:, : d_model // 2].cos()  # one cosine fewer than sines where D is odd
    return table.to(
        dtype=torch.get_default_dtype() if dtype is None else dtype,
        device=torch.get_default_device() if device is None else device,
    )


class _PositionTable(nn.Module):
    """Adds the rows of ``table`` to embeddings; the subclasses say what the rows are."""

    table: Tensor

    def forward(self, embeddings: Tensor, *, offset: int = 0) -> Tensor:
        """Add the rows for the positions ``offset`` to ``offset + T - 1``, to every example alike.

        Args:
            embeddings: ``(..., T, D)``.
            offset: Position of the first embedding, as when earlier ones are kept in a cache.

        Returns:
            ``(..., T, D)``.

        Raises:
            ValueError: If ``offset + T`` is past the end of the table, ``offset`` is negative, or D is not
                ``d_model``.
        """
        return embeddings + _rows(self.table, embeddings, offset)  # (T, D) spreads over the batch


class SinusoidalPositions(_PositionTable):
    """Adds sinusoidal positions to a batch of embeddings.

    The table is a buffer: it has no gradient, and moves with the module between devices and types. It is made
    anew from the formula when it does, so that ``.double()`` gives a table right to float64. It is not saved
    with the parameters, since it can always be made again.

    Args:
        d_model: Width of the embeddings, D.
        max_length: The longest sequence that the table covers.

    Raises:
        ValueError: If ``max_length`` or ``d_model`` is below 1.

    Source: Vaswani et al. 2017, section 3.5.
    """

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        _check_sizes(d_model, max_length)
        self.register_buffer("table", sinusoidal_positions(max_length, d_model), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SinusoidalPositions:
        before = self.table
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        now = self.table
        if (before.dtype, before.device) != (now.dtype, now.device):
            # A float32 table made float64 would keep float32's errors.
            self.table = sinusoidal_positions(*now.shape, dtype=now.dtype, device=now.device)
        return self


class LearnedPositions(_PositionTable):
    """Adds a learned vector for each position to a batch of embeddings.

    Args:
        d_model: Width of the embeddings, D.
        max_length: The longest sequence that the table covers; a position beyond has never been learned.

    Attributes:
        table: The parameter ``(max_length, D)``, drawn from a normal distribution of standard deviation 0.02.

    Raises:
        ValueError: If ``max_length`` or ``d_model`` is below 1.

    Source: Gehring et al., "Convolutional Sequence to Sequence Learning", 2017; Vaswani et al. 2017, section
    3.5, found them as good as the sinusoidal ones.
    """

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        _check_sizes(d_model, max_length)
        self.table = nn.Parameter(torch.empty(max_length, d_model))
        nn.init.normal_(self.table, std=0.02)


def _check_sizes(d_model: int, max_length: int) -> None:
    for name, size in (("d_model", d_model), ("max_length", max_length)):
        if size < 1:
            raise ValueError(f"{name}: expected at least 1, got {size}")


def _rows(table: Tensor, embeddings: Tensor, offset: int) -> Tensor:
    """The rows ``(T, D)`` of the table for these embeddings."""
    max_length, d_model = table.shape
    if embeddings.ndim < 2 or embeddings.shape[-1] != d_model:
        raise ValueError(
            f"embeddings: expected (..., length, d_model={d_model}), got {tuple(embeddings.shape)}"
        )
    if offset < 0:
        raise ValueError(f"offset: expected a position, 0 or more, got {offset}")
    length = embeddings.shape[-2]
    if offset + length > max_length:
        raise ValueError(
            f"embeddings: length {length} from offset {offset} is past the end of the table, "
            f"max_length={max_length}; make the module with a larger max_length"
        )
    return table[offset : offset + length]
