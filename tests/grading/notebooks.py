"""Make submissions for the tests: solved notebooks, changed in one way each."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = ROOT / "solutions"
EXERCISES = ROOT / "exercises"
ATTENTION_SET = "03_query_key_value"


def solved(stem=ATTENTION_SET):
    """The solved notebook as data."""
    return json.loads((SOLUTIONS / f"{stem}.ipynb").read_text(encoding="utf-8"))


def unsolved(stem=ATTENTION_SET):
    """The exercise notebook as data."""
    return json.loads((EXERCISES / f"{stem}.ipynb").read_text(encoding="utf-8"))


def source(cell):
    return "".join(cell["source"])


def cell_with(book, text):
    """The code cell that holds a text."""
    return next(c for c in book["cells"] if c["cell_type"] == "code" and text in source(c))


def code_cell(text):
    return {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": text}


def put(book, text, *, after=None, before=None):
    """Put a new code cell behind, or before, the one that holds a text; at the end without."""
    place = len(book["cells"])
    if after or before:
        place = book["cells"].index(cell_with(book, after or before)) + (1 if after else 0)
    book["cells"].insert(place, code_cell(text))


def write(book, path):
    path.write_text(json.dumps(book), encoding="utf-8")
    return path
