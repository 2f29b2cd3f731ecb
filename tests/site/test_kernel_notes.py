"""A control that needs a kernel: on the page its picture stands, and a sentence that says where to run it."""

import base64
import json

import pytest

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"


def model(name, **state):
    return {
        "model_module": "@jupyter-widgets/controls",
        "model_module_version": "2.0.0",
        "model_name": name,
        "state": state,
    }


def written(make_notebook, about):
    """A notebook whose cell shows a slider above what it last drew, as `interact` leaves it."""
    drawn = {"output_type": "display_data", "data": {"image/png": DOT}, "metadata": {"image/png": about}}
    models = {
        "box": model("VBoxModel", children=["IPY_MODEL_slider", "IPY_MODEL_out"]),
        "slider": model("IntSliderModel", value=3),
        "out": model("OutputModel", outputs=[drawn]),
    }
    shown = {
        VIEW: {"model_id": "box", "version_major": 2, "version_minor": 0},
        "text/plain": "interactive(...)",
    }
    cell = {
        "cell_type": "code",
        "source": "interact(train, width=(1, 9))",
        "outputs": [{"output_type": "display_data", "data": shown, "metadata": {}}],
    }
    notebook = json.loads(make_notebook({"cell_type": "markdown", "source": "# Train again"}, cell))
    notebook["metadata"]["widgets"] = {STATE: {"state": models, "version_major": 2, "version_minor": 0}}
    return json.dumps(notebook)


@pytest.fixture(scope="module")
def book(tmp_path_factory, build_book, make_notebook):
    about = {"alt": "The loss falls with the width.", "width": 300, "height": 200}
    folder = tmp_path_factory.mktemp("kernel")
    return build_book(
        folder, {"start.md": "# Start\n", "notebooks/train.ipynb": written(make_notebook, about)}
    )


def test_the_picture_and_the_sentence_stand_there_and_no_control(book, serve_folder, open_url):
    assert book.code == 0, book.said
    page = open_url(f"{serve_folder(book.html)}notebooks/train.html")
    picture = page.locator(".cell_output img")
    picture.scroll_into_view_if_needed()
    assert picture.get_attribute("alt") == "The loss falls with the width."
    assert (picture.get_attribute("width"), picture.get_attribute("height")) == ("300", "200")
    page.wait_for_function(
        "image => image.complete && image.naturalWidth === 1", arg=picture.element_handle()
    )
    note = page.locator(".attnlab-needs-kernel")
    assert note.inner_text().startswith("This control needs a kernel: open in Colab")
    link = note.locator("a").get_attribute("href")
    assert link.startswith("https://colab.research.google.com/github/") and link.endswith(
        "/notebooks/train.ipynb"
    )
    assert page.locator(".cell_output :is(input, button, select, .attnlab-host)").count() == 0
    assert page.locator(f'script[type="{STATE}"]').count() == 0


def test_the_file_is_the_picture(book):
    [file] = (book.html / "_images").glob("*.png")
    assert file.read_bytes() == base64.b64decode(DOT)


def test_a_picture_without_words_is_refused(tmp_path, build_book, make_notebook):
    book = build_book(
        tmp_path, {"start.md": "# Start\n", "notebooks/train.ipynb": written(make_notebook, {})}
    )
    assert book.code != 0 and "picture of a control has no text alternative" in book.said
