"""Grade a whole collection: find it, grade what is not graded yet, mark it, and write everything down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from .budget import Limits
from .collection import Submission
from .course import all_tasks, possible_points
from .exercise_sets import exercise_sets, sets_for
from .forbidden import built_in_flags
from .hidden import load_hidden
from .marks import Mark
from .pool import Grade, grade_files
from .results import SubmissionResult
from .resume import Store, digest_of, version
from .run import grade_submission
from .sandbox import require_sandbox
from .scheme import Scheme
from .similarity import similar_pairs

__all__ = [
    "Settings",
    "chosen_tasks",
    "columns_of",
    "expect_ready",
    "flag",
    "grade_all",
    "mark_all",
    "settings_as_texts",
]


@dataclass(frozen=True)
class Settings:
    """How a collection is graded.

    Attributes:
        tasks: ids of the exercises; None lets each submission say which set it is.
        seed: for the checks' inputs; None draws one that stays secret and the same.
        hidden: a file of hidden cases.
        exercises: the course's exercise notebooks, where they are not the installed course's.
        jobs: how many submissions are graded at a time.
        limits: what one submission may use.
        unsafe: whether to run without a sandbox.
        again: whether to grade what could not be graded before once more.
    """

    tasks: tuple[str, ...] | None = None
    seed: int | None = None
    hidden: Path | None = None
    exercises: Path | None = None
    jobs: int = 1
    limits: Limits = field(default_factory=Limits)
    unsafe: bool = False
    again: bool = False


def chosen_tasks(names: Iterable[str]) -> tuple[str, ...]:
    """Ids of the exercises that are named, by id or by lesson, in the order of the course.

    Raises:
        ValueError: if a name is neither.
    """
    tasks, chosen = all_tasks(), set()
    for name in names:
        found = {task.task_id for task in tasks.values() if name in (task.task_id, task.lesson)}
        if not found:
            lessons = ", ".join(dict.fromkeys(task.lesson for task in tasks.values()))
            raise ValueError(f"{name}: expected an exercise, or one of the lessons {lessons}")
        chosen |= found
    return tuple(task_id for task_id in tasks if task_id in chosen)


def expect_ready(settings: Settings) -> None:
    """Refuse to begin where not one submission could be graded.

    Raises:
        NoSandbox: if there is none, and none is to be used.
        NoExercises: if the exercise notebooks are missing, or do not hold what was asked for.
        HiddenCasesError: if the file of hidden cases cannot be used.
    """
    if not settings.unsafe:
        require_sandbox()
    known = exercise_sets(settings.exercises)
    if settings.tasks is not None:
        sets_for(settings.tasks, None, known)
    if settings.hidden is not None:
        load_hidden(settings.hidden)


def grade_all(
    submissions: Sequence[Submission],
    settings: Settings,
    store: Store,
    *,
    grade: Callable[..., SubmissionResult] = grade_submission,
    told: Callable[[SubmissionResult, bool], None] = lambda result, before: None,
) -> dict[str, SubmissionResult]:
    """A result for each submission, by name. What the store has is not graded again.

    Args:
        submissions: as they were found.
        settings: how they are graded.
        store: where results are kept.
        grade: what grades one file.
        told: called with each result, and whether it was there before.
    """
    results: dict[str, SubmissionResult] = {}
    keys: dict[str, list[Submission]] = {}
    for submission in submissions:
        key, problem = _key(submission, settings, store)
        kept = None if problem else store.get(key)
        if problem:
            results[submission.name] = SubmissionResult(submission.name, "", "failed", problem)
            told(results[submission.name], False)
        elif kept is not None and not (settings.again and kept.status == "failed"):
            results[submission.name] = replace(kept, name=submission.name)
            told(results[submission.name], True)
        else:
            keys.setdefault(key, []).append(submission)  # the same bytes are graded once
    files = [(key, same[0].path) for key, same in keys.items() if same[0].path is not None]
    seconds = settings.limits.start_seconds + settings.limits.total_seconds
    graded = grade_files(files, _grader(settings, store, grade), jobs=settings.jobs, seconds=seconds)
    for key, result, kept_too in graded:
        if kept_too:
            store.put(key, replace(result, name=keys[key][0].name))
        for submission in keys[key]:
            results[submission.name] = replace(result, name=submission.name)
            told(results[submission.name], False)
    return results


def settings_as_texts(settings: Settings) -> Iterator[str]:
    """Everything but the submission that a result depends on; a drawn seed lies in the store's own folder.

    Raises:
        NoExercises: if there are no exercise notebooks.
        HiddenCasesError: if the file of hidden cases cannot be used.
    """
    yield version()
    yield repr(exercise_sets(settings.exercises))
    yield repr(settings.tasks)
    yield repr(settings.seed)
    yield load_hidden(settings.hidden) if settings.hidden else ""
    yield repr(settings.limits)
    yield repr(settings.unsafe)


def _key(submission: Submission, settings: Settings, store: Store) -> tuple[str, str]:
    """The key of a submission's result, or why there cannot be one."""
    if submission.path is None:
        return "", submission.problem or "there is no file"
    try:
        digest = digest_of(submission.path, settings.limits.file_bytes + 1)
    except OSError as error:
        return "", f"the file cannot be read: {error.strerror or type(error).__name__}"
    return store.key(digest, submission.path.suffix.lower()), ""


def _grader(settings: Settings, store: Store, grade: Callable[..., SubmissionResult]) -> Grade:
    return partial(
        grade,
        tasks=settings.tasks,
        seed=store.seed() if settings.seed is None else settings.seed,
        hidden=settings.hidden,
        exercises=settings.exercises,
        limits=settings.limits,
        unsafe=settings.unsafe,
    )


def columns_of(
    results: Iterable[SubmissionResult], settings: Settings, scheme: Scheme
) -> dict[str, Fraction]:
    """The exercises of the table, and the points that the checks give for each, hidden cases included.

    They are those asked for, else those that were found; none that is worth nothing.

    Args:
        results: of the whole collection.
        settings: which may name the exercises.
        scheme: which may take some out.
    """
    most: dict[str, Fraction] = {}
    for exercise in (exercise for result in results for exercise in result.exercises):
        most[exercise.task_id] = max(most.get(exercise.task_id, Fraction(0)), exercise.max_points)
    known = [task_id for task_id in all_tasks() if task_id in most]
    wanted: Iterable[str] = settings.tasks or [*known, *sorted(set(most) - set(known))]
    return {
        task_id: most.get(task_id) or possible_points(task_id)
        for task_id in wanted
        if scheme.worth(task_id) != 0
    }


def mark_all(
    submissions: Sequence[Submission],
    results: dict[str, SubmissionResult],
    scheme: Scheme,
    columns: Mapping[str, Fraction],
) -> list[Mark]:
    """The mark of each submission, in the order of the collection, with its flags.

    Args:
        submissions: as they were found.
        results: by name.
        scheme: points and dates.
        columns: the exercises, and the points that the checks give for each.
    """
    marks = [scheme.mark(submission, results[submission.name], columns) for submission in submissions]
    return [
        replace(mark, flags=tuple(built_in_flags(mark.submission.path, tuple(columns), scheme.forbidden)))
        if mark.submission.path and mark.result.status == "graded"
        else mark
        for mark in marks
    ]


def flag(marks: Sequence[Mark], settings: Settings) -> list[str]:
    """Pairs of submissions of different students that are alike, in words.

    Args:
        marks: of the whole collection.
        settings: which exercises the course gives.
    """
    files = {
        mark.submission.name: mark.submission.path
        for mark in marks
        if mark.submission.path is not None and mark.result.status == "graded"
    }
    students = {mark.submission.name: mark.submission.student for mark in marks}
    given = [one.cells for one in exercise_sets(settings.exercises).values()]
    pairs = similar_pairs(files, given)
    return [str(pair) for pair in pairs if students[pair.first] != students[pair.second]]
