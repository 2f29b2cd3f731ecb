"""Break a module of the library line by line: its tests must notice every time.

A mutant is a pair of texts: what stands in the source, exactly once, and what a slip would make of it. The
source with the slip is run as a module of its own; its names then take the place of the right ones in a
private copy of the test module, whose tests are called until one fails. Tests that want a fixture other than
``tmp_path`` do not take part.
"""

import importlib.util
import inspect
import itertools
import sys
import tempfile
import types
from pathlib import Path

import pytest
import torch


class Mutants:
    """The mutants of one module, judged by one test module beside this file.

    ``module`` is the module that is broken, ``tests`` the file name of its tests. ``keep`` names what is not
    exchanged: types that ``isinstance`` must go on recognising in other modules. ``users`` are modules that
    import from it and are run again upon the broken one, where the tests see it through them only.
    """

    def __init__(self, module, tests, *, keep=(), users=()):
        self.module, self.users = module, users
        self.source = Path(module.__file__).read_text(encoding="utf-8")
        self.keep = keep
        self.tests = _private_copy(Path(__file__).with_name(tests), module)
        self._original = dict(vars(self.tests))

    def first_failure(self, source):
        """The name of the first test that fails on this source; None where all pass."""
        self._exchange(self._run(source))
        for name, function in self._functions():
            for arguments in _calls_of(function):
                if not _passes(function, arguments):
                    return name
        return None

    def _functions(self):
        """The tests, quick ones first: hypothesis calls its function many times."""
        tests = [
            (name, thing)
            for name, thing in vars(self.tests).items()
            if name.startswith("test_") and inspect.isfunction(thing)
        ]
        return sorted(tests, key=lambda item: hasattr(item[1], "hypothesis"))

    def require_noticed(self, there, slip):
        """Fail where the text does not stand exactly once, or no test notices the slip."""
        count = self.source.count(there)
        assert count == 1, f"the mutant's text stands {count} times in the source: {there}"
        assert there != slip
        found = self.first_failure(self.source.replace(there, slip))
        assert found is not None, f"no test notices {slip!r} for {there!r}"

    def _run(self, source):
        """The source as a module that the library does not see, then its users upon it; all by name."""
        right = {module.__name__: module for module in (self.module, *self.users)}
        mutants = {}
        try:
            for name, module in right.items():
                text = source if module is self.module else Path(module.__file__).read_text(encoding="utf-8")
                mutant = mutants[name] = types.ModuleType(name)
                mutant.__file__, mutant.__package__ = module.__file__, module.__package__
                sys.modules[name] = mutant  # where a user finds it; a data class looks its module up, too
                exec(compile(text, f"{name} with a slip", "exec"), vars(mutant))
        finally:
            sys.modules.update(right)
        for kept in self.keep:
            setattr(mutants[self.module.__name__], kept, getattr(self.module, kept))
        return mutants

    def _exchange(self, mutants):
        """Put what the mutants define in the place of what the right modules define."""
        right = {module.__name__: module for module in (self.module, *self.users)}
        for name, thing in self._original.items():
            if isinstance(thing, types.ModuleType):
                setattr(self.tests, name, _with_mutants(thing, mutants, right))
            else:
                setattr(self.tests, name, _in_place_of(thing, mutants, right))


def _in_place_of(thing, mutants, right):
    """What a mutant defines under the name that a right module has for this thing; else the thing itself."""
    home = getattr(thing, "__module__", None)
    if home in right:
        for defined, value in vars(right[home]).items():
            if value is thing:
                return getattr(mutants[home], defined)
    return thing


def _with_mutants(module, mutants, right):
    """The mutant of a module; a package that passes names on is copied with those of the mutants."""
    if module.__name__ in mutants:
        return mutants[module.__name__]
    if not any(name.startswith(f"{module.__name__}.") for name in mutants):
        return module
    copy = types.ModuleType(module.__name__)
    vars(copy).update({name: _in_place_of(thing, mutants, right) for name, thing in vars(module).items()})
    return copy


def judging(rooms):
    """Two tests for a module of mutants: the sources pass as they stand, and every mutant is noticed.

    ``rooms`` maps a name to a pair: the :class:`Mutants` of a module, and the list of its mutants.
    """

    @pytest.mark.parametrize("mutants", [pytest.param(room, id=name) for name, (room, _) in rooms.items()])
    def test_the_source_as_it_stands_passes(mutants):
        assert mutants.first_failure(mutants.source) is None

    @pytest.mark.parametrize(
        ("mutants", "there", "slip"),
        [
            pytest.param(room, there, slip, id=f"{name}-{number:02d}")
            for name, (room, slips) in rooms.items()
            for number, (there, slip) in enumerate(slips)
        ],
    )
    def test_mutant_is_noticed(mutants, there, slip):
        mutants.require_noticed(there, slip)

    return test_the_source_as_it_stands_passes, test_mutant_is_noticed


def _private_copy(path, module):
    """The test module once more, whose names may be exchanged."""
    name = f"{path.stem}_against_mutants_of_{module.__name__}"
    spec = importlib.util.spec_from_file_location(name, path)
    copy = importlib.util.module_from_spec(spec)
    sys.modules[name] = copy
    spec.loader.exec_module(copy)
    return copy


def _calls_of(function):
    """The arguments of every call that the parametrize marks of a test ask for."""
    axes = []
    for mark in getattr(function, "pytestmark", []):
        names, rows = mark.args
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        axes.append([dict(zip(names, row if len(names) > 1 else (row,), strict=True)) for row in rows])
    given = {name for axis in axes for name in axis[0]}
    if set(inspect.signature(function).parameters) - given - {"tmp_path"}:
        return  # it wants another fixture
    for choice in itertools.product(*axes):
        yield {name: value for part in choice for name, value in part.items()}


def _passes(function, arguments):
    with tempfile.TemporaryDirectory() as folder:
        if "tmp_path" in inspect.signature(function).parameters:
            arguments = {**arguments, "tmp_path": Path(folder)}
        torch.manual_seed(0)
        try:
            function(**arguments)
        except (Exception, pytest.fail.Exception):
            return False
    return True
