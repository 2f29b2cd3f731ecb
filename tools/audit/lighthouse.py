"""Lighthouse, by ``npx``: a tool of the audit alone, which neither the site's build nor its tests need."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

PACKAGE = "lighthouse@12.8.2"
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
FORMS: dict[str, tuple[str, ...]] = {"mobile": (), "desktop": ("--preset=desktop",)}
FLAGS = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage"
WITHIN = 300  # seconds for one run

Scores = dict[str, int]


class Absent(RuntimeError):
    """Lighthouse cannot be run here; the message says why."""


class Failed(RuntimeError):
    """Lighthouse ran and measured nothing."""


def scores(report: Mapping[str, Any]) -> Scores:
    """The four scores of a report, from 0 to 100.

    Raises:
        Failed: if it could not measure one of them.
    """
    found = {name: report["categories"][name]["score"] for name in CATEGORIES}
    missing = [name for name, score in found.items() if score is None]
    if missing:
        reason = (report.get("runtimeError") or {}).get("message", "it gives no reason")
        raise Failed(f"Lighthouse has no score for {', '.join(missing)}: {reason}")
    return {name: round(100 * score) for name, score in found.items()}


def failing(report: Mapping[str, Any]) -> list[str]:
    """Names of the audits behind a score below 100, but for those of performance."""
    names: dict[str, None] = {}
    for category in CATEGORIES[1:]:
        for entry in report["categories"][category]["auditRefs"]:
            score = report["audits"][entry["id"]].get("score")
            if entry["weight"] and score is not None and score < 1:
                names[entry["id"]] = None
    return list(names)


def median(runs: Sequence[Scores]) -> Scores:
    """The median of each score."""
    return {name: round(statistics.median(run[name] for run in runs)) for name in CATEGORIES}


def ready(browser: str) -> dict[str, str]:
    """See to it that Lighthouse is there; returns the variables it needs.

    Raises:
        Absent: if it is not, and cannot be fetched.
    """
    if shutil.which("npx") is None:
        raise Absent("Lighthouse is absent: it needs Node, and there is no npx here")
    variables = {**os.environ, "CHROME_PATH": browser, "npm_config_update_notifier": "false"}
    command = ["npx", "--yes", PACKAGE, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=WITHIN, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it says nothing"]
        raise Absent(f"Lighthouse is absent: npx could not fetch {PACKAGE}: {said[-1]}")
    return variables


def measure(url: str, form: str, runs: int, variables: Mapping[str, str]) -> tuple[Scores, list[str]]:
    """The median scores of a page in one form, and the audits that failed in the last run.

    Raises:
        Failed: if a run measures nothing.
    """
    measured, bad = [], []
    options = (
        "--output=json",
        "--quiet",
        f"--chrome-flags={FLAGS}",
        f"--only-categories={','.join(CATEGORIES)}",
    )
    for _ in range(runs):
        command = ["npx", "--yes", PACKAGE, url, *options, *FORMS[form]]
        done = subprocess.run(
            command, capture_output=True, text=True, env=variables, timeout=WITHIN, check=False
        )
        if done.returncode:
            raise Failed(f"Lighthouse ended with exit {done.returncode}: {done.stderr.strip()[-300:]}")
        report = json.loads(done.stdout)
        measured.append(scores(report))
        bad = failing(report)
    return median(measured), bad
