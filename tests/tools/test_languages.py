"""The lesson's one word is changed, its own cells are run, and a missed bar is seen."""

import json
import re

import pytest

from tools import languages
from tools.notebooks import sources

LESSON = """# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Translation

# %%
from attnlab import claim, seed

# %%
language = "fr"    # or "de"

# %%
print("noise")
claim("exact_match", {"fr": 0.995, "de": 0.981}.get(language, 0.5) - seed(0) / 1e5, at_least=0.99)

# %%
raise RuntimeError("what follows the measurement is not run")
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("SEED_SHIFT", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = tmp_path / languages.LESSON
    path.parent.mkdir(parents=True)
    path.write_text(LESSON, encoding="utf-8")
    return tmp_path


def test_the_word_is_changed_and_the_seeds_are_shifted(root):
    assert languages.measure("fr", root=root) == pytest.approx(0.995)
    assert languages.measure("de", root=root) == pytest.approx(0.981)
    assert languages.measure("de", shift=1, root=root) == pytest.approx(0.971)


def test_a_bar_that_is_missed_is_told(root, capsys):
    assert languages.main(["fr", "de"], root) == 0
    printed = capsys.readouterr().out
    assert "fr  seed shift 0  exact match 0.995  bar 0.99, met" in printed and "noise" not in printed
    assert languages.main(["de", "--shifts", "0", "1"], root) == 1
    assert capsys.readouterr().out.count("MISSED") == 1
    assert languages.main([], root) == 1  # es and zh are at 0.5 here
    assert capsys.readouterr().out.count("MISSED") == 2


def test_an_unknown_language_is_refused(root, capsys):
    with pytest.raises(SystemExit):
        languages.main(["it"], root)
    assert "expected some of fr, de, es, zh, got it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ('language = "fr"', 'language = "pt"', 'expected language = "fr" once'),
        ("print(", 'language = "fr"\nprint(', 'expected language = "fr" once'),
        ("exact_match", "other", "expected a cell with claim"),
    ],
)
def test_a_lesson_that_has_changed_is_noticed(root, old, new, what):
    (root / languages.LESSON).write_text(LESSON.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=what):
        languages.measure("fr", root=root)


def good(root):
    """Store values that meet every bar, with one file of a package to hang on."""
    file = root / "src/attnlab/thing.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("THING = 1\n", encoding="utf-8")
    languages.store({"de": [0.99, 0.98, 1.0], "es": [1.0] * 3, "zh": [0.985] * 3}, root)
    entry = languages.stored(root)
    entry["sources"] = {"src/attnlab/thing.py": sources.hashes(root, ["src/attnlab/thing.py"]).popitem()[1]}
    (root / languages.STORE).write_text(json.dumps(entry), encoding="utf-8")


def test_what_is_stored_is_shown(root):
    assert languages.section(root) == ""
    good(root)
    assert list(languages.problems(root)) == []
    assert "| German | at least 0.98 | 3 | 0.980 | 1.000 |" in languages.section(root)


def test_nothing_stored_is_told(root):
    assert sum("too little, was measured" in problem for problem in languages.problems(root)) == 3


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda root, entry: entry["exact_match"]["zh"].pop(), "too little, was measured for zh"),
        (lambda root, entry: entry["exact_match"]["es"].append(0.97), "es reaches 0.97"),
        (lambda root, entry: entry.update(code="other"), "the cells of .* changed"),
        (
            lambda root, entry: (root / "src/attnlab/thing.py").write_text("THING = 2\n", encoding="utf-8"),
            "thing.py changed",
        ),
    ],
)
def test_stored_values_that_no_longer_hold_are_told(root, change, what):
    good(root)
    entry = languages.stored(root)
    change(root, entry)
    (root / languages.STORE).write_text(json.dumps(entry), encoding="utf-8")
    (problem,) = languages.problems(root)
    assert re.search(what, problem)


def test_a_widget_moves_no_number_and_everything_else_may(root):
    before = languages.code_of(root)
    path = root / languages.LESSON
    imported = LESSON.replace(
        "from attnlab import", "from attnlab.widgets import Some, Other\nfrom attnlab import"
    )
    path.write_text(imported, encoding="utf-8")
    assert languages.code_of(root) == before
    path.write_text(imported.replace("claim, seed", "claim, plots, seed"), encoding="utf-8")
    assert languages.code_of(root) != before


def test_values_are_stored_only_where_every_bar_is_met(root, monkeypatch):
    monkeypatch.setattr(languages, "measure", lambda language, shift, root: {"zh": 0.5}.get(language, 1.0))
    assert languages.main(["--write"], root) == 1 and languages.stored(root) == {}
    monkeypatch.setattr(languages, "measure", lambda language, shift, root: 0.99)
    assert languages.main(["--write"], root) == 0
    assert languages.stored(root)["exact_match"] == dict.fromkeys(("de", "es", "zh"), [0.99] * 3)


def test_the_real_lesson_has_what_is_needed():
    sources = [cell.source for cell in languages.cells_for("de")]
    assert sum('language = "de"' in source for source in sources) == 1
    assert languages.MEASURE in sources[-1]
