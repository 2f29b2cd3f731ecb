"""What exercises are worth in a course and until when, and the marks that follow from it.

``scheme_file`` reads it from a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction

from .collection import Submission
from .course import all_tasks, possible_points
from .marks import ExerciseMark, Mark
from .results import ExerciseResult, SubmissionResult

__all__ = ["Scheme"]


@dataclass(frozen=True)
class Scheme:
    """What exercises are worth and until when; without a file, as the checks have it, and no dates.

    Attributes:
        points, due: by exercise or lesson.
        per_day, days: what lateness costs, as a share for each day begun, and after how many days all.
        extensions: days more, by student.
        submitted: when it was handed in, by submission.
        forbidden: names that answers should not use, by exercise.
    """

    points: Mapping[str, Fraction] = field(default_factory=dict)
    due: Mapping[str, datetime] = field(default_factory=dict)
    per_day: Fraction = Fraction(0)
    days: int | None = None
    extensions: Mapping[str, int] = field(default_factory=dict)
    submitted: Mapping[str, datetime] = field(default_factory=dict)
    forbidden: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def mark(self, submission: Submission, result: SubmissionResult, columns: Mapping[str, Fraction]) -> Mark:
        """The mark of a submission.

        Args:
            submission: as it was found.
            result: as it was graded.
            columns: the exercises that the table has, and the points that the checks give for each.
        """
        by_id = {exercise.task_id: exercise for exercise in result.exercises}
        exercises = []
        for task_id, given in columns.items():
            exercise, worth = by_id.get(task_id), self.worth(task_id)
            if exercise is None:
                title = all_tasks()[task_id].title if task_id in all_tasks() else task_id
                reason = result.reason if result.status == "failed" else ""
                exercise = ExerciseResult(task_id, title, "", "not attempted", reason)
            possible = given if worth is None else worth
            days = self.days_late(submission, task_id) if exercise.attempted else 0
            share = exercise.points / exercise.max_points if exercise.max_points else Fraction(0)
            exercises.append(ExerciseMark(exercise, share * possible * self._kept(days), possible, days))
        return Mark(submission, result, tuple(exercises))

    def worth(self, task_id: str) -> Fraction | None:
        """What an exercise is worth; None where the file does not say, so that the checks' points stand."""
        if task_id in self.points:
            return self.points[task_id]
        lesson = task_id.split(".")[0]
        if lesson not in self.points:
            return None
        # The exercises without points of their own share the lesson's as the course weighs them.
        others = {
            task.task_id: possible_points(task.task_id)
            for task in all_tasks().values()
            if task.lesson == lesson and task.task_id not in self.points
        }
        return self.points[lesson] * others.get(task_id, Fraction(0)) / (sum(others.values()) or 1)

    def days_late(self, submission: Submission, task_id: str) -> int:
        """Days begun after an exercise's date.

        Args:
            submission: with its time and its student.
            task_id: the exercise.
        """
        due = self.due.get(task_id, self.due.get(task_id.split(".")[0]))
        handed_in = self.submitted.get(submission.name, submission.submitted)
        if due is None or handed_in is None:
            return 0
        more = max(self.extensions.get(name, 0) for name in (submission.student, submission.name))
        late = handed_in - (due + timedelta(days=more))
        return max(0, math.ceil(late / timedelta(days=1)))

    def _kept(self, days: int) -> Fraction:
        if self.days is not None and days > self.days:
            return Fraction(0)
        return max(Fraction(0), 1 - self.per_day * days)
