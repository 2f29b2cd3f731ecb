"""What has an identity: functions and objects are named by a number, and stand-ins take their place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch
import torch.nn.functional
from torch import nn

from . import faults, modules
from .wire import WireError

_METHODS = ("__len__", "__getitem__", "__contains__", "__iter__", "__next__", "__call__")
_PLACES = {"F": torch.nn.functional, "torch": torch}


class Identities:
    """The objects of this side that were handed over, and the stand-ins of those of the other side.

    Args:
        grader: whether this is the grader's side, which hands over plans and trusts nothing that comes back.
    """

    def __init__(self, *, grader: bool) -> None:
        self.grader = grader
        self._exports: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._last = 0
        self._stand_ins: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._known: WeakValueDictionary[int, Any] = WeakValueDictionary()

    def call(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], how: str = "call", name: str = ""
    ) -> Any:
        """Call something of the other side."""
        raise NotImplementedError

    def number(self) -> int:
        """A number that was not used before."""
        self._last += 1
        return self._last

    def export(self, value: Any) -> int:
        """A number under which the other side may call something of this side."""
        if id(value) not in self._numbers:
            number = self.number()
            self._numbers[id(value)], self._exports[number] = number, value
        return self._numbers[id(value)]

    def exported(self, reference: object) -> Any:
        """What was handed over under a number. Raises ``WireError`` where nothing was."""
        if type(reference) is not int or reference not in self._exports:
            raise WireError("something that was not handed over")
        return self._exports[reference]

    def is_exported(self, value: Any) -> bool:
        """Whether something was handed over."""
        return id(value) in self._numbers

    def forget(self) -> None:
        """Let go of everything that was handed over or received."""
        self._exports, self._numbers = {}, {}
        self._known.clear()

    def name_of(self, value: Any) -> list[Any]:
        """How a function or another object is named in a message."""
        with contextlib.suppress(TypeError):  # not everything can be looked up
            if value in self._stand_ins:
                return ["own", self._stand_ins[value]]
        name = getattr(value, "__name__", None)
        if self.grader and type(name) is str:
            for place, owner in _PLACES.items():
                if getattr(owner, name, None) is value:
                    return ["path", place, name]
        if callable(value) and not _has_methods(value):
            return ["fn", self.export(value), name if type(name) is str else "function"]
        methods = [method for method in _METHODS if hasattr(type(value), method)]
        return ["o", self.export(value), type(value).__name__, methods]

    def method_of(self, value: Any) -> tuple[nn.Module, str] | None:
        """Module and name of a bound method, so that the module's state can travel with its calls."""
        if self.grader or not isinstance(value, MethodType) or not isinstance(value.__self__, nn.Module):
            return None
        return value.__self__, value.__name__

    def named(self, node: list[Any]) -> Any:
        """What such a name stands for here."""
        kind, number = node[0], node[1]
        if kind == "own":
            return self.exported(number)
        if kind == "bound":
            return _method(self, number, node[2])
        if kind == "path" and not self.grader:
            return getattr(_PLACES[number], node[2])
        if kind not in ("fn", "o") or type(number) is not int:
            raise WireError("no name of anything")
        known = self._known.get(number)
        if known is None:
            known = _function(self, node[2]) if kind == "fn" else _distant(self, node[2], node[3])
            self._known[number] = known
            self._stand_ins[known] = number
        return known

    def mirror(self, reference: int, name: object, base: object) -> nn.Module:
        """The mirror of a module of the other side."""
        known = self._known.get(reference)
        if not isinstance(known, modules.Mirror):
            known = modules.new_mirror(self, reference, name, base)
            self._known[reference] = known
        return known


class Distant:
    """An object of the other side: its methods run there."""

    def __init__(self, side: Identities) -> None:
        self._side = side

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._side.call(self, (), {}, "attribute", name)


def _distant(side: Identities, name: object, methods: object) -> Distant:
    def forwarded(method: str) -> Callable[..., Any]:
        return lambda self, *args: side.call(self, args, {}, "method", method)

    wanted = [method for method in _METHODS if type(methods) is list and method in methods]
    kind = type(faults.word(name, "object"), (Distant,), {method: forwarded(method) for method in wanted})
    made: Distant = kind(side)
    return made


def _function(side: Identities, name: object) -> Callable[..., Any]:
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return side.call(stand_in, args, kwargs)

    stand_in.__name__ = stand_in.__qualname__ = faults.word(name, "function")
    return stand_in


def _method(side: Identities, owner: object, name: object) -> Callable[..., Any]:
    if not isinstance(owner, modules.Mirror) or type(name) is not str:
        raise WireError("no method of a module")

    def method(*args: Any, **kwargs: Any) -> Any:
        return side.call(owner, args, kwargs, "method", name)

    return method


def _has_methods(value: Any) -> bool:
    """Whether a callable object has other methods that matter; a class and a function have none."""
    return not isinstance(value, type) and any(hasattr(type(value), name) for name in _METHODS[:5])
