"""Lesson 5, several heads: the exercises' tasks, cases and known mistakes."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from ..engine import (
    Call,
    Failed,
    FunctionTask,
    ModuleTask,
    ValueTask,
    expect_close,
    expect_pair,
    expect_tensor,
    normal,
)
from . import guesses, references, shape_mistakes
from . import mistakes as known
from .inputs import matrices_and_heads, parameters, random_mask, sequences, theirs, torch_inputs
from .looks import PARTS, expect_both, expect_training
from .refusals import expect_refusal, told, unequal

__all__ = ["FINDINGS", "GROUPED", "LIKE_TORCH", "MERGE", "PREDICTION", "REPAIR", "SPLIT"]

# --- split and merge --------------------------------------------------------------------------------------


def _observe(answer: Any, *args: Any, refused: tuple[int, int] | None = None) -> Any:
    """What is returned, or how it is refused: mistakes with axes and sizes show in their errors alone."""
    if refused:
        return told(lambda: answer(*args), refused)
    try:
        return answer(*args)
    except Exception as error:
        return type(error).__name__


SPLIT = FunctionTask(
    "multi_head.split_heads",
    "Split into heads",
    references.split_heads,
    probes=lambda g: [
        (normal(g, 2, 5, 12), 3),
        (normal(g, 5, 12), 3),
        (normal(g, 2, 7, 5, 12), 3),
        Call(normal(g, 2, 5, 10), 4, refused=(10, 4)),
    ],
    observe=_observe,
    mistakes=shape_mistakes.SPLIT,
)


@SPLIT.case("the axes: heads, positions, width of a head", 1)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(normal(g, 2, 5, 12), 3), (2, 3, 5, 4), "the heads")


@SPLIT.case("each head holds its columns of every token", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for num_heads in (3, 4):
        x = normal(g, 2, 5, 12)
        expect_close(answer(x, num_heads), references.split_heads(x, num_heads), "the heads")


@SPLIT.case("any number of axes before the positions", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for lead, dtype in (((), torch.float32), ((2, 7), torch.float32), ((2, 1, 3), torch.float64)):
        x = normal(g, *lead, 5, 12, dtype=dtype)
        expect_close(answer(x, 3), references.split_heads(x, 3), "the heads")


@SPLIT.case("refuses a width that cannot be shared out, and names both numbers", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for width, num_heads in ((10, 4), (7, 12)):
        call = functools.partial(answer, normal(g, 2, 5, width), num_heads)
        expect_refusal(call, (width, num_heads), f"width {width}, {num_heads} heads")
    for width, num_heads in unequal(g):
        if told(functools.partial(answer, normal(g, 2, 5, width), num_heads), (0, 0))[0] != "ValueError":
            raise Failed("a ValueError is wanted for other widths, too, that cannot be shared out")


@SPLIT.case("one head, heads of width one, another number type", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for num_heads in (1, 6):
        x = normal(g, 3, 6, 4, dtype=torch.float64).transpose(-1, -2)  # (3, 4, 6), walked in another order
        expect_close(answer(x, num_heads), references.split_heads(x, num_heads), "the heads")
    for width, num_heads in unequal(g):
        call = functools.partial(answer, normal(g, 2, 5, width), num_heads)
        expect_refusal(call, (width, num_heads), f"width {width}, {num_heads} heads")


MERGE = FunctionTask(
    "multi_head.merge_heads",
    "Merge the heads",
    references.merge_heads,
    probes=lambda g: [(normal(g, 2, 3, 5, 4),), (normal(g, 3, 5, 4),), (normal(g, 2, 7, 3, 5, 4),)],
    observe=_observe,
    mistakes=shape_mistakes.MERGE,
)


@MERGE.case("the axes: positions, width of a token", 1)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(normal(g, 2, 3, 5, 4)), (2, 5, 12), "the tokens")


@MERGE.case("the heads stand side by side in every token", 2)
def _(answer: Any, g: torch.Generator) -> None:
    heads = normal(g, 2, 3, 5, 4)
    expect_close(answer(heads), references.merge_heads(heads), "the tokens")


@MERGE.case("any number of axes before the heads", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for lead, dtype in (((), torch.float32), ((2, 7), torch.float32), ((2, 1, 3), torch.float64)):
        heads = normal(g, *lead, 3, 5, 4, dtype=dtype)
        expect_close(answer(heads), references.merge_heads(heads), "the tokens")


@MERGE.case("undoes a split", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for num_heads in (1, 2, 6):
        x = normal(g, 3, 4, 6, dtype=torch.float64)
        expect_close(answer(references.split_heads(x, num_heads)), x, "the tokens")


# --- predict, then test -----------------------------------------------------------------------------------

PREDICTION = ValueTask(
    "multi_head.prediction",
    "Predict, then test",
    guesses.PREDICTED,
    kind="predict",
    points=7,
    wrong=guesses.WRONGLY_PREDICTED,
)

# --- with torch's weights ---------------------------------------------------------------------------------


def _torch_probes(g: torch.Generator) -> list[Any]:
    return [torch_inputs(g, batch_first=first) for first in (True, False)]


LIKE_TORCH = FunctionTask(
    "multi_head.like_torch",
    "PyTorch's weights in your hands",
    references.like_torch,
    probes=_torch_probes,
    mistakes=known.TORCH,
)


@LIKE_TORCH.case("returns output and weights in their shapes", 1)
def _(answer: Any, g: torch.Generator) -> None:
    output, weights = expect_pair(answer(*torch_inputs(g, batch_first=True)), PARTS)
    expect_tensor(output, (2, 5, 12), "the output")
    expect_tensor(weights, (2, 3, 5, 5), "the weights")


@LIKE_TORCH.case("batch first: the weights of each head", 2)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = torch_inputs(g, batch_first=True)
    expect_close(expect_pair(answer(*inputs), PARTS)[1], theirs(*inputs)[1], "the weights")


@LIKE_TORCH.case("batch first: the output", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for B, T in ((2, 5), (7, 4)):
        inputs = torch_inputs(g, B=B, T=T, batch_first=True)
        expect_close(expect_pair(answer(*inputs), PARTS)[0], theirs(*inputs)[0], "the output")


@LIKE_TORCH.case("time first, which is PyTorch's default", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for B, T in ((2, 5), (7, 4)):
        state, num_heads, x, _first = torch_inputs(g, B=B, T=T, batch_first=False)
        expect_both(answer(state, num_heads, x), theirs(state, num_heads, x, False))


@LIKE_TORCH.case("other sizes, as many sequences as positions", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for d_model, num_heads, length in ((8, 1, 3), (10, 5, 4), (6, 2, 1)):
        for first in (True, False):
            inputs = torch_inputs(g, d_model, num_heads, length, length, batch_first=first)
            expect_both(answer(*inputs), theirs(*inputs))


# --- grouped heads ----------------------------------------------------------------------------------------

SIZES = {"d_model": 18, "num_heads": 6, "num_kv_heads": 2}


def _grouped_probes(g: torch.Generator) -> list[Any]:
    weights = parameters(g, SIZES)
    return [
        Call(SIZES, weights, *sequences(g)),
        Call(SIZES, weights, *sequences(g), random_mask(g, empty=False)),
        Call(SIZES, weights, *sequences(g), random_mask(g, empty=True)),
        Call({"d_model": 10, "num_heads": 4, "num_kv_heads": 2}, refused=(10, 4)),
        Call({"d_model": 18, "num_heads": 6, "num_kv_heads": 4}, refused=(6, 4)),
    ]


def _observe_grouped(answer: Any, sizes: Any, *args: Any, refused: tuple[int, int] | None = None) -> Any:
    return told(lambda: answer.build(sizes), refused) if refused else answer(sizes, *args)


GROUPED = ModuleTask(
    "multi_head.GroupedQueryAttention",
    "Grouped heads",
    references.GroupedQueryAttention,
    probes=_grouped_probes,
    observe=_observe_grouped,
    mistakes=known.GROUPED,
)


def _right(*inputs: Any) -> tuple[Tensor, Tensor]:
    output, weights = GROUPED.adapt(references.GroupedQueryAttention)(*inputs)
    return output, weights


@GROUPED.case("returns output and weights in their shapes", 1)
def _(answer: Any, g: torch.Generator) -> None:
    output, weights = expect_pair(answer(SIZES, parameters(g, SIZES), *sequences(g)), PARTS)
    expect_tensor(output, (5, 4, 18), "the output")
    expect_tensor(weights, (5, 6, 4, 7), "the weights")


@GROUPED.case("the weights: each answering head serves its group", 2)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = (SIZES, parameters(g, SIZES), *sequences(g))
    expect_close(expect_pair(answer(*inputs), PARTS)[1], _right(*inputs)[1], "the weights")


@GROUPED.case("the output", 2)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = (SIZES, parameters(g, SIZES), *sequences(g))
    expect_close(expect_pair(answer(*inputs), PARTS)[0], _right(*inputs)[0], "the output")


@GROUPED.case("a mask hides keys, and may hide all of them", 1)
def _(answer: Any, g: torch.Generator) -> None:
    weights, (query, key, value), mask = parameters(g, SIZES), sequences(g), random_mask(g, empty=True)
    inputs = (SIZES, weights, query, key, value, mask)
    expect_both(answer(*inputs), _right(*inputs))
    # Scores far below zero: a number that is merely low hides nothing.
    loud = (SIZES, weights, 6.5 * query, 6.5 * key, value, mask)
    expect_both(answer(*loud), _right(*loud), " where scores are large", absolute=1e-3)


@GROUPED.case("one head answers all, or as many answer as ask", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for num_kv_heads, B in ((1, 5), (6, 1)):
        sizes = {**SIZES, "num_kv_heads": num_kv_heads}
        inputs = (sizes, parameters(g, sizes), *sequences(g, B))
        expect_both(answer(*inputs), _right(*inputs))


@GROUPED.case("in training the same, and its gradients are right", 1)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = (*sequences(g), random_mask(g, empty=True))
    expect_training(answer, SIZES, parameters(g, SIZES), inputs)


@GROUPED.case("refuses numbers that do not divide each other, and names both", 2)
def _(answer: Any, g: torch.Generator) -> None:
    sizes = {"d_model": 10, "num_heads": 4, "num_kv_heads": 2}
    expect_refusal(lambda: answer.build(sizes), (10, 4), "width 10, 4 heads")
    sizes = {"d_model": 18, "num_heads": 6, "num_kv_heads": 4}
    expect_refusal(lambda: answer.build(sizes), (6, 4), "6 heads ask, 4 answer")


@GROUPED.case("other sizes, a single query, a mask", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for d_model, num_heads, num_kv_heads in ((8, 4, 2), (12, 12, 3), (6, 2, 2)):
        sizes = {"d_model": d_model, "num_heads": num_heads, "num_kv_heads": num_kv_heads}
        for T in (1, 3):
            given = (sizes, parameters(g, sizes), *sequences(g, T, T, 5, d_model))
            inputs = (*given, random_mask(g, T, 5, empty=T > 1))
            expect_both(answer(*inputs), _right(*inputs))


# --- repair -----------------------------------------------------------------------------------------------


REPAIR = FunctionTask(
    "multi_head.multi_head",
    "The program that trains anyway",
    references.multi_head,
    kind="repair",
    probes=lambda g: [matrices_and_heads(g), matrices_and_heads(g, B=3, T=4, d_model=10, num_heads=5)],
    untouched=("axis_queries", "merge_view"),
    mistakes=known.REPAIR,
)


@REPAIR.case("the shape of the output", 0)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(*matrices_and_heads(g)), (2, 5, 12), "the output")


@REPAIR.case("where all tokens and heads hand over the same, that is the output", 1)
def _(answer: Any, g: torch.Generator) -> None:
    x, w_q, w_k, w_v, w_o, num_heads = matrices_and_heads(g)
    x[..., 0], w_v[1:] = 1.0, 0.0
    w_v[0] = normal(g, 4).repeat(num_heads)  # the same four numbers in each head
    expect_close(answer(x, w_q, w_k, w_v, w_o, num_heads), x @ w_v @ w_o, "the output")


@REPAIR.case("where all scores are alike, the output comes from the mean of the values", 1)
def _(answer: Any, g: torch.Generator) -> None:
    x, w_q, w_k, w_v, w_o, num_heads = matrices_and_heads(g)
    mean = (x @ w_v).mean(dim=1, keepdim=True).expand_as(x)
    expect_close(answer(x, 0 * w_q, w_k, w_v, w_o, num_heads), mean @ w_o, "the output")


@REPAIR.case("the output", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for B in (2, 1):
        inputs = matrices_and_heads(g, B=B)
        expect_close(answer(*inputs), references.multi_head(*inputs), "the output")


@REPAIR.case("other sizes", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for d_model, num_heads in ((6, 1), (8, 8), (15, 3)):
        inputs = matrices_and_heads(g, 3, 4, d_model, num_heads)
        expect_close(answer(*inputs), references.multi_head(*inputs), "the output")


# --- explore ----------------------------------------------------------------------------------------------

FINDINGS = ValueTask(
    "multi_head.findings",
    "Switch heads off",
    guesses.FOUND,
    kind="explore",
    points=4,
    wrong=guesses.WRONGLY_FOUND,
)
