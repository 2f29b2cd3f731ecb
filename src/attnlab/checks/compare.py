"""Compare what an answer gave with what it should give, trusting nothing about the answer.

Only exact types are looked into, and numbers are compared as plain Python numbers: an object that claims to
equal everything, or a tensor subclass with its own comparison, is of the wrong type and gains nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn

from .verdict import Failed, NothingYet

NOTES: ContextVar[list[str] | None] = ContextVar("NOTES", default=None)
"""Where remarks of the running check are gathered; None outside of a check."""

_PLAIN = (bool, int, float, str, bytes, type(None))


def normal(generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Standard normal numbers of this shape, on the CPU whatever the notebook's defaults are."""
    return torch.randn(*shape, generator=generator, dtype=dtype, device="cpu")


def note(text: str) -> None:
    """Leave a remark that costs no points; each text is shown once."""
    notes = NOTES.get()
    if notes is not None and text not in notes:
        notes.append(text)


def expect_callable(answer: object, what: str) -> Callable[..., Any]:
    """The answer, if it can be called; else ``Failed`` says what came instead of ``what``."""
    if not callable(answer):
        raise Failed(f"{what} is wanted here, but this is {_a(type(answer).__name__)}")
    return answer


def expect_tensor(
    value: object, shape: Sequence[int], name: str = "the result", *, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """The value as a plain tensor of this shape and number type; else ``Failed`` says what came.

    A ``float64`` result where ``float32`` was expected is accepted with a note.
    """
    if value is None or value is Ellipsis:
        raise NothingYet(f"{name}: nothing was returned; is a return missing?")
    if type(value) not in (torch.Tensor, nn.Parameter):
        raise Failed(f"{name} should be a torch.Tensor, but this is {_a(type(value).__name__)}")
    assert isinstance(value, torch.Tensor)
    if value.device.type != "cpu":
        raise Failed(f"{name} should be on the cpu like the inputs, but it is on {value.device.type}")
    if tuple(value.shape) != tuple(shape):
        raise Failed(f"{name} should have shape {tuple(shape)}, but the shape is {tuple(value.shape)}")
    if value.dtype != dtype:
        wider = value.dtype == torch.float64 and dtype == torch.float32
        text = f"{name}: the numbers are {_dtype(value.dtype)}, where {_dtype(dtype)} was expected"
        if not wider:
            raise Failed(text)
        note(text + "; accepted")
    return value.detach().to(dtype, copy=True)


def expect_close(
    value: object,
    reference: torch.Tensor,
    name: str = "the result",
    *,
    absolute: float = 1e-5,
    relative: float = 1e-4,
) -> None:
    """Pass a tensor that is close to the reference; else ``Failed`` says how many numbers are off."""
    given = flat(expect_tensor(value, tuple(reference.shape), name, dtype=reference.dtype))
    wanted = flat(reference)
    invalid = sum(not math.isfinite(number) for number in given)
    if invalid and all(map(math.isfinite, wanted)):
        raise Failed(f"{name}: {invalid} of {len(given)} numbers are NaN or infinite")
    wrong = [(a, b) for a, b in zip(given, wanted, strict=True) if not close(a, b, absolute, relative)]
    if wrong:
        gap = max((abs(a - b) for a, b in wrong if math.isfinite(a - b)), default=math.inf)
        raise Failed(f"{name}: {len(wrong)} of {len(given)} numbers are wrong, by up to {gap:.2g}")


def expect_tuple(value: object, names: Sequence[str]) -> tuple[Any, ...]:
    """The parts of a tuple (or named tuple, or list), one for each name; else ``Failed`` says what came."""
    if value is None or value is Ellipsis:
        raise NothingYet("nothing was returned; is a return missing?")
    wanted = f"return {', '.join(names)}, together as a tuple"
    if not issubclass(type(value), tuple | list):
        raise Failed(f"{wanted}; this is {_a(type(value).__name__)}")
    parts = tuple(_parts(value))
    if len(parts) != len(names):
        raise Failed(f"{wanted}; this has {len(parts)} parts")
    return parts


def expect_pair(value: object, names: tuple[str, str]) -> tuple[Any, Any]:
    """Two parts, as ``expect_tuple`` has them."""
    first, second = expect_tuple(value, names)
    return first, second


def flat(tensor: torch.Tensor) -> list[float]:
    """All numbers of a tensor, in order, as Python floats."""
    return [float(number) for number in tensor.detach().reshape(-1).tolist()]


def same(given: object, wanted: object, *, absolute: float = 1e-5, relative: float = 1e-4) -> bool:
    """Whether a value equals a trusted one, part by part; a tuple may be a list or a named tuple."""
    if isinstance(wanted, torch.Tensor):
        if type(given) not in (torch.Tensor, nn.Parameter):
            return False
        assert isinstance(given, torch.Tensor)
        if given.shape != wanted.shape or given.dtype.is_floating_point != wanted.dtype.is_floating_point:
            return False
        pairs = zip(flat(given), flat(wanted), strict=True)
        return all(close(a, b, absolute, relative) for a, b in pairs)
    if isinstance(wanted, tuple | list):
        if not issubclass(type(given), tuple | list):
            return False
        parts = list(_parts(given))
        return len(parts) == len(wanted) and all(
            same(a, b, absolute=absolute, relative=relative) for a, b in zip(parts, wanted, strict=True)
        )
    if isinstance(wanted, float) and type(given) in (int, float):
        return close(float(given), wanted, absolute, relative)  # type: ignore[arg-type]
    return type(given) in _PLAIN and type(given) is type(wanted) and given == wanted


def _parts(value: Any) -> Iterator[Any]:
    # The base class's own iterator: a subclass may have replaced it.
    kind = tuple if issubclass(type(value), tuple) else list
    return kind.__iter__(value)


def close(a: float, b: float, absolute: float, relative: float) -> bool:
    """Whether two numbers agree; NaN agrees with NaN, and an infinity with itself alone."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if math.isinf(a) or math.isinf(b):  # a tolerance relative to infinity would allow everything
        return a == b
    return a == b or abs(a - b) <= absolute + relative * abs(b)


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
