"""The command line.

::

    python -m tools.notebooks build [03 | slug ...] [--force] [--jobs 2]   run what changed, fill, write
    python -m tools.notebooks check [03 | slug ...]                        run nothing; fail on a difference
    python -m tools.notebooks pull FILE.ipynb ...                          bring edits made in Jupyter back
    python -m tools.notebooks evidence [03 | slug ...] [-n 3]              run again with other seeds
    python -m tools.notebooks rehearse [03 | slug ...] [--shift 1]         run on a hard day; write nothing
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import commands
from .book import Book
from .problems import Problems

ROOT = Path(__file__).resolve().parents[2]


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="python -m tools.notebooks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--root", type=Path, default=ROOT, help="the repository (default: this one)")
    command = top.add_subparsers(dest="command", required=True)
    build = command.add_parser("build", help="run what changed, fill in the numbers, write the notebooks")
    build.add_argument("--force", action="store_true", help="run every notebook, changed or not")
    build.add_argument("--jobs", type=int, default=1, help="how many manuscripts to work on at once")
    check = command.add_parser("check", help="run nothing; fail where notebooks and manuscripts differ")
    evidence = command.add_parser("evidence", help="run again with other seeds and write the Evidence page")
    evidence.add_argument("-n", type=int, default=3, help="how many seeds")
    rehearse = command.add_parser("rehearse", help="run with shifted seeds, no network, 4 GiB; write nothing")
    rehearse.add_argument("--shift", type=int, default=1, help="by how much the seeds are shifted")
    for one in (build, check, evidence, rehearse):
        one.add_argument("names", nargs="*", help="numbers or slugs of lessons; none means all")
    pull = command.add_parser("pull", help="bring notebooks edited in Jupyter back to their manuscripts")
    pull.add_argument("files", nargs="+", type=Path)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 after printing every problem as ``file:line: what is wrong``."""
    given = parser().parse_args(arguments)
    book = Book(given.root)
    try:
        if given.command == "build":
            commands.build(book, given.names, force=given.force, jobs=given.jobs)
        elif given.command == "check":
            commands.check(book, given.names)
        elif given.command == "evidence":
            commands.evidence(book, given.names, given.n)
        elif given.command == "rehearse":
            commands.rehearse(book, given.names, given.shift)
        else:
            commands.pull(book, given.files)
    except Problems as problems:
        print(problems, file=sys.stderr)
        return 1
    return 0
