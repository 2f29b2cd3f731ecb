r"""ALiBi, attention with linear biases: each head lowers a score in proportion to the distance.

.. math::
    \operatorname{softmax}\!\left(\frac{q_i K^{\top}}{\sqrt{d_k}} - m_h \, |i - j|\right)

Each head :math:`h` has its own slope :math:`m_h`; nothing is learned and nothing is added to the embeddings.

Axes: H = heads, T = queries, S = keys. Source: Press et al., "Train Short, Test Long: Attention with Linear
Biases Enables Input Length Extrapolation", 2022, section 3.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["alibi_bias", "alibi_slopes"]


def alibi_slopes(
    num_heads: int, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
) -> Tensor:
    """The slope of each head.

    For a power of two they are a geometric sequence that starts at its own ratio, ``2 ** (-8 / H)``, and ends
    at ``2 ** -8``. For other numbers of heads the paper's code takes the slopes of the next smaller power of
    two, then every other slope of the next larger one, beginning with its first, until there are enough.

    Args:
        num_heads: Number of heads, H.
        dtype: Of the result; the default dtype where it is left out.
        device: Of the result; the default device where it is left out.

    Returns:
        ``(H,)``, each above 0 and below 1. Unit: score for each position of distance.

    Raises:
        ValueError: If ``num_heads`` is below 1.

    Source: Press et al. 2022, section 3; for other numbers of heads, the code published with it.
    """
    if num_heads < 1:
        raise ValueError(f"num_heads: expected at least 1, got {num_heads}")
    power = 2 ** (num_heads.bit_length() - 1)  # the largest power of two that is not above H
    slopes = _geometric(power) + _geometric(2 * power)[0::2]
    return torch.tensor(slopes[:num_heads], dtype=dtype, device=device)


def _geometric(num_heads: int) -> list[float]:
    return [2.0 ** (-8.0 * head / num_heads) for head in range(1, num_heads + 1)]


def alibi_bias(
    num_heads: int,
    num_queries: int,
    num_keys: int | None = None,
    *,
    offset: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """The bias to add to the scores: minus slope times distance.

    Query ``i`` stands at position ``i + offset`` among the keys, as in
    :func:`attnlab.attention.causal_mask`. The distance counts in both directions: a key after the query gets
    the penalty of a key as far before it. The paper's model is causal and never shows such a key; the bias
    does not hide it, that is left to the mask.

    Args:
        num_heads: Number of heads, H.
        num_queries: Number of queries, T.
        num_keys: Number of keys, S; T where it is left out.
        offset: Position of the first query among the keys. Left out, it is ``S - T``: the last query meets
            the last key.
        dtype: Of the result; the default dtype where it is left out. It must be that of the scores.
        device: Of the result; the default device where it is left out.

    Returns:
        ``(H, T, S)``, all at most 0: the ``score_bias`` of attention with heads.

    Raises:
        ValueError: If ``num_heads`` is below 1 or another number negative.

    Source: Press et al. 2022, section 3.
    """
    num_keys = num_queries if num_keys is None else num_keys
    for name, number in (("num_queries", num_queries), ("num_keys", num_keys)):
        if number < 0:
            raise ValueError(f"{name}: expected a number of positions, 0 or more, got {number}")
    offset = num_keys - num_queries if offset is None else offset
    # In float64 on the CPU, then rounded once: bfloat16 counts distances exactly to 256 only.
    slopes = alibi_slopes(num_heads, dtype=torch.float64, device="cpu")
    query_at = torch.arange(num_queries, dtype=torch.float64, device="cpu")[:, None] + offset  # (T, 1)
    key_at = torch.arange(num_keys, dtype=torch.float64, device="cpu")  # (S,)
    bias = -slopes[:, None, None] * (query_at - key_at).abs()  # (H, T, S)
    return bias.to(
        dtype=torch.get_default_dtype() if dtype is None else dtype,
        device=torch.get_default_device() if device is None else device,
    )
