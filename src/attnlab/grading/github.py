"""Grade one student's repository in a GitHub workflow: ``python -m attnlab.grading.github FOLDER``.

It writes a table into the job's summary, and notes the points in the form of GitHub Classroom's reporter
(https://github.com/classroom-resources/autograding-grading-reporter), which other programs read too. Students
can change the workflow of their own repositories: take these points as feedback, and grade with
``attnlab grade``.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .feedback import write_feedback
from .marks import decimal
from .results import SubmissionResult
from .run import grade_submission
from .sandbox import NoSandbox
from .single import Graded, add_options, grade_folder, settings_from

__all__ = ["main", "notices", "summary"]

_MOST_CHARACTERS = 900_000  # GitHub takes a summary of 1 MiB


def main(
    argv: Sequence[str] | None = None, *, grade: Callable[..., SubmissionResult] = grade_submission
) -> int:
    """Grade, print the notices and add to the file that GITHUB_STEP_SUMMARY names; returns the exit status.

    Args:
        argv: the command line.
        grade: what grades one file.
    """
    parser = argparse.ArgumentParser(prog="python -m attnlab.grading.github", description=__doc__)
    add_options(parser)
    parser.add_argument("--feedback", type=Path, metavar="DIR", help="folder for the pages of feedback")
    arguments = parser.parse_args(argv)
    try:
        settings, scheme = settings_from(arguments)
        graded = grade_folder(arguments.folder, settings, scheme, grade=grade)
    except (NoSandbox, ValueError, OSError) as error:
        print(f"attnlab: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    target = os.environ.get("GITHUB_STEP_SUMMARY")
    if target:
        with open(target, "a", encoding="utf-8", errors="replace") as file:
            file.write(summary(graded))
    if arguments.feedback:
        for mark in graded.marks:
            write_feedback(arguments.feedback, mark)
    print("\n".join(notices(graded)))
    return 0


def notices(graded: Graded) -> list[str]:
    """The workflow commands that note the points.

    Nothing that a student wrote is printed: a line that begins with two colons would be a command.
    """
    points, possible = float(graded.student.points), float(graded.student.max_points)
    report = json.dumps({"totalPoints": round(points, 4), "maxPoints": round(possible, 4)})
    text = f"Points {decimal(graded.student.points)}/{decimal(graded.student.max_points)}"
    return [f"::notice title=Autograding complete::{text}", f"::notice title=Autograding report::{report}"]


def summary(graded: Graded) -> str:
    """The job's summary: HTML in one block, so that nothing in it is read as Markdown."""
    student = graded.student
    rows = "".join(
        f"<tr><td>{_text(mark.result.title)}</td><td>{_text(mark.result.status)}</td>"
        f"<td>{decimal(mark.points)} of {decimal(mark.max_points)}</td>"
        f"<td>{'<br>'.join(map(_text, (*filter(None, [mark.result.reason]), *mark.result.hints)))}</td></tr>"
        for mark in student.exercises
    )
    remarks = "".join(f"<li>{_text(remark)}</li>" for remark in graded.remarks)
    total = f"{decimal(student.points)} of {decimal(student.max_points)} points"
    head = "<tr><th>Exercise</th><th>Status</th><th>Points</th><th>What to look at</th></tr>"
    return f"<h2>{total}</h2><table>{head}{rows}</table><ul>{remarks}</ul>\n\n"[:_MOST_CHARACTERS]


def _text(value: str) -> str:
    return html.escape(" ".join(value.split())[:1_000])


if __name__ == "__main__":
    sys.exit(main())
