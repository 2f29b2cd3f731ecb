"""Exceptions that cross the bridge: their kind and their text, nothing else of them."""

from __future__ import annotations

import builtins
import re
import traceback
from typing import Any

from .wire import WireError

_CELL = re.compile(r"<cell (\d+)>")
_LONGEST = 400
_WORD = re.compile(r"[^\W\d]\w{0,60}")
_ENDINGS = (SystemExit, KeyboardInterrupt)


class Gone(BaseException):
    """Ends what runs, since the other side has gone; no ``Exception``, which programs swallow by habit."""


class Slow(BaseException):
    """Raised inside a cell or an answer that takes too long."""


def written(error: BaseException) -> dict[str, Any]:
    """An exception as data; asking it for its text may run a learner's code."""
    kinds = [kind.__name__ for kind in type(error).__mro__ if issubclass(kind, BaseException)]
    try:
        text = str(error)
    except Exception:
        text = ""
    if isinstance(error, SyntaxError):
        text = error.msg if type(error.msg) is str else ""
    return {"kinds": kinds[:20], "text": clean(text), "at": _place(error)}


def read(data: object) -> BaseException:
    """An exception of the same kind: a builtin one where there is one of that name, else a child of it."""
    if type(data) is not dict or type(data.get("kinds")) is not list:
        raise WireError("no description of an exception")
    kinds = [kind for kind in data["kinds"][:20] if type(kind) is str and _WORD.fullmatch(kind)]
    text, place = data.get("text"), data.get("at")
    message = clean(text) if type(text) is str else ""
    if type(place) is list and len(place) == 2 and all(type(part) is int for part in place):
        message += f" (line {place[1]} of cell {place[0]})"
    for kind in kinds:
        base = getattr(builtins, kind, None)
        if isinstance(base, type) and issubclass(base, (Exception, *_ENDINGS)):
            return _child(base, kinds[0])(message.strip())
    return _child(Exception, kinds[0] if kinds else "Exception")(message.strip())


def clean(text: str) -> str:
    """The text, not too long, with nothing in it that cannot be written in UTF-8."""
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
    return text.encode("utf-8", "replace").decode("utf-8")


def word(text: object, otherwise: str) -> str:
    """The text, if it can be the name of something; else another."""
    return text if type(text) is str and _WORD.fullmatch(text) else otherwise


def _child(base: type[BaseException], name: str) -> type[BaseException]:
    # A child is made even of a builtin: some of those, such as UnicodeDecodeError, want more than a text.
    def begin(self: BaseException, text: str) -> None:
        self.args = (text,)

    def show(self: BaseException) -> str:
        return str(self.args[0])

    if base in (ValueError, TypeError, RuntimeError, AssertionError, NotImplementedError, IndexError):
        return base if base.__name__ == name else type(name, (base,), {})

    def bare(kind: type[BaseException], *_: object) -> BaseException:
        return base.__new__(kind)

    return type(name, (base,), {"__init__": begin, "__str__": show, "__new__": bare})


def _place(error: BaseException) -> list[int] | None:
    """The cell and the line in it, where the exception passed through one."""
    if isinstance(error, SyntaxError) and error.filename and (found := _CELL.fullmatch(error.filename)):
        return [int(found[1]), error.lineno or 1]
    frames = [
        (found, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if (found := _CELL.fullmatch(frame.filename))
    ]
    return [int(frames[-1][0][1]), frames[-1][1] or 1] if frames else None
