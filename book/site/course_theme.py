"""The theme of the website: its templates, and what they are told about each page."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import page_links
from docutils import nodes
from sphinx.application import Sphinx

HERE = Path(__file__).parent

#: Style sheets that Sphinx and its extensions add to every page. Ours says all that they say.
REPLACED_STYLES = ("pygments.css", "basic.css", "mystnb.")


def theme_options(app: Sphinx) -> dict[str, Any]:
    """What ``_config.yml`` says about the repository and the launch buttons."""
    options = dict(app.config.html_theme_options)
    options.setdefault("launch_buttons", {})
    return options


def links_of(app: Sphinx, page: str) -> dict[str, Any]:
    """Addresses that the tools of a page lead to; absent where a page has no such tool."""
    options = theme_options(app)
    repository, branch = options.get("repository_url", ""), options.get("repository_branch", "main")
    links: dict[str, Any] = {"siblings": page_links.siblings(page, app.env.found_docs)}
    if repository and options.get("use_repository_button"):
        links["repository"] = repository
    if page not in app.env.found_docs:
        return links
    source = Path(app.env.doc2path(page)).relative_to(app.srcdir).as_posix()
    edited = page_links.manuscript(page, source)
    if repository and edited and options.get("use_edit_page_button"):
        links["edit"] = page_links.edit_link(repository, branch, edited)
    if repository and options.get("use_issues_button"):
        links["issue"] = page_links.issue_link(repository, page)
    if source.endswith(".ipynb"):
        links["notebook"] = source
        if colab := options["launch_buttons"].get("colab_url"):
            links["colab"] = page_links.colab_link(colab, repository, branch, source)
    return links


def part_of(app: Sphinx, page: str) -> str:
    """Title of the part of the book in which ``page`` stands; empty for pages outside every part."""
    root = app.env.get_doctree(app.config.root_doc)
    for tree in root.findall(lambda node: node.tagname == "toctree"):
        if page in tree["includefiles"]:
            return tree.get("caption") or ""
    return ""


def description_of(doctree: nodes.document | None) -> str:
    """The first paragraph of a page, cut at a word, for search engines and previews."""
    if doctree is None:
        return ""
    first = next((node.astext() for node in doctree.findall(nodes.paragraph)), "")
    text = " ".join(first.split())
    return text if len(text) <= 160 else text[:160].rsplit(" ", 1)[0] + " …"


def chapters_of(context: dict[str, Any]) -> str:
    """The list of chapters as HTML.

    Sphinx marks the open page with a class and calls the titles of parts headings without a level. Those who
    listen to the page get an attribute, and titles that do not break the order of the page's own headings.
    """
    tree = context["toctree"](collapse=False, includehidden=True, titles_only=True, maxdepth=3) or ""
    listing = str(tree).replace('class="current reference', 'aria-current="page" class="current reference')
    return listing.replace('<p class="caption" role="heading">', '<p class="caption">')


def add_context(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Tell the templates about a page, and take away the style sheets that ours replaces."""
    context["links"] = links_of(app, page)
    context["part"] = part_of(app, page) if page in app.env.found_docs else ""
    context["description"] = description_of(doctree)
    # In place: the list is the builder's own, and extensions that come later add to it.
    context["css_files"][:] = [
        sheet
        for sheet in context["css_files"]
        if not Path(str(getattr(sheet, "filename", sheet))).name.startswith(REPLACED_STYLES)
    ]
    context["chapters"] = chapters_of(context)
    contents = context.get("toc") or ""
    context["contents"] = contents if contents.count("<li>") > 2 else ""


START = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta http-equiv="refresh" content="0; url={first}">
<link rel="canonical" href="{first}">
<link rel="icon" href="{icon}">
</head>
<body><p><a href="{first}">{title}</a></p></body>
</html>
"""


def write_start(app: Sphinx, error: Exception | None) -> None:
    """The address of the site leads on to its first page, where that is not the page called index."""
    if error or app.builder.format != "html" or app.config.root_doc == "index":
        return
    config = app.config
    first = app.builder.get_target_uri(config.root_doc)
    icon = f"_static/{Path(config.html_favicon).name}" if config.html_favicon else "data:,"
    text = START.format(
        language=config.language, title=html.escape(config.html_title), first=first, icon=icon
    )
    (Path(app.outdir) / "index.html").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_theme("course", str(HERE / "theme"))
    app.add_config_value("comments_config", {}, "")  # Jupyter Book sets it for an extension that we leave out
    app.connect("html-page-context", add_context)
    app.connect("build-finished", write_start, priority=400)  # else the table of contents writes a barer one
    return {"parallel_read_safe": True, "parallel_write_safe": True}
