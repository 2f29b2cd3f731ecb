"""The course's exercise notebooks, from which the grader takes the cells that are not a learner's."""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checks.registry import find
from .submission import Submission

_HERE = Path(__file__).resolve()
_FOLDERS = (_HERE.parent / "exercises", _HERE.parents[3] / "exercises")


class NoExercises(ValueError):
    """The exercise notebooks are missing, or an exercise is not in them; the message says what to do."""


@dataclass(frozen=True)
class ExerciseSet:
    """One exercise notebook of the course.

    Attributes:
        slug: its name without the number, which begins its exercises' ids.
        answers: by exercise, the expression that its check is given.
        cells: the sources of its code cells, without set-up and checks.
    """

    slug: str
    answers: dict[str, str]
    cells: tuple[str, ...]

    @property
    def words(self) -> dict[str, list[str]]:
        """By exercise, the names in its answer's expression."""
        return {task: re.findall(r"[^\W\d]\w*", answer) for task, answer in self.answers.items()}


def exercise_sets(folder: Path | None = None) -> dict[str, ExerciseSet]:
    """The exercise sets by slug, from ``folder`` or from where the course keeps them.

    Raises:
        NoExercises: if there is no exercise notebook.
    """
    for place in (folder,) if folder is not None else _FOLDERS:
        if place is not None and any(place.glob("[0-9]*.ipynb")):
            return _read_folder(place.resolve())
    where = f"in {folder}" if folder is not None else "where the course is installed; name their folder"
    raise NoExercises(f"exercises: there are no exercise notebooks {where}")


def sets_for(
    tasks: Sequence[str] | None, submission: Submission | None, known: dict[str, ExerciseSet]
) -> tuple[list[str], list[ExerciseSet]]:
    """The exercises to be graded and the sets that they come from.

    Args:
        tasks: ids of exercises; where None, the set that most of the submission's answers belong to.
        submission: what was read of the file.
        known: all sets.
    Raises:
        NoExercises: if an id is unknown, or the submission answers to no set.
    """
    if tasks is None:
        chosen = _recognised(submission, known) if submission is not None else None
        if chosen is None:
            raise NoExercises("it holds no answer to any exercise of the course")
        return list(chosen.answers), [chosen]
    for task in tasks:
        slug = task.partition(".")[0]
        if find(task) is None or slug not in known or task not in known[slug].answers:
            raise NoExercises(f"tasks: no exercise notebook asks for {task!r}")
    slugs = dict.fromkeys(task.partition(".")[0] for task in tasks)
    return list(tasks), [known[slug] for slug in slugs]


def _recognised(submission: Submission, known: dict[str, ExerciseSet]) -> ExerciseSet | None:
    text = "\n".join(source for _, source in submission.code)
    named = {slug: sum(task in text for task in one.answers) for slug, one in known.items()}
    if not any(named.values()):
        words = set(re.findall(r"(?m)^(?:(?:async\s+)?def|class)\s+(\w+)|^(\w+)\s*=", text))
        bound = {word for pair in words for word in pair if word}
        for slug, one in known.items():
            named[slug] = sum(bound >= set(names) for names in one.words.values())
    best = max(named, key=lambda slug: named[slug], default=None)
    return known[best] if best is not None and named[best] else None


@functools.cache
def _read_folder(folder: Path) -> dict[str, ExerciseSet]:
    found = [_read(path) for path in sorted(folder.glob("[0-9]*.ipynb"))]
    return {one.slug: one for one in found}


def _read(path: Path) -> ExerciseSet:
    answers: dict[str, str] = {}
    cells = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        tags = cell["metadata"].get("tags", [])
        if cell["cell_type"] != "code" or "setup" in tags:
            continue
        source = "".join(cell["source"])
        checks = _checks(source)
        answers |= checks
        if not checks:
            cells.append(source)
    return ExerciseSet(path.stem.partition("_")[2], answers, tuple(cells))


def _checks(source: str) -> dict[str, str]:
    """The calls of ``check`` in a cell: exercise, and the expression of its answer."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "check":
            continue
        arguments: list[Any] = [*node.args, *(keyword.value for keyword in node.keywords)]
        if arguments and isinstance(arguments[0], ast.Constant) and isinstance(arguments[0].value, str):
            task = arguments[0].value
            found[task] = ast.unparse(arguments[1]) if len(arguments) > 1 else task.rpartition(".")[2]
    return found
