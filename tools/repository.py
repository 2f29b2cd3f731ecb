"""The repository's address, which stands once, in ``_config.yml``, and every place that has to repeat it.

``python -m tools.repository show`` prints the address and where it is repeated.
``python -m tools.repository set URL [BRANCH]`` moves the course to another address, such as a fork:
it changes ``_config.yml`` and every text that holds the old one. Notebooks are changed as text, never run.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
CONFIG = "_config.yml"
URL = re.compile(r"https://([a-z0-9.-]+)/([A-Za-z0-9-]+)/([A-Za-z0-9._-]+)")
BRANCH = re.compile(r"(?!.*(?:\.\.|//|@\{))[A-Za-z0-9][A-Za-z0-9._/-]*(?<![./])")
COLAB = "https://colab.research.google.com/github"
HOSTS = r"https://(?:github\.com|raw\.githubusercontent\.com|api\.github\.com/repos|colab\.research\.google\.com/github)/"
VIEWS = "(?:blob|tree|raw|edit|archive|archive/refs/heads)/"
SKIPPED = {"_build", "__pycache__", "node_modules"}


class RepositoryError(ValueError):
    """The address is missing, malformed or cannot be read; the message says which and what was expected."""


@dataclass(frozen=True)
class Repository:
    """Where the course is published: ``https://github.com/OWNER/NAME`` and a branch."""

    url: str
    branch: str

    def __post_init__(self) -> None:
        """Refuse what cannot be a repository.

        Raises:
            RepositoryError: if the address or the branch is malformed.
        """
        match = URL.fullmatch(self.url)
        if not match or match[1] != "github.com" or match[3].endswith(".git") or match[3] in (".", ".."):
            raise RepositoryError(
                f"url must look like https://github.com/OWNER/NAME (Colab opens notebooks from GitHub only,"
                f" and the address ends without / or .git), not {self.url!r}"
            )
        if not BRANCH.fullmatch(self.branch) or self.branch.endswith(".lock"):
            raise RepositoryError(f"branch must be the name of a branch, such as main, not {self.branch!r}")

    @property
    def path(self) -> str:
        """The address without its host: ``OWNER/NAME``."""
        return self.url.removeprefix("https://github.com/")

    def colab(self, notebook: str) -> str:
        """The address that opens ``notebook``, a path from the repository's root, in Colab."""
        return f"{COLAB}/{self.path}/blob/{self.branch}/{notebook}"


def read(root: Path = ROOT) -> Repository:
    """The address that ``_config.yml`` names.

    Raises:
        RepositoryError: if ``repository.url`` or ``repository.branch`` is missing or malformed.
    """
    config = yaml.safe_load((root / CONFIG).read_text(encoding="utf-8")) or {}
    entry = config.get("repository") or {}
    missing = [key for key in ("url", "branch") if not isinstance(entry.get(key), str)]
    if missing:
        raise RepositoryError(f"{CONFIG} has no repository.{' and no repository.'.join(missing)}")
    return Repository(entry["url"], entry["branch"])


def moved(text: str, old: Repository, new: Repository) -> str:
    """``text`` with every mention of ``old`` replaced by ``new``.

    A mention is ``OWNER/NAME`` in an address of GitHub, of its raw files or of Colab, with the branch that
    may follow it (``/blob/main/``, ``@main``, ``/archive/main.zip``). A longer name that begins alike is left
    alone, and so is another branch or a tag.
    """
    address = rf"(?P<host>{HOSTS}){re.escape(old.path)}(?![\w-])(?!\.(?!git\b)\w)"
    branch = rf"(?P<git>\.git)?(?P<middle>/(?:{VIEWS})?|@){re.escape(old.branch)}(?![\w-])"

    def replaced(match: re.Match[str]) -> str:
        if match["middle"] is None:
            return f"{match['host']}{new.path}"
        return f"{match['host']}{new.path}{match['git'] or ''}{match['middle']}{new.branch}"

    return re.sub(rf"{address}(?:{branch})?", replaced, text)


def files(root: Path = ROOT) -> dict[Path, str]:
    """Every text file of the course, in order, with its text; what is built, and pictures, are left out."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            check=True,
        )
        names = [root / name for name in listed.stdout.decode("utf-8").split("\0") if name]
    except (OSError, subprocess.CalledProcessError):  # not a clone, such as a downloaded archive
        names = [path for path in root.rglob("*") if not _made_by_tools(path.relative_to(root))]
    texts = {path: _text(path) for path in sorted(set(names)) if path.is_file()}
    return {path: text for path, text in texts.items() if text is not None}


def _made_by_tools(path: Path) -> bool:
    """Does ``path`` lie in a build or in a hidden folder, such as an environment or a cache?"""
    folders = path.parts[:-1]
    return any(name in SKIPPED or (name.startswith(".") and name != ".ci") for name in folders)


def _text(path: Path) -> str | None:
    """A file's text with its line ends as they are; None if it is no text."""
    data = path.read_bytes()
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def configured(text: str, new: Repository) -> str:
    """The text of ``_config.yml`` with ``repository.url`` and ``repository.branch`` set, the rest as it was.

    Raises:
        RepositoryError: if the text has no ``repository:`` block with both.
    """
    block = re.search(r"^repository:[^\n]*\n(?:[ \t]+[^\n]*\n|[ \t]*#[^\n]*\n)+", text, re.M)
    if not block:
        raise RepositoryError(f"{CONFIG} has no block repository: with url and branch")
    lines = block[0]
    for key, value in (("url", new.url), ("branch", new.branch)):
        lines, count = re.subn(rf"(?m)^([ \t]+{key}:[ \t]*)[^\s#]+", rf"\g<1>{value}", lines)
        if count != 1:
            raise RepositoryError(f"{CONFIG} must hold repository.{key} once, in a line of its own")
    return text[: block.start()] + lines + text[block.end() :]


def marked_again(before: str, after: str) -> str:
    """A notebook's text ``after`` with the mark by which the build knows that nobody edited it made to fit.

    A notebook whose mark did not fit ``before`` was edited by hand, and stays marked as such.
    """
    if "attnlab" not in json.loads(before).get("metadata", {}):
        return after
    # Only here: the website's environment, where addresses are read as well, has no jupytext.
    from tools.notebooks import build, nodes

    old, new = nodes.loads(before), nodes.loads(after)
    if build.edited(old):
        return after
    return after.replace(f'"cells": "{build.cells_digest(old)}"', f'"cells": "{build.cells_digest(new)}"')


def mentions(root: Path = ROOT) -> dict[str, int]:
    """How often each file of the course repeats the address, by its path from the root."""
    here = read(root)
    # Moving to a name of the same form and counting what changed finds exactly what ``set`` would change.
    other = Repository("https://github.com/another/place", here.branch)
    counts = {}
    for path, text in files(root).items():
        count = moved(text, here, other).count("/another/place") - text.count("/another/place")
        if count:
            counts[path.relative_to(root).as_posix()] = count
    return counts


def change(new: Repository, root: Path = ROOT) -> list[str]:
    """Move the course to ``new``; return the files that changed, by their paths from the root.

    Everything is worked out before anything is written, so an error leaves all files as they were.

    Raises:
        RepositoryError: if ``_config.yml`` names no address now.
    """
    old = read(root)
    texts = files(root)
    changed = {path: moved(text, old, new) for path, text in texts.items()}
    for path in (path for path, text in changed.items() if path.suffix == ".ipynb" and text != texts[path]):
        changed[path] = marked_again(texts[path], changed[path])
    changed[root / CONFIG] = configured(changed[root / CONFIG], new)
    written = [path for path, text in changed.items() if text != texts[path]]
    for path in written:
        path.write_text(changed[path], encoding="utf-8", newline="")
    return [path.relative_to(root).as_posix() for path in written]


def main(argv: Sequence[str] | None = None) -> int:
    """The command line: 0 if it went well, 1 with the reason on the error stream if not."""
    parser = argparse.ArgumentParser(prog="python -m tools.repository", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("show", help="print the address and where it is repeated")
    setter = commands.add_parser("set", help="move the course to another address")
    setter.add_argument("url", metavar="URL", help="https://github.com/OWNER/NAME")
    setter.add_argument("branch", metavar="BRANCH", nargs="?", help="its branch (default: as it is)")
    arguments = parser.parse_args(argv)
    try:
        here = read(ROOT)
        if arguments.command == "set":
            here = Repository(arguments.url, arguments.branch or here.branch)
            for name in change(here, ROOT):
                print(f"changed {name}")
        else:
            for name, count in mentions(ROOT).items():
                print(f"{count:4d}  {name}")
    except (RepositoryError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{here.url} (branch {here.branch})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
