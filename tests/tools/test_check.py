"""What the build does with a run's result, and what check finds without one."""

import json

import pytest

from tools.notebooks import files

HEAD = "book/lessons/01_back.py"
NOTEBOOK = "notebooks/01_back.ipynb"


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        (
            "at_most=0.9",
            "at_most=0.1",
            16,
            "claim 'score' is 0.175125, should be at least 0.1 and at most 0.1",
        ),
        ("n = 4", "n = 5", 17, "claim 'n' is 5, should be exactly 4"),
        ("seed(1) / 8000 + 0.175", "float('nan')", 16, "claim 'score' is nan"),
        ('claim("n", n', 'for n in (4, 4): claim("n", n', 17, "computed 2 times"),
        ('claim("n", n', 'if n < 4: claim("n", n', 17, "never computed"),
        (
            'claim("n", n',
            'claim("n", "four"',
            17,
            "claim 'n' takes a number, or a dict or list of numbers, and got a str",
        ),
        ('print("later")', 'getattr(attnlab, "claim")("x", 1, at_least=0)', 1, "claim 'x' was made outside"),
        ("[[score:.2f]]", "[[score]]", 9, "needs a format"),
        ("[[score:.2f]]", "[[score[a]:.2f]]", 9, "score has no [a]"),
        ("[[score:.2f]]", "[[score:range:.2f]]", 1, "no evidence over seeds"),
        ("[[score:.2f]]", "[[score:.0f]]", 9, "0.175125 would be shown as 0: give it more digits"),
        ("[[n]]", "[[n:d]] [[score:d]]", 9, "bad format 'd'"),
        ('print("later")', "x = 1\n1 / 0", 21, "ZeroDivisionError: division by zero"),
        ('"hide-input"', '"raises-exception"', 20, "tagged raises-exception, but nothing was raised"),
    ],
)
def test_after_a_run(lab, quick, old, new, line, what):
    lab.edit(
        "import claim, seed",
        "import claim, seed\nimport attnlab" if "attnlab" in new else "import claim, seed",
    )
    line += "attnlab" in new and line > 12
    complaints = lab.edit(old, new)("build", "01")
    assert any(text.startswith(f"{HEAD}:{line}: ") and what in text for text in complaints), complaints
    assert not (lab.root / NOTEBOOK).exists()


def test_a_cell_tagged_raises_exception_may_fail(lab, quick):
    lab.edit('["hide-input"]', '["raises-exception"]').edit('print("later")', "1 / 0")
    assert lab("build", "01") == [] and lab.cell(4).outputs[0].ename == "ZeroDivisionError"
    lab.edit('# %% tags=["raises-exception"]', "# %%")
    assert "ZeroDivisionError" in lab("build", "01")[0]


def test_a_failure_in_a_stub_names_its_line_in_the_manuscript(lab, quick):
    lab.edit("last = 1", "halve(1)[0] if halve(1) is ... else 0", "book/exercises/01_back.py")
    (complaint,) = lab("build", "01")
    assert (
        complaint.startswith("book/exercises/01_back.py:26: TypeError")
        and "exercises/01_back.ipynb" in complaint
    )


def test_a_failure_stops_what_has_not_begun(lab, quick):
    for kind in ("lessons", "exercises"):
        lab.write(f"book/{kind}/02_next.py", lab.read(f"book/{kind}/01_back.py"))
    lab.edit('print("later")', "1 / 0")
    assert len(lab("build", "01", "02")) == 1
    assert quick == ["notebooks"]


@pytest.mark.parametrize(
    ("name", "old", "new", "what"),
    [
        (NOTEBOOK, "0.18,", "0.19,", f"{NOTEBOOK}:10: not what {HEAD} gives"),
        (NOTEBOOK, "0.175125", "0.275125", "not what"),
        (NOTEBOOK, "0.175125", "0.95", "should be at least 0.1 and at most 0.9"),
        (NOTEBOOK, "later\\n", "at 0x7f0123456789\\n", "not what"),
        (NOTEBOOK, "lab@main", "lab@other", "not what"),
        (HEAD, "The score is", "Our score is", "not what"),
        (HEAD, "hide-input", "hide-cell", "not what"),
        (HEAD, 'print("later")', 'print("now")', f"{HEAD}:1: {NOTEBOOK} is older than"),
        ("src/attnlab/claims.py", "SHIFT_STEP = 1000", "SHIFT_STEP = 2000", "is older than"),
        ("src/attnlab/claims.py", "SHIFT_STEP = 1000", "SHIFT_STEP = 1000  # far", None),
        ("book/exercises/01_back.py", "return y", "return y + 0", "solutions/01_back.ipynb is older than"),
        (
            "book/exercises/01_back.py",
            "# STUB return ...",
            "# STUB return None",
            "exercises/01_back.ipynb is older",
        ),
        ("notebooks/evidence.md", "# Evidence", "# Proof", "notebooks/evidence.md:1: out of date"),
        ("notebooks/bibliography.md", "Vaswani", "Wani", "notebooks/bibliography.md:1: out of date"),
        ("book/references.bib", "Attention Is", "Attention was", "notebooks/bibliography.md:1: out of date"),
        ("_config.yml", "lab", "school", "not what"),
    ],
)
def test_check_finds_every_difference_without_running(measured, nothing_runs, name, old, new, what):
    assert measured("check") == []
    complaints = measured.edit(old, new, name)("check")
    assert complaints == [] if what is None else any(what in text for text in complaints), complaints


@pytest.fixture
def measured(built):
    """The small book with its evidence."""
    assert built("evidence", "-n", "2") == []
    return built


@pytest.mark.parametrize(
    "name", ["notebooks/01_back.ipynb", "exercises/01_back.ipynb", "notebooks/evidence.md"]
)
def test_check_finds_what_is_missing(measured, nothing_runs, name):
    (measured.root / name).unlink()
    assert any(name in text for text in measured("check"))


def test_a_change_of_prose_or_of_tags_runs_nothing(built, nothing_runs):
    built.edit("The score is [[score:.2f]]", "Score: [[score:.3f]]").edit("hide-input", "hide-cell")
    built.edit("# %%\nclaim", "# %% [markdown]\n# Look:\n\n# %%\nclaim")
    assert built("build") == []
    assert "Score: 0.175" in built.cell(0).source and built.cell(5).outputs[0].text == "later\n"
    assert built.cell(5).metadata.tags == ["hide-cell"]
    built.edit("lab", "school", "_config.yml")
    assert built("build") == [] and "git+https://example.org/school@main" in built.cell(1).source


def test_only_what_changed_runs(built, quick):
    assert built.edit("return y", "return y + 0", "book/exercises/01_back.py")("build") == [] and quick == [
        "solutions"
    ]
    quick.clear()
    assert built("build", "--force", "--jobs", "2") == []
    assert sorted(quick) == ["exercises", "notebooks", "solutions"]


def test_a_stored_notebook_that_is_broken_is_made_again(built, quick):
    built.write(NOTEBOOK, "{not json")
    assert built("build") == [] and quick == ["notebooks"]


def test_a_notebook_edited_in_jupyter_is_not_overwritten(built, quick):
    built.change(NOTEBOOK, lambda node: node.cells[0].update(source="Mine."))
    before = built.snapshot()
    assert "edited since it was built" in built("build")[0] and built.snapshot() == before
    assert built("build", "--force") == [] and "The score" in built.cell(0).source


def test_ids_are_fixed_and_metadata_is_small(built):
    node = json.loads(built.read("exercises/01_back.ipynb"))
    assert [cell["id"] for cell in node["cells"]] == [
        "01_back-000",
        "01_back-setup",
        "01_back-001",
        "01_back-002",
        "01_back-003",
    ]
    assert set(node["metadata"]) == {"kernelspec", "language_info", "claims", "attnlab"}
    assert built.cell(5, "solutions/01_back.ipynb").id == "01_back-004"


def test_stubs_and_solutions(built):
    stub, solution = (built.cell(2, f"{name}/01_back.ipynb").source for name in ("exercises", "solutions"))
    assert stub == 'def add(x):\n    """Return x + 1."""\n    raise NotImplementedError("your turn")'
    assert solution == 'def add(x):\n    """Return x + 1."""\n    y = x + 1\n    return y'
    stub, solution = (built.cell(3, f"{name}/01_back.ipynb").source for name in ("exercises", "solutions"))
    assert stub == "def halve(x):\n    return ...\nlast = 1"
    assert solution == "def halve(x):\n    return x / 2\nlast = 1"
    assert not any("two is wrong" in cell.source for cell in built.notebook("exercises/01_back.ipynb").cells)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    assert files.write(path, "old\n") and not files.write(path, "old\n")
    monkeypatch.setattr(files.os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        files.write(path, "new\n")
    assert path.read_bytes() == b"old\n" and list(tmp_path.iterdir()) == [path]


def test_a_lesson_cited_twice_stands_once_on_the_page(built):
    page = built.read("notebooks/bibliography.md")
    assert (
        "## Vaswani et al. (2017)\n\nAshish Vaswani, Noam Shazeer, Niki Parmar. *Attention Is All You "
        "Need*. NIPS." in page
    )
    assert (
        "[arXiv:1706.03762](https://arxiv.org/abs/1706.03762)" in page
        and "Cited in [Looking back](01_back.ipynb)." in page
    )
    assert "Hochreiter" not in page
