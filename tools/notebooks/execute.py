"""Run a notebook in a fresh kernel, and read what it claimed."""

import copy
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from . import nodes

CELL_TIMEOUT = 900
MESSAGE_TIMEOUT = 60
RECORDED = ("numpy", "torch")

# Runs after the last cell and is not kept. It writes to a file: a message may be lost on a busy machine.
HARVEST = """
def _harvest(place):
    import json, pathlib, platform, sys, time
    import attnlab
    from attnlab import claims
    package = pathlib.Path(attnlab.__file__).resolve().parent
    loaded = {pathlib.Path(path).resolve() for module in list(sys.modules.values())
              if (path := getattr(module, "__file__", None) or "").endswith(".py")}
    report = {
        "package": str(package),
        "values": claims.CLAIMS,
        "refused": claims.REFUSED,
        "modules": sorted(path.relative_to(package).as_posix() for path in loaded if package in path.parents),
        "versions": {"python": platform.python_version(),
                     **{name: str(sys.modules[name].__version__) for name in %r if name in sys.modules}},
        "cpu": time.process_time(),
    }
    try:
        status = pathlib.Path("/proc/self/status").read_text(encoding="utf-8")
        report["peak"] = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    except (OSError, IndexError):
        pass  # only Linux tells
    pathlib.Path(place).write_text(json.dumps(report), encoding="utf-8")
_harvest(%r)
"""


class Failed(Exception):
    """A cell failed: its place among the notebook's cells, its traceback and what to say."""

    def __init__(self, cell: int, count: int | None, traceback: str, what: str) -> None:
        super().__init__(what)
        self.cell, self.count, self.traceback, self.what = cell, count, traceback, what


@dataclass
class Run:
    """An executed notebook and what it reported; ``peak`` is its largest size in memory, 0 if not known."""

    notebook: NotebookNode
    values: dict[str, list[Any]]
    refused: dict[str, str]
    modules: list[str]
    versions: dict[str, str]
    package: Path
    home: Path
    cpu: float = 0.0
    wall: float = 0.0
    peak: int = 0
    notes: list[str] = field(default_factory=list)


@contextmanager
def environment(root: Path, shift: int = 0) -> Iterator[dict[str, str]]:
    """Give a kernel's environment: one thread, one order of sets, a home of its own, nobody's settings."""
    with tempfile.TemporaryDirectory(prefix="attnlab-", ignore_cleanup_errors=True) as home:
        env = {
            name: value for name, value in os.environ.items() if name not in ("MPLBACKEND", "PYTHONSTARTUP")
        }
        env.update(
            PYTHONHASHSEED="0",
            OMP_NUM_THREADS="1",
            MKL_NUM_THREADS="1",
            OPENBLAS_NUM_THREADS="1",
            SEED_SHIFT=str(shift),
            ATTNLAB_HOME=str(Path(home) / "attnlab"),
            IPYTHONDIR=str(Path(home) / "ipython"),
            PYTHONPATH=os.pathsep.join(filter(None, [str(root / "src"), os.environ.get("PYTHONPATH", "")])),
        )
        yield env


def run(
    notebook: NotebookNode, folder: Path, root: Path, shift: int = 0, timeout: float = CELL_TIMEOUT
) -> Run:
    """Run a copy of a notebook from ``folder``. Raises ``Failed``."""
    work = copy.deepcopy(notebook)
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with environment(root, shift) as env:
        report = Path(env["ATTNLAB_HOME"]).parent / "report.json"
        work.cells.append(nodes.new_cell("code", HARVEST % (RECORDED, str(report)), {}))
        begun = [0]
        client = NotebookClient(
            work,
            on_cell_start=lambda cell, cell_index: begun.append(cell_index),
            timeout=timeout,
            iopub_timeout=MESSAGE_TIMEOUT,
            raise_on_iopub_timeout=True,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": str(folder)}},
        )
        with (report.parent / "kernel.log").open("w", encoding="utf-8") as log:
            try:
                client.execute(env=env, stderr=log)
            except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                raise _failure(work, begun[-1], error) from None
        if not report.exists():
            raise Failed(begun[-2], None, "", "the kernel ended before it could report what was claimed")
        said = json.loads(report.read_text(encoding="utf-8"))
        home = Path(env["ATTNLAB_HOME"])
    work.cells.pop()
    package = Path(said.pop("package"))
    return Run(work, package=package, home=home, wall=time.monotonic() - began, **said)


def _failure(notebook: NotebookNode, place: int, error: Exception) -> Failed:
    """Say what went wrong in the cell at a place."""
    if isinstance(error, CellExecutionError):
        what = f"{error.ename}: {error.evalue}".strip().split("\n")[0]
        return Failed(place, notebook.cells[place].get("execution_count"), error.traceback, what)
    reason = "the cell ran out of time" if isinstance(error, CellTimeoutError) else "the kernel died"
    return Failed(place, None, "", reason)
