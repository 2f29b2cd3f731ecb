r"""8 bits by rows: each row of a matrix as whole numbers with one scale.

For a row :math:`w`

.. math:: s = \max_i |w_i| \,/\, 127, \qquad q_i = \operatorname{round}(w_i / s), \qquad \hat w_i = s\, q_i,

so that no entry moves by more than :math:`s / 2`.

Axes: R rows, C columns.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["QuantisedRows", "quantise_rows", "restore_rows"]

_LARGEST = 127


class QuantisedRows(NamedTuple):
    """A matrix in 8 bits.

    Attributes:
        values: ``(R, C)``, int8, from -127 to 127.
        scales: ``(R,)``, float32: what a one of that row stands for. 0 for a row of zeros.
    """

    values: Tensor
    scales: Tensor


def quantise_rows(matrix: Tensor) -> QuantisedRows:
    """A matrix in 8 bits, with one scale a row.

    Args:
        matrix: ``(R, C)``, floating point.

    Returns:
        Values ``(R, C)`` and scales ``(R,)``. No entry of the restored matrix is off by more than half the
        scale of its row, but for float32's rounding.

    Raises:
        ValueError: if it has not two axes, or holds what is not finite.
    """
    if matrix.ndim != 2:
        raise ValueError(f"matrix: expected shape (R, C), got {tuple(matrix.shape)}")
    if not bool(matrix.isfinite().all()):
        raise ValueError("matrix: expected finite numbers, got NaN or infinity")
    matrix = matrix.detach().cpu().float()
    scales = matrix.abs().amax(dim=1) / _LARGEST  # (R,)
    # A row of zeros has no scale to divide by; one of the smallest numbers may leave the range by rounding.
    divisors = scales.masked_fill(scales == 0, 1.0)[:, None]  # (R, 1)
    values = (matrix / divisors).round().clamp(-_LARGEST, _LARGEST).to(torch.int8)  # (R, C)
    return QuantisedRows(values, scales)


def restore_rows(rows: QuantisedRows) -> Tensor:
    """The matrix ``(R, C)`` in float32 that :func:`quantise_rows` stands for."""
    return rows.values.float() * rows.scales[:, None]
