"""The commands: the same with and without make, a browser is found or named, a failing step stops."""

import re
import subprocess
import sys

import pytest

from tools import course


def targets():
    text = (course.ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.search(r"^\.PHONY: (.*)$", text, re.M).group(1).split()
    return set(named) - {"help", "lock"}


def test_every_make_target_is_a_command_and_the_reverse():
    assert targets() == set(course.COMMANDS)


def test_help_names_every_command():
    command = [sys.executable, "tools/course.py", "--help"]
    done = subprocess.run(command, cwd=course.ROOT, capture_output=True, text=True, check=True)
    assert all(f"\n    {name} " in done.stdout for name in course.COMMANDS)


def test_an_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit):
        course.parse(["publish"])
    assert "invalid choice: 'publish'" in capsys.readouterr().err


def test_options_of_pytest_go_through_and_others_are_refused(capsys):
    assert course.parse(["test", "tests/unit", "-k", "causal"]).only == ["tests/unit", "-k", "causal"]
    with pytest.raises(SystemExit):
        course.parse(["site", "-k", "causal"])
    assert "unknown arguments: -k" in capsys.readouterr().err


def test_a_build_that_writes_nothing_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(course, "SITE", tmp_path / "_build" / "html")
    monkeypatch.setattr(course, "ROOT", tmp_path)
    monkeypatch.setattr(course, "environment", lambda pins: None)
    monkeypatch.setattr(course, "run", lambda *command, env=None: None)
    with pytest.raises(course.Stop, match="wrote no"):
        course.build_site()


def test_a_browser_that_is_named_comes_first(tmp_path, monkeypatch):
    mine = tmp_path / "my-browser"
    mine.touch()
    monkeypatch.setenv("ATTNLAB_BROWSER", str(mine))
    assert course.find_browser() == str(mine)


def without_installed_browser(monkeypatch, **programs):
    monkeypatch.delenv("ATTNLAB_BROWSER", raising=False)
    monkeypatch.setattr(course, "BROWSER_FOLDERS", ())
    monkeypatch.setattr(course.shutil, "which", programs.get)


def test_then_one_that_is_installed(tmp_path, monkeypatch):
    chrome = tmp_path / "google-chrome"
    chrome.touch()
    without_installed_browser(monkeypatch, **{"google-chrome": str(chrome)})
    assert course.find_browser() == str(chrome)


def test_then_playwrights_own(monkeypatch):
    without_installed_browser(monkeypatch)
    monkeypatch.setattr(course, "_playwright_browser", lambda: "downloaded")
    assert course.find_browser() == "downloaded"


@pytest.mark.parametrize(
    "failure", [subprocess.CalledProcessError(1, "install"), subprocess.TimeoutExpired("install", 600)]
)
def test_a_download_that_fails_or_never_ends_is_no_browser(monkeypatch, failure):
    def pretend(command, **options):
        if "install" in command:
            raise failure
        return subprocess.CompletedProcess(command, 0, stdout="no/such/file\n")

    monkeypatch.setattr(course.subprocess, "run", pretend)
    assert course._playwright_browser() is None


def test_then_debians_package_where_it_may_install_one(tmp_path, monkeypatch):
    steps = []
    package = tmp_path / "chromium"

    def pretend(*command, env=None):
        steps.append(command)
        if "install" in command:
            package.touch()

    monkeypatch.delenv("ATTNLAB_BROWSER", raising=False)
    monkeypatch.setattr(course, "BROWSER_FOLDERS", ())
    found = {"apt-get": "apt-get", "chromium": str(package)}
    monkeypatch.setattr(course.shutil, "which", lambda name: found.get(name))
    monkeypatch.setattr(course, "_playwright_browser", lambda: None)
    monkeypatch.setattr(course.os, "geteuid", lambda: 0, raising=False)
    monkeypatch.setattr(course, "run", pretend)
    assert course.find_browser() == str(package)
    assert [step[1] for step in steps] == ["update", "install"]


def test_else_it_stops_and_says_what_to_install(monkeypatch):
    without_installed_browser(monkeypatch)
    monkeypatch.setattr(course, "_playwright_browser", lambda: None)
    with pytest.raises(course.Stop, match="apt-get install chromium"):
        course.find_browser()


def test_a_failing_step_is_named():
    with pytest.raises(course.Stop, match=r"exit 3.*-c"):
        course.run(sys.executable, "-c", "raise SystemExit(3)")


def test_the_command_reports_a_failing_step_and_fails(monkeypatch, capsys):
    def broken():
        raise course.Stop("this step failed (exit 1): sphinx")

    monkeypatch.setattr(course, "build_site", broken)
    assert course.main(["site"]) == 1
    assert "this step failed (exit 1): sphinx" in capsys.readouterr().err


def test_an_environment_is_left_alone_until_a_pin_changes(tmp_path, monkeypatch):
    steps = []
    pins = tmp_path / "requirements.txt"
    pins.write_text("a==1\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    monkeypatch.setattr(course, "ROOT", tmp_path)
    monkeypatch.setattr(course, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(course, "ALL_PINS", pins)
    monkeypatch.setattr(course.venv, "create", lambda where, **_: where.mkdir(exist_ok=True))
    monkeypatch.setattr(course, "run", lambda *command, env=None: steps.append(command))
    course.environment(pins)
    assert len(steps) == 2 and steps[1][-2:] == ("--editable", tmp_path)
    course.environment(pins)
    assert len(steps) == 2
    pins.write_text("a==2\n", encoding="utf-8")
    course.environment(pins)
    assert len(steps) == 4


def test_an_interrupted_installation_is_done_again(tmp_path, monkeypatch):
    pins = tmp_path / "requirements.txt"
    pins.write_text("a==1\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    monkeypatch.setattr(course, "ROOT", tmp_path)
    monkeypatch.setattr(course, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(course.venv, "create", lambda where, **_: where.mkdir(exist_ok=True))

    def interrupted(*command, env=None):
        raise course.Stop("no network")

    monkeypatch.setattr(course, "run", interrupted)
    for _ in range(2):
        with pytest.raises(course.Stop, match="no network"):
            course.environment(pins)
