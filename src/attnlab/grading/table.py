"""The table of marks: one row for each submission, whatever it does."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .marks import Mark, decimal

__all__ = ["safe_cell", "write_marks", "write_rows"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_LONGEST_CELL = 2_000


def write_marks(
    path: Path, marks: Sequence[Mark], columns: Sequence[str], feedback: Mapping[str, Path] | None = None
) -> None:
    """Write ``marks.csv``: a row a submission, a column an exercise.

    Args:
        path: the file, written in one go.
        marks: one for each submission.
        columns: ids of the exercises.
        feedback: the page of each submission, by its name.
    """
    head = ["submission", "student", *columns, "total", "max", "days late", "status", "reason", "flags"]
    rows = [[*head, "notices", "feedback"]]
    rows += [_row(mark, columns, (feedback or {}).get(mark.submission.name)) for mark in marks]
    write_rows(path, rows)


def _row(mark: Mark, columns: Sequence[str], page: Path | None) -> list[str]:
    points = {exercise.result.task_id: decimal(exercise.points) for exercise in mark.exercises}
    reasons = [mark.result.reason] if mark.result.reason else []
    if mark.result.status == "graded":
        reasons += [
            f"{exercise.result.task_id}: {exercise.result.reason or exercise.result.status}"
            for exercise in mark.exercises
            if exercise.result.status in ("stopped", "broken")
        ]
    notices = [*(["Canvas: late"] if mark.submission.late else []), *mark.result.notices]
    return [
        mark.submission.name,
        mark.submission.student,
        *(points.get(column, "") for column in columns),
        decimal(mark.points),
        decimal(mark.max_points),
        str(mark.days_late),
        mark.result.status,
        "; ".join(reasons),
        "; ".join(mark.flags),
        "; ".join(notices),
        page.name if page else "",
    ]


def safe_cell(text: str) -> str:
    """A cell that a spreadsheet shows and does not run: students choose the names of their files.

    Source: OWASP, CSV injection: a leading apostrophe keeps a cell from being read as a formula.
    """
    line = " ".join(text.split()) if "\n" in text or "\r" in text else text
    line = line if len(line) <= _LONGEST_CELL else line[:_LONGEST_CELL] + "…"
    return f"'{line}" if line.startswith(_FORMULA) and not _is_number(line) else line


def write_rows(path: Path, rows: Iterable[Sequence[str]], *, safe: bool = True) -> None:
    """Write a CSV file in UTF-8.

    Args:
        path: the file.
        rows: its rows, the heading first.
        safe: whether cells are kept from being run as formulas; not for what goes back where it came from.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="replace", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([safe_cell(cell) if safe else cell for cell in row] for row in rows)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
