"""The rotary explorer on a page without a kernel: its numbers by every way of use, and for every reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator

from attnlab.widgets import RotaryExplorer
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


def explorer() -> RotaryExplorer:
    """As wide as in the lesson."""
    draw = np.random.default_rng(0).normal
    return RotaryExplorer(draw(size=16), draw(size=16), query_place=5, key_place=3)


def widest() -> RotaryExplorer:
    """As many pairs as there may be, one of them empty, far out and at a base between the stops."""
    query, key = np.random.default_rng(1).normal(size=(2, 32))
    query[:2] = key[:2] = 0
    return RotaryExplorer(query, 100 * key, query_place=63, key_place=0, shift=192, base=500_000.0)


@pytest.fixture(scope="module")
def url(widget_book: Callable[..., str]) -> str:
    """Address of a book with both widgets on its first page; ``wrong.html`` is a copy with wrong numbers."""
    return widget_book([explorer(), widest()], wrong=spoil("key", lambda number: number + 1e-3))


SHOWN = """view => {
  const clocks = [...view.querySelectorAll("[data-product]")];
  const tip = (at, kind) => [+at.querySelector(`.attnlab-tip-${kind}`).getAttribute("cx"),
                             -at.querySelector(`.attnlab-tip-${kind}`).getAttribute("cy")];
  const here = view.querySelector(".attnlab-curve-here");
  return {
    products: clocks.map(at => +at.dataset.product),
    hands: clocks.map(at => at.dataset.hands.split(" ").map(Number)),
    numbers: clocks.map(at => at.querySelector("b").textContent),
    tips: clocks.map(at => [tip(at, "query"), tip(at, "key")]),
    bars: clocks.map(at => at.querySelector(".attnlab-bar").style)
      .map(style => [style.marginInlineStart, style.width].map(parseFloat)),
    score: +view.dataset.score, unmoved: +view.dataset.unmoved,
    curve: view.querySelector(".attnlab-rotary-curve").dataset.scores.split(" ").map(Number),
    here: [+here.getAttribute("cx"), +here.getAttribute("cy")],
    points: view.querySelector(".attnlab-curve-scores").getAttribute("d").slice(1).split("L"),
    title: view.querySelector(".attnlab-rotary-score").textContent,
    facts: [...view.querySelectorAll(".attnlab-fact")].map(at => at.textContent) };
}"""


def number(text: str) -> float:
    """The first number of a text, which may have a power of ten."""
    text = text.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")).replace(",", "")
    mantissa, power = re.search(r"(-?\d+(?:\.\d+)?)(?: × 10(-?\d+))?", text).groups()
    return float(mantissa) * 10.0 ** int(power or 0)


def assert_shows(view: Locator, expected: RotaryExplorer) -> dict[str, Any]:
    """Hands, products, score and curve are Python's, as data, digits and as drawn. Returns what is shown."""
    frames(view.page)
    shown = view.evaluate(SHOWN)
    hands, products = expected.hands(), expected.products()
    size = float(np.abs(hands).max() ** 2)
    close = {"rtol": 0, "atol": 1e-10 * size}
    np.testing.assert_allclose(shown["hands"], np.concatenate(hands, axis=-1), **close)
    np.testing.assert_allclose(shown["products"], products, **close)
    np.testing.assert_allclose(shown["score"], expected.score(), **close)
    np.testing.assert_allclose(shown["unmoved"], expected.score(), **close)  # a shift leaves it
    np.testing.assert_allclose(shown["curve"], expected.scores_by_key_place(), **close)
    np.testing.assert_allclose([*map(number, shown["numbers"])], products, rtol=0, atol=0.00501)
    assert number(shown["title"]) == pytest.approx(expected.score(), abs=0.00501)

    lengths = np.linalg.norm(hands, axis=-1)
    reach = np.where(lengths.max(axis=0), lengths.max(axis=0), 1)[None, :, None]
    np.testing.assert_allclose(np.swapaxes(shown["tips"], 0, 1), 41 * hands / reach, rtol=0, atol=1e-6)
    shares = 50 * np.abs(products) / lengths.prod(axis=0).max()
    bars = np.stack([np.where(products < 0, 50 - shares, 50), shares], axis=-1)
    np.testing.assert_allclose(shown["bars"], bars, rtol=0, atol=0.01)
    point = [float(part) for part in shown["points"][expected.key_place].split()]
    np.testing.assert_allclose(shown["here"], point, rtol=0, atol=0.051)
    assert len(shown["points"]) == 64

    query, key = expected.query_place + expected.shift, expected.key_place + expected.shift
    distance = str(query - key).replace("-", "−")
    assert shown["facts"][0].startswith(f"Query at {query}, key at {key}, distance {distance}. ")
    return shown


# --- numbers, by every way of use
# -----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_by_keyboard_alone(show, scheme):
    view, expected = show(scheme=scheme), explorer()
    page = view.page
    assert_shows(view, expected)
    view.locator("[data-trait=query_place]").focus()
    press(page, "Tab", "Shift+Tab")
    for trait, keys in (
        ("query_place", {"ArrowRight": 6, "End": 63, "Home": 0}),
        ("key_place", {"ArrowLeft": 2, "End": 63, "ArrowDown": 62}),
        ("shift", {"ArrowRight": 1, "End": 192}),
        ("base", {"Home": 10.0, "ArrowRight": 30.0, "End": 1e6}),
    ):
        assert focused(page) == trait
        for key, value in keys.items():
            press(page, key)
            setattr(expected, trait, value)
            assert_shows(view, expected)
        press(page, "Tab")
    assert view.locator("[data-trait=base]").get_attribute("aria-valuetext") == "1,000,000"
    assert focused(page) == "summary"
    press(page, "Enter")
    view.locator("tbody tr").first.wait_for()
    rows = [line.split("\t") for line in view.locator("tbody tr").all_inner_texts()]
    assert [row[0] for row in rows] == [*map(str, range(8)), "sum"]
    assert rows[3][1] == "6, 7"
    table = np.array([[number(text) for text in row[2:]] for row in rows[:-1]])
    angles = np.degrees(np.arctan2(expected.hands()[..., 1], expected.hands()[..., 0]))
    np.testing.assert_allclose(table[:, 0], np.degrees(expected.speeds()), rtol=0.00501)
    np.testing.assert_allclose(table[:, 1:3], angles.T, rtol=0, atol=0.0501)
    between = np.abs((angles[0] - angles[1] + 180) % 360 - 180)
    np.testing.assert_allclose(table[:, 3], between, rtol=0, atol=0.0501)
    np.testing.assert_allclose(table[:, 4], expected.products(), rtol=0, atol=5.01e-5)
    assert number(rows[-1][-1]) == pytest.approx(expected.score(), abs=5.01e-5)


def test_by_pointer_and_by_touch(show):
    for view, press_at in (
        (show(), lambda view, *place: view.page.mouse.click(*place)),
        (show(width=390, **PHONE), lambda view, *place: view.page.touchscreen.tap(*place)),
    ):
        expected = explorer()
        for trait in ("query_place", "key_place", "shift"):
            slider = view.locator(f"[data-trait={trait}]")
            x, y = centre(slider)
            press_at(view, x + 30, y)
            value = int(slider.input_value())
            assert value > getattr(expected, trait)
            setattr(expected, trait, value)
            assert_shows(view, expected)


def test_shifted_together_the_hands_turn_and_the_score_stays(show):
    view, expected = show(), explorer()
    before = assert_shows(view, expected)
    assert before["facts"][1] == "Not shifted. Shift both, and look at the hands and at the score."
    view.locator("[data-trait=shift]").fill("100")
    expected.shift = 100
    after = assert_shows(view, expected)
    turned = np.abs(np.subtract(after["tips"], before["tips"])).max(axis=(1, 2))
    assert turned[0] > 20 and turned[4] > 20  # of 41
    np.testing.assert_allclose(after["products"], before["products"], rtol=0, atol=1e-12)
    assert (after["title"], after["numbers"]) == (before["title"], before["numbers"])
    np.testing.assert_allclose(after["curve"], before["curve"], rtol=0, atol=1e-12)
    said = re.fullmatch(
        r"Both are shifted by 100\. Without the shift the score is (\S+): it (.+)\.", after["facts"][1]
    )
    assert number(said[1]) == pytest.approx(expected.score(), abs=0.00501)
    off = abs(after["score"] - after["unmoved"])
    if off:
        assert said[2].endswith(", which is rounding") and number(said[2]) == pytest.approx(off, rel=0.1)
    else:
        assert said[2] == "did not move"
    view.locator("[data-trait=key_place]").fill("4")
    expected.key_place = 4
    assert assert_shows(view, expected)["title"] != after["title"]


def test_the_widest_case(show):
    view, expected = show(1), widest()
    assert_shows(view, expected)
    slider = view.locator("[data-trait=base]")
    assert slider.get_attribute("aria-valuetext") == "500,000"
    slider.focus()
    press(view.page, "ArrowRight")
    expected.base = 1e6
    assert_shows(view, expected)


@pytest.mark.parametrize(("name", "right"), [("index", True), ("wrong", False)])
def test_a_wrong_number_is_noticed(show, name, right):
    view = show(name=name)
    if right:
        assert_shows(view, explorer())
    else:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            assert_shows(view, explorer())


# --- for every reader
# -----------------------------------------------------------------------------------------


def test_the_arc_joins_the_hands_the_shorter_way(show):
    view = show()
    arcs = """all => all.map(arc => {
      const middle = arc.getPointAtLength(arc.getTotalLength() / 2);
      return [arc.getTotalLength(), Math.hypot(middle.x, middle.y)];
    })"""
    for place in range(7):
        view.locator("[data-trait=key_place]").fill(str(place))
        frames(view.page)
        query, key = np.array(view.evaluate(SHOWN)["hands"]).reshape(-1, 2, 2).swapaxes(0, 1)
        turns = np.arctan2(query[:, 1], query[:, 0]) - np.arctan2(key[:, 1], key[:, 0])
        between = np.abs((turns + np.pi) % (2 * np.pi) - np.pi)
        found = np.array(view.locator(".attnlab-between").evaluate_all(arcs))
        np.testing.assert_allclose(found[:, 0], 15 * between, rtol=0, atol=0.2)
        np.testing.assert_allclose(found[:, 1], 15, rtol=0, atol=0.1)  # around the middle of the clock


def test_a_burst_of_changes_is_drawn_once_and_announced(show):
    view, expected = show(), explorer()
    drawn = view.evaluate(
        """async (view) => {
          const slider = view.querySelector("[data-trait=shift]");
          const frame = () => new Promise(requestAnimationFrame);
          await frame();
          let drawn = 0;
          const watch = new MutationObserver((all) => (drawn += all.length));
          watch.observe(view, { attributeFilter: ["data-score"] });
          for (let places = 1; places <= 26; places++) {
            slider.value = places;
            slider.dispatchEvent(new Event("input"));
          }
          await frame();
          await frame();
          return drawn;
        }"""
    )
    assert drawn == 1
    expected.shift = 26
    shown_now = assert_shows(view, expected)
    spoken = view.locator("[data-spoken]")
    view.page.wait_for_function("node => node.textContent", arg=spoken.element_handle())
    said = spoken.inner_text()
    assert said.startswith("Query at 31, key at 29, distance 2, base 10,000: score ")
    assert number(said.partition(": score ")[2]) == pytest.approx(expected.score(), abs=0.00501)
    assert said.endswith(shown_now["facts"][1])


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits_and_can_be_hit(show, width):
    touch = width < 500
    for place in (0, 1):
        view = show(place, width=width, **(PHONE if touch else {}))
        frames(view.page)
        assert view.page.evaluate("document.documentElement.scrollWidth") <= width
        box = view.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
        for part in view.locator(".attnlab-clocks svg, .attnlab-rotary-curve text").all():
            inner = part.bounding_box()
            assert inner["x"] >= box["x"] and inner["x"] + inner["width"] <= box["x"] + box["width"]
        spills = "all => all.filter(at => at.scrollWidth > at.clientWidth).map(at => at.textContent)"
        assert view.locator(".attnlab-clocks li").evaluate_all(spills) == []
        heights = view.locator("[type=range]").evaluate_all("all => all.map(at => at.offsetHeight)")
        assert min(heights) >= (44 if touch else 28)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(show, scheme):
    assert axe_complaints(show(scheme=scheme, strict=False)) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colours_and_reduced_motion(show, scheme):
    view = show(scheme=scheme, forced_colors="active", reduced_motion="reduce")
    colour = "(node, name) => getComputedStyle(node)[name]"
    background = view.evaluate(colour, "backgroundColor")
    for part, name in (
        (".attnlab-rim", "stroke"),
        (".attnlab-hand-query", "stroke"),
        (".attnlab-hand-key", "stroke"),
        (".attnlab-tip-query", "fill"),
        (".attnlab-tip-key", "stroke"),
        (".attnlab-between", "stroke"),
        (".attnlab-bar", "backgroundColor"),
        (".attnlab-curve-scores", "stroke"),
        (".attnlab-curve-here", "fill"),
    ):
        assert view.locator(part).first.evaluate(colour, name) != background, part
    # The two hands are told apart without their colours.
    dashes = [view.locator(f".attnlab-hand-{one}").first for one in ("query", "key")]
    assert len({line.evaluate(colour, "strokeDasharray") for line in dashes}) == 2
    assert moving(view) == 0


def test_nothing_listens_once_it_is_taken_away(url, open_url):
    page = open_url("about:blank", strict=False)
    page.add_init_script(COUNT_WHAT_LIVES)
    page.goto(f"{url}index.html")
    host_at(page, 0).locator("[data-trait=shift]").fill("7")  # a frame and a timer are under way
    before, after, handlers = taken_away(page)
    assert before >= 7
    assert (after, handlers) == (0, 0)
