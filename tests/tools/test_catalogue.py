"""The table of known mistakes says what is wrong with a catalogue, and ends accordingly."""

import pytest
import torch

from attnlab.checks.engine import TASKS, FunctionTask, Mistake, expect_close, normal
from tools import catalogue


def double(x, *, factor=2.0):
    return factor * x


@pytest.fixture
def make(monkeypatch):
    """Function that makes a task of its own, seen by the table alone."""

    def define(mistakes, *, strict):
        task = FunctionTask(
            "demo.double", "Double", double, probes=lambda g: [(normal(g, 3),)], mistakes=mistakes
        )

        @task.case("all numbers", 1)
        def _(answer, g):
            x = normal(g, 4) if strict else torch.zeros(4)
            expect_close(answer(x), double(x))

        monkeypatch.setattr(catalogue, "load_tasks", lambda: {task.task_id: task})
        monkeypatch.setattr(catalogue, "right_answers", lambda slug: {task.task_id: [lambda x: x + x]})
        return task

    yield define
    TASKS.pop("demo.double", None)


TRIPLE = Mistake("triple", "Three times is once too often.", {"factor": 3.0})
THRICE = Mistake("thrice", "That is the same as triple.", {"factor": 3.0})


def test_a_sound_catalogue_ends_with_0(make, capsys):
    make([TRIPLE], strict=True)
    assert catalogue.main(["--seeds", "2"]) == 0
    said = capsys.readouterr().out
    assert "demo.double" in said and "100 %" in said and "1 exercises" in said


def test_a_mistake_that_is_not_caught_is_told(make, capsys):
    make([TRIPLE], strict=False)
    assert catalogue.main(["--seeds", "1"]) == 1
    assert "made ('triple',), named ()" in capsys.readouterr().out


def test_a_mistake_that_is_named_wrongly_is_told(make, capsys):
    make([TRIPLE, THRICE], strict=True)
    assert catalogue.main(["--seeds", "1"]) == 1
    assert "made ('thrice',), named ('triple',)" in capsys.readouterr().out


def test_a_right_answer_that_is_refused_is_told(make, capsys, monkeypatch):
    make([TRIPLE], strict=True)
    monkeypatch.setattr(catalogue, "right_answers", lambda slug: {"demo.double": [lambda x: x * 3]})
    assert catalogue.main(["--seeds", "1"]) == 1
    assert "refused right answer 1" in capsys.readouterr().out


def test_an_unknown_lesson_is_told(make, capsys):
    make([TRIPLE], strict=True)
    with pytest.raises(SystemExit):
        catalogue.main(["nothing"])
    assert "expected lessons with exercises, got nothing" in capsys.readouterr().err
