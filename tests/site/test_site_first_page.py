"""The first page shows a live widget at once, also on a phone; names in narrow tables stay whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

FIRST = "book/pages/index.html"
EXERCISES = "exercises/03_query_key_value.html"
NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


def live(page: Page) -> None:
    """Wait for the widget, which must come alive without being scrolled to."""
    page.wait_for_function("() => document.querySelector('.attnlab-host')?.dataset.state === 'ready'")


@pytest.mark.parametrize("width", [1280, 768, 390, 320])
def test_a_live_widget_begins_above_the_fold(open_page: Callable[..., Page], width: int) -> None:
    page = open_page(FIRST, width=width)
    live(page)
    box = page.locator(".attnlab-host").bounding_box()
    assert box and box["y"] < 0.75 * 900, "the widget is out of sight"
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_it_answers(open_page: Callable[..., Page]) -> None:
    page = open_page(FIRST)
    live(page)
    host = page.locator(".attnlab-host")
    before = host.inner_text()
    slider = host.locator("input[type=range]").first
    slider.focus()
    slider.press("Home")
    page.wait_for_function("([place, text]) => place.innerText !== text", arg=[host.element_handle(), before])


def test_without_scripts_a_sentence_stands_there(open_page: Callable[..., Page]) -> None:
    page = open_page(FIRST, java_script_enabled=False)
    assert "Lesson 3 shows it as a figure" in page.locator(".attnlab-host").inner_text()


def test_where_it_cannot_start_the_page_says_where_else_to_look(browser: Browser, site_url: str) -> None:
    page = browser.new_page()
    page.route(re.compile(r"/_static/widgets/(?!widget_host)"), lambda route: route.abort())
    page.goto(site_url + FIRST)
    page.wait_for_function("() => document.querySelector('.attnlab-host').dataset.state === 'failed'")
    said = page.locator(".attnlab-host").inner_text()
    page.close()
    assert said == "This interactive figure could not start. Lesson 3 shows it as a figure."


def test_a_widget_that_no_notebook_holds_stops_the_build(
    build_book: Callable[..., object], tmp_path: Path
) -> None:
    text = "# Start\n\n```{borrowed-widget} empty.ipynb\n:name-of: a.B\n\nText.\n```\n"
    book = build_book(tmp_path, {"index.md": text, "empty.ipynb": NOTEBOOK})
    assert book.code != 0 and "expected a notebook with a stored a.B" in book.said


def test_names_in_tables_stay_whole_on_a_phone(open_page: Callable[..., Page]) -> None:
    page = open_page("notebooks/evidence.html", width=390)
    lines = page.locator("td:first-child code").evaluate_all(
        "names => names.map((e) => e.getClientRects().length)"
    )
    assert len(lines) > 100 and set(lines) == {1}
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_every_page_leads_to_what_is_collected(shown: Page, page_name: str) -> None:
    assert shown.locator("footer a", has_text=re.compile("^What is collected")).count() == 1, page_name


def test_nothing_is_kept_but_what_the_reader_chose(open_page: Callable[..., Page]) -> None:
    page = open_page(EXERCISES)
    assert page.evaluate("() => [localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    page.locator(".mode").first.click()
    page.get_by_label("I am done with this page").check()
    assert page.evaluate("() => Object.keys(localStorage).sort()") == ["done", "mode"]
    assert page.context.cookies() == []
    page.get_by_label("I am done with this page").uncheck()
    assert page.evaluate("() => Object.keys(localStorage)") == ["mode"]


def done_links(page: Page) -> set[str]:
    """Where the links that carry the sign of what is done lead."""
    return set(page.locator("a[data-done]").evaluate_all("links => links.map((link) => link.pathname)"))


def test_what_is_done_is_shown_in_every_list_of_chapters(open_page: Callable[..., Page]) -> None:
    page = open_page(EXERCISES)
    assert not done_links(page)
    tick = page.get_by_label("I am done with this page")
    tick.focus()
    page.keyboard.press("Space")
    assert done_links(page) == {f"/{EXERCISES}"}
    page.goto(page.url.replace(EXERCISES, FIRST))
    assert done_links(page) == {f"/{EXERCISES}"}
    assert page.locator("main table a[data-done]").count() == 1
    seen = page.locator("main table a[data-done]").evaluate("e => getComputedStyle(e, '::after').content")
    assert "✓" in seen and "done" in seen  # a sign for the eye, a word for the ear
    page.goto(page.url.replace(FIRST, EXERCISES))
    assert tick.is_checked()
    page.goto(page.url.replace(EXERCISES, "book/pages/privacy.html"))
    forget = page.get_by_role("button", name="Forget which pages")
    forget.click()
    assert forget.is_disabled() and not done_links(page)
    assert page.get_by_role("status").filter(has_text="Forgotten").count() == 1
    assert page.evaluate("() => localStorage.length") == 0


def test_solutions_and_pages_without_code_are_not_ticked(open_page: Callable[..., Page]) -> None:
    for name in (FIRST, EXERCISES.replace("exercises/", "solutions/"), "book/pages/glossary.html"):
        assert not open_page(name).locator(".done").count(), name


@pytest.mark.parametrize("found", ["5", "{", "null", '{"a": 1}', '"text"'])
def test_what_something_else_wrote_there_does_no_harm(found: str, open_page: Callable[..., Page]) -> None:
    page = open_page(EXERCISES)
    page.evaluate("found => localStorage.setItem('done', found)", found)
    page.reload()
    tick = page.get_by_label("I am done with this page")
    assert not tick.is_checked() and not done_links(page)
    tick.check()
    page.reload()
    assert tick.is_checked() and done_links(page) == {f"/{EXERCISES}"}


def test_a_browser_that_keeps_nothing_says_so(open_page: Callable[..., Page]) -> None:
    page = open_page(EXERCISES)
    full = "throw new DOMException('full', 'QuotaExceededError')"
    page.evaluate(f"() => {{ Storage.prototype.setItem = () => {{ {full}; }}; }}")
    tick = page.get_by_label("I am done with this page")
    tick.click()
    assert not tick.is_checked()
    page.get_by_text("This browser keeps nothing for this site.").wait_for()
