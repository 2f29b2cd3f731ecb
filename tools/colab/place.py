"""What stands for Colab: an environment with its versions, its ``google.colab``, and the course's repository.

The repository is a copy of the files as they lie in the working tree, whatever is committed. Git is told to
take it where a notebook names the course's own address, so that each notebook runs as it is.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = Path(__file__).with_name("versions.txt")
TORCH = ("torch", "torchgen", "functorch", "torch-*.dist-info")
# The part of ``google.colab`` that anywidget looks for; it counts how often it is asked.
OUTPUT = """\
from types import SimpleNamespace

_widgets = SimpleNamespace(_installed_url=None)
asked = 0


def enable_custom_widget_manager():
    global asked
    asked += 1
    _widgets._installed_url = "https://colab.example/manager.js"
"""


def say_and_run(*command: str | Path, **options: object) -> str:
    """Run a program and return what it printed.

    Raises:
        RuntimeError: if it fails; what it printed is the message.
    """
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed (exit {done.returncode}):\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def python_of(environment: Path) -> Path:
    """The interpreter of an environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make_environment(folder: Path) -> Path:
    """Make a fresh environment with Colab's versions and this machine's torch; return its interpreter."""
    venv.create(folder, with_pip=True)
    python = python_of(folder)
    quiet = ("--quiet", "--disable-pip-version-check", "--no-warn-script-location")
    say_and_run(python, "-m", "pip", "install", *quiet, "-r", VERSIONS)
    packages = Path(
        say_and_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    share_torch(packages)
    colab = packages / "google" / "colab"
    colab.mkdir(parents=True)
    (colab / "__init__.py").touch()
    (colab / "output.py").write_text(OUTPUT, encoding="utf-8")
    return python


def share_torch(packages: Path) -> None:
    """Lay this machine's torch, and nothing else of its environment, on the path of another environment."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise RuntimeError("torch is not installed here: run `make test` first")
    here = Path(spec.origin).parents[1]
    shelf = packages / "torch_of_this_machine"
    shelf.mkdir()
    for pattern in TORCH:
        for found in here.glob(pattern):
            (shelf / found.name).symlink_to(found)
    (packages / "torch_of_this_machine.pth").write_text(f"{shelf}\n", encoding="utf-8")


def make_repository(folder: Path, branch: str) -> Path:
    """Put the working tree's files, those that Git would add, into a bare repository; return its path."""
    listed = say_and_run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    names = [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    bare = folder / "course.git"
    say_and_run("git", "init", "--quiet", "--bare", f"--initial-branch={branch}", bare)
    git = ("git", f"--git-dir={bare}", f"--work-tree={ROOT}")
    who = ("-c", "user.name=course", "-c", "user.email=course@localhost")
    say_and_run(
        *git, "add", "--pathspec-from-file=-", "--pathspec-file-nul", input="\0".join(names), cwd=ROOT
    )
    say_and_run(*git, *who, "commit", "--quiet", "-m", "The working tree", cwd=ROOT)
    return bare


def redirect(bare: Path, address: str) -> dict[str, str]:
    """The variables that let Git take a repository on this machine for the one at an address."""
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{bare.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": address,
    }


def make_kernel(folder: Path, python: Path) -> Path:
    """Write the description of a kernel in an environment; return the folder of such descriptions."""
    kernels = folder / "kernels"
    (kernels / "colab").mkdir(parents=True)
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "Colab", "language": "python"}
    (kernels / "colab" / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return kernels


def installed(python: Path) -> dict[str, str]:
    """Name to version of everything in an environment."""
    listed = say_and_run(python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check")
    return {entry["name"].lower(): entry["version"] for entry in json.loads(listed)}
