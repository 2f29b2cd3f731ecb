"""A page of feedback for each submission: what was looked at, what was seen, and the mistake by its name.

A page is for the student. Hidden cases are on it as points alone: their names and messages could say what
they ask for. Flags are not on it: they are for the instructor's eyes. Everything is escaped.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from ..checks.verdict import NO_KNOWN_MISTAKE
from .marks import ExerciseMark, Mark, decimal
from .page import document, heading, paragraph, plain, table, write_page
from .results import CaseOutcome, ExerciseResult

__all__ = ["page_name", "render", "write_feedback"]

_STATUS = {
    "not attempted": "There is no answer to this exercise.",
    "stopped": "The answer was stopped.",
    "broken": "The answer's cell does not run.",
}
_MOST_NOTICES = 50


def write_feedback(folder: Path, mark: Mark) -> Path:
    """Write the page of one submission; returns where.

    Args:
        folder: of all pages.
        mark: the submission's.
    """
    path = folder / page_name(mark.submission.name)
    write_page(path, render(mark))
    return path


def page_name(name: str) -> str:
    """The file name of a submission's page: readable, safe in every file system, different for each name."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:60] or "submission"
    return f"{readable}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}.html"


def render(mark: Mark) -> str:
    """The page of one submission, as HTML."""
    parts = [paragraph(f"{decimal(mark.points)} of {decimal(mark.max_points)} points")]
    if mark.result.status == "failed":
        parts.append(paragraph(mark.result.reason, "This submission could not be graded"))
    if mark.days_late:
        days = f"{mark.days_late} day{'s' if mark.days_late > 1 else ''}"
        parts.append(paragraph(f"{days} late; the points are those after the deduction.", "Late"))
    rows = [
        (exercise.result.title, _status(exercise.result), *_of(exercise.points, exercise.max_points))
        for exercise in mark.exercises
    ]
    if rows:
        parts.append(
            table("Points by exercise", ("Exercise", "Status", "Points", "of"), rows, numbers=(2, 3))
        )
    for exercise in mark.exercises:
        parts += _exercise(exercise)
    parts += _notices(mark.result.notices)
    return document(f"Feedback: {mark.submission.name}", parts)


def _exercise(mark: ExerciseMark) -> Iterator[str]:
    result = mark.result
    yield heading(result.title)
    yield paragraph(" of ".join(_of(mark.points, mark.max_points)) + " points")
    if result.status in _STATUS:
        yield paragraph(result.reason or _STATUS[result.status], _status(result).capitalize())
    if not result.attempted:
        return
    seen = [case for case in result.results if not case.hidden]
    if seen:
        yield f"<ul>{''.join(map(_case, seen))}</ul>"
    kept = [case for case in result.results if case.hidden]
    if kept:
        earned, possible = (sum((getattr(c, n) for c in kept), Fraction(0)) for n in ("points", "max_points"))
        yield paragraph(f"{' of '.join(_of(earned, possible))} points", "Further cases, which are not shown")
    for hint in result.hints:
        yield paragraph(hint, "Known mistake")
    if result.status == "graded" and not result.hints and any(case.status == "wrong" for case in seen):
        yield paragraph(NO_KNOWN_MISTAKE, "Next")
    for note in result.notes:
        yield paragraph(note, "Note")


def _case(case: CaseOutcome) -> str:
    kind = "right" if case.status == "right" else "wrong"
    text = f"<br>{plain(case.message)}" if case.message else ""
    points = " of ".join(_of(case.points, case.max_points))
    return f'<li><span class="{kind}">{plain(case.status)}</span> {plain(case.name)} ({points}){text}</li>'


def _status(result: ExerciseResult) -> str:
    if result.status != "graded":
        return result.status
    return "all right" if result.points == result.max_points else "graded"


def _of(points: Fraction, possible: Fraction) -> tuple[str, str]:
    return decimal(points), decimal(possible)


def _notices(notices: Sequence[str]) -> Iterator[str]:
    if not notices:
        return
    yield heading("About the notebook")
    items = [f"<li>{plain(notice)}</li>" for notice in notices[:_MOST_NOTICES]]
    yield f"<ul>{''.join(items)}</ul>"
    if len(notices) > _MOST_NOTICES:
        yield paragraph(f"{len(notices) - _MOST_NOTICES} more are left out.")
