"""The circuit switches on a built page: shares, map and stripe against Python's, and for every reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator

from attnlab.widgets import CircuitSwitches
from tests.site.widget_use import (
    COUNT_WHAT_LIVES,
    axe_complaints,
    focused,
    frames,
    host_at,
    moving,
    press,
    said,
    spoil,
    swap,
    taken_away,
)

pytestmark = pytest.mark.browser

PHONE: dict[str, Any] = {"has_touch": True, "is_mobile": True}
LABEL_OR_TAG = "at.getAttribute('aria-label') ?? at.labels?.[0]?.textContent ?? at.localName"
ALL = 0b1111


def switches() -> CircuitSwitches:
    """The widget of the page, like the lesson's, every map different."""
    drawn = np.tril(np.random.default_rng(0).random((4, 2, 20, 20)) ** 9 + 1e-6)
    return CircuitSwitches(
        np.random.default_rng(1).random(16),
        drawn / drawn.sum(axis=-1, keepdims=True),
        "ABCDEFGH" * 2 + "ABCD",
        heads_on=1,
        row=12,
    )


@pytest.fixture(scope="module")
def url(widget_book: Callable[..., str]) -> str:
    """Address of a book with the widget on its first page, and beside it two with wrong numbers."""
    maps = switches().maps
    other = bytes(n + 1 if 0 < n < 255 else n for n in maps)
    return widget_book(
        [switches()],
        wrong_maps=swap(maps, other),
        wrong_shares=spoil("measured", lambda share: share - 1e-3),
    )


@pytest.fixture
def start(show: Callable[..., Locator]) -> Callable[..., tuple[Locator, CircuitSwitches]]:
    """Function that opens a page and gives the view with what Python says about it."""
    return lambda name="index", **options: (show(0, name, **options), switches())


SHOWN = """view => {
  const all = (selector, read) => [...view.querySelectorAll(selector)].map(read);
  const side = at => at.querySelectorAll("rect")[0].getAttribute("width") - 3;
  const [results, row] = view.querySelectorAll(".attnlab-bars");
  const digits = (list, kind) => [...list.querySelectorAll(`.attnlab-bar-${kind}`)].map(at => at.textContent);
  return {
    on: all("input[data-head]", at => at.checked),
    shares: [...results.children].map(at => +at.dataset.share), results: digits(results, "number"),
    ghosts: [...results.querySelectorAll(".attnlab-ghost")].map(at => parseFloat(at.style.width) / 100),
    weights: all(".attnlab-mark", at => [+at.dataset.row, +at.dataset.column, +at.dataset.weight]),
    areas: all(".attnlab-mark", at => (at.getAttribute("width") / side(view.querySelector("svg"))) ** 2),
    options: all("[role=option]", at => [at.getAttribute("aria-label"), at.getAttribute("aria-selected")]),
    names: digits(row, "name"), numbers: digits(row, "number"),
    framed: [...row.children].map(at => at.classList.contains("attnlab-marked")),
    title: view.querySelector(".attnlab-title").textContent,
    hollow: view.querySelector("svg").classList.contains("attnlab-silent"),
    state: view.querySelector(".attnlab-head-state").textContent };
}"""


def assert_shown(view: Locator, expected: CircuitSwitches) -> None:
    """The measured share, the map, its stripe and the chosen row are Python's."""
    frames(view.page)
    shown = view.evaluate(SHOWN)
    weights, stripe, t = expected.weights(), expected.on_stripe(), expected.row
    close = {"rtol": 0, "atol": 1e-12}
    assert shown["on"] == expected.is_on().tolist()
    np.testing.assert_allclose(shown["shares"], [expected.accuracy(), expected.stripe()], **close)
    assert float(shown["results"][0].removesuffix("%")) == pytest.approx(
        100 * expected.accuracy(), abs=0.0501
    )
    assert float(shown["results"][1]) == pytest.approx(expected.stripe(), abs=0.00501)
    before = [] if expected.heads_on == ALL else [expected.accuracy(ALL), expected.stripe(ALL)]
    np.testing.assert_allclose(shown["ghosts"], before, rtol=0, atol=1e-5)
    drawn = np.zeros((20, 20))
    for row, column, weight in shown["weights"]:
        drawn[int(row), int(column)] = weight
    np.testing.assert_allclose(drawn, weights, **close)
    np.testing.assert_allclose(
        shown["areas"], [weight for _, _, weight in shown["weights"]], rtol=0, atol=2e-3
    )
    for place, (name, selected) in enumerate(shown["options"]):
        assert name.startswith(f"Position {place + 1}, {expected.tokens[place]}: ")
        assert selected == str(place == t).lower()
        on_it = name.split(": ")[1].removesuffix(" on the stripe")
        if stripe[place].any():
            assert float(on_it) == pytest.approx(weights[place][stripe[place]].sum(), abs=0.00501)
        else:
            assert on_it == "no stripe"
    assert shown["title"] == f"Position {t + 1}, {expected.tokens[t]}, looks at"
    assert shown["names"] == [f"{j + 1} {token}" for j, token in enumerate(expected.tokens[: t + 1])]
    np.testing.assert_allclose(
        [float(text) for text in shown["numbers"]], weights[t, : t + 1], rtol=0, atol=0.00501
    )
    assert shown["framed"] == stripe[t, : t + 1].tolist()
    is_on = bool(expected.is_on()[2 + expected.head])
    assert (shown["hollow"], "is off" in shown["state"]) == (not is_on, not is_on)


# --- numbers, by keyboard, by pointer and by touch
# ------------------------------------------------------------


def test_by_keyboard_alone(start):
    view, expected = start()
    page = view.page
    assert_shown(view, expected)
    view.locator("input").first.focus()
    press(page, "Shift+Tab", "Tab")
    for h in range(4):
        assert focused(page, LABEL_OR_TAG) == f"head {h % 2 + 1} of layer {h // 2 + 1}"
        press(page, "Space")
        expected.heads_on ^= 1 << h
        assert_shown(view, expected)
        press(page, "Tab")
    for name, heads_on in (("All on", ALL), ("All off", 0)):
        assert focused(page, LABEL_OR_TAG) == name
        press(page, "Enter", "Tab")
        expected.heads_on = heads_on
        assert_shown(view, expected)
    assert focused(page, LABEL_OR_TAG) == "Map of"
    press(page, "ArrowDown", "Tab")
    expected.head = 1
    assert_shown(view, expected)
    assert focused(page, LABEL_OR_TAG).startswith("Positions of the string")
    for key, row in (("ArrowUp", 11), ("End", 19), ("ArrowDown", 19), ("Home", 0), ("ArrowDown", 1)):
        press(page, key)
        expected.row = row
        assert_shown(view, expected)
    for name, row in (("Previous position", 0), ("Next position", 1)):
        press(page, "Tab")
        assert focused(page, LABEL_OR_TAG) == name
        press(page, "Enter")
        expected.row = row
        assert_shown(view, expected)
    assert said(view, "Position 2,").startswith("Position 2, B: most weight on ")


def table(view: Locator, number: int) -> list[list[str]]:
    rows = view.locator(".attnlab-values").nth(number).locator("tbody tr")
    return rows.evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")


def test_all_values_stand_in_two_tables(start):
    view, expected = start()
    for summary in view.locator("summary").all():
        summary.press("Enter")
    frames(view.page)
    off = {0: "1 and 2", 1: "2", 2: "1", 3: "none"}
    rows = table(view, 0)
    assert len(rows) == 16
    for heads_on, (first, second, *numbers) in zip(range(15, -1, -1), rows, strict=True):
        assert first == off[heads_on % 4] + (" (now)" if heads_on == 1 else "")
        assert second == off[heads_on // 4]
        assert float(numbers[0]) == pytest.approx(expected.accuracy(heads_on), abs=5.01e-5)
        stripes = [expected.stripe(heads_on, head) for head in (0, 1)]
        np.testing.assert_allclose([float(text) for text in numbers[1:]], stripes, rtol=0, atol=0.00501)
    for t, (head, *cells) in enumerate(table(view, 1)):
        assert head == f"{t + 1} {expected.tokens[t]}"
        assert [cell.endswith(" *") for cell in cells] == expected.on_stripe()[t].tolist()
        numbers = [float(cell.removesuffix(" *") or 0) for cell in cells]
        np.testing.assert_allclose(numbers, expected.weights()[t], rtol=0, atol=0.00501)


def test_by_pointer_and_by_touch(start):
    view, expected = start(scheme="dark", width=390, **PHONE)
    for h in (0, 3, 1):
        view.get_by_text(f"head {h % 2 + 1}", exact=True).nth(h // 2).tap()
        expected.heads_on ^= 1 << h
        assert_shown(view, expected)
    view.locator("select").select_option("1")
    expected.head = 1
    view.get_by_role("button", name="All on").tap()
    expected.heads_on = ALL
    view.get_by_role("button", name="Next position").tap()
    expected.row = 13
    assert_shown(view, expected)
    for row, use in ((17, "tap"), (4, "click")):
        getattr(view.locator("[role=option]").nth(row).locator(".attnlab-room").first, use)(force=True)
        expected.row = row
        assert_shown(view, expected)
    svg = view.locator("svg").bounding_box()
    mouse = view.page.mouse
    mouse.down()
    mouse.move(svg["x"] + 40, svg["y"] + svg["height"] - 8, steps=3)
    mouse.up()
    expected.row = 19
    assert_shown(view, expected)


@pytest.mark.parametrize("name", ["wrong_maps", "wrong_shares"])
def test_a_wrong_number_is_noticed(start, name):
    view, expected = start(name=name)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_shown(view, expected)


# --- for every reader
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [320, 1280])
def test_no_page_scrolls_sideways_and_everything_can_be_hit(start, width):
    view, _ = start(width=width, **(PHONE if width < 500 else {}))
    assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    box = view.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width
    sizes = view.locator("button, select, .attnlab-check").evaluate_all(
        "all => all.map(node => [node.offsetWidth, node.offsetHeight])"
    )
    assert min(map(min, sizes)) >= (44 if width < 500 else 28)
    assert view.locator(".attnlab-pattern-frame").evaluate("node => node.scrollWidth <= node.clientWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(start, scheme):
    view, _ = start(scheme=scheme, strict=False)
    assert axe_complaints(view) == []


def test_forced_colours_keep_the_stripe_and_heads_that_are_off_apart(start):
    view, _ = start(scheme="dark", forced_colors="active", reduced_motion="reduce")
    style = "(node, name) => getComputedStyle(node)[name]"
    mark = view.locator(".attnlab-mark").first
    assert mark.evaluate(style, "fill") == "none"
    wide, thin = (
        float(view.locator(f".attnlab-{kind}").first.evaluate(style, "strokeWidth").removesuffix("px"))
        for kind in ("on-stripe", "room")
    )
    assert wide >= 4 * thin
    view.get_by_role("button", name="All on").click()
    frames(view.page)
    assert mark.evaluate(style, "fill") != "none"
    assert moving(view) == 0


def test_a_burst_of_changes_is_drawn_once_and_announced_once(start):
    view, expected = start()
    counts = view.evaluate(
        """async (view) => {
          const frame = () => new Promise(requestAnimationFrame);
          await frame();
          const seen = { drawn: 0, said: 0 };
          const watch = (node, name, options) =>
            new MutationObserver((all) => (seen[name] += all.length)).observe(node, options);
          watch(view.querySelector(".attnlab-mark"), "drawn", { attributeFilter: ["data-weight"] });
          watch(view.querySelector("[aria-live]"), "said", { childList: true });
          for (const head of [0, 1, 2]) view.querySelector(`input[data-head="${head}"]`).click();
          await frame();
          await frame();
          while (!seen.said) await frame();
          await new Promise((resolve) => setTimeout(resolve, 900));  // a second one would be due by then
          return seen;
        }"""
    )
    assert counts == {"drawn": 1, "said": 1}
    expected.heads_on = 0b0110
    assert_shown(view, expected)
    assert view.locator("[aria-live]").inner_text() == (
        f"Off: head 1 of layer 1 and head 2 of layer 2. Accuracy {100 * expected.accuracy():.1f}%. "
        f"Stripe of head 1 of layer 2: {expected.stripe():.2f}."
    )


def test_nothing_listens_once_it_is_taken_away(url, open_url):
    page = open_url("about:blank", strict=False)
    page.add_init_script(COUNT_WHAT_LIVES)
    page.goto(f"{url}index.html")
    host_at(page, 0).locator("input[data-head='2']").click()  # and a frame and a timer are under way
    before, after, handlers = taken_away(page)
    assert before >= 12
    assert (after, handlers) == (0, 0)
