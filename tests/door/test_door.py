"""What a newcomer meets first, and a tree without traces of the machine that it was made on."""

import json
import re
from pathlib import Path

import pytest
import yaml

import attnlab
from tools import course, repository

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGES = sorted((ROOT / "book/pages").glob("*.md"))
# The brackets keep this file from finding itself.
TRACES = re.compile(r"/wor[k]/|/far[m]/|\.\./share[d]|/tmp/a[0-9]|/roo[t]/")
LEFT_OPEN = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b")
GENERATED = {".ipynb", ".json"}


def make_targets(text):
    return set(re.findall(r"\bmake ([a-z-]+)\b(?=[`\s]*(?:`|\n|#|ONLY|  ))", text))


def existing_targets():
    rules = re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    return {name for names in rules for name in names.split()}


def test_the_package_under_test_is_the_one_of_this_copy():
    # An environment that was made for another copy would test that one, and every fault here would pass.
    assert Path(attnlab.__file__).resolve().is_relative_to(ROOT), "install again: pip install --no-deps -e ."


def test_the_readme_names_every_command():
    assert set(course.COMMANDS) <= make_targets(README)


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda path: path.name
)
def test_every_make_target_that_is_named_exists(path):
    assert make_targets(path.read_text(encoding="utf-8")) <= existing_targets()


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda path: path.name
)
def test_every_module_that_is_run_exists(path):
    for name in re.findall(r"python -m ([\w.]+)", path.read_text(encoding="utf-8")):
        module = ROOT / ("src" if name.startswith("attnlab") else "") / name.replace(".", "/")
        assert module.with_suffix(".py").is_file() or (module / "__main__.py").is_file(), name


def test_the_commands_without_make_are_those_with_it():
    named = set(re.findall(r"tools/course\.py ([a-z]+)", README + CONTRIBUTING))
    assert named and named <= set(course.COMMANDS)


def test_the_folders_that_the_guide_names_exist():
    table = CONTRIBUTING.split("edited by hand?")[1].split("\n\n")[0]
    names = re.findall(r"`([^`]+)`", " ".join(row.split("|")[1] for row in table.splitlines()[2:]))
    assert len(names) > 10
    assert [name for name in names if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda path: path.name
)
def test_a_page_has_one_title_and_no_level_is_left_out(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    levels = [len(marks) for marks in re.findall(r"^(#+) ", text, re.M)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(deeper <= level + 1 for level, deeper in zip(levels, levels[1:], strict=False))


def test_the_picture_has_words_for_those_who_do_not_see_it():
    (alt,) = re.findall(r"!\[([^\]]*)\]\(", README)
    assert len(alt.split()) > 8


def test_the_readme_is_read_in_two_minutes():
    words = re.sub(r"<!-- chapters:begin -->.*<!-- chapters:end -->", "", README, flags=re.S).split()
    assert len(words) < 600


def test_the_citation_has_what_its_format_asks_for():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["message"] and citation["title"] and citation["type"] == "software"
    assert citation["authors"] == [{"name": "The Attention Lab authors"}]
    assert citation["license"] == ["MIT", "CC-BY-4.0"]
    assert citation["repository-code"] == repository.read().url
    version = re.search(
        r'__version__ = "(.+)"', (ROOT / "src/attnlab/__init__.py").read_text(encoding="utf-8")
    )
    assert citation["version"] == version[1]


def test_code_and_text_have_their_licences():
    code = (ROOT / "LICENSE").read_text(encoding="utf-8")
    text = (ROOT / "LICENSE-TEXT").read_text(encoding="utf-8")
    assert code.startswith("MIT License\n\nCopyright (c) 2026 the Attention Lab authors\n")
    assert "SPDX-License-Identifier: CC-BY-4.0" in text
    assert "https://creativecommons.org/licenses/by/4.0/legalcode" in text
    assert "](LICENSE)" in README and "](LICENSE-TEXT)" in README


def found(pattern, suffixes_left_out=frozenset()):
    hits = []
    for path, text in repository.files().items():
        if path.suffix in GENERATED:  # without the pictures that are stored in it as letters
            text = re.sub(r'"[A-Za-z0-9+/=\\n]{200,}"', '""', text)
        if path.suffix not in suffixes_left_out:
            for number, line in enumerate(text.splitlines(), 1):
                if match := pattern.search(line):
                    hits.append(f"{path.relative_to(ROOT).as_posix()}:{number}: {match[0]}")
    return hits


def test_no_file_names_the_machine_it_was_made_on():
    assert found(TRACES) == []


def test_nothing_is_left_open():
    assert found(LEFT_OPEN, {*GENERATED, ".js", ".mjs"}) == []


@pytest.mark.parametrize("trace", ["/work" + "/main", "../" + "shared/x", "/root" + "/x"])
def test_a_trace_would_be_found(trace):
    assert TRACES.search(json.dumps({"text": f"File {trace}"}))


@pytest.mark.parametrize("text", ["https://example.org/homework/", "/workshop", "a/work", "framework/x"])
def test_an_innocent_path_would_not(text):
    assert not TRACES.search(text)
