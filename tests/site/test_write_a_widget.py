"""The widget of the page "Write a widget" is taken off the page and tried: in Python, and on a built page."""

import importlib.util
import json
import re
import sys

import numpy as np
import pytest

from tests.site.conftest import ROOT
from tests.site.widget_use import axe_complaints, focused, frames, press, said, spoil

PAGE = ROOT / "book" / "pages" / "write_a_widget.md"
NAME = re.compile(r"^(?:#|//|/\*) (temperature_bars/[\w.]+)(?: \*/)?$")
QUERIES, KEYS = ["it", "<b>was</b>"], ["the", "cat", "sat", "down"]
SCORES = [[2.0, -1.0, 0.5, 1.9], [0.3, 1.2, -2.0, 0.0]]


def files_of_the_page():
    """The files on the page, each named by the first line of its block."""
    found = {}
    for block in re.findall(r"^```\w+\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        named = NAME.match(block.split("\n", 1)[0])
        if named:
            found[named[1]] = block
    return found


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    """The class, as it would be in the library."""
    folder = tmp_path_factory.mktemp("written")
    files = files_of_the_page()
    assert sorted(files) == [
        f"temperature_bars/{name}"
        for name in ("__init__.py", "matrix.js", "temperature_bars.css", "temperature_bars.js")
    ]
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(
        "temperature_bars", folder / "temperature_bars" / "__init__.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["temperature_bars"] = module
    spec.loader.exec_module(module)
    yield module.TemperatureBars
    del sys.modules["temperature_bars"]


@pytest.fixture(scope="module")
def url(bars, widget_book):
    """Address of a book with the widget on its first page; ``wrong.html`` is a copy with a wrong number."""
    return widget_book([bars(SCORES, QUERIES, KEYS)], wrong=spoil("scores", lambda number: number + 1))


def test_the_class_computes_a_softmax_and_refuses_what_it_says(bars):
    widget = bars(SCORES, QUERIES, KEYS, temperature=2.0)
    expected = np.exp(np.array(SCORES) / 2)
    np.testing.assert_allclose(widget.weights(), expected / expected.sum(1, keepdims=True), rtol=1e-6)
    assert repr(widget) == "TemperatureBars(2 queries, 4 keys, temperature 2)"
    for name, value, limits in (
        ("temperature", 9, "0.1 to 5"),
        ("row", 2, "0 to 1"),
        ("column", -1, "0 to 3"),
    ):
        with pytest.raises(ValueError, match=f"{name}: expected {limits}, got {value}"):
            setattr(widget, name, value)
    for scores, keys in ((SCORES[0], KEYS), (np.zeros((2, 9)), "ninewords")):
        shape = re.escape(f"(queries, keys) = (2, {len(keys)}), 8 at most, got {np.shape(scores)}")
        with pytest.raises(ValueError, match=f"scores: expected {shape}"):
            bars(scores, QUERIES, keys)
    with pytest.raises(TypeError, match="scores: expected a tensor or an array of real numbers"):
        bars("words", QUERIES, KEYS)


def shown(view):
    return json.loads(view.get_attribute("data-weights"))


def assert_shows(view, expected):
    """The matrix, its labels, the chosen row's bars and the table, against Python."""
    frames(view.page)
    weights = expected.weights()
    np.testing.assert_allclose(shown(view), weights, atol=1e-12)
    heads = ["queries ↓", "keys →", "", *KEYS, *QUERIES]
    assert view.locator(".attnlab-map-head").all_text_contents() == heads
    cells = view.get_by_role("radio")
    digits = [f"{weight:.2f}" for weight in weights.ravel()]
    assert cells.all_text_contents() == digits
    names = [f"{query} to {key}: weight " for query in QUERIES for key in KEYS]
    labels = cells.evaluate_all("all => all.map(cell => cell.getAttribute('aria-label'))")
    assert labels == [name + number for name, number in zip(names, digits, strict=True)]
    chosen = cells.evaluate_all("all => all.findIndex(cell => cell.matches('[aria-checked=true]'))")
    assert chosen == expected.row * len(KEYS) + expected.column
    assert view.locator(".attnlab-title").inner_text() == QUERIES[expected.row]
    row = digits[expected.row * len(KEYS) :][: len(KEYS)]
    assert view.locator(".attnlab-bars li").all_text_contents() == [
        key + number for key, number in zip(KEYS, row, strict=True)
    ]
    assert view.locator(".attnlab-marked .attnlab-bar-name").inner_text() == KEYS[expected.column]


@pytest.mark.browser
def test_the_page_shows_what_python_computes_by_keyboard_too(bars, show):
    view = show(width=320)
    page = view.page
    expected = bars(SCORES, QUERIES, KEYS)
    assert_shows(view, expected)
    view.locator("input[type=range]").focus()
    press(page, *["ArrowRight"] * 5)
    expected.temperature = 1.5
    assert_shows(view, expected)
    assert view.locator("output").inner_text() == "1.5"
    press(page, "Tab", "ArrowDown", "ArrowDown", "End", "ArrowLeft")
    expected.row, expected.column = 1, 2
    assert_shows(view, expected)
    assert focused(page, "at.getAttribute('aria-label')").startswith("<b>was</b> to sat: weight 0.0")
    said(view, "Temperature 1.5, <b>was</b> to sat: weight 0.0")
    view.get_by_role("radio").nth(1).click()
    expected.row, expected.column = 0, 1
    assert_shows(view, expected)
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    view.locator("summary").click()
    view.locator("tbody tr").first.wait_for()  # the table is filled when it opens
    cells = view.locator("tbody tr").first.locator("th, td").all_inner_texts()
    assert cells == ["it", *(f"{weight:.4f}" for weight in expected.weights()[0])]


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(show, scheme):
    assert axe_complaints(show(scheme=scheme, strict=False)) == []


@pytest.mark.browser
def test_a_wrong_number_is_noticed(bars, show):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_shows(show(0, "wrong"), bars(SCORES, QUERIES, KEYS))


def test_the_page_is_linked_from_contributing():
    assert "book/pages/write_a_widget.md" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
