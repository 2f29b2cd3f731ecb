"""State what a number must be, so that the prose may quote it.

``claim("recall", accuracy, at_least=0.95)`` remembers a value under a name; the text of the lesson refers to
that name, and the build of the notebooks writes the value into the text. ``seed(0)`` is a seed that a run for
evidence can move, to see whether a claim holds for other random numbers too.

In a learner's hands neither function ever raises: inside its bounds a claim says nothing, outside them it
prints one line and goes on. The build is the strict one: it reads ``CLAIMS`` and ``REFUSED`` at the end.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Plain: TypeAlias = "int | float | dict[str, Plain] | list[Plain]"

CLAIMS: dict[str, list[Plain]] = {}
"""Every value computed for a name, in the order of computation."""

REFUSED: dict[str, str] = {}
"""Names whose value or bounds could not be used, and why."""

SHIFT_STEP = 1000
SIGNIFICANT_DIGITS = 6


def seed(base: int) -> int:
    """Return ``base``, or a seed far from it when a run for evidence asks for one.

    Args:
        base: the seed of an ordinary run.

    Returns:
        ``base + 1000 * shift``, where ``shift`` is the whole number in the environment's ``SEED_SHIFT``
        (0 where it is missing or not a number).
    """
    try:
        shift = int(os.environ.get("SEED_SHIFT", "0"))
    except ValueError:
        shift = 0
    return base + SHIFT_STEP * shift if isinstance(base, int) else base


def plain(value: Any) -> Plain:
    """Turn numbers, numpy or torch scalars, and dicts or lists of them, into what JSON can hold.

    Floats keep six significant digits, so that a stored value does not hold the noise of one machine.

    Raises:
        TypeError: the value is not a number, nor made of numbers.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if getattr(value, "shape", ()) not in ((), (1,)):
        raise TypeError(
            f"a {type(value).__name__} of shape {tuple(value.shape)}: pass its .tolist() or one number"
        )
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise TypeError(f"a {type(value).__name__}")
    return float(f"{number:.{SIGNIFICANT_DIGITS}g}") if isinstance(number, float) else number


def leaves(value: Plain) -> Iterator[int | float]:
    """Yield every number of a plain value."""
    if isinstance(value, dict):
        for entry in value.values():
            yield from leaves(entry)
    elif isinstance(value, Sequence):
        for entry in value:
            yield from leaves(entry)
    else:
        yield value


def outside(
    value: Plain,
    at_least: float | None = None,
    at_most: float | None = None,
    equals: float | None = None,
) -> str:
    """Return ``""`` where each number of ``value`` is ``at_least``, ``at_most`` and ``equals`` what is given.

    Else return what was expected, in words.
    """
    bounds = (("at least", at_least), ("at most", at_most), ("exactly", equals))
    expected = " and ".join(f"{words} {bound}" for words, bound in bounds if bound is not None)
    numbers = list(leaves(value))
    kept = bool(numbers) and all(
        math.isfinite(number)
        and (at_least is None or number >= at_least)
        and (at_most is None or number <= at_most)
        and (equals is None or number == equals)
        for number in numbers
    )
    return "" if kept else expected or "a finite number"


def claim(
    name: str,
    value: Any,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    equals: float | None = None,
) -> None:
    """Remember ``value`` under ``name`` and say so when it leaves its bounds. Never raises.

    Args:
        name: what the prose calls the value, ``[[name:.2f]]``.
        value: a number, a numpy or torch scalar, or a dict or list of them; bounds hold for each number.
        at_least, at_most, equals: the bounds, at least one of them.
    """
    try:
        number = plain(value)
        expected = outside(number, at_least, at_most, equals)
        CLAIMS.setdefault(str(name), []).append(number)
    except Exception as error:  # a learner's experiment must go on, whatever it put in
        reason = str(error) or type(error).__name__
        REFUSED[str(name) if isinstance(name, str) else repr(type(name))] = reason
        print(
            f"Note: claim() takes a number, or a dict or list of numbers, and got {reason}. "
            "Nothing depends on it here: carry on."
        )
        return
    if expected:
        print(
            f"Note: your run gives {name} = {number}, the text was written for {expected}. After a change of "
            "yours, or with other library versions, that is normal: carry on, and ask yourself why."
        )
