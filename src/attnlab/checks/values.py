"""Value tasks: the answer is a prediction or a measurement, as a number, a word, or a dict of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeGuard

import numpy
import torch

from .tasks import Case, Task
from .verdict import Failed, NothingYet, exact


class Spec(Protocol):
    """What a value may be: ``matches`` a plain value, explains a miss in words, and gives an ``example``."""

    def matches(self, value: object) -> bool: ...

    def explain(self, value: object) -> str: ...

    def example(self) -> object: ...


@dataclass(frozen=True)
class Near:
    """A number close to ``value``: within ``absolute + relative * abs(value)``."""

    value: float
    absolute: float = 0.0
    relative: float = 1e-6

    @property
    def _margin(self) -> float:
        return self.absolute + self.relative * abs(self.value)

    def matches(self, value: object) -> bool:
        return _is_number(value) and abs(value - self.value) <= self._margin

    def explain(self, value: object) -> str:
        return _explain_number(value, self.value)

    def example(self) -> object:
        return self.value


@dataclass(frozen=True)
class Between:
    """A number from ``low`` to ``high``, both included."""

    low: float
    high: float

    def matches(self, value: object) -> bool:
        return _is_number(value) and self.low <= value <= self.high

    def explain(self, value: object) -> str:
        return _explain_number(value, (self.low + self.high) / 2)

    def example(self) -> object:
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Choice:
    """One of several words, given by ``options``; upper and lower case and outer spaces do not matter."""

    value: str
    options: tuple[str, ...]

    def matches(self, value: object) -> bool:
        return isinstance(value, str) and value.strip().casefold() == self.value.casefold()

    def explain(self, value: object) -> str:
        if not isinstance(value, str) or value.strip().casefold() not in {o.casefold() for o in self.options}:
            return f"this should be one of {', '.join(map(repr, self.options))}"
        return "this is not it"

    def example(self) -> object:
        return self.value


@dataclass(frozen=True)
class WrongValue:
    """A known wrong answer: a number, a word, a spec, or a dict of them for some of the parts."""

    key: str
    hint: str
    value: Any

    @property
    def switches(self) -> Mapping[str, Any]:
        """The parts that it is about."""
        return self.value if isinstance(self.value, Mapping) else {_WHOLE: self.value}


_WHOLE = "your answer"


class ValueTask(Task):
    """The answer is a value, judged part by part against a spec, or specs by name where it is a dict.

    Args:
        expected: a spec, or a mapping from part to spec, or a function without arguments that measures one.
        points: for all parts together, shared equally.
        wrong: known wrong answers, each with its own hint.
    """

    def __init__(
        self,
        task_id: str,
        title: str,
        expected: Spec | Mapping[str, Spec] | Callable[[], Spec | Mapping[str, Spec]],
        *,
        kind: str,
        points: float = 1,
        wrong: Sequence[WrongValue] = (),
    ) -> None:
        super().__init__(task_id, title, kind=kind, mistakes=wrong)
        self._expected, self._points = expected, exact(points)
        self._specs: dict[str, Spec] | None = None

    @property
    def specs(self) -> dict[str, Spec]:
        """The spec of each part; measured at first use."""
        if self._specs is None:
            expected = self._expected() if callable(self._expected) else self._expected
            self._specs = dict(expected) if isinstance(expected, Mapping) else {_WHOLE: expected}
        return self._specs

    @property
    def cases(self) -> list[Case]:
        """One case for each part."""
        share = self._points / len(self.specs)
        return [*(Case(name, share, self._judge(name)) for name in self.specs), *self._extra]

    @cases.setter
    def cases(self, value: list[Case]) -> None:
        self._extra = value

    @property
    def max_points(self) -> float:
        return float(self._points + sum((case.points for case in self._extra), Fraction(0)))

    def _judge(self, name: str) -> Callable[[Any, torch.Generator], None]:
        def run(answer: Mapping[str, object], _: torch.Generator) -> None:
            value, spec = answer.get(name), self.specs[name]
            if value is None:
                raise NothingYet("nothing here yet")
            if not spec.matches(value):
                raise Failed(spec.explain(value))

        return run

    def adapt(self, answer: object) -> dict[str, object]:
        if set(self.specs) == {_WHOLE}:
            return {_WHOLE: plain(answer)}
        if not issubclass(type(answer), dict):
            raise Failed(
                f"a dict with {', '.join(map(repr, self.specs))} is wanted, got {type(answer).__name__}"
            )
        assert isinstance(answer, dict)
        given = {key: plain(value) for key, value in dict.items(answer) if type(key) is str}
        unknown = sorted(given.keys() - self.specs.keys())
        if unknown:
            raise Failed(
                f"unknown: {', '.join(map(repr, unknown))[:100]}; known: {', '.join(map(repr, self.specs))}"
            )
        return given

    def right(self) -> object:
        examples = {name: spec.example() for name, spec in self.specs.items()}
        return examples.get(_WHOLE, examples)

    def answer_with(self, *mistakes: WrongValue) -> object:
        values = {name: spec.example() for name, spec in self.specs.items()}
        for mistake in mistakes:
            values |= {name: _spec(value).example() for name, value in mistake.switches.items()}
        return values.get(_WHOLE, values)

    def diagnose(self, answer: Any, generator: Callable[[], torch.Generator]) -> tuple[WrongValue, ...]:
        matching = [
            mistake
            for mistake in self.mistakes
            if all(_spec(value).matches(answer.get(name)) for name, value in mistake.switches.items())
        ]
        wrong = {name for name, spec in self.specs.items() if not spec.matches(answer.get(name))}
        # The smallest set of known mistakes that touches only wrong parts and explains most of them.
        best: tuple[WrongValue, ...] = ()
        explained = 0
        for chosen in _subsets(matching):
            parts = set().union(*(mistake.switches for mistake in chosen)) & wrong
            if len(parts) > explained:
                best, explained = chosen, len(parts)
        return best


def plain(value: object) -> object:
    """A number or word as a plain Python object; None where there is none; an odd object stays as it is."""
    if value is None or value is Ellipsis:
        return None
    if type(value) is torch.Tensor and value.dim() == 0:
        return value.item()
    if issubclass(type(value), numpy.generic):
        return numpy.generic.item(value)  # type: ignore[call-overload]
    return value


def _subsets(mistakes: Sequence[WrongValue]) -> Iterator[tuple[WrongValue, ...]]:
    for size in (1, 2):
        yield from itertools.combinations(mistakes, size)


def _is_number(value: object) -> TypeGuard[int | float]:
    # Not bool, which is an int too; and no subclass, which may compare as it likes.
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _explain_number(value: object, middle: float) -> str:
    if type(value) not in (int, float):
        return f"a number is wanted here, but this is {type(value).__name__}"
    if not math.isfinite(value):  # type: ignore[arg-type]
        return "this is not a finite number"
    return "too small" if value < middle else "too large"  # type: ignore[operator]


def _spec(value: Any) -> Spec:
    if isinstance(value, Near | Between | Choice):
        return value
    return Choice(value, (value,)) if isinstance(value, str) else Near(float(value))
