"""Solutions on their pages: folded until they are asked for, with and without a script, and open on paper."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.site import leaks

pytestmark = pytest.mark.browser

PLANTED = "quagga"  # in every part of the solutions, and in nothing else


def text(name: str, source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "source": source}


def code(name: str, source: str, printed: str = "", tags: tuple[str, ...] = ()) -> dict[str, Any]:
    outputs = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
    return {
        "cell_type": "code",
        "id": name,
        "source": source,
        "outputs": outputs,
        "metadata": {"tags": list(tags)},
    }


HINT = "<details><summary>Hint 1</summary>\n\nThink of an animal.\n\n</details>"
SHARED = {
    "imports": code("imports", "import torch"),
    "first": text("first", "## 1. Write it\n\nWrite a function of $x^2$."),
    "hint": text("hint", HINT),
    "second": text("second", "## 2. Use it\n\nUse the function."),
    "use": code("use", "print(answer())", "not written yet"),
    "end": text("end", "## Where you stand\n\nHere."),
    "points": code("points", "progress()", "0 of 5"),
}
EXERCISES = [
    text("title-1", "# Exercises\n\nWords at the beginning."),
    SHARED["imports"],
    SHARED["first"],
    code("answer", "def answer():\n    raise NotImplementedError('your turn')"),
    code("check", "check('first', answer)", "not attempted yet", ("check",)),
    SHARED["hint"],
    SHARED["second"],
    code("other", "other = None"),
    SHARED["use"],
    SHARED["end"],
    SHARED["points"],
]
WHY = f"**Why the tempting answers are wrong.** The {PLANTED} of $x^3$ is no zebra.\n\n- One\n\n```\nx\n```"
SOLUTIONS = [
    text("title-2", "# Solutions\n\nTry the exercises first."),
    SHARED["imports"],
    SHARED["first"],
    code(
        "answer",
        f"def answer():\n    return '{PLANTED}'  # a long line, so that the cell must scroll" + "." * 80,
    ),
    code("check", "check('first', answer)", "5 of 5 points", ("check",)),
    SHARED["hint"],
    text("why", WHY),
    code("more", f"len('{PLANTED}')", "9"),
    text("again", f"### Another way\n\nAlso {PLANTED}."),
    SHARED["second"],
    code("other", f"other = '{PLANTED} again'"),
    text("told", f"That was the {PLANTED}."),
    code("use", "print(answer())", PLANTED),
    SHARED["end"],
    code("points", "progress()", "5 of 5"),
]
LABELS = [
    "Show the solution of exercise 1",
    "Show the explanation of exercise 1",
    "Show the explanation of exercise 1, part 2",
    "Show the solution of exercise 2",
    "Show the result of exercise 2",
]


def files(make_notebook: Callable[..., str], exercises: list[dict[str, Any]]) -> dict[str, str]:
    return {
        "index.md": "# Start\n\nWords.\n",
        "exercises/01_first.ipynb": make_notebook(*exercises),
        "solutions/01_first.ipynb": make_notebook(*SOLUTIONS),
    }


@pytest.fixture(scope="module")
def book(tmp_path_factory, build_book, make_notebook) -> Any:
    book = build_book(tmp_path_factory.mktemp("solutions"), files(make_notebook, EXERCISES))
    assert book.code == 0, book.said
    return book


@pytest.fixture
def open_solutions(book, serve_folder, open_url) -> Callable[..., Page]:
    """Function that opens the page of solutions."""
    address = f"{serve_folder(book.html)}solutions/01_first.html"
    return lambda **options: open_url(address, **options)


def folds(page: Page):
    return page.locator("details.solution-fold")


@pytest.mark.parametrize("scripts", [True, False])
def test_solutions_are_closed_until_they_are_asked_for(open_solutions, scripts: bool) -> None:
    page = open_solutions(java_script_enabled=scripts)
    assert folds(page).locator("> summary").all_inner_texts() == LABELS
    assert page.locator("details.solution-fold[open]").count() == 0
    assert PLANTED not in page.locator("main").inner_text()
    for shown in ("Try the exercises first.", "Write it", "Hint 1", "5 of 5 points", "print(answer())"):
        assert page.locator("article").get_by_text(shown).first.is_visible(), shown
    assert page.get_by_role("heading", name="Another way").is_visible()
    for place, label in enumerate(LABELS):
        page.get_by_text(label, exact=True).click()
        assert PLANTED in folds(page).nth(place).inner_text()
    page.get_by_text(LABELS[0], exact=True).click()
    assert folds(page).nth(0).get_attribute("open") is None


def test_cells_that_follow_one_another_share_a_fold(book) -> None:
    page = book.page("solutions/01_first")
    second = page.split(LABELS[1])[1].split("</details>")[0]
    for part in ("tempting", "<li>", "len", "<math>"):
        assert part in second
    assert "Another way" not in second and "Another way" in page


def test_a_fold_is_opened_by_keyboard(open_solutions) -> None:
    page = open_solutions()
    folds(page).nth(0).locator("> summary").focus()
    page.keyboard.press("Enter")
    assert folds(page).nth(0).locator("pre").is_visible()


def test_only_the_page_of_solutions_has_them(book) -> None:
    for path in book.html.rglob("*"):
        if path.suffix in {".html", ".ipynb", ".js"} and "solutions" not in path.parts:
            held = PLANTED in path.read_text(encoding="utf-8")
            assert held == (path.name == "searchindex.js"), path
    index = (book.html / "searchindex.js").read_text(encoding="utf-8")
    words = {page: leaks.index_words(index, page) for page in ("exercises/01_first", "solutions/01_first")}
    stem = leaks.stems(PLANTED)
    assert stem <= words["solutions/01_first"] and not stem & words["exercises/01_first"]


def test_an_exercise_that_gives_its_solution_away_is_seen(tmp_path, build_book, make_notebook) -> None:
    leaking = [
        {**cell, "source": f"{cell['source']}\n\nIt is {PLANTED}."} if cell["id"] == "first" else cell
        for cell in EXERCISES
    ]
    book = build_book(tmp_path, files(make_notebook, leaking))
    assert book.code == 0, book.said
    secret = [leaks.Solution("there", words=(PLANTED,))]
    page = leaks.Texts.of(book.page("exercises/01_first"))
    offered = (book.html / "_sources/exercises/01_first.ipynb").read_text(encoding="utf-8")
    index = (book.html / "searchindex.js").read_text(encoding="utf-8")
    assert leaks.leaks(secret, page) == leaks.leaks(secret, leaks.notebook_texts(offered))
    assert leaks.leaks(secret, page) == {"there": [PLANTED]}
    assert leaks.stems(PLANTED) <= leaks.index_words(index, "exercises/01_first")


def test_solutions_without_their_exercises_stop_the_build(tmp_path, build_book, make_notebook) -> None:
    some = files(make_notebook, EXERCISES)
    del some["exercises/01_first.ipynb"]
    book = build_book(tmp_path, some)
    assert book.code != 0
    assert "solutions without exercises/01_first.ipynb: nothing is folded" in book.said


def test_a_result_of_the_search_does_not_quote_a_solution(book, serve_folder, open_url) -> None:
    page = open_url(f"{serve_folder(book.html)}search.html?q=function")
    page.wait_for_function("() => document.querySelectorAll('#search-results li p.context').length === 2")
    page = open_url(f"{serve_folder(book.html)}search.html?q={PLANTED}")
    page.wait_for_function("() => document.querySelector('#search-results li p.context')")
    found = page.locator("#search-results li")
    assert found.count() == 1 and "Solutions" in found.inner_text()
    assert PLANTED not in found.inner_text()


def test_on_paper_a_solution_is_open(open_solutions) -> None:
    page = open_solutions()
    assert not folds(page).nth(0).locator("pre").is_visible()
    page.emulate_media(media="print")
    for place in range(len(LABELS)):
        inside = folds(page).nth(place).locator(":scope > :not(summary)").first
        assert inside.bounding_box()["height"] > 10
        assert inside.evaluate("e => e.checkVisibility()")


def test_a_browser_that_cannot_open_it_on_paper_says_so(book) -> None:
    style = (book.html / "_static" / "site.css").read_text(encoding="utf-8")
    assert re.search(
        r"@supports not selector\(::details-content\) \{\s*\.solution-fold:not\(\[open\]\) > summary::after "
        r'\{ content: " \(open it on the screen before you print\)"',
        style,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("opened", [False, True])
def test_axe_finds_nothing(open_solutions, scheme: str, opened: bool) -> None:
    page = open_solutions(scheme=scheme)
    page.evaluate("opened => document.querySelectorAll('details').forEach((f) => (f.open = opened))", opened)
    page.evaluate("() => Promise.all(document.getAnimations().map((animation) => animation.finished))")
    result = Axe().run(page)
    assert result.violations_count == 0, result.generate_report()


@pytest.mark.parametrize("width", [320, 1280])
def test_it_fits_and_its_code_is_as_wide_as_other_code(open_solutions, width: int) -> None:
    page = open_solutions(width=width)
    page.evaluate("document.querySelectorAll('.solution-fold').forEach((fold) => (fold.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.locator(".tag_check .cell_input").bounding_box()["width"]
    inside = folds(page).nth(0).locator(".cell_input").bounding_box()["width"]
    assert outside - 8 <= inside <= outside
    for summary in folds(page).locator("> summary").all():
        assert summary.bounding_box()["height"] >= 24


def test_forced_colours_keep_the_fold_and_its_sign(open_solutions) -> None:
    page = open_solutions(forced_colors="active")
    first = folds(page).nth(0)
    assert first.evaluate("e => getComputedStyle(e).borderLeftWidth") == "4px"
    assert (
        first.locator("> summary").evaluate("e => getComputedStyle(e).listStyleType") == "disclosure-closed"
    )


def test_the_notebooks_stay_as_they_are(book) -> None:
    offered = json.loads((book.html / "_sources/solutions/01_first.ipynb").read_text(encoding="utf-8"))
    assert [cell["source"] for cell in offered["cells"]] == [cell["source"] for cell in SOLUTIONS]
