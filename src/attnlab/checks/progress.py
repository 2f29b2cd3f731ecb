"""A learner's progress: kept after every check, shown in the notebook and on the command line.

Progress is a convenience. Whatever happens to its file, no lesson stops: results that cannot be written are
held in memory, shown, and written with the next check that can.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import progress_file
from .progress_file import Entry
from .registry import chapters
from .tasks import TASKS

_unsaved: dict[str, Entry] = {}
_guard = threading.Lock()


def record(task_id: str, points: float, max_points: float, title: str) -> None:
    """Keep the result of one check. Never raises.

    points: reached by this check, 0 to `max_points`. The best result so far is the one that counts.
    """
    try:
        entry = Entry(str(title), min(max(float(points), 0.0), float(max_points)), float(max_points), tries=1)
        with _guard:
            _unsaved.update(progress_file.merge(_unsaved, {task_id: entry}))
            progress_file.update(progress_file.location(), _unsaved)
            _unsaved.clear()
    except Exception:  # a mark that was not saved is no reason to stop a lesson; progress() says so
        return


def progress(lesson: str | None = None) -> Progress:
    """The points of every exercise, by lesson, and what to try next.

    lesson: a lesson's name without its number, such as ``"recurrence_limits"``, to see that lesson alone.
    Shown by a notebook as a table, and as plain text elsewhere. Changes nothing.
    """
    course = _course()
    if lesson is not None and lesson not in {item.lesson for item in course}:
        known = ", ".join(sorted({item.lesson for item in course}))
        raise ValueError(f"lesson: expected one of {known}; got {lesson!r}")
    path = progress_file.location()
    entries, notes = _kept(path)
    rows = [Row(item, entries.get(item.task_id)) for item in [*course, *_elsewhere(course, entries)]]
    return Progress([row for row in rows if lesson in (None, row.exercise.lesson)], notes)


@dataclass(frozen=True)
class Exercise:
    """One exercise of the course, as a progress table needs it."""

    task_id: str
    title: str
    max_points: float
    number: int | None  # of the lesson; None where the installed course does not have it

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


class Progress:
    """The progress at one moment, as plain text and as HTML that needs neither a script nor colours."""

    def __init__(self, rows: Iterable[Row], notes: Iterable[str] = ()) -> None:
        self.rows = list(rows)
        self.notes = list(notes)

    @property
    def points(self) -> float:
        return sum(row.points for row in self.rows)

    @property
    def max_points(self) -> float:
        return sum(row.max_points for row in self.rows)

    @property
    def next_step(self) -> str:
        """What to try next: a begun exercise, else one of a begun lesson, else the first that is open."""
        open_rows = [row for row in self.rows if row.state != "done" and row.exercise.number is not None]
        if not open_rows:
            return (
                "Next: nothing is left here. Well done." if self.rows else "Next: there are no exercises yet."
            )
        begun = {row.exercise.lesson for row in self.rows if row.state != "not started"}
        row = min(open_rows, key=lambda row: (row.state != "started", row.exercise.lesson not in begun))
        verb = "finish" if row.state == "started" else "try"
        return f"Next: {verb} “{row.exercise.title}” (lesson {row.exercise.number})."

    def lessons(self) -> dict[str, list[Row]]:
        """The rows of each lesson, under its title, in the order of the course."""
        grouped: dict[str, list[Row]] = {}
        for row in self.rows:
            grouped.setdefault(row.exercise.lesson_title, []).append(row)
        return grouped

    def __repr__(self) -> str:
        lines = [f"Your progress: {_of(self.points, self.max_points)} points"]
        for title, rows in self.lessons().items():
            lines += ["", f"{title}: {_total(rows)} points"]
            lines += [f"  {_of(r.points, r.max_points):>8}  {r.state:<11}  {r.exercise.title}" for r in rows]
        return "\n".join([*lines, "", self.next_step, *self.notes])

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>Your progress: {_of(self.points, self.max_points)} points</strong></p>"]
        for title, rows in self.lessons().items():
            parts.append(
                f"<table><caption>{html.escape(title)}: {_total(rows)} points</caption>"
                '<thead><tr><th scope="col">Exercise</th><th scope="col">Points</th>'
                '<th scope="col">State</th></tr></thead><tbody>'
            )
            parts += [
                f'<tr><th scope="row">{html.escape(row.exercise.title)}</th>'
                f"<td>{_of(row.points, row.max_points)}</td><td>{row.state}</td></tr>"
                for row in rows
            ]
            parts.append("</tbody></table>")
        parts += [f"<p>{html.escape(line)}</p>" for line in (self.next_step, *self.notes)]
        return f'<div role="group" aria-label="Your progress">{"".join(parts)}</div>'


def _of(points: float, max_points: float) -> str:
    return f"{round(points, 2):g} of {round(max_points, 2):g}"


def _total(rows: list[Row]) -> str:
    return _of(sum(row.points for row in rows), sum(row.max_points for row in rows))


def _kept(path: Path) -> tuple[dict[str, Entry], list[str]]:
    """All results that are known, from the file and from this session, and what is to be said about them."""
    notes = []
    try:
        contents = progress_file.read(path)
    except OSError as error:
        contents = progress_file.Contents({})
        notes.append(f"Note: the progress file cannot be read ({error.strerror or type(error).__name__}).")
    if contents.problem:
        notes.append(
            f"Note: the progress file could not be understood: {contents.problem}. "
            "Your next check copies it beside before anything is written."
        )
    set_aside = [copy.name for copy in progress_file.backups(path) if ".unreadable-" in copy.name]
    if set_aside:
        notes.append(f"Note: a file that could not be understood is kept as {', '.join(set_aside)}.")
    with _guard:
        session = dict(_unsaved)
    if session:
        notes.append(
            "Note: your latest points could not be saved. They are kept until this session ends; the next "
            "check tries again."
        )
    return progress_file.merge(contents.entries, session), notes


def _course() -> list[Exercise]:
    """Every exercise of the installed course, in the order of its lessons."""
    numbers = {slug: int(module.rpartition(".ch")[2][:2]) for slug, module in chapters().items()}
    for module in chapters().values():
        with contextlib.suppress(Exception):  # a fault in one chapter must not hide the points of the others
            importlib.import_module(module)
    tasks = [task for task in TASKS.values() if task.lesson in numbers]
    tasks.sort(key=lambda task: numbers[task.lesson])  # stable: within a lesson as they were defined
    return [Exercise(task.task_id, task.title, task.max_points, numbers[task.lesson]) for task in tasks]


def _elsewhere(course: list[Exercise], entries: Mapping[str, Entry]) -> list[Exercise]:
    """Exercises that have points and are not in this version of the course: shown, never dropped."""
    known = {exercise.task_id for exercise in course}
    return [
        Exercise(task_id, entry.title, entry.max_points, None)
        for task_id, entry in sorted(entries.items())
        if task_id not in known
    ]
