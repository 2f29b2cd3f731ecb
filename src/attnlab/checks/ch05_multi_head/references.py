"""Right answers of lesson 5, with a switch for every known mistake.

They are written for the checks alone: each step is a choice between the right one and wrong ones. The
course's own module is ``attnlab.multihead``; the tests hold the two together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor, nn

# --- split and merge --------------------------------------------------------------------------------------


def split_heads(
    x: Tensor, num_heads: int, *, layout: str = "right", axes: str = "any", refusal: str = "both numbers"
) -> Tensor:
    """``(..., T, d_model)`` to ``(..., H, T, D)``."""
    width = x.shape[-1]
    if width % num_heads:
        if refusal != "none":
            raise refused(refusal, "num_heads", num_heads, width)
        x = x[..., : width - width % num_heads]
    if axes == "three" and x.ndim != 3:
        raise ValueError("not enough values to unpack")
    T, D = x.shape[-2], x.shape[-1] // num_heads
    lead = x.shape[:-2]
    if layout == "view":
        return x.reshape(*lead, num_heads, T, D)
    if layout == "interleaved":
        pieces = x.reshape(*lead, T, D, num_heads).transpose(-1, -2)  # (..., T, H, D)
    elif layout == "width":
        pieces = x.reshape(*lead, T, D, num_heads)  # D heads, each as wide as there should be heads
    else:
        pieces = x.reshape(*lead, T, num_heads, D)  # (..., T, H, D)
    if layout == "not moved":
        return pieces
    heads = pieces.transpose(1, 2) if axes == "first" else pieces.transpose(-3, -2)  # (..., H, T, D)
    if layout == "heads first":
        return heads.movedim(-3, 0)
    return heads.transpose(-1, -2) if layout == "turned" else heads


def refused(how: str, name: str, number: int, of: int) -> Exception:
    """The error for a number that does not divide another, said well or badly."""
    if how == "assert":
        return AssertionError(f"{name}: expected a divisor of {of}, got {number}")
    if how == "torch":
        return RuntimeError("the shape is invalid for an input of this size")
    if how == "one number":
        return ValueError(f"{name}: {number} does not divide it")
    return ValueError(f"{name}: expected a divisor of {of}, got {number}")


def merge_heads(heads: Tensor, *, layout: str = "right", axes: str = "any") -> Tensor:
    """``(..., H, T, D)`` to ``(..., T, H * D)``."""
    if axes == "four" and heads.ndim != 4:
        raise ValueError("not enough values to unpack")
    *lead, H, T, D = heads.shape
    if layout == "view":
        return heads.reshape(*lead, T, H * D)
    if layout == "along positions":
        return heads.reshape(*lead, H * T, D)
    if layout in ("mean", "sum"):
        return heads.mean(dim=-3) if layout == "mean" else heads.sum(dim=-3)  # (..., T, D)
    moved = heads.transpose(1, 2) if axes == "first" else heads.transpose(-3, -2)  # (..., T, H, D)
    if layout == "refused":
        raise RuntimeError("view size is not compatible")
    if layout == "interleaved":
        moved = moved.transpose(-1, -2)  # (..., T, D, H)
    if layout == "turned":
        moved = heads.movedim(-1, -3).transpose(-1, -2)  # (..., D, T, H)
    return moved.reshape(*lead, T, H * D)


# --- attention of all heads -------------------------------------------------------------------------------


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    d_model: int,
    divisor: str = "d_head",
    axis: int = -1,
    masking: str = "before",
    empty: str = "zeros",
) -> tuple[Tensor, Tensor]:
    """Attention of heads ``(B, H, T, D)`` and ``(B, H, S, D)``; output and weights ``(B, H, T, S)``."""
    root = {"d_head": query.shape[-1] ** 0.5, "d_model": d_model**0.5, "nothing": 1.0}
    scores = query @ key.transpose(-2, -1) / root[divisor]  # (B, H, T, S)
    weights = _weights(scores, mask, axis=axis, masking=masking, empty=empty)
    return weights @ value, weights


def _weights(scores: Tensor, mask: Tensor | None, *, axis: int, masking: str, empty: str) -> Tensor:
    if mask is None or masking == "ignored":
        return scores.softmax(dim=axis)
    mask = ~mask if masking == "inverted" else mask
    if empty == "uniform":
        return scores.masked_fill(~mask, -1e9).softmax(dim=axis)
    filled = scores.masked_fill(~mask, -math.inf)
    if empty == "nan":
        return filled.softmax(dim=axis)
    nothing = (~mask).expand(scores.shape).all(dim=axis, keepdim=True)
    return filled.masked_fill(nothing, 0.0).softmax(dim=axis).masked_fill(nothing, 0.0)


def multi_head(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    w_o: Tensor,
    num_heads: int,
    *,
    split: str = "right",
    merge: str = "right",
    axis: int = -1,
    divisor: str = "d_head",
    mixed: str = "by w_o",
    found_by: str = "w_k",
) -> Tensor:
    """Self-attention of ``x`` (B, T, d_model) by several heads, all matrices ``(d_model, d_model)``."""
    matrices = (w_q, w_q if found_by == "w_q" else w_k, w_v)
    q, k, v = (split_heads(x @ matrix, num_heads, layout=split) for matrix in matrices)  # (B, H, T, D)
    output, _weights = attend(q, k, v, d_model=x.shape[-1], divisor=divisor, axis=axis)
    merged = merge_heads(output, layout=merge)  # (B, T, d_model)
    return merged if mixed == "not at all" else merged @ w_o


# --- with torch's weights ---------------------------------------------------------------------------------


def like_torch(
    state: Mapping[str, Tensor],
    num_heads: int,
    x: Tensor,
    batch_first: bool = False,
    *,
    reads: str = "as told",
    gives: str = "as it came",
    thirds: str = "qkv",
    in_turned: bool = False,
    out_turned: bool = False,
    in_bias: bool = True,
    out_bias: bool = True,
    out: bool = True,
    split: str = "right",
    merge: str = "right",
    divisor: str = "d_head",
    shown: str = "each head",
) -> tuple[Tensor, Tensor]:
    """What an ``nn.MultiheadAttention`` with these weights gives for ``x``: output, weights of each head."""
    first = {"as told": batch_first, "batch first": True, "time first": False, "inverted": not batch_first}
    x = x if first[reads] else x.transpose(0, 1)  # (B, T, d_model)
    weights, biases = (_thirds(state[f"in_proj_{kind}"], thirds, num_heads) for kind in ("weight", "bias"))
    projected = []
    for weight, bias in zip(weights, biases, strict=True):
        y = x @ (weight if in_turned else weight.T)
        projected.append(split_heads(y + bias if in_bias else y, num_heads, layout=split))  # (B, H, T, D)
    output, table = attend(*projected, d_model=x.shape[-1], divisor=divisor)
    output = merge_heads(output, layout=merge)  # (B, T, d_model)
    if out:
        weight = state["out_proj.weight"]
        output = output @ (weight if out_turned else weight.T)
        output = output + state["out_proj.bias"] if out_bias else output
    if not first[reads] and gives == "as it came":
        output = output.transpose(0, 1)
    return output, table.mean(dim=1) if shown == "mean" else table


def _thirds(tall: Tensor, order: str, num_heads: int) -> tuple[Tensor, ...]:
    """What belongs to queries, keys and values, each with ``d_model`` rows: of the matrix, or of the bias."""
    if order == "by head":
        rows = tall.reshape(num_heads, 3, -1, *tall.shape[1:])  # (H, 3, D, ...)
        return tuple(rows[:, i].flatten(0, 1) for i in range(3))
    if order == "every third row":
        return tuple(tall[i::3] for i in range(3))
    parts = dict(zip(order, tall.chunk(3), strict=True))
    return parts["q"], parts["k"], parts["v"]


# --- grouped heads ----------------------------------------------------------------------------------------


class GroupedQueryAttention(nn.Module):
    """Several heads that ask, fewer that answer; the constructor's keywords turn mistakes on."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        *,
        refusal: str = "both numbers",
        keys: str = "each repeated",
        values: str = "each repeated",
        split: str = "right",
        split_kv: str = "right",
        merge: str = "right",
        source: str = "value",
        out: bool = True,
        shown: str = "each head",
        **switches: object,
    ) -> None:
        super().__init__()
        for name, number, of in (
            ("num_heads", num_heads, d_model),
            ("num_kv_heads", num_kv_heads, num_heads),
        ):
            if (
                of % number
                and not (refusal == "heads alone" and name == "num_kv_heads")
                and refusal != "none"
            ):
                raise refused(refusal, name, number, of)
        self._sizes = (d_model, num_heads, num_kv_heads)
        narrow = d_model // num_heads * num_kv_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, narrow, bias=False)
        self.w_v = nn.Linear(d_model, narrow, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)
        self._keys, self._values, self._source, self._out = keys, values, source, out
        self._split, self._split_kv, self._merge, self._shown = split, split_kv, merge, shown
        self._switches = switches

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """``(B, T, d_model)`` and twice ``(B, S, d_model)`` to output and weights ``(B, H, T, S)``."""
        d_model, H, H_kv = self._sizes
        q = split_heads(self.w_q(query), H, layout=self._split)  # (B, H, T, D)
        k = split_heads(self.w_k(key), H_kv, layout=self._split_kv)  # (B, H_kv, S, D)
        v = split_heads(self.w_v(key if self._source == "key" else value), H_kv, layout=self._split_kv)
        k, v = spread(k, H // H_kv, self._keys), spread(v, H // H_kv, self._values)  # (B, H, S, D)
        output, weights = attend(q, k, v, mask, d_model=d_model, **self._switches)  # type: ignore[arg-type]
        output = merge_heads(output, layout=self._merge)  # (B, T, d_model)
        output = self.w_o(output) if self._out else output
        if self._shown == "mean":
            return output, weights.mean(dim=1)
        return output, weights[:, :: H // H_kv] if self._shown == "one a group" else weights


def spread(heads: Tensor, copies: int, how: str) -> Tensor:
    """Each answering head for ``copies`` asking ones: ``(B, H_kv, S, D)`` to ``(B, H, S, D)``."""
    if how == "tiled":
        return heads.repeat(1, copies, 1, 1)
    if how == "first":
        return heads[:, :1].expand(-1, copies * heads.shape[1], -1, -1)
    return heads.repeat_interleave(copies, dim=1)
