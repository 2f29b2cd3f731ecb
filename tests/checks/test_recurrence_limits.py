"""The checks of lesson 1: right answers, however written, get full marks; known mistakes are named."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnlab.checks import ch01_recurrence_limits as chapter
from attnlab.checks.ch01_recurrence_limits import references
from attnlab.checks.engine import TASKS, evaluate
from tests.checks.right_answers.recurrence_limits import judge_by_loop

PATIENT = 120.0  # seconds: a loaded machine must not fail a test
IMPLEMENT = [chapter.RNN_STATES, chapter.DECAY_BOUND, chapter.REMAINING_GRADIENT, chapter.FORGET_BIAS]
ALL = [*IMPLEMENT, chapter.HORIZON, chapter.CATCHES_CUT, chapter.ANSWER_LOSS]


def judged(task, answer, seed=0):
    return evaluate(task, answer, seed=seed, fresh=seed + 1000, seconds=PATIENT)


def test_the_chapter_has_these_tasks_of_five_kinds():
    assert [task for task in TASKS.values() if task.lesson == "recurrence_limits"] == ALL
    assert {task.kind for task in ALL} == {"implement", "measure", "predict", "test", "repair"}
    assert all(len(task.mistakes) >= 8 for task in ALL)
    assert sum(task.max_points for task in ALL) == 30


# --- right answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [int, float, torch.tensor, lambda value: torch.tensor(float(value))])
def test_a_prediction_may_be_any_kind_of_number(number):
    answer = {"bias 0": number(20), "bias 1": number(45), "bias 2": number(109)}
    assert judged(chapter.HORIZON, answer).passed


def test_the_predictions_follow_from_the_gate():
    for part, spec in chapter.HORIZON.specs.items():
        gate = 1 / (1 + math.exp(-int(part[-1])))
        steps = spec.example()
        assert gate**steps < 1e-6 <= gate ** (steps - 1)


# --- known mistakes ---------------------------------------------------------------------------------------


def test_the_catalogue_holds_pairs_too():
    pairs = sum(len(combination) == 2 for task in ALL for combination in task.combinations())
    assert pairs > 300


def test_a_wrong_answer_that_nobody_foresaw_is_caught_without_a_name():
    def unforeseen(inputs, first_state, W, U, b):
        return references.rnn_states(inputs, first_state, W, U, b) ** 3

    report = judged(chapter.RNN_STATES, unforeseen)
    assert report.points == 1  # for the shape
    assert not report.hints


def test_a_test_of_values_is_not_enough():
    def values(program):
        g = torch.Generator().manual_seed(0)
        x = torch.randn(2, 40, 3, generator=g, dtype=torch.float64)
        before = program(x)[:, -1]
        x[:, 0] += 1
        assert not torch.equal(program(x)[:, -1], before)

    report = judged(chapter.CATCHES_CUT, values)
    assert "thrown_away" not in report.mistakes
    assert len(report.mistakes) == 7


def test_a_threshold_refuses_right_programs():
    def threshold(program):
        x = torch.randn(3, 40, 3, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(program(x)[:, -1].sum(), x)
        assert (gradient.abs() > 1e-6).all()

    assert judged(chapter.CATCHES_CUT, threshold).points == 0


def test_tests_that_say_yes_or_no_to_everything_earn_nothing():
    def refuse(program):
        raise AssertionError

    assert judged(chapter.CATCHES_CUT, lambda program: None).points == 0
    assert judged(chapter.CATCHES_CUT, refuse).points == 0


# --- untouched --------------------------------------------------------------------------------------------


def unwritten(*_, **__):
    raise NotImplementedError("your turn")


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.name)
@pytest.mark.parametrize(
    "answer",
    [
        None,
        ...,
        unwritten,
        lambda *_, **__: None,
        {},
        {"bias 0": None, "bias 1": None, "bias 2": None},
        "x",
        3,
    ],
    ids=["none", "ellipsis", "unwritten", "returns none", "empty", "unfilled", "text", "number"],
)
def test_what_is_no_answer_gets_nothing_and_stops_nothing(task, answer):
    report = judged(task, answer)
    assert report.points == 0
    assert repr(report)
    assert report._repr_html_()
    if answer is None or answer is unwritten and task is not chapter.HORIZON:
        assert repr(report) == f"{task.title}: not attempted yet"


def broken_program(embedding, layer, readout, tokens, targets):
    """The program as the exercise gives it."""
    state, outputs = None, []
    for part in embedding(tokens).split(8, dim=1):
        output, state = layer(part, state)
        outputs.append(output)
        state = state.detach()
    states = torch.cat(outputs, dim=1)
    probabilities = readout(states[:, -2]).softmax(dim=-1)
    return F.cross_entropy(probabilities, targets)


def test_the_program_to_repair_counts_as_untouched():
    report = judged(chapter.ANSWER_LOSS, broken_program)
    assert repr(report) == "Repair: the network that never learns: not attempted yet"
    assert report.points == 0
    assert not report.attempted


def test_a_half_repaired_program_is_told_what_is_left():
    def half(embedding, layer, readout, tokens, targets):
        output, _ = layer(embedding(tokens))
        return F.cross_entropy(readout(output[:, -2]).softmax(dim=-1), targets)

    report = judged(chapter.ANSWER_LOSS, half)
    assert report.attempted
    assert set(report.mistakes) == {"reads_before_last", "softmax_twice"}


# --- the ways of looking at an answer ---------------------------------------------------------------------


def test_deleting_a_parameter_is_caught():
    def delete(lstm, value):
        references.set_forget_bias(lstm, value)
        lstm.extra = nn.Parameter(torch.zeros(1))

    assert judged(chapter.FORGET_BIAS, delete).points == 0


def test_changing_a_weight_is_caught():
    def spoil(lstm, value):
        references.set_forget_bias(lstm, value)
        with torch.no_grad():
            lstm.weight_hh_l0[0, 0] += 1

    report = judged(chapter.FORGET_BIAS, spoil)
    assert [result.status for result in report.results] == ["right", "right", "wrong", "right"]


@pytest.mark.parametrize("value", [torch.ones(2), "1", 1j, torch.tensor(1j), None, [1.0]])
def test_a_bound_must_be_one_real_number(value):
    assert judged(chapter.DECAY_BOUND, lambda W, distance: value).points == 0


def test_a_loss_without_a_gradient_is_caught():
    def detached(*parts):
        return references.answer_loss(*parts).detach()

    report = judged(chapter.ANSWER_LOSS, detached)
    assert report.points == 0
    assert "no gradient" in report.results[0].message


def test_answers_leave_the_programs_of_the_exercise_as_they_are():
    x = torch.randn(2, 20, 3, dtype=torch.float64)
    before = [program(x).clone() for program in (references.read_all, *references.OTHER_READERS)]
    judged(chapter.CATCHES_CUT, judge_by_loop)
    after = [program(x) for program in (references.read_all, *references.OTHER_READERS)]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_the_agreement_with_the_library():
    """The library's set_forget_bias and gradient_by_distance are right answers too."""
    from attnlab import recurrent

    assert judged(chapter.FORGET_BIAS, recurrent.set_forget_bias).passed

    def by_library(layer, inputs, direction):
        curve = torch.zeros(inputs.shape[1], dtype=inputs.dtype)
        x = inputs.clone().requires_grad_()
        (g,) = torch.autograd.grad(layer(x)[0][:, -1], x, direction)
        curve += g.norm(dim=-1).mean(dim=0).flip(0)
        return curve / copy.copy(curve[0])

    assert judged(chapter.REMAINING_GRADIENT, by_library).passed
