"""Run an answer within limits of time and output, in any thread and on any system.

The answer runs in a worker thread while the caller waits. When the time is up, an exception is raised inside
the worker (CPython can do that between any two bytecodes). A worker that cannot be stopped so, because it
sleeps inside C code, is left behind as a daemon. Signals would be simpler, but work neither in threads nor on
Windows.

This protects a learner from an accident. It is no sandbox: an answer that wants to end the process can.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TextIO

from .verdict import Skipped

SHOWN_CHARACTERS = 4_000
MOST_CHARACTERS = 1_000_000

_POLL = 0.02
_STOP_SECONDS = 1.0
_SWITCH = 1e-6
_HARD_FACTOR = 10
_WINDOW = 0.45
_IDLE_SHARE = 0.01

End = Literal["value", "raised", "time", "output", "interrupted"]


class TooMuchOutput(Skipped):
    """Raised inside the answer when it prints without end."""


class Budget:
    """Seconds of work that all calls of one check may take together.

    Work is the process's CPU time, and waiting counts where hardly anything is computed. So a busy machine
    does not fail a good answer, while a sleeping one is still stopped. The wall clock alone stops it at ten
    times the limit.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._spent = 0.0
        self._wall_left = _HARD_FACTOR * seconds

    def start(self) -> None:
        """Begin to count; called before each run."""
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def count(self, *, ended: bool = False) -> None:
        """Count what has passed, a window at a time; whatever remains when the run has ended is work."""
        wall, cpu = time.monotonic(), time.process_time()
        waited, worked = wall - self._wall, cpu - self._cpu
        if waited < _WINDOW and not ended:
            return
        self._wall, self._cpu = wall, cpu
        # A thread that waits for its turn on a busy machine still gets a share in each window.
        idle = not ended and worked < _IDLE_SHARE * waited
        self._spent += waited if idle else min(worked, waited)
        self._wall_left -= waited

    @property
    def used_up(self) -> bool:
        """Whether nothing is left."""
        return self._spent >= self.seconds or self._wall_left <= 0


class Worker:
    """One call in its own thread; ``end`` says how it ended."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.end: End | None = None
        self._function = function
        self._context = contextvars.copy_context()  # so that Jupyter routes prints and pictures to this cell
        self._finished = threading.Event()
        self._lock = threading.Lock()
        self._over = False
        self._thread = threading.Thread(target=self._work, daemon=True, name="check")

    def run(self, budget: Budget) -> End:
        """Start, wait, and stop the call when the budget is used up or the learner interrupts."""
        budget.start()
        self._thread.start()
        try:
            while not self._finished.wait(_POLL):
                budget.count()
                if budget.used_up:
                    return self._stop("time")
        except KeyboardInterrupt:
            return self._stop("interrupted")
        budget.count(ended=True)
        return self.end or "raised"

    @property
    def abandoned(self) -> bool:
        """Whether the call goes on although it was told to stop."""
        return not self._finished.is_set()

    def _work(self) -> None:
        # A stop may arrive at any bytecode, also in these handlers: the outer ones catch it.
        try:
            try:
                self.value = self._context.run(self._function)
                self.end = "value"
            except TooMuchOutput:
                self.end = "output"
            except BaseException as error:
                self.error, self.end = error, "raised"
            finally:
                with self._lock:
                    self._over = True
        except BaseException:
            self._over = True
        finally:
            self._finished.set()

    def _stop(self, end: End) -> End:
        until = time.monotonic() + _STOP_SECONDS
        interval = sys.getswitchinterval()
        # A loop that swallows the exception is met again at once, while it is still outside of its ``try``.
        sys.setswitchinterval(_SWITCH)
        try:
            while time.monotonic() < until:
                with self._lock:
                    if self._over:
                        break
                    _raise_in(self._thread.ident)
                time.sleep(0)
        finally:
            sys.setswitchinterval(interval)
        self._finished.wait(_POLL)
        return end


def _raise_in(thread_id: int | None) -> None:
    if thread_id is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(Skipped))


class Cut:
    """A stream that shows the first characters, says that the rest is left out, and ends an endless print."""

    def __init__(self, stream: TextIO, counter: list[int]) -> None:
        self._stream, self._counter = stream, counter

    def write(self, text: str) -> int:
        before = self._counter[0]
        self._counter[0] += len(text)
        if before < SHOWN_CHARACTERS:
            self._stream.write(text[: SHOWN_CHARACTERS - before])
            if self._counter[0] >= SHOWN_CHARACTERS:
                self._stream.write("\n(the rest of what this prints is left out)\n")
        if self._counter[0] > MOST_CHARACTERS:
            raise TooMuchOutput
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def cut_output() -> Iterator[None]:
    """Cut what is printed inside, on standard output and standard error together."""
    before, counter = (sys.stdout, sys.stderr), [0]
    sys.stdout, sys.stderr = Cut(before[0], counter), Cut(before[1], counter)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
