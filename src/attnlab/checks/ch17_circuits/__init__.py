"""Lesson 17, circuits: the exercises' tasks, cases and known mistakes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attnlab.attention import causal_mask

from ..engine import (
    Choice,
    Failed,
    FunctionTask,
    Near,
    ValueTask,
    expect_close,
    expect_pair,
    expect_tensor,
    expect_tuple,
    normal,
)
from . import mistakes as known
from . import references

__all__ = ["ABLATE", "COMPARE", "DETECT", "PATCH", "PREDICTION"]

# --- detectors --------------------------------------------------------------------------------------------

SCORES = ("the previous-token score", "the induction score")


def _maps(g: torch.Generator, B: int = 3, H: int = 2, T: int = 9, symbols: int = 4) -> tuple[Tensor, Tensor]:
    """Causal maps ``(B, H, T, T)`` that do not saturate, and tokens that repeat, some more than once."""
    scores = (1.5 * normal(g, B, H, T, T)).masked_fill(~causal_mask(T), -torch.inf)
    tokens = torch.randint(symbols, (B, T), generator=g)
    tokens[0, -3:] = torch.tensor([0, 1, 0])
    tokens[0, 2], tokens[0, 4] = 0, 0  # the last one has three earlier copies
    return scores.softmax(dim=-1), tokens


DETECT = FunctionTask(
    "circuits.detect",
    "Two detectors",
    references.detect,
    probes=lambda g: [_maps(g), _maps(g, B=2, H=5, T=7, symbols=3)],
    mistakes=known.DETECT,
)


@DETECT.case("returns one number a head, twice", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for name, score in zip(SCORES, expect_pair(answer(*_maps(g)), SCORES), strict=True):
        expect_tensor(score, (2,), name)


@DETECT.case("the previous-token score", 2)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _maps(g)
    expect_close(expect_pair(answer(*inputs), SCORES)[0], references.detect(*inputs)[0], SCORES[0])


@DETECT.case("the induction score", 2)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _maps(g)
    expect_close(expect_pair(answer(*inputs), SCORES)[1], references.detect(*inputs)[1], SCORES[1])


@DETECT.case("a perfect head of each kind scores 1", 1)
def _(answer: Any, g: torch.Generator) -> None:
    period = torch.randperm(11, generator=g)[:5]
    first, second, _ = references.circuit(period.repeat(3), 11, beta=200.0)
    maps = torch.stack([first, second])[None]  # (1, 2, T, T)
    previous, induction = expect_pair(answer(maps, period.repeat(3)[None]), SCORES)
    expect_close(previous[0], torch.tensor(1.0), "the previous-token score of a perfect head")
    expect_close(induction[1], torch.tensor(1.0), "the induction score of a perfect head")


@DETECT.case("where no token repeats, the induction score is 0", 1)
def _(answer: Any, g: torch.Generator) -> None:
    maps, _ = _maps(g)
    score = expect_pair(answer(maps, torch.arange(9).expand(3, 9)), SCORES)[1]
    expect_close(score, torch.zeros(2), "the induction score")


@DETECT.case("other sizes", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for B, H, T, symbols in ((1, 1, 12, 3), (4, 3, 8, 2), (2, 6, 5, 5)):
        inputs = _maps(g, B, H, T, symbols)
        for name, given, wanted in zip(
            SCORES, expect_pair(answer(*inputs), SCORES), references.detect(*inputs), strict=True
        ):
            expect_close(given, wanted, name)


# --- ablation ---------------------------------------------------------------------------------------------


def _heads(g: torch.Generator, B: int = 2, H: int = 3, T: int = 5, D: int = 4) -> tuple[Tensor, Tensor]:
    return normal(g, B, H, T, D) + normal(g, H, 1, D), normal(g, H * D, H * D) / (H * D) ** 0.5


ABLATE = FunctionTask(
    "circuits.ablate",
    "Switch heads off",
    references.ablate,
    probes=lambda g: [(*_heads(g), [1]), (*_heads(g, B=4, H=4, T=3, D=5), [0, 2])],
    mistakes=known.ABLATE,
)


@ABLATE.case("the shape of the output", 0)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(*_heads(g), [1]), (2, 5, 12), "the output")


@ABLATE.case("with nothing removed: merge and mix", 1)
def _(answer: Any, g: torch.Generator) -> None:
    nothing: list[int] = []
    inputs = (*_heads(g), nothing)
    expect_close(answer(*inputs), references.ablate(*inputs), "the output")


@ABLATE.case("one head removed", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for head in (0, 1, 2):
        inputs = (*_heads(g), [head])
        expect_close(answer(*inputs), references.ablate(*inputs), f"the output without head {head}")


@ABLATE.case("several heads removed", 1)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = (*_heads(g, B=4, H=5, T=3, D=2), [0, 3])
    expect_close(answer(*inputs), references.ablate(*inputs), "the output")


@ABLATE.case("other sizes, all heads removed", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for B, H, T, D, removed in ((1, 1, 4, 3, [0]), (3, 2, 6, 5, [0, 1]), (2, 6, 3, 2, [5, 1])):
        inputs = (*_heads(g, B, H, T, D), removed)
        expect_close(answer(*inputs), references.ablate(*inputs), "the output")


# --- predict, then test -----------------------------------------------------------------------------------

WAYS = ("falls", "stays", "rises")

PREDICTION = ValueTask(
    "circuits.prediction",
    "Predict, then test",
    {
        known.STRIPE: Near(5, relative=0.01),
        known.NO_PREVIOUS: Choice("falls", options=WAYS),
        known.NO_INDUCTION: Choice("stays", options=WAYS),
        known.NEW_SYMBOLS: Choice("right", options=("right", "wrong")),
        known.ONE_OF_TWO: Choice("halves", options=("halves", "stays", "is gone")),
        known.FIRST_COPY: Choice("few", options=("few", "most")),
    },
    kind="predict",
    points=6,
    wrong=known.WRONG,
)

# --- repair -----------------------------------------------------------------------------------------------


def _runs(
    g: torch.Generator, B: int = 4, H: int = 3, T: int = 6, D: int = 2, head: int = 1
) -> tuple[Any, ...]:
    """Two runs, a head, and a position for each string: all different, none of them the first."""
    positions = torch.randperm(T - 1, generator=g)[:B] + 1
    return normal(g, B, H, T, D), normal(g, B, H, T, D), head, positions


PATCH = FunctionTask(
    "circuits.patch",
    "Repair a patch",
    references.patch,
    kind="repair",
    probes=lambda g: [_runs(g), _runs(g, B=3, H=4, T=7, D=3, head=2)],
    untouched=("crossed", "reversed"),
    mistakes=known.PATCH,
)


@PATCH.case("the shape of the result", 0)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(*_runs(g)), (4, 3, 6, 2), "the patched heads")


@PATCH.case("each string is patched at its own position", 2)
def _(answer: Any, g: torch.Generator) -> None:
    heads, clean, head, positions = _runs(g)
    wanted = references.patch(heads, clean, head, positions)
    expect_close(answer(heads, clean, head, positions), wanted, "the patched heads")


@PATCH.case("with one string: the clean run goes into the other", 1)
def _(answer: Any, g: torch.Generator) -> None:
    heads, clean, head, positions = _runs(g, B=1)
    wanted = references.patch(heads, clean, head, positions)
    expect_close(answer(heads, clean, head, positions), wanted, "the patched heads")


@PATCH.case("one vector of each string comes from the other run than the rest", 1)
def _(answer: Any, g: torch.Generator) -> None:
    heads, clean, head, positions = _runs(g)
    given = expect_tensor(answer(heads, clean, head, positions), (4, 3, 6, 2), "the patched heads")
    for run in (heads, clean):
        if ((given - run).abs().amax(dim=-1) < 1e-6).sum(dim=(1, 2)).tolist() == [1] * 4:
            return
    raise Failed("in some string it is not exactly one position of one head")


@PATCH.case("other sizes, equal positions", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for B, H, T, D, head in ((1, 1, 2, 3, 0), (3, 5, 8, 2, 4)):
        heads, clean, _, positions = _runs(g, B, H, T, D, head)
        for at in (positions, torch.zeros_like(positions)):
            wanted = references.patch(heads, clean, head, at)
            expect_close(answer(heads, clean, head, at), wanted, "the patched heads")


# --- a control for a syntactic claim ----------------------------------------------------------------------

# Of 40 and 60 sentences, how often each head is right, and how often each offset is: made so that each half,
# and both together, have another best head and another commonest offset.
_RIGHT = ((8, 12, 36, 30, 12), (12, 18, 24, 45, 57))
_OFFSETS = ({2: 16, 3: 14, 4: 6, 5: 2, 7: 2}, {2: 11, 3: 19, 4: 3, 5: 25, 8: 1, 9: 1})
RESULTS = ("the head", "its share", "the baseline")


def _halves(g: torch.Generator, sign: int = 1) -> tuple[Tensor, ...]:
    """Hits ``(N, H)`` and offsets ``(N,)`` of both halves; heads and sentences in a random order."""
    order = torch.randperm(5, generator=g)
    hits, offsets = [], []
    for right, counts in zip(_RIGHT, _OFFSETS, strict=True):
        number = sum(counts.values())
        columns = [torch.randperm(number, generator=g) < right[head] for head in order.tolist()]
        hits.append(torch.stack(columns, dim=1))
        values = torch.cat([torch.full((count,), sign * offset) for offset, count in counts.items()])
        offsets.append(values[torch.randperm(number, generator=g)])
    return (*hits, *offsets)


def _plain(answer: Any, *args: Any) -> tuple[Any, ...]:
    """The answer's three numbers, in whatever form they come."""
    return tuple(torch.as_tensor(part, dtype=torch.float32) for part in expect_tuple(answer(*args), RESULTS))


COMPARE = FunctionTask(
    "circuits.compare",
    "A control for a claim about syntax",
    references.compare,
    probes=lambda g: [_halves(g), _halves(g, sign=-1)],
    observe=_plain,
    mistakes=known.COMPARE,
)


def _expect(answer: Any, inputs: tuple[Tensor, ...], *parts: int) -> None:
    given, wanted = _plain(answer, *inputs), _plain(references.compare, *inputs)
    for part in parts:
        expect_close(given[part], wanted[part], RESULTS[part])


@COMPARE.case("the head", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _expect(answer, _halves(g), 0)


@COMPARE.case("its share of right looks", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _expect(answer, _halves(g), 0, 1)


@COMPARE.case("the baseline", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect(answer, _halves(g), 2)


@COMPARE.case("targets that stand before", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    _expect(answer, _halves(g, sign=-1), 0, 1, 2)
