"""A learner's function as the cases see it: called with copies of the inputs, its gradients within reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .compare import close, expect_tuple, flat
from .verdict import Failed

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


@dataclass(frozen=True)
class Outcome:
    """What a call gave: a value, or the name of the exception that it raised."""

    value: Any = None
    error: str | None = None


def outcome_of(observe: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """The value of ``observe(*args, **kwargs)``, or the exception's name."""
    try:
        return Outcome(value=observe(*args, **kwargs))
    except Exception as error:
        return Outcome(error=type(error).__name__)


class Answer:
    """A learner's function as a case sees it: it gets copies, and a change to them is told."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        names = [*(f"its {_ORDINALS[min(i, 5)]} argument" for i in range(len(args))), *kwargs]
        given = [_copy(value) for value in args] + [_copy(value) for value in kwargs.values()]
        result = self._function(*given[: len(args)], **dict(zip(kwargs, given[len(args) :], strict=True)))
        for name, before, after in zip(names, [*args, *kwargs.values()], given, strict=True):
            if not _unchanged(before, after):
                raise Failed(
                    f"the function changes {name}; work on a new tensor, the caller still needs the old one"
                )
        return result

    def gradients(self, *args: Any, of: Sequence[str] = ()) -> list[torch.Tensor | None]:
        """Gradient of the summed output with respect to each floating-point tensor among the arguments.

        None stands where no gradient arrives. ``of`` names the parts that are returned, the output first.
        """
        given = [_copy(value) for value in args]
        leaves = [value for value in given if isinstance(value, torch.Tensor) and value.is_floating_point()]
        for leaf in leaves:
            leaf.requires_grad_()
        result = self._function(*given)
        output = expect_tuple(result, of)[0] if of else result
        if type(output) is not torch.Tensor or not output.requires_grad:
            return [None] * len(leaves)
        return list(torch.autograd.grad(output.sum(), leaves, allow_unused=True))


def _copy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(_copy(part) for part in value)
    if type(value) is dict:
        return {key: _copy(part) for key, part in value.items()}
    return value


def _unchanged(before: Any, after: Any) -> bool:
    if isinstance(before, torch.Tensor):
        if before.shape != after.shape or before.dtype != after.dtype:
            return False
        pairs = zip(flat(before), flat(after), strict=True)
        return all(close(a, b, 0.0, 0.0) for a, b in pairs)
    if type(before) in (list, tuple):
        return len(before) == len(after) and all(map(_unchanged, before, after))
    if type(before) is dict:
        return before.keys() == after.keys() and all(_unchanged(before[key], after[key]) for key in before)
    return True
