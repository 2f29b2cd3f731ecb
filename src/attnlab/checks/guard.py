"""Keep a check's ground firm: torch as it was when the course was loaded, the random state as it was before.

A function of torch that was replaced in the notebook, by accident or on purpose, is back while a check runs.
"""

from __future__ import annotations

import builtins
import contextlib
import math
import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import torch
import torch.nn.functional

_OWNERS: tuple[tuple[str, Any], ...] = (
    ("torch", torch),
    ("torch.Tensor", torch.Tensor),
    ("torch.nn.functional", torch.nn.functional),
    ("torch.nn.Module", torch.nn.Module),
    ("torch.nn.Linear", torch.nn.Linear),
    ("torch.linalg", torch.linalg),
    ("math", math),
)
_TORCH = Path(torch.__file__).parent
_BUILTINS = ("abs", "all", "any", "callable", "isinstance", "issubclass", "len", "max", "min", "sum", "zip")


def _functions(owner: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(owner).items()
        if callable(value) and not isinstance(value, ModuleType | type)
    }


_ORIGINAL = [(label, owner, _functions(owner)) for label, owner in _OWNERS]
# First, since what puts the others back uses them itself.
_ORIGINAL.insert(0, ("builtins", builtins, {name: getattr(builtins, name) for name in _BUILTINS}))
_INHERITED = {name for base in torch.Tensor.__mro__[1:] for name in vars(base)} - set(vars(torch.Tensor))


def _made_by_torch(function: Any) -> bool:
    """Whether torch replaced its own function: it wraps ``manual_seed`` when the first optimizer is made."""
    code = getattr(function, "__code__", None)
    return code is not None and Path(code.co_filename).is_relative_to(_TORCH)


@contextlib.contextmanager
def original_functions() -> Iterator[list[str]]:
    """Put replaced functions back inside the block, and yield their names; outside, the notebook's stay."""
    changed: list[tuple[Any, str, Any]] = []
    names: list[str] = []
    for label, owner, functions in _ORIGINAL:
        present = vars(owner)
        for name, function in functions.items():
            replacement = present.get(name)
            if replacement is not function:
                changed.append((owner, name, replacement))
                setattr(owner, name, function)  # before anything is asked, which may use it
                if not _made_by_torch(replacement):
                    names.append(f"{label}.{name}")
    # Methods that a tensor inherits are replaced by adding one to the class.
    for name in sorted(_INHERITED & set(vars(torch.Tensor))):
        changed.append((torch.Tensor, name, vars(torch.Tensor)[name]))
        names.append(f"torch.Tensor.{name}")
        delattr(torch.Tensor, name)
    try:
        yield names
    finally:
        for owner, name, value in changed:
            if value is None:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


@contextlib.contextmanager
def same_random_state() -> Iterator[None]:
    """Give the global random states and torch's default number type back as they were."""
    torch_state, numpy_state, python_state = (
        torch.get_rng_state(),
        numpy.random.get_state(),
        random.getstate(),
    )
    dtype = torch.get_default_dtype()
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        numpy.random.set_state(numpy_state)
        random.setstate(python_state)
        torch.set_default_dtype(dtype)


def reseed(seed: int) -> torch.Generator:
    """Set every global random state from one seed, and return a generator for the check's inputs."""
    torch.set_default_dtype(torch.float32)
    # Not torch.manual_seed: checks run on the CPU, and it seeds every kind of device, which takes a while.
    torch.default_generator.manual_seed(seed)
    numpy.random.seed(seed % 2**32)
    random.seed(seed)
    return torch.Generator().manual_seed(seed)
