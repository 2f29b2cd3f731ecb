"""Judge an answer: run its cases within limits, then look for the known mistake that explains the rest."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from .compare import NOTES
from .guard import original_functions, reseed, same_random_state
from .limits import Budget, Worker, cut_output
from .tasks import Case, Task
from .trouble import describe
from .verdict import CaseResult, Report, Status

SECONDS = 1.8
"""How long all runs of one check may take together."""


def evaluate(
    task: Task,
    answer: object,
    *,
    seed: int = 0,
    fresh: int | None = None,
    hidden: bool = False,
    seconds: float = SECONDS,
) -> Report:
    """Judge an answer without keeping anything.

    Args:
        task: the exercise.
        answer: what the learner made.
        seed: for the fixed inputs, on which messages and hints rest.
        fresh: seed of the second run of each case; drawn anew when None.
        hidden: whether hidden cases are looked at too.
        seconds: for all runs together; an answer that takes longer is stopped.
    """
    if answer is None or answer is Ellipsis:
        return _not_yet(task, hidden)
    fresh = secrets.randbits(32) if fresh is None else fresh
    with original_functions() as replaced, same_random_state(), cut_output():
        run = _Run(task, answer, seed, fresh, Budget(seconds))
        report = run.report(hidden)
    extra = [f"{name} was replaced in this notebook; the check used the original" for name in replaced[:3]]
    return replace(report, notes=(*report.notes, *extra))


class _Run:
    """One evaluation: the budget and the notes that its cases share."""

    def __init__(self, task: Task, answer: object, seed: int, fresh: int, budget: Budget) -> None:
        self.task, self.answer, self.seed, self.fresh, self.budget = task, answer, seed, fresh, budget
        self.notes: list[str] = []
        self.stopped = False

    def report(self, hidden: bool) -> Report:
        cases = [case for case in self.task.cases if hidden or not case.hidden]
        results = tuple(self._judge(case) for case in cases)
        found: tuple[Any, ...] = ()
        if not self.stopped and any(result.status in ("wrong", "error") for result in results):
            found = self._diagnose()
        untouched = self.task.is_untouched(found)
        if untouched:
            found = ()
        return Report(
            self.task.task_id,
            self.task.title,
            results,
            tuple(mistake.key for mistake in found),
            tuple(mistake.hint for mistake in found),
            tuple(self.notes),
            self.task.kind,
            untouched,
        )

    def _judge(self, case: Case) -> CaseResult:
        status, message = self._run_once(case, self.seed)
        if status == "right":
            status, message = self._run_once(case, self.fresh)
            if status in ("wrong", "error"):
                message = "right on the fixed inputs, but not on fresh random ones"
        points = case.points if status == "right" else Fraction(0)
        return CaseResult(case.name, points, case.points, status, message, case.hidden)

    def _run_once(self, case: Case, seed: int) -> tuple[Status, str]:
        if self.stopped:
            return "skipped", ""

        def attempt() -> tuple[Status, str]:
            NOTES.set([] if case.hidden else self.notes)  # a note would name what the case looks at
            generator = reseed(seed)
            try:
                case.run(self.task.adapt(self.answer), generator)
            except BaseException as error:
                return describe(error)  # here, since the error's own text is the learner's code too
            return "right", ""

        verdict: tuple[Status, str] | None = self._call(attempt)
        return verdict if verdict is not None else ("stopped", self._reason)

    def _diagnose(self) -> tuple[Any, ...]:
        def attempt() -> tuple[Any, ...]:
            reseed(self.seed)
            adapted = self.task.adapt(self.answer)
            return self.task.diagnose(adapted, lambda: reseed(self.seed))

        found: tuple[Any, ...] | None = self._call(attempt)
        return found or ()

    def _call(self, attempt: Callable[[], Any]) -> Any:
        worker = Worker(attempt)
        end = worker.run(self.budget)
        if end == "value":
            return worker.value
        self._reason = {
            "time": "it did not come to an end in time and was stopped; is there an endless loop?",
            "output": "it prints without end and was stopped",
            "interrupted": "interrupted",
        }.get(end, "")
        if end == "raised":  # only a Failed from ``adapt`` while diagnosing, or a stop that came too late
            return None
        self.stopped = True
        if worker.abandoned:
            self.notes.append("the answer still runs in the background; restart the kernel to end it")
        return None


def _not_yet(task: Task, hidden: bool) -> Report:
    results = tuple(
        CaseResult(case.name, Fraction(0), case.points, "not yet", "", case.hidden)
        for case in task.cases
        if hidden or not case.hidden
    )
    return Report(task.task_id, task.title, results, kind=task.kind)
