"""The claims and references of a manuscript, and everything about them that can be judged without running."""

import ast
import re
from dataclasses import dataclass, field
from typing import Any

from attnlab.claims import outside

from . import code, lint, references
from .manuscript import Cell, Manuscript
from .solutions import view

BOUNDS = {"at_least", "at_most", "equals"}


@dataclass(frozen=True)
class Claim:
    """A claim as its manuscript states it; ``cell`` is the index of its cell."""

    name: str
    line: int
    cell: int
    bounds: dict[str, float]

    @property
    def words(self) -> str:
        """The bounds in words."""
        return ", ".join(f"{name.replace('_', ' ')} {bound:g}" for name, bound in self.bounds.items())


@dataclass
class Statements:
    """What a manuscript claims and quotes."""

    manuscript: Manuscript
    claims: dict[str, Claim] = field(default_factory=dict)
    quotes: list[tuple[int, re.Match[str]]] = field(default_factory=list)
    durations: set[str] = field(default_factory=set)

    def judge(self, name: str, value: Any, note: str = "") -> None:
        """Note a value that leaves its bounds."""
        claim = self.claims[name]
        if expected := outside(value, **claim.bounds):
            self.manuscript.complaints.add(
                claim.line, f"claim {name!r} is {value}{note}, should be {expected}"
            )

    def code_of(self, name: str) -> str:
        """Return a fingerprint of the code that leads to a claim."""
        last = self.claims[name].cell
        return code.fingerprint(
            *(cell.source for cell in self.manuscript.of_kind("code") if cell.index <= last)
        )

    @property
    def quotes_seeds(self) -> bool:
        """Whether the prose quotes values over seeds."""
        return any(match["over"] for _, match in self.quotes)


def read(manuscript: Manuscript) -> Statements:
    """Read claims and references; complaints go to the manuscript."""
    statements = Statements(manuscript)
    trees = _parse(manuscript)
    for cell, tree in trees:
        _read_claims(statements, cell, tree)
    evident = manuscript.kind == "lesson" or bool(statements.claims)
    for cell, tree in trees:
        for line, text in code.fixed_seeds(tree) if evident else ():
            what = f"{text}: write seed(...) for the number, a run for evidence must be able to move it"
            manuscript.complaints.add(cell.line + line - 1, what)
        if tree.body and cell.source.rstrip().endswith(";"):
            what = "a last semicolon hides a result in Jupyter only: give the result a name"
            manuscript.complaints.add(cell.line + cell.source.rstrip().count("\n"), what)
        for line, text in code.pictures_without_alt(tree):
            manuscript.complaints.add(
                cell.line + line - 1, f"{text}(...) needs alt=: say what the picture shows"
            )
    known = {number for _, tree in trees for number in code.literals(tree)}
    for cell in manuscript.of_kind("markdown"):
        _read_prose(statements, cell, known)
    quoted = {match["name"] for _, match in statements.quotes}
    for claim in statements.claims.values():
        if claim.name not in quoted:
            manuscript.complaints.add(claim.line, f"claim {claim.name!r} is never quoted in the text")
    return statements


def _parse(manuscript: Manuscript) -> list[tuple[Cell, ast.Module]]:
    """Parse the code cells; a syntax error is noted at its own line. Stubs must parse too."""
    trees = []
    for cell in manuscript.of_kind("code"):
        if re.match(r"%%(?!time|capture)", cell.source):
            continue
        try:
            trees.append((cell, code.parse(cell.source)))
        except SyntaxError as error:
            if "raises-exception" not in cell.tags:
                manuscript.complaints.add(cell.line + (error.lineno or 1) - 1, f"SyntaxError: {error.msg}")
    if manuscript.kind == "exercise" and not manuscript.complaints.items:
        for shown in view(manuscript, "exercise"):
            if shown.cell.kind == "code" and "raises-exception" not in shown.cell.tags:
                _parse_stub(manuscript, shown.source, shown.lines)
    return trees


def _parse_stub(manuscript: Manuscript, source: str, lines: list[int]) -> None:
    if source.startswith("%%"):
        return
    try:
        code.parse(source)
    except SyntaxError as error:
        line = lines[min((error.lineno or 1), len(lines)) - 1]
        manuscript.complaints.add(line, f"the stub is not Python: SyntaxError: {error.msg}")


def _read_claims(statements: Statements, cell: Cell, tree: ast.Module) -> None:
    for call in code.calls(tree, "claim"):
        line = cell.line + call.lineno - 1
        complain = statements.manuscript.complaints.add
        name, bounds = _written_out(call)
        if name is None or not name.isidentifier() or len(call.args) != 2:
            complain(line, 'claim() needs a name and bounds written out: claim("name", value, at_least=0.9)')
        elif not bounds or set(bounds) - BOUNDS:
            complain(line, f"claim {name!r} needs at_least=, at_most= or equals=")
        elif name in statements.claims:
            complain(line, f"claim {name!r} is computed twice, first in line {statements.claims[name].line}")
        else:
            statements.claims[name] = Claim(name, line, cell.index, bounds)


def _written_out(call: ast.Call) -> tuple[str | None, dict[str, float]]:
    try:
        name = ast.literal_eval(call.args[0])
        bounds = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (ValueError, IndexError):
        return None, {}
    numeric = all(type(bound) in (int, float) for bound in bounds.values())
    return (name, bounds) if isinstance(name, str) and numeric else (None, {})


def _read_prose(statements: Statements, cell: Cell, known: set[float]) -> None:
    complain = statements.manuscript.complaints.add
    found, broken = references.find(cell.source)
    for offset in broken:
        shown = cell.source[offset : offset + 30].splitlines()[0]
        complain(cell.line_at(offset), f"not a reference: {shown!r} (code belongs in backticks)")
    for match in found:
        if match["given"]:
            continue
        line = cell.line_at(match.start())
        if match["duration"]:
            statements.durations.add(match["duration"])
            if statements.manuscript.kind != "lesson":
                complain(line, f"{match[0]}: only a lesson says how long it takes")
            continue
        statements.quotes.append((line, match))
        if match["name"] not in statements.claims:
            complain(line, f"{match[0]}: no claim has this name")
        if not references.suits_some_number(match["spec"]):
            complain(line, f"{match[0]}: bad format {match['spec']!r}")
    for offset, shown in lint.typed(cell.source, known):
        advice = f"write [[name:format]] for a result, [[={shown}]] for a given number"
        complain(cell.line_at(offset), f"typed by hand: {shown!r}; {advice}")
