"""The journey of a token on a built page: its numbers against Python's, by pointer, touch and keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator

from attnlab.transformer import Transformer, TransformerConfig
from attnlab.widgets import TokenJourney
from tests.site.widget_use import COUNT_WHAT_LIVES, focused, frames, host_at, moving, press, spoil, taken_away

pytestmark = pytest.mark.browser

SCHEMES = ("light", "dark")
PRE, POST = range(2)  # the views of the page, in order
PHONE: dict[str, Any] = {"has_touch": True, "is_mobile": True}
LABEL_TRAIT_OR_TAG = "at.dataset.trait ?? at.getAttribute('aria-label') ?? at.localName"
WORDS = list("·<>abcdefgh")
SETTINGS: tuple[dict[str, int], ...] = (
    {"source_token": 1, "target_token": 3},
    {"source_token": 9, "target_token": 8, "station": 20},
)
CROSS = 30  # the station of the second cross-attention


def model(norm: Any) -> Transformer:
    """A model of the size that lesson 8 trains."""
    torch.manual_seed(0)
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_encoder_layers": 2, "num_decoder_layers": 2}
    return Transformer(
        TransformerConfig(
            source_vocab_size=11,
            target_vocab_size=11,
            dropout=0.0,
            norm=norm,
            share_embeddings=True,
            max_length=10,
            **(sizes if norm == "pre" else {**sizes, "d_model": 24, "d_ff": 32}),
        )
    )


def journeys() -> list[TokenJourney]:
    """The widgets of the page, as they are at first: one of the lesson's size, one with long rows."""
    short = torch.tensor([5, 3, 8, 7, 4, 0]), torch.tensor([1, 4, 7, 8, 3])
    long = torch.tensor([5, 3, 8, 7, 4, 10, 9, 3, 6, 5]), torch.tensor([1, 4, 7, 8, 3, 5, 3, 9, 10])
    return [
        TokenJourney(model("pre"), *short, WORDS, **SETTINGS[PRE]),
        TokenJourney(model("post"), *long, WORDS, **SETTINGS[POST]),
    ]


@pytest.fixture(scope="module")
def url(widget_book: Callable[..., str]) -> str:
    """Address of a book with the widgets on its first page; ``wrong.html`` is a copy with wrong numbers."""
    return widget_book(journeys(), wrong=spoil("numbers", lambda number: number + 1e-3))


@pytest.fixture
def start(show: Callable[..., Locator]) -> Callable[..., tuple[Locator, TokenJourney]]:
    """Function that opens a page and gives the view at a place with what Python says about it."""

    def at(place: int = PRE, name: str = "index", **options: Any) -> tuple[Locator, TokenJourney]:
        return show(place, name, **options), journeys()[place]

    return at


SHOWN = """view => {
  const all = selector => [...view.querySelectorAll(selector)];
  const places = (nodes) =>
    [...nodes].flatMap((one, at) => one.getAttribute("aria-checked") === "true" ? [at] : []);
  const seen = selector => view.querySelector(selector).checkVisibility();
  return {
    tokens: all(".attnlab-tokens").flatMap(row => places(row.children)),
    stop: places(all(".attnlab-stop")), slider: +view.querySelector("[type=range]").value,
    vector: all(".attnlab-strip li").map(one => [+one.dataset.number, one.lastChild.textContent]),
    weights: seen(".attnlab-looks") ? all(".attnlab-looks tbody tr").map(row =>
      [...row.cells].slice(1).map(({ dataset, textContent }) =>
        ["hidden" in dataset ? null : +dataset.weight, textContent])) : null,
    keys: all(".attnlab-looks thead th").slice(1).map(one => one.textContent),
    said: seen(".attnlab-said")
      ? all(".attnlab-said li").map(one => [+one.dataset.word, +one.dataset.probability]) : null,
    facts: all(".attnlab-journey-facts dd").map(one => one.textContent),
    title: view.querySelector(".attnlab-journey-title").textContent };
}"""


def visible(station: Any, expected: TokenJourney) -> np.ndarray | None:
    """Which keys the followed token may look at, after Python's weights."""
    if station.weights is None:
        return None
    is_source = station.name.startswith("encoder") or station.name.endswith("cross")
    if is_source:
        return np.array([number != 0 for number in expected.source])
    return np.arange(len(expected.target)) <= expected.target_token


def assert_shown(view: Locator, expected: TokenJourney) -> None:
    """The station, its vector, its lengths, its weights and what the output would say are Python's."""
    frames(view.page)
    shown = view.evaluate(SHOWN)
    close = {"rtol": 0, "atol": 1e-9}
    station = expected.journey()[expected.station]
    assert shown["tokens"] == [expected.source_token, expected.target_token]
    assert shown["stop"] == [expected.station] and shown["slider"] == expected.station + 1
    np.testing.assert_allclose([number for number, _ in shown["vector"]], station.goes_out, **close)
    digits = 0.00501 if station.name.endswith("softmax") else 0.0501
    for number, text in shown["vector"]:
        assert float(text.replace("−", "-")) == pytest.approx(number, abs=digits)
    allowed = visible(station, expected)
    if allowed is None or station.weights is None:
        assert shown["weights"] is None
    else:
        is_cross = station.name.endswith("cross") or station.name.startswith("encoder")
        ids = expected.source if is_cross else expected.target
        assert shown["keys"] == [WORDS[number] for number in ids]
        for row, weights in zip(shown["weights"], station.weights, strict=True):
            assert [number is not None for number, _ in row] == allowed.tolist()
            np.testing.assert_allclose([cell[0] or 0.0 for cell in row], weights, **close)
            for number, text in row:
                assert text == "hidden" if number is None else abs(float(text) - number) <= 0.00501
    if station.said is None:
        assert shown["said"] is None
    else:
        likeliest = np.sort(station.said)[::-1][:4]
        np.testing.assert_allclose([share for _, share in shown["said"]], likeliest, **close)
        for word, share in shown["said"]:
            assert share == pytest.approx(station.said[word], abs=1e-9)
    assert_facts(shown["facts"], station, expected)


def assert_facts(facts: list[str], station: Any, expected: TokenJourney) -> None:
    """Shape, parameters and lengths in words."""
    shape, parameters, length = facts
    is_source = station.name.startswith("encoder")
    axis, n = ("S", len(expected.source)) if is_source else ("T", len(expected.target))
    is_last = station.name.endswith(("logits", "softmax"))
    assert shape.startswith(f"({axis}, {'V' if is_last else 'd_model'}) = ({n}, {len(station.goes_out)})")
    assert ("weights (H" in shape) == (station.weights is not None)
    if station.weights is not None:
        H, m = station.weights.shape
        assert f"= ({H}, {n}, {m})" in shape
    kind = station.name.split()[-1]
    owner = {"self": "attention", "cross": "attention"}.get(kind, kind)
    assert parameters.split(",", 1)[0].split(":")[0] == f"{expected.counts.get(owner, 0):,}".split(",")[0]
    count = "".join(part for part in parameters.split(", shared")[0].split(":")[0] if part.isdigit())
    assert int(count) == expected.counts.get(owner, 0)
    norm = np.linalg.norm
    if kind in ("sum", "norm", "self", "cross", "feed", "position"):
        assert length.startswith(f"{norm(station.came_in):.2f} in, {norm(station.goes_out):.2f} out")
    if kind in ("sum", "position"):
        difference = norm(station.goes_out - station.came_in)
        cosine = station.goes_out @ station.came_in / norm(station.goes_out) / norm(station.came_in)
        assert f"turned by {np.degrees(np.arccos(cosine)):.0f}°" in length
        assert length.endswith(f"What is added is {difference:.2f} long")


# --- numbers, by keyboard, by pointer and by touch
# ------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_keyboard_alone(start, scheme):
    view, expected = start(scheme=scheme)
    page = view.page
    last = len(expected.journey()) - 1
    assert_shown(view, expected)
    view.locator(".attnlab-token[tabindex='0']").first.focus()
    press(page, "Tab", "Shift+Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "a, token 2"
    for key, token in [("ArrowRight", 2), ("ArrowLeft", 1), ("ArrowDown", 2), ("End", 5), ("Home", 0)]:
        press(page, key)
        expected.source_token = token
        assert_shown(view, expected)
    press(page, "Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "f, token 4"
    press(page, "ArrowRight")  # a token of the other side begins its own way
    expected.target_token, expected.station = 4, 15
    assert_shown(view, expected)
    press(page, "Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "Station before"
    press(page, "Enter")
    expected.station = 14
    assert_shown(view, expected)
    press(page, "Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "station"
    for key, station in [("ArrowLeft", 13), ("End", last), ("ArrowDown", last - 1), ("Home", 0)]:
        press(page, key)
        expected.station = station
        assert_shown(view, expected)
    press(page, "Tab", "Enter")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "Next station"
    expected.station = 1
    assert_shown(view, expected)
    press(page, "Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG).startswith("+ position: ")
    for key, station in [
        ("ArrowDown", 2),
        ("ArrowRight", 3),
        ("ArrowUp", 2),
        ("End", last),
        ("ArrowRight", last),
    ]:
        press(page, key)
        expected.station = station
        assert_shown(view, expected)
    press(page, "Tab")
    assert focused(page, LABEL_TRAIT_OR_TAG) == "summary"


def test_every_station_forwards_and_backwards(start):
    for place in (PRE, POST):
        view, expected = start(place)
        count = len(expected.journey())
        expected.station = 0
        view.locator("[data-stop='0']").click()
        assert_shown(view, expected)
        for station in range(1, count):
            view.get_by_role("button", name="Next station").click()
            expected.station = station
            assert_shown(view, expected)
        view.get_by_role("button", name="Next station").click(force=True)  # there is none after the last
        assert_shown(view, expected)
        for station in range(count - 2, count - 6, -1):
            view.get_by_role("button", name="Station before").click()
            expected.station = station
            assert_shown(view, expected)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_pointer_and_by_touch(start, scheme):
    view, expected = start(scheme=scheme, width=390, **PHONE)
    source, target = view.locator(".attnlab-tokens").all()
    view.locator(f"[data-stop='{CROSS}']").tap()
    expected.station = CROSS
    assert_shown(view, expected)
    for token in (0, 4, 2):
        target.locator(".attnlab-token").nth(token).tap()
        expected.target_token = token
        assert_shown(view, expected)
    view.locator("[data-stop='3']").tap()
    expected.station = 3
    for token in (4, 5):
        source.locator(".attnlab-token").nth(token).click()
        expected.source_token = token
        assert_shown(view, expected)
    slider = view.locator("[type=range]")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    view.page.mouse.move(box["x"] + 10, box["y"] + box["height"] / 2)
    view.page.mouse.down()
    view.page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2, steps=5)
    view.page.mouse.up()
    expected.station = len(expected.journey()) - 1
    assert_shown(view, expected)


@pytest.mark.parametrize(("name", "right"), [("index", True), ("wrong", False)])
def test_a_wrong_number_is_noticed(start, name, right):
    view, expected = start(name=name)
    view.locator("[data-stop='36']").click()
    expected.station = 36
    if right:
        assert_shown(view, expected)
    else:
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            assert_shown(view, expected)


def test_the_table_holds_vector_weights_and_probabilities(start):
    view, expected = start()
    view.locator("summary").click()
    for stop in (CROSS, CROSS + 1, 36):
        view.locator(f"[data-stop='{stop}']").click()
        frames(view.page)
        expected.station = stop
        station = expected.journey()[stop]
        rows = [line.split("\t") for line in view.locator(".attnlab-values tbody tr").all_inner_texts()]
        parts = [station.goes_out]
        if station.weights is not None:
            parts.append(np.where(visible(station, expected), station.weights, np.nan).ravel())
        if station.said is not None:
            parts.append(station.said)
        numbers = [float(row[2].replace("−", "-")) if row[2] != "hidden" else np.nan for row in rows]
        np.testing.assert_allclose(numbers, np.concatenate(parts), rtol=0, atol=5.01e-5)
        if stop == CROSS + 1:
            before = [[float(cell.replace("−", "-")) for cell in row[1::2]] for row in rows[:32]]
            change = np.stack([station.came_in, station.goes_out - station.came_in], axis=-1)
            np.testing.assert_allclose(before, change, rtol=0, atol=5.01e-5)


# --- for every reader
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_no_page_scrolls_sideways_and_everything_can_be_hit(start, width):
    view, _ = start(POST, width=width, **(PHONE if width < 500 else {}))
    page = view.page
    for stop in (3, 20, 30):
        view.locator(f"[data-stop='{stop}']").click()
        frames(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        spills = view.locator(
            ":is(.attnlab-strip li, .attnlab-looks :is(th, td), .attnlab-stop)"
        ).evaluate_all(
            "all => all.filter(node => node.scrollWidth > node.clientWidth + 1).map(node => node.textContent)"
        )
        assert spills == []
    for place in (PRE, POST):
        box = host_at(page, place).locator(".attnlab-widget").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
    least = 44 if width < 500 else 28
    sizes = view.locator("button, .attnlab-token").evaluate_all(
        "all => all.map(node => [node.offsetWidth, node.offsetHeight])"
    )
    assert min(map(min, sizes)) >= least
    stops = view.locator(".attnlab-stop").evaluate_all(
        "all => all.map(node => [node.offsetWidth, node.offsetHeight])"
    )
    assert min(map(min, stops)) >= 24


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing(start, scheme):
    view, _ = start(scheme=scheme, strict=False)
    view.locator("summary").click()
    view.page.evaluate("document.querySelector('meta[http-equiv]')?.remove()")
    options = {"rules": {"label-content-name-mismatch": {"enabled": True}}}
    for stop in (18, 36):
        view.locator(f"[data-stop='{stop}']").click()
        frames(view.page)
        violations = Axe().run(view.page, ".attnlab-widget", options).response["violations"]
        assert [(found["id"], found["nodes"][0]["html"]) for found in violations] == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_forced_colours_keep_what_is_marked_apart(start, scheme):
    view, _ = start(scheme=scheme, forced_colors="active", reduced_motion="reduce")
    view.locator("[data-stop='18']").click()
    frames(view.page)
    style = "(node, name) => getComputedStyle(node)[name]"
    here, other = view.locator("[data-stop='18']"), view.locator("[data-stop='19']")
    assert here.evaluate(style, "backgroundColor") != other.evaluate(style, "backgroundColor")
    hidden = view.locator(".attnlab-looks tbody tr").first.locator("td")
    assert [cell.evaluate(style, "borderTopStyle") for cell in hidden.all()] == ["solid"] * 4 + ["dashed"]
    tokens = view.locator(".attnlab-tokens").nth(1).locator(".attnlab-token")
    assert tokens.nth(3).evaluate(style, "backgroundColor") != tokens.nth(2).evaluate(
        style, "backgroundColor"
    )


def test_nothing_moves_by_itself(start):
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
          watch(view.querySelector(".attnlab-journey-title"), "drawn", { childList: true });
          const spoken = view.querySelector("[aria-live]");
          watch(spoken, "said", { childList: true });
          for (const stop of [4, 9, 37, 21, 30]) view.querySelector(`[data-stop="${stop}"]`).click();
          for (const at of [1, 2]) view.querySelectorAll(".attnlab-tokens")[1].children[at].click();
          await frame();
          await frame();
          const drawn = seen.drawn;
          while (!spoken.textContent) await frame();
          return { ...seen, drawn };
        }"""
    )
    # A changed text is one record for the node that goes and the one that comes.
    assert counts == {"drawn": 1, "said": 1}
    expected.station, expected.target_token = CROSS, 2
    assert_shown(view, expected)
    said = view.locator("[aria-live]").inner_text()
    weights = expected.journey()[CROSS].weights
    assert said.startswith("Station 31 of 38, decoder layer 2, cross-attention, for target token 3, “e”.")
    for head, row in enumerate(weights, start=1):
        word = WORDS[expected.source[int(row.argmax())]]
        assert f"Head {head} looks most at {word}, {row.max():.2f}." in said


def test_the_memory_reaches_every_cross_attention(start):
    """The drawn ways begin at the memory and end at the rows of cross-attention, at every width."""
    for width in (320, 1280):
        view, _ = start(width=width, **(PHONE if width < 500 else {}))
        frames(view.page, 4)
        ends = view.evaluate(
            """view => {
              const middle = (node, box = node.getBoundingClientRect()) => box.top + box.height / 2;
              const top = view.querySelector(".attnlab-machine").getBoundingClientRect().top;
              const memory = view.querySelector(".attnlab-memory-name");
              const isCross = one => one.textContent === "cross";
              const rows = [...view.querySelectorAll("[data-stop]")].filter(isCross);
              return [...view.querySelectorAll(".attnlab-way path")].map((path, at) => {
                const [, from, to] = path.getAttribute("d").match(/M\\S+ (\\S+?)H.*V([^H]+)H/).map(Number);
                return [from + top - middle(memory), to + top - middle(rows[at])];
              });
            }"""
        )
        assert len(ends) == 2
        np.testing.assert_allclose(ends, 0, atol=1)


def test_nothing_listens_once_it_is_taken_away(url, open_url):
    page = open_url("about:blank", strict=False)
    page.add_init_script(COUNT_WHAT_LIVES)
    page.goto(f"{url}index.html")
    host_at(page, POST)
    host_at(page, PRE).locator("[data-stop='2']").click()  # and a frame and a timer are under way
    before, after, handlers = taken_away(page)
    assert before >= 20
    assert (after, handlers) == (0, 0)
