"""Lesson 14, silent bugs: the exercises' tasks, cases and known mistakes."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..engine import (
    Choice,
    FunctionTask,
    JudgeTask,
    Near,
    ValueTask,
    expect_close,
    expect_tensor,
)
from . import inputs, mistakes, references
from .judging import OTHERS, a_right_test, judge_probes
from .kinds import ThreeBugsTask

__all__ = ["BATCH_LOSS", "FINDINGS", "LOSS", "MOVES", "PREDICTION", "TEST_ATTENTION"]

# --- predict, then test -------------------------------------------------------------------------------------

PREDICTION = ValueTask(
    "silent_bugs.prediction",
    "Predict, then test",
    {
        mistakes.COUNTS: Near(1.5, absolute=0.005),
        mistakes.MEANS: Near(2.0, absolute=0.005),
        mistakes.PADDED: Near(1.25, absolute=0.005),
        mistakes.PAIR: Near(1 / (1 + math.exp(-2)), absolute=0.002),
        mistakes.PLACES: Near(1),
        mistakes.AHEAD: Near(2),
        mistakes.FINDER: Choice("rows sum to one", options=mistakes.FINDERS),
    },
    kind="predict",
    points=7,
    wrong=mistakes.PREDICTION,
)

# --- the loss of micro-batches ------------------------------------------------------------------------------


def _loss_probes(g: torch.Generator) -> list[Any]:
    return [
        (inputs.three_pieces(g), 0),
        (inputs.three_pieces(g, pad=4), 4),
        (inputs.three_pieces(g, pad=-100), -100),
        ([inputs.nothing(g)], 0),
    ]


LOSS = FunctionTask(
    "silent_bugs.loss_of_pieces",
    "The loss of micro-batches",
    references.loss_of_pieces,
    probes=_loss_probes,
    mistakes=mistakes.LOSS,
)


def _expect_loss(answer: Any, pieces: list[inputs.Piece], pad: int) -> None:
    loss = expect_tensor(answer(pieces, pad), (), "the loss")
    expect_close(loss, references.loss_of_pieces(pieces, pad), "the loss")


@LOSS.case("one piece without padding", 1)
def _(answer: Any, g: torch.Generator) -> None:
    logits, labels = inputs.piece(g, 1, 5)
    _expect_loss(answer, [(logits, labels)], 0)


@LOSS.case("one piece with padding, whatever its number", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for pad in (0, 4, -100):
        _expect_loss(answer, [inputs.piece(g, 4, 5, pad=pad)], pad)


@LOSS.case("pieces of unequal size", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for pad in (0, 3):
        _expect_loss(answer, inputs.three_pieces(g, pad=pad), pad)


@LOSS.case("the loss of the whole batch, wherever it is cut", 1)
def _(answer: Any, g: torch.Generator) -> None:
    logits, labels = inputs.piece(g, 4, 5)
    whole = references.loss_of_pieces([(logits, labels)], 0)
    for cut in (1, 2, 3):
        pieces = [(logits[:cut], labels[:cut]), (logits[cut:], labels[cut:])]
        loss = expect_tensor(answer(pieces, 0), (), "the loss")
        expect_close(loss, whole, f"the loss, cut after {cut} rows")


@LOSS.case("a piece of nothing but padding, alone and among others", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_loss(answer, [inputs.nothing(g)], 0)
    _expect_loss(answer, [inputs.nothing(g), inputs.piece(g, 3, 4)], 0)


@LOSS.case("many pieces of one row", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    logits, labels = inputs.piece(g, 6, 7, pad=5, classes=9)
    _expect_loss(answer, [(logits[i : i + 1], labels[i : i + 1]) for i in range(6)], 5)


# --- what Adam does with gradients --------------------------------------------------------------------------


def _moves_probes(g: torch.Generator) -> list[Any]:
    return [
        (inputs.gradients(g, 9, long=4), 0.1, 1.0, 0),
        (inputs.gradients(g, 12, long=2), 2.0, 0.3, 5),
        ([0.2, -0.1, 0.3, 0.05], 1.0, 10.0, 3),
    ]


MOVES = FunctionTask(
    "silent_bugs.adam_moves",
    "What Adam does with a gradient",
    references.adam_moves,
    probes=_moves_probes,
    mistakes=mistakes.MOVES,
    absolute=1e-4,
    relative=1e-3,
)


def _expect_moves(answer: Any, *arguments: Any) -> None:
    moves = expect_tensor(answer(*arguments), (len(arguments[0]),), "the moves")
    expect_close(moves, references.adam_moves(*arguments), "the moves", absolute=1e-4, relative=1e-3)


@MOVES.case("the first step moves by the whole rate", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for gradient in (0.001, -0.4, 0.9):
        _expect_moves(answer, [gradient], 0.5, 1.0, 0)


@MOVES.case("the steps after it", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_moves(answer, inputs.gradients(g, 8), 0.1, 100.0, 0)


@MOVES.case("with warm-up", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for warmup in (1, 4, 20):
        _expect_moves(answer, inputs.gradients(g, 8), 2.0, 100.0, warmup)


@MOVES.case("with clipping and a spoilt gradient", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for clip in (0.3, 1.0):
        _expect_moves(answer, inputs.gradients(g, 10, long=3), 0.1, clip, 0)


@MOVES.case("all together, over many steps", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_moves(answer, inputs.gradients(g, 60, long=30), 0.7, 0.8, 13)


# --- explore ------------------------------------------------------------------------------------------------


def small_moves(times: float, clip: float, steps: int = 800) -> int:
    """How many of Adam's moves are below half a rate, where the gradient of step 60 is so much longer."""
    gradients = [times if step == 60 else 1.0 for step in range(1, steps + 1)]
    return int((references.adam_moves(gradients, 1.0, clip, 0).abs() < 0.5).sum())


FINDINGS = ValueTask(
    "silent_bugs.findings",
    "What a spoilt batch leaves behind",
    lambda: {
        mistakes.STEPS: Near(small_moves(1e3, math.inf), absolute=12),
        mistakes.LONGER: Near(small_moves(1e4, math.inf), absolute=12),
        mistakes.STEPS_CLIPPED: Near(small_moves(1e3, 1.0)),
        mistakes.FIRST: Near(-references.adam_moves([0.001], 1.0, 1.0, 0).item(), absolute=0.01),
    },
    kind="explore",
    points=4,
    wrong=mistakes.FINDINGS,
)

# --- a test that finds the bugs -----------------------------------------------------------------------------

TEST_ATTENTION = JudgeTask(
    "silent_bugs.test_attention",
    "A test that finds twelve bugs",
    reference=references.attend,
    probes=judge_probes,
    example=a_right_test,
    also_right=OTHERS,
    points=6,
    mistakes=mistakes.MUTANTS,
)

# --- repair -------------------------------------------------------------------------------------------------


def _program_probes(g: torch.Generator) -> list[Any]:
    return [
        (inputs.translator(g), inputs.pairs(g, [(2, 3), (3, 5)]), 2),
        (inputs.translator(g), inputs.pairs(g, [(4, 4), (2, 2), (1, 6)]), 4),
    ]


BATCH_LOSS = ThreeBugsTask(
    "silent_bugs.batch_loss",
    "Repair a program with three bugs",
    references.batch_loss,
    kind="repair",
    probes=_program_probes,
    untouched=("one_ahead", "along_batch", "mean_of_means"),
    mistakes=mistakes.PROGRAM,
)


def _expect_batch_loss(answer: Any, *arguments: Any) -> None:
    loss = expect_tensor(answer(*arguments), (), "the loss")
    expect_close(loss, references.batch_loss(*arguments), "the loss")


@BATCH_LOSS.case("the loss is one number", 0)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(inputs.translator(g), inputs.pairs(g, [(2, 3)]), 2), (), "the loss")


@BATCH_LOSS.case("one piece of one sequence", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_batch_loss(answer, inputs.translator(g), inputs.pairs(g, [(1, 5)]), 2)


@BATCH_LOSS.case("one piece of several sequences", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for heads in (2, 4):
        _expect_batch_loss(answer, inputs.translator(g), inputs.pairs(g, [(4, 5)]), heads)


@BATCH_LOSS.case("several pieces", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_batch_loss(answer, inputs.translator(g), inputs.pairs(g, [(2, 3), (3, 6), (1, 2)]), 2)


@BATCH_LOSS.case("the loss of the whole batch, wherever it is cut", 1)
def _(answer: Any, g: torch.Generator) -> None:
    weights, ((source, target),) = inputs.translator(g), inputs.pairs(g, [(4, 5)])
    whole = references.batch_loss(weights, [(source, target)], 2)
    for cut in (1, 3):
        pieces = [(source[:cut], target[:cut]), (source[cut:], target[cut:])]
        loss = expect_tensor(answer(weights, pieces, 2), (), "the loss")
        expect_close(loss, whole, f"the loss, cut after {cut} rows")


@BATCH_LOSS.case("other sizes, a single head", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for heads in (1, 8):
        _expect_batch_loss(answer, inputs.translator(g), inputs.pairs(g, [(5, 4), (1, 1), (2, 7)]), heads)
