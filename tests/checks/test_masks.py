"""Lesson 4's checks: what is special to the set."""

import functools
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from attnlab import contracts
from attnlab.attention import causal_mask, padding_mask, scaled_dot_product_attention
from attnlab.checks import ch04_masks as chapter
from attnlab.checks import engine
from attnlab.checks.ch04_masks import references
from attnlab.checks.engine import TASKS

# Time limits have their own tests: here a busy machine must not matter.
evaluate = functools.partial(engine.evaluate, seconds=60)

MANUSCRIPT = Path(__file__).parents[2] / "book" / "exercises" / "04_masks.py"


def test_the_set_has_six_exercises_of_five_kinds() -> None:
    tasks = [task for task in TASKS.values() if task.lesson == "masks"]
    assert [task.kind for task in tasks] == ["implement", "predict", "repair", "implement", "explore", "test"]
    assert sum(task.max_points for task in tasks) == 41
    assert sum(len(task.mistakes) for task in tasks) >= 60
    assert all(len(task.mistakes) >= 8 for task in tasks)


def test_the_manuscript_counts_the_programs_of_the_last_exercise_rightly() -> None:
    text = MANUSCRIPT.read_text(encoding="utf-8")
    assert "four right functions and twelve wrong ones" in text
    assert len(chapter.TEST_MASKING.right_ones) == 4 and len(chapter.TEST_MASKING.mistakes) == 12


# --- the references and the library are the same ----------------------------------------------------------


def test_the_masks_are_those_of_the_library() -> None:
    source, target = torch.tensor([3, 0, 5]), torch.tensor([1, 6, 4])
    encoder, decoder, cross = references.translator_masks(source, target, 5, 7, 4, 2)
    assert torch.equal(encoder, padding_mask(source, 5).expand(3, 5, 5))
    assert torch.equal(decoder, causal_mask(4, 7, offset=2) & padding_mask(target, 7))
    assert torch.equal(cross, padding_mask(source, 5).expand(3, 4, 5))


def test_the_repaired_program_is_the_attention_of_the_library() -> None:
    g = torch.Generator().manual_seed(0)
    query, key, value, causal, padding = chapter._attend_inputs(g, empty=True)
    wanted = scaled_dot_product_attention(query, key, value, causal & padding).output
    torch.testing.assert_close(references.attend(query, key, value, causal, padding), wanted)
    mask = torch.ones(1, 6, dtype=torch.bool)
    contracts.masked_rows_zero(lambda q, k, v, m: references.attend(q, k, v, m, mask), query, key, value)


def test_dependencies_agree_with_the_library_s_contract() -> None:
    x = torch.randn(1, 5, 4, generator=torch.Generator().manual_seed(0))
    for diagonal, leaks in ((0, False), (1, True)):
        mask = torch.ones(5, 5, dtype=torch.bool).tril(diagonal)

        def attend(x: torch.Tensor, mask: torch.Tensor = mask) -> torch.Tensor:
            return scaled_dot_product_attention(x, x.flip(-1), x, mask).output

        table = references.dependencies(attend, x)
        assert torch.equal(table, mask)
        if leaks:
            with pytest.raises(AssertionError, match="depends on input"):
                contracts.causal_by_gradient(attend, x)
        else:
            contracts.causal_by_gradient(attend, x)


def test_the_inputs_are_as_sharp_as_they_should_be() -> None:
    """Every mistake of the repair shows only if scores lie low and a row is empty."""
    for seed in range(20):
        g = torch.Generator().manual_seed(seed)
        query, key, _value, causal, padding = chapter._attend_inputs(g, empty=True, dtype=torch.float16)
        scores = query.float() @ key.float().mT / math.sqrt(5)
        assert scores.max() < -12 and scores.min() > -30
        rows = (causal & padding).any(dim=-1)
        assert rows.any() and not rows.all()


# --- predictions and findings follow from a computation ---------------------------------------------------


def test_the_predictions_come_from_running_what_they_are_about() -> None:
    zeros, value, causal = torch.zeros(3, 1), torch.tensor([[1.0], [2.0], [4.0]]), causal_mask(3)
    module = torch.nn.MultiheadAttention(1, 1, bias=False, batch_first=True)
    torch.nn.init.ones_(module.in_proj_weight)
    torch.nn.init.ones_(module.out_proj.weight)
    lowest = torch.finfo(torch.float16).min
    half = (torch.zeros(3).half() + lowest + lowest).softmax(dim=-1)
    hidden = torch.zeros(3, 3).masked_fill(~causal, -math.inf)
    sdpa = F.scaled_dot_product_attention
    computed = [
        module(zeros[None], zeros[None], value[None], attn_mask=causal)[0][0, 0].item(),
        sdpa(zeros, zeros, value, hidden.bool())[1].item(),
        sdpa(zeros, zeros, value, causal & padding_mask([1], 3)[0])[2].item(),
        sdpa(zeros, zeros, value, causal | padding_mask([2], 3)[0])[0].item(),
        (torch.full((3,), -1e9).softmax(dim=-1) @ value).item(),
        (torch.zeros(3, 3).softmax(dim=-1) * causal)[0].sum().item(),
        "nan" if half.isnan().all() else "mean",
    ]
    answer = dict(zip(chapter.PREDICTION.specs, computed, strict=True))
    assert evaluate(chapter.PREDICTION, answer).passed


def real_stack(masks: list[torch.Tensor]) -> torch.Tensor:
    """What a stack of attention layers depends on, by gradients."""

    def stack(x: torch.Tensor) -> torch.Tensor:
        for mask in masks:
            x = x + scaled_dot_product_attention(x, x.flip(-1), x, mask).output
        return x

    x = torch.randn(1, len(masks[0]), 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return references.dependencies(stack, x)


def test_the_findings_hold_for_real_layers_and_their_gradients() -> None:
    def window(size: int, length: int = 20) -> torch.Tensor:
        causal = causal_mask(length)
        return causal & ~causal.tril(-size)

    causal, everything = causal_mask(16), torch.ones(16, 16, dtype=torch.bool)
    opened = [
        int(real_stack([everything if k == place else causal for k in range(4)]).triu(1).any(-1).sum())
        for place in range(4)
    ]
    layers = next(n for n in range(1, 9) if int(real_stack([window(3)] * n)[-1].sum()) >= 9)
    computed = [
        int(real_stack([window(5)] * 3)[-1].sum()),
        layers,
        int(real_stack([causal] * 6).triu(1).sum()),
        opened[0],
        "no" if len(set(opened)) == 1 else "yes",
    ]
    answer = dict(zip(chapter.REACH.specs, computed, strict=True))
    assert evaluate(chapter.REACH, answer).passed


def test_reach_is_what_real_layers_do() -> None:
    g = torch.Generator().manual_seed(0)
    masks = [(torch.rand(7, 7, generator=g) < 0.3) | torch.eye(7, dtype=torch.bool) for _ in range(3)]
    assert torch.equal(references.reach(masks), real_stack(masks))


# --- wrong answers that no catalogue holds ----------------------------------------------------------------


def from_reference(change):
    return lambda *arguments: change(*references.translator_masks(*arguments))


@pytest.mark.parametrize(
    "change",
    [
        lambda e, d, c: (e, d, c.roll(1, dims=2)),
        lambda e, d, c: (e[:1], d, c),
        lambda e, d, c: (e, d.flip(0), c),
        lambda e, d, c: (e, d & ~torch.eye(*d.shape[1:], dtype=torch.bool), c),
        lambda e, d, c: (c, d, e),
        lambda e, d, c: (e, d, c.float()),
        lambda e, d, c: (e.int(), d, c),
        lambda e, d, c: (e[:, 0], d, c),
        lambda e, d, c: torch.cat([e, c], dim=1),
    ],
)
def test_masks_that_are_wrong_in_other_ways_lose_points(change) -> None:
    report = evaluate(chapter.TRANSLATOR_MASKS, from_reference(change))
    assert report.attempted and report.points < report.max_points


def test_a_mask_of_numbers_is_told_in_words() -> None:
    report = evaluate(chapter.TRANSLATOR_MASKS, from_reference(lambda e, d, c: (e.float(), d, c)))
    assert report.points == 0 and "float32, where bool was expected" in repr(report)


def test_a_mask_may_have_any_shape_that_broadcasts() -> None:
    report = evaluate(chapter.TRANSLATOR_MASKS, from_reference(lambda e, d, c: (e[:, :1], d, c[:, :1])))
    assert report.passed


def as_given(query, key, value, causal, padding):
    mask = causal + padding
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    lowest = torch.finfo(scores.dtype).min
    scores = scores + torch.zeros_like(scores).masked_fill(~mask, lowest)
    return torch.nan_to_num(scores.softmax(dim=-1) @ value)


def half_repaired(query, key, value, causal, padding):
    return as_given(query, key, value, causal & padding, causal & padding)


@pytest.mark.parametrize("seed", range(3))
def test_the_program_as_given_is_no_attempt_and_half_a_repair_says_what_is_left(seed: int) -> None:
    report = evaluate(chapter.ATTEND, as_given, seed=seed)
    assert not report.attempted and report.points == 0 and not report.hints, report
    report = evaluate(chapter.ATTEND, half_repaired, seed=seed)
    assert report.mistakes == ("lowest_added_cleaned",) and report.points == 2, report

    def joined(query, key, value, causal, padding):
        return references.attend(query, key, value, causal, padding, combine="or")

    report = evaluate(chapter.ATTEND, joined, seed=seed)
    assert report.mistakes == ("joined_or",) and report.points == 0, report


def test_the_program_in_the_manuscript_is_the_one_that_counts_as_untouched() -> None:
    stub = [line for line in MANUSCRIPT.read_text(encoding="utf-8").splitlines() if "# STUB" in line]
    start = next(i for i, line in enumerate(stub) if "causal + padding" in line)
    body = [line.replace("# STUB ", "") for line in stub[start : start + 6]]
    names = {"torch": torch, "math": math}
    exec("def attend(query, key, value, causal, padding):\n" + "\n".join(body), names)
    assert not evaluate(chapter.ATTEND, names["attend"]).attempted


def test_the_second_fault_shows_only_when_the_first_is_gone() -> None:
    causal, padding = causal_mask(4), padding_mask([3, 0], 4)
    assert not (causal & padding).any(dim=-1).all()
    assert (causal + padding).any(dim=-1).all()


@pytest.mark.parametrize("fill", [-1e4, -100.0, -30.0])
def test_other_low_numbers_are_refused_in_the_repair(fill: float) -> None:
    def filled(query, key, value, causal, padding):
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        return scores.masked_fill(~(causal & padding), fill).softmax(dim=-1) @ value

    report = evaluate(chapter.ATTEND, filled)
    assert report.attempted and report.points <= 2


def test_a_number_that_half_precision_lacks_is_named() -> None:
    def filled(query, key, value, causal, padding):
        mask = causal & padding
        scores = (query @ key.mT / math.sqrt(query.shape[-1])).masked_fill(~mask, -1e9)
        return scores.softmax(dim=-1).masked_fill(~mask, 0.0) @ value

    report = evaluate(chapter.ATTEND, filled)
    assert report.points == 4 and report.mistakes == ("no_such_number",)


def test_a_repair_must_keep_the_number_type() -> None:
    def wider(query, key, value, causal, padding):
        return references.attend(query.float(), key.float(), value.float(), causal, padding)

    report = evaluate(chapter.ATTEND, wider)
    assert report.points == 4 and "float16 was expected" in repr(report)


@pytest.mark.parametrize(
    "answer",
    [
        lambda f, x: torch.ones(f(x).shape[1], x.shape[1], dtype=torch.bool),
        lambda f, x: torch.zeros(f(x).shape[1], x.shape[1], dtype=torch.bool),
        lambda f, x: torch.ones(f(x).shape[1], x.shape[1], dtype=torch.bool).tril(),
        lambda f, x: references.dependencies(f, x).float(),
        lambda f, x: references.dependencies(f, x)[:, :-1],
        lambda f, x: references.dependencies(f, x).flip(1),
        lambda f, x: references.dependencies(f, x[1:]),
    ],
)
def test_tables_that_are_wrong_in_other_ways_lose_points(answer) -> None:
    report = evaluate(chapter.DEPENDENCIES, answer)
    assert report.attempted and report.points <= report.max_points - 1


# --- the test that finds the leak -------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [None, True, False])
def test_a_test_that_always_says_the_same_gains_nothing(verdict) -> None:
    assert evaluate(chapter.TEST_MASKING, lambda attend: verdict).points == 0


def judge(x: torch.Tensor, real: torch.Tensor, attend, *, later_only: bool = False) -> None:
    """A test by gradients, on one example."""
    x = x.requires_grad_()
    output = attend(x, real)
    for b, t in real.nonzero().tolist():
        number = output[b, t] @ torch.arange(1.0, output.shape[-1] + 1).to(output.dtype)
        (gradient,) = torch.autograd.grad(number, x, retain_graph=True)
        seen, wanted = (gradient != 0).any(dim=-1), torch.zeros_like(real)
        wanted[b, : t + 1] = real[b, : t + 1]
        assert not (seen & ~wanted).any() if later_only else torch.equal(seen, wanted)


def test_padding_behind_the_tokens_shows_too_little() -> None:
    x, real = torch.randn(2, 9, 4), torch.arange(9) < torch.tensor([[9], [5]])
    report = evaluate(chapter.TEST_MASKING, lambda attend: judge(x.clone(), real, attend))
    assert set(report.mistakes) == {"padding", "next_to_real", "first_padding"}


def test_short_examples_show_too_little() -> None:
    x, real = torch.randn(2, 6, 4), torch.arange(6) >= torch.tensor([[0], [3]])
    report = evaluate(chapter.TEST_MASKING, lambda attend: judge(x.clone(), real, attend))
    assert report.mistakes == ("long",)


def test_looking_for_leaks_alone_misses_masks_that_hide_too_much() -> None:
    x, real = torch.randn(2, 9, 4), torch.arange(9) >= torch.tensor([[0], [4]])
    report = evaluate(chapter.TEST_MASKING, lambda attend: judge(x.clone(), real, attend, later_only=True))
    assert set(report.mistakes) == {"before_only", "window"}


def test_what_stands_at_the_padding_is_not_promised() -> None:
    def too_strict(attend) -> None:
        x, real = torch.randn(2, 9, 4), torch.arange(9) >= torch.tensor([[0], [4]])
        assert (attend(x, real)[~real] != 0).any()

    report = evaluate(chapter.TEST_MASKING, too_strict)
    assert report.points == 0 and "refuses a right program" in repr(report)


def test_a_judgement_is_not_carried_over_to_the_next_check() -> None:
    says: list[bool] = []

    def changes(attend) -> bool:
        says.append(True)
        return True

    evaluate(chapter.TEST_MASKING, changes)
    first = len(says)
    evaluate(chapter.TEST_MASKING, changes)
    assert len(says) == 2 * first


# --- right where one looks first, and wrong elsewhere -----------------------------------------------------


def plain_attention(query, key, value, mask, fill=-math.inf):
    scores = (query @ key.mT / math.sqrt(query.shape[-1])).masked_fill(~mask, fill)
    return scores.softmax(dim=-1).masked_fill(~mask, 0.0) @ value


def test_the_start_has_the_default_of_the_stub() -> None:
    def from_one(source, target, num_source, num_target, num_queries, start=1):
        return references.translator_masks(source, target, num_source, num_target, num_queries, start)

    report = evaluate(chapter.TRANSLATOR_MASKS, from_one)
    assert report.points == report.max_points - 2 and "where no start is given" in repr(report)


def test_a_source_without_padding_keeps_its_last_token() -> None:
    def last_hidden(source, target, num_source, *others):
        return references.translator_masks(source.clamp(max=num_source - 1), target, num_source, *others)

    assert evaluate(chapter.TRANSLATOR_MASKS, last_hidden).points == 5


def test_a_row_that_only_both_masks_together_empty_is_looked_at() -> None:
    def each_by_itself(query, key, value, causal, padding):
        empty = ~causal.any(dim=-1, keepdim=True) | ~padding.any(dim=-1, keepdim=True)
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(~(causal & padding), -math.inf).masked_fill(empty, 0.0)
        return scores.softmax(dim=-1).masked_fill(empty, 0.0) @ value

    report = evaluate(chapter.ATTEND, each_by_itself)
    assert report.points == 2 and "NaN" in repr(report)


@pytest.mark.parametrize("fill", [-1e4, -100.0, -30.0])
def test_no_number_that_somebody_chose_is_low_enough(fill: float) -> None:
    def filled(query, key, value, causal, padding):
        return plain_attention(query, key, value, causal & padding, fill)

    assert evaluate(chapter.ATTEND, filled).points < chapter.ATTEND.max_points


def test_a_gradient_that_is_finite_and_wrong_loses_its_point() -> None:
    def cut(query, key, value, causal, padding):
        output = references.attend(query, key, value, causal, padding)
        return output.detach() + 0.5 * (output - output.detach())

    report = evaluate(chapter.ATTEND, cut)
    assert report.points == report.max_points - 1 and "the gradient of the query" in repr(report)


def rows_by(reduce):
    def table(function, x):
        x = x.clone().requires_grad_()
        output = function(x)
        rows = torch.zeros(output.shape[1], x.shape[1], dtype=torch.bool)
        for t in range(output.shape[1] if output.requires_grad else 0):
            (gradient,) = torch.autograd.grad(
                reduce(output[:, t]), x, retain_graph=True, materialize_grads=True
            )
            rows[t] = (gradient != 0).any(dim=-1).any(dim=0)
        return rows

    return table


@pytest.mark.parametrize(
    ("reduce", "named"),
    [
        (lambda y: y.mean(), ("outputs_summed",)),
        (lambda y: y.square().sum(), ("outputs_squared",)),
        (lambda y: y.abs().sum(), ("outputs_without_signs",)),
        (lambda y: y.max(), ()),
    ],
    ids=["mean", "squares", "sizes", "largest"],
)
@pytest.mark.parametrize("seed", range(3))
def test_other_ways_to_make_one_number_of_an_output_are_told_apart(reduce, named, seed: int) -> None:
    report = evaluate(chapter.DEPENDENCIES, rows_by(reduce), seed=seed)
    assert not report.passed and report.mistakes == named


def test_a_random_mixture_of_an_output_is_right() -> None:
    report = evaluate(chapter.DEPENDENCIES, rows_by(lambda y: (y * torch.rand_like(y[0])).sum()), hidden=True)
    assert report.passed, report


@pytest.mark.parametrize("above", [1e-6, 1e-9])
def test_a_small_threshold_is_a_threshold(above: float) -> None:
    report = evaluate(chapter.DEPENDENCIES, lambda f, x: references.dependencies(f, x, above=above))
    assert report.mistakes == ("threshold",)


def test_one_sequence_at_a_time_is_told_in_words_and_given_no_wrong_name() -> None:
    def one_by_one(function, x):
        return torch.stack([references.dependencies(function, each[None]) for each in x]).any(dim=0)

    report = evaluate(chapter.DEPENDENCIES, one_by_one)
    assert not report.mistakes and "made for 2 sequences, but x has 1" in repr(report)


def test_a_function_with_parameters_of_its_own_is_no_error_in_the_solution() -> None:
    source = MANUSCRIPT.read_text(encoding="utf-8")
    start, end = source.index("def dependencies("), source.index('check("masks.dependencies"')
    names = {"torch": torch, "Tensor": torch.Tensor, "Callable": object}
    exec("from __future__ import annotations\n" + source[start:end], names)
    assert evaluate(chapter.DEPENDENCIES, names["dependencies"], hidden=True).passed


@pytest.mark.parametrize("asked", ["these numbers", "a mean", "zeros at the padding"])
def test_a_test_that_asks_for_more_than_was_promised_earns_nothing(asked: str) -> None:
    x, real = torch.randn(2, 9, 4), torch.arange(9) >= torch.tensor([[0], [4]])

    def too_much(attend) -> None:
        if asked == "these numbers":
            close = torch.isclose(attend(x, real).float(), references.padded_attention(x, real), atol=1e-4)
            assert close[real].all()
        elif asked == "a mean":
            assert torch.allclose(attend(torch.ones_like(x), real)[real].float(), torch.ones(()))
        else:
            assert not attend(x, real)[~real].any()

    report = evaluate(chapter.TEST_MASKING, too_much)
    assert report.points == 0 and "refuses a right program" in repr(report)
