"""No lesson runs ahead of the one that introduces a term, a symbol or a part of the library."""

import pytest

from tools import reading_order

HEADER = (
    "# ---\n# jupyter:\n#   kernelspec: {name: python3, display_name: Python 3, language: python}\n# ---\n\n"
)
LINK = "../book/pages/glossary.md#"
LESSONS = {
    "01_first": f"""# %% [markdown]
# # First
#
# You will meet soft lookup. This is the first cell.

# %%
from attnlab import claim, plots
from attnlab.recurrent import LSTM

# %% [markdown]
# ## A soft lookup
#
# A [soft lookup]({LINK}soft-lookup) follows. Soft lookups are smooth. Lesson 3 has a score. Here is $d_k$.
# The value is high. `causal mask` is code, and so is $\\text{{causal mask}}$.
""",
    "02_second": f"""# %% [markdown]
# # Second
#
# The [value]({LINK}value).

# %%
from attnlab.positions import turn

# %% [markdown]
# Positions are the topic of lesson 6. $d_k$ and $W^Q$.
""",
}
GLOSSARY = """# Glossary

## C

### Causal mask

A mask. Introduced in lesson 3.

## S

### Soft lookup

A lookup. Introduced in [lesson 1](../../notebooks/01_first.ipynb).

## V

### Value

What is handed over. Introduced in lesson 3; [lesson 2](../../notebooks/02_second.ipynb) already needs one.
"""
NOTATION = """# Notation

| symbol | meaning | lesson |
| --- | --- | --- |
| $d_k$ | width | 1 |
| $W^Q$, $W^K$ | matrices | 2 |
| $k$ | key | 3 |
"""
CHAPTERS = """- part: I
  title: Why
  lessons:
    - {slug: 01_first, title: First, question: "Why?", status: lesson}
    - {slug: 02_second, title: Second, question: "How?", status: lesson}
    - {slug: 03_third, title: Third, question: "What?", status: planned}
"""


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A small course in which everything is in order."""
    monkeypatch.setattr(reading_order, "LESSON_OF", {"claim": 0, "plots": 0, "recurrent": 1, "positions": 6})
    for name, text in {
        "book/chapters.yml": CHAPTERS,
        "book/pages/glossary.md": GLOSSARY,
        "book/pages/notation.md": NOTATION,
        **{f"book/lessons/{slug}.py": HEADER + text for slug, text in LESSONS.items()},
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_no_lesson_of_this_course_runs_ahead():
    assert reading_order.problems() == []


def test_every_part_of_the_library_is_in_the_list():
    package = reading_order.ROOT / "src/attnlab"
    rooms = {
        path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    known = {name.partition(".")[0] for name in reading_order.LESSON_OF}
    for_others = {"__init__", "claims", "checks", "cli", "progress", "grading"}
    assert {room for room in rooms if not room.startswith("_") or room == "__init__"} - for_others <= known


def test_every_symbol_that_is_more_than_a_letter_has_its_lesson():
    found = reading_order.symbols()
    assert len(found) > 20 and found["d_k"] == 3 and found[r"\sigma_{max}"] == 1 and found["W^V"] == 3


def test_a_small_course_in_order_passes(course):
    assert reading_order.problems(course) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "at", "complaint"),
    [
        (
            "01_first",
            "Soft lookups are",
            "Causal masks are",
            "Causal",
            "'Causal mask' is introduced in lesson 3",
        ),
        ("01_first", "The value", f"The [value]({LINK}value)", "The [", "'Value' is introduced in lesson 3"),
        (
            "01_first",
            f"A [soft lookup]({LINK}soft-lookup)",
            "It",
            "",
            "the glossary says that this lesson uses",
        ),
        (
            "01_first",
            "A [soft",
            "Soft lookups. A\n# [soft",
            "Soft lookups.",
            "'Soft lookup' is used before line",
        ),
        (
            "02_second",
            f"[value]({LINK}value)",
            "value",
            "",
            "the glossary says that this lesson uses 'Value'",
        ),
        ("01_first", "$d_k$", "$W^K$", "$W^K", "the symbol $W^K$ is introduced in lesson 2"),
        ("01_first", "$d_k$", "$X W^K_i$", "$X W^K", "the symbol $W^K$ is introduced in lesson 2"),
        (
            "02_second",
            "lesson 6",
            "another lesson",
            "import turn",
            "positions.turn is introduced in lesson 6",
        ),
        (
            "01_first",
            "attnlab.recurrent",
            "attnlab.unknown",
            "import LSTM",
            "LESSON_OF in tools/reading_order.py",
        ),
        (
            "01_first",
            "from attnlab.recurrent import LSTM",
            "",
            "",
            "this lesson introduces recurrent of the library",
        ),
    ],
)
def test_running_ahead_is_found_at_its_line(course, name, old, new, at, complaint):
    path = course / "book/lessons" / f"{name}.py"
    text = path.read_text(encoding="utf-8")
    assert old in text
    text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    line = next(number for number, line in enumerate(text.split("\n"), 1) if at in line)
    found = reading_order.problems(course)
    assert any(one.startswith(f"book/lessons/{name}.py:{line}: ") and complaint in one for one in found), (
        found
    )


@pytest.mark.parametrize("text", ["The soft-lookup of", "Soft\n# lookups are"])
def test_a_term_is_found_across_lines_and_hyphens(course, text):
    path = course / "book/lessons/02_second.py"
    path.write_text(path.read_text(encoding="utf-8") + f"# {text}\n", encoding="utf-8")
    glossary = course / "book/pages/glossary.md"
    moved = GLOSSARY.replace(
        "Introduced in [lesson 1](../../notebooks/01_first.ipynb)", "Introduced in lesson 3"
    )
    glossary.write_text(moved, encoding="utf-8")
    found = [
        line for line in reading_order.problems(course) if "02_second" in line and "'Soft lookup'" in line
    ]
    assert len(found) == 1


def test_an_entry_without_a_lesson_is_refused(course):
    glossary = course / "book/pages/glossary.md"
    glossary.write_text(GLOSSARY.replace("Introduced in lesson 3.", "Nowhere."), encoding="utf-8")
    with pytest.raises(ValueError, match="Causal mask names no lesson"):
        reading_order.problems(course)
