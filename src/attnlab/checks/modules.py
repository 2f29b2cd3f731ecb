"""Tasks whose answer is an ``nn.Module`` class: built with known sizes, given known weights, then called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from .answers import Answer
from .compare import expect_callable
from .tasks import FunctionTask
from .verdict import Failed, NothingYet


class ModuleTask(FunctionTask):
    """The answer is an ``nn.Module`` class.

    Cases call ``answer(sizes, weights, *inputs)`` or ``answer.build(sizes)``.

    The reference is a class too, whose constructor has keyword-only switches.
    """

    def adapt(self, answer: object) -> Any:
        return ModuleAnswer(answer)


class ModuleAnswer(Answer):
    """A class as the cases see it: built with known sizes, given known weights, called in evaluation mode."""

    def __init__(self, factory: object) -> None:
        if issubclass(type(factory), nn.Module):
            raise Failed("pass the class itself, not an object made from it")
        super().__init__(expect_callable(factory, "a class"))

    def build(self, sizes: Mapping[str, int]) -> nn.Module:
        """The module with these sizes, its weights as the class initialises them."""
        module = self._function(**sizes)
        if module is None:
            raise NothingYet("nothing was built")
        if not issubclass(type(module), nn.Module):
            raise Failed(f"an nn.Module should be built, but this is {type(module).__name__}")
        return module  # type: ignore[no-any-return]

    def __call__(
        self, sizes: Mapping[str, int], weights: Mapping[str, torch.Tensor], *inputs: Any, **kwargs: Any
    ) -> Any:
        module = self.build(sizes)
        load(module, weights)
        return Answer(module.eval())(*inputs, **kwargs)


def load(module: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Copy known weights into a module, and say in words which are missing, unknown or of another shape."""
    own = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    missing, extra = sorted(weights.keys() - own.keys()), sorted(own.keys() - weights.keys())
    if missing:
        raise Failed(f"the module has no {', '.join(missing)}; keep the names of the stub")
    if extra:
        raise Failed(f"the module holds more than was asked for: {', '.join(extra)[:200]}")
    for name, tensor in weights.items():
        if own[name] != tuple(tensor.shape):
            raise Failed(f"{name} has shape {own[name]}, expected {tuple(tensor.shape)}")
    module.load_state_dict({name: tensor.clone() for name, tensor in weights.items()})
