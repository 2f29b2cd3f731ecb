"""The list of lessons agrees with the files, and the tables with the list."""

import pytest

from tools import chapters

LIST = """\
- part: I
  title: Why
  lessons:
    - {slug: 01_first, title: The first, question: "Why?", status: here}
    - {slug: 02_second, title: The second, question: "How?", status: planned}
"""
CONFIG = "repository:\n  url: https://github.com/example/course\n  branch: trunk\n"
TOC = """\
root: book/pages/index
chapters:
  - file: notebooks/01_first
  - file: exercises/01_first
  - file: solutions/01_first
"""
PAGE = f"# Course\n\nBefore.\n\n{chapters.BEGIN}\n{chapters.END}\n\nAfter.\n"


@pytest.fixture
def course(tmp_path):
    """A small course with one lesson that is here and one that is planned."""
    for name, text in {
        "book/chapters.yml": LIST,
        "book/lessons/01_first.py": "# %% [markdown]\n# # The first\n#\n# Why?\n",
        "book/exercises/01_first.py": "# %% [markdown]\n# # Exercises\n",
        "book/pages/index.md": PAGE,
        "README.md": PAGE,
        "_config.yml": CONFIG,
        "_toc.yml": TOC,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_this_course_agrees_with_its_list():
    assert chapters.problems() == []


def test_this_course_has_its_tables_filled():
    assert chapters.fill(check=True) == []


def test_the_list_holds_the_whole_syllabus_in_six_parts():
    parts = chapters.read()
    assert [part.number for part in parts] == ["I", "II", "III", "IV", "V", "VI"]
    assert [lesson.number for lesson in chapters.lessons_of(parts)] == list(range(1, 20))


def test_every_question_is_one_question():
    for lesson in chapters.lessons_of(chapters.read()):
        assert lesson.question.count("?") == 1 and lesson.question.endswith("?")


def test_filling_keeps_the_rest_of_the_page_and_is_stable(course):
    assert chapters.fill(course) == ["README.md", "book/pages/index.md"]
    text = (course / "README.md").read_text(encoding="utf-8")
    assert text.startswith("# Course\n\nBefore.\n") and text.endswith("\n\nAfter.\n")
    assert chapters.fill(course) == []


def test_check_writes_nothing(course):
    assert chapters.fill(course, check=True) == ["README.md", "book/pages/index.md"]
    assert (course / "README.md").read_text(encoding="utf-8") == PAGE


def test_only_what_exists_is_linked_and_from_where_the_page_lies(course):
    chapters.fill(course)
    readme = (course / "README.md").read_text(encoding="utf-8")
    index = (course / "book/pages/index.md").read_text(encoding="utf-8")
    assert (
        "| 1. [The first](notebooks/01_first.ipynb) | Why? | [exercises](exercises/01_first.ipynb) · "
        in readme
    )
    assert "[The first](../../notebooks/01_first.ipynb)" in index
    assert "| 2. The second | How? | planned |" in readme
    colab = "https://colab.research.google.com/github/example/course/blob/trunk/notebooks/01_first.ipynb"
    assert f"[Colab]({colab})" in readme and f"[Colab]({colab})" in index


def without_exercises(course):
    (course / "book/exercises/01_first.py").unlink()
    edit(course / "_toc.yml", "  - file: exercises/01_first\n  - file: solutions/01_first\n", "")


def test_a_lesson_may_be_there_before_its_exercises(course):
    without_exercises(course)
    edit(course / "book/chapters.yml", "status: here", "status: lesson")
    chapters.fill(course)
    readme = (course / "README.md").read_text(encoding="utf-8")
    assert "| 1. [The first](notebooks/01_first.ipynb) | Why? | exercises to come · [Colab](" in readme
    assert "exercises/01_first" not in readme


def test_a_lesson_without_exercises_says_so_in_the_list(course):
    without_exercises(course)
    with pytest.raises(chapters.ChapterError) as error:
        chapters.fill(course)
    start = "book/chapters.yml: 01_first is marked as here, but"
    assert str(error.value).splitlines() == [
        f"{start} book/exercises/01_first.py is missing",
        f"{start} _toc.yml does not list exercises/01_first",
        f"{start} _toc.yml does not list solutions/01_first",
    ]


@pytest.mark.parametrize(
    ("name", "old", "new", "complaint"),
    [
        ("book/chapters.yml", "status: planned", "status: here", "book/lessons/02_second.py is missing"),
        ("book/chapters.yml", "status: planned", "status: here", "does not list notebooks/02_second"),
        (
            "book/chapters.yml",
            "status: here",
            "status: planned",
            r"planned, but book/lessons/01_first\.py exists",
        ),
        (
            "book/chapters.yml",
            "status: here",
            "status: lesson",
            r"lesson, but book/exercises/01_first\.py exists",
        ),
        ("book/chapters.yml", "status: here", "status: lesson", "lesson, but solutions/01_first exists"),
        (
            "_toc.yml",
            "  - file: solutions/01_first\n",
            "",
            "here, but _toc.yml does not list solutions/01_first",
        ),
        ("book/lessons/01_first.py", "# # The first", "# # Another", "its first heading says 'Another'"),
        ("_toc.yml", "notebooks/01_first", "notebooks/03_third", "03_third exists, but is not in the list"),
        (
            "_toc.yml",
            "exercises/01_first",
            "exercises/02_second",
            "02_second is marked as planned, but exercises/02_second exists",
        ),
    ],
)
def test_a_disagreement_is_found_and_nothing_is_written(course, name, old, new, complaint):
    edit(course / name, old, new)
    with pytest.raises(chapters.ChapterError, match=complaint):
        chapters.fill(course)
    assert (course / "README.md").read_text(encoding="utf-8") == PAGE


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("01_first,", "first,", "'first' is not a slug"),
        ("02_second", "03_second", r"numbered 1, 2, 3, \.\.\. in order, not \[1, 3\]"),
        ("status: here", "status: soon", "must be here, lesson or planned, not 'soon'"),
        ('question: "Why?", ', "", "a lesson needs"),
        ("  title: Why\n", "", "a part needs"),
        ("lessons:\n", "lessons: [\n", "book/chapters.yml: not YAML"),
    ],
)
def test_a_malformed_list_is_refused(course, old, new, complaint):
    edit(course / "book/chapters.yml", old, new)
    with pytest.raises(chapters.ChapterError, match=complaint):
        chapters.read(course)


@pytest.mark.parametrize(
    "marks", ["", chapters.BEGIN, f"{chapters.END}\n{chapters.BEGIN}", 2 * chapters.BEGIN]
)
def test_a_page_without_its_marks_is_refused(course, marks):
    (course / "README.md").write_text(f"# Course\n{marks}\n", encoding="utf-8")
    with pytest.raises(chapters.ChapterError, match=r"README\.md: it needs one"):
        chapters.fill(course)


def test_the_command_line_fails_on_a_difference(course, monkeypatch, capsys):
    monkeypatch.setattr(chapters, "ROOT", course)
    assert chapters.main(["--check"]) == 1
    assert "README.md: out of date" in capsys.readouterr().out
    assert chapters.main([]) == 0
    assert chapters.main(["--check"]) == 0
    (course / "_config.yml").write_text("title: x\n", encoding="utf-8")
    assert chapters.main(["--check"]) == 1
    assert "no repository.url" in capsys.readouterr().err
