"""A whole class is graded: nothing twice, no row lost to what a submission does, the same seed for ever."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from attnlab.grading.batch import Settings, chosen_tasks, columns_of, grade_all, settings_as_texts
from attnlab.grading.budget import Limits
from attnlab.grading.collection import Submission, collect
from attnlab.grading.pool import grade_files
from attnlab.grading.resume import Store, digest_of, version
from attnlab.grading.scheme import Scheme
from tests.grading import standin

ATTENTION = "query_key_value.attention"
SETTINGS = Settings(seed=5, limits=Limits(start_seconds=0, total_seconds=30))


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "submissions"
    folder.mkdir()
    return folder


@pytest.fixture
def log(tmp_path, monkeypatch):
    folder = tmp_path / "log"
    folder.mkdir()
    monkeypatch.setenv("STANDIN_LOG", str(folder))
    return folder


def hand_in(source, name, **wanted):
    path = source / name
    path.write_text(json.dumps(wanted or {"exercises": {ATTENTION: {"points": "1"}}}), encoding="utf-8")
    return path


def gradings(log):
    return [path for path in log.iterdir() if path.is_file()]


def in_this_process(files, grade, *, jobs, seconds):
    for name, path in files:
        yield name, grade(Path(path)), True


@pytest.fixture
def quick(monkeypatch):
    """Without processes of their own, which take seconds to start."""
    monkeypatch.setattr("attnlab.grading.batch.grade_files", in_this_process)


def graded(source, tmp_path, store, settings=SETTINGS):
    seen = []
    submissions = collect(source, tmp_path / "scratch")
    results = grade_all(
        submissions, settings, store, grade=standin.grade, told=lambda result, before: seen.append(before)
    )
    return results, seen


def test_processes_that_die_or_hang_cost_one_row_each(source, tmp_path, log, monkeypatch):
    monkeypatch.setattr("attnlab.grading.pool._PATIENCE", 0)
    for index in range(4):
        hand_in(source, f"good{index}.ipynb", exercises={ATTENTION: {"points": str(index)}})
    hand_in(source, "dies.ipynb", does="exit")
    hand_in(source, "good9.ipynb", exercises={ATTENTION: {"points": "9", "of": "9"}})
    files = [(path.name, path) for path in sorted(source.iterdir())]
    grade = partial(standin.grade, seed=1)
    results = {name: (result, kept) for name, result, kept in grade_files(files, grade, jobs=2, seconds=30)}
    assert set(results) == {name for name, _ in files}
    died, kept = results["dies.ipynb"]
    assert (died.status, kept) == ("failed", False)
    assert "the grader's own process ended (exit 7) at dies.ipynb" in died.reason
    assert [str(results[f"good{i}.ipynb"][0].points) for i in (0, 1, 2, 3, 9)] == ["0", "1", "2", "3", "9"]
    assert len(gradings(log)) == 6
    left = [path for path in log.iterdir() if path.is_dir()]
    assert len(left) == 1  # of the process that died

    hand_in(source, "hangs.ipynb", does="hang")
    ((_, hung, kept),) = grade_files([("h", source / "hangs.ipynb")], standin.grade, jobs=3, seconds=2)
    assert (hung.reason, kept) == ("grading h did not come to an end and was stopped", False)


def test_nothing_is_graded_twice(source, tmp_path, log, quick):
    for name in ("anna.ipynb", "ben.ipynb"):
        hand_in(source, name, notices=[name])
    store = Store(tmp_path / "kept")
    first, seen = graded(source, tmp_path, store)
    assert seen == [False, False] and len(gradings(log)) == 2
    hand_in(source, "carla.ipynb")
    again, seen = graded(source, tmp_path, store)
    assert sorted(seen) == [False, True, True] and len(gradings(log)) == 3
    assert {name: again[name] for name in first} == first


def test_an_interrupted_run_goes_on_where_it_was(source, tmp_path, log, monkeypatch):
    for index in range(5):
        hand_in(source, f"{index}.ipynb", notices=[f"{index}"])

    def interrupted(files, grade, **settings):
        for number, one in enumerate(in_this_process(files, grade, **settings)):
            if number == 3:
                raise KeyboardInterrupt
            yield one

    monkeypatch.setattr("attnlab.grading.batch.grade_files", interrupted)
    store = Store(tmp_path / "kept")
    with pytest.raises(KeyboardInterrupt):
        graded(source, tmp_path, store)
    before = len(gradings(log))
    monkeypatch.setattr("attnlab.grading.batch.grade_files", in_this_process)
    results, seen = graded(source, tmp_path, store)
    assert (seen.count(True), seen.count(False)) == (3, 2)
    assert len(gradings(log)) == before + 2
    assert [results[f"{i}.ipynb"].notices for i in range(5)] == [(f"{i}",) for i in range(5)]


def test_the_same_bytes_are_graded_once_and_keep_their_names(source, tmp_path, log, quick):
    for name in ("anna.ipynb", "ben.ipynb", "carla.py"):
        hand_in(source, name)
    results, _ = graded(source, tmp_path, Store(tmp_path / "kept"))
    assert len(gradings(log)) == 2  # a script is read in another way than a notebook
    assert [result.name for result in results.values()] == list(results)


@pytest.mark.parametrize(
    "change",
    [{"seed": 6}, {"tasks": (ATTENTION,)}, {"limits": Limits(total_seconds=31)}, {"unsafe": True}],
    ids=lambda change: next(iter(change)),
)
def test_whatever_a_result_depends_on_makes_it_anew(change, source, tmp_path, log, quick):
    hand_in(source, "anna.ipynb")
    for settings in (SETTINGS, replace(SETTINGS, **change), SETTINGS):
        graded(source, tmp_path, Store(tmp_path / "kept", settings_as_texts(settings)), settings)
    assert len(gradings(log)) == 2


def test_what_the_grader_itself_failed_at_is_tried_again(source, tmp_path, log, monkeypatch):
    hand_in(source, "anna.ipynb")

    def failing(files, grade, **settings):
        for name, path in files:
            yield name, replace(grade(Path(path)), status="failed", reason="no memory"), False

    store = Store(tmp_path / "kept")
    monkeypatch.setattr("attnlab.grading.batch.grade_files", failing)
    results, _ = graded(source, tmp_path, store)
    assert results["anna.ipynb"].reason == "no memory"
    monkeypatch.setattr("attnlab.grading.batch.grade_files", in_this_process)
    results, seen = graded(source, tmp_path, store)
    assert results["anna.ipynb"].status == "graded" and seen == [False]


def test_what_could_not_be_graded_is_tried_again_when_asked(source, tmp_path, log, quick):
    (source / "anna.ipynb").write_text("{oops", encoding="utf-8")
    store = Store(tmp_path / "kept")
    for settings, count in ((SETTINGS, 1), (SETTINGS, 1), (replace(SETTINGS, again=True), 2)):
        results, _ = graded(source, tmp_path, store, settings)
        assert results["anna.ipynb"].reason == "this is no notebook"
        assert len(gradings(log)) == count


def test_a_row_without_a_file_has_its_reason(tmp_path, log, quick):
    lost = Submission("x.pdf", "x", None, problem="a notebook is wanted")
    gone = Submission("y.ipynb", "y", tmp_path / "nowhere.ipynb")
    results = grade_all([lost, gone], SETTINGS, Store(tmp_path / "kept"), grade=standin.grade)
    assert [result.reason for result in results.values()] == [
        "a notebook is wanted",
        "the file cannot be read: No such file or directory",
    ]
    assert not gradings(log)


def test_a_damaged_result_is_made_anew(source, tmp_path, log, quick):
    hand_in(source, "anna.ipynb")
    store = Store(tmp_path / "kept")
    graded(source, tmp_path, store)
    (kept,) = [path for path in (tmp_path / "kept").iterdir() if path.name != "seed.json"]
    kept.write_text(kept.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    results, seen = graded(source, tmp_path, store)
    assert seen == [False] and results["anna.ipynb"].status == "graded"


def test_a_seed_is_drawn_once_and_differs_between_tables(tmp_path):
    first, second = Store(tmp_path / "a"), Store(tmp_path / "b")
    assert first.seed() == first.seed() == Store(tmp_path / "a").seed()
    assert first.seed() != second.seed()


def test_a_drawn_seed_reaches_the_grader(source, tmp_path, log, quick):
    hand_in(source, "anna.ipynb")
    store = Store(tmp_path / "kept")
    graded(source, tmp_path, store, replace(SETTINGS, seed=None))
    assert [path.read_text(encoding="utf-8") for path in gradings(log)] == [str(store.seed())]


def test_a_giant_file_is_told_apart_without_reading_it_all(tmp_path):
    paths = [tmp_path / name for name in "abc"]
    for path, size in zip(paths, (100, 101, 101), strict=True):
        path.write_bytes(b"x" * size)
    digests = [digest_of(path, 50) for path in paths]
    assert digests[0] != digests[1] == digests[2]
    assert digest_of(paths[0], 1000) != digest_of(paths[1], 1000)


def test_other_exercises_make_it_anew(tmp_path):
    notebook = {
        "cells": [{"cell_type": "code", "metadata": {}, "source": f'check("{ATTENTION}", attention)'}]
    }
    texts = []
    for name in ("attention", "mine"):
        source = notebook["cells"][0]["source"].replace(", attention", f", {name}")
        cells = [{**notebook["cells"][0], "source": source}]
        (tmp_path / name).mkdir()
        (tmp_path / name / "03_x.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
        texts.append(list(settings_as_texts(Settings(exercises=tmp_path / name))))
    assert texts[0] != texts[1]
    assert len(version()) == 64


def test_exercises_are_named_by_id_or_lesson():
    lesson = chosen_tasks(["query_key_value"])
    assert ATTENTION in lesson and len(lesson) >= 6
    assert chosen_tasks(["query_key_value.attend", ATTENTION]) == (ATTENTION, "query_key_value.attend")
    with pytest.raises(ValueError, match="attenshun: expected an exercise, or one of the lessons"):
        chosen_tasks(["attenshun"])


def test_columns_are_what_was_found_and_what_hidden_cases_add():
    results = [
        standin.result(standin.exercise("query_key_value.attend", "1", "4")),
        standin.result(standin.exercise(ATTENTION, "1", "2", hidden=[("0", "3")])),
        standin.result(standin.exercise(ATTENTION, status="not attempted")),
    ]
    columns = columns_of(results, Settings(), Scheme())
    assert list(columns.items()) == [(ATTENTION, 5), ("query_key_value.attend", 4)]
    assert list(columns_of(results, Settings(), Scheme(points={ATTENTION: 0}))) == ["query_key_value.attend"]
    asked = columns_of([], Settings(tasks=(ATTENTION,)), Scheme())
    assert asked == {ATTENTION: 9}  # of the course's own cases that learners see
