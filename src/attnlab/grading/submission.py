"""Read a submission's file: its code cells as text, and nothing of it is run or believed here."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CODE_BYTES = 1 << 20
_CELL_MARK = re.compile(r"^# (?:%%|In\s?\[[\s\d]*\]:|<codecell>)(?P<rest>.*)$", re.M)
_LATIN = "it is not written in UTF-8, as notebooks are; save it again in Jupyter or Colab"


class Refused(ValueError):
    """Nothing of the file can be looked at; the message says why."""

    def __init__(self, reason: str, digest: str = "") -> None:
        super().__init__(reason)
        self.digest = digest


@dataclass(frozen=True)
class Submission:
    """What a file holds.

    Attributes:
        digest: SHA-256 of its bytes, in hexadecimal.
        code: its code cells in order, from 1 on: number and source.
        texts: its other cells.
        script: whether it is a script that has no cells.
    """

    digest: str
    code: tuple[tuple[int, str], ...]
    texts: tuple[str, ...] = ()
    script: bool = False


def read_submission(path: Path, most: int) -> Submission:
    """Read a notebook, or a notebook exported as a script.

    Args:
        path: the file.
        most: bytes that it may have.
    Raises:
        Refused: with the reason, in words.
    """
    data = _bytes(path, most)
    digest = hashlib.sha256(data).hexdigest()
    try:
        code, texts, script = _cells(data, path.suffix.lower())
    except Refused as error:
        raise Refused(str(error), digest) from None
    if sum(len(source) for _, source in code) > _CODE_BYTES:
        raise Refused("its code is longer than 1 MiB", digest)
    return Submission(digest, tuple(code), tuple(texts), script)


def _bytes(path: Path, most: int) -> bytes:
    try:
        # A link may point anywhere, and a pipe never ends.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        linked = path.is_symlink()
        why = "it is a link to another file" if linked else getattr(error, "strerror", None) or str(error)
        raise Refused(f"it cannot be read: {why}") from None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        os.close(descriptor)
        raise Refused("it is no plain file")
    with open(descriptor, "rb") as file:
        if about.st_size > most:
            size = f"{about.st_size / (1 << 20):.0f} MiB"
            raise Refused(f"it has {size}, more than the {most / (1 << 20):.0f} MiB that a notebook may have")
        data = file.read(most + 1)
    if len(data) > most:
        raise Refused("it grew while it was read")
    return data


def _cells(data: bytes, suffix: str) -> tuple[list[tuple[int, str]], list[str], bool]:
    if not data.strip(b"\0 \t\r\n"):
        raise Refused("it is empty")
    if data[:4] == b"PK\3\4":
        raise Refused("it is a zip archive, not a notebook")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused(_LATIN) from None
    if "\0" in text:
        raise Refused("it is no text")
    if suffix == ".py" and not text.lstrip().startswith("{"):
        return _script(text.replace("\r\n", "\n"))
    return (*_notebook(text), False)


def _script(text: str) -> tuple[list[tuple[int, str]], list[str], bool]:
    marks = list(_CELL_MARK.finditer(text))
    if not marks:
        return [(1, text)], [], True
    code, texts = [(1, text[: marks[0].start()])], []
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        part = text[mark.end() : following.start() if following else None]
        if "[markdown]" in mark["rest"] or "[raw]" in mark["rest"]:
            texts.append(re.sub(r"(?m)^# ?", "", part))
        else:
            code.append((len(code) + 1, part))
    return code, texts, False


def _notebook(text: str) -> tuple[list[tuple[int, str]], list[str]]:
    try:
        book = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("it is no notebook: its JSON is broken") from None
    cells = book.get("cells") if type(book) is dict else None
    if cells is None and type(book) is dict and type(book.get("worksheets")) is list:  # before version 4
        cells = [
            cell for sheet in book["worksheets"] if type(sheet) is dict for cell in sheet.get("cells", [])
        ]
    if type(cells) is not list:
        raise Refused("it is no notebook: it has no cells")
    code: list[tuple[int, str]] = []
    texts: list[str] = []
    for cell in cells:
        if type(cell) is not dict:
            continue
        source = _source(cell.get("source", cell.get("input", "")))
        if cell.get("cell_type") == "code":
            code.append((len(code) + 1, source))
        else:
            texts.append(source)
    return code, texts


def _source(value: Any) -> str:
    if type(value) is list:
        value = "".join(part for part in value if type(part) is str)
    return value.replace("\r\n", "\n") if type(value) is str else ""
