"""Many built pages as one document: its ids are made unique, its links lead to pages of the same document.

Headings go down by one, so that the parts of the book stand above its pages, in the outline as well. What
only a screen has goes: signs beside headings, the set-up cell, and a widget, for which a line stands.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from tools.pdf.contents import Part

DROPPED = ".headerlink, script, .copy, .page-head, .cell.tag_setup, template"
NAMED = ("for", "aria-labelledby", "aria-describedby")
WIDGET = "An interactive figure stands here on the website. The figure above it makes the same point."
STYLE = Path(__file__).with_name("book.css")
DOCUMENT = """<!doctype html>
<html lang="{lang}" data-theme="light" data-mode="light">
<head><meta charset="utf-8"><title>{title}</title>
{sheets}
<style>{style}</style></head>
<body class="book"><main>{body}</main></body></html>
"""


class Incomplete(ValueError):
    """A page that the table of contents names was not built."""


def anchor(page: str, fragment: str = "") -> str:
    """The id in the whole document of a page, or of a place in it."""
    return f"{page}--{fragment}" if fragment else page


def entry(place: str, title: str) -> str:
    """A line of the contents: a link with room for the number of its sheet, which only printing can tell."""
    words = f"<span>{html.escape(title)}</span>"
    return f'<a href="#{place}">{words}<span class="sheet" data-place="{place}"></span></a>'


class Page:
    """One built page on its way into the document."""

    def __init__(self, html_folder: Path, name: str, pages: frozenset[str]) -> None:
        path = html_folder / f"{name}.html"
        if not path.is_file():
            raise Incomplete(
                f"{name} is in the table of contents, but there is no {path}: build the site first"
            )
        self.name, self.pages = name, pages
        self.soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        article = self.soup.select_one("main article")
        if article is None:
            raise Incomplete(f"{path} has no article")
        self.article = article

    def sheets(self) -> list[str]:
        """Style sheets of the page, as paths from the root of the site."""
        return [self._from_root(str(link["href"])) for link in self.soup.select("head link[rel=stylesheet]")]

    @property
    def title(self) -> str:
        """The page's first heading."""
        heading = self.article.find("h1")
        return re.sub(r"#$", "", heading.get_text().strip()) if isinstance(heading, Tag) else self.name

    def prepared(self) -> str:
        """The article as it stands in the document."""
        for node in self.article.select(DROPPED):
            node.decompose()
        for place in self.article.select(".attnlab-host"):
            note = self.soup.new_tag("p", attrs={"class": "on-the-website"})
            note.string = WIDGET
            place.replace_with(note)
        for fold in self.article.find_all("details"):
            fold["open"] = ""
        for image in self.article.find_all("img"):
            image.attrs.pop(
                "loading", None
            )  # a picture that waits for a reader to come near would be missing
            image["src"] = self._from_root(str(image["src"]))
        self._rename()
        self._lead()
        for level in (5, 4, 3, 2, 1):
            for heading in self.article.find_all(f"h{level}"):
                heading.name = f"h{level + 1}"
                heading["class"] = f"was-h{level}"
        inner = self.article.decode_contents()
        return f'<article id="{anchor(self.name)}" data-page="{self.name}">{inner}</article>'

    def _from_root(self, address: str) -> str:
        path, _, query = address.partition("?")
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(self.name), path))
        return "/" + joined + (f"?{query}" if query else "")

    def _rename(self) -> None:
        for node in self.article.select("[id]"):
            node["id"] = anchor(self.name, str(node["id"]))
        for attribute in NAMED:
            for node in self.article.select(f"[{attribute}]"):
                words = node.get_attribute_list(attribute)
                names = " ".join(str(word) for word in words if word).split()
                node[attribute] = " ".join(anchor(self.name, name) for name in names)

    def _lead(self) -> None:
        """Lead links to other pages of the book there; a link to a file of the site becomes plain text."""
        for link in self.article.select("a[href]"):
            address, _, fragment = str(link["href"]).partition("#")
            if re.match(r"[a-z]+:", address):
                continue
            target = self._from_root(address)[1:].removesuffix(".html") if address else self.name
            if target in self.pages:
                link["href"] = "#" + anchor(target, fragment)
            else:
                link.unwrap()


def document(html_folder: Path, parts: Iterable[Part], title: str, lang: str = "en") -> str:
    """The pages of a built site, in the order of its parts, as one HTML document.

    Addresses of pictures and style sheets in it start from the root of the site.

    Raises:
        Incomplete: if a page is missing or has no article.
    """
    parts = list(parts)
    names = frozenset(name for part in parts for name in part.pages)
    pages = {name: Page(html_folder, name, names) for part in parts for name in part.pages}
    sheets = dict.fromkeys(sheet for page in pages.values() for sheet in page.sheets())
    body, listed = [], []
    for part in parts:
        slug = re.sub(r"\W+", "-", part.caption.lower()).strip("-")
        entries = "".join(f"<li>{entry(anchor(name), pages[name].title)}</li>" for name in part.pages)
        if part.caption:
            place = f"part--{slug}"
            heading = f'<h1 class="part-title" id="{place}">{html.escape(part.caption)}</h1>'
            listed.append(f"<li>{entry(place, part.caption)}<ol>{entries}</ol></li>")
            # The title of a part stands on its first page, not alone on a sheet.
            body.append(f'<section class="book-part">{heading}')
        else:
            listed.append(entries)
            body.append('<section class="book-part">')
        body += [pages[name].prepared() for name in part.pages]
        body.append("</section>")
    table = f'<nav class="book-contents" id="contents"><h1>Contents</h1><ol>{"".join(listed)}</ol></nav>'
    front = f'<header class="book-front"><p class="book-title">{html.escape(title)}</p></header>'
    return DOCUMENT.format(
        lang=lang,
        title=html.escape(title),
        sheets="\n".join(f'<link rel="stylesheet" href="{sheet}">' for sheet in sheets),
        style=STYLE.read_text(encoding="utf-8"),
        body=front + table + "".join(body),
    )
