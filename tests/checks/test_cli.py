"""The command line: the version, the points, starting afresh."""

import builtins
import importlib
import json
import os
import subprocess
import sys

import pytest

import attnlab
from attnlab.checks.progress import record
from attnlab.cli import main


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    monkeypatch.setenv("ATTNLAB_HOME", str(folder))
    monkeypatch.setattr(importlib.import_module("attnlab.checks.progress"), "_unsaved", {})
    return folder


def answering(monkeypatch, *answers):
    left = list(answers)

    def answer(question=""):
        print(question, end="")
        if not left:
            raise EOFError
        return left.pop(0)

    monkeypatch.setattr(builtins, "input", answer)


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"attnlab {attnlab.__version__}\n"


def test_without_a_command_the_help_is_shown(capsys):
    assert main([]) == 0
    assert "progress" in capsys.readouterr().out


def test_progress_is_shown_with_the_place_of_its_file(home, capsys):
    record("recurrence_limits.rnn_states", 3, 5, "A recurrent network by hand")
    assert main(["progress"]) == 0
    shown = capsys.readouterr().out
    assert "3 of 5" in shown
    assert "Next: finish" in shown
    assert str(home / "progress.json") in shown


def test_one_lesson_alone(capsys):
    assert main(["progress", "recurrence_limits"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("Lesson ") == 1


def test_an_unknown_lesson_is_a_clear_error(capsys):
    assert main(["progress", "recurrence"]) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("attnlab: lesson: expected one of")
    assert "'recurrence'" in streams.err


def test_reset_with_yes_keeps_a_copy(home, capsys):
    record("lesson.task", 1, 2, "A task")
    before = (home / "progress.json").read_bytes()
    assert main(["progress", "--reset", "--yes"]) == 0
    assert not (home / "progress.json").exists()
    assert (home / "progress.backup-1.json").read_bytes() == before
    assert "progress.backup-1.json" in capsys.readouterr().out
    record("lesson.task", 2, 2, "A task")
    assert main(["progress", "--reset", "--yes"]) == 0
    assert (home / "progress.backup-1.json").read_bytes() == before
    kept = json.loads((home / "progress.backup-2.json").read_text(encoding="utf-8"))
    assert kept["tasks"]["lesson.task"]["points"] == 2


@pytest.mark.parametrize("answer", ["y", "YES", " yes "])
def test_reset_asks_and_yes_goes_on(home, monkeypatch, answer):
    record("lesson.task", 1, 2, "A task")
    answering(monkeypatch, answer)
    assert main(["progress", "--reset"]) == 0
    assert not (home / "progress.json").exists()


@pytest.mark.parametrize("answers", [["n"], [""], ["perhaps"], []], ids=["no", "return", "other", "nobody"])
def test_reset_asks_and_anything_else_changes_nothing(home, monkeypatch, capsys, answers):
    record("lesson.task", 1, 2, "A task")
    answering(monkeypatch, *answers)
    assert main(["progress", "--reset"]) == 1
    assert "nothing was changed" in capsys.readouterr().err
    assert (home / "progress.json").exists()
    assert not (home / "progress.backup-1.json").exists()


def test_reset_without_a_file_asks_nothing(monkeypatch, capsys):
    answering(monkeypatch)
    assert main(["progress", "--reset"]) == 0
    assert "nothing to reset" in capsys.readouterr().out


def test_reset_of_a_broken_file_keeps_it_too(home):
    home.mkdir()
    (home / "progress.json").write_bytes(b"\xff broken")
    assert main(["progress", "--reset", "--yes"]) == 0
    assert (home / "progress.backup-1.json").read_bytes() == b"\xff broken"


def test_reset_that_cannot_be_done_says_why(home, capsys):
    (home / "progress.json").mkdir(parents=True)
    assert main(["progress", "--reset", "--yes"]) == 1
    streams = capsys.readouterr()
    assert "cannot be reset" in streams.err
    assert (home / "progress.json").is_dir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["progress", "--yes"], "--yes goes with --reset"),
        (["progress", "recurrence_limits", "--reset"], "leave the lesson out"),
        (["points"], "invalid choice"),
        (["progress", "--all"], "unrecognized arguments"),
    ],
)
def test_wrong_use_is_status_2_and_says_so(capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_as_a_program_on_a_console_of_few_characters(home):
    record("lesson.task", 1, 2, "Divide by √d_k")
    code = "import sys; from attnlab.cli import main; sys.exit(main(['progress']))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict"},
    )
    assert run.returncode == 0, run.stderr
    assert b"Divide by ?d_k" in run.stdout
