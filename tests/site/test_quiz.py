"""Quizzes on a page: folds without a script, radio buttons with one, and both on paper."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tools.notebooks import quiz

pytestmark = pytest.mark.browser

QUESTION = r"""{n}. Which axis does the softmax run along in $QK^\top$? See [the other page](other.md).

   ```python
   weights = scores.softmax(dim=-2)
   ```

   - [{a}] the *queries*, `a[::2] < "$b$"`, of $d_k \lt 4$ :: The queries take $d_k$ numbers each.
   - [{b}] the keys, in every row of a long option that goes on for more than one line on a phone :: It does.
   - [{c}] neither :: It does, by `dim=-1`.
"""
RIGHT = [1, 0, 2, 1, 0]
SOURCE = "## Quiz\n\n" + "\n".join(
    QUESTION.format(n=n + 1, **{key: "x" if place == right else " " for place, key in enumerate("abc")})
    for n, right in enumerate(RIGHT)
)


@pytest.fixture(scope="module")
def book(tmp_path_factory, build_book, make_notebook):
    """A small book with a quiz on its first page."""
    lesson = make_notebook(
        {"cell_type": "markdown", "source": "# A lesson\n\nWords."},
        {"cell_type": "markdown", "source": quiz.shown(SOURCE.strip())},
        {"cell_type": "markdown", "source": "## Where to go\n\nOn."},
    )
    book = build_book(
        tmp_path_factory.mktemp("quiz"), {"lesson.ipynb": lesson, "other.md": "# Other\n\nPage.\n"}
    )
    assert book.code == 0, book.said
    return book


@pytest.fixture
def open_quiz(book, serve_folder, open_url) -> Callable[..., Page]:
    """Function that opens the page with the quiz."""
    address = f"{serve_folder(book.html)}lesson.html"
    return lambda **options: open_url(address, **options)


def fields(page: Page):
    return page.locator(".quiz fieldset")


def answer(page: Page, question: int, option: int) -> None:
    fields(page).nth(question).locator("label").nth(option).click()
    fields(page).nth(question).locator(".quiz-check").click()


def status(page: Page) -> str:
    return page.locator(".quiz").get_by_role("status").inner_text()


def test_without_a_script_each_option_is_a_fold_that_explains_itself(open_quiz) -> None:
    page = open_quiz(java_script_enabled=False)
    folds = page.locator(".quiz details")
    assert folds.count() == 15 and page.locator(".quiz fieldset").count() == 0
    why = folds.nth(1).locator(".quiz-why")
    assert not why.is_visible()
    folds.nth(1).locator("summary").click()
    assert why.is_visible() and why.inner_text().strip().startswith("Right. It does.")
    folds.nth(0).locator("summary").click()
    assert folds.nth(0).locator(".quiz-why").inner_text().strip().startswith("Wrong. The queries")
    assert not page.locator(".quiz-answers").is_visible()


def test_formulas_and_code_in_an_option_are_set(open_quiz) -> None:
    page = open_quiz(java_script_enabled=False)
    summary = page.locator(".quiz summary").first
    assert summary.locator("math").count() == 1
    assert summary.locator("code").inner_text() == 'a[::2] < "$b$"'
    assert summary.locator("em").inner_text() == "queries"
    assert "$" not in re.sub(r'"\$b\$"', "", page.locator(".quiz").inner_text())


def test_what_follows_a_quiz_is_no_part_of_it(open_quiz) -> None:
    page = open_quiz()
    assert page.get_by_role("heading", name="Where to go").count() == 1
    assert page.locator(".quiz").get_by_role("heading").count() == 0


def test_with_a_script_a_question_is_a_group_of_radio_buttons(open_quiz) -> None:
    page = open_quiz()
    assert fields(page).count() == 5 and page.locator(".quiz details").count() == 0
    group = page.get_by_role("group", name=re.compile(r"^Question 2 of 5\. Which axis"))
    assert group.get_by_role("radio").count() == 3
    assert group.get_by_role("radio", name="neither").count() == 1
    assert group.locator(".highlight").is_visible()
    assert page.locator(".quiz input:checked").count() == 0
    assert not page.locator(".quiz-why:visible").count()


def test_the_score_counts_right_answers_and_every_option_explains_itself(open_quiz) -> None:
    page = open_quiz()
    answer(page, 0, 1)
    assert status(page) == "Question 1: right. 1 right, 1 answered."
    assert fields(page).nth(0).locator(".quiz-why:visible").count() == 3
    assert not fields(page).nth(1).locator(".quiz-why:visible").count()
    answer(page, 1, 1)
    assert status(page) == "Question 2: wrong. 1 right, 2 answered."
    for question, option in ((2, 2), (3, 0), (4, 0)):
        answer(page, question, option)
    assert status(page) == "Question 5: right. Your score: 3 of 5."


def test_an_answer_counts_once(open_quiz) -> None:
    page = open_quiz()
    answer(page, 0, 0)
    fields(page).nth(0).locator("label").nth(1).click(force=True)
    fields(page).nth(0).locator(".quiz-check").click(force=True)
    assert status(page) == "Question 1: wrong. 0 right, 1 answered."
    assert fields(page).nth(0).get_by_role("radio").nth(0).is_checked()


def test_a_question_without_a_choice_is_not_checked(open_quiz) -> None:
    page = open_quiz()
    fields(page).nth(2).locator(".quiz-check").click()
    assert status(page) == "Choose an option of question 3 first."
    assert not page.locator(".quiz-why:visible").count()


def test_one_may_try_again(open_quiz) -> None:
    page = open_quiz()
    again = page.get_by_role("button", name="Try again")
    assert not again.is_visible()
    answer(page, 0, 0)
    again.click()
    assert status(page) == "" and not again.is_visible()
    assert page.locator(".quiz input:checked, .quiz input:disabled").count() == 0
    assert not page.locator(".quiz-why:visible").count()
    assert page.evaluate("document.activeElement.localName") == "fieldset"
    answer(page, 0, 1)
    assert status(page) == "Question 1: right. 1 right, 1 answered."


def test_the_keyboard_is_enough(open_quiz) -> None:
    page = open_quiz()
    fields(page).nth(0).get_by_role("radio").first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    assert fields(page).nth(0).get_by_role("radio").nth(1).is_checked()
    assert not page.locator(".quiz-why:visible").count()  # arrows choose; they do not give the answer away
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert status(page).startswith("Question 1: right.")
    assert page.evaluate("document.activeElement.textContent") == "Checked"


def test_nothing_is_stored_and_a_page_opens_fresh(open_quiz) -> None:
    page = open_quiz()
    answer(page, 0, 1)
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    page.reload()
    assert page.locator(".quiz input:checked").count() == 0 and status(page) == ""


@pytest.mark.parametrize("scripts", [True, False])
def test_on_paper_the_answers_stand_after_the_questions(open_quiz, scripts: bool) -> None:
    page = open_quiz(java_script_enabled=scripts)
    if scripts:
        answer(page, 0, 0)
    else:
        page.locator(".quiz summary").first.click()
    page.emulate_media(media="print")
    assert page.locator(".quiz-question .quiz-why:visible").count() == 0
    assert page.locator(".quiz-question :is(label, summary):visible").count() == 15
    answers = page.locator(".quiz-answers")
    assert answers.is_visible() and answers.locator("> ol > li").count() == 5
    assert [
        [text.startswith("Right.") for text in item.locator("p").all_inner_texts()]
        for item in answers.locator("> ol > li").all()
    ] == [[place == right for place in range(3)] for right in RIGHT]
    letter = "e => getComputedStyle(e, '::before').content"
    assert "lower-alpha" in page.locator(".quiz-question :is(label, summary)").first.evaluate(letter)
    last = page.locator(".quiz-question").last.bounding_box()
    assert answers.bounding_box()["y"] >= last["y"] + last["height"]
    assert not page.get_by_role("button", name="Check").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("scripts", ["radio buttons", "folds"])
def test_axe_finds_nothing(open_quiz, scheme: str, scripts: str) -> None:
    page = open_quiz(scheme=scheme)
    if scripts == "folds":
        served = page.evaluate("async () => (await (await fetch(location.href)).text())")
        inside = re.search(r'<div class="quiz docutils container">.*?(?=<section id="where)', served, re.S)[0]
        page.evaluate("text => (document.querySelector('.quiz').outerHTML = text)", inside)
        page.evaluate("document.querySelectorAll('details').forEach((fold) => (fold.open = true))")
        assert page.locator(".quiz details[open]").count() == 15
    else:
        answer(page, 0, 1)
        answer(page, 1, 1)
    page.evaluate("() => Promise.all(document.getAnimations().map((animation) => animation.finished))")
    result = Axe().run(page)
    assert result.violations_count == 0, result.generate_report()


def test_it_fits_a_phone_and_large_targets_are_hit(open_quiz) -> None:
    page = open_quiz(width=320, has_touch=True)
    for question in range(5):
        answer(page, question, 0)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    for label in page.locator(".quiz label").all():
        assert label.bounding_box()["height"] >= 24


def test_forced_colours_show_what_was_chosen_and_what_is_right(open_quiz) -> None:
    page = open_quiz(forced_colors="active")
    answer(page, 0, 0)
    first = fields(page).nth(0)
    assert first.locator(".is-right .quiz-why").inner_text().startswith("Right.")
    assert first.locator(".is-wrong .quiz-why").inner_text().startswith("Wrong.")
    assert first.locator("input:checked").evaluate("e => getComputedStyle(e).appearance") != "none"


def test_a_fold_that_does_not_say_right_or_wrong_stops_the_build(tmp_path, build_book, make_notebook) -> None:
    broken = quiz.shown(SOURCE.strip()).replace("**Wrong.** The queries", "Wrong. The queries")
    book = build_book(
        tmp_path,
        {
            "lesson.ipynb": make_notebook(
                {"cell_type": "markdown", "source": "# A\n\nB."}, {"cell_type": "markdown", "source": broken}
            ),
            "other.md": "# Other\n\nPage.\n",
        },
    )
    assert book.code != 0 and "quiz: an option does not say Right or Wrong" in book.said
