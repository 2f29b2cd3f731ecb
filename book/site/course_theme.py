"""The theme of the website: its templates, and what they are told about each page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import page_links
from docutils import nodes
from sphinx.application import Sphinx

HERE = Path(__file__).parent
VERSION = page_links.version_of(HERE.parents[1] / "src" / "attnlab" / "__init__.py")

#: The page that says what is collected; a book may lack it.
PRIVACY = "book/pages/privacy"

#: What a lesson says of itself in its first lines.
HOW_LONG = re.compile(r"(\d+) minutes to read")

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
        links["issue"] = page_links.issue_link(repository, page, VERSION)
    if source.endswith(".ipynb"):
        links["done"] = not source.startswith("solutions/")
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


def in_words(node: nodes.Node) -> str:
    """The text of a paragraph, with its formulas as they are written without TeX."""
    if isinstance(node, nodes.math):
        roots = re.sub(r"\\sqrt\{([^{}]*)\}", "√\\1", node.astext())
        return re.sub(r"\\[a-zA-Z]+\s*|[{}\\]", "", roots)
    if isinstance(node, nodes.Text):
        return node.astext()
    return "".join(map(in_words, node.children))


def description_of(doctree: nodes.document | None) -> str:
    """The first words of a page, cut at a word, for search engines and previews.

    A lesson's first paragraph is its question alone, so the next one follows where the first is short.
    """
    if doctree is None:
        return ""
    text = ""
    for paragraph in doctree.findall(nodes.paragraph):
        text = f"{text} {' '.join(in_words(paragraph).split())}".strip()
        if len(text) >= 60:
            break
    return text if len(text) <= 160 else text[:160].rsplit(" ", 1)[0] + " …"


def minutes_of(doctree: nodes.document | None) -> int:
    """Minutes that a lesson itself says it takes to read; 0 where a page says none."""
    paragraphs = doctree.findall(nodes.paragraph) if doctree else ()
    found = (HOW_LONG.search(paragraph.astext()) for paragraph in paragraphs)
    return next((int(match[1]) for match in found if match), 0)


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
    context["privacy"] = PRIVACY if PRIVACY in app.env.found_docs else ""
    context["part"] = part_of(app, page) if page in app.env.found_docs else ""
    context["description"] = description_of(doctree)
    context["minutes"] = minutes_of(doctree) if page_links.is_lesson(page) else 0
    # In place: the list is the builder's own, and extensions that come later add to it.
    context["css_files"][:] = [
        sheet
        for sheet in context["css_files"]
        if not Path(str(getattr(sheet, "filename", sheet))).name.startswith(REPLACED_STYLES)
    ]
    context["chapters"] = chapters_of(context)
    contents = context.get("toc") or ""
    context["contents"] = contents if contents.count("<li>") > 2 else ""


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_theme("course", str(HERE / "theme"))
    app.add_config_value("comments_config", {}, "")  # Jupyter Book sets it for an extension that we leave out
    app.connect("html-page-context", add_context)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
