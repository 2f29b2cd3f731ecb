"""The head split explorer on a built page: its numbers against Python's, by pointer, touch and keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator

from attnlab.widgets import HeadSplitExplorer
from tests.site.widget_use import (
    COUNT_WHAT_LIVES,
    focused,
    frames,
    host_at,
    press,
    spoil,
    taken_away,
)

pytestmark = pytest.mark.browser

SCHEMES = ("light", "dark")
SMALL, LARGEST = range(2)  # the views of the page, in order
STEPS = ("x", "view", "transpose", "attention", "back", "merge")
PHONE: dict[str, Any] = {"has_touch": True, "is_mobile": True}
LABEL_TRAIT_OR_TAG = "at.dataset.trait ?? at.getAttribute('aria-label') ?? at.localName"


def explorers() -> list[HeadSplitExplorer]:
    """The widgets of the page, as they are at first."""
    draw = np.random.default_rng(0).normal
    return [
        HeadSplitExplorer(["Mia", "lost", "keys"], *draw(size=(3, 3, 4)), heads=2, chosen=6),
        HeadSplitExplorer(["a", "b", "c", "d", "e", "f"], *draw(size=(3, 6, 8)), heads=4, step="transpose"),
    ]


@pytest.fixture(scope="module")
def url(widget_book: Callable[..., str]) -> str:
    """Address of a book with the widgets on its first page; ``wrong.html`` is a copy with wrong numbers."""
    return widget_book(explorers(), wrong=spoil("tensors", lambda number: number + 1e-3))


@pytest.fixture
def start(show: Callable[..., Locator]) -> Callable[..., tuple[Locator, HeadSplitExplorer]]:
    """Function that opens a page and gives the view at a place with what Python says about it."""

    def at(place: int = SMALL, name: str = "index", **options: Any) -> tuple[Locator, HeadSplitExplorer]:
        return show(place, name, **options), explorers()[place]

    return at


def label(number: int, width: int) -> str:
    return f"{'abcdef'[number // width]}{number % width}"


SHOWN = """view => {
  const box = view.querySelector("[role=listbox]");
  const owned = box.getAttribute("aria-owns").split(" ").map(id => document.getElementById(id));
  const cells = owned.map(node => ({
    ...node.dataset, name: node.querySelector("b").textContent, label: node.querySelector("span").textContent,
    selected: node.getAttribute("aria-selected"), hatched: node.classList.contains("attnlab-misplaced"),
    inHead: node.classList.contains("attnlab-same-head")}));
  const texts = selector => [...view.querySelectorAll(selector)].map(node => node.textContent);
  const bars = view.querySelector(".attnlab-bars");
  return {
    cells, active: document.getElementById(box.getAttribute("aria-activedescendant")).dataset.id,
    shape: view.dataset.shape, strides: view.dataset.strides,
    memory: texts(".attnlab-memory b"), holds: texts(".attnlab-holds li"),
    chosen: texts(".attnlab-split-chosen")[0],
    weights: bars.checkVisibility() ? [...bars.children].map(bar => +bar.dataset.weight) : null,
    current: view.querySelector("[aria-current=step]").dataset.step };
}"""


def at_step(expected: HeadSplitExplorer, step: str) -> HeadSplitExplorer:
    """The same widget at another step."""
    tables = expected._tables
    same = {name: getattr(expected, name) for name in ("heads", "followed", "bug", "chosen")}
    return HeadSplitExplorer(expected.tokens, *tables, step=step, **same)


def assert_shown(view: Locator, expected: HeadSplitExplorer) -> None:
    """Every number, its place, its address, the weights and the words are Python's."""
    frames(view.page)
    shown = view.evaluate(SHOWN)
    cells, width = shown["cells"], expected.width
    places, chosen = expected.places(), expected.chosen
    assert shown["current"] == str(expected.step)
    assert shown["shape"] == ",".join(map(str, expected.tensor_shape()))
    assert shown["strides"] == ",".join(map(str, expected.strides()))
    assert [int(cell["id"]) for cell in cells] == places.ravel().tolist()
    assert [cell["index"] for cell in cells] == [",".join(map(str, at)) for at in np.ndindex(places.shape)]
    assert [int(cell["address"]) for cell in cells] == expected.addresses().ravel().tolist()
    numbers = expected.numbers().ravel()
    np.testing.assert_allclose([float(cell["number"]) for cell in cells], numbers, rtol=0, atol=1e-12)
    assert [cell["name"] for cell in cells] == [label(number, width) for number in places.ravel()]
    for cell, number in zip(cells, numbers, strict=True):
        assert float(cell["label"].split(": ")[1].replace("−", "-")) == pytest.approx(number, abs=0.00501)
    assert shown["memory"] == [label(number, width) for number in expected.memory()]

    split = at_step(expected, "transpose").places()  # (H, T, D)
    head, row, _ = np.argwhere(split == chosen)[0]
    assert {int(cell["id"]) for cell in cells if cell["selected"] == "true"} == {chosen}
    assert int(shown["active"]) == chosen
    assert {int(cell["id"]) for cell in cells if cell["inHead"]} == set(split[head].ravel().tolist())
    misplaced = split[split // width != np.arange(split.shape[1])[:, None]]
    in_rows = expected.bug and 1 <= expected.step <= 4
    assert {int(cell["id"]) for cell in cells if cell["hatched"]} == set(
        misplaced.tolist() if in_rows else []
    )
    for h, said in enumerate(shown["holds"]):
        missing = set(range(len(expected.tokens))) - set((split[h] // width).ravel().tolist())
        lacks = said.partition("nothing of ")[2].replace(" and ", ", ")
        assert lacks == ", ".join(f"{'abcdef'[t]} {expected.tokens[t]}" for t in sorted(missing))
    address = int(expected.addresses()[places == chosen][0])
    assert shown["chosen"].endswith(f"= address {address}.")
    if expected.step < 3:
        assert shown["weights"] is None
    else:
        np.testing.assert_allclose(shown["weights"], expected.weights()[head, row], rtol=0, atol=1e-12)


# --- numbers, by keyboard, by pointer and by touch
# ------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_keyboard_alone(start, scheme):
    view, expected = start(scheme=scheme)
    page = view.page
    assert_shown(view, expected)
    view.locator("select").first.focus()
    press(page, "Tab", "Shift+Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "heads"
    press(page, "End")
    expected.heads = 4
    assert_shown(view, expected)
    press(page, "ArrowUp", "Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "followed"
    press(page, "End", "Tab")
    expected.heads, expected.followed = 2, "values"
    assert_shown(view, expected)
    assert focused(page, LABEL_TRAIT_OR_TAG) == "bug"
    press(page, "Space")
    expected.bug = True
    assert_shown(view, expected)
    press(page, "Space", "Tab")
    expected.bug = False
    assert focused(page, LABEL_TRAIT_OR_TAG) == "Step back"
    press(page, "Enter")  # there is no step before the first
    assert_shown(view, expected)
    for step in range(6):
        press(page, "Tab")
        assert focused(page, LABEL_TRAIT_OR_TAG).startswith(f"{step + 1} ")
        press(page, "Enter")
        expected.step = step
        assert_shown(view, expected)
    press(page, "Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "Next step"
    press(page, "Enter", "Tab")
    assert_shown(view, expected)
    assert focused(page, LABEL_TRAIT_OR_TAG) == "Tensor"
    moves = [("ArrowRight", 7), ("ArrowRight", 7), ("ArrowUp", 3), ("ArrowLeft", 2), ("End", 11)]
    for key, number in [*moves, ("ArrowDown", 11), ("Home", 0)]:
        press(page, key)
        expected.chosen = number
        assert_shown(view, expected)

    press(page, "Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "summary"
    press(page, "Enter")
    frames(page)
    rows = [line.split("\t") for line in view.locator("tbody tr").all_inner_texts()]
    numbers, places = expected.numbers().ravel(), expected.places().ravel()
    for (name, *_, value, weights), place, number in zip(rows, places, numbers, strict=True):
        assert name == label(place, 4)
        assert float(value.replace("−", "-")) == pytest.approx(number, abs=0.0000501)
        given = [float(text) for text in weights.split()]
        np.testing.assert_allclose(
            given, expected.weights()[place % 4 // 2, place // 4], rtol=0, atol=5.01e-5
        )


@pytest.mark.parametrize("place", [SMALL, LARGEST])
def test_every_step_with_every_number_of_heads_right_and_wrong(start, place):
    view, expected = start(place, reduced_motion="reduce")
    width = expected.width
    for heads in [n for n in range(1, width + 1) if width % n == 0]:
        view.locator("[data-trait=heads]").select_option(str(heads))
        for bug in (False, True):
            view.locator("[data-trait=bug]").set_checked(bug)
            expected.heads, expected.bug = heads, bug
            for step in range(6):
                view.locator(f"[data-step='{step}']").click()
                expected.step = step
                assert_shown(view, expected)
            is_copied = not bug and 1 < heads < width
            assert ("so they are copied" in view.locator(".attnlab-split-now").inner_text()) == is_copied


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_pointer_and_by_touch(start, scheme):
    view, expected = start(scheme=scheme, width=390, reduced_motion="reduce", **PHONE)
    for step in range(1, 6):
        view.get_by_role("button", name="Next step").tap()
        expected.step = step
        assert_shown(view, expected)
        for number in (11, 2):
            view.locator(f"[data-id='{number}']").tap()
            expected.chosen = number
            assert_shown(view, expected)
    view.get_by_role("button", name="Step back").click()
    view.locator("[data-id='9']").click()
    view.get_by_text("The bug: no transpose").click()
    expected.step, expected.chosen, expected.bug = 4, 9, True
    assert_shown(view, expected)
    assert "nothing of c keys" in view.locator(".attnlab-holds li").first.inner_text()


@pytest.mark.parametrize(("name", "right"), [("index", True), ("wrong", False)])
def test_a_wrong_number_is_noticed(start, name, right):
    view, expected = start(name=name)
    view.locator("[data-step='3']").click()
    expected.step = 3
    if right:
        assert_shown(view, expected)
    else:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            assert_shown(view, expected)


# --- what is seen
# -------------------------------------------------------------------------------------------------


def test_no_two_numbers_stand_on_one_another_and_rows_are_rows(start):
    """At each step the page shows the tensor's own order: along its last axis to the right."""
    for place, width in [(SMALL, 1280), (LARGEST, 320)]:
        view, expected = start(place, width=width, reduced_motion="reduce")
        for step in range(6):
            view.locator(f"[data-step='{step}']").click()
            expected.step = step
            frames(view.page)
            corners = view.locator("[role=option]").evaluate_all(
                "all => all.map(one => { const box = one.getBoundingClientRect(); return [box.x, box.y]; })"
            )
            boxes = np.array(corners)[expected.places()].round().astype(int)
            assert (np.diff(boxes[..., 0], axis=-1) >= 24).all()
            assert not np.diff(boxes[..., 1], axis=-1).any()
            assert len(np.unique(boxes.reshape(-1, 2), axis=0)) == boxes[..., 0].size
            tokens_axis = {"x": 0, "merge": 0, "view": 0, "back": 0}.get(STEPS[step], 1)
            assert (np.diff(boxes[..., 1], axis=tokens_axis) >= 24).all()


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_no_page_scrolls_sideways_and_everything_can_be_hit(start, width):
    view, _ = start(LARGEST, width=width, **(PHONE if width < 500 else {}))
    page = view.page
    view.locator("[data-trait=heads]").select_option("8")
    for place in (SMALL, LARGEST):
        box = host_at(page, place).locator(".attnlab-widget").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = view.evaluate(
        """view => [...view.querySelectorAll("[role=option], button, select")].map(
             node => [node.matches("button, select"), node.offsetWidth, node.offsetHeight])"""
    )
    for is_control, *size in sizes:
        assert min(size) >= (44 if is_control and width < 500 else 22)  # and 2 pixels to the next number


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing(start, scheme):
    view, _ = start(scheme=scheme, strict=False, reduced_motion="reduce")
    view.get_by_text("The bug: no transpose").click()
    view.locator("[data-step='3']").click()
    view.locator("summary").click()
    view.page.evaluate("document.querySelector('meta[http-equiv]')?.remove()")
    options = {"rules": {"label-content-name-mismatch": {"enabled": True}}}
    violations = Axe().run(view.page, ".attnlab-widget", options).response["violations"]
    assert [(found["id"], found["nodes"][0]["html"]) for found in violations] == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_forced_colours_keep_misplaced_and_chosen_apart(start, scheme):
    view, _ = start(scheme=scheme, forced_colors="active", reduced_motion="reduce")
    view.get_by_text("The bug: no transpose").click()
    view.locator("[data-step='2']").click()
    frames(view.page)
    style = "(node, name) => getComputedStyle(node)[name]"
    wrong, right, chosen = (view.locator(f"[data-id='{n}']") for n in (2, 0, 6))
    assert wrong.evaluate(style, "borderTopStyle") == "dashed"
    assert right.evaluate(style, "borderTopStyle") == "solid"
    assert chosen.evaluate(style, "outlineStyle") == "solid"
    assert right.locator("b").evaluate(style, "textDecorationLine") == "none"
    assert chosen.locator("b").evaluate(style, "textDecorationLine") == "underline"
    current = view.locator("[aria-current=step]")
    assert "underline" in current.evaluate(style, "textDecorationLine") or "line-through" in current.evaluate(
        style, "textDecorationLine"
    )


def test_motion_only_where_it_is_welcome(start):
    duration = "node => getComputedStyle(node).transitionDuration"
    for options, expected in [({}, "0.5s"), ({"reduced_motion": "reduce"}, "0s")]:
        view, _ = start(**options)
        assert view.locator("[data-id='0']").evaluate(duration) == expected


def test_a_burst_of_changes_is_drawn_once_and_announced_once(start):
    view, expected = start(LARGEST)
    counts = view.evaluate(
        """async (view) => {
          const frame = () => new Promise(requestAnimationFrame);
          await frame();
          const seen = { drawn: 0, said: 0 };
          const watch = (node, name, options) =>
            new MutationObserver((all) => (seen[name] += all.length)).observe(node, options);
          watch(view.querySelector("[role=listbox]"), "drawn", { attributeFilter: ["aria-owns"] });
          const spoken = view.querySelector("[aria-live]");
          watch(spoken, "said", { childList: true });
          for (const step of [0, 5, 1, 4, 3]) view.querySelector(`[data-step="${step}"]`).click();
          for (const id of [3, 40, 20]) view.querySelector(`[data-id="${id}"]`).click();
          await frame();
          await frame();
          while (!spoken.textContent) await frame();
          await new Promise((resolve) => setTimeout(resolve, 600));
          return seen;
        }"""
    )
    assert counts == {"drawn": 1, "said": 1}
    expected.step, expected.chosen = 3, 20
    assert_shown(view, expected)
    said = view.locator("[aria-live]").inner_text()
    assert said.startswith(
        "Step 4 of 6, attention: shape (H, T, D) = (4, 6, 2), strides (12, 2, 1). Output in "
    )
    assert view.locator(".attnlab-split-chosen").inner_text() in said


def test_nothing_listens_once_it_is_taken_away(url, open_url):
    page = open_url("about:blank", strict=False)
    page.add_init_script(COUNT_WHAT_LIVES)
    page.goto(f"{url}index.html")
    host_at(page, LARGEST)
    host_at(page, SMALL).locator("[data-step='2']").click()  # and a frame and a timer are under way
    before, after, handlers = taken_away(page)
    assert before >= 20
    assert (after, handlers) == (0, 0)
