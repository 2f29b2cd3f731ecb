"""Print the built site as one PDF: ``python -m tools.pdf`` writes ``_build/attention-lab.pdf``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from tools.course import Stop, find_browser
from tools.pdf import check, combine, contents
from tools.pdf.print import Unreadable, to_pdf

ROOT = Path(__file__).resolve().parents[2]


def make(html: Path, toc: Path, title: str, target: Path) -> check.Book:
    """Print a built site into ``target`` and look at what came out.

    Raises:
        Incomplete: if a page is missing.
        Unreadable: if something would be cut off or is missing.
    """
    parts = contents.read(toc)
    text = combine.document(html, parts, title)
    target.parent.mkdir(parents=True, exist_ok=True)
    to_pdf(text, html, target, find_browser())
    return check.look(target)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the book and say what is in it; 0 if every sheet can be read."""
    parser = argparse.ArgumentParser(prog="python -m tools.pdf", description=__doc__)
    parser.add_argument("--html", type=Path, default=ROOT / "_build" / "html", help="the built site")
    parser.add_argument("--out", type=Path, default=ROOT / "_build" / "attention-lab.pdf")
    arguments = parser.parse_args(argv)
    title = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["title"]
    try:
        book = make(arguments.html, ROOT / "_toc.yml", title, arguments.out)
    except (combine.Incomplete, Unreadable, Stop) as error:
        print(error, file=sys.stderr)
        return 1
    size = arguments.out.stat().st_size / 1e6
    print(
        f"{arguments.out}: {book.sheets} sheets, {size:.1f} MB, {len(book.outline)} entries in the outline,"
    )
    print(f"{book.inside} links inside, {book.outside} to the web")
    for complaint in book.complaints:
        print(complaint, file=sys.stderr)
    return 1 if book.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
