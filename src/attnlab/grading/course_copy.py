"""The course as a submission sees it: the library without the checks, so that no answer is in the sandbox."""

from __future__ import annotations

import ast
import compileall
import functools
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
BRIDGE = "attnlab_bridge"
_LEFT_OUT = ("checks", "grading", "widgets", "plots.py", "cli.py", "__pycache__")
_QUIET = f"from {BRIDGE}.nothing import absent as __getattr__\n"
_CHECKS = f"from {BRIDGE}.nothing import check, progress\n\n__all__ = ['check', 'progress']\n"
_CHAPTER = re.compile(r"attnlab\.checks\.(?P<chapter>ch\d\d_\w+)(?:\.(?P<module>\w+))?")

_folders: list[tempfile.TemporaryDirectory[str]] = []


@functools.cache
def course_folder(needed: tuple[str, ...] = ()) -> Path:
    """A folder with the packages ``attnlab`` and ``attnlab_bridge``, made once in a process.

    Args:
        needed: modules of the checks that the exercises import themselves (``attnlab.checks.ch03_x.puzzle``);
            they hold what a learner is to look at.
    """
    holder = tempfile.TemporaryDirectory(prefix="attnlab-grading-")
    _folders.append(holder)  # removed when the process ends
    folder = Path(holder.name) / "course"
    library = folder / "attnlab"
    shutil.copytree(
        PACKAGE, library, ignore=lambda path, _: _LEFT_OUT if Path(path) == PACKAGE else ["__pycache__"]
    )
    shutil.copytree(
        PACKAGE / "grading" / "bridge", folder / BRIDGE, ignore=shutil.ignore_patterns("__pycache__")
    )
    _write(library / "plots.py", _QUIET)
    _write(library / "widgets" / "__init__.py", _QUIET)
    _write(library / "checks" / "__init__.py", _CHECKS)
    shutil.copyfile(PACKAGE / "checks" / "guard.py", library / "checks" / "guard.py")
    for name in needed:
        source = PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")
        target = library.joinpath(*name.split(".")[1:]).with_suffix(".py")
        _write(target.parent / "__init__.py", "")
        _write(target, source.read_text(encoding="utf-8"))
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    compileall.compile_dir(folder, quiet=2, stripdir=str(folder))
    return folder


def chapter_modules(sources: Sequence[str]) -> tuple[str, ...]:
    """The modules of the checks that these cells of the course import, other than the checks themselves."""
    return tuple(sorted({name for source in sources for name in _imported(source)}))


def _imported(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            paths = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for path in paths:
                found = _CHAPTER.fullmatch(path)
                if (
                    found
                    and found["module"]
                    and PACKAGE.joinpath(*path.split(".")[1:]).with_suffix(".py").is_file()
                ):
                    yield path


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
