"""How an answer refuses sizes that do not fit: with which error, and whether it names both numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from ..verdict import Failed, NothingYet


def told(call: Callable[[], Any], numbers: tuple[int, int]) -> tuple[str, bool]:
    """The name of the error that the call raises, and whether its message names both numbers.

    The name is empty where nothing is raised, and ``"nothing"`` where nothing is returned either.
    """
    try:
        result = call()
    except (NotImplementedError, Failed):  # not written yet, or another trouble that has its own words
        raise
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        # Where it was raised is no part of the message, though a grader writes it there.
        message = re.sub(r"\(line \d+ of cell \d+\)$", "", str(error))
        named = set(re.findall(r"\d+", message))
        return (
            "ValueError" if "ValueError" in kinds else type(error).__name__,
            all(str(number) in named for number in numbers),
        )
    return "nothing" if result is None else "", False


def expect_refusal(call: Callable[[], Any], numbers: tuple[int, int], what: str) -> None:
    """Pass a ``ValueError`` whose message names both numbers; else ``Failed`` says what came."""
    name, both = told(call, numbers)
    if name == "nothing":
        raise NothingYet(f"{what}: nothing was returned, and nothing raised")
    if not name:
        raise Failed(f"{what}: a ValueError is wanted, but nothing is raised")
    if name != "ValueError":
        raise Failed(f"{what}: a ValueError is wanted, but this raises {name[:60]}")
    if not both:
        raise Failed(f"{what}: the message of the ValueError should name both numbers")


def unequal(g: torch.Generator) -> list[tuple[int, int]]:
    """Some widths that are no multiple of their number of heads."""
    heads = torch.randint(3, 10, (6,), generator=g).tolist()
    return [(2 * n + 1 + i % (n - 1), n) for i, n in enumerate(heads)]
