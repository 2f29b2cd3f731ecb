"""What grading gives: a result for each submission, with one for each exercise, as data that travels as JSON.

Points are exact fractions, written as text (``"5/3"``), so that seven cases of 1/7 make 1 and no mark is lost
in rounding. Nothing here holds an expected value: what a message says was written for the learner.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from ..checks.verdict import Report

ExerciseStatus = Literal["graded", "not attempted", "stopped", "broken"]
SubmissionStatus = Literal["graded", "failed"]
EXERCISE_STATUSES: tuple[ExerciseStatus, ...] = ("graded", "not attempted", "stopped", "broken")
SUBMISSION_STATUSES: tuple[SubmissionStatus, ...] = ("graded", "failed")


@dataclass(frozen=True)
class CaseOutcome:
    """How one case of an exercise went.

    Attributes:
        name: what the case looks at, in words.
        points, max_points: earned, and possible.
        status: right, wrong, error, stopped, skipped or not yet.
        message: what was seen, in words; empty where all is well. It never holds an expected value.
        hidden: whether the case is an instructor's own, which learners are not to see.
    """

    name: str
    points: Fraction
    max_points: Fraction
    status: str
    message: str = ""
    hidden: bool = False


@dataclass(frozen=True)
class ExerciseResult:
    """What one exercise of a submission earned.

    Attributes:
        task_id, title, kind: as the check has them.
        status: ``graded`` (there was an answer, and all cases were looked at), ``not attempted``, ``stopped``
            (it ran out of time or memory, or ended its process) or ``broken`` (its cell does not run).
        reason: why the status is not ``graded``, in words; empty otherwise.
        results: one outcome a case.
        mistakes, hints: keys of the known mistakes that were recognised, and a text for each.
        notes: remarks that cost nothing.
    """

    task_id: str
    title: str
    kind: str
    status: ExerciseStatus = "graded"
    reason: str = ""
    results: tuple[CaseOutcome, ...] = ()
    mistakes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    untouched: bool = False

    @property
    def points(self) -> Fraction:
        """Points earned; nothing where the program that was given still stands."""
        return Fraction(0) if self.untouched else _sum(result.points for result in self.results)

    @property
    def max_points(self) -> Fraction:
        """Points that the exercise is worth, hidden cases included where they were looked at."""
        return _sum(result.max_points for result in self.results)

    @property
    def attempted(self) -> bool:
        """Whether there was an answer to judge."""
        return self.status != "not attempted"

    @classmethod
    def of(cls, report: Report, *, status: ExerciseStatus, reason: str = "") -> ExerciseResult:
        """The result that a check's report is."""
        results = tuple(
            CaseOutcome(case.name, case.points, case.max_points, case.status, case.message, case.hidden)
            for case in report.results
        )
        return cls(
            task_id=report.task_id,
            title=report.title,
            kind=report.kind,
            status=status,
            reason=reason,
            results=results,
            mistakes=report.mistakes,
            hints=report.hints,
            notes=report.notes,
            untouched=report.untouched,
        )

    def as_dict(self) -> dict[str, Any]:
        """The result as plain data; ``points``, ``max_points`` and ``attempted`` are there to be read."""
        return {
            **_written(self, "task_id", "title", "kind", "status", "reason", "untouched"),
            "points": str(self.points),
            "max_points": str(self.max_points),
            "attempted": self.attempted,
            "mistakes": list(self.mistakes),
            "hints": list(self.hints),
            "notes": list(self.notes),
            "results": [
                {
                    **_written(case, "name", "status", "message", "hidden"),
                    "points": str(case.points),
                    "max_points": str(case.max_points),
                }
                for case in self.results
            ],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExerciseResult:
        """Read what ``as_dict`` wrote. Raises ``ValueError`` for anything else."""
        with _reading("an exercise's result"):
            cases = tuple(
                CaseOutcome(
                    str(case["name"]),
                    Fraction(case["points"]),
                    Fraction(case["max_points"]),
                    str(case["status"]),
                    str(case["message"]),
                    bool(case["hidden"]),
                )
                for case in data["results"]
            )
            if data["status"] not in EXERCISE_STATUSES:
                raise ValueError(f"status must be one of {EXERCISE_STATUSES}, got {data['status']!r}")
            return cls(
                task_id=str(data["task_id"]),
                title=str(data["title"]),
                kind=str(data["kind"]),
                status=data["status"],
                reason=str(data["reason"]),
                results=cases,
                mistakes=tuple(map(str, data["mistakes"])),
                hints=tuple(map(str, data["hints"])),
                notes=tuple(map(str, data["notes"])),
                untouched=bool(data["untouched"]),
            )


@dataclass(frozen=True)
class SubmissionResult:
    """What one submission earned; there is one for each file, whatever the file does.

    Attributes:
        name: the submission's name, as the folder has it.
        digest: SHA-256 of the file, in hexadecimal; empty where it could not be read.
        status: ``graded``, or ``failed`` where nothing of the file could be looked at.
        reason: why it failed, in words; empty otherwise.
        exercises: one result for each exercise that was asked for, in that order; also where it failed.
        notices: remarks for the instructor (a cell that did not run, a check cell that is missing).
        seconds: how long grading took.
    """

    name: str
    digest: str
    status: SubmissionStatus
    reason: str = ""
    exercises: tuple[ExerciseResult, ...] = ()
    notices: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def points(self) -> Fraction:
        """Points of all exercises together."""
        return _sum(exercise.points for exercise in self.exercises)

    @property
    def max_points(self) -> Fraction:
        """Points that all exercises together are worth."""
        return _sum(exercise.max_points for exercise in self.exercises)

    def as_dict(self) -> dict[str, Any]:
        """The result as plain data, ready for JSON."""
        return {
            **_written(self, "name", "digest", "status", "reason", "seconds"),
            "points": str(self.points),
            "max_points": str(self.max_points),
            "notices": list(self.notices),
            "exercises": [exercise.as_dict() for exercise in self.exercises],
        }

    def to_json(self) -> str:
        """The result as JSON text."""
        return json.dumps(self.as_dict(), ensure_ascii=False, indent=1)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SubmissionResult:
        """Read what ``as_dict`` wrote. Raises ``ValueError`` for anything else."""
        with _reading("a submission's result"):
            if data["status"] not in SUBMISSION_STATUSES:
                raise ValueError(f"status must be one of {SUBMISSION_STATUSES}, got {data['status']!r}")
            return cls(
                str(data["name"]),
                str(data["digest"]),
                data["status"],
                str(data["reason"]),
                tuple(map(ExerciseResult.from_dict, data["exercises"])),
                tuple(map(str, data["notices"])),
                float(data["seconds"]),
            )

    @classmethod
    def from_json(cls, text: str) -> SubmissionResult:
        """Read what ``to_json`` wrote. Raises ``ValueError`` for anything else."""
        return cls.from_dict(json.loads(text))


class _reading:
    """Turn the errors of reading odd data into one ``ValueError`` that says what was read."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KeyError | TypeError | AttributeError | ZeroDivisionError):
            raise ValueError(f"this is not {self._what}: {type(error).__name__} {error}") from error


def _sum(points: Iterable[Fraction]) -> Fraction:
    return sum(points, Fraction(0))


def _written(source: object, *names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}
