"""The first page shows a live widget at once, also on a phone; names in narrow tables stay whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser

FIRST = "book/pages/index.html"
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


def test_nothing_is_kept_but_the_choice_of_light_or_dark(open_page: Callable[..., Page]) -> None:
    page = open_page("book/pages/privacy.html")
    assert page.evaluate("() => [localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    page.locator(".mode").first.click()
    assert page.evaluate("() => Object.keys(localStorage)") == ["mode"]
    assert page.context.cookies() == []
