"""Reading and writing: whatever happens, a file on disk is either the old one or the new one, never half."""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path


def read(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text(encoding="utf-8")


def write(path: Path, text: str) -> bool:
    """Write a text in one step; return whether the file changed.

    The text goes to a temporary file in the same folder, which then takes the place of the old one: a process
    killed at any moment leaves the old file whole.
    """
    data = text.encode("utf-8")
    if path.exists() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(path.stat().st_mode if path.exists() else 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    return True


def sweep(folder: Path) -> None:
    """Remove temporary files that a killed build left behind."""
    for leftover in folder.glob(".*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            leftover.unlink()


def digest(*texts: str) -> str:
    """Return a short fingerprint of texts."""
    return hashlib.sha256("\0".join(texts).encode("utf-8")).hexdigest()[:16]
