"""The grader's side of the bridge: a worker, and the patience that there is with it."""

from __future__ import annotations

import time
from typing import Any

from ..checks.verdict import Skipped
from .bridge import faults
from .bridge.peer import Header, Peer
from .bridge.wire import Channel, Closed, WireError
from .meter import Meter
from .process import WorkerProcess

_GRACE = 1.0
_OPEN_METHODS = ("__len__", "__getitem__", "__contains__", "__iter__", "__next__", "__call__")
SLOW = "it did not come to an end in time and was stopped; is there an endless loop?"


class Stopped(Skipped):
    """Ends a case, since the worker has gone or may not go on."""


class Link(Peer):
    """The grader's side.

    Args:
        process: the worker.

    Attributes:
        patient: whether a cell that makes an answer may take as long as training does.
    """

    def __init__(self, process: WorkerProcess) -> None:
        channel = Channel(
            process.reading, process.writing, most=process.limits.message_bytes, wait=self._wait
        )
        super().__init__(channel, grader=True)
        self.process = process
        self.patient = False
        self.reason, self.cell = "", 0
        self._ready = False
        self._interrupted = 0.0
        self.begin(process.limits.start_seconds)

    def begin(self, seconds: float) -> None:
        """Grant the worker this much time from now on."""
        self.meter = Meter(seconds, self.process.cpu)
        self.reason, self._interrupted = "", 0.0

    def await_ready(self) -> None:
        """Wait until the worker has started. Raises ``Stopped``."""
        while not self._ready:
            self._guarded(lambda: self.told(self.channel.receive()[0]))
        self.process.ready()

    def ask(self, header: Header, buffers: list[Any] | None = None) -> tuple[Header, list[bytearray]]:
        if self.reason or self.process.over:
            raise self._stopped()
        self.meter.start()
        found: tuple[Header, list[bytearray]] = self._guarded(lambda: self.exchange(header, buffers))
        if self._interrupted:
            self.reason = self.reason or SLOW
            raise Stopped
        if found[0].get("op") == "error":
            raise faults.read(found[0].get("error"))
        return found

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self._checked(lambda: super(Link, self).call(*args, **kwargs))

    def pull(self, *args: Any, **kwargs: Any) -> Any:
        return self._checked(lambda: super(Link, self).pull(*args, **kwargs))

    def request(self, header: Header) -> Any:
        """The value of a reply that is no call. Raises ``Stopped``."""
        return self._checked(lambda: super(Link, self).request(header))

    def answer(self, message: Header, buffers: list[bytearray]) -> None:
        # What the grader computes for the worker is the worker's time as well.
        before = time.thread_time()
        try:
            super().answer(message, buffers)
        finally:
            self.meter.add(time.thread_time() - before)
            self.meter.start()

    def may_be_called(self, target: Any, how: str, name: str) -> bool:
        if not self.is_exported(target):
            return False
        if how == "call":
            return True
        kind = type(target).__module__
        shared = kind.startswith("attnlab.") and not kind.startswith(("attnlab.checks", "attnlab.grading"))
        return shared and how == "method" and name in _OPEN_METHODS

    def told(self, header: Header) -> None:
        self._ready = self._ready or header.get("ready") is True
        if type(header.get("cell")) is int:
            self.cell = header["cell"]
            limits = self.process.limits
            long = self.patient and header.get("makes") is True
            self.begin(limits.training_seconds if long else limits.cell_seconds)

    def _checked(self, function: Any) -> Any:
        """Run what reads a reply; a reply that cannot be read ends the worker."""
        try:
            return function()
        except WireError:
            self._end("it disturbed the exchange with the grader")
            raise Stopped from None

    def _guarded(self, function: Any) -> Any:
        """Run what uses the channel; whatever cuts it short ends the worker, since a message may be cut."""
        try:
            return function()
        except Closed:
            self._end("")
        except WireError:
            self._end("it disturbed the exchange with the grader")
        except BaseException as error:
            if not isinstance(error, faults.Gone):
                self._end("it was stopped by the grader")
                raise
            self._end(SLOW)
        raise self._stopped()

    def _end(self, reason: str) -> None:
        self.process.end(reason)
        self.reason = self.reason or self.process.reason

    def _stopped(self) -> Stopped:
        self.reason = self.reason or self.process.reason or "it ended its own process"
        return Stopped()

    def _wait(self, descriptor: int, writing: bool) -> None:
        while True:
            over = self.process.over
            if self.process.wait(descriptor, writing):  # what it said before its end is read to the end
                self.meter.count(ended=True)
                return
            if over:
                raise Closed("the worker has gone")
            self.meter.count()
            if self.meter.used_up:
                self._lose_patience()

    def _lose_patience(self) -> None:
        now = time.monotonic()
        self._interrupted = self._interrupted or now
        if now - self._interrupted > _GRACE or not self._ready:
            raise faults.Gone
        self.process.interrupt()
