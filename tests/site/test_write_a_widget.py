"""The widget of the page "Write a widget" is taken off the page and tried: in Python, and on a built page."""

import importlib.util
import json
import re
import sys

import numpy as np
import pytest
from ipywidgets.embed import dependency_state, embed_data

from tests.site.conftest import ROOT
from tests.site.widget_use import frames, host_at, said, spoil

PAGE = ROOT / "book" / "pages" / "write_a_widget.md"
NAME = re.compile(r"^(?:#|//|/\*) (temperature_bars/[\w.]+)(?: \*/)?$")
SCORES = [2.0, -1.0, 0.5, 1.9]
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"


def files_of_the_page():
    """The files on the page, each named by the first line of its block."""
    found = {}
    for block in re.findall(r"^```\w+\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        named = NAME.match(block.split("\n", 1)[0])
        if named:
            found[named[1]] = block
    return found


@pytest.fixture(scope="module")
def bars(tmp_path_factory):
    """The class, as it would be in the library."""
    folder = tmp_path_factory.mktemp("written")
    files = files_of_the_page()
    assert sorted(files) == [
        f"temperature_bars/{name}" for name in ("__init__.py", "temperature_bars.css", "temperature_bars.js")
    ]
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(
        "temperature_bars", folder / "temperature_bars" / "__init__.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["temperature_bars"] = module
    spec.loader.exec_module(module)
    yield module.TemperatureBars
    del sys.modules["temperature_bars"]


@pytest.fixture(scope="module")
def book(bars, tmp_path_factory, build_book, make_notebook):
    """A page with the widget and nothing else."""
    widget = bars(SCORES)
    data = embed_data(views=[widget], state=dependency_state([widget], drop_defaults=False))
    [view] = data["view_specs"]
    shown = {VIEW: view, "text/plain": repr(widget)}
    cell = {
        "cell_type": "code",
        "source": "TemperatureBars(scores)",
        "outputs": [{"output_type": "display_data", "data": shown, "metadata": {}}],
    }
    notebook = json.loads(make_notebook({"cell_type": "markdown", "source": "# Temperature"}, cell))
    notebook["metadata"]["widgets"] = {STATE: data["manager_state"]}
    return build_book(
        tmp_path_factory.mktemp("book"), {"start.md": "# Start\n", "page.ipynb": json.dumps(notebook)}
    )


def test_the_class_computes_a_softmax_and_refuses_what_it_says(bars):
    widget = bars(SCORES, temperature=2.0)
    expected = np.exp(np.array(SCORES) / 2)
    np.testing.assert_allclose(widget.weights(), expected / expected.sum(), rtol=1e-6)
    assert repr(widget) == "TemperatureBars(4 keys, temperature 2)"
    with pytest.raises(ValueError, match="temperature: expected 0.1 to 5, got 9"):
        widget.temperature = 9
    with pytest.raises(
        ValueError, match=r"scores: expected shape \(keys,\) with at least two keys, got \(1,\)"
    ):
        bars([1.0])
    with pytest.raises(TypeError, match="scores: expected a tensor or an array of real numbers"):
        bars("words")


def shown(host):
    return json.loads(host.locator(".attnlab-widget").get_attribute("data-weights"))


@pytest.mark.browser
def test_the_page_shows_what_python_computes_by_keyboard_too(bars, book, serve_folder, open_url):
    assert book.code == 0, book.said
    page = open_url(f"{serve_folder(book.html)}page.html")
    host = host_at(page, 0)
    np.testing.assert_allclose(shown(host), bars(SCORES).weights(), atol=1e-12)
    host.locator("input[type=range]").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    frames(page)
    np.testing.assert_allclose(shown(host), bars(SCORES, temperature=1.5).weights(), atol=1e-12)
    assert host.locator("output").inner_text() == "1.5"
    said(host, "Temperature 1.5: key 1")
    host.locator("summary").click()
    host.locator("tbody tr").first.wait_for()  # the table is filled when it opens
    cells = host.locator("tbody tr").first.locator("th, td").all_inner_texts()
    assert cells == ["1", "2", f"{bars(SCORES, temperature=1.5).weights()[0]:.4f}"]


@pytest.mark.browser
def test_a_spoilt_number_is_noticed(bars, book, serve_folder, open_url, tmp_path):
    text = spoil(book.page("page"), "scores", lambda number: number + 1)
    (book.html / "spoilt.html").write_text(text, encoding="utf-8")
    page = open_url(f"{serve_folder(book.html)}spoilt.html")
    difference = np.abs(np.array(shown(host_at(page, 0))) - bars(SCORES).weights())
    assert difference.max() > 0.01


def test_the_page_is_linked_from_contributing():
    assert "book/pages/write_a_widget.md" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
