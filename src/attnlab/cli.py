"""The command line: ``attnlab --version`` and ``attnlab progress``."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

from . import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 not done, 2 wrong use (raised by argparse)."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a title must not fail on a console of few characters
    if arguments.command is None:
        parser.print_help()
        return 0
    if arguments.yes and not arguments.reset:
        parser.error("--yes goes with --reset")
    if arguments.reset and arguments.lesson is not None:
        parser.error("--reset starts the whole course afresh: leave the lesson out")
    return _reset(ask=not arguments.yes) if arguments.reset else _show(arguments.lesson)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="attnlab", description="Attention Lab, on the command line.")
    parser.add_argument("--version", action="version", version=f"attnlab {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    show = commands.add_parser(
        "progress",
        help="show your points, by lesson and exercise",
        description="Show your points by lesson and exercise, and what to try next.",
    )
    show.add_argument("lesson", nargs="?", help="a lesson's name, such as recurrence_limits; all if left out")
    show.add_argument("--reset", action="store_true", help="start afresh; the old file is kept beside")
    show.add_argument("--yes", action="store_true", help="with --reset: do not ask")
    return parser


def _show(lesson: str | None) -> int:
    from .checks import progress  # torch comes with it, which --version and --help need not wait for
    from .checks.progress_file import location

    try:
        print(progress(lesson))
    except ValueError as error:
        return _failed(str(error))
    print(f"\nKept in {location()}")
    return 0


def _reset(*, ask: bool) -> int:
    from .checks import progress_file

    path = progress_file.location()
    if not path.exists():
        print(f"There is nothing to reset: no file at {path}")
        return 0
    if ask and not _agreed(f"Start afresh? Your points in {path} will be kept beside it. [y/N] "):
        return _failed("nothing was changed; answer y, or give --yes")
    try:
        copy = progress_file.reset(path)
    except OSError as error:
        return _failed(f"{path} cannot be reset: {error.strerror or error}")
    print(f"Your progress starts afresh. The old points are kept in {copy}")
    return 0


def _agreed(question: str) -> bool:
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:  # nobody is there to answer
        print()
        return False


def _failed(message: str) -> int:
    print(f"attnlab: {message}", file=sys.stderr)
    return 1
