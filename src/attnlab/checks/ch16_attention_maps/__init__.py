"""Lesson 16, attention maps: the exercises' tasks, cases and known mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnlab.attention import masked_softmax

from ..engine import FunctionTask, ValueTask, expect_close, expect_tensor, normal
from . import guesses, references
from . import mistakes as known

__all__ = ["CLAIMS", "PREDICTION", "REMOVAL", "ROLLOUT", "SINK"]

# --- rollout ----------------------------------------------------------------------------------------------


def _maps(g: torch.Generator, L: int = 3, B: int = 2, H: int = 5, T: int = 4) -> Tensor:
    """Rows of weights that are far from even and from sure, ``(L, B, H, T, T)``; no mask."""
    return (1.5 * normal(g, L, B, H, T, T)).softmax(dim=-1)


PREDICTION = ValueTask(
    "attention_maps.prediction",
    "Predict, then test",
    guesses.PREDICTED,
    kind="predict",
    points=6,
    wrong=guesses.WRONG_PREDICTIONS,
)

ROLLOUT = FunctionTask(
    "attention_maps.rollout",
    "Attention rollout",
    references.rollout,
    probes=lambda g: [(_maps(g),), (_maps(g, L=2, B=1, H=3, T=6),), (_maps(g, L=1),)],
    mistakes=known.ROLLOUT,
)


@ROLLOUT.case("one map for each text", 1)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(_maps(g)), (2, 4, 4), "the rollout")


@ROLLOUT.case("one layer: half its map, half the identity", 1)
def _(answer: Any, g: torch.Generator) -> None:
    maps = _maps(g, L=1)
    expect_close(answer(maps), references.rollout(maps), "the rollout")


@ROLLOUT.case("every row sums to one", 1)
def _(answer: Any, g: torch.Generator) -> None:
    flow = expect_tensor(answer(_maps(g)), (2, 4, 4), "the rollout")
    expect_close(flow.sum(dim=-1), torch.ones(2, 4), "the row sums")


@ROLLOUT.case("three layers", 2)
def _(answer: Any, g: torch.Generator) -> None:
    maps = _maps(g)
    expect_close(answer(maps), references.rollout(maps), "the rollout")


@ROLLOUT.case("other sizes, float64, a causal mask", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    scores = normal(g, 4, 1, 2, 7, 7, dtype=torch.float64)
    maps = masked_softmax(scores, torch.ones(7, 7, dtype=torch.bool).tril())
    expect_close(answer(maps), references.rollout(maps), "the rollout")


# --- the effect of removing a token -----------------------------------------------------------------------


def _model(g: torch.Generator, V: int = 6, d: int = 4) -> Callable[[Tensor, Tensor], Tensor]:
    """A small model with one head, called with tokens (B, T) and a mask (T, T); gives logits (B, T, V)."""
    table, w_q, w_k, w_v = normal(g, V, d), normal(g, d, d), normal(g, d, d), normal(g, d, V)

    def predict(tokens: Tensor, mask: Tensor) -> Tensor:
        x = table[tokens]  # (B, T, d)
        weights = masked_softmax((x @ w_q) @ (x @ w_k).transpose(-2, -1) / d, mask)  # (B, T, T)
        return weights @ x @ w_v + (weights @ x).mean(dim=-1, keepdim=True)  # (B, T, V)

    return predict


def _reading(g: torch.Generator, B: int = 2, T: int = 5) -> tuple[Callable[..., Tensor], Tensor]:
    return _model(g), torch.randint(6, (B, T), generator=g)


REMOVAL = FunctionTask(
    "attention_maps.removal_effects",
    "What is missed when it is gone",
    references.removal_effects,
    probes=lambda g: [_reading(g), _reading(g, B=1, T=3)],
    mistakes=known.REMOVAL,
)


@REMOVAL.case("one number for each query and each removed key", 1)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(*_reading(g)), (2, 5, 5), "the effects")


@REMOVAL.case("a later token has no effect", 1)
def _(answer: Any, g: torch.Generator) -> None:
    effects = expect_tensor(answer(*_reading(g)), (2, 5, 5), "the effects")
    expect_close(effects.triu(1), torch.zeros(2, 5, 5), "the effects of later tokens")


@REMOVAL.case("a token does not change its own row", 1)
def _(answer: Any, g: torch.Generator) -> None:
    effects = expect_tensor(answer(*_reading(g)), (2, 5, 5), "the effects")
    expect_close(effects.diagonal(dim1=-2, dim2=-1), torch.zeros(2, 5), "the effect on itself")


@REMOVAL.case("the effects", 3)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _reading(g)
    expect_close(answer(*inputs), references.removal_effects(*inputs), "the effects")


@REMOVAL.case("other sizes", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for size in ((3, 7), (1, 2)):
        inputs = _reading(g, *size)
        expect_close(answer(*inputs), references.removal_effects(*inputs), "the effects")


# --- values -----------------------------------------------------------------------------------------------

SINK = ValueTask(
    "attention_maps.sink",
    "Find the sink",
    guesses.found_sink,
    kind="measure",
    points=4,
    wrong=guesses.WRONG_SINKS,
)

CLAIMS = ValueTask(
    "attention_maps.claims",
    "Refute what a map seems to say",
    guesses.measured_claims,
    kind="explore",
    points=5,
    wrong=guesses.WRONG_CLAIMS,
)
