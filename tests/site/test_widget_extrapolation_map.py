"""The extrapolation map on a page without a kernel: its numbers by every way of use, and for every reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator

from attnlab.widgets import ExtrapolationMap
from tests.site.widget_use import (
    COUNT_WHAT_LIVES,
    axe_complaints,
    centre,
    focused,
    frames,
    host_at,
    moving,
    press,
    spoil,
    taken_away,
)

pytestmark = pytest.mark.browser

PHONE: dict[str, Any] = {"has_touch": True, "is_mobile": True}


def results(jobs: int, kinds: list[str], lengths: list[int]) -> dict[str, Any]:
    """Accuracies at random, with a 0 and a 1 among them."""
    draw = np.random.default_rng(0).random((jobs, len(kinds), len(lengths)))
    draw[0, 0, :2] = 0, 1
    names = ["three back", "latest", *(f"<b>{n}</b>" for n in range(jobs))][:jobs]
    return {
        name: {kind: dict(zip(lengths, row, strict=True)) for kind, row in zip(kinds, of, strict=True)}
        for name, of in zip(names, draw, strict=True)
    }


def map_of_the_lesson() -> ExtrapolationMap:
    """As many kinds and lengths as in the lesson."""
    kinds = ["none", "learned", "sinusoidal", "rotary", "ALiBi"]
    return ExtrapolationMap(results(2, kinds, [48, 64, 128, 256]), trained=48, kind="rotary", length=64)


def largest() -> ExtrapolationMap:
    """As large as it may be, with names that look like markup; trained in the middle."""
    lengths = [16 * 2**n for n in range(8)]
    return ExtrapolationMap(results(8, [f"<i>{n}</i>" for n in range(8)], lengths), trained=128)


@pytest.fixture(scope="module")
def url(widget_book: Callable[..., str]) -> str:
    """Address of a book with both widgets on its first page; ``wrong.html`` is a copy with wrong numbers."""
    return widget_book(
        [map_of_the_lesson(), largest()],
        wrong=spoil("measured", lambda number: number - 1e-3),
    )


SHOWN = """view => {
  const radios = [...view.querySelectorAll("[role=radio]")];
  const bars = [...view.querySelectorAll("[data-accuracy]")];
  const long = (bar, kind) => parseFloat(bar.querySelector(`.attnlab-${kind}`).style.width);
  return {
    texts: radios.map(node => node.textContent), names: radios.map(node => node.getAttribute("aria-label")),
    shares: radios.map(node => parseFloat(node.style.getPropertyValue("--share"))),
    lines: radios.map(node => node.matches(".attnlab-map-line")),
    chosen: radios.flatMap((node, i) => node.getAttribute("aria-checked") === "true" ? [i] : []),
    accuracies: bars.map(bar => +bar.dataset.accuracy), trained: bars.map(bar => +bar.dataset.trained),
    bars: bars.map(bar => long(bar, "bar")), frames: bars.map(bar => long(bar, "ghost")),
    kinds: bars.map(bar => bar.querySelector(".attnlab-bar-name").textContent),
    marked: bars.flatMap((bar, i) => bar.matches(".attnlab-marked") ? [i] : []),
    heads: [...view.querySelectorAll(".attnlab-map-head")].map(node => node.textContent),
    title: view.querySelector(".attnlab-title").textContent };
}"""


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("+", ""))


def assert_shows(view: Locator, expected: ExtrapolationMap) -> None:
    """Every cell, every bar and every name is Python's."""
    frames(view.page)
    shown = view.evaluate(SHOWN)
    accuracies, change = expected.accuracies(), expected.change()
    rows, columns = accuracies.shape
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(shown["shares"], 100 * accuracies.ravel(), rtol=0, atol=1e-3)
    np.testing.assert_allclose([*map(number, shown["texts"])], accuracies.ravel(), rtol=0, atol=0.00501)
    np.testing.assert_allclose(shown["accuracies"], accuracies[:, expected.column], **close)
    np.testing.assert_allclose(shown["trained"], accuracies[:, expected.trained], **close)
    np.testing.assert_allclose(shown["bars"], 100 * accuracies[:, expected.column], rtol=0, atol=0.01)
    np.testing.assert_allclose(shown["frames"], 100 * accuracies[:, expected.trained], rtol=0, atol=0.01)
    assert shown["kinds"] == expected.kinds and shown["marked"] == [expected.row]
    assert shown["chosen"] == [expected.row * columns + expected.column]
    assert shown["lines"] == [column == expected.trained for column in range(columns)] * rows
    trained = expected.lengths[expected.trained]
    heads = [f"trained\n{length}" if length == trained else str(length) for length in expected.lengths]
    assert shown["heads"] == ["positions ↓", "tokens in the test →", "", *heads, *expected.kinds]
    for place, name in enumerate(shown["names"]):
        row, column = divmod(place, columns)
        head, _, tail = name.partition(": ")
        assert head == f"{expected.kinds[row]}, length {expected.lengths[column]}"
        value, _, against = tail.removesuffix(")").partition(" (")
        assert number(value) == pytest.approx(accuracies[row, column], abs=0.00501)
        if column == expected.trained:
            assert against == "the trained length"
        else:
            off, _, length = against.partition(" against length ")
            assert number(off) == pytest.approx(change[row, column], abs=0.00501) and length == str(trained)
    assert shown["title"] == f"{expected.jobs[expected.job]}, length {expected.lengths[expected.column]}"


def cell(view: Locator, row: int, column: int) -> Locator:
    return view.locator(f"[data-row='{row}'][data-column='{column}']")


# --- numbers, by every way of use
# -----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_by_keyboard_alone(show, scheme):
    view, expected = show(scheme=scheme), map_of_the_lesson()
    page = view.page
    assert_shows(view, expected)
    view.locator("select").focus()
    press(page, "Tab", "Shift+Tab")
    assert focused(page) == "job"
    press(page, "End")
    expected.job = 1
    assert_shows(view, expected)
    press(page, "Tab")
    for key, row, column in (
        ("ArrowRight", 3, 2),
        ("ArrowDown", 4, 2),
        ("ArrowDown", 4, 2),  # no further
        ("End", 4, 3),
        ("ArrowRight", 4, 3),
        ("ArrowUp", 3, 3),
        ("Home", 3, 0),
        ("ArrowLeft", 3, 0),
    ):
        press(page, key)
        expected.row, expected.column = row, column
        assert_shows(view, expected)
        assert focused(page, "at.dataset.row + at.dataset.column") == f"{row}{column}"
    press(page, "Tab")
    assert focused(page) == "summary"
    press(page, "Enter")
    view.locator("tbody tr").first.wait_for()
    rows = [line.split("\t") for line in view.locator("tbody tr").all_inner_texts()]
    assert [row[0] for row in rows] == [f"{job}, {kind}" for job in expected.jobs for kind in expected.kinds]
    both = np.concatenate([expected.accuracies(job) for job in expected.jobs])
    np.testing.assert_allclose([[float(text) for text in row[1:]] for row in rows], both, atol=5.01e-5)


def test_by_pointer_by_drag_and_by_touch(show):
    view, expected = show(), map_of_the_lesson()
    page = view.page
    cell(view, 0, 3).click()
    expected.row, expected.column = 0, 3
    assert_shows(view, expected)
    page.mouse.move(*centre(cell(view, 1, 1)))
    assert_shows(view, expected)  # passing over chooses nothing
    page.mouse.down()
    page.mouse.move(*centre(cell(view, 4, 2)), steps=4)
    page.mouse.up()
    expected.row, expected.column = 4, 2
    assert_shows(view, expected)
    touched = show(width=390, **PHONE)
    cell(touched, 2, 0).tap()
    expected.row, expected.column = 2, 0
    assert_shows(touched, expected)


def test_the_largest_map(show):
    view, expected = show(1), largest()
    assert_shows(view, expected)
    assert view.locator("i, b").count() == 0  # names stay text
    view.locator("select").select_option("7")
    cell(view, 7, 7).click()
    expected.job, expected.row, expected.column = 7, 7, 7
    assert_shows(view, expected)


@pytest.mark.parametrize(("name", "right"), [("index", True), ("wrong", False)])
def test_a_wrong_number_is_noticed(show, name, right):
    view = show(name=name)
    if right:
        assert_shows(view, map_of_the_lesson())
    else:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            assert_shows(view, map_of_the_lesson())


# --- for every reader
# -----------------------------------------------------------------------------------------


def test_a_choice_is_drawn_once_and_announced(show):
    view, expected = show(), map_of_the_lesson()
    drawn = view.evaluate(
        """async (view) => {
          const frame = () => new Promise(requestAnimationFrame);
          await frame();
          let drawn = 0;
          const watch = new MutationObserver((all) => (drawn += all.length));
          watch.observe(view.querySelector(".attnlab-bars"), { childList: true });
          for (const cell of view.querySelectorAll("[data-row='1']")) cell.click();
          await frame();
          await frame();
          return drawn;
        }"""
    )
    assert drawn == 1
    expected.row, expected.column = 1, 3
    assert_shows(view, expected)
    name = cell(view, 1, 3).get_attribute("aria-label")
    other = expected.accuracies("latest")[1, 3]
    said = "([node, text]) => node.textContent.startsWith(text)"
    spoken = view.locator("[data-spoken]")
    view.page.wait_for_function(
        said, arg=[spoken.element_handle(), f"three back, {name}. In the other job: latest "]
    )
    assert number(spoken.inner_text().split()[-1].rstrip(".")) == pytest.approx(other, abs=0.00501)


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_and_can_be_hit(show, width):
    for place in (0, 1):
        view = show(place, width=width, **(PHONE if width < 500 else {}))
        frames(view.page)
        assert view.page.evaluate("document.documentElement.scrollWidth") <= width
        box = view.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
        if place == 0:
            parts = view.locator("[role=radio], .attnlab-map-head")
            spills = "all => all.filter(at => at.scrollWidth > at.clientWidth).map(at => at.textContent)"
            assert parts.evaluate_all(spills) == []
            sizes = "all => Math.min(...all.flatMap(at => [at.offsetWidth, at.offsetHeight]))"
            assert view.locator("[role=radio]").evaluate_all(sizes) >= 36


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(show, scheme):
    assert axe_complaints(show(scheme=scheme, strict=False)) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colours_and_reduced_motion(show, scheme):
    view = show(scheme=scheme, forced_colors="active", reduced_motion="reduce")
    colour = "(node, name) => getComputedStyle(node)[name]"
    background = view.evaluate(colour, "backgroundColor")
    for part, name in (
        ("[role=radio][aria-checked=true]", "outlineColor"),
        (".attnlab-map-line", "borderInlineEndColor"),
        (".attnlab-bar", "backgroundColor"),
        (".attnlab-ghost", "borderTopColor"),
    ):
        assert view.locator(part).first.evaluate(colour, name) != background, part
    assert moving(view) == 0


def test_nothing_listens_once_it_is_taken_away(url, open_url):
    page = open_url("about:blank", strict=False)
    page.add_init_script(COUNT_WHAT_LIVES)
    page.goto(f"{url}index.html")
    cell(host_at(page, 0), 4, 3).click()  # a frame and a timer are under way
    before, after, handlers = taken_away(page)
    assert before >= 5
    assert (after, handlers) == (0, 0)
