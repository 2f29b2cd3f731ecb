"""The front of the checks: ``check``, and everything that a chapter needs to define its tasks.

**How a chapter's tasks are written** (in the package ``chNN_slug``, which is found by its name)::

    from ..engine import (Between, Call, Choice, FunctionTask, JudgeTask, Mistake, ModuleTask, Near,
                          ValueTask, WrongValue, expect_close, expect_pair, expect_tensor, normal)

    # (a) a function: a reference whose keyword switches turn mistakes on
    def _weights(scores, *, axis=-1):
        return torch.softmax(scores, dim=axis)

    WEIGHTS = FunctionTask(
        "slug.weights", "Weights from scores", _weights,
        probes=lambda g: [(normal(g, 2, 3, 5),), Call(normal(g, 3, 4, 6))],   # what tells mistakes apart
        mistakes=[Mistake("axis_queries", "You normalised over the queries. ...", {"axis": -2})],
    )

    @WEIGHTS.case("every row sums to 1", 1)            # hidden=True for an instructor's own case
    def _(answer, g):                                   # runs twice: on a fixed seed, then on fresh values
        scores = normal(g, 2, 3, 5)                     # (B, T, S)
        weights = expect_tensor(answer(scores), (2, 3, 5), "the weights")
        expect_close(weights.sum(-1), torch.ones(2, 3), "the row sums")

    # (b) a value: a number, a word, or a dict of them
    ValueTask("slug.guess", "Guess", {"rnn": Near(0.5, relative=0.05), "lstm": Between(0.1, 0.2),
                                      "why": Choice("b", options=("a", "b", "c"))},
              kind="predict", points=3,
              wrong=[WrongValue("percent", "A share, not per cent. ...", {"rnn": Near(50, relative=0.05)})])

    # (c) a test that the learner writes: it is given an implementation and refuses it (AssertionError, or
    #     returns False) or accepts it (returns None or True)
    JudgeTask("slug.test_it", "Test it", reference=_weights, probes=..., example=a_right_test,
              also_right=[other right implementations], mistakes=[Mistake(...), ...])

    # (d) a class: built by the check with known sizes, weights loaded, then called
    MODULE = ModuleTask("slug.module", "The module", ReferenceClass, mistakes=[...],
                        probes=lambda g: [(dict(d_model=6, d_k=4), weights, x), ...])
    # in its cases: answer(sizes, weights, *inputs), or answer.build(sizes)

``check("slug.weights", weights)`` judges; ``evaluate(task, answer, seed=, fresh=, hidden=)`` is the same for
tests and for the instructor's side. ``task.right()`` is a right answer, ``task.answer_with(mistake, ...)`` a
wrong one. A program that the learner is to repair names its planted bugs, ``untouched=("axis_queries",)``: it
earns nothing, and counts as not attempted, while exactly those are in it. ``check("slug.name")`` without an
answer looks the name up where it is called.
"""

from __future__ import annotations

import contextlib
import sys

from .answers import Answer, Outcome, outcome_of
from .compare import (
    expect_callable,
    expect_close,
    expect_pair,
    expect_tensor,
    expect_tuple,
    normal,
    note,
    same,
)
from .evaluation import SECONDS, evaluate
from .judge import JudgeTask
from .modules import ModuleTask
from .registry import find, known_ids, load_tasks
from .tasks import TASKS, Call, Case, FunctionTask, Mistake, Task
from .values import Between, Choice, Near, ValueTask, WrongValue
from .verdict import CaseResult, Failed, NothingYet, Report

__all__ = [
    "SECONDS",
    "TASKS",
    "Answer",
    "Between",
    "Call",
    "Case",
    "CaseResult",
    "Choice",
    "Failed",
    "FunctionTask",
    "JudgeTask",
    "Mistake",
    "ModuleTask",
    "Near",
    "NothingYet",
    "Outcome",
    "Report",
    "Task",
    "ValueTask",
    "WrongValue",
    "check",
    "evaluate",
    "expect_callable",
    "expect_close",
    "expect_pair",
    "expect_tensor",
    "expect_tuple",
    "load_tasks",
    "normal",
    "note",
    "outcome_of",
    "same",
]

_LOOK_UP = object()


def check(task_id: str, answer: object = _LOOK_UP) -> Report:
    """Judge an answer and keep the points in the learner's progress.

    Args:
        task_id: the exercise, for instance ``"query_key_value.attention"``.
        answer: the function, class or value to judge. Without it, the name after the dot is looked up where
            ``check`` is called.
    Returns:
        The report, which shows itself in a notebook. Nothing that an answer does makes this raise.
    """
    try:
        task = find(task_id)
        if answer is _LOOK_UP:
            frame = sys._getframe(1)
            names = {**frame.f_globals, **frame.f_locals}
            answer = names.get(task.name) if task else None
        if task is None:
            return _unknown(task_id)
        report = evaluate(task, answer)
    except Exception as error:  # a fault of the check must not stop a lesson
        return Report(
            str(task_id),
            f"The check of {task_id} failed by itself",
            notes=(f"{type(error).__name__}: {error}"[:300],),
        )
    if report.attempted:
        _keep(report)
    return report


def _unknown(task_id: object) -> Report:
    near = ", ".join(known_ids(str(task_id)))
    return Report(str(task_id), f"No exercise is called {task_id}", notes=(f"known: {near}",))


def _keep(report: Report) -> None:
    # Progress is a convenience: whatever goes wrong with it, the report is shown.
    with contextlib.suppress(Exception):
        from .progress import record

        record(report.task_id, report.points, report.max_points, report.title)
