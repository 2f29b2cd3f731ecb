"""A made-up class, graded: ``python -m tools.grade_demo`` shows what an instructor gets.

The class hands in exercise set 3: most answers are right, some make a known mistake, one loops, one notebook
is broken. Everything goes into ``_build/grading``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnlab.cli import main as attnlab

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "_build" / "grading"
SET = "03_query_key_value"
STUDENTS = (
    *("ada", "alan", "barbara", "claude", "dorothy", "edsger", "emmy", "frances", "george", "grace"),
    *("hedy", "ida", "john", "katherine", "kurt", "leslie", "margaret", "niklaus", "radia", "sophie"),
)
# A mistake changes a piece of the solution: the cell that holds it, what stands there, what comes.
MISTAKES = (
    ("def attention(", " / math.sqrt(query.shape[-1])", ""),
    ("def attention(", "math.sqrt(query.shape[-1])", "query.shape[-1]"),
    ("def attention(", "softmax(dim=-1)", "softmax(dim=-2)"),
    ("def attention(", "masked_fill(~mask, -math.inf)", "masked_fill(mask, -math.inf)"),
    ("def attention(", "return weights @ value, weights", "return weights, weights @ value"),
    (
        "prediction = {",
        '"query doubled, largest weight": "grows"',
        '"query doubled, largest weight": "stays"',
    ),
    ("prediction = {", 'q·k, times": 4', 'q·k, times": 16'),
    ("class SelfAttention", "value = self.w_v(x)", "value = self.w_k(x)"),
    ("def attend(", "dim=-1", "dim=1"),
    ("def attend(", "query.shape[-1]", "x.shape[-1]"),
    ("exponent = ", "0.5 - slope", "slope"),
)
RENAMED = (("scores", "s"), ("weights", "w"), ("nothing", "empty"), ("allowed", "seen"))
LOOP = "def attend(x, w_q, w_k, w_v):\n    while True:\n        pass\n"


def solved() -> dict[str, Any]:
    """The set's solution without outputs, each cell's source as one text."""
    notebook: dict[str, Any] = json.loads((ROOT / "solutions" / f"{SET}.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return notebook


def change(notebook: dict[str, Any], start: str, old: str, new: str) -> None:
    """Replace ``old`` by ``new`` in the first cell with ``start`` in it.

    Raises:
        ValueError: if there is no such piece: the solution has changed.
    """
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and start in cell["source"]:
            if old not in cell["source"]:
                break
            cell["source"] = cell["source"].replace(old, new)
            return
    raise ValueError(f"the solution of {SET} has no {old!r} in the cell with {start!r}")


def hand_in(folder: Path, count: int, seed: int = 0, *, odd: bool = True) -> None:
    """Write a class's submissions.

    folder: where to, one notebook a student. count: how many. seed: of who makes which mistake.
    odd: whether some loop, are broken or are copies.
    """
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(seed)
    for index in range(count):
        notebook = solved()
        for mistake in dice.sample(MISTAKES, dice.choice((0, 0, 1, 1, 2, 3))):
            # Two mistakes may change the same piece: the second one is then not made.
            if any(
                mistake[0] in cell["source"] and mistake[1] in cell["source"] for cell in notebook["cells"]
            ):
                change(notebook, *mistake)
        # No two notebooks are the same bytes, as in a class.
        notebook["metadata"]["saved"] = index
        name = STUDENTS[index % len(STUDENTS)] + (
            str(index // len(STUDENTS)) if index >= len(STUDENTS) else ""
        )
        path = folder / f"{name}.ipynb"
        if odd and index % 20 == 7:
            change(notebook, "def attend(", notebook_source(notebook, "def attend("), LOOP)
        if odd and index % 20 == 11:
            for old, new in RENAMED:
                change(notebook, "def attention(", old, new)
        path.write_text(json.dumps(notebook), encoding="utf-8")
        if odd and index % 20 == 15:
            path.write_text(path.read_text(encoding="utf-8")[:2000], encoding="utf-8")


def notebook_source(notebook: dict[str, Any], start: str) -> str:
    """The source of the first code cell with ``start`` in it.

    notebook: to look in. start: a piece of the cell.
    """
    return next(
        str(cell["source"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code" and start in cell["source"]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Make the class, grade it, and say where to look; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.grade_demo", description=__doc__)
    parser.add_argument("--students", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args(argv)
    submissions = FOLDER / "submissions"
    shutil.rmtree(submissions, ignore_errors=True)
    hand_in(submissions, arguments.students)
    out, pages = FOLDER / "marks.csv", FOLDER / "feedback"
    options = ["--out", str(out), "--feedback", str(pages), "--jobs", str(arguments.jobs)]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return attnlab(["grade", str(submissions), *options, "--only", "query_key_value", "--timeout", "60"])


if __name__ == "__main__":
    sys.exit(main())
