"""A notebook that somebody may have edited in Jupyter, and whether its manuscript still gives it."""

from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from . import duration, matching, nodes, quiz, setup_cell, solutions
from .book import FOLDER, Book
from .evidence import Evidence
from .evidence import key as evidence_key
from .files import read
from .manuscript import FOLDERS, Manuscript, load, parse
from .problems import Problems
from .prose import Filler
from .references import Numbers
from .statements import Statements


@dataclass
class Source:
    """An edited notebook, the manuscript it came from, and what is said about the way back."""

    path: Path
    where: str
    variant: str
    node: NotebookNode
    manuscript: Manuscript
    filler: Filler
    remarks: list[str] = field(default_factory=list)

    @property
    def cells(self) -> list[NotebookNode]:
        """The notebook's cells without the set-up cell."""
        own = setup_cell.identifier(self.manuscript.stem)
        return [cell for cell in self.node.cells if cell.get("id") != own and not self._is_setup(cell)]

    @staticmethod
    def _is_setup(cell: NotebookNode) -> bool:
        return "setup" in cell.metadata.get("tags", []) and "import attnlab" in cell.source

    def known(self) -> list[tuple[solutions.ViewCell, matching.Known]]:
        """Return the cells as the build wrote them."""
        out = []
        for shown in solutions.view(self.manuscript, self.variant):
            text = (
                quiz.shown(self.filler.fill(shown.source, lenient=True))
                if shown.cell.kind == "markdown"
                else shown.source
            )
            identifier = f"{self.manuscript.stem[:50]}-{shown.cell.index:03d}"
            out.append((shown, matching.Known(identifier, shown.cell.kind, text)))
        return out


def open_notebook(book: Book, path: Path) -> Source:
    """Read an edited notebook and the manuscript it was built from."""
    where = path.relative_to(book.root).as_posix() if path.is_relative_to(book.root) else str(path)
    variant = next((name for name, folder in FOLDER.items() if path.parent == book.root / folder), None)
    if variant is None:
        raise Problems(f"{where}:1: not a notebook of this book: it must lie in {', '.join(FOLDER.values())}")
    kind = "lesson" if variant == "lesson" else "exercise"
    manuscript_path = book.root / FOLDERS[kind] / f"{path.stem}.py"
    if not manuscript_path.exists():
        raise Problems(f"{where}:1: it has no manuscript {FOLDERS[kind]}/{path.stem}.py")
    try:
        node = nodes.loads(read(path))
    except Exception as error:  # not JSON, not a notebook, not there
        raise Problems(f"{where}:1: cannot be read: {error}") from None
    manuscript = load(manuscript_path, book.root, kind)
    solutions.complain(manuscript)
    manuscript.complaints.stop()
    mark = node.metadata.get("attnlab", {}).get("manuscript")
    if mark is None:
        raise Problems(f"{where}:1: it does not say which manuscript it was built from (metadata 'attnlab')")
    if mark != manuscript.digest:
        raise Problems(
            f"{manuscript.where}:1: changed since {where} was built; bring back the manuscript of that "
            "time (git), pull, and join the two with git"
        )
    statements = Statements(manuscript)
    return Source(path, where, variant, node, manuscript, filler_of(book, statements, variant, node))


def filler_of(book: Book, statements: Statements, variant: str, node: NotebookNode) -> Filler:
    """Return what the marks of a stored notebook were filled with."""
    seeds = Evidence.load(book.root).entries.get(evidence_key(statements), {}).get("claims", {})
    numbers = Numbers(
        dict(node.metadata.get("claims", {}).get("values", {})),
        {name: claim["values"] for name, claim in seeds.items()},
        duration.shown(statements.manuscript, node.metadata.get("claims", {}).get("seconds")),
    )
    return Filler(numbers, book.library, FOLDER[variant])


def verify(source: Source, text: str, tags: bool = True) -> None:
    """Refuse a manuscript that would not give the edited notebook again."""
    manuscript = parse(text, source.manuscript.path, source.manuscript.root, source.manuscript.kind)
    given = solutions.view(manuscript, source.variant)
    expected = source.cells
    fill = source.filler.fill
    for place, (shown, cell) in enumerate(zip(given, expected, strict=False)):
        ours, theirs = shown.source, cell.source
        if cell.cell_type == "markdown":
            ours, theirs = (quiz.shown(fill(text, lenient=True)) for text in (ours, theirs))
        same = shown.cell.kind == cell.cell_type and ours.strip("\n") == theirs.strip("\n")
        if not same or (tags and shown.cell.tags != list(cell.metadata.get("tags", []))):
            raise Problems(
                f"{source.where}:1: cell {place + 1} cannot be brought back to {manuscript.where}:"
                f"{shown.cell.line}: {theirs.strip()[:60]!r}"
            )
    if len(given) != len(expected):
        raise Problems(
            f"{source.where}:1: {len(expected)} cells cannot be brought back: {len(given)} would stand in "
            f"{manuscript.where}"
        )


def gives(book: Book, statements: Statements, variant: str, node: NotebookNode) -> bool:
    """Return whether a manuscript gives the cells of a notebook, so that writing it anew loses no edit."""
    manuscript = statements.manuscript
    source = Source(
        manuscript.path, "", variant, node, manuscript, filler_of(book, statements, variant, node)
    )
    try:
        verify(source, manuscript.text, tags=False)
    except Problems:
        return False
    return True
