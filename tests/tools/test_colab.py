"""The set-up cell where the package is missing, with the real pip, and what Colab lacks.

`make colab` runs every notebook with Colab's own versions; it needs the package registry, and this does not.
"""

import ast
import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.colab import __main__ as colab
from tools.colab import place, trial
from tools.notebooks import setup_cell

ADDRESS = "https://github.com/example/course"
OURS = ("attnlab", *setup_cell.NOT_IN_COLAB)
# A package that builds itself, so that pip fetches nothing; without --no-deps pip would want another NumPy.
BACKEND = """
import zipfile


def build_wheel(folder, settings=None, metadata=None):
    with zipfile.ZipFile(f"{folder}/attnlab-9-py3-none-any.whl", "w") as wheel:
        info = "attnlab-9.dist-info"
        wheel.writestr("attnlab.py", "import cn2an, num2words, proces")
        about = ("Metadata-Version: 2.1", "Name: attnlab", "Version: 9", "Requires-Dist: numpy<1")
        wheel.writestr(f"{info}/METADATA", chr(10).join(about))
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any")
        wheel.writestr(f"{info}/RECORD", "")
    return "attnlab-9-py3-none-any.whl"
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
# Runs the cell twice in one shell and imports the package between, and says what pip was asked to do.
RUN = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell

shell, cell = InteractiveShell.instance(), sys.argv[1]
asked, pip = [], shell.find_line_magic("pip")
shell.register_magic_function(lambda line: (asked.append(line), pip(line))[1], "line", "pip")
outcomes = [shell.run_cell(source).success for source in (cell, "import attnlab", cell)]
print("REPORT" + json.dumps({"outcomes": outcomes, "asked": asked}))
"""


def top_level(source):
    """The packages that a piece of code imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


def imports():
    """Every package that the library's or a notebook's code imports, with a place where it does."""
    found = {}
    for path in sorted((place.ROOT / "src").rglob("*.py")):
        found |= dict.fromkeys(top_level(path.read_text(encoding="utf-8")), path.name)
    for path in colab.chosen([]):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code" and "%" not in cell.source:
                found |= dict.fromkeys(top_level(cell.source), path.name)
    return {name: where for name, where in found.items() if name not in sys.stdlib_module_names}


def missing(modules):
    """Those modules that neither Colab nor the set-up cell brings."""
    lines = place.VERSIONS.read_text(encoding="utf-8").splitlines()
    there = {canonicalize_name(Requirement(line).name) for line in lines if not line.startswith("#")}
    there |= {canonicalize_name(name) for name in ("torch", *OURS)}
    owners = packages_distributions()
    return {
        name: where
        for name, where in modules.items()
        if not there & {canonicalize_name(owner) for owner in owners.get(name, [name])}
    }


def test_what_the_course_imports_is_in_colab_or_comes_with_the_set_up_cell():
    found = imports()
    assert {"torch", "numpy", "matplotlib", "cn2an", "attnlab"} <= found.keys()
    assert missing({"playwright": "nowhere"}) and missing({"docopt": "nowhere"})
    assert missing(found) == {}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A fresh environment with this one's packages but for the course's, and what pip is to know there."""
    home = tmp_path_factory.mktemp("elsewhere")
    venv.create(home / "environment", with_pip=True)
    python = place.python_of(home / "environment")
    packages = place.say_and_run(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"
    ).strip()
    shelf = home / "shelf"
    shelf.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        name = entry.name.removeprefix("_editable_impl_").split("-")[0].split(".")[0]
        if entry.suffix != ".pth" and name not in (*OURS, "pip", "setuptools"):
            (shelf / entry.name).symlink_to(entry)
    (Path(packages) / "shelf.pth").write_text(str(shelf), encoding="utf-8")
    wheels = home / "wheels"
    wheels.mkdir()
    for name in setup_cell.NOT_IN_COLAB:
        with zipfile.ZipFile(wheels / f"{name}-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", "")
            wheel.writestr(
                f"{name}-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n"
            )
            wheel.writestr(
                f"{name}-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{name}-1.dist-info/RECORD", "")
    course = home / "course"
    course.mkdir()
    (course / "backend.py").write_text(BACKEND, encoding="utf-8")
    (course / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    place.say_and_run("git", "init", "--quiet", "--initial-branch=main", course)
    git = ("git", "-C", course, "-c", "user.name=a", "-c", "user.email=a@b")
    place.say_and_run(*git, "add", ".")
    place.say_and_run(*git, "commit", "--quiet", "-m", "The course")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHONPATH"))}
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}
    own = {"IPYTHONDIR": str(home / "ipython"), "HOME": str(home), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return python, {**kept, **pip, **own, **place.redirect(course, ADDRESS)}


def run_cell(elsewhere, cell):
    """What the set-up cell did, what was there before and after, and what all of it printed."""
    python, env = elsewhere
    before = place.installed(python)
    done = subprocess.run([python, "-c", RUN, cell], capture_output=True, text=True, env=env, timeout=240)
    printed, _, report = done.stdout.partition("REPORT")
    assert report, done.stdout + done.stderr
    return json.loads(report), before, place.installed(python), printed + done.stderr


def test_the_set_up_cell_installs_once_quietly_and_changes_nothing_else(elsewhere):
    report, before, after, printed = run_cell(elsewhere, setup_cell.source(f"{ADDRESS}@main"))
    assert report["outcomes"] == [True, True, True], printed
    assert len(report["asked"]) == 1  # nothing the second time, and no restart before the import
    assert after == before | {"attnlab": "9"} | dict.fromkeys(setup_cell.NOT_IN_COLAB, "1")
    assert trial.loud(printed) == ""


def test_without_no_deps_it_would_ask_for_more(elsewhere):
    """The control: here pip looks for what the package names, and finds the environment's NumPy too new."""
    python, env = elsewhere
    everything = ("-m", "pip", "uninstall", "--quiet", "--yes", *OURS)
    subprocess.run([python, *everything], env=env, check=True, timeout=120)
    cell = setup_cell.source(f"{ADDRESS}@main").replace("--no-deps ", "")
    report, *_ = run_cell(elsewhere, cell)
    assert report["outcomes"][1] is False


def test_a_set_up_cell_that_speaks_is_heard():
    colour = (
        "\x1b[33mWARNING: Location 'file:///x/' is ignored: it is neither a file nor a directory.\x1b[0m\r\n"
    )
    assert trial.loud(colour + trial.NOTE) == ""
    assert trial.loud(f"Collecting attnlab\n{trial.NOTE}") == "Collecting attnlab"


def test_the_notebooks_are_found_by_number_and_by_slug():
    assert [path.parent.name for path in colab.chosen(["03"])] == ["notebooks", "exercises", "solutions"]
    assert len(colab.chosen([])) == len(colab.chosen(["notebooks/", "exercises/", "solutions/"]))
    with pytest.raises(SystemExit, match="no notebook has '99'"):
        colab.chosen(["99"])


def test_every_notebook_has_the_set_up_cell_that_the_build_writes():
    for path in colab.chosen([]):
        cells = nbformat.read(path, as_version=4).cells
        own = [cell for cell in cells if cell.id == setup_cell.identifier(path.stem)]
        assert len(own) == 1 and " ".join(setup_cell.NOT_IN_COLAB) in own[0].source, path.name
