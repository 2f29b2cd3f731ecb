"""The process in the sandbox: runs a learner's cells, then answers calls. It holds no check and no answer.

Started with one argument, its settings as JSON; standard input and output are the channel. What is printed
goes nowhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from typing import Any

_FIRST_DESCRIPTOR = 200


def main() -> None:
    """Serve until the grader closes the channel."""
    settings = json.loads(sys.argv[1])
    reading, writing = _channel()
    _become(settings.get("user"))
    import torch

    from .side import Worker
    from .wire import Channel, WireError

    torch.set_num_threads(1)
    peer = Worker(Channel(reading, writing, most=settings["message_bytes"]))
    _limit(settings)
    peer.tell({"ready": True})
    with contextlib.suppress(WireError):
        while True:
            peer.answer(*peer.channel.receive())
    os._exit(0)  # whatever a learner's code wanted to do at the end


def _channel() -> tuple[int, int]:
    import fcntl

    reading, writing = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_DESCRIPTOR) for fd in (0, 1))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    return reading, writing


def _become(user: int | None) -> None:
    """Give up the rights of root for those of a user that nobody else is."""
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)


def _limit(settings: dict[str, Any]) -> None:
    """Limits that the kernel holds; memory is counted from what the worker takes by itself."""
    now = 0
    with (
        contextlib.suppress(OSError, IndexError, ValueError),
        open("/proc/self/statm", encoding="ascii") as file,
    ):
        now = int(file.read().split()[0]) * resource.getpagesize()
    memory = now + settings["memory_bytes"]
    for what, most in (
        (resource.RLIMIT_CPU, settings["cpu_seconds"]),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, settings["file_size_bytes"]),
        (resource.RLIMIT_NPROC, settings["processes"]),
        (resource.RLIMIT_NOFILE, _FIRST_DESCRIPTOR + 8),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    main()
