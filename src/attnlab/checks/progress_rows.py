"""What a progress table is made of: exercises with the best result on each, and sums over some of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .progress_file import Entry
from .tasks import KINDS

OTHER = "other"  # the kind of an exercise that the installed course does not have


@dataclass(frozen=True)
class Exercise:
    """One exercise of the course, as a progress table needs it."""

    task_id: str
    title: str
    max_points: float
    number: int | None  # of the lesson; None where the installed course does not have it
    kind: str = OTHER

    @property
    def lesson(self) -> str:
        return self.task_id.partition(".")[0]

    @property
    def lesson_title(self) -> str:
        name = self.lesson.replace("_", " ")
        return f"Lesson {self.number}, {name}" if self.number is not None else f"Other lessons, {name}"


@dataclass(frozen=True)
class Row:
    """An exercise and the best result on it, if it was tried."""

    exercise: Exercise
    entry: Entry | None

    @property
    def max_points(self) -> float:
        return self.entry.max_points if self.entry else self.exercise.max_points

    @property
    def points(self) -> float:
        return self.entry.points if self.entry else 0.0

    @property
    def state(self) -> str:
        if self.entry is None or not self.entry.tries:
            return "not started"
        return "done" if self.entry.done else "started"


@dataclass(frozen=True)
class Sum:
    """The points of some exercises together."""

    points: float
    max_points: float

    def __str__(self) -> str:
        return f"{round(self.points, 2):g} of {round(self.max_points, 2):g}"

    def steps(self, count: int) -> int:
        """The share in whole steps of `count`: none only for no points, all only for all of them."""
        if self.points <= 0 or self.max_points <= 0:
            return 0
        if self.points >= self.max_points or math.isclose(self.points, self.max_points, rel_tol=1e-9):
            return count
        return min(max(round(count * self.points / self.max_points), 1), count - 1)


def total(rows: Iterable[Row]) -> Sum:
    """The points of these rows together."""
    rows = list(rows)
    return Sum(sum(row.points for row in rows), sum(row.max_points for row in rows))


def by_lesson(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each lesson, under its title, in the order of the course."""
    return _grouped(rows, lambda row: row.exercise.lesson_title)


def by_kind(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """The rows of each kind of exercise that occurs, in the order of ``tasks.KINDS``."""
    found = _grouped(rows, lambda row: row.exercise.kind)
    return {kind: found[kind] for kind in (*KINDS, OTHER) if kind in found}


def _grouped(rows: Iterable[Row], name: Callable[[Row], str]) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(name(row), []).append(row)
    return grouped


def next_step(rows: list[Row]) -> str:
    """What to try next: a begun exercise, else one of a begun lesson, else the first that is open."""
    open_rows = [row for row in rows if row.state != "done" and row.exercise.number is not None]
    if not open_rows:
        return "Next: nothing is left here. Well done." if rows else "Next: there are no exercises yet."
    begun = {row.exercise.lesson for row in rows if row.state != "not started"}
    row = min(open_rows, key=lambda row: (row.state != "started", row.exercise.lesson not in begun))
    verb = "finish" if row.state == "started" else "try"
    return f"Next: {verb} “{row.exercise.title}” (lesson {row.exercise.number})."
