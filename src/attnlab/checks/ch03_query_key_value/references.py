"""Right answers of lesson 3, with a switch for every known mistake.

They are written for the checks alone: each step is a choice between the right one and wrong ones. The
course's own attention is ``attnlab.attention``; the tests hold the two together.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

Divide = Callable[[Tensor, Tensor, Tensor, Tensor], float]

# What the scores are divided by, from query, key, value and input.
_DIVISORS: dict[str, Divide] = {
    "sqrt d_k": lambda q, k, v, x: math.sqrt(q.shape[-1]),
    "nothing": lambda q, k, v, x: 1.0,
    "d_k": lambda q, k, v, x: float(q.shape[-1]),
    "sqrt d_v": lambda q, k, v, x: math.sqrt(v.shape[-1]),
    "sqrt length": lambda q, k, v, x: math.sqrt(k.shape[-2]),
    "sqrt d_model": lambda q, k, v, x: math.sqrt(x.shape[-1]),
    "1 / sqrt d_k": lambda q, k, v, x: 1 / math.sqrt(q.shape[-1]),
    "after the softmax": lambda q, k, v, x: 1.0,
}


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    source: Tensor | None = None,
    divisor: str = "sqrt d_k",
    axis: int = -1,
    masking: str = "before",
    empty: str = "zeros",
    roles: str = "query asks",
    squash: str = "softmax",
    summed: str = "value",
    returned: str = "output, weights",
    drop_scores: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention over ``(..., T, d_k)``, ``(..., S, d_k)``, ``(..., S, d_v)``; returns output and weights."""
    scores = query @ key.transpose(-2, -1) if roles == "query asks" else key @ query.transpose(-2, -1)
    scores = scores / _DIVISORS[divisor](
        query, key, value, query if source is None else source
    )  # (..., T, S)
    if drop_scores is not None:
        scores = drop_scores(scores)
    weights = _weights(scores, mask, axis=axis, masking=masking, empty=empty, squash=squash)
    if divisor == "after the softmax":
        weights = weights / math.sqrt(query.shape[-1])
    output = weights @ (value if summed == "value" else key)  # (..., T, d_v)
    if returned == "weights, output":
        return weights, output
    return output, scores if returned == "output, scores" else weights


def _weights(
    scores: Tensor, mask: Tensor | None, *, axis: int, masking: str, empty: str, squash: str
) -> Tensor:
    if mask is None or masking == "ignored":
        return _squash(scores, axis, squash)
    if masking == "inverted":
        mask = ~mask
    if masking == "zero score":
        return _squash(scores.masked_fill(~mask, 0.0), axis, squash)
    if masking == "added":
        return _squash(scores + mask.to(scores.dtype), axis, squash)
    if masking == "multiplied after":
        return _squash(scores, axis, squash) * mask
    nothing = ~mask.any(dim=-1, keepdim=True)  # (..., T, 1)
    if empty == "uniform":
        return _squash(scores.masked_fill(~mask, -1e9), axis, squash)
    filled = scores.masked_fill(~mask, -math.inf)
    if empty == "nan":
        return _squash(filled, axis, squash)
    if empty == "nan cleaned":
        # Added, not filled in: the way back through the sum meets the NaN that the way forward cleaned up.
        added = scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)
        return _squash(added, axis, squash).nan_to_num(0.0)
    weights = _squash(filled.masked_fill(nothing, 0.0), axis, squash)
    return weights.masked_fill(nothing, 0.0)


def _squash(scores: Tensor, axis: int, squash: str) -> Tensor:
    if squash == "softmax":
        return scores.softmax(dim=axis)
    if squash == "sigmoid":
        return scores.sigmoid()
    if squash == "hard":
        chosen = scores.argmax(dim=axis, keepdim=True)
        return torch.zeros_like(scores).scatter(axis, chosen, 1.0)
    return scores.masked_fill(scores.isinf(), 0.0)  # no softmax at all


def attend(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_v: Tensor,
    *,
    asks_with: str = "w_q",
    found_by: str = "w_k",
    divisor: str = "sqrt d_k",
    axis: int = -1,
    roles: str = "query asks",
    squash: str = "softmax",
) -> Tensor:
    """Self-attention of ``x`` (B, T, d_model) with weights (d_model, d_k), (d_model, d_k), (d_model, d_v)."""
    matrices = {"w_q": w_q, "w_k": w_k}
    query, key, value = x @ matrices[asks_with], x @ matrices[found_by], x @ w_v
    return attention(query, key, value, source=x, divisor=divisor, axis=axis, roles=roles, squash=squash)[
        0
    ]  # (B, T, d_v)


class SelfAttention(nn.Module):
    """One head of self-attention with dropout on its weights; the constructor's keywords turn mistakes on."""

    def __init__(
        self,
        d_model: int,
        d_k: int,
        d_v: int,
        dropout: float = 0.0,
        *,
        asks_with: str = "w_q",
        found_by: str = "w_k",
        dropped: str = "weights",
        when: str = "training",
        shown: str = "before dropout",
        **switches: object,
    ) -> None:
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k, bias=False)
        self.w_k = nn.Linear(d_model, d_k, bias=False)
        self.w_v = nn.Linear(d_model, d_v, bias=False)
        self._dropout, self._switches = dropout, switches
        self._asks_with, self._found_by = asks_with, found_by
        self._dropped, self._when, self._shown = dropped, when, shown

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """``x`` (B, T, d_model) to output (B, T, d_v) and weights (B, T, T)."""
        projections = {"w_q": self.w_q, "w_k": self.w_k}
        query, key, value = projections[self._asks_with](x), projections[self._found_by](x), self.w_v(x)
        drop_scores = self._drop if self._dropped == "scores" else None
        output, weights = attention(
            query,
            key,
            value,
            mask,
            source=x,
            drop_scores=drop_scores,
            **self._switches,  # type: ignore[arg-type]
        )
        if self._dropped == "scores":
            return output, weights
        if self._dropped == "output":
            return self._drop(output), weights
        dropped = self._drop(weights)
        # Computed anew only where something was dropped, so that other switches keep acting on the output.
        output = dropped @ value if dropped is not weights else output
        return output, weights if self._shown == "before dropout" else dropped

    def _drop(self, tensor: Tensor) -> Tensor:
        active = {"training": self.training, "always": True, "never": False, "evaluation": not self.training}
        share = self._dropout
        if not active[self._when] or share == 0.0:
            return tensor
        if self._dropped == "weights, not rescaled":
            return tensor * (torch.rand_like(tensor) >= share)
        return nn.functional.dropout(tensor, share)
