r"""Right answers of lesson 2, with a switch for every known mistake.

The kernel is :math:`e^{-\lVert q - k_j \rVert^2 / 2\tau}`. Axes: B = batch, T = queries, S = entries (keys),
D = width of a query and a key. They are written for the checks alone; the tests hold them and the library
together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

# --- a lookup by distance ---------------------------------------------------------------------------------

Closeness = Callable[[Tensor, Tensor], Tensor]

# Half of what the kernel takes off, (..., T, S), before it is divided by the temperature.
_CLOSENESS: dict[str, Closeness] = {
    "squared": lambda q, k: _difference(q, k).square().sum(dim=-1) / 2,
    "not halved": lambda q, k: _difference(q, k).square().sum(dim=-1),
    "not squared": lambda q, k: _difference(q, k).square().sum(dim=-1).sqrt() / 2,
    "mean of squares": lambda q, k: _difference(q, k).square().mean(dim=-1) / 2,
    "dot product": lambda q, k: -(q @ k.transpose(-2, -1)),
    "far counts": lambda q, k: -_difference(q, k).square().sum(dim=-1) / 2,
}

_POWERS = {"temperature": 1.0, "squared": 2.0, "root": 0.5, "ignored": 0.0, "multiplied": -1.0}


def _difference(queries: Tensor, keys: Tensor) -> Tensor:
    return queries[..., :, None, :] - keys[..., None, :, :]  # (..., T, S, D)


def kernel_lookup(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    temperature: float,
    *,
    closeness: str = "squared",
    divided_by: str = "temperature",
    shares: str = "shifted",
    axis: int = -1,
    summed: str = "values",
    returned: str = "answers, weights",
) -> tuple[Tensor, Tensor]:
    """Answers (..., T, d_v) and weights (..., T, S) of queries (..., T, D) among keys (..., S, D)."""
    scores = -_CLOSENESS[closeness](queries, keys) / temperature ** _POWERS[divided_by]  # (..., T, S)
    weights = _SHARES[shares](scores, axis)
    answers = weights @ (values if summed == "values" else keys)
    return (answers, weights) if returned == "answers, weights" else (weights, answers)


def _plain(scores: Tensor, axis: int) -> Tensor:
    kernel = scores.exp()
    return kernel / kernel.sum(dim=axis, keepdim=True)


def _hard(scores: Tensor, axis: int) -> Tensor:
    return torch.zeros_like(scores).scatter(axis, scores.argmax(dim=axis, keepdim=True), 1.0)


_SHARES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "shifted": lambda scores, axis: scores.softmax(dim=axis),
    "plain": _plain,
    "plain, cleaned": lambda scores, axis: _plain(scores, axis).nan_to_num(),
    "shifted by one for all": lambda scores, axis: _plain(scores - scores.max(), axis),
    "not divided": lambda scores, axis: scores.exp(),
    "divided by the number": lambda scores, axis: scores.exp() / scores.shape[axis],
    "hard": _hard,
}

# --- a lookup by distance as one by dot products ----------------------------------------------------------

# What takes the part of the length of a key beside its dot product, (..., S, 1).
_LENGTHS: dict[str, Callable[[Tensor], Tensor]] = {
    "half of the square": lambda k: -k.square().sum(dim=-1, keepdim=True) / 2,
    "none": lambda k: torch.zeros_like(k[..., :1]),
    "added": lambda k: k.square().sum(dim=-1, keepdim=True) / 2,
    "square": lambda k: -k.square().sum(dim=-1, keepdim=True),
    "not squared": lambda k: -k.norm(dim=-1, keepdim=True) / 2,
    "mean of squares": lambda k: -k.square().mean(dim=-1, keepdim=True) / 2,
    "sum of numbers": lambda k: -k.sum(dim=-1, keepdim=True).square() / 2,
}


def as_dot_products(
    queries: Tensor,
    keys: Tensor,
    temperature: float,
    *,
    lengths: str = "half of the square",
    length_divided: bool = True,
    divided_by: str = "temperature",
    keys_as: str = "given",
    queries_hold: str = "queries",
    returned: str = "queries, keys",
) -> tuple[Tensor, Tensor]:
    """New queries (..., T, D + 1) and keys (..., S, D + 1), whose dot products do what distances did."""
    divisor = temperature ** _POWERS[divided_by]
    last = _LENGTHS[lengths](keys) / (divisor if length_divided else 1.0)  # (..., S, 1)
    body = keys / keys.norm(dim=-1, keepdim=True) if keys_as == "of length 1" else keys
    new_queries = torch.cat([queries, torch.ones_like(queries[..., :1])], dim=-1)  # (..., T, D + 1)
    new_keys = torch.cat([body / divisor, last], dim=-1)  # (..., S, D + 1)
    if queries_hold == "scores":
        new_queries = new_queries @ new_keys.transpose(-2, -1)  # (..., T, S)
        new_keys = torch.eye(keys.shape[-2]).expand(*keys.shape[:-1], -1)  # (..., S, S)
    return (new_queries, new_keys) if returned == "queries, keys" else (new_keys, new_queries)


# --- one step of a decoder that attends -------------------------------------------------------------------

_JOINED: dict[str, Callable[[Tensor, Tensor, nn.Linear], Tensor]] = {  # to scores (B, S, 1)
    "tanh of the sum": lambda asked, found, v: v((asked + found).tanh()),
    "no tanh": lambda asked, found, v: v(asked + found),
    "tanh of each": lambda asked, found, v: v(asked.tanh() + found.tanh()),
    "tanh outside": lambda asked, found, v: v(asked + found).tanh(),
    "sigmoid": lambda asked, found, v: v((asked + found).sigmoid()),
    "relu": lambda asked, found, v: v((asked + found).relu()),
    "product": lambda asked, found, v: v((asked * found).tanh()),
    "difference": lambda asked, found, v: v((asked - found).tanh()),
    "scaled": lambda asked, found, v: v((asked + found).tanh()) / math.sqrt(found.shape[-1]),
}

_SHARED: dict[str, Callable[[Tensor], Tensor]] = {  # from scores (B, S, 1) to weights (B, S)
    "states": lambda scores: scores.squeeze(-1).softmax(dim=-1),
    "axis of one": lambda scores: scores.softmax(dim=-1).squeeze(-1),
    "batch": lambda scores: scores.squeeze(-1).softmax(dim=0),
    "everything": lambda scores: scores.flatten().softmax(dim=0).view(scores.shape[:2]),
    "nothing": lambda scores: scores.squeeze(-1),
    "sigmoid": lambda scores: scores.squeeze(-1).sigmoid(),
    "hard": lambda scores: _hard(scores.squeeze(-1), -1),
}

_CONTEXTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # from weights (B, S), states (B, S, d_key)
    "weighted sum": lambda weights, states: (weights[:, :, None] * states).sum(dim=1),
    "weighted mean": lambda weights, states: (weights[:, :, None] * states).mean(dim=1),
    "mean": lambda weights, states: states.mean(dim=1),
    "last": lambda weights, states: states[:, -1],
    "best": lambda weights, states: states[torch.arange(len(states)), weights.argmax(dim=1)],
}


class AttentiveStep(nn.Module):
    """One step of a decoder with additive attention; the constructor's keywords turn mistakes on."""

    def __init__(self, d_token: int, d_state: int, d_key: int, d_hidden: int, **switches: str) -> None:
        super().__init__()
        self.w_query = nn.Linear(d_state, d_hidden, bias=False)
        self.w_key = nn.Linear(d_key, d_hidden, bias=False)
        self.v = nn.Linear(d_hidden, 1, bias=False)
        self.cell = nn.GRUCell(d_token + d_key, d_state)
        self._switches = {
            "joined": "tanh of the sum",
            "shared": "states",
            "context": "weighted sum",
            "order": "token, context",
            "previous": "given",
            "returned": "state, context, weights",
        } | switches

    def forward(self, token: Tensor, state: Tensor, states: Tensor) -> tuple[Tensor, ...]:
        """token (B, d_token), state (B, d_state), states (B, S, d_key) -> new state, context, weights."""
        chosen = self._switches
        asked, found = self.w_query(state)[:, None], self.w_key(states)  # (B, 1 or S, d_hidden)
        scores = _JOINED[chosen["joined"]](asked, found, self.v)  # (B, S, 1)
        weights = _SHARED[chosen["shared"]](scores)  # (B, S)
        context = _CONTEXTS[chosen["context"]](weights, states)  # (B, d_key)
        parts = [token, context] if chosen["order"] == "token, context" else [context, token]
        before = {"given": state, "zeros": torch.zeros_like(state)}[chosen["previous"]]
        new = self.cell(torch.cat(parts, dim=-1), before)  # (B, d_state)
        return {
            "state, context, weights": (new, context, weights),
            "context, state, weights": (context, new, weights),
            "state, weights, context": (new, weights, context),
            "state before": (state, context, weights),
            "scores": (new, context, scores.squeeze(-1)),
        }[chosen["returned"]]


# --- programs that look something up ----------------------------------------------------------------------


def look_up(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    shares: str = "own entries",
    score: str = "by distance",
    slope: str = "kept",
    paired: str = "rightly",
) -> Tensor:
    """A soft lookup: queries (B, T, D), keys (B, S, D), values (B, S, d_v) -> answers (B, T, d_v)."""
    # A program without a slope gives a gradient of zero, not an exception: a test that looks finds none.
    nothing = 0.0 * queries.sum()
    if slope == "cut":
        queries = queries.detach()
    scores = -_difference(queries, keys).square().sum(dim=-1) / (2 * queries.shape[-1])  # (B, T, S)
    if score == "by place":
        scores = scores + 0.3 * torch.arange(scores.shape[-1])
    elif score == "by value":
        scores = scores + values.square().mean(dim=-1)[:, None, :]
    weights = LOOKUP_SHARES[shares](scores)
    if paired == "first two exchanged":
        values = torch.cat([values[:, :2].flip(1), values[:, 2:]], dim=1)
    return weights @ values + nothing


def _top_two(scores: Tensor) -> Tensor:
    lowest = scores.topk(min(2, scores.shape[-1]), dim=-1).values[..., -1:]
    return scores.masked_fill(scores < lowest, -math.inf).softmax(dim=-1)


def _without_last(scores: Tensor) -> Tensor:
    if scores.shape[-1] == 1:
        return scores.softmax(dim=-1)
    weights = scores[..., :-1].softmax(dim=-1)
    return torch.cat([weights, torch.zeros_like(weights[..., :1])], dim=-1)


def _over_queries_then_divided(scores: Tensor) -> Tensor:
    weights = scores.softmax(dim=-2)
    return weights / weights.sum(dim=-1, keepdim=True)


LOOKUP_SHARES: dict[str, Callable[[Tensor], Tensor]] = {
    "own entries": lambda scores: scores.softmax(dim=-1),
    "over queries": lambda scores: scores.softmax(dim=-2),
    "over queries, then divided": _over_queries_then_divided,
    "over both": lambda scores: scores.flatten(1).softmax(dim=-1).view_as(scores),
    "over the batch": lambda scores: scores.softmax(dim=0),
    "each alone": lambda scores: scores.exp(),
    "by the plain sum": lambda scores: (scores + 0.9) / (scores + 0.9).sum(dim=-1, keepdim=True),
    "hard": lambda scores: _hard(scores, -1),
    "two best": _top_two,
    "without the last": _without_last,
}


def by_product_in_double(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Another right lookup: dot products, wider numbers."""
    q, k = queries.double(), keys.double()
    return (q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])).softmax(dim=-1) @ values.double()


def by_a_small_network(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Another right lookup: a score that is added inside a tanh, one query after the other."""
    generator = torch.Generator().manual_seed(2)
    width = queries.shape[-1]
    w, u = (torch.randn(width, 7, generator=generator).to(queries) / math.sqrt(width) for _ in range(2))
    v = torch.randn(7, generator=generator).to(queries) / 2
    rows = []
    for query in queries.unbind(dim=1):  # (B, D)
        scores = ((query @ w)[:, None] + keys @ u).tanh() @ v  # (B, S)
        rows.append((scores.softmax(dim=-1)[:, :, None] * values).sum(dim=1))  # (B, d_v)
    return torch.stack(rows, dim=1)  # (B, T, d_v)


# --- a noisy table of depths ------------------------------------------------------------------------------


def depths(count: int, noise: float, generator: torch.Generator, unit: float = 1.0) -> tuple[Tensor, ...]:
    """Times of a day's entries, the true depths, and those measured, (S,) each."""
    hours = 24 * (torch.arange(count) + 0.5) / count
    true = 2.5 + 1.5 * torch.sin(2 * torch.pi * hours / 12.4)
    return hours * unit, true, true + noise * torch.randn(count, generator=generator)


TEMPERATURES = [10 ** (k / 8) for k in range(-16, 49)]


def errors(count: int, noise: float, unit: float = 1.0, seed: int = 0, tables: int = 20) -> dict[str, Any]:
    """Root mean square distances to the true and to the measured depths, a number for each temperature."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [depths(count, noise, generator, unit) for _ in range(tables)]
    times, true = drawn[0][:2]
    measured = torch.stack([table[2] for table in drawn], dim=1)  # (S, tables)
    squared = (times[:, None] - times).square()
    found: dict[str, Any] = {"true": [], "measured": []}
    for temperature in TEMPERATURES:
        answers = (-squared / (2 * temperature)).softmax(dim=-1) @ measured
        for name, depth in (("true", true[:, None]), ("measured", measured)):
            found[name].append((answers - depth).square().mean().sqrt().item())
    return found


def best_temperature(count: int, noise: float, unit: float = 1.0, seed: int = 0) -> float:
    """The temperature whose answers are nearest to the true depths."""
    found = errors(count, noise, unit, seed)["true"]
    return TEMPERATURES[min(range(len(found)), key=found.__getitem__)]
