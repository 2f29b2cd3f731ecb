"""Lesson 17's look into a real model: run the lesson's own functions on its weights, and store the results.

``python -m tools.real_heads --write`` needs the weights of all-MiniLM-L6-v2 (the lesson says how to get them)
and takes about a minute. Without ``--write`` it says what is wrong with the stored numbers: that they are
missing, or that lesson or library have changed since. ``--reference`` also computes anew, by Hugging Face's
``transformers``, what the lesson compares the course's encoder with; the package must be installed for it.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tools.languages import ROOT, loaded_sources
from tools.notebooks import sources
from tools.notebooks.code import fingerprint
from tools.notebooks.files import read, write
from tools.notebooks.manuscript import Cell, load

LESSON = "book/lessons/17_circuits.py"
STORE = "src/attnlab/measured/real_heads/real_heads.json"
#: Beginnings of the lesson's cells that decide what is measured, in their order.
CELLS = (
    "import ",
    "def reference_difference(",
    "HALVES = {",
    "def clauses(",
    "@torch.no_grad()\ndef strongest(",
    "def probe_accuracy(",
    "@torch.no_grad()\ndef word_vectors(",
)
#: The last cell goes on to what this tool is there for.
STOP = "\nprobed = "
TEXTS = ("the cat sat on the mat because it was tired .", "stock prices fell sharply on monday .")
_AGAIN = "run `python -m tools.real_heads --write`"


def cells(root: Path = ROOT) -> list[Cell]:
    """The lesson's cells that decide what is measured.

    Raises:
        ValueError: if one of them is not there, or there twice.
    """
    every = load(root / LESSON, root, "lesson").of_kind("code")
    found = []
    for start in CELLS:
        matching = [cell for cell in every if cell.source.startswith(start)]
        if len(matching) != 1:
            raise ValueError(f"{LESSON}: expected one cell that begins with {start!r}, got {len(matching)}")
        found += matching
    return found


def _measuring(cell: Cell) -> str:
    """A cell's source without what it does with the numbers."""
    source = cell.source.partition(STOP)[0]
    return source.partition("\n\n\nlooks = ")[0].partition("\n\n\ndifference = ")[0]


def code_of(root: Path = ROOT) -> str:
    """A fingerprint of the lesson's code that decides what is measured."""
    return fingerprint(*(_measuring(cell) for cell in cells(root)))


def lesson_names(root: Path = ROOT) -> dict[str, Any]:
    """What these cells define."""
    names: dict[str, Any] = {"__name__": "lesson"}
    for cell in cells(root):
        exec(compile("\n" * (cell.line - 1) + _measuring(cell), LESSON, "exec"), names)
    return names


def measure(encoder: Any, pieces: Any, reference: dict[str, Any], root: Path = ROOT) -> dict[str, Any]:
    """All numbers of the lesson, by its own functions."""
    from attnlab.measured.real_heads import reference_of

    names = lesson_names(root)
    looks = {half: names["strongest"](encoder, pieces, half) for half in names["HALVES"]}
    known = reference_of({"reference": reference})
    return {
        "difference": float(f"{names['reference_difference'](encoder, known):.3g}"),
        "looks": {half: pack(found.byte()) for half, found in looks.items()},
        "probed": [
            [[round(share, 4) for share in pair] for pair in layer]
            for layer in names["probe_all"](encoder, pieces).tolist()
        ],
    }


def pack(tensor: Any) -> dict[str, Any]:
    """A tensor as JSON can hold it."""
    raw = zlib.compress(tensor.contiguous().numpy().tobytes(), 9)
    return {"shape": list(tensor.shape), "zlib": base64.b64encode(raw).decode("ascii")}


def by_transformers(folder: Path) -> dict[str, Any]:
    """What Hugging Face's program makes of :data:`TEXTS`."""
    import torch
    from transformers import BertModel, BertTokenizer

    batch = BertTokenizer(str(folder / "vocab.txt"))(list(TEXTS), padding=True, return_tensors="pt")
    model = BertModel.from_pretrained(str(folder), attn_implementation="eager").eval()
    with torch.no_grad():
        output = model(**batch).last_hidden_state
    return {
        "lengths": batch["attention_mask"].sum(dim=1).tolist(),
        "output": pack(output),
        "program": f"transformers {version('transformers')}",
        "tokens": batch["input_ids"].tolist(),
    }


def store(root: Path = ROOT, *, anew: bool = False) -> None:
    """Measure and write the numbers, with what they depend on.

    Args:
        root: the course's repository.
        anew: whether to compute the reference, too; else the stored one is kept.

    Raises:
        FileNotFoundError: if the weights are not on this machine.
    """
    import torch

    from attnlab import pretrained

    folder = pretrained.find_minilm()
    if folder is None:
        raise FileNotFoundError(f"the weights of all-MiniLM-L6-v2; {LESSON} says how to get them")
    torch.set_num_threads(1)
    path = root / STORE
    reference = by_transformers(folder) if anew else json.loads(read(path))["reference"]
    encoder = pretrained.load_encoder(folder)
    pieces = pretrained.WordPieces.read(folder / "vocab.txt")
    entry = {
        **measure(encoder, pieces, reference, root),
        "code": code_of(root),
        "date": date.today().isoformat(),
        "reference": reference,
        "sources": sources.moving(sources.hashes(root, measured_by(root))),
        "torch": version("torch"),
        "weights": pretrained.MINILM_SHA256,
    }
    write(path, json.dumps(entry, indent=1, sort_keys=True) + "\n")


def measured_by(root: Path) -> list[str]:
    """The library's files that the numbers depend on: those loaded, without the rooms of other things."""
    rooms = ("attention", "multihead", "layers", "pretrained")
    return [name for name in loaded_sources(root) if name.split("/")[2].removesuffix(".py") in rooms]


def problems(root: Path = ROOT) -> Iterator[str]:
    """What is wrong with the stored numbers. Runs nothing."""
    if not (root / LESSON).exists():
        return
    path = root / STORE
    if not path.exists():
        yield f"{STORE}:1: nothing was measured; {_AGAIN}"
        return
    entry = json.loads(read(path))
    for what in sources.outdated(root, entry, LESSON, code_of(root)):
        yield f"{STORE}:1: {what}; {_AGAIN}"


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Measure and store, or say what is wrong with what is stored."""
    parser = argparse.ArgumentParser(prog="python -m tools.real_heads", description=__doc__)
    parser.add_argument("--write", action="store_true", help="measure with the weights, and store")
    parser.add_argument("--reference", action="store_true", help="with --write: compute the reference anew")
    chosen = parser.parse_args(argv)
    if chosen.write:
        os.environ["OMP_NUM_THREADS"] = "1"
        store(root, anew=chosen.reference)
    found = list(problems(root))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
