"""The course's commands, the same with and without make: ``python tools/course.py site``.

It needs nothing but Python 3.11 or newer: it makes the environment ``.venv``, installs the tested versions
into it once, and runs each step there. The Makefile calls it; on Windows it is called by hand.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
SITE = ROOT / "_build" / "html"
SITE_PINS = ROOT / "requirements-site.txt"
ALL_PINS = ROOT / "requirements.txt"
NOTEBOOK_FOLDERS = ("notebooks", "exercises", "solutions")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
BROWSER_FOLDERS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)


class Stop(Exception):
    """A step failed; the message says which and what to do."""


def say(text: str) -> None:
    """Print a line that stands out from what the steps print themselves."""
    print(f"\n== {text}", flush=True)


def python() -> Path:
    """The environment's own interpreter."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def program(name: str) -> Path:
    """A program that a package installed into the environment."""
    return python().with_name(name + (".exe" if os.name == "nt" else ""))


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    """Run one step from the repository's root.

    Raises:
        Stop: if it fails; its own output stands above the message.
    """
    done = subprocess.run([str(c) for c in command], cwd=ROOT, env={**os.environ, **(env or {})}, check=False)
    if done.returncode:
        shown = " ".join(str(c).replace(str(ROOT) + os.sep, "") for c in command)
        raise Stop(f"this step failed (exit {done.returncode}): {shown}")


def environment(pins: Path) -> None:
    """Make ``.venv`` if it is missing and install ``pins`` into it, unless that was done before."""
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever starts this may have an older one
        raise Stop(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    made_of = pins.read_bytes() + (ROOT / "pyproject.toml").read_bytes()
    mark = VENV / f"{pins.stem}.installed"
    state = hashlib.sha256(made_of).hexdigest()
    if mark.exists() and mark.read_text(encoding="utf-8") == state:
        return
    if not python().exists():
        say(f"Making the environment {VENV.name}")
        venv.create(VENV, with_pip=True)
    say(f"Installing the versions of {pins.name} into {VENV.name}")
    pip = (
        python(),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-warn-script-location",
    )
    run(*pip, "-r", pins)
    if pins == ALL_PINS:
        run(*pip, "--no-deps", "--editable", ROOT)
    mark.write_text(state, encoding="utf-8")


def find_browser() -> str:
    """Path of a Chromium or Chrome: one that is installed, else Playwright's own, else Debian's package.

    Raises:
        Stop: if there is none and none may be installed; it says what to install.
    """
    named = os.environ.get("ATTNLAB_BROWSER", "")
    for candidate in (named, *map(shutil.which, BROWSERS), *BROWSER_FOLDERS):
        if candidate and Path(candidate).is_file():
            return str(candidate)
    own = _playwright_browser()
    if own:
        return own
    if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        say("Installing Debian's Chromium for the browser tests")
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        run("apt-get", "update", "-qq", env=quiet)
        run("apt-get", "install", "-y", "-qq", "chromium", env=quiet)
        installed = shutil.which("chromium")
        if installed:
            return installed
    raise Stop(
        "The browser tests need a Chromium or Chrome. Install one (Debian: apt-get install chromium;"
        " elsewhere: python -m playwright install chromium), or name one in ATTNLAB_BROWSER."
    )


def find_sandbox() -> None:
    """See to it that bubblewrap is there, in which the grader's tests run submissions; Linux alone has it.

    Raises:
        Stop: if it is missing and may not be installed.
    """
    if not sys.platform.startswith("linux") or shutil.which("bwrap"):
        return
    if shutil.which("apt-get") and os.geteuid() == 0:
        say("Installing Debian's bubblewrap for the grader's tests")
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        run("apt-get", "update", "-qq", env=quiet)
        run("apt-get", "install", "-y", "-qq", "bubblewrap", env=quiet)
    if not shutil.which("bwrap"):
        raise Stop("The grader's tests need bubblewrap. Install it (Debian: apt-get install bubblewrap).")


def _playwright_browser() -> str | None:
    """Playwright's own Chromium: there already, or downloaded now; None where that is not possible."""
    where = "from playwright.sync_api import sync_playwright as play\n"
    where += "with play() as p: print(p.chromium.executable_path)"
    for attempt in ("there", "downloaded"):
        if attempt == "downloaded":
            say("Asking Playwright for its Chromium")
            get = [str(python()), "-m", "playwright", "install", "chromium"]
            try:
                subprocess.run(get, capture_output=True, timeout=600, check=True)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                return None
        asked = subprocess.run([str(python()), "-c", where], capture_output=True, text=True, check=False)
        path = asked.stdout.strip()
        if path and Path(path).is_file():
            return path
    return None


def build_site() -> None:
    """Build the website from the stored outputs into ``_build/html``; a warning is an error."""
    environment(SITE_PINS if not (VENV / f"{ALL_PINS.stem}.installed").exists() else ALL_PINS)
    say("Building the website from the stored notebooks (nothing is executed)")
    began = time.monotonic()
    start = SITE / "index.html"
    start.unlink(missing_ok=True)
    run(program("jupyter-book"), "build", ".", "-W", "-n", "--keep-going", "--all")
    if not start.exists():
        raise Stop(f"the build ended without an error, but wrote no {start.relative_to(ROOT)}")
    took = time.monotonic() - began
    say(f"The website is in {SITE.relative_to(ROOT)} (built in {took:.0f} s). Start: index.html")


def lint() -> None:
    """Style, types and spelling over manuscript and code."""
    say("Style, types, spelling")
    run(python(), "-m", "ruff", "check", ".")
    run(python(), "-m", "ruff", "format", "--check", ".")
    run(python(), "-m", "mypy")
    run(python(), "-m", "codespell_lib", *SPELLED)


SPELLED = (
    "README.md",
    "CONTRIBUTING.md",
    "CITATION.cff",
    "LICENSE-TEXT",
    "book",
    "src",
    "tools",
    "tests",
    "benchmarks",
)


def run_notebooks() -> None:
    """Run every notebook again with nbval and compare each stored output."""
    say("Running every notebook again and comparing what it prints with what is stored")
    run(
        *(python(), "-m", "pytest", "-p", "tools.notebooks.nbval_plugin", "-p", "no:cacheprovider"),
        *("--nbval", "--nbval-sanitize-with", "tests/nbval.cfg", "--nbval-cell-timeout", "600"),
        *("-n", "2", "--dist", "loadfile", "-q", "-o", "timeout=0"),
        *NOTEBOOK_FOLDERS,
    )


def test(only: Sequence[str] = ()) -> None:
    """Everything that must hold: lint, agreement, the site, the tests, and every notebook run again."""
    environment(ALL_PINS)
    browser = find_browser()
    find_sandbox()
    if only:
        run(python(), "-m", "pytest", *only, env={"ATTNLAB_BROWSER": browser})
        return
    lint()
    check()
    build_site()
    say("Unit, property, parity, tool and browser tests")
    with tempfile.TemporaryDirectory() as home:
        env = {"ATTNLAB_BROWSER": browser, "ATTNLAB_HOME": home, "OMP_NUM_THREADS": "1"}
        run(python(), "-m", "pytest", "-n", "2", "--dist", "loadscope", "-q", env=env)
    run_notebooks()
    say("All tests passed")


def check() -> None:
    """Manuscript and notebooks agree; nothing is executed."""
    environment(ALL_PINS)
    say("Manuscript, notebooks, evidence and tables agree?")
    run(python(), "-m", "tools.notebooks", "check")
    run(python(), "-m", "tools.chapters", "--check")


def notebooks(only: Sequence[str] = ()) -> None:
    """Run and rebuild the notebooks: all of them, or those named by number or slug.

    With ``SEED_SHIFT`` in the environment they are run with shifted seeds, and nothing is written.
    """
    environment(ALL_PINS)
    shift = os.environ.get("SEED_SHIFT", "0")
    if shift != "0":
        say(f"Running the notebooks with seeds shifted by {shift}; nothing is written")
        run(python(), "-m", "tools.notebooks", "rehearse", *only, "--shift", shift)
        return
    say("Building the notebooks from the manuscript")
    run(python(), "-m", "tools.notebooks", "build", *only, *([] if only else ["--force"]))
    run(python(), "-m", "tools.chapters")


def serve(port: int) -> None:
    """Serve the website on this machine only."""
    if not (SITE / "index.html").exists():
        build_site()
    say(f"http://127.0.0.1:{port}/  (stop with Ctrl+C)")
    run(python(), "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", SITE)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="course.py", description="The commands of Attention Lab.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text)
        if name in NAMED:
            sub.add_argument("only", nargs="*", help=NAMED[name])
        if name == "serve":
            sub.add_argument("--port", type=int, default=8000)
    arguments, rest = parser.parse_known_args(argv)
    if rest and arguments.command not in ("test", "audit"):  # they have options of their own
        parser.error(f"unknown arguments: {' '.join(rest)}")
    arguments.only = [*getattr(arguments, "only", []), *rest]
    return arguments


COMMANDS = {
    "site": "build the website into _build/html",
    "serve": "serve the website on this machine",
    "test": "run every test",
    "lab": "open JupyterLab on the notebooks",
    "notebooks": "run and rebuild the notebooks",
    "check": "manuscript and notebooks agree?",
    "evidence": "measure every claim again with three seeds",
    "catalogue": "is every known mistake of the exercises caught and named?",
    "grade-demo": "grade a made-up class: marks, feedback and summary in _build/grading",
    "hostile": "grade the hostile submissions: nothing may get through",
    "bench": "print the benchmarks' ratios",
    "colab": "run the notebooks with nothing but Colab's packages",
    "pdf": "print the website as one PDF into _build",
    "audit": "measure the website: Lighthouse, weights, axe, policy",
}


NAMED = {
    "notebooks": "numbers or slugs",
    "evidence": "numbers or slugs",
    "test": "arguments for pytest",
    "catalogue": "lessons by name, such as masks",
    "hostile": "names of submissions",
    "bench": "names of benchmarks",
    "colab": "numbers or slugs",
    "audit": "words in the names of pages, and options of python -m tools.audit",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 if it went well."""
    arguments = parse(argv)
    only = arguments.only
    try:
        match arguments.command:
            case "site":
                build_site()
            case "serve":
                serve(arguments.port)
            case "test":
                test(only)
            case "lab":
                environment(ALL_PINS)
                run(
                    program("jupyter-lab"), "--notebook-dir", ROOT, "--LabApp.default_url=/lab/tree/notebooks"
                )
            case "notebooks":
                notebooks(only)
            case "check":
                check()
            case "evidence":
                environment(ALL_PINS)
                run(python(), "-m", "tools.notebooks", "evidence", *only, "-n", "3")
            case "catalogue":
                environment(ALL_PINS)
                run(python(), "-m", "tools.catalogue", *only)
            case "grade-demo":
                environment(ALL_PINS)
                run(python(), "-m", "tools.grade_demo")
            case "hostile":
                environment(ALL_PINS)
                run(python(), "-m", "tests.grading.hostile", *only)
            case "bench":
                environment(ALL_PINS)
                run(python(), "-m", "benchmarks", *only)
            case "colab":
                environment(ALL_PINS)
                run(python(), "-m", "tools.colab", *only)
            case "pdf" | "audit" as name:
                environment(ALL_PINS)
                if not (SITE / "index.html").exists():
                    build_site()
                run(python(), "-m", f"tools.{name}", *only)
    except Stop as stop:
        print(f"\n{stop}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
