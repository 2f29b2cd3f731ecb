"""Tables: one row a submission, safe to open, and importable into Canvas and Moodle."""

import csv
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from attnlab.grading.collection import Submission
from attnlab.grading.platforms import RosterError, write_canvas, write_moodle
from attnlab.grading.results import SubmissionResult
from attnlab.grading.scheme import Scheme
from attnlab.grading.students import by_student
from attnlab.grading.table import safe_cell, write_marks
from tests.grading.standin import exercise, result

ATTENTION, ATTEND = "query_key_value.attention", "query_key_value.attend"
COLUMNS = {ATTENTION: Fraction(2), ATTEND: Fraction(4)}
MONDAY = datetime(2027, 2, 1, 12, tzinfo=UTC)


def mark(name, *exercises, student="", number="", when=MONDAY, **fields):
    submission = Submission(name, student or name.removesuffix(".ipynb"), None, number, submitted=when)
    return Scheme().mark(submission, result(*exercises, name=name, **fields), COLUMNS)


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.fixture
def roster(tmp_path):
    def write(text, name="roster.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_text(text, encoding=encoding)
        return path

    return write


def test_one_row_a_submission_whatever_happened(tmp_path):
    failed = SubmissionResult("ben.ipynb", "", "failed", "the file is no notebook")
    marks = [
        mark(
            "anna.ipynb",
            exercise(ATTENTION, "2/3", "2"),
            exercise(ATTEND, "4", "4"),
            notices=("cell 3 broke",),
        ),
        Scheme().mark(Submission("ben.ipynb", "ben", None), failed, COLUMNS),
        mark("carla.ipynb", exercise(ATTENTION, "0", "2", status="stopped", reason="an endless loop?")),
    ]
    write_marks(tmp_path / "marks.csv", marks, list(COLUMNS), {"anna.ipynb": tmp_path / "page.html"})
    rows = rows_of(tmp_path / "marks.csv")
    assert rows[0][:6] == ["submission", "student", ATTENTION, ATTEND, "total", "max"]
    table = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    assert [row["total"] for row in table] == ["4.6667", "0", "0"]
    assert {row["max"] for row in table} == {"6"}
    assert [row["status"] for row in table] == ["graded", "failed", "graded"]
    assert table[0]["notices"] == "cell 3 broke" and table[0]["feedback"] == "page.html"
    assert table[1]["reason"] == "the file is no notebook"
    assert table[2]["reason"] == f"{ATTENTION}: an endless loop?"


@pytest.mark.parametrize("text", ["=1+1", "+x", "-x", "@x", "\tx", "=HYPERLINK(A1)"])
def test_a_cell_is_never_run_as_a_formula(text):
    assert safe_cell(text).startswith("'")


@pytest.mark.parametrize("text", ["-1.5", "2", "anna", "a=b", ""])
def test_other_cells_stay_as_they_are(text):
    assert safe_cell(text) == text


def test_a_giant_text_is_cut_and_lines_are_joined():
    assert len(safe_cell("x" * 100_000)) < 2_100
    assert safe_cell("a\nb\r\nc") == "a b c"


def test_the_last_attempt_counts_not_the_best():
    students = by_student(
        [
            mark("b2", exercise(ATTENTION, "1", "2"), student="ben", when=MONDAY + timedelta(hours=1)),
            mark("b1", exercise(ATTENTION, "2", "2"), exercise(ATTEND, "4", "4"), student="ben"),
            mark("a", exercise(ATTEND, "0", "4", status="not attempted"), student="anna"),
        ]
    )
    assert [(one.name, one.points, one.max_points) for one in students] == [("anna", 0, 6), ("ben", 5, 6)]


CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Exercises 3 (77),Current Score
    Points Possible,,,,,6,(read only)
"Lovelace, Ada",321,s1,ada@school.edu,A,,
"Turing, Alan",322,s2,alan@school.edu,B,3,
"Hopper, Grace",323,s3,grace,B,,
"""


def test_canvas_gets_its_own_rows_back_with_the_grade(roster, tmp_path):
    students = by_student(
        [
            mark("x", exercise(ATTENTION, "2", "2"), student="lovelaceada", number="321"),
            mark("grace", exercise(ATTEND, "1", "4")),
            mark("nobody", exercise(ATTEND, "1", "4")),
        ]
    )
    path = tmp_path / "out.csv"
    left = write_canvas(path, students, "Exercises 3 (77)", roster(CANVAS, encoding="utf-8-sig"))
    assert rows_of(path) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Exercises 3 (77)"],
        ["    Points Possible", "", "", "", "", "6"],
        ["Lovelace, Ada", "321", "s1", "ada@school.edu", "A", "2"],
        ["Turing, Alan", "322", "s2", "alan@school.edu", "B", ""],
        ["Hopper, Grace", "323", "s3", "grace", "B", "1"],
    ]
    assert left == ["nobody: not in the roster, or not the only one of this name"]


def test_canvas_without_a_roster_has_the_numbers_of_its_files(tmp_path):
    students = by_student([mark("x", student="lovelaceada", number="321"), mark("ben.ipynb")])
    left = write_canvas(tmp_path / "out.csv", students, "Set 3")
    rows = rows_of(tmp_path / "out.csv")
    assert rows[0] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Set 3"]
    assert "Points Possible" in rows[1][0] and rows[1][5] == "6"
    assert rows[2:] == [["lovelaceada", "321", "", "", "", "0"]]
    assert left == ["ben: no number in the name of the file"]


MOODLE = """Identifier;Full name;Email address;Grade;Maximum Grade;Last modified (grade);Feedback comments
Participant 321;Ada Lovelace;ada@x.org;;12,00;-;
Participant 322;Alan Turing;alan@x.org;;12,00;-;old
Participant 21;Alan Turing;at@x.org;;12,00;-;
"""


def test_moodle_gets_its_worksheet_back_with_grade_and_comments(roster, tmp_path):
    hint = "You <b>normalised</b> over the queries."
    students = by_student(
        [
            mark("x", exercise(ATTENTION, "1", "2", hints=(hint,)), student="Ada Lovelace", number="321"),
            mark("y", student="Alan Turing"),
        ]
    )
    path = tmp_path / "out.csv"
    left = write_moodle(path, students, roster(MOODLE))
    head, ada, *others = rows_of(path)
    ada = dict(zip(head, ada, strict=True))
    assert (ada["Identifier"], ada["Grade"], ada["Last modified (grade)"]) == ("Participant 321", "2", "-")
    assert "attention: 1 of 2<br>You &lt;b&gt;normalised&lt;/b&gt;" in ada["Feedback comments"]
    assert [row[head.index("Grade")] for row in others] == ["", ""]  # two of one name: neither is guessed
    assert others[0][-1] == "old"
    assert left == ["Alan Turing: not in the roster, or not the only one of this name"]


def test_moodle_without_a_roster_has_every_column_that_it_looks_for(tmp_path):
    write_moodle(
        tmp_path / "out.csv", by_student([mark("x", exercise(ATTEND, "3", "4"), number="5", student="A B")])
    )
    head, row = rows_of(tmp_path / "out.csv")
    entry = dict(zip(head, row, strict=True))
    assert {"Identifier", "Grade", "Last modified (grade)", "Feedback comments"} <= set(head)
    assert (entry["Identifier"], entry["Grade"], entry["Maximum Grade"]) == ("Participant 5", "3", "6")


def test_names_are_found_in_either_order(roster, tmp_path):
    students = by_student([mark("x", exercise(ATTEND, "3", "4"), student="Ada Lovelace")])
    assert write_canvas(tmp_path / "out.csv", students, "Set 3", roster(CANVAS)) == []
    assert rows_of(tmp_path / "out.csv")[2][-1] == "3"


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "Identifier,Name\n"])
def test_another_table_is_no_roster(text, roster, tmp_path):
    with pytest.raises(RosterError, match="has no column"):
        write_moodle(tmp_path / "out.csv", [], roster(text))


def test_a_table_from_somewhere_else_is_never_run_either(tmp_path):
    evil = mark("x", student="=cmd()", number="7")
    write_canvas(tmp_path / "out.csv", by_student([evil]), "Set 3")
    assert rows_of(tmp_path / "out.csv")[2][0] == "'=cmd()"
    write_marks(tmp_path / "marks.csv", [replace(evil, flags=("=x",))], list(COLUMNS))
    assert "'=x" in rows_of(tmp_path / "marks.csv")[1]
