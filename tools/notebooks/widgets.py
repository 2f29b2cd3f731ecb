"""Stored widgets carry their JavaScript and style sheet; keep these equal to the source files.

The code comes from the widgets' classes, which a fresh interpreter imports: no notebook is run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from .normalise import widget_models
from .problems import Problems

ID = "_anywidget_id"
PARTS = ("_esm", "_css")

_READ = """
import importlib, json, sys
found = {}
for name in json.loads(sys.argv[1]):
    module, _, kind = name.rpartition(".")
    try:
        widget = getattr(importlib.import_module(module), kind)
    except (ImportError, AttributeError) as error:
        found[name] = str(error)
        continue
    code = {part: getattr(widget, part, None) for part in ("_esm", "_css")}
    # A part that is a trait and no text is made for each widget anew, and stays as it was stored.
    code = {part: text for part, text in code.items() if text is not None and not hasattr(text, "metadata")}
    found[name] = {part: str(text) for part, text in code.items()}
print(json.dumps(found))
"""


class Sources:
    """The code of widget classes, read once for each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: dict[str, Any] = {}

    def read(self, names: set[str]) -> None:
        """Read the code of classes, named ``module.Class``, that are not known yet. Raises ``Problems``."""
        missing = sorted(names - set(self.known))
        if missing:
            path = os.pathsep.join(filter(None, [str(self.root / "src"), os.environ.get("PYTHONPATH", "")]))
            done = subprocess.run(
                [sys.executable, "-c", _READ, json.dumps(missing)],
                capture_output=True,
                encoding="utf-8",
                cwd=self.root,
                env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"},
            )
            if done.returncode:
                raise Problems(
                    f"src/attnlab/widgets:1: cannot read the widgets: {done.stderr.strip()[-300:]}"
                )
            self.known.update(json.loads(done.stdout))

    def refresh(self, notebook: NotebookNode, where: str) -> None:
        """Put the present code into a notebook's stored widgets."""
        models = [model.state for model in widget_models(notebook).values() if model.state.get(ID)]
        self.read({state[ID] for state in models})
        for state in models:
            code = self.known[state[ID]]
            if isinstance(code, str):
                raise Problems(
                    f"{where}:1: widget {state[ID]} is not there any more ({code}); build with --force"
                )
            for part, text in code.items():
                if state.get(part) != text:
                    state[part] = text
