"""See what a module's dropout does, whatever order its random numbers are drawn in.

With no more keys than the values have independent directions, the share of each value in an output can be
solved for. Compared with the weights without dropout, it shows which links were removed, and how the rest was
scaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..answers import Answer
from ..compare import expect_pair, expect_tensor
from ..modules import ModuleAnswer, load
from ..verdict import Failed

_PARTS = ("output", "weights")
_MANY = (-1.0,)


class Pattern(NamedTuple):
    """What dropout did.

    Attributes:
        mixes_values: whether each output is still a mixture of the values.
        levels: the factors by which links were multiplied, rounded; (-1.0,) where there are many.
        shown: the same for the weights that were returned.
    """

    mixes_values: bool
    levels: tuple[float, ...]
    shown: tuple[float, ...]

    def require(self, levels: tuple[float, ...]) -> None:
        """``Failed`` unless links were multiplied by these factors, and the weights shown as they were."""
        if not self.mixes_values:
            raise Failed(
                "outputs in training are no mixtures of the values any more: something else was dropped"
            )
        if self.levels == (1.0,):
            raise Failed("training gives the same as evaluation: nothing was dropped")
        if self.levels != levels:
            raise Failed("links are not removed, or what is left is not rescaled, as dropout does it")
        if self.shown != (1.0,):
            raise Failed("the weights that are returned differ from the softmax's")


def dropout_pattern(
    answer: ModuleAnswer,
    sizes: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    x: Tensor,
    *,
    training: bool,
) -> Pattern:
    """How the module treats ``x`` (B, 2, d_model) with dropout, in training or in evaluation."""
    plain = {**sizes, "dropout": 0.0}
    shape = (x.shape[0], 2, 2)
    before = expect_tensor(expect_pair(answer(plain, weights, x), _PARTS)[1], shape, "the weights").double()
    module = answer.build(sizes)
    load(module, weights)
    output, shown = expect_pair(Answer(module.train(training))(x), _PARTS)
    value = (x @ weights["w_v.weight"].T).double()  # (B, 2, d_v)
    output = expect_tensor(output, tuple(value.shape), "the output").double()
    links = output @ torch.linalg.pinv(value)  # (B, 2, 2)
    mixes = bool((links @ value - output).abs().max() < 1e-3)
    seen = expect_tensor(shown, shape, "the weights").double()
    clear = before > 1e-3  # a smaller share is lost in rounding
    return Pattern(mixes, _levels((links / before)[clear]), _levels((seen / before)[clear]))


def _levels(ratios: Tensor) -> tuple[float, ...]:
    found = sorted({round(ratio, 2) + 0.0 for ratio in ratios.reshape(-1).tolist()})
    return tuple(found) if len(found) <= 3 else _MANY
