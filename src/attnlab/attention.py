r"""Scaled dot-product attention: the function, its masks, and one head of self-attention.

.. math::

    \operatorname{Attention}(Q, K, V) = \operatorname{softmax}\!\left(\frac{Q K^{\top}}{\sqrt{d_k}}\right) V

=========  ==============  ======================================================================
symbol     here            meaning
=========  ==============  ======================================================================
``Q``      ``query``       what each position looks for, ``(..., T, d_k)``
``K``      ``key``         what each position can be found by, ``(..., S, d_k)``
``V``      ``value``       what each position hands over when found, ``(..., S, d_v)``
``d_k``                    width of one query and of one key
``d_v``                    width of one value
``T, S``                   number of queries, number of keys
=========  ==============  ======================================================================

One mask convention holds in the whole package: boolean, True = may attend. It is the convention of
:func:`torch.nn.functional.scaled_dot_product_attention`; the masks of :class:`torch.nn.MultiheadAttention`
mean the opposite.

Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = [
    "AttentionOutput",
    "SelfAttention",
    "causal_mask",
    "check_inputs",
    "check_mask",
    "masked_softmax",
    "padding_mask",
    "scaled_dot_product_attention",
]


class AttentionOutput(NamedTuple):
    """What one call of attention computed, intermediates included.

    Attributes:
        output: The weighted sums of the values, ``(..., T, d_v)``.
        weights: The attention weights ``(..., T, S)`` before dropout, so that every row sums to 1 (to 0 where
            the row may attend to nothing). None where they were not asked for.
        scores: The scaled scores ``(..., T, S)``, with a score bias but before the mask. None where they were
            not asked for.
    """

    output: Tensor
    weights: Tensor | None
    scores: Tensor | None


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    score_bias: Tensor | None = None,
    dropout_p: float = 0.0,
    need_weights: bool = True,
) -> AttentionOutput:
    """Weigh the values by how well each query matches each key.

    Args:
        query: ``(..., T, d_k)``.
        key: ``(..., S, d_k)``. Leading axes of query, key and value broadcast against each other.
        value: ``(..., S, d_v)``.
        mask: Boolean, True = may attend; broadcasts to the scores, ``(..., T, S)``. A row that is False
            throughout gives an output of zeros and finite gradients.
        score_bias: Finite numbers to add to the scaled scores, such as ALiBi's penalty on distance (Press et
            al. 2022); broadcasts to the scores, ``(..., T, S)``. A key is hidden by the mask, not by a bias.
        dropout_p: Share of the weights set to zero at random; the rest grow by ``1 / (1 - dropout_p)``. It is
            applied whenever it is above zero: a module passes 0.0 in evaluation.
        need_weights: False leaves weights and scores out and lets PyTorch's fused kernel do the work.

    Returns:
        The output ``(..., T, d_v)`` with the weights and scores ``(..., T, S)``.

    Raises:
        TypeError: If the tensors are not of one floating-point type, or the mask is not boolean.
        ValueError: If shapes do not fit together, or ``dropout_p`` lies outside 0 to 1.

    Source: Vaswani et al. 2017, section 3.2.1, equation 1.
    """
    leading = check_inputs(query, key, value, mask, score_bias)
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p: expected a probability between 0 and 1, got {dropout_p}")
    if not need_weights:
        output = _fused_output(query, key, value, mask, score_bias, dropout_p, leading)
        return AttentionOutput(output, None, None)

    # The query is scaled before the product, not the product after: in half precision that may overflow.
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)  # (..., T, S)
    if score_bias is not None:
        scores = scores + score_bias
    weights = masked_softmax(scores, mask)  # (..., T, S)
    dropped = F.dropout(weights, dropout_p) if dropout_p > 0.0 else weights
    return AttentionOutput(dropped @ value, weights, scores)  # output: (..., T, d_v)


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys that the mask allows; a row that allows none becomes zeros, forward and back.

    Args:
        scores: ``(..., T, S)``.
        mask: Boolean, True = may attend; broadcasts to the scores. None allows everything.

    Returns:
        Weights ``(..., T, S)``.
    """
    if mask is None:
        return scores.softmax(dim=-1)
    empty = ~mask.any(dim=-1, keepdim=True)  # (..., T, 1)
    # -inf exists in every floating-point type, -1e9 does not. A row of nothing but -inf would become NaN on
    # the way forward and back, so an empty row gets harmless scores first and zeros afterwards.
    allowed = scores.masked_fill(~mask, -math.inf).masked_fill(empty, 0.0)
    return allowed.softmax(dim=-1).masked_fill(empty, 0.0)


def _fused_output(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    score_bias: Tensor | None,
    dropout_p: float,
    leading: tuple[int, ...],
) -> Tensor:
    """The output alone, by PyTorch's kernel that never stores the ``(T, S)`` matrix."""
    num_queries, d_v = query.shape[-2], value.shape[-1]
    # The kernel takes four axes of equal size; anything else would silently fall back to the slow path.
    query, key, value = (_spread(tensor, leading) for tensor in (query, key, value))
    added = empty = None
    if mask is not None:
        empty = ~mask.any(dim=-1, keepdim=True)  # (..., T, 1)
        if bool(empty.any()):  # seldom so, and what it takes costs as much as the kernel
            empty = _with_four_axes(empty)
            added = _with_four_axes(mask) | empty
        else:
            empty, added = None, _with_four_axes(mask)
    if score_bias is not None:
        # The kernel takes one tensor for both: a key that is hidden gets a bias of -inf.
        bias = _with_four_axes(score_bias)
        added = bias if added is None else torch.where(added, bias, -math.inf)
    output = F.scaled_dot_product_attention(query, key, value, attn_mask=added, dropout_p=dropout_p)
    if empty is not None:
        output = output.masked_fill(empty, 0.0)
    return output.reshape(*leading, num_queries, d_v)


def _spread(tensor: Tensor, leading: tuple[int, ...]) -> Tensor:
    """The tensor with these leading axes, and at least four axes in all."""
    if tensor.shape[:-2] != leading:
        tensor = tensor.expand(*leading, *tensor.shape[-2:])
    return _with_four_axes(tensor)


def _with_four_axes(tensor: Tensor) -> Tensor:
    return tensor if tensor.ndim >= 4 else tensor[(None,) * (4 - tensor.ndim)]


def check_inputs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    score_bias: Tensor | None = None,
) -> tuple[int, ...]:
    """Make sure that the arguments of an attention fit together.

    Args:
        query: ``(..., T, d_k)``.
        key: ``(..., S, d_k)``.
        value: ``(..., S, d_v)``.
        mask: Boolean, True = may attend; broadcasts to ``(..., T, S)``.
        score_bias: Broadcasts to ``(..., T, S)``.

    Returns:
        The leading axes of the output: those of query, key and value, broadcast against each other.

    Raises:
        TypeError: If the tensors are not of one floating-point type, or the mask is not boolean.
        ValueError: If shapes do not fit together. Every error names the argument at fault.
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not tensor.is_floating_point():
            raise TypeError(f"{name}: expected a floating-point tensor, got {tensor.dtype}")
        if tensor.dtype != query.dtype:
            raise TypeError(f"{name}: expected the type of query, {query.dtype}, got {tensor.dtype}")
        if tensor.ndim < 2:
            raise ValueError(f"{name}: expected at least two axes (..., length, width), got {_shape(tensor)}")
    if query.shape[-1] == 0:
        raise ValueError(f"query: expected a width d_k of at least 1, got shape {_shape(query)}")
    if key.shape[-1] != query.shape[-1]:
        raise ValueError(
            f"key: expected the width of query, d_k = {query.shape[-1]}, "
            f"got {key.shape[-1]} (shape {_shape(key)})"
        )
    if value.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"value: expected one row for each of the S = {key.shape[-2]} keys, "
            f"got {value.shape[-2]} (shape {_shape(value)})"
        )
    scores_leading = _broadcast_leading("key", _shape(query)[:-2], key)
    leading = _broadcast_leading("value", scores_leading, value)
    scores_shape = (*scores_leading, query.shape[-2], key.shape[-2])
    if mask is not None:
        check_mask(mask, scores_shape)
    if score_bias is not None:
        if score_bias.dtype != query.dtype:
            raise TypeError(f"score_bias: expected the type of query, {query.dtype}, got {score_bias.dtype}")
        _check_fits_scores("score_bias", score_bias, scores_shape)
    return leading


def _broadcast_leading(name: str, leading: tuple[int, ...], tensor: Tensor) -> tuple[int, ...]:
    joint = _broadcast(leading, _shape(tensor)[:-2])
    if joint is None:
        raise ValueError(
            f"{name}: expected leading axes that broadcast with {leading}, got shape {_shape(tensor)}"
        )
    return joint


def check_mask(mask: Tensor, scores_shape: tuple[int, ...]) -> None:
    """Make sure that a mask is boolean and fits the scores.

    Args:
        mask: True = may attend.
        scores_shape: The shape ``(..., T, S)`` that the mask must broadcast to, without enlarging it.

    Raises:
        TypeError: If the mask is not boolean; the message says how to convert the other two kinds.
        ValueError: If the shapes do not fit together.
    """
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask: expected a boolean tensor, True = may attend, got {mask.dtype}. Convert a mask of "
            "ones (keep) and zeros with mask.bool(), an additive mask of 0 (keep) and -inf with mask == 0"
        )
    _check_fits_scores("mask", mask, scores_shape)


def _check_fits_scores(name: str, tensor: Tensor, scores_shape: tuple[int, ...]) -> None:
    # A tensor that would make the scores larger is refused: it is a batch axis in the wrong place.
    if _broadcast(_shape(tensor), scores_shape) != scores_shape:
        raise ValueError(
            f"{name}: expected a shape that broadcasts to the scores (..., T, S) = {scores_shape}, "
            f"got {_shape(tensor)}"
        )


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The common shape, or None where there is none."""
    # Plain Python: torch.broadcast_shapes takes longer than a small attention.
    num_axes = max(map(len, shapes))
    joint = []
    for sizes in zip(*((1,) * (num_axes - len(shape)) + shape for shape in shapes), strict=True):
        above_one = {size for size in sizes if size != 1}
        if len(above_one) > 1:
            return None
        joint.append(above_one.pop() if above_one else 1)
    return tuple(joint)


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


def causal_mask(num_queries: int, num_keys: int | None = None, *, offset: int | None = None) -> Tensor:
    """Let each query see its own position and the ones before it, and nothing later.

    Query ``i`` may see key ``j`` where ``j <= i + offset``.

    Args:
        num_queries: Number of queries, T.
        num_keys: Number of keys, S; T where it is left out.
        offset: Position of the first query among the keys. Left out, it is ``S - T``: the last query sees the
            last key, as when the newest tokens ask and all earlier ones are kept. With more queries than keys
            the first ``T - S`` queries then see nothing.

    Returns:
        Boolean mask ``(T, S)``, True = may attend.

    Raises:
        ValueError: If a number is negative.

    Source: Vaswani et al. 2017, section 3.2.3.
    """
    num_keys = num_queries if num_keys is None else num_keys
    for name, number in (("num_queries", num_queries), ("num_keys", num_keys)):
        if number < 0:
            raise ValueError(f"{name}: expected a number of positions, 0 or more, got {number}")
    offset = num_keys - num_queries if offset is None else offset
    return torch.ones(num_queries, num_keys, dtype=torch.bool).tril(offset)  # (T, S)


def padding_mask(lengths: Tensor | Sequence[int], max_len: int | None = None) -> Tensor:
    """Let every query of a sequence see that sequence's real tokens, and not the padding behind them.

    Args:
        lengths: Number of real tokens of each of the B sequences: a tensor ``(B,)`` or a list of integers.
        max_len: Number of positions, S; the longest length where it is left out.

    Returns:
        Boolean mask ``(B, 1, S)``, True = may attend. The middle axis is for the queries, so that it combines
        with a causal mask by ``&`` into ``(B, T, S)``.

    Raises:
        TypeError: If the lengths are not integers.
        ValueError: If the lengths are not one row, or one of them is negative or beyond ``max_len``.
    """
    counts = torch.as_tensor(lengths)
    if counts.ndim != 1 or counts.numel() == 0:
        raise ValueError(f"lengths: expected one for each sequence, shape (B,), got shape {_shape(counts)}")
    if counts.is_floating_point() or counts.is_complex() or counts.dtype == torch.bool:
        raise TypeError(f"lengths: expected integers, got {counts.dtype}")
    shortest, longest = int(counts.min()), int(counts.max())
    max_len = longest if max_len is None else max_len
    if shortest < 0 or longest > max_len:
        raise ValueError(f"lengths: expected lengths from 0 to max_len = {max_len}, got {counts.tolist()}")
    positions = torch.arange(max_len, device=counts.device)  # (S,)
    return (positions < counts[:, None])[:, None, :]  # (B, 1, S)


class SelfAttention(nn.Module):
    r"""One head of self-attention: the sequence asks, and the sequence answers.

    .. math:: Q = X W^Q, \quad K = X W^K, \quad V = X W^V

    followed by :func:`scaled_dot_product_attention`.

    Args:
        d_model: Width of a token's vector.
        d_k: Width of a query and of a key; ``d_model`` where it is left out.
        d_v: Width of a value; ``d_k`` where it is left out.
        bias: Whether the three projections add a bias. The paper's formula has none.

    Raises:
        ValueError: If a width is below 1.

    Source: Vaswani et al. 2017, sections 3.2.1 and 3.2.2 (one head, without the output projection).
    """

    def __init__(
        self, d_model: int, d_k: int | None = None, d_v: int | None = None, *, bias: bool = False
    ) -> None:
        super().__init__()
        d_k = d_model if d_k is None else d_k
        d_v = d_k if d_v is None else d_v
        for name, width in (("d_model", d_model), ("d_k", d_k), ("d_v", d_v)):
            if width < 1:
                raise ValueError(f"{name}: expected a width of at least 1, got {width}")
        self.w_q = nn.Linear(d_model, d_k, bias=bias)
        self.w_k = nn.Linear(d_model, d_k, bias=bias)
        self.w_v = nn.Linear(d_model, d_v, bias=bias)

    def forward(self, x: Tensor, mask: Tensor | None = None, *, need_weights: bool = True) -> AttentionOutput:
        """Let every position of ``x`` attend to every position that the mask allows.

        Args:
            x: ``(..., T, d_model)``.
            mask: Boolean, True = may attend, broadcasting to ``(..., T, T)``.
            need_weights: False leaves weights and scores out and uses the fused kernel.

        Returns:
            The output ``(..., T, d_v)`` with the weights and scores ``(..., T, T)``.

        Raises:
            ValueError: If the last axis of ``x`` is not ``d_model`` wide, or the mask does not fit.
            TypeError: If the mask is not boolean.
        """
        d_model = self.w_q.in_features
        if x.ndim < 2 or x.shape[-1] != d_model:
            raise ValueError(f"x: expected (..., T, d_model = {d_model}), got {_shape(x)}")
        return scaled_dot_product_attention(
            self.w_q(x), self.w_k(x), self.w_v(x), mask, need_weights=need_weights
        )  # output: (..., T, d_v)
