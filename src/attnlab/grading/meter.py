"""Count what a worker uses: its time by its work, its memory and processes by looking at them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator

_WINDOW = 0.45
_IDLE_SHARE = 0.01
_HARD_FACTOR = 10
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SHORT = 0.02


class Meter:
    """Seconds of work, counted as the checks count them in a notebook.

    Work is CPU time, and waiting counts where hardly anything is computed. So a busy machine does not fail a
    good answer, while a sleeping one is still stopped. The wall clock alone ends it at ten times the limit.

    Args:
        seconds: what may be used.
        cpu: CPU seconds that the worker has used so far.
    """

    def __init__(self, seconds: float, cpu: Callable[[], float]) -> None:
        self.seconds, self._read = seconds, cpu
        self.spent, self._wall_left = 0.0, _HARD_FACTOR * seconds
        self.start()

    def start(self) -> None:
        """Begin to count."""
        self._wall, self._cpu = time.monotonic(), self._read()

    def count(self, *, ended: bool = False) -> None:
        """Count what has passed since; a window at a time, unless the waiting has ``ended``."""
        waited = time.monotonic() - self._wall
        if waited < _WINDOW and not ended:
            return
        if ended and waited < _SHORT:
            self._wall += waited
            self.add(waited)
            return
        cpu = self._read()
        worked = max(cpu - self._cpu, 0.0)
        self._wall, self._cpu = self._wall + waited, cpu
        idle = not ended and worked < _IDLE_SHARE * waited
        self.add(waited if idle else min(worked, waited))
        self._wall_left -= waited

    def add(self, seconds: float) -> None:
        """Count work that was done elsewhere."""
        self.spent += seconds

    @property
    def used_up(self) -> bool:
        """Whether nothing is left."""
        return self.spent >= self.seconds or self._wall_left <= 0


def cpu_of(process: int) -> float:
    """CPU seconds of one process; 0 where it has gone."""
    fields = _fields(process)
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def memory_of(process: int) -> int:
    """Bytes of memory that a process holds by itself; 0 where it has gone."""
    with (
        contextlib.suppress(OSError, ValueError, IndexError),
        open(f"/proc/{process}/statm", encoding="ascii") as file,
    ):
        _size, resident, shared = file.read().split()[:3]
        return (int(resident) - int(shared)) * _PAGE
    return 0


def threads_of(process: int) -> int:
    """How many threads a process has; 0 where it has gone."""
    fields = _fields(process)
    return int(fields[17]) if fields else 0


def family(process: int) -> Iterator[int]:
    """A process and all that descend from it."""
    waiting = [process]
    while waiting:
        parent = waiting.pop()
        yield parent
        waiting += children_of(parent)


def children_of(process: int) -> list[int]:
    """The processes that a process has started, or that were left to it."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{process}/task/{thread}/children", encoding="ascii") as file,
            ):
                children += [int(child) for child in file.read().split()]
    return children


def _fields(process: int) -> list[str]:
    """The fields of a process's state after its name."""
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file,
    ):
        return file.read().rpartition(")")[2].split()
    return []
