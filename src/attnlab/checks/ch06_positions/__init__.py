"""Lesson 6, positions: the exercises' tasks, cases and known mistakes.

Two right programs may work out a late angle differently in the last digits of float32, by some 1e-5 at
position 300. So numbers made from angles are compared to 1e-3, and every known mistake is much further off.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..answers import Answer
from ..engine import (
    Failed,
    FunctionTask,
    JudgeTask,
    ModuleTask,
    ValueTask,
    expect_close,
    expect_tensor,
    expect_tuple,
    normal,
    outcome_of,
)
from . import alibi_mistakes, mistakes, references, values
from .inputs import (
    WEIGHTS,
    added,
    half_split,
    interleaved,
    late_and_half,
    module_probes,
    observe_module,
    observe_turned,
    placed_heads,
    rotary_scores,
    rotate_probes,
    trained_weights,
)
from .looks import NEAR, expect_scores_by_distance, expect_sum, expect_turned
from .testing import RIGHT_PROGRAMS, WRONG_PROGRAMS, good_test

__all__ = [
    "ALIBI_BIAS",
    "HALF_SPLIT_WEIGHTS",
    "PREDICTION",
    "REACH",
    "ROTATE",
    "SINUSOIDAL_POSITIONS",
    "TEST_ROTARY",
]

# --- sinusoidal positions ---------------------------------------------------------------------------------


SINUSOIDAL_POSITIONS = ModuleTask(
    "positions.SinusoidalPositions",
    "Sinusoidal positions",
    references.SinusoidalPositions,
    probes=module_probes,
    observe=observe_module,
    mistakes=mistakes.SINUSOIDAL,
    absolute=NEAR,
)


@SINUSOIDAL_POSITIONS.case("the tokens are in it, each unchanged", 1)
def _(answer: Any, g: torch.Generator) -> None:
    sizes, x = {"d_model": 6, "max_length": 9}, normal(g, 2, 5, 6)
    with_tokens = expect_tensor(added(answer, sizes, x, 0), (2, 5, 6))
    without = expect_tensor(added(answer, sizes, torch.zeros(2, 5, 6), 0), (2, 5, 6))
    expect_close(with_tokens - without, x, "the result, less what zeros give", absolute=NEAR)
    (gradient,) = Answer(answer.build(sizes).eval()).gradients(x, 0)
    if gradient is None:
        raise Failed("no gradient reaches the embeddings")
    expect_close(gradient, torch.ones(2, 5, 6), "the gradient of the embeddings", absolute=NEAR)


@SINUSOIDAL_POSITIONS.case("an even width", 2)
def _(answer: Any, g: torch.Generator) -> None:
    expect_sum(answer, {"d_model": 6, "max_length": 9}, normal(g, 2, 5, 6))  # the offset is 0 by itself


@SINUSOIDAL_POSITIONS.case("an odd width", 1)
def _(answer: Any, g: torch.Generator) -> None:
    expect_sum(answer, {"d_model": 7, "max_length": 12}, normal(g, 3, 5, 7), 0)


@SINUSOIDAL_POSITIONS.case("an offset", 1)
def _(answer: Any, g: torch.Generator) -> None:
    expect_sum(answer, {"d_model": 6, "max_length": 12}, normal(g, 3, 5, 6), 4)


@SINUSOIDAL_POSITIONS.case("the last place of the table is used, and a place past it is refused", 1)
def _(answer: Any, g: torch.Generator) -> None:
    sizes = {"d_model": 4, "max_length": 9}
    expect_sum(answer, sizes, normal(g, 1, 5, 4), 4)
    for length, offset in ((5, 5), (2, 8), (10, 0)):
        error = outcome_of(added, answer, sizes, normal(g, 2, length, 4), offset).error
        if error != "ValueError":
            came = "no error is raised" if error is None else f"{error} is raised"
            raise Failed(
                f"length {length} from offset {offset} is past the end of max_length=9: a ValueError is "
                f"wanted, but {came}"
            )


@SINUSOIDAL_POSITIONS.case("nothing is learnt", 1)
def _(answer: Any, g: torch.Generator) -> None:
    module, x = answer.build({"d_model": 6, "max_length": 9}), normal(g, 2, 5, 6)
    in_training = expect_tensor(module(x, 1), (2, 5, 6))
    expect_close(module.eval()(x, 1), in_training, "the result in evaluation, held against training")
    if any(parameter.requires_grad for parameter in module.parameters()):
        raise Failed("the module has parameters with a gradient, which training would change")


@SINUSOIDAL_POSITIONS.case("half precision stays half, and double stays double", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for dtype, near in ((torch.float16, 0.02), (torch.float64, NEAR)):
        x = normal(g, 2, 5, 6).to(dtype)
        expect_sum(answer, {"d_model": 6, "max_length": 9}, x, 1, near=near)


@SINUSOIDAL_POSITIONS.case("late places, and sizes of one", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    expect_sum(answer, {"d_model": 10, "max_length": 400}, normal(g, 2, 30, 10), 300)
    expect_sum(answer, {"d_model": 1, "max_length": 7}, normal(g, 3, 4, 1), 2)
    expect_sum(answer, {"d_model": 3, "max_length": 1}, normal(g, 2, 1, 3), 0)


# --- predict, then test -----------------------------------------------------------------------------------

PREDICTION = ValueTask(
    "positions.prediction",
    "Predict, then test",
    values.PREDICTION,
    kind="predict",
    points=6,
    wrong=values.WRONG_PREDICTIONS,
)


# --- rotary positions, in both layouts --------------------------------------------------------------------


ROTATE = FunctionTask(
    "positions.rotate",
    "Rotary positions, in any layout",
    references.rotate,
    probes=rotate_probes,
    observe=observe_turned,
    mistakes=mistakes.ROTATE,
    absolute=NEAR,
)


@ROTATE.case("at position 0 nothing is turned", 1)
def _(answer: Any, g: torch.Generator) -> None:
    heads, _positions = placed_heads(g, 2, 3, 5, 8)
    turned = answer(heads, torch.zeros(2, 5, dtype=torch.int64), interleaved(8))
    expect_close(turned, heads, "the result", absolute=NEAR)


@ROTATE.case("interleaved pairs", 2)
def _(answer: Any, g: torch.Generator) -> None:
    expect_turned(answer, *placed_heads(g, 3, 2, 5, 8), interleaved(8))


@ROTATE.case("half-split pairs", 2)
def _(answer: Any, g: torch.Generator) -> None:
    expect_turned(answer, *placed_heads(g, 2, 3, 4, 6), half_split(6))


@ROTATE.case("scores depend on the distance alone", 1)
def _(answer: Any, g: torch.Generator) -> None:
    expect_scores_by_distance(answer, g)


@ROTATE.case("any pairs, and the gradient goes through", 1)
def _(answer: Any, g: torch.Generator) -> None:
    heads, positions = placed_heads(g, 2, 3, 5, 8)
    pairs = torch.randperm(8, generator=g).view(4, 2)
    expect_turned(answer, heads, positions, pairs)
    (gradient,) = answer.gradients(heads, positions, pairs)
    if gradient is None:
        raise Failed("no gradient reaches the heads")
    (wanted,) = Answer(references.rotate).gradients(heads, positions, pairs)
    assert wanted is not None
    expect_close(gradient, wanted, "the gradient of the heads", absolute=NEAR)


@ROTATE.case("half precision stays half, late positions too, and double stays double", 1)
def _(answer: Any, g: torch.Generator) -> None:
    heads, positions, pairs = late_and_half(g)
    expect_turned(answer, heads, positions, pairs, near=0.02)
    expect_turned(answer, heads.double(), positions, pairs)


@ROTATE.case("any pairs, late positions, sizes of one", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    order = torch.randperm(10, generator=g).view(5, 2)
    expect_turned(answer, *placed_heads(g, 2, 3, 4, 10), order)
    expect_turned(answer, *placed_heads(g, 2, 3, 4, 8, latest=300), half_split(8))
    expect_turned(answer, *placed_heads(g, 1, 1, 1, 2), interleaved(2))


# --- from one layout to the other -------------------------------------------------------------------------

HALF_SPLIT_WEIGHTS = FunctionTask(
    "positions.half_split_weights",
    "Repair: from one layout to the other",
    references.half_split_weights,
    kind="repair",
    probes=lambda g: [trained_weights(g, 3, 8, 5), trained_weights(g, 2, 6, 13)],
    untouched=("across_heads", "values_sorted"),
    mistakes=mistakes.HALF_SPLIT_WEIGHTS,
)


@HALF_SPLIT_WEIGHTS.case("three weights in their shapes", 0)
def _(answer: Any, g: torch.Generator) -> None:
    for weight, name in zip(
        expect_tuple(answer(*trained_weights(g, 3, 8, 5)), WEIGHTS), WEIGHTS, strict=True
    ):
        expect_tensor(weight, (24, 5), name)


@HALF_SPLIT_WEIGHTS.case("the weights of the values", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for sizes in ((3, 8, 5), (2, 6, 13)):
        inputs = trained_weights(g, *sizes)
        expect_close(expect_tuple(answer(*inputs), WEIGHTS)[2], inputs[2], "w_v")


@HALF_SPLIT_WEIGHTS.case("the weights of the queries and keys", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for sizes, dtype in (((3, 8, 5), torch.float32), ((2, 6, 13), torch.float64)):
        *weights, num_heads = trained_weights(g, *sizes)
        inputs = (*(weight.to(dtype) for weight in weights), num_heads)
        given, wanted = expect_tuple(answer(*inputs), WEIGHTS), references.half_split_weights(*inputs)
        for i in range(2):
            expect_close(given[i], wanted[i], WEIGHTS[i])


@HALF_SPLIT_WEIGHTS.case("the scores are those of the old layout", 1)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = trained_weights(g, 3, 8, 5)
    x, positions = normal(g, 2, 4, 5), 3 + torch.arange(4).expand(2, 4)
    given = expect_tuple(answer(*inputs), WEIGHTS)
    query, key = (expect_tensor(weight, (24, 5)) for weight in given[:2])
    old = rotary_scores(x, inputs[0], inputs[1], positions, interleaved(8))
    new = rotary_scores(x, query, key, positions, half_split(8))
    expect_close(new, old, "the scores", absolute=NEAR)


@HALF_SPLIT_WEIGHTS.case("other sizes: one head, heads of one pair", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for sizes in ((1, 10, 7), (5, 2, 3), (4, 16, 64)):
        inputs = trained_weights(g, *sizes)
        given, wanted = expect_tuple(answer(*inputs), WEIGHTS), references.half_split_weights(*inputs)
        for i, name in enumerate(WEIGHTS):
            expect_close(given[i], wanted[i], name)


# --- ALiBi ------------------------------------------------------------------------------------------------


def _observe_bias(answer: Any, *sizes: int) -> Any:
    """The bias, and where it is infinite: a comparison with infinity has no margin."""
    bias = answer(*sizes)
    return (bias.isinf(), bias.nan_to_num(0.0, 0.0, 0.0)) if type(bias) is Tensor else bias


ALIBI_BIAS = FunctionTask(
    "positions.alibi_bias",
    "ALiBi for any number of heads",
    references.alibi_bias,
    probes=lambda _: [(4, 3, 3), (7, 2, 5), (3, 4, 4), (8, 3, 5), (13, 1, 3)],
    observe=_observe_bias,
    mistakes=alibi_mistakes.ALIBI,
)


def _expect_bias(answer: Any, *sizes: int) -> None:
    expect_close(answer(*sizes), references.alibi_bias(*sizes), f"the bias for {sizes}")


@ALIBI_BIAS.case("its shape is (H, T, S)", 1)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(4, 3, 5), (4, 3, 5), "the bias")


@ALIBI_BIAS.case("a power of two, as many queries as keys", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for num_heads in (1, 2, 4, 8, 16):
        _expect_bias(answer, num_heads, 5, 5)


@ALIBI_BIAS.case("more keys than queries", 1)
def _(answer: Any, g: torch.Generator) -> None:
    length = int(torch.randint(4, 9, (), generator=g))
    _expect_bias(answer, 4, 3, length)
    _expect_bias(answer, 8, 1, length)


@ALIBI_BIAS.case("any number of heads", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for num_heads in (3, 6, 7, 24, int(torch.randint(9, 16, (), generator=g))):
        _expect_bias(answer, num_heads, 4, 5)


@ALIBI_BIAS.case("one head, many heads", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for sizes in ((1, 4, 6), (20, 3, 40), (33, 2, 3)):
        _expect_bias(answer, *sizes)


# --- explore ----------------------------------------------------------------------------------------------

REACH = ValueTask(
    "positions.reach",
    "Explore: how far does a head reach?",
    values.REACH,
    kind="explore",
    points=4,
    wrong=values.WRONG_REACH,
)


# --- a test of rotary programs ----------------------------------------------------------------------------

TEST_ROTARY = JudgeTask(
    "positions.test_rotary",
    "A test that needs no layout",
    reference=references.rotate_by_distance,
    probes=lambda g: [placed_heads(g, 2, 3, 5, 8), placed_heads(g, 3, 2, 4, 6, latest=400)],
    example=good_test,
    also_right=RIGHT_PROGRAMS,
    points=4,
    mistakes=WRONG_PROGRAMS,
)
