"""Notebooks as nbformat has them, with types."""

from collections.abc import Mapping, Sequence
from typing import Any

import nbformat
from nbformat import NotebookNode, v4

_FORMAT: Any = nbformat
_V4: Any = v4


def node(value: Any) -> Any:
    """Turn dicts, and dicts inside them, into notebook nodes."""
    return _FORMAT.from_dict(value)


def new_cell(
    kind: str, source: str, metadata: Mapping[str, Any], identifier: str | None = None
) -> NotebookNode:
    """Return a cell without outputs; ``kind`` is ``code``, ``markdown`` or ``raw``."""
    make = {"code": _V4.new_code_cell, "markdown": _V4.new_markdown_cell, "raw": _V4.new_raw_cell}[kind]
    cell: NotebookNode = make(source, metadata=dict(metadata), **({"id": identifier} if identifier else {}))
    return cell


def new_notebook(cells: Sequence[NotebookNode], metadata: Mapping[str, Any]) -> NotebookNode:
    """Return a notebook."""
    made: NotebookNode = _V4.new_notebook(cells=list(cells), metadata=node(dict(metadata)))
    return made


def loads(text: str) -> NotebookNode:
    """Read a notebook from its text; raises what nbformat raises."""
    read: NotebookNode = _FORMAT.reads(text, as_version=4)
    return read


def dumps(notebook: NotebookNode) -> str:
    """Return a notebook's text, as it is stored."""
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return str(_FORMAT.writes(notebook)).rstrip("\n") + "\n"
