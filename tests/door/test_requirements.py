"""The versions: one source, exact pins that meet the floors, floors that Colab meets, pins that resolve."""

import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.lock import ROOT, closure, groups, text_of

FILES = {"requirements-site.txt": ("site",), "requirements.txt": ("run", "site", "dev")}
#: What Colab ships; the package must install there without replacing any of it.
COLAB = {
    "ipywidgets": "7.7.1",
    "anywidget": "0.9.21",
    "torch": "2.11.0",
    "numpy": "2.1.0",
    "ipython": "7.34.0",
}
#: What else the package needs, and what brings it to Colab in any version that meets these floors.
BROUGHT_BY = {
    "matplotlib": "Colab",
    "tqdm": "Colab",
    "filelock": "torch",
    "platformdirs": "jupyter-core",
    "babel": "jupyterlab-server",
    "safetensors": "Colab",
    "pyyaml": "Colab",
}
#: What Colab lacks: pure Python packages that replace nothing there, with what each brings along.
INSTALLED_WITH_IT = {"num2words": {"docopt"}, "cn2an": {"proces"}}


def pins(file):
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("file", FILES)
def test_every_named_package_is_pinned_to_a_version_that_meets_its_floor(file):
    exact = pins(file)
    for name in FILES[file]:
        for requirement in groups()[name]:
            assert requirement.specifier.contains(exact[canonicalize_name(requirement.name)]), requirement


@pytest.mark.parametrize("file", FILES)
def test_the_pins_are_those_of_the_tested_environment(file):
    wanted = [requirement for name in FILES[file] for requirement in groups()[name]]
    assert (ROOT / file).read_text(encoding="utf-8") == text_of(closure(wanted)), "run `make lock`"


def test_the_agreed_packages_are_exact():
    exact = pins("requirements.txt")
    assert exact["jupyter-book"] == "1.0.4.post1" and exact["torch"] == "2.13.0"
    assert {"matplotlib", "ipywidgets", "nbval", "anywidget"} <= set(exact)
    assert "torch" not in pins("requirements-site.txt"), "the website needs no torch"


def test_the_site_pins_are_part_of_all_pins():
    assert pins("requirements-site.txt").items() <= pins("requirements.txt").items()


def test_the_floors_admit_what_colab_ships():
    run = {canonicalize_name(r.name): r.specifier for r in groups()["run"]}
    assert set(run) == {*COLAB, *BROUGHT_BY, *INSTALLED_WITH_IT}, (
        "say how each package that attnlab needs comes to Colab"
    )
    for name, version in COLAB.items():
        assert run[name].contains(version), f"{name} {version} does not meet {run[name]}"


@pytest.mark.parametrize("name", INSTALLED_WITH_IT)
def test_what_is_installed_with_the_package_brings_little_along(name):
    assert set(closure([Requirement(name)])) == {name, *INSTALLED_WITH_IT[name]}


def test_floors_only():
    for requirement in groups()["run"]:
        assert {clause.operator for clause in requirement.specifier} == {">="}, requirement


def test_a_fresh_resolve_never_takes_jupyter_book_2():
    site = {r.name: r.specifier for r in groups()["site"]}
    assert not site["jupyter-book"].contains("2.0.0") and site["jupyter-book"].contains("1.0.4.post1")


@pytest.mark.parametrize("python", ["3.11.7", "3.12", "3.13"])
@pytest.mark.parametrize("file", FILES)
def test_the_pins_resolve(file, python, tmp_path):
    command = [sys.executable, "-m", "uv", "pip", "compile", str(ROOT / file), "--python-version", python]
    out = tmp_path / "resolved.txt"
    done = subprocess.run([*command, "--quiet", "-o", str(out)], capture_output=True, text=True, check=False)
    if done.returncode and ("Failed to fetch" in done.stderr or "Network" in done.stderr):
        pytest.skip("no package registry in reach")
    assert done.returncode == 0, done.stderr
    found = {Requirement(x).name: x for x in out.read_text(encoding="utf-8").splitlines() if x[:1].isalpha()}
    assert pins(file).keys() <= found.keys()
