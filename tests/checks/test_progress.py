"""Progress is kept, shown and reset, whatever state its file is in."""

import contextlib
import html.parser
import importlib
import json
import multiprocessing
import os
import re
import stat
import sys
import threading
import types

import filelock
import pytest

from attnlab.checks import progress_export, progress_file
from attnlab.checks.progress_file import Entry
from attnlab.checks.tasks import KINDS, TASKS

progress_module = importlib.import_module("attnlab.checks.progress")
record, progress = progress_module.record, progress_module.progress

KNOWN = "recurrence_limits.forget_bias"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A fresh home, and no points left over in memory from another test."""
    folder = tmp_path / "home"
    monkeypatch.setenv("ATTNLAB_HOME", str(folder))
    monkeypatch.setattr(progress_module, "_unsaved", {})
    return folder


@pytest.fixture
def file(home):
    home.mkdir()
    return home / "progress.json"


def stored(home):
    return json.loads((home / "progress.json").read_text(encoding="utf-8"))


# --- keeping ----------------------------------------------------------------------------------------------


def test_a_result_is_kept(home):
    record("lesson.task", 2, 5, "A task")
    assert stored(home) == {
        "format": 1,
        "tasks": {"lesson.task": {"title": "A task", "points": 2.0, "max_points": 5.0, "tries": 1}},
    }


def test_the_best_result_stays_and_tries_are_counted(home):
    for points in (2, 4, 0):
        record("lesson.task", points, 5, "A task")
    assert stored(home)["tasks"]["lesson.task"] == {
        "title": "A task", "points": 4.0, "max_points": 5.0, "tries": 3
    }  # fmt: skip


def test_full_marks_stay_full_when_an_exercise_gets_more_points(home):
    record("lesson.task", 5, 5, "A task")
    record("lesson.task", 6, 8, "A task, longer")
    kept = progress_file.read(home / "progress.json").entries["lesson.task"]
    assert (kept.points, kept.max_points, kept.title, kept.done) == (5, 5, "A task, longer", True)


def test_seven_sevenths_are_full_marks():
    assert Entry("parts", sum([1 / 7] * 7), 1.0).done
    assert not Entry("parts", 6 / 7, 1.0).done


def test_only_the_home_that_is_named_is_written(home, tmp_path):
    record("lesson.task", 1, 2, "A task")
    assert {entry.name for entry in tmp_path.iterdir()} == {"home"}
    assert "progress.json" in {entry.name for entry in home.iterdir()}


def test_without_the_variable_the_users_data_folder_is_used(monkeypatch, tmp_path):
    monkeypatch.delenv("ATTNLAB_HOME")
    monkeypatch.setattr(
        progress_file.platformdirs, "user_data_path", lambda name, appauthor: tmp_path / "data" / name
    )
    assert progress_file.location() == tmp_path / "data" / "attnlab" / "progress.json"
    monkeypatch.setenv("ATTNLAB_HOME", "")
    assert progress_file.location() == tmp_path / "data" / "attnlab" / "progress.json"


# --- broken files -----------------------------------------------------------------------------------------

GOOD = {"title": "Old", "points": 3.0, "max_points": 4.0, "tries": 2}
BROKEN = {
    "empty": b"",
    "truncated": b'{"format": 1, "tasks": {"lesson.old": {"title": "Old", "poi',
    "not text": b"\xff\xfe\x00\x81",
    "not JSON": b"points: 3",
    "a list": b"[1, 2]",
    "no tasks": b'{"format": 1}',
    "tasks is a list": b'{"format": 1, "tasks": []}',
    "too deep": b"[" * 100_000,
    "huge": b'{"format": 1, "tasks": {}}' + b" " * 5_000_001,
    "a later version": json.dumps({"format": 2, "exercises": [GOOD]}).encode(),
}


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_cannot_be_understood_is_kept_beside(home, file, raw):
    file.write_bytes(raw)
    record("lesson.task", 1, 2, "A task")
    assert (home / "progress.unreadable-1.json").read_bytes() == raw
    assert list(stored(home)["tasks"]) == ["lesson.task"]
    record("lesson.task", 2, 2, "A task")
    assert not (home / "progress.unreadable-2.json").exists()  # the new file is a good one
    assert "progress.unreadable-1.json" in repr(progress())


def test_two_broken_files_are_both_kept(home, file):
    for number, raw in enumerate((b"first", b"second"), start=1):
        file.write_bytes(raw)
        record("lesson.task", 1, 2, "A task")
        assert (home / f"progress.unreadable-{number}.json").read_bytes() == raw
    assert (home / "progress.unreadable-1.json").read_bytes() == b"first"


DAMAGED = {
    "points are text": {**GOOD, "points": "3"},
    "points are true": {**GOOD, "points": True},
    "points are nan": {**GOOD, "points": float("nan")},
    "points are negative": {**GOOD, "points": -1},
    "more points than there are": {**GOOD, "points": 5},
    "points beyond a float": {**GOOD, "points": 10**400, "max_points": 10**401},
    "no points to reach": {**GOOD, "points": 0, "max_points": 0},
    "title is missing": {"points": 1.0, "max_points": 2.0, "tries": 1},
    "tries are negative": {**GOOD, "tries": -1},
    "a list": [],
}


@pytest.mark.parametrize("entry", DAMAGED.values(), ids=DAMAGED.keys())
def test_one_damaged_entry_does_not_cost_the_others(home, file, entry):
    raw = json.dumps({"format": 1, "tasks": {"lesson.good": GOOD, "lesson.bad": entry}})
    file.write_text(raw, encoding="utf-8")
    assert "some of its entries are damaged" in repr(progress())
    record("lesson.task", 1, 2, "A task")
    assert set(stored(home)["tasks"]) == {"lesson.good", "lesson.task"}
    assert (home / "progress.unreadable-1.json").read_text(encoding="utf-8") == raw


def test_what_is_understood_of_another_version_is_carried_over(home, file):
    file.write_text(json.dumps({"format": 7, "tasks": {"lesson.good": GOOD}}), encoding="utf-8")
    record("lesson.task", 1, 2, "A task")
    assert set(stored(home)["tasks"]) == {"lesson.good", "lesson.task"}
    assert (home / "progress.unreadable-1.json").exists()


def test_showing_changes_no_file(home, file):
    file.write_bytes(b"broken")
    shown = repr(progress())
    assert "it is damaged or incomplete" in shown
    assert [entry.name for entry in home.iterdir()] == ["progress.json"]


# --- files that cannot be written -------------------------------------------------------------------------


def unusable_homes(tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("a file where a folder should be", encoding="utf-8")
    (tmp_path / "full" / "progress.json").mkdir(parents=True)
    return {
        "home is a file": taken,
        "home is below a file": taken / "deeper",
        "file is a folder": tmp_path / "full",
    }


@pytest.mark.parametrize("which", ["home is a file", "home is below a file", "file is a folder"])
def test_points_that_cannot_be_saved_are_shown_and_saved_later(home, tmp_path, monkeypatch, which):
    monkeypatch.setenv("ATTNLAB_HOME", str(unusable_homes(tmp_path)[which]))
    record(KNOWN, 1, 2, "Forget bias")
    shown = repr(progress())
    assert "could not be saved" in shown
    assert "started" in shown
    monkeypatch.setenv("ATTNLAB_HOME", str(home))
    record("lesson.task", 1, 2, "A task")
    assert set(stored(home)["tasks"]) == {KNOWN, "lesson.task"}
    assert "could not be saved" not in repr(progress())


def test_a_failing_disk_leaves_the_old_file_whole(home, monkeypatch):
    record("lesson.task", 1, 2, "A task")
    before = (home / "progress.json").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(progress_file.os, "replace", full)
        record("lesson.task", 2, 2, "A task")
    assert (home / "progress.json").read_bytes() == before
    assert not list(home.glob("*.part"))
    record("lesson.other", 1, 2, "Another")
    assert stored(home)["tasks"]["lesson.task"]["points"] == 2


def test_nothing_that_is_handed_to_record_raises(home):
    for points, max_points in [("x", 5), (None, None), (1, 0), (float("nan"), 5), (1, float("inf"))]:
        record("lesson.task", points, max_points, "A task")
    record("lesson.good", 1, 2, None)
    record("lesson.good", 9, 2, "Too many")
    assert set(stored(home)["tasks"]) == {"lesson.good"}
    assert stored(home)["tasks"]["lesson.good"]["points"] == 2.0


def test_a_link_stays_a_link(home, file, tmp_path):
    target = tmp_path / "elsewhere.json"
    target.write_text('{"format": 1, "tasks": {}}', encoding="utf-8")
    try:
        file.symlink_to(target)
    except OSError:
        pytest.skip("this system does not let users make links")
    record("lesson.task", 1, 2, "A task")
    assert file.is_symlink()
    assert "lesson.task" in target.read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permission bits")
def test_the_file_is_for_its_user_alone(home):
    record("lesson.task", 1, 2, "A task")
    assert stat.S_IMODE(os.stat(home / "progress.json").st_mode) & 0o077 == 0


# --- two at once ------------------------------------------------------------------------------------------


def _write_many(home, name, count, barrier):
    os.environ["ATTNLAB_HOME"] = home
    barrier.wait(120)  # so that all begin at once, however long one took to start
    for number in range(count):
        record(f"lesson.{name}{number}", 1, 2, "A task")
        record("lesson.shared", number, count, "Shared")


def test_two_kernels_that_write_at_once_lose_nothing(home):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    kernels = [context.Process(target=_write_many, args=(str(home), name, 15, barrier)) for name in "ab"]
    for kernel in kernels:
        kernel.start()
    for kernel in kernels:
        kernel.join()
    assert [kernel.exitcode for kernel in kernels] == [0, 0]
    tasks = stored(home)["tasks"]
    assert len(tasks) == 31
    assert tasks["lesson.shared"]["tries"] == 30
    assert not list(home.glob("progress.*-*.json"))


def test_threads_lose_nothing(home):
    barrier = threading.Barrier(3)
    threads = [threading.Thread(target=_write_many, args=(str(home), name, 5, barrier)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stored(home)["tasks"]) == 16


def test_a_lock_that_is_never_freed_does_not_stop_a_lesson(home, file, monkeypatch):
    monkeypatch.setattr(progress_file, "LOCK_SECONDS", 0.05)
    with filelock.FileLock(f"{file}.lock"):
        record("lesson.task", 1, 2, "A task")
        assert "could not be saved" in repr(progress())
    record("lesson.other", 1, 2, "Another")
    assert set(stored(home)["tasks"]) == {"lesson.task", "lesson.other"}


def test_a_drive_without_locks_is_written_all_the_same(home, monkeypatch):
    def unknown(self, *_, **__):
        raise NotImplementedError("no locks here")

    monkeypatch.setattr(filelock.FileLock, "acquire", unknown)
    record("lesson.task", 1, 2, "A task")
    assert "lesson.task" in stored(home)["tasks"]


# --- what is shown ----------------------------------------------------------------------------------------


def test_a_new_learner_sees_every_exercise_and_where_to_start():
    shown = progress()
    assert shown.points == 0
    assert len(shown.rows) == len({row.exercise.task_id for row in shown.rows}) >= 4
    assert {row.state for row in shown.rows} == {"not started"}
    first = shown.rows[0].exercise
    assert first.number == 1
    assert f"Next: try “{first.title}” (lesson 1)." in repr(shown)


def test_points_by_exercise_and_lesson_add_up():
    first, second = [row.exercise for row in progress("recurrence_limits").rows][:2]
    record(first.task_id, first.max_points, first.max_points, first.title)
    record(second.task_id, 0.5, second.max_points, second.title)
    shown = progress()
    assert shown.points == first.max_points + 0.5
    assert [row.state for row in shown.rows][:3] == ["done", "started", "not started"]
    total = sum(row.max_points for row in shown.rows if row.exercise.lesson == "recurrence_limits")
    assert f"Lesson 1, recurrence limits: {first.max_points + 0.5:g} of {total:g} points" in repr(shown)
    assert f"Next: finish “{second.title}” (lesson 1)." in repr(shown)


def test_a_lesson_that_was_begun_is_suggested_before_an_earlier_one():
    rows = progress().rows
    later = [row.exercise for row in rows if row.exercise.lesson != rows[0].exercise.lesson]
    if len(later) < 2:
        pytest.skip("only one lesson has exercises")
    record(later[0].task_id, later[0].max_points, later[0].max_points, later[0].title)
    assert f"Next: try “{later[1].title}”" in repr(progress())


def test_all_done_is_said():
    for row in progress().rows:
        record(row.exercise.task_id, row.max_points, row.max_points, row.exercise.title)
    assert "nothing is left" in repr(progress())
    assert progress().points == progress().max_points


def test_one_lesson_alone():
    lessons = {row.exercise.lesson for row in progress("recurrence_limits").rows}
    assert lessons == {"recurrence_limits"}
    with pytest.raises(ValueError, match="lesson: expected one of .*recurrence_limits.*got 'recurrence'"):
        progress("recurrence")


def test_exercises_that_this_version_does_not_have_are_shown_and_never_suggested():
    record("removed_lesson.task", 1, 2, "A task of old")
    shown = repr(progress())
    assert "Other lessons, removed lesson: 1 of 2 points" in shown
    assert "A task of old" in shown
    assert "Next: try" in shown


def test_the_text_is_the_same_every_time_and_names_no_path(home):
    record(KNOWN, 1, 2, "Forget bias")
    first = repr(progress())
    assert repr(progress()) == first
    assert str(home) not in first


class _Outline(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text, self.attributes = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_html_is_whole_accessible_and_holds_no_script():
    record("removed_lesson.task", 1, 2, "<script>alert(1)</script>")
    outline = _Outline()
    outline.feed(progress()._repr_html_())
    assert outline.open == []
    assert "script" not in outline.tags
    assert not [name for name, _ in outline.attributes if name.startswith("on") or name == "style"]
    charts = 2  # by lesson and by kind
    assert outline.tags.count("caption") == outline.tags.count("table") == len(progress().lessons()) + charts
    scopes = [name for name, _ in outline.attributes if name == "scope"]
    assert outline.tags.count("th") == len(scopes)  # every header cell says what it heads
    text = " ".join(outline.text)
    assert "<script>alert(1)</script>" in text
    for row in progress().rows:
        assert row.exercise.title in text


# --- by kind, and the chart -------------------------------------------------------------------------------


def bars(text):
    """The bars of a text by what stands behind them: how much of each is filled, and its points."""
    lines = re.findall(r"^  \[(#*)(\.*)\] +(\S+ of \S+)  (.+)$", text, re.M)
    assert {len(full) + len(rest) for full, rest, _, _ in lines} == {20}
    return {name: (len(full), points) for full, rest, points, name in lines}


def test_points_by_kind_are_those_of_its_exercises():
    rows = progress().rows
    for row in rows[::2]:
        record(row.exercise.task_id, row.max_points / 2, row.max_points, row.exercise.title)
    shown = progress()
    kinds = shown.kinds()
    assert list(kinds) == [kind for kind in KINDS if kind in kinds]
    assert sum(len(group) for group in kinds.values()) == len(rows)
    for kind, group in kinds.items():
        tasks = [TASKS[row.exercise.task_id] for row in group]
        assert {task.kind for task in tasks} == {kind}
        reached, most = sum(row.points for row in group), sum(task.max_points for task in tasks)
        assert bars(repr(shown))[kind][1] == f"{round(reached, 2):g} of {round(most, 2):g}"
        assert f'<tr><th scope="row">{kind}</th><td>{round(reached, 2):g} of' in shown._repr_html_()
    for row in rows:
        assert f"{row.exercise.title} ({row.exercise.kind})" in repr(shown)


def test_an_exercise_of_another_version_is_of_no_known_kind():
    record("removed_lesson.task", 1, 2, "A task of old")
    assert [row.exercise.task_id for row in progress().kinds()["other"]] == ["removed_lesson.task"]
    assert bars(repr(progress()))["other"] == (10, "1 of 2")


def test_lessons_are_compared_where_there_is_more_than_one():
    titles = set(progress().lessons())
    assert titles < set(bars(repr(progress())))
    alone = progress("recurrence_limits")
    assert set(bars(repr(alone))) == set(alone.kinds())
    assert "Points by lesson" not in alone._repr_html_()


@pytest.mark.parametrize(
    ("points", "filled", "percent"), [(0, 0, 0), (0.001, 1, 1), (5, 10, 50), (9.999, 19, 99), (10, 20, 100)]
)
def test_a_bar_is_empty_only_for_nothing_and_full_only_for_all(points, filled, percent):
    record("removed_lesson.task", points, 10, "A task of old")
    shown = progress()
    assert bars(repr(shown))["other"][0] == filled
    row = re.search(r'<tr><th scope="row">other</th>.*?</tr>', shown._repr_html_())[0]
    assert f" {percent}%</td>" in row
    inner = int(re.search(r'<rect x="2" y="2" width="(\d+)"', row)[1])
    assert (inner == 0, inner == 116) == (filled == 0, filled == 20)


def test_bars_need_no_colour_of_their_own_and_are_not_read_out():
    page = progress()._repr_html_()
    drawings = re.findall(r"<svg.*?</svg>", page)
    assert drawings
    for drawing in drawings:
        assert drawing.startswith('<svg aria-hidden="true"')
        assert set(re.findall(r'(?:fill|stroke)="(.*?)"', drawing)) == {"none", "currentColor"}


def test_a_console_of_few_characters_can_show_the_bars():
    assert all(line.isascii() for line in repr(progress()).splitlines() if line.startswith("  ["))


# --- one file to keep -------------------------------------------------------------------------------------


def test_a_saved_file_says_what_was_reached_and_nothing_of_when_or_where(home, tmp_path):
    first = progress("recurrence_limits").rows[0].exercise
    record(first.task_id, 2, first.max_points, first.title)
    progress().save(tmp_path / "mine.json")
    raw = (tmp_path / "mine.json").read_text(encoding="utf-8")
    saved = json.loads(raw)
    assert saved["tasks"] == {
        first.task_id: {
            "title": first.title,
            "lesson": "recurrence_limits",
            "kind": TASKS[first.task_id].kind,
            "points": 2.0,
            "max_points": first.max_points,
            "tries": 1,
        }
    }
    assert (saved["points"], saved["max_points"]) == (2, progress().max_points)
    assert saved["lessons"]["recurrence_limits"]["points"] == 2
    assert saved["kinds"][first.kind]["points"] == 2
    assert set(saved) == {
        "format", "course", "version", "points", "max_points", "lessons", "kinds", "tasks"
    }  # fmt: skip
    assert str(tmp_path) not in raw


def test_the_same_points_give_the_same_bytes(home, tmp_path):
    record("lesson.b", 1, 3, "Divide by √d_k")
    record("lesson.a", 1 / 3, 1, "A task")
    progress().save(tmp_path / "one.json")
    progress().save(tmp_path / "two.json")
    progress().save(tmp_path / "two.json")  # it says so already
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert b"\r" not in (tmp_path / "one.json").read_bytes()


def test_a_saved_file_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    progress().save("progress.json")
    assert json.loads((tmp_path / "progress.json").read_text(encoding="utf-8"))["tasks"] == {}


def test_one_lesson_can_be_saved_alone(tmp_path):
    for row in progress().rows:
        record(row.exercise.task_id, 1, row.max_points, row.exercise.title)
    progress("recurrence_limits").save(tmp_path / "one.json")
    saved = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    assert set(saved["lessons"]) == {"recurrence_limits"}
    assert {task["lesson"] for task in saved["tasks"].values()} == {"recurrence_limits"}


def test_another_file_is_not_written_over(tmp_path):
    target = tmp_path / "progress.json"
    target.write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match="path: expected a new name, and .* is there.*overwrite=True"):
        progress().save(target)
    assert target.read_text(encoding="utf-8") == "mine"
    progress().save(target, overwrite=True)
    assert json.loads(target.read_text(encoding="utf-8"))["tasks"] == {}
    assert [entry.name for entry in tmp_path.iterdir()] == ["progress.json"]


def test_what_cannot_be_saved_says_why(home, tmp_path):
    record("lesson.task", 1, 2, "A task")
    before = (home / "progress.json").read_bytes()
    with pytest.raises(ValueError, match="path: expected a name that ends in .json, got 'points.html'"):
        progress().save(tmp_path / "points.html")
    with pytest.raises(
        FileNotFoundError, match="path: expected a folder that is there, and .*nowhere is not"
    ):
        progress().save(tmp_path / "nowhere" / "points.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(IsADirectoryError, match="path: expected a file, and .* is a folder"):
        progress().save(tmp_path / "folder.json")
    with pytest.raises(
        ValueError, match="path: expected another file .* in which the checks keep your points"
    ):
        progress("recurrence_limits").save(home / "progress.json", overwrite=True)
    assert (home / "progress.json").read_bytes() == before


@contextlib.contextmanager
def full_disk(*arguments, **named):
    """Open a file into which only a little fits."""
    with open(*arguments, **named) as file:

        def write(raw):
            file.write(raw[:10])
            raise OSError(28, "No space left on device")

        yield types.SimpleNamespace(write=write)


def test_a_full_disk_leaves_no_half_file_and_the_old_one_whole(tmp_path, monkeypatch):
    target = tmp_path / "progress.json"
    monkeypatch.setattr(progress_export, "open", full_disk, raising=False)
    monkeypatch.setattr(progress_file, "open", full_disk, raising=False)
    with pytest.raises(OSError, match="No space left"):
        progress().save(target)
    assert not target.exists()
    target.write_text("old", encoding="utf-8")
    with pytest.raises(OSError, match="No space left"):
        progress().save(target, overwrite=True)
    assert target.read_text(encoding="utf-8") == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["progress.json"]


def elsewhere(tmp_path, monkeypatch):
    """A home that has seen nothing, as the next Colab session has it."""
    folder = tmp_path / "elsewhere"
    monkeypatch.setenv("ATTNLAB_HOME", str(folder))
    return folder


def test_points_are_carried_on_elsewhere(home, tmp_path, monkeypatch):
    record(KNOWN, 1, 2, "Forget bias")
    record(KNOWN, 0, 2, "Forget bias")
    record("removed_lesson.task", 2, 2, "A task of old")
    progress().save(tmp_path / "saved.json")
    before = repr(progress())
    elsewhere(tmp_path, monkeypatch)
    assert progress().points == 0
    assert repr(progress().load(tmp_path / "saved.json")) == before == repr(progress())
    progress().save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "saved.json").read_bytes()


def test_of_two_results_the_better_one_stays_and_loading_twice_changes_nothing(home, tmp_path, monkeypatch):
    for name, points in (("better", 4), ("worse", 1), ("new", 2)):
        record(f"lesson.{name}", points, 5, "From there")
    progress().save(tmp_path / "saved.json")
    folder = elsewhere(tmp_path, monkeypatch)
    record("lesson.better", 3, 5, "Here")
    record("lesson.worse", 3, 5, "Here")
    record("lesson.worse", 3, 5, "Here")
    progress("recurrence_limits").load(tmp_path / "saved.json")
    once = (folder / "progress.json").read_bytes()
    assert stored(folder)["tasks"] == {
        "lesson.better": {"title": "Here", "points": 4.0, "max_points": 5.0, "tries": 1},
        "lesson.new": {"title": "From there", "points": 2.0, "max_points": 5.0, "tries": 1},
        "lesson.worse": {"title": "Here", "points": 3.0, "max_points": 5.0, "tries": 2},
    }
    progress().load(tmp_path / "saved.json")
    assert (folder / "progress.json").read_bytes() == once


def test_the_checks_own_file_can_be_loaded_too(home, tmp_path, monkeypatch):
    record(KNOWN, 1, 2, "Forget bias")
    elsewhere(tmp_path, monkeypatch)
    assert progress().load(home / "progress.json").points == 1


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_cannot_be_understood_adds_nothing(home, tmp_path, raw):
    record("lesson.task", 1, 2, "A task")
    before = (home / "progress.json").read_bytes()
    (tmp_path / "saved.json").write_bytes(raw)
    with pytest.raises(ValueError, match="path: .*saved.json cannot be understood: it "):
        progress().load(tmp_path / "saved.json")
    assert (home / "progress.json").read_bytes() == before


def test_what_is_not_a_file_cannot_be_loaded(tmp_path):
    with pytest.raises(FileNotFoundError, match="path: expected a saved progress file, and there is no "):
        progress().load(tmp_path / "saved.json")
    with pytest.raises(IsADirectoryError, match="path: expected a saved progress file, and .* is a folder"):
        progress().load(tmp_path)


def test_of_a_damaged_file_the_good_part_is_taken_and_the_rest_is_told(home, tmp_path):
    raw = {"format": 1, "tasks": {"lesson.good": GOOD, "lesson.bad": {**GOOD, "points": 5}}}
    (tmp_path / "saved.json").write_text(json.dumps(raw), encoding="utf-8")
    shown = repr(progress().load(tmp_path / "saved.json"))
    assert "the rest of the saved file was left out: some of its entries are damaged" in shown
    assert set(stored(home)["tasks"]) == {"lesson.good"}
    assert not list(home.glob("*.unreadable-*"))


def test_loaded_points_that_cannot_be_kept_are_shown_and_kept_later(home, tmp_path, monkeypatch):
    record(KNOWN, 1, 2, "Forget bias")
    progress().save(tmp_path / "saved.json")
    monkeypatch.setenv("ATTNLAB_HOME", str(unusable_homes(tmp_path)["home is a file"]))
    shown = progress().load(tmp_path / "saved.json")
    assert shown.points == 1
    assert "could not be saved" in repr(shown)
    folder = elsewhere(tmp_path, monkeypatch)
    record("lesson.task", 1, 2, "A task")
    assert set(stored(folder)["tasks"]) == {KNOWN, "lesson.task"}


def test_a_title_that_cannot_be_printed_is_mended(file):
    raw = {"format": 1, "tasks": {"lesson.task": {**GOOD, "title": "half \ud800 a letter"}}}
    file.write_text(json.dumps(raw), encoding="utf-8")
    assert repr(progress()).encode("utf-8")
