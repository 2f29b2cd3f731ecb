"""What stands in the sandbox in place of the checks, the figures and the widgets: it does nothing.

``check`` remembers what it was given, so that an answer under another name is found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

seen: dict[str, Any] = {}
"""The last answer that was given to ``check`` for each exercise."""

_LOOK_UP = object()


class Nothing:
    """Takes part in whatever is done with it."""

    def __call__(self, *_: Any, **__: Any) -> Nothing:
        return self

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __repr__(self) -> str:
        return ""


def check(task_id: object = "", answer: Any = _LOOK_UP, *_: Any, **__: Any) -> Nothing:
    """Remember the answer; nothing is judged here."""
    if answer is _LOOK_UP:
        answer = sys._getframe(1).f_globals.get(str(task_id).rpartition(".")[2])
    if type(task_id) is str:
        seen[task_id] = answer
    return Nothing()


def progress(*_: Any, **__: Any) -> Nothing:
    """Show nothing."""
    return Nothing()


def absent(name: str) -> Nothing:
    """Any name of a module whose functions do nothing here."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Nothing()
