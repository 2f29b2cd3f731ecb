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


# --- a file to keep ---------------------------------------------------------------------------------------


def test_points_are_saved_and_added_elsewhere(home, tmp_path, monkeypatch, capsys):
    record("recurrence_limits.rnn_states", 3, 5, "A recurrent network by hand")
    target = tmp_path / "mine.json"
    assert main(["progress", "--export", str(target)]) == 0
    assert capsys.readouterr().out == f"Your points are saved in {target}\n"
    monkeypatch.setenv("ATTNLAB_HOME", str(tmp_path / "elsewhere"))
    assert main(["progress", "--import", str(target)]) == 0
    shown = capsys.readouterr().out
    assert "3 of 5" in shown and str(tmp_path / "elsewhere") in shown
    assert main(["progress", "--export", str(target)]) == 0  # it says so already


def test_one_lesson_is_saved_alone(tmp_path):
    record("recurrence_limits.rnn_states", 3, 5, "A recurrent network by hand")
    record("removed_lesson.task", 1, 2, "A task of old")
    assert main(["progress", "recurrence_limits", "--export", str(tmp_path / "mine.json")]) == 0
    saved = json.loads((tmp_path / "mine.json").read_text(encoding="utf-8"))
    assert list(saved["tasks"]) == ["recurrence_limits.rnn_states"]


def test_another_file_is_replaced_only_where_that_is_asked_for(tmp_path, capsys):
    target = tmp_path / "mine.json"
    target.write_text("mine", encoding="utf-8")
    assert main(["progress", "--export", str(target)]) == 1
    assert "is there with other points and was left as it is; --overwrite" in capsys.readouterr().err
    assert target.read_text(encoding="utf-8") == "mine"
    assert main(["progress", "--export", str(target), "--overwrite"]) == 0
    assert json.loads(target.read_text(encoding="utf-8"))["tasks"] == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [("mine.txt", "ends in .json"), ("nowhere/mine.json", "expected a folder"), ("f.json", "is a folder")],
)
def test_what_cannot_be_saved_says_why(tmp_path, capsys, name, message):
    (tmp_path / "f.json").mkdir()
    assert main(["progress", "--export", str(tmp_path / name)]) == 1
    streams = capsys.readouterr()
    assert streams.out == "" and message in streams.err


def test_a_file_that_cannot_be_added_says_why(home, tmp_path, capsys):
    broken = tmp_path / "mine.json"
    for raw, message in ((None, "there is no"), (b"{", "cannot be understood: it is damaged")):
        if raw is not None:
            broken.write_bytes(raw)
        assert main(["progress", "--import", str(broken)]) == 1
        streams = capsys.readouterr()
        assert streams.out == "" and message in streams.err
    assert not home.exists()


def test_of_a_damaged_file_the_good_part_is_added(tmp_path, capsys):
    good = {"title": "A task of old", "points": 1, "max_points": 2, "tries": 1}
    raw = {"format": 1, "tasks": {"removed_lesson.task": good, "removed_lesson.bad": []}}
    (tmp_path / "mine.json").write_text(json.dumps(raw), encoding="utf-8")
    assert main(["progress", "--import", str(tmp_path / "mine.json")]) == 0
    shown = capsys.readouterr().out
    assert "was left out: some of its entries are damaged" in shown and "1 of 2" in shown


def test_points_that_cannot_be_kept_are_not_said_to_be(home, tmp_path, monkeypatch, capsys):
    main(["progress", "--export", str(tmp_path / "mine.json")])
    capsys.readouterr()
    (home / "progress.json").mkdir(parents=True)
    assert main(["progress", "--import", str(tmp_path / "mine.json")]) == 1
    streams = capsys.readouterr()
    assert streams.out == "" and "cannot be written" in streams.err and "nothing was added" in streams.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["progress", "--overwrite"], "--overwrite goes with --export"),
        (["progress", "--import", "a.json", "--overwrite"], "--overwrite goes with --export"),
        (["progress", "recurrence_limits", "--import", "a.json"], "leave the lesson out"),
        (["progress", "--import", "a.json", "--export", "b.json"], "not allowed with"),
        (["progress", "--reset", "--yes", "--export", "b.json"], "not allowed with"),
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
