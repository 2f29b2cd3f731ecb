"""The tile walk on a page without a kernel: its numbers by every way of use, and for every reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator

from attnlab.widgets import TileWalk
from tests.site.widget_use import (
    COUNT_WHAT_LIVES,
    axe_complaints,
    centre,
    focused,
    frames,
    host_at,
    press,
    spoil,
    taken_away,
)

pytestmark = pytest.mark.browser

PHONE: dict[str, Any] = {"has_touch": True, "is_mobile": True}


def walk() -> TileWalk:
    """As large as in the lesson."""
    draw = np.random.default_rng(0).normal
    return TileWalk(2 * draw(size=(6, 8)), draw(size=8), query_tile=2, key_tile=3, step=2)


def largest() -> TileWalk:
    """As many scores as there may be, some of them far apart, in tiles that do not divide them."""
    draw = np.random.default_rng(1).normal
    return TileWalk(300 * draw(size=(10, 10)), draw(size=10), query_tile=4, key_tile=3, step=100)


@pytest.fixture(scope="module")
def url(widget_book: Callable[..., str]) -> str:
    """Address of a book with both widgets on its first page; ``wrong.html`` is a copy with wrong numbers."""
    return widget_book([walk(), largest()], wrong=spoil("values", lambda number: number + 1e-3))


SHOWN = """view => ({
  ...view.dataset,
  states: [...view.querySelectorAll(".attnlab-tile-cell")].map(at => at.dataset.state),
  shares: [...view.querySelectorAll(".attnlab-tile-cell")].map(at => +at.style.getPropertyValue("--share")),
  digits: [...view.querySelectorAll(".attnlab-tile-cell")].map(at => at.textContent),
  rows: [...view.querySelectorAll(".attnlab-tiles-carried tbody tr")]
    .map(row => [...row.querySelectorAll("td")].map(at => at.textContent)),
  title: view.querySelector(".attnlab-tiles-title").textContent,
  fact: view.querySelector(".attnlab-tiles-columns > div:last-child .attnlab-fact").textContent })"""


def number(text: str) -> float:
    """A number as the page writes it; NaN where it has none."""
    text = text.replace("−", "-").replace("∞", "inf")
    return float(text) if text not in ("–", "") else np.nan


def assert_shows(view: Locator, expected: TileWalk) -> dict[str, Any]:
    """What each row carries and what the map marks are Python's, as data and as digits."""
    frames(view.page)
    shown = view.evaluate(SHOWN)
    maximum, total, gathered = expected.running()
    corrections, output = expected.corrections(), expected.output()
    for name, wanted in (
        ("maximum", np.where(np.isfinite(maximum), maximum, np.nan)),
        ("total", total),
        ("gathered", gathered),
        ("corrections", corrections),
    ):
        listed = [np.nan if value is None else value for value in json.loads(shown[name])]
        np.testing.assert_allclose(listed, wanted, rtol=1e-12, atol=1e-12)
    digits = np.array([[number(text) for text in row] for row in shown["rows"]])
    wanted = np.stack([maximum, total, output, corrections], axis=1)
    np.testing.assert_allclose(digits, wanted, rtol=0, atol=0.00501)

    tiles, size = expected.tiles(), (len(maximum), len(shown["states"]) // len(maximum))
    done = min(expected.step, len(tiles))
    states = np.full(size, "ahead")
    for at, (rows, keys) in enumerate(tiles[:done], start=1):
        states[rows, keys] = "here" if at == done else "done"
    assert shown["states"] == states.flatten().tolist()
    scores = np.frombuffer(expected.scores, "<f4").reshape(size).astype(float)
    with np.errstate(over="ignore"):
        shares = np.where(states == "here", np.exp(scores - maximum[:, None]), 0)
    np.testing.assert_allclose(shown["shares"], shares.flatten(), rtol=0, atol=1e-6)
    np.testing.assert_allclose([*map(number, shown["digits"])], scores.flatten(), rtol=0, atol=0.0501)
    assert int(shown["done"]) == done
    assert shown["title"].startswith(f"Tile {done} of {len(tiles)}: " if done else "No tile yet, of ")
    held = int((states == "here").sum())
    assert shown["fact"].startswith(f"{held} of {scores.size} scores exist now.")
    risen = [i + 1 for i, factor in enumerate(corrections) if 0 < factor < 1]
    assert ("The maximum rose" in shown["fact"]) == bool(risen)
    assert all(str(row) in shown["fact"].partition("now.")[2] for row in risen)
    return shown


# --- numbers, by every way of use
# -----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_by_keyboard_alone(show, scheme):
    view, expected = show(scheme=scheme), walk()
    page = view.page
    assert_shows(view, expected)
    view.locator("[data-trait=query_tile]").focus()
    press(page, "Tab", "Shift+Tab")
    assert focused(page) == "query_tile"
    press(page, "ArrowRight")
    expected.query_tile, expected.step = 3, 0  # other tiles are another walk
    assert_shows(view, expected)
    press(page, "Tab")
    assert focused(page) == "key_tile"
    press(page, "End")
    expected.key_tile = 8
    assert_shows(view, expected)
    press(page, "Tab", "Tab", "Tab")
    assert focused(page, "at.textContent") == "Take the next tile"
    for step in (1, 2, 2):  # there are two, and no further one
        press(page, "Enter")
        expected.step = step
        assert_shows(view, expected)
    assert view.get_by_text("Take the next tile").get_attribute("aria-disabled") == "true"
    press(page, "Shift+Tab", "Space")
    expected.step = 1
    assert_shows(view, expected)
    press(page, "Shift+Tab", "Enter")
    expected.step = 0
    shown_now = assert_shows(view, expected)
    assert shown_now["title"] == "No tile yet, of 2"
    assert [row[0] for row in shown_now["rows"]] == ["−∞"] * 6
    press(page, "Tab", "Tab", "Tab")
    assert focused(page) == "summary"
    press(page, "Enter")
    view.locator(".attnlab-values tbody tr").first.wait_for()
    rows = [line.split("\t") for line in view.locator(".attnlab-values tbody tr").all_inner_texts()]
    table = np.array([[number(text) for text in row[1:]] for row in rows])
    wanted = np.frombuffer(expected.scores + expected.values, "<f4").reshape(7, 8)
    np.testing.assert_allclose(table, wanted, rtol=0, atol=0.00501)


def test_by_pointer_and_by_touch(show):
    for view, press_at in (
        (show(), lambda view, *place: view.page.mouse.click(*place)),
        (show(width=390, **PHONE), lambda view, *place: view.page.touchscreen.tap(*place)),
    ):
        expected = walk()
        for text, step in (("Take the next tile", 3), ("Back one tile", 2), ("Begin again", 0)):
            press_at(view, *centre(view.get_by_text(text)))
            expected.step = step
            assert_shows(view, expected)
        slider = view.locator("[data-trait=key_tile]")
        x, y = centre(slider)
        press_at(view, x + 30, y)
        expected.key_tile = int(slider.input_value())
        assert expected.key_tile > 3
        assert_shows(view, expected)


def test_every_step_of_the_walk(show):
    view, expected = show(), walk()
    view.get_by_text("Begin again").click()
    for step in range(len(expected.tiles()) + 1):
        if step:
            view.get_by_text("Take the next tile").click()
        expected.step = step
        assert_shows(view, expected)


def test_the_end_does_not_depend_on_the_tiles(show):
    view, expected = show(), walk()
    ends = []
    for query_tile, key_tile in ((1, 1), (6, 8), (4, 5)):
        view.locator("[data-trait=query_tile]").fill(str(query_tile))
        view.locator("[data-trait=key_tile]").fill(str(key_tile))
        expected.query_tile, expected.key_tile = query_tile, key_tile
        expected.step = len(expected.tiles())
        for _ in range(expected.step):
            view.get_by_text("Take the next tile").click()
        ends.append(assert_shows(view, expected)["rows"])
    assert [row[:3] for row in ends[0]] == [row[:3] for row in ends[1]] == [row[:3] for row in ends[2]]


def test_the_largest_case(show):
    view, expected = show(1), largest()
    assert_shows(view, expected)
    view.get_by_text("Back one tile").click()
    expected.step = len(expected.tiles()) - 1
    assert_shows(view, expected)


@pytest.mark.parametrize(("name", "right"), [("index", True), ("wrong", False)])
def test_a_wrong_number_is_noticed(show, name, right):
    view = show(name=name)
    if right:
        assert_shows(view, walk())
    else:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            assert_shows(view, walk())


# --- for every reader
# -----------------------------------------------------------------------------------------


def test_a_step_is_announced(show):
    view, expected = show(), walk()
    view.get_by_text("Take the next tile").click()
    expected.step = 3
    shown_now = assert_shows(view, expected)
    spoken = view.locator("[data-spoken]")
    view.page.wait_for_function("node => node.textContent", arg=spoken.element_handle())
    assert spoken.inner_text() == f"{shown_now['title']}. {shown_now['fact']}"


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_and_can_be_hit(show, width):
    touch = width < 500
    for place in (0, 1):
        view = show(place, width=width, **(PHONE if touch else {}))
        frames(view.page)
        assert view.page.evaluate("document.documentElement.scrollWidth") <= width
        box = view.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
        for part in view.locator(".attnlab-tiles-map, .attnlab-tiles-carried").all():
            inner = part.bounding_box()
            assert inner["x"] >= box["x"] and inner["x"] + inner["width"] <= box["x"] + box["width"]
        heights = view.locator("[type=range], button").evaluate_all("all => all.map(at => at.offsetHeight)")
        assert min(heights) >= (44 if touch else 28)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(show, scheme):
    assert axe_complaints(show(scheme=scheme, strict=False)) == []


def test_forced_colours_tell_the_tile_at_hand(show):
    view = show(forced_colors="active", reduced_motion="reduce")
    colour = "node => getComputedStyle(node).borderTopColor"
    style = "node => getComputedStyle(node).borderTopStyle"
    cells = {state: view.locator(f"[data-state={state}]").first for state in ("here", "done", "ahead")}
    assert cells["here"].evaluate(colour) != cells["ahead"].evaluate(colour)
    assert cells["done"].evaluate(style) != cells["ahead"].evaluate(style)
    view.get_by_text("Back one tile").click()  # the tile with the largest score of its rows
    ink = "node => getComputedStyle(node).color"
    assert view.locator(".attnlab-on-dark").first.evaluate(ink) == cells["ahead"].evaluate(ink)


def test_nothing_listens_once_it_is_taken_away(url, open_url):
    page = open_url("about:blank", strict=False)
    page.add_init_script(COUNT_WHAT_LIVES)
    page.goto(f"{url}index.html")
    host_at(page, 0).get_by_text("Take the next tile").click()  # a frame and a timer are under way
    before, after, handlers = taken_away(page)
    assert before >= 7
    assert (after, handlers) == (0, 0)
