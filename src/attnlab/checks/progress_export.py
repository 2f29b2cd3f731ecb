"""Progress as one file to keep, to hand in, or to carry on with elsewhere.

The file is JSON and says what a progress file says (``progress_file``), so that either can be read back, and
the lesson and kind of each exercise and the sums besides. It holds no date and no place: the same progress
gives the same bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from . import progress_file
from .progress_rows import Row, by_kind, total

SUFFIX = ".json"


def text_of(rows: Sequence[Row]) -> str:
    """The file's text: every exercise that was tried, and the points by lesson and by kind."""
    lessons: dict[str, list[Row]] = {}
    for row in rows:
        lessons.setdefault(row.exercise.lesson, []).append(row)
    data = {
        "format": progress_file.FORMAT,
        "course": "Attention Lab",
        "version": __version__,
        **_points(rows),
        "lessons": {lesson: _points(group) for lesson, group in lessons.items()},
        "kinds": {kind: _points(group) for kind, group in by_kind(rows).items()},
        "tasks": {row.exercise.task_id: _task(row) for row in rows if row.entry is not None},
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def save(rows: Sequence[Row], path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write the rows to `path`. Where the file already says just this, nothing is done.

    Raises:
        ValueError: the name does not end in .json, or it is the file that the checks write.
        OSError: the file is there and says something else (FileExistsError), its folder is not there
            (FileNotFoundError), or it cannot be written.
    """
    target = Path(path).expanduser()
    if target.suffix.lower() != SUFFIX:
        raise ValueError(f"path: expected a name that ends in {SUFFIX}, got {target.name!r}")
    if os.path.realpath(target) == os.path.realpath(progress_file.location()):
        raise ValueError(f"path: expected another file than {target}, in which the checks keep your points")
    raw = text_of(rows).encode("utf-8")
    if target.is_dir():
        raise IsADirectoryError(f"path: expected a file, and {target} is a folder")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path: expected a folder that is there, and {target.parent} is not")
    try:
        if overwrite:
            progress_file.replace(Path(os.path.realpath(target)), raw)  # replacing a link would cut it
        else:
            _create(target, raw)
    except FileExistsError:
        if not _holds(target, raw):
            raise FileExistsError(
                f"path: expected a new name, and {target} is there with other points; it was left as it is, "
                "and overwrite=True replaces it"
            ) from None


def read(path: str | os.PathLike[str]) -> progress_file.Contents:
    """What a saved file holds; `problem` says what of it could not be understood.

    Raises:
        ValueError: nothing of it can be understood.
        OSError: it is not there, or cannot be read.
    """
    source = Path(path).expanduser()
    if source.is_dir():
        raise IsADirectoryError(f"path: expected a saved progress file, and {source} is a folder")
    if not source.exists():
        raise FileNotFoundError(f"path: expected a saved progress file, and there is no {source}")
    contents = progress_file.read(source)
    if contents.problem and not contents.entries:
        raise ValueError(f"path: {source} cannot be understood: {contents.problem}")
    return contents


def _points(rows: Sequence[Row]) -> dict[str, float]:
    together = total(rows)
    return {"points": round(together.points, 6), "max_points": round(together.max_points, 6)}


def _task(row: Row) -> dict[str, Any]:
    assert row.entry is not None  # only rows with a result are written
    kept = {"points": row.entry.points, "max_points": row.entry.max_points, "tries": row.entry.tries}
    return {"title": row.exercise.title, "lesson": row.exercise.lesson, "kind": row.exercise.kind, **kept}


def _create(path: Path, raw: bytes) -> None:
    """Write a file that is not there yet; raises FileExistsError where it is."""
    with open(path, "xb") as file:
        try:
            file.write(raw)
            file.flush()
        except BaseException:  # half a file would stand in the way of the next try
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise


def _holds(path: Path, raw: bytes) -> bool:
    try:
        return path.read_bytes() == raw
    except OSError:
        return False
