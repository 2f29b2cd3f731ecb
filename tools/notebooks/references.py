"""References in prose: ``[[name:.2f]]`` becomes the number that the notebook computed.

===========================================  =========================================================
``[[name:.2f]]``, ``[[name:.0%]]``           the value (whole numbers need no format)
``[[name[key]:.2f]]``                        one entry of a claim about a dict or list
``[[name:range:.2f]]``, ``[[name:seeds]]``   lowest to highest over the seeds, and how many seeds
``[[=0.1]]``                                 ``0.1``: a given number, typed on purpose
``[[how-long:read]]``, ``[[how-long:run]]``  how long a lesson takes to read, and to run
===========================================  =========================================================
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

from .markdown import prose_only

REFERENCE = re.compile(
    r"\[\[(?:=(?P<given>[^\[\]\n]+)|how-long:(?P<duration>read|run)"
    r"|(?P<name>[A-Za-z_]\w*)(?:\[(?P<key>[^\[\]\n]+)\])?"
    r"(?::(?P<over>range|seeds))?(?::(?P<spec>[^\[\]\n]+))?)\]\]"
)
OPENING = re.compile(r"\[\[(?=[A-Za-z_=])")
MINUS = "\u2212"
DASH = "\u2013"


@dataclass(frozen=True)
class Numbers:
    """What references are filled with: the values of a run, those for each seed, and how long it takes."""

    values: Mapping[str, Any] = field(default_factory=dict)
    seeds: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    durations: Mapping[str, str] = field(default_factory=dict)


def find(text: str) -> tuple[list[re.Match[str]], list[int]]:
    """Return the references outside code, and the offsets of ``[[`` that open none."""
    masked = prose_only(text)
    found = list(REFERENCE.finditer(masked))
    starts = {match.start() for match in found}
    return found, [match.start() for match in OPENING.finditer(masked) if match.start() not in starts]


def pick(value: Any, match: re.Match[str]) -> Any:
    """Return the number that ``name`` or ``name[key]`` stands for. Raises ``ValueError``."""
    name, key = match["name"], match["key"]
    if key is not None:
        try:
            value = value[int(key) if isinstance(value, list) else key.strip("\"'")]
        except (KeyError, IndexError, ValueError, TypeError):
            raise ValueError(f"{name} has no [{key}]") from None
    if isinstance(value, (dict, list)):
        raise ValueError(f"{name} holds several numbers: write {name}[key]")
    return value


def say(number: int | float, spec: str | None) -> str:
    """Format a number as prose shows it. Raises ``ValueError`` for a format that does not suit it.

    Decimals are rounded half up: otherwise 0.175 would read 0.17 in one sentence and 18% in the next.
    """
    if spec is None and not isinstance(number, int):
        raise ValueError("a decimal number needs a format such as :.2f")
    try:
        with localcontext() as context:
            context.rounding = ROUND_HALF_UP
            exact = Decimal(str(number) if number else 0) if isinstance(number, float) else number
            text = format(exact, spec or "")
            if not number and "e" in (spec or ""):
                text = "0"  # a decimal zero would bring an exponent along, 0e-1
    except ValueError:
        raise ValueError(f"bad format {spec!r}") from None
    text = re.sub(r"^-(0(\.0*)?%?)$", r"\1", text)
    if 0 < number < 1 and re.fullmatch(r"0(\.0*)?%?|1(\.0*)?|100(\.0*)?%", text):
        raise ValueError(f"{number} would be shown as {text}: give it more digits")
    return text.replace("-", MINUS)


def suits_some_number(spec: str | None) -> bool:
    """Return whether a format suits any number at all; asked before a long run, not after it."""
    for number in (1.5, 1):
        try:
            return spec is None or bool(say(number, spec))
        except ValueError:
            continue
    return False


def one(match: re.Match[str], numbers: Numbers) -> str:
    """Return the text that replaces one reference. Raises ``ValueError`` that says what is wrong with it."""
    if match["given"]:
        return str(match["given"])
    if match["duration"]:
        if match["duration"] not in numbers.durations:
            raise ValueError("not measured: build the lesson")
        return numbers.durations[match["duration"]]
    name, over, spec = match["name"], match["over"], match["spec"]
    if not over:
        if name not in numbers.values:
            raise ValueError(f"no value for {name}")
        return say(pick(numbers.values[name], match), spec)
    runs = [pick(value, match) for value in numbers.seeds.get(name, [])]
    if not runs:
        raise ValueError(f"no evidence for {name}: run `python -m tools.notebooks evidence`")
    if over == "seeds":
        return str(len(runs))
    low, high = say(min(runs), spec), say(max(runs), spec)
    if low == high:
        return low
    both_percent = low.endswith("%") and high.endswith("%")
    return f"{low[:-1] if both_percent else low}{DASH}{high}"
