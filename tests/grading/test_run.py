"""A submission is graded whatever it does: honest work keeps its points, nothing else earns any."""

import copy
import json
import sys
from fractions import Fraction

import pytest

from attnlab.checks.engine import TASKS, evaluate, load_tasks
from attnlab.grading import run
from attnlab.grading.budget import MIB, Limits
from attnlab.grading.results import ExerciseResult, SubmissionResult
from attnlab.grading.run import NoExercises, NoSandbox, grade_submission
from tests.grading import notebooks as make

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is for Linux"),
]
STRICT = Limits(cell_seconds=2, exercise_seconds=4, total_seconds=120, memory_bytes=400 * MIB)
ATTENTION = "query_key_value"


@pytest.fixture
def grade(tmp_path):
    def grade_book(book, name="anna.ipynb", **options):
        path = tmp_path / name
        if isinstance(book, dict):
            make.write(book, path)
        else:
            path.write_text(book, encoding="utf-8")
        return grade_submission(path, **options)

    return grade_book


def points(result):
    return {one.task_id.split(".")[1]: (one.status, one.points) for one in result.exercises}


def full(result):
    return {one.task_id.split(".")[1] for one in result.exercises if one.points == one.max_points}


@pytest.mark.parametrize("stem", sorted(path.stem for path in make.SOLUTIONS.glob("*.ipynb")))
def test_the_solutions_earn_every_point(grade, stem):
    tasks = [task for task in load_tasks() if task.startswith(stem[3:]) and task != "translation.project"]
    result = grade(make.solved(stem), tasks=tasks)
    assert result.status == "graded" and result.points == result.max_points > 0
    assert {one.status for one in result.exercises} == {"graded"} and result.notices == ()


def test_an_untouched_notebook_earns_nothing_and_gives_no_trouble(grade):
    result = grade(make.unsolved())
    assert {one.status for one in result.exercises} == {"not attempted"} and result.points == 0
    assert result.max_points == 34 and result.notices == () and result.status == "graded"


def test_a_notebook_that_went_through_other_hands_earns_the_same(grade):
    book = make.solved()
    for cell in book["cells"]:  # as Colab and others save it
        cell.pop("id", None)
        cell["metadata"] = {"id": "x1", "colab": {"base_uri": "https://example.org/"}}
    book["metadata"] = {"colab": {}, "widgets": {"application/vnd.jupyter.widget-state+json": {}}}
    book["nbformat_minor"] = 0
    answers = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    book["cells"].remove(answers[0])  # the set-up
    book["cells"].remove(answers[1])  # the imports
    book["cells"].remove(make.cell_with(book, 'check("query_key_value.attention"'))
    make.cell_with(book, 'check("query_key_value.attend"')["cell_type"] = "markdown"
    make.cell_with(book, 'check("query_key_value.exponent"')["source"] = "assert False, 'edited'"
    book["cells"].append(copy.deepcopy(make.cell_with(book, "class SelfAttention")))
    book["cells"].insert(
        0, book["cells"].pop(book["cells"].index(make.cell_with(book, "def test_attention")))
    )
    make.put(book, "%matplotlib inline\n!pip list\nimport numpy as np", before="def attend")
    result = grade(book)
    assert result.points == result.max_points == 34
    assert any("no check cell for query_key_value.attention" in notice for notice in result.notices)


def test_a_script_earns_the_same(grade):
    cells = [make.source(cell) for cell in make.solved()["cells"] if cell["cell_type"] == "code"]
    script = "\n\n".join(cell for cell in cells if "%pip" not in cell)
    assert grade(script, name="anna.py").points == 34


def test_what_ends_one_exercise_costs_no_other(grade):
    book = make.solved()
    make.put(book, "import os\ndef attention(*_):\n    os._exit(0)", after="def attention(")
    make.put(book, "def attend(*_):\n    while True: pass", after="def attend(")
    make.put(
        book, "class SelfAttention:\n    def __init__(self, **_): raise SystemExit", after="class SelfAtt"
    )
    result = grade(book, limits=STRICT)
    assert full(result) == {"prediction", "exponent", "test_attention"}
    assert points(result)["attention"] == ("stopped", 0) and points(result)["attend"] == ("stopped", 0)
    reasons = {one.task_id.split(".")[1]: one.reason for one in result.exercises}
    assert reasons["attention"] == "it ended its own process" and "endless loop" in reasons["attend"]


def test_cells_that_end_the_process_cost_only_themselves(grade):
    book = make.solved()
    for text in ("import os\nos._exit(1)", "while True: pass", "raise SystemExit", "input('name?')"):
        make.put(book, f"{text}\nattend = attend", after="def attend(")
    make.put(book, "x = [0]\nwhile True: x = [x, x] + [0] * 10**6\nattend = 3", after="def attend(")
    result = grade(book, limits=STRICT)
    assert result.points == 34
    told = "\n".join(result.notices)
    for why in (
        "ended its own process",
        "endless loop",
        "SystemExit",
        "EOFError",
        "MiB of memory|MemoryError",
    ):
        assert any(part in told for part in why.split("|")), told


def test_tricks_earn_nothing_and_cost_honest_work_nothing(grade):
    book = make.solved()
    tricks = (
        "import builtins, attnlab, attnlab.attention, sys\n"
        "class Any(torch.Tensor):\n    pass\n"
        "for name in ('equal', 'allclose', 'isclose', 'softmax'):\n"
        "    setattr(torch, name, lambda *a, **k: True)\n"
        "torch.Tensor.__eq__ = torch.Tensor.__ne__ = lambda *a: True\n"
        "torch.Tensor.softmax = lambda self, dim: self\n"
        "builtins.isinstance = lambda *a: True\n"
        "attnlab.attention.scaled_dot_product_attention = None\n"
        "class Always:\n"
        "    def __eq__(self, other): return True\n"
        "    def __float__(self): return 0.2\n"
        "class Word(str):\n"
        "    def casefold(self): return 'grows'\n"
        "exponent = Always()\n"
        "prediction = {key: Word('x') for key in prediction}\n"
        "def attend(x, *_): return torch.zeros(2, 5, 3).as_subclass(Any)\n"
    )
    make.put(book, tricks, after="def test_attention")
    result = grade(book)
    assert full(result) == {"attention", "SelfAttention", "test_attention"}
    assert {name for name, (_, earned) in points(result).items() if earned} == full(result)
    notes = next(one.notes for one in result.exercises if one.task_id.endswith(".attention"))
    assert any("was replaced in this notebook" in note for note in notes)


def test_answers_learnt_by_heart_earn_nothing(grade):
    task = TASKS[f"{ATTENTION}.attend"]
    heart = []

    def record(*args):
        result = task.reference(*args)
        heart.append(([value.tolist() for value in args], result.tolist()))
        return result

    evaluate(task, record, seed=7, fresh=7)
    book = make.solved()
    code = f"HEART = {heart!r}\ndef attend(*args):\n    given = [one.tolist() for one in args]\n"
    code += "    for known, result in HEART:\n        if known == given: return torch.tensor(result)\n"
    code += "    return torch.zeros(2, 5, 3)"
    make.put(book, code, after="def attend(")
    result = grade(book, tasks=[task.task_id], seed=7)
    (one,) = result.exercises
    assert (
        one.points == 0
        and one.results[-1].message == "right on the fixed inputs, but not on fresh random ones"
    )


def test_the_same_file_gets_the_same_result(grade):
    book = make.unsolved()
    make.put(book, "def attend(x, *_):\n    return torch.randn(2, 5, 3)", after="def attend(")
    options = {"tasks": [f"{ATTENTION}.attend", f"{ATTENTION}.exponent"]}
    first, second = grade(book, **options), grade(book, **options)
    assert first == second and first.exercises[0].status == "graded"
    assert SubmissionResult.from_json(first.to_json()) == first
    assert json.loads(first.to_json())["exercises"][0]["points"] == "0"


def test_hidden_cases_are_run_here_and_not_seen_there(grade, tmp_path):
    hidden = tmp_path / "hidden.py"
    hidden.write_text(
        "from attnlab.checks.engine import expect_tensor, normal\n"
        "from attnlab.grading.hidden import hidden_case\n"
        f"@hidden_case('{ATTENTION}.attend', 'a longer text', points=2)\n"
        "def _(answer, g):\n"
        "    x, w = normal(g, 1, 9, 4), [normal(g, 4, 2) for _ in range(3)]\n"
        "    expect_tensor(answer(x, *w), (1, 9, 2), 'the output')\n",
        encoding="utf-8",
    )
    task = load_tasks()[f"{ATTENTION}.attend"]
    before = list(task.cases)
    try:
        result = grade(make.solved(), tasks=[task.task_id], hidden=hidden)
    finally:
        task.cases[:] = before
    (one,) = result.exercises
    assert one.points == one.max_points == 6 and one.results[-1].hidden


def test_an_answer_in_a_text_cell_and_one_that_is_broken_are_told(grade):
    book = make.solved()
    make.cell_with(book, "def attend(")["cell_type"] = "markdown"
    make.cell_with(book, "def attention(")["source"] = "def attention(query:\n    return 1"
    result = grade(book)
    reasons = {one.task_id.split(".")[1]: (one.status, one.reason) for one in result.exercises}
    assert reasons["attend"] == ("broken", "attend stands in a text cell, which is not run")
    assert reasons["attention"][0] == "broken" and "SyntaxError" in reasons["attention"][1]
    assert full(result) == {"prediction", "exponent", "test_attention"}  # SelfAttention calls attention


def test_a_submission_that_takes_for_ever_gets_its_row(grade):
    book = make.solved()
    make.put(book, "def attention(*_):\n    import time\n    time.sleep(999)", after="def attention(")
    result = grade(book, limits=Limits(total_seconds=12, exercise_seconds=60))
    assert result.status == "graded" and result.exercises[0].status == "stopped"
    assert "used up all of its time" in result.exercises[-1].reason and result.points == 0
    assert result.seconds < 60


def test_what_cannot_be_read_gets_its_row(grade):
    result = grade("{oops", tasks=[f"{ATTENTION}.attend"])
    assert (result.status, result.points, result.max_points) == ("failed", 0, 4)
    assert "JSON is broken" in result.reason and result.exercises[0].reason == result.reason
    assert grade('{"cells": []}').status == "failed"


def test_without_a_sandbox_it_refuses_or_is_told_to_go_on(grade, monkeypatch):
    def missing():
        raise NoSandbox("no bubblewrap")

    monkeypatch.setattr(run, "require_sandbox", missing)
    with pytest.raises(NoSandbox):
        grade(make.solved())
    result = grade(make.solved(), tasks=[f"{ATTENTION}.attend"], unsafe=True)
    assert result.points == 4


def test_a_wrong_use_is_told_at_once(grade):
    with pytest.raises(NoExercises):
        grade(make.solved(), tasks=["nothing.at_all"])


def test_points_stay_exact_in_json():
    report = evaluate(load_tasks()[f"{ATTENTION}.prediction"], None)
    result = ExerciseResult.of(report, status="not attempted")
    assert ExerciseResult.from_dict(json.loads(json.dumps(result.as_dict()))) == result
    data = {**result.as_dict(), "status": "graded"}
    for case in data["results"]:
        case |= {"points": "1/7", "max_points": "1/7"}
    assert ExerciseResult.from_dict(data).points == Fraction(len(data["results"]), 7)
    for broken in ({}, {**data, "status": "right"}, {**data, "results": [{"points": "1/0"}]}):
        with pytest.raises(ValueError, match="status|exercise"):
            ExerciseResult.from_dict(broken)
