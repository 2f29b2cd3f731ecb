"""Who a student is: all of a student's submissions together, and the student's row in a roster."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from .marks import ExerciseMark, Mark

__all__ = ["Student", "by_student", "placed_in"]

_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Student:
    """A student's exercises: of each, the last one that was handed in.

    Attributes:
        name, number: as Canvas or Moodle have them in the names of files.
        exercises: one mark an exercise.
    """

    name: str
    number: str
    exercises: tuple[ExerciseMark, ...]

    @property
    def points(self) -> Fraction:
        """Points of all exercises together."""
        return sum((mark.points for mark in self.exercises), Fraction(0))

    @property
    def max_points(self) -> Fraction:
        """Points that all exercises together are worth."""
        return sum((mark.max_points for mark in self.exercises), Fraction(0))


def by_student(marks: Sequence[Mark]) -> list[Student]:
    """One entry a student. Handing an exercise in again replaces it: the last one counts, not the best."""
    grouped: dict[tuple[str, str], list[Mark]] = {}
    for mark in marks:
        grouped.setdefault((mark.submission.number, mark.submission.student), []).append(mark)
    students = []
    for (number, name), own in sorted(grouped.items(), key=lambda item: item[0][::-1]):
        own.sort(key=lambda mark: (_when(mark), mark.submission.name))
        latest: dict[str, ExerciseMark] = {}
        for exercise in (exercise for mark in own for exercise in mark.exercises):
            task_id = exercise.result.task_id
            if exercise.result.attempted or task_id not in latest:
                latest[task_id] = exercise
        students.append(Student(name, number, tuple(latest.values())))
    return students


def placed_in(
    students: Sequence[Student], people: Sequence[tuple[str, str, str]]
) -> tuple[dict[int, Student], list[str]]:
    """The student of each row of a roster, by number, then by login, then by name; and who has no row.

    Of two namesakes neither is guessed, whether they are in the roster or among the students.

    Args:
        students: to be placed.
        people: number, login and name of each row.
    """
    placed: dict[int, Student] = {}
    left = list(students)
    for alike in (_same_number, _same_login, _same_name):
        pairs = [
            (row, student)
            for row, person in enumerate(people)
            if row not in placed
            for student in left
            if alike(student, *person)
        ]
        rows, found = Counter(row for row, _ in pairs), Counter(id(student) for _, student in pairs)
        placed |= {row: student for row, student in pairs if rows[row] == found[id(student)] == 1}
        left = [student for student in left if all(student is not other for other in placed.values())]
    return placed, [f"{one.name}: not in the roster, or not the only one of this name" for one in left]


def _same_number(student: Student, number: str, login: str, name: str) -> bool:
    return bool(number) and student.number == number


def _same_login(student: Student, number: str, login: str, name: str) -> bool:
    return bool(login) and student.name.casefold() in _logins(login)


def _same_name(student: Student, number: str, login: str, name: str) -> bool:
    forms = {_plain(name), _plain(" ".join(reversed(name.split(",", 1))))}
    return _plain(student.name) in forms - {""}


def _logins(login: str) -> tuple[str, str]:
    whole = login.strip().casefold()
    return whole, whole.split("@")[0]


def _plain(name: str) -> str:
    return _LETTERS.sub("", name).casefold()


def _when(mark: Mark) -> float:
    return mark.submission.submitted.timestamp() if mark.submission.submitted else 0.0
