"""What stands on the website for a control that needs a kernel: its pictures, and where to run it."""

from __future__ import annotations

import hashlib
import html
from binascii import a2b_base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
PICTURE = "image/png"
NOTE = "This control needs a kernel: {where}, or run the notebook on your computer."
IN_COLAB = '<a href="{address}">open in Colab</a>'


def held(
    model_id: str | None, state: dict[str, dict[str, Any]], seen: frozenset[str] = frozenset()
) -> Iterator[Any]:
    """The outputs that a control and the controls in it have caught, from top to bottom."""
    if model_id is None or model_id in seen or model_id not in state:
        return
    own = state[model_id].get("state", {})
    yield from own.get("outputs", ())
    for child in own.get("children", ()):
        yield from held(str(child).removeprefix("IPY_MODEL_"), state, seen | {model_id})


def pictures(outputs: Iterator[Any]) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Each picture among outputs, and what is said about it."""
    for output in outputs:
        if PICTURE in output.get("data", {}):
            yield a2b_base64("".join(output["data"][PICTURE])), output.get("metadata", {}).get(PICTURE, {})


def write_picture(content: bytes, about: dict[str, Any], images: Path, address: str, page: str) -> str:
    """Write a picture beside the others of the site; returns its element."""
    if not about.get("alt", "").strip():
        LOGGER.warning("picture of a control has no text alternative", location=page, type="picture")
    name = f"{hashlib.sha256(content).hexdigest()}.png"
    images.mkdir(parents=True, exist_ok=True)
    (images / name).write_bytes(content)
    size = "".join(f' {side}="{int(about[side])}"' for side in ("width", "height") if side in about)
    alternative = html.escape(about.get("alt", ""))
    late = 'loading="lazy" decoding="async"'
    return f'<img src="{address}/{name}" alt="{alternative}" class="figure" {late}{size}>'


def note(colab: str | None) -> str:
    """The sentence, with a link where the page can be opened in Colab."""
    where = IN_COLAB.format(address=html.escape(colab)) if colab else "open the page in Colab"
    return f'<p class="attnlab-needs-kernel">{NOTE.format(where=where)}</p>'
