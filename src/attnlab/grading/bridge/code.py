"""What a cell of code defines and needs, found without running it."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterator
from dataclasses import dataclass

# Cell magics under which the rest of the cell is still Python.
_TRANSPARENT = {"time", "timeit", "capture", "prun"}
_MAGIC = re.compile(r"^(?P<indent>\s*)(?:[%!].*|[\w.]+\?{1,2}\s*|\?{1,2}[\w.]+\s*)$")
_ASSIGNED = re.compile(r"^(?P<left>\s*[\w.,\s]+=)\s*[%!].*$")


_DYNAMIC = {"exec", "eval", "globals", "locals", "vars", "setattr", "delattr", "get_ipython", "__import__"}


@dataclass(frozen=True)
class Names:
    """The names of one cell.

    Attributes:
        binds: what it defines, imports or changes at its top level.
        uses: what it looks up outside of itself, in functions as well.
        imports: what it binds by an import.
        touches: what it hands to a call, which may change it.
        dynamic: whether it may bind names that cannot be read off it.
    """

    binds: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    touches: frozenset[str] = frozenset()
    dynamic: bool = False


def plain(source: str) -> str:
    """The source as Python: Jupyter's own commands are left out where it is no Python otherwise."""
    head, _, rest = source.lstrip().partition("\n")
    if head.startswith("%%"):
        source = rest if head[2:].split()[:1] and head[2:].split()[0] in _TRANSPARENT else ""
    try:
        ast.parse(source)
    except SyntaxError:
        return "\n".join(map(_without_magic, source.split("\n")))
    return source


def _without_magic(line: str) -> str:
    if found := _MAGIC.match(line):
        return f"{found['indent']}pass"
    found = _ASSIGNED.match(line)
    return f"{found['left']} None" if found else line


def alike(source: str) -> str:
    """The source as it is compared: without blank lines and spaces at the ends of lines."""
    return "\n".join(line.rstrip() for line in source.split("\n") if line.strip())


def names_of(source: str) -> Names:
    """The names of a cell. Raises ``SyntaxError`` where it is no Python."""
    tree = ast.parse(source)
    top = symtable.symtable(source, "<cell>", "exec")
    binds, uses, imports = set(), set(), set()
    for symbol in top.get_symbols():
        if symbol.is_assigned() or symbol.is_imported():
            binds.add(symbol.get_name())
        if symbol.is_imported():
            imports.add(symbol.get_name())
        if symbol.is_referenced():
            uses.add(symbol.get_name())
    for table in _inside(top):
        for symbol in table.get_symbols():
            if symbol.is_global() and symbol.is_referenced():
                uses.add(symbol.get_name())
            if symbol.is_declared_global() and symbol.is_assigned():
                binds.add(symbol.get_name())
    changed = {name for statement in tree.body for name in _changed(statement)}
    touched = {name for statement in tree.body for name in _touched(statement)}
    starred = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree))
    dynamic = starred or bool(uses & _DYNAMIC)
    return Names(frozenset(binds | changed), frozenset(uses), frozenset(imports), frozenset(touched), dynamic)


def statements(source: str) -> list[tuple[int, str]]:
    """The top-level statements, each with its first line, for a script that has no cells."""
    lines = source.split("\n")
    found = []
    for statement in ast.parse(source).body:
        decorators = getattr(statement, "decorator_list", [])
        first = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
        found.append((first, "\n".join(lines[first - 1 : statement.end_lineno])))
    return found


def _touched(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement hands to a call or to a decorator."""
    body: list[ast.AST] = [statement]
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        body = list(statement.decorator_list)
    calls = [node for part in body for node in ast.walk(part) if isinstance(node, ast.Call)]
    called = {id(call.func) for call in calls}
    for call in calls:
        for value in (*call.args, *(keyword.value for keyword in call.keywords)):
            for one in ast.walk(value):
                if isinstance(one, ast.Name) and id(one) not in called and not hasattr(builtins, one.id):
                    yield one.id


def _inside(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _inside(child)


def _changed(statement: ast.stmt) -> Iterator[str]:
    """Names whose objects a statement changes: an attribute or a part is set, or a method called for it."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return
    for node in ast.walk(statement):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            targets = [node.value.func]
        for target in targets:
            while isinstance(target, ast.Attribute | ast.Subscript):
                target = target.value
                if isinstance(target, ast.Name):
                    yield target.id
