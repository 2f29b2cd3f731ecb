"""Find the submissions: in a folder or a zip file, plain or as Canvas, Moodle and GitHub hand them out.

===========================================  ==============================================================
``anna.ipynb``                               one submission of the student *anna*
``anna/set3.ipynb``, ``anna/set4.ipynb``     two submissions of the student *anna*
``lovelaceada_LATE_321_654_set3.ipynb``      Canvas: the student with the number 321, handed in late
``Ada Lovelace_321_assignsubmission_file_``  Moodle: a folder, or the start of a file's name
``anna.zip``, ``anna/work.zip``              opened once; what is in it is handled as a folder's contents
===========================================  ==============================================================

Whatever cannot be graded is a submission too, with the reason: nothing is left out in silence. Links are not
followed.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path, PurePosixPath

from .unpack import Found, unpack

__all__ = ["SUFFIXES", "Submission", "collect", "printable"]

SUFFIXES = (".ipynb", ".py")
_CANVAS = re.compile(r"(?P<who>[^_/]+)_(?P<late>LATE_)?(?P<number>\d+)_\d+_(?P<file>.+)")
_MOODLE = re.compile(r"(?P<who>.+)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)")
_LEFT_BEHIND = {
    *("__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini", ".DS_Store", ".ipynb_checkpoints"),
    *(".git", ".github", ".gitignore", ".gitattributes", ".vscode", ".idea", ".venv"),
}
_DEEPEST = 8
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Submission:
    """One file to be graded, or what stands in its place.

    Attributes:
        name: the name in the table; no two are the same.
        student: who handed it in, as far as the names say.
        path: the file; None where there is nothing to open.
        number: the student's number in Canvas or Moodle; empty elsewhere.
        late: whether Canvas marked it as late.
        submitted: when the file was last changed; what that is worth depends on where it comes from.
        problem: why it cannot be graded; empty where it can.
    """

    name: str
    student: str
    path: Path | None
    number: str = ""
    late: bool = False
    submitted: datetime | None = None
    problem: str = ""


def collect(source: Path, scratch: Path) -> list[Submission]:
    """All submissions below ``source``, sorted by name.

    Args:
        source: a folder, a zip file, or one notebook.
        scratch: a folder for what archives hold.
    Raises:
        FileNotFoundError: if there is no such file or folder.
        zipfile.BadZipFile: if ``source`` itself ends in .zip and is none.
    """
    if not source.exists():
        raise FileNotFoundError(f"{source}: no such file or folder")
    numbers = itertools.count()
    if source.is_dir():
        found = list(_walk(source))
    elif source.suffix.lower() == ".zip":
        members = unpack(source, scratch / str(next(numbers)))
        found = _without_common_folder([one for one in members if not _ignored(one.name)])
    else:
        found = [_file(source, source.name)]
    opened = itertools.chain.from_iterable(_opened(one, scratch, numbers) for one in found)
    kept = [one for one in opened if not _ignored(one.name)]
    submissions = itertools.chain.from_iterable(
        _of_student(top, list(group)) for top, group in itertools.groupby(sorted(kept, key=_order), key=_top)
    )
    return _distinct(submissions)


def printable(text: str) -> str:
    """The text on one line, without what a table or a terminal could stumble over.

    Bytes that are no text, line breaks, and marks that turn the direction of writing become ``?``.
    """
    shown = "".join(sign if sign.isprintable() else "?" for sign in text)
    return shown if len(shown) <= _LONGEST_NAME else shown[: _LONGEST_NAME - 1] + "…"


def _walk(folder: Path, prefix: str = "", depth: int = 0) -> Iterator[Found]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield Found(prefix or folder.name, None, f"it cannot be read: {error.strerror}")
        return
    for entry in entries:
        name = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if _ignored(name):
                continue
            if depth >= _DEEPEST:
                yield Found(name, None, "the folders are nested too deeply")
            else:
                yield from _walk(Path(entry.path), f"{name}/", depth + 1)
                if depth == 0:
                    yield Found(f"{name}/", None)  # a student's folder counts even where it is empty
        else:
            yield _file(Path(entry.path), name)


def _file(path: Path, name: str) -> Found:
    try:
        status = os.lstat(path)
    except OSError as error:
        return Found(name, None, f"it cannot be read: {error.strerror}")
    if stat.S_ISLNK(status.st_mode):
        return Found(name, None, "a symbolic link is not followed")
    if not stat.S_ISREG(status.st_mode):
        return Found(name, None, "it is not a plain file")
    return Found(name, path, "", datetime.fromtimestamp(status.st_mtime).astimezone())


def _opened(found: Found, scratch: Path, numbers: Iterator[int]) -> Iterator[Found]:
    """The contents of an archive that a student handed in; anything else as it is."""
    if found.path is None or not found.name.lower().endswith(".zip") or _ignored(found.name):
        yield found
        return
    inside = 0
    try:
        for one in unpack(found.path, scratch / str(next(numbers))):
            inside += one.name.lower().endswith(SUFFIXES)
            yield replace(one, name=f"{found.name}/{one.name}")
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        yield replace(found, path=None, problem=f"the archive cannot be opened: {type(error).__name__}")
        return
    if not inside:
        yield replace(found, path=None, problem="there is no notebook in the archive")


def _without_common_folder(found: list[Found]) -> list[Found]:
    """Names without the one folder that all of them share, unless that is a student's."""
    tops = {_top(one) for one in found}
    if len(tops) != 1 or any("/" not in one.name for one in found) or _MOODLE.fullmatch(top := tops.pop()):
        return found
    return [replace(one, name=one.name[len(top) + 1 :]) if not one.problem else one for one in found]


def _ignored(name: str) -> bool:
    """What systems, editors and git leave behind."""
    return any(part in _LEFT_BEHIND or part.startswith("._") for part in name.split("/"))


def _top(found: Found) -> str:
    return found.name.lstrip("/").split("/")[0]


def _order(found: Found) -> tuple[str, str]:
    return _top(found), found.name


def _of_student(top: str, group: list[Found]) -> Iterator[Submission]:
    """The submissions of one entry at the top: of a file, or of a student's folder or archive."""
    files = [one for one in group if one.path is not None or one.problem]
    alone = len(group) == 1 and "/" not in group[0].name.lstrip("/")
    notebooks = [one for one in files if one.name.lower().endswith(".ipynb")]
    scripts = [one for one in files if one.name.lower().endswith(".py")]
    # Scripts beside a notebook are its helpers, or the course's own files.
    wanted = notebooks or scripts or [one for one in files if one.problem]
    if alone and not group[0].problem and not wanted:
        ending = PurePosixPath(top).suffix or "no ending"
        problem = f"a notebook (.ipynb) or a script (.py) is wanted; this has {printable(ending)}"
        wanted = [replace(group[0], path=None, problem=problem)]
    elif not wanted:
        wanted = [Found(top, None, "there is no notebook in this folder")]
    for one in wanted:
        yield _submission(top, one)


def _submission(top: str, found: Found) -> Submission:
    student, number, late = (
        PurePosixPath(top).stem if top.lower().endswith((*SUFFIXES, ".zip")) else top,
        "",
        False,
    )
    if match := _MOODLE.fullmatch(top) or _CANVAS.fullmatch(top):
        student, number = match["who"], match["number"]
        late = bool(match.groupdict().get("late"))
    return Submission(
        printable(found.name.strip("/") or top),
        printable(student),
        None if found.problem else found.path,
        number,
        late,
        found.modified,
        found.problem,
    )


def _distinct(submissions: Iterable[Submission]) -> list[Submission]:
    """The same with names that differ, also where what differed cannot be shown."""
    taken: set[str] = set()
    kept = []
    for submission in submissions:
        name, number = submission.name, 1
        while name in taken:
            number += 1
            name = f"{submission.name} ({number})"
        taken.add(name)
        kept.append(replace(submission, name=name))
    return kept
