"""Pictures: every one has a text alternative, says its size, and is fetched when a reader comes near it."""

from __future__ import annotations

import hashlib
import html
import json
import posixpath
from binascii import a2b_base64
from pathlib import Path
from typing import Any
from urllib.parse import quote

import imagesize
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

LOGGER = logging.getLogger(__name__)
TYPES = ("image/png", "image/jpeg", "image/gif")


def output_alternatives(notebook: dict[str, Any]) -> dict[str, str]:
    """Text alternatives in the outputs of a notebook, by the SHA-256 of the picture that each belongs to.

    The hash is what MyST-NB names a picture's file by, so it leads from the page back to the output.
    """
    found: dict[str, str] = {}
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            for kind in TYPES:
                if kind in output.get("data", {}):
                    content = "".join(output["data"][kind])
                    alternative = output.get("metadata", {}).get(kind, {}).get("alt", "")
                    found[hashlib.sha256(a2b_base64(content)).hexdigest()] = alternative
    return found


def describe(app: Sphinx, doctree: nodes.document) -> None:
    """Give each picture the text alternative of its output, and warn of every picture that has none."""
    source = Path(app.env.doc2path(app.env.docname))
    alternatives = {}
    if source.suffix == ".ipynb":
        alternatives = output_alternatives(json.loads(source.read_text(encoding="utf-8")))
    for image in doctree.findall(nodes.image):
        from_output = alternatives.get(Path(image["uri"]).stem, "")
        if from_output:
            image["alt"] = from_output
            image["classes"].append("figure")
        if not image.get("alt", "").strip():
            LOGGER.warning("picture %s has no text alternative", image["uri"], location=image, type="picture")


def size_of(translator: HTML5Translator, image: nodes.image) -> tuple[int, int] | None:
    """Width and height in CSS pixels: as the output says, else those of the file."""
    given = [str(image.get(side, "")).removesuffix("px") for side in ("width", "height")]
    if all(side.isdigit() for side in given):
        return int(given[0]), int(given[1])
    width, height = imagesize.get(Path(translator.builder.srcdir, image["uri"]))
    return (int(width), int(height)) if width > 0 and height > 0 else None


def visit_image(translator: HTML5Translator, image: nodes.image) -> None:
    """Write the picture with its text, its size, and leave to fetch it late."""
    size = size_of(translator, image)
    name = translator.builder.images.get(image["uri"])
    address = posixpath.join(translator.builder.imgpath, quote(name)) if name else image["uri"]
    attributes = {"src": address, "alt": image.get("alt", ""), "loading": "lazy", "decoding": "async"}
    if size:
        attributes |= {"width": str(size[0]), "height": str(size[1])}
    if image["classes"]:
        attributes["class"] = " ".join(image["classes"])
    written = " ".join(f'{key}="{html.escape(value)}"' for key, value in attributes.items())
    boxed = "figure" in image["classes"]  # a figure of a cell scrolls by itself where the screen is narrow
    translator.body.append(
        f'<div class="scroll" data-name="Figure"><img {written}></div>' if boxed else f"<img {written}>"
    )


def depart_image(translator: HTML5Translator, image: nodes.image) -> None:
    pass


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", describe)
    app.add_node(nodes.image, override=True, html=(visit_image, depart_image))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
