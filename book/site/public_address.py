"""Sphinx extension: what the world outside needs to find the pages and to show them.

Each page says its public address, so that copies lead back to it, and what a preview shows: title, first
words, and a picture. The site gets a map for search engines, a page for addresses that do not exist, and
pages that lead on from addresses that once did. The public address follows from the repository's, which
stands in ``_config.yml``; who publishes elsewhere sets ``html_baseurl``.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from preview_cards import card
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

GITHUB = re.compile(r"https://github\.com/([^/]+)/([^/]+?)/?")
CARDS = "_static/cards"
NOT_FOUND = "404"
#: Addresses in a page's text that are relative to the page.
RELATIVE = re.compile(r'(?<=[ "])((?:href|src|action|data-content_root|data-font)=")(?![a-z]+:|/|#)([^"]*)"')

ONWARD = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta http-equiv="refresh" content="0; url={target}">
<link rel="canonical" href="{canonical}">
<link rel="icon" href="{icon}">
</head>
<body><p><a href="{target}">{title}</a></p></body>
</html>
"""

NOT_FOUND_TEXT = """<h1>There is no such page</h1>
<p>The address may be mistyped, or the page has moved. The list of chapters leads to every page of the course,
and the search finds words in text and code.</p>
<p><a href="{start}">Go to the first page</a></p>
"""


def base_address(repository: str) -> str:
    """Where GitHub publishes the pages of a repository; empty for a repository elsewhere."""
    match = GITHUB.fullmatch(repository)
    return f"https://{match[1].lower()}.github.io/{match[2]}/" if match else ""


def set_address(app: Sphinx, config: Config) -> None:
    """Let the public address follow from the repository's, unless it is set."""
    if not config.html_baseurl:
        config.html_baseurl = base_address(dict(config.html_theme_options).get("repository_url", ""))


def address_of(app: Sphinx, page: str) -> str:
    """The public address of a page; of the first page, that of the site."""
    base = app.config.html_baseurl.rstrip("/") + "/"
    return base if page == app.config.root_doc else base + quote(app.builder.get_target_uri(page))


def add_preview(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Tell the template what a preview of the page shows, and draw its picture."""
    if app.builder.format != "html" or not app.config.html_baseurl or page not in app.env.found_docs:
        return
    title = html.unescape(re.sub(r"<[^>]*>", "", context.get("title", "")))
    name = f"{CARDS}/{page.replace('/', '-')}.png"
    path = Path(app.outdir) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(card(title, part=context.get("part") or "", seed=page))
    base = app.config.html_baseurl.rstrip("/") + "/"
    context["preview"] = {"address": address_of(app, page), "title": title, "picture": base + name}


def not_found(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page for addresses that do not exist."""
    start = app.builder.get_target_uri(app.config.root_doc)
    if app.builder.format == "html":
        text = NOT_FOUND_TEXT.format(start=start)
        yield NOT_FOUND, {"title": "No such page", "body": text, "robots": "noindex"}, "page.html"


def rooted(page: str, root: str) -> str:
    """The page with its relative addresses made to begin at the root of the site, whatever its own is."""
    return RELATIVE.sub(lambda link: f'{link[1]}{posixpath.join(root, link[2])}"', page)


def onward(app: Sphinx, title: str, target: str, page: str, depth: int = 0) -> str:
    """A page that leads on at once."""
    up = "../" * depth
    icon = f"{up}_static/{Path(app.config.html_favicon).name}" if app.config.html_favicon else "data:,"
    return ONWARD.format(
        language=app.config.language,
        title=html.escape(title),
        target=up + target,
        canonical=address_of(app, page) if app.config.html_baseurl else up + target,
        icon=icon,
    )


def write_onward(app: Sphinx) -> None:
    """The pages that lead on: from the site's address to its first page, and from each old address.

    Raises:
        ExtensionError: an old address is that of a page, or leads to none.
    """
    site, config = Path(app.outdir), app.config
    if config.root_doc != "index":
        first = app.builder.get_target_uri(config.root_doc)
        (site / "index.html").write_text(
            onward(app, config.html_title, first, config.root_doc), encoding="utf-8"
        )
    for old, new in config.redirects.items():
        if old in app.env.found_docs or new not in app.env.found_docs:
            raise ExtensionError(
                f"redirects: expected an address without a page, and a page; got {old}: {new}"
            )
        path = site / f"{old}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        target = app.builder.get_target_uri(new)
        path.write_text(onward(app, config.html_title, target, new, depth=old.count("/")), encoding="utf-8")


def site_map(addresses: list[str]) -> str:
    """The map that search engines read (sitemaps.org)."""
    lines = "".join(f"<url><loc>{html.escape(address)}</loc></url>\n" for address in addresses)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return f'{head}<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{lines}</urlset>\n'


def write_files(app: Sphinx, error: Exception | None) -> None:
    """Write what stands beside the pages."""
    if error or app.builder.format != "html":
        return
    site, base = Path(app.outdir), app.config.html_baseurl
    write_onward(app)
    missing = site / f"{NOT_FOUND}.html"
    root = urlsplit(base).path or "/"
    missing.write_text(rooted(missing.read_text(encoding="utf-8"), root), encoding="utf-8")
    if base:
        addresses = sorted(address_of(app, page) for page in app.env.found_docs)
        (site / "sitemap.xml").write_text(site_map(addresses), encoding="utf-8")
        robots = f"User-agent: *\nAllow: /\nSitemap: {base.rstrip('/')}/sitemap.xml\n"
        (site / "robots.txt").write_text(robots, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("redirects", {}, "html", [dict])
    app.connect("config-inited", set_address, priority=900)  # after Jupyter Book has read its own
    app.connect("html-page-context", add_preview, priority=600)  # after the theme's title and part
    app.connect("html-collect-pages", not_found)
    # Before the table of contents writes a barer first page.
    app.connect("build-finished", write_files, priority=400)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
