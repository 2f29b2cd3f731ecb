"""The soft lookup explorer on a page without a kernel: its numbers by every way of use, and for every reader.

What the page shows is compared with what the Python class computes from the same settings, so no number
stands here.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page

from attnlab.widgets import SoftLookupExplorer
from tests.site.widget_use import centre, focused, frames, host_at, moving, press, spoil

pytestmark = pytest.mark.browser

SCHEMES = ("light", "dark")
PHONE: dict[str, Any] = {"width": 390, "has_touch": True, "is_mobile": True}
STATE = "application/vnd.jupyter.widget-state+json"


def compass() -> SoftLookupExplorer:
    """Four keys of length 1, as in the lesson."""
    angles = np.deg2rad([0, 90, 180, 270])
    return SoftLookupExplorer(
        np.stack([np.sin(angles), np.cos(angles)], axis=-1),
        [1.0, 2.0, 4.0, 3.0],
        names=["N", "E", "S", "W"],
        query=(0.6, 0.8),
        temperature=0.2,
        stretched="E",
        axes=("east", "north"),
        unit="m",
    )


def crowded() -> SoftLookupExplorer:
    """As many keys as there may be, names that look like markup, values of both signs, no key to stretch."""
    draw = np.random.default_rng(0).normal
    names = [f"<b>{n}</b>" for n in range(12)]
    return SoftLookupExplorer(
        30 * draw(size=(12, 2)), 50 * draw(size=12), names=names, score="distance", temperature=200.0
    )


@pytest.fixture(scope="module")
def url(widget_book: Callable[..., str]) -> str:
    """Address of a book with both widgets on its first page; ``wrong.html`` is a copy with wrong numbers."""
    return widget_book(
        [compass(), crowded()],
        wrong=spoil("keys_xy", lambda number: 1.001 * number + 1e-3),
    )


@pytest.fixture
def show(show: Callable[..., Locator]) -> Callable[..., Locator]:
    """The same, with the plane in sight."""

    def at(*which: Any, **options: Any) -> Locator:
        view = show(*which, **options)
        view.locator(".attnlab-plane").scroll_into_view_if_needed()
        return view

    return at


def as_float(text: str) -> float:
    """The first number of a text, which may have a power of ten."""
    text = text.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-"))
    mantissa, power = re.search(r"(-?\d+(?:\.\d+)?)(?: × 10(-?\d+))?", text).groups()
    return float(mantissa) * 10.0 ** int(power or 0)


def assert_shows(view: Locator, expected: SoftLookupExplorer) -> None:
    """Weights, answer, slope and query are Python's: as data, as digits, as bars and as lines."""
    frames(view.page)
    data = view.evaluate("view => ({ ...view.dataset })")
    assert (float(data["x"]), float(data["y"])) == (expected.x, expected.y)
    weights, answer = expected.weights(), expected.answer()
    rows = view.locator("[data-weight]")
    shown = rows.evaluate_all("all => all.map(row => +row.dataset.weight)")
    np.testing.assert_allclose(shown, weights, rtol=0, atol=1e-12)
    assert float(data["answer"]) == pytest.approx(answer, abs=1e-10)
    slope = [float(part) for part in data["slope"].split()]
    np.testing.assert_allclose(slope, expected.slope(), rtol=1e-9, atol=1e-10)

    digits = rows.locator(".attnlab-bar-number").all_inner_texts()
    assert [float(text) for text in digits[::2]] == pytest.approx(weights.tolist(), abs=0.00501)
    assert as_float(view.locator(".attnlab-lookup-answer").inner_text()) == pytest.approx(answer, abs=0.00501)
    bars = rows.evaluate_all(
        "all => all.map(row => parseFloat(row.querySelector('.attnlab-bar').style.width))"
    )
    np.testing.assert_allclose(bars, 100 * weights, rtol=0, atol=0.01)
    widths = view.locator(".attnlab-lookup-link").evaluate_all(
        "all => all.map(line => parseFloat(getComputedStyle(line).strokeWidth))"
    )
    np.testing.assert_allclose(widths, 14 * weights, rtol=0, atol=0.02)
    scores = expected.scores()
    highest = np.flatnonzero(scores.max() - scores <= 1e-6 * abs(scores).max())
    marked = rows.evaluate_all("all => all.flatMap((row, j) => row.matches('.attnlab-marked') ? [j] : [])")
    assert marked == highest.tolist()


def in_plane(view: Locator, x: float, y: float, reach: float = 1.6) -> tuple[float, float]:
    """Where a point of the plane lies on the screen: the axes are as long as the lines that draw them."""
    across = view.locator(".attnlab-plane > g").first.locator("line").nth(0).bounding_box()
    up = view.locator(".attnlab-plane > g").first.locator("line").nth(1).bounding_box()
    return (
        across["x"] + across["width"] * (x / reach + 1) / 2,
        up["y"] + up["height"] * (1 - y / reach) / 2,
    )


# --- numbers, by every way of use
# -----------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_keyboard_alone(show, scheme):
    view, expected = show(scheme=scheme), compass()
    page = view.page
    assert_shows(view, expected)
    view.locator("select").focus()
    press(page, "Shift+Tab", "Tab")  # reached by the keyboard, so that the focus must show
    assert focused(page) == "score"
    press(page, "End")
    expected.score = "distance"
    assert_shows(view, expected)

    press(page, "Tab")
    assert focused(page) == "temperature"
    for key, temperature in (("ArrowRight", 0.3), ("ArrowRight", 0.5), ("End", 10.0), ("Home", 0.0)):
        press(page, key)
        expected.temperature = temperature
        assert_shows(view, expected)
    slider = view.locator("[data-trait=temperature]")
    assert slider.get_attribute("aria-valuetext") == "0, the arg-max"
    press(page, *["ArrowRight"] * 7)
    expected.temperature = 0.1
    assert_shows(view, expected)

    press(page, "Tab")
    assert focused(page) == "stretch"
    press(page, "ArrowRight", "ArrowRight")
    expected.stretch = 1.2
    assert_shows(view, expected)

    press(page, "Tab")
    assert focused(page) == "slider"
    for key, x, y in (
        ("ArrowRight", 0.64, 0.8),
        ("ArrowDown", 0.64, 0.76),
        ("ArrowLeft", 0.6, 0.76),
        ("ArrowUp", 0.6, 0.8),
        ("Shift+ArrowUp", 0.6, 1.0),
        ("Home", 0.0, 0.0),
        ("ArrowLeft", -0.04, 0.0),
    ):
        press(page, key)
        expected.x, expected.y = x, y
        assert_shows(view, expected)
    text = view.locator("[role=slider]").get_attribute("aria-valuetext")
    assert text.startswith("east −0.04, north 0.00, answer ")

    press(page, "Tab")
    assert focused(page) == "x"
    press(page, "End")
    press(page, "Tab")
    assert focused(page) == "y"
    press(page, "Home")
    expected.x, expected.y = 1.6, -1.6
    assert_shows(view, expected)

    press(page, "Tab")
    assert focused(page) == "summary"
    press(page, "Enter")
    frames(page)
    cells = [row.split("\t") for row in view.locator("tbody tr").all_inner_texts()]
    assert [row[0] for row in cells] == ["N", "E", "S", "W", "Sum"]
    weights, values = expected.weights(), np.array([1.0, 2.0, 4.0, 3.0])
    columns = np.array([[as_float(cell) for cell in row[1:]] for row in cells[:-1]]).T
    np.testing.assert_allclose(columns[:2].T, expected.key_points(), atol=0.00501)
    np.testing.assert_allclose(columns[2], expected.scores(), atol=0.0000501)
    np.testing.assert_allclose(columns[3], weights, atol=0.0000501)
    np.testing.assert_allclose(columns[5], weights * values, atol=0.0000501)
    assert as_float(cells[-1][-1]) == pytest.approx(expected.answer(), abs=0.0000501)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_pointer(show, scheme):
    view, expected = show(scheme=scheme), compass()
    page = view.page
    page.mouse.move(*in_plane(view, -1.0, -1.0))
    assert_shows(view, expected)  # passing over moves nothing
    page.mouse.move(*in_plane(view, 0.6, 0.8))
    page.mouse.down()
    page.mouse.move(*in_plane(view, -0.48, 0.52), steps=5)
    expected.x, expected.y = -0.48, 0.52
    assert_shows(view, expected)
    page.mouse.move(*in_plane(view, 9.0, -9.0))  # beyond the edge
    page.mouse.up()
    expected.x, expected.y = 1.6, -1.6
    assert_shows(view, expected)
    page.mouse.move(*in_plane(view, 0.0, 0.0))  # the button is up
    assert_shows(view, expected)
    page.mouse.click(*in_plane(view, 1.0, 0.24))
    expected.x, expected.y = 1.0, 0.24
    assert_shows(view, expected)
    press(page, "ArrowUp")  # what was pressed has the keyboard
    expected.y = 0.28
    assert_shows(view, expected)
    view.locator("select").select_option("distance")
    expected.score = "distance"
    x, y = centre(view.locator("[data-trait=stretch]"))
    page.mouse.click(x + 60, y)
    expected.stretch = float(view.locator("[data-trait=stretch]").input_value())
    assert 1.1 <= expected.stretch <= 1.4
    assert_shows(view, expected)


def test_taken_beside_its_middle_the_query_does_not_jump(show):
    view, expected = show(), compass()
    x, y = in_plane(view, 0.6, 0.8)
    view.page.mouse.move(x + 8, y + 8)
    view.page.mouse.down()
    assert_shows(view, expected)
    dx, dy = in_plane(view, 0.12, 0.28)
    view.page.mouse.move(dx + 8, dy + 8)
    view.page.mouse.up()
    expected.x, expected.y = 0.12, 0.28
    assert_shows(view, expected)


def drag_by_finger(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    session = page.context.new_cdp_session(page)
    along = [[a + (b - a) * i / 5 for a, b in zip(start, end, strict=True)] for i in range(6)]
    for kind, (x, y) in zip(["touchStart", *["touchMove"] * 5], along, strict=True):
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_touch(show, scheme):
    view, expected = show(scheme=scheme, **PHONE), compass()
    page = view.page
    before = page.evaluate("scrollY")
    drag_by_finger(page, in_plane(view, 0.6, 0.8), in_plane(view, -0.32, -0.92))
    expected.x, expected.y = -0.32, -0.92
    assert_shows(view, expected)
    assert page.evaluate("scrollY") == before  # the query moved, the page did not
    page.touchscreen.tap(*in_plane(view, 1.2, 0.48))
    expected.x, expected.y = 1.2, 0.48
    assert_shows(view, expected)
    drag_by_finger(page, in_plane(view, -1.4, -1.4), in_plane(view, -1.4, 1.4))
    page.wait_for_function("before => scrollY > before + 20", arg=before)  # elsewhere a finger scrolls
    assert_shows(view, expected)


def test_the_limit_and_its_ties_in_words(show):
    view, expected = show(), compass()
    page = view.page
    facts = view.locator(".attnlab-fact")
    view.locator("[data-trait=temperature]").focus()
    press(page, "Home")
    expected.temperature = 0.0
    assert_shows(view, expected)
    assert expected.answer() == 1.0
    assert facts.nth(0).inner_text() == "N has the highest score: the arg-max answers 1\u00a0m."
    assert facts.nth(1).inner_text() == "Slope 0: a small move of q changes nothing."
    page.mouse.click(*in_plane(view, 0.48, 0.48))
    expected.x = expected.y = 0.48
    assert_shows(view, expected)
    assert facts.nth(0).inner_text().startswith("N and E share the highest score")
    assert facts.nth(1).inner_text() == "No slope: with a small move the answer jumps."
    view.locator("[data-trait=temperature]").focus()
    press(page, "ArrowRight")  # 0.01: nearly the limit, and steep here
    expected.temperature = 0.01
    assert_shows(view, expected)
    numbers = re.findall(r"(?:east|north) (−?[\d.]+)", facts.nth(1).inner_text())
    np.testing.assert_allclose([as_float(number) for number in numbers], expected.slope(), rtol=0.051)


def test_the_arrow_points_uphill(show):
    view, expected = show(), compass()
    frames(view.page)
    turn = float(re.search(r"rotate\((.+)\)", view.locator(".attnlab-uphill").get_attribute("transform"))[1])
    along, up = expected.slope()
    assert turn == pytest.approx(np.degrees(np.arctan2(-up, along)))
    view.locator("[data-trait=temperature]").focus()
    press(view.page, "Home")
    frames(view.page)
    assert view.locator(".attnlab-uphill").count() == 0


def test_the_largest_case_by_keyboard_and_pointer(show):
    view, expected = show(1), crowded()
    page, reach = view.page, expected.reach
    assert_shows(view, expected)
    assert view.locator("b").count() == 0  # names stay text
    assert view.locator("[data-trait=stretch]").count() == 0
    page.mouse.click(*in_plane(view, -reach / 4, reach / 2, reach))
    expected.x, expected.y = -reach / 4, reach / 2
    assert_shows(view, expected)
    press(page, "Shift+ArrowRight")
    expected.x += reach / 8
    assert_shows(view, expected)


def test_a_wrong_number_is_noticed(show):
    for name, right in (("index", True), ("wrong", False)):
        for number, case in enumerate((compass, crowded)):
            view = show(number, name, strict=False)
            if right:
                assert_shows(view, case())
            else:
                with pytest.raises(AssertionError, match="Not equal to tolerance"):
                    assert_shows(view, case())


# --- for every reader
# -----------------------------------------------------------------------------------------


def test_a_burst_of_changes_is_drawn_once_and_announced_once(show):
    view, expected = show(), compass()
    counts = view.evaluate(
        """async (view) => {
          const slider = view.querySelector("[data-trait=x]");
          const frame = () => new Promise(requestAnimationFrame);
          await frame();
          const seen = { drawn: 0, said: 0 };
          const watch = (node, name, options) =>
            new MutationObserver((all) => (seen[name] += all.length)).observe(node, options);
          watch(view, "drawn", { attributeFilter: ["data-answer"] });
          watch(view.querySelector("[aria-live]"), "said", { childList: true });
          for (let i = 0; i < 26; i++) {
            slider.value = i / 25;
            slider.dispatchEvent(new Event("input"));
          }
          await frame();
          await frame();
          while (!seen.said) await frame();
          await new Promise((resolve) => setTimeout(resolve, 900));  // a second one would be due by then
          return seen;
        }"""
    )
    assert counts == {"drawn": 1, "said": 1}
    expected.x = 1.0
    assert_shows(view, expected)
    weights = expected.weights()
    said = view.locator("[aria-live=polite]").inner_text()
    assert said.startswith("Dot product, temperature 0.2. Query east 1.00, north 0.80. Answer ")
    assert said.endswith(f"most weight on E: {weights.max():.2f}.") and weights.argmax() == 1


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_no_page_scrolls_sideways_and_controls_are_large_enough(show, width):
    touch = width < 500
    for number in (0, 1):
        view = show(number, width=width, has_touch=touch, is_mobile=touch)
        frames(view.page)
        assert view.page.evaluate("document.documentElement.scrollWidth") <= width
        outer = view.bounding_box()
        assert outer["x"] >= 0 and outer["x"] + outer["width"] <= width
        for part in view.locator(".attnlab-plane text, .attnlab-bars li > span").all():
            box = part.bounding_box()
            if box is not None:
                assert box["x"] >= outer["x"]
                assert box["x"] + box["width"] <= outer["x"] + outer["width"]
        if touch:
            for control in view.locator("select, [type=range], .attnlab-grip-room").all():
                box = control.bounding_box()
                assert min(box["width"], box["height"]) >= 44


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing(show, scheme):
    view = show(scheme=scheme)
    view.locator("summary").click()
    view.page.evaluate("document.querySelector('meta[http-equiv]')?.remove()")
    violations = Axe().run(view.page, context=".attnlab-widget").response["violations"]
    assert [(found["id"], found["nodes"][0]["html"]) for found in violations] == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_forced_colours_keep_every_part_in_sight(show, scheme):
    view = show(scheme=scheme, forced_colors="active")
    colour = "(node, name) => getComputedStyle(node)[name]"
    background = view.evaluate(colour, "backgroundColor")
    for part, name in (
        (".attnlab-lookup-link", "stroke"),
        (".attnlab-lookup-key", "fill"),
        (".attnlab-grip-mark", "fill"),
        (".attnlab-key-value", "fill"),
        (".attnlab-uphill", "fill"),
        (".attnlab-bar", "backgroundColor"),
        (".attnlab-value-track .attnlab-bar", "backgroundColor"),
    ):
        assert view.locator(part).first.evaluate(colour, name) != background, part
    assert view.locator(".attnlab-grip-name").evaluate(colour, "fill") == background  # on a filled circle


def test_nothing_moves_by_itself(show):
    view = show(reduced_motion="reduce")
    press(view.page, "Tab")
    view.locator("[role=slider]").focus()
    press(view.page, "ArrowUp")
    assert view.evaluate("view => view.getAnimations({ subtree: true }).length") == 0
    assert moving(view) == 0


def test_nothing_listens_once_the_widget_is_taken_away(url, open_url):
    page = open_url("about:blank", strict=False)
    page.add_init_script(
        """
        window.alive = 0;
        const add = EventTarget.prototype.addEventListener;
        EventTarget.prototype.addEventListener = function (type, handler, options) {
          if (this instanceof Element && this.closest(".attnlab-host, .attnlab-widget, :not(html *)")) {
            if (options?.signal) {
              window.alive++;
              add.call(options.signal, "abort", () => window.alive--, { once: true });
            }
          }
          return add.call(this, type, handler, options);
        };
        const Observer = window.ResizeObserver;
        window.ResizeObserver = class extends Observer {
          observe(...all) { window.alive++; return super.observe(...all); }
          disconnect() { window.alive--; return super.disconnect(); }
        };
        """
    )
    page.goto(f"{url}index.html")
    host_at(page, 0)
    host_at(page, 1)
    before, after, left = page.evaluate(
        """async () => {
          const host = attnlabHost;
          const count = () =>
            [...host.models.values()].reduce((total, model) => total + model.listeners, window.alive);
          const before = count();
          const models = [...host.models.values()];
          models[0].set("x", 0.5); // a frame and an announcement wait when the views go
          document.querySelectorAll(".attnlab-host").forEach(host.dispose);
          await new Promise((resolve) => setTimeout(resolve, 700));
          return [before, count(), document.querySelectorAll(".attnlab-widget").length];
        }"""
    )
    assert before > 20
    assert (after, left) == (0, 0)
    assert page.problems == []


def test_the_code_and_the_state_are_small(url, open_url):
    page = open_url(f"{url}index.html")
    state = json.loads(page.locator(f'script[type="{STATE}"]').text_content())["state"]
    first = next(model for model in state.values() if model["state"]["names"][0] == "N")
    assert {part["path"][0]: len(base64.b64decode(part["data"])) for part in first["buffers"]} == {
        "keys_xy": 4 * 4 * 2,
        "values": 4 * 4,
    }
    assert len(json.dumps(first)) < 900
