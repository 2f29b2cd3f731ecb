"""Find the chapters' tasks: every module here called ``chNN_slug`` defines some when it is imported."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import pkgutil
import re

from .tasks import TASKS, Task

_CHAPTER = re.compile(r"ch\d\d_(?P<slug>\w+)")


def chapters() -> dict[str, str]:
    """The chapters' modules by slug, in their order."""
    package = importlib.import_module(__package__)
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    found = [(match["slug"], name) for name in names if (match := _CHAPTER.fullmatch(name))]
    return {slug: f"{__package__}.{name}" for slug, name in found}


def load_tasks() -> dict[str, Task]:
    """Import every chapter, and return all tasks by id in the order of the chapters."""
    modules = chapters()
    for module in modules.values():
        importlib.import_module(module)
    order = list(modules)
    known = [task for task in TASKS.values() if task.lesson in modules]
    return {task.task_id: task for task in sorted(known, key=lambda task: order.index(task.lesson))}


def find(task_id: object) -> Task | None:
    """The task with this id, or None. Only its own chapter is imported: a fault in another stops nothing."""
    if type(task_id) is not str:
        return None
    if task_id not in TASKS:
        module = chapters().get(task_id.split(".")[0])
        if module is not None:
            importlib.import_module(module)
    return TASKS.get(task_id)


def known_ids(near: str) -> list[str]:
    """Ids that resemble this one; all of them if none does."""
    for module in chapters().values():
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    return difflib.get_close_matches(near, TASKS, n=3) or list(TASKS)
