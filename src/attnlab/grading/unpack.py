"""Read an archive that strangers filled: nothing of it decides where a file is written.

Each member that is wanted is written under a number of our own into a folder of our own. Its name is only
ever shown. Sizes are counted while reading, since an archive may say anything about them.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

__all__ = ["ArchiveLimits", "Found", "unpack"]

_CHUNK = 1 << 16
_MIB = 1 << 20


@dataclass(frozen=True)
class Found:
    """One file of a collection.

    Attributes:
        name: where it was, with ``/``; only to be shown and to be grouped by, never to be opened.
        path: the file to read; None where there is none.
        problem: why it cannot be graded; empty where it can.
        modified: when it was last changed, as far as that is known.
    """

    name: str
    path: Path | None
    problem: str = ""
    modified: datetime | None = None


@dataclass(frozen=True)
class ArchiveLimits:
    """What is read of one archive.

    Attributes:
        members: how many entries are looked at.
        member_bytes: of one member, unpacked.
        total_bytes: of all members, unpacked.
    """

    members: int = 20_000
    member_bytes: int = 32 * _MIB
    total_bytes: int = 4096 * _MIB


def unpack(archive: Path, folder: Path, limits: ArchiveLimits | None = None) -> Iterator[Found]:
    """Yield what an archive holds; members are written below ``folder``, under names of ours.

    Args:
        archive: a zip file.
        folder: an empty folder, made if it is missing.
        limits: what is read at most.
    Raises:
        zipfile.BadZipFile: if it is no zip file.
        OSError: if it cannot be read or the folder cannot be written.
    """
    limits = limits or ArchiveLimits()
    folder.mkdir(parents=True, exist_ok=True)
    left, seen = limits.total_bytes, set[str]()
    with zipfile.ZipFile(archive) as source:
        for number, member in enumerate(source.infolist()):
            if member.is_dir():
                continue
            name = member.filename
            if number >= limits.members:
                yield Found(
                    name, None, f"the archive has more than {limits.members} entries; it was left out"
                )
                continue
            problem = _refused(member) or ("its name stands twice in the archive" if name in seen else "")
            seen.add(name)
            if problem:
                yield Found(name, None, problem)
                continue
            target = folder / f"{number:05d}{_suffix(name)}"
            written, problem = _write(source, member, target, min(left, limits.member_bytes))
            left -= written
            yield Found(name, None if problem else target, problem, _modified(member))


def _refused(member: zipfile.ZipInfo) -> str:
    """Why a member is not even read; empty where it may be."""
    name, kind = member.filename, stat.S_IFMT(member.external_attr >> 16)
    parts = PurePosixPath(name).parts
    if (
        name.startswith(("/", "\\"))
        or ":" in (parts or ("",))[0]
        or ".." in name.replace("\\", "/").split("/")
    ):
        return "its path leads out of the archive"
    if kind not in (0, stat.S_IFREG):
        return "a symbolic link, or another special file, is not followed"
    if member.flag_bits & 0x1:
        return "it is protected by a password"
    return ""


def _suffix(name: str) -> str:
    """A known ending, so that a notebook is still seen to be one; nothing else of the name."""
    suffix = PurePosixPath(name).suffix.lower()
    return suffix if suffix in (".ipynb", ".py", ".zip") else ".other"


def _write(source: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, most: int) -> tuple[int, str]:
    """Write one member; returns its size and what went wrong."""
    size = 0
    try:
        with source.open(member) as stream, open(target, "xb") as file:
            while chunk := stream.read(_CHUNK):
                size += len(chunk)
                if size > most:
                    break
                file.write(chunk)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, OSError) as error:
        target.unlink(missing_ok=True)
        return size, f"it cannot be unpacked: {type(error).__name__}"
    if size > most:
        target.unlink(missing_ok=True)
        return size, f"unpacked it is larger than {most // _MIB} MiB"
    return size, ""


def _modified(member: zipfile.ZipInfo) -> datetime | None:
    try:
        return datetime(*member.date_time).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
