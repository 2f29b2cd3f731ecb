"""The head switches on a built page: sums and shares against Python's, by pointer, touch and keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator

from attnlab.widgets import HeadSwitches
from tests.site.widget_use import COUNT_WHAT_LIVES, focused, frames, host_at, moving, press, spoil, taken_away

pytestmark = pytest.mark.browser

SCHEMES = ("light", "dark")
PHONE: dict[str, Any] = {"has_touch": True, "is_mobile": True}
LABEL_TRAIT_OR_TAG = "at.dataset.head ?? at.dataset.trait ?? at.getAttribute('aria-label') ?? at.localName"


def switches() -> HeadSwitches:
    """The widget of the page, at its largest, as it is at first."""
    draw = np.random.default_rng(0)
    parts = 2 * draw.normal(size=(8, 9, 4, 32))
    right = parts.sum(axis=1).argmax(axis=-1)
    right[1] = draw.integers(32, size=4)
    return HeadSwitches(
        draw.random((256, 5)),
        parts,
        right,
        outputs=["1 back", "2 back", "3 back", "4 back"],
        heads_on=0b10110111,
    )


@pytest.fixture(scope="module")
def url(widget_book: Callable[..., str]) -> str:
    """Address of a book with the widget on its first page, and beside it two with wrong numbers."""
    return widget_book(
        [switches()],
        wrong_parts=spoil("parts", lambda number: number + 1e-3),
        wrong_shares=spoil("measured", lambda share: share - 1e-3),
    )


@pytest.fixture
def start(show: Callable[..., Locator]) -> Callable[..., tuple[Locator, HeadSwitches]]:
    """Function that opens a page and gives the view with what Python says about it."""
    return lambda name="index", **options: (show(0, name, **options), switches())


SHOWN = """view => {
  const numbers = (selector, name) => [...view.querySelectorAll(selector)].map(node => +node.dataset[name]);
  const texts = selector => [...view.querySelectorAll(selector)].map(node => node.textContent);
  return {
    on: [...view.querySelectorAll("[data-head]")].map(box => box.checked),
    off: [...view.querySelectorAll(".attnlab-part")].map(row => row.classList.contains("attnlab-off")),
    adds: numbers(".attnlab-part td", "add"), added: texts(".attnlab-part td"),
    sums: numbers(".attnlab-total td", "sum"), named: numbers("[data-named]", "named"),
    probabilities: numbers("[data-named]", "probability"), marks: texts("[data-named]"),
    right: texts(".attnlab-names:last-child td"),
    shares: numbers(".attnlab-bars li", "share"), percents: texts(".attnlab-bars .attnlab-bar-number"),
    title: view.querySelector(".attnlab-title").textContent };
}"""


def assert_shown(view: Locator, expected: HeadSwitches) -> None:
    """Every part, every sum, what is named, and the measured shares are Python's."""
    frames(view.page)
    shown = view.evaluate(SHOWN)
    on, adds, right = expected.is_on(), expected.contributions(), expected._right[expected.example]
    close = {"rtol": 0, "atol": 1e-12}
    assert shown["on"] == on[:-1].tolist()
    assert shown["off"] == (~on).tolist()
    np.testing.assert_allclose(np.reshape(shown["adds"], adds.shape), adds, **close)
    for text, add in zip(shown["added"], adds.ravel(), strict=True):
        assert float(text.replace("−", "-")) == pytest.approx(add, abs=0.0501)
    np.testing.assert_allclose(shown["sums"], adds[on].sum(axis=0), **close)
    assert shown["named"] == expected.named().tolist()
    probabilities = expected.probabilities()[np.arange(len(right)), right]
    np.testing.assert_allclose(shown["probabilities"], probabilities, **close)
    assert [int(text) for text in shown["right"]] == right.tolist()
    for mark, is_right in zip(shown["marks"], expected.named() == right, strict=True):
        assert ("✓ right" in mark, "✗ wrong" in mark) == (is_right, not is_right)
    np.testing.assert_allclose(shown["shares"], expected.accuracy(), **close)
    percents = [float(text.removesuffix("%")) for text in shown["percents"]]
    np.testing.assert_allclose(percents, 100 * expected.accuracy(), rtol=0, atol=0.501)
    names = [str(h + 1) for h in np.flatnonzero(on[:-1])]
    said = shown["title"].removeprefix("Heads on: ").replace(" and ", ", ")
    assert said == {0: "none", 8: "all"}.get(len(names), ", ".join(names))


# --- numbers, by keyboard, by pointer and by touch
# ------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_keyboard_alone(start, scheme):
    view, expected = start(scheme=scheme)
    page = view.page
    assert_shown(view, expected)
    view.locator("button").first.focus()
    press(page, "Tab", "Shift+Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "All on"
    press(page, "Enter")
    expected.heads_on = 255
    assert_shown(view, expected)
    press(page, "Tab", "Enter")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "All off"
    expected.heads_on = 0
    assert_shown(view, expected)
    press(page, "Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "example"
    press(page, "ArrowRight")
    expected.example = 1
    assert_shown(view, expected)
    for head in range(8):
        press(page, "Tab")
        assert focused(page, LABEL_TRAIT_OR_TAG) == str(head)
        press(page, "Space")
        expected.heads_on |= 1 << head
        assert_shown(view, expected)
    press(page, "Space")
    expected.heads_on = 127
    assert_shown(view, expected)
    press(page, "Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "summary"
    press(page, "Enter")
    frames(page)
    rows = [line.split("\t") for line in view.locator(".attnlab-values tbody tr").all_inner_texts()]
    measured = [[float(text) for text in row[1:]] for row in rows[:9]]
    sets = [127] + [127 ^ 1 << head for head in range(8)]
    np.testing.assert_allclose(measured, expected._measured[sets], rtol=0, atol=5.01e-5)
    adds = [[float(text.replace("−", "-")) for text in row[1:5]] for row in rows[9:18]]
    np.testing.assert_allclose(adds, expected.contributions(), rtol=0, atol=5.01e-5)
    assert ["but is off" in row[0] for row in rows[9:18]] == (~expected.is_on()).tolist()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_pointer_and_by_touch(start, scheme):
    view, expected = start(scheme=scheme, width=390, **PHONE)
    for head in (0, 3, 7, 3):
        view.get_by_text(f"head {head + 1}", exact=True).tap()
        expected.heads_on ^= 1 << head
        assert_shown(view, expected)
    view.get_by_role("button", name="All off").click()
    view.locator("[data-head='5']").click()
    expected.heads_on = 32
    assert_shown(view, expected)
    view.locator("[data-trait=example]").fill("8")
    expected.example = 7
    assert_shown(view, expected)


@pytest.mark.parametrize(("name", "heads_on"), [("wrong_parts", 255), ("wrong_shares", 0)])
def test_a_wrong_number_is_noticed(start, name, heads_on):
    view, expected = start(name=name)
    view.get_by_role("button", name="All on" if heads_on else "All off").click()
    expected.heads_on = heads_on
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_shown(view, expected)


# --- for every reader
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_no_page_scrolls_sideways_and_everything_can_be_hit(start, width):
    view, _ = start(width=width, **(PHONE if width < 500 else {}))
    assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    box = view.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width
    sizes = view.locator("button, .attnlab-check").evaluate_all(
        "all => all.map(node => [node.offsetWidth, node.offsetHeight])"
    )
    assert min(map(min, sizes)) >= (44 if width < 500 else 28)
    spills = view.locator(".attnlab-sums :is(th, td)").evaluate_all(
        "all => all.filter(node => node.scrollWidth > node.clientWidth + 1).map(node => node.textContent)"
    )
    assert spills == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing(start, scheme):
    view, _ = start(scheme=scheme, strict=False)
    view.locator("summary").click()
    view.page.evaluate("document.querySelector('meta[http-equiv]')?.remove()")
    options = {"rules": {"label-content-name-mismatch": {"enabled": True}}}
    violations = Axe().run(view.page, ".attnlab-widget", options).response["violations"]
    assert [(found["id"], found["nodes"][0]["html"]) for found in violations] == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_forced_colours_keep_on_and_off_apart(start, scheme):
    view, _ = start(scheme=scheme, forced_colors="active", reduced_motion="reduce")
    line = "node => getComputedStyle(node).textDecorationLine"
    rows = view.locator(".attnlab-part")
    assert rows.nth(3).locator("td").first.evaluate(line) == "line-through"
    assert rows.nth(0).locator("td").first.evaluate(line) == "none"


def test_nothing_moves(start):
    view, _ = start(reduced_motion="reduce")
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
          watch(view.querySelector(".attnlab-total td"), "drawn", { attributeFilter: ["data-sum"] });
          watch(view.querySelector("[aria-live]"), "said", { childList: true });
          for (const head of [0, 1, 2, 4, 5]) view.querySelector(`[data-head="${head}"]`).click();
          await frame();
          await frame();
          while (!seen.said) await frame();
          await new Promise((resolve) => setTimeout(resolve, 900));  // a second one would be due by then
          return seen;
        }"""
    )
    assert counts == {"drawn": 1, "said": 1}
    expected.heads_on = 0b10000000
    assert_shown(view, expected)
    said = view.locator("[aria-live]").inner_text()
    assert said.startswith("Heads on: 8. Measured: 1 back ")
    percents = view.locator(".attnlab-bars .attnlab-bar-number").all_inner_texts()
    assert all(percent in said for percent in percents)


def test_nothing_listens_once_it_is_taken_away(url, open_url):
    page = open_url("about:blank", strict=False)
    page.add_init_script(COUNT_WHAT_LIVES)
    page.goto(f"{url}index.html")
    host_at(page, 0).locator("[data-head='2']").click()  # and a frame and a timer are under way
    before, after, handlers = taken_away(page)
    assert before >= 13
    assert (after, handlers) == (0, 0)
