"""Sphinx extension: the course's widgets run on the website, where there is no kernel.

MyST-NB puts the state of a notebook's widgets into the page as JSON. This extension

- ships a small host (``widget_host.js``) that starts anywidget modules from that state, with nothing from
  elsewhere;
- moves each widget's module and style sheet out of the pages into files that are named by their content, so
  that a page may forbid inline scripts and ``blob:`` addresses, and a browser keeps one copy;
- makes a plain script of each module, since a page that was opened from a file loads no modules;
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

import kernel_notes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

HERE = Path(__file__).parent
FOLDER = "widgets"  # within _static
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = re.compile(r'<script type="application/vnd\.jupyter\.widget-view\+json">(.*?)</script>', re.DOTALL)
EXPORT = re.compile(r"^export default\b", re.MULTILINE)
OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
LINKS = ("LinkModel", "DirectionalLinkModel")

WAITING = (
    "An interactive figure stands here when scripts are allowed to run. "
    "The figure above it makes the same point."
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
        for name in ("widget_host.js", "widget_host.css"):
            shutil.copyfile(HERE / name, folder / name)


def is_anywidget(model: dict[str, Any] | None) -> bool:
    return model is not None and model.get("model_module") == "anywidget"


def place_for(view: re.Match[str], state: State, app: Sphinx, context: dict[str, Any]) -> str:
    """What stands in the page for one view: a place that the host fills, or a picture and a note."""
    shown_view = json.loads(view[1])
    model_id = shown_view.get("model_id")
    if not is_anywidget(state.get(model_id)):
        images, page = app.builder.imagedir, context["pagename"]
        address = context["pathto"](images, resource=True)
        shown = [
            kernel_notes.write_picture(content, about, Path(app.outdir) / images, address, page)
            for content, about in kernel_notes.pictures(kernel_notes.held(model_id, state))
        ]
        return "".join(shown) + kernel_notes.note(context.get("links", {}).get("colab"))
    waiting = shown_view.get("waiting") or WAITING
    return f'<div class="attnlab-host" data-model="{model_id}"><p>{waiting}</p></div>'


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


def name_of(text: str, suffix: str) -> str:
    """The name of a file after its content."""
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.{suffix}"


def as_script(module: str, name: str) -> str:
    """A module as a plain script, which leaves under a name what the module exports by default.

    Raises:
        ExtensionError: it imports something, or exports anything but one default.
    """
    script, count = EXPORT.subn(f'(globalThis.attnlabModules ??= {{}})["{name}"] =', module)
    other = OTHER.search(script)
    if count != 1 or other:
        came = other[0] if other else f"{count} of them"
        raise ExtensionError(f"a widget's module: expected one line with `export default`, got {came}")
    return f'"use strict";\n(() => {{\n{script}\n}})();\n'


def write_code(folder: Path, kind: str, text: str) -> str:
    """Write a module or a style sheet to a file that its content names; return the name."""
    name = name_of(text, "js" if kind == "_esm" else "css")
    folder.mkdir(parents=True, exist_ok=True)
    content = as_script(text, name) if kind == "_esm" else text
    (folder / name).write_text(content, encoding="utf-8", newline="\n")
    return name


def lean(model: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A model with its code moved to files, and without what only a kernel's front end reads."""
    state = {
        key: value for key, value in model["state"].items() if not key.startswith("_") and key != "layout"
    }
    for kind in ("_esm", "_css"):
        if model["state"].get(kind):
            state[kind] = write_code(folder, kind, model["state"][kind])
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
    context["body"] = VIEW.sub(lambda view: place_for(view, state, app, context), body)
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
    app.add_js_file(f"{FOLDER}/widget_host.js", loading_method="defer", type="text/javascript")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", without_manager)
    app.connect("builder-inited", ship_host)
    app.connect("html-page-context", prepare_page, priority=900)  # after MyST-NB has queued the state
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
