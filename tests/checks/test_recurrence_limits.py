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


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.name)
@pytest.mark.parametrize("seed", range(5))
def test_the_reference_gets_full_marks(task, seed):
    report = judged(task, task.right(), seed)
    assert report.passed, report
    assert report.points == task.max_points
    assert not report.hints


def states_by_cell(inputs, first_state, W, U, b):
    cell = nn.RNNCell(inputs.shape[-1], W.shape[0])
    weights = {"weight_ih": U, "weight_hh": W, "bias_ih": b, "bias_hh": torch.zeros_like(b)}
    states = [first_state]
    for step in inputs.unbind(dim=1):
        states.append(torch.func.functional_call(cell, weights, (step, states[-1])))
    return torch.stack(states[1:], dim=1)


def states_by_columns(inputs, first_state, W, U, b):
    result = torch.zeros(inputs.shape[0], inputs.shape[1], len(b))
    for row in range(inputs.shape[0]):
        h = first_state[row]
        for t in range(inputs.shape[1]):
            h = torch.tanh(W @ h + U @ inputs[row, t] + b)
            result[row, t] = h
    return result


def states_by_layer(inputs, first_state, W, U, b):
    layer = nn.RNN(inputs.shape[-1], len(b), batch_first=True)
    weights = {
        "weight_ih_l0": U,
        "weight_hh_l0": W,
        "bias_ih_l0": b / 2,
        "bias_hh_l0": b / 2,
    }
    return torch.func.functional_call(layer, weights, (inputs, first_state[None]))[0]


def bound_from_values(W, distance):
    return float(torch.linalg.svdvals(W)[0]) ** distance


def bound_from_square(W, distance):
    return torch.linalg.eigvalsh(W @ W.T)[-1].sqrt().pow(distance)


def bound_step_by_step(W, distance):
    bound = 1.0
    for _ in range(distance):
        bound *= torch.linalg.norm(W, 2).item()
    return bound


def gradient_by_backward(layer, inputs, direction):
    inputs.requires_grad_()
    output, _ = layer(inputs)
    output[:, -1].backward(direction)
    curve = inputs.grad.square().sum(-1).sqrt().mean(0)
    return torch.flip(curve, (0,)) / curve[-1]


def gradient_by_sum(layer, inputs, direction):
    x = inputs.detach().clone().requires_grad_()
    torch.einsum("bh,bh->", layer(x)[0][:, -1, :], direction).backward()
    norms = torch.linalg.vector_norm(x.grad, dim=2).sum(dim=0)  # a sum over the batch divides out
    return norms.flip(-1) / norms[-1]


def gradient_one_by_one(layer, inputs, direction):
    total = torch.zeros(inputs.shape[1], dtype=inputs.dtype)
    for x, d in zip(inputs, direction, strict=True):
        x = x[None].clone().requires_grad_()
        (g,) = torch.autograd.grad(layer(x)[1][0], x, d[None])
        total += g[0].norm(dim=1)
    return torch.stack([total[-1 - k] / total[-1] for k in range(len(total))])


def bias_by_quarters(lstm, value):
    H = lstm.hidden_size
    for name, parameter in lstm.named_parameters():
        if "bias" in name:
            parameter.data[H : 2 * H].fill_(value / 2)


def bias_by_attributes(lstm, value):
    with torch.no_grad():
        for layer in range(lstm.num_layers):
            for ending in ["", "_reverse"][: 1 + lstm.bidirectional]:
                _, ih, _, _ = getattr(lstm, f"bias_ih_l{layer}{ending}").chunk(4)
                _, hh, _, _ = getattr(lstm, f"bias_hh_l{layer}{ending}").chunk(4)
                ih.zero_()
                hh.fill_(value)
    return lstm


@torch.no_grad()
def bias_by_difference(lstm, value):
    biases = {name: p.view(4, -1)[1] for name, p in lstm.named_parameters() if name.startswith("bias")}
    for name, forget in biases.items():
        if "_ih_" in name:
            forget.copy_(value - biases[name.replace("_ih_", "_hh_")])


def test_by_jacobian(program):
    inputs = torch.randn(2, 36, 3, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: program(x)[:, -1].sum(dim=0), inputs)
    return bool((jacobian.abs().sum(dim=0) > 0).all())


def test_by_loop(program):
    x = torch.randn(4, 50, 3, requires_grad=True)
    program(x)[:, -1].pow(2).sum().backward()
    for row in x.grad:
        for t, vector in enumerate(row):
            assert vector.ne(0).all(), t


def test_by_weights(program):
    x = torch.rand(3, 33, 3, dtype=torch.float64).add(0.1).requires_grad_(True)
    last = program(x)[:, -1]
    weights = torch.randn(last.shape, generator=torch.Generator().manual_seed(3), dtype=last.dtype)
    if torch.autograd.grad(last, x, weights)[0].eq(0).any():
        raise AssertionError


for _test in (test_by_jacobian, test_by_loop, test_by_weights):
    _test.__test__ = False  # answers to an exercise, not tests of this file


def loss_in_one_piece(embedding, layer, readout, tokens, targets):
    return F.cross_entropy(readout(layer(embedding(tokens))[0][:, -1]), targets)


def loss_from_last_state(embedding, layer, readout, tokens, targets):
    state = None
    for part in tokens.split(8, dim=1):
        _, state = layer(embedding(part), state)
    return F.nll_loss(readout(state[-1]).log_softmax(dim=-1), targets)


def loss_by_hand(embedding, layer, readout, tokens, targets):
    state = torch.zeros(1, len(tokens), layer.hidden_size)
    for t in range(tokens.shape[1]):
        output, state = layer(embedding(tokens[:, t : t + 1]), state)
    logits = readout(output[:, 0])
    return (logits.logsumexp(dim=-1) - logits.gather(1, targets[:, None])[:, 0]).mean()


OTHERS = {
    chapter.RNN_STATES: [states_by_cell, states_by_columns, states_by_layer],
    chapter.DECAY_BOUND: [bound_from_values, bound_from_square, bound_step_by_step],
    chapter.REMAINING_GRADIENT: [gradient_by_backward, gradient_by_sum, gradient_one_by_one],
    chapter.FORGET_BIAS: [bias_by_quarters, bias_by_attributes, bias_by_difference],
    chapter.CATCHES_CUT: [test_by_jacobian, test_by_loop, test_by_weights],
    chapter.ANSWER_LOSS: [loss_in_one_piece, loss_from_last_state, loss_by_hand],
}


@pytest.mark.parametrize(
    ("task", "answer"),
    [(task, answer) for task, answers in OTHERS.items() for answer in answers],
    ids=lambda value: getattr(value, "name", None) or value.__name__,
)
@pytest.mark.parametrize("seed", range(3))
def test_right_answers_written_otherwise_get_full_marks(task, answer, seed):
    report = judged(task, answer, seed)
    assert report.passed, report
    assert not report.hints


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

# Made together, these are another mistake to the last digit: no check could tell.
SAME_AS = {
    ("rnn_states", frozenset({"stuck", "start_ignored"})): {"no_state"},
    ("remaining_gradient", frozenset({"first_output", "divided_by_total"})): {
        "first_output",
        "divided_by_farthest",
    },
    ("remaining_gradient", frozenset({"batch_axis", "rows_first"})): {"batch_axis", "first_example"},
}


@pytest.mark.parametrize(
    ("task", "mistake"),
    [(task, mistake) for task in ALL for mistake in task.mistakes],
    ids=lambda value: getattr(value, "name", None) or value.key,
)
@pytest.mark.parametrize("seed", range(3))
def test_each_mistake_is_caught_and_named(task, mistake, seed):
    report = judged(task, task.answer_with(mistake), seed)
    assert report.points < task.max_points, report
    assert report.mistakes == (mistake.key,), report
    assert report.hints == (mistake.hint,)


@pytest.mark.parametrize("task", ALL, ids=lambda task: task.name)
@pytest.mark.parametrize("seed", range(3))
def test_each_pair_is_caught_and_what_is_named_was_made(task, seed):
    pairs = [pair for pair in task.combinations() if len(pair) == 2]
    for pair in pairs:
        made = {mistake.key for mistake in pair}
        report = judged(task, task.answer_with(*pair), seed)
        assert report.points < task.max_points, (made, report)
        assert report.mistakes, (made, report)
        allowed = SAME_AS.get((task.name, frozenset(made)), made)
        assert set(report.mistakes) <= allowed, (made, report)


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
    judged(chapter.CATCHES_CUT, test_by_loop)
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
