"""Hidden cases: an instructor's own, in a Python file that stays outside of the repository.

The file is run in the grader's process, never in the sandbox. It reads like a chapter of the checks::

    from attnlab.checks.engine import expect_close, normal
    from attnlab.grading.hidden import hidden_case

    @hidden_case("query_key_value.attend", "a long sequence", points=2)
    def _(answer, g):
        x, w = normal(g, 2, 50, 8), [normal(g, 8, 4) for _ in range(3)]
        expect_close(answer(x, *w), my_reference(x, *w), "the output")

Draw the inputs from the generator ``g``. The answer is given them, so a fixed input can be carried away and
answered by heart the next time.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from pathlib import Path

from ..checks.registry import find, known_ids
from ..checks.tasks import TASKS, CaseFunction
from ..checks.values import ValueTask
from .course import all_tasks

__all__ = ["HiddenCasesError", "hidden_case", "load_hidden"]

_loaded: dict[Path, str] = {}


class HiddenCasesError(ValueError):
    """The file of hidden cases cannot be used; the message says why."""


def hidden_case(task_id: str, name: str, points: float) -> Callable[[CaseFunction], CaseFunction]:
    """Decorator: add a case that learners do not see to an exercise of the course.

    Args:
        task_id: the exercise, such as ``"query_key_value.attention"``.
        name: what the case looks at; shown to instructors alone.
        points: what it is worth, beside the points of the exercise's own cases.
    Raises:
        HiddenCasesError: if there is no such exercise, or its answer is a value: all of that is in view.
    """
    task = find(task_id)
    if task is None:
        raise HiddenCasesError(
            f"task_id: no exercise is called {task_id!r}; near: {', '.join(known_ids(task_id)[:5])}"
        )
    if isinstance(task, ValueTask):
        raise HiddenCasesError(f"task_id: the answer to {task_id!r} is a value, which leaves nothing to hide")
    return task.case(name, points, hidden=True)


def load_hidden(path: Path) -> str:
    """Run a file of hidden cases, once in a process, and return its SHA-256 in hexadecimal.

    Raises:
        HiddenCasesError: if ``path`` cannot be read or fails while it runs, adds no case or one that is not
            hidden, or was changed after it had been loaded.
    """
    path = path.resolve()
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise HiddenCasesError(f"{path}: {error.strerror or type(error).__name__}") from error
    if path in _loaded:
        if _loaded[path] != digest:
            raise HiddenCasesError(f"{path}: it was changed while it was in use; start again")
        return digest
    all_tasks()  # a chapter that the file imports must not look like cases of its own
    before = _cases()
    _run(path)
    added = {task_id: cases[len(before.get(task_id, ())) :] for task_id, cases in _cases().items()}
    new = [hidden for cases in added.values() for hidden in cases]
    if not new:
        raise HiddenCasesError(f"{path}: it adds no case; use hidden_case from {__name__}")
    if not all(new):
        raise HiddenCasesError(f"{path}: it adds a case that is not hidden; use hidden_case from {__name__}")
    _loaded[path] = digest
    return digest


def _cases() -> dict[str, list[bool]]:
    tasks = (task for task in TASKS.values() if not isinstance(task, ValueTask))
    return {task.task_id: [case.hidden for case in task.cases] for task in tasks}


def _run(path: Path) -> None:
    name = f"attnlab_hidden_{path.stem}".replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise HiddenCasesError(f"{path}: a Python file (.py) was expected")
    try:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    except HiddenCasesError:
        raise
    except Exception as error:
        raise HiddenCasesError(f"{path}: {type(error).__name__} while it ran: {error}") from error
