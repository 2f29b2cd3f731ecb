"""Hidden cases come from a file of the instructor's, stay hidden, and are refused where they are mistaken."""

import pytest
import torch

from attnlab.checks.engine import evaluate
from attnlab.checks.registry import find
from attnlab.grading import hidden

HEAD = "from attnlab.grading.hidden import hidden_case\nfrom attnlab.checks.engine import *\n"
GOOD = (
    HEAD
    + """
@hidden_case("query_key_value.attend", "a long sequence", points=2)
def _(answer, g):
    x, *w = normal(g, 2, 50, 6), *(normal(g, 6, 4) for _ in range(3))
    expect_tensor(answer(x, *w), (2, 50, 4), "the output")
"""
)


@pytest.fixture
def task():
    task = find("query_key_value.attend")
    before = list(task.cases)
    yield task
    task.cases[:] = before
    hidden._loaded.clear()


@pytest.fixture
def write(tmp_path):
    def write(text, name="mine.py"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_case_is_added_once_and_learners_do_not_see_it(task, write):
    visible = task.max_points
    path = write(GOOD)
    assert hidden.load_hidden(path) == hidden.load_hidden(path)
    assert task.max_points == visible
    right, wrong = task.right(), lambda x, *w: torch.zeros(1)
    for answer, points in ((right, 2), (wrong, 0)):
        results = {case.name: case for case in evaluate(task, answer, hidden=True, fresh=1).results}
        assert (results["a long sequence"].points, results["a long sequence"].hidden) == (points, True)
    assert "a long sequence" not in {case.name for case in evaluate(task, right, fresh=1).results}


def test_a_remark_on_a_hidden_case_is_kept_to_itself(task, write):
    hidden.load_hidden(write(GOOD.replace('"the output"', '"a secret word"')))
    report = evaluate(
        task, lambda *given: task.right()(*(one.double() for one in given)), hidden=True, fresh=1
    )
    assert report.notes and not any("secret" in note for note in report.notes)
    assert sum(case.points for case in report.results) == sum(case.max_points for case in report.results)


def test_a_file_that_changes_while_it_is_used_is_refused(task, write):
    hidden.load_hidden(write(GOOD))
    with pytest.raises(hidden.HiddenCasesError, match="changed while it was in use"):
        hidden.load_hidden(write(GOOD + "\n"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1", "adds no case"),
        ("def broken(:", "SyntaxError while it ran"),
        ("1 / 0", "ZeroDivisionError while it ran"),
        (
            HEAD + "hidden_case('query_key_value.attent', 'x', 1)",
            "no exercise is called 'query_key_value.attent'",
        ),
        (HEAD + "hidden_case('query_key_value.exponent', 'x', 1)", "is a value"),
        (
            "from attnlab.checks.registry import find\n"
            "find('query_key_value.attend').case('x', 1)(lambda answer, g: None)",
            "a case that is not hidden",
        ),
    ],
)
def test_a_mistake_in_the_file_is_told(text, reason, task, write):
    with pytest.raises(hidden.HiddenCasesError, match=reason):
        hidden.load_hidden(write(text))


def test_a_missing_file_and_another_kind_of_file_are_told(tmp_path, write):
    with pytest.raises(hidden.HiddenCasesError, match="No such file"):
        hidden.load_hidden(tmp_path / "nowhere.py")
    with pytest.raises(hidden.HiddenCasesError, match="a Python file"):
        hidden.load_hidden(write(GOOD, "mine.txt"))
