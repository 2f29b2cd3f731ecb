"""Sphinx extension: the trained translators on the website.

``{translator-explorer}`` in a page puts the widget of the same name there, with every translator to choose;
``{translator-effects}`` a table of what each part is worth, as it was measured. A lesson's own widget gets
the file of its language. The weights are in no page: each translator is a script of its own, which holds the
file of ``book/translators`` in base64 and is loaded when a reader asks. A script works where a page is opened
from a file, and under a policy that allows this site's own files alone.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import runpy
import zlib
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
WIDGETS = ROOT / "src" / "attnlab" / "widgets"
FOLDER = "translators"  # within _static
STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
WIDGET = "attnlab.widgets.translator_explorer.TranslatorExplorer"
MODEL = "translator-explorer"
PHRASE = "Wednesday, July 4, 1984"
LABELS = {
    "fr": "French",
    "de": "German",
    "es": "Spanish",
    "zh": "Chinese",
    "fr-no-mask": "French, trained without the causal mask",
}


def measurements() -> dict[str, Any]:
    """What was measured of each translator, by its name."""
    text = (ROOT / "book" / "translators" / "effects.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)["translators"]
    return found


def as_script(name: str) -> str:
    """The file of a translator as a script, which leaves it in base64 for the widget."""
    content = (ROOT / "book" / "translators" / f"translator-{name}.safetensors").read_bytes()
    text = base64.b64encode(content).decode()
    return f'(globalThis.attnlabFiles ??= {{}})["{name}"] = "{text}";\n'


def ship(app: Sphinx, name: str) -> tuple[str, int]:
    """Write a translator's script, named by its content; its path in the site and its kB, compressed."""
    script = as_script(name).encode()
    path = f"_static/{FOLDER}/{name}.{hashlib.sha256(script).hexdigest()[:16]}.js"
    target = Path(app.outdir) / path
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(script)
    return path, round(len(zlib.compress(script)) / 1000)


def entry(app: Sphinx, context: dict[str, Any], name: str) -> dict[str, Any]:
    """What the widget has to know of a translator, with the address as seen from the page."""
    path, kilobytes = ship(app, name)
    kept = ("phrases", "exact_match", "loss", "effects")
    measured = {key: value for key, value in measurements()[name].items() if key in kept}
    address = context["pathto"](path, 1)
    return {
        "name": name,
        "label": LABELS[name],
        "address": address,
        "kilobytes": kilobytes,
        "measured": measured,
    }


def playground_state(app: Sphinx, context: dict[str, Any]) -> dict[str, Any]:
    """The state of a widget that no notebook made."""
    browser_code = runpy.run_path(str(WIDGETS / "_joined.py"))["browser_code"]
    module, style = browser_code(WIDGETS / "translator_explorer")
    state = {
        "_anywidget_id": WIDGET,
        "_esm": module,
        "_css": style,
        "text": PHRASE,
        "language": next(iter(LABELS)),
        "held_out": [],
        "files": [entry(app, context, name) for name in LABELS],
    }
    return {"model_name": "AnyModel", "model_module": "anywidget", "state": state}


def supply_pages(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Tell each widget of a page where its weights are."""
    body = context.get("body") or ""
    if app.builder.format != "html" or VIEW not in body:
        return
    if f'"model_id": "{MODEL}"' in body:
        models = {MODEL: playground_state(app, context)}
        app.add_js_file(None, type=STATE, body=json.dumps({"state": models}))
    scripts = context["script_files"]
    for script in [one for one in scripts if getattr(one, "attributes", {}).get("type") == STATE]:
        state = json.loads(script.attributes["body"])
        own = [model["state"] for model in state["state"].values() if is_lessons(model)]
        if own:
            for widget in own:
                widget["files"] = [entry(app, context, widget["language"])]
                widget["held_out"] = []  # the effects are measured already
            scripts.remove(script)
            app.add_js_file(None, type=STATE, body=json.dumps(state))


def is_lessons(model: dict[str, Any]) -> bool:
    """Whether a model is a translator explorer whose weights a kernel had."""
    state = model["state"]
    return state.get("_anywidget_id") == WIDGET and not state["files"] and state["language"] in LABELS


def effects_table() -> nodes.table:
    """What is left of each translator without each part: right phrases of those that were held out."""
    measured = {name: entry for name, entry in measurements().items() if "effects" in entry}

    def row(label: str, share: Any) -> list[str]:
        return [label, *(f"{round(entry['phrases'] * share(entry))}" for entry in measured.values())]

    def heads(entry: dict[str, Any]) -> list[float]:
        layers = [layer for part in entry["effects"]["heads"].values() for layer in part]
        return sorted(share for layer in layers for share in layer)

    layers = len(next(iter(measured.values()))["effects"]["crossLayers"])
    rows = [
        row("nothing", lambda entry: entry["exact_match"]),
        row("one head, the median of all", lambda entry: heads(entry)[len(heads(entry)) // 2]),
        row("one head, the one that is missed most", lambda entry: heads(entry)[0]),
        *(
            row(
                f"the cross-attention of layer {layer + 1}",
                lambda entry, layer=layer: entry["effects"]["crossLayers"][layer],
            )
            for layer in range(layers)
        ),
        row("the causal mask, while it writes", lambda entry: entry["effects"]["causal"]),
        row("the division by the root of the heads’ width", lambda entry: entry["effects"]["scale"]),
        row("the positions", lambda entry: entry["effects"]["positions"]),
    ]
    phrases = next(iter(measured.values()))["phrases"]
    return table(
        f"Right translations of {phrases} held-out phrases, when a part is taken away from the trained model",
        ["Taken away", *(LABELS[name] for name in measured)],
        rows,
    )


def table(title: str, columns: list[str], rows: list[list[str]]) -> nodes.table:
    """A table of texts with a title."""
    group = nodes.tgroup(cols=len(columns))
    group += [nodes.colspec(colwidth=1) for _ in columns]

    def line(texts: list[str]) -> nodes.row:
        cells = [nodes.entry("", nodes.paragraph("", text)) for text in texts]
        return nodes.row("", *cells)

    group += nodes.thead("", line(columns))
    group += nodes.tbody("", *map(line, rows))
    return nodes.table("", nodes.title("", title), group)


class TranslatorExplorer(Directive):
    """The widget with all translators; its content is for those whose browser runs no scripts."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        waiting = html.escape(" ".join(self.content))
        text = json.dumps({"model_id": MODEL, "waiting": waiting}).replace("</", "<\\/")
        return [nodes.raw("", f'<script type="{VIEW}">{text}</script>', format="html")]


class TranslatorEffects(Directive):
    """The table of what each part of the translators is worth."""

    def run(self) -> list[nodes.Node]:
        self.state.document.settings.record_dependencies.add(
            str(ROOT / "book" / "translators" / "effects.json")
        )
        return [effects_table()]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("translator-explorer", TranslatorExplorer)
    app.add_directive("translator-effects", TranslatorEffects)
    app.connect("html-page-context", supply_pages, priority=850)  # after MyST-NB, before the widgets' host
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
