"""What every lesson must have and keep: a quiz, its duration, its size, and claims that hold on another
machine."""

import re
import shutil
from pathlib import Path

import nbformat
import pytest

from tools.notebooks import cli, quiz

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted(path.stem for path in (ROOT / "book/lessons").glob("[0-9]*.py"))
FOLDERS = ("notebooks", "exercises", "solutions")
NOTEBOOKS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.ipynb"))
QUICK, LONGEST = 20, 90
MEGABYTE = 1_000_000


def stored(stem):
    return nbformat.read(ROOT / f"notebooks/{stem}.ipynb", as_version=4)


def seconds(stem):
    """The seconds to run that the stored lesson was measured at; 0 where there are none."""
    path = ROOT / f"notebooks/{stem}.ipynb"
    return stored(stem).metadata.get("claims", {}).get("seconds", 0) if path.exists() else 0


QUICK_LESSONS = [stem for stem in LESSONS if 0 < seconds(stem) <= QUICK]


@pytest.mark.parametrize("stem", LESSONS)
def test_a_lesson_ends_with_a_quiz(stem):
    shown = [cell.source for cell in stored(stem).cells if quiz.is_shown(cell.source)]
    assert len(shown) == 1 and shown[0].count("**Right.**") == 5


@pytest.mark.parametrize("stem", LESSONS)
def test_a_lesson_says_how_long_it_takes(stem):
    line = re.search(r"^\*\*How long:\*\* (.+)$", stored(stem).cells[0].source, re.M)
    assert line and re.search(r"\d+ minutes to read, .*(second|minute).* to run", line[1])
    written = (ROOT / f"book/lessons/{stem}.py").read_text(encoding="utf-8")
    assert "[[how-long:read]]" in written and "[[how-long:run]]" in written


@pytest.mark.parametrize("stem", LESSONS)
def test_a_lesson_runs_in_a_minute_and_a_half(stem):
    assert 0 < seconds(stem) <= LONGEST


def test_stored_notebooks_are_small():
    sizes = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in NOTEBOOKS}
    assert {name: size for name, size in sizes.items() if size >= MEGABYTE} == {}
    assert sum(sizes.values()) < 8 * MEGABYTE


def test_some_lessons_are_quick():
    assert QUICK_LESSONS


@pytest.mark.parametrize("stem", QUICK_LESSONS)
def test_a_quick_lesson_holds_with_other_seeds_on_a_hard_day(stem, tmp_path, capsys):
    """Other seeds, no network, a folder with a space and an accent, strict encodings, 4 GiB of memory."""
    root = tmp_path / "Zoé's course"
    for folder in ("book", "src"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(ROOT / name, root / name)
    status = cli.main(["--root", str(root), "rehearse", f"book/lessons/{stem}.py"])
    said, complaints = capsys.readouterr()
    assert status == 0, complaints
    assert re.search(rf"^book/lessons/{stem}.py: seed shift 1, .*: \d+ claims hold$", said, re.M)
    assert not (root / "notebooks").exists() or not list((root / "notebooks").iterdir())
