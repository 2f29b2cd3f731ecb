"""Lesson 3's checks: right answers, however written; known mistakes, caught and named; untouched stubs."""

import functools
import math

import pytest
import torch
from torch import nn

from attnlab.attention import SelfAttention, causal_mask, scaled_dot_product_attention
from attnlab.checks import engine
from attnlab.checks.ch03_query_key_value import references
from attnlab.checks.ch03_query_key_value.puzzle import colleague_weights
from attnlab.checks.engine import load_tasks
from tests.checks.right_answers.query_key_value import WeightsFirst, gives_double

# Time limits have their own tests: here a busy machine must not matter.
evaluate = functools.partial(engine.evaluate, seconds=60)

TASKS = {task_id: task for task_id, task in load_tasks().items() if task.lesson == "query_key_value"}
TASK = {task.name: task for task in TASKS.values()}


def test_there_are_six_exercises_of_different_kinds() -> None:
    kinds = [task.kind for task in TASKS.values()]
    assert len(kinds) == 6
    assert set(kinds) == {"implement", "predict", "repair", "measure", "test"}


# --- right answers, written in other ways -----------------------------------------------------------------


def test_a_wider_number_type_is_accepted_and_named() -> None:
    report = evaluate(TASK["attention"], gives_double)
    assert report.passed and any("float64" in note for note in report.notes)


def test_a_narrower_number_type_is_refused_and_named() -> None:
    def half(query, key, value, mask=None):
        return tuple(part.half() for part in references.attention(query, key, value, mask))

    report = evaluate(TASK["attention"], half)
    assert report.points <= 1 and "float16" in repr(report)


@pytest.mark.parametrize("prediction", ["GROWS ", "grows"])
def test_predictions_may_be_tensors_and_may_be_written_in_capitals(prediction: str) -> None:
    answer = TASK["prediction"].right()
    answer["query doubled, largest weight"] = prediction
    answer["d_k from 16 to 256, spread of q·k, times"] = torch.tensor(4.0)
    assert evaluate(TASK["prediction"], answer).passed


# --- what is given, and what must not earn anything -------------------------------------------------------


def test_the_program_to_repair_is_no_attempt_until_something_changes() -> None:
    def as_given(x, w_q, w_k, w_v):
        query, key, value = x @ w_q, x @ w_k, x @ w_v
        scores = query @ key.transpose(1, 2) / math.sqrt(x.shape[-1])
        return torch.softmax(scores, dim=1) @ value

    report = evaluate(TASK["attend"], as_given)
    assert not report.attempted and report.points == 0 and not report.hints, report

    def half_repaired(x, w_q, w_k, w_v):
        query, key, value = x @ w_q, x @ w_k, x @ w_v
        return torch.softmax(query @ key.transpose(1, 2) / math.sqrt(x.shape[-1]), dim=-1) @ value

    report = evaluate(TASK["attend"], half_repaired)
    assert report.attempted and report.mistakes == ("scale_d_model",) and report.points == 1


def test_predictions_that_are_missing_are_not_attempted() -> None:
    task = TASK["prediction"]
    assert not evaluate(task, dict.fromkeys(task.specs)).attempted
    one = evaluate(task, dict.fromkeys(task.specs) | {"d_k from 16 to 256, spread of q·k, times": 16})
    assert one.attempted and one.points == 0 and one.mistakes == ("variance_for_spread",)


@pytest.mark.parametrize("verdict", [None, True, False])
def test_a_test_that_always_says_the_same_gains_nothing(verdict) -> None:
    assert evaluate(TASK["test_attention"], lambda attention: verdict).points == 0


def test_a_test_that_compares_to_the_last_digit_refuses_right_programs() -> None:
    def too_strict(attention):
        g = torch.Generator().manual_seed(0)
        inputs = [torch.randn(2, n, d, generator=g) for n, d in ((3, 4), (5, 4), (5, 6))]
        assert torch.equal(attention(*inputs)[0].double(), references.attention(*inputs)[0].double())

    report = evaluate(TASK["test_attention"], too_strict)
    assert report.points == 0 and "refuses a right program" in repr(report)


def test_a_module_says_in_words_what_is_missing() -> None:
    class OtherNames(nn.Module):
        def __init__(self, d_model, d_k, d_v, dropout=0.0):
            super().__init__()
            self.query = nn.Linear(d_model, d_k, bias=False)

    report = evaluate(TASK["SelfAttention"], OtherNames)
    assert report.points == 0 and "w_q.weight" in repr(report)

    class WithBias(WeightsFirst):
        def __init__(self, d_model, d_k, d_v, dropout=0.0):
            super().__init__(d_model, d_k, d_v, dropout)
            self.w_v = nn.Linear(d_model, d_v)

    assert "w_v.bias" in repr(evaluate(TASK["SelfAttention"], WithBias))
    report = evaluate(TASK["SelfAttention"], WeightsFirst(6, 4, 3))
    assert report.points == 0 and "the class itself" in repr(report)


# --- the references and the course's own attention are the same -------------------------------------------


def test_the_reference_equals_the_course() -> None:
    g = torch.Generator().manual_seed(3)
    query, key, value = (torch.randn(2, n, d, generator=g) for n, d in ((3, 4), (5, 4), (5, 6)))
    mask = causal_mask(3, 5)
    mask[0] = False
    wanted = scaled_dot_product_attention(query, key, value, mask)
    output, weights = references.attention(query, key, value, mask)
    torch.testing.assert_close(output, wanted.output)
    torch.testing.assert_close(weights, wanted.weights)

    ours, theirs = references.SelfAttention(6, 4, 3), SelfAttention(6, 4, 3)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 5, 6, generator=g)
    torch.testing.assert_close(ours(x)[0], theirs(x).output)


def test_the_puzzle_has_the_scale_that_its_check_expects() -> None:
    g = torch.Generator().manual_seed(0)
    spreads = []
    for width in (8, 128):
        query, key = torch.randn(400, width, generator=g), torch.randn(100, width, generator=g)
        spreads.append(colleague_weights(query, key).log().std(dim=-1).mean().item())
    exponent = 0.5 - math.log(spreads[1] / spreads[0]) / math.log(128 / 8)
    assert evaluate(TASK["exponent"], exponent).passed
