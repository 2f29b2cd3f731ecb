"""Right answers of lesson 13, with a switch for every known mistake.

They are written for the checks alone: each step is a choice between the right one and wrong ones. The
course's own functions are in ``attnlab.efficient``; the tests hold the two together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

Cache = tuple[Tensor, Tensor]

# --- the online softmax -----------------------------------------------------------------------------------


def online_softmax(
    tiles: Sequence[Tensor],
    *,
    update: str = "corrected",
    level: str = "running",
    empty: str = "kept apart",
    returned: str = "maximum and sum",
) -> tuple[Tensor, Tensor]:
    """Maximum and sum of the exponentials of each row, (B, 1) each, from tiles of scores (B, n)."""
    highest = torch.full_like(tiles[0][:, :1], 0.0 if level == "from zero" else -math.inf)  # (B, 1)
    total = torch.zeros_like(highest)  # (B, 1)
    for number, tile in enumerate(tiles):
        after = _new_level(highest, tile, number, level)
        base = after if empty == "subtracted" else after.masked_fill(after == -math.inf, 0.0)
        correction, terms = (highest - base).exp(), (tile - base).exp().sum(dim=-1, keepdim=True)
        if update == "corrected":
            total = correction * total + terms
        elif update == "not corrected":
            total = total + terms
        elif update == "the other way":
            total = total / correction.masked_fill(total == 0, 1.0) + terms
        elif update == "both":
            total = correction.masked_fill(total == 0, 1.0) * (total + terms)
        elif update == "forgotten":
            total = terms
        else:  # "raw"
            total = total + tile.exp().sum(dim=-1, keepdim=True)
        highest = after
    if returned == "log-sum-exp":
        return highest, highest + total.log()
    return (total, highest) if returned == "sum and maximum" else (highest, total)


def _new_level(highest: Tensor, tile: Tensor, number: int, level: str) -> Tensor:
    if level == "tile":
        return tile.amax(dim=-1, keepdim=True)
    if level == "first tile" and number > 0:
        return highest
    if level == "all rows":
        return torch.maximum(highest, tile.max())
    return torch.maximum(highest, tile.amax(dim=-1, keepdim=True))


# --- attention in tiles, forward and backward -------------------------------------------------------------


def chunked_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    grad: Tensor,
    key_chunk: int,
    *,
    scale: str = "root of d_k",
    mask: str = "last at last",
    carry: str = "both corrected",
    empty: str = "zeros",
    mean: str = "output",
    grad_scale: str = "again",
    again: str = "as before",
    add: str = "every tile",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Output (B, T, d_v) of causal attention, and the gradients of query, key and value."""
    divisor = {"root of d_k": query.shape[-1] ** 0.5, "none": 1.0, "d_k": query.shape[-1]}.get(
        scale, value.shape[-1] ** 0.5
    )
    starts = range(0, key.shape[1], key_chunk)
    highest = torch.full_like(query[..., :1], -math.inf)  # (B, T, 1)
    total, gathered = torch.zeros_like(highest), torch.zeros_like(grad)  # (B, T, 1), (B, T, d_v)
    for start in starts:
        scores = _tile(query, key, start, key_chunk, mask) / divisor  # (B, T, tile)
        after = torch.maximum(highest, scores.amax(dim=-1, keepdim=True))
        base = after if empty == "nan" else after.masked_fill(after == -math.inf, 0.0)
        correction, terms = (highest - base).exp(), (scores - base).exp()
        kept = torch.ones_like(correction)
        total = (kept if carry == "sum not corrected" else correction) * total
        total = total + terms.sum(dim=-1, keepdim=True)
        gathered = (kept if carry == "output not corrected" else correction) * gathered
        gathered = gathered + terms @ value[:, start : start + key_chunk]
        highest = after
    if empty != "nan":
        highest, total = highest.masked_fill(total == 0, 0.0), total.masked_fill(total == 0, 1.0)
    output = gathered / total
    grads = [torch.zeros_like(tensor) for tensor in (query, key, value)]
    means = (grad * output).sum(dim=-1, keepdim=True)  # (B, T, 1)
    for start in starts:
        keys = slice(start, start + key_chunk)
        scores = _tile(query, key, start, key_chunk, "none" if again == "without mask" else mask) / divisor
        weights = (scores - highest).exp()  # (B, T, tile)
        weights = weights if again == "not divided" else weights / total
        by_weight = grad @ value[:, keys].mT  # (B, T, tile)
        here = (weights * by_weight).sum(dim=-1, keepdim=True)
        less = {"output": means, "tile": here, "none": torch.zeros_like(means)}[mean]
        by_score = weights * (by_weight - less) / (1.0 if grad_scale == "left out" else divisor)
        if add == "last tile":
            grads[0] = by_score @ key[:, keys]
        else:
            grads[0] = grads[0] + by_score @ key[:, keys]
        grads[1][:, keys] = by_score.mT @ query
        grads[2][:, keys] = weights.mT @ grad
    return output, grads[0], grads[1], grads[2]


def _tile(query: Tensor, key: Tensor, start: int, key_chunk: int, mask: str) -> Tensor:
    """Dot products of all queries with some keys, -inf where a query may not see a key."""
    products = query @ key[:, start : start + key_chunk].mT  # (B, T, tile)
    places = torch.arange(query.shape[1])[:, None]
    if mask != "first at first":
        places = places + key.shape[1] - query.shape[1]
    keys = torch.arange(start, start + products.shape[-1])
    hidden = {"none": keys < 0, "before only": keys >= places, "turned round": keys < places}.get(
        mask, keys > places
    )
    return products.masked_fill(hidden, -math.inf)


# --- a sliding cache --------------------------------------------------------------------------------------


def cached_step(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cache: Cache | None,
    window: int,
    *,
    scale: str = "root of d_k",
    seen: str = "window",
    places: str = "behind the cache",
    cut: str = "after",
    keep: str = "what can be seen",
) -> tuple[Tensor, Cache]:
    """Output (B, n, d_v) of n new tokens, and the newest window - 1 keys and values."""
    held = 0 if cache is None else cache[0].shape[1]
    keys, values = (
        (key, value) if cache is None else (torch.cat([cache[0], key], 1), torch.cat([cache[1], value], 1))
    )
    if cut == "before":
        keys, values = keys[:, -window:], values[:, -window:]
        held = keys.shape[1] - key.shape[1]
    at = torch.arange(query.shape[1])[:, None] + (0 if places == "from zero" else held)  # (n, 1)
    to = torch.arange(keys.shape[1])
    lowest = at - window + {"one more": 0, "one less": 2}.get(seen, 1)
    allowed = (to <= at) & (to >= lowest)
    if seen == "later ones too":
        allowed = to >= lowest
    elif seen == "everything":
        allowed = to <= at
    divisor = {"none": 1.0, "d_v": value.shape[-1] ** 0.5}.get(scale, query.shape[-1] ** 0.5)
    scores = (query @ keys.mT / divisor).masked_fill(~allowed, -math.inf)  # (B, n, keys)
    empty = ~allowed.any(dim=-1, keepdim=True)
    output = scores.masked_fill(empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0) @ values
    last = keys.shape[1]
    first = max(0, last - window + {"one too many": 0, "one too few": 2}.get(keep, 1))
    if keep == "everything":
        first = 0
    elif keep == "the oldest":
        first, last = 0, min(last, window - 1)
    elif keep == "the new ones":
        first = max(first, last - key.shape[1])
    return output, (keys[:, first:last], values[:, first:last])


# --- linear attention, token by token ---------------------------------------------------------------------


def causal_linear(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    features: str = "elu + 1",
    total: str = "so far",
    order: str = "first add",
    state: str = "added up",
    query_features: str = "same",
) -> Tensor:
    """Linear attention of (T, d_k), (T, d_k), (T, d_v), each position seeing itself and those before it."""
    q, k = _features(query, features), _features(key, features)
    q = query if query_features == "none" else q
    held = torch.zeros(key.shape[-1], value.shape[-1])  # (d_k, d_v)
    summed = torch.zeros(key.shape[-1])  # (d_k,)
    outputs = []
    for t in range(len(query)):
        before, summed_before = held, summed
        held = torch.outer(k[t], value[t]) + (0.0 if state == "last" else held)
        summed = summed + k[t]
        read, norm = (before, summed_before) if order == "first read" else (held, summed)
        if total == "all":
            norm = k.sum(dim=0)
        divisor = {"none": torch.ones(()), "count": torch.tensor(t + 1.0)}.get(total, q[t] @ norm)
        outputs.append(q[t] @ read / divisor.clamp(min=1e-6))
    return torch.stack(outputs)


def _features(x: Tensor, features: str) -> Tensor:
    if features == "elu":
        return F.elu(x)
    if features == "relu":
        return x.relu()
    if features == "exp":
        return x.exp()
    return F.elu(x / x.shape[-1] ** 0.5) + 1 if features == "scaled" else F.elu(x) + 1


# --- programs for a test to judge -------------------------------------------------------------------------


def attend_in_tiles(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    chunk: int = 4,
    scale: str = "d_k",
    carry: str = "both corrected",
    tiles: str = "all",
    level: str = "running",
    keys: str = "S",
    work: str = "single",
) -> Tensor:
    """Attention (B, T, d_v) in tiles of four keys, without a mask."""
    dtype = query.dtype
    if work == "half":
        query, key, value = (tensor.bfloat16().float() for tensor in (query, key, value))
    length = key.shape[1] if keys == "S" else min(key.shape[1], query.shape[1])
    divisor = value.shape[-1] ** 0.5 if scale == "d_v" else query.shape[-1] ** 0.5
    highest = torch.full_like(query[..., :1], -math.inf)  # (B, T, 1)
    total, gathered = torch.zeros_like(highest), torch.zeros_like(query[..., :1])
    stop = length - length % chunk if tiles == "whole ones" and length > chunk else length
    for number, start in enumerate(range(0, stop, chunk)):
        part = slice(start, min(start + chunk, stop))
        scores = query @ key[:, part].mT / divisor  # (B, T, tile)
        after = _tile_level(highest, scores, number, level)
        correction, terms = (highest - after).exp(), (scores - after).exp()
        kept = torch.ones_like(correction)
        total = (kept if carry == "sum not corrected" else correction) * total
        total = total + terms.sum(dim=-1, keepdim=True)
        gathered = (kept if carry == "output not corrected" else correction) * gathered
        gathered = gathered + terms @ value[:, part]
        highest = after
    return (gathered / total).to(dtype)


def _tile_level(highest: Tensor, scores: Tensor, number: int, level: str) -> Tensor:
    if level == "none":
        return torch.zeros_like(highest)
    if level == "first tile" and number > 0:
        return highest
    if level == "all rows":
        return torch.maximum(highest, scores.max())
    return torch.maximum(highest, scores.amax(dim=-1, keepdim=True))
