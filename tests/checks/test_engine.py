"""The check engine: whatever an answer does, a verdict comes back, in the same words, and never too kind."""

import html.parser
import itertools
import json
import math
import os
import random
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

from attnlab.checks import check
from attnlab.checks import engine as e
from attnlab.checks.limits import MOST_CHARACTERS, SHOWN_CHARACTERS
from attnlab.checks.tasks import TASKS

JUNK_TASKS = [
    "query_key_value.attention",
    "query_key_value.SelfAttention",
    "query_key_value.prediction",
    "query_key_value.attend",
    "query_key_value.exponent",
    "query_key_value.test_attention",
]


@pytest.fixture
def make():
    """Define tasks that are forgotten again after the test."""
    before = dict(TASKS)
    numbers = itertools.count()

    def define(reference=None, mistakes=(), **options):
        task = e.FunctionTask(
            f"trial.task{next(numbers)}",
            "A trial",
            reference or weights,
            probes=lambda g: [(e.normal(g, 2, 3, 5),)],
            mistakes=mistakes,
            **options,
        )

        @task.case("the weights", 1)
        def _(answer, g):
            scores = e.normal(g, 2, 3, 5)
            e.expect_close(answer(scores), weights(scores), "the weights")

        return task

    yield define
    TASKS.clear()
    TASKS.update(before)


def weights(scores, *, axis=-1, factor=1.0):
    return (factor * scores).softmax(dim=axis)


AXIS = e.Mistake("axis", "The softmax runs over the queries.", {"axis": -2})
FACTOR = e.Mistake("factor", "The scores are doubled.", {"factor": 2.0})


# --- points, hints, data ----------------------------------------------------------------------------------


def test_single_mistakes_and_pairs_are_named(make):
    task = make(mistakes=[AXIS, FACTOR])
    assert e.evaluate(task, weights).passed
    for mistakes in ((AXIS,), (FACTOR,), (AXIS, FACTOR)):
        report = e.evaluate(task, task.answer_with(*mistakes))
        assert report.points == 0
        assert report.mistakes == tuple(mistake.key for mistake in mistakes)
        assert all(mistake.hint in repr(report) for mistake in mistakes)


def test_an_unknown_mistake_gets_no_hint_of_a_known_one(make):
    report = e.evaluate(make(mistakes=[AXIS, FACTOR]), lambda scores: scores.sigmoid())
    assert not report.passed and report.mistakes == () and "No known mistake" in repr(report)


def test_seven_sevenths_are_one(make):
    task = make()
    task.cases.clear()
    for number in range(7):
        task.case(f"part {number}", 1 / 7)(lambda answer, g: answer(e.normal(g, 2, 3)))
    report = e.evaluate(task, weights)
    assert report.points == 1.0 == report.max_points == task.max_points and report.passed
    assert "1 of 1 points" in repr(report)


def test_hidden_cases_count_only_where_they_are_asked_for(make):
    task = make()
    task.cases.clear()

    def fails(answer, g):
        answer(e.normal(g, 2, 3))
        raise e.Failed("no")

    for number in range(2):
        task.case(f"public {number}", 1)(lambda answer, g: answer(e.normal(g, 2, 3)))
    for number in range(3):
        task.case(f"hidden {number}", 1, hidden=True)(fails)
    everything = e.evaluate(task, weights, hidden=True)
    assert (everything.points, everything.max_points) == (2, 5)
    public = e.evaluate(task, weights)
    assert (public.points, public.max_points) == (2, 2) and "hidden" not in repr(public)


def test_a_report_is_plain_data(make):
    report = e.evaluate(make(mistakes=[AXIS]), lambda scores: weights(scores, axis=-2))
    data = json.loads(json.dumps(report.as_dict()))
    assert data["mistakes"] == ["axis"] and data["results"][0]["status"] == "wrong" and data["points"] == 0


def test_no_expected_number_stands_in_the_feedback(make):
    def constant(scores, *, wrong=False):
        return torch.full((2, 3), 0.1 if wrong else 0.731)

    task = make(constant)
    task.cases.clear()
    task.case("a constant", 1)(
        lambda answer, g: e.expect_close(answer(e.normal(g, 2, 3)), torch.full((2, 3), 0.731))
    )
    assert "731" not in repr(e.evaluate(task, lambda scores: torch.full((2, 3), 0.1)))


def test_an_infinity_is_close_to_nothing_but_itself(make):
    def hide(scores, *, by=-math.inf):
        return scores.masked_fill(torch.arange(5) < 2, by)

    task = make(hide, mistakes=[e.Mistake("billion", "A large number is no infinity.", {"by": -1e9})])
    task.cases.clear()

    @task.case("hidden scores", 1)
    def _(answer, g):
        scores = e.normal(g, 2, 3, 5)
        e.expect_close(answer(scores), hide(scores))

    assert e.evaluate(task, hide).passed
    report = e.evaluate(task, lambda scores: hide(scores, by=-1e9))
    assert report.points == 0 and report.mistakes == ("billion",)
    assert e.evaluate(task, lambda scores: hide(scores, by=math.inf)).points == 0


def double(x, *, factor=2.0):
    return factor * x


@pytest.fixture
def judging():
    """A task whose answer is a test of ``double``, with four wrong programs and two right ones."""
    before = dict(TASKS)

    def example(program):
        assert torch.equal(program(torch.tensor(3.0)), torch.tensor(6.0))

    factors = {"triple": 3.0, "once": 1.0, "minus": -2.0, "nothing": 0.0}
    yield e.JudgeTask(
        "trial.test_double",
        "A test",
        reference=double,
        probes=lambda g: [(torch.tensor(3.0),)],
        example=example,
        also_right=[lambda x: x + x],
        mistakes=[e.Mistake(key, "Your test lets it pass.", {"factor": f}) for key, f in factors.items()],
        points=4,
    )
    TASKS.clear()
    TASKS.update(before)


@pytest.mark.parametrize("accepted", range(1, 7))  # of the six programs of a round
def test_a_test_that_counts_its_calls_gains_next_to_nothing(judging, accepted):
    points = []
    for seed in range(8):
        calls = itertools.count()
        report = e.evaluate(judging, lambda program, calls=calls: next(calls) % 6 < accepted, seed=seed)
        points.append(report.points)
    assert sum(points) / len(points) < 1, points


def test_a_learners_test_sees_each_program_once_a_round(judging):
    seen = []

    def test(program):
        seen.append(program(torch.tensor(3.0)).item())
        return seen[-1] == 6.0

    assert e.evaluate(judging, test).passed
    assert len(seen) == 2 * 6  # on the fixed inputs, then on fresh ones
    assert sorted(seen[:6]) == sorted(seen[6:]) == [-6.0, 0.0, 3.0, 6.0, 6.0, 9.0]


def test_a_learners_test_that_was_changed_through_what_it_calls_is_judged_anew(judging):
    wanted = [5.0]

    def test(program):
        assert program(torch.tensor(3.0)) == wanted[0]

    assert e.evaluate(judging, test).points == 0
    wanted[0] = 6.0
    assert e.evaluate(judging, test).passed
    wanted[0] = 5.0
    assert e.evaluate(judging, test).points == 0


def test_a_test_that_fails_on_one_program_loses_that_one_alone(judging):
    def test(program):
        result = program(torch.tensor(3.0))
        if result == 9:
            raise RuntimeError("no threes")
        return bool(result == 6)

    report = e.evaluate(judging, test)
    assert report.points == 3
    assert [result.status for result in report.results].count("error") == 1


# --- the same words each time -----------------------------------------------------------------------------


def test_the_text_is_the_same_although_fresh_values_are_drawn(make):
    task = make(mistakes=[AXIS])
    seen = []

    def wrong(scores):
        seen.append(scores.clone())
        return weights(scores, axis=-2)

    def nearly(scores):
        seen.append(scores.clone())
        return weights(scores) + 0.3 * torch.rand(scores.shape)

    for answer in (wrong, nearly):
        texts = {(repr(report := e.evaluate(task, answer)), report._repr_html_()) for _ in range(4)}
        assert len(texts) == 1, texts

    seen.clear()
    for _ in range(2):
        e.evaluate(task, lambda scores: (seen.append(scores.clone()), weights(scores))[1])
    fixed_1, fresh_1, fixed_2, fresh_2 = seen
    assert torch.equal(fixed_1, fixed_2)
    assert not torch.equal(fresh_1, fresh_2) and not torch.equal(fixed_1, fresh_1)


def test_an_answer_that_knows_the_fixed_values_gains_nothing(make):
    task = make()
    known = []
    e.evaluate(task, lambda scores: known.append(scores.clone()) or weights(scores))

    def by_heart(scores):
        return weights(scores) if torch.equal(scores, known[0]) else torch.zeros_like(scores)

    report = e.evaluate(task, by_heart)
    assert report.points == 0 and "fresh" in repr(report)


def test_addresses_paths_and_long_texts_are_left_out_of_messages(make):
    def raises(scores):
        raise RuntimeError(f"{object()} in {os.path.join(os.sep, 'home', 'me', 'thing.py')} " + "x" * 1000)

    report = e.evaluate(make(), raises)
    message = report.results[0].message
    assert report.results[0].status == "error" and message.startswith("RuntimeError")
    assert "0x" not in message and "home" not in message and len(message) < 500


def test_random_states_and_the_default_number_type_are_given_back(make):
    def unruly(scores):
        torch.set_default_dtype(torch.float64)
        random.random()
        torch.rand(3)
        return weights(scores)

    torch.manual_seed(5)
    random.seed(5)
    wanted = torch.rand(2), random.random()
    torch.manual_seed(5)
    random.seed(5)
    assert e.evaluate(make(), unruly).passed
    assert torch.get_default_dtype() == torch.float32
    assert torch.equal(torch.rand(2), wanted[0]) and random.random() == wanted[1]


# --- told in words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda scores: weights(scores).tolist(), "should be a torch.Tensor, but this is a list"),
        (lambda scores: weights(scores)[0], "shape (2, 3, 5), but the shape is (3, 5)"),
        (lambda scores: weights(scores).round().long(), "int64, where float32 was expected"),
        (lambda scores: weights(scores).half(), "float16, where float32 was expected"),
        (lambda scores: weights(scores) * torch.nan, "30 of 30 numbers are NaN or infinite"),
        (lambda scores: weights(scores).to("meta"), "on the cpu like the inputs, but it is on meta"),
        (lambda: 1, "TypeError"),
        (lambda scores: undefined, "NameError"),  # noqa: F821
        ("weights", "a function is wanted here, but this is a str"),
        (3, "a function is wanted here, but this is an int"),
    ],
)
def test_what_is_wrong_is_told_in_words(make, answer, words):
    report = e.evaluate(make(), answer)
    assert report.points == 0 and words in repr(report)


def test_a_wider_number_type_is_accepted_with_a_note(make):
    report = e.evaluate(make(), lambda scores: weights(scores.double()))
    assert report.passed
    assert report.notes == ("the weights: the numbers are float64, where float32 was expected; accepted",)


def test_a_function_that_changes_its_input_is_told_so(make):
    def in_place(scores):
        scores -= scores.amax(dim=-1, keepdim=True)
        return weights(scores)

    report = e.evaluate(make(), in_place)
    assert report.points == 0 and "changes its first argument" in repr(report)


# --- not attempted ----------------------------------------------------------------------------------------


def unwritten(*args, **kwargs):
    raise NotImplementedError("your turn")


UNWRITTEN = [None, ..., unwritten, lambda *args, **kwargs: None, lambda *args, **kwargs: ...]


@pytest.mark.parametrize("answer", UNWRITTEN)
def test_unwritten_code_is_not_attempted_yet(make, answer):
    report = e.evaluate(make(mistakes=[AXIS]), answer)
    assert not report.attempted and report.points == 0
    assert repr(report) == "A trial: not attempted yet" and "not attempted yet" in report._repr_html_()


def test_an_unwritten_module_is_not_attempted_yet():
    class Unwritten(nn.Module):
        def __init__(self, d_model, d_k, d_v, dropout=0.0):
            super().__init__()
            raise NotImplementedError("your turn")

    class HalfWritten(nn.Module):
        def __init__(self, d_model, d_k, d_v, dropout=0.0):
            super().__init__()
            self.w_q, self.w_k = nn.Linear(d_model, d_k, bias=False), nn.Linear(d_model, d_k, bias=False)
            self.w_v = nn.Linear(d_model, d_v, bias=False)

        def forward(self, x, mask=None):
            raise NotImplementedError("your turn")

    for answer in (Unwritten, HalfWritten):
        report = check("query_key_value.SelfAttention", answer)
        assert not report.attempted and report.points == 0, report


def test_an_answer_is_looked_up_by_name_where_check_is_called(make):
    task = make()
    task.task_id = "trial.found"
    TASKS["trial.found"] = task
    assert not check("trial.found").attempted
    found = weights
    assert check("trial.found").passed
    del found


def test_the_same_message_is_not_said_twice(make):
    task = make()
    task.case("again", 1)(task.cases[0].run)
    report = e.evaluate(task, lambda: 1)
    assert report.results[0].message == report.results[1].message
    for text in (repr(report), report._repr_html_()):
        assert text.count("TypeError") == 1 and text.count("as above") == 1


def test_an_unknown_exercise_is_said_to_be_unknown():
    report = check("query_key_value.atention", weights)
    assert not report.attempted and "query_key_value.attention" in repr(report)


# --- junk -------------------------------------------------------------------------------------------------


class EqualsEverything:
    dtype, shape, device, __class__ = torch.float32, (2, 3, 5), torch.device("cpu"), torch.Tensor

    def __eq__(self, other):
        return True

    def __getattr__(self, name):
        return lambda *args, **kwargs: self

    __hash__ = None
    __add__ = __sub__ = __mul__ = __lt__ = __le__ = __eq__
    __iter__ = lambda self: iter([self, self])  # noqa: E731


class EqualTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True


class BadText(Exception):
    def __str__(self):
        raise SystemExit


def raise_(error):
    raise error


JUNK = {
    "text": "attention",
    "number": 0.123,
    "class": int,
    "type": type,
    "object": object(),
    "equals everything": EqualsEverything(),
    "returns text": lambda *a, **k: "x",
    "returns its input": lambda *a, **k: a[0] if a else 0,
    "returns what equals everything": lambda *a, **k: EqualsEverything(),
    "returns two that equal everything": lambda *a, **k: (EqualsEverything(), EqualsEverything()),
    "returns tensors that equal everything": lambda *a, **k: (EqualTensor(), EqualTensor()),
    "returns itself": lambda *a, **k: JUNK["returns itself"],
    "raises": lambda *a, **k: 1 / 0,
    "raises without text": lambda *a, **k: raise_(BadText()),
    "exits": lambda *a, **k: sys.exit(3),
    "interrupts": lambda *a, **k: raise_(KeyboardInterrupt()),
    "stops generators": lambda *a, **k: raise_(StopIteration()),
    "wrong arity": lambda: 0,
    "recursion": lambda *a, **k: JUNK["recursion"](*a, **k),
    "generator": lambda *a, **k: itertools.count(),
}


@pytest.mark.parametrize("task_id", JUNK_TASKS)
@pytest.mark.parametrize("name", JUNK)
def test_junk_never_raises_and_gains_nothing(task_id, name):
    report = check(task_id, JUNK[name])
    assert report.points == 0 and not report.passed, report
    assert report._repr_html_() and repr(report) == repr(check(task_id, JUNK[name]))


@pytest.mark.parametrize(
    "patch", ["allclose", "equal", "isclose", "softmax", "Tensor.softmax", "Tensor.tolist", "Tensor.__eq__"]
)
def test_a_patched_torch_gains_nothing_and_stays_patched(make, monkeypatch, patch):
    owner, name = (torch.Tensor, patch.removeprefix("Tensor.")) if "." in patch else (torch, patch)
    fake = lambda *args, **kwargs: True  # noqa: E731
    monkeypatch.setattr(owner, name, fake, raising=False)
    report = e.evaluate(make(), lambda scores: torch.zeros(2, 3, 5))
    assert report.points == 0
    assert getattr(owner, name) is fake
    assert any(name in note and "replaced" in note for note in report.notes)


# --- limits -----------------------------------------------------------------------------------------------


def endless(*args, **kwargs):
    while True:
        pass


HELD = threading.Event()


@pytest.fixture
def let_go():
    """What could not be stopped must not slow down the tests that follow."""
    HELD.set()
    yield
    HELD.clear()


def stubborn(*args, **kwargs):
    while HELD.is_set():
        try:
            while HELD.is_set():
                pass
        except BaseException:
            pass


def endless_when_printed(*args, **kwargs):
    class Slow(Exception):
        def __str__(self):
            endless()

    raise Slow


@pytest.mark.parametrize("answer", [endless, stubborn, endless_when_printed])
def test_an_endless_loop_is_stopped(make, let_go, answer):
    before = set(threading.enumerate())
    report = e.evaluate(make(), answer)
    assert report.points == 0 and report.results[0].status == "stopped"
    if answer is not stubborn:  # which may be left behind, with a note
        assert set(threading.enumerate()) <= before


def test_an_endless_loop_is_stopped_in_a_thread_and_the_next_check_works(make):
    task, reports = make(), []
    thread = threading.Thread(target=lambda: reports.append(e.evaluate(task, endless, seconds=0.3)))
    thread.start()
    thread.join(60)
    assert reports and reports[0].results[0].status == "stopped"
    assert e.evaluate(task, weights).passed


def test_one_endless_case_ends_the_check(make):
    task = make()
    task.case("another", 1)(lambda answer, g: answer(e.normal(g, 2, 3, 5)))
    report = e.evaluate(task, endless, seconds=0.3)
    assert [result.status for result in report.results] == ["stopped", "skipped"]


def test_a_sleeping_answer_is_left_behind_with_a_note(make):
    over = threading.Event()
    report = e.evaluate(make(), lambda scores: over.wait(120), seconds=0.5)
    over.set()
    assert report.results[0].status == "stopped" and "restart the kernel" in repr(report)


def test_a_giant_print_is_cut_and_ended(make, capsys):
    def prints(scores):
        for number in range(10**7):
            print("line", number)
        return weights(scores)

    stdout = sys.stdout
    report = e.evaluate(make(), prints)
    shown = capsys.readouterr().out
    assert "prints without end" in repr(report) and report.points == 0
    assert len(shown) < SHOWN_CHARACTERS + 200 and "left out" in shown and "line 1\n" in shown
    assert sys.stdout is stdout and MOST_CHARACTERS <= 1_000_000


def test_a_right_answer_may_print_and_draw(make, capsys):
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    def prints(scores):
        print("scores", tuple(scores.shape))
        plt.plot([1, 2])
        plt.close("all")
        return weights(scores)

    assert e.evaluate(make(), prints).passed
    assert capsys.readouterr().out == 2 * "scores (2, 3, 5)\n"


# --- HTML -------------------------------------------------------------------------------------------------


class WellFormed(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(report):
    parser = WellFormed()
    parser.feed(report._repr_html_())
    parser.close()
    assert parser.open == []
    return parser


def test_html_is_well_formed_escaped_and_says_everything_in_words(make):
    def raises(scores):
        raise ValueError("<script>alert(1)</script> & <b>")

    task = make(mistakes=[AXIS])
    reports = [e.evaluate(task, answer) for answer in (weights, None, raises, task.answer_with(AXIS))]
    for report in reports:
        parser = parsed(report)
        assert not {"script", "b", "img", "iframe"} & {tag for tag, _ in parser.seen}
        assert not any(name.startswith("on") for _, attrs in parser.seen for name in attrs)
        assert ("role", "group") in [item for _, attrs in parser.seen for item in attrs.items()]
        text = report._repr_html_()
        for result in report.results if report.attempted else ():
            assert f"<strong>{result.status}</strong>" in text
    assert "&lt;script&gt;" in reports[2]._repr_html_() and AXIS.hint in reports[3]._repr_html_()


# --- values -----------------------------------------------------------------------------------------------


def test_values_take_every_kind_of_number_and_name_the_wrong_one(make):
    import numpy

    task = e.ValueTask(
        "trial.value",
        "A value",
        e.Near(0.5, absolute=0.05),
        kind="measure",
        wrong=[e.WrongValue("percent", "A share is asked for.", e.Near(50, absolute=5))],
    )
    for answer in (0.5, 0.52, torch.tensor(0.5), numpy.float32(0.5), numpy.float64(0.46)):
        assert e.evaluate(task, answer).passed
    assert e.evaluate(task, 51).mistakes == ("percent",)
    for answer in (
        0.6,
        True,
        "0.5",
        float("nan"),
        [0.5],
        torch.tensor([0.5]),
        lambda: 0.5,
        {"your answer": 0.5},
    ):
        report = e.evaluate(task, answer)
        assert report.points == 0 and report.attempted and "0.5" not in repr(report), report
    TASKS.pop("trial.value")


# --- a check never breaks a lesson ------------------------------------------------------------------------


def test_points_are_kept_and_a_fault_there_is_not_seen(make, monkeypatch):
    from attnlab.checks import progress as _  # noqa: F401

    kept = sys.modules["attnlab.checks.progress"]
    task, seen = make(), []
    monkeypatch.setattr(kept, "record", lambda *args: seen.append(args))
    assert check(task.task_id, weights).passed
    assert seen == [(task.task_id, 1.0, 1.0, "A trial")]
    check(task.task_id, None)
    assert len(seen) == 1

    monkeypatch.setattr(kept, "record", lambda *args: 1 / 0)
    assert check(task.task_id, weights).passed


def test_a_fault_of_the_check_itself_stops_nothing(make):
    task = make()
    task.diagnose = lambda *args: 1 / 0
    assert check(task.task_id, lambda scores: scores).points == 0
    task.is_untouched = lambda *args: 1 / 0
    report = check(task.task_id, lambda scores: scores)
    assert not report.attempted and "failed by itself" in repr(report)


def test_definitions_that_cannot_work_are_refused(make):
    with pytest.raises(ValueError, match="kind"):
        make(kind="guess")
    with pytest.raises(ValueError, match="task_id"):
        e.FunctionTask("nodot", "A trial", weights, probes=lambda g: [])
    with pytest.raises(ValueError, match="different keys"):
        make(mistakes=[AXIS, AXIS])
    with pytest.raises(ValueError, match="known mistakes"):
        make(mistakes=[AXIS], untouched=("other",))


def test_what_torch_replaces_itself_is_not_held_against_the_learner():
    """Making an optimizer for the first time makes torch wrap ``manual_seed``."""
    program = (
        "import torch\nfrom attnlab.checks import guard\nbefore = torch.manual_seed\n"
        "torch.optim.Adam(torch.nn.Linear(2, 2).parameters())\n"
        "assert torch.manual_seed is not before, 'torch no longer does this'\n"
        "with guard.original_functions() as names: print(names)\n"
        "torch.manual_seed = lambda seed: None\n"
        "with guard.original_functions() as names: print(names)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['torch.manual_seed']"]
