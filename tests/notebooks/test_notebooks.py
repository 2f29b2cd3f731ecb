"""The notebooks in the repository: all there, all run, and proven by nbval."""

import base64
import io
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"notebooks": "lessons", "exercises": "exercises", "solutions": "exercises"}
NOTEBOOKS = sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.ipynb"))
NBVAL = (
    "--nbval",
    "--nbval-sanitize-with",
    str(ROOT / "tests/nbval.cfg"),
    "-p",
    "tools.notebooks.nbval_plugin",
)


def nbval(*arguments):
    """Run nbval in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", *NBVAL, "-p", "no:cacheprovider", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")


def test_every_manuscript_has_its_notebooks_and_no_other_is_there():
    for folder, manuscripts in FOLDERS.items():
        expected = {path.stem for path in (ROOT / "book" / manuscripts).glob("*.py")}
        assert {path.stem for path in (ROOT / folder).glob("*.ipynb")} == expected and expected


def test_nbval_runs_every_notebook_that_is_there():
    done = nbval("--collect-only", *(ROOT / folder for folder in FOLDERS))
    collected = {line.split("::")[0] for line in done.stdout.splitlines() if "::" in line}
    assert collected == {path.relative_to(ROOT).as_posix() for path in NOTEBOOKS}, done.stdout + done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_code_cell_was_run(path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_code_fits_the_page(path):
    """A longer line would be cut off at the edge of a code cell, and with it the shape at its end."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    written = [cell for cell in cells if "setup" not in cell.metadata.get("tags", [])]
    lines = [line for cell in written for line in cell.source.split("\n")]
    assert [line for line in lines if len(line) > 95] == []


#: What works on one kind of machine only: workers that need fork, a device; and maps in colours of their own.
FRAGILE = re.compile(
    r"\bnum_workers\s*=\s*[^0\s]|\bmultiprocessing\b|\btorchtext\b|[\"'](?:cuda|mps)\b|\bcmap\s*="
)


def test_no_cell_needs_a_certain_machine():
    for line in (
        "DataLoader(x, num_workers=2)",
        "import multiprocessing",
        'x.to("mps")',
        "imshow(w, cmap='jet')",
    ):
        assert FRAGILE.search(line)
    for path in NOTEBOOKS:
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                assert not FRAGILE.search(cell.source), f"{path.name}: {cell.source}"


def transparent(picture):
    """Whether a picture, as a notebook stores it, lets the page show through."""
    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        return image.convert("RGBA").getextrema()[3][0] < 255


def test_stored_pictures_are_opaque():
    clear = io.BytesIO()
    Image.new("RGBA", (2, 2), (0, 0, 0, 0)).save(clear, "PNG")
    assert transparent(base64.b64encode(clear.getvalue()))
    for path in NOTEBOOKS:
        for cell in nbformat.read(path, as_version=4).cells:
            for output in cell.get("outputs", []):
                picture = output.get("data", {}).get("image/png")
                assert picture is None or not transparent(picture), f"{path.name}: {cell.id}"


def notebook(path, *cells):
    """Write a notebook of (code, stored outputs)."""
    made = []
    for count, (source, outputs) in enumerate(cells, 1):
        cell = nbformat.v4.new_code_cell(source, outputs=outputs, execution_count=count)
        cell.id = f"cell-{count}"
        made.append(cell)
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=spec), path)
    return path


def said(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def result(text, count):
    return nbformat.v4.new_output("execute_result", data={"text/plain": text}, execution_count=count)


def test_nbval_fails_on_a_changed_number_and_passes_noise(tmp_path):
    """One run over two notebooks: one with noise only, and one whose every stored number was changed."""
    code = [
        "print((2, 4))",
        "print(1 / 3)",
        "1 / 3, 12.3456789, 0.000012345",
        "import sys\nprint('a warning', file=sys.stderr)\n"
        "for step in range(3): print(f'\\r{step}/3', end='', file=sys.stderr)",
        "object()",
        "print('fine')",
    ]
    same = [
        [said("(2, 4)\n")],
        [said("0.3333333333333333\n")],
        [result("(0.3333333333333333, 12.3456789, 1.2345e-05)", 3)],
        [],
        [result("<object>", 5)],
        [said("fine\n")],
    ]
    noise = [
        same[0],
        [said("0.3333334333333333\n")],
        [result("(0.3333332333, 12.3456780, 1.2345e-05)", 3)],
        [said("another warning\n", "stderr")],
        [result("<object at 0x7f0123456789>", 5)],
        same[5],
    ]
    changed = [
        [said("(4, 2)\n")],
        [said("0.3433333333333333\n")],
        [result("(0.3333333333333333, 12.3556789, 1.2345e-05)", 3)],
        [],
        [result("<int>", 5)],
        [said("fin\n")],
    ]
    for name, outputs in (("noise", noise), ("changed", changed)):
        notebook(tmp_path / f"{name}.ipynb", *zip(code, outputs, strict=True))
    done = nbval("-n", "2", "--dist", "loadfile", "-rA", tmp_path)
    lines = done.stdout.splitlines()
    words = [line.split(" - ")[0].split(" ", 1) for line in lines if line.startswith(("PASSED", "FAILED"))]
    verdicts = {cell.split("/")[-1]: verdict for verdict, cell in words}
    expected = {f"noise.ipynb::Cell {place}": "PASSED" for place in range(6)}
    expected |= {f"changed.ipynb::Cell {place}": "FAILED" for place in (0, 1, 2, 4, 5)}
    expected["changed.ipynb::Cell 3"] = "PASSED"
    assert verdicts == expected, done.stdout + done.stderr


def test_what_one_notebook_keeps_another_does_not_find(tmp_path):
    code = (
        "import os, pathlib\nkept = pathlib.Path(os.environ['ATTNLAB_HOME'])\n"
        "print(kept.exists())\nkept.mkdir(parents=True)"
    )
    for name in ("first", "second"):
        notebook(
            tmp_path / f"{name}.ipynb", (code, [said("False\n")]), ("kept.exists()", [result("True", 2)])
        )
    done = nbval("-rA", tmp_path)
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_an_endless_loop_fails_its_notebook_within_the_limit(tmp_path):
    loop = notebook(
        tmp_path / "loop.ipynb",
        ("print(1)", [said("1\n")]),
        ("while True: pass", []),
        ("print(2)", [said("2\n")]),
    )
    done = nbval("--nbval-cell-timeout", "3", "-rA", loop)
    assert (
        done.returncode == 1 and "1 failed" in done.stdout and "Timeout of 3 seconds exceeded" in done.stdout
    )
    assert "FAILED" in next(
        line for line in done.stdout.splitlines() if "::Cell 1" in line and "FAILED" in line
    )
