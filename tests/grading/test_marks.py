"""Points, dates and lateness: exact, readable from both kinds of file, refused where they mean nothing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from attnlab.grading.collection import Submission
from attnlab.grading.marks import decimal
from attnlab.grading.scheme import Scheme
from attnlab.grading.scheme_file import SchemeError, read_scheme
from tests.grading.standin import exercise, result

ATTENTION, ATTEND = "query_key_value.attention", "query_key_value.attend"
DUE = datetime(2027, 2, 5, 18, tzinfo=UTC)
ANNA = Submission("anna.ipynb", "anna", None, submitted=DUE)

TOML = """
[points]
"query_key_value.attention" = 10
query_key_value = 40.5
[due]
query_key_value = 2027-02-05T18:00:00Z
[late]
per_day = 0.1
days = 5
[extensions]
anna = 7
[submitted]
"ben.ipynb" = 2027-02-05T17:00:00+01:00
[forbidden]
"query_key_value.attention" = ["softmax"]
"""
YAML = """
points: {query_key_value.attention: 10, query_key_value: 40.5}
due: {query_key_value: 2027-02-05T18:00:00Z}
late: {per_day: 0.1, days: 5}
extensions: {anna: 7}
submitted: {ben.ipynb: "2027-02-05T17:00:00+01:00"}
forbidden: {query_key_value.attention: [softmax]}
"""


def points(mark):
    return [exercise.points for exercise in mark.exercises]


def test_seven_sevenths_are_one():
    parts = {f"query_key_value.part_{i}": Fraction(1, 7) for i in range(7)}
    graded = result(*(exercise(task_id, "1/7", "1/7") for task_id in parts))
    mark = Scheme().mark(ANNA, graded, parts)
    assert decimal(mark.points) == decimal(mark.max_points) == "1"


def test_two_public_and_three_hidden_cases_that_fail_are_two_fifths():
    graded = result(exercise(ATTENTION, "2", "2", hidden=[("0", "1")] * 3))
    mark = Scheme().mark(ANNA, graded, {ATTENTION: Fraction(5)})
    assert (mark.points, mark.max_points) == (2, 5)


def test_points_of_your_own_scale_the_share():
    scheme = Scheme(points={ATTENTION: Fraction(10), ATTEND: Fraction(0)})
    mark = scheme.mark(ANNA, result(exercise(ATTENTION, "1", "3")), {ATTENTION: Fraction(3)})
    assert (mark.points, mark.max_points) == (Fraction(10, 3), 10)


def test_a_lesson_shares_its_points_among_the_exercises_without_their_own():
    scheme = Scheme(points={"query_key_value": Fraction(40), ATTENTION: Fraction(7)})
    shares = [
        scheme.worth(task_id) for task_id in ("query_key_value.exponent", ATTEND, "recurrence_limits.x")
    ]
    assert shares[0] / shares[1] == Fraction(3, 4)  # 3 and 4 points in the course
    assert shares[2] is None
    others = {"prediction", "SelfAttention", "attend", "exponent", "test_attention"}
    assert sum(scheme.worth(f"query_key_value.{name}") for name in others) == 40


def test_an_exercise_that_is_missing_counts_in_full():
    mark = Scheme().mark(
        ANNA, result(exercise(ATTEND, "4", "4")), {ATTENTION: Fraction(9), ATTEND: Fraction(4)}
    )
    assert (mark.points, mark.max_points) == (4, 13)
    assert mark.exercises[0].result.status == "not attempted"


@pytest.mark.parametrize(
    ("after", "days", "kept"),
    [
        (timedelta(0), 0, 1),
        (timedelta(seconds=1), 1, Fraction(9, 10)),
        (timedelta(days=1), 1, Fraction(9, 10)),
        (timedelta(days=1, seconds=1), 2, Fraction(8, 10)),
        (timedelta(days=3), 3, Fraction(7, 10)),
        (timedelta(days=3, seconds=1), 4, 0),
    ],
)
def test_each_day_begun_costs_its_share_and_then_all(after, days, kept):
    scheme = Scheme(due={"query_key_value": DUE}, per_day=Fraction(1, 10), days=3)
    submission = replace(ANNA, submitted=DUE + after)
    mark = scheme.mark(submission, result(exercise(ATTENTION, "2", "2")), {ATTENTION: Fraction(2)})
    assert (mark.days_late, mark.points) == (days, 2 * kept)


def test_lateness_never_takes_more_than_there_is():
    scheme = Scheme(due={ATTENTION: DUE}, per_day=Fraction(1, 2))
    submission = replace(ANNA, submitted=DUE + timedelta(days=30))
    mark = scheme.mark(submission, result(exercise(ATTENTION, "2", "2")), {ATTENTION: Fraction(2)})
    assert mark.points == 0


def test_an_extension_and_a_time_of_your_own_count():
    late = replace(ANNA, submitted=DUE + timedelta(days=2))
    assert Scheme(due={ATTENTION: DUE}, extensions={"anna": 2}).days_late(late, ATTENTION) == 0
    assert Scheme(due={ATTENTION: DUE}, extensions={"ben": 2}).days_late(late, ATTENTION) == 2
    assert Scheme(due={ATTENTION: DUE}, submitted={"anna.ipynb": DUE}).days_late(late, ATTENTION) == 0


@pytest.mark.parametrize(("suffix", "text"), [("toml", TOML), ("yaml", YAML)])
def test_both_kinds_of_file_say_the_same(suffix, text, tmp_path):
    path = tmp_path / f"points.{suffix}"
    path.write_text(text, encoding="utf-8")
    scheme = read_scheme(path)
    assert scheme.points == {ATTENTION: 10, "query_key_value": Fraction(81, 2)}
    assert scheme.due == {"query_key_value": DUE}
    assert (scheme.per_day, scheme.days, scheme.extensions) == (Fraction(1, 10), 5, {"anna": 7})
    assert scheme.submitted["ben.ipynb"] == DUE - timedelta(hours=2)
    assert scheme.forbidden == {ATTENTION: ("softmax",)}


def test_a_date_alone_means_the_end_of_that_day(tmp_path):
    path = tmp_path / "points.toml"
    path.write_text("[due]\nquery_key_value = 2027-02-05\n", encoding="utf-8")
    due = read_scheme(path).due["query_key_value"]
    assert (due.hour, due.minute, due.tzinfo is not None) == (23, 59, True)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[points]\nquery_key_valu = 1", "points.query_key_valu"),
        ("[points]\nquery_key_value = -1", "points.query_key_value"),
        ("[points]\nquery_key_value = 'ten'", "points.query_key_value"),
        ("[points]\nquery_key_value = nan", "points.query_key_value"),
        ("[points]\nquery_key_value = true", "points.query_key_value"),
        ("[due]\nquery_key_value = 'soon'", "due.query_key_value"),
        ("[due]\nquery_key_value = 5", "due.query_key_value"),
        ("[late]\nper_week = 1", "late.per_week"),
        ("[late]\ndays = 1.5", "late.days"),
        ("[extensions]\nanna = 'two'", "extensions.anna"),
        ("[forbidden]\n'query_key_value.attend' = 'softmax'", "forbidden.query_key_value.attend"),
        ("[dates]\nx = 1", "dates: expected one of points"),
        ("points = 5", "points: a table"),
        ("[points", "points.toml"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(text, named, tmp_path):
    path = tmp_path / "points.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SchemeError) as error:
        read_scheme(path)
    assert named in str(error.value) and "points.toml" in str(error.value)


def test_other_kinds_of_file_are_refused(tmp_path):
    path = tmp_path / "points.txt"
    path.write_text(TOML, encoding="utf-8")
    with pytest.raises(SchemeError, match=r"TOML \(.toml\) or YAML"):
        read_scheme(path)


@pytest.mark.parametrize(
    ("value", "text"),
    [(Fraction(0), "0"), (Fraction(10), "10"), (Fraction(1, 8), "0.125"), (Fraction(1, 3), "0.3333"),
     (Fraction(100), "100"), (Fraction(2, 3), "0.6667"), (Fraction(1, 64), "0.015625")],
)  # fmt: skip
def test_points_are_written_as_decimals(value, text):
    assert decimal(value) == text
