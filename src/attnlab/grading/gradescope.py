"""Grade one submission inside of Gradescope: ``python -m attnlab.grading.gradescope FOLDER --results FILE``.

The results file is in Gradescope's own format: a score, and one test for each exercise. Hidden cases are one
test without a name. Whatever goes wrong, a results file is written.
Source: https://gradescope-autograders.readthedocs.io/en/latest/specs/
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..checks.verdict import number
from .marks import ExerciseMark
from .results import SubmissionResult
from .run import grade_submission
from .sandbox import NoSandbox, require_sandbox
from .single import Graded, add_options, grade_folder, settings_from

__all__ = ["main", "results"]

_LONGEST = 20_000


def main(
    argv: Sequence[str] | None = None, *, grade: Callable[..., SubmissionResult] = grade_submission
) -> int:
    """Grade and write the results file; returns 0 also where the grader failed, so that the file is read.

    Args:
        argv: the command line.
        grade: what grades one file.
    """
    parser = argparse.ArgumentParser(prog="python -m attnlab.grading.gradescope", description=__doc__)
    add_options(parser)
    parser.add_argument("--results", type=Path, required=True, metavar="FILE", help="where Gradescope looks")
    arguments = parser.parse_args(argv)
    try:
        settings, scheme = settings_from(arguments)
        settings = replace(settings, unsafe=settings.unsafe or not _sandbox())
        data = results(grade_folder(arguments.folder, settings, scheme, grade=grade))
    except Exception as error:  # Gradescope shows its own failure, and to the instructor this one
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        data = _failed()
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data, indent=1)  # ASCII, with escapes: no encoding can go wrong on the way
    arguments.results.write_text(text, encoding="utf-8")
    return 0


def _sandbox() -> bool:
    """Whether there is a sandbox; without one the container, which is thrown away, is what there is."""
    try:
        require_sandbox()
    except NoSandbox as error:
        print(f"Without a sandbox inside of the container: {error}", file=sys.stderr)
        return False
    return True


def results(graded: Graded) -> dict[str, Any]:
    """One student's work in Gradescope's format."""
    tests = [test for mark in graded.student.exercises for test in _tests(mark)]
    return {
        "score": float(graded.student.points),
        "output": "\n".join(graded.remarks)[:_LONGEST],
        "output_format": "text",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {"flags": [flag for mark in graded.marks for flag in mark.flags]},
    }


def _tests(mark: ExerciseMark) -> Iterator[dict[str, Any]]:
    """An exercise's cases that learners see as one test, those that are hidden as another."""
    given = mark.result.max_points
    scale = mark.max_points / given if given else Fraction(0)
    seen = [case for case in mark.result.results if not case.hidden]
    kept = [case for case in mark.result.results if case.hidden]
    possible = sum((case.max_points for case in seen), Fraction(0)) * scale if given else mark.max_points
    earned = (
        Fraction(0) if mark.result.untouched else sum((case.points for case in seen), Fraction(0)) * scale
    )
    yield _test(mark.result.title, earned, possible, "\n".join(_lines(mark)))
    if kept:
        earned, possible = (
            sum((getattr(case, name) for case in kept), Fraction(0)) * scale for name in _POINTS
        )
        earned = Fraction(0) if mark.result.untouched else earned
        yield _test(f"{mark.result.title}: further cases", earned, possible, "")


_POINTS = ("points", "max_points")


def _test(name: str, points: Fraction, possible: Fraction, output: str) -> dict[str, Any]:
    return {
        "name": name,
        "score": float(points),
        "max_score": float(possible),
        "status": "passed" if points == possible else "failed",
        "output": output[:_LONGEST],
        "output_format": "text",
    }


def _lines(mark: ExerciseMark) -> Iterator[str]:
    result = mark.result
    if result.status != "graded":
        yield f"{result.status}{f': {result.reason}' if result.reason else ''}"
    for case in result.results if result.attempted else ():
        if not case.hidden:
            yield f"[{case.status}] {case.name} ({number(case.points)} of {number(case.max_points)})"
            if case.message:
                yield f"    {case.message}"
    yield from (f"known mistake: {hint}" for hint in result.hints)
    yield from (f"note: {note}" for note in result.notes)


def _failed() -> dict[str, Any]:
    text = "The grader itself failed, and not your work. Your instructor sees why; please tell them."
    return {"score": 0.0, "output": text, "output_format": "text", "stdout_visibility": "hidden", "tests": []}


if __name__ == "__main__":
    sys.exit(main())
