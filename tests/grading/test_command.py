"""``attnlab grade`` from end to end, with a stand-in for the sandbox."""

import csv
import json
from functools import partial
from types import SimpleNamespace

import pytest

from attnlab.cli import main
from attnlab.grading import batch
from attnlab.grading.sandbox import NoSandbox
from tests.grading import standin

ATTENTION, ATTEND = "query_key_value.attention", "query_key_value.attend"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Graded in this process, by the stand-in."""

    def in_this_process(files, grade, *, jobs, seconds):
        return ((name, grade(path), True) for name, path in files)

    monkeypatch.setattr("attnlab.grading.batch.grade_files", in_this_process)
    monkeypatch.setattr("attnlab.grading.command.grade_all", partial(batch.grade_all, grade=standin.grade))
    monkeypatch.setattr("attnlab.grading.batch.require_sandbox", lambda: None)


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "submissions"
    folder.mkdir()
    for index, name in enumerate(("anna", "ben")):
        wanted = {
            "exercises": {ATTENTION: {"points": str(index), "mistakes": ["axis"], "hints": ["The axis."]}}
        }
        (folder / f"{name}.ipynb").write_text(json.dumps(wanted), encoding="utf-8")
    (folder / "carla.pdf").write_text("%PDF", encoding="utf-8")
    return folder


def grade(source, tmp_path, *options):
    return main(["grade", str(source), "--out", str(tmp_path / "out" / "marks.csv"), *map(str, options)])


def table(tmp_path, name="marks.csv"):
    with open(tmp_path / "out" / name, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_everything_is_written(source, tmp_path, capsys):
    assert grade(source, tmp_path, "--feedback", tmp_path / "pages") == 0
    head, *rows = table(tmp_path)
    assert [row[0] for row in rows] == ["anna.ipynb", "ben.ipynb", "carla.pdf"]
    assert [row[head.index(ATTENTION)] for row in rows] == ["0", "1", "0"]
    pages = {row[head.index("feedback")] for row in rows}
    assert pages == {path.name for path in (tmp_path / "pages").iterdir()} and len(pages) == 3
    summary = (tmp_path / "out" / "marks.summary.html").read_text(encoding="utf-8")
    assert "3 submissions, 1 of which could not be graded" in summary and "The axis." in summary
    assert "3 submissions: 0 were graded before, 1 could not be graded" in capsys.readouterr().out


def test_a_second_run_grades_nothing(source, tmp_path, capsys):
    grade(source, tmp_path)
    first = table(tmp_path)
    capsys.readouterr()
    grade(source, tmp_path)
    assert "3 submissions: 2 were graded before" in capsys.readouterr().out
    assert table(tmp_path) == first


def test_the_table_for_a_platform_lies_beside(source, tmp_path, capsys):
    (source / "lovelaceada_321_654_set3.ipynb").write_text('{"exercises": {}}', encoding="utf-8")
    assert grade(source, tmp_path, "--format", "canvas", "moodle", "--assignment", "Set 3") == 0
    assert table(tmp_path, "marks.canvas.csv")[0][-1] == "Set 3"
    assert table(tmp_path, "marks.moodle.csv")[1][0] == "Participant 321"
    assert "left out: anna: no number" in capsys.readouterr().out


def test_points_and_chosen_exercises_make_the_columns(source, tmp_path):
    points = tmp_path / "points.toml"
    points.write_text(f'[points]\n"{ATTENTION}" = 30\n', encoding="utf-8")
    assert grade(source, tmp_path, "--points", points, "--only", ATTENTION, ATTEND) == 0
    head, anna, ben, carla = table(tmp_path)
    assert head[2:6] == [ATTENTION, ATTEND, "total", "max"]
    assert [row[2:6] for row in (anna, ben, carla)] == [
        ["0", "0", "0", "34"],
        ["15", "0", "15", "34"],
        ["0", "0", "0", "34"],
    ]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--jobs", "0"], "--jobs: at least 1"),
        (["--only", "nonsense"], "nonsense: expected an exercise"),
        (["--points", "nowhere.toml"], "nowhere.toml"),
        (["--hidden", "nowhere.py"], "nowhere.py"),
        (["--roster", "roster.csv"], "--roster: give one --format"),
        (["--format", "canvas", "--roster", "nowhere.csv"], "nowhere.csv"),
        (["--feedback", "{source}/pages"], "--feedback: {source}/pages lies among the submissions"),
        (["--hidden", "{source}/mine.py"], "--hidden: {source}/mine.py lies among the submissions"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(options, reason, source, tmp_path, capsys):
    options = [option.format(source=source) for option in options]
    assert grade(source, tmp_path, *options) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("attnlab: ") and reason.format(source=source) in error


def test_an_empty_or_missing_folder_is_told(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert grade(tmp_path / "empty", tmp_path) == 1
    assert "there is no submission" in capsys.readouterr().err
    assert grade(tmp_path / "nowhere", tmp_path) == 1
    assert "no such file or folder" in capsys.readouterr().err


def test_without_a_sandbox_it_refuses_unless_told_otherwise(source, tmp_path, monkeypatch, capsys):
    def none():
        raise NoSandbox("there is no sandbox; give --unsafe")

    monkeypatch.setattr("attnlab.grading.batch.require_sandbox", none)
    assert grade(source, tmp_path) == 1
    assert "give --unsafe" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert grade(source, tmp_path, "--unsafe") == 0


def test_on_windows_it_says_where_to_go(source, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("attnlab.cli.os", SimpleNamespace(name="nt"))
    assert grade(source, tmp_path) == 1
    assert "inside of WSL 2" in capsys.readouterr().err


def test_an_interruption_is_told_and_the_next_run_goes_on(source, tmp_path, monkeypatch, capsys):
    whole = batch.grade_files

    def interrupted(files, grade, **settings):
        yield next(iter(whole(files, grade, **settings)))
        raise KeyboardInterrupt

    monkeypatch.setattr("attnlab.grading.batch.grade_files", interrupted)
    assert grade(source, tmp_path) == 130
    assert "the same command goes on from here" in capsys.readouterr().err
    monkeypatch.setattr("attnlab.grading.batch.grade_files", whole)
    assert grade(source, tmp_path) == 0
    assert "1 were graded before" in capsys.readouterr().out


def test_pairs_of_different_students_are_flagged(tmp_path, source):
    code = "def attention(q, k, v, mask=None):\n" + "".join(
        f"    a{i} = (q @ k.mT).exp() * {i} + (v if mask is None else v * mask).sum(dim={i}) / {i + 2}\n"
        for i in range(8)
    )
    for name, text in (("dora", code), ("emil", code.replace("q", "query")), ("dora/again", code)):
        path = source / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (source / "dora.py").rename(source / "dora" / "first.py")
    monkeypatched = partial(batch.grade_all, grade=lambda path, **_: standin.result(name=path.name))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnlab.grading.command.grade_all", monkeypatched)
        assert grade(source, tmp_path) == 0
    summary = (tmp_path / "out" / "marks.summary.html").read_text(encoding="utf-8")
    assert "dora/again.py and emil.py: 100%" in summary and "dora/first.py and emil.py" in summary
    assert "dora/again.py and dora/first.py" not in summary
