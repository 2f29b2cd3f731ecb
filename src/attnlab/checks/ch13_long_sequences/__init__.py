"""Lesson 13, long sequences: the exercises' tasks, cases and known mistakes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..engine import (
    Failed,
    FunctionTask,
    JudgeTask,
    ValueTask,
    expect_close,
    expect_pair,
    expect_tensor,
    expect_tuple,
    normal,
)
from . import judging, mistakes, references, values

# --- the online softmax -----------------------------------------------------------------------------------

STATISTICS = ("the maximum", "the sum")


def _tiles(g: torch.Generator, *widths: int, B: int = 4, size: float = 2.0) -> list[Tensor]:
    return [size * normal(g, B, width) for width in widths]


def _hidden(g: torch.Generator) -> list[Tensor]:
    """Masked scores: one row sees nothing at first, one sees nothing at the end, one nothing at all."""
    tiles = _tiles(g, 3, 1, 2)
    tiles[0][0], tiles[2][1] = -math.inf, -math.inf
    for tile in tiles:
        tile[2] = -math.inf
    tiles[1][3] = -math.inf
    return tiles


def _falling(g: torch.Generator) -> list[Tensor]:
    """Scores that are all negative, the largest of each row in its first tile."""
    first, second = _tiles(g, 2, 3, size=0.5)
    return [first - 5.0, second - 8.0]


def _online_probes(g: torch.Generator) -> list[Any]:
    # A single tile, rising tiles and falling ones: each tells other mistakes apart.
    first, second, third = _tiles(g, 2, 3, 1, B=3)
    return [(_falling(g),), ([first, second + 1.0, third + 2.5],), (_tiles(g, 3, 2, 4),), (_hidden(g),)]


ONLINE = FunctionTask(
    "long_sequences.online_softmax",
    "The online softmax",
    references.online_softmax,
    probes=_online_probes,
    mistakes=mistakes.SOFTMAX,
)


def _expect_statistics(answer: Any, tiles: list[Tensor], *parts: str) -> None:
    given, wanted = expect_pair(answer(tiles), STATISTICS), references.online_softmax(tiles)
    for name, mine, right in zip(STATISTICS, given, wanted, strict=True):
        if not parts or name in parts:
            expect_close(mine, right, name)


@ONLINE.case("the maximum of each row", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for tiles in (_tiles(g, 2, 3, 1), _falling(g)):
        _expect_statistics(answer, tiles, "the maximum")


@ONLINE.case("the sum of each row", 3)
def _(answer: Any, g: torch.Generator) -> None:
    for tiles in (_tiles(g, 2, 3, 1), _falling(g)):
        _expect_statistics(answer, tiles, "the sum")


@ONLINE.case("large scores, up and down", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for shifts in ((-900.0, 0.0, 900.0), (900.0, 0.0, -900.0)):
        _expect_statistics(answer, [t + s for t, s in zip(_tiles(g, 2, 3, 1), shifts, strict=True)])


@ONLINE.case("hidden scores, and a row that sees nothing", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_statistics(answer, _hidden(g))


@ONLINE.case("one tile alone, and many of one score", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for widths in ((5,), (1,) * 7):
        _expect_statistics(answer, _tiles(g, *widths, B=2))


# --- attention in tiles, forward and backward -------------------------------------------------------------

RESULTS = ("the output", "the gradient of the query", "the gradient of the key", "the gradient of the value")


def _attention(
    g: torch.Generator, *, T: int = 3, S: int = 7, d_k: int = 4, d_v: int = 6, chunk: int = 3, B: int = 2
) -> tuple[Any, ...]:
    """Query, key, value, the gradient of the output and the tile: no two sizes are equal."""
    query, key = 1.3 * normal(g, B, T, d_k), 1.3 * normal(g, B, S, d_k)
    return query, key, normal(g, B, S, d_v), normal(g, B, T, d_v), chunk


CHUNKED = FunctionTask(
    "long_sequences.chunked_attention",
    "Attention in tiles, forward and backward",
    references.chunked_attention,
    probes=lambda g: [_attention(g), _attention(g, T=6, S=4, d_k=5, d_v=2)],
    mistakes=mistakes.CHUNKED,
)


def _expect_results(answer: Any, arguments: tuple[Any, ...], *which: int) -> None:
    given = expect_tuple(answer(*arguments), RESULTS)
    wanted = references.chunked_attention(*arguments)
    for number in which or range(4):
        expect_close(given[number], wanted[number], RESULTS[number])


@CHUNKED.case("the output, more keys than queries", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_results(answer, _attention(g), 0)


@CHUNKED.case("the gradient of the value", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_results(answer, _attention(g), 3)


@CHUNKED.case("the gradients of query and key", 3)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_results(answer, _attention(g), 1, 2)


@CHUNKED.case("large scores do not overflow", 1)
def _(answer: Any, g: torch.Generator) -> None:
    query, *others = _attention(g)
    _expect_results(answer, (200 * query.sign(), *others), 0, 3)


@CHUNKED.case("queries that see no key", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_results(answer, _attention(g, T=6, S=4, d_k=5, d_v=2))


@CHUNKED.case("other tiles", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for chunk in (1, 4, 9):
        _expect_results(answer, _attention(g, T=5, S=8, d_k=3, d_v=7, chunk=chunk, B=1))


# --- predict, then count ----------------------------------------------------------------------------------

PREDICTION = ValueTask(
    "long_sequences.memory",
    "Predict the memory of a model",
    values.PREDICTION,
    kind="predict",
    points=8,
    wrong=values.WRONG,
)

# --- a sliding cache --------------------------------------------------------------------------------------

STEP = ("the output", "the cache")
CACHED = ("its keys", "its values")


def _stream(g: torch.Generator, T: int = 11, d_k: int = 4, d_v: int = 6) -> tuple[Tensor, ...]:
    return 1.5 * normal(g, 2, T, d_k), 1.5 * normal(g, 2, T, d_k), normal(g, 2, T, d_v)


def _decode(answer: Any, stream: tuple[Tensor, ...], parts: tuple[int, ...], window: int) -> list[Any]:
    """The outputs and caches of a stream that comes in parts."""
    found, cache, start = [], None, 0
    for part in parts:
        query, key, value = (tensor[:, start : start + part] for tensor in stream)
        output, cache = expect_pair(answer(query, key, value, cache, window), STEP)
        keys, held = expect_pair(cache, CACHED)
        cache = (keys, held)
        found.append((output, keys, held))
        start += part
    return found


CACHE = FunctionTask(
    "long_sequences.cached_step",
    "A sliding cache",
    references.cached_step,
    probes=lambda g: [
        (_stream(g), (1,) * 7, 4),
        (_stream(g), (2, 3, 1, 4), 3),
        (_stream(g), (5, 1, 1, 2), 5),
    ],
    observe=_decode,
    mistakes=mistakes.CACHE,
)


def _expect_stream(
    answer: Any, g: torch.Generator, parts: tuple[int, ...], window: int, caches: bool
) -> None:
    stream = _stream(g)
    given = _decode(answer, stream, parts, window)
    wanted = _decode(references.cached_step, stream, parts, window)
    for number, (mine, right) in enumerate(zip(given, wanted, strict=True), start=1):
        expect_close(mine[0], right[0], f"the output of call {number}")
        if caches:
            for which in (1, 2):
                shape = tuple(right[which].shape)
                expect_tensor(mine[which], shape, f"the cache after call {number}")
                expect_close(mine[which], right[which], f"the cache after call {number}")


@CACHE.case("the first call, without a cache", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_stream(answer, g, (5,), 3, caches=False)


@CACHE.case("one token at a time", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_stream(answer, g, (1,) * 7, 4, caches=False)


@CACHE.case("several tokens at a time", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_stream(answer, g, (2, 3, 1, 4), 3, caches=False)


@CACHE.case("the cache holds what can still be seen, and no more", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for parts, window in (((1,) * 6, 4), ((2, 3, 1, 4), 3)):
        _expect_stream(answer, g, parts, window, caches=True)


@CACHE.case("a window of one, and one longer than the text", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for window in (1, 30):
        _expect_stream(answer, g, (1, 3, 2), window, caches=True)


# --- repair -----------------------------------------------------------------------------------------------


def _linear_inputs(g: torch.Generator, T: int = 6, d_k: int = 4, d_v: int = 5) -> tuple[Tensor, ...]:
    return normal(g, T, d_k), normal(g, T, d_k), normal(g, T, d_v)


LINEAR = FunctionTask(
    "long_sequences.causal_linear",
    "Repair a program that reads ahead",
    references.causal_linear,
    kind="repair",
    probes=lambda g: [_linear_inputs(g), _linear_inputs(g, T=5, d_k=3, d_v=7)],
    untouched=("total_of_all", "read_before_add"),
    mistakes=mistakes.LINEAR,
)


@LINEAR.case("the shape of the output", 0)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(*_linear_inputs(g)), (6, 5), "the output")


@LINEAR.case("the first position gets its own value", 1)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _linear_inputs(g)
    output = expect_tensor(answer(*inputs), (6, 5), "the output")
    expect_close(output[0], inputs[2][0], "the first output")


@LINEAR.case("no output depends on a later position", 1)
def _(answer: Any, g: torch.Generator) -> None:
    query, key, value = _linear_inputs(g)
    before = expect_tensor(answer(query, key, value), (6, 5), "the output")
    changed = [torch.cat([tensor[:4], tensor[4:] + 1.0]) for tensor in (query, key, value)]
    after = expect_tensor(answer(*changed), (6, 5), "the output")
    if not torch.allclose(before[:4], after[:4], atol=1e-6):
        raise Failed("outputs of early positions change with later tokens")


@LINEAR.case("the output", 3)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _linear_inputs(g)
    expect_close(answer(*inputs), references.causal_linear(*inputs), "the output")


@LINEAR.case("other sizes, one position alone", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for T, d_k, d_v in ((1, 3, 2), (9, 2, 7)):
        inputs = _linear_inputs(g, T, d_k, d_v)
        expect_close(answer(*inputs), references.causal_linear(*inputs), "the output")


# --- a test for tiles -------------------------------------------------------------------------------------

TEST_TILES = JudgeTask(
    "long_sequences.test_tiles",
    "A test for tiles",
    reference=references.attend_in_tiles,
    probes=judging.examples,
    example=judging.good_test,
    also_right=[judging.explicit, judging.in_double, judging.from_the_end],
    points=9,
    mistakes=mistakes.PROGRAMS,
)
