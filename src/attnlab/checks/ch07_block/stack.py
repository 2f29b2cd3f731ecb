"""How the stack of the repair exercise is looked at: what it computes, and how its layers start."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..modules import ModuleAnswer
from . import references
from .inputs import parameters, stream


def stack_inputs(g: torch.Generator, sizes: dict[str, int], **shape: int) -> tuple[Any, ...]:
    """Sizes, weights and tokens for a stack."""
    return sizes, parameters(references.Encoder, sizes, g), stream(g, width=sizes["d_model"], **shape)


def starts_apart(module: nn.Module) -> bool:
    """Whether the matrices of any two layers differ before training."""
    state = module.state_dict()
    matrices: dict[str, list[Tensor]] = {}
    for name, tensor in state.items():
        if name.startswith("layers.") and tensor.dim() == 2:
            matrices.setdefault(name.split(".", 2)[2], []).append(tensor)
    return bool(matrices) and all(
        not torch.equal(one, other)
        for same in matrices.values()
        for number, one in enumerate(same)
        for other in same[:number]
    )


def observe_stack(answer: ModuleAnswer, sizes: Any, weights: Any, *inputs: Tensor) -> tuple[Any, bool | None]:
    """What it computes with these weights, and once, without a mask, whether its layers start apart."""
    asked = sizes["depth"] > 2 and len(inputs) == 1  # once is enough, and building takes the time
    return answer(sizes, weights, *inputs), starts_apart(answer.build(sizes)) if asked else None
