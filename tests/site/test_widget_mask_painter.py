"""The mask painter on a built page: its numbers against Python's, by pointer, by touch and by keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page

from attnlab.widgets import MaskPainter
from tests.site.widget_use import (
    COUNT_WHAT_LIVES,
    centre,
    focused,
    frames,
    host_at,
    press,
    said,
    spoil,
    taken_away,
)

pytestmark = pytest.mark.browser

SCHEMES = ("light", "dark")
SQUARE, CROSS, LARGEST = range(3)  # the views of the page, in order
PHONE: dict[str, Any] = {"has_touch": True, "is_mobile": True}
LABEL_TRAIT_OR_TAG = "at.getAttribute('aria-label') ?? at.dataset.trait ?? at.localName"


def painters() -> list[MaskPainter]:
    """The widgets of the page, as they are at first."""
    draw = np.random.default_rng(0).normal
    return [
        MaskPainter(draw(size=(5, 5)), "both", length=3, row=2),
        MaskPainter(draw(size=(3, 7)), "causal"),
        MaskPainter(2 * draw(size=(16, 16)), "causal", length=12, window=4),
    ]


@pytest.fixture(scope="module")
def url(widget_book: Callable[..., str]) -> str:
    """Address of a book with the three widgets on its first page; ``wrong.html`` has a wrong score."""
    return widget_book(painters(), wrong=spoil("scores", lambda score: score + 1e-3))


@pytest.fixture
def start(show: Callable[..., Locator]) -> Callable[..., tuple[Locator, MaskPainter]]:
    """Function that opens a page and gives the view at a place with what Python says about it."""

    def at(place: int = SQUARE, name: str = "index", **options: Any) -> tuple[Locator, MaskPainter]:
        return show(place, name, **options), painters()[place]

    return at


def cell(view: Locator, row: int, key: int) -> Locator:
    return view.locator(f'[data-row="{row}"][data-key="{key}"]')


def painted(expected: MaskPainter) -> np.ndarray:
    return np.frombuffer(expected.mask, np.uint8).reshape(expected.shape).copy()


def paint(expected: MaskPainter, value: int, *cells: Any) -> None:
    """Paint the same cells in Python; each is an index into the mask."""
    mask = painted(expected)
    for where in cells:
        mask[where] = value
    expected.mask = mask.tobytes()


def assert_shown(view: Locator, expected: MaskPainter) -> None:
    """Every weight, every bit, every sum and the words about the chosen row are Python's."""
    frames(view.page)
    shown = view.evaluate(
        """view => [...view.querySelectorAll("[data-weight]")].map(cell => [
             +cell.dataset.weight, cell.getAttribute("aria-checked") === "true",
             cell.classList.contains("attnlab-hidden"), cell.getAttribute("aria-label"),
             getComputedStyle(cell, "::before").content.slice(1, -1)])"""
    )
    weights, allowed, bits = expected.weights(), expected.allowed(), painted(expected) == 1
    shape = allowed.shape
    np.testing.assert_allclose(np.reshape([one[0] for one in shown], shape), weights, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(np.reshape([one[1] for one in shown], shape), bits)
    np.testing.assert_array_equal(np.reshape([one[2] for one in shown], shape), ~allowed)
    for (*_, label, text), weight, may in zip(shown, weights.ravel(), allowed.ravel(), strict=True):
        assert ("hidden" in label) == (not may)
        said = float(label.rsplit(" ", 1)[1])
        assert said == pytest.approx(weight, abs=0.00501)
        number = re.match(r"1?\.\d\d", text)
        assert bool(number) == may
        assert number is None or float(number[0]) == said
    sums = [int(text) for text in view.locator('[role="gridcell"].attnlab-sum').all_inner_texts()]
    assert sums == np.rint(weights.sum(axis=-1)).tolist()

    assert view.get_attribute("data-row") == str(expected.row)
    assert view.locator(".attnlab-title").inner_text() == f"Query {expected.row + 1} of {shape[0]}"
    bars = view.locator(".attnlab-bar-number").all_inner_texts()
    plain = MaskPainter(expected._scores).weights()[expected.row]
    row = zip(plain, weights[expected.row], strict=True)
    for text, numbers in zip(bars, row, strict=True):
        assert [float(part) for part in text.split(" → ")] == pytest.approx(numbers, abs=0.00501)
    fact = view.locator("[data-fact=row]").inner_text()
    seen = allowed[expected.row]
    if 0 < seen.sum() < len(seen):
        named = re.findall(r"\d+", fact.split(".")[0])[1:]
        assert named == [str(key + 1) for key in np.flatnonzero(seen)]
        held = float(re.search(r"held (\S+) of", fact)[1])
        assert held == pytest.approx(plain[seen].sum(), rel=0.0501)
    else:
        assert ("every key" if seen.all() else "no key") in fact
    empty = [str(i + 1) for i in np.flatnonzero(~allowed.any(axis=-1))]
    assert re.findall(r"\d+", view.locator("[data-fact=mask]").inner_text().split(" may ")[0]) == (
        empty or ["1"]
    )


# --- numbers, by keyboard
# -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_keyboard_alone(start, scheme):
    view, expected = start(scheme=scheme)
    page = view.page
    assert_shown(view, expected)

    view.locator("button").first.focus()
    press(page, "Shift+Tab", "Tab")  # reached by the keyboard, so that the focus must show
    for name in ("none", "causal", "padding", "both", "window"):
        focused(page, LABEL_TRAIT_OR_TAG)
        press(page, "Enter")
        expected.mask = expected.preset(name).tobytes()
        assert_shown(view, expected)
        assert view.get_attribute("data-mask") == name
        assert view.locator('[aria-pressed="true"]').get_attribute("data-preset") == name
        press(page, "Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "inverted"
    press(page, "End")
    expected.inverted = True
    assert_shown(view, expected)
    press(page, "Home")
    expected.inverted = False
    assert_shown(view, expected)

    press(page, "Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG).startswith("Query 3, key 1: ")
    press(page, "Space")  # a window of 2: key 1 was hidden from query 3
    paint(expected, 1, (2, 0))
    assert_shown(view, expected)
    assert view.get_attribute("data-mask") == "painted"
    press(page, "ArrowRight", "Enter", "Shift+ArrowDown", "Shift+ArrowLeft")  # off, and paints on
    expected.row = 3
    paint(expected, 0, (2, 1), (3, 1), (3, 0))
    assert_shown(view, expected)
    press(page, "ArrowLeft")
    assert focused(page, LABEL_TRAIT_OR_TAG).startswith("4: paint the row of query 4")
    press(page, "Space")  # not all of it was True
    paint(expected, 1, 3)
    assert_shown(view, expected)
    press(page, "Space")
    paint(expected, 0, 3)
    assert_shown(view, expected)
    assert not expected.weights()[3].any()
    press(page, "ArrowRight", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp")
    assert focused(page, LABEL_TRAIT_OR_TAG).startswith("1: paint the column of key 1")
    press(page, "ArrowLeft")
    assert focused(page, LABEL_TRAIT_OR_TAG).startswith("1: paint the column")  # the corner is no place to be
    press(page, "End", "Enter")
    expected.row = 0
    paint(expected, 1, (slice(None), 4))
    assert_shown(view, expected)
    press(page, "Control+End")
    expected.row = 4
    assert focused(page, LABEL_TRAIT_OR_TAG).startswith("Query 5, key 5: ")
    assert_shown(view, expected)
    said(view, "Mask: painted, True means may attend. Query ")

    press(page, "Tab", "Tab", "Tab")  # over the two buttons
    assert focused(page, LABEL_TRAIT_OR_TAG) == "summary"
    press(page, "Enter")
    frames(page)
    table = view.locator("tbody tr").all_inner_texts()
    rows = [line.split("\t") for line in table]
    allowed, weights = expected.allowed(), expected.weights()
    for i, (scores, shares) in enumerate(zip(rows[::2], rows[1::2], strict=True)):
        assert (scores[0], shares[0]) == (f"{i + 1}, scores", f"{i + 1}, weights")
        given = [float(text.replace("−", "-")) for text in scores[1:6]]
        np.testing.assert_allclose(given, expected._scores[i], rtol=0, atol=0.0000501)
        assert [text == "hidden" for text in shares[1:6]] == (~allowed[i]).tolist()
        numbers = [0.0 if text == "hidden" else float(text) for text in shares[1:6]]
        np.testing.assert_allclose(numbers, weights[i], rtol=0, atol=0.0000501)
        assert shares[6] == str(int(allowed[i].any()))


# --- numbers, by pointer and by touch
# -------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_pointer(start, scheme):
    view, expected = start(scheme=scheme)
    page = view.page
    page.mouse.move(*centre(cell(view, 4, 0)))
    assert_shown(view, expected)  # passing over paints nothing
    page.mouse.down()
    expected.row = 4
    paint(expected, 0, (4, 0))
    assert_shown(view, expected)
    page.mouse.move(*centre(cell(view, 4, 2)))  # one leap: what lies between is painted, too
    page.mouse.move(*centre(cell(view, 3, 2)), steps=3)
    page.mouse.up()
    expected.row = 3
    paint(expected, 0, (4, slice(3)), (3, 2))
    assert_shown(view, expected)
    assert not expected.weights()[4].any()
    page.mouse.move(*centre(cell(view, 0, 0)))  # the button is up
    assert_shown(view, expected)
    cell(view, 4, 0).click()
    expected.row = 4
    paint(expected, 1, (4, 0))
    assert_shown(view, expected)
    view.get_by_role("button", name="2: paint the row of query 2").click()
    expected.row = 1
    paint(expected, 1, 1)
    assert_shown(view, expected)
    view.get_by_role("button", name="5 pad: paint the column of key 5").click()
    paint(expected, 1, (slice(None), 4))
    assert_shown(view, expected)
    view.get_by_role("button", name="Previous query").click()
    expected.row = 0
    assert_shown(view, expected)
    view.get_by_role("button", name="causal", exact=True).click()
    view.locator("[data-trait=inverted]").select_option("may not")
    expected.mask, expected.inverted = expected.preset("causal").tobytes(), True
    assert_shown(view, expected)
    assert expected.weights()[0, 0] == 0 and not expected.weights()[4].any()


def test_a_click_without_a_pointer_paints_once(start):
    """Screen readers press a cell in this way."""
    view, expected = start(CROSS)
    page = view.page
    page.mouse.move(*centre(cell(view, 0, 0)))
    page.mouse.down()
    page.mouse.move(*centre(cell(view, 0, 1)))
    page.mouse.up()
    paint(expected, 0, (0, slice(2)))
    for value in (0, 1):
        cell(view, 2, 3).evaluate("cell => cell.click()")
        paint(expected, value, (2, 3))
        expected.row = 2
        assert_shown(view, expected)


def by_finger(page: Page, *points: tuple[float, float]) -> None:
    session = page.context.new_cdp_session(page)
    for number, (x, y) in enumerate(points):
        kind = "touchMove" if number else "touchStart"
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def between(start: tuple[float, float], end: tuple[float, float]) -> list[tuple[float, float]]:
    return [
        (start[0] + (end[0] - start[0]) * i / 6, start[1] + (end[1] - start[1]) * i / 6) for i in range(7)
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_touch(start, scheme):
    view, expected = start(scheme=scheme, width=390, **PHONE)
    page = view.page
    page.touchscreen.tap(*centre(cell(view, 1, 3)))
    expected.row = 1
    paint(expected, 1, (1, 3))
    assert_shown(view, expected)
    before = page.evaluate("scrollY")
    by_finger(page, *between(centre(cell(view, 3, 0)), centre(cell(view, 3, 2))))
    expected.row = 3
    paint(expected, 0, (3, slice(3)))
    assert_shown(view, expected)
    assert page.evaluate("scrollY") == before
    x, y = centre(cell(view, 4, 4))
    by_finger(page, *between((x, y), (x, y - 150)))  # a finger that moves up scrolls the page
    page.wait_for_function("before => scrollY > before + 50", arg=before)
    expected.row = 4
    assert_shown(view, expected)
    view.get_by_role("button", name="3: paint the row of query 3").tap()
    expected.row = 2
    paint(expected, 1, 2)
    assert_shown(view, expected)
    view.locator("[data-preset=padding]").tap()
    expected.mask = expected.preset("padding").tobytes()
    assert_shown(view, expected)


def test_a_wide_board_scrolls_under_a_finger_and_takes_taps(start):
    view, expected = start(LARGEST, width=320, **PHONE)
    page = view.page
    x, y = centre(cell(view, 2, 8))
    by_finger(page, *between((x, y), (x - 150, y)))
    page.wait_for_function(
        "() => [...document.querySelectorAll('.attnlab-board-frame')].at(-1).scrollLeft > 50"
    )
    expected.row = 2
    assert_shown(view, expected)
    page.touchscreen.tap(*centre(cell(view, 15, 15)))
    expected.row = 15
    paint(expected, 0, (15, 15))
    assert_shown(view, expected)


def test_more_keys_than_queries(start):
    view, expected = start(CROSS)
    assert_shown(view, expected)
    assert view.locator("[data-preset]").evaluate_all("all => all.map(one => one.dataset.preset)") == [
        "none",
        "causal",
        "window",  # without padding, two of them would be "none" and "causal"
    ]
    view.locator("[data-preset=window]").click()
    expected.mask = expected.preset("window").tobytes()
    assert_shown(view, expected)


@pytest.mark.parametrize(("name", "right"), [("index", True), ("wrong", False)])
def test_a_wrong_number_is_noticed(start, name, right):
    view, expected = start(name=name)
    view.locator("[data-preset=none]").click()
    expected.mask = expected.preset("none").tobytes()
    if right:
        assert_shown(view, expected)
    else:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            assert_shown(view, expected)


# --- for every reader
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_no_page_scrolls_sideways_and_everything_can_be_hit(start, width):
    view, _ = start(LARGEST, width=width, **(PHONE if width < 500 else {}))
    page = view.page
    host_at(page, SQUARE)
    frames(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for place in range(3):
        view = host_at(page, place).locator(".attnlab-widget")
        box = view.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
        sizes = view.evaluate(
            """view => [...view.querySelectorAll(".attnlab-square, .attnlab-edge, button, select")].map(
                 node => [node.matches("button, select"), node.offsetWidth, node.offsetHeight])"""
        )
        for is_control, *size in sizes:
            assert min(size) >= (44 if is_control and width < 500 else 24)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing(start, scheme):
    view, _ = start(scheme=scheme, strict=False)
    view.locator("summary").click()
    view.page.evaluate("document.querySelector('meta[http-equiv]')?.remove()")
    options = {"rules": {"label-content-name-mismatch": {"enabled": True}}}
    violations = Axe().run(view.page, ".attnlab-widget", options).response["violations"]
    assert [(found["id"], found["nodes"][0]["html"]) for found in violations] == []


def luminance(colour: str) -> float:
    parts = [float(part) for part in re.findall(r"[\d.]+", colour.removeprefix("color(srgb"))[:3]]
    if not colour.startswith("color("):
        parts = [part / 255 for part in parts]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_number_can_be_read_on_its_cell(start, scheme):
    view, _ = start(LARGEST, scheme=scheme, reduced_motion="reduce")
    frames(view.page)
    pairs = view.locator(".attnlab-square:not(.attnlab-hidden)").evaluate_all(
        "all => all.map(one => [getComputedStyle(one).color, getComputedStyle(one).backgroundColor])"
    )
    for pair in pairs:
        low, high = sorted(map(luminance, pair))
        assert (high + 0.05) / (low + 0.05) >= 4.5, pair


@pytest.mark.parametrize("scheme", SCHEMES)
def test_forced_colours_keep_hidden_and_allowed_apart(start, scheme):
    view, _ = start(scheme=scheme, forced_colors="active", reduced_motion="reduce")
    style = "(node, name) => getComputedStyle(node)[name]"
    hidden, allowed = cell(view, 0, 1), cell(view, 0, 0)
    assert "gradient" in hidden.evaluate(style, "backgroundImage")
    assert allowed.evaluate(style, "backgroundImage") == "none"
    assert allowed.evaluate(style, "backgroundColor") != view.evaluate(style, "backgroundColor")
    assert view.locator("[aria-pressed=true]").evaluate(style, "textDecorationLine") == "underline"


def test_motion_only_where_it_is_welcome(start):
    duration = "node => getComputedStyle(node).transitionDuration"
    assert cell(start()[0], 0, 0).evaluate(duration) == "0.15s"
    assert cell(start(reduced_motion="reduce")[0], 0, 0).evaluate(duration) == "0s"


def test_a_burst_of_strokes_is_drawn_once_and_announced_once(start):
    view, expected = start(LARGEST)
    counts = view.evaluate(
        """async (view) => {
          const frame = () => new Promise(requestAnimationFrame);
          const cells = [...view.querySelectorAll('[data-row="15"][data-key]')];
          await frame();
          const seen = { drawn: 0, said: 0 };
          const watch = (node, name, options) =>
            new MutationObserver((all) => (seen[name] += all.length)).observe(node, options);
          watch(cells[15], "drawn", { attributeFilter: ["data-weight"] });
          watch(view.querySelector("[aria-live]"), "said", { childList: true });
          for (const cell of cells.slice(0, 15)) cell.click();
          await frame();
          await frame();
          await new Promise((resolve) => setTimeout(resolve, 900));
          return seen;
        }"""
    )
    assert counts == {"drawn": 1, "said": 1}
    expected.row = 15
    paint(expected, 0, (15, slice(15)))
    assert_shown(view, expected)
    assert view.locator("[aria-live]").inner_text() == (
        "Mask: painted, True means may attend. Query 16 may see key 16. Without a mask it held "
        f"{view.locator('[data-fact=row]').inner_text().split('held ')[1]} Every row sums to 1."
    )


def test_nothing_listens_once_it_is_taken_away(url, open_url):
    page = open_url("about:blank", strict=False)
    page.add_init_script(COUNT_WHAT_LIVES)
    page.goto(f"{url}index.html")
    host_at(page, LARGEST)
    host_at(page, SQUARE).locator("[data-preset=none]").click()  # and a frame and a timer are under way
    before, after, handlers = taken_away(page)
    assert before >= 20
    assert (after, handlers) == (0, 0)
