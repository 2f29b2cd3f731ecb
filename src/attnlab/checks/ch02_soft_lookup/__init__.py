"""Lesson 2, soft lookup: the exercises' tasks, cases and known mistakes.

Masks come in lesson 4. What a fully masked row is there, a query is here that lies so far from every key that
each of its exponentials is rounded to zero.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..engine import (
    Failed,
    FunctionTask,
    JudgeTask,
    ModuleTask,
    ValueTask,
    expect_close,
    expect_pair,
    expect_tensor,
    expect_tuple,
    normal,
    same,
)
from . import judging, mistakes, references, values

# --- a lookup by distance ---------------------------------------------------------------------------------

ANSWERS = ("answers", "weights")
TAU = 1.7


def _table(
    g: torch.Generator, *lead: int, T: int = 3, S: int = 5, D: int = 4, d_v: int = 6
) -> tuple[Any, ...]:
    """Queries, keys and values: all different, all sizes distinct, and weights that are not saturated."""
    return normal(g, *lead, T, D), 1.2 * normal(g, *lead, S, D), normal(g, *lead, S, d_v)


def _far(g: torch.Generator, *lead: int, T: int = 3) -> tuple[Any, ...]:
    """A table, and queries hundreds of steps from all keys: even in 64 bits, each exponential is zero.

    Of several queries, the first one is near.
    """
    queries, keys, values = _table(g, *lead, T=T)
    queries[..., 0] += torch.tensor([0.0, 300.0, 320.0])[-T:]
    return queries, keys, values, 50.0


def _cold(g: torch.Generator) -> tuple[Any, ...]:
    """Keys two steps apart and queries near some of them, none at a tie."""
    order, chosen = torch.randperm(5, generator=g), torch.randperm(5, generator=g)[:3]
    keys = torch.stack([2.0 * order, torch.ones(5)], dim=-1)  # (S, D)
    queries = keys[chosen] + 0.3 * (torch.rand(3, 2, generator=g) - 0.5)
    return queries, keys, normal(g, 5, 6), 0.002


def _expect_answers(answer: Any, arguments: tuple[Any, ...], absolute: float = 1e-5) -> None:
    given, weights = expect_pair(answer(*arguments), ANSWERS)
    wanted = references.kernel_lookup(*arguments)
    expect_close(weights, wanted[1], "the weights", absolute=absolute)
    expect_close(given, wanted[0], "the answers", absolute=absolute)


KERNEL_LOOKUP = FunctionTask(
    "soft_lookup.kernel_lookup",
    "A lookup by distance",
    references.kernel_lookup,
    probes=lambda g: [
        (*_table(g, 2), TAU),
        (*_table(g, 3, T=4, S=2, D=5, d_v=5), 2.6),
        _far(g, 2),
        _far(g, T=1),
    ],
    mistakes=mistakes.KERNEL_LOOKUP,
    absolute=1e-3,
)


@KERNEL_LOOKUP.case("returns answers and weights in their shapes", 1)
def _(answer: Any, g: torch.Generator) -> None:
    answers, weights = expect_pair(answer(*_table(g, 2), TAU), ANSWERS)
    expect_tensor(answers, (2, 3, 6), "the answers")
    expect_tensor(weights, (2, 3, 5), "the weights")


@KERNEL_LOOKUP.case("the weights", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for temperature in (TAU, 0.6):
        arguments = (*_table(g, 2), temperature)
        weights = expect_pair(answer(*arguments), ANSWERS)[1]
        expect_close(weights, references.kernel_lookup(*arguments)[1], "the weights")


@KERNEL_LOOKUP.case("the answers", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_answers(answer, (*_table(g, 2), TAU))


@KERNEL_LOOKUP.case("one table alone, or any number of leading axes", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for lead in ((), (2, 4)):
        _expect_answers(answer, (*_table(g, *lead), TAU))


@KERNEL_LOOKUP.case("a very cold lookup takes the nearest entry", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_answers(answer, _cold(g), absolute=1e-3)


@KERNEL_LOOKUP.case("queries that are far from every key, beside one that is near", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_answers(answer, _far(g, 2), absolute=1e-2)


@KERNEL_LOOKUP.case("its gradients are finite, and reach all three", 1)
def _(answer: Any, g: torch.Generator) -> None:
    for arguments in ((*_table(g, 2), TAU), _far(g, 2)):
        gradients = answer.gradients(*arguments, of=ANSWERS)
        for name, gradient in zip(("queries", "keys", "values"), gradients, strict=True):
            if gradient is None:
                raise Failed(f"no gradient reaches the {name}")
            if not gradient.isfinite().all():
                raise Failed(f"the gradient of the {name} holds NaN or infinity")


@KERNEL_LOOKUP.case("other sizes, one entry alone, one far query alone", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_answers(answer, (*_table(g, 3, T=7, S=1, D=2, d_v=8), 0.4))
    _expect_answers(answer, (*_table(g, 3, T=2, S=6, D=1, d_v=3), 20.0))
    _expect_answers(answer, _far(g, T=1), absolute=1e-2)


# --- predict, then test -----------------------------------------------------------------------------------

PREDICTION = ValueTask(
    "soft_lookup.prediction",
    "Predict, then test",
    values.predicted,
    kind="predict",
    points=7,
    wrong=values.WRONGLY_PREDICTED,
)

# --- a lookup by distance as one by dot products ----------------------------------------------------------

NEW = ("queries", "keys")


def _points(g: torch.Generator, *lead: int, T: int = 3, S: int = 5, D: int = 4) -> tuple[Tensor, Tensor]:
    """Queries, and keys of very different lengths."""
    stretch = 0.4 + 1.2 * torch.rand(*lead, S, 1, generator=g)
    return normal(g, *lead, T, D), stretch * normal(g, *lead, S, D)


def _new(answer: Any, queries: Tensor, keys: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The new queries (..., T, E) and keys (..., S, E), whatever the width E is."""
    parts = expect_pair(answer(queries, keys, temperature), NEW)
    new: list[Tensor] = []
    for name, part, old in zip(NEW, parts, (queries, keys), strict=True):
        width = part.shape[-1] if type(part) in (Tensor, nn.Parameter) and part.dim() else 0
        new.append(expect_tensor(part, (*old.shape[:-1], width), f"the new {name}"))
    if new[0].shape[-1] != new[1].shape[-1]:
        raise Failed(f"new queries have {new[0].shape[-1]} numbers and new keys {new[1].shape[-1]}")
    return new[0], new[1]


def _product_weights(answer: Any, *arguments: Any) -> Tensor:
    """The softmax of the new dot products, (..., T, S)."""
    queries, keys = _new(answer, *arguments)
    return (queries @ keys.transpose(-2, -1)).softmax(dim=-1)


def _each_alone(answer: Any, queries: Tensor, keys: Tensor, temperature: float) -> tuple[bool, bool]:
    """Whether new queries stay when the keys change, and new keys when the queries change."""
    before = _new(answer, queries, keys, temperature)
    with_keys = _new(answer, queries, 0.5 - keys, temperature)[0]
    with_queries = _new(answer, 0.5 - queries, keys, temperature)[1]
    return same(with_keys, before[0]), same(with_queries, before[1])


def _expect_product_weights(answer: Any, arguments: tuple[Any, ...]) -> None:
    given = _product_weights(answer, *arguments)
    wanted = _product_weights(references.as_dot_products, *arguments)
    expect_close(given, wanted, "the weights of the new dot products", absolute=1e-4)


AS_DOT_PRODUCTS = FunctionTask(
    "soft_lookup.as_dot_products",
    "From distances to dot products",
    references.as_dot_products,
    probes=lambda g: [(*_points(g, 2), TAU), (*_points(g, 2, T=4, S=4, D=3), 0.7)],
    observe=lambda answer, *given: (_product_weights(answer, *given), *_each_alone(answer, *given)),
    mistakes=mistakes.AS_DOT_PRODUCTS,
)


@AS_DOT_PRODUCTS.case("keys of one length", 1)
def _(answer: Any, g: torch.Generator) -> None:
    queries, keys = _points(g, 2)
    keys = 1.5 * keys / keys.norm(dim=-1, keepdim=True)
    _expect_product_weights(answer, (queries, keys, TAU))


@AS_DOT_PRODUCTS.case("keys of different lengths, temperature 1", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_product_weights(answer, (*_points(g, 2), 1.0))


@AS_DOT_PRODUCTS.case("keys of different lengths, other temperatures", 2)
def _(answer: Any, g: torch.Generator) -> None:
    for temperature in (TAU, 0.7):
        _expect_product_weights(answer, (*_points(g, 2), temperature))


@AS_DOT_PRODUCTS.case("a query that equals a key finds it", 1)
def _(answer: Any, g: torch.Generator) -> None:
    keys = torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0], [-2.0, 2.0]])[torch.randperm(4, generator=g)]
    weights = _product_weights(answer, keys[:3], keys, 0.3)
    if weights.argmax(dim=-1).tolist() != [0, 1, 2]:
        raise Failed("a query that equals a key gives the largest weight to another")
    _expect_product_weights(answer, (keys[:3], keys, 0.3))


@AS_DOT_PRODUCTS.case("each side is prepared without the other", 1)
def _(answer: Any, g: torch.Generator) -> None:
    arguments = (*_points(g, 2), TAU)
    _expect_product_weights(answer, arguments)
    for alone, name, other in zip(_each_alone(answer, *arguments), NEW, NEW[::-1], strict=True):
        if not alone:
            raise Failed(f"the new {name} depend on the {other}")


@AS_DOT_PRODUCTS.case("other sizes and leading axes", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    for lead, sizes in (((), {"T": 6, "S": 2, "D": 1}), ((2, 3), {"T": 1, "S": 7, "D": 5})):
        _expect_product_weights(answer, (*_points(g, *lead, **sizes), 2.5))


# --- one step of a decoder that attends -------------------------------------------------------------------

PARTS = ("the new state", "the context", "the weights")
SIZES = {"d_token": 3, "d_state": 5, "d_key": 7, "d_hidden": 6}


def _parameters(g: torch.Generator, sizes: dict[str, int]) -> dict[str, Tensor]:
    """Weights that keep every tanh bent and no softmax saturated."""
    token, state, key, hidden = (sizes[f"d_{name}"] for name in ("token", "state", "key", "hidden"))
    shapes = {
        "w_query.weight": (hidden, state),
        "w_key.weight": (hidden, key),
        "v.weight": (1, hidden),
        "cell.weight_ih": (3 * state, token + key),
        "cell.weight_hh": (3 * state, state),
    }
    weights = {name: 1.3 * normal(g, *shape) / shape[1] ** 0.5 for name, shape in shapes.items()}
    weights["v.weight"] = 2.0 * weights["v.weight"]
    return weights | {f"cell.bias_{part}": 0.3 * normal(g, 3 * state) for part in ("ih", "hh")}


def _step(g: torch.Generator, sizes: dict[str, int] = SIZES, B: int = 2, S: int = 4) -> tuple[Any, ...]:
    inputs = (normal(g, B, sizes["d_token"]), normal(g, B, sizes["d_state"]), normal(g, B, S, sizes["d_key"]))
    return sizes, _parameters(g, sizes), *inputs


_SQUARE = {"d_token": 4, "d_state": 4, "d_key": 4, "d_hidden": 4}


ATTENTIVE_STEP = ModuleTask(
    "soft_lookup.AttentiveStep",
    "A decoder's step with additive attention",
    references.AttentiveStep,
    probes=lambda g: [_step(g), _step(g, B=5, S=3), _step(g, _SQUARE, B=4, S=4)],
    mistakes=mistakes.ATTENTIVE_STEP,
)


def _expect_step(answer: Any, arguments: tuple[Any, ...], *names: str) -> None:
    given = expect_tuple(answer(*arguments), PARTS)
    wanted = ATTENTIVE_STEP.adapt(references.AttentiveStep)(*arguments)
    for name, part, right in zip(PARTS, given, wanted, strict=True):
        if name in names:
            expect_close(part, right.detach(), name)


@ATTENTIVE_STEP.case("returns state, context and weights in their shapes", 1)
def _(answer: Any, g: torch.Generator) -> None:
    given = expect_tuple(answer(*_step(g)), PARTS)
    for name, part, shape in zip(PARTS, given, ((2, 5), (2, 7), (2, 4)), strict=True):
        expect_tensor(part, shape, name)


@ATTENTIVE_STEP.case("the weights", 3)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_step(answer, _step(g), "the weights")


@ATTENTIVE_STEP.case("the context", 1)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_step(answer, _step(g), "the context")


@ATTENTIVE_STEP.case("the new state", 2)
def _(answer: Any, g: torch.Generator) -> None:
    _expect_step(answer, _step(g), "the new state")


@ATTENTIVE_STEP.case("gradients reach all parameters", 1)
def _(answer: Any, g: torch.Generator) -> None:
    sizes, weights, *inputs = _step(g, B=3)
    module = answer.build(sizes)
    new, _context, _weights = expect_tuple(module(*inputs), PARTS)
    expect_tensor(new, (3, 5), "the new state")
    if not new.requires_grad:
        raise Failed("no gradient reaches the parameters")
    new.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
    for name in weights:
        gradient = gradients.get(name)
        if gradient is None or not gradient.isfinite().all() or not gradient.any():
            raise Failed(f"no gradient reaches {name}")


@ATTENTIVE_STEP.case("other sizes, one state alone, one sentence alone", 1, hidden=True)
def _(answer: Any, g: torch.Generator) -> None:
    others = {"d_token": 6, "d_state": 2, "d_key": 3, "d_hidden": 9}
    for sizes, batch, length in ((others, 4, 1), (others, 1, 8), (_SQUARE, 3, 5)):
        _expect_step(answer, _step(g, sizes, batch, length), *PARTS)


# --- explore ----------------------------------------------------------------------------------------------

TEMPERATURE = ValueTask(
    "soft_lookup.temperature",
    "How hot should a lookup be?",
    values.found,
    kind="explore",
    points=5,
    wrong=values.WRONGLY_FOUND,
)

# --- a test that finds the bugs ---------------------------------------------------------------------------

TEST_LOOKUP = JudgeTask(
    "soft_lookup.test_lookup",
    "A test for any soft lookup",
    reference=references.look_up,
    probes=judging.tables,
    example=judging.good_test,
    also_right=[references.by_product_in_double, references.by_a_small_network],
    points=6,
    mistakes=mistakes.LOOKUP_BUGS,
)
