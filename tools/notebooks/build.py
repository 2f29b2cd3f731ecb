"""Make notebooks: run what changed, fill the prose, compare or write."""

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from . import code, duration, execute, nodes, normalise, quiz, references, setup_cell, solutions, sources
from .book import FOLDER, PACKAGE, Book
from .evidence import Evidence
from .execute import Failed, Run
from .files import digest, read
from .problems import Problems
from .prose import Filler
from .references import Numbers
from .statements import Statements
from .widgets import Sources

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python"}


@dataclass
class Made:
    """A notebook's text and where it goes; ``run`` is set where it was executed for this."""

    path: Path
    text: str
    run: Run | None = None


@dataclass
class Maker:
    """Makes the notebooks of one book."""

    book: Book
    evidence: Evidence
    widgets: Sources = field(init=False)

    def __post_init__(self) -> None:
        self.widgets = Sources(self.book.root)

    def bare(self, statements: Statements, variant: str) -> NotebookNode:
        """Return a notebook without outputs; references and citations still stand in its prose."""
        manuscript = statements.manuscript
        cells = []
        for shown in solutions.view(manuscript, variant):
            metadata = {"tags": shown.cell.tags} if shown.cell.tags else {}
            identifier = f"{manuscript.stem[:50]}-{shown.cell.index:03d}"
            cells.append(nodes.new_cell(shown.cell.kind, shown.source, metadata, identifier))
        first = next((place for place, cell in enumerate(cells) if cell.cell_type == "code"), len(cells))
        cells.insert(first, setup_cell.cell(manuscript.stem, self.book.repository))
        return nodes.new_notebook(
            cells=cells, metadata={"kernelspec": dict(KERNELSPEC), "language_info": dict(LANGUAGE)}
        )

    def make(self, statements: Statements, running: bool, force: bool = False) -> list[Made]:
        """Return the notebooks of one manuscript. Raises ``Problems``.

        With ``running`` a notebook is executed where its code, or the package, changed since it was made;
        without, that is a complaint.
        """
        manuscript = statements.manuscript
        manuscript.complaints.stop()
        seeds = self.evidence.values(statements, strict=running and statements.quotes_seeds)
        manuscript.complaints.stop()
        made: list[Made] = []
        values: dict[str, Any] | None = None
        for variant in solutions.variants(manuscript):
            node, meta, run = self._executed(statements, variant, running, force)
            if values is None:
                values = meta["values"]
                self._judge(statements, values, seeds)
            meta = {**meta, "values": values}
            durations = duration.shown(manuscript, meta.get("seconds"))
            self._finish(statements, variant, node, Numbers(values, seeds, durations))
            node.metadata["claims"] = nodes.node(meta)
            marks = {"manuscript": manuscript.digest, "cells": cells_digest(node)}
            node.metadata["attnlab"] = nodes.node(marks)
            made.append(Made(self.book.notebook(manuscript, variant), nodes.dumps(node), run))
        return made

    def _executed(
        self, statements: Statements, variant: str, running: bool, force: bool
    ) -> tuple[NotebookNode, dict[str, Any], Run | None]:
        """Return the notebook with its outputs, from the stored one where that is still good."""
        manuscript = statements.manuscript
        bare = self.bare(statements, variant)
        path = self.book.notebook(manuscript, variant)
        names = set(statements.claims)
        old = stored(path)
        seconds = old.metadata.get("claims", {}).get("seconds") if old is not None else None
        measured = seconds is not None or "run" not in statements.durations
        still_good = old is not None and measured and keeps(old, bare, names, self.book.root)
        if old is not None and still_good and not force:
            carry(old, bare)
            self._clean(bare, manuscript.stem, None)
            meta = {name: old.metadata["claims"][name] for name in ("values", "sources")}
            return bare, meta | self._duration(statements, seconds), None
        if not running:
            why = (
                "was never built"
                if not path.exists()
                else "is older than its code cells or the modules they import"
            )
            raise Problems(
                f"{manuscript.where}:1: {path.relative_to(self.book.root).as_posix()} {why}; "
                f"run `python -m tools.notebooks build {manuscript.stem}`"
            )
        run = self.run(statements, variant, bare)
        self._clean(run.notebook, manuscript.stem, run.home)
        if old is not None and still_good:
            keep_varying(old, run.notebook)
        meta = {
            **self._duration(statements, seconds if still_good else duration.step(run.cpu, seconds)),
            "values": {name: entries[0] for name, entries in run.values.items()},
            "sources": sources.hashes(self.book.root, sources.of_run(self.book.root, run.modules)),
        }
        return run.notebook, meta, run

    @staticmethod
    def _duration(statements: Statements, seconds: int | None) -> dict[str, Any]:
        """Return what a notebook stores of how long it ran: nothing where its text does not say it."""
        return {"seconds": seconds} if "run" in statements.durations else {}

    def run(self, statements: Statements, variant: str, bare: NotebookNode, shift: int = 0) -> Run:
        """Execute a notebook; every failure names the manuscript's line."""
        manuscript = statements.manuscript
        folder = self.book.root / FOLDER[variant]
        try:
            run = execute.run(bare, folder, self.book.root, shift)
        except Failed as failed:
            line = self._line(statements, variant, bare, failed)
            raise Problems(
                f"{manuscript.where}:{line}: {failed.what} (in {folder.name}/{manuscript.stem}.ipynb)"
            ) from None
        if run.package != (self.book.root / PACKAGE).resolve():
            raise Problems(
                f"{manuscript.where}:1: the kernel imports attnlab from {run.package}, not from {PACKAGE}"
            )
        if variant != "exercise":
            self._complain_about_values(statements, run)
        manuscript.complaints.stop()
        return run

    def _line(self, statements: Statements, variant: str, bare: NotebookNode, failed: Failed) -> int:
        if failed.cell >= len(bare.cells) or bare.cells[failed.cell].id == setup_cell.identifier(
            statements.manuscript.stem
        ):
            return 1
        shown = {
            f"{statements.manuscript.stem[:50]}-{cell.cell.index:03d}": cell
            for cell in solutions.view(statements.manuscript, variant)
        }
        return shown[bare.cells[failed.cell].id].line(code.failing_line(failed.traceback, failed.count))

    def _complain_about_values(self, statements: Statements, run: Run) -> None:
        complain = statements.manuscript.complaints.add
        for name, reason in run.refused.items():
            line = statements.claims[name].line if name in statements.claims else 1
            complain(line, f"claim {name!r} takes a number, or a dict or list of numbers, and got {reason}")
        for name, claim in statements.claims.items():
            count = len(run.values.get(name, []))
            if count != 1 and name not in run.refused:
                complain(
                    claim.line,
                    f"claim {name!r} was " + (f"computed {count} times" if count else "never computed"),
                )
        for name in sorted(set(run.values) - set(statements.claims)):
            complain(1, f"claim {name!r} was made outside the code cells")

    def _judge(self, statements: Statements, values: dict[str, Any], seeds: dict[str, Any]) -> None:
        for name, value in values.items():
            statements.judge(name, value)
        for line, match in statements.quotes:
            try:
                references.one(match, Numbers(values, seeds))
            except ValueError as error:
                statements.manuscript.complaints.add(line, f"{match[0]}: {error}")
        statements.manuscript.complaints.stop()

    def _clean(self, node: NotebookNode, stem: str, home: Path | None) -> None:
        cleaned = normalise.notebook(node, stem, normalise.places(self.book.root, home))
        node.cells, node.metadata = cleaned.cells, cleaned.metadata

    def _finish(self, statements: Statements, variant: str, node: NotebookNode, numbers: Numbers) -> None:
        """Fill the prose, renew the widgets' code, and refuse what must not be stored."""
        manuscript = statements.manuscript
        if normalise.progress_widgets(node):
            manuscript.complaints.add(
                1, "a progress bar was stored as a widget: use plain tqdm, not tqdm.auto"
            )
        self._expect_exceptions(statements, variant, node)
        manuscript.complaints.stop()
        self.widgets.refresh(node, manuscript.where)
        filler = Filler(numbers, self.book.library, FOLDER[variant])
        for cell in node.cells:
            if cell.cell_type == "markdown":
                cell.source = quiz.shown(filler.fill(cell.source))
        widgets = {"widgets": node.metadata["widgets"]} if normalise.widget_models(node) else {}
        node.metadata = nodes.node({"kernelspec": KERNELSPEC, "language_info": LANGUAGE, **widgets})

    def _expect_exceptions(self, statements: Statements, variant: str, node: NotebookNode) -> None:
        """A lesson that shows an error must still raise it."""
        shown = [cell for cell in solutions.view(statements.manuscript, variant) if cell.cell.kind == "code"]
        ran = [cell for cell in node.cells if cell.cell_type == "code"][1:]
        for cell, executed in zip(shown, ran, strict=True):
            raised = any(output.output_type == "error" for output in executed.outputs)
            if variant == "lesson" and "raises-exception" in cell.cell.tags and not raised:
                statements.manuscript.complaints.add(
                    cell.cell.line, "tagged raises-exception, but nothing was raised"
                )


def cells_digest(node: NotebookNode) -> str:
    """Return a fingerprint of what a reader may edit: sources and tags, the outputs left out."""
    return digest(*(f"{cell.cell_type} {cell.metadata.get('tags', [])} {cell.source}" for cell in node.cells))


def edited(node: NotebookNode) -> bool:
    """Return whether a notebook's cells are no longer those that the build wrote."""
    mark = node.metadata.get("attnlab", {}).get("cells")
    return mark is not None and mark != cells_digest(node)


def stored(path: Path) -> NotebookNode | None:
    """Return the notebook on disk; None where there is none that can be read."""
    try:
        return nodes.loads(read(path))
    except Exception:  # whatever is wrong with it: it is made again
        return None


def keeps(old: NotebookNode, new: NotebookNode, claims: set[str], root: Path) -> bool:
    """Return whether stored outputs are still those of the code."""
    meta = old.metadata.get("claims", {})
    if (
        not isinstance(meta.get("sources"), dict)
        or set(meta.get("values", {})) != claims
        or not meta["sources"]
    ):
        return False
    present = sources.of_run(root, [name.removeprefix(f"{PACKAGE}/") for name in meta["sources"]])
    return _code(old) == _code(new) and sources.hashes(root, present) == meta["sources"]


def _code(node: NotebookNode) -> list[tuple[str, bool]]:
    """Return what decides over outputs: the code cells but the set-up cell, and which of them may fail."""
    cells = [cell for cell in node.cells if cell.cell_type == "code"]
    ours = [cell for cell in cells if not cell.id.endswith("-setup")]
    return [(cell.source, "raises-exception" in cell.metadata.get("tags", [])) for cell in ours]


def keep_varying(old: NotebookNode, new: NotebookNode) -> None:
    """Keep the stored outputs of cells that may vary from run to run, so that equal input gives equal bytes.

    Such a cell shows times, say, and is tagged ``nbval-ignore-output``. It ran; what is stored is an earlier
    run of the same code.
    """
    before = [cell for cell in old.cells if cell.cell_type == "code"]
    after = [cell for cell in new.cells if cell.cell_type == "code"]
    for kept, cell in zip(before, after, strict=True):
        if "nbval-ignore-output" in cell.metadata.get("tags", []):
            cell.outputs = copy.deepcopy(kept.outputs)


def carry(old: NotebookNode, new: NotebookNode) -> None:
    """Take outputs, counts and widgets of a stored notebook into a new one of the same code."""
    before = [cell for cell in old.cells if cell.cell_type == "code"]
    after = [cell for cell in new.cells if cell.cell_type == "code"]
    for kept, cell in zip(before, after, strict=True):
        cell.outputs = copy.deepcopy(kept.outputs)
        cell.execution_count = kept.execution_count
    if "widgets" in old.metadata:
        new.metadata["widgets"] = copy.deepcopy(old.metadata["widgets"])
