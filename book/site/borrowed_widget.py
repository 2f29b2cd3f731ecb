"""Sphinx extension: a page of text shows a widget whose state a notebook holds.

```{borrowed-widget} ../../notebooks/03_query_key_value.ipynb
:name-of: attnlab.widgets.attention_explorer.AttentionExplorer

What stands there until the widget is alive, and where scripts are off.
```

The page gets what MyST-NB would write for the notebook, and ``widget_host`` does the rest.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from widget_host import STATE

KEY = "borrowed_widget"


def find_model(states: dict[str, dict[str, Any]], name: str) -> str:
    """The id of the first widget of a class in a notebook's state.

    Raises:
        ValueError: there is none.
    """
    for model_id, model in states.items():
        if model["state"].get("_anywidget_id") == name:
            return model_id
    raise ValueError(f"expected a notebook with a stored {name}, got one without")


class BorrowedWidget(SphinxDirective):
    """The first widget of a class that the notebook shows."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"name-of": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        _, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(path)
        notebook = json.loads(Path(path).read_text(encoding="utf-8"))
        states = notebook["metadata"].get("widgets", {}).get(STATE, {}).get("state", {})
        try:
            model_id = find_model(states, self.options.get("name-of", ""))
        except ValueError as error:
            raise self.error(f"{self.arguments[0]}: {error}") from error
        self.env.metadata[self.env.docname][KEY] = json.dumps({"state": {model_id: states[model_id]}})
        view = {"model_id": model_id, "waiting": html.escape(" ".join(self.content))}
        text = json.dumps(view).replace("</", "<\\/")
        script = f'<script type="application/vnd.jupyter.widget-view+json">{text}</script>'
        return [nodes.raw("", script, format="html")]


def add_state(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Queue the state as MyST-NB queues that of a notebook."""
    state = app.env.metadata.get(page, {}).get(KEY)
    if state and app.builder.format == "html":
        app.add_js_file(None, type=STATE, body=state)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("borrowed-widget", BorrowedWidget)
    app.connect("html-page-context", add_state, priority=850)  # before widget_host reads it
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
