"""Write the exact, tested versions: ``python -m tools.lock``.

``pyproject.toml`` names the packages and their floors and is the one place where they are named. This tool
walks from those names through what is installed in the environment and writes every version it meets:
``requirements-site.txt`` holds what the website needs (no torch), ``requirements.txt`` everything.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
HEADER = (
    "# Exact, tested versions; written by `make lock` from pyproject.toml and the environment. Do not edit.\n"
)


def groups(root: Path = ROOT) -> dict[str, list[Requirement]]:
    """What ``pyproject.toml`` asks for: ``run``, ``site`` and ``dev``."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {"run": project["dependencies"], **project["optional-dependencies"]}
    return {name: [Requirement(text) for text in texts] for name, texts in named.items()}


def closure(wanted: Iterable[Requirement]) -> dict[str, str]:
    """Name to version of all that ``wanted`` needs here, itself included.

    Raises:
        SystemExit: if a package is not installed or its version does not meet what asks for it.
    """
    todo = [(requirement, "") for requirement in wanted]
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while todo:
        requirement, asked_by = todo.pop()
        name = canonicalize_name(requirement.name)
        try:
            package = distribution(name)
        except PackageNotFoundError:
            sys.exit(f"{name} is not installed here{asked_by}: run `make test` first, or pip install it")
        version = Version(package.version)
        if not requirement.specifier.contains(version, prereleases=True):
            sys.exit(f"{name} {version} is installed, but {requirement} is asked for{asked_by}")
        found[name] = version.public
        key = (name, frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        for text in package.requires or []:
            needed = Requirement(text)
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                todo.append((needed, f" by {name}"))
    return dict(sorted(found.items()))


def text_of(versions: dict[str, str]) -> str:
    """The text of a requirements file."""
    return HEADER + "".join(f"{name}=={version}\n" for name, version in versions.items())


def main() -> None:
    """Write both files."""
    wanted = groups()
    for file, names in (("requirements-site.txt", ("site",)), ("requirements.txt", ("run", "site", "dev"))):
        versions = closure(requirement for name in names for requirement in wanted[name])
        (ROOT / file).write_text(text_of(versions), encoding="utf-8")
        print(f"{file}: {len(versions)} packages")


if __name__ == "__main__":
    main()
