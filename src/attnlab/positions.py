r"""Positions: what tells attention the order of its inputs.

Sinusoidal positions, for position :math:`p` and dimensions :math:`2i` and :math:`2i+1` of ``d_model``:

.. math::
    PE(p, 2i) = \sin(p / 10000^{2i/d_{model}}) \qquad PE(p, 2i+1) = \cos(p / 10000^{2i/d_{model}})

Axes: T = positions, D = ``d_model``. Source: Vaswani et al. 2017, section 3.5. The paper counts on an even
``d_model``; with an odd one the last sine has no cosine beside it.
"""

import torch
from torch import Tensor, nn


def sinusoidal_positions(
    length: int,
    d_model: int,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """The table of sinusoidal positions, one row a position.

    Args:
        length: number of positions, T; the first is position 0.
        d_model: width of a row, D; odd widths are allowed.
        dtype: of the result; the default dtype where ``None``.
        device: of the result; the default device where ``None``.

    Returns:
        (length, d_model), every entry between -1 and 1.

    Raises:
        ValueError: if ``length`` < 0 or ``d_model`` < 1.

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


class SinusoidalPositions(nn.Module):
    """Adds sinusoidal positions to a batch of embeddings.

    The table is a buffer: it has no gradient, moves with the module between devices and follows its dtype. It
    is not saved with the parameters, since it can always be made again.

    Args:
        d_model: width of the embeddings, D.
        max_length: the longest sequence that the table covers.

    Raises:
        ValueError: if ``max_length`` or ``d_model`` < 1.

    Source: Vaswani et al. 2017, section 3.5.
    """

    table: Tensor

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        if max_length < 1:
            raise ValueError(f"max_length: expected at least 1, got {max_length}")
        self.register_buffer("table", sinusoidal_positions(max_length, d_model), persistent=False)

    def forward(self, embeddings: Tensor) -> Tensor:
        """(…, T, D) -> (…, T, D): the first T rows of the table, added to every example alike.

        Raises:
            ValueError: if T is past the end of the table, or D is not ``d_model``.
        """
        max_length, d_model = self.table.shape
        if embeddings.dim() < 2 or embeddings.shape[-1] != d_model:
            raise ValueError(
                f"embeddings: expected (..., length, d_model={d_model}), got {tuple(embeddings.shape)}"
            )
        length = embeddings.shape[-2]
        if length > max_length:
            raise ValueError(
                f"embeddings: length {length} is past the end of the table, max_length={max_length}; "
                f"make the module with a larger max_length"
            )
        return embeddings + self.table[:length]  # (T, D) spreads over the batch
