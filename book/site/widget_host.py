"""Sphinx extension: the course's widgets run on the website, where there is no kernel.

MyST-NB puts the state of a notebook's widgets into the page as JSON. This extension

- ships a small host (``widget_host.mjs``) that starts anywidget modules from that state, with nothing from
  elsewhere;
- moves each widget's module and style sheet out of the pages into files that are named by their content, so
  that a page may forbid inline scripts and ``blob:`` addresses, and a browser keeps one copy;
- keeps of the state only what the page's widgets need;
- puts a sentence where a widget will stand, for readers without scripts, and another where a control of
  ipywidgets would stand, which can do nothing without a kernel.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

HERE = Path(__file__).parent
FOLDER = "widgets"  # within _static
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = re.compile(r'<script type="application/vnd\.jupyter\.widget-view\+json">(.*?)</script>', re.DOTALL)
CODE = {"_esm": "mjs", "_css": "css"}
LINKS = ("LinkModel", "DirectionalLinkModel")

WAITING = (
    "An interactive figure stands here when scripts are allowed to run. "
    "The figure above it makes the same point."
)
NEEDS_KERNEL = (
    "This control needs a running kernel: open the page in Colab, or run the notebook on your computer."
)

State = dict[str, dict[str, Any]]


def without_manager(app: Sphinx, config: Config) -> None:
    """MyST-NB would load require.js and the widget manager from another site."""
    config["nb_ipywidgets_js"] = {}


def is_website(app: Sphinx) -> bool:
    return app.builder.format == "html" and app.builder.name != "epub"


def ship_host(app: Sphinx) -> None:
    if is_website(app):
        folder = Path(app.outdir) / "_static" / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("widget_host.mjs", "widget_host.css"):
            shutil.copyfile(HERE / name, folder / name)


def is_anywidget(model: dict[str, Any] | None) -> bool:
    return model is not None and model.get("model_module") == "anywidget"


def place_for(view: re.Match[str], state: State) -> str:
    """What stands in the page for one view: a place that the host fills, or a note."""
    model_id = json.loads(view[1]).get("model_id")
    if not is_anywidget(state.get(model_id)):
        return f'<p class="attnlab-needs-kernel">{NEEDS_KERNEL}</p>'
    return f'<div class="attnlab-host" data-model="{model_id}"><p>{WAITING}</p></div>'


def linked(model: dict[str, Any]) -> list[str]:
    """Ids of the two models that a link holds together."""
    ends = (model["state"][end][0] for end in ("source", "target"))
    return [str(end).removeprefix("IPY_MODEL_") for end in ends]


def needed(state: State) -> State:
    """The anywidgets, and the links that join two of them."""
    kept = {key: model for key, model in state.items() if is_anywidget(model)}
    links = {
        key: model
        for key, model in state.items()
        if model.get("model_name") in LINKS and all(end in kept for end in linked(model))
    }
    return {**kept, **links}


def as_file(folder: Path, text: str, suffix: str) -> str:
    """Write a module or a style sheet to a file that its content names; return the name."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.{suffix}"
    (folder / name).write_text(text, encoding="utf-8", newline="\n")
    return name


def lean(model: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A model with its code moved to files, and without what only a kernel's front end reads."""
    state = {
        key: value for key, value in model["state"].items() if not key.startswith("_") and key != "layout"
    }
    for key, suffix in CODE.items():
        if model["state"].get(key):
            state[key] = as_file(folder, model["state"][key], suffix)
    return {**model, "state": state}


def prepare_page(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Turn what MyST-NB wrote about widgets into what the host reads."""
    body = context.get("body")
    if not is_website(app) or not body or not VIEW.search(body):
        return
    scripts = context["script_files"]
    states = [script for script in scripts if getattr(script, "attributes", {}).get("type") == STATE]
    state: State = {}
    for script in states:
        state.update(json.loads(script.attributes["body"])["state"])
        scripts.remove(script)
    context["body"] = VIEW.sub(lambda view: place_for(view, state), body)
    app.add_css_file(f"{FOLDER}/widget_host.css")
    if 'class="attnlab-host"' not in context["body"]:
        return
    folder = Path(app.outdir) / "_static" / FOLDER
    models = {
        key: lean(model, folder) if is_anywidget(model) else model for key, model in needed(state).items()
    }
    text = json.dumps({"state": models}, separators=(",", ":"), sort_keys=True)
    # No text in the state can end the script element that holds it.
    app.add_js_file(None, type=STATE, body=text.replace("<", "\\u003c"))
    app.add_js_file(f"{FOLDER}/widget_host.mjs", type="module")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", without_manager)
    app.connect("builder-inited", ship_host)
    app.connect("html-page-context", prepare_page, priority=900)  # after MyST-NB has queued the state
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
