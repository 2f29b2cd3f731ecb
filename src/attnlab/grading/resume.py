"""Keep each result as soon as it is there, so that nothing is graded twice.

A result is kept under a key made of everything that it depends on: the submission's bytes, the checks and
the grader, torch, the exercises, the hidden cases, the seed and the limits. Change one of them, and the
submission is graded anew; change none, and an interrupted run goes on where it was.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

import torch

from ..checks.progress_file import replace
from .results import SubmissionResult

__all__ = ["Store", "digest_of", "version"]

_PACKAGE = Path(__file__).resolve().parents[1]
_CHUNK = 1 << 20


class Store:
    """The results of one table of marks, one JSON file each.

    Args:
        folder: where they are; made when the first one is kept.
        settings: everything but the submission that a result depends on, as texts.
    """

    def __init__(self, folder: Path, settings: Iterable[str] = ()) -> None:
        self.folder = folder
        self._settings = hashlib.sha256("\0".join(settings).encode()).hexdigest()

    def key(self, digest: str, suffix: str = "") -> str:
        """The name of a result, from the ``digest`` and the ``suffix`` of a submission's file."""
        text = f"{self._settings}\0{digest}\0{suffix}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def get(self, key: str) -> SubmissionResult | None:
        """The result that was kept under ``key``; None where there is none that can be read."""
        try:
            return SubmissionResult.from_json(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None

    def put(self, key: str, result: SubmissionResult) -> None:
        """Keep a ``result`` under ``key``, in one step: a half-written one is never met."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replace(self._path(key), result.to_json().encode("utf-8", "replace"))

    def seed(self) -> int:
        """The seed of this table of marks: drawn when it is first asked for, then the same for ever.

        It is secret from the students, so that nobody can learn the checks' inputs by heart.
        """
        path = self.folder / "seed.json"
        with contextlib.suppress(OSError, ValueError):
            kept = json.loads(path.read_text(encoding="utf-8"))
            if type(kept) is int:
                return kept
        self.folder.mkdir(parents=True, exist_ok=True)
        drawn = secrets.randbits(31)
        replace(path, str(drawn).encode("utf-8", "replace"))
        return drawn

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def digest_of(path: Path, most: int) -> str:
    """SHA-256 of a file's bytes in hexadecimal; of a file above ``most`` bytes, of its start and its size.

    Args:
        path: a plain file.
        most: what is read of it at most.
    Raises:
        OSError: if it cannot be read.
    """
    digest, left = hashlib.sha256(), most
    with open(path, "rb") as file:
        while left > 0 and (chunk := file.read(min(_CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
        if left <= 0:
            digest.update(f"\0{os.fstat(file.fileno()).st_size}".encode())
    return digest.hexdigest()


@functools.cache
def version() -> str:
    """A word that changes with the course's code and with torch."""
    digest = hashlib.sha256(torch.__version__.encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
