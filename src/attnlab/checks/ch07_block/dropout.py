"""See where a block's dropout acts, whatever order its random numbers are drawn in.

With four numbers to a token, there are sixteen ways to drop some of them. If each token's output is what the
reference gives for one of the sixteen, dropped at one place, then this is where dropout acts.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..answers import Answer
from ..compare import expect_tensor
from ..modules import ModuleAnswer, load
from .references import Block

SHARE = 0.25
SIZES = {"d_model": 4, "num_heads": 1, "d_ff": 3}
DROPPING: dict[str, Any] = {**SIZES, "dropout": SHARE}

_SILENT = {"attention": "feed_forward.w_2", "network": "self_attention.w_o"}  # of the other part
_LEFT = 1 / (1 - SHARE)
# Name, place in the block, what the numbers that are kept are multiplied by.
_HYPOTHESES = (
    ("f", "f", _LEFT),
    ("f, not rescaled", "f", 1.0),
    ("read", "read", _LEFT),
    ("inside alone", "inside alone", _LEFT),
    ("inside", "inside", _LEFT),
    ("sum", "sum", _LEFT),
)


class Dropping(NamedTuple):
    """What dropout does around each of the two parts, in words."""

    attention: str
    network: str


def where_it_drops(
    answer: ModuleAnswer,
    norm_at: str,
    weights: Mapping[str, Tensor],
    x: Tensor,
    *,
    training: bool,
) -> Dropping:
    """How a block treats single tokens ``x`` (B, 1, 4): "nothing", a place, or "elsewhere"."""
    return Dropping(*(_around(answer, norm_at, part, weights, x, training=training) for part in _SILENT))


def _around(
    answer: ModuleAnswer, norm_at: str, part: str, weights: Mapping[str, Tensor], x: Tensor, *, training: bool
) -> str:
    weights = {
        name: torch.zeros_like(tensor) if name.startswith(_SILENT[part]) else tensor
        for name, tensor in weights.items()
    }
    resting = _output(answer(SIZES, weights, x), x)
    module = answer.build(DROPPING)
    load(module, weights)
    output = _output(Answer(module.train(training))(x), x)
    if torch.allclose(output, resting, atol=1e-5, rtol=1e-4):
        return "nothing"
    for name, place, level in _HYPOTHESES:
        patterns = _explained(norm_at, part, weights, x, output, place, level)
        if patterns is not None:
            return name if patterns > 2 or place.startswith("inside") else "whole vectors"
    return "elsewhere"


def _output(value: Any, x: Tensor) -> Tensor:
    return expect_tensor(value, tuple(x.shape), "the output")


def _explained(
    norm_at: str,
    part: str,
    weights: Mapping[str, Tensor],
    x: Tensor,
    output: Tensor,
    place: str,
    level: float,
) -> int | None:
    """How many ways of dropping explain all tokens of the output; None where they do not."""
    inner, here, there = _ways(part, place, level)
    tokens = x.shape[0]
    inner, here, there = (way.repeat_interleave(tokens, dim=0)[:, None] for way in (inner, here, there))
    block = Block(**SIZES, norm_at=norm_at)  # type: ignore[arg-type]
    load(block, weights)
    attention, network = block.self_attention, block.feed_forward

    def given_by(which: str, read: Tensor, mask: Tensor | None) -> Tensor:
        # A token alone attends to itself, with one head and the weight 1: attention is two matrices.
        if which == "attention":
            return attention.w_o(attention.w_v(read) * (inner if part == which else 1.0))  # type: ignore[no-any-return]
        inside = network.w_1(read).relu() * (inner if part == which else 1.0)
        return network.w_2(inside)  # type: ignore[no-any-return]

    def drop(tensor: Tensor, at: str, around: str) -> Tensor:
        outer = "f" if place == "inside" else place
        if at != outer or (at != "sum" and around != part):
            return tensor
        return tensor * (here if around == part else there)  # (P * B, 1, 4)

    block.drop, block.given_by = drop, given_by  # type: ignore[method-assign, assignment]
    with torch.no_grad():
        candidates = block.eval()(x.repeat(len(here) // tokens, 1, 1)).view(-1, *x.shape)
    off = (candidates - output).abs().amax(dim=(2, 3))  # (P, B)
    best = off.min(dim=0)
    if bool((best.values > 1e-4).any()):
        return None
    return len(set(best.indices.tolist()))


def _ways(part: str, place: str, level: float) -> tuple[Tensor, Tensor, Tensor]:
    """Factors inside the part (P, 1 or 3), around it (P, 4) and around the other part (P, 4): all ways."""

    def choices(size: int) -> list[Tensor]:
        return [level * torch.tensor(way) for way in itertools.product((0.0, 1.0), repeat=size)]

    size = 1 if part == "attention" else SIZES["d_ff"]
    whole = [torch.ones(4)]
    inner = choices(size) if place.startswith("inside") else [torch.ones(size)]
    here = whole if place == "inside alone" else choices(4)
    there = choices(4) if place == "sum" else whole  # a sum is dropped at the silent part too
    ways = list(itertools.product(inner, here, there))
    first, second, third = (torch.stack(column) for column in zip(*ways, strict=True))
    return first, second, third
