"""What all contracts share: how they call what is under contract, and how they refuse it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "Attend",
    "AttendWithMask",
    "Result",
    "generator_or_fixed",
    "noise_like",
    "num_positions",
    "output_of",
    "place_of",
    "require",
    "require_close",
    "require_finite",
    "tolerance_for",
]

Result = Tensor | tuple[Any, ...]
"""A tensor, or a tuple that begins with it."""
Attend = Callable[[Tensor], Result]
AttendWithMask = Callable[[Tensor, Tensor, Tensor, Tensor], Result]

_TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-2}


def output_of(result: Result) -> Tensor:
    """The tensor itself, or the first entry of a tuple."""
    output: Tensor = result[0] if isinstance(result, tuple) else result
    return output


def require(holds: bool, message: str) -> None:
    """Raise an AssertionError with this ``message`` unless it ``holds``."""
    # Not an assert statement: a contract must also hold under ``python -O``.
    if not holds:
        raise AssertionError(message)


def require_finite(name: str, tensor: Tensor) -> None:
    """Refuse a ``tensor``, called ``name`` in the message, that holds NaN or infinity."""
    require(bool(tensor.isfinite().all()), f"{name}: expected finite numbers, found NaN or infinity")


def require_close(received: Tensor, expected: Tensor, tolerance: float | None, message: str) -> None:
    """Refuse what differs.

    Args:
        received: What came, of any shape.
        expected: What it must be close to, of the same shape.
        tolerance: Largest allowed difference; None takes that of the type of the numbers.
        message: Says what the difference means.

    Raises:
        AssertionError: If the shapes differ, a number is not finite, or one differs by more than allowed.
    """
    require(
        received.shape == expected.shape,
        f"{message}: shape {tuple(received.shape)} against {tuple(expected.shape)}",
    )
    require_finite("output", received)
    require_finite("output", expected)
    difference = (received - expected).abs()
    if difference.numel() == 0:
        return
    allowed = tolerance_for(expected, tolerance)
    require(
        difference.max().item() <= allowed,
        f"{message}: {place_of(difference)} differs by {difference.max().item():.3g}, "
        f"allowed are {allowed:.0e}",
    )


def tolerance_for(tensor: Tensor, tolerance: float | None) -> float:
    """The ``tolerance`` if one was given; else that of the type of the ``tensor``."""
    return _TOLERANCE[tensor.dtype] if tolerance is None else tolerance


def place_of(tensor: Tensor, noun: str = "entry") -> str:
    """Where the largest entry of a ``tensor`` is, as words that begin with ``noun``: ``entry (1, 0, 3)``."""
    place = torch.unravel_index(tensor.argmax(), tensor.shape)
    return f"{noun} ({', '.join(str(int(index)) for index in place)})"


def generator_or_fixed(generator: torch.Generator | None) -> torch.Generator:
    """The generator that was given, or a fresh one with a fixed seed."""
    return torch.Generator().manual_seed(0) if generator is None else generator


def noise_like(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal numbers from the ``generator``, of the shape, type and device of the ``tensor``."""
    # Drawn on the CPU, so that the same generator serves every device.
    return torch.randn(tensor.shape, generator=generator).to(tensor)


def num_positions(x: Tensor) -> int:
    """How many positions, T, an input ``(..., T, D)`` has. Raises ValueError if fewer than two."""
    if x.ndim < 2 or x.shape[-2] < 2:
        raise ValueError(f"x: expected (..., T, D) with at least two positions, got {tuple(x.shape)}")
    return x.shape[-2]
