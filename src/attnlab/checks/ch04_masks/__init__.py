"""Lesson 4, masks: the exercises' tasks, cases and known mistakes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..answers import Answer
from ..engine import (
    Failed,
    FunctionTask,
    JudgeTask,
    ValueTask,
    expect_close,
    expect_tensor,
    normal,
)
from . import asked, judging, mistakes, programs, references
from .kinds import MASKS, expect_same_mask, output_and_gradients, spread_masks

# --- each mask of a translator ----------------------------------------------------------------------------


def _shuffled(g: torch.Generator, *numbers: int) -> Tensor:
    return torch.tensor(numbers)[torch.randperm(len(numbers), generator=g)]


def _translation(
    g: torch.Generator, num_queries: int = 4, start: int = 1, *, padded: bool = True
) -> tuple[Any, ...]:
    """Lengths, sizes and start. All sizes differ, and so do the two lengths of each pair."""
    source, target = _shuffled(g, 2, 4, 8), _shuffled(g, 1, 3, 5)
    if not padded:
        target = torch.full_like(target, 6)
    return source, target, 8, 6, num_queries, start


def _shapes(arguments: tuple[Any, ...]) -> list[tuple[int, ...]]:
    source, _target, num_source, num_target, num_queries = arguments[:5]
    batch = len(source)
    return [
        (batch, num_source, num_source),
        (batch, num_queries, num_target),
        (batch, num_queries, num_source),
    ]


def _expect_mask(answer: Any, which: int, *arguments: Any, called: str = "") -> None:
    given = spread_masks(answer(*arguments), _shapes(arguments))[which]
    name = f"the {MASKS[which]} mask{called}"
    expect_same_mask(given, references.translator_masks(*arguments)[which], name)


TRANSLATOR_MASKS = FunctionTask(
    "masks.translator_masks",
    "The three masks of a translator",
    references.translator_masks,
    probes=lambda g: [
        _translation(g, 6, 0),
        _translation(g),
        _translation(g, 2, 3),
        _translation(g, 2, 1, padded=False),
    ],
    observe=lambda answer, *arguments: spread_masks(answer(*arguments), _shapes(arguments)),
    mistakes=mistakes.MASKS,
)


@TRANSLATOR_MASKS.case("encoder: the padding of the source is hidden, and nothing else", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_mask(answer, 0, *_translation(g))


@TRANSLATOR_MASKS.case("cross: the padding of the source is hidden, and nothing else", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_mask(answer, 2, *_translation(g))


@TRANSLATOR_MASKS.case("decoder: the whole target at once, without padding", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_mask(answer, 1, *_translation(g, 6, 0, padded=False))


@TRANSLATOR_MASKS.case("decoder: a few positions from the middle, without padding", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for num_queries, start in ((2, 1), (3, 3), (1, 4)):
        _expect_mask(answer, 1, *_translation(g, num_queries, start, padded=False))


@TRANSLATOR_MASKS.case("decoder: with padding", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for num_queries, start in ((6, 0), (4, 1), (2, 3)):
        _expect_mask(answer, 1, *_translation(g, num_queries, start))
    without_start = _translation(g, 3, 0)[:-1]
    _expect_mask(answer, 1, *without_start, called=", where no start is given")


@TRANSLATOR_MASKS.case("an empty source, an empty target, one query alone", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    arguments = (_shuffled(g, 0, 5), _shuffled(g, 0, 3), 5, 7, 1, 4)
    for which in range(3):
        _expect_mask(answer, which, *arguments)


# --- predict, then test -----------------------------------------------------------------------------------


PREDICTION = ValueTask(
    "masks.prediction",
    "Predict, then test",
    asked.predictions,
    kind="predict",
    points=7,
    wrong=asked.PREDICTIONS,
)

# --- repair -----------------------------------------------------------------------------------------------


def _attend_inputs(
    g: torch.Generator, *, empty: bool, dtype: torch.dtype = torch.float32, T: int = 4, S: int = 6
) -> tuple[Tensor, ...]:
    """Query, key, value and two masks; all scores lie near -20, as far below zero as half precision minds.

    With ``empty``, the first query comes before all keys and the last sequence has no real token. In the
    second one padding stands in front, where only both masks together leave the second query without a key.
    """
    batch, width, d_v = 3, 5, 2
    query, key = normal(g, batch, T, width), normal(g, batch, S, width)
    query[..., 0], key[..., 0] = 7.0, -6.5
    value = normal(g, batch, S, d_v) + 1.5
    causal = torch.ones(T, S, dtype=torch.bool).tril(-1 if empty else S - T)
    lengths = torch.tensor([S - 1, S, 0] if empty else [S - 1, 2, S - 2])
    padding = torch.arange(S) < lengths[:, None, None]  # (B, 1, S)
    if empty:
        padding[1, :, :2] = False
    return query.to(dtype), key.to(dtype), value.to(dtype), causal, padding


def _low_scores(g: torch.Generator) -> tuple[Tensor, ...]:
    """Scores near -20 000, which float32 holds exactly: no number that somebody chose is below them."""
    query = torch.randint(-2, 3, (2, 3, 4), generator=g).float()
    key = torch.randint(-2, 3, (2, 5, 4), generator=g).float()
    query[..., 0], key[..., 0] = 200.0, -200.0
    causal = torch.ones(3, 5, dtype=torch.bool).tril(2)
    return query, key, normal(g, 2, 5, 6) + 1.5, causal, torch.arange(5) < torch.tensor([[[4]], [[2]]])


def _attend_probes(g: torch.Generator) -> list[Any]:
    return [
        _attend_inputs(g, empty=False),
        _attend_inputs(g, empty=True),
        _attend_inputs(g, empty=True, dtype=torch.float16),
        (*(1.5 * normal(g, 2, n, w) for n, w in ((3, 4), (5, 4), (5, 2))), *_attend_masks()),
    ]


def _attend_masks() -> tuple[Tensor, Tensor]:
    """Causal (3, 5) with an empty row, and padding (2, 1, 5)."""
    causal = torch.ones(3, 5, dtype=torch.bool).tril(-1)
    return causal, torch.arange(5) < torch.tensor([[[4]], [[1]]])


_HALF = 0.1

ATTEND = FunctionTask(
    "masks.attend",
    "Repair a program that hides its NaN",
    references.attend,
    kind="repair",
    probes=_attend_probes,
    observe=output_and_gradients,
    untouched=("joined_or", "lowest_added_cleaned"),
    mistakes=mistakes.ATTEND,
    absolute=_HALF,
)


def _expect_output(answer: Any, arguments: tuple[Tensor, ...], single: float = 1e-5) -> None:
    query, key, value, causal, padding = arguments
    wanted = references.attend(query.float(), key.float(), value.float(), causal, padding)
    output = expect_tensor(answer(*arguments), wanted.shape, "the output", dtype=query.dtype)
    # Half precision holds a score near -20 to one part in a thousand, and so a weight to two in a hundred.
    allowed = _HALF if query.dtype == torch.float16 else single
    expect_close(output.float(), wanted, "the output", absolute=allowed)


def _expect_finite(answer: Any, arguments: tuple[Tensor, ...]) -> None:
    _expect_output(answer, arguments)
    *inputs, causal, padding = arguments
    wanted = Answer(references.attend).gradients(*(each.float() for each in inputs), causal, padding)
    for name, gradient, right in zip(
        ("query", "key", "value"), answer.gradients(*arguments), wanted, strict=True
    ):
        if gradient is None:
            raise Failed(f"no gradient reaches the {name}")
        if not gradient.isfinite().all():
            raise Failed(f"the gradient of the {name} holds NaN or infinity")
        if gradient.dtype == torch.float32 and right is not None:
            expect_close(gradient, right, f"the gradient of the {name}", absolute=1e-3, relative=1e-3)


@ATTEND.case("what either mask hides is hidden", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_output(answer, _attend_inputs(g, empty=False))
    _expect_output(answer, _low_scores(g), single=_HALF)


@ATTEND.case("a query that may attend to nothing gets zeros", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_output(answer, _attend_inputs(g, empty=True))


@ATTEND.case("its gradients are finite, and right", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_finite(answer, _attend_inputs(g, empty=True))


@ATTEND.case("all of this in half precision, too", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for empty in (False, True):
        _expect_finite(answer, _attend_inputs(g, empty=empty, dtype=torch.float16))


@ATTEND.case("other sizes, one query alone", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for T, S in ((1, 3), (7, 5)):
        for dtype in (torch.float32, torch.float16):
            _expect_finite(answer, _attend_inputs(g, empty=True, dtype=dtype, T=T, S=S))


# --- which outputs depend on which inputs -----------------------------------------------------------------


_WEAK = 1e-12


def _programs(g: torch.Generator) -> list[Any]:
    x = normal(g, 2, 5, 3)
    return [
        (programs.mixture(programs.links(g, 3, 5), programs.readout(g)), x),
        (programs.balanced(programs.links(g, 3, 5), programs.readout(g)), x),
        (programs.shares(programs.links(g, 3, 5)), x),
        (programs.hands(programs.links(g, 3, 5)), x),
        (programs.differences(programs.links(g, 3, 5)), x),
        (programs.signed(programs.links(g, 3, 5)), x),
        (programs.second_number(programs.links(g, 3, 5)), x),
        (programs.negative(programs.links(g, 3, 5), 1.0), x),
        (programs.negative(programs.links(g, 3, 5), _WEAK), x),
        (programs.own_links(programs.only_second(g)), x),
    ]


DEPENDENCIES = FunctionTask(
    "masks.dependencies",
    "Who depends on whom",
    references.dependencies,
    probes=_programs,
    mistakes=mistakes.DEPENDENCIES,
)


def _expect_table(answer: Any, function: programs.Program, x: Tensor, wanted: Tensor) -> None:
    table = expect_tensor(answer(function, x), wanted.shape, "the table", dtype=torch.bool)
    expect_same_mask(table, wanted, "the table")


@DEPENDENCIES.case("mixtures whose links are known", 2)
def _(answer: Any, g: torch.Generator) -> None:
    links, x = programs.links(g, 3, 5), normal(g, 2, 5, 3)
    _expect_table(answer, programs.mixture(links, programs.readout(g)), x, links != 0)
    _expect_table(answer, programs.second_number(links), x, links != 0)


@DEPENDENCIES.case("causal attention", 1)
def _(answer: Any, g: torch.Generator) -> None:
    wanted = torch.ones(4, 6, dtype=torch.bool).tril(2)
    _expect_table(answer, programs.causal_attention(4), normal(g, 2, 6, 3), wanted)


@DEPENDENCIES.case("numbers that balance each other", 2)
def _(answer: Any, g: torch.Generator) -> None:
    links, x = programs.links(g, 3, 5), normal(g, 2, 5, 3)
    _expect_table(answer, programs.balanced(links, programs.readout(g)), x, links != 0)
    _expect_table(answer, programs.shares(links), x, links != 0)
    _expect_table(answer, programs.hands(links), x, links != 0)
    _expect_table(answer, programs.differences(links), x, links != 0)


@DEPENDENCIES.case("negative links and weak ones", 1)
def _(answer: Any, g: torch.Generator) -> None:
    links, x = programs.links(g, 3, 5), normal(g, 2, 5, 3)
    for size in (1.0, _WEAK):
        _expect_table(answer, programs.negative(links, size), x, links != 0)


@DEPENDENCIES.case("links of one sequence alone", 1)
def _(answer: Any, g: torch.Generator) -> None:
    links, x = programs.only_second(g), normal(g, 2, 5, 3)
    _expect_table(answer, programs.own_links(links), x, (links != 0).any(dim=0))
    _expect_table(answer, programs.signed(links[0]), x, links[0] != 0)


@DEPENDENCIES.case("outputs that depend on nothing", 1)
def _(answer: Any, g: torch.Generator) -> None:
    x, links = normal(g, 2, 5, 3), programs.links(g, 3, 5)
    links[1] = 0.0
    _expect_table(answer, lambda x: torch.cat([links[:1] @ x, torch.ones(2, 2, 3)], dim=1), x, _rows(links))
    nothing, own = torch.zeros(4, 5, dtype=torch.bool), normal(g, 1, 4, 3).requires_grad_()
    _expect_table(answer, lambda x: torch.ones(2, 4, 3), x, nothing)
    _expect_table(answer, lambda x: torch.tanh(own).expand(2, 4, 3), x, nothing)  # a parameter of its own


def _rows(links: Tensor) -> Tensor:
    wanted = links != 0
    wanted[1:] = False
    return wanted


@DEPENDENCIES.case("more outputs than inputs, double precision", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    links = programs.links(g, 7, 4).double()
    x = normal(g, 3, 4, 2, dtype=torch.float64)
    _expect_table(answer, programs.own_links(links), x, links != 0)


# --- explore ----------------------------------------------------------------------------------------------

REACH = ValueTask(
    "masks.reach", "How far a stack sees", asked.findings, kind="explore", points=5, wrong=asked.REACH
)

# --- a test that finds the leak ---------------------------------------------------------------------------


TEST_MASKING = JudgeTask(
    "masks.test_masking",
    "A test that finds the leak",
    reference=references.padded_attention,
    probes=judging.padded_batches,
    example=judging.good_test,
    also_right=[judging.in_double, judging.place_by_place, judging.other_attention],
    points=6,
    mistakes=mistakes.MASKING_BUGS,
)
