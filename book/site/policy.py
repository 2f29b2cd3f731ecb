"""Sphinx extension: a content security policy on every page of the website.

A page may run and load what this site has, and nothing else. Scripts stand in files of the site, or in the
page itself with the hash of their text in the policy; a text that somebody put into a page later is not run.
The policy is written when the site is whole, since only then the texts of the scripts are known.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

#: Scripts that stand in a page. What says another type than JavaScript is data, and is never run.
INLINE = re.compile(r"<script(?P<attributes>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)
TYPE = re.compile(r"""\btype\s*=\s*["']?([^"'\s>]*)""")
RUN = ("", "module", "text/javascript")
FIRST = '<meta charset="utf-8">'


def hash_of(script: str) -> str:
    """The hash of a script's text as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def inline_scripts(page: str) -> list[str]:
    """The texts of the scripts that a page holds and a browser would run."""
    found = []
    for script in INLINE.finditer(page):
        kind = TYPE.search(script["attributes"])
        if "src=" not in script["attributes"] and (kind[1] if kind else "") in RUN:
            found.append(script["text"])
    return found


def policy_of(page: str) -> str:
    """The policy for a page.

    Styles may stand in the page: formulas and tables bring their own. Pictures may be data, as icons are.
    """
    hashes = sorted({hash_of(script) for script in inline_scripts(page)})
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(["'self'", *hashes]),
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "connect-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "object-src": "'none'",
    }
    return "; ".join(f"{name} {sources}" for name, sources in rules.items())


def with_policy(page: str) -> str:
    """The page with its policy as the first thing after its encoding.

    Raises:
        ValueError: the page does not begin as the site's pages do, so that the policy would come too late.
    """
    head, mark, rest = page.partition(FIRST)
    if not mark or "<script" in head or "<link" in head:
        raise ValueError(f"expected {FIRST} before everything that a page loads")
    return f'{head}{mark}\n<meta http-equiv="Content-Security-Policy" content="{policy_of(page)}">{rest}'


def write_policies(app: Sphinx, error: Exception | None) -> None:
    """Give each page of the site its policy."""
    if error or app.builder.format != "html":
        return
    for path in sorted(Path(app.outdir).rglob("*.html")):
        page = path.read_text(encoding="utf-8")
        if "Content-Security-Policy" not in page.partition("<body")[0]:
            path.write_text(with_policy(page), encoding="utf-8", newline="\n")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", write_policies, priority=950)  # when nobody changes the pages any more
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
