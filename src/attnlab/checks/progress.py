"""A learner's progress: kept after every check, shown in the notebook and on the command line.

Progress is a convenience. Whatever happens to its file, no lesson stops: results that cannot be written are
held in memory, shown, and written with the next check that can.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from . import progress_export, progress_file, progress_view
from .progress_file import Entry
from .progress_rows import Exercise, Row, by_kind, by_lesson, next_step, total
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
    """The points by exercise, by lesson and by kind of exercise, and what to try next.

    lesson: a lesson's name without its number, such as ``"recurrence_limits"``, to see that lesson alone.
    Shown by a notebook as tables, and as plain text elsewhere. Changes nothing. ``progress().save(file)``
    writes the points to a file of your own, and ``progress().load(file)`` adds those of such a file.
    """
    course = _course()
    if lesson is not None and lesson not in {item.lesson for item in course}:
        known = ", ".join(sorted({item.lesson for item in course}))
        raise ValueError(f"lesson: expected one of {known}; got {lesson!r}")
    path = progress_file.location()
    entries, notes = _kept(path)
    rows = [Row(item, entries.get(item.task_id)) for item in [*course, *_elsewhere(course, entries)]]
    return Progress([row for row in rows if lesson in (None, row.exercise.lesson)], notes)


class Progress:
    """The progress at one moment, as plain text and as HTML; it can be saved as a file and read back."""

    def __init__(self, rows: Iterable[Row], notes: Iterable[str] = ()) -> None:
        self.rows = list(rows)
        self.notes = list(notes)

    @property
    def points(self) -> float:
        return total(self.rows).points

    @property
    def max_points(self) -> float:
        return total(self.rows).max_points

    @property
    def next_step(self) -> str:
        """What to try next: a begun exercise, else one of a begun lesson, else the first that is open."""
        return next_step(self.rows)

    def lessons(self) -> dict[str, list[Row]]:
        """The rows of each lesson, under its title, in the order of the course."""
        return by_lesson(self.rows)

    def kinds(self) -> dict[str, list[Row]]:
        """The rows of each kind of exercise: implement, predict, repair, test, measure, explore."""
        return by_kind(self.rows)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Save the points as one file, to keep or to hand in, such as ``progress().save("progress.json")``.

        The same points give the same bytes. Answers are not saved.

        Raises:
            ValueError: the name does not end in .json, or it is the file that the checks write.
            OSError: the file is there with other points and `overwrite` is not set, or it cannot be written.
        """
        progress_export.save(self.rows, path, overwrite=overwrite)

    def load(self, path: str | os.PathLike[str]) -> Progress:
        """Add the points of a saved file to yours, and return the progress of the whole course.

        The better result of each exercise stays, so a file may be loaded more than once.

        Raises:
            ValueError: nothing of the file can be understood.
            OSError: the file is not there, or cannot be read.
        """
        contents = progress_export.read(path)
        with _guard:
            try:
                progress_file.update(progress_file.location(), contents.entries, progress_file.join)
            except OSError:  # shown now, and written with the next check that can
                _unsaved.update(progress_file.join(_unsaved, contents.entries))
        everything = progress()
        if contents.problem:
            everything.notes.append(f"Note: the rest of the saved file was left out: {contents.problem}.")
        return everything

    def __repr__(self) -> str:
        return progress_view.as_text(self.rows, self.notes)

    def _repr_html_(self) -> str:
        return progress_view.as_html(self.rows, self.notes)


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
    return [
        Exercise(task.task_id, task.title, task.max_points, numbers[task.lesson], task.kind) for task in tasks
    ]


def _elsewhere(course: list[Exercise], entries: Mapping[str, Entry]) -> list[Exercise]:
    """Exercises that have points and are not in this version of the course: shown, never dropped."""
    known = {exercise.task_id for exercise in course}
    return [
        Exercise(task_id, entry.title, entry.max_points, None)
        for task_id, entry in sorted(entries.items())
        if task_id not in known
    ]
