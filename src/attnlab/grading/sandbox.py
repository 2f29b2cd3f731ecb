"""How a worker is shut in: bubblewrap gives it its own empty world, and the kernel holds its limits.

In it, everything is read-only but a small folder for scratch; there is no network, no home, no other process.
It sees Python, its packages and the course without its checks. As root, bubblewrap needs no user namespace;
the worker then becomes a user that nobody else is, since limits on processes do not bind root.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path

from .budget import Limits
from .course_copy import BRIDGE, PACKAGE

COURSE = "/course"
_FIRST_USER = 1_300_000_000
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/nix/store", "/etc/ld.so.cache", "/etc/localtime")
_NO_SANDBOX = (
    "Submissions are programs of other people, and there is no sandbox to run them in: {why}. "
    "Install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; on Windows inside of WSL 2), or give "
    "--unsafe to run them with your own rights."
)


class NoSandbox(RuntimeError):
    """There is no sandbox here; the message says why, and what to do."""


def require_sandbox() -> None:
    """Raise ``NoSandbox`` where bubblewrap is missing or may not do its work."""
    why = _trouble()
    if why:
        raise NoSandbox(_NO_SANDBOX.format(why=why))


@functools.cache
def _trouble() -> str:
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    command = [*_walls(Limits()), *_shown(Path(PACKAGE), ()), "--", sys.executable, "-I", "-c", "pass"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
    return "" if done.returncode == 0 else f"bubblewrap does not run ({lines[-1][:200]})"


def sandboxed(course: Path, limits: Limits, *, information: int, hidden: Iterable[Path] = ()) -> list[str]:
    """The command that starts a worker inside; its settings are to be added.

    Args:
        course: the course's copy, which the worker sees at ``COURSE``.
        information: the descriptor on which bubblewrap tells the worker's process number.
        hidden: files and folders that must not be seen, should they lie where the worker looks.
    """
    walls = [*_walls(limits), "--info-fd", str(information)]
    shown = _shown(course, tuple(path.resolve() for path in hidden))
    return [*walls, *shown, "--setenv", "PYTHONPATH", COURSE, "--", *python()]


def unsandboxed(course: Path) -> tuple[list[str], dict[str, str]]:
    """The command, and its environment, that starts a worker without a sandbox."""
    return python(), {**_ENVIRONMENT, "PATH": os.defpath, "PYTHONPATH": str(course)}


def python() -> list[str]:
    """The worker's program."""
    return [sys.executable, "-P", "-s", "-B", "-m", f"{BRIDGE}.worker"]


def user_for(process: int) -> int | None:
    """As root, a number of a user that is nobody else's; else None."""
    return _FIRST_USER + process % 1_000_000 if os.geteuid() == 0 else None


_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONWARNINGS": "ignore",
}


def _walls(limits: Limits) -> list[str]:
    walls = ["bwrap", "--die-with-parent", "--new-session", "--clearenv", "--unshare-pid", "--unshare-net"]
    walls += ["--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
    walls += ["--cap-drop", "ALL"]
    if os.geteuid() == 0:
        walls += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        walls += ["--unshare-user", *(["--disable-userns"] if _version() >= (0, 8) else [])]
    for name, value in _ENVIRONMENT.items():
        walls += ["--setenv", name, value]
    scratch = str(limits.scratch_bytes)
    walls += ["--proc", "/proc", "--dev", "/dev", "--size", scratch, "--perms", "1777", "--tmpfs", "/dev/shm"]
    return [*walls, "--remount-ro", "/dev", "--size", scratch, "--perms", "1777", "--tmpfs", "/tmp"]


@functools.cache
def _version() -> tuple[int, ...]:
    done = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, timeout=20, check=False)
    return tuple(int(part) for part in re.findall(r"\d+", done.stdout)[:2])


def _shown(course: Path, hidden: Sequence[Path]) -> list[str]:
    """What is seen: the system's libraries, Python, its packages, the course; read-only."""
    shown: list[str] = []
    made = {"/"}
    for place in _SYSTEM:
        if os.path.islink(place):
            shown += ["--symlink", os.readlink(place), place]
        elif os.path.exists(place):
            shown += [*_parents(place, made), "--ro-bind", place, place]
    roots = _pythons()
    for place in roots:
        shown += [*_parents(place, made), "--ro-bind", place, place]
    shown += ["--ro-bind", str(course), COURSE]
    for masked in (PACKAGE, *hidden):
        # The checks may be installed beside the other packages, and an instructor's file lie anywhere.
        if any(masked.is_relative_to(root) for root in (*roots, *_SYSTEM)) and masked.exists():
            shown += ["--tmpfs", str(masked)] if masked.is_dir() else ["--ro-bind", "/dev/null", str(masked)]
    return [*shown, "--chdir", "/tmp", "--remount-ro", "/"]


def _pythons() -> list[str]:
    """The folders that Python runs from, none of them inside of another or of the system's."""
    folders = {sys.prefix, sys.base_prefix, sys.exec_prefix, sysconfig.get_paths()["stdlib"]}
    folders |= {
        *site.getsitepackages(),
        str(Path(sys.executable).parent),
        str(Path(os.path.realpath(sys.executable)).parent),
    }
    kept: list[str] = []
    for folder in sorted(folders, key=len):
        inside = any(Path(folder).is_relative_to(other) for other in (*kept, "/usr", "/lib", "/bin"))
        if os.path.isdir(folder) and not inside:
            kept.append(folder)
    return kept


def _parents(place: str, made: set[str]) -> list[str]:
    """Make the folders above a place; those that bubblewrap makes by itself are closed to other users."""
    made_now: list[str] = []
    for parent in reversed(Path(place).parents):
        if str(parent) not in made:
            made.add(str(parent))
            made_now += ["--perms", "0755", "--dir", str(parent)]
    made.add(place)
    return made_now
