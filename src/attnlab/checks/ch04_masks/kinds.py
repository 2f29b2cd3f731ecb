"""How the answers of lesson 4 are looked at where a plain comparison of results is not enough.

Masks may have any shape that broadcasts to the one that is meant, and attention is looked at together with
its gradients, in single and in half precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..compare import expect_tensor, expect_tuple
from ..verdict import Failed

MASKS = ("encoder", "decoder", "cross")


def spread_masks(value: object, shapes: Sequence[Sequence[int]]) -> tuple[Tensor, ...]:
    """The three masks, each boolean and broadcast to its shape; else ``Failed`` says what came."""
    parts = expect_tuple(value, MASKS)
    return tuple(
        _spread(mask, tuple(shape), f"the {name} mask")
        for mask, shape, name in zip(parts, shapes, MASKS, strict=True)
    )


def _spread(mask: object, shape: tuple[int, ...], name: str) -> Tensor:
    given = tuple(mask.shape) if type(mask) is torch.Tensor else shape
    plain = expect_tensor(mask, given, name, dtype=torch.bool)
    fits = len(given) <= len(shape) and all(
        own in (1, wanted) for own, wanted in zip(reversed(given), reversed(shape), strict=False)
    )
    if not fits:
        raise Failed(f"{name} should have a shape that broadcasts to {shape}, but the shape is {given}")
    return plain.expand(shape)


def expect_same_mask(given: Tensor, wanted: Tensor, name: str) -> None:
    """Pass a mask that equals the right one; else ``Failed`` says how many entries are off, and which way."""
    shown, hidden = int((given & ~wanted).sum()), int((~given & wanted).sum())
    if shown or hidden:
        raise Failed(f"{name}: of {wanted.numel()} entries, {shown} are wrongly True, {hidden} wrongly False")


def output_and_gradients(answer: Any, *args: Any) -> tuple[Any, ...]:
    """What attention gives, and whether the gradient of each input is finite; or that a number is too low."""
    try:
        gradients = answer.gradients(*args)
        finite = tuple(each is None or bool(each.isfinite().all()) for each in gradients)
        return answer(*args), finite
    except RuntimeError as error:
        # A number that half precision does not have is a mistake of its own, to be told from others by that.
        if "overflow" not in str(error):
            raise
        return ("overflow",)
