r"""Multi-head attention: several heads side by side, each with projections of its own.

.. math::

    \operatorname{MultiHead}(Q, K, V) = \operatorname{Concat}(head_1, \dots, head_H)\, W^O
    \qquad head_h = \operatorname{Attention}(Q W^Q_h, K W^K_h, V W^V_h)

=========  ==================  ===============================================================
symbol     here                meaning
=========  ==================  ===============================================================
``H``      ``num_heads``       number of heads that ask
``H_kv``   ``num_kv_heads``    number of heads that answer; ``H / H_kv`` queries share each
``D``      ``d_head``          width of a head, ``d_model / H``; the papers' d_k and d_v
``W^Q``    ``w_q``             the H matrices W^Q_h side by side; so ``w_k``, ``w_v``
``W^O``    ``w_o``             mixes the heads
``B``                          batch
``T, S``                       number of queries, number of keys
=========  ==================  ===============================================================

Sources: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.2. One answering head for all:
Shazeer, "Fast Transformer Decoding: One Write-Head is All You Need", 2019. A few of them: Ainslie et al.,
"GQA: Training Generalized Multi-Query Transformer Models from Multi-Head Checkpoints", 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from attnlab.attention import AttentionOutput, scaled_dot_product_attention

__all__ = [
    "KeyValueStore",
    "MultiHeadAttention",
    "Rotation",
    "mask_from_torch",
    "merge_heads",
    "split_heads",
]

Rotation = Callable[[Tensor, int], Tensor]
"""Turns heads ``(..., T, D)`` by their positions, of which the integer is the first; keeps the shape."""


class KeyValueStore(Protocol):
    """What holds the keys and values of earlier positions, so that they need not be computed again."""

    @property
    def length(self) -> int:
        """Number of positions held."""

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Hold ``key`` and ``value``, ``(B, H_kv, T, D)``, too; return all that are held, oldest first."""


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut each vector into one piece for each head: ``(..., T, H * D)`` to ``(..., H, T, D)``.

    Head ``h`` gets the entries ``h * D`` to ``(h + 1) * D``. Nothing is copied.

    Raises:
        ValueError: If the width is no multiple of ``num_heads``, or ``x`` has fewer than two axes.
    """
    if x.ndim < 2 or num_heads < 1 or x.shape[-1] % num_heads:
        raise ValueError(f"x: expected (..., T, a multiple of num_heads = {num_heads}), got {tuple(x.shape)}")
    pieces = x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads)  # (..., T, H, D)
    return pieces.transpose(-3, -2)  # (..., H, T, D)


def merge_heads(heads: Tensor) -> Tensor:
    """Put the pieces side by side again: ``(..., H, T, D)`` to ``(..., T, H * D)``.

    Raises:
        ValueError: If there are fewer than three axes.
    """
    if heads.ndim < 3:
        raise ValueError(f"heads: expected (..., H, T, D), got {tuple(heads.shape)}")
    return heads.transpose(-3, -2).flatten(-2)  # (..., T, H * D)


class MultiHeadAttention(nn.Module):
    """Self- and cross-attention with several heads.

    The projections start as in :class:`torch.nn.MultiheadAttention`: ``w_q``, ``w_k`` and ``w_v`` uniform
    within ``sqrt(6 / (4 * d_model))``, which is Xavier's bound for the three as one matrix, and the biases
    zero. ``w_o`` is Xavier uniform too.

    Args:
        d_model: Width of a token's vector.
        num_heads: Number of heads H that ask; a divisor of ``d_model``.
        num_kv_heads: Number of heads H_kv that answer, a divisor of ``num_heads``: H where it is left out, 1
            for multi-query attention, something between for grouped queries.
        dropout: Share of the weights set to zero at random in training mode.
        bias: Whether the four projections add a bias.

    Raises:
        ValueError: If a number is below 1 or does not divide what it should, or ``dropout`` lies outside 0
            to 1.

    Source: Vaswani et al. 2017, section 3.2.2; Glorot and Bengio 2010 for the initialisation.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        _check_sizes(d_model, num_heads, num_kv_heads, dropout)
        self.num_heads, self.num_kv_heads, self.dropout = num_heads, num_kv_heads, dropout
        self.d_head = d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, num_kv_heads * self.d_head, bias=bias)
        self.w_v = nn.Linear(d_model, num_kv_heads * self.d_head, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew, and set the biases to zero."""
        bound = math.sqrt(6.0 / (4 * self.w_q.in_features))
        for projection in (self.w_q, self.w_k, self.w_v):
            nn.init.uniform_(projection.weight, -bound, bound)
        nn.init.xavier_uniform_(self.w_o.weight)
        for projection in (self.w_q, self.w_k, self.w_v, self.w_o):
            if projection.bias is not None:
                nn.init.zeros_(projection.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        rotate: Rotation | None = None,
        score_bias: Tensor | None = None,
        cache: KeyValueStore | None = None,
        need_weights: bool = True,
    ) -> AttentionOutput:
        """Let every query attend to every key that the mask allows, in each head by itself.

        Args:
            query: ``(..., T, d_model)``.
            key: ``(..., S, d_model)``; the queries where it is left out, which is self-attention.
            value: ``(..., S, d_model)``; the keys where it is left out.
            mask: Boolean, True = may attend: ``(T, S)`` for all, ``(..., T, S)`` with the leading axes of the
                query for all heads alike, or ``(..., H, T, S)``.
            rotate: Turns the heads of queries and keys by position, such as rotary positions.
            score_bias: Finite numbers to add to the scores, broadcasting to ``(..., H, T, S)``.
            cache: Keys and values of earlier positions, to which those of ``key`` and ``value`` are added. S
                is then the number of all of them. Keys are held as they are after ``rotate``.
            need_weights: False leaves weights and scores out and uses the fused kernel.

        Returns:
            The output ``(..., T, d_model)`` with weights, before dropout, and scores ``(..., H, T, S)``.

        Raises:
            TypeError: If the mask is not boolean, or types differ.
            ValueError: If shapes do not fit together.
        """
        key = query if key is None else key
        value = key if value is None else value
        self._check_widths(query, key, value)
        heads_mask = None if mask is None else _mask_with_heads(mask, query.ndim)
        q = split_heads(self.w_q(query), self.num_heads)  # (..., H, T, D)
        k = split_heads(self.w_k(key), self.num_kv_heads)  # (..., H_kv, S, D)
        v = split_heads(self.w_v(value), self.num_kv_heads)  # (..., H_kv, S, D)
        if rotate is not None:
            offset = 0 if cache is None else cache.length
            q, k = rotate(q, offset), rotate(k, offset)
        if cache is not None:
            k, v = cache.extend(k, v)
        if self.num_kv_heads != self.num_heads:
            # Each answering head serves the queries next to each other: [10, 20] becomes [10, 10, 20, 20].
            copies = self.num_heads // self.num_kv_heads
            k, v = k.repeat_interleave(copies, dim=-3), v.repeat_interleave(copies, dim=-3)  # (..., H, S, D)
        output, weights, scores = scaled_dot_product_attention(
            q,
            k,
            v,
            heads_mask,
            score_bias=score_bias,
            dropout_p=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        return AttentionOutput(self.w_o(merge_heads(output)), weights, scores)

    def _check_widths(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        d_model = self.w_q.in_features
        for name, tensor in (("query", query), ("key", key), ("value", value)):
            if tensor.ndim < 2 or tensor.shape[-1] != d_model:
                raise ValueError(
                    f"{name}: expected (..., length, d_model = {d_model}), got {tuple(tensor.shape)}"
                )

    @classmethod
    def from_torch(cls, theirs: nn.MultiheadAttention) -> MultiHeadAttention:
        """Copy PyTorch's module; the copy shares nothing with it.

        Ours is batch-first whatever theirs is, and its masks mean the opposite (:func:`mask_from_torch`).
        Type, device and training mode are theirs.

        Raises:
            TypeError: If it is no :class:`torch.nn.MultiheadAttention`.
            ValueError: If it has what ours has not: keys or values of another width than the queries
                (``kdim``, ``vdim``), an extra learned key (``add_bias_kv``) or zero key (``add_zero_attn``).
        """
        _check_copyable(theirs)
        weight = theirs.in_proj_weight
        with torch.device("meta"):  # no weights drawn, so that the global generator stays as it is
            ours = cls(
                theirs.embed_dim,
                theirs.num_heads,
                dropout=theirs.dropout,
                bias=theirs.in_proj_bias is not None,
            )
        ours = ours.to(weight.dtype).to_empty(device=weight.device)
        with torch.no_grad():
            for projection, rows in zip((ours.w_q, ours.w_k, ours.w_v), weight.chunk(3), strict=True):
                projection.weight.copy_(rows)
            ours.w_o.weight.copy_(theirs.out_proj.weight)
            if theirs.in_proj_bias is not None:
                biases = (*theirs.in_proj_bias.chunk(3), theirs.out_proj.bias)
                for projection, bias in zip((ours.w_q, ours.w_k, ours.w_v, ours.w_o), biases, strict=True):
                    projection.bias.copy_(bias)
        return ours.train(theirs.training)


def mask_from_torch(
    attn_mask: Tensor | None = None, key_padding_mask: Tensor | None = None, *, num_heads: int
) -> Tensor | None:
    """The masks of :class:`torch.nn.MultiheadAttention`, where True = hidden, as one where True = may attend.

    Args:
        attn_mask: Boolean ``(T, S)`` or ``(B * H, T, S)``, True = hidden.
        key_padding_mask: Boolean ``(B, S)``, True = hidden.
        num_heads: H.

    Returns:
        Boolean ``(T, S)``, ``(B, 1, S)``, ``(B, T, S)`` or ``(B, H, T, S)``, True = may attend; None where
        there is no mask.

    Raises:
        TypeError: If a mask is not boolean.
        ValueError: If a mask has another number of axes.
    """
    allowed = None
    if attn_mask is not None:
        _check_torch_mask("attn_mask", attn_mask, (2, 3))
        allowed = ~attn_mask
        if attn_mask.ndim == 3:
            allowed = allowed.reshape(-1, num_heads, *attn_mask.shape[1:])  # (B, H, T, S)
    if key_padding_mask is not None:
        _check_torch_mask("key_padding_mask", key_padding_mask, (2,))
        real = ~key_padding_mask[:, None, :]  # (B, 1, S)
        if allowed is None:
            return real
        return allowed & (real if allowed.ndim == 2 else real[:, None])
    return allowed


def _check_torch_mask(name: str, mask: Tensor, axes: tuple[int, ...]) -> None:
    if mask.dtype != torch.bool:
        raise TypeError(f"{name}: expected a boolean tensor, True = hidden, got {mask.dtype}")
    if mask.ndim not in axes:
        raise ValueError(
            f"{name}: expected {' or '.join(map(str, axes))} axes, got shape {tuple(mask.shape)}"
        )


def _mask_with_heads(mask: Tensor, query_axes: int) -> Tensor:
    """Give a mask that is for all heads alike its axis of heads."""
    if mask.ndim <= 2 or mask.ndim == query_axes + 1:
        return mask
    if mask.ndim == query_axes:
        return mask.unsqueeze(-3)  # (..., 1, T, S)
    raise ValueError(
        f"mask: expected two axes (T, S), the {query_axes} axes (..., T, S) of the query or one more for the "
        f"heads, got shape {tuple(mask.shape)}"
    )


def _check_sizes(d_model: int, num_heads: int, num_kv_heads: int, dropout: float) -> None:
    for name, size in (("d_model", d_model), ("num_heads", num_heads), ("num_kv_heads", num_kv_heads)):
        if size < 1:
            raise ValueError(f"{name}: expected at least 1, got {size}")
    if d_model % num_heads:
        raise ValueError(f"num_heads: expected a divisor of d_model = {d_model}, got {num_heads}")
    if num_heads % num_kv_heads:
        raise ValueError(f"num_kv_heads: expected a divisor of num_heads = {num_heads}, got {num_kv_heads}")
    if not 0.0 <= dropout <= 1.0:
        raise ValueError(f"dropout: expected a probability between 0 and 1, got {dropout}")


def _check_copyable(theirs: nn.MultiheadAttention) -> None:
    if not isinstance(theirs, nn.MultiheadAttention):
        raise TypeError(f"theirs: expected an nn.MultiheadAttention, got {type(theirs).__name__}")
    widths = {"kdim": theirs.kdim, "vdim": theirs.vdim}
    for name, width in widths.items():
        if width != theirs.embed_dim:
            raise ValueError(
                f"theirs: expected keys and values as wide as the queries, embed_dim = {theirs.embed_dim}, "
                f"got {name} = {width}"
            )
    if theirs.bias_k is not None or theirs.bias_v is not None:
        raise ValueError("theirs: expected add_bias_kv=False, got an extra learned key and value")
    if theirs.add_zero_attn:
        raise ValueError("theirs: expected add_zero_attn=False, got True")
