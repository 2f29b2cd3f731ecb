"""Grade in processes of our own, so that one submission can take down no more than its own row.

A grading process grades one submission after another. If it dies or does not come to an end, the submission
that it had is given a row that says so, and a new process takes its place.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path

from .results import SubmissionResult

__all__ = ["Grade", "grade_files"]

Grade = Callable[[Path], SubmissionResult]
"""What grades one file; it is sent to other processes, so it has to be found by its name."""

_PATIENCE = 60.0
_START_SECONDS = 180.0


def grade_files(
    files: Sequence[tuple[str, Path]], grade: Grade, *, jobs: int, seconds: float
) -> Iterator[tuple[str, SubmissionResult, bool]]:
    """Yield ``(name, result, kept)`` as results come; ``kept`` is False where the grader itself failed.

    Args:
        files: names and files.
        grade: grades one file.
        jobs: how many processes.
        seconds: for one file, after which its process is ended; a minute is added for a busy machine.
    """
    waiting = deque(files)
    context = multiprocessing.get_context("spawn")
    workers = [_Worker(context, grade) for _ in range(min(jobs, len(waiting)))]
    try:
        while waiting or any(worker.name is not None for worker in workers):
            for worker in workers:
                if worker.name is None and waiting:
                    worker.give(*waiting.popleft())
            wait([worker.channel for worker in workers if worker.name is not None], timeout=0.5)
            for index, worker in enumerate(workers):
                if worker.name is None:
                    continue
                name, (result, reason) = worker.name, worker.take(seconds + _PATIENCE)
                if result is not None:
                    yield name, result, True
                elif reason:
                    yield name, SubmissionResult(name, "", "failed", reason), False
                    workers[index] = _Worker(context, grade)
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """One grading process and the submission that it has."""

    def __init__(self, context: SpawnContext, grade: Grade) -> None:
        self.channel, theirs = context.Pipe()
        # No daemon: a grading process starts processes itself. It ends when its channel closes.
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, grade))
        self._process.start()
        theirs.close()
        self.name: str | None = None
        self._ready = False  # it says so once it has loaded what it needs, which takes seconds
        self._since = 0.0

    def give(self, name: str, path: Path) -> None:
        self.name, self._since = name, time.monotonic()
        with contextlib.suppress(OSError):  # a process that has ended is noticed when its result is taken
            self.channel.send(str(path))

    def take(self, seconds: float) -> tuple[SubmissionResult | None, str]:
        """The result, or why there will be none; neither while it is being worked on."""
        name = self.name or ""
        try:
            while self.channel.poll():
                text = self.channel.recv()
                if text is not None:
                    self.name = None
                    return SubmissionResult.from_json(text), ""
                self._ready, self._since = True, time.monotonic()
        except (EOFError, OSError, ValueError):
            self.end()
            code = self._process.exitcode
            return None, f"the grader's own process ended (exit {code}) at {name}; grade it again"
        if time.monotonic() - self._since > (seconds if self._ready else _START_SECONDS):
            self.end()
            return None, f"grading {name} did not come to an end and was stopped"
        return None, ""

    def end(self) -> None:
        self.channel.close()
        self._process.join(timeout=2)
        for stop in (self._process.terminate, self._process.kill):
            if self._process.is_alive():
                stop()
                self._process.join(timeout=5)


def _serve(channel: Connection, grade: Grade) -> None:
    """A grading process's life: a path in, a result out, until nobody is there."""
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        channel.send(None)
        while True:
            channel.send(grade(Path(channel.recv())).to_json())
    # A process of multiprocessing ends without this, and folders for scratch would stay behind.
    atexit._run_exitfuncs()
