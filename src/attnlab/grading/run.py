"""Grade one submission: read its file, run its cells in a sandbox, judge its answers here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..checks.evaluation import evaluate
from ..checks.registry import find
from .budget import Limits
from .exercise_sets import NoExercises, exercise_sets, sets_for
from .hidden import load_hidden
from .results import ExerciseResult, SubmissionResult
from .sandbox import NoSandbox, require_sandbox
from .session import Session, Setting
from .submission import Refused, Submission, read_submission

__all__ = ["Limits", "NoExercises", "NoSandbox", "grade_submission"]


def grade_submission(
    path: Path,
    tasks: Sequence[str] | None = None,
    *,
    seed: int = 0,
    hidden: Path | None = None,
    exercises: Path | None = None,
    limits: Limits | None = None,
    unsafe: bool = False,
) -> SubmissionResult:
    """Grade one file; never raises for anything that a submission does.

    One process grades one submission at a time: judging sets global random states and restores them.

    Args:
        path: a notebook (``.ipynb``) or a notebook exported as a script (``.py``).
        tasks: ids of the exercises; None finds the set by the answers that the file holds.
        seed: for the checks' fixed inputs; their fresh inputs follow from it and the file, so that the same
            file gets the same mark each time.
        hidden: a Python file, outside of the course, that adds hidden cases.
        exercises: folder of the exercise notebooks; the course's own where None.
        limits: what it may use.
        unsafe: run without a sandbox.
    Raises:
        NoSandbox: if bubblewrap is missing and ``unsafe`` is not set.
        NoExercises: if the exercise notebooks are missing, or ``tasks`` names one that is not in them.
        HiddenCasesError: if the file of hidden cases cannot be used.
    """
    began = time.monotonic()
    if not unsafe:
        require_sandbox()
    if hidden is not None:
        load_hidden(hidden)
    known = exercise_sets(exercises)
    if tasks is not None:
        sets_for(tasks, None, known)
    setting = Setting(seed, hidden, limits or Limits(), unsafe)
    try:
        submission = read_submission(path, setting.limits.file_bytes)
    except Refused as error:
        result = _failed(path, error.digest, str(error), tasks or (), hidden is not None)
    else:
        try:
            names, sets = sets_for(tasks, submission, known)
        except NoExercises as error:
            result = _failed(path, submission.digest, str(error), (), False)
        else:
            with Session(submission, sets, setting, names) as session:
                judged = tuple(session.judge(name) for name in names)
                notices = _notices(submission, session)
            result = SubmissionResult(path.name, submission.digest, "graded", "", judged, notices)
    return replace(result, seconds=round(time.monotonic() - began, 3))


def _failed(path: Path, digest: str, reason: str, tasks: Sequence[str], hidden: bool) -> SubmissionResult:
    exercises = []
    for name in tasks:
        task = find(name)
        if task is not None:
            nothing = ExerciseResult.of(evaluate(task, None, hidden=hidden), status="not attempted")
            exercises.append(replace(nothing, reason=reason))
    return SubmissionResult(path.name, digest, "failed", reason, tuple(exercises))


def _notices(submission: Submission, session: Session) -> tuple[str, ...]:
    """What an instructor should know about the cells, beside the results."""
    notices = [
        f"cell {number} does not run: {why}"
        for number, status, why in session.log
        if number > 0 and status != "ok"
    ]
    text = "\n".join(source for _, source in submission.code)
    names = [name for one in session.sets for name in one.answers if name not in text]
    if names:
        notices.append(f"no check cell for {', '.join(names)}; the course's own check was used")
    return tuple(notices)
