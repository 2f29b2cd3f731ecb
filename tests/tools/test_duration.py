"""How long a lesson takes: counted and measured, and the same bytes from build to build."""

from dataclasses import replace

import pytest

from attnlab import widgets
from tools.notebooks import duration, execute

HEAD, NOTEBOOK = "book/lessons/01_back.py", "notebooks/01_back.ipynb"
LINE = "# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.\n#\n# The score is"


@pytest.fixture
def takes(quick, monkeypatch):
    """Function that makes every run take some CPU-seconds."""
    run = execute.run

    def set_to(seconds):
        monkeypatch.setattr(execute, "run", lambda *a, **k: replace(run(*a, **k), cpu=seconds))

    return set_to


@pytest.fixture
def timed(lab, takes):
    """The small book, its lesson says how long it takes; built with a run of 14.2 CPU-seconds."""
    takes(14.2)
    assert lab.edit("# The score is", LINE)("build") == []
    return lab


def said(lab):
    return lab.cell(0).source.split("**How long:** ")[1].split(".")[0]


def test_the_text_says_what_was_counted_and_measured(timed, nothing_runs):
    assert said(timed) == "5 minutes to read, 20 seconds to run"
    assert timed.notebook().metadata.claims.seconds == 20
    assert "seconds" not in timed.notebook("solutions/01_back.ipynb").metadata.claims
    assert [text for text in timed("check") if "evidence" not in text] == []


@pytest.mark.parametrize("seconds", [8.1, 19.9, 25.0, 200.0])
def test_an_unchanged_lesson_keeps_its_bytes_on_a_slower_or_faster_day(timed, takes, seconds):
    before = timed.read(NOTEBOOK)
    takes(seconds)
    assert timed("build", "--force") == [] and timed.read(NOTEBOOK) == before


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (8.1, "20 seconds"),
        (24.9, "20 seconds"),
        (26, "30 seconds"),
        (61, "a minute and a half"),
        (7, "10 seconds"),
    ],
)
def test_changed_code_is_measured_anew(timed, takes, seconds, words):
    takes(seconds)
    timed.edit('print("later")', 'print("sooner")')
    assert timed("build", "01") == [] and f"{words} to run" in said(timed)


def test_a_lesson_that_was_never_measured_is_run(built, takes):
    takes(3)
    built.edit("# The score is", LINE)
    assert any("is older than its code cells" in text for text in built("check", "01"))
    assert built("build", "01") == [] and "5 seconds to run" in said(built)


def test_a_change_of_text_alone_runs_nothing(timed, nothing_runs):
    assert timed.edit("The end.", "This is the end.")("build") == []
    assert "20 seconds to run" in said(timed)


def test_an_edit_in_jupyter_keeps_the_marks(timed):
    def work(node):
        node.cells[0].source = node.cells[0].source.replace("to run.", "to run, on one core.")

    timed.change(NOTEBOOK, work)
    assert timed("pull", timed.root / NOTEBOOK) == []
    assert "[[how-long:read]] to read, [[how-long:run]] to run, on one core." in timed.read(HEAD)


def test_only_a_lesson_says_how_long_it_takes(lab, nothing_runs):
    lab.edit("# Add one.", "# [[how-long:read]]", "book/exercises/01_back.py")
    assert any("only a lesson says how long" in text for text in lab("check", "01"))


def test_another_duration_is_no_reference(lab, nothing_runs):
    assert any(
        "not a reference: '[[how-long:walk]]" in text
        for text in lab.edit("[[n]]", "[[how-long:walk]]")("check", "01")
    )


def test_more_to_read_takes_longer(timed, nothing_runs):
    timed.edit("The end.", "A word of it. " * 250)
    assert timed("build") == [] and said(timed).startswith("10 minutes to read")


def test_steps_rise_and_every_one_has_words():
    assert list(duration.STEPS) == sorted(set(duration.STEPS))
    assert [duration.step(seconds, None) for seconds in (0.1, 5, 5.1, 90, 91, 5000)] == [
        5,
        5,
        10,
        90,
        120,
        600,
    ]
    assert len({duration.words(seconds) for seconds in duration.STEPS}) == len(duration.STEPS)
    assert duration.words(120) == "2 minutes" and duration.words(45) == "45 seconds"


@pytest.mark.parametrize("name", widgets.__all__)
def test_each_widget_counts_as_a_picture(name):
    assert duration._figures(f"import x\n{name}(a)\n") == 1
    assert duration._figures(f"kept = {name}(a)\nnot{name}(a)\n") == 0
