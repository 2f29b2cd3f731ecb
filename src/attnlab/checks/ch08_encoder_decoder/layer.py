"""The right decoder layer of lesson 8's first exercise, with a switch for every known mistake.

It is written for the checks alone: pre-norm, each step a choice between the right one and wrong ones. The
course's own layer is ``attnlab.layers.DecoderLayer``; a test holds the two together.

Axes: B batch, H heads, T target positions, S source positions, D width of a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Drop = Callable[[Tensor], Tensor]


class _Linear(nn.Linear):
    """Starts quickly: a check builds hundreds of these, and loads weights into nearly all of them."""

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.weight.uniform_(-0.5, 0.5)
            self.bias.zero_()


class _Attention(nn.Module):
    """Several heads; the names are those of the course's ``MultiHeadAttention``."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (_Linear(d_model, d_model) for _ in range(4))

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.num_heads, -1).transpose(-3, -2)  # (B, H, length, D)

    def forward(
        self, asking: Tensor, asked: Tensor, mask: Tensor | None, drop: Drop
    ) -> tuple[Tensor, Tensor]:
        """(B, T, d_model), (B, S, d_model) to (B, T, d_model) and weights (B, H, T, S)."""
        q, k, v = self._split(self.w_q(asking)), self._split(self.w_k(asked)), self._split(self.w_v(asked))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, T, S)
        if mask is None:
            weights = scores.softmax(dim=-1)
        else:
            mask = mask.unsqueeze(-3) if mask.dim() > 2 else mask
            nothing = ~mask.any(dim=-1, keepdim=True)
            scores = scores.masked_fill(~mask, -math.inf).masked_fill(nothing, 0.0)
            weights = scores.softmax(dim=-1).masked_fill(nothing, 0.0)
        mixed = (drop(weights) @ v).transpose(-3, -2).flatten(-2)  # (B, T, d_model)
        return self.w_o(mixed), weights


class _FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.w_1, self.w_2 = _Linear(d_model, d_ff), _Linear(d_ff, d_model)

    def forward(self, x: Tensor, drop: Drop) -> Tensor:
        output: Tensor = self.w_2(drop(F.relu(self.w_1(x))))
        return output


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention, feed-forward, each after a norm and inside a residual connection.

    The constructor's keywords turn mistakes on.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        *,
        order: str = "self, cross, feed",
        norm: str = "before",
        norms: str = "own",
        added_to: str = "stream",
        asks: str = "target",
        found_in: str = "memory",
        memory_norm: bool = False,
        self_keys: str = "normed",
        self_mask: str = "own",
        cross_mask: str = "own",
        attentions: str = "own",
        returned: str = "cross",
        dropped: str = "sublayers",
    ) -> None:
        super().__init__()
        self.self_attention = _Attention(d_model, num_heads)
        self.cross_attention = _Attention(d_model, num_heads)
        self.feed_forward = _FeedForward(d_model, d_ff)
        self.norm_self, self.norm_cross, self.norm_feed_forward = (nn.LayerNorm(d_model) for _ in range(3))
        self._order, self._norm, self._norms, self._added_to = order.split(", "), norm, norms, added_to
        self._asks, self._found_in, self._memory_norm = asks, found_in, memory_norm
        self._self_keys = self_keys
        self._self_mask, self._cross_mask, self._attentions = self_mask, cross_mask, attentions
        self._returned, self._dropped, self._share = returned, dropped, dropout

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(B, T, d_model), (B, S, d_model) to (B, T, d_model) and cross-attention weights (B, H, T, S)."""
        masks = {"own": (mask, memory_mask), "none": (None, None), "other": (memory_mask, mask)}
        seen: dict[str, Tensor] = {}

        def self_attend(normed: Tensor, stream: Tensor) -> Tensor:
            keys = normed if self._self_keys == "normed" else stream
            return self._look(seen, "self", self.self_attention, normed, keys, masks[self._self_mask][0])

        def cross_attend(normed: Tensor, stream: Tensor) -> Tensor:
            attention = self.cross_attention if self._attentions == "own" else self.self_attention
            asked = self.norm_cross(memory) if self._memory_norm else memory
            asked = asked if self._found_in == "memory" else normed
            asking, asked = (normed, asked) if self._asks == "target" else (asked, normed)
            return self._look(seen, "cross", attention, asking, asked, masks[self._cross_mask][1])

        sublayers = {
            "self": (self_attend, self.norm_self),
            "cross": (cross_attend, self.norm_cross),
            "feed": (
                lambda normed, stream: self.feed_forward(normed, self._drop_inside),
                self.norm_feed_forward,
            ),
        }
        for name in self._order:
            sublayer, norm = sublayers[name]
            x = self._around(name, x, sublayer, norm if self._norms == "own" else self.norm_self)
        if self._returned == "mean":
            return x, seen["cross"].mean(dim=1)
        return x, seen[self._returned]

    def _look(
        self,
        seen: dict[str, Tensor],
        name: str,
        attention: nn.Module,
        asking: Tensor,
        asked: Tensor,
        mask: Tensor | None,
    ) -> Tensor:
        output: Tensor
        output, seen[name] = attention(asking, asked, mask, self._drop_inside)
        return output

    def _around(
        self, name: str, x: Tensor, sublayer: Callable[[Tensor, Tensor], Tensor], norm: nn.Module
    ) -> Tensor:
        normed = norm(x) if self._norm == "before" else x
        y = sublayer(normed, x)
        if self._dropped in ("sublayers", "always", "everywhere"):
            y = self._drop(y)
        if self._added_to == "stream":
            y = x + y
        elif self._added_to == "normed":
            y = normed + y
        elif name != "cross":  # only around cross-attention no way is left
            y = x + y
        if self._dropped == "stream":
            y = self._drop(y)
        return norm(y) if self._norm == "after" else y

    def _drop(self, tensor: Tensor) -> Tensor:
        return F.dropout(tensor, self._share, training=self.training or self._dropped == "always")

    def _drop_inside(self, tensor: Tensor) -> Tensor:
        return self._drop(tensor) if self._dropped in ("inside", "everywhere") else tensor


def dropped_shares(output: Tensor, nothing: Tensor, whole: Tensor) -> tuple[float, ...]:
    """By which factors dropout multiplied what a sublayer adds; a -1 stands for many factors.

    Args:
        output: What came out in training mode, where one sublayer alone gives something.
        nothing: What comes out where none gives anything.
        whole: What comes out where this one does, without dropout.
    """
    added = whole - nothing
    clear = added.abs() > 1e-2  # a smaller number is lost in rounding
    ratios = ((output - nothing) / added)[clear]
    found = sorted({round(ratio, 1) + 0.0 for ratio in ratios.tolist()})
    if len(found) <= 2:
        return tuple(found)
    # Many: then it says what lost numbers, the part that was added or the whole stream.
    shares = [(part.abs() < 1e-5).float().mean().item() for part in (ratios, output)]
    return tuple([-1.0] + [float(place) for place, share in enumerate(shares) if share > 0.1])


def odd_dropping(output: Tensor, nothing: Tensor, whole: Tensor, share: float) -> str | None:
    """What is odd in which numbers are dropped, in words; None where each was drawn by itself.

    The arguments are those of ``dropped_shares``, (B, T, d_model) each with B and T above 1, and the share.
    """
    added = whole - nothing
    clear = added.abs() > 1e-2
    lost = ((output - nothing).abs() < 1e-3 * added.abs()) & clear
    kept = clear & ~lost
    if not (lost.any(dim=-1) & kept.any(dim=-1)).any():
        return "whole vectors are dropped, and not single numbers"
    for axis, name in ((0, "sentence"), (1, "token")):
        if not (lost.any(dim=axis) & kept.any(dim=axis)).any():
            return f"the same numbers are dropped for every {name}"
    found = float(lost.sum() / clear.sum())
    return None if abs(found - share) < 0.1 else "another share is dropped than was asked for"


def silent(weights: dict[str, Tensor], *parts: str) -> dict[str, Tensor]:
    """The weights, with the last map of these sublayers at zero: they give nothing."""
    last = tuple(part + (".w_2." if part == "feed_forward" else ".w_o.") for part in parts)
    return {
        name: torch.zeros_like(tensor) if name.startswith(last) else tensor
        for name, tensor in weights.items()
    }
