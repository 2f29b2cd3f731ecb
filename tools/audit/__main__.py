"""Measure the built site: ``python -m tools.audit [PAGE ...] [--runs 3] [--without-lighthouse]``.

For each page: Lighthouse on a phone and on a desk (performance, accessibility, best practices, SEO; the
median of three runs), kB sent without and with figures, violations that axe finds in both themes, and what
breaks the policy: requests to other hosts, refused code, complaints in the console. Exits with 1 where a
promise is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import sync_playwright

from tools.audit import bars, lighthouse, server, visit
from tools.course import Stop, find_browser
from tools.pdf import contents

ROOT = Path(__file__).resolve().parents[2]
SHAPE = "{:<40}{:>15}{:>16}{:>6}{:>6}{:>5}{:>8}"
HEAD = SHAPE.format("page", "phone", "desk", "kB", "all", "axe", "policy")


def chosen(html: Path, only: Sequence[str]) -> list[str]:
    """The pages of the site: all, or those with one of the words in their names.

    Raises:
        SystemExit: if there is no site, or a word fits no page.
    """
    if not (html / "index.html").is_file():
        raise SystemExit(f"there is no website in {html}: run `make site` first")
    names = [name for part in contents.read(ROOT / "_toc.yml") for name in part.pages]
    names += [name for name in bars.UNLISTED if (html / f"{name}.html").is_file()]
    for word in only:
        if not any(word in name for name in names):
            raise SystemExit(f"no page has {word!r} in its name: {', '.join(names)}")
    return [name for name in names if not only or any(word in name for word in only)]


def line(row: bars.Row) -> str:
    """A line of the table."""
    shown = {
        form: "/".join(str(score) for score in row.scores[form].values()) if form in row.scores else "not run"
        for form in lighthouse.FORMS
    }
    found = row.found
    weights = (f"{weight / 1000:.0f}" for weight in (found.text, found.weight))
    return SHAPE.format(row.name, *shown.values(), *weights, len(found.axe), len(found.policy))


def audit(html: Path, names: Sequence[str], runs: int, browser_path: str) -> list[tuple[bars.Row, list[str]]]:
    """Measure pages, print the table, return each row with what it misses. No runs: no Lighthouse."""
    variables = lighthouse.ready(browser_path) if runs else {}
    results = []
    with server.serving(html) as address:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"]
            )
            rows = [bars.Row(name, visit.look(browser, address, html, name)) for name in names]
            browser.close()
        heaviest = bars.heaviest({row.name: row.found.weight for row in rows})
        print(HEAD, flush=True)
        for row in rows:
            for form in lighthouse.FORMS if runs else ():
                url = f"{address}{row.name}.html"
                row.scores[form], row.failing[form] = lighthouse.measure(url, form, runs, variables)
            print(line(row), flush=True)
            results.append((row, bars.missed(row, row.name == heaviest)))
    if runs:
        print(f"Scores: performance/accessibility/best practices/SEO, the median of {runs}.", end=" ")
    print(f"Heaviest lesson of these: {heaviest}.")
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the site; 0 if nothing that is promised is missed."""
    parser = argparse.ArgumentParser(prog="python -m tools.audit", description=__doc__)
    parser.add_argument("only", nargs="*", help="words in the names of pages, such as notebooks/03")
    parser.add_argument("--html", type=Path, default=ROOT / "_build" / "html", help="the built site")
    parser.add_argument("--runs", type=int, default=3, help="runs of Lighthouse for each page and form")
    parser.add_argument("--without-lighthouse", action="store_true", help="weights, axe and policy alone")
    arguments = parser.parse_args(argv)
    names = chosen(arguments.html, arguments.only)
    runs = 0 if arguments.without_lighthouse else arguments.runs
    try:
        results = audit(arguments.html, names, runs, find_browser())
    except (lighthouse.Absent, lighthouse.Failed, Stop) as error:
        print(error, file=sys.stderr)
        return 1
    said = [f"{row.name}: {what}" for row, all_missed in results for what in all_missed]
    print("\n".join(said) if said else "Nothing that is promised is missed.")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
