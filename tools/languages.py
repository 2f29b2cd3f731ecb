"""Does lesson 9 translate into every language? Train it with its one word changed, and say how it came out.

``python -m tools.languages [de es zh fr ...] [--shifts 0 1 2]`` runs the lesson's own cells, up to the one
that counts exact matches, with another language in the place of French. What it measures is what a reader
gets who changes that word. It takes about a minute a run and writes nothing; 1 is returned where a bar is
missed. With ``--write`` the languages that the lesson's own evidence lacks are measured with three seeds and
stored: the evidence page shows them, and ``make check`` says when lesson or library have outgrown them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tools.notebooks import sources
from tools.notebooks.book import PACKAGE
from tools.notebooks.code import fingerprint
from tools.notebooks.files import read, write
from tools.notebooks.manuscript import Cell, load

ROOT = Path(__file__).resolve().parent.parent
LESSON = "book/lessons/09_translation.py"
WORD = 'language = "fr"'
MEASURE = 'claim("exact_match"'
#: The share of held-out phrases that must be right in every character.
BARS = {"fr": 0.99, "de": 0.98, "es": 0.98, "zh": 0.98}
#: French is the lesson's own language, and in its evidence.
OTHERS = ("de", "es", "zh")
NAMES = {"de": "German", "es": "Spanish", "zh": "Chinese"}
STORE = "notebooks/languages.json"
SHIFTS = (0, 1, 2)
_WIDGETS = re.compile(r"^from attnlab\.widgets import \w+(?:, \w+)*\n?", re.MULTILINE)
_AGAIN = "run `python -m tools.languages --write`"


def cells_for(language: str, root: Path = ROOT) -> Iterator[Cell]:
    """The lesson's code cells up to the measurement, each with its source for this language.

    Raises:
        ValueError: if the word that decides the language does not stand there once, or nothing is measured.
    """
    cells = load(root / LESSON, root, "lesson").of_kind("code")
    if sum(cell.source.count(WORD) for cell in cells) != 1:
        raise ValueError(f"{LESSON}: expected {WORD} once")
    stop = next((number for number, cell in enumerate(cells) if MEASURE in cell.source), None)
    if stop is None:
        raise ValueError(f"{LESSON}: expected a cell with {MEASURE}")
    for cell in cells[: stop + 1]:
        source = cell.source.replace(WORD, f'language = "{language}"')
        yield Cell(cell.index, cell.kind, source, cell.metadata, cell.line, cell.start, cell.stop)


def measure(language: str, shift: int = 0, root: Path = ROOT) -> float:
    """Train the lesson's translator for a language, with its seeds shifted; the share of exact matches."""
    from attnlab.claims import CLAIMS

    os.environ["SEED_SHIFT"] = str(shift)
    CLAIMS.clear()
    names: dict[str, object] = {"__name__": "lesson"}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells_for(language, root):
            exec(compile("\n" * (cell.line - 1) + cell.source, LESSON, "exec"), names)
    value = CLAIMS["exact_match"][-1]
    assert isinstance(value, int | float)
    return float(value)


def code_of(root: Path = ROOT) -> str:
    """A fingerprint of the lesson's cells that decide what is trained; a widget draws and moves no number."""
    return fingerprint(*(_WIDGETS.sub("", cell.source) for cell in cells_for("fr", root)))


def loaded_sources(root: Path = ROOT) -> list[str]:
    """The files, below the root, of the package's modules that this process has loaded, and of its data."""
    package = (root / PACKAGE).resolve()
    places = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    files = [Path(place).resolve() for place in places if isinstance(place, str)]
    inside = (path.relative_to(package).as_posix() for path in files if path.is_relative_to(package))
    return sources.of_run(root, sorted(inside))


def store(values: dict[str, list[float]], root: Path = ROOT) -> None:
    """Write what was measured in this process: the shares of exact matches, by language and seed."""
    entry = {
        "code": code_of(root),
        "date": date.today().isoformat(),
        "exact_match": values,
        "shifts": list(SHIFTS),
        "sources": sources.moving(sources.hashes(root, loaded_sources(root))),
        "torch": version("torch"),
    }
    write(root / STORE, json.dumps(entry, indent=1) + "\n")


def stored(root: Path = ROOT) -> dict[str, Any]:
    """What :func:`store` wrote; empty where nothing was."""
    path = root / STORE
    return json.loads(read(path)) if path.exists() else {}


def problems(root: Path = ROOT) -> Iterator[str]:
    """What is wrong with the stored values: missing, outgrown, or below a bar. Runs nothing."""
    if not (root / LESSON).exists():
        return
    entry = stored(root)
    values = entry.get("exact_match", {})
    for language in OTHERS:
        if len(values.get(language, ())) < len(SHIFTS):
            yield f"{STORE}:1: nothing, or too little, was measured for {language}; {_AGAIN}"
        elif min(values[language]) < BARS[language]:
            yield f"{STORE}:1: {language} reaches {min(values[language])}, the bar is {BARS[language]}"
    for what in sources.outdated(root, entry, LESSON, code_of(root)) if entry else ():
        yield f"{STORE}:1: {what}; {_AGAIN}"


def section(root: Path = ROOT) -> str:
    """The part of the evidence page that shows the stored values; empty where there are none."""
    entry = stored(root)
    if not entry:
        return ""
    lines = [
        "## 9. Translation, in other languages",
        "",
        "The share of exact matches where the lesson's one word is changed, and nothing else. "
        f"Measured on {entry['date']} with torch {entry['torch']}.",
        "",
        "| language | bound | seeds | lowest | highest |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for language, values in entry["exact_match"].items():
        numbers = f"{len(values)} | {min(values):.3f} | {max(values):.3f}"
        lines.append(f"| {NAMES[language]} | at least {BARS[language]} | {numbers} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Measure and print; 1 where a language misses its bar."""
    parser = argparse.ArgumentParser(prog="python -m tools.languages", description=__doc__)
    parser.add_argument(
        "languages", nargs="*", metavar="LANGUAGE", help=f"of {', '.join(BARS)}; all if left out"
    )
    parser.add_argument("--shifts", nargs="+", type=int, default=[0], help="seed shifts, by default 0 alone")
    parser.add_argument(
        "--write", action="store_true", help=f"measure {', '.join(OTHERS)} and store the values"
    )
    options = parser.parse_args(argv)
    if options.write:
        options.languages, options.shifts = list(OTHERS), list(SHIFTS)
    for language in options.languages:
        if language not in BARS:
            parser.error(f"LANGUAGE: expected some of {', '.join(BARS)}, got {language}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported
    missed = 0
    values: dict[str, list[float]] = {}
    for language in options.languages or BARS:
        for shift in options.shifts:
            began = time.process_time()
            share = measure(language, shift, root)
            values.setdefault(language, []).append(share)
            met = share >= BARS[language]
            missed += not met
            print(
                f"{language}  seed shift {shift}  exact match {share:.3f}  bar {BARS[language]:.2f}, "
                f"{'met' if met else 'MISSED'}  {time.process_time() - began:.0f} CPU-seconds",
                flush=True,
            )
    if options.write and not missed:
        store(values, root)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
