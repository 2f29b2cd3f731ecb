"""Who may import whom: a module of the library imports only from those before it."""

import ast
from pathlib import Path

import pytest

LIBRARY = Path(__file__).resolve().parents[2] / "src" / "attnlab"
# The rooms in order: each may import those before it that are named beside it.
CORE = {"attention", "multihead", "positions", "layers"}
MODELS = CORE | {"cache", "transformer", "decoder_only", "efficient", "recurrent"}
ALLOWED = {
    "claims": set(),
    "attention": set(),
    "multihead": {"attention"},
    "positions": {"attention"},
    "layers": {"attention", "multihead", "positions"},
    "cache": {"attention", "multihead"},
    "transformer": CORE | {"cache"},
    "decoder_only": CORE | {"cache"},
    "pretrained": CORE,
    "efficient": {"attention"},
    "recurrent": {"attention"},
    "tasks": set(),
    "training": set(),
    "measured": set(),
    "memory": set(),
    "export": {"transformer", "tasks", "training"},
    "contracts": {"attention"},
    "plots": set(),
    "widgets": {"plots", "export", "tasks"},
    "checks": MODELS | {"tasks", "training", "export", "contracts", "memory"},
    "grading": {"checks"},
    "cli": {"checks", "grading"},
}
FILES = sorted(path for path in LIBRARY.rglob("*.py") if path != LIBRARY / "__init__.py")


def room_of(path):
    return path.relative_to(LIBRARY).parts[0].removesuffix(".py")


def rooms_imported(path):
    """The rooms of the library that a file imports from, relative imports included."""
    package = ("attnlab", *path.relative_to(LIBRARY).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            start = ".".join([*base, *filter(None, [node.module])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        for parts in (name.split(".") for name in names):
            if parts[0] == "attnlab" and len(parts) > 1 and parts[1] in ALLOWED:
                yield parts[1]


def test_every_room_has_its_rule():
    assert {room_of(path) for path in FILES} == set(ALLOWED)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(LIBRARY).as_posix())
def test_a_module_imports_only_from_those_before_it(path):
    assert set(rooms_imported(path)) <= ALLOWED[room_of(path)] | {room_of(path)}


def test_imports_of_each_form_are_seen():
    assert "attention" in set(rooms_imported(LIBRARY / "contracts" / "weights.py"))
    assert "recurrent" in set(rooms_imported(LIBRARY / "checks/ch01_recurrence_limits/references.py"))
