"""A small book in a temporary folder, and three ways to run it: with kernels, without, and not at all."""

import ast
import contextlib
import copy
import io
import shutil
import threading
import traceback
from pathlib import Path

import nbformat
import pytest

from attnlab import claims
from tools.notebooks import cli, execute

ROOT = Path(__file__).resolve().parents[2]
HEADER = (
    "# ---\n# jupyter:\n#   kernelspec: {name: python3, display_name: Python 3, language: python}\n# ---\n\n"
)
LESSON = (
    HEADER
    + """# %% [markdown]
# # Looking back
#
# The score is [[score:.2f]], that is [[score:.0%]], of [[n]] trials. This is old [@vaswani2017, section 3.2].

# %%
from attnlab import claim, seed
n = 4 + 0 * seed(1)  # a comment

# %%
claim("score", seed(1) / 8000 + 0.175, at_least=0.1, at_most=0.9)
claim("n", n, equals=4)

# %% tags=["hide-input"]
print("later")

# %% [markdown]
# The end.
"""
)
EXERCISE = (
    HEADER
    + """# %% [markdown]
# # Exercises
#
# Add one.

# %%
def add(x):
    \"\"\"Return x + 1.\"\"\"
    # BEGIN SOLUTION
    y = x + 1
    return y
    # END SOLUTION


# %%
def halve(x):
    # BEGIN SOLUTION
    # STUB return ...
    return x / 2
    # END SOLUTION
last = 1

# %% tags=["check"]
try:
    print(add(1), halve(4))
except NotImplementedError:
    print("not attempted yet")

# %% [markdown] tags=["solution-only"]
# Adding two is wrong.
"""
)
BIB = """@inproceedings{vaswani2017,
  author = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki},
  title = {Attention Is All You Need}, booktitle = {NIPS}, year = {2017}, eprint = {1706.03762}}
@article{hochreiter1997,
  author = {Hochreiter, Sepp and Schmidhuber, J{\\"u}rgen},
  title = {Long Short-Term Memory}, journal = {Neural Computation}, volume = {9}, pages = {1735--1780},
  year = {1997}, doi = {10.1162/neco.1997.9.8.1735}}
"""
CONTENTS = """format: jb-book
root: book/pages/index
chapters:
- file: notebooks/01_back
  sections:
  - file: exercises/01_back
  - file: solutions/01_back
- file: notebooks/evidence
- file: notebooks/bibliography
"""


class Lab:
    """A book below ``root`` and the command line on it; ``names`` are paths below the root."""

    def __init__(self, root, capsys=None):
        self.root, self.capsys = Path(root), capsys

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return self

    def read(self, name):
        return (self.root / name).read_text(encoding="utf-8")

    def edit(self, old, new, name="book/lessons/01_back.py"):
        text = self.read(name)
        assert old in text
        return self.write(name, text.replace(old, new))

    def __call__(self, *arguments):
        """Run a command and return its complaints; its other words are in ``said``."""
        self.capsys.readouterr()
        status = cli.main(["--root", str(self.root), *map(str, arguments)])
        out, err = self.capsys.readouterr()
        self.said = out.splitlines()
        complaints = err.splitlines()
        assert (status == 0) == (not complaints), complaints
        return complaints

    def notebook(self, name="notebooks/01_back.ipynb"):
        return nbformat.reads(self.read(name), as_version=4)

    def cell(self, place, name="notebooks/01_back.ipynb"):
        return self.notebook(name).cells[place]

    def change(self, name, work):
        """Change a notebook as Jupyter would."""
        node = self.notebook(name)
        work(node)
        return self.write(name, nbformat.writes(node))

    def snapshot(self):
        """Return every file outside the package."""
        files = [path for path in self.root.rglob("*") if path.is_file() and "src" not in path.parts]
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in files}

    def fill(self):
        """Write the small book."""
        for name in ("__init__.py", "claims.py"):
            self.write(f"src/attnlab/{name}", (ROOT / "src/attnlab" / name).read_text(encoding="utf-8"))
        self.write("book/lessons/01_back.py", LESSON).write("book/exercises/01_back.py", EXERCISE)
        self.write("book/pages/index.md", "# A book\n").write("book/references.bib", BIB)
        self.write("_config.yml", "repository:\n  url: https://example.org/lab\n  branch: main\n")
        return self.write("_toc.yml", CONTENTS)


@pytest.fixture
def lab(tmp_path, capsys):
    """The small book, never built."""
    return Lab(tmp_path / "book", capsys).fill()


@pytest.fixture
def quick(monkeypatch):
    """Run cells in this process instead of in a kernel: what the build does with the result stays real."""
    ran = []
    one_at_a_time = threading.Lock()

    def run(*arguments, **named):
        with one_at_a_time:
            return alone(*arguments, **named)

    def alone(notebook, folder, root, shift=0, timeout=0):
        ran.append(folder.name)
        monkeypatch.setenv("SEED_SHIFT", str(shift))
        claims.CLAIMS.clear()
        claims.REFUSED.clear()
        work, scope, count = copy.deepcopy(notebook), {}, 0
        for place, cell in enumerate(work.cells):
            if cell.cell_type != "code" or "%pip" in cell.source:
                continue
            count += 1
            cell.execution_count = count
            _cell(cell, place, count, scope)
        files = [path for path in (root / "src/attnlab").glob("*.py")]
        return execute.Run(
            work,
            copy.deepcopy(claims.CLAIMS),
            dict(claims.REFUSED),
            [path.name for path in files],
            {"python": "3.11"},
            root / "src/attnlab",
            root / "home",
        )

    monkeypatch.setattr(execute, "run", run)
    return ran


def _cell(cell, place, count, scope):
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(compile(ast.parse(cell.source), "cell", "exec"), scope)
    except Exception as error:
        line = traceback.extract_tb(error.__traceback__)[1].lineno
        if "raises-exception" not in cell.metadata.get("tags", []):
            words = f"Cell In[{count}], line {line}"
            raise execute.Failed(place, count, words, f"{type(error).__name__}: {error}") from None
        cell.outputs = [
            nbformat.v4.new_output("error", ename=type(error).__name__, evalue=str(error), traceback=[])
        ]
    if said.getvalue():
        cell.outputs.append(nbformat.v4.new_output("stream", name="stdout", text=said.getvalue()))


@pytest.fixture
def nothing_runs(monkeypatch):
    """Fail where anything is executed."""
    monkeypatch.setattr(execute, "run", lambda *_, **__: pytest.fail("executed"))


@pytest.fixture
def built(lab, quick):
    """The small book, built."""
    assert lab("build") == []
    quick.clear()
    return lab


@pytest.fixture(scope="session")
def _rich(tmp_path_factory):
    """A book whose lesson shows everything that differs from run to run, built once with kernels."""
    root = tmp_path_factory.mktemp("rich") / "book"
    lab = Lab(root).fill()
    lab.write("src/attnlab/widgets/__init__.py", WIDGET).write("src/attnlab/widgets/tiny.mjs", SCRIPT)
    lab.write("src/attnlab/plots.py", "COLOUR = 'black'\n").write("book/lessons/01_back.py", RICH)
    assert cli.main(["--root", str(root), "build"]) == 0
    return root


@pytest.fixture
def rich(_rich, tmp_path, capsys):
    """A copy of the rich book."""
    shutil.copytree(_rich, tmp_path / "book", ignore=shutil.ignore_patterns("__pycache__"))
    return Lab(tmp_path / "book", capsys)


SCRIPT = "export default { render({ el }) { el.textContent = 'tiny'; } };\n"
WIDGET = """import pathlib

import anywidget
import traitlets


class Tiny(anywidget.AnyWidget):
    _esm = pathlib.Path(__file__).with_name("tiny.mjs")
    value = traitlets.Int(3).tag(sync=True)
"""
RICH = (
    LESSON
    + """
# %%
import os
import sys
import warnings

import matplotlib.pyplot as plt
from attnlab import plots
from attnlab.widgets import Tiny
from tqdm import tqdm

# %%
figure, axes = plt.subplots(figsize=(1, 1))
axes.plot([0, 1], color=plots.COLOUR)
plt.show()

# %%
pair = Tiny(), Tiny(value=4)
pair[1]

# %%
pair[0]

# %%
for step in tqdm(range(300)):
    pass
print({"a", "b", "c", "d"}, object(), sorted, os.getcwd(), os.environ["ATTNLAB_HOME"], sys.prefix)
warnings.warn("look out")
object()

# %% tags=["raises-exception"]
def fails():
    raise ValueError(f"no {object()}")
fails()
"""
)
