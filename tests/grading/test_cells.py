"""Which cells of a submission are run: a learner's, whatever has become of the notebook around them."""

import pytest

from attnlab.grading.bridge import code, nothing
from attnlab.grading.bridge.cells import Notebook, numbered

OURS = [
    "import math\nfrom fractions import Fraction",
    "def f(x):\n    raise NotImplementedError",
    "base = 10",
    "base += 1\ndef helper(x):\n    return x + base",
    "shown = [f(k) for k in range(3)]",
    "guess = None",
]
CHECKS = {"set.f": "f", "set.guess": "guess"}


@pytest.fixture
def run():
    nothing.seen.clear()

    def grade(*theirs, ours=OURS, answers=CHECKS, script=False):
        ran = []

        def attempt(number, function, makes):
            ran.append(number)
            try:
                function()
            except Exception as error:
                return "error", f"{type(error).__name__}: {error}"
            return "ok", ""

        space = {"check": nothing.check}
        book = Notebook(space, answers, attempt)
        book.run(list(ours), numbered(list(enumerate(theirs, 1)), script))
        book.ran = ran
        return book

    yield grade
    nothing.seen.clear()


F = "def f(x):\n    return helper(x) * math.pi"


def test_helpers_of_the_course_are_run_where_they_are_needed(run):
    book = run(F)
    assert book.answer("set.f")[1](1) == 12 * __import__("math").pi
    assert book.answer("set.guess") == (False, None)
    assert book.log == [[1, "ok", ""]]
    assert "shown" not in book.space


def test_cells_of_the_course_are_not_run_twice(run):
    book = run(*OURS[:1], F, *OURS[2:5], "guess = 3")
    assert book.space["base"] == 11
    assert [number for number, _, _ in book.log] == [2, 6]


def test_an_answer_above_what_it_needs_is_run_again(run):
    book = run("def f(x):\n    return x\nf.level = LEVEL", "LEVEL = 4", "import math")
    assert book.answer("set.f")[1].level == 4


def test_the_stub_that_is_left_over_does_not_undo_the_answer(run):
    book = run(F, OURS[1], OURS[5], "guess = 3", OURS[5])
    assert book.answer("set.f")[1](0) > 0 and book.answer("set.guess") == (True, 3)


def test_the_untouched_stub_is_an_answer_of_its_own(run):
    book = run(*OURS)
    with pytest.raises(NotImplementedError):
        book.answer("set.f")[1](1)
    assert book.answer("set.guess") == (True, None)


def test_an_answer_under_another_name_is_found_by_its_check(run):
    book = run("def mine(x):\n    return 7", 'check("set.f", mine)')
    assert book.answer("set.f")[1](0) == 7


def test_a_name_that_was_used_again_does_not_lose_the_answer(run):
    book = run(F, 'check("set.f", f)', "f = [1, 2]\nguess = f")
    assert callable(book.answer("set.f")[1])


def test_a_later_answer_is_the_better_one(run):
    book = run("def f(x):\n    return 1", 'check("set.f", f)', "def f(x):\n    return 2")
    assert book.answer("set.f")[1](0) == 2


def test_a_cell_that_fails_costs_only_what_needs_it(run):
    book = run("def f(x:\n    return", "guess = 4", "1 / 0\nguess = 5", "guess = guess + 1")
    assert book.answer("set.guess") == (True, 5) and book.broken("set.f") == 1
    assert [status for _, status, _ in book.log] == ["error", "ok", "error", "ok"]


def test_experiments_beside_the_answers_are_not_run(run):
    book = run(F, "while True: pass", "x = [0]\nx.append(1)\nprint(x, f)", "y = len('z')")
    assert set(book.ran) & {2, 4} == {2, 4}  # read
    assert [number for number, _, _ in book.log] == [1, 3]


@pytest.mark.parametrize(
    "change",
    [
        "f.__defaults__ = (5,)",
        "setattr(f, '__defaults__', (5,))",
        "globals()['f'].__defaults__ = (5,)",
        "def give(g):\n    g.__defaults__ = (5,)\ngive(f)",
        "other = f\nother.__defaults__ = (5,)\nf = other",
    ],
)
def test_what_changes_an_answer_is_run(run, change):
    book = run("def f(x=1):\n    return x", *change.split("\n\n"))
    assert book.answer("set.f")[1]() == 5


def test_a_script_without_cells_is_run_statement_by_statement(run):
    script = "import os\n1 / 0\n@staticmethod\ndef f(x):\n    return 3\nguess = (\n  4)\n"
    book = run(script, script=True)
    assert book.answer("set.f")[1](0) == 3 and book.answer("set.guess") == (True, 4)
    broken = run("def f(x:\n  pass", script=True)
    assert broken.broken("set.f") == 1


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        ("%matplotlib inline\nx = 1", "pass\nx = 1"),
        ("!pip install torch\nx = 1", "pass\nx = 1"),
        ("%%time\nx = 1", "x = 1"),
        ("%%bash\nrm -rf /", ""),
        ("x = !ls\ny = 2", "x = None\ny = 2"),
        ("f?\nx = 1", "pass\nx = 1"),
        ("x = 5 %\\\n  3", "x = 5 %\\\n  3"),
        ('x = """\n%time\n"""', 'x = """\n%time\n"""'),
        ("%%", ""),
    ],
)
def test_commands_of_jupyter_are_left_out(source, plain):
    assert code.plain(source) == plain


def test_names_are_found_without_running_anything():
    names = code.names_of(
        "import a.b as c\nfrom d import e\n"
        "def f(x, y=G):\n    z = H\n    def g():\n        return z + K\n    return g\n"
        "L.m = 1\nN[0] += 2\nP.q(R)\nfor s in T: pass\n"
    )
    assert names.binds == {"c", "e", "f", "s", "L", "N", "P"}
    assert {"G", "H", "K", "L", "N", "P", "R", "T"} <= names.uses and not names.uses & {"z", "x", "g"}
    assert names.imports == {"c", "e"} and names.touches == {"R"} and not names.dynamic
    assert code.names_of("from x import *").dynamic


def test_what_stands_for_the_checks_takes_part_in_anything():
    report = nothing.check("set.f", 3)
    with report as inner:
        assert inner.passed and list(report.results) == [] and repr(report) == ""
    assert nothing.seen["set.f"] == 3
    nothing.seen.clear()
