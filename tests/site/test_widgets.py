"""The widgets on pages without a kernel: their numbers, every way to use them, and the host that runs them.

The numbers that a page shows are compared with what Python computes from the state that the notebook stores,
so no number stands in this file. All of it runs on a small book of hard cases, and what readers do also on
the lessons.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page

from attnlab.widgets import AttentionExplorer, GradientExplorer
from tests.site.widget_use import centre, focused, frames, press, said, spoil

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]
SCHEMES = ("light", "dark")
# Nothing but files of the site: no inline script, no eval, no blob.
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"

CELLS = [
    """
import ipywidgets
import numpy as np
from attnlab.widgets import AttentionExplorer, GradientExplorer

draw = np.random.default_rng(0).normal
words = "The cat sat on the mat because it was tired".split()
steps = np.arange(121)
""",
    "explorer = AttentionExplorer(words, draw(size=(3, 10, 16)), draw(size=(3, 10, 16)), row=7)\nexplorer",
    """
flat = np.where(steps, 0.11, 1)
GradientExplorer({"gone": 0.01**steps, "fading": 0.9**steps, "flat": flat, "<b>grown</b>": 1.01**steps})
""",
    "explorer",
    """
linked = AttentionExplorer(words, draw(size=(10, 4)), draw(size=(10, 4)), mask="causal")
link = ipywidgets.jslink((explorer, "row"), (linked, "row"))
linked
""",
    """
many = [f"<i>{n}</i> & more" for n in range(32)]
AttentionExplorer(many, draw(size=(32, 2)), draw(size=(32, 2)), row=20)
""",
]
ROUGH_CELLS = [
    """
import anywidget
import ipywidgets
from attnlab.widgets import GradientExplorer

class Broken(anywidget.AnyWidget):
    _esm = "export default { render({ el }) { el.append('half'); throw new Error('broken on purpose'); } }"

Broken()
""",
    "ipywidgets.IntSlider(3)",
    'GradientExplorer({"whole": [1.0, 0.5]})',
]
EXPLORER, GRADIENT, SECOND_VIEW, LINKED, LONG = range(5)  # the views of the first page, in order


# --- a book of hard cases, and the lessons
# --------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """A widget's state as a notebook stores it, with its bytes decoded."""

    model_id: str
    state: dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A page with widgets and the notebook that it was built from."""

    url: str
    notebook: Path

    def stored(self, kind: str) -> Stored:
        """The first widget of a kind whose view the notebook shows."""
        content = json.loads(self.notebook.read_text(encoding="utf-8"))
        models = content["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
        for cell in content["cells"]:
            for output in cell.get("outputs", []):
                view = output.get("data", {}).get("application/vnd.jupyter.widget-view+json")
                if view and models[view["model_id"]]["state"].get("_anywidget_id", "").endswith(f".{kind}"):
                    model = models[view["model_id"]]
                    buffers = {part["path"][0]: base64.b64decode(part["data"]) for part in model["buffers"]}
                    return Stored(view["model_id"], {**model["state"], **buffers})
        pytest.fail(f"{self.notebook} shows no {kind}")


def write_notebook(path: Path, sources: list[str]) -> None:
    contents = "\n\n```{toctree}\nrough\n```" if path.stem == "index" else ""
    cells = [{"cell_type": "markdown", "id": "title", "metadata": {}, "source": f"# Hard cases{contents}"}]
    for number, source in enumerate(sources):
        cells.append(
            {
                "cell_type": "code",
                "id": f"cell-{number}",
                "metadata": {},
                "source": source.strip(),
                "outputs": [],
                "execution_count": None,
            }
        )
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(content), encoding="utf-8")


def run(*command: object) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", *map(str, command)], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the book: run once, built with the host alone, under a policy that forbids inline scripts."""
    folder = tmp_path_factory.mktemp("book")
    notebooks = [folder / "index.ipynb", folder / "rough.ipynb"]
    for notebook, sources in zip(notebooks, (CELLS, ROUGH_CELLS), strict=True):
        write_notebook(notebook, sources)
    run("jupyter", "execute", "--inplace", *notebooks)
    (folder / "conf.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT / 'book' / 'site')!r})\nproject = 'Hard cases'\n"
        "extensions = ['myst_nb', 'widget_host']\nnb_execution_mode = 'off'\n"
        "html_theme = 'basic'\nhtml_sidebars = {'**': []}\nhtml_theme_options = {'body_min_width': 0}\n",
        encoding="utf-8",
    )
    run("sphinx", "-q", "-W", "-n", "-b", "html", folder, folder / "html")
    head = '<head><meta name="viewport" content="width=device-width">'
    head += f'<link rel="icon" href="data:,"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    for name in ("index", "rough"):
        path = folder / "html" / f"{name}.html"
        page = path.read_text(encoding="utf-8").replace("<head>", head, 1)
        page = page.replace(' style="margin-right: 10px"', "")  # Sphinx's own
        path.write_text(page, encoding="utf-8")
        if name == "index":
            (folder / "html" / "wrong.html").write_text(
                spoil("query|curves", lambda number: 0.999 * number + 1e-3)(page), encoding="utf-8"
            )
    return folder


@pytest.fixture(scope="module")
def book_url(book: Path, serve_folder: Callable[[Path], str]) -> str:
    return serve_folder(book / "html")


@pytest.fixture
def hard(book: Path, book_url: str) -> Source:
    return Source(f"{book_url}index.html", book / "index.ipynb")


LESSONS = {"AttentionExplorer": "03_query_key_value", "GradientExplorer": "01_recurrence_limits"}


@pytest.fixture(params=["hard cases", "lesson"])
def source(request: pytest.FixtureRequest) -> Callable[[str], Source]:
    """Function that gives the page to test for a kind of widget: of the small book, then of the website."""

    def find(kind: str) -> Source:
        if request.param == "hard cases":
            return request.getfixturevalue("hard")
        path = f"notebooks/{LESSONS[kind]}"
        return Source(f"{request.getfixturevalue('site_url')}{path}.html", ROOT / f"{path}.ipynb")

    return find


def view_of(page: Page, stored: Stored) -> Locator:
    """The widget of a stored state, started and in sight."""
    place = page.locator(f'.attnlab-host[data-model="{stored.model_id}"]').first
    place.scroll_into_view_if_needed()
    page.wait_for_function("place => place.dataset.state === 'ready'", arg=place.element_handle())
    place.scroll_into_view_if_needed()
    return place.locator(".attnlab-widget")


def all_started(page: Page) -> None:
    page.wait_for_function(
        "() => [...document.querySelectorAll('.attnlab-host')].every(place => place.dataset.state)"
    )


# --- what is shown, and what it should be
# ---------------------------------------------------------------------


def attention(stored: Stored) -> AttentionExplorer:
    """The widget in Python that a stored state describes."""
    state = stored.state
    query, key = (np.frombuffer(state[name], "<f4").reshape(state["shape"]) for name in ("query", "key"))
    settings = ("temperature", "dimensions", "scaled", "mask", "head", "row")
    return AttentionExplorer(state["tokens"], query, key, **{name: state[name] for name in settings})


def gradient(stored: Stored) -> GradientExplorer:
    state = stored.state
    curves = np.frombuffer(state["curves"], "<f4").reshape(len(state["names"]), -1)
    named = dict(zip(state["names"], curves, strict=True))
    return GradientExplorer(named, distance=state["distance"], hidden=state["hidden"])


def assert_attention(view: Locator, expected: AttentionExplorer) -> None:
    """Every weight in the matrix, and what the widget says in words about the chosen row, are Python's."""
    frames(view.page)
    length = len(expected.tokens)
    shown = view.evaluate(
        "view => [...view.querySelectorAll('[data-weight]')].map(cell => +cell.dataset.weight)"
    )
    weights = expected.weights()
    np.testing.assert_allclose(np.reshape(shown, (length, length)), weights, rtol=0, atol=1e-12)
    assert view.get_attribute("data-row") == str(expected.row)
    row = weights[expected.row]
    entropy = -sum(weight * np.log(weight) for weight in row if weight > 0)
    assert float(view.get_attribute("data-entropy")) == pytest.approx(entropy, abs=1e-9)
    fact = view.locator(".attnlab-fact").first.inner_text()
    numbers = [
        float(number) for number in re.findall(r"\d+\.\d\d", fact.replace(expected.tokens[row.argmax()], ""))
    ]
    assert numbers[:2] == pytest.approx([row.max(), entropy], abs=0.00501)
    selected = view.locator('[role="option"][aria-selected="true"]')
    assert selected.get_attribute("data-row") == str(expected.row)
    assert selected.get_attribute("aria-label").startswith(expected.tokens[expected.row])


def assert_gradient(view: Locator, expected: GradientExplorer) -> None:
    """The value of every model at the cursor is Python's, as a number, in words and in the switched state."""
    frames(view.page)
    assert view.get_attribute("data-distance") == str(expected.distance)
    rows = view.locator("[data-model]").evaluate_all(
        "rows => rows.map(row => [row.dataset.model, +row.dataset.value, row.querySelector('input').checked,"
        " row.querySelector('.attnlab-number').textContent, row.querySelector('.attnlab-words').textContent])"
    )
    values = expected.at()
    assert {name: value for name, value, *_ in rows} == values
    for name, value, on, number, words in rows:
        assert on == (name not in expected.hidden)
        if not on:
            assert (number, words) == ("", "switched off")
        elif value == 0:
            assert words.startswith("underflow")
        else:
            assert as_float(number) == pytest.approx(value, rel=0.0501)
            assert in_words(words) == pytest.approx(value, rel=0.0501)


RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")


def as_float(text: str) -> float:
    mantissa, _, exponent = text.translate(RAISED).partition(" × 10")
    return float(mantissa) * 10.0 ** int(exponent or 0)


def in_words(text: str) -> float:
    """The share that the words name."""
    if text == "all of it":
        return 1.0
    if text.endswith(" %"):
        return float(text.removesuffix(" %")) / 100
    if text.endswith(" times as much"):
        return float(text.removesuffix(" times as much"))
    number, _, unit = text.removeprefix("1 part in ").partition(" ")
    units = ["", "thousand", "million", "billion", "trillion", "quadrillion", "quintillion"]
    if unit not in units:
        return 1 / as_float(text.removeprefix("1 part in "))
    return 1 / (float(number) * 1000 ** units.index(unit))


# --- numbers, by keyboard
# -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_attention_by_keyboard_alone(source, open_url, scheme):
    found = source("AttentionExplorer")
    page = open_url(found.url, scheme=scheme)
    stored = found.stored("AttentionExplorer")
    view, expected = view_of(page, stored), attention(stored)
    assert_attention(view, expected)

    view.locator("input").first.focus()
    press(page, "Shift+Tab", "Tab")  # reached by the keyboard, so that the focus must show
    assert focused(page) == "temperature"
    press(page, *["ArrowRight"] * 5)
    expected.temperature = round(expected.temperature + 0.5, 10)
    assert_attention(view, expected)

    press(page, "Tab")
    assert focused(page) == "dimensions"
    press(page, "ArrowLeft")
    expected.dimensions -= 1
    assert_attention(view, expected)

    press(page, "Tab")
    assert focused(page) == "scaled"
    press(page, "Space")
    expected.scaled = not expected.scaled
    assert_attention(view, expected)

    press(page, "Tab")
    assert focused(page) == "mask"
    for mask, key in (("none", "Home"), ("causal", "End")):
        press(page, key)
        expected.mask = mask
        assert_attention(view, expected)

    press(page, "Tab")
    if expected.shape[0] > 1:
        assert focused(page) == "head"
        press(page, "End")
        expected.head = expected.shape[0] - 1
        assert_attention(view, expected)
        press(page, "Tab")

    assert focused(page) == "listbox"
    for key, row in (("Home", 0), ("ArrowUp", 0), ("ArrowDown", 1), ("End", -1), ("ArrowUp", -2)):
        press(page, key)
        expected.row = row % len(expected.tokens)
        assert_attention(view, expected)
    assert view.locator("[role=listbox]").get_attribute("aria-activedescendant").endswith(f"-{expected.row}")
    said(view, f"{expected.tokens[expected.row]}.")

    press(page, "Tab", "Tab", "Tab")  # over the two buttons
    assert focused(page) == "summary"
    press(page, "Enter")
    frames(page)
    table = view.locator("td").all_inner_texts()
    weights = expected.weights()
    masked = np.triu(np.ones_like(weights, dtype=bool), 1).ravel()
    assert [text == "masked" for text in table] == masked.tolist()
    numbers = [float(text) for text in table if text != "masked"]
    np.testing.assert_allclose(numbers, weights.ravel()[~masked], rtol=0, atol=0.0000501)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradient_by_keyboard_alone(source, open_url, scheme):
    found = source("GradientExplorer")
    page = open_url(found.url, scheme=scheme)
    stored = found.stored("GradientExplorer")
    view, expected = view_of(page, stored), gradient(stored)
    assert_gradient(view, expected)
    last = len(np.frombuffer(stored.state["curves"], "<f4")) // len(stored.state["names"]) - 1

    view.locator("input").first.focus()
    press(page, "Shift+Tab", "Tab")
    assert focused(page) == "input"
    for key, distance in (
        ("Home", 0),
        ("ArrowRight", 1),
        ("ArrowRight", 2),
        ("End", last),
        ("ArrowLeft", last - 1),
    ):
        press(page, key)
        expected.distance = distance
        assert_gradient(view, expected)
    shown = expected.names[0]
    said(view, f"Distance {last - 1}. {shown}: ")

    press(page, "Tab")
    focused(page)
    press(page, "Space")
    expected.hidden = [shown]
    assert_gradient(view, expected)
    assert view.locator(".attnlab-chart polyline").count() == len(expected.names) - 1
    press(page, "Space")
    expected.hidden = []
    assert_gradient(view, expected)

    press(page, *["Tab"] * len(expected.names), "Enter")
    frames(page)
    rows = [row.split("\t") for row in view.locator("tbody tr").all_inner_texts()]
    assert [str(last - 1), str(last)] == [row[0] for row in rows[-2:]]
    for distance, *cells in rows:
        for text, value in zip(cells, expected.at(int(distance)).values(), strict=True):
            assert text == "underflow" if value == 0 else as_float(text) == pytest.approx(value, rel=0.00501)


# --- numbers, by pointer and by touch
# -------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", SCHEMES)
def test_attention_by_pointer(source, open_url, scheme):
    found = source("AttentionExplorer")
    page = open_url(found.url, scheme=scheme)
    stored = found.stored("AttentionExplorer")
    view, expected = view_of(page, stored), attention(stored)
    page.mouse.click(*centre(view.locator("[data-trait=temperature]")))
    expected.temperature = float(view.locator("[data-trait=temperature]").input_value())
    assert 1.9 <= expected.temperature <= 2.2  # the middle of 0.1 to 4
    view.locator("[data-trait=scaled]").click()
    expected.scaled = not expected.scaled
    view.locator("[data-trait=mask]").select_option("causal")
    expected.mask = "causal"
    assert_attention(view, expected)

    cell = '[data-row="{}"] [data-key="{}"]'
    page.mouse.move(*centre(view.locator(cell.format(2, 1))))
    assert_attention(view, expected)  # passing over chooses nothing
    page.mouse.down()
    expected.row = 2
    assert_attention(view, expected)
    page.mouse.move(*centre(view.locator(cell.format(3, 0))), steps=4)  # drag
    page.mouse.up()
    expected.row = 3
    assert_attention(view, expected)
    weight = float(view.locator(".attnlab-fact").last.inner_text().split("weight ")[1].removesuffix("."))
    assert weight == pytest.approx(expected.weights()[3, 0], abs=0.0000501)
    view.get_by_role("button", name="Previous query").click()
    expected.row = 2
    assert_attention(view, expected)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradient_by_pointer(source, open_url, scheme):
    found = source("GradientExplorer")
    page = open_url(found.url, scheme=scheme)
    stored = found.stored("GradientExplorer")
    view, expected = view_of(page, stored), gradient(stored)
    slider, chart = view.locator("input[type=range]"), view.locator(".attnlab-chart")
    last = int(slider.get_attribute("max"))
    handle = slider.bounding_box()  # as long as the axis, and half a handle longer on either side
    at = [handle["x"] + 10 + (handle["width"] - 20) * share for share in (0, 0.25, 0.5, 1)]
    y = centre(chart)[1]
    page.mouse.move(at[1], y)
    assert_gradient(view, expected)  # passing over moves nothing
    page.mouse.down()
    page.mouse.move(at[2], y, steps=5)
    expected.distance = int(slider.input_value())
    assert expected.distance == pytest.approx(last / 2, abs=0.51)
    assert_gradient(view, expected)
    cursor = view.locator(".attnlab-cursor line").bounding_box()
    assert cursor["x"] == pytest.approx(at[2], abs=(handle["width"] / last) + 1)
    page.mouse.move(at[3] + 300, y)  # beyond the end
    page.mouse.up()
    expected.distance = last
    assert_gradient(view, expected)
    page.mouse.move(at[0], y)  # the button is up
    assert_gradient(view, expected)
    view.get_by_role("checkbox").first.click()
    expected.hidden = [expected.names[0]]
    assert_gradient(view, expected)


PHONE: dict[str, Any] = {"width": 390, "has_touch": True, "is_mobile": True}


def drag_by_finger(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    session = page.context.new_cdp_session(page)
    steps = [
        (start[0] + (end[0] - start[0]) * i / 5, start[1] + (end[1] - start[1]) * i / 5) for i in range(6)
    ]
    kinds = ["touchStart", *["touchMove"] * 5]
    for kind, (x, y) in zip(kinds, steps, strict=True):
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


@pytest.mark.parametrize("scheme", SCHEMES)
def test_attention_by_touch(source, open_url, scheme):
    found = source("AttentionExplorer")
    page = open_url(found.url, scheme=scheme, **PHONE)
    stored = found.stored("AttentionExplorer")
    view, expected = view_of(page, stored), attention(stored)
    view.locator("[data-trait=scaled]").tap()
    expected.scaled = not expected.scaled
    page.touchscreen.tap(*centre(view.locator("[data-trait=temperature]")))
    expected.temperature = float(view.locator("[data-trait=temperature]").input_value())
    page.touchscreen.tap(*centre(view.locator('[data-row="1"] [data-key="2"]')))
    expected.row = 1
    assert_attention(view, expected)
    assert view.get_attribute("data-key") == "2"
    view.get_by_role("button", name="Previous query").tap()
    expected.row = 0
    assert_attention(view, expected)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_gradient_by_touch(source, open_url, scheme):
    found = source("GradientExplorer")
    page = open_url(found.url, scheme=scheme, **PHONE)
    stored = found.stored("GradientExplorer")
    view, expected = view_of(page, stored), gradient(stored)
    slider = view.locator("input[type=range]")
    _, y = centre(view.locator(".attnlab-chart"))
    box = slider.bounding_box()
    left, length = box["x"] + 10, box["width"] - 20
    before = page.evaluate("scrollY")
    drag_by_finger(page, (left + 0.2 * length, y), (left + 0.7 * length, y + 2))
    expected.distance = int(slider.input_value())
    assert expected.distance == pytest.approx(0.7 * int(slider.get_attribute("max")), abs=1)
    assert_gradient(view, expected)
    assert page.evaluate("scrollY") == before
    drag_by_finger(page, (left + 0.5 * length, y), (left + 0.5 * length, y - 120))
    page.wait_for_function("before => scrollY > before + 50", arg=before)  # a finger that moves up scrolls on
    view.get_by_role("checkbox").first.tap()
    expected.distance = int(slider.input_value())
    expected.hidden = [expected.names[0]]
    assert_gradient(view, expected)


@pytest.mark.parametrize(
    ("kind", "oracle", "compare"),
    [("AttentionExplorer", attention, assert_attention), ("GradientExplorer", gradient, assert_gradient)],
)
def test_a_wrong_number_is_noticed(hard, open_url, kind, oracle, compare):
    stored = hard.stored(kind)
    expected = oracle(stored)
    if kind == "GradientExplorer":
        expected.distance = 1
    for name, right in (("index", True), ("wrong", False)):
        page = open_url(hard.url.replace("index", name), strict=False)
        view = view_of(page, stored)
        if kind == "GradientExplorer":
            view.locator("input").first.focus()
            press(page, "ArrowRight")
        if right:
            compare(view, expected)
        else:
            with pytest.raises(AssertionError):
                compare(view, expected)


# --- for every reader
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [320, 390, 1280])
@pytest.mark.parametrize("kind", LESSONS)
def test_no_page_scrolls_sideways(source, open_url, kind, width):
    found = source(kind)
    page = open_url(found.url, width=width, strict=False, has_touch=width < 500, is_mobile=width < 500)
    all_started(page)
    frames(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for place in page.locator(".attnlab-host").all():
        box = place.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
    if width < 500:
        for control in (
            view_of(page, found.stored(kind)).locator("button, select, .attnlab-check, [type=range]").all()
        ):
            box = control.bounding_box()
            assert min(box["width"], box["height"]) >= 44


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", LESSONS)
def test_axe_finds_nothing(source, open_url, kind, scheme):
    found = source(kind)
    page = open_url(found.url, scheme=scheme, strict=False)
    view = view_of(page, found.stored(kind))
    view.locator("summary").click()
    page.evaluate("document.querySelector('meta[http-equiv]')?.remove()")
    violations = Axe().run(page, context=".attnlab-widget").response["violations"]
    assert [(found["id"], found["nodes"][0]["html"]) for found in violations] == []


DARK = [
    "html[data-theme=dark]",
    "body[data-jp-theme-light=false]",
    "body[data-vscode-theme-kind=vscode-dark]",
]
LIGHT = [
    "html[data-theme=light]",
    "body[data-jp-theme-light=true]",
    "body[data-vscode-theme-kind=vscode-light]",
]


@pytest.mark.parametrize("mark", DARK + LIGHT)
def test_the_page_around_decides_light_or_dark(hard, open_url, mark):
    element, name, value = re.fullmatch(r"(\w+)\[(.+)=(.+)\]", mark).groups()
    opposite = "light" if mark in DARK else "dark"
    page = open_url(hard.url, scheme=opposite, strict=False)
    view = view_of(page, hard.stored("AttentionExplorer"))
    colours = "view => [getComputedStyle(view).backgroundColor, getComputedStyle(view).color]"
    before = view.evaluate(colours)
    page.evaluate(
        "([element, name, value]) => document.querySelector(element).setAttribute(name, value)",
        [element, name, value],
    )
    after = view.evaluate(colours)
    assert before != after
    brightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in after]
    assert (brightness[0] < brightness[1]) == (mark in DARK)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_forced_colours_keep_the_map_readable(hard, open_url, scheme):
    page = open_url(hard.url, scheme=scheme, forced_colors="active")
    view = view_of(page, hard.stored("AttentionExplorer"))
    colour = "(node, name) => getComputedStyle(node)[name]"
    background = view.evaluate(colour, "backgroundColor")
    for part, name in (
        (".attnlab-cell", "fill"),
        (".attnlab-query", "fill"),
        (".attnlab-bar", "backgroundColor"),
    ):
        assert view.locator(part).first.evaluate(colour, name) != background


def test_a_burst_of_changes_is_drawn_once_and_announced_once(hard, open_url):
    page = open_url(hard.url)
    view = view_of(page, hard.stored("AttentionExplorer"))
    counts = view.evaluate(
        """async (view) => {
          const slider = view.querySelector("[data-trait=temperature]");
          const frame = () => new Promise(requestAnimationFrame);
          await frame();
          const seen = { drawn: 0, said: 0 };
          const watch = (node, name, options) => new MutationObserver((all) => (seen[name] +=
          all.length)).observe(node, options); watch(view.querySelector("[data-weight]"), "drawn", {
          attributeFilter: ["data-weight"] }); watch(view.querySelector("[aria-live]"), "said", { childList:
          true }); for (let i = 0; i < 50; i++) {
            slider.value = 0.1 + i / 20;
            slider.dispatchEvent(new Event("input"));
          }
          await frame();
          await frame();
          await new Promise((resolve) => setTimeout(resolve, 900));
          return { ...seen, last: slider.value };
        }"""
    )
    assert counts == {"drawn": 1, "said": 1, "last": "2.6"}
    expected = attention(hard.stored("AttentionExplorer"))
    expected.temperature = 2.6
    assert_attention(view, expected)


# --- the host
# -------------------------------------------------------------------------------------------------


@pytest.fixture
def places(hard, open_url) -> list[Locator]:
    """The places for views on the page of hard cases, in order, all started."""
    page = open_url(hard.url)
    all_started(page)
    return page.locator(".attnlab-host").all()


@pytest.fixture
def rough(book_url, open_url) -> Page:
    """A page with a widget that fails, a control of ipywidgets, and a widget that works."""
    page = open_url(f"{book_url}rough.html", strict=False)
    all_started(page)
    assert page.outside == []
    assert [problem for problem in page.problems if "broken on purpose" not in problem] == []
    return page


def test_views_of_one_model_and_linked_models_move_together(places):
    page = places[0].page
    places[EXPLORER].locator("[role=listbox]").focus()
    press(page, "End")
    frames(page)
    for place in (EXPLORER, SECOND_VIEW, LINKED):
        assert places[place].locator(".attnlab-widget").get_attribute("data-row") == "9"
    places[LINKED].locator("[role=listbox]").focus()
    press(page, "Home")
    frames(page)
    assert places[EXPLORER].locator(".attnlab-widget").get_attribute("data-row") == "0"
    assert places[LONG].locator(".attnlab-widget").get_attribute("data-row") == "20"  # not linked


def test_a_widget_that_fails_leaves_a_sentence_and_the_others_alone(rough):
    places = rough.locator(".attnlab-host")
    assert places.evaluate_all("all => all.map(place => place.dataset.state)") == ["failed", "ready"]
    assert places.first.inner_text() == (
        "This interactive figure could not start. The figure above it makes the same point."
    )
    assert places.last.locator("[data-model=whole]").get_attribute("data-value") == "1"


def test_a_control_that_needs_a_kernel_is_a_note(rough):
    notes = rough.locator(".attnlab-needs-kernel").all_inner_texts()
    assert len(notes) == 1
    assert "needs a kernel: open" in notes[0]
    assert rough.locator(".jupyter-widgets, script[type*=widget-view]").count() == 0


def test_without_scripts_a_sentence_stands_in_each_place(hard, open_url):
    page = open_url(hard.url, java_script_enabled=False)
    texts = page.locator(".attnlab-host").all_inner_texts()
    assert len(texts) == 5
    assert all("The figure above it makes the same point." in text for text in texts)


def test_markup_in_names_stays_text(places):
    assert places[GRADIENT].locator("b").count() == 0
    assert places[GRADIENT].locator(".attnlab-model").last.inner_text() == "<b>grown</b>"
    assert places[LONG].locator("i").count() == 0


def test_nothing_listens_once_a_widget_is_taken_away(hard, open_url):
    page = open_url("about:blank", strict=False)
    page.add_init_script(
        """
        window.alive = 0;
        const add = EventTarget.prototype.addEventListener;
        EventTarget.prototype.addEventListener = function (type, handler, options) {
          const loaded = this instanceof HTMLLinkElement || this instanceof HTMLScriptElement;
          const inWidget = this instanceof Element && !loaded;
          if (inWidget) {
            window.alive++;
            if (options?.signal) add.call(options.signal, "abort", () => window.alive--, { once: true });
          }
          return add.call(this, type, handler, options);
        };
        const Observer = window.ResizeObserver;
        window.ResizeObserver = class extends Observer {
          observe(...all) { window.alive++; return super.observe(...all); }
          disconnect() { window.alive--; return super.disconnect(); }
        };
        window.controllers = []; // the host's own and the widgets'
        const Controller = window.AbortController;
        window.AbortController = class extends Controller {
          constructor() { super(); window.controllers.push(this); }
        };
        """
    )
    page.goto(hard.url)
    all_started(page)
    alive = page.evaluate(
        """async () => {
          const host = attnlabHost;
          const places = [...document.querySelectorAll(".attnlab-host[data-state=ready]")];
          const count = () => [window.alive, ...[...host.models.values()].map((model) => model.listeners)];
          const before = count();
          host.dispose(places[0]); // one of two views of a model: the other goes on
          const between = count();
          places.slice(1).forEach(host.dispose);
          const running = controllers.filter(({ signal }) => !signal.aborted).length;
          const widgets = document.querySelectorAll(".attnlab-widget").length;
          return [before, between, count(), widgets, running, controllers.length];
        }"""
    )
    before, between, after, widgets, running, controllers = alive
    assert running == 0 < controllers
    assert before[0] > 40 and 0 < between[0] < before[0]
    assert after[0] == 0
    assert widgets == 0
    # What is left are the two handlers by which the host itself keeps the linked models equal.
    assert sum(after[1:]) == 2 < sum(between[1:]) < sum(before[1:])


def test_code_lies_in_files_named_by_content_and_the_state_is_small(book):
    page = (book / "html" / "index.html").read_text(encoding="utf-8")
    text = re.search(
        r'<script type="application/vnd\.jupyter\.widget-state\+json">(.*?)</script>', page, re.DOTALL
    )[1]
    state = json.loads(text)["state"]
    folder = book / "html" / "_static" / "widgets"
    for model in state.values():
        if "_esm" in model["state"]:
            assert re.fullmatch(r"[0-9a-f]{16}\.js", model["state"]["_esm"])
            assert (folder / model["state"]["_esm"]).is_file()
    assert len({model["state"]["_esm"] for model in state.values() if "_esm" in model["state"]}) == 2
    numbers = sum(len(part["data"]) for model in state.values() for part in model.get("buffers", []))
    assert len(text) < numbers + 8_000
    assert {model["model_name"] for model in state.values()} == {"AnyModel", "LinkModel"}
    assert "unpkg" not in page and "cdn" not in page and "require" not in page


def test_running_a_notebook_again_stores_as_much(book, tmp_path):
    again = tmp_path / "again.ipynb"
    again.write_bytes((book / "index.ipynb").read_bytes())
    run("jupyter", "execute", "--inplace", again)
    states = [
        json.loads(path.read_text(encoding="utf-8"))["metadata"]["widgets"]
        for path in (again, book / "index.ipynb")
    ]
    assert len(json.dumps(states[0])) == len(json.dumps(states[1]))
