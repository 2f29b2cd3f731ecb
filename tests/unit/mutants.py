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
    exchanged: types that ``isinstance`` must go on recognising in other modules.
    """

    def __init__(self, module, tests, *, keep=()):
        self.module = module
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
        """The source as a module that the rest of the library does not see."""
        name = self.module.__name__
        mutant = types.ModuleType(name)
        mutant.__file__, mutant.__package__ = self.module.__file__, self.module.__package__
        sys.modules[name] = mutant  # a data class looks its module up while it is made
        try:
            exec(compile(source, f"{name} with a slip", "exec"), vars(mutant))
        finally:
            sys.modules[name] = self.module
        for kept in self.keep:
            setattr(mutant, kept, getattr(self.module, kept))
        return mutant

    def _exchange(self, mutant):
        """Put what the mutant defines in the place of what the right module defines."""
        for name, thing in self._original.items():
            if thing is self.module:
                setattr(self.tests, name, mutant)
            elif getattr(thing, "__module__", None) == self.module.__name__:
                for defined, right in vars(self.module).items():
                    if right is thing:
                        setattr(self.tests, name, getattr(mutant, defined))


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
