"""The command line: ``attnlab --version``, ``attnlab progress`` and ``attnlab grade``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    if arguments.command == "grade":
        return _grade(arguments)
    if arguments.yes and not arguments.reset:
        parser.error("--yes goes with --reset")
    if arguments.reset and arguments.lesson is not None:
        parser.error("--reset starts the whole course afresh: leave the lesson out")
    if arguments.source is not None and arguments.lesson is not None:
        parser.error("--import takes all that the file holds: leave the lesson out")
    if arguments.overwrite and arguments.target is None:
        parser.error("--overwrite goes with --export")
    return _progress(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="attnlab", description="Attention Lab, on the command line.")
    parser.add_argument("--version", action="version", version=f"attnlab {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    show = commands.add_parser(
        "progress",
        help="show your points, by exercise, lesson and kind; save them as a file, or add a saved file's",
        description="Show your points by exercise, lesson and kind of exercise, and what to try next.",
    )
    show.add_argument("lesson", nargs="?", help="a lesson's name, such as recurrence_limits; all if left out")
    one = show.add_mutually_exclusive_group()
    one.add_argument("--reset", action="store_true", help="start afresh; the old file is kept beside")
    one.add_argument("--export", dest="target", metavar="FILE", help="save the points as one JSON file")
    one.add_argument(
        "--import", dest="source", metavar="FILE", help="add a saved file's points; the better result stays"
    )
    show.add_argument("--overwrite", action="store_true", help="with --export: replace a file that is there")
    show.add_argument("--yes", action="store_true", help="with --reset: do not ask")
    _add_grade(commands)
    return parser


def _add_grade(commands: Any) -> None:
    grade = commands.add_parser(
        "grade",
        help="grade a folder of submissions, for instructors",
        description="Grade a folder of notebooks in a sandbox: a table of marks, a page of feedback for "
        "each, a summary of the class. An interrupted run goes on with the same command.",
    )
    add = grade.add_argument
    add(
        "submissions",
        type=Path,
        metavar="SUBMISSIONS",
        help="a folder or a zip file, as students or an LMS made it",
    )
    add("--out", type=Path, required=True, metavar="CSV", help="the table of marks; other files go beside it")
    add("--feedback", type=Path, metavar="DIR", help="folder for the pages of feedback")
    add(
        "--only",
        nargs="+",
        metavar="NAME",
        help="exercises or lessons to grade; else what each notebook holds",
    )
    add("--points", type=Path, metavar="FILE", help="points and dates of your own, in TOML or YAML")
    add(
        "--hidden",
        type=Path,
        metavar="FILE",
        help="a Python file of hidden cases, from outside the repository",
    )
    add("--seed", type=int, metavar="N", help="seed of the checks' inputs; else drawn once and kept secret")
    add("--jobs", type=int, default=1, metavar="N", help="how many submissions at a time")
    add("--timeout", type=float, metavar="SECONDS", help="for one submission, by the clock")
    add("--exercises", type=Path, metavar="DIR", help="your exercise notebooks, if they are not the course's")
    add("--format", nargs="+", default=[], choices=("canvas", "moodle"), help="also write what these import")
    add(
        "--roster",
        type=Path,
        metavar="CSV",
        help="Canvas's gradebook or Moodle's grading worksheet, to fill in",
    )
    add("--assignment", default="Attention Lab", metavar="NAME", help="the assignment's column in Canvas")
    add("--again", action="store_true", help="try once more what could not be graded")
    add(
        "--unsafe",
        action="store_true",
        help="run without a sandbox: submissions can read and change your files",
    )


def _grade(arguments: argparse.Namespace) -> int:
    if os.name == "nt":
        return _failed("the sandbox needs Linux; on Windows, grade inside of WSL 2")
    from .grading.command import run

    return run(arguments)


def _progress(arguments: argparse.Namespace) -> int:
    if arguments.reset:
        return _reset(ask=not arguments.yes)
    if arguments.target is not None:
        return _export(arguments.target, arguments.lesson, overwrite=arguments.overwrite)
    if arguments.source is not None:
        return _import(arguments.source)
    return _show(arguments.lesson)


def _export(target: str, lesson: str | None, *, overwrite: bool) -> int:
    from .checks import progress

    try:
        shown = progress(lesson)
        shown.save(target, overwrite=overwrite)
    except FileExistsError:
        return _failed(f"{target} is there with other points and was left as it is; --overwrite replaces it")
    except (OSError, ValueError) as error:
        return _failed(str(error))
    print("\n".join([f"Your points are saved in {target}", *shown.notes]))
    return 0


def _import(source: str) -> int:
    from .checks import progress_export, progress_file

    path = progress_file.location()
    try:
        contents = progress_export.read(source)
    except (OSError, ValueError) as error:
        return _failed(str(error))
    try:
        progress_file.update(path, contents.entries, progress_file.join)
    except OSError as error:
        return _failed(f"{path} cannot be written: {error.strerror or error}; nothing was added")
    if contents.problem:
        print(f"Note: the rest of {source} was left out: {contents.problem}.\n")
    return _show(None)


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
