"""Lesson 8, encoder and decoder: the exercises' tasks, cases and known mistakes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..engine import (
    Failed,
    FunctionTask,
    JudgeTask,
    Mistake,
    NothingYet,
    ValueTask,
    expect_close,
    expect_tensor,
    normal,
)
from . import decoder, references, shift, values
from . import loss_mistakes as known
from .machine_parts import VOCABULARY, Parts, make_parts

DECODER_LAYER, TRAINING_PAIR = decoder.DECODER_LAYER, shift.TRAINING_PAIR

# --- predict, then test -----------------------------------------------------------------------------------

PREDICTION = ValueTask(
    "encoder_decoder.prediction",
    "Predict, then test",
    values.prediction,
    kind="predict",
    points=7,
    wrong=values.PREDICTION_WRONG,
)

# --- repair -----------------------------------------------------------------------------------------------


class _LossTask(FunctionTask):
    """A program with three planted faults: all are looked for, and two with another in the third's place."""

    def combinations(self) -> Iterator[tuple[Mistake, ...]]:
        """Single mistakes and pairs as ever, then threes that begin with planted faults."""
        yield from super().combinations()
        planted = tuple(mistake for mistake in self.mistakes if mistake.key in self.untouched)
        yield planted
        for left in itertools.combinations(planted, 2):
            switches = left[0].switches.keys() | left[1].switches.keys()
            for other in self.mistakes:
                if other not in planted and not other.switches.keys() & switches:
                    yield *left, other


def _loss_probes(g: torch.Generator) -> list[Any]:
    return [
        tuple(make_parts(g, S=6, T=6)),
        tuple(make_parts(g, S=7, T=7, pad=0)),
        tuple(make_parts(g, S=7, T=5)),
    ]


def _loss(value: Any) -> Tensor:
    if value is None or value is Ellipsis:
        raise NothingYet("nothing was returned; is a return missing?")
    return expect_tensor(value, (), "the loss")


TRAINING_LOSS = _LossTask(
    "encoder_decoder.training_loss",
    "Repair: a mask and a target",
    references.training_loss,
    kind="repair",
    probes=_loss_probes,
    untouched=("targets_mask", "shifted_twice", "diluted"),
    mistakes=known.TRAINING_LOSS,
)


def _expect_loss(answer: Any, parts: Parts, **tolerance: float) -> None:
    expect_close(_loss(answer(*parts)), references.training_loss(*parts).detach(), "the loss", **tolerance)


def _slope(program: Any, parts: Parts, logits: Tensor) -> Tensor:
    """The gradient of the loss at the logits (B, T, V): a loss is there to be followed back."""
    said = logits.clone().requires_grad_()
    loss = program(*parts.saying(said))
    _loss(loss)
    slopes = torch.autograd.grad(loss, said, allow_unused=True) if loss.requires_grad else (None,)
    if slopes[0] is None:
        raise Failed("no gradient comes back from the loss")
    return slopes[0]


@TRAINING_LOSS.case("one number", 0)
def _(answer: Any, g: torch.Generator) -> None:
    _loss(answer(*make_parts(g, S=6, T=6)))


@TRAINING_LOSS.case("a decoder that is sure of the next token has no loss", 1)
def _(answer: Any, g: torch.Generator) -> None:
    parts = make_parts(g, S=6, T=6)
    for ahead, no_loss in ((1, True), (0, False), (2, False)):
        told = F.pad(parts.rows, (0, 1), value=parts.pad)[:, ahead : ahead + 6]  # (B, T)
        logits = 50.0 * F.one_hot(told, VOCABULARY)  # (B, T, V)
        loss = float(_loss(answer(*parts.saying(logits))))
        if (loss < 1e-6) is not no_loss:
            raise Failed(
                "a decoder that is sure of the next token has a loss"
                if no_loss
                else "a decoder that is sure of a wrong token has none"
            )


@TRAINING_LOSS.case("the mean goes over the real tokens", 1)
def _(answer: Any, g: torch.Generator) -> None:
    parts = make_parts(g, S=6, T=6)
    logits = normal(g, 3, 6, VOCABULARY)
    _expect_loss(answer, parts.saying(logits))
    wanted = _slope(references.training_loss, parts, logits)
    expect_close(_slope(answer, parts, logits), wanted, "the gradient of the logits")


@TRAINING_LOSS.case("what stands at the source's padding changes nothing", 1)
def _(answer: Any, g: torch.Generator) -> None:
    parts = make_parts(g, S=6, T=6)
    before, after = _loss(answer(*parts)), _loss(answer(*parts.with_other_padding()))
    expect_close(after, before, "the loss with other padding")


@TRAINING_LOSS.case("the loss", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for S, T in ((6, 6), (7, 5)):
        _expect_loss(answer, make_parts(g, S=S, T=T))


@TRAINING_LOSS.case("other sizes, padding numbered 0", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for S, T in ((8, 8), (4, 9), (9, 4)):
        _expect_loss(answer, make_parts(g, S=S, T=T, pad=0))


# --- a test -----------------------------------------------------------------------------------------------


def _judge_rows(g: torch.Generator) -> tuple[Tensor, Tensor, int]:
    rows = torch.stack([3 + torch.randperm(6, generator=g)[:6] for _ in range(3)])  # (B, T + 1)
    rows[:, 0] = 1
    for row, end in zip(rows, (2, 5, 3), strict=True):
        row[end], row[end + 1 :] = 2, 9
    rows[1, 3] = 0  # a word like any other, unless 0 is taken for padding
    return normal(g, 3, 5, 10), rows, 9


def _good_test(program: Any) -> None:
    logits, rows, pad = _judge_rows(torch.Generator().manual_seed(1))
    labels = rows[:, 1:]
    right = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=pad)
    assert abs(float(program(logits, rows, pad)) - float(right)) < 1e-4, "another loss"


def _in_double(logits: Tensor, rows: Tensor, pad: int) -> Tensor:
    return references.token_loss(logits.double(), rows, pad)


def _word_by_word(logits: Tensor, rows: Tensor, pad: int) -> Tensor:
    losses = [
        logits[b, t].logsumexp(dim=-1) - logits[b, t, int(rows[b, t + 1])]
        for b in range(logits.shape[0])
        for t in range(logits.shape[1])
        if rows[b, t + 1] != pad
    ]
    return torch.stack(losses).mean()


def _by_library(logits: Tensor, rows: Tensor, pad: int) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), rows[:, 1:], ignore_index=pad)


TEST_TOKEN_LOSS = JudgeTask(
    "encoder_decoder.test_token_loss",
    "A test that finds a wrong shift",
    reference=references.token_loss,
    probes=lambda g: [_judge_rows(g)],
    example=_good_test,
    also_right=[_in_double, _word_by_word, _by_library],
    points=5,
    mistakes=known.TOKEN_LOSS,
)

# --- read the map -----------------------------------------------------------------------------------------

FINDINGS = ValueTask(
    "encoder_decoder.findings",
    "Read the map",
    values.found,
    kind="explore",
    points=5,
    wrong=values.FOUND_WRONG,
)
