"""Lesson 9, translation: the exercises' tasks and cases. The mini-project is in ``project``."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attnlab.tasks import BOS, EOS, PAD

from ..answers import Answer
from ..engine import (
    Choice,
    Failed,
    JudgeTask,
    ModuleTask,
    Near,
    ValueTask,
    expect_close,
    expect_tensor,
    normal,
)
from . import inputs, loop, mistakes, references, search_mistakes
from .kinds import LoopTask, SearchTask
from .project import define_project

# The first optimizer of a process loads large parts of PyTorch, more than a second's work. It is made here,
# before the time of a check begins to count, so that the answer's own training loop does not pay for it.
torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])

__all__ = ["BEAM_SEARCH", "PROJECT", "SEARCHES", "SMOOTHED_LOSS", "TEST_GREEDY", "TRAIN"]

# --- predict, then test -----------------------------------------------------------------------------------

TEXTS = ("E", "A B E", "C E")

SEARCHES = ValueTask(
    "translation.searches",
    "Predict, then test: three searches",
    {
        "greedy": Choice("E", options=TEXTS),
        "beam of 2, by probability": Choice("E", options=TEXTS),
        "beam of 2, by the mean": Choice("A B E", options=TEXTS),
        "the same, but it stops when one text has ended": Choice("E", options=TEXTS),
        "score of A B E, by the mean": Near(math.log(0.4) / 3, absolute=0.006),
        "P(A) below which E wins by the mean": Near(0.125, absolute=0.006),
    },
    kind="predict",
    points=6,
    wrong=search_mistakes.SEARCHES,
)

# --- beam search ------------------------------------------------------------------------------------------


def _known_language(number: int, *, ends: float) -> references.NextLogProbs:
    return inputs.language(torch.Generator().manual_seed(number), ends=ends)


def _beam_probes(g: torch.Generator) -> list[Any]:
    # The first three were found by search: on them all mistakes differ, whatever else is drawn.
    return [
        (_known_language(25, ends=-1.0), 3, 4, 2.0),
        (_known_language(10, ends=-1.5), 2, 5, 0.7),
        (_known_language(287, ends=-0.5), 3, 6, 2.0),
        (inputs.two_words(g), 2, 5, 1.0),
        (inputs.language(g, ends=0.5), 2, 7, 0.5),
        (inputs.language(g, ends=-60.0), 3, 4, 1.0),
        (inputs.crowded(g), 2, 5, 1.0),
    ]


BEAM_SEARCH = SearchTask(
    "translation.beam_search",
    "Beam search",
    references.beam_search,
    probes=_beam_probes,
    mistakes=search_mistakes.BEAM_SEARCH,
)


def _expect_text(answer: Any, *inputs: Any) -> None:
    tokens, score = answer(*inputs)
    wanted, best = references.beam_search(*inputs)
    if tokens != wanted:
        length = f"it has {len(tokens)} tokens where {len(wanted)} are right"
        raise Failed(
            f"this is another text: {length if len(tokens) != len(wanted) else 'some token differs'}"
        )
    expect_close(torch.tensor(score), torch.tensor(best), "the score")


@BEAM_SEARCH.case("the model of exercise 1, by probability and by the mean", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for penalty in (0.0, 1.0):
        _expect_text(answer, inputs.two_words(g), 2, 5, penalty)


@BEAM_SEARCH.case("a beam of 1 is greedy search", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for _ in range(3):
        _expect_text(answer, inputs.language(g), 1, 6, 0.0)


@BEAM_SEARCH.case("wider beams, by probability", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_text(answer, inputs.late(g), 2, 5, 0.0)
    for size in (2, 3, 4):
        _expect_text(answer, inputs.language(g, ends=0.5), size, 6, 0.0)


@BEAM_SEARCH.case("with a length penalty", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_text(answer, inputs.crowded(g), 2, 5, 1.0)
    for size, penalty in ((2, 1.0), (3, 0.5), (4, 2.0)):
        _expect_text(answer, inputs.language(g, ends=0.5), size, 6, penalty)
    _expect_text(answer, inputs.language(g, ends=0.5, V=11), 3, 6, 1.0)


@BEAM_SEARCH.case("texts that the limit cuts off", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for ends, penalty in ((-1.5, 1.0), (-60.0, 0.0), (-60.0, 1.0), (0.0, 0.5)):
        _expect_text(answer, inputs.language(g, ends=ends), 3, 3, penalty)


@BEAM_SEARCH.case("more beams than tokens, and a limit of one token", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_text(answer, inputs.language(g), 9, 4, 1.0)
    _expect_text(answer, inputs.two_words(g), 5, 4, 1.0)
    _expect_text(answer, inputs.language(g, ends=1.0), 2, 1, 1.0)


# --- a test of greedy decoding ----------------------------------------------------------------------------


def _greedy_probes(g: torch.Generator) -> list[Any]:
    padding_first = inputs.table(g, [4, 5, EOS], [3, EOS])
    padding_first[:, :, [PAD, BOS]] += 8.0
    return [
        (inputs.table(g, [3, 4, 5, EOS, 6], [4, EOS, 6], [5, 6, EOS, 3]), 6),
        (inputs.table(g, [3, 4, 5, 6, 3], [4, EOS, 5]), 4),
        (padding_first, 5),
    ]


def _good_test(greedy: Any) -> None:
    g = torch.Generator().manual_seed(0)
    for table, limit in _greedy_probes(g):
        wanted = references.greedy(table, limit)
        given = greedy(table, limit)
        assert given.shape == wanted.shape and bool((given == wanted).all())


def _row_by_row(table: Tensor, max_length: int) -> Tensor:
    rows = [references.greedy(each[None], max_length)[0] for each in table]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def _in_double(table: Tensor, max_length: int) -> Tensor:
    return references.greedy(table.double().log_softmax(dim=-1), max_length)


TEST_GREEDY = JudgeTask(
    "translation.test_greedy",
    "A test for greedy decoding",
    reference=references.greedy,
    probes=_greedy_probes,
    example=_good_test,
    also_right=[_row_by_row, _in_double],
    points=5,
    mistakes=search_mistakes.TEST_GREEDY,
)

# --- label smoothing --------------------------------------------------------------------------------------


def _loss_probes(g: torch.Generator) -> list[Any]:
    never = inputs.batch(g, 3, 5)
    never[0][..., 0] = -math.inf
    return [
        ({"smoothing": 0.1, "pad": 0}, {}, *inputs.batch(g, 3, 5)),
        ({"smoothing": 0.4, "pad": 4}, {}, *inputs.batch(g, 4, 3, pad=4, classes=7)),
        ({"smoothing": 0.3, "pad": 0}, {}, *never),
        ({"smoothing": 0.3, "pad": 0}, {}, normal(g, 2, 3, 6), torch.zeros(2, 3, dtype=torch.int64)),
        ({"smoothing": 0.2, "pad": 0}, {}, 60 * normal(g, 2, 3, 6), torch.randint(1, 6, (2, 3), generator=g)),
    ]


def _observe_loss(answer: Any, sizes: Any, weights: Any, logits: Tensor, targets: Tensor) -> Any:
    return _loss_of(answer, sizes, logits, targets)


def _loss_of(answer: Any, sizes: Any, logits: Tensor, targets: Tensor) -> Any:
    """What the loss gives. No weights are loaded: what the module keeps in buffers is its own affair."""
    return Answer(answer.build(sizes).eval())(logits, targets)


SMOOTHED_LOSS = ModuleTask(
    "translation.SmoothedLoss",
    "Label smoothing that knows padding",
    references.SmoothedLoss,
    probes=_loss_probes,
    observe=_observe_loss,
    mistakes=mistakes.SMOOTHED_LOSS,
)


def _expect_loss(answer: Any, smoothing: float, pad: int, logits: Tensor, targets: Tensor) -> None:
    given = _loss_of(answer, {"smoothing": smoothing, "pad": pad}, logits, targets)
    loss = expect_tensor(given, (), "the loss")
    expect_close(loss, references.SmoothedLoss(smoothing, pad)(logits, targets), "the loss")


@SMOOTHED_LOSS.case("without padding", 2)
def _(answer: Any, g: torch.Generator) -> None:
    targets = torch.randint(1, 8, (3, 5), generator=g)
    for smoothing in (0.0, 0.1, 0.4):
        _expect_loss(answer, smoothing, 0, 1.5 * normal(g, 3, 5, 8), targets)
    _expect_loss(answer, 0.2, 0, 60 * normal(g, 3, 5, 8), targets)  # a model that is sure, and wrong


@SMOOTHED_LOSS.case("with padding, whatever its number", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for pad in (0, 5):
        _expect_loss(answer, 0.2, pad, *inputs.batch(g, 4, 6, pad=pad))


@SMOOTHED_LOSS.case("padding changes nothing", 1)
def _(answer: Any, g: torch.Generator) -> None:
    logits, targets = inputs.batch(g, 4, 6)
    real = targets != PAD
    sizes = {"smoothing": 0.2, "pad": PAD}
    given = _loss_of(answer, sizes, logits[real], targets[real])
    alone = expect_tensor(given, (), "the loss of the real tokens")
    expect_close(_loss_of(answer, sizes, logits, targets), alone, "the loss with padding")


@SMOOTHED_LOSS.case("nothing but padding costs 0", 1)
def _(answer: Any, g: torch.Generator) -> None:
    loss, gradient = _with_gradient(answer, 0.1, 2 * normal(g, 2, 3, 6), torch.zeros(2, 3, dtype=torch.int64))
    expect_close(loss, torch.tensor(0.0), "the loss")
    expect_close(gradient, torch.zeros(2, 3, 6), "its gradient")


@SMOOTHED_LOSS.case("padding may be impossible, and gradients stay finite", 2)
def _(answer: Any, g: torch.Generator) -> None:
    logits, targets = inputs.batch(g, 3, 5)
    logits[..., PAD] = -math.inf
    loss, gradient = _with_gradient(answer, 0.3, logits, targets)
    wanted = _with_gradient(SMOOTHED_LOSS.adapt(references.SmoothedLoss), 0.3, logits, targets)
    expect_close(loss, wanted[0], "the loss")
    expect_close(gradient, wanted[1], "its gradient")


@SMOOTHED_LOSS.case("one row of tokens, other sizes", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_loss(answer, 0.25, 3, 2 * normal(g, 7, 12), torch.tensor([1, 2, 3, 11, 3, 0, 5]))
    _expect_loss(answer, 0.9, 0, normal(g, 2, 3, 4, 5), torch.randint(5, (2, 3, 4), generator=g))


def _with_gradient(answer: Any, smoothing: float, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The loss and the gradient at the logits."""
    module = answer.build({"smoothing": smoothing, "pad": PAD})
    logits = logits.clone().requires_grad_()
    loss = module(logits, targets.clone())
    expect_tensor(loss, (), "the loss")
    if not loss.requires_grad:
        raise Failed("no gradient reaches the logits")
    (gradient,) = torch.autograd.grad(loss, logits, allow_unused=True)
    if gradient is None:
        raise Failed("no gradient reaches the logits")
    return loss.detach(), gradient


# --- the training loop ------------------------------------------------------------------------------------


SETTINGS = (0.05, 0.5, 3)  # learning rate, largest norm of the gradient, steps of warm-up
CLIPPED_AT_TIMES = (0.1, 2.5, 2)

TRAIN = LoopTask(
    "translation.train",
    "Repair a training loop",
    loop.train,
    kind="repair",
    probes=lambda g: [(*inputs.training(g, 7, 9, 6), *SETTINGS)],
    untouched=("reads_the_answer", "padding_counted", "clipped_too_late"),
    absolute=2e-4,
    relative=1e-3,
    mistakes=mistakes.TRAIN,
)


def _trained(answer: Any, *inputs: Any) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    return answer(*inputs), TRAIN.adapt(loop.train)(*inputs)


@TRAIN.case("the loss of the first step, without padding", 1)
def _(answer: Any, g: torch.Generator) -> None:
    given, wanted = _trained(answer, *inputs.training(g, 7, padded=False), *SETTINGS)
    expect_close(given[0], wanted[0], "the loss")


@TRAIN.case("the loss of the first step, with padding", 1)
def _(answer: Any, g: torch.Generator) -> None:
    given, wanted = _trained(answer, *inputs.training(g, 8), *SETTINGS)
    expect_close(given[0], wanted[0], "the loss")


@TRAIN.case("the losses of the steps after it", 2)
def _(answer: Any, g: torch.Generator) -> None:
    given, wanted = _trained(answer, *inputs.training(g, 7, 9, 6, 8), *SETTINGS)
    expect_close(given[0], wanted[0], "the losses", absolute=2e-4, relative=1e-3)
    # Above, every gradient is longer than clip, and this optimizer does not care for a factor of them all.
    # Here some are longer and some are not.
    given, wanted = _trained(answer, *inputs.training(g, 7, 9, 6, 8, 7, 9), *CLIPPED_AT_TIMES)
    expect_close(given[0], wanted[0], "the losses", absolute=2e-3, relative=0.0)


@TRAIN.case("what the trained model says", 1)
def _(answer: Any, g: torch.Generator) -> None:
    given, wanted = _trained(answer, *inputs.training(g, 6, 8, 7, 9, 6), *SETTINGS)
    expect_close(given[1], wanted[1], "the logits", absolute=5e-3, relative=1e-2)


@TRAIN.case("other settings, one batch alone", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for lengths, settings in (((7,), (0.1, 5.0, 1)), ((6, 9, 9, 7, 6), (0.02, 0.1, 5))):
        given, wanted = _trained(answer, *inputs.training(g, *lengths), *settings)
        expect_close(given[0], wanted[0], "the losses", absolute=2e-4, relative=1e-3)


# --- the mini-project -------------------------------------------------------------------------------------

PROJECT = define_project()
