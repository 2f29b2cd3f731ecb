"""Lesson 7, the block: the exercises' tasks, cases and known mistakes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..engine import (
    Between,
    Call,
    Choice,
    Failed,
    FunctionTask,
    JudgeTask,
    ModuleTask,
    Near,
    ValueTask,
    expect_close,
    expect_tensor,
    normal,
)
from ..modules import load
from . import mistakes as known
from . import references
from .blocks import block_task, expect_gradients, expect_learning
from .inputs import (
    OTHER_SIZES,
    SIZES,
    far_stream,
    layer_functions,
    linear_layers,
    mask,
    norm_parameters,
    stream,
)
from .judging import MUTANTS, OTHER_NORMS, a_right_test, judge_probes
from .stack import observe_stack, stack_inputs, starts_apart

# --- the norm -----------------------------------------------------------------------------------------------

_FAR = 5e-3  # how far right answers may be apart where float32 has few digits left


def _norm_probes(g: torch.Generator) -> list[Any]:
    weights, wide = norm_parameters(g, 6), norm_parameters(g, 3)
    constant = torch.full((2, 4, 6), 3.0)
    return [
        Call({"d_model": 6}, weights, stream(g)),
        Call({"d_model": 3, "eps": 0.5}, wide, stream(g, width=3)),
        Call({"d_model": 6}, weights, 1e-3 * stream(g)),
        Call({"d_model": 6}, weights, constant),
        Call({"d_model": 6}, weights, far_stream(g), far=True),
        Call({"d_model": 6}, {}, stream(g)),
        Call({"d_model": 6}, weights, stream(g), direction=normal(g, 4, 5, 6)),
    ]


def _observe_norm(
    answer: Any,
    sizes: Any,
    weights: Any,
    x: Tensor,
    *,
    far: bool = False,
    direction: Tensor | None = None,
) -> Any:
    if not weights:
        return tuple(answer.build(sizes).state_dict().values())
    if direction is not None:
        return _gradient(answer, sizes, weights, direction, x)
    given = answer(sizes, weights, x)
    if not far:
        return given
    # Here rounding decides the digits: what counts is whether the result is still of any use.
    expected = references.layer_norm(x, weights["weight"], weights["bias"])
    return bool((expect_tensor(given, tuple(x.shape)) - expected).abs().max() < _FAR)


LAYER_NORM = ModuleTask(
    "block.LayerNorm",
    "A layer norm by hand",
    references.LayerNorm,
    probes=_norm_probes,
    observe=_observe_norm,
    mistakes=known.LAYER_NORM,
)


def _gradient(answer: Any, sizes: Any, weights: Any, direction: Tensor, x: Tensor) -> Tensor | None:
    """The gradient at the tokens; None where there is none."""
    module, read = answer.build(sizes), x.clone().requires_grad_()
    load(module, weights)
    normed = module(read)
    expect_tensor(normed, tuple(x.shape), "the normed tokens")
    if normed.requires_grad:
        (normed * direction).sum().backward()
    return read.grad


def _expect_norm(answer: Any, sizes: dict[str, Any], weights: dict[str, Tensor], x: Tensor) -> None:
    eps = sizes.get("eps", 1e-5)
    expected = references.layer_norm(x, weights["weight"], weights["bias"], eps)
    expect_close(answer(sizes, weights, x), expected, "the normed tokens")


@LAYER_NORM.case("a new norm gives each token mean 0 and variance 1", 1)
def _(answer: Any, g: torch.Generator) -> None:
    x = stream(g)
    normed = expect_tensor(answer.build({"d_model": 6})(x), (4, 5, 6), "the normed tokens")
    expect_close(normed, F.layer_norm(x, (6,)), "the normed tokens")


@LAYER_NORM.case("any weight, any bias, any small constant", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_norm(answer, {"d_model": 6}, norm_parameters(g, 6), stream(g))
    _expect_norm(answer, {"d_model": 3, "eps": 0.5}, norm_parameters(g, 3), stream(g, width=3))
    _expect_norm(answer, {"d_model": 6}, norm_parameters(g, 6), stream(g)[0])  # (T, d_model)


@LAYER_NORM.case("tiny and constant tokens", 1)
def _(answer: Any, g: torch.Generator) -> None:
    weights = norm_parameters(g, 6)
    _expect_norm(answer, {"d_model": 6}, weights, 1e-3 * stream(g))
    # The mean of equal numbers may be off in its last digit, which the tiny root makes larger.
    constant = answer({"d_model": 6}, weights, torch.full((2, 4, 6), 3.0))
    expect_close(constant, weights["bias"].expand(2, 4, 6), "the normed tokens", absolute=1e-3)


@LAYER_NORM.case("tokens far from zero", 1)
def _(answer: Any, g: torch.Generator) -> None:
    weights, x = norm_parameters(g, 6), far_stream(g)
    expected = references.layer_norm(x.double(), weights["weight"], weights["bias"]).float()
    expect_close(answer({"d_model": 6}, weights, x), expected, "the normed tokens", absolute=_FAR)


@LAYER_NORM.case("weight and bias start neutral and are learnt, and the gradient gets through", 1)
def _(answer: Any, g: torch.Generator) -> None:
    module = answer.build({"d_model": 6})
    state = module.state_dict()
    for name, start in (("weight", torch.ones(6)), ("bias", torch.zeros(6))):
        if name not in state:
            raise Failed(f"the module has no {name}; keep the names of the stub")
        expect_close(state[name], start, f"the {name} at the start")
    normed = module(stream(g))
    expect_tensor(normed, (4, 5, 6), "the normed tokens")
    if not normed.requires_grad:
        raise Failed("no gradient reaches weight and bias")
    normed.square().sum().backward()
    expect_gradients(module, ("weight", "bias"))
    weights = norm_parameters(g, 6)
    inputs = {"d_model": 6}, weights, normal(g, 4, 5, 6), stream(g)
    expect_learning(answer, LAYER_NORM.adapt(references.LayerNorm), *inputs)


@LAYER_NORM.case("one token alone, and more axes", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for lead, width in (((), 50), ((2, 3, 5), 4)):
        x = 2 * normal(g, *lead, width) - 1
        _expect_norm(answer, {"d_model": width, "eps": 1e-3}, norm_parameters(g, width), x)


# --- predict, then test -------------------------------------------------------------------------------------

PREDICTION = ValueTask(
    "block.prediction",
    "Predict, then test",
    {
        "1. layer norm of 10 x": Choice("stays", options=known.CHANGES),
        "2. gradient through the norm at 10 x, times": Near(0.1, relative=0.01),
        "3. what a pre-norm block's attention adds to 10 x": Choice("stays", options=known.CHANGES),
        "4. tokens that change in the norm": Near(1),
        "5. silent pre-norm blocks, output": Choice("stays", options=("changes", "stays")),
        "6. silent post-norm blocks, size of the output": Near(1, absolute=0.01),
    },
    kind="predict",
    points=6,
    wrong=known.PREDICTION,
)

# --- the blocks ---------------------------------------------------------------------------------------------

POST_NORM = block_task(
    "PostNormBlock",
    "The paper's block",
    references.post_norm_block,
    "after the sum",
    (
        known.OTHER_KIND_POST,
        known.NORM_ON_F,
        known.NORMED_SUM,
        known.NORM_TWICE,
        *known.RESIDUAL,
        *known.NORMS,
        known.ORDER,
        *known.MASK,
        *known.DROPOUT,
    ),
)

PRE_NORM = block_task(
    "PreNormBlock",
    "The block of most later models",
    references.pre_norm_block,
    "before f",
    (
        known.OTHER_KIND_PRE,
        known.NORMED_SUM,
        known.NORM_ON_F,
        known.NORM_TWICE,
        *known.RESIDUAL,
        *known.NORMS,
        known.ORDER,
        *known.MASK,
        *known.DROPOUT,
    ),
)

# --- the probe, and what it finds ---------------------------------------------------------------------------


def _probe_inputs(g: torch.Generator, depth: int, B: int = 2, T: int = 5, width: int = 3) -> tuple[Any, ...]:
    return layer_functions(g, depth, width, T), normal(g, B, T, width), normal(g, B, T, width)


GRADIENT_BY_LAYER = FunctionTask(
    "block.gradient_by_layer",
    "A gradient probe",
    references.gradient_by_layer,
    kind="measure",
    probes=lambda g: [_probe_inputs(g, 4), _probe_inputs(g, 3, B=3, T=4, width=5)],
    mistakes=known.PROBE,
)


@GRADIENT_BY_LAYER.case("one length for each layer's input, and one for the end", 1)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(*_probe_inputs(g, 4)), (5,), "the lengths")


@GRADIENT_BY_LAYER.case("at the end, the gradient is the direction itself", 1)
def _(answer: Any, g: torch.Generator) -> None:
    layers, x, direction = _probe_inputs(g, 3)
    lengths = expect_tensor(answer(layers, x, direction), (4,), "the lengths")
    expect_close(lengths[-1], direction.norm(), "the length at the end")


@GRADIENT_BY_LAYER.case("a stack of matrices, worked out by hand", 2)
def _(answer: Any, g: torch.Generator) -> None:
    layers, matrices = linear_layers(g, 3, 4)
    x, gradient = normal(g, 2, 5, 4), normal(g, 2, 5, 4)
    lengths = expect_tensor(answer(layers, x, gradient), (4,), "the lengths")
    expected = [gradient.norm()]
    for matrix in reversed(matrices):
        gradient = gradient @ matrix.T
        expected.insert(0, gradient.norm())
    expect_close(lengths, torch.stack(expected), "the lengths")


@GRADIENT_BY_LAYER.case("layers that mix tokens and bend", 1)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _probe_inputs(g, 5, B=4, T=6, width=3)
    expect_close(answer(*inputs), references.gradient_by_layer(*inputs), "the lengths")


@GRADIENT_BY_LAYER.case("a single layer, and many", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for depth in (1, 9):
        inputs = _probe_inputs(g, depth, B=1, T=2, width=7)
        expect_close(answer(*inputs), references.gradient_by_layer(*inputs), "the lengths")


FINDINGS = ValueTask(
    "block.findings",
    "What the probe finds",
    {
        "pre-norm, power 0, depth 16 to 64, ratio times": Between(1.5, 2.5),
        "pre-norm, power closest to 0 that stops the growth": Near(-0.5, absolute=0.1),
        "no norm, depth 16, ratio": Choice("above a thousand", options=known.RATIOS),
        "post-norm, depth 64, ratio": Choice("in between", options=known.RATIOS),
    },
    kind="explore",
    points=4,
    wrong=known.FINDINGS,
)

# --- repair -------------------------------------------------------------------------------------------------

_STACK = {**SIZES, "depth": 3}


REPAIR = ModuleTask(
    "block.Encoder",
    "Repair a stack that trains",
    references.Encoder,
    kind="repair",
    probes=lambda g: [
        stack_inputs(g, _STACK),
        stack_inputs(g, {**OTHER_SIZES, "depth": 2}, B=2, T=3),
        (*stack_inputs(g, _STACK), mask(g, 4, empty=True)),
    ],
    observe=observe_stack,
    untouched=("one_object", "adds_to_the_normed"),
    mistakes=(
        *known.MADE,
        known.NORMED_SUM,
        known.OTHER_KIND_PRE,
        known.NORM_ON_F,
        known.NORM_TWICE,
        known.ENDS,
        *known.RESIDUAL,
        *known.NORMS,
        known.ORDER,
        *known.MASK,
        known.MASK_FIRST,
    ),
)


def _expect_stack(answer: Any, *inputs: Any) -> None:
    expected = REPAIR.adapt(references.Encoder)(*inputs)
    expect_close(answer(*inputs), expected.detach(), "the output")


@REPAIR.case("the shape of the output", 0)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(*stack_inputs(g, _STACK)), (4, 5, 6), "the output")


@REPAIR.case("a stack of one layer", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_stack(answer, *stack_inputs(g, {**SIZES, "depth": 1}))


@REPAIR.case("a stack of three layers with different weights", 2)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = stack_inputs(g, _STACK)
    for allowed in (mask(g, 4), mask(g)):
        _expect_stack(answer, *inputs, allowed)
    sizes, weights, x = inputs
    expect_learning(
        answer, REPAIR.adapt(references.Encoder), sizes, weights, normal(g, *x.shape), x, mask(g, 4)
    )


@REPAIR.case("the layers start with different weights", 1)
def _(answer: Any, g: torch.Generator) -> None:
    if not starts_apart(answer.build(_STACK)):
        raise Failed("some layers start with the same weights as others")


@REPAIR.case("other sizes, a row that hides everything", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    sizes = {**OTHER_SIZES, "depth": 4}
    _expect_stack(answer, *stack_inputs(g, sizes, B=2, T=3), mask(g, T=3, empty=True))


# --- a test that finds the bugs -----------------------------------------------------------------------------

TEST_LAYER_NORM = JudgeTask(
    "block.test_layer_norm",
    "A test that finds the bugs",
    reference=references.layer_norm,
    probes=judge_probes,
    example=a_right_test,
    also_right=OTHER_NORMS,
    points=5,
    mistakes=MUTANTS,
)
