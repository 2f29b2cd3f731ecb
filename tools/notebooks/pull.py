"""Bring notebooks that were edited in Jupyter back to their manuscripts.

Nothing is lost: the new manuscript must give exactly the edited notebook, or nothing is written and the place
that cannot be brought back is named.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from nbformat import NotebookNode

from . import matching, plan, quiz, solutions
from .book import Book
from .build import edited
from .edited import Source, open_notebook, verify
from .files import write
from .manuscript import parse
from .plan import Planned
from .problems import Problems
from .prose import Edited, Lost, align, recover
from .unstub import CannotPlace, restore

Say = Callable[[str], None]


def pull_files(book: Book, files: Iterable[Path], say: Say) -> None:
    """Bring notebooks back, those of one manuscript together. ``Problems`` come before any writing."""
    plans: dict[Path, list[tuple[Source, list[Planned]]]] = {}
    for path in files:
        source = open_notebook(book, path)
        plans.setdefault(source.manuscript.path, []).append((source, _plan(source)))
    texts: list[tuple[Path, str]] = []
    for manuscript_path, entries in plans.items():
        manuscript = entries[0][0].manuscript
        joined = entries[0][1]
        for source, other in entries[1:]:
            joined, clashes = plan.merge(manuscript, joined, other)
            _complain_of_clashes(source, clashes)
        for source, planned in entries:
            verify(source, plan.text(manuscript, planned))
        text = plan.text(manuscript, joined)
        parse(text, manuscript_path, book.root, manuscript.kind)
        texts.append((manuscript_path, text))
    for entries in plans.values():
        for source, _ in entries:
            for remark in source.remarks:
                say(remark)
    for path, text in texts:
        changed = write(path, text)
        say(f"{path.relative_to(book.root).as_posix()}: {'written' if changed else 'unchanged'}")


def _plan(source: Source) -> list[Planned]:
    """Return what an edited notebook makes of its manuscript."""
    if not edited(source.node):
        return plan.unchanged(source.manuscript)
    known = source.known()
    new = [matching.Known(cell.get("id", ""), cell.cell_type, cell.source) for cell in source.cells]
    places = matching.match([cell for _, cell in known], new)
    prose = _Prose(source)
    wanted: list[Planned] = []
    for cell, place in zip(source.cells, places, strict=True):
        if cell.get("attachments"):
            _refuse(
                source,
                cell,
                "holds a pasted picture, which a manuscript cannot hold: save it as a file and link it",
            )
        if place is None:
            wanted.append(_new(source, cell, prose))
        else:
            wanted.append(_changed(source, cell, *known[place], prose))
    for place, (shown, old) in enumerate(known):
        if place not in places and shown.cell.kind == "markdown":
            prose.gone(shown.cell.source, old.source, shown.cell.line)
    prose.settle()
    wanted = [prose.finished(place, cell) for place, cell in enumerate(wanted)]
    return plan.ordered(source.manuscript, [shown.cell.index for shown, _ in known], wanted)


class _Prose:
    """The edited text cells of one notebook, so that a mark may move from one to another."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.texts: dict[int, Edited] = {}
        self.lost: list[Lost] = []

    def edited(self, place: int, raw: str, text: str, line: int) -> None:
        """Note that the cell at a place of the notebook changed."""
        found, lost = align(self.source.filler.pieces(raw, lenient=True), text, line)
        self.texts[place] = found
        self.lost += lost

    def new(self, place: int, text: str) -> None:
        """Note a new text cell."""
        self.texts[place] = Edited.new(text)

    def gone(self, raw: str, shown: str, line: int) -> None:
        """Note a text cell that was deleted: its marks may stand elsewhere now."""
        self.lost += align(self.source.filler.pieces(raw, lenient=True), "", line)[1]

    def settle(self) -> None:
        """Place the marks that moved, and say which ones are lost."""
        waiting = [lost for lost in self.lost if not recover(lost, list(self.texts.values()))]
        for lost in waiting:
            what = f"{lost.piece.raw} was shown as {lost.piece.shown!r}"
            if lost.edited:
                what += f" and is now {lost.edited!r}: kept as it was edited, without the reference"
            else:
                what += " and is gone from the text"
            self.source.remarks.append(f"{self.source.manuscript.where}:{lost.where}: warning: {what}")

    def finished(self, place: int, cell: Planned) -> Planned:
        """Return a cell with its marks back in their places."""
        if place not in self.texts:
            return cell
        return Planned(cell.origin, cell.kind, self.texts[place].text(), cell.metadata, True)


def _new(source: Source, cell: NotebookNode, prose: _Prose) -> Planned:
    place = _place(source, cell)
    metadata = {"tags": list(cell.metadata["tags"])} if cell.metadata.get("tags") else {}
    only = solutions.ONLY.get(source.variant)
    if source.variant == "solution" and only not in metadata.get("tags", []):
        metadata["tags"] = [*metadata.get("tags", []), only]
        source.remarks.append(
            f"{source.where}: cell {place + 1} is new: tagged {only}, so that it gives nothing away"
        )
        cell.metadata["tags"] = list(metadata["tags"])
    if cell.cell_type == "markdown":
        prose.new(place, _as_written(source, cell))
    return Planned(None, cell.cell_type, cell.source, metadata, True)


def _changed(
    source: Source, cell: NotebookNode, shown: solutions.ViewCell, old: matching.Known, prose: _Prose
) -> Planned:
    place, before = _place(source, cell), shown.cell
    tags = list(cell.metadata.get("tags", []))
    same = cell.cell_type == before.kind and cell.source == old.source
    if same and tags == before.tags:
        return Planned(before.index, before.kind, before.source, before.metadata, False)
    metadata = {name: value for name, value in before.metadata.items() if name != "tags"}
    metadata.update({"tags": tags} if tags else {})
    text = before.source
    if not same:
        text = cell.source
        if cell.cell_type == before.kind == "code" and source.variant != "lesson":
            try:
                text, remarks = restore(before.source, source.variant, cell.source)
            except CannotPlace as problem:
                raise Problems(
                    f"{source.manuscript.where}:{before.line + problem.offset}: {problem}"
                ) from None
            source.remarks += [f"{source.manuscript.where}:{before.line}: {remark}" for remark in remarks]
        elif cell.cell_type == before.kind == "markdown":
            prose.edited(place, before.source, _as_written(source, cell), before.line)
        elif before.kind == "markdown":
            prose.gone(before.source, old.source, before.line)
        if cell.cell_type != before.kind:
            metadata.pop("cell_marker", None)
            if cell.cell_type == "markdown":
                prose.new(place, cell.source)
    return Planned(before.index, cell.cell_type, text, metadata, True)


def _as_written(source: Source, cell: NotebookNode) -> str:
    """Return the text of a cell as an author would write it: a quiz is shown in another form."""
    try:
        return quiz.restored(cell.source)
    except ValueError as problem:
        _refuse(source, cell, f"cannot be brought back: {problem}")


def _place(source: Source, cell: NotebookNode) -> int:
    return next(place for place, other in enumerate(source.cells) if other is cell)


def _refuse(source: Source, cell: NotebookNode, what: str) -> NoReturn:
    raise Problems(f"{source.where}:1: cell {_place(source, cell) + 1} {what}")


def _complain_of_clashes(source: Source, clashes: Sequence[int]) -> None:
    if not clashes:
        return
    where = source.manuscript.where
    raise Problems(
        [
            f"{where}:1: both notebooks add, move or delete cells: pull one, build, and redo the other"
            if index < 0
            else f"{where}:{source.manuscript.cells[index].line}: both notebooks changed this cell"
            for index in clashes
        ]
    )
