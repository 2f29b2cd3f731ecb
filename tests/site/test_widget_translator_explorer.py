"""The translator explorer on a page without a kernel: its numbers by every way of use, and for every reader.

What the page shows is compared with what PyTorch computes from the same files, so no number stands here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from ipywidgets import Widget
from playwright.sync_api import Locator, Page

from attnlab import tasks
from attnlab.export import TrainedTranslator, load_translator
from attnlab.widgets import TranslatorExplorer
from tests.site.widget_use import focused, frames, host_at, moving, press
from tools import translators
from tools.taken_away import single_parts, taken_away

pytestmark = pytest.mark.browser

SCHEMES = ("light", "dark")
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
PHRASE = "Tuesday, April 25, 2045"
STILL: dict[str, Any] = {"reduced_motion": "reduce"}
PAGE = "# Playground\n\n```{translator-explorer}\nSee lesson 9.\n```\n\n```{translator-effects}\n```\n"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """What PyTorch does here is too small for several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def folder(
    build_book: Callable[..., Any],
    make_notebook: Callable[..., str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A book with the playground's widget, a notebook's, and a copy whose French weights are German ones."""
    widget = TranslatorExplorer(translators.file_of("fr"), [("a", "b")], text=PHRASE)
    data = {VIEW: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}
    output = {"output_type": "display_data", "data": data, "metadata": {}}
    cells = [
        {"cell_type": "markdown", "source": "# Lesson"},
        {"cell_type": "code", "source": "show", "outputs": [output]},
    ]
    content = json.loads(make_notebook(*cells))
    content["metadata"]["widgets"] = {STATE: Widget.get_manager_state(widgets=[widget])}
    book = build_book(
        tmp_path_factory.mktemp("translator"), {"start.md": PAGE, "lesson.ipynb": json.dumps(content)}
    )
    assert book.code == 0, book.said
    files = {path.name.split(".")[0]: path for path in (book.html / "_static" / "translators").iterdir()}
    assert set(files) == set(translators.NAMES)
    wrong = files["de"].with_name("wrong.js")
    wrong.write_text(files["de"].read_text(encoding="utf-8").replace('["de"]', '["fr"]'), encoding="utf-8")
    spoilt = book.page("start").replace(files["fr"].name, wrong.name)
    assert spoilt != book.page("start")
    (book.html / "wrong.html").write_text(spoilt, encoding="utf-8")
    return book.html


@pytest.fixture(scope="module")
def url(folder: Path, serve_folder: Callable[[Path], str]) -> str:
    return serve_folder(folder)


@pytest.fixture
def shown(url: str, open_url: Callable[..., Page]) -> Callable[..., Locator]:
    """Function that opens a page and gives its widget, with its translator loaded."""

    def show(name: str = "start", *, loaded: bool = True, **options: Any) -> Locator:
        page = open_url(f"{url}{name}.html", **(STILL | options))
        view = host_at(page, 0).locator(".attnlab-widget")
        if loaded:
            load(view)
        return view

    return show


def load(view: Locator) -> None:
    view.get_by_role("button", name="Load the translator").click()
    finished(view)


def finished(view: Locator) -> dict[str, str]:
    """What the widget says of itself once it has computed everything."""
    view.page.wait_for_function("view => view.dataset.done === 'true'", arg=view.element_handle())
    return data(view)


def data(view: Locator) -> dict[str, str]:
    frames(view.page)
    return view.evaluate("view => ({ ...view.dataset })")


def write(view: Locator, text: str) -> dict[str, str]:
    """Type a phrase and wait for all of its translation."""
    view.locator("[data-trait=text]").fill(text)
    frames(view.page)
    return finished(view)


def said(view: Locator, fact: str) -> str:
    return view.locator(f"[data-fact={fact}]").inner_text()


def explorer(name: str, text: str) -> TranslatorExplorer:
    return TranslatorExplorer(translators.file_of(name), text=text)


def assert_shows(view: Locator, expected: TranslatorExplorer) -> None:
    """Words, probabilities and every head's weights of every step, step by step."""
    assert finished(view)["text"] == expected.translation()
    steps = expected.written()
    assert int(data(view)["steps"]) == len(steps)
    view.locator(".attnlab-words button").first.click()
    for place, step in enumerate(steps):
        assert int(data(view)["word"]) == place
        shares = view.locator("[data-probability]").evaluate_all(
            "all => all.map(row => +row.dataset.probability)"
        )
        np.testing.assert_allclose(shares, [share for _, share in step.top], rtol=0, atol=2e-5)
        for look, part in (("cross", step.cross), ("self", step.itself)):
            view.locator("[data-trait=look]").select_option(look)
            frames(view.page)
            assert_weights(view, np.array([head for layer in part for head in layer]))
        if place < len(steps) - 1:
            view.get_by_role("button", name="Step forward").click()


def assert_weights(view: Locator, expected: np.ndarray) -> None:
    """The table holds the weights, heads by keys, and the arcs the mean of the last layer's heads."""
    rows = view.locator(".attnlab-heads tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => +cell.dataset.weight))"
    )
    np.testing.assert_allclose(np.array(rows).T, expected, rtol=0, atol=2e-5)
    arcs = view.locator(".attnlab-arc").evaluate_all("all => all.map(arc => +arc.dataset.weight)")
    np.testing.assert_allclose(arcs, expected[len(expected) // 2 :].mean(axis=0), rtol=0, atol=2e-5)


# --- numbers
# --------------------------------------------------------------------------------------------------


def test_every_word_and_every_weight_is_pytorchs(shown):
    view = shown()
    write(view, PHRASE)
    assert_shows(view, explorer("fr", PHRASE))
    view.locator("[data-trait=look]").select_option("encoder")
    frames(view.page)
    translator = load_translator(translators.file_of("fr"))
    with torch.no_grad():
        layers = translator.model.encode(translator.source_rows([PHRASE]), need_weights=True).weights
    for query in range(3):
        assert_weights(view, np.concatenate([layer[0, :, query].numpy() for layer in layers]))
        view.get_by_role("button", name="Next word that looks").click()
        frames(view.page)


def test_the_weights_of_another_translator_are_noticed(shown):
    view = shown("wrong", strict=False)
    with pytest.raises(AssertionError):
        assert_shows(view, explorer("fr", PHRASE))


def test_a_lessons_own_widget_loads_the_file_of_its_language(shown):
    view = shown("lesson")
    assert_shows(view, explorer("fr", PHRASE))
    assert not view.locator("[data-trait=language]").is_visible()


def test_every_language_can_be_chosen(shown):
    view = shown()
    for name in ("de", "es", "zh"):
        view.locator("[data-trait=language]").select_option(name)
        load(view)
        assert write(view, "1.75 Swiss francs")["text"] == explorer(name, "1.75 Swiss francs").translation()
        assert view.locator(".attnlab-words").get_attribute("lang") == name
    view.locator("[data-trait=language]").select_option("fr")  # it is here already
    assert finished(view)["text"] == explorer("fr", "1.75 Swiss francs").translation()


def test_beams_stand_beside_greedy(shown):
    view, expected = shown(), explorer("fr", PHRASE)
    write(view, PHRASE)
    from attnlab.transformer import beam_search

    translator = load_translator(translators.file_of("fr"))
    for size in (4, 5):
        found = beam_search(
            translator.model,
            translator.source_rows([PHRASE]),
            beam_size=size,
            max_length=64,
            length_penalty=0.0,
        )
        rows = view.locator(".attnlab-candidates li")
        scores = rows.evaluate_all("all => all.map(row => +row.dataset.score)")
        np.testing.assert_allclose(scores, found.scores[0].numpy(), rtol=0, atol=1e-4)
        texts = [translator.target.decode(row) for row in found.tokens[0]]
        assert [
            text.startswith(wanted) for text, wanted in zip(rows.all_inner_texts(), texts, strict=True)
        ] == [True] * size
        view.locator("[data-trait=beams]").focus()
        press(view.page, "ArrowRight")
        frames(view.page)
        finished(view)
    assert view.locator(".attnlab-said").inner_text() == expected.translation()


PARTS = ["positions", "scale", "causal", "cross 0", "cross 1", "encoder 1 2", "self 0 0", "cross 1 3"]


def test_what_is_taken_away_changes_the_translation_as_in_pytorch(shown):
    view = shown()
    translator = load_translator(translators.file_of("fr"))
    write(view, PHRASE)
    options = view.locator("[data-trait=part] option").evaluate_all("all => all.map(one => one.value)")
    parts = single_parts(translator.model.config)
    assert set(options) == {"", *parts}
    measured = translators.stored()["translators"]["fr"]
    whole = data(view)["text"]
    for name in PARTS:
        view.locator("[data-trait=part]").select_option(name)
        frames(view.page)
        text = finished(view)["text"]
        model = taken_away(translator.model, parts[name])
        assert text == TrainedTranslator(model, translator.source, translator.target).translate([PHRASE])[0]
        before, after = (
            round(measured["phrases"] * share) for share in (measured["exact_match"], stored_share(name))
        )
        assert said(view, "effect") == (
            f"Of {measured['phrases']} held-out phrases {before} come out right with all parts, "
            f"and {after} without this one."
        )
        assert said(view, "part")
        wanted = "This phrase comes out the same." if text == whole else f"With all parts: {whole}"
        assert said(view, "whole") == wanted
    view.locator("[data-trait=part]").select_option("")
    frames(view.page)
    assert finished(view)["text"] == whole


def stored_share(name: str) -> float:
    effects = translators.stored()["translators"]["fr"]["effects"]
    where, *numbers = name.split()
    if not numbers:
        return effects[where]
    layer, *head = map(int, numbers)
    return effects["heads"][where][layer][head[0]] if head else effects["crossLayers"][layer]


def test_what_was_trained_without_the_mask_says_so(shown):
    view = shown()
    view.locator("[data-trait=language]").select_option("fr-no-mask")
    load(view)
    measured = translators.stored()["translators"]["fr-no-mask"]
    sentence = said(view, "trained")
    assert f"its loss fell to {measured['loss']}" in sentence
    right = round(measured["exact_match"] * measured["phrases"])
    assert f"{right} of {measured['phrases']} held-out phrases come out right" in sentence
    options = view.locator("[data-trait=part] option").evaluate_all("all => all.map(one => one.value)")
    assert "causal" not in options and "positions" in options
    assert write(view, PHRASE)["text"] != explorer("fr", PHRASE).translation()


KERNEL = """
async ([weights, phrases, text]) => {
  const host = attnlabHost;
  const bytes = Uint8Array.from(atob(weights), (letter) => letter.charCodeAt(0));
  const [old] = host.models.values();
  class Kernel extends host.Model {
    on(event, handler) {
      super.on(event, handler);
      if (event === "msg:custom") this.answer = handler;
    }
    send(message) {
      if (message.kind === "weights") this.answer({ kind: "weights" }, [new DataView(bytes.buffer)]);
    }
  }
  const model = new Kernel({ text, language: "fr", held_out: phrases, files: [] });
  const widget = attnlabModules[old.get("_esm")];
  const el = document.createElement("div");
  document.querySelector("main").append(el);
  globalThis.end = widget.render({ model, el });
  globalThis.kernel = model;
}
"""


def test_in_a_notebook_the_kernel_sends_the_weights_and_the_page_counts(shown):
    import base64

    view = shown(loaded=False)
    page = view.page
    path = translators.file_of("fr")
    pairs = tasks.split_pairs(tasks.translation_pairs(21_000, language="fr", seed=0), 1_000, seed=1)[1][:20]
    phrases = [[pair.source, pair.target] for pair in pairs]
    phrases[3][1] += "x"  # one that is wrong with all parts
    page.evaluate(KERNEL, [base64.b64encode(path.read_bytes()).decode(), phrases, PHRASE])
    mine = page.locator(".attnlab-widget").nth(1)
    assert finished(mine)["text"] == explorer("fr", PHRASE).translation()
    translator = load_translator(path)
    model = taken_away(translator.model, {"crossLayers": [0]})
    less = TrainedTranslator(model, translator.source, translator.target)
    counts = [
        sum(
            answer == wanted
            for answer, (_, wanted) in zip(one.translate([p[0] for p in phrases]), phrases, strict=True)
        )
        for one in (translator, less)
    ]
    assert counts[0] < len(phrases) and counts[1] < counts[0]
    mine.locator("[data-trait=part]").select_option("cross 0")
    sentence = (
        f"Of 20 held-out phrases {counts[0]} come out right with all parts, and {counts[1]} without this one."
    )
    mine.get_by_text(sentence).wait_for()
    page.evaluate("end()")
    assert page.evaluate("kernel.listeners") == 0
    assert page.locator(".attnlab-widget").count() == 1


# --- what readers type, and files that fail
# -------------------------------------------------------------------


REFUSED = [
    ("", "Type a date, a time, an amount of money or a number in English, or choose an example."),
    (
        "1" * 10_000,
        "This phrase has 10000 pieces, and the translator reads at most 63. Try a shorter one.",
    ),
    ("word " * 2_000, "This phrase has 2000 pieces, and the translator reads at most 63."),
]


def test_what_cannot_be_translated_gets_a_sentence(shown):
    view = shown()
    for text, says in REFUSED:
        view.locator("[data-trait=text]").fill(text)
        frames(view.page)
        assert said(view, "notes").startswith(says)
        assert data(view)["text"] == "" and data(view)["steps"] == "0"
        assert write(view, PHRASE)["text"] == explorer("fr", PHRASE).translation()


UNKNOWN = [
    ("Blursday, July 4, 1984", ["blursday"]),
    ("🙂🙃", ["🙂", "🙃"]),
    ("今天 July", ["今天"]),
    ("<img src=x onerror=alert(1)>", ["<", "img", "src", "=", "x", "5 more"]),
    ("x" * 10_000, ["x" * 24 + "…"]),
]


def test_unknown_words_are_named_and_nothing_is_run(shown):
    view = shown()
    for text, unknown in UNKNOWN:
        shows = write(view, text)
        assert shows["text"] == explorer("fr", text).translation()
        sentence = said(view, "notes")
        assert sentence.startswith("The translator has never seen ")
        for word in unknown:
            assert (word if "more" in word else f"“{word}”") in sentence
        assert view.locator("img, script").count() == 0


IMPOSSIBLE = [
    ("September 31, 2024", "September has 30 days."),
    ("february 29, 2023", "February 2023 has 28 days."),
    ("February 30, 4:06 AM", "February has 29 days."),
    ("Tuesday, July 4, 1984", "July 4, 1984, is a Wednesday."),
    ("March 8, 13:22 PM", "No clock shows 13:22 pm."),
    ("March 8, 6:72 PM", "No clock shows 6:72 pm."),
    ("February 29, 1900", "February 1900 has 28 days."),
    ("February 29, 2022", "February 2022 has 28 days."),
    ("February 29, 2000", ""),
    ("February 29, 2024", ""),
    ("WEDNESDAY, JULY 4, 1984", ""),
    ("March 8, 12:00 AM", ""),
]


def test_what_does_not_exist_gets_a_caution(shown):
    view = shown()
    for text, says in IMPOSSIBLE:
        assert write(view, text)["text"] == explorer("fr", text).translation()
        assert (said(view, "notes") if says else view.locator("[data-fact=notes]").text_content()).startswith(
            says
        )
        assert view.locator("[data-fact=notes]").is_visible() == bool(says)


def test_a_load_that_fails_can_be_tried_again(shown):
    view = shown(loaded=False, strict=False)
    page = view.page
    page.route("**/_static/translators/*", lambda route: route.abort())
    view.get_by_role("button", name="Load the translator").click()
    again = view.get_by_role("button", name="Try again")
    again.wait_for()
    assert "could not be loaded" in view.locator(".attnlab-start").inner_text()
    page.unroute("**/_static/translators/*")
    again.click()
    assert finished(view)["text"] == explorer("fr", "Wednesday, July 4, 1984").translation()


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ('(globalThis.attnlabFiles ??= {})["fr"] = "AAAA";', "is damaged"),
        ('(globalThis.attnlabFiles ??= {})["fr"] = "!";', "could not be loaded"),
        ("", "could not be loaded"),
    ],
)
def test_a_file_that_cannot_be_read_gets_a_sentence(shown, script, says):
    view = shown(loaded=False)
    page = view.page
    page.route(
        "**/_static/translators/fr.*",
        lambda route: route.fulfill(body=script, content_type="text/javascript"),
    )
    view.get_by_role("button", name="Load the translator").click()
    view.get_by_role("button", name="Try again").wait_for()
    assert says in view.locator(".attnlab-start").inner_text()


# --- for every reader
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_by_keyboard_alone(shown, scheme):
    view, expected = shown(scheme=scheme, loaded=False), explorer("fr", "Wednesday, July 4, 1984")
    page = view.page
    view.locator("[data-trait=language]").focus()
    press(page, "Tab", "Enter")
    finished(view)
    assert focused(page, "at.className") == "attnlab-body"  # the button that had it is gone
    spoken = view.locator("[aria-live=polite]")
    spoken.get_by_text(f"Translation: {expected.translation()}.").wait_for(state="attached")
    view.locator("[data-trait=text]").focus()
    press(page, "Shift+Tab", "Tab")
    assert focused(page) == "text"
    press(page, "Tab")
    assert focused(page) == "example"
    press(page, "Tab")
    assert focused(page) == "button"
    for key, place in (("End", 7), ("ArrowLeft", 6), ("Home", 0), ("ArrowRight", 1)):
        press(page, key)
        assert int(data(view)["word"]) == place
    press(page, "Tab")  # over the other words to the buttons
    assert focused(page, "at.getAttribute('aria-label')") == "Step back"
    press(page, "Enter")
    assert int(data(view)["word"]) == 0
    spoken.get_by_text("Word 1 of 8, mercredi").wait_for(state="attached")
    assert f"Translation: {expected.translation()}." in spoken.text_content()
    view.locator("summary").focus()
    press(page, "Enter")
    view.locator(".attnlab-values tbody tr").first.wait_for()
    cells = view.locator(".attnlab-values tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    step = expected.written()[0]
    table = np.array([[float(cell) for cell in row[1:]] for row in cells[: len(step.cross[0][0])]])
    np.testing.assert_allclose(table.T, np.concatenate(step.cross), rtol=0, atol=6e-5)


def test_it_is_written_word_by_word_where_motion_is_welcome(shown):
    view = shown(reduced_motion="no-preference")
    counts = view.evaluate(
        """async (view) => {
          const seen = [];
          const row = view.querySelector(".attnlab-words");
          new MutationObserver(() => seen.push(row.children.length)).observe(row, { childList: true });
          view.querySelector("[aria-label='Write again']").click();
          const words = Number(view.dataset.steps);
          const ends = () => seen.some((count) => count < words) && row.children.length === words;
          while (!ends()) await new Promise(requestAnimationFrame);
          return [seen.filter((count, at) => count !== seen[at - 1]), words];
        }"""
    )
    seen, words = counts
    rising = seen[seen.index(min(seen)) :]
    assert rising == sorted(rising) and rising[-1] == words and rising[0] < words


COUNT_DRAWINGS = """async (view) => {
  const frames = async () => { for (let i = 0; i < 4; i += 1) await new Promise(requestAnimationFrame); };
  let drawings = 0;
  const count = new MutationObserver((changes) => (drawings += changes.length));
  count.observe(view, { attributeFilter: ["data-word"] });
  const counts = [];
  for (const change of [
    () => view.querySelector("[aria-label='Step forward']").click(),
    () => (view.style.width = "300px"),
  ]) {
    const heightBefore = view.clientHeight;
    drawings = 0;
    change();
    await frames();
    counts.push([drawings, view.clientHeight !== heightBefore]);
  }
  return counts;
}"""


def test_another_height_is_not_drawn_again_but_another_width_is(shown):
    view = shown(width=1280)
    write(view, "thirty-nine thousand, seven hundred and seventy-eight")
    view.locator("[data-trait=look]").select_option("self")  # a row more with every word
    frames(view.page, 4)
    (steps, taller), (resizes, _) = view.evaluate(COUNT_DRAWINGS)
    assert taller and steps == 1
    assert resizes == 1


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_no_page_scrolls_sideways_and_controls_are_large_enough(shown, width):
    touch = width < 500
    view = shown(width=width, has_touch=touch, is_mobile=touch)
    write(view, "thirty-nine thousand, seven hundred and seventy-eight")
    assert view.page.evaluate("document.documentElement.scrollWidth") <= width
    outer = view.bounding_box()
    assert outer["x"] >= 0 and outer["x"] + outer["width"] <= width
    for part in view.locator(".attnlab-arcs text, .attnlab-words button, .attnlab-bars li > span").all():
        box = part.bounding_box()
        assert box["x"] >= outer["x"] and box["x"] + box["width"] <= outer["x"] + outer["width"]
    if touch:
        for control in view.locator("select, input, .attnlab-words button, .attnlab-buttons button").all():
            box = control.bounding_box()
            if box is not None:
                assert min(box["width"], box["height"]) >= 44, control


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing(shown, scheme):
    view = shown(scheme=scheme)
    view.locator("[data-trait=part]").select_option("positions")
    frames(view.page)
    finished(view)
    view.locator("summary").click()
    frames(view.page)
    view.page.evaluate("document.querySelector('meta[http-equiv]')?.remove()")
    violations = Axe().run(view.page, context=".attnlab-widget").response["violations"]
    assert [(found["id"], found["nodes"][0]["html"]) for found in violations] == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_forced_colours_keep_every_part_in_sight(shown, scheme):
    view = shown(scheme=scheme, forced_colors="active")
    colour = "(node, name) => getComputedStyle(node)[name]"
    background = view.evaluate(colour, "backgroundColor")
    for part, name in (
        (".attnlab-arc", "stroke"),
        (".attnlab-arc-key", "fill"),
        (".attnlab-arc-query", "fill"),
        (".attnlab-bar", "backgroundColor"),
        (".attnlab-words [aria-pressed=true]", "backgroundColor"),
        (".attnlab-heads td", "color"),
    ):
        assert view.locator(part).first.evaluate(colour, name) != background, part


def test_nothing_moves_by_itself(shown):
    view = shown()
    assert view.evaluate("view => view.getAnimations({ subtree: true }).length") == 0
    assert moving(view) == 0


def test_nothing_listens_once_the_widget_is_taken_away(url, open_url):
    page = open_url("about:blank", strict=False, **STILL)
    page.add_init_script(
        """
        window.alive = 0;
        const add = EventTarget.prototype.addEventListener;
        EventTarget.prototype.addEventListener = function (type, handler, options) {
          if (options?.signal && this instanceof Element) {
            window.alive++;
            add.call(options.signal, "abort", () => window.alive--, { once: true });
          }
          return add.call(this, type, handler, options);
        };
        """
    )
    page.goto(f"{url}start.html")
    load(host_at(page, 0).locator(".attnlab-widget"))
    before, after, left = page.evaluate(
        """async () => {
          const host = attnlabHost;
          const count = () =>
            [...host.models.values()].reduce((total, model) => total + model.listeners, window.alive);
          const before = count();
          [...host.models.values()][0].set("text", "May 1, 2001"); // work, a frame and an announcement wait
          document.querySelectorAll(".attnlab-host").forEach(host.dispose);
          await new Promise((resolve) => setTimeout(resolve, 700));
          return [before, count(), document.querySelectorAll(".attnlab-widget").length];
        }"""
    )
    assert before > 10
    assert (after, left) == (0, 0)
    assert page.problems == []


def test_no_weights_are_in_the_page_and_none_are_loaded_unasked(url, open_url):
    page = open_url("about:blank")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for name in ("start", "lesson"):
        page.goto(f"{url}{name}.html", wait_until="load")
        host_at(page, 0)
        state = page.locator(f'script[type="{STATE}"]').text_content()
        assert len(state) < 16_000
        assert not re.search(r"[A-Za-z0-9+/]{200}", state)
    assert not [address for address in asked if "/translators/" in address]


def test_without_scripts_a_table_says_what_was_measured(folder):
    page = (folder / "start.html").read_text(encoding="utf-8")
    table = re.search(r"<table.*?</table>", page, re.DOTALL)[0]
    measured = translators.stored()["translators"]
    for name in ("fr", "de", "es", "zh"):
        for share in (measured[name]["exact_match"], measured[name]["effects"]["positions"]):
            assert f"<p>{round(measured[name]['phrases'] * share)}</p>" in table
    assert re.search(r'<div class="attnlab-host"[^>]*><p>See lesson 9.</p></div>', page)
