"""How output and weights are compared in lesson 5, and a module in training with a right one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from ..compare import expect_close, expect_pair
from ..modules import load
from ..verdict import Failed
from . import references

PARTS = ("output", "weights")


def expect_both(given: Any, wanted: tuple[Tensor, Tensor], which: str = "", absolute: float = 1e-5) -> None:
    """Pass a pair of output and weights that is close to the wanted one."""
    output, weights = expect_pair(given, PARTS)
    expect_close(weights, wanted[1], f"the weights{which}", absolute=absolute)
    expect_close(output, wanted[0], f"the output{which}", absolute=absolute)


def expect_training(
    answer: Any, sizes: Mapping[str, int], weights: Mapping[str, Tensor], inputs: Sequence[Tensor]
) -> None:
    """Pass a class whose modules give in training what a right one gives, with the same gradients."""
    module, right = answer.build(sizes), references.GroupedQueryAttention(*sizes.values())
    for each in (module, right):
        load(each, weights)
    output, _weights = expect_pair(module(*inputs), PARTS)
    wanted, _weights = right(*inputs)
    expect_close(output, wanted, "the output in training")
    if not output.requires_grad:
        raise Failed("no gradient reaches the parameters")
    output.square().sum().backward()
    wanted.square().sum().backward()
    for name in ("w_q.weight", "w_k.weight", "w_v.weight", "w_o.weight"):
        gradient, expected = (dict(each.named_parameters())[name].grad for each in (module, right))
        if gradient is None or not gradient.any():
            raise Failed(f"no gradient reaches {name.removesuffix('.weight')}")
        assert expected is not None
        expect_close(gradient, expected, f"the gradient of {name}", absolute=1e-3, relative=1e-3)
