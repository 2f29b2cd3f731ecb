"""Lesson 13's checks: what is special to the set."""

import functools
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from attnlab import efficient
from attnlab.attention import causal_mask, scaled_dot_product_attention
from attnlab.checks import ch13_long_sequences as chapter
from attnlab.checks import engine
from attnlab.checks.ch13_long_sequences import references, values
from attnlab.checks.engine import TASKS
from attnlab.memory import MIB, counted_peak

# Time limits have their own tests: here a busy machine must not matter.
evaluate = functools.partial(engine.evaluate, seconds=60)

MANUSCRIPT = Path(__file__).parents[2] / "book" / "exercises" / "13_long_sequences.py"


def test_the_set_has_six_exercises_of_four_kinds() -> None:
    tasks = [task for task in TASKS.values() if task.lesson == "long_sequences"]
    kinds = ["implement", "implement", "predict", "implement", "repair", "test"]
    assert [task.kind for task in tasks] == kinds
    assert sum(task.max_points for task in tasks) == 46
    assert sum(len(task.mistakes) for task in tasks) >= 70
    assert all(len(task.mistakes) >= 9 for task in tasks)


def test_the_manuscript_counts_the_programs_of_the_last_exercise_rightly() -> None:
    text = " ".join(MANUSCRIPT.read_text(encoding="utf-8").replace("\n#", " ").split())
    assert "four right ones and nine wrong ones" in text
    assert len(chapter.TEST_TILES.right_ones) == 4 and len(chapter.TEST_TILES.mistakes) == 9


# --- the references and the library are the same ----------------------------------------------------------


@pytest.mark.parametrize("sizes", [{}, {"T": 6, "S": 4}, {"chunk": 1}, {"chunk": 20}])
def test_attention_in_tiles_is_the_librarys_with_its_gradients(sizes) -> None:
    *inputs, grad, chunk = chapter._attention(torch.Generator().manual_seed(0), **sizes)
    output, *gradients = references.chunked_attention(*inputs, grad, chunk)
    leaves = [tensor.requires_grad_() for tensor in inputs]
    wanted = efficient.chunked_attention(*leaves, causal=True)
    torch.testing.assert_close(output, wanted.detach(), rtol=0, atol=1e-5)
    for mine, right in zip(gradients, torch.autograd.grad(wanted, leaves, grad), strict=True):
        torch.testing.assert_close(mine, right, rtol=0, atol=1e-5)


def test_maximum_and_sum_are_those_of_the_whole_row() -> None:
    tiles = chapter._hidden(torch.Generator().manual_seed(0))
    scores = torch.cat(tiles, dim=1)
    m, ell = references.online_softmax(tiles)
    assert torch.equal(m, scores.amax(dim=1, keepdim=True))
    torch.testing.assert_close(m + ell.log(), scores.logsumexp(dim=1, keepdim=True))
    assert m[2].item() == -math.inf and ell[2].item() == 0.0


@pytest.mark.parametrize("window", [1, 2, 5, 30])
@pytest.mark.parametrize("parts", [(11,), (1,) * 11, (2, 3, 1, 5)])
def test_a_cached_text_is_the_librarys_window(window: int, parts: tuple[int, ...]) -> None:
    stream = chapter._stream(torch.Generator().manual_seed(0))
    outputs, _keys, _values = zip(
        *chapter._decode(references.cached_step, stream, parts, window), strict=True
    )
    wanted = efficient.sliding_window_attention(*stream, window)
    torch.testing.assert_close(torch.cat(outputs, dim=1), wanted, rtol=0, atol=1e-5)


def test_the_repaired_program_is_the_librarys_linear_attention() -> None:
    inputs = chapter._linear_inputs(torch.Generator().manual_seed(0))
    wanted = efficient.causal_linear_attention(*inputs)
    torch.testing.assert_close(references.causal_linear(*inputs), wanted, rtol=0, atol=1e-5)


def test_the_program_to_be_judged_is_attention() -> None:
    for inputs in chapter.judging.examples(torch.Generator().manual_seed(0)):
        wanted = F.scaled_dot_product_attention(*inputs)
        torch.testing.assert_close(references.attend_in_tiles(*inputs), wanted, rtol=0, atol=1e-4)


def test_hidden_rows_are_of_every_kind() -> None:
    tiles = chapter._hidden(torch.Generator().manual_seed(0))
    nothing = torch.stack([(tile == -math.inf).all(dim=1) for tile in tiles])  # (tile, row)
    assert nothing.T.tolist() == [
        [True, False, False],
        [False, False, True],
        [True] * 3,
        [False, True, False],
    ]


# --- predictions follow from a computation ----------------------------------------------------------------


def explicit(query, key, value, kept=None):
    scores = (query / math.sqrt(query.shape[-1])) @ key.mT
    weights = F.softmax(scores, dim=-1)
    if kept is not None:
        kept.append(weights)
    return weights @ value


def counted(B=1, heads=8, length=64, width=64, dtype=torch.float32) -> tuple[float, float]:
    """MiB of one layer's matrices, and of its outputs, counted."""
    with torch.inference_mode():
        qkv = torch.zeros(3, B, heads, length, width, dtype=dtype)
        whole = counted_peak(lambda: explicit(*qkv)) / MIB
        output = explicit(*qkv).untyped_storage().nbytes() / MIB
    return whole - output, output


def test_the_predictions_come_from_counting() -> None:
    B, heads, layers, length, width = values.B, values.HEADS, values.LAYERS, values.LENGTH, values.WIDTH
    small = 128
    matrices, output = counted(B, heads, small, width)
    with torch.inference_mode():
        kept: list[torch.Tensor] = []
        for _ in range(layers):
            explicit(*torch.zeros(3, B, heads, small, width), kept)
    training = sum(weights.untyped_storage().nbytes() for weights in kept) / MIB
    one, longer = counted(length=64)[0], counted(length=128)[0]
    leaves = [torch.randn(2, 3, 40, 4, requires_grad=True) for _ in range(3)]
    saved = efficient.chunked_attention(*leaves).grad_fn.saved_tensors
    statistics = [tensor for tensor in saved if tensor is not None and tensor.shape == (2, 3, 40, 1)]
    state = torch.outer(torch.ones(width), torch.ones(width)).numel() + torch.ones(width).numel()
    computed = [
        matrices * (length / small) ** 2,
        output * length / small,
        training * (length / small) ** 2,
        longer / one,
        counted(heads=16, width=32)[0] / one,
        counted(dtype=torch.float16)[0] / one,
        len(statistics),
        state,
    ]
    answer = dict(zip(chapter.PREDICTION.specs, computed, strict=True))
    report = evaluate(chapter.PREDICTION, answer)
    assert report.passed, report


def test_the_questions_of_the_manuscript_are_those_of_the_check() -> None:
    text = MANUSCRIPT.read_text(encoding="utf-8")
    for question in chapter.PREDICTION.specs:
        assert text.count(f'"{question}"') == 3  # asked, left open, solved


# --- wrong answers that no catalogue holds ----------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda m, ell: (m, ell + 1e-3),
        lambda m, ell: (m + 1e-3, ell),
        lambda m, ell: (m, ell.log()),
        lambda m, ell: (m[:, 0], ell[:, 0]),
        lambda m, ell: (m.nan_to_num(neginf=0.0), ell),
        lambda m, ell: (m, ell.clamp(min=1e-3)),
        lambda m, ell: m + ell.log(),
    ],
)
def test_statistics_that_are_wrong_in_other_ways_lose_points(change) -> None:
    report = evaluate(chapter.ONLINE, lambda tiles: change(*references.online_softmax(tiles)))
    assert report.attempted and report.points < report.max_points


@pytest.mark.parametrize(
    "change",
    [
        lambda o, q, k, v: (o, k, q, v),
        lambda o, q, k, v: (o, q, k, v / 2),
        lambda o, q, k, v: (o, q, k.flip(1), v),
        lambda o, q, k, v: (o, -q, k, v),
        lambda o, q, k, v: (o.nan_to_num() + 1e-3, q, k, v),
        lambda o, q, k, v: (o, q, k),
        lambda o, q, k, v: o,
    ],
)
def test_gradients_that_are_wrong_in_other_ways_lose_points(change) -> None:
    report = evaluate(chapter.CHUNKED, lambda *x: change(*references.chunked_attention(*x)))
    assert report.attempted and report.points < report.max_points


def test_attention_without_a_maximum_overflows() -> None:
    def plain(query, key, value, grad, key_chunk):
        seen = causal_mask(query.shape[1], key.shape[1])
        weights = (query @ key.mT / query.shape[-1] ** 0.5).exp() * seen
        total = weights.sum(-1, keepdim=True)
        weights = weights / total.masked_fill(total == 0, 1.0)
        output = weights @ value
        slopes = weights * (grad @ value.mT - (grad * output).sum(-1, keepdim=True)) / query.shape[-1] ** 0.5
        return output, slopes @ key, slopes.mT @ query, weights.mT @ grad

    report = evaluate(chapter.CHUNKED, plain)
    assert report.points == report.max_points - 1, report


def test_a_cache_of_more_than_is_needed_keeps_its_outputs() -> None:
    def hoarding(query, key, value, cache, window):
        if cache is not None:
            key, value = torch.cat([cache[0], key], dim=1), torch.cat([cache[1], value], dim=1)
        return efficient.sliding_window_attention(query, key, value, window), (key, value)

    report = evaluate(chapter.CACHE, hoarding)
    assert report.mistakes == ("never_cut",) and report.points == report.max_points - 2, report


@pytest.mark.parametrize(
    "change",
    [
        lambda output, cache: (output, cache[0]),
        lambda output, cache: output,
        lambda output, cache: (output, (cache[1], cache[0])),
        lambda output, cache: (output, (cache[0].flip(1), cache[1].flip(1))),
        lambda output, cache: (output * 1.01, cache),
    ],
)
def test_caches_that_are_wrong_in_other_ways_lose_points(change) -> None:
    report = evaluate(chapter.CACHE, lambda *x: change(*references.cached_step(*x)))
    assert report.attempted and report.points < report.max_points


# --- repair -----------------------------------------------------------------------------------------------


def stub_of_the_manuscript():
    """The program as it is given."""
    text = MANUSCRIPT.read_text(encoding="utf-8")
    start = text.index("def causal_linear")
    lines = text[start : text.index("# %%", start)].splitlines()
    begin = next(i for i, line in enumerate(lines) if "BEGIN SOLUTION" in line)
    end = next(i for i, line in enumerate(lines) if "END SOLUTION" in line)
    given = [line.replace("# STUB ", "", 1) for line in lines[begin + 1 : end] if "# STUB" in line]
    names = {"torch": torch, "F": F, "Tensor": torch.Tensor}
    exec("\n".join([*lines[:begin], *given, *lines[end + 1 :]]), names)
    return names["causal_linear"]


@pytest.mark.parametrize("seed", range(3))
def test_the_program_as_given_is_no_attempt(seed: int) -> None:
    report = evaluate(chapter.LINEAR, stub_of_the_manuscript(), seed=seed)
    assert not report.attempted and report.points == 0 and not report.hints, report


@pytest.mark.parametrize(
    ("left", "switches"),
    [("total_of_all", {"total": "all"}), ("read_before_add", {"order": "first read"})],
)
def test_half_a_repair_is_told_what_is_left(left: str, switches: dict[str, str]) -> None:
    report = evaluate(chapter.LINEAR, lambda *x: references.causal_linear(*x, **switches))
    assert report.attempted and report.mistakes == (left,) and report.points < report.max_points


def test_softmax_attention_is_no_repair() -> None:
    def softmax(query, key, value):
        return scaled_dot_product_attention(query, key, value, causal_mask(len(query))).output

    report = evaluate(chapter.LINEAR, softmax)
    assert report.attempted and report.points == 2, report  # causal, and its first output is right


# --- a test for tiles -------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [None, True, False])
def test_a_test_that_always_says_the_same_gains_nothing(verdict) -> None:
    assert evaluate(chapter.TEST_TILES, lambda attend: verdict).points == 0


def compare(attend, query, key, value, tolerance=1e-3) -> None:
    wanted = F.scaled_dot_product_attention(query.double(), key.double(), value.double())
    assert torch.allclose(attend(query, key, value).double(), wanted, atol=tolerance)


def draw(T, S, d_v=6, size=1.0):
    g = torch.Generator().manual_seed(0)
    return (
        size * torch.randn(2, T, 5, generator=g),
        torch.randn(2, S, 5, generator=g),
        torch.randn(2, S, d_v, generator=g),
    )


def test_small_scores_miss_everything_about_overflow() -> None:
    report = evaluate(chapter.TEST_TILES, lambda attend: compare(attend, *draw(3, 10)))
    assert set(report.mistakes) == {"no_maximum", "first_tile_maximum", "one_maximum_for_all"}


def test_one_tile_misses_all_that_tiles_are_about() -> None:
    report = evaluate(chapter.TEST_TILES, lambda attend: compare(attend, *draw(4, 4)))
    assert {"output_not_corrected", "sum_not_corrected", "last_tile_lost"} <= set(report.mistakes)


def test_as_many_keys_as_queries_and_equal_widths_miss_what_mixes_them_up() -> None:
    report = evaluate(chapter.TEST_TILES, lambda attend: compare(attend, *draw(10, 10, d_v=5)))
    assert {"as_many_keys_as_queries", "scale_of_the_values"} <= set(report.mistakes)


def test_a_loose_comparison_misses_half_precision() -> None:
    report = evaluate(chapter.TEST_TILES, lambda attend: compare(attend, *draw(3, 10), tolerance=0.05))
    assert "half_precision" in report.mistakes


def test_equality_to_the_last_bit_refuses_right_programs() -> None:
    def too_strict(attend) -> None:
        query, key, value = draw(3, 10)
        assert torch.equal(attend(query, key, value), F.scaled_dot_product_attention(query, key, value))

    report = evaluate(chapter.TEST_TILES, too_strict)
    assert report.points == 0 and "refuses a right program" in repr(report)
