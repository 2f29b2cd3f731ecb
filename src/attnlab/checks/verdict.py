"""What a check says: one result a case, and the report that holds them, as data and as text.

The text is the same each time for the same answer: it holds no time, no address and no path, so that a stored
notebook can be compared with a fresh run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

Status = Literal["right", "wrong", "error", "stopped", "skipped", "not yet"]

NOT_ATTEMPTED = "not attempted yet"
NO_KNOWN_MISTAKE = "No known mistake gives this. Work the smallest input by hand, and compare each step."


class Failed(AssertionError):
    """A case that did not hold; its text is shown to the learner. Never put an expected value into it."""


class NothingYet(Failed):
    """The answer gave nothing: an unwritten body, or a missing ``return``."""


class Skipped(BaseException):
    """Raised inside the worker to end it; no ``Exception``, which answers swallow by habit."""


def exact(points: float | Fraction) -> Fraction:
    """Points as a fraction, so that seven times 1/7 is 1 and not 0.9999999999999998."""
    return Fraction(points).limit_denominator(10_000)


def total(points: Iterable[Fraction]) -> float:
    """The sum of exact points, as a float."""
    return float(sum(points, Fraction(0)))


@dataclass(frozen=True)
class CaseResult:
    """How one case went.

    Attributes:
        name: what the case looks at, in words.
        points: what was earned, from 0 to ``max_points``.
        max_points: what the case is worth.
        status: a word for the outcome; ``"right"`` alone earns points.
        message: what was seen, in words; empty where all is well.
        hidden: whether the case is kept from learners (an instructor's own case).
    """

    name: str
    points: Fraction
    max_points: Fraction
    status: Status
    message: str = ""
    hidden: bool = False


@dataclass(frozen=True)
class Report:
    """The verdict on one answer: points, a result for each case, the known mistakes that were recognised.

    Attributes:
        task_id: the exercise, as given to ``check``.
        title: the exercise's title.
        results: one entry for each case that was looked at.
        mistakes: keys of the known mistakes that the answer makes, in the catalogue's order.
        hints: one text for each of them, and nothing else.
        notes: remarks that cost nothing (a wider number type, a function of torch that was replaced).
        kind: implement, predict, repair, test, measure or explore.
    """

    task_id: str
    title: str
    results: tuple[CaseResult, ...] = ()
    mistakes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    kind: str = "implement"
    untouched: bool = field(default=False, repr=False)

    @property
    def points(self) -> float:
        """Points earned; nothing while the exercise is untouched."""
        return 0.0 if self.untouched else total(result.points for result in self.results)

    @property
    def max_points(self) -> float:
        """Points that the exercise is worth."""
        return total(result.max_points for result in self.results)

    @property
    def attempted(self) -> bool:
        """Whether there is an answer to judge."""
        return not self.untouched and any(result.status != "not yet" for result in self.results)

    @property
    def passed(self) -> bool:
        """Whether every case is right."""
        return self.attempted and all(result.status == "right" for result in self.results)

    @property
    def verdict(self) -> str:
        """The first line: ``"not attempted yet"`` or the points."""
        if not self.attempted:
            return NOT_ATTEMPTED
        return f"{number(self.points)} of {number(self.max_points)} points"

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data (strings, numbers, lists), ready for JSON."""
        return {
            "task_id": self.task_id,
            "title": self.title,
            "kind": self.kind,
            "points": self.points,
            "max_points": self.max_points,
            "attempted": self.attempted,
            "passed": self.passed,
            "mistakes": list(self.mistakes),
            "hints": list(self.hints),
            "notes": list(self.notes),
            "results": [
                {
                    "name": result.name,
                    "points": float(result.points),
                    "max_points": float(result.max_points),
                    "status": result.status,
                    "message": result.message,
                    "hidden": result.hidden,
                }
                for result in self.results
            ],
        }

    def __repr__(self) -> str:
        lines = [f"{self.title}: {self.verdict}"]
        if self.attempted:
            for result, message in self.told():
                points = f"({number(result.points)} of {number(result.max_points)})"
                lines.append(f"  [{result.status}] {result.name} {points}")
                lines += [f"      {message}"] if message else []
            lines += [f"  {label}: {text}" for label, text in self.advice()]
        lines += [f"  note: {text}" for text in self.notes]
        return "\n".join(lines)

    def told(self) -> Sequence[tuple[CaseResult, str]]:
        """Each result with the message to show: one that was shown before is not said again."""
        messages = [result.message for result in self.results]
        return [
            (result, "as above" if message and message in messages[:index] else message)
            for index, (result, message) in enumerate(zip(self.results, messages, strict=True))
        ]

    def advice(self) -> Sequence[tuple[str, str]]:
        """What to do next, as (label, text): the known mistakes, or a word where none was recognised."""
        if self.hints:
            return [("known mistake", hint) for hint in self.hints]
        if any(result.status == "wrong" for result in self.results):
            return [("next", NO_KNOWN_MISTAKE)]
        return []

    def _repr_html_(self) -> str:
        from .page import render

        return render(self)


def number(value: float | Fraction) -> str:
    """A count of points, short: 2, 0.5, 0.1429."""
    return f"{float(value):.4g}"
