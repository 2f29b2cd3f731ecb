"""Values as JSON: numbers, texts, containers, types, and numbered tensors, modules and objects in them.

A message has tables of its tensors and modules; a value names them by their place there, so that one tensor
that stands in two places is one tensor on the other side as well. Whatever has no form of its own travels as
the name of its type.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import random
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from . import faults, tensors
from .wire import WireError

MOST_DEPTH = 24
MOST_NODES = 50_000
MOST_TEXT = 1_000_000
_EXACT = 1 << 53
_MOST_BITS = 4096
_NUMPY = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")


class Opaque:
    """Something of a type that does not travel; its class has the type's name."""


class TooDeep(ValueError):
    """A value has too many parts, or too many levels."""


class Writer:
    """Turns values into JSON; what has an identity goes into tables."""

    def __init__(self) -> None:
        self._left = MOST_NODES
        self.extra: list[bytes] = []
        """Raw bytes that are no tensor's."""

    def tensor(self, value: Tensor) -> int:
        """The place of a tensor in its table."""
        raise NotImplementedError

    def module(self, value: nn.Module) -> int:
        """The place of a module in its table."""
        raise NotImplementedError

    def named(self, value: Any) -> list[Any]:
        """How a function or another object is named."""
        raise NotImplementedError

    def write(self, value: Any, depth: int = 0) -> Any:
        """The value as JSON. Raises ``TooDeep``."""
        self._left -= 1
        if depth > MOST_DEPTH or self._left < 0:
            raise TooDeep("a value with too many parts")
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind in _PLAIN:
            return _PLAIN[kind](value)
        if kind is bytes:
            self.extra.append(value)
            return ["y", len(self.extra) - 1]
        if (container := _kind(kind)) in _BRACKETS:
            return self._container(container, value, depth)
        return self._other(value, depth)

    def _container(self, kind: Any, value: Any, depth: int) -> list[Any]:
        if len(value) > self._left:
            raise TooDeep("a value with too many parts")
        if kind in (dict, OrderedDict):
            pairs = [
                [self.write(key, depth + 1), self.write(part, depth + 1)] for key, part in dict.items(value)
            ]
            return [_BRACKETS[kind], pairs]
        return [_BRACKETS[kind], [self.write(part, depth + 1) for part in kind.__iter__(value)]]

    def _other(self, value: Any, depth: int) -> Any:
        if isinstance(value, Tensor):
            return ["t", self.tensor(value)] if tensors.travels(value) else _opaque(value)
        if isinstance(value, nn.Module):
            return ["m", self.module(value)]
        if isinstance(value, torch.Generator):
            self.extra.append(value.get_state().numpy().tobytes())
            return ["g", len(self.extra) - 1]
        if type(value) is numpy.ndarray:
            found = tensors.from_numpy(value)
            return _opaque(value) if found is None else ["a", self.tensor(found)]
        if isinstance(value, numpy.generic):
            return self._numpy(value, depth)
        if (path := _record(type(value))) is not None:
            names = _fields(type(value))
            return ["r", path, [self.write(getattr(value, name), depth + 1) for name in names]]
        if isinstance(value, tuple):
            return ["(", [self.write(part, depth + 1) for part in tuple.__iter__(value)]]
        if isinstance(value, type) and (place := _public(value)) is not None:
            return ["c", place]
        return self.named(value)

    def _numpy(self, value: Any, depth: int) -> Any:
        name = type(value).__name__.removesuffix("_")
        return ["n", name, self.write(value.item(), depth + 1)] if name in _NUMPY else _opaque(value)


class Reader:
    """Turns JSON back into values; the other side may send anything.

    Args:
        extra: raw bytes that are no tensor's.
    """

    def __init__(self, extra: list[bytearray]) -> None:
        self._extra, self._left = extra, 2 * MOST_NODES

    def tensor_at(self, place: Any) -> Tensor:
        """The tensor at a place of its table."""
        raise NotImplementedError

    def module_at(self, place: Any) -> nn.Module:
        """The module at a place of its table."""
        raise NotImplementedError

    def stands_for(self, node: list[Any]) -> Any:
        """What the name of a function or another object stands for."""
        raise NotImplementedError

    def read(self, node: Any, depth: int = 0) -> Any:
        """The value. Raises ``WireError`` for what no writer writes."""
        self._left -= 1
        if depth > MOST_DEPTH + 2 or self._left < 0:
            raise WireError("a value with too many parts")
        if node is None or type(node) in (bool, int, float):
            return node
        if type(node) is str:
            return faults.clean(node) if len(node) > MOST_TEXT else node
        if type(node) is not list or not node or type(node[0]) is not str:
            raise WireError("no value")
        try:
            return self._tagged(node[0], node[1:], depth + 1)
        except (ValueError, TypeError, IndexError, KeyError, OverflowError, RuntimeError) as error:
            raise WireError(f"no value: {type(error).__name__}") from error

    def _tagged(self, tag: str, rest: list[Any], depth: int) -> Any:
        if tag in ("(", "[", "s", "z"):
            parts = [self.read(part, depth) for part in rest[0]]
            return {"(": tuple, "[": list, "s": set, "z": frozenset}[tag](parts)
        if tag in ("{", "{o"):
            pairs = [(self.read(key, depth), self.read(part, depth)) for key, part in rest[0]]
            return dict(pairs) if tag == "{" else OrderedDict(pairs)
        if tag == "t":
            return self.tensor_at(rest[0])
        if tag == "m":
            return self.module_at(rest[0])
        if tag == "a":
            return tensors.to_numpy(self.tensor_at(rest[0]))
        if tag == "n":
            if rest[0] not in _NUMPY:
                raise WireError("a number of no known type")
            return numpy.dtype(rest[0]).type(self.read(rest[1], depth))
        if tag == "y":
            return bytes(self._extra[rest[0]])
        if tag == "g":
            return self._generator(rest[0])
        if tag == "r":
            return _of_record(rest[0], [self.read(part, depth) for part in rest[1]])
        if tag == "bound":
            return self.stands_for([tag, self.read(rest[0], depth), rest[1]])
        return _SIMPLE[tag](rest) if tag in _SIMPLE else self.stands_for([tag, *rest])

    def _generator(self, place: int) -> torch.Generator:
        generator = torch.Generator()
        generator.set_state(torch.frombuffer(self._extra[place], dtype=torch.uint8))
        return generator


def _kind(kind: type) -> Any:
    """The kind as which a container travels: a child of dict or list as the nearest that both sides have."""
    if issubclass(kind, dict):
        return kind if kind is dict else OrderedDict
    return list if issubclass(kind, list) else kind


def _opaque(value: Any) -> list[Any]:
    return ["?", type(value).__name__[:60]]


def opaque(name: object) -> Opaque:
    """Something whose type has this name."""
    kind = type(faults.word(name, "object"), (Opaque,), {})
    return kind()  # type: ignore[no-any-return]


def _float(value: float) -> Any:
    return value if math.isfinite(value) else ["f", repr(value)]


def _integer(value: int) -> Any:
    if -_EXACT < value < _EXACT:
        return value
    return ["i", hex(value)] if value.bit_length() <= _MOST_BITS else ["?", "int"]


def _big(text: str) -> int:
    if len(text) > _MOST_BITS:
        raise WireError("a number above the limit")
    return int(text, 16)


def _text(value: str) -> Any:
    return value if len(value) <= MOST_TEXT else value[:MOST_TEXT]


_BRACKETS: dict[type, str] = {tuple: "(", list: "[", set: "s", frozenset: "z", dict: "{", OrderedDict: "{o"}
_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: _text,
    int: _integer,
    float: _float,
    complex: lambda value: ["x", repr(value.real), repr(value.imag)],
    range: lambda value: [":", value.start, value.stop, value.step],
    torch.Size: lambda value: ["(", list(value)],
    torch.dtype: lambda value: ["d", str(value).removeprefix("torch.")],
    torch.device: lambda value: ["v", str(value)],
    type(Ellipsis): lambda value: ["..."],
    slice: lambda value: ["?", "slice"],
}
_SIMPLE: dict[str, Callable[[list[Any]], Any]] = {
    "f": lambda rest: {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[rest[0]],
    "i": lambda rest: _big(rest[0]),
    "x": lambda rest: complex(float(rest[0]), float(rest[1])),
    ":": lambda rest: range(int(rest[0]), int(rest[1]), int(rest[2])),
    "d": lambda rest: tensors.DTYPES[rest[0]],
    "v": lambda rest: torch.device(rest[0]),
    "...": lambda rest: ...,
    "c": lambda rest: _named(rest[0]),
    "?": lambda rest: opaque(rest[0]),
}


def _public(kind: type) -> str | None:
    """The name of a type that both sides have: one of Python's own, or a layer of torch."""
    if kind in (bool, int, float, str, bytes, tuple, list, dict, set, Tensor, type(None)):
        return kind.__name__
    name = kind.__name__
    if issubclass(kind, nn.Module) and getattr(nn, name, None) is kind:
        return f"nn.{name}"
    return None


def _named(place: str) -> type:
    for kind in (bool, int, float, str, bytes, tuple, list, dict, set, Tensor, type(None)):
        if kind.__name__ == place:
            return kind
    found = getattr(nn, place.removeprefix("nn."), None) if place.startswith("nn.") else None
    if not isinstance(found, type) or not issubclass(found, nn.Module):
        raise WireError("no type that both sides have")
    return found


def _record(kind: type) -> list[str] | None:
    """Module and name of a record of the course's library (a data class or a named tuple), else None."""
    module = kind.__module__
    known = module.startswith("attnlab.") and not module.startswith(("attnlab.checks", "attnlab.grading"))
    if not known or not (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        return None
    loaded = sys.modules.get(module)
    return [module, kind.__name__] if getattr(loaded, kind.__name__, None) is kind else None


def _fields(kind: Any) -> list[str]:
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind) if field.init]
    return list(kind._fields)


def _of_record(path: list[str], parts: list[Any]) -> Any:
    module, name = path
    allowed = type(module) is str and type(name) is str and module.startswith("attnlab.")
    if not allowed or module.startswith(("attnlab.checks", "attnlab.grading")) or not name.isidentifier():
        raise WireError("no record of the course")
    kind = getattr(importlib.import_module(module), name, None)
    if not isinstance(kind, type) or _record(kind) is None:
        raise WireError("no record of the course")
    return kind(**dict(zip(_fields(kind), parts, strict=True)))


# --- random states ----------------------------------------------------------------------------------------


def random_states() -> list[bytes]:
    """The global random states of torch, numpy and Python, as bytes."""
    kind, keys, position, has_gauss, gauss = numpy.random.get_state()
    _version, words, following = random.getstate()
    del kind
    return [
        torch.get_rng_state().numpy().tobytes(),
        numpy.asarray(keys, dtype=numpy.uint32).tobytes()
        + numpy.asarray([position, has_gauss, gauss], dtype=numpy.float64).tobytes(),
        numpy.asarray(words, dtype=numpy.uint32).tobytes()
        + numpy.asarray([math.nan if following is None else following], dtype=numpy.float64).tobytes(),
    ]


def set_random_states(states: list[bytearray]) -> None:
    """Take random states over. Raises ``WireError`` where they are none."""
    try:
        of_torch, of_numpy, of_python = states
        keys = numpy.frombuffer(of_numpy[:-24], dtype=numpy.uint32)
        position, has_gauss, gauss = numpy.frombuffer(of_numpy[-24:], dtype=numpy.float64).tolist()
        words = numpy.frombuffer(of_python[:-8], dtype=numpy.uint32).tolist()
        following = float(numpy.frombuffer(of_python[-8:], dtype=numpy.float64)[0])
        if len(keys) != 624 or not 0 <= position <= 624 or len(words) != 625 or not 0 <= words[-1] <= 624:
            raise WireError("no random state")
        torch.set_rng_state(torch.frombuffer(of_torch, dtype=torch.uint8))
        numpy.random.set_state(("MT19937", keys, int(position), int(has_gauss), gauss))
        random.setstate((3, tuple(words), None if math.isnan(following) else following))
    except (ValueError, TypeError, RuntimeError) as error:
        raise WireError("no random state") from error
