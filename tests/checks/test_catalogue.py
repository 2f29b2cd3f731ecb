"""Every exercise of every chapter: right answers get full marks, known mistakes are caught and named."""

from __future__ import annotations

import itertools

import pytest
import torch

from attnlab.checks.catalogue import trials
from attnlab.checks.engine import evaluate, load_tasks
from attnlab.checks.registry import chapters
from attnlab.checks.tasks import KINDS
from attnlab.checks.values import ValueTask
from tests.checks.right_answers import right_answers

TASKS = load_tasks()
SLUGS = list(chapters())
RIGHT = {task_id: answers for slug in SLUGS for task_id, answers in right_answers(slug).items()}
PROGRAMS = [task_id for task_id, task in TASKS.items() if not isinstance(task, ValueTask)]
PATIENT = 120.0  # seconds: a busy machine must not fail a test


def judged(task_id: str, answer: object, seed: int):
    return evaluate(TASKS[task_id], answer, seed=seed, fresh=seed + 1000, hidden=True, seconds=PATIENT)


# --- the sets ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slug", SLUGS)
def test_a_set_has_four_to_eight_exercises_of_at_least_three_kinds(slug: str) -> None:
    kinds = [task.kind for task in TASKS.values() if task.lesson == slug]
    assert 4 <= len(kinds) <= 8
    assert len(set(kinds)) >= 3
    assert {"implement", "predict"} <= set(kinds)


def test_the_course_has_every_kind_of_exercise() -> None:
    assert {task.kind for task in TASKS.values()} == set(KINDS)


@pytest.mark.parametrize("task_id", TASKS)
def test_every_mistake_has_a_hint_of_its_own_words(task_id: str) -> None:
    hints = [mistake.hint for mistake in TASKS[task_id].mistakes]
    assert hints and all(len(hint) > 20 and hint[-1] in ".?!)" for hint in hints)


# --- right answers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("task_id", TASKS)
def test_the_reference_gets_full_marks(task_id: str, seed: int) -> None:
    report = judged(task_id, TASKS[task_id].right(), seed)
    assert report.passed and report.points == report.max_points and not report.hints, report


@pytest.mark.parametrize("task_id", PROGRAMS)
def test_three_other_right_answers_are_known(task_id: str) -> None:
    assert len(RIGHT.get(task_id, ())) >= 3


@pytest.mark.parametrize(
    ("task_id", "answer"),
    [(task_id, answer) for task_id, answers in RIGHT.items() for answer in answers],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", "answer"),
)
@pytest.mark.parametrize("seed", range(3))
def test_a_right_answer_gets_full_marks_however_it_is_written(
    task_id: str, answer: object, seed: int
) -> None:
    report = judged(task_id, answer, seed)
    assert report.passed and not report.hints, report


@pytest.mark.parametrize("task_id", [task_id for task_id in TASKS if task_id not in PROGRAMS])
@pytest.mark.parametrize("number", [int, float, torch.tensor])
def test_a_value_may_be_any_kind_of_number(task_id: str, number: type) -> None:
    def other(value: object) -> object:
        whole = isinstance(value, float) and (number is not int or value.is_integer())
        return number(value) if whole or type(value) is int else value

    answer = TASKS[task_id].right()
    answer = (
        {key: other(value) for key, value in answer.items()} if isinstance(answer, dict) else other(answer)
    )
    assert judged(task_id, answer, 0).passed


# --- known mistakes ---------------------------------------------------------------------------------------


@pytest.mark.timeout(1200)  # some hundred answers are judged
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("task_id", TASKS)
def test_each_mistake_is_caught_and_named_and_so_is_each_pair(task_id: str, seed: int) -> None:
    """On three seeds; pairs, which are many, on the first. ``make catalogue`` tries all on all."""
    wrong = []
    for trial in trials(TASKS[task_id], seed, pairs=seed == 0):
        alone = len(trial.planted) == 1
        named = trial.named == trial.planted if alone else trial.rightly
        if not (trial.caught and named):
            wrong.append(trial)
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("task_id", TASKS)
def test_no_hint_holds_the_reference(task_id: str) -> None:
    hints = [mistake.hint for mistake in TASKS[task_id].mistakes]
    pairs = itertools.combinations(hints, 2)
    assert sum(first == second for first, second in pairs) <= len(hints) // 3


@pytest.mark.parametrize("answer", [None, ...], ids=["none", "ellipsis"])
@pytest.mark.parametrize("task_id", TASKS)
def test_nothing_is_no_attempt(task_id: str, answer: object) -> None:
    report = judged(task_id, answer, 0)
    assert not report.attempted and report.points == 0


@pytest.mark.parametrize("task_id", PROGRAMS)
def test_an_unwritten_stub_is_no_attempt(task_id: str) -> None:
    def stub(*args: object, **kwargs: object) -> None:
        raise NotImplementedError("your turn")

    report = judged(task_id, stub, 0)
    assert not report.attempted and report.points == 0
