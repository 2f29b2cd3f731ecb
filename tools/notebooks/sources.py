"""Which files of the package a notebook depends on, and their fingerprints."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from .book import PACKAGE
from .code import fingerprint
from .files import digest, read

# They draw what was computed; they cannot move a number.
DRAWING = ("plots.py", "widgets/")
DATA = {".mplstyle", ".json", ".csv", ".txt"}


def of_run(root: Path, modules: Iterable[str]) -> list[str]:
    """Return the files, below the root, of the modules that a run loaded and of the package's data.

    Data in a folder of the package belongs to the modules beside it, and counts where one of them was loaded.
    """
    package = root / PACKAGE
    modules = set(modules)
    folders = {".", *(PurePosixPath(name).parent.as_posix() for name in modules)}
    paths = (path.relative_to(package) for path in package.rglob("*") if path.suffix in DATA)
    data = (path for path in paths if path.parent.as_posix() in folders and "widgets" not in path.parts)
    return [f"{PACKAGE}/{name}" for name in sorted({*modules, *(path.as_posix() for path in data)})]


def hashes(root: Path, files: Iterable[str]) -> dict[str, str]:
    """Return the fingerprint of each file; ``""`` where it is gone."""
    return {name: _hash(root / name) for name in files}


def moving(files: dict[str, str]) -> dict[str, str]:
    """Return those files that can move a number."""
    drawing = tuple(f"{PACKAGE}/{name}" for name in DRAWING)
    return {
        name: value for name, value in files.items() if name.endswith(".py") and not name.startswith(drawing)
    }


def outdated(root: Path, entry: Mapping[str, Any], lesson: str, code: str) -> Iterator[str]:
    """Say what numbers that were stored have outlived.

    Args:
        root: the project's folder.
        entry: what was stored, with its ``date``, the fingerprint ``code`` of the lesson's cells, and the
            ``sources`` with theirs.
        lesson: the lesson whose cells computed the numbers.
        code: the fingerprint of these cells now.
    """
    changed = [f"the cells of {lesson}"] if entry["code"] != code else []
    known = entry["sources"]
    changed += [name for name, value in hashes(root, known).items() if value != known[name]]
    for what in changed:
        yield f"stale: {what} changed since {entry['date']}"


def _hash(path: Path) -> str:
    if not path.is_file():
        return ""
    return fingerprint(read(path)) if path.suffix == ".py" else digest(read(path))
