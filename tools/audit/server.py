"""A web server on this machine that sends a folder as a good host would: compressed."""

from __future__ import annotations

import gzip
import mimetypes
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


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder on a free local port; gives the address, with a slash at its end."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = (folder / unquote(urlsplit(self.path).path).lstrip("/")).resolve()
            if path.is_dir():
                path /= "index.html"
            if not path.is_relative_to(folder.resolve()) or not path.is_file():
                self.send_response(HTTPStatus.NOT_FOUND)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            sent = pack(path)
            self.send_response(HTTPStatus.OK)
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
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
