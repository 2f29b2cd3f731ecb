"""Which cells of a notebook are run, and in which order; then they are run.

The course's own cells (imports, data, helpers) come from the course's copy of the exercise notebook, and are
run where a learner's cell needs them. A learner's cells are found by what they are, not by an id: those that
are the course's own, word for word, are not run twice, and those that no answer needs are not run at all.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from . import code
from .code import Names
from .nothing import seen

Attempt = Callable[[int, Callable[[], None], bool], tuple[str, str]]
"""Runs something for a cell: its number, the function, whether it makes an answer; how it ended, and why."""


@dataclass
class Cell:
    """A cell to be run; numbers of a learner's cells count up from 1, those of the course's down from -1.

    ``place`` is where it stands in the course's notebook, or would stand.
    """

    number: int
    source: str
    place: int
    names: Names = field(default_factory=Names)
    done: bool = False


class Notebook:
    """One exercise notebook in its own namespace.

    Args:
        space: the namespace, a module's dictionary.
        answers: by exercise, the expression that its check is given.
        attempt: runs something for a cell.
    """

    def __init__(self, space: dict[str, Any], answers: dict[str, str], attempt: Attempt) -> None:
        self.space, self.answers, self._attempt = space, answers, attempt
        self.log: list[list[Any]] = []
        self._wanted = {name for expression in answers.values() for name in _words(expression)}
        self._helpers: list[Cell] = []
        self._theirs: list[Cell] = []
        self._answered: dict[str, int] = {}

    def run(self, ours: list[str], theirs: list[tuple[int, str]]) -> None:
        """Run what is to be run."""
        stubs = self._read_ours(ours)
        places = {code.alike(source): place for place, source in enumerate(ours)}
        place = 0
        for number, source in theirs:
            place = places.get(code.alike(source), place)
            if code.alike(source) in stubs or code.alike(source) not in places:
                cell = self._read(number, source, place)
                place = cell.place
                self._theirs.append(cell)
        for cell in self._helpers:
            if cell.names.imports:
                self._run_helper(cell)
        needed = self._needed()
        late = [
            cell for cell in self._theirs if cell.number in needed and not self._is_left_over(cell, stubs)
        ]
        for again in (False, True):
            late = [cell for cell in late if self._run(cell, again) == "NameError"]

    def answer(self, task: str) -> tuple[bool, Any]:
        """Whether an exercise was answered, and its answer: under its name, else what its check was given."""
        try:
            found = eval(self.answers[task], self.space)
        except Exception:
            return (True, seen[task]) if seen.get(task) is not None else (False, None)
        if not callable(found) and callable(seen.get(task)):
            return True, seen[task]  # the name was used for something else later
        return True, found

    def broken(self, task: str) -> int:
        """The number of the learner's cell that would define an answer, but does not run; 0 for none."""
        wanted = _words(self.answers[task])
        for number, status, _ in self.log:
            cell = next((cell for cell in self._theirs if cell.number == number), None)
            if status != "ok" and cell is not None and any(_defines(cell, name) for name in wanted):
                return cell.number
        return 0

    def _read_ours(self, ours: list[str]) -> set[str]:
        """Sort the course's cells into helpers and answers to be written; returns the latter."""
        stubs = set()
        for place, source in enumerate(ours):
            text = code.plain(source)
            cell = Cell(-1 - place, text, place, code.names_of(text))
            if cell.names.binds & self._wanted:
                stubs.add(code.alike(source))
                self._answered |= dict.fromkeys(cell.names.binds & self._wanted, place)
            else:
                self._helpers.append(cell)
        return stubs

    def _read(self, number: int, source: str, place: int) -> Cell:
        cell = Cell(number, source, place)

        def read() -> None:
            cell.source = code.plain(source)
            cell.names = code.names_of(cell.source)

        status, why = self._attempt(number, read, False)
        if status != "ok":
            cell.done = True
            self.log.append([number, status, why])
        cell.place = max((self._answered.get(name, 0) for name in cell.names.binds), default=0) or place
        return cell

    def _needed(self) -> set[int]:
        """The cells that can make a difference to an answer: an experiment beside it need not be run."""
        names = {*self._wanted, "check"}
        needed: set[int] = set()
        while True:
            more = [
                cell
                for cell in (*self._theirs, *self._helpers)
                if cell.number not in needed
                and (
                    cell.names.dynamic
                    or names & (cell.names.binds | cell.names.touches | self._checked(cell))
                )
            ]
            if not more:
                return needed
            needed |= {cell.number for cell in more}
            names = names.union(*(cell.names.uses for cell in more))

    def _checked(self, cell: Cell) -> set[str]:
        """``check``, where a cell calls it for one of the answers: it may be given it under another name."""
        asked = any(task in cell.source for task in self.answers)
        return {"check"} & cell.names.uses if asked else set()

    def _is_left_over(self, cell: Cell, stubs: set[str]) -> bool:
        """Whether a cell is still as it was given, while another one has the answer."""
        if code.alike(cell.source) not in stubs:
            return False
        names = cell.names.binds & self._wanted
        others = [other for other in self._theirs if code.alike(other.source) not in stubs]
        return any(names <= other.names.binds for other in others)

    def _run(self, cell: Cell, again: bool) -> str:
        if cell.done:
            return ""
        for name in sorted(cell.names.uses - self.space.keys()):
            self._provide(name, cell.place)
        makes = bool(cell.names.binds & self._wanted)
        status, why = self._attempt(cell.number, lambda: self._execute(cell), makes)
        if status != "ok" and why.startswith("NameError") and not again:
            return "NameError"  # it may need a cell that stands below: once more, when all have been run
        self.log.append([cell.number, status, why])
        return ""

    def _provide(self, name: str, place: int) -> None:
        """Run the course's cells that make a name: those above a place, or all where there is none above."""
        makers = [helper for helper in self._helpers if name in helper.names.binds - helper.names.imports]
        for helper in [maker for maker in makers if maker.place < place] or makers:
            self._run_helper(helper)

    def _run_helper(self, helper: Cell) -> None:
        if helper.done or helper.names.uses & self._wanted - self.space.keys():
            return
        helper.done = True
        for name in sorted(helper.names.uses - self.space.keys()):
            self._provide(name, helper.place)
        self._attempt(helper.number, lambda: self._execute(helper), False)

    def _execute(self, cell: Cell) -> None:
        exec(compile(cell.source, f"<cell {cell.number}>", "exec", dont_inherit=True), self.space)


def _words(expression: str) -> list[str]:
    return re.findall(r"[^\W\d]\w*", expression)


def _defines(cell: Cell, name: str) -> bool:
    """Whether a cell would define a name; by its look, where it is no Python."""
    if cell.names.binds:
        return name in cell.names.binds
    pattern = rf"(?m)^(?:(?:async\s+)?def|class)\s+{re.escape(name)}\b|^{re.escape(name)}\s*="
    return re.search(pattern, cell.source) is not None


def numbered(cells: Iterable[Any], script: bool) -> list[tuple[int, str]]:
    """Cells as they come in a message, as pairs of number and source.

    Of a ``script`` without cells each statement is one, numbered by its line, so that one that fails costs
    no other.
    """
    pairs = [(int(number), str(source)) for number, source in cells]
    if script:
        with contextlib.suppress(SyntaxError):
            return [pair for _, source in pairs for pair in code.statements(code.plain(source))]
    return pairs
