"""Make what Gradescope and GitHub need to run this grader: ``python -m attnlab.grading.archive``.

``gradescope OUT.zip`` makes the archive that is uploaded as an autograder: the course's code, its exercises,
your hidden cases and points, and the two scripts that Gradescope starts.
``github FOLDER`` writes the workflow into the repository that your students copy.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

import torch

from .batch import chosen_tasks
from .hidden import load_hidden
from .scheme_file import read_scheme

__all__ = ["gradescope_archive", "github_workflow", "main"]

_PACKAGE = Path(__file__).resolve().parents[1]
_CARRIED = ("pyproject.toml", "README.md", "LICENSE")
_SOURCE = "/autograder/source"
_WHEN = (1980, 1, 1, 0, 0, 0)  # the same archive from the same files


def main(argv: Sequence[str] | None = None) -> int:
    """Make an archive or a workflow; returns the exit status: 0 done, 1 not done."""
    arguments = _parser().parse_args(argv)
    try:
        chosen_tasks(arguments.only or ())
        if arguments.service == "github":
            path = github_workflow(arguments.target, arguments.only or ())
        else:
            path = gradescope_archive(
                arguments.target,
                arguments.only or (),
                hidden=arguments.hidden,
                points=arguments.points,
                exercises=arguments.exercises,
                seed=arguments.seed,
            )
    except (ValueError, OSError) as error:
        print(f"attnlab: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


def github_workflow(folder: Path, only: Sequence[str] = ()) -> Path:
    """Write ``.github/workflows/classroom.yml`` below ``folder``; returns where.

    Args:
        folder: the repository that students copy.
        only: exercises or lessons; all that their notebooks hold where it is empty.
    """
    path = folder / ".github" / "workflows" / "classroom.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_template("classroom.yml", _only(only)), encoding="utf-8", newline="\n")
    return path


def gradescope_archive(
    target: Path,
    only: Sequence[str] = (),
    *,
    hidden: Path | None = None,
    points: Path | None = None,
    exercises: Path | None = None,
    seed: int | None = None,
) -> Path:
    """Write the archive for Gradescope; returns where.

    Args:
        target: the zip file.
        only: exercises or lessons; all that a notebook holds where it is empty.
        hidden: a file of hidden cases.
        points: points of your own; dates are Gradescope's.
        exercises: the exercise notebooks, where they are not the course's.
        seed: of the checks' inputs; another one at each grading where None.
    Raises:
        ValueError: if a file cannot be used, or this is no checkout of the course.
    """
    root = _PACKAGE.parents[1]
    if not (root / "pyproject.toml").is_file():
        raise ValueError(f"{root}: run this in a checkout of the course, where pyproject.toml is")
    options, carried = _only(only), []
    if hidden is not None:
        load_hidden(hidden)
        carried.append(("hidden_cases.py", hidden))
        options += ["--hidden", f"{_SOURCE}/hidden_cases.py"]
    if points is not None:
        read_scheme(points)
        carried.append((f"points{points.suffix.lower()}", points))
        options += ["--points", f"{_SOURCE}/points{points.suffix.lower()}"]
    if seed is not None:
        options += ["--seed", str(seed)]
    options += ["--exercises", f"{_SOURCE}/exercises"]
    notebooks = sorted((exercises or root / "exercises").glob("*.ipynb"))
    if not notebooks:
        raise ValueError(f"{exercises or root / 'exercises'}: there is no exercise notebook")
    carried += [(f"exercises/{path.name}", path) for path in notebooks]
    carried += [("requirements.txt", root / "requirements.txt"), *_course(root)]
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for script in ("setup.sh", "run_autograder"):
            _add(archive, script, _template(script, options).encode(), executable=True)
        for name, path in carried:
            _add(archive, name, path.read_bytes())
    return target


def _course(root: Path) -> Iterator[tuple[str, Path]]:
    for name in _CARRIED:
        yield f"course/{name}", root / name
    for path in sorted(_PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"course/src/attnlab/{path.relative_to(_PACKAGE).as_posix()}", path


def _add(archive: zipfile.ZipFile, name: str, content: bytes, *, executable: bool = False) -> None:
    member = zipfile.ZipInfo(name, _WHEN)
    member.external_attr = (0o100755 if executable else 0o100644) << 16
    member.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(member, content)


def _template(name: str, options: Sequence[str]) -> str:
    text = (resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")
    return text.replace("@OPTIONS@", shlex.join(options)).replace("@TORCH@", torch.__version__.split("+")[0])


def _only(names: Sequence[str]) -> list[str]:
    return ["--only", *names] if names else []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m attnlab.grading.archive", description=__doc__)
    services = parser.add_subparsers(dest="service", required=True)
    gradescope = services.add_parser("gradescope", help="the archive of a Gradescope autograder")
    gradescope.add_argument("target", type=Path, help="the zip file to write")
    gradescope.add_argument("--hidden", type=Path, metavar="FILE", help="a Python file of hidden cases")
    gradescope.add_argument("--points", type=Path, metavar="FILE", help="points of your own, in TOML or YAML")
    gradescope.add_argument("--exercises", type=Path, metavar="DIR", help="your exercise notebooks")
    gradescope.add_argument("--seed", type=int, metavar="N", help="seed of the checks' inputs")
    github = services.add_parser("github", help="a workflow for the repository that students copy")
    github.add_argument("target", type=Path, help="the repository's folder")
    for service in (gradescope, github):
        service.add_argument("--only", nargs="+", metavar="NAME", help="exercises or lessons to grade")
    return parser


if __name__ == "__main__":
    sys.exit(main())
