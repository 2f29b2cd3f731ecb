"""Print one HTML document with Chromium: A4, numbered, with outline and links, nothing cut off."""

from __future__ import annotations

import mimetypes
from pathlib import Path
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Page, Route, sync_playwright

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


def to_pdf(text: str, folder: Path, target: Path, browser_path: str) -> None:
    """Print ``text``, whose addresses start from ``folder``, into ``target``.

    Raises:
        Unreadable: if a file that it names is missing or elsewhere, or something is too wide to print.
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
            page.pdf(
                path=str(target),
                format="A4",
                margin=MARGIN,  # type: ignore[arg-type]
                print_background=True,
                display_header_footer=True,
                header_template="<span></span>",
                footer_template=FOOTER,
                tagged=True,
                outline=True,
            )
        finally:
            browser.close()
