"""The repository's address stands once; what repeats it agrees, and one command moves them all."""

import json
import re
import shutil
import subprocess
import sys
import tomllib

import pytest
import yaml

from tools import chapters, repository
from tools.notebooks import build, nodes
from tools.repository import Repository, RepositoryError

OLD = Repository("https://github.com/example/course", "main")
NEW = Repository("https://github.com/Some-One/my.fork", "teaching/2027")
# Put together here, so that this file does not hold it and is itself changed and changed back with the rest.
FAR = Repository("https://github.com/" + "far-away/moved.course", "teaching/2027")
COLAB = re.compile(r"https://colab\.research\.google\.com/github/[^\s)\"'>\\]+")
INSTALL = re.compile(r"git\+(https://github\.com/[^\s\"'\\]+)")
CLONE = re.compile(r"git clone (\S+)")


def texts(root, *suffixes):
    return {
        path.relative_to(root).as_posix(): text
        for path, text in repository.files(root).items()
        if path.suffix in suffixes and path.relative_to(root).parts[0] != "tests"
    }


def disagreements(root):
    """Every place in the tree that repeats the address and does not say what ``_config.yml`` says."""
    here = repository.read(root)
    found = []
    for name, text in texts(root, ".md", ".ipynb").items():
        for link in COLAB.findall(text):
            notebook = link.removeprefix(here.colab(""))
            if notebook == link or not (root / notebook).is_file():
                found.append(f"{name}: {link}")
        found += [
            f"{name}: {at}"
            for at in INSTALL.findall(text)
            if at not in (here.url, f"{here.url}@{here.branch}")
        ]
        found += [f"{name}: {at}" for at in CLONE.findall(text) if at != here.url]
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    if citation["repository-code"] != here.url:
        found.append(f"CITATION.cff: {citation['repository-code']}")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found += [
        f"pyproject.toml: {at}" for at in project.get("urls", {}).values() if not at.startswith(here.url)
    ]
    return found


def copy_of_the_course(target):
    for path in repository.files():
        place = target / path.relative_to(repository.ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    return target


def test_every_place_agrees():
    assert disagreements(repository.ROOT) == []


def test_the_places_that_must_repeat_the_address_do():
    named = set(repository.mentions())
    assert {"README.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE-TEXT", "_config.yml"} <= named
    notebooks = {name for name in texts(repository.ROOT, ".ipynb")}
    assert notebooks and notebooks <= named, (
        "a notebook's set-up cell installs the course from its repository"
    )


def test_setting_another_address_changes_everything(tmp_path):
    root = copy_of_the_course(tmp_path)
    old = repository.read(root)
    changed = repository.change(FAR, root)
    assert set(changed) == set(repository.mentions())
    assert repository.read(root) == FAR
    assert disagreements(root) == []
    left = [path for path, text in repository.files(root).items() if old.url in text]
    assert left == []
    assert chapters.fill(root, check=True) == []


def agree(root):
    """What ``python -m tools.notebooks check`` says about the notebooks below ``root``."""
    command = [sys.executable, "-m", "tools.notebooks", "--root", str(root), "check"]
    done = subprocess.run(command, cwd=repository.ROOT, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_manuscript_and_notebooks_agree_afterwards_as_before_and_nothing_was_run(tmp_path):
    root = copy_of_the_course(tmp_path)
    before = agree(root)
    repository.change(FAR, root)
    assert agree(root) == before


def test_a_notebook_that_somebody_edited_is_still_known_to_be(tmp_path):
    root = copy_of_the_course(tmp_path)
    path = next((root / "notebooks").glob("*.ipynb"))
    node = nodes.loads(path.read_text(encoding="utf-8"))
    assert not build.edited(node)
    node.cells[0].source += " edited"
    path.write_text(nodes.dumps(node), encoding="utf-8")
    repository.change(FAR, root)
    assert build.edited(nodes.loads(path.read_text(encoding="utf-8")))


def test_setting_it_back_gives_the_same_bytes(tmp_path):
    root = copy_of_the_course(tmp_path)
    old = repository.read(root)
    repository.change(FAR, root)
    repository.change(old, root)
    for path in repository.files():
        assert (root / path.relative_to(repository.ROOT)).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("https://github.com/example/course", "https://github.com/Some-One/my.fork"),
        ("https://github.com/example/course.git", "https://github.com/Some-One/my.fork.git"),
        ("see https://github.com/example/course.", "see https://github.com/Some-One/my.fork."),
        (
            "git+https://github.com/example/course@main",
            "git+https://github.com/Some-One/my.fork@teaching/2027",
        ),
        (".../course.git@main", ".../course.git@main"),
        (
            "git+https://github.com/example/course.git@main",
            "git+https://github.com/Some-One/my.fork.git@teaching/2027",
        ),
        ("https://github.com/example/course@v1.0", "https://github.com/Some-One/my.fork@v1.0"),
        ("https://github.com/example/course@mainly", "https://github.com/Some-One/my.fork@mainly"),
        (
            "https://github.com/example/course/blob/main/README.md",
            "https://github.com/Some-One/my.fork/blob/teaching/2027/README.md",
        ),
        (
            "https://github.com/example/course/archive/refs/heads/main.zip",
            "https://github.com/Some-One/my.fork/archive/refs/heads/teaching/2027.zip",
        ),
        (
            "https://colab.research.google.com/github/example/course/blob/main/notebooks/01_a.ipynb",
            "https://colab.research.google.com/github/Some-One/my.fork/blob/teaching/2027/notebooks/01_a.ipynb",
        ),
        (
            "https://raw.githubusercontent.com/example/course/main/a.png",
            "https://raw.githubusercontent.com/Some-One/my.fork/teaching/2027/a.png",
        ),
        ("https://github.com/example/course/issues", "https://github.com/Some-One/my.fork/issues"),
        ("https://github.com/example/course-notes", "https://github.com/example/course-notes"),
        ("https://github.com/example/course.js", "https://github.com/example/course.js"),
        ("https://github.com/example/courses", "https://github.com/example/courses"),
        ("https://github.com/an-example/course", "https://github.com/an-example/course"),
        ("https://example.org/example/course", "https://example.org/example/course"),
    ],
)
def test_an_address_is_replaced_in_every_form_and_a_longer_name_is_not(before, after):
    assert repository.moved(f"<{before}>", OLD, NEW) == f"<{after}>"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "attention-lab",
        "http://github.com/a/b",
        "https://github.com/a",
        "https://github.com/a/b/",
        "https://github.com/a/b.git",
        "https://github.com/a/b/tree/main",
        "https://gitlab.com/a/b",
        "git@github.com:a/b",
        "https://github.com/a/b c",
    ],
)
def test_a_bad_address_is_refused_in_words(url):
    with pytest.raises(RepositoryError, match="url must look like https://github.com/OWNER/NAME"):
        Repository(url, "main")


@pytest.mark.parametrize("branch", ["", "a b", "-x", "a..b", "a/", "/a", "a//b", "a.lock", "a\nb", "a.", "@"])
def test_a_bad_branch_is_refused_in_words(branch):
    with pytest.raises(RepositoryError, match="branch must be the name of a branch"):
        Repository("https://github.com/a/b", branch)


@pytest.fixture
def small(tmp_path):
    """A tree with a configuration, a page and a notebook."""
    cell = {"source": ['%pip install "attnlab @ git+https://github.com/example/course@main"']}
    for name, text in {
        "_config.yml": "title: x\nrepository:\n  # where\n  url: https://github.com/example/course\n"
        "  branch: main # b\nlaunch_buttons:\n  colab_url: https://colab.research.google.com\n",
        "README.md": "See https://github.com/example/course\r\n",
        "notebooks/01_a.ipynb": json.dumps({"cells": [cell]}),
        "_build/html/index.html": "https://github.com/example/course",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
    return tmp_path


def test_comments_line_ends_and_what_is_built_stay_as_they_were(small):
    assert repository.change(NEW, small) == ["README.md", "_config.yml", "notebooks/01_a.ipynb"]
    config = (small / "_config.yml").read_text(encoding="utf-8")
    assert "  # where\n" in config and "  branch: teaching/2027 # b\n" in config
    assert (small / "README.md").read_bytes() == f"See {NEW.url}\r\n".encode()
    assert (small / "_build/html/index.html").read_text(encoding="utf-8") == OLD.url
    notebook = json.loads((small / "notebooks/01_a.ipynb").read_text(encoding="utf-8"))
    assert notebook["cells"][0]["source"] == [f'%pip install "attnlab @ git+{NEW.url}@{NEW.branch}"']


@pytest.mark.parametrize("missing", ["  branch: main # b\n", "  url: https://github.com/example/course\n"])
def test_a_configuration_without_address_changes_nothing(small, missing):
    config = small / "_config.yml"
    config.write_text(config.read_text(encoding="utf-8").replace(missing, ""), encoding="utf-8")
    before = (small / "README.md").read_bytes()
    with pytest.raises(RepositoryError, match=r"_config\.yml has no repository\."):
        repository.change(NEW, small)
    assert (small / "README.md").read_bytes() == before


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("repository: {url: https://github.com/example/course, branch: main}\n", "has no block repository"),
        (
            "repository:\n  url: https://github.com/example/course\n  branch: main\n  a:\n    branch: x\n",
            "must hold repository.branch once",
        ),
    ],
)
def test_a_configuration_that_cannot_be_changed_by_line_is_left_alone(small, block, complaint):
    (small / "_config.yml").write_text(block, encoding="utf-8")
    before = (small / "README.md").read_bytes()
    with pytest.raises(RepositoryError, match=complaint):
        repository.change(NEW, small)
    assert (small / "README.md").read_bytes() == before


def test_the_command_line(small, monkeypatch, capsys):
    monkeypatch.setattr(repository, "ROOT", small)
    assert repository.main(["show"]) == 0
    shown = capsys.readouterr().out
    assert "   1  README.md\n" in shown and shown.endswith(
        "https://github.com/example/course (branch main)\n"
    )
    assert repository.main(["set", "https://example.org/a/b"]) == 1
    assert "url must look like" in capsys.readouterr().err
    assert repository.main(["set", "https://github.com/a/b"]) == 0
    assert capsys.readouterr().out.endswith("https://github.com/a/b (branch main)\n")
    assert repository.read(small) == Repository("https://github.com/a/b", "main")
