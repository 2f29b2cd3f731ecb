"""The map of lesson 7: train the lesson's own stack at every depth and learning rate, and store the curves.

``python -m tools.training_map --write`` runs the lesson's cells up to its first trainings, and then its own
``train`` once for each cell of the map, on one thread. The curves go into the package, so that the lesson
runs without this tool. It takes about seven minutes. Without ``--write`` it says what is wrong with the
stored map: that it is missing, or that lesson or library have changed since.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tools.languages import ROOT, loaded_sources
from tools.notebooks import sources
from tools.notebooks.code import fingerprint
from tools.notebooks.files import read, write
from tools.notebooks.manuscript import Cell, load

LESSON = "book/lessons/07_block.py"
STORE = "src/attnlab/measured/training_map.json"
#: The lesson's first cell that trains is the last that is run.
MEASURE = "runs = {"
DEPTHS = (1, 2, 4, 6, 12)
RATES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
#: Name, the lesson's class, steps of warm-up.
KINDS = (
    ("pre-norm", "PreNormBlock", 0),
    ("pre-norm, warm-up", "PreNormBlock", 100),
    ("post-norm", "PostNormBlock", 0),
    ("post-norm, warm-up", "PostNormBlock", 100),
)
STEPS = 300
#: Steps of which one point of a curve is the mean.
SPAN = 10
LARGEST, NOT_FINITE = 254, 255
_AGAIN = "run `python -m tools.training_map --write`"


def cells(root: Path = ROOT) -> list[Cell]:
    """The lesson's code cells up to its first trainings.

    Raises:
        ValueError: if the lesson has no cell that trains.
    """
    every = load(root / LESSON, root, "lesson").of_kind("code")
    stop = next((number for number, cell in enumerate(every) if MEASURE in cell.source), None)
    if stop is None:
        raise ValueError(f"{LESSON}: expected a cell with {MEASURE}")
    return list(every[: stop + 1])


def code_of(root: Path = ROOT) -> str:
    """A fingerprint of the lesson's cells that decide what is trained."""
    return fingerprint(*(cell.source for cell in cells(root)))


def lesson_names(root: Path = ROOT) -> dict[str, Any]:
    """What the lesson's cells define, run with the seeds that a reader gets."""
    os.environ["SEED_SHIFT"] = "0"
    names: dict[str, Any] = {"__name__": "lesson"}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in cells(root):
            exec(compile("\n" * (cell.line - 1) + cell.source, LESSON, "exec"), names)
    return names


def curve(losses: Sequence[float], steps: int = STEPS) -> list[int]:
    """Means over :data:`SPAN` steps in hundredths of a nat; those that a broken run lacks are not finite."""
    means = [sum(losses[at : at + SPAN]) / SPAN for at in range(0, len(losses) - SPAN + 1, SPAN)]
    whole = [min(LARGEST, round(100 * mean)) for mean in means]
    return whole + [NOT_FINITE] * (steps // SPAN - len(whole))


def measure(train: Callable[..., dict[str, Any]], block: type, **settings: Any) -> list[int]:
    """Train once and return the curve, also of a run whose numbers ceased to be finite."""
    from attnlab.training import NotFiniteError

    try:
        return curve(train(block, **settings)["history"].losses)
    except NotFiniteError as error:
        return curve(error.history.losses)


def run_all(root: Path = ROOT) -> bytes:
    """Train every cell of the map: the curves in the order kind, depth, rate."""
    names = lesson_names(root)
    values: list[int] = []
    for name, block, warmup in KINDS:
        for depth in DEPTHS:
            began = time.process_time()
            for rate in RATES:
                values += measure(names["train"], names[block], warmup=warmup, depth=depth, rate=rate)
            spent = time.process_time() - began
            print(f"{name:18}  {depth:2} layers  {spent:.0f} CPU-seconds", flush=True)
    return bytes(values)


def store(values: bytes, root: Path = ROOT) -> None:
    """Write the curves, with what they depend on; to be called in the process that measured them."""
    entry = {
        "code": code_of(root),
        "curves": base64.b64encode(values).decode("ascii"),
        "date": date.today().isoformat(),
        "depths": list(DEPTHS),
        "kinds": [name for name, _, _ in KINDS],
        "rates": list(RATES),
        "sources": sources.moving(sources.hashes(root, loaded_sources(root))),
        "steps": STEPS,
        "torch": version("torch"),
    }
    write(root / STORE, json.dumps(entry, indent=1) + "\n")


def problems(root: Path = ROOT) -> Iterator[str]:
    """What is wrong with the stored map. Runs nothing."""
    if not (root / LESSON).exists():
        return
    path = root / STORE
    if not path.exists():
        yield f"{STORE}:1: the map was not measured; {_AGAIN}"
        return
    entry = json.loads(read(path))
    expected = len(KINDS) * len(DEPTHS) * len(RATES) * STEPS // SPAN
    grid = (entry["kinds"], entry["depths"], entry["rates"], entry["steps"])
    if grid != ([name for name, _, _ in KINDS], list(DEPTHS), list(RATES), STEPS):
        yield f"{STORE}:1: another grid than the tool's; {_AGAIN}"
    elif len(base64.b64decode(entry["curves"])) != expected:
        yield f"{STORE}:1: expected {expected} numbers in the curves; {_AGAIN}"
    for what in sources.outdated(root, entry, LESSON, code_of(root)):
        yield f"{STORE}:1: {what}; {_AGAIN}"


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Measure and store the map, or say what is wrong with the stored one."""
    parser = argparse.ArgumentParser(prog="python -m tools.training_map", description=__doc__)
    parser.add_argument("--write", action="store_true", help="train the whole grid and store its curves")
    if parser.parse_args(argv).write:
        os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported
        store(run_all(root), root)
    found = list(problems(root))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
