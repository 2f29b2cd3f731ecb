"""The worker's side of the bridge: runs a learner's cells, and the calls of what they define."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from attnlab.checks.guard import original_functions

from . import faults
from .cells import Notebook, numbered
from .nothing import Nothing
from .peer import Header, Peer
from .wire import Channel

FULL = 77
"""The exit status of a worker whose memory is full."""


class Worker(Peer):
    """The side in the sandbox."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel, grader=False)
        self._armed = self._late = False
        self._replaced: list[str] = []
        self._originals: list[Any] = []
        self._notebooks: dict[str, Notebook] = {}
        self._spaces: list[ModuleType] = []  # a module that is gone takes its names along
        self._skip: dict[int, str] = {}

    def shielded(self, function: Callable[[], Any]) -> Any:
        before, self._late = self._armed, False
        signal.signal(signal.SIGUSR1, self._interrupt)
        self._armed = True
        try:
            return function()
        finally:
            self._armed = before
            self._put_back()

    def answer(self, message: Header, buffers: list[bytearray]) -> None:
        if message.get("op") == "run":
            message = {**message, "op": "log", "log": self._logged(message)}
        super().answer(message, buffers)

    def _put_back(self) -> None:
        """As in a notebook, a check finds torch as it was, whatever a cell has put in its place."""
        originals = original_functions()
        names = originals.__enter__()
        self._replaced += [name for name in names if name not in self._replaced]
        if names:
            self._originals.append(originals)  # left open: its end would bring the replacements back
        else:
            originals.__exit__(None, None, None)

    def ask(self, header: Header, buffers: list[Any] | None = None) -> Any:
        # A message must not be cut in two: an interrupt waits until it is through.
        before, self._armed = self._armed, False
        try:
            return super().ask(header, buffers)
        finally:
            self._armed = before
            if before and self._late:
                self._late = False
                raise faults.Slow

    def handle(self, header: Header) -> Any:
        if header["op"] == "log":
            if isinstance(header["log"], Exception):
                raise header["log"]
            return header["log"]
        if header["op"] == "answer":
            notebook = self._notebooks[header["set"]]
            found, value = notebook.answer(header["task"])
            return [found, value if found else notebook.broken(header["task"]), self._replaced[:3]]
        if header["op"] == "forget":
            self.forget()
            return None
        return super().handle(header)

    def _logged(self, header: Header) -> list[list[Any]] | Exception:
        try:
            return self._run(header)
        except Exception as error:
            return error

    def _run(self, header: Header) -> list[list[Any]]:
        self._skip = dict(header["skip"])
        module = ModuleType("__main__")
        self._spaces.append(module)
        sys.modules["__main__"] = module
        module.__dict__.update(get_ipython=Nothing(), display=Nothing())
        notebook = Notebook(module.__dict__, dict(header["answers"]), self._attempt)
        self._notebooks[header["set"]] = notebook
        notebook.run(header["ours"], numbered(header["theirs"], header["script"]))
        return notebook.log

    def _attempt(self, number: int, function: Callable[[], None], makes: bool) -> tuple[str, str]:
        if number in self._skip:
            return "stopped", self._skip[number]
        self.tell({"cell": number, "makes": makes})
        failed: BaseException | None = None
        try:
            self.shielded(function)
        except BaseException as error:
            failed = error
        if _is_short_of_memory(failed):
            os._exit(FULL)  # what has filled it up may still be there: begin anew without this cell
        self.tell({"cell": 0})
        return _ending(failed)

    def _interrupt(self, *_: int | FrameType | None) -> None:
        if self._armed:
            raise faults.Slow
        self._late = True


def _is_short_of_memory(error: BaseException | None) -> bool:
    if isinstance(error, RuntimeError):
        return "allocate memory" in faults.written(error)["text"]
    return isinstance(error, MemoryError)


def _ending(error: BaseException | None) -> tuple[str, str]:
    if error is None:
        return "ok", ""
    if isinstance(error, faults.Slow):
        return "slow", "it takes too long; is there an endless loop?"
    about = faults.written(error)
    line = f" (line {about['at'][1]})" if about["at"] else ""
    return "error", f"{about['kinds'][0]}: {about['text']}{line}".replace(": (", " (")
