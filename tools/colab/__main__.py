"""Every notebook where Colab's packages alone are installed: ``python -m tools.colab [NUMBER or SLUG ...]``.

Each notebook lies alone in an empty folder, without the course's package. It passes if all its cells run,
if the set-up cell is quiet, adds only what it names, changes no package of Colab's and asks for no restart,
and if it adds nothing when it runs again. What a notebook added is removed before the next one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools import repository
from tools.colab import place, trial

FOLDERS = ("notebooks", "exercises", "solutions")
PYTHON = "print(__import__('platform').python_version())"


def chosen(only: Sequence[str]) -> list[Path]:
    """The notebooks of the course: all, or those whose path holds one of the words.

    Raises:
        SystemExit: if a word fits none.
    """
    every = [path for folder in FOLDERS for path in sorted((place.ROOT / folder).glob("[0-9]*.ipynb"))]
    names = {path: path.relative_to(place.ROOT).as_posix() for path in every}
    for word in only:
        if not any(word in name for name in names.values()):
            raise SystemExit(f"no notebook has {word!r} in its name: {', '.join(names.values())}")
    return [path for path, name in names.items() if not only or any(word in name for word in only)]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the notebooks and print a table; 0 if all passed."""
    parser = argparse.ArgumentParser(prog="python -m tools.colab", description=__doc__)
    parser.add_argument("only", nargs="*", help="numbers or slugs")
    paths = chosen(parser.parse_args(argv).only)
    where = repository.read()
    with tempfile.TemporaryDirectory(prefix="attnlab-colab-", ignore_cleanup_errors=True) as home:
        python = place.make_environment(Path(home) / "environment")
        bare = place.make_repository(Path(home), where.branch)
        colab = trial.Colab(python, place.make_kernel(Path(home), python), place.redirect(bare, where.url))
        versions = place.installed(python)
        words = ", ".join(
            f"{name} {versions[name]}" for name in ("ipywidgets", "anywidget", "ipython", "numpy")
        )
        print(f"Python {place.say_and_run(python, '-c', PYTHON).strip()}, {words}, torch {versions['torch']}")
        print(f"{'notebook':<42}{'cells':>6}{'widgets':>9}{'s':>6}  result", flush=True)
        bad = 0
        for number, path in enumerate(paths):
            result = colab.try_notebook(path, Path(home) / f"{number:02}")
            bad += bool(result.complaints)
            name = path.relative_to(place.ROOT).as_posix()
            said = "; ".join(result.complaints) or f"passed, added {', '.join(result.added)}"
            print(f"{name:<42}{result.cells:>6}{result.widgets:>9}{result.seconds:>6.0f}  {said}", flush=True)
    print(f"\n{len(paths) - bad} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
