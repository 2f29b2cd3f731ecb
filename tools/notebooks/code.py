"""What can be known about code cells without running them."""

import ast
import io
import re
import threading
import tokenize
from collections.abc import Iterator
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from .files import digest

_IPYTHON: Any = TransformerManager
# Python 3.11 loses count of the depth of a tree when two threads parse at once, and raises SystemError.
_PARSING = threading.Lock()
SEEDERS = {"manual_seed", "manual_seed_all", "default_rng", "RandomState", "Random", "seed"}
DRAWING = {"lines", "matrix", "bars", "show"}


def parse(source: str) -> ast.Module:
    """Parse a cell, IPython's magics included. Raises ``SyntaxError``."""
    with _PARSING:
        try:
            return ast.parse(source)
        except SyntaxError:
            transformed: str = _IPYTHON().transform_cell(source)
            return ast.parse(transformed)


def called(node: ast.Call) -> str:
    """Return the last part of the name that a call calls."""
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def calls(tree: ast.Module, name: str | None = None) -> list[ast.Call]:
    """Return the calls in a cell, in the order of their lines; of one name where it is given."""
    found = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and (not name or called(node) == name)
    ]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def essence(source: str) -> str:
    """Return code that can move a number.

    Left out are comments, blank lines, docstrings, bounds of claims, and what figures say and how they look.
    """
    source = _without_words(source)
    lines = source.split("\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
    except (tokenize.TokenError, SyntaxError):
        pass  # a magic: keep its comments
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _without_words(source: str) -> str:
    """Cut what says or draws something out of a source, the last part first, so that places stay right."""
    try:
        with _PARSING:
            tree = ast.parse(source)
    except SyntaxError:
        return source  # a magic: places in it are not those of the tree
    lines = source.encode().split(b"\n")
    bounds = [keyword for call in calls(tree, "claim") for keyword in call.keywords]
    looks = [
        keyword for call in calls(tree) if _draws(call) for keyword in call.keywords if not _takes(keyword)
    ]
    parts = [*bounds, *looks, *_docstrings(tree)]
    outer: list[ast.keyword | ast.stmt] = []
    for part in sorted(parts, key=_start):
        if not outer or _start(part) >= _end(outer[-1]):
            outer.append(part)  # and no part of a part
    for part in reversed(outer):
        first, last = part.lineno - 1, (part.end_lineno or part.lineno) - 1
        rest = lines[last][part.end_col_offset :]
        lines[first : last + 1] = [lines[first][: part.col_offset] + rest]
    return b"\n".join(lines).decode()


def _start(part: ast.keyword | ast.stmt) -> tuple[int, int]:
    return part.lineno, part.col_offset


def _end(part: ast.keyword | ast.stmt) -> tuple[int, int]:
    return part.end_lineno or part.lineno, part.end_col_offset or part.col_offset


def _draws(call: ast.Call) -> bool:
    """Whether a call is one of the package's plotting functions, by the name that all manuscripts use."""
    return getattr(getattr(call.func, "value", None), "id", "") == "plots"


def _takes(keyword: ast.keyword) -> bool:
    """Whether an argument takes something from a stream, so that later cells would get other numbers."""
    names = {node.id for node in ast.walk(keyword) if isinstance(node, ast.Name)}
    return not names.isdisjoint({"generator", "next"})


def _docstrings(tree: ast.Module) -> list[ast.keyword | ast.stmt]:
    """The docstrings of a module, its classes and functions; not a string that is a cell's value."""
    found: list[ast.keyword | ast.stmt] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and len(node.body) > 1:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found += [first] if isinstance(first.value.value, str) else []
    return found


def fingerprint(*sources: str) -> str:
    """Return a digest of code that words, bounds and looks do not change, as :func:`essence` has it."""
    return digest(*map(essence, sources))


def literals(tree: ast.AST) -> set[float]:
    """Return every number in a cell but those in claims: a typed bound must not vouch for a result."""
    found: set[float] = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call) and called(node) == "claim":
            continue
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            found.add(float(value))
        waiting += ast.iter_child_nodes(node)
    return found


def fixed_seeds(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of every call that seeds with a literal, which no run for evidence can move."""
    for call in calls(tree):
        name = called(call)
        if name not in SEEDERS or name == "seed" and isinstance(call.func, ast.Name):
            continue
        values = [*call.args, *(keyword.value for keyword in call.keywords)]
        if all(isinstance(value, ast.Constant) for value in values):
            yield call.lineno, ast.unparse(call)


def pictures_without_alt(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of every plotting call whose picture has no text for those who cannot see it."""
    for call in calls(tree):
        if called(call) not in DRAWING or not _draws(call):
            continue
        alt = next((keyword.value for keyword in call.keywords if keyword.arg == "alt"), None)
        empty = isinstance(alt, ast.Constant) and not str(alt.value or "").strip()
        if alt is None or empty:
            yield call.lineno, f"plots.{called(call)}"


def failing_line(traceback: str, count: int | None) -> int:
    """Return the line, counted from 1, on which a cell failed."""
    bare = re.sub(r"\x1b\[[\d;]*m", "", traceback)
    places = re.findall(r"Cell In\[(\d+)\], line (\d+)", bare)
    own = [int(line) for cell, line in places if count is None or int(cell) == count]
    return own[0] if own else 1
