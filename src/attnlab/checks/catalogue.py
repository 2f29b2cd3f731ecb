"""The catalogue as data: is every known mistake caught, and named rightly?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .engine import evaluate
from .tasks import FunctionTask, Task

# The catalogue is about what is named, not about how busy the machine is.
_PATIENT = 60.0


@dataclass(frozen=True)
class Trial:
    """One wrong answer, made on purpose, and what the check said.

    Attributes:
        task_id: the exercise.
        planted: keys of the mistakes in the answer.
        named: keys that the check named.
        caught: whether the answer lost a point.
        alike: whether an answer with the named mistakes is the same as this one, on every probe.
    """

    task_id: str
    planted: tuple[str, ...]
    named: tuple[str, ...]
    caught: bool
    alike: bool = False

    @property
    def rightly(self) -> bool:
        """Whether what was named was planted, or gives the same; of two mistakes, one may hide the other."""
        return bool(self.named) and (self.alike or set(self.named) <= set(self.planted))


def trials(task: Task, seed: int, *, pairs: bool = True) -> Iterator[Trial]:
    """Each known mistake of a task, then each pair that can be made together, judged on one seed.

    A program that is given to be repaired is left out: it is no attempt.
    """
    for mistakes in task.combinations():
        if task.is_untouched(mistakes) or (len(mistakes) > 1 and not pairs):
            continue
        answer = task.answer_with(*mistakes)
        report = evaluate(task, answer, seed=seed, seconds=_PATIENT)
        named = tuple(mistake for mistake in task.mistakes if mistake.key in report.mistakes)
        alike = len(mistakes) > 1 and isinstance(task, FunctionTask) and task.alike(mistakes, named, seed)
        yield Trial(task.task_id, tuple(m.key for m in mistakes), report.mistakes, not report.passed, alike)
