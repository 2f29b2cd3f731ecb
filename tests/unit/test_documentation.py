"""Every public name of the library says what it is, and names each of its parameters."""

import ast
import re
from pathlib import Path

import pytest

LIBRARY = Path(__file__).resolve().parents[2] / "src" / "attnlab"
MODULES = sorted(
    path
    for path in LIBRARY.rglob("*.py")
    if not {"checks", "grading", "widgets"} & set(path.relative_to(LIBRARY).parts)
)
# A docstring may refer to another one's arguments instead of repeating them.
REFERS = re.compile(r"([Aa]rguments?|[Ee]rrors)\b.{0,120}?\b(are|is|as)\s+(those|in|that)\b", re.DOTALL)


def public_names(tree):
    """What ``__all__`` lists; None where there is no such list."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return None


def documented(tree):
    """Every public function, class and method of a module, with its dotted name."""
    listed = public_names(tree)
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        if node.name in listed if listed is not None else not node.name.startswith("_"):
            yield node.name, node, None
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                        yield f"{node.name}.{inner.name}", inner, node


def parameters(function):
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    names = [name for name in names if name not in ("self", "cls")]
    return names if len(names) > 1 else []  # what is done to the only one needs no name


def is_overload(node):
    return any("overload" in ast.dump(decorator) for decorator in getattr(node, "decorator_list", []))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(LIBRARY).as_posix())
def test_every_public_name_is_documented(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree), "the module has no docstring"
    missing = []
    for name, node, owner in documented(tree):
        text = ast.get_docstring(node) or ""
        if not text:
            missing.append(f"{name}: no docstring")
        elif isinstance(node, ast.FunctionDef) and not is_overload(node) and not REFERS.search(text):
            around = text + (ast.get_docstring(owner) or "" if owner else "")
            missing += [
                f"{name}: {argument}"
                for argument in parameters(node)
                if not re.search(rf"\b{argument}\b", around)
            ]
    assert not missing, missing


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(LIBRARY).as_posix())
def test_every_error_that_a_public_name_raises_itself_is_documented(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = []
    for name, node, owner in documented(tree):
        if isinstance(node, ast.ClassDef):
            continue
        text = (ast.get_docstring(node) or "") + (ast.get_docstring(owner) or "" if owner else "")
        for statement in ast.walk(node):
            if isinstance(statement, ast.Raise) and isinstance(statement.exc, ast.Call):
                error = ast.unparse(statement.exc.func)
                if error not in text and error != "NotImplementedError" and not REFERS.search(text):
                    silent.append(f"{name}: {error}")
    assert not silent, silent
