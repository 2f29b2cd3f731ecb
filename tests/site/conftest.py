"""What the tests of the website share: a local web server, a browser, and a record of what a page asked for.

A page opened with ``open_page`` may talk to the local server alone. Whatever else it asks for is refused and
written down, as is every error in its console; when the test ends both lists must be empty.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, Locator, Page, Route, sync_playwright

from attnlab.widgets._base import CourseWidget
from tests.site.widget_use import host_at, showing

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"
BROWSER_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pages_of(entry: dict[str, Any]) -> list[str]:
    """Names of the pages in a table of contents or a part of one, in order."""
    names = [entry[key] for key in ("root", "file") if key in entry]
    for key in ("parts", "chapters", "sections"):
        for child in entry.get(key, []):
            names += pages_of(child)
    return names


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for a page once for each in ``_toc.yml``, or for each that is a notebook."""
    names = pages_of(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
    if "page_name" in metafunc.fixturenames:
        metafunc.parametrize("page_name", names, scope="module")
    if "notebook_name" in metafunc.fixturenames:
        notebooks = [name for name in names if re.match(r"(notebooks|exercises|solutions)/\d\d_", name)]
        metafunc.parametrize("notebook_name", notebooks, scope="module")


def find_browser() -> str:
    """Path of the Chromium or Chrome that the project's runner finds."""
    sys.path.insert(0, str(ROOT))
    from tools.course import find_browser as find

    return find()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files with the types that modules and fonts need, and writes no log."""

    protocol_version = "HTTP/1.1"
    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".js": "text/javascript",
        ".woff2": "font/woff2",
        ".ipynb": "application/x-ipynb+json",
    }

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="session")
def serve_folder() -> Iterator[Callable[[Path], str]]:
    """Function that serves a folder on a free local port and returns its address, which ends with a slash."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def serve(folder: Path) -> str:
        handler = functools.partial(QuietHandler, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def site_folder() -> Path:
    """The built website; the tests read it and never build it."""
    if not (SITE / "index.html").is_file():
        pytest.fail(f"there is no website in {SITE}: run `make site` first", pytrace=False)
    return SITE


@pytest.fixture(scope="session")
def site_url(site_folder: Path, serve_folder: Callable[[Path], str]) -> str:
    """Address of the built website, with a slash at its end."""
    return serve_folder(site_folder)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One headless browser for all tests of a worker."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=BROWSER_ARGUMENTS)
        yield browser
        browser.close()


def watch(page: Page) -> None:
    """Refuse and record requests that leave this machine, and record errors, in two lists on the page."""
    page.outside = []  # addresses on other hosts that the page asked for
    page.problems = []  # console errors, exceptions, and files that the site lacks

    def guard(route: Route) -> None:
        if route.request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            route.continue_()
        else:
            page.outside.append(route.request.url)
            route.abort()

    def note(kind: str, bad: bool, text: str) -> None:
        if bad:
            page.problems.append(f"{kind}: {text}")

    page.context.route("**/*", guard)
    page.on("pageerror", lambda error: note("exception", True, str(error)))
    page.on("console", lambda message: note("console", message.type == "error", message.text))
    page.on("response", lambda answer: note(str(answer.status), answer.status >= 400, answer.url))


def complaints(page: Page) -> list[str]:
    """Everything that a page asked of other hosts and everything that went wrong in it."""
    return [f"asked {address}" for address in page.outside] + page.problems


def visit(browser: Browser, url: str, *, scheme: str = "light", width: int = 1280, **more: Any) -> Page:
    """Open ``url`` in a window of its own, watched; other arguments go to the browser's new context."""
    size = {"width": width, "height": 900}
    page = browser.new_context(viewport=size, color_scheme=scheme, **more).new_page()
    watch(page)
    page.goto(url, wait_until="load")
    return page


@pytest.fixture
def open_url(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Function that opens an address: ``open_url(url, *, scheme="light", width=1280, strict=True, ...)``.

    The page has ``outside`` (refused addresses) and ``problems`` (errors); both must be empty when the test
    ends, unless it was opened with ``strict=False``. Other arguments go to the browser's new context.
    """
    pages: list[tuple[Page, bool]] = []

    def open_at(url: str, *, strict: bool = True, **options: Any) -> Page:
        page = visit(browser, url, **options)
        pages.append((page, strict))
        return page

    yield open_at
    found = [f"{page.url}: {complaints(page)}" for page, strict in pages if strict and complaints(page)]
    for page, _ in pages:
        page.context.close()
    assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def shown(page_name: str, browser: Browser, site_url: str) -> Iterator[Page]:
    """The page ``page_name``, opened once for all tests of a module that only look at it."""
    page = visit(browser, f"{site_url}{page_name}.html")
    yield page
    found = complaints(page)
    page.context.close()
    assert not found, f"{page_name}: {found}"


@pytest.fixture(scope="module")
def shown_notebook(notebook_name: str, browser: Browser, site_url: str) -> Iterator[Page]:
    """The notebook ``notebook_name``, opened once for all tests of a module that only look at it."""
    page = visit(browser, f"{site_url}{notebook_name}.html")
    yield page
    found = complaints(page)
    page.context.close()
    assert not found, f"{notebook_name}: {found}"


@pytest.fixture
def open_page(open_url: Callable[..., Page], site_url: str) -> Callable[..., Page]:
    """Function that opens a page of the built website: ``open_page("notebooks/03_query_key_value.html")``."""

    def open_at(path: str, **options: Any) -> Page:
        return open_url(site_url + path, **options)

    return open_at


@dataclass(frozen=True)
class Book:
    """A small book that a test has built: how the build ended, what it said, and where the pages lie."""

    code: int
    said: str
    html: Path

    def page(self, name: str) -> str:
        """Text of a built page."""
        return (self.html / f"{name}.html").read_text(encoding="utf-8")


def notebook(*cells: dict[str, Any]) -> str:
    """A notebook as text; each cell gives its ``cell_type``, its ``source`` and what else it needs."""
    whole = [
        {"id": f"cell-{number}", "metadata": {}, **cell}
        | ({} if cell["cell_type"] == "markdown" else {"execution_count": number})
        for number, cell in enumerate(cells, start=1)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps(
        {"cells": whole, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    )


START = "import sys; from jupyter_book.cli.main import main; main(sys.argv[1:])"


def build_small_book(folder: Path, files: dict[str, str], *, start: str = START, more: str = "") -> Book:
    """Build a book from ``{file: text}`` exactly as the website is built; the first file is its root.

    It takes the repository's ``_config.yml`` and ``book/site``. ``start`` runs Jupyter Book; ``more`` is a
    line for Sphinx's part of the configuration.
    """
    names = [name.rsplit(".", 1)[0] for name in files]
    toc: dict[str, Any] = {"format": "jb-book", "root": names[0]}
    if names[1:]:
        toc["chapters"] = [{"file": name} for name in names[1:]]
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    config = config.replace(": book/site", f": {(ROOT / 'book' / 'site').as_posix()}")
    if more:
        config = config.replace("    nb_merge_streams: true\n", f"    nb_merge_streams: true\n    {more}\n")
        assert more in config
    for name, text in {**files, "_toc.yml": yaml.safe_dump(toc), "_config.yml": config}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    options = ["-W", "-n", "--keep-going", "--all"]
    ended = subprocess.run(
        [sys.executable, "-c", start, "build", str(folder), *options],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, "NO_COLOR": "1", "OMP_NUM_THREADS": "1"},
        timeout=120,
    )
    return Book(ended.returncode, ended.stdout + ended.stderr, folder / "_build" / "html")


@pytest.fixture(scope="session")
def build_book() -> Callable[..., Book]:
    """The function ``build_small_book``, for tests."""
    return build_small_book


@pytest.fixture(scope="module")
def widget_book(
    serve_folder: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., str]:
    """Function that builds a book with widgets on its first page: ``widget_book(widgets, wrong=change)``.

    It gives the book's address. Each further argument is a copy of the page beside it, here ``wrong.html``,
    whose text ``change`` has spoilt.
    """

    def build(widgets: list[CourseWidget], **copies: Callable[[str], str]) -> str:
        pages = {"index.ipynb": showing(widgets, notebook)}
        book = build_small_book(tmp_path_factory.mktemp("widgets"), pages)
        assert book.code == 0, book.said
        right = book.page("index")
        for name, change in copies.items():
            (book.html / f"{name}.html").write_text(change(right), encoding="utf-8")
        return serve_folder(book.html)

    return build


@pytest.fixture
def show(url: str, open_url: Callable[..., Page]) -> Callable[..., Locator]:
    """Function that opens a page of the module's ``url`` and gives one of its widgets.

    ``show(1, "wrong", width=390)`` gives the second one of ``wrong.html``, in a window of that width.
    """

    def at(place: int = 0, name: str = "index", **options: Any) -> Locator:
        return host_at(open_url(f"{url}{name}.html", **options), place).locator(".attnlab-widget")

    return at


@pytest.fixture(scope="session")
def make_notebook() -> Callable[..., str]:
    """The function ``notebook``, for tests."""
    return notebook
