"""The pages that the grader writes: axe finds nothing, and a phone is wide enough."""

from fractions import Fraction

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from attnlab.grading import feedback, summary
from attnlab.grading.collection import Submission
from attnlab.grading.page import write_page
from attnlab.grading.scheme import Scheme
from tests.grading.standin import exercise, result

pytestmark = pytest.mark.browser
ATTENTION = "query_key_value.attention"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of feedback and a summary, with everything that can be on them."""
    exercises = [
        exercise(
            ATTENTION, "1", "2", message="x" * 300, mistakes=("axis",), hints=("The axis.",), notes=("n",)
        ),
        exercise("query_key_value.attend", "0", "4", status="stopped", hidden=[("0", "1")]),
    ]
    submission = Submission("anna.ipynb", "anna", None)
    columns = {one.task_id: Fraction(4) for one in exercises}
    mark = Scheme().mark(submission, result(*exercises, notices=("cell 3 does not run",)), columns)
    folder = tmp_path_factory.mktemp("pages")
    write_page(folder / "feedback.html", feedback.render(mark))
    write_page(folder / "summary.html", summary.render([mark, mark], ["anna and ben: alike"]))
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["feedback", "summary"])
def test_axe_finds_nothing_and_a_phone_is_wide_enough(name, scheme, pages, browser: Browser):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 320, "height": 700})
    page = context.new_page()
    page.goto((pages / f"{name}.html").as_uri())
    violations = Axe().run(page).response["violations"]
    assert [violation["id"] for violation in violations] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    context.close()
