"""The repository as a book: where things lie, and whether its parts fit together."""

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from . import citations, quiz, solutions, statements
from .files import read
from .manuscript import FOLDERS, NAME, Manuscript, load, manuscripts
from .problems import Problems

KERNEL = "python3"
FOLDER = {"lesson": "notebooks", "exercise": "exercises", "solution": "solutions"}
GENERATED_PAGES = ("notebooks/evidence", "notebooks/bibliography")
PACKAGE = "src/attnlab"


class Book:
    """Everything below one root."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    @cached_property
    def library(self) -> citations.Library:
        """The works that may be cited."""
        return citations.Library(self.root)

    @cached_property
    def repository(self) -> str:
        """Where the package is installed from, ``https://...@branch``, as ``_config.yml`` has it."""
        path = self.root / "_config.yml"
        try:
            config = yaml.safe_load(read(path)) or {}
        except FileNotFoundError:
            raise Problems("_config.yml:1: missing: it names the repository") from None
        except yaml.YAMLError as error:
            raise Problems(f"_config.yml:{_yaml_line(error)}: not YAML: {error}") from None
        place = config.get("repository") or {}
        if not place.get("url") or not place.get("branch"):
            raise Problems("_config.yml:1: needs repository.url and repository.branch")
        return f"{str(place['url']).rstrip('/')}@{place['branch']}"

    def notebook(self, manuscript: Manuscript, variant: str) -> Path:
        """Return where a notebook lies."""
        return self.root / FOLDER[variant] / f"{manuscript.stem}.ipynb"

    @cached_property
    def files(self) -> list[tuple[Path, str]]:
        """Path and kind of every manuscript."""
        return manuscripts(self.root)

    def select(self, names: list[str]) -> list[tuple[Path, str]]:
        """Return the manuscripts with a number, slug or stem; all where none is named."""
        chosen = []
        for name in names:
            stem = Path(name).stem
            wanted = stem.zfill(2) if stem.isdigit() else stem
            found = [(path, kind) for path, kind in self.files if wanted in _names(path.stem)]
            if not found:
                raise Problems(
                    f"no manuscript is called {name!r}; there are: "
                    + (", ".join(sorted({path.stem for path, _ in self.files})) or "none")
                )
            chosen += [entry for entry in found if entry not in chosen]
        return chosen if names else list(self.files)

    def open(self, path: Path, kind: str) -> statements.Statements:
        """Read one manuscript; its complaints are in ``manuscript.complaints``. Raises ``Problems``."""
        manuscript = load(path, self.root, kind)
        if manuscript.kernel != KERNEL:
            what = (
                f"the kernel must be {KERNEL}, not {manuscript.kernel or 'missing'}: write the header with it"
            )
            manuscript.complaints.add(1, what)
        solutions.complain(manuscript)
        citations.complain(manuscript, self.library)
        quiz.complain(manuscript)
        return statements.read(manuscript)

    def structure(self) -> list[str]:
        """Return what is wrong with names, pairs and the table of contents."""
        return [*self._names(), *self._pairs(), *self._contents(), *self._orphans()]

    def _names(self) -> Iterator[str]:
        for folder in FOLDERS.values():
            seen: dict[str, str] = {}
            for path in sorted((self.root / folder).glob("*.py")):
                where = f"{folder}/{path.name}:1"
                name = NAME.fullmatch(path.stem)
                if not name:
                    yield f"{where}: the name must be two digits and a slug, 03_query_key_value.py"
                    continue
                for what, value in name.groupdict().items():
                    other = seen.setdefault(value, path.name)
                    if other != path.name:
                        yield f"{where}: duplicate {what} {value!r}: {other} has it too"

    def _pairs(self) -> Iterator[str]:
        """Exercises belong to a lesson; a lesson may be there before its exercises."""
        stems = {kind: {path.stem for path, of in self.files if of == kind} for kind in FOLDERS}
        for stem in sorted(stems["exercise"] - stems["lesson"]):
            missing = f"{FOLDERS['lesson']}/{stem}.py"
            yield f"{FOLDERS['exercise']}/{stem}.py:1: {missing} is missing: exercises need their lesson"

    def _contents(self) -> Iterator[str]:
        path = self.root / "_toc.yml"
        if not path.exists():
            yield "_toc.yml:1: missing"
            return
        text = read(path)
        try:
            listed = list(_listed(yaml.safe_load(text)))
        except yaml.YAMLError as error:
            yield f"_toc.yml:{_yaml_line(error)}: not YAML: {error}"
            return
        made = {f"{FOLDER[variant]}/{path.stem}" for path, kind in self.files for variant in _variants(kind)}
        for stem in sorted(made - set(listed)):
            yield f"_toc.yml:1: {stem} is missing"
        for entry in listed:
            candidates = [self.root / f"{entry}{ending}" for ending in ("", ".md", ".ipynb", ".rst")]
            generated = entry.split("/")[0] in FOLDER.values()
            there = (
                entry in made
                or entry in GENERATED_PAGES
                or not generated
                and any(c.is_file() for c in candidates)
            )
            if not there:
                yield f"_toc.yml:{_line_of(text, entry)}: {entry} has no file"

    def _orphans(self) -> Iterator[str]:
        made = {
            f"{FOLDER[variant]}/{path.stem}.ipynb" for path, kind in self.files for variant in _variants(kind)
        }
        for folder in FOLDER.values():
            for path in sorted((self.root / folder).glob("*.ipynb")):
                if f"{folder}/{path.name}" not in made:
                    what = "no manuscript gives this notebook: delete it, or write the manuscript"
                    yield f"{folder}/{path.name}:1: {what}"


def _variants(kind: str) -> tuple[str, ...]:
    return ("lesson",) if kind == "lesson" else ("solution", "exercise")


def _names(stem: str) -> set[str]:
    number, _, slug = stem.partition("_")
    return {stem, number, slug}


def _listed(node: Any) -> Iterator[str]:
    """Yield every file of a table of contents."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("root", "file"):
                yield re.sub(r"\.(md|ipynb|rst)$", "", str(value))
            else:
                yield from _listed(value)
    elif isinstance(node, list):
        for value in node:
            yield from _listed(value)


def _line_of(text: str, entry: str) -> int:
    return next((number for number, line in enumerate(text.split("\n"), 1) if entry in line), 1)


def _yaml_line(error: yaml.YAMLError) -> int:
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark else 1
