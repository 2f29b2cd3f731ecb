"""Put an exception of an answer into words, the same words each time."""

from __future__ import annotations

import re
import traceback
from types import TracebackType

from .verdict import Failed, NothingYet, Skipped, Status

_LONGEST = 300
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_PATH = re.compile(r"(?:[A-Za-z]:\\|/)[^\s'\":]*[/\\][^\s'\":]+")
_CELL = re.compile(r"ipykernel|<ipython-input|<stdin>|<string>")


def describe(error: BaseException) -> tuple[Status, str]:
    """The status and the message for an exception that ended a case."""
    if isinstance(error, Skipped):
        raise error
    if isinstance(error, NotImplementedError):
        return "not yet", ""
    if isinstance(error, NothingYet):
        return "not yet", str(error)
    if isinstance(error, Failed):
        return "wrong", str(error)
    return "error", f"{type(error).__name__}{_text(error)}{_where(error.__traceback__)}"


def tidy(text: str) -> str:
    """The text without addresses and paths, on one line, and not too long."""
    text = _PATH.sub("(a file)", _ADDRESS.sub("(an address)", " ".join(text.split())))
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Skipped:
        raise
    except BaseException:
        return ""
    return f": {tidy(text)}" if text else ""


def _where(trace: TracebackType | None) -> str:
    """The line of the learner's cell, if the error passed through one."""
    frames = [frame for frame in traceback.extract_tb(trace) if _CELL.search(frame.filename)]
    return f" (line {frames[-1].lineno} of your cell)" if frames else ""
