"""Stored outputs hold nothing of one machine or one run."""

import json
from pathlib import Path

import nbformat
import pytest

from tools.notebooks import normalise

ROOT = Path("/home/someone/course")
KNOWN = normalise.places(ROOT, Path("/tmp/attnlab-x1/attnlab"))


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("<a.B object at 0x7f12ab34cd56>", "<a.B object>"),
        ("id 0x7f12ab34cd56 and mask 0xff", "id  and mask 0xff"),
        ("File /tmp/ipykernel_123/456.py:3", "File <cell>:3"),
        ("C:\\Users\\x\\AppData\\ipykernel_12\\3.py", "<cell>"),
        ("at /home/someone/course/src/attnlab/a.py:1", "at src/attnlab/a.py:1"),
        ("in /home/someone/course", "in ."),
        ("in /home/someone/course-two/x", "in /home/someone/course-two/x"),
        ("File ~/env/lib/python3.11/site-packages/torch/nn.py:4", "File site-packages/torch/nn.py:4"),
        ("File /usr/lib/python3.11/json/decoder.py:4", "File <python>/json/decoder.py:4"),
        ("kept in /tmp/attnlab-x1/attnlab/progress.json", "kept in <course folder>/progress.json"),
        ("0.3333 and (2, 4)", "0.3333 and (2, 4)"),
    ],
)
def test_texts(text, cleaned):
    assert normalise.clean(text, KNOWN) == cleaned
    assert normalise.clean(cleaned, KNOWN) == cleaned


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("\r  0%|          | 0/3 [00:00<?, ?it/s]\r100%|██████████| 3/3 [00:00<00:00, 9.1it/s]\n", ""),
        ("\rtrain:  50%|█████     | 1/2 [00:01<00:01,  1.2s/it, loss=0.3]\n", ""),
        ("\r2it [00:00, 500.11it/s]\n", ""),
        ("x.py:1: UserWarning: 100% wrong\n  f()\n", "x.py:1: UserWarning: 100% wrong\n  f()\n"),
        ("\r 50%|█████     | 1/2 [00:00<00:00]\nbefore\n\r100%|██████████| 2/2 [00:00<00:00]", "before\n"),
    ],
)
def test_progress_bars_go_and_other_words_stay(text, kept):
    assert normalise.without_bars(text) == kept


def notebook(ids):
    """A notebook with widgets of given ids: two models and a layout that both use."""
    first, second, layout = ids
    state = {
        layout: {"model_name": "LayoutModel", "state": {}},
        first: {
            "model_name": "AnyModel",
            "state": {"layout": f"IPY_MODEL_{layout}", "_esm": "f('0x7f12ab34cd56')"},
        },
        second: {
            "model_name": "AnyModel",
            "state": {"layout": f"IPY_MODEL_{layout}", "other": [f"IPY_MODEL_{first}"]},
        },
    }
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": second, "version_major": 2}}
    cell = nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("display_data", data=view)])
    cell.id = "c"
    widgets = {normalise.STATE: {"state": state, "version_major": 2, "version_minor": 0}}
    return nbformat.v4.new_notebook(cells=[cell], metadata=nbformat.from_dict({"widgets": widgets}))


def test_widget_models_are_numbered_in_their_order_wherever_they_stand():
    one = normalise.notebook(notebook(["aa11", "bb22", "cc33"]), "01_x", KNOWN)
    two = normalise.notebook(notebook(["zz99", "bb00", "aa00"]), "01_x", KNOWN)
    assert json.dumps(one) == json.dumps(two)
    models = normalise.widget_models(one)
    layout, first, second = sorted(models)
    assert list(models) == [layout, first, second]
    assert models[second].state == {"layout": f"IPY_MODEL_{layout}", "other": [f"IPY_MODEL_{first}"]}
    view = one.cells[0].outputs[0].data["application/vnd.jupyter.widget-view+json"]
    assert view["model_id"] == second and models[first].state["_esm"] == "f('0x7f12ab34cd56')"


def test_normalising_a_stored_notebook_again_changes_nothing():
    one = normalise.notebook(notebook(["aa11", "bb22", "cc33"]), "01_x", KNOWN)
    stored = nbformat.reads(nbformat.writes(one), as_version=4)
    assert nbformat.writes(normalise.notebook(stored, "01_x", KNOWN)) == nbformat.writes(one)


def test_two_notebooks_have_other_ids():
    one, two = (
        normalise.notebook(notebook(["aa11", "bb22", "cc33"]), stem, KNOWN) for stem in ("01_x", "02_y")
    )
    assert not set(normalise.widget_models(one)) & set(normalise.widget_models(two))
