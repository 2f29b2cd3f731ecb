"""Pages: everything escaped, no script, nothing of a hidden case, and the class at a glance."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from fractions import Fraction

from attnlab.grading import feedback, summary
from attnlab.grading.collection import Submission
from attnlab.grading.results import SubmissionResult
from attnlab.grading.scheme import Scheme
from tests.grading.standin import exercise, result

ATTENTION, ATTEND = "query_key_value.attention", "query_key_value.attend"
COLUMNS = {ATTENTION: Fraction(2), ATTEND: Fraction(4)}
EVIL = "</li><script>alert(1)</script><img src=x onerror=y>&\x00\ud800"


def mark(*exercises, name="anna.ipynb", flags=(), **fields):
    given = Scheme().mark(Submission(name, "anna", None), result(*exercises, name=name, **fields), COLUMNS)
    return replace(given, flags=flags)


def failed(name, reason):
    return Scheme().mark(Submission(name, name, None), SubmissionResult(name, "", "failed", reason), COLUMNS)


def evil_marks():
    bad = exercise(
        ATTENTION, "0", "2", message=EVIL, title=EVIL, mistakes=(EVIL,), hints=(EVIL,), notes=(EVIL,)
    )
    return [mark(bad, name=EVIL, notices=(EVIL,), flags=(EVIL,)), failed(EVIL + "2", EVIL)]


def assert_harmless(page):
    assert "<script" not in page and "<img" not in page
    assert all(sign.isprintable() or sign == "\n" for sign in page)
    assert "default-src 'none'" in page
    for link in re.findall(r"(?:src|href)\s*=", re.sub(r"&lt;.*?&gt;", "", page)):
        raise AssertionError(link)


def test_everything_is_escaped():
    for page in [*map(feedback.render, evil_marks()), summary.render(evil_marks(), [EVIL])]:
        assert_harmless(page)
        assert "&lt;script&gt;" in page


def test_pages_of_odd_texts_can_be_written(tmp_path):
    for given in evil_marks():
        assert feedback.write_feedback(tmp_path / "pages", given).read_text(encoding="utf-8")
    summary.write_summary(tmp_path / "s.html", evil_marks())


def test_a_page_says_what_was_seen_and_names_the_mistake():
    page = feedback.render(
        mark(
            exercise(
                ATTENTION,
                "1/3",
                "2",
                message="3 of 24 numbers are wrong",
                hints=("The axis.",),
                mistakes=("x",),
            ),
            exercise(ATTEND, "0", "4", status="stopped", reason="an endless loop?"),
            notices=("cell 7 did not run",),
        )
    )
    for text in ("0.3333 of 6 points", "3 of 24 numbers are wrong", "Known mistake:</strong> The axis.",
                 "Stopped:</strong> an endless loop?", "cell 7 did not run"):  # fmt: skip
        assert text in page
    assert "No known mistake" not in page


def test_a_hidden_case_is_points_and_nothing_else():
    given = mark(exercise(ATTENTION, "2", "2", hidden=[("0", "3")]))
    page = feedback.render(given)
    assert "Further cases, which are not shown:</strong> 0 of 3 points" in page
    assert "what is kept" not in page


def test_flags_are_for_the_instructor_alone():
    given = mark(exercise(ATTENTION), flags=(f"{ATTENTION} uses softmax",))
    assert "uses softmax" not in feedback.render(given)
    assert "anna.ipynb: query_key_value.attention uses softmax" in summary.render([given])
    assert "ben and carla" in summary.render([given], ["ben and carla: alike"])


def test_a_submission_that_failed_has_a_page_with_the_reason():
    page = feedback.render(failed("ben.ipynb", "the file is no notebook"))
    assert "This submission could not be graded:</strong> the file is no notebook" in page
    assert "not attempted" in page


def test_a_page_of_giant_texts_stays_small():
    giant = mark(*(exercise(ATTENTION, message="x" * 10**6) for _ in range(3)), notices=("y" * 10**6,) * 500)
    assert len(feedback.render(giant)) < 150_000
    assert "450 more are left out" in feedback.render(giant)


def test_names_of_pages_differ_and_are_safe():
    names = ["a.ipynb", "A.ipynb", "../../etc/passwd", "a b", "a-b", "", "é", "x" * 500, "con"]
    pages = [feedback.page_name(name) for name in names]
    assert len(set(pages)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9-]{1,75}\.html", page) for page in pages)


def test_mistakes_are_counted_and_charted():
    wrong = {"mistakes": ("axis",), "hints": ("Over the queries.",)}
    marks = [
        mark(exercise(ATTENTION, "0", "2", **wrong), exercise(ATTEND, "4", "4")),
        mark(exercise(ATTENTION, "0", "2", **wrong), name="b"),
        mark(
            exercise(ATTENTION, "0", "2", mistakes=("scale", "axis"), hints=("No scale.", "Over.")), name="c"
        ),
        mark(exercise(ATTENTION, "2", "2"), exercise(ATTEND, status="not attempted"), name="d"),
    ]
    axis, scale = summary.mistakes_of(marks)
    assert (axis.mistake, axis.count, axis.attempts) == ("axis", 3, 4)
    assert (scale.mistake, scale.count, scale.attempts) == ("scale", 1, 4)
    page = summary.render(marks)
    assert '<td class="number">3</td><td class="number">75%</td>' in page
    # attend: one answer, full points; attention: four answers, one of them full
    assert re.search(rf"<td>{ATTEND}</td>(<td class=\"number\">(1|100%|1|0)</td>){{4}}", page)
    assert re.search(rf"<td>{ATTENTION}</td><td class=\"number\">4</td><td class=\"number\">25%</td>", page)


def test_the_chart_is_a_picture_with_words():
    marks = [mark(exercise(ATTENTION, mistakes=("a<b",), hints=("h",)))] * 2
    chart = ElementTree.fromstring(re.search(r"<svg.*</svg>", summary.render(marks), re.S)[0])
    assert chart.get("role") == "img"
    words = {element.tag: element.text for element in chart}
    assert words["desc"] == "attention: a<b: 2"
    (bar,) = chart.findall("rect")
    assert float(bar.get("width")) > 300


def test_a_class_without_mistakes_has_a_summary_too():
    assert "No known mistake was recognised" in summary.render([mark(exercise(ATTENTION, "2", "2"))])
    assert "0 submissions" in summary.render([])
