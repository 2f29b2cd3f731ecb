"""The training map on a page without a kernel: its numbers by every way of use, and for every reader."""

from __future__ import annotations

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe

from attnlab.widgets import TrainingMap
from tests.site.widget_use import centre, focused, frames, press, swap

pytestmark = pytest.mark.browser

DEPTHS, RATES = [1, 2, 4, 6, 12], [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05]


def training_map():
    """As large as the lesson's, every curve different, with runs of all three kinds."""
    curves = np.random.default_rng(0).integers(0, 140, size=(4, 5, 7, 30))
    curves[2, 3, 4], curves[2, 4, 4], curves[2, 4, 5, 12:] = 161, 240, 255
    curves[0, 0, 0] = 0
    return TrainingMap(
        curves, depths=DEPTHS, rates=RATES, steps=300, guess=1.609, norm="post", depth=6, rate=0.005
    )


@pytest.fixture(scope="module")
def url(widget_book):
    """Address of a book with the widget on its first page; ``wrong.html`` is a copy with wrong numbers."""
    curves = training_map().curves
    other = bytes(n + 2 if n < 250 else n for n in curves)
    return widget_book([training_map()], wrong=swap(curves, other))


def cell(view, row, column):
    return view.locator(f"[data-row='{row}'][data-column='{column}']")


def names(view):
    return view.get_by_role("radio").evaluate_all(
        "all => Object.fromEntries("
        "all.map(at => [`${at.dataset.row} ${at.dataset.column}`, at.getAttribute('aria-label')]))"
    )


def expected_names(widget):
    said = {"learnt": "learnt", "guess": "no better than a guess", "diverged": "diverged"}
    finals, outcomes = widget.final_losses(), widget.outcomes()
    found = {}
    for row, depth in enumerate(DEPTHS):
        for column, rate in enumerate(RATES):
            final = finals[row, column]
            loss = f"{final:.2f}" if np.isfinite(final) else "not finite"
            layers = "1 layer" if depth == 1 else f"{depth} layers"
            text = f"{layers}, rate {rate}: last loss {loss}, {said[outcomes[row][column]]}"
            found[f"{row} {column}"] = text
    return found


def same(shown_names, expected):
    """Whether they say the same, to a hundredth: the halves of hundredths are rounded either way."""

    def parts(text):
        head, _, tail = text.partition("last loss ")
        loss, _, outcome = tail.partition(", ")
        return head, loss, outcome

    for place, text in expected.items():
        (head, loss, outcome), (its_head, its_loss, its_outcome) = parts(text), parts(shown_names[place])
        numbers = "not finite" not in (loss, its_loss)
        close = loss == its_loss or (numbers and abs(float(loss) - float(its_loss)) < 0.011)
        if (head, outcome) != (its_head, its_outcome) or not close:
            return False
    return shown_names.keys() == expected.keys()


def test_the_map_shows_what_python_computes_for_each_choice(show):
    view, widget = show(), training_map()
    for norm in ("post", "pre"):
        for warm in (False, True):
            view.locator("select").select_option(norm)
            view.get_by_label("Warm-up").set_checked(warm)
            frames(view.page)
            widget.norm, widget.warmup = norm, warm
            assert same(names(view), expected_names(widget))
    assert view.page.problems == []


def table(view, number):
    rows = view.locator(".attnlab-values").nth(number).locator("tbody tr")
    return rows.evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent))")


def test_both_curves_stand_in_the_table(show):
    view, widget = show(), training_map()
    for summary in view.locator("summary").all():
        summary.click()
    cell(view, 4, 5).click()
    frames(view.page)
    rows = table(view, 1)
    assert [row[0] for row in rows][::29] == ["1 to 10", "291 to 300"]
    for place, norm in enumerate(("pre", "post")):
        column = [row[1 + place] for row in rows]
        assert column == [f"{n:.2f}" if np.isfinite(n) else "not finite" for n in widget.losses(norm)[4, 5]]
    assert table(view, 0)[4][6] == "not finite (diverged)"
    assert table(view, 0)[3][5] == "1.61 (no better than a guess)"


def test_a_page_with_wrong_numbers_is_found_out(show):
    assert not same(names(show(0, "wrong")), expected_names(training_map()))


def test_a_cell_is_chosen_by_pointer_by_drag_and_by_finger(show):
    view = show()
    cell(view, 0, 0).click()
    frames(view.page)
    assert (
        view.get_by_role("radio", checked=True).get_attribute("aria-label").startswith("1 layer, rate 0.0005")
    )
    view.page.mouse.move(*centre(cell(view, 1, 1)))
    view.page.mouse.down()
    view.page.mouse.move(*centre(cell(view, 2, 3)), steps=4)
    view.page.mouse.up()
    frames(view.page)
    assert cell(view, 2, 3).get_attribute("aria-checked") == "true"
    touched = show(width=390, has_touch=True, is_mobile=True)
    cell(touched, 4, 6).tap()
    frames(touched.page)
    assert cell(touched, 4, 6).get_attribute("aria-checked") == "true"


def test_the_keyboard_reaches_all_and_the_choice_is_announced(show):
    view = show()
    view.locator("select").focus()
    press(view.page, "Tab")
    assert focused(view.page) == "input"
    press(view.page, "Space", "Tab")
    assert focused(view.page) == "radio"
    press(view.page, "ArrowUp", "ArrowRight")
    frames(view.page)
    assert cell(view, 4, 4).get_attribute("aria-checked") == "true"
    assert focused(view.page, "at.dataset.row + at.dataset.column") == "44"
    press(view.page, "ArrowUp", "End")
    frames(view.page)
    assert cell(view, 4, 6).get_attribute("aria-checked") == "true"
    said = "node => /^12 layers, rate 0.05: pre-norm .*; post-norm /.test(node.textContent)"
    view.page.wait_for_function(said, arg=view.locator("[data-spoken]").element_handle())
    press(view.page, "Tab")
    assert focused(view.page) == "summary"


def test_a_burst_of_choices_is_drawn_once(show):
    view = show()
    drawn = view.evaluate(
        """async (view) => {
          const frame = () => new Promise(requestAnimationFrame);
          await frame();
          let drawn = 0;
          const watch = new MutationObserver((all) => (drawn += all.length));
          watch.observe(view.querySelector("path.attnlab-curve").ownerSVGElement, { childList: true });
          for (const cell of view.querySelectorAll("[data-row='1']")) cell.click();
          await frame();
          await frame();
          return drawn;
        }"""
    )
    assert drawn == 1
    assert cell(view, 1, 6).get_attribute("aria-checked") == "true"


def test_what_became_of_a_run_is_not_told_by_colour_alone(show):
    view = show()
    assert cell(view, 3, 4).inner_text().split() == ["=", "1.61"]
    assert cell(view, 4, 4).inner_text().split() == ["×", "2.40"]
    assert cell(view, 4, 5).inner_text().split() == ["×"]
    pattern = "(one, other) => getComputedStyle(one).strokeDasharray"
    dashes = view.locator("path.attnlab-curve").evaluate_all(f"all => all.map({pattern})")
    assert len({*dashes}) == 2


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_it_fits(show, width):
    view = show(width=width)
    frames(view.page)
    assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    for row, column in ((0, 0), (4, 6)):
        part = cell(view, row, column)
        assert part.evaluate("node => node.scrollWidth <= node.clientWidth")
        box = part.bounding_box()
        assert min(box["width"], box["height"]) >= 24


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(show, scheme):
    view = show(scheme=scheme)
    for summary in view.locator("summary").all():
        summary.click()
    view.page.evaluate("document.querySelector('meta[http-equiv]')?.remove()")
    violations = Axe().run(view.page, context=".attnlab-widget").response["violations"]
    assert [(found["id"], found["nodes"][0]["html"]) for found in violations] == []


def test_forced_colours_and_reduced_motion(show):
    view = show(forced_colors="active", reduced_motion="reduce")
    background = view.evaluate("node => getComputedStyle(node).backgroundColor")
    strokes = view.locator("path.attnlab-curve").evaluate_all(
        "all => all.map(at => getComputedStyle(at).stroke)"
    )
    assert background not in strokes
    press(view.page, "Tab")
    assert view.evaluate("view => view.getAnimations({ subtree: true }).length") == 0


def test_nothing_listens_once_it_is_taken_away(show):
    view = show()
    before, after, left = view.page.evaluate(
        """async () => {
          const host = attnlabHost;
          const count = () => [...host.models.values()].reduce((total, model) => total + model.listeners, 0);
          const before = count();
          document.querySelectorAll(".attnlab-host").forEach(host.dispose);
          return [before, count(), document.querySelectorAll(".attnlab-widget").length];
        }"""
    )
    assert before >= 4
    assert (after, left) == (0, 0)
