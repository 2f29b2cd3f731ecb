"""The code that learners wrote, read as text and never run: for flags, not for marks."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["Definition", "answers_of", "code_cells", "definitions", "imported_names"]

_MOST_BYTES = 20 << 20
_LONGEST_CELL = 200_000

Definition = ast.FunctionDef | ast.ClassDef


def code_cells(path: Path) -> list[str]:
    """The code cells of a notebook, or the whole of a script; nothing where it cannot be read."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return []
        text = path.read_text(encoding="utf-8")
        if path.suffix.lower() != ".ipynb":
            return [text[:_LONGEST_CELL]]
        cells = json.loads(text)["cells"]
        sources = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
        joined = ["".join(source) if isinstance(source, list) else str(source) for source in sources]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [source[:_LONGEST_CELL] for source in joined]


def _trees(cells: Sequence[str]) -> Iterator[ast.Module]:
    for source in cells:
        lines = [line for line in source.split("\n") if not line.lstrip().startswith(("%", "!"))]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a learner's code, such as an odd escape in a string
                yield ast.parse("\n".join(lines))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue


def definitions(cells: Sequence[str]) -> dict[str, Definition]:
    """Functions and classes that are defined at the top of the cells, by name; the last one counts."""
    return {
        node.name: node
        for tree in _trees(cells)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def imported_names(cells: Sequence[str]) -> dict[str, str]:
    """For each name that an import binds, what it stands for: ``{"f": "scaled_dot_product_attention"}``."""
    found = {}
    for tree in _trees(cells):
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.update({alias.asname or alias.name: alias.name.split(".")[-1] for alias in node.names})
    return found


def answers_of(name: str, known: dict[str, Definition]) -> list[Definition]:
    """The definition of ``name`` and those that it uses, directly or not, among the ``known`` ones."""
    wanted, reached = [name], dict[str, Definition]()
    while wanted:
        current = wanted.pop()
        if current in known and current not in reached:
            reached[current] = known[current]
            wanted += [node.id for node in ast.walk(known[current]) if isinstance(node, ast.Name)]
    return list(reached.values())
