"""Tables that Canvas and Moodle import: one row for each student.

Canvas (Gradebook, Import) looks for the columns Student, ID, SIS User ID, SIS Login ID, Section, then the
assignment, and for a row "Points Possible" below them. Moodle (Assignment, Upload grading worksheet) looks
for Identifier, Grade, Last modified (grade) and Feedback comments. Source: ``lib/gradebook_importer.rb`` of
Canvas, ``mod/assign/feedback/offline/importgradeslib.php`` of Moodle.

Give the gradebook that Canvas exports, or Moodle's grading worksheet, as the roster: its rows come back with
the grade filled in, and those of students who handed nothing in come back as they were. Without a roster the
rows are made from the numbers in the names of Canvas's and Moodle's files.
"""

from __future__ import annotations

import contextlib
import csv
import html
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from .marks import decimal
from .students import Student, placed_in
from .table import write_rows

__all__ = ["RosterError", "write_canvas", "write_moodle"]

CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
MOODLE = (
    *("Identifier", "Full name", "Email address", "Status", "Grade", "Maximum Grade"),
    *("Grade can be changed", "Last modified (submission)", "Last modified (grade)", "Feedback comments"),
)
_POSSIBLE = "Points Possible"


class RosterError(ValueError):
    """The roster is not what Canvas or Moodle exports; the message says what is missing."""


def write_canvas(
    path: Path, students: Sequence[Student], assignment: str, roster: Path | None = None
) -> list[str]:
    """Write a file that Canvas's gradebook imports; returns what could not be placed, in words.

    Args:
        path: the file.
        students: their marks.
        assignment: the assignment's column, as in Canvas's export: ``Exercises 3 (12345)``.
        roster: the gradebook as Canvas exports it.
    Raises:
        RosterError: if ``roster`` is none.
    """
    possible = decimal(max((student.max_points for student in students), default=Fraction(0)))
    if roster is None:
        known = [student for student in students if student.number]
        rows = [[student.name, student.number, "", "", "", decimal(student.points)] for student in known]
        write_rows(path, [[*CANVAS, assignment], [f"    {_POSSIBLE}", *[""] * 4, possible], *rows])
        return [
            f"{student.name}: no number in the name of the file" for student in students if not student.number
        ]
    head, *old = _read(roster, ("Student", "ID"))
    columns = [name for name in (*CANVAS, "Integration ID", "Root Account") if name in head]
    entries = [dict(zip(head, row, strict=False)) for row in old]
    # Neither the row of points nor the notes below the heading have an id.
    entries = [entry for entry in entries if entry.get("ID") or entry.get("SIS Login ID")]
    people = [(entry.get("ID", ""), entry.get("SIS Login ID", ""), entry["Student"]) for entry in entries]
    placed, left = placed_in(students, people)
    new = [[*columns, assignment], [f"    {_POSSIBLE}", *[""] * (len(columns) - 1), possible]]
    for row, entry in enumerate(entries):
        grade = decimal(placed[row].points) if row in placed else ""
        new.append([*(entry.get(name, "") for name in columns), grade])
    write_rows(path, new, safe=False)
    return left


def write_moodle(path: Path, students: Sequence[Student], roster: Path | None = None) -> list[str]:
    """Write a grading worksheet that Moodle imports; returns what could not be placed, in words.

    Where Moodle has another maximum for the assignment, grades are scaled to it.

    Args:
        path: the file.
        students: their marks.
        roster: the grading worksheet as Moodle exports it.
    Raises:
        RosterError: if ``roster`` is none.
    """
    if roster is None:
        known = [student for student in students if student.number]
        rows = [_moodle_row(student) for student in known]
        write_rows(path, [MOODLE, *([row[name] for name in MOODLE] for row in rows)])
        return [
            f"{student.name}: no number in the name of the folder"
            for student in students
            if not student.number
        ]
    head, *old = _read(roster, ("Identifier", "Grade"))
    head = [*head, *(name for name in ("Last modified (grade)", "Feedback comments") if name not in head)]
    entries = [dict.fromkeys(head, "") | dict(zip(head, row, strict=False)) for row in old]
    people = [
        (
            "".join(re.findall(r"\d+$", entry["Identifier"])),
            entry.get("Email address", ""),
            entry.get("Full name", ""),
        )
        for entry in entries
    ]
    placed, left = placed_in(students, people)
    for row, student in placed.items():
        entries[row] |= _moodle_grade(student, entries[row].get("Maximum Grade", ""))
    write_rows(path, [head, *([entry[name] for name in head] for entry in entries)], safe=False)
    return left


def _moodle_row(student: Student) -> dict[str, str]:
    maximum = decimal(student.max_points)
    entry = dict.fromkeys(MOODLE, "") | {
        "Identifier": f"Participant {student.number}",
        "Full name": student.name,
    }
    return entry | {"Maximum Grade": maximum, "Grade can be changed": "Yes"} | _moodle_grade(student, maximum)


def _moodle_grade(student: Student, maximum: str) -> dict[str, str]:
    grade, most = student.points, student.max_points
    with contextlib.suppress(ValueError, ZeroDivisionError):  # no maximum: the grade stays as it is
        grade = grade * Fraction(maximum.replace(",", ".")) / most  # some languages write a comma
    lines = [
        f"<li>{html.escape(mark.result.title)}: {decimal(mark.points)} of {decimal(mark.max_points)}"
        f"{''.join(f'<br>{html.escape(hint)}' for hint in mark.result.hints)}</li>"
        for mark in student.exercises
    ]
    return {"Grade": decimal(grade), "Feedback comments": f"<ul>{''.join(lines)}</ul>"}


def _read(roster: Path, needed: tuple[str, ...]) -> list[list[str]]:
    try:
        with open(roster, encoding="utf-8-sig", newline="") as file:
            text = file.read()
        dialect = csv.Sniffer().sniff(text.splitlines()[0] if text else ",", delimiters=",;\t")
        rows = [
            [cell.strip() for cell in rows] for rows in csv.reader(text.splitlines(keepends=True), dialect)
        ]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RosterError(f"{roster}: {error}") from error
    missing = [name for name in needed if not rows or name not in rows[0]]
    if missing:
        raise RosterError(f"{roster}: the first row has no column {', '.join(missing)}")
    return [row for row in rows if row]
