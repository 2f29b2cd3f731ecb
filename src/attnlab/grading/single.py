"""Grade what one student handed in, for services that start a grader for each submission."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .batch import Settings, chosen_tasks, columns_of, expect_ready, grade_all, mark_all
from .collection import SUFFIXES, Submission, collect
from .marks import Mark
from .results import SubmissionResult
from .resume import Store
from .run import grade_submission
from .scheme import Scheme
from .scheme_file import read_scheme
from .students import Student, by_student

__all__ = ["Graded", "add_options", "grade_folder", "settings_from"]


@dataclass(frozen=True)
class Graded:
    """One student's work.

    Attributes:
        student: the exercises; of one that was handed in more than once, the last.
        marks: one for each file.
    """

    student: Student
    marks: tuple[Mark, ...]

    @property
    def remarks(self) -> list[str]:
        """What is to be said about whole files: why one could not be graded, and notices."""
        several = len(self.marks) > 1
        found = []
        for mark in self.marks:
            before = f"{mark.submission.name}: " if several else ""
            texts = [mark.result.reason] if mark.result.status == "failed" else []
            found += [before + text for text in (*texts, *mark.result.notices)]
        return found


def grade_folder(
    folder: Path,
    settings: Settings,
    scheme: Scheme,
    *,
    grade: Callable[..., SubmissionResult] = grade_submission,
) -> Graded:
    """Grade every notebook in a folder as one student's; dates are left to the service.

    Args:
        folder: what was handed in.
        settings: how it is graded.
        scheme: what exercises are worth.
        grade: what grades one file.
    Raises:
        ValueError: if the folder is empty; and whatever ``expect_ready`` raises.
    """
    expect_ready(settings)
    with tempfile.TemporaryDirectory(prefix="attnlab-grade-") as scratch:
        submissions = _wanted(collect(folder, Path(scratch) / "unpacked"))
        if not submissions:
            raise ValueError("nothing was handed in")
        results = grade_all(submissions, settings, Store(Path(scratch) / "results"), grade=grade)
        columns = columns_of(results.values(), settings, scheme)
        marks = mark_all(submissions, results, Scheme(points=scheme.points), columns)
    everything = [_anonymous(mark) for mark in marks]
    (student,) = by_student(everything)
    return Graded(student, tuple(marks))


def _wanted(submissions: Sequence[Submission]) -> Sequence[Submission]:
    """The notebooks, else the scripts, else whatever there is: a repository holds other files too."""
    for suffix in SUFFIXES:
        found = [one for one in submissions if one.name.lower().endswith(suffix)]
        if found:
            return found
    return submissions


def _anonymous(mark: Mark) -> Mark:
    return replace(mark, submission=replace(mark.submission, student="", number=""))


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that all services' graders share, added to a parser."""
    add = parser.add_argument
    add("folder", type=Path, help="what was handed in")
    add("--only", nargs="+", metavar="NAME", help="exercises or lessons to grade")
    add("--points", type=Path, metavar="FILE", help="points of your own, in TOML or YAML")
    add("--hidden", type=Path, metavar="FILE", help="a Python file of hidden cases")
    add("--seed", type=int, metavar="N", help="seed of the checks' inputs; else another one each time")
    add("--exercises", type=Path, metavar="DIR", help="the course's exercise notebooks")
    add("--unsafe", action="store_true", help="run without a sandbox")


def settings_from(arguments: argparse.Namespace) -> tuple[Settings, Scheme]:
    """How to grade, from the options.

    Raises:
        ValueError: if an option means nothing; the message names it.
    """
    settings = Settings(
        tasks=chosen_tasks(arguments.only) if arguments.only else None,
        seed=arguments.seed,
        hidden=arguments.hidden,
        exercises=arguments.exercises,
        unsafe=arguments.unsafe,
    )
    return settings, read_scheme(arguments.points) if arguments.points else Scheme()
