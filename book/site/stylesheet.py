"""One style sheet, one script and one font for the whole site, put together when the site is built."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import rjsmin
from math_font import write_font
from sphinx.application import Sphinx

HERE = Path(__file__).parent


def style() -> str:
    """Our style sheets, in the order of their names, without comments and indentation."""
    source = "".join(path.read_text(encoding="utf-8") for path in sorted((HERE / "style").glob("*.css")))
    without_comments = re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)
    return re.sub(r"\s*\n\s*", "\n", without_comments).strip() + "\n"


def script() -> str:
    """Our scripts, in the order of their names, each in a scope of its own."""
    sources = [path.read_text(encoding="utf-8") for path in sorted((HERE / "script").glob("*.js"))]
    return "".join("{\n" + rjsmin.jsmin(source) + "\n}\n" for source in sources)


def fingerprint(text: str) -> str:
    """A few characters that change with the text, so that browsers fetch a new file when there is one."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def add_assets(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Name the files of this build to the templates."""
    first = (HERE / "theme" / "first.js").read_text(encoding="utf-8")
    context["first_script"] = rjsmin.jsmin(first)
    context["style_version"] = fingerprint(style())
    context["script_version"] = fingerprint(script())


def write_assets(app: Sphinx, error: Exception | None) -> None:
    """Write the files next to the pages that name them."""
    if error or app.builder.format != "html":
        return
    site = Path(app.outdir)
    static = site / "_static"
    (static / "site.css").write_text(style(), encoding="utf-8")
    (static / "site.js").write_text(script(), encoding="utf-8")
    pages = [path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))]
    write_font(pages, static / "formulas.woff2")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", add_assets)
    app.connect("build-finished", write_assets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
