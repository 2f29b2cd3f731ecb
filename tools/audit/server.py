"""A web server on this machine that sends a folder as a good host would: compressed."""

from __future__ import annotations

import gzip
import mimetypes
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

TYPES = {
    **{".mjs": "text/javascript", ".js": "text/javascript", ".woff2": "font/woff2", ".svg": "image/svg+xml"},
    **{
        ".ipynb": "application/x-ipynb+json",
        ".html": "text/html; charset=utf-8",
        ".json": "application/json",
    },
}
COMPRESSED = ("text/", "application/json", "application/x-ipynb", "application/xml", "image/svg")
MAP = re.compile(r"^Sitemap: (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Sent:
    """One file as it is sent: its body, compressed where that helps, and its type."""

    body: bytes
    kind: str
    is_compressed: bool


def pack(path: Path) -> Sent:
    """A file as it is sent."""
    kind = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    plain = path.read_bytes()
    if kind.startswith(COMPRESSED):
        return Sent(gzip.compress(plain, 9, mtime=0), kind, True)
    return Sent(plain, kind, False)


def root_of(folder: Path) -> str:
    """The path at which a site says that it is published, ``/course/`` for one; ``/`` if it says nothing."""
    robots = folder / "robots.txt"
    said = MAP.search(robots.read_text(encoding="utf-8")) if robots.is_file() else None
    return urlsplit(said[1]).path.rpartition("/")[0] + "/" if said else "/"


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a site on a free local port, at the path of its public address; gives the address.

    An address that does not exist is answered with the site's own page for that, as hosts do. The address
    given ends with a slash.
    """
    root = root_of(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = unquote(urlsplit(self.path).path)
            path = (folder / asked.removeprefix(root)).resolve()
            if path.is_dir():
                path /= "index.html"
            is_there = asked.startswith(root) and path.is_relative_to(folder.resolve()) and path.is_file()
            missing = folder / "404.html"
            if is_there or missing.is_file():
                sent = pack(path if is_there else missing)
            else:
                sent = Sent(b"", "text/plain", False)
            self.send_response(HTTPStatus.OK if is_there else HTTPStatus.NOT_FOUND)
            self.send_header("Content-Type", sent.kind)
            self.send_header("Content-Length", str(len(sent.body)))
            self.send_header("Cache-Control", "max-age=600")
            if sent.is_compressed:
                self.send_header("Content-Encoding", "gzip")
                self.send_header("Vary", "Accept-Encoding")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(sent.body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{root}"
    finally:
        server.shutdown()
        server.server_close()
