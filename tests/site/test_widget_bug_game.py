"""The bug game on a built page: curves, choices, verdicts and score against Python's, for every reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator

from attnlab.widgets import BugGame
from tests.site.widget_use import (
    COUNT_WHAT_LIVES,
    axe_complaints,
    focused,
    frames,
    host_at,
    press,
    said,
    spoil,
    taken_away,
)

pytestmark = pytest.mark.browser

PHONE: dict[str, Any] = {"has_touch": True, "is_mobile": True}
NAMES = [
    "low",
    "lowest",
    "as right",
    "a little above",
    "a little below",
    "stays high",
    "a name that is rather long",
]
STEPS = np.arange(5, 165, 5)


def bug_game() -> BugGame:
    """Seven bugs, as it is at first: three that no curve shows, and two that none tells apart."""
    noise = np.random.default_rng(0).uniform(0.98, 1.02, size=(8, len(STEPS)))
    noise[4], noise[5] = 1.4 * noise[4], noise[5] / 1.4
    fall = np.array([0.03, 0.05, 0.06, 0.03, 0.03, 0.03, 0.004, 0.004])[:, None]
    curves = 2.6 * np.exp(-fall * STEPS) * noise
    texts = {name: f"What gives {name} away." for name in NAMES}
    return BugGame(
        dict(zip(NAMES, curves[1:], strict=True)),
        curves[0],
        STEPS,
        gives_away=texts,
        found_by={name: f"property of {name}" for name in NAMES},
        alike=1.5,
    )


@pytest.fixture(scope="module")
def url(widget_book: Callable[..., str]) -> str:
    """Address of a book with the game on its first page; ``wrong.html`` is a copy with wrong numbers."""
    return widget_book([bug_game()], wrong=spoil("curves", lambda number: 1.1 * number))


@pytest.fixture
def start(show: Callable[..., Locator]) -> Callable[..., tuple[Locator, BugGame]]:
    """Function that opens a page and gives the view with what Python says about it."""
    return lambda name="index", **options: (show(0, name, **options), bug_game())


SHOWN = """view => {
  const all = (selector, read) => [...view.querySelectorAll(selector)].map(read);
  const texts = selector => all(selector, node => node.textContent);
  const inSight = selector => [...view.querySelectorAll(selector)].filter(node => node.offsetParent !== null);
  return {
    question: view.querySelector(".attnlab-game-question").textContent,
    score: view.querySelector(".attnlab-game-score").textContent,
    offered: texts("[data-place] > span:not(.attnlab-spoken)"),
    marks: all("[data-place]", node => node.querySelector("b")?.textContent ?? ""),
    off: all("[data-place]", node => node.getAttribute("aria-disabled") === "true"),
    told: inSight(".attnlab-game-verdict p").map(node => node.textContent),
    legend: texts(".attnlab-game-legend li"),
    lines: Object.fromEntries(all(".attnlab-game-line", line => [line.classList[1], line.getAttribute("d")])),
    missed: inSight(".attnlab-game-result [data-bug]").map(node => node.dataset.bug) };
}"""
MARKS = {"right": "✓", "alike": "≈", "missed": "✗"}


def assert_curves(lines: dict[str, str], expected: dict[str, int], losses: np.ndarray) -> None:
    """The drawn lines are these curves, on one logarithmic axis, to a tenth of a pixel."""
    assert lines.keys() == {f"attnlab-game-{kind}" for kind in expected}
    points = {
        kind: np.array(re.findall(r"-?[\d.]+", lines[f"attnlab-game-{kind}"]), float).reshape(-1, 2)
        for kind in expected
    }
    logs = np.log(losses.astype(np.float64))
    sane = points["sane"]
    first, last = logs[0, [0, -1]]
    slope = (sane[-1, 1] - sane[0, 1]) / (last - first)  # pixels: less than zero, since they count downwards
    assert slope < -10
    for kind, bug in expected.items():
        heights = sane[0, 1] + slope * (logs[bug + 1] - first)
        np.testing.assert_allclose(points[kind][:, 1], heights, rtol=0, atol=0.2)
        np.testing.assert_allclose(points[kind][:, 0], sane[:, 0], rtol=0, atol=0.1)


def assert_shown(view: Locator, expected: BugGame) -> None:
    """The round, its curves and choices, the verdict with its reasons, and the score are Python's."""
    frames(view.page)
    shown = view.evaluate(SHOWN)
    verdicts, count = expected.verdicts(), len(NAMES)
    marks = "".join(MARKS[verdict] for verdict in verdicts) + "·" * (count - len(verdicts))
    assert shown["score"] == f"Score {expected.score()} of {len(verdicts)} {marks}"
    if expected.round == count:
        assert shown["question"] == f"The end: {expected.score()} of {count} count."
        assert [NAMES[int(bug)] for bug in shown["missed"]] == expected.missed()
        return
    bug, offered = expected.rounds()[expected.round]
    answered = len(expected.answers) > expected.round
    assert shown["question"] == f"Round {expected.round + 1} of {count}: which bug made the solid curve?"
    assert shown["offered"] == [NAMES[one] for one in offered]
    assert shown["off"] == [answered] * 4 and shown["missed"] == []
    curves = {"bug": bug, "sane": -1}
    if not answered:
        assert shown["marks"] == [""] * 4 and shown["told"] == []
        assert not any(NAMES[bug] in text for text in shown["legend"])
    else:
        answer, verdict = expected.answers[-1], verdicts[-1]
        if answer != bug:
            curves["said"] = answer
        told = " ".join(shown["told"])
        assert shown["told"][0].startswith(MARKS[verdict]) and NAMES[bug] in shown["told"][0]
        assert expected.gives_away[bug] in told and expected.found_by[bug] in told
        unseen = [expected.unseen(NAMES[one]) for one in (bug, answer)]
        assert ("No curve shows" in told) == unseen[0]
        assert ("No curve tells it" in told) == (verdict == "alike" and not all(unseen))
        assert ("At step" in told) == (verdict == "missed")
        by_place = [expected._alike(bug, one) for one in offered]
        for one, counts, mark in zip(offered, by_place, shown["marks"], strict=True):
            assert mark == ("✓" if one == bug else "≈" if counts else "✗" if one == answer else "")
    assert_curves(shown["lines"], curves, expected._losses)


def played(expected: BugGame, place: int) -> None:
    """The same answer in Python."""
    expected.answers = [*expected.answers, expected.rounds()[expected.round][1][place]]


def test_a_game_by_keyboard_alone(start):
    """Answers by number and by Tab and Enter, such that each verdict occurs; then another order."""
    view, expected = start()
    page = view.page
    assert_shown(view, expected)
    view.locator("[data-place]").first.focus()
    for number in range(len(NAMES)):
        place = number % 4
        if number % 2:
            press(page, str(place + 1))
        else:
            if number:
                press(page, "Tab")
            press(page, *["Tab"] * place)
            assert focused(page, "at.dataset.place") == str(place)
            press(page, "Enter")
        played(expected, place)
        assert_shown(view, expected)
        press(page, str(4 - place))  # an answer is given once
        assert_shown(view, expected)
        if number == 0:
            said(
                view,
                {"right": "Right: ", "alike": "This counts. ", "missed": "No. It was "}[
                    expected.verdicts()[0]
                ],
            )
        assert focused(page, "at.textContent") == ("See the result" if number == 6 else "Next round")
        press(page, "Enter")
        expected.round += 1
        assert_shown(view, expected)
    assert {*expected.verdicts()} == {"right", "alike", "missed"}
    said(view, f"{expected.score()} of 7 count. You missed ")
    press(page, "Tab")
    assert focused(page, "at.textContent") == "Play again, in another order"
    press(page, "Tab", "Enter")
    frames(page)
    rows = [line.split("\t") for line in view.locator("tbody tr").all_inner_texts()]
    assert [row[0] for row in rows] == [NAMES[bug] for bug, _ in expected.rounds()]
    assert [row[1] for row in rows] == [NAMES[answer] for answer in expected.answers]
    apart = [expected.apart(row[0]) for row in rows]
    np.testing.assert_allclose([float(row[3]) for row in rows], apart, rtol=5e-3)
    press(page, "Shift+Tab", "Enter")
    expected.set_state({"game": 1, "round": 0, "answers": []})
    assert_shown(view, expected)
    assert focused(page, "at.className") == "attnlab-game-question"
    rows = [line.split("\t") for line in view.locator("tbody tr").all_inner_texts()]
    shown = np.array([[float(text) for text in row] for row in rows])
    bug = expected.rounds()[0][0]
    np.testing.assert_allclose(shown, np.stack([STEPS, *expected._losses[[0, bug + 1]]], axis=1), rtol=5.1e-3)


def test_by_touch_and_by_pointer(start):
    view, expected = start(width=390, scheme="dark", **PHONE)
    for place, move in [(2, "tap"), (1, "click")]:
        getattr(view.locator(f"[data-place='{place}']"), move)()
        played(expected, place)
        assert_shown(view, expected)
        getattr(view.get_by_role("button", name="Next round"), move)()
        expected.round += 1
        assert_shown(view, expected)


def test_a_wrong_number_is_noticed(start):
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_shown(*start(name="wrong"))


def test_at_320_pixels_no_page_scrolls_sideways_and_everything_can_be_hit(start):
    view, _ = start(width=320, **PHONE)
    for _ in NAMES:
        view.locator("[data-place='3']").click()
        frames(view.page)
        assert view.page.evaluate("document.documentElement.scrollWidth") <= 320
        box = view.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 320
        buttons = view.locator("button:visible")
        sizes = buttons.evaluate_all("all => all.map(node => [node.offsetWidth, node.offsetHeight])")
        assert len(sizes) == 5 and min(map(min, sizes)) >= 44
        spills = view.locator("p:not([aria-live]), button, li").evaluate_all(
            "all => all.filter(node => node.scrollWidth > node.clientWidth + 1).length"
        )
        assert spills == 0
        buttons.last.click()
    frames(view.page)
    assert view.page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(start, scheme):
    view, _ = start(scheme=scheme, strict=False)
    view.locator("[data-place='0']").click()
    frames(view.page)
    assert axe_complaints(view) == []


def test_forced_colours_keep_curves_and_answers_apart(start):
    view, expected = start(scheme="dark", forced_colors="active", reduced_motion="reduce")
    bug, offered = expected.rounds()[0]
    wrong = next(place for place, one in enumerate(offered) if not expected._alike(bug, one))
    view.locator(f"[data-place='{wrong}']").click()
    frames(view.page)
    background = view.evaluate("node => getComputedStyle(node).backgroundColor")
    lines = view.locator(".attnlab-game-line").evaluate_all(
        "all => all.map(getComputedStyle).map(style => [style.stroke, style.strokeDasharray])"
    )
    assert len(lines) == 3 and background not in [stroke for stroke, _ in lines]
    assert len({dashes for _, dashes in lines}) == 3
    line = "node => getComputedStyle(node).textDecorationLine"
    assert view.locator(f"[data-place='{wrong}']").evaluate(line) == "line-through"
    assert view.evaluate("view => view.getAnimations({ subtree: true }).length") == 0


def test_a_burst_of_changes_is_drawn_once(start):
    view, expected = start()
    drawn = view.evaluate(
        """async (view) => {
          const frame = () => new Promise(requestAnimationFrame);
          await frame();
          let drawn = 0;
          const watch = new MutationObserver((all) => (drawn += all.length));
          watch.observe(view.querySelector("svg"), { childList: true });
          const next = [...view.querySelectorAll("button")].find((node) => node.textContent === "Next round");
          for (const place of [0, 1, 2]) {
            view.querySelector(`[data-place="${place}"]`).click();
            next.click();
          }
          await frame();
          await frame();
          return drawn;
        }"""
    )
    assert drawn == 1
    for place in range(3):
        played(expected, place)
        expected.round += 1
    assert_shown(view, expected)


def test_nothing_listens_once_it_is_taken_away(url, open_url):
    page = open_url("about:blank", strict=False)
    page.add_init_script(COUNT_WHAT_LIVES)
    page.goto(f"{url}index.html")
    host_at(page, 0).locator("[data-place='2']").click()  # and a frame and a timer are under way
    before, after, handlers = taken_away(page)
    assert before >= 9
    assert (after, handlers) == (0, 0)
