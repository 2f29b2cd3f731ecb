"""One submission under way: a worker that has run its cells, started anew where an exercise has ended it."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..checks.evaluation import evaluate
from ..checks.registry import find
from ..checks.tasks import Task
from ..checks.verdict import Report
from .bridge import faults
from .budget import Limits
from .course_copy import chapter_modules, course_folder
from .exercise_sets import ExerciseSet
from .link import Link, Stopped
from .memory import limited_memory
from .process import WorkerProcess
from .results import ExerciseResult
from .submission import Submission

TRAINED = {"translation.project"}
"""Exercises whose answer is made by training, in the cell that defines it."""

_SAFETY_FACTOR = 12
_SAFETY_SECONDS = 60.0
_MOST_CELLS_LOST = 4
_OVER = "the submission used up all of its time"


@dataclass(frozen=True)
class Setting:
    """How a submission is graded, whatever is in it."""

    seed: int
    hidden: Path | None
    limits: Limits
    unsafe: bool


class Session:
    """A submission and its worker; use it as a context. Cells that none of ``tasks`` needs are not run."""

    def __init__(
        self,
        submission: Submission,
        sets: Sequence[ExerciseSet],
        setting: Setting,
        tasks: Sequence[str] | None = None,
    ) -> None:
        self._submission, self.sets, self._setting = submission, sets, setting
        self._tasks = set(tasks) if tasks is not None else {task for one in sets for task in one.answers}
        sources = [cell for one in sets for cell in one.cells]
        self._course = course_folder(chapter_modules(sources))
        self._until = time.monotonic() + setting.limits.total_seconds
        self._link: Link | None = None
        self._skip: dict[int, str] = {}
        self._lost = ""
        self.log: list[tuple[int, str, str]] = []

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def judge(self, task_id: str) -> ExerciseResult:
        """The result of one exercise."""
        task = find(task_id)
        assert task is not None
        link = self._running()
        if link is None:
            return _without_answer(task, self._all, "stopped", self._lost)
        link.begin(self._setting.limits.exercise_seconds)
        try:
            found, answer, replaced = self._answer(link, task_id)
        except Stopped:
            return _without_answer(task, self._all, "stopped", link.reason)
        except Exception as error:  # the answer is of a kind that does not travel
            return _without_answer(
                task, self._all, "broken", faults.clean(f"{type(error).__name__}: {error}")
            )
        if not found:
            return self._no_answer(task, answer)
        report = self._evaluated(task, answer)
        notes = [f"{name} was replaced in this notebook; the check used the original" for name in replaced]
        return self._result(task, replace(report, notes=(*report.notes, *notes)), link)

    @property
    def _all(self) -> bool:
        return self._setting.hidden is not None

    def _evaluated(self, task: Task, answer: Any) -> Report:
        limits, seed = self._setting.limits, self._setting.seed
        # The same file gets the same mark, yet no file can hold the inputs that it will be given.
        text = f"{seed}\0{task.task_id}\0{self._submission.digest}"
        fresh = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
        seconds = _SAFETY_FACTOR * limits.exercise_seconds + _SAFETY_SECONDS
        with limited_memory():
            return evaluate(task, answer, seed=seed, fresh=fresh, hidden=self._all, seconds=seconds)

    def _result(self, task: Task, report: Report, link: Link) -> ExerciseResult:
        stopped = any(case.status == "stopped" for case in report.results)
        if not stopped:
            self._rest(link)
            return ExerciseResult.of(report, status="graded" if report.attempted else "not attempted")
        reason = link.reason or "it did not come to an end in time and was stopped"
        cases, told = [], False
        for case in report.results:
            if case.status == "stopped":
                case = replace(case, status="skipped" if told else "stopped", message="" if told else reason)
                told = True
            cases.append(case)
        self._rest(link)
        notes = tuple(note for note in report.notes if "restart the kernel" not in note)
        report = replace(report, results=tuple(cases), mistakes=(), hints=(), notes=notes, untouched=False)
        return ExerciseResult.of(report, status="stopped", reason=reason)

    def _rest(self, link: Link) -> None:
        """Let both sides forget what this exercise has handed over."""
        link.forget()
        link.begin(self._setting.limits.exercise_seconds)
        try:
            link.request({"op": "forget"})
        except (Stopped, Exception):
            self._drop()
        if link.process.grown() > self._setting.limits.memory_bytes // 2:
            self._drop()  # what this exercise has left behind is not to weigh on the others

    def _answer(self, link: Link, task_id: str) -> tuple[bool, Any, list[str]]:
        reply = link.request({"op": "answer", "set": task_id.partition(".")[0], "task": task_id})
        if type(reply) is not list or len(reply) != 3 or type(reply[2]) is not list:
            raise TypeError("the answer cannot be read")
        return reply[0] is True, reply[1], [faults.clean(str(name)) for name in reply[2][:3]]

    def _no_answer(self, task: Task, cell: Any) -> ExerciseResult:
        for number, _, why in self.log:
            if number == cell:
                return _without_answer(task, self._all, "broken", f"cell {number} does not run: {why}")
        name = self._name(task)
        pattern = re.compile(rf"(?m)^\s*(?:def|class)\s+{re.escape(name)}\b|^{re.escape(name)}\s*=")
        if any(pattern.search(text) for text in self._submission.texts):
            return _without_answer(
                task, self._all, "broken", f"{name} stands in a text cell, which is not run"
            )
        return _without_answer(task, self._all, "not attempted", f"there is no {name}")

    def _name(self, task: Task) -> str:
        answers = {name: answer for one in self.sets for name, answer in one.answers.items()}
        return answers.get(task.task_id, task.name)

    # --- the worker ---

    def _running(self) -> Link | None:
        """A worker that has run the cells; None where none can be had any more."""
        while not self._lost and (self._link is None or self._link.process.over):
            self._drop()
            if time.monotonic() > self._until:
                self._lost = _OVER
            elif len(self._skip) > _MOST_CELLS_LOST:
                self._lost = f"too many of its cells end the process: {self._skip[max(self._skip)]}"
            else:
                self._start()
        return None if self._lost else self._link

    def _start(self) -> None:
        limits, hidden = self._setting.limits, self._setting.hidden
        process = WorkerProcess(
            self._course,
            limits,
            until=self._until,
            hidden=[hidden] if hidden is not None else [],
            unsafe=self._setting.unsafe,
        )
        link = self._link = Link(process)
        try:
            link.await_ready()
        except Stopped:
            self._lost = f"the worker did not start: {link.reason}"
            return
        try:
            self.log = [entry for one in self.sets for entry in self._run(link, one)]
        except Stopped:
            if time.monotonic() > self._until:
                self._lost = _OVER
            elif link.cell in self._skip or not link.cell:
                self._lost = link.reason
            else:
                self._skip[link.cell] = link.reason
        except Exception as error:
            self._lost = faults.clean(f"its cells could not be run: {type(error).__name__}: {error}")

    def _run(self, link: Link, one: ExerciseSet) -> list[tuple[int, str, str]]:
        answers = {task: answer for task, answer in one.answers.items() if task in self._tasks}
        link.patient = bool(TRAINED & answers.keys())
        log = link.request(
            {
                "op": "run",
                "set": one.slug,
                "ours": list(one.cells),
                "theirs": [list(cell) for cell in self._submission.code],
                "answers": answers,
                "skip": [list(pair) for pair in self._skip.items()],
                "script": self._submission.script,
            }
        )
        return [_entry(entry) for entry in log] if type(log) is list else []

    def _drop(self) -> None:
        if self._link is not None:
            self._link.process.close()
            self._link = None


def _entry(entry: Any) -> tuple[int, str, str]:
    number, status, why = entry
    if type(number) is not int or type(status) is not str or type(why) is not str:
        raise TypeError("the log of its cells cannot be read")
    return number, faults.clean(status), faults.clean(why)


def _without_answer(task: Task, hidden: bool, status: Any, reason: str) -> ExerciseResult:
    return replace(ExerciseResult.of(evaluate(task, None, hidden=hidden), status=status), reason=reason)


Judge = Callable[[str], ExerciseResult]
