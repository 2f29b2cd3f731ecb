"""The map explorer on a built page: every map against Python's, by pointer, touch and keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator

from attnlab.widgets import MapExplorer
from tests.site.widget_use import (
    COUNT_WHAT_LIVES,
    axe_complaints,
    centre,
    focused,
    frames,
    host_at,
    moving,
    press,
    said,
    spoil,
    taken_away,
)

pytestmark = pytest.mark.browser

PHONE: dict[str, Any] = {"has_touch": True, "is_mobile": True}
WORDS = ["^", "a", "3", "<b>", "7", "a", "3", "c", "1", "<b>", "7", "d"]
SEEN = np.tril(np.ones((12, 12), dtype=bool))


def weights(*shape: int, mask: Any = True) -> Any:
    """Maps at random: softmax of scores that the mask lets through."""
    scores = np.where(mask, 3 * np.random.default_rng(0).normal(size=shape), -np.inf)
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def explorers() -> list[MapExplorer]:
    """The widgets of the page: as in the lesson; cross-attention; with as many weights as it may hold."""
    words, other = ["one", "word", "and", "another"], list("abcdefg")
    return [
        MapExplorer(weights(2, 4, 12, 12, mask=SEEN), WORDS, mask=SEEN, row=9),
        MapExplorer(weights(2, 3, 4, 7), words, keys=other, shown="mean"),
        MapExplorer(weights(12, 14, 12, 12), [f"word{n}" for n in range(12)], layer=11, shown="rollout"),
    ]


@pytest.fixture(scope="module")
def url(widget_book: Callable[..., str]) -> str:
    """Address of a book with the widgets on its first page; ``wrong.html`` is a copy with wrong numbers."""
    return widget_book(explorers(), wrong=spoil("weights", lambda number: number + 1e-3))


@pytest.fixture
def start(show: Callable[..., Locator]) -> Callable[..., tuple[Locator, MapExplorer]]:
    """Function that opens a page and gives the view at a place with what Python says about it."""

    def at(place: int = 0, name: str = "index", **options: Any) -> tuple[Locator, MapExplorer]:
        return show(place, name, **options), explorers()[place]

    return at


SHOWN = """view => {
  const cells = [...view.querySelectorAll(".attnlab-maps-open [data-key][data-weight]")];
  const bars = view.querySelectorAll(".attnlab-bars");
  const chosen = bar => bar.matches(".attnlab-marked");
  const numbers = bar => [+bar.dataset.key, +bar.dataset.weight];
  return {
    weights: cells.map(cell => +cell.dataset.weight), hidden: cells.map(cell => "hidden" in cell.dataset),
    opacity: cells.map(cell => +cell.style.fillOpacity),
    row: [...bars[0].querySelectorAll("[data-key]")].map(numbers),
    marked: [...bars[0].querySelectorAll(".attnlab-marked")].map(bar => +bar.dataset.key),
    across: [...bars[1].children].map(bar => +bar.dataset.weight),
    shown: [...bars[1].children].findIndex(chosen),
    pressed: [...view.querySelectorAll("[aria-pressed=true]")].map(node => node.getAttribute("aria-label")),
    selected: [...view.querySelectorAll("[aria-selected=true]")].map(node => +node.dataset.row),
    title: view.querySelector(".attnlab-maps-title").textContent,
    most: view.querySelector(".attnlab-maps-title + p").textContent, share: +view.dataset.share };
}"""

SMALL = """view => [...view.querySelectorAll(".attnlab-maps-all button")].map(node => ({
  at: [+node.dataset.layer, +node.dataset.place], name: node.getAttribute("aria-label"),
  cells: [...node.querySelectorAll("path[fill-opacity]")].flatMap(path =>
    [...path.getAttribute("d").matchAll(/M(\\d+) (\\d+)/g)].map(([, x, y]) =>
      [y / 6, x / 6, +path.getAttribute("fill-opacity")])) }))"""


def set_to(widget: MapExplorer, layer: int, place: int) -> str:
    """Open a map in Python, by its place in a row of small ones; gives its name."""
    heads = widget.shape[1]
    widget.layer, widget.shown = layer, "head" if place < heads else ["mean", "rollout"][place - heads]
    if place < heads:
        widget.head = place
        return f"Layer {layer + 1}, head {place + 1}"
    through = f"layers 1 to {layer + 1}" if layer else "layer 1"
    return [f"Layer {layer + 1}, mean over {heads} heads", f"Rollout through {through}"][place - heads]


def in_words(widget: MapExplorer) -> str:
    key, share = widget.gets_most()
    texts = widget.key_tokens or widget.query_tokens
    return f"“{texts[key]}” at {key + 1} gets most, {100 * share:.0f}% of all weight"


def assert_shown(view: Locator, expected: MapExplorer, key: int | None = None) -> None:
    """The opened map, the chosen row and the chosen cell in all maps of the layer are Python's."""
    frames(view.page)
    shown = view.evaluate(SHOWN)
    L, H, Q, K = expected.shape
    place = {"head": expected.head, "mean": H, "rollout": H + 1}[expected.shown]
    kinds = H + (1 if expected.key_tokens else 2)
    now = expected.map()
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(np.reshape(shown["weights"], now.shape), now, **close)
    hidden = np.zeros(now.shape, dtype=bool)
    if expected.mask:
        hidden = (np.frombuffer(expected.mask, "u1").reshape(now.shape) == 0) & (now == 0)
    np.testing.assert_array_equal(np.reshape(shown["hidden"], now.shape), hidden)
    drawn = np.where(hidden, 1, now).ravel()
    np.testing.assert_allclose(shown["opacity"], drawn, rtol=0, atol=1e-4)
    i = expected.row
    j = int(now[i].argmax()) if key is None else key
    seen = np.flatnonzero(~hidden[i])
    assert [bar for bar, _ in shown["row"]] == seen.tolist()
    np.testing.assert_allclose([weight for _, weight in shown["row"]], now[i, seen], **close)
    assert (
        shown["marked"] == ([] if hidden[i, j] else [j])
        and shown["selected"] == [i]
        and shown["shown"] == place
    )
    name, most, share = set_to(expected, expected.layer, place), in_words(expected), expected.gets_most()[1]
    assert (
        shown["title"] == name and shown["most"] == f"▲ {most}." and shown["pressed"] == [f"{name}: {most}"]
    )
    assert shown["share"] == pytest.approx(share, abs=1e-9)
    kept = expected.head, expected.shown
    for other in range(kinds):
        set_to(expected, expected.layer, other)
        assert shown["across"][other] == pytest.approx(expected.map()[i, j], abs=1e-12)
    assert len(shown["across"]) == kinds
    expected.head, expected.shown = kept


def small(view: Locator, layer: int, place: int) -> Locator:
    return view.locator(f"[data-layer='{layer}'][data-place='{place}']")


# --- numbers, by keyboard, by pointer and by touch
# ------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1, 2])
def test_every_small_map_is_pythons(start, place):
    view, expected = start(place)
    L, H, Q, K = expected.shape
    assert_shown(view, expected)
    maps = view.evaluate(SMALL)
    kinds = H + (1 if expected.key_tokens else 2)
    assert [one["at"] for one in maps] == [[layer, kind] for layer in range(L) for kind in range(kinds)]
    for one in maps:
        name = set_to(expected, *one["at"])
        drawn = np.zeros((Q, K))
        for i, j, opacity in one["cells"]:
            drawn[int(i), int(j)] = opacity
        np.testing.assert_allclose(drawn, expected.map(), rtol=0, atol=0.0251)
        assert one["name"] == f"{name}: {in_words(expected)}"


NAME = "at.dataset.place ?? at.getAttribute('role') ?? at.getAttribute('aria-label') ?? at.localName"


def test_by_keyboard_alone(start):
    view, expected = start(scheme="dark")
    page = view.page
    small(view, 0, 0).focus()
    for key, layer, place in [
        ("ArrowRight", 0, 1),
        ("ArrowDown", 1, 1),
        ("End", 1, 5),
        ("ArrowUp", 0, 5),
        ("ArrowLeft", 0, 4),
        ("ArrowUp", 0, 4),
    ]:
        press(page, key)
        set_to(expected, layer, place)
        assert focused(page, NAME) == str(place)
        assert_shown(view, expected)
    press(page, "Tab", "ArrowDown")  # the list: from the mean to rollout
    assert focused(page, NAME) == "select"
    expected.shown = "rollout"
    assert_shown(view, expected)
    press(page, "Tab", "ArrowUp")
    assert focused(page, NAME) == "listbox"
    expected.row = 8
    assert_shown(view, expected)
    best = int(expected.map()[8].argmax())
    press(page, "ArrowLeft")
    assert_shown(view, expected, key=best - 1)
    cell = f"“1” at 9 to “{WORDS[best - 1]}” at {best}: {expected.map()[8, best - 1]:.4f}."
    assert said(view, "Rollout through layer 1. “1” at 9 to") == f"Rollout through layer 1. {cell}"
    press(page, "Home", "Tab", "Tab", "Enter")
    assert focused(page, NAME) == "Next query"
    expected.row = 1
    assert_shown(view, expected)
    press(page, "Tab", "Enter", "Tab")
    assert focused(page, NAME) == "region"  # the numbers can be scrolled
    press(page, "Tab", "Enter")
    assert focused(page, NAME) == "summary"
    frames(page)
    lines = [line.split("\t")[1:] for line in view.locator("tbody tr").all_inner_texts()]
    numbers = [[0.0 if text == "masked" else float(text) for text in line] for line in lines[:12]]
    np.testing.assert_allclose(numbers, expected.map(), rtol=0, atol=5.01e-5)
    assert sum(line.count("masked") for line in lines[:12]) == 66
    key = int(expected.map()[1].argmax())
    for n, (_, share, weight) in enumerate(lines[12:]):
        set_to(expected, *divmod(n, 6))
        assert float(share) == pytest.approx(expected.gets_most()[1], abs=5.01e-5)
        assert float(weight) == pytest.approx(expected.map()[1, key], abs=5.01e-5)
    assert len(lines) == 24


def test_by_touch_and_by_drag(start):
    view, expected = start(width=390, **PHONE)
    page = view.page
    small(view, 1, 4).tap()
    set_to(expected, 1, 4)
    assert_shown(view, expected)
    view.locator("select").select_option("head")
    expected.shown = "head"
    assert_shown(view, expected)
    view.locator("[data-row='6'] [data-key='2']").tap()
    expected.row = 6
    assert_shown(view, expected, key=2)
    page.mouse.move(*centre(view.locator("[data-row='7'] [data-key='4']")))
    page.mouse.down()
    page.mouse.move(*centre(view.locator("[data-row='3'] [data-key='9']")), steps=3)
    page.mouse.up()
    expected.row = 3
    assert_shown(view, expected, key=9)
    assert "(masked out)" in view.locator(".attnlab-bars + .attnlab-fact").inner_text()
    view.get_by_role("button", name="Previous query").tap()
    expected.row = 2
    assert_shown(view, expected)


def test_a_wrong_number_is_noticed(start):
    view, expected = start(name="wrong")
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_shown(view, expected)


def test_without_the_same_tokens_there_is_no_rollout(start):
    view, _ = start(1)
    assert view.locator("option").all_inner_texts() == ["one head", "mean over heads"]


# --- for every reader
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "place"), [(320, 0), (390, 2), (1280, 2)])
def test_no_page_scrolls_sideways_and_everything_can_be_hit(start, width, place):
    view, _ = start(place, width=width, **(PHONE if width < 500 else {}))
    assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    box = view.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width
    sizes = view.locator("button").evaluate_all(
        "all => all.map(node => [node.offsetWidth, node.offsetHeight])"
    )
    assert min(min(size) for size in sizes) >= 26 and min(high for _, high in sizes) >= (
        44 if width < 500 else 26
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(start, scheme):
    view, _ = start(scheme=scheme, strict=False)
    assert axe_complaints(view) == []


def test_forced_colours_show_what_is_open_and_nothing_moves(start):
    view, _ = start(forced_colors="active", reduced_motion="reduce")
    outline = "node => getComputedStyle(node).outlineStyle"
    assert small(view, 0, 0).evaluate(outline) == "solid"
    assert small(view, 0, 1).evaluate(outline) == "none"
    assert moving(view) == 0


def test_a_burst_of_changes_is_drawn_once_and_announced_once(start):
    view, expected = start(2)
    counts = view.evaluate(
        """async (view) => {
          const frame = () => new Promise(requestAnimationFrame);
          await frame();
          const seen = { drawn: 0, said: 0 };
          const watch = (node, name, options) =>
            new MutationObserver((all) => (seen[name] += all.length)).observe(node, options);
          watch(view.querySelector(".attnlab-maps-title"), "drawn", { childList: true });
          watch(view.querySelector("[aria-live]"), "said", { childList: true });
          const third = (layer) => view.querySelector(`[data-layer="${layer}"][data-place="3"]`);
          for (const layer of [0, 4, 7, 9]) third(layer).click();
          await frame();
          await frame();
          while (!seen.said) await frame();
          await new Promise((resolve) => setTimeout(resolve, 900));  // a second one would be due by then
          return seen;
        }"""
    )
    assert counts == {"drawn": 1, "said": 1}
    set_to(expected, 9, 3)
    assert_shown(view, expected)
    best = int(expected.map()[11].argmax())
    told = f"“word11” at 12: most weight on “word{best}” at {best + 1}, {expected.map()[11, best]:.2f}."
    assert view.locator("[aria-live]").inner_text() == f"Layer 10, head 4. {told}"


def test_nothing_listens_once_it_is_taken_away(url, open_url):
    page = open_url("about:blank", strict=False)
    page.add_init_script(COUNT_WHAT_LIVES)
    page.goto(f"{url}index.html")
    small(host_at(page, 0).locator(".attnlab-widget"), 1, 2).click()  # and a frame and a timer are under way
    before, after, handlers = taken_away(page)
    assert before >= 20
    assert (after, handlers) == (0, 0)
