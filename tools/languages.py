"""Does lesson 9 translate into every language? Train it with its one word changed, and say how it came out.

``python -m tools.languages [de es zh fr ...] [--shifts 0 1 2]`` runs the lesson's own cells, up to the one
that counts exact matches, with another language in the place of French. What it measures is what a reader
gets who changes that word. It takes about a minute a run and writes nothing; 1 is returned where a bar is
missed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.notebooks.manuscript import Cell, load

ROOT = Path(__file__).resolve().parent.parent
LESSON = "book/lessons/09_translation.py"
WORD = 'language = "fr"'
MEASURE = 'claim("exact_match"'
#: The share of held-out phrases that must be right in every character.
BARS = {"fr": 0.99, "de": 0.98, "es": 0.98, "zh": 0.98}


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


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Measure and print; 1 where a language misses its bar."""
    parser = argparse.ArgumentParser(prog="python -m tools.languages", description=__doc__)
    parser.add_argument(
        "languages", nargs="*", metavar="LANGUAGE", help=f"of {', '.join(BARS)}; all if left out"
    )
    parser.add_argument("--shifts", nargs="+", type=int, default=[0], help="seed shifts, by default 0 alone")
    options = parser.parse_args(argv)
    for language in options.languages:
        if language not in BARS:
            parser.error(f"LANGUAGE: expected some of {', '.join(BARS)}, got {language}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported
    missed = 0
    for language in options.languages or BARS:
        for shift in options.shifts:
            began = time.process_time()
            share = measure(language, shift, root)
            met = share >= BARS[language]
            missed += not met
            print(
                f"{language}  seed shift {shift}  exact match {share:.3f}  bar {BARS[language]:.2f}, "
                f"{'met' if met else 'MISSED'}  {time.process_time() - began:.0f} CPU-seconds",
                flush=True,
            )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
