"""A worker's process: started in the sandbox, watched, interrupted, ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from . import sandbox
from .bridge.side import FULL
from .budget import MIB, Limits
from .meter import children_of, cpu_of, family, memory_of, threads_of

_EVERY = 0.1
_STEP = 0.05
_SLACK = 64 * MIB
"""A single process meets its own limit first; what is watched for is the sum over several."""


class WorkerProcess:
    """One worker.

    Args:
        course: the course's copy.
        limits: what it may use.
        until: the moment, on the monotonic clock, at which it is ended in any case.
        hidden: what must not be seen from inside.
        unsafe: without a sandbox.
    """

    def __init__(
        self, course: Path, limits: Limits, *, until: float, hidden: Iterable[Path] = (), unsafe: bool = False
    ) -> None:
        self.limits, self.reason = limits, ""
        self._until, self._began, self._number = until, time.monotonic(), 0
        self._lock, self._over = threading.Lock(), threading.Event()
        self.outer, self.reading, self.writing = self._start(course, hidden, unsafe)
        self._base_memory = 0
        self._watch = threading.Thread(target=self._keep_watch, daemon=True, name="watch")
        self._watch.start()

    def _start(
        self, course: Path, hidden: Iterable[Path], unsafe: bool
    ) -> tuple[subprocess.Popen[bytes], int, int]:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        told, tells = os.pipe()
        environment = None
        if unsafe:
            command, environment = sandbox.unsandboxed(course)
        else:
            command = sandbox.sandboxed(course, self.limits, information=tells, hidden=hidden)
        settings = {
            "user": None if unsafe else sandbox.user_for(os.getpid()),
            "message_bytes": self.limits.message_bytes,
            "cpu_seconds": self.limits.cpu_seconds,
            "memory_bytes": self.limits.memory_bytes,
            "file_size_bytes": self.limits.file_size_bytes,
            "processes": self.limits.processes,
        }
        outer = subprocess.Popen(
            [*command, json.dumps(settings)],
            stdin=theirs_in,
            stdout=theirs_out,
            stderr=subprocess.DEVNULL,
            pass_fds=() if unsafe else (tells,),
            env=environment,
            start_new_session=True,
        )
        for descriptor in (theirs_in, theirs_out, tells):
            os.close(descriptor)
        self._root = outer.pid if unsafe else _told(told, self.limits.start_seconds) or outer.pid
        os.close(told)
        for descriptor in (ours_in, ours_out):
            os.set_blocking(descriptor, False)
        return outer, ours_in, ours_out

    @property
    def over(self) -> bool:
        """Whether it has ended, or was ended."""
        return self._over.is_set() or self.outer.poll() is not None

    def number(self) -> int:
        """The number of the process that runs the learner's code."""
        if not self._number:
            children = children_of(self._root) if self._root != self.outer.pid else []
            self._number = children[0] if children else 0
        return self._number or self._root

    def cpu(self) -> float:
        """CPU seconds that it has used."""
        return cpu_of(self.number())

    def ready(self) -> None:
        """Take note that it has started: memory is counted from here on."""
        self._base_memory = self._memory()

    def grown(self) -> int:
        """Bytes of memory that it and all that it has started hold, beyond what it began with."""
        return self._memory() - self._base_memory if self._base_memory else 0

    def interrupt(self) -> None:
        """Ask it to give up what it does; it need not obey."""
        with contextlib.suppress(OSError):
            os.kill(self.number(), signal.SIGUSR1)

    def wait(self, descriptor: int, writing: bool) -> bool:
        """Wait a moment until a descriptor can be used; whether it can."""
        ours = ([], [descriptor]) if writing else ([descriptor], [])
        ready = select.select(*ours, [], _STEP)
        return bool(ready[0] or ready[1])

    def end(self, reason: str = "") -> None:
        """End it and everything that it has started."""
        with self._lock:
            if not self._over.is_set():
                self.reason = self.reason or reason or self._why()
                self._over.set()
                self._kill()

    def close(self) -> None:
        """End it, and close the channel."""
        self.end("the grader is done with it")
        for descriptor in (self.reading, self.writing):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _kill(self) -> None:
        # In a sandbox, the first process of its own world: the kernel ends all others with it.
        inner = os.killpg if self._root == self.outer.pid else os.kill
        for process, kill in ((self._root, inner), (self.outer.pid, os.kill)):
            if self.outer.poll() is None:
                with contextlib.suppress(OSError):
                    kill(process, signal.SIGKILL)
        self.outer.wait()

    def _why(self) -> str:
        code = self.outer.poll()
        if code is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self.outer.wait(timeout=0.5)
        if code == FULL:
            return self._full()
        # bubblewrap gives a signal as 128 and its number.
        number = -code if code is not None and code < 0 else (code or 0) - 128
        if number in (signal.SIGXCPU, signal.SIGKILL) and self.cpu_was_long():
            return "it used up its CPU time and was ended"
        if number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE):
            return f"its process crashed ({signal.Signals(number).name})"
        return "it ended its own process"

    def cpu_was_long(self) -> bool:
        """Whether it has run for long enough to have used up its CPU time."""
        return time.monotonic() - self._began >= self.limits.cpu_seconds

    def _full(self) -> str:
        return f"it took more than {self.limits.memory_bytes // MIB} MiB of memory"

    def _memory(self) -> int:
        return sum(memory_of(process) for process in family(self._root))

    def _keep_watch(self) -> None:
        while not self._over.wait(_EVERY):
            if self.outer.poll() is not None:
                return
            if time.monotonic() > self._until:
                self.end("the submission used up all of its time")
            elif sum(threads_of(process) for process in family(self._root)) > self.limits.processes + 2:
                self.end("it started too many processes")
            elif self.grown() > self.limits.memory_bytes + _SLACK:
                self.end(self._full())


def _told(descriptor: int, seconds: float) -> int | None:
    """The process number that bubblewrap tells; None where it does not."""
    text, until = b"", time.monotonic() + seconds
    while time.monotonic() < until and len(text) < 4096:
        if not select.select([descriptor], [], [], 0.1)[0]:
            continue
        part = os.read(descriptor, 4096)
        text += part
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return int(json.loads(text)["child-pid"])
        if not part:
            break
    return None
