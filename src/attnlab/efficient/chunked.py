r"""Exact attention whose memory is linear in the length: the scores exist one tile at a time.

The softmax of a row is put together from the tiles of its keys. A running maximum :math:`m`, a running sum
:math:`\ell` and a running output :math:`a` are corrected whenever the maximum rises; for a tile with scores
:math:`s` and values :math:`V`:

.. math::
    m' = \max(m, \max s), \quad
    \ell' = e^{m - m'} \ell + \textstyle\sum e^{s - m'}, \quad
    a' = e^{m - m'} a + e^{s - m'} V

and the output of the row is :math:`a / \ell`. The backward pass keeps :math:`m` and :math:`\ell` of each row
and works the tiles out again: with :math:`P` the weights, :math:`O` the output and :math:`G` its gradient,

.. math::
    \frac{\partial}{\partial V} = P^{\top} G, \qquad
    \frac{\partial}{\partial S} = P \odot (G V^{\top} - \operatorname{rowsum}(G \odot O))

Axes: T = queries, S = keys. Sources: Milakov and Gimelshein, "Online normalizer calculation for softmax",
2018, section 3; Rabe and Staats, "Self-attention Does Not Need O(n^2) Memory", 2021; Dao et al.,
"FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", 2022, section 3.1 and, for the
backward pass, appendix B.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import Function

from attnlab.attention import check_inputs
from attnlab.efficient.tiling import Tile, Tiling

__all__ = ["chunked_attention", "sliding_window_attention"]


def chunked_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    query_chunk: int = 256,
    key_chunk: int = 512,
) -> Tensor:
    """The output of scaled dot-product attention, without ever storing the ``(T, S)`` scores.

    Beyond the output and two numbers for each query, the memory is that of a few tiles, each ``query_chunk``
    by ``key_chunk`` for each head and sequence, in the backward pass too. There is no second derivative.

    Args:
        query: ``(..., T, d_k)``.
        key: ``(..., S, d_k)``. Leading axes of query, key and value broadcast against each other.
        value: ``(..., S, d_v)``.
        mask: Boolean, True = may attend; broadcasts to the scores, ``(..., T, S)``. A row that is False
            throughout gives an output of zeros and finite gradients. A mask of ``(T, S)`` takes that memory
            itself; what ``causal`` hides needs none.
        causal: Whether each query sees only the keys up to its own position. The last query stands at the
            last key, as in :func:`attnlab.attention.causal_mask`. Joins with the mask as by ``&``.
        query_chunk: Number of queries in a tile.
        key_chunk: Number of keys in a tile.

    Returns:
        ``(..., T, d_v)``, of the type of ``query``. Half precision is computed in float32 inside a tile.

    Raises:
        TypeError: If the tensors are not of one floating-point type, or the mask is not boolean.
        ValueError: If shapes do not fit together, or a chunk is below 1.
        RuntimeError: If the gradient is differentiated once more.

    Sources: Milakov and Gimelshein 2018, section 3; Rabe and Staats 2021; Dao et al. 2022, section 3.1.
    """
    return _tiled(query, key, value, mask, Tiling(query_chunk, key_chunk, causal))


def sliding_window_attention(
    query: Tensor, key: Tensor, value: Tensor, window: int, *, query_chunk: int = 256, key_chunk: int = 512
) -> Tensor:
    """Attention in which each query sees its own position and the ``window - 1`` before it.

    Equal to scaled dot-product attention with :func:`attnlab.efficient.sliding_window_mask`. Tiles outside
    the window are left out: time grows with ``T * (window + query_chunk)``, memory with T.

    Args:
        query: ``(..., T, d_k)``.
        key: ``(..., S, d_k)``. Leading axes of query, key and value broadcast against each other.
        value: ``(..., S, d_v)``.
        window: Number of keys that a query may see, itself included. The last query stands at the last key.
        query_chunk: Number of queries in a tile.
        key_chunk: Number of keys in a tile.

    Returns:
        ``(..., T, d_v)``, of the type of ``query``. Half precision is computed in float32 inside a tile.

    Raises:
        TypeError: If the tensors are not of one floating-point type.
        ValueError: If shapes do not fit together, or ``window`` or a chunk is below 1.
        RuntimeError: If the gradient is differentiated once more.

    Source: Beltagy et al., "Longformer: The Long-Document Transformer", 2020, section 3.1, in causal form.
    """
    _check_at_least_one("window", window)
    return _tiled(query, key, value, None, Tiling(query_chunk, key_chunk, causal=True, window=window))


def _tiled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, tiling: Tiling) -> Tensor:
    leading = check_inputs(query, key, value, mask)
    _check_at_least_one("query_chunk", tiling.query_chunk)
    _check_at_least_one("key_chunk", tiling.key_chunk)
    # Views, which take no memory; autograd adds up over an axis that was spread.
    query, key, value = (tensor.expand(*leading, *tensor.shape[-2:]) for tensor in (query, key, value))
    if mask is not None:
        mask = mask.expand(*mask.shape[:-2], query.shape[-2], key.shape[-2])
    output: Tensor = _TiledAttention.apply(query, key, value, mask, tiling)  # type: ignore[no-untyped-call]
    return output


class _TiledAttention(Function):
    """Attention over equal leading axes; its backward pass works the tiles out again."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, tiling: Tiling
    ) -> Tensor:
        work = torch.promote_types(query.dtype, torch.float32)
        highest = query.new_full((*query.shape[:-1], 1), -math.inf, dtype=work)  # (..., T, 1)
        total = torch.zeros_like(highest)  # (..., T, 1)
        output = query.new_zeros((*query.shape[:-1], value.shape[-1]), dtype=work)  # (..., T, d_v)
        for queries, keys, allowed in _tiles(tiling, query, key, mask):
            scores = _scores(query[..., queries, :], key[..., keys, :], allowed, work)
            before = highest[..., queries, :]
            after = torch.maximum(before, scores.amax(dim=-1, keepdim=True))
            # A row that has seen nothing yet is at -inf; -inf minus -inf would be NaN.
            level = after.masked_fill(after == -math.inf, 0.0)
            exponentials, correction = (scores - level).exp_(), (before - level).exp_()
            total[..., queries, :] *= correction
            total[..., queries, :] += exponentials.sum(dim=-1, keepdim=True)
            output[..., queries, :] *= correction
            output[..., queries, :] += exponentials @ value[..., keys, :].to(work)
            highest[..., queries, :] = after
        empty = total == 0.0  # such a row saw no key: its output is 0 / 1
        highest.masked_fill_(empty, 0.0)
        total.masked_fill_(empty, 1.0)
        output = output.div_(total).to(query.dtype)
        # The log-sum-exp of a row, in two parts: added up, highest + log(total) would lose the fourth digit
        # of the weights in float32 where scores are near 10,000.
        ctx.save_for_backward(query, key, value, mask, output, highest, total)
        ctx.tiling = tiling
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grads = _TiledGradient.apply(grad, ctx.tiling, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return (*grads, None, None)


class _TiledGradient(Function):
    """The gradient as a function of its own, so that differentiating it again is an error."""

    @staticmethod
    def forward(
        ctx: Any,
        grad: Tensor,
        tiling: Tiling,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        output: Tensor,
        highest: Tensor,
        total: Tensor,
    ) -> tuple[Tensor, ...]:
        work = highest.dtype
        grads = tuple(tensor.new_zeros(tensor.shape, dtype=work) for tensor in (query, key, value))
        grad_query, grad_key, grad_value = grads
        # What every weight's gradient is compared with: the row's mean of G V^T under its weights.
        mean = (grad.to(work) * output.to(work)).sum(dim=-1, keepdim=True)  # (..., T, 1)
        for queries, keys, allowed in _tiles(tiling, query, key, mask):
            query_part, key_part = query[..., queries, :].to(work), key[..., keys, :].to(work)
            grad_part = grad[..., queries, :].to(work)
            scores = _scores(query_part, key_part, allowed, work)
            weights = (scores - highest[..., queries, :]).exp_().div_(total[..., queries, :])
            grad_value[..., keys, :] += weights.transpose(-2, -1) @ grad_part
            grad_weights = grad_part @ value[..., keys, :].to(work).transpose(-2, -1)
            grad_scores = weights * (grad_weights - mean[..., queries, :]) / math.sqrt(query.shape[-1])
            grad_query[..., queries, :] += grad_scores @ key_part
            grad_key[..., keys, :] += grad_scores.transpose(-2, -1) @ query_part
        return tuple(tensor.to(query.dtype) for tensor in grads)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        raise RuntimeError(
            "chunked and sliding-window attention have no second derivative: their gradient cannot be "
            "differentiated again. Use attnlab.attention.scaled_dot_product_attention for that"
        )


def _tiles(tiling: Tiling, query: Tensor, key: Tensor, mask: Tensor | None) -> Iterator[Tile]:
    return tiling.tiles(query.shape[-2], key.shape[-2], mask, device=query.device)


def _scores(query: Tensor, key: Tensor, allowed: Tensor | None, work: torch.dtype) -> Tensor:
    """The scaled scores of one tile, -inf where a query may not see a key."""
    scores = (query.to(work) / math.sqrt(query.shape[-1])) @ key.to(work).transpose(-2, -1)
    return scores if allowed is None else scores.masked_fill_(~allowed, -math.inf)


def _check_at_least_one(name: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"{name}: expected at least 1, got {number}")
