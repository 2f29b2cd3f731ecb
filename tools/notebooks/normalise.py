"""Take out of stored outputs what differs from machine to machine and from run to run.

Two builds of the same manuscript on one machine give the same bytes: widget models are numbered, not named at
random; times, addresses, paths of this machine and progress bars go.
"""

import json
import re
import site
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from . import nodes
from .files import digest

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]{6,}|\b0x[0-9a-fA-F]{8,}\b")
CELL_FILE = re.compile(r"[^\s\"'(<]*ipykernel_\d+[/\\]\d+\.py")
PACKAGES = re.compile(r"(?:~|[A-Za-z]:|/)?[^\s\"'(<:]*[/\\](?:site|dist)-packages[/\\]")
STANDARD = re.compile(r"(?:~|[A-Za-z]:|/)[^\s\"'(<:]*[/\\]lib[/\\]python3\.\d+[/\\]")
BAR = re.compile(r"\d+%\|.*?\|.*|.*\b\d+(?:\.\d+)?[kMG]?it \[\d\d:\d\d.*|.*\[\d\d:\d\d<.*")
STATE = "application/vnd.jupyter.widget-state+json"
BAR_MODELS = {"FloatProgressModel", "IntProgressModel"}
KEPT = ("tags",)


def places(root: Path, home: Path | None = None) -> list[tuple[str, str]]:
    """Return (path, what stands for it) for the places of this machine, the longest first."""
    pairs = [(str(root) + sep, "") for sep in ("/", "\\")] + [(str(root), ".")]
    user = Path.home()
    if root.is_relative_to(user) and root != user:
        pairs.append((f"~/{root.relative_to(user).as_posix()}/", ""))
    if home is not None:
        pairs += [(str(home), "<course folder>"), (str(home.parent), "<temporary>")]
    for folder in {*site.getsitepackages(), site.getusersitepackages()}:
        pairs.append((folder, "site-packages"))
    pairs += [(sys.prefix, "<python>"), (sys.base_prefix, "<python>")]
    if len(str(user)) > 1:
        pairs.append((str(user), "~"))
    return sorted(set(pairs), key=lambda pair: -len(pair[0]))


def clean(text: str, known: Iterable[tuple[str, str]]) -> str:
    """Return a text without addresses and without paths of this machine."""
    text = ADDRESS.sub("", CELL_FILE.sub("<cell>", text))
    for path, stand_in in known:
        whole = "" if path.endswith(("/", "\\")) else r"(?![\w-])"
        text = re.sub(re.escape(path) + whole, stand_in, text)
    return STANDARD.sub("<python>/", PACKAGES.sub("site-packages/", text))


def without_bars(text: str) -> str:
    """Return what a program said beside its progress bars."""
    kept = []
    lines = text.split("\n")
    for place, line in enumerate(lines):
        pieces = [piece for piece in line.split("\r") if piece.strip() and not BAR.search(piece)]
        if pieces or not line.strip():
            kept.append(pieces[-1] if pieces else "")
        elif place == len(lines) - 1:
            kept.append("")
    return "\n".join(kept) if any(line.strip() for line in kept) else ""


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Apply a change to every string inside a value of JSON."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [mapped(entry, change) for entry in value]
    if isinstance(value, dict):
        return {key: mapped(entry, change) for key, entry in value.items()}
    return value


def outputs(cell: NotebookNode, known: list[tuple[str, str]]) -> None:
    """Clean the outputs of a code cell in place."""
    kept = []
    for output in cell.outputs:
        if output.output_type == "stream":
            output.text = clean(without_bars(output.text) if output.name == "stderr" else output.text, known)
            if not output.text:
                continue
        elif output.output_type == "error":
            output.evalue = clean(output.evalue, known)
            output.traceback = [clean(line, known) for line in output.traceback]
        else:
            for kind, data in output.data.items():
                if not kind.startswith("image/") or kind == "image/svg+xml":
                    output.data[kind] = mapped(data, lambda text: clean(text, known))
        kept.append(output)
    cell.outputs = kept


def widget_models(notebook: NotebookNode) -> dict[str, Any]:
    """Return the stored models of the notebook's widgets by their id."""
    stored: dict[str, Any] = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    return stored


def renumber(notebook: NotebookNode, stem: str) -> NotebookNode:
    """Give widget models ids that depend on their order alone, wherever an id stands.

    The ids sort in the order of creation, so that a stored notebook, whose keys are sorted, keeps them.
    """
    names = {
        old: f"{place:08x}{digest(stem, str(place))}" for place, old in enumerate(widget_models(notebook))
    }
    if not names or all(old == new for old, new in names.items()):
        return notebook
    pattern = re.compile("|".join(map(re.escape, names)))
    text = json.dumps(notebook)
    renamed: NotebookNode = nodes.node(json.loads(pattern.sub(lambda match: names[match[0]], text)))
    return renamed


def notebook(node: NotebookNode, stem: str, known: list[tuple[str, str]]) -> NotebookNode:
    """Clean a whole executed notebook; cleaning twice changes nothing."""
    for cell in node.cells:
        cell.metadata = nodes.node({key: cell.metadata[key] for key in KEPT if key in cell.metadata})
        if cell.cell_type == "code":
            outputs(cell, known)
    for model in widget_models(node).values():
        code = {key: model.state[key] for key in ("_esm", "_css") if key in model.state}
        model.state = mapped(model.state, lambda text: clean(text, known))
        model.state.update(code)
    return renumber(node, stem)


def progress_widgets(node: NotebookNode) -> bool:
    """Return whether a progress bar was stored as a widget; it would hold times."""
    return any(model.get("model_name") in BAR_MODELS for model in widget_models(node).values())
