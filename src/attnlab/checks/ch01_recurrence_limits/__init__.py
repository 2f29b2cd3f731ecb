"""Lesson 1, what recurrent networks forget: the exercises' tasks, cases and known mistakes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..engine import (
    FunctionTask,
    ValueTask,
    expect_close,
    expect_tensor,
    normal,
)
from ..verdict import Failed
from . import mistakes, references
from .kinds import ForgetBiasTask, GradientJudgeTask, LossTask, NumberTask, uniform_layer

# --- a recurrent network by hand --------------------------------------------------------------------------


def _rnn_inputs(g: torch.Generator, batch: int, length: int, width: int, hidden: int) -> tuple[Tensor, ...]:
    """Inputs, first state, W, U and b: none of them small, so that no term can be left out unnoticed."""
    return (
        normal(g, batch, length, width),
        0.5 * normal(g, batch, hidden),
        0.6 * normal(g, hidden, hidden),
        0.6 * normal(g, hidden, width),
        0.5 * normal(g, hidden),
    )


RNN_STATES = FunctionTask(
    "recurrence_limits.rnn_states",
    "A recurrent network by hand",
    references.rnn_states,
    probes=lambda g: [_rnn_inputs(g, 2, 4, 3, 5), _rnn_inputs(g, 3, 6, 2, 4)],
    mistakes=mistakes.RNN_STATES,
)


@RNN_STATES.case("one state for each position", 1)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(*_rnn_inputs(g, 2, 4, 3, 5)), (2, 4, 5), "the states")


@RNN_STATES.case("one step", 1)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _rnn_inputs(g, 3, 1, 2, 4)
    expect_close(answer(*inputs), references.rnn_states(*inputs), "the state after one step")


@RNN_STATES.case("each state is made from the one before", 2)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _rnn_inputs(g, 2, 5, 3, 4)
    expect_close(answer(*inputs), references.rnn_states(*inputs), "the states")


@RNN_STATES.case("the same as PyTorch's own layer", 1)
def _(answer: Any, g: torch.Generator) -> None:
    layer = uniform_layer(nn.RNN(3, 4, batch_first=True), g)
    inputs, first_state = normal(g, 2, 6, 3), normal(g, 2, 4)
    with torch.no_grad():
        expected, _last = layer(inputs, first_state[None])
    weights = {name: parameter.detach() for name, parameter in layer.named_parameters()}
    b = weights["bias_ih_l0"] + weights["bias_hh_l0"]
    states = answer(inputs, first_state, weights["weight_hh_l0"], weights["weight_ih_l0"], b)
    expect_close(states, expected, "the states")


# --- the bound --------------------------------------------------------------------------------------------


def _matrix(g: torch.Generator, size: int, largest: float) -> Tensor:
    """A square matrix, far from symmetric, with a known largest singular value."""
    matrix = normal(g, size, size).double()
    stretched: Tensor = matrix * (largest / torch.linalg.matrix_norm(matrix, ord=2))
    return stretched


DECAY_BOUND = NumberTask(
    "recurrence_limits.decay_bound",
    "How much of the gradient can be left",
    references.decay_bound,
    probes=lambda g: [(_matrix(g, 4, 0.9), 3), (_matrix(g, 5, 1.3), 5), (_matrix(g, 3, 0.7), 2)],
    mistakes=mistakes.DECAY_BOUND,
)


@DECAY_BOUND.case("one step", 1)
def _(answer: Any, g: torch.Generator) -> None:
    matrix = _matrix(g, 4, 0.8)
    expect_close(answer(matrix, 1), references.decay_bound(matrix, 1), "the bound")


@DECAY_BOUND.case("many steps", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for size, largest, distance in [(3, 0.9, 4), (5, 1.2, 6), (4, 0.6, 2)]:
        matrix = _matrix(g, size, largest)
        expect_close(answer(matrix, distance), references.decay_bound(matrix, distance), "the bound")


@DECAY_BOUND.case("no step leaves everything", 1)
def _(answer: Any, g: torch.Generator) -> None:
    expect_close(
        answer(_matrix(g, 4, 0.7), 0), torch.tensor(1.0, dtype=torch.float64), "the bound at distance 0"
    )


# --- measure a GRU ----------------------------------------------------------------------------------------


def _gradient_inputs(g: torch.Generator, kind: type[nn.GRU] | type[nn.RNN], *sizes: int) -> tuple[Any, ...]:
    """A layer with weights of its own, inputs (B, T, D) and a direction (B, H) for each example."""
    batch, length, width, hidden = sizes
    layer = uniform_layer(kind(width, hidden, batch_first=True), g).double()
    return layer, normal(g, batch, length, width).double(), normal(g, batch, hidden).double()


REMAINING_GRADIENT = FunctionTask(
    "recurrence_limits.remaining_gradient",
    "Measure a GRU",
    references.remaining_gradient,
    probes=lambda g: [_gradient_inputs(g, nn.GRU, 3, 5, 2, 4), _gradient_inputs(g, nn.RNN, 4, 6, 3, 5)],
    kind="measure",
    mistakes=mistakes.REMAINING_GRADIENT,
)


def _curve(value: object) -> Tensor:
    return expect_tensor(value, (6,), "the curve", dtype=torch.float64)


@REMAINING_GRADIENT.case("one number for each distance", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _curve(answer(*_gradient_inputs(g, nn.GRU, 3, 6, 2, 4)))


@REMAINING_GRADIENT.case("distance 0 is the unit", 1)
def _(answer: Any, g: torch.Generator) -> None:
    layer, inputs, direction = _gradient_inputs(g, nn.GRU, 3, 6, 2, 4)
    curve = _curve(answer(layer, inputs, direction))
    expect_close(curve[:1], torch.ones(1, dtype=curve.dtype), "the entry at distance 0")
    twice = _curve(answer(layer, inputs, 2 * direction))
    expect_close(twice, curve, "the curve for a direction of twice the length")


@REMAINING_GRADIENT.case("the curve of a GRU", 2)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _gradient_inputs(g, nn.GRU, 3, 6, 2, 4)
    expect_close(answer(*inputs), references.remaining_gradient(*inputs), "the curve")


@REMAINING_GRADIENT.case("the curve of a plain network", 1)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _gradient_inputs(g, nn.RNN, 2, 5, 3, 4)
    expect_close(answer(*inputs), references.remaining_gradient(*inputs), "the curve")


# --- the forget bias --------------------------------------------------------------------------------------

_SMALL = {"input_size": 2, "hidden_size": 3}
_TWO_LAYERS = {**_SMALL, "num_layers": 2}
_BOTH_WAYS = {**_SMALL, "num_layers": 2, "bidirectional": True}


def _seed(g: torch.Generator) -> int:
    return int(torch.randint(1_000_000, (), generator=g))


FORGET_BIAS = ForgetBiasTask(
    "recurrence_limits.set_forget_bias",
    "Set the forget bias",
    references.set_forget_bias,
    probes=lambda g: [(_SMALL, _seed(g), 1.5), (_BOTH_WAYS, _seed(g), 2.5)],
    mistakes=mistakes.FORGET_BIAS,
)


def _forget_bias_case(answer: Any, sizes: dict[str, Any], g: torch.Generator) -> tuple[Any, ...]:
    seed, value = _seed(g), 0.5 + float(torch.rand((), generator=g))
    after: tuple[Any, ...] = answer(sizes, seed, value)
    expect_close(after[0], torch.full_like(after[0], value), "the forget gate's bias, both vectors together")
    return after


@FORGET_BIAS.case("the forget gate gets the value", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _forget_bias_case(answer, _SMALL, g)


@FORGET_BIAS.case("every layer and direction gets it", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _forget_bias_case(answer, _TWO_LAYERS, g)
    _forget_bias_case(answer, _BOTH_WAYS, g)


@FORGET_BIAS.case("nothing else changes", 1)
def _(answer: Any, g: torch.Generator) -> None:
    seed = _seed(g)
    untouched = FORGET_BIAS.adapt(lambda lstm, value: None)(_SMALL, seed, 1.0)
    after = answer(_SMALL, seed, 1.0)
    if torch.equal(after[0], untouched[0]):
        raise Failed("the forget gate's bias has not changed")
    expect_close(after[1], untouched[1], "the other gates' biases")
    if not after[2]:
        raise Failed("the weights should stay as they are")


@FORGET_BIAS.case("the LSTM can still be trained", 1)
def _(answer: Any, g: torch.Generator) -> None:
    after = _forget_bias_case(answer, _TWO_LAYERS, g)
    if not after[3]:
        raise Failed("the LSTM should keep its own parameters: an optimizer may hold them already")
    if not after[4]:
        raise Failed("every parameter should still take a gradient")


# --- predict, then test -----------------------------------------------------------------------------------


HORIZON = ValueTask(
    "recurrence_limits.horizon",
    "Predict, then test: how far does a cell remember?",
    mistakes.horizons(20, 45, 109),
    kind="predict",
    points=3,
    wrong=mistakes.HORIZON,
)


# --- design a test ----------------------------------------------------------------------------------------


def _reach_is_whole(program: Any) -> None:
    """A right test: every number of every input has a gradient at the last output."""
    generator = torch.Generator().manual_seed(0)
    inputs = normal(generator, 3, 40, references.READER_WIDTH, dtype=torch.float64).requires_grad_()
    outputs = program(inputs)  # (B, T, H)
    (gradient,) = torch.autograd.grad(outputs[:, -1].sum(), inputs)  # (B, T, D)
    assert (gradient != 0).all(), "some input cannot reach the last output"


CATCHES_CUT = GradientJudgeTask(
    "recurrence_limits.catches_cut",
    "Design a test: catch a cut gradient",
    reference=references.read_all,
    probes=lambda g: [(normal(g, 2, 32, references.READER_WIDTH).double().requires_grad_(),)],
    example=_reach_is_whole,
    also_right=references.OTHER_READERS,
    points=4,
    mistakes=mistakes.CATCHES_CUT,
)


# --- repair a program -------------------------------------------------------------------------------------

ANSWER_LOSS = LossTask(
    "recurrence_limits.answer_loss",
    "Repair: the network that never learns",
    references.answer_loss,
    probes=lambda g: [(_seed(g), 3, 21), (_seed(g), 2, 30)],
    kind="repair",
    untouched=("detached", "reads_before_last", "softmax_twice"),
    absolute=1e-6,
    mistakes=mistakes.ANSWER_LOSS,
)


@ANSWER_LOSS.case("the loss", 2)
def _(answer: Any, g: torch.Generator) -> None:
    seed = _seed(g)
    loss, _gradient = answer(seed, 3, 21)
    expect_close(loss, ANSWER_LOSS.adapt(references.answer_loss)(seed, 3, 21)[0], "the loss")


@ANSWER_LOSS.case("the gradient that reaches the first tokens", 2)
def _(answer: Any, g: torch.Generator) -> None:
    seed = _seed(g)
    _loss, gradient = answer(seed, 3, 21)
    expected = ANSWER_LOSS.adapt(references.answer_loss)(seed, 3, 21)[1]
    expect_close(gradient, expected, "the gradient at the first tokens", absolute=1e-6)


@ANSWER_LOSS.case("a short and a long sequence", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for batch, length in [(2, 9), (4, 40)]:
        seed = _seed(g)
        expected = ANSWER_LOSS.adapt(references.answer_loss)(seed, batch, length)
        expect_close(answer(seed, batch, length)[0], expected[0], "the loss")
