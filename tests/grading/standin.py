"""A stand-in for grading one file, so that the desk can be tested without a sandbox.

A submission is a JSON text that says what its result is, or what happens to the process that grades it. Each
grading is written down, in the folder that the environment variable STANDIN_LOG names.
"""

import json
import os
import tempfile
import time
import uuid
from fractions import Fraction
from pathlib import Path

from attnlab.grading.results import CaseOutcome, ExerciseResult, SubmissionResult

_kept = []  # folders that go when their process ends


def grade(path, *, seed=0, tasks=None, **settings):
    """Grade a stand-in submission; ``settings`` are taken and not used."""
    log = os.environ.get("STANDIN_LOG")
    if log:
        _kept.append(tempfile.TemporaryDirectory(dir=log, prefix="scratch-"))
        Path(log, uuid.uuid4().hex).write_text(f"{seed}", encoding="utf-8")
    try:
        wanted = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return SubmissionResult(path.stem, "", "failed", "this is no notebook")
    if wanted.get("does") == "exit":
        os._exit(7)
    if wanted.get("does") == "hang":
        time.sleep(600)
    exercises = [exercise(task_id, **what) for task_id, what in wanted.get("exercises", {}).items()]
    return SubmissionResult(path.stem, "00", "graded", "", tuple(exercises), tuple(wanted.get("notices", ())))


def exercise(task_id, points="1", of="2", *, message="", hidden=(), status="graded", title="", **more):
    """One exercise's result: a case that learners see, and hidden ones as pairs of points."""
    cases = [case("what is seen", points, of, message=message)]
    cases += [case("what is kept", got, possible, hidden=True) for got, possible in hidden]
    return ExerciseResult(
        task_id,
        title or task_id.split(".")[-1].replace("_", " "),
        "implement",
        status,
        more.get("reason", ""),
        () if status == "not attempted" else tuple(cases),
        tuple(more.get("mistakes", ())),
        tuple(more.get("hints", ())),
        tuple(more.get("notes", ())),
    )


def case(name, points, of, *, message="", hidden=False):
    """One case, right where it has all its points."""
    status = "right" if points == of else "wrong"
    return CaseOutcome(name, Fraction(points), Fraction(of), status, message, hidden)


def result(*exercises, name="anna.ipynb", **fields):
    """A graded submission."""
    return SubmissionResult(name, "00", "graded", "", exercises, **fields)
