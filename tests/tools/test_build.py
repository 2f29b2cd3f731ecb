"""Building with real kernels: what is stored, and that it is the same each time."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

from tools.notebooks import normalise

ROOT = Path(__file__).resolve().parents[2]


def outputs(lab, text, name="notebooks/01_back.ipynb"):
    """Return the outputs of the cell whose source holds a text."""
    return next(cell.outputs for cell in lab.notebook(name).cells if text in cell.source)


def test_all_three_notebooks_hold_what_the_kernel_said(rich):
    lesson = rich.notebook()
    assert "The score is 0.18, that is 18%, of 4 trials." in lesson.cells[0].source
    assert lesson.metadata.claims["values"] == {"score": 0.175125, "n": 4}
    assert lesson.metadata.kernelspec == {"name": "python3", "display_name": "Python 3", "language": "python"}
    assert lesson.metadata.language_info == {"name": "python"}
    assert outputs(rich, "last = 1", "exercises/01_back.ipynb") == []
    assert outputs(rich, "halve(4)", "exercises/01_back.ipynb")[0].text == "not attempted yet\n"
    assert outputs(rich, "halve(4)", "solutions/01_back.ipynb")[0].text == "2 2.0\n"
    for name in ("notebooks", "exercises", "solutions"):
        cells = rich.notebook(f"{name}/01_back.ipynb").cells
        code = [cell for cell in cells if cell.cell_type == "code"]
        assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
        assert all(set(cell.metadata) <= {"tags"} for cell in cells)


def test_the_set_up_cell_comes_first_and_says_nothing(rich):
    cell = next(cell for cell in rich.notebook().cells if cell.cell_type == "code")
    assert cell.metadata.tags == ["setup", "hide-input"] and cell.outputs == []
    assert '%pip install --quiet --no-deps "attnlab @ git+https://example.org/lab@main"' in cell.source


def test_figures_and_widgets_are_kept(rich):
    node = rich.notebook()
    assert "image/png" in outputs(rich, "plt.show()")[0].data
    models = normalise.widget_models(node)
    views = [
        outputs(rich, text)[0].data["application/vnd.jupyter.widget-view+json"]["model_id"]
        for text in ("pair[1]", "\npair[0]"[1:])
    ]
    values = [models[view].state["value"] for view in views]
    assert values == [4, 3]
    assert all(models[view].state["_esm"].startswith("export default") for view in views)
    layouts = [models[view].state["layout"].removeprefix("IPY_MODEL_") for view in views]
    assert set(layouts) <= set(models) and len(set(layouts)) == 2


def test_nothing_of_this_machine_or_run_is_kept(rich):
    for name in ("notebooks", "exercises", "solutions"):
        text = re.sub(r'"image/png": "[^"]*"', "", rich.read(f"{name}/01_back.ipynb"))
        for hint in (
            "0x7",
            "0x0",
            "it/s",
            "100%|",
            str(rich.root),
            sys.prefix,
            "ipykernel_",
            "/tmp",
            "site-packages/I",
        ):
            assert hint not in text, hint
    said = outputs(rich, "look out")
    assert (
        said[0].text.startswith("{")
        and "<object object> <built-in function sorted> notebooks <course folder>" in said[0].text
    )
    assert said[1].name == "stderr" and "look out" in said[1].text and "\r" not in said[1].text
    assert said[2].data["text/plain"] == "<object>"


def test_a_second_build_gives_the_same_bytes(rich):
    before = rich.snapshot()
    assert rich("build", "--force") == [] and any("ran in" in line for line in rich.said)
    assert rich.snapshot() == before
    assert rich("build") == [] and not any("ran in" in line for line in rich.said)
    assert rich.snapshot() == before


def test_what_varies_from_run_to_run_is_kept_until_the_code_changes(lab):
    lab.edit(
        '# %% tags=["hide-input"]\nprint("later")', '# %% tags=["nbval-ignore-output"]\nprint(2 * n, id(n))'
    )
    lab.edit("import claim, seed\n", "import claim, seed\nimport uuid\n").edit("id(n)", "uuid.uuid4()")
    assert lab("build", "01") == []
    before = lab.snapshot()
    assert lab("build", "01", "--force") == []
    assert lab.snapshot() == before
    lab.edit("2 * n", "3 * n")
    assert lab("build", "01", "--force") == []
    assert outputs(lab, "uuid4")[0].text.startswith("12 ")


def test_a_failing_cell_stops_the_build_at_its_line_and_the_old_notebook_stays(lab):
    lab.write("notebooks/01_back.ipynb", "{}")
    lab.edit('print("later")', "x = 1\n1 / 0")
    before = lab.snapshot()
    where = "book/lessons/01_back.py:21: ZeroDivisionError: division by zero (in notebooks/01_back.ipynb)"
    assert lab("build", "01") == [where]
    assert lab.snapshot() == before


def test_a_kernel_that_dies_is_named_with_its_cell(lab):
    lab.edit('print("later")', "import os\nos._exit(1)")
    (complaint,) = lab("build", "01_back")
    assert complaint.startswith("book/lessons/01_back.py:20: the kernel died")


def test_a_cell_that_never_ends_is_named(lab, monkeypatch):
    from tools.notebooks import execute

    monkeypatch.setattr(execute.run, "__defaults__", (0, 2))
    lab.edit('print("later")', "while True: pass")
    (complaint,) = lab("build", "01")
    assert complaint.startswith("book/lessons/01_back.py:20: the cell ran out of time")


def test_a_build_killed_at_any_moment_leaves_whole_notebooks(rich):
    """Kill the writing process again and again; what lies on disk must always be one of the two versions."""
    path = rich.root / "notebooks/01_back.ipynb"
    script = (
        "import sys, pathlib\nfrom tools.notebooks.files import write\n"
        "path = pathlib.Path(sys.argv[1]); text = path.read_text(encoding='utf-8')\n"
        "print('ready', flush=True)\n"
        "while True:\n    write(path, text + ' ' * 3000000)\n    write(path, text)\n"
    )
    small = path.read_text(encoding="utf-8")
    for wait in (0.01, 0.02, 0.05, 0.08):
        path.write_text(small, encoding="utf-8")
        with subprocess.Popen(
            [sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, cwd=ROOT
        ) as child:
            child.stdout.readline()
            time.sleep(wait)
            child.kill()
        assert path.read_text(encoding="utf-8").rstrip(" ") == small
        json.loads(path.read_text(encoding="utf-8"))
    assert rich("build") == []
    assert not list(path.parent.glob(".*"))
