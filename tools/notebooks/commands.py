"""What the command line does: build, check, pull, evidence."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools import languages, real_heads, training_map, translators

from . import citations, lint, rehearsal, solutions
from . import evidence as evidence_of
from .book import FOLDER, Book
from .build import Made, Maker, edited, stored
from .edited import gives
from .evidence import Evidence
from .files import read, sweep, write
from .problems import Problems
from .pull import pull_files
from .statements import Statements

Say = Callable[[str], None]


def build(book: Book, names: list[str], *, force: bool = False, jobs: int = 1, say: Say = print) -> None:
    """Make the notebooks. What can be known to be wrong without running stops it before anything runs."""
    problems = [] if names else [*book.structure(), *_pages(book)]
    opened, found = _open(book, names)
    problems += found + [item for one in opened for item in one.manuscript.complaints.items]
    if problems:
        raise Problems(problems)
    for folder in FOLDER.values():
        sweep(book.root / folder)
    maker = Maker(book, Evidence.load(book.root))
    _each(opened, lambda one: _build_one(maker, one, force, say), jobs)
    _write_pages(book, maker.evidence, opened, say)


def check(book: Book, names: list[str], say: Say = print) -> None:
    """Compare manuscripts with notebooks, byte for byte, without running anything."""
    problems = [] if names else [*book.structure(), *_pages(book)]
    opened, found = _open(book, names)
    problems += found
    maker = Maker(book, Evidence.load(book.root))
    count = 0
    for one in opened:
        try:
            for made in maker.make(one, running=False):
                count += 1
                problems += _difference(book, one, made)
        except Problems as wrong:
            problems += wrong.items
        maker.evidence.values(one, strict=True)
        problems += one.manuscript.complaints.items
    for path, text in _generated(book, maker.evidence, opened):
        if not path.exists() or read(path) != text:
            where = path.relative_to(book.root).as_posix()
            problems.append(f"{where}:1: out of date; run `python -m tools.notebooks build`")
    problems += (
        []
        if names
        else [
            *languages.problems(book.root),
            *translators.problems(book.root),
            *training_map.problems(book.root),
            *real_heads.problems(book.root),
        ]
    )
    if problems:
        raise Problems(problems)
    say(f"{len(opened)} manuscripts and {count} notebooks agree")


def evidence(book: Book, names: list[str], count: int, say: Say = print) -> None:
    """Run notebooks with other seeds; write what the claims were, and the page."""
    opened, problems = _open(book, names)
    problems += [item for one in opened for item in one.manuscript.complaints.items]
    if problems:
        raise Problems(problems)
    store = Evidence.load(book.root)
    maker = Maker(book, store)
    for one in opened:
        if not one.claims:
            continue
        variant = "lesson" if one.manuscript.kind == "lesson" else "solution"
        bare = maker.bare(one, variant)

        def run(shift: int, one: Statements = one, variant: str = variant, bare: object = bare):  # type: ignore[no-untyped-def]
            done = maker.run(one, variant, bare, shift)  # type: ignore[arg-type]
            say(f"{one.manuscript.where}: seed shift {shift}, {done.cpu:.1f} CPU s, {done.wall:.1f} s")
            return done

        store.put(evidence_of.key(one), evidence_of.measure(one, count, run))
        store.values(one, strict=True)
        problems += one.manuscript.complaints.items
    _write_pages(book, store, opened, say)
    if problems:
        raise Problems(problems)


def rehearse(book: Book, names: list[str], shift: int, say: Say = print) -> None:
    """Run notebooks with other seeds and under hard conditions; write nothing, and fail on any complaint."""
    opened, problems = _open(book, names)
    problems += [item for one in opened for item in one.manuscript.complaints.items]
    if problems:
        raise Problems(problems)
    maker = Maker(book, Evidence.load(book.root))
    for one in opened:
        try:
            rehearsal.rehearse(maker, one, shift, say)
        except Problems as wrong:
            problems += wrong.items
    if problems:
        raise Problems(problems)


def pull(book: Book, files: Iterable[Path], say: Say = print) -> None:
    """Bring edited notebooks back to their manuscripts."""
    pull_files(book, [path.resolve() for path in files], say)


def _open(book: Book, names: list[str]) -> tuple[list[Statements], list[str]]:
    """Read the manuscripts; return them, and the complaints of those that cannot be read."""
    opened: list[Statements] = []
    problems: list[str] = []
    for path, kind in book.select(names):
        try:
            opened.append(book.open(path, kind))
        except Problems as wrong:
            problems += wrong.items
    return opened, problems


def _each(opened: list[Statements], work: Callable[[Statements], None], jobs: int) -> None:
    """Work through manuscripts; the first that fails stops those not yet begun."""
    if jobs <= 1:
        for one in opened:
            work(one)
        return
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        waiting = [pool.submit(work, one) for one in opened]
        problems: list[str] = []
        for future in waiting:
            try:
                if not future.cancelled():
                    future.result()
            except Problems as wrong:
                problems += wrong.items
                for other in waiting:
                    other.cancel()
    if problems:
        raise Problems(problems)


def _build_one(maker: Maker, one: Statements, force: bool, say: Say) -> None:
    if not force:
        _spare_edits(maker.book, one)
    for made in maker.make(one, running=True, force=force):
        where = made.path.relative_to(maker.book.root).as_posix()
        changed = write(made.path, made.text)
        cost = f", ran in {made.run.cpu:.1f} CPU s, {made.run.wall:.1f} s" if made.run else ""
        say(f"{where}: {'written' if changed else 'unchanged'}{cost}")


def _spare_edits(book: Book, one: Statements) -> None:
    """Refuse to write over a notebook that holds what its manuscript does not."""
    for variant in solutions.variants(one.manuscript):
        path = book.notebook(one.manuscript, variant)
        old = stored(path)
        if old is not None and edited(old) and not gives(book, one, variant, old):
            where = path.relative_to(book.root).as_posix()
            raise Problems(
                f"{where}:1: edited since it was built: run `python -m tools.notebooks pull {where}`, "
                "or build with --force to drop the edits"
            )


def _difference(book: Book, one: Statements, made: Made) -> Iterator[str]:
    where = made.path.relative_to(book.root).as_posix()
    if not made.path.exists():
        yield f"{one.manuscript.where}:1: {where} is missing"
    elif read(made.path) != made.text:
        line = next(
            (
                number
                for number, (old, new) in enumerate(
                    zip(read(made.path).split("\n"), made.text.split("\n"), strict=False), 1
                )
                if old != new
            ),
            1,
        )
        yield (
            f"{where}:{line}: not what {one.manuscript.where} gives; run `python -m tools.notebooks build "
            f"{one.manuscript.stem}`, or `pull {where}` where it was edited"
        )


def _pages(book: Book) -> Iterator[str]:
    """Yield the typed results of the pages that only the website has."""
    for path in sorted((book.root / "book/pages").rglob("*.md")):
        for line, shown in lint.typed_on_page(read(path)):
            where = path.relative_to(book.root).as_posix()
            yield f"{where}:{line}: typed by hand: {shown!r}; cite it, or mark the line <!-- given -->"


def _generated(book: Book, store: Evidence, opened: list[Statements]) -> Iterator[tuple[Path, str]]:
    """Yield the generated pages; manuscripts that cannot be read are left out."""
    at_hand = {one.manuscript.path: one for one in opened}
    everything = []
    for path, kind in sorted(book.files, key=lambda entry: (entry[0].stem, entry[1] != "lesson")):
        try:
            everything.append(at_hand.get(path) or book.open(path, kind))
        except Problems:
            continue
    page = evidence_of.page(store, everything)
    others = languages.section(book.root)
    yield book.root / evidence_of.PAGE, f"{page}\n{others}" if others else page
    texts = []
    for one in everything:
        manuscript = one.manuscript
        prose = "\n\n".join(cell.source for cell in manuscript.of_kind("markdown"))
        folder = "" if manuscript.kind == "lesson" else "../exercises/"
        texts.append((f"{folder}{manuscript.stem}.ipynb", manuscript.title, prose))
    yield book.root / "notebooks" / citations.PAGE, citations.page(book.library, texts)


def _write_pages(book: Book, store: Evidence, opened: list[Statements], say: Say) -> None:
    for path, text in _generated(book, store, opened):
        if write(path, text):
            say(f"{path.relative_to(book.root).as_posix()}: written")
