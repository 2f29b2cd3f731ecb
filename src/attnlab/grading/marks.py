"""Marks: what is given for a result once points, dates and lateness have been applied."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from .collection import Submission
from .results import ExerciseResult, SubmissionResult

__all__ = ["ExerciseMark", "Mark", "decimal"]


@dataclass(frozen=True)
class ExerciseMark:
    """Points of one exercise after scaling and lateness.

    Attributes:
        result: what the checks said.
        points, max_points: given, and possible.
        days_late: days begun after the date; 0 in time.
    """

    result: ExerciseResult
    points: Fraction
    max_points: Fraction
    days_late: int = 0


@dataclass(frozen=True)
class Mark:
    """The mark of one submission: it, its result, and one entry an exercise."""

    submission: Submission
    result: SubmissionResult
    exercises: tuple[ExerciseMark, ...] = ()
    flags: tuple[str, ...] = ()

    @property
    def points(self) -> Fraction:
        """Points of all exercises together."""
        return sum((mark.points for mark in self.exercises), Fraction(0))

    @property
    def max_points(self) -> Fraction:
        """Points that all exercises together are worth."""
        return sum((mark.max_points for mark in self.exercises), Fraction(0))

    @property
    def days_late(self) -> int:
        """Days of the latest exercise."""
        return max((mark.days_late for mark in self.exercises), default=0)


def decimal(value: Fraction) -> str:
    """Points as a decimal number: exact where it ends after at most six digits, else rounded to four."""
    if (value * 10**6).denominator == 1:
        text = f"{Decimal(value.numerator) / Decimal(value.denominator):.6f}"
    else:
        text = f"{round(value * 10**4) / 10**4:.4f}"
    return text.rstrip("0").rstrip(".")
