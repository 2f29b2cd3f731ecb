"""The file in which a learner's points are kept, and what is done when it cannot be used.

The file is JSON, ``{"format": 1, "tasks": {task id: {title, points, max_points, tries}}}``. It lies in the
folder that the environment variable ``ATTNLAB_HOME`` names, else in the user's data folder. It is replaced in
one step and under a lock, so a kernel that dies while writing leaves the old file whole and two kernels that
write at once both keep their points. What cannot be understood is copied beside before anything is written
over it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import filelock
import platformdirs

FORMAT = 1
LOCK_SECONDS = 2.0
_MAX_BYTES = 5_000_000  # hundreds of exercises take some 50 kB: anything larger is not our file


@dataclass(frozen=True)
class Entry:
    """The best result on one exercise so far, and how many checks were run on it."""

    title: str
    points: float
    max_points: float
    tries: int = 0

    @property
    def share(self) -> float:
        """The part of the points that was reached, 0 to 1."""
        return self.points / self.max_points

    @property
    def done(self) -> bool:
        """Whether all points were reached; sums of parts such as 1/7 count as whole."""
        return math.isclose(self.points, self.max_points, rel_tol=1e-9)


@dataclass(frozen=True)
class Contents:
    """What a progress file holds; `problem` says in words what of it could not be understood, if anything."""

    entries: dict[str, Entry]
    problem: str | None = None


def location() -> Path:
    """The progress file of this user, whether it exists or not."""
    home = os.environ.get("ATTNLAB_HOME")
    folder = Path(home).expanduser() if home else platformdirs.user_data_path("attnlab", appauthor=False)
    return folder / "progress.json"


def backups(path: Path) -> list[Path]:
    """The copies that were put beside `path`, in order of their names."""
    return sorted(path.parent.glob(f"{path.stem}.*-*{path.suffix}"))


def read(path: Path) -> Contents:
    """Read a progress file as far as it can be understood.

    A missing file is an empty one. Raises OSError where the file is there and cannot be opened.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return Contents({})
    if len(raw) > _MAX_BYTES:
        return Contents({}, "it is far larger than a progress file can be")
    try:
        data = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return Contents({}, "it is damaged or incomplete")
    if not isinstance(data, dict) or not isinstance(data.get("tasks"), dict):
        return Contents({}, "it is not a progress file")
    return _understood(data)


def _understood(data: dict[str, Any]) -> Contents:
    found = {task_id: _entry(value) for task_id, value in data["tasks"].items()}
    entries = {task_id: entry for task_id, entry in found.items() if entry is not None}
    if data.get("format") != FORMAT:
        return Contents(entries, "it was written by another version of the course")
    if len(entries) < len(found):
        return Contents(entries, "some of its entries are damaged")
    return Contents(entries)


def _entry(value: object) -> Entry | None:
    """One entry, or None where it is not one that this module could have written."""
    if not isinstance(value, dict):
        return None
    title, tries = value.get("title"), value.get("tries")
    points, max_points = _number(value.get("points")), _number(value.get("max_points"))
    if not isinstance(title, str) or not isinstance(tries, int) or isinstance(tries, bool) or tries < 0:
        return None
    if points is None or max_points is None or not 0 <= points <= max_points or max_points == 0:
        return None
    printable = title.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair cannot be shown
    return Entry(printable, points, max_points, tries)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def merge(kept: Mapping[str, Entry], new: Mapping[str, Entry]) -> dict[str, Entry]:
    """Add new results to those kept: the better share of the points stays, tries add up.

    Shares are compared, not points: an exercise that got more points in a later version of the course does
    not make an old full mark look like half of one.
    """
    merged = dict(kept)
    for task_id, entry in new.items():
        old = merged.get(task_id)
        if old is None:
            merged[task_id] = entry
            continue
        best = entry if entry.share >= old.share else old
        merged[task_id] = Entry(entry.title, best.points, best.max_points, old.tries + entry.tries)
    return merged


def join(kept: Mapping[str, Entry], other: Mapping[str, Entry]) -> dict[str, Entry]:
    """Add results that were saved elsewhere: the better share stays, and of the tries the larger number.

    What was saved may hold what is kept already, so tries do not add up and joining twice changes nothing.
    """
    joined = dict(kept)
    for task_id, entry in other.items():
        old = joined.get(task_id, entry)
        best = entry if entry.share > old.share else old
        joined[task_id] = Entry(old.title, best.points, best.max_points, max(old.tries, entry.tries))
    return joined


Combine = Callable[[Mapping[str, Entry], Mapping[str, Entry]], dict[str, Entry]]


def update(path: Path, new: Mapping[str, Entry], combine: Combine = merge) -> None:
    """Add results to the file. Raises OSError where that cannot be done; the file is then as it was."""
    path = Path(os.path.realpath(path))  # replacing a link would cut it
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        contents = read(path)
        if contents.problem is not None:
            keep_beside(path, "unreadable")
        _write(path, combine(contents.entries, new))


def reset(path: Path) -> Path | None:
    """Start afresh; returns where the old file was kept, or None where there was none."""
    path = Path(os.path.realpath(path))
    if not path.exists():
        return None
    with _locked(path):
        copy = keep_beside(path, "backup")
        path.unlink()
    return copy


def keep_beside(path: Path, label: str) -> Path:
    """Copy a file beside itself under the first free name; an earlier copy is never written over."""
    raw = path.read_bytes()
    number = 1
    while True:
        copy = path.with_name(f"{path.stem}.{label}-{number}{path.suffix}")
        try:
            with open(copy, "xb") as file:
                file.write(raw)
        except FileExistsError:
            number += 1
        else:
            return copy


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = filelock.FileLock(f"{path}.lock", timeout=LOCK_SECONDS)
    try:
        lock.acquire()
    except NotImplementedError:  # some network drives know no locks; replacing in one step must do there
        yield
        return
    try:
        yield
    finally:
        lock.release()


def _write(path: Path, entries: Mapping[str, Entry]) -> None:
    data = {"format": FORMAT, "tasks": {task_id: asdict(entries[task_id]) for task_id in sorted(entries)}}
    replace(path, json.dumps(data, indent=1).encode("utf-8"))


def replace(path: Path, raw: bytes) -> None:
    """Put a file in place in one step: where the disk is full, the old one stays."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.stem}-", suffix=".part")
    try:
        with open(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
