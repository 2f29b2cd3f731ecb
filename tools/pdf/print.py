"""Print one HTML document with Chromium: A4, numbered, with outline and links, nothing cut off.

Chromium cannot write the number of the sheet on which a place stands. So the contents are printed once more
when the print has told these numbers: the numbers alone, to be laid over the contents, where they have room.
"""

from __future__ import annotations

import mimetypes
from io import BytesIO
from pathlib import Path
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Page, Route, sync_playwright
from pypdf import PdfReader, PdfWriter

from tools.pdf.check import sheets_of_places

HOST = "http://course.invalid"  # never asked for: each request is answered from the folder
MARGIN = {"top": "18mm", "bottom": "20mm", "left": "18mm", "right": "18mm"}
WIDTH = round((210 - 2 * 18) / 25.4 * 96)  # pixels between the margins of A4
FOOTER = '<p class="pageNumber" style="width:100%;margin:0;text-align:center;font:8pt sans-serif"></p>'
# Makes smaller what scrolls on a screen and would be cut off on paper; returns what is still too wide.
FIT = """
() => {
  const wide = node => node.scrollWidth - node.clientWidth > 1;
  const kinds = ".scroll, .table-box, .output, .text_html, pre, .equation-number";
  const boxes = [...document.querySelectorAll(kinds)];
  for (const box of boxes.reverse()) {
    for (let tries = 0; tries < 4 && wide(box); tries += 1) {
      for (const child of box.children) {
        child.style.zoom = (child.style.zoom || 1) * (box.clientWidth / box.scrollWidth) * 0.99;
      }
    }
  }
  const where = node => node.closest("[data-page]")?.dataset.page;
  const name = node => `${where(node)}: ${node.textContent.trim().slice(0, 60)}`;
  const lost = [...document.images].filter(image => !image.naturalWidth);
  const broken = lost.map(image => `no picture ${image.src}`);
  const page = document.documentElement;
  return [...broken, ...boxes.filter(wide).map(name), ...(wide(page) ? ["the document itself"] : [])];
}
"""
# Leaves of the document the numbers in its contents alone; returns the places of which no sheet is known.
NUMBER = """
sheets => {
  document.querySelectorAll(".book-part").forEach(part => part.remove());
  document.body.style.visibility = "hidden";
  const unknown = [];
  for (const node of document.querySelectorAll("[data-place]")) {
    const text = document.createElement("span");
    text.textContent = sheets[node.dataset.place] ?? "";
    text.style.visibility = "visible";
    node.append(text);
    if (!text.textContent) unknown.push(node.dataset.place);
  }
  return unknown;
}
"""


class Unreadable(RuntimeError):
    """Something would not be readable on paper: a picture is missing, or a line does not fit."""


def _serve(page: Page, text: str, folder: Path) -> list[str]:
    """Answer each request from memory and from a folder; return the list of those that had to be refused."""
    refused: list[str] = []

    def answer(route: Route) -> None:
        url = urlsplit(route.request.url)
        path = folder / unquote(url.path).lstrip("/")
        if f"{url.scheme}://{url.netloc}" != HOST:
            refused.append(route.request.url)
            route.abort()
        elif url.path == "/":
            route.fulfill(body=text, content_type="text/html; charset=utf-8")
        elif path.is_file():
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            route.fulfill(body=path.read_bytes(), content_type=kind)
        else:
            refused.append(route.request.url)
            route.fulfill(status=404, body="")

    page.route("**/*", answer)
    return refused


def _printed(page: Page, *, whole: bool = True) -> bytes:
    """The page as a PDF; without backgrounds, footers and structure if it is to be laid over another."""
    return page.pdf(
        format="A4",
        margin=MARGIN,  # type: ignore[arg-type]
        print_background=whole,
        display_header_footer=whole,
        header_template="<span></span>",
        footer_template=FOOTER,
        tagged=whole,
        outline=whole,
    )


def _number(book: bytes, page: Page, target: Path) -> None:
    """Write a printed book with numbers in its contents. The page that it came from loses everything else."""
    sheets = sheets_of_places(book)
    unknown = page.evaluate(NUMBER, sheets)
    if unknown:
        raise Unreadable("\n".join(f"{place} is in the contents and on no sheet" for place in unknown))
    numbers = PdfReader(BytesIO(_printed(page, whole=False))).pages
    if sheets and len(numbers) != min(sheets.values()) - 1:
        raise Unreadable(f"the contents end on sheet {len(numbers)}, a page begins on {min(sheets.values())}")
    writer = PdfWriter(clone_from=BytesIO(book))
    for sheet, over in zip(writer.pages, numbers, strict=False):
        over.pop("/Annots", None)  # the links are in the book already
        sheet.merge_page(over)
    writer.write(target)


def to_pdf(text: str, folder: Path, target: Path, browser_path: str) -> None:
    """Print ``text``, whose addresses start from ``folder``, into ``target``.

    Raises:
        Unreadable: if a file that it names is missing or elsewhere, something is too wide to print, or a
            line of the contents leads to no sheet.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            page = browser.new_page(viewport={"width": WIDTH, "height": 1000}, java_script_enabled=True)
            page.set_default_timeout(600_000)
            refused = _serve(page, text, folder)
            page.emulate_media(media="print", color_scheme="light")
            page.goto(f"{HOST}/", wait_until="load")
            page.evaluate("() => document.fonts.ready.then(() => true)")
            problems = [f"could not load {address}" for address in refused] + page.evaluate(FIT)
            if problems:
                raise Unreadable("\n".join(problems))
            _number(_printed(page), page, target)
        finally:
            browser.close()
