"""The JavaScript that is stored with a widget is that of its source file."""

from tools.notebooks import normalise

SCRIPT = "src/attnlab/widgets/tiny.mjs"
CLASS = "src/attnlab/widgets/__init__.py"


def stored(lab):
    models = normalise.widget_models(lab.notebook()).values()
    return [model.state["_esm"] for model in models if "_esm" in model.state]


def test_a_change_of_the_script_is_noticed_and_needs_no_run(rich, nothing_runs):
    assert not any("not what" in text for text in rich("check"))
    rich.edit("'tiny'", "'small'", SCRIPT)
    assert any("notebooks/01_back.ipynb" in text and "not what" in text for text in rich("check"))
    assert rich("build") == [] and rich.said[0] == "notebooks/01_back.ipynb: written"
    assert stored(rich) == [rich.read(SCRIPT)] * 2 and "'small'" in rich.read(SCRIPT)
    assert not any("not what" in text for text in rich("check"))


def test_a_style_sheet_that_is_new_is_stored_too(rich, nothing_runs):
    rich.edit("    _esm", "    # no run needed\n    _esm", CLASS)
    assert rich("build") == [] and rich.said[0] == "notebooks/01_back.ipynb: unchanged"


def test_a_widget_that_is_gone_is_named(rich, nothing_runs):
    rich.edit("tiny.mjs", "gone.mjs", CLASS)
    assert any("is older than" in text for text in rich("check"))


def test_a_class_whose_file_is_broken_is_named(rich, nothing_runs):
    (rich.root / SCRIPT).unlink()
    assert any(text.startswith("src/attnlab/widgets:1: cannot read the widgets") for text in rich("check"))
