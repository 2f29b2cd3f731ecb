"""The list of lessons, and the chapter tables that are made from it.

``book/chapters.yml`` names every lesson of the course. ``python -m tools.chapters`` fills the tables
between ``<!-- chapters:begin -->`` and ``<!-- chapters:end -->`` in the README and on the site's first
page; with ``--check`` it writes nothing and fails on any difference. Both compare the list with the
manuscripts and with ``_toc.yml`` first: a lesson is ``here`` exactly where its files are, ``lesson`` where
its exercises are still to come, and ``planned`` where there is nothing yet.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tools import repository

ROOT = Path(__file__).resolve().parent.parent
LIST = "book/chapters.yml"
PAGES = ("README.md", "book/pages/index.md")
BEGIN, END = "<!-- chapters:begin -->", "<!-- chapters:end -->"
SLUG = re.compile(r"(\d\d)_[a-z][a-z0-9_]*")
FIELDS = {"slug", "title", "question", "status"}
# What there is of a lesson: the folders of the manuscript, and the pages that they make.
PARTS_OF = {"planned": (), "lesson": ("lessons",), "here": ("lessons", "exercises")}
PAGES_OF = {"lessons": ("notebooks",), "exercises": ("exercises", "solutions")}


class ChapterError(ValueError):
    """Something in the list, the tables or the files does not fit; the message holds every complaint."""


@dataclass(frozen=True)
class Lesson:
    """One lesson: its file name without suffix, its title, its question, and what there is of it."""

    slug: str
    title: str
    question: str
    status: str

    @property
    def here(self) -> bool:
        """Whether the lesson can be read; its exercises may still be to come."""
        return "lessons" in self.parts

    @property
    def parts(self) -> tuple[str, ...]:
        """The folders below ``book`` that hold a manuscript of it."""
        return PARTS_OF[self.status]

    @property
    def number(self) -> int:
        """The lesson's number, which its slug begins with."""
        return int(self.slug[:2])


@dataclass(frozen=True)
class Part:
    """One part of the course: its Roman number, its title and its lessons in order."""

    number: str
    title: str
    lessons: tuple[Lesson, ...]


def read(root: Path = ROOT) -> list[Part]:
    """Read ``book/chapters.yml``.

    Raises:
        ChapterError: if an entry has other fields than it should, or the numbers do not run 1, 2, 3, ...
    """
    try:
        entries = yaml.safe_load((root / LIST).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ChapterError(f"{LIST}: not YAML: {error}") from None
    parts = []
    for entry in entries:
        if set(entry) != {"part", "title", "lessons"}:
            raise ChapterError(f"{LIST}: a part needs part, title and lessons, not {sorted(entry)}")
        lessons = tuple(_lesson(fields) for fields in entry["lessons"])
        parts.append(Part(str(entry["part"]), str(entry["title"]), lessons))
    numbers = [lesson.number for lesson in lessons_of(parts)]
    if numbers != list(range(1, len(numbers) + 1)):
        raise ChapterError(f"{LIST}: the lessons must be numbered 1, 2, 3, ... in order, not {numbers}")
    return parts


def _lesson(fields: dict[str, str]) -> Lesson:
    """One entry of the list, checked."""
    if set(fields) != FIELDS:
        raise ChapterError(f"{LIST}: a lesson needs {sorted(FIELDS)}, not {sorted(fields)}")
    if not SLUG.fullmatch(fields["slug"]):
        raise ChapterError(f"{LIST}: {fields['slug']!r} is not a slug such as 03_query_key_value")
    if fields["status"] not in PARTS_OF:
        raise ChapterError(
            f"{LIST}: the status of {fields['slug']} must be here, lesson or planned, "
            f"not {fields['status']!r}"
        )
    return Lesson(fields["slug"], fields["title"], fields["question"], fields["status"])


def lessons_of(parts: Sequence[Part]) -> Iterator[Lesson]:
    """Every lesson of the course, in order."""
    for part in parts:
        yield from part.lessons


def problems(root: Path = ROOT) -> list[str]:
    """Where the list disagrees with the manuscripts or with ``_toc.yml``, one complaint a line."""
    toc = set(re.findall(r"[\w/]+/\d\d_\w+", (root / "_toc.yml").read_text(encoding="utf-8")))
    listed = {lesson.slug: lesson for lesson in lessons_of(read(root))}
    found: list[str] = []
    for lesson in listed.values():
        for part, pages in PAGES_OF.items():
            found += _part_problems(root, toc, lesson, part, pages)
        manuscript = root / "book" / "lessons" / f"{lesson.slug}.py"
        if lesson.here and manuscript.exists() and (heading := first_heading(manuscript)) != lesson.title:
            found.append(
                f"{LIST}: {lesson.slug} is called {lesson.title!r}, its first heading says {heading!r}"
            )
    written = {path.stem for part in PAGES_OF for path in (root / "book" / part).glob("[0-9]*.py")}
    for slug in sorted((written | {entry.rsplit("/", 1)[1] for entry in toc}) - set(listed)):
        found.append(f"{LIST}: {slug} exists, but is not in the list")
    return found


def _part_problems(
    root: Path, toc: set[str], lesson: Lesson, part: str, pages: tuple[str, ...]
) -> Iterator[str]:
    """Where a lesson, or its exercises, are there and the list says otherwise, or the other way round."""
    names = {f"book/{part}/{lesson.slug}.py": (root / "book" / part / f"{lesson.slug}.py").exists()}
    names |= {f"{page}/{lesson.slug}": f"{page}/{lesson.slug}" in toc for page in pages}
    for name, there in names.items():
        if there and part not in lesson.parts:
            yield f"{LIST}: {lesson.slug} is marked as {lesson.status}, but {name} exists"
        elif not there and part in lesson.parts:
            missing = f"{name} is missing" if name.endswith(".py") else f"_toc.yml does not list {name}"
            yield f"{LIST}: {lesson.slug} is marked as {lesson.status}, but {missing}"


def first_heading(manuscript: Path) -> str:
    """The text of a manuscript's H1, without a number before it; empty if it has none."""
    match = re.search(r"^# # (?:\d+[.:]? )?(.+?)\s*$", manuscript.read_text(encoding="utf-8"), re.M)
    return match[1] if match else ""


def table(root: Path, page: Path) -> str:
    """The chapter table as ``page`` shows it: links are relative to the page, and only to what exists."""
    address = repository.read(root)
    up = Path(os.path.relpath(root, page.parent)).as_posix()
    prefix = "" if up == "." else f"{up}/"
    rows = ["| Lesson | The question it answers | Open |", "| --- | --- | --- |"]
    for part in read(root):
        rows.append(f"| **Part {part.number}. {part.title}** | | |")
        for lesson in part.lessons:
            where = _links(lesson, prefix, address) if lesson.here else "planned"
            title = (
                f"[{lesson.title}]({prefix}notebooks/{lesson.slug}.ipynb)" if lesson.here else lesson.title
            )
            rows.append(f"| {lesson.number}. {title} | {lesson.question} | {where} |")
    return "\n".join(rows)


def _links(lesson: Lesson, prefix: str, address: repository.Repository) -> str:
    """Links to the exercises, or that they are still to come, and to the lesson in Colab."""
    exercises = f"[exercises]({prefix}exercises/{lesson.slug}.ipynb)"
    colab = f"[Colab]({address.colab(f'notebooks/{lesson.slug}.ipynb')})"
    return f"{exercises if 'exercises' in lesson.parts else 'exercises to come'} · {colab}"


def filled(root: Path, name: str) -> str:
    """The text of page ``name`` with its chapter table made anew.

    Raises:
        ChapterError: if the page does not hold exactly one pair of marks.
    """
    text = (root / name).read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ChapterError(f"{name}: it needs one {BEGIN} and after it one {END}")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{table(root, root / name)}\n\n{END}{after}"


def fill(root: Path = ROOT, *, check: bool = False) -> list[str]:
    """Write the tables and return the names of the pages that changed; with ``check`` write nothing.

    Raises:
        ChapterError: if the list and the files disagree.
    """
    if found := problems(root):
        raise ChapterError("\n".join(found))
    changed = []
    for name in PAGES:
        text = filled(root, name)
        if text != (root / name).read_text(encoding="utf-8"):
            changed.append(name)
            if not check:
                (root / name).write_text(text, encoding="utf-8", newline="\n")
    return changed


def main(argv: Sequence[str] | None = None) -> int:
    """The command line: 0 if the tables are right, 1 if not."""
    parser = argparse.ArgumentParser(prog="python -m tools.chapters", description="Fill the chapter tables.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail on any difference")
    arguments = parser.parse_args(argv)
    try:
        changed = fill(ROOT, check=arguments.check)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    for name in changed:
        print(f"{name}: out of date, run python -m tools.chapters" if arguments.check else f"wrote {name}")
    return 1 if arguments.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
