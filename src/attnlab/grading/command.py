"""``attnlab grade``: from a folder of submissions to a table of marks, pages of feedback and a summary."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from .batch import (
    Settings,
    chosen_tasks,
    columns_of,
    expect_ready,
    flag,
    grade_all,
    mark_all,
    settings_as_texts,
)
from .budget import Limits
from .collection import Submission, collect
from .feedback import write_feedback
from .marks import Mark
from .platforms import write_canvas, write_moodle
from .results import SubmissionResult
from .resume import Store
from .sandbox import NoSandbox
from .scheme import Scheme
from .scheme_file import read_scheme
from .students import by_student
from .summary import write_summary
from .table import write_marks

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Carry out ``attnlab grade``; returns the exit status: 0 done, 1 not done, 130 interrupted."""
    try:
        _expect_places(arguments)
        settings = _settings(arguments)
        expect_ready(settings)
        scheme = read_scheme(arguments.points) if arguments.points else Scheme()
        with tempfile.TemporaryDirectory(prefix="attnlab-grade-") as scratch:
            return _grade(arguments, settings, scheme, Path(scratch))
    except KeyboardInterrupt:
        print("\nInterrupted. What was graded is kept: the same command goes on from here.", file=sys.stderr)
        return 130
    except (NoSandbox, zipfile.BadZipFile, OSError, ValueError) as error:
        print(f"attnlab: {error}", file=sys.stderr)
        return 1


def _grade(arguments: argparse.Namespace, settings: Settings, scheme: Scheme, scratch: Path) -> int:
    out: Path = arguments.out
    submissions = collect(arguments.submissions, scratch)
    if not submissions:
        raise ValueError(f"{arguments.submissions}: there is no submission")
    store = Store(out.with_name(f"{out.stem}.results"), settings_as_texts(settings))
    results, before = _results(submissions, settings, store)
    columns = columns_of(results.values(), settings, scheme)
    marks = mark_all(submissions, results, scheme, columns)
    _write(arguments, marks, tuple(columns), settings)
    failed = sum(mark.result.status == "failed" for mark in marks)
    print(f"{len(marks)} submissions: {before} were graded before, {failed} could not be graded")
    return 0


def _results(
    submissions: Sequence[Submission], settings: Settings, store: Store
) -> tuple[dict[str, SubmissionResult], int]:
    before = 0
    # The bar is shown on a terminal only; a log gets the last line alone.
    with tqdm(total=len(submissions), unit=" submissions", disable=None, file=sys.stderr) as bar:

        def told(result: SubmissionResult, was_there: bool) -> None:
            nonlocal before
            before += was_there
            bar.set_postfix_str(result.name[:30], refresh=False)
            bar.update()

        return grade_all(submissions, settings, store, told=told), before


def _write(
    arguments: argparse.Namespace, marks: Sequence[Mark], columns: Sequence[str], settings: Settings
) -> None:
    out: Path = arguments.out
    pages = {}
    if arguments.feedback:
        pages = {mark.submission.name: write_feedback(arguments.feedback, mark) for mark in marks}
        print(f"Feedback: {arguments.feedback}")
    write_marks(out, marks, columns, pages)
    print(f"Marks: {out}")
    summary = out.with_name(f"{out.stem}.summary.html")
    write_summary(summary, marks, flag(marks, settings))
    print(f"Summary: {summary}")
    students, left = by_student(marks), []
    if "canvas" in arguments.format:
        path = out.with_name(f"{out.stem}.canvas.csv")
        left = write_canvas(path, students, arguments.assignment, arguments.roster)
        print(f"For Canvas: {path}")
    if "moodle" in arguments.format:
        path = out.with_name(f"{out.stem}.moodle.csv")
        left = write_moodle(path, students, arguments.roster)
        print(f"For Moodle: {path}")
    for line in left:
        print(f"  left out: {line}")


def _settings(arguments: argparse.Namespace) -> Settings:
    limits = Limits()
    if arguments.timeout is not None:
        limits = replace(limits, total_seconds=arguments.timeout)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # a grading process is one job, not one for each core
    return Settings(
        chosen_tasks(arguments.only) if arguments.only else None,
        arguments.seed,
        arguments.hidden.resolve() if arguments.hidden else None,
        arguments.exercises.resolve() if arguments.exercises else None,
        arguments.jobs,
        limits,
        arguments.unsafe,
        arguments.again,
    )


def _expect_places(arguments: argparse.Namespace) -> None:
    """Refuse to write among the submissions, or to look for hidden cases there."""
    source: Path = arguments.submissions.resolve()
    if arguments.jobs < 1:
        raise ValueError(f"--jobs: at least 1 was expected, got {arguments.jobs}")
    if arguments.roster and len(arguments.format) != 1:
        raise ValueError("--roster: give one --format with it, canvas or moodle")
    for option in ("out", "feedback", "hidden"):
        path: Path | None = getattr(arguments, option)
        if path is not None and source.is_dir() and path.resolve().is_relative_to(source):
            raise ValueError(f"--{option}: {path} lies among the submissions; choose another place")
