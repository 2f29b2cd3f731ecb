"""The exercises of the installed course, as far as they can be imported."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Mapping
from fractions import Fraction

from ..checks.registry import chapters
from ..checks.tasks import TASKS, Task

__all__ = ["all_tasks", "possible_points"]


@functools.cache
def all_tasks() -> Mapping[str, Task]:
    """Every exercise by id, in the order of the course; a fault in one chapter does not hide the others."""
    modules = chapters()
    for module in modules.values():
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    order = list(modules)
    known = [task for task in TASKS.values() if task.lesson in modules]
    return {task.task_id: task for task in sorted(known, key=lambda task: order.index(task.lesson))}


def possible_points(task_id: str) -> Fraction:
    """What the course gives for an exercise, without hidden cases; 0 where it is not the course's."""
    task = all_tasks().get(task_id)
    return Fraction(task.max_points).limit_denominator(10_000) if task else Fraction(0)
