"""One notebook in the environment that stands for Colab: run it, run its set-up cell again, and judge."""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from tools.colab import place
from tools.notebooks import nodes, setup_cell

TIMEOUT = 900  # seconds for one cell, on a machine that does other things as well
VIEW = "application/vnd.jupyter.widget-view+json"
# IPython says it after each %pip; Colab's own %pip only where a package that is already imported has changed.
NOTE = "Note: you may need to restart the kernel to use updated packages.\n"
# pip says it where the settings of a machine name a folder of packages that lacks one.
OF_THIS_MACHINE = re.compile(r"WARNING: Location '[^']*' is ignored: it is neither a file nor a directory\.")
COLOUR = re.compile(r"\x1b\[\d+m")
# Colab's kernel has imported this before the first cell.
BEFORE = "import google.colab.output"
AFTER = "print(google.colab.output.asked)"


@dataclass
class Result:
    """What became of a notebook: how many code cells ran, widgets shown, what was added, what was wrong."""

    cells: int = 0
    widgets: int = 0
    seconds: float = 0.0
    added: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def shown(cell: NotebookNode) -> str:
    """What a cell printed."""
    return "".join(str(output.text) for output in cell.outputs if output.output_type == "stream")


def loud(said: str) -> str:
    """What the set-up cell said that a reader in Colab would see."""
    return OF_THIS_MACHINE.sub("", COLOUR.sub("", said)).replace(NOTE, "").strip()


def views(notebook: NotebookNode) -> int:
    """How many widgets a notebook shows."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return sum(VIEW in output.get("data", {}) for cell in cells for output in cell.outputs)


@dataclass(frozen=True)
class Colab:
    """The environment: its interpreter, the folder of kernels, and what Git is told."""

    python: Path
    kernels: Path
    git: dict[str, str]

    def try_notebook(self, path: Path, folder: Path) -> Result:
        """Run a copy of a notebook that lies alone in ``folder``, then take away what it installed."""
        folder.mkdir()
        shutil.copyfile(path, folder / path.name)
        before = place.installed(self.python)
        began = time.monotonic()
        notebook = nodes.loads((folder / path.name).read_text(encoding="utf-8"))
        result = self._run(notebook, folder, setup_cell.identifier(path.stem))
        result.seconds = time.monotonic() - began
        after = place.installed(self.python)
        changed = sorted(name for name, version in before.items() if after.get(name) != version)
        result.added = sorted(after.keys() - before.keys())
        if changed:
            result.complaints.append(f"changed {', '.join(changed)}")
        expected = sorted(("attnlab", *setup_cell.NOT_IN_COLAB))
        if result.added != expected and not result.complaints:
            result.complaints.append(f"added {result.added}, expected {expected}")
        if result.added:
            place.say_and_run(self.python, "-m", "pip", "uninstall", "--quiet", "--yes", *result.added)
        return result

    def _run(self, notebook: NotebookNode, folder: Path, setup: str) -> Result:
        """Run all cells, the set-up cell once more, and look at what they say."""
        first = next(cell for cell in notebook.cells if cell.id == setup)
        before, again, asked = (
            nodes.new_cell("code", source, {}) for source in (BEFORE, first.source, AFTER)
        )
        result = Result(cells=sum(cell.cell_type == "code" for cell in notebook.cells))
        notebook.cells = [before, *notebook.cells, again, asked]
        manager = AsyncKernelManager(
            kernel_name="colab", kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(self.kernels)])
        )
        resources = {"metadata": {"path": str(folder)}}
        client = NotebookClient(
            notebook, km=manager, timeout=TIMEOUT, resources=resources, record_timing=False
        )
        client.owns_km = True  # so that it ends the kernel
        try:
            with (folder.parent / f"{folder.name}.log").open("w", encoding="utf-8") as log:
                client.execute(env=self._variables(folder), stderr=log)
        except CellExecutionError as error:
            result.complaints.append(f"{error.ename}: {error.evalue}".split("\n")[0])
            return result
        except (CellTimeoutError, DeadKernelError) as error:
            result.complaints.append(str(error).split("\n")[0])
            return result
        result.widgets = views(notebook)
        if loud(shown(first)):
            result.complaints.append(f"the set-up cell said {loud(shown(first))!r}")
        if again.outputs:
            result.complaints.append(f"the set-up cell did something again: {shown(again)!r}")
        if bool(result.widgets) != bool(int(shown(asked))):
            result.complaints.append("a widget was shown and Colab's widget manager was not asked for")
        return result

    def _variables(self, folder: Path) -> dict[str, str]:
        """One thread, a home of its own, nobody's settings, and the course's address on this machine."""
        kept = {k: v for k, v in os.environ.items() if k not in ("MPLBACKEND", "PYTHONPATH", "PYTHONSTARTUP")}
        own = {"ATTNLAB_HOME": f"{folder}-home", "IPYTHONDIR": f"{folder}-ipython", "OMP_NUM_THREADS": "1"}
        return {**kept, **own, **self.git}
