"""Lesson 3, queries, keys and values: the exercises' tasks, cases and known mistakes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.contracts import rows_sum_to_one

from ..engine import (
    Call,
    Choice,
    Failed,
    FunctionTask,
    JudgeTask,
    Mistake,
    ModuleTask,
    Near,
    ValueTask,
    WrongValue,
    expect_close,
    expect_pair,
    expect_tensor,
    normal,
)
from . import mistakes as known
from . import references
from .dropout import Pattern, dropout_pattern

PARTS = ("output", "weights")


def _qkv(
    g: torch.Generator, *lead: int, T: int = 3, S: int = 5, d_k: int = 4, d_v: int = 6
) -> tuple[Tensor, ...]:
    """Query, key and value: all different, all sizes distinct, scores that do not saturate a softmax."""
    return normal(g, *lead, T, d_k), normal(g, *lead, S, d_k), normal(g, *lead, S, d_v)


def _mask(g: torch.Generator, *lead: int, T: int = 3, S: int = 5, empty: bool) -> Tensor:
    """A random mask (..., T, S): each row hides a key and shows one; with ``empty``, one row shows none."""
    order = torch.rand(*lead, T, S, generator=g).argsort(dim=-1)
    mask = (torch.rand(*lead, T, S, generator=g) < 0.5) & (order != 0) | (order == 1)
    if empty:
        mask[..., T - 1, :] = False
    return mask


# --- the function -----------------------------------------------------------------------------------------


def _attention_probes(g: torch.Generator) -> list[Any]:
    return [
        _qkv(g, 2, T=4, S=4, d_k=7),
        (*_qkv(g, 2, T=4, S=4, d_k=5, d_v=3), _mask(g, 2, T=4, S=4, empty=True)),
        _qkv(g, 2),
        (*_qkv(g, 2), _mask(g, 2, empty=False)),
        (*_qkv(g, 2), _mask(g, 2, empty=True)),
    ]


def _attention_and_gradients(answer: Any, *args: Any) -> tuple[Any, ...]:
    """What the answer returns, and whether its gradients are finite: some mistakes show only there."""
    gradients = answer.gradients(*args, of=PARTS)
    finite = all(gradient is None or bool(gradient.isfinite().all()) for gradient in gradients)
    return answer(*args), finite


ATTENTION = FunctionTask(
    "query_key_value.attention",
    "The attention function",
    references.attention,
    probes=_attention_probes,
    observe=_attention_and_gradients,
    mistakes=(
        *known.SCALE,
        *known.AXIS,
        known.ROLES,
        *known.SQUASH,
        *known.MASK,
        *known.EMPTY,
        known.SUMMED,
        *known.RETURNED,
    ),
)


@ATTENTION.case("returns output and weights in their shapes", 1)
def _(answer: Any, g: torch.Generator) -> None:
    output, weights = expect_pair(answer(*_qkv(g, 2)), PARTS)
    expect_tensor(output, (2, 3, 6), "the output")
    expect_tensor(weights, (2, 3, 5), "the weights")


@ATTENTION.case("the weights, without a mask", 2)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _qkv(g, 2)
    expect_close(expect_pair(answer(*inputs), PARTS)[1], references.attention(*inputs)[1], "the weights")


@ATTENTION.case("the output, without a mask", 1)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _qkv(g, 2)
    expect_close(expect_pair(answer(*inputs), PARTS)[0], references.attention(*inputs)[0], "the output")


@ATTENTION.case("a mask hides keys", 2)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = (*_qkv(g, 2), _mask(g, 2, empty=False))
    _expect_both(answer(*inputs), references.attention(*inputs))


@ATTENTION.case("a query that may attend to nothing gets zeros", 1)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = (*_qkv(g, 2), _mask(g, 2, empty=True))
    _expect_both(answer(*inputs), references.attention(*inputs))


@ATTENTION.case("its gradients are finite", 1)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = (*_qkv(g, 2), _mask(g, 2, empty=True))
    for name, gradient in zip(("query", "key", "value"), answer.gradients(*inputs, of=PARTS), strict=True):
        if gradient is None:
            raise Failed(f"no gradient reaches the {name}")
        if not gradient.isfinite().all():
            raise Failed(f"the gradient of the {name} holds NaN or infinity")


@ATTENTION.case("one sequence alone, or any number of leading axes", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for lead in ((), (2, 4)):
        inputs = _qkv(g, *lead)
        _expect_both(answer(*inputs), references.attention(*inputs))


@ATTENTION.case("other sizes, one mask for the whole batch", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for width in (1, 16, 50):
        inputs = (*_qkv(g, 3, T=7, S=2, d_k=width, d_v=8), _mask(g, T=7, S=2, empty=True))
        _expect_both(answer(*inputs), references.attention(*inputs))


def _expect_both(given: Any, wanted: tuple[Tensor, Tensor]) -> None:
    output, weights = expect_pair(given, PARTS)
    expect_close(weights, wanted[1], "the weights")
    expect_close(output, wanted[0], "the output")


# --- predict, then test -----------------------------------------------------------------------------------

CHANGES = ("grows", "stays", "shrinks")

PREDICTION = ValueTask(
    "query_key_value.prediction",
    "Predict, then test",
    {
        "query doubled, largest weight": Choice("grows", options=CHANGES),
        "5 added to a row of scores, its weights": Choice("stays", options=("change", "stays")),
        "values doubled, largest weight": Choice("stays", options=CHANGES),
        "d_k from 16 to 256, spread of q·k, times": Near(4, relative=0.01),
        "d_k from 16 to 256, spread of q·k / √d_k, times": Near(1, relative=0.01),
        "keys and values reordered together, output": Choice("stays", options=("is reordered", "stays")),
    },
    kind="predict",
    points=6,
    wrong=[
        WrongValue(
            "query_scale_free",
            "A softmax is blind to a number that is added to all scores, not to one that multiplies them.",
            {"query doubled, largest weight": "stays"},
        ),
        WrongValue(
            "query_blurs",
            "Doubling the query moves its scores further apart. Which way does a softmax go when its "
            "inputs spread?",
            {"query doubled, largest weight": "shrinks"},
        ),
        WrongValue(
            "shift_matters",
            "Write out the softmax of s + 5: a common factor stands above and below the fraction line.",
            {"5 added to a row of scores, its weights": "change"},
        ),
        WrongValue(
            "values_weigh",
            "Follow the four steps: at which one do the values enter, and are the weights ready by then?",
            {"values doubled, largest weight": "grows"},
        ),
        WrongValue(
            "values_thin",
            "Follow the four steps: at which one do the values enter, and are the weights ready by then?",
            {"values doubled, largest weight": "shrinks"},
        ),
        WrongValue(
            "variance_for_spread",
            "That is the factor of the variance. The spread of a score, its standard deviation, is the "
            "root of it.",
            {"d_k from 16 to 256, spread of q·k, times": 16},
        ),
        WrongValue(
            "width_forgotten",
            "A dot product has one term for each dimension. More terms, more spread.",
            {"d_k from 16 to 256, spread of q·k, times": 1},
        ),
        WrongValue(
            "scale_ignored",
            "You gave the spread before scaling. The division grows with the width too.",
            {"d_k from 16 to 256, spread of q·k / √d_k, times": 4},
        ),
        WrongValue(
            "scale_too_strong",
            "The division by the root of the width undoes the growth; it does not turn it round.",
            {"d_k from 16 to 256, spread of q·k / √d_k, times": 0.25},
        ),
        WrongValue(
            "keys_have_places",
            "The output is a sum over the keys, and a sum does not know in which order its terms stand.",
            {"keys and values reordered together, output": "is reordered"},
        ),
    ],
)


# --- the module -------------------------------------------------------------------------------------------

SIZES = {"d_model": 6, "d_k": 4, "d_v": 3}
DROPPING = {**SIZES, "dropout": 0.25}


def _parameters(g: torch.Generator, sizes: dict[str, Any]) -> dict[str, Tensor]:
    """Weights for the three projections, of a size that keeps scores unsaturated."""
    width = sizes["d_model"]
    return {
        f"w_{name}.weight": normal(g, sizes[f"d_{size}"], width) / width**0.5
        for name, size in (("q", "k"), ("k", "k"), ("v", "v"))
    }


def _module_probes(g: torch.Generator) -> list[Any]:
    parameters = _parameters(g, SIZES)
    x, wide = 1.5 * normal(g, 2, 5, 6), {"d_model": 5, "d_k": 5, "d_v": 5}
    return [
        Call(SIZES, parameters, x),
        Call(SIZES, parameters, x, _mask(g, 2, T=5, S=5, empty=False)),
        Call(SIZES, parameters, x, _mask(g, 2, T=5, S=5, empty=True)),
        Call(wide, _parameters(g, wide), normal(g, 3, 4, 5)),
        Call(DROPPING, parameters, normal(g, 40, 2, 6), training=False),
        Call(DROPPING, parameters, normal(g, 40, 2, 6), training=True),
    ]


def _observe_module(answer: Any, sizes: Any, parameters: Any, x: Tensor, *mask: Tensor, **mode: bool) -> Any:
    if mode:
        return tuple(dropout_pattern(answer, sizes, parameters, x, **mode))
    return answer(sizes, parameters, x, *mask)


SELF_ATTENTION = ModuleTask(
    "query_key_value.SelfAttention",
    "The self-attention module",
    references.SelfAttention,
    probes=_module_probes,
    observe=_observe_module,
    mistakes=(
        *known.SCALE[:3],
        known.SCALE_MODEL,
        *known.SCALE[3:],
        *known.AXIS,
        known.ROLES,
        *known.TIED,
        *known.MASK,
        *known.EMPTY[:2],
        *known.DROPOUT,
        known.RETURNED[1],
    ),
)


@SELF_ATTENTION.case("output and weights, without a mask", 3)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = (SIZES, _parameters(g, SIZES), 1.5 * normal(g, 2, 5, 6))
    _expect_both(answer(*inputs), SELF_ATTENTION.adapt(references.SelfAttention)(*inputs))


@SELF_ATTENTION.case("a mask hides keys, and may hide all of them", 2)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = (SIZES, _parameters(g, SIZES), 1.5 * normal(g, 2, 5, 6), _mask(g, 2, T=5, S=5, empty=True))
    _expect_both(answer(*inputs), SELF_ATTENTION.adapt(references.SelfAttention)(*inputs))


@SELF_ATTENTION.case("gradients reach all three projections", 1)
def _(answer: Any, g: torch.Generator) -> None:
    module = answer.build(SIZES)
    output, _weights = expect_pair(module(normal(g, 2, 5, 6)), PARTS)
    expect_tensor(output, (2, 5, 3), "the output")
    if not output.requires_grad:
        raise Failed("no gradient reaches the parameters")
    output.square().sum().backward()
    for name in ("w_q", "w_k", "w_v"):
        gradient = dict(module.named_parameters())[f"{name}.weight"].grad
        if gradient is None or not gradient.isfinite().all() or not gradient.any():
            raise Failed(f"no gradient reaches {name}")


@SELF_ATTENTION.case("dropout rests in evaluation", 1)
def _(answer: Any, g: torch.Generator) -> None:
    seen = dropout_pattern(answer, DROPPING, _parameters(g, SIZES), normal(g, 40, 2, 6), training=False)
    if seen != Pattern(True, (1.0,), (1.0,)):
        raise Failed("after eval() a dropout above zero still changes the output or the weights")


@SELF_ATTENTION.case("dropout removes links in training", 1)
def _(answer: Any, g: torch.Generator) -> None:
    seen = dropout_pattern(answer, DROPPING, _parameters(g, SIZES), normal(g, 40, 2, 6), training=True)
    seen.require((0.0, round(1 / 0.75, 2)))


@SELF_ATTENTION.case("other sizes, one token alone", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for sizes, length in (({"d_model": 16, "d_k": 2, "d_v": 9}, 7), ({"d_model": 3, "d_k": 8, "d_v": 5}, 1)):
        inputs = (sizes, _parameters(g, sizes), normal(g, 2, length, sizes["d_model"]))
        _expect_both(answer(*inputs), SELF_ATTENTION.adapt(references.SelfAttention)(*inputs))


# --- repair -----------------------------------------------------------------------------------------------


def _attend_inputs(
    g: torch.Generator, B: int = 2, T: int = 5, d_model: int = 7, d_k: int = 4
) -> tuple[Tensor, ...]:
    root = d_model**0.5
    return (
        1.5 * normal(g, B, T, d_model),
        normal(g, d_model, d_k) / root,
        normal(g, d_model, d_k) / root,
        normal(g, d_model, 3) / root,
    )


REPAIR = FunctionTask(
    "query_key_value.attend",
    "Repair a program that runs",
    references.attend,
    kind="repair",
    probes=lambda g: [_attend_inputs(g), _attend_inputs(g, B=3, T=4, d_model=6, d_k=5)],
    untouched=("axis_queries", "scale_d_model"),
    mistakes=(
        known.AXIS[0],
        known.SCALE_MODEL,
        known.AXIS[1],
        *known.SCALE,
        known.ROLES,
        *known.TIED,
        *known.SQUASH,
    ),
)


@REPAIR.case("the shape of the output", 0)
def _(answer: Any, g: torch.Generator) -> None:
    expect_tensor(answer(*_attend_inputs(g)), (2, 5, 3), "the output")


@REPAIR.case("where all values are alike, the output is that value", 1)
def _(answer: Any, g: torch.Generator) -> None:
    x, w_q, w_k, w_v = _attend_inputs(g)
    x[..., 0], w_v[0], w_v[1:] = 1.0, torch.tensor([2.0, -1.0, 0.5]), 0.0
    expect_close(answer(x, w_q, w_k, w_v), x @ w_v, "the output")


@REPAIR.case("the output", 3)
def _(answer: Any, g: torch.Generator) -> None:
    inputs = _attend_inputs(g)
    expect_close(answer(*inputs), references.attend(*inputs), "the output")


# --- measure ----------------------------------------------------------------------------------------------

EXPONENT = ValueTask(
    "query_key_value.exponent",
    "Which scale is this?",
    Near(0.2, absolute=0.03),
    kind="measure",
    points=3,
    wrong=[
        WrongValue(
            "slope_of_spread",
            "That is the slope of the curve: how fast the spread grows with d_k. It is what the division "
            "leaves of the "
            "growth that unscaled scores have.",
            Near(0.3, absolute=0.03),
        ),
        WrongValue(
            "from_variance",
            "That is the slope of the variance. Go back to the spread, its root, before you compare.",
            Near(0.6, absolute=0.04),
        ),
        WrongValue(
            "sign",
            "You added where the division takes away: a larger power leaves a smaller slope.",
            Near(0.8, absolute=0.03),
        ),
        WrongValue(
            "the_right_scale",
            "That is the power in the paper's formula. The curve on the page says that this program uses "
            "another.",
            Near(0.5, absolute=0.03),
        ),
        WrongValue(
            "no_scale",
            "With power 0 the spread would grow like the root of d_k. The curve grows more slowly.",
            Near(0.0, absolute=0.03),
        ),
    ],
)


# --- a test that finds the bugs ---------------------------------------------------------------------------


def _judge_probes(g: torch.Generator) -> list[Any]:
    return [_qkv(g, 2), (*_qkv(g, 2), _mask(g, 2, empty=True))]


def _good_test(attention: Any) -> None:
    g = torch.Generator().manual_seed(0)
    (query, key, value), mask = _qkv(g, 2), _mask(g, 2, empty=True)
    _output, weights = attention(query, key, value, mask)
    rows_sum_to_one(weights, mask)
    output, _weights = attention(query, key, value)
    torch.testing.assert_close(
        output.float(), F.scaled_dot_product_attention(query, key, value), atol=1e-5, rtol=1e-4
    )


def _in_double(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    return references.attention(query.double(), key.double(), value.double(), mask)


def _query_by_query(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    rows = [
        references.attention(
            query[..., t : t + 1, :], key, value, None if mask is None else mask[..., t : t + 1, :]
        )
        for t in range(query.shape[-2])
    ]
    return torch.cat([row[0] for row in rows], dim=-2), torch.cat([row[1] for row in rows], dim=-2)


_LETS_PASS = "Your test lets pass a program in which {}"


def _bug(key: str, what: str, **switches: Any) -> Mistake:
    return Mistake(key, _LETS_PASS.format(what), switches)


TEST_ATTENTION = JudgeTask(
    "query_key_value.test_attention",
    "A test that finds the bugs",
    reference=references.attention,
    probes=_judge_probes,
    example=_good_test,
    also_right=[_in_double, _query_by_query],
    points=4,
    mistakes=[
        _bug("axis_queries", "the weights sum to 1 over the queries. Which sum shows that?", axis=-2),
        _bug(
            "no_scale",
            "the scores are not scaled. Sums cannot show it: with what can you compare?",
            divisor="nothing",
        ),
        _bug(
            "scale_d_k", "the scale is wrong by a root. With what can you compare the numbers?", divisor="d_k"
        ),
        _bug(
            "mask_ignored", "the mask makes no difference. Which weights have to be zero?", masking="ignored"
        ),
        _bug("mask_inverted", "the mask is read the other way round.", masking="inverted"),
        _bug(
            "mask_after",
            "weights are hidden after the softmax. What is a row's sum then?",
            masking="multiplied after",
        ),
        _bug("empty_uniform", "a query that may attend to nothing attends to everything.", empty="uniform"),
        _bug(
            "hard", "each query takes its best key alone, so that every row still sums to 1.", squash="hard"
        ),
    ],
)
