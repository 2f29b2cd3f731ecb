"""A rehearsal: a notebook is run as a reader's machine might run it, and nothing is written.

Seeds are shifted, the network is cut off, Python complains about files opened without an encoding, and the
memory is measured. Every claim must stay within its bounds.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nbformat import NotebookNode

from . import setup_cell
from .build import Maker
from .execute import Run
from .statements import Statements

MEMORY = 4 * 2**30
WARNING = "EncodingWarning"
# Code in a cell stands in a file of the kernel's; the ``open`` of a cell is IPython's.
CELLS = ("ipykernel_", "interactiveshell.py")

# An audit hook cannot be taken back by what runs after it, and sees every socket that Python code opens. The
# kernel's own lines to this process are local.
NO_NETWORK = """
def _cut_off():
    import sys
    def guard(event, arguments):
        if event == "socket.getaddrinfo":
            host = arguments[0]
        elif event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
            host = arguments[1][0]
        else:
            return
        if isinstance(host, bytes):
            host = host.decode()
        if host not in (None, "", "localhost", "127.0.0.1", "::1"):
            raise OSError(f"a rehearsal has no network: asked for {host}")
    sys.addaudithook(guard)
_cut_off()
"""


def rehearse(maker: Maker, statements: Statements, shift: int, say: Callable[[str], None]) -> None:
    """Run the notebook that holds a manuscript's claims. Raises ``Problems``."""
    manuscript = statements.manuscript
    variant = "lesson" if manuscript.kind == "lesson" else "solution"
    bare = maker.bare(statements, variant)
    first = next(cell for cell in bare.cells if cell.id == setup_cell.identifier(manuscript.stem))
    first.source = f"{NO_NETWORK}\n{first.source}"
    with _strict_encodings():
        run = maker.run(statements, variant, bare, shift)
    for name, entries in run.values.items():
        statements.judge(name, entries[0], f" at seed shift {shift}")
    for what in _complaints(run):
        manuscript.complaints.add(1, what)
    manuscript.complaints.stop()
    memory = f", at most {run.peak / 2**30:.2f} GiB" if run.peak else ""
    say(f"{manuscript.where}: seed shift {shift}, {run.cpu:.1f} CPU s{memory}: {len(run.values)} claims hold")


def _complaints(run: Run) -> Iterator[str]:
    if run.peak > MEMORY:
        yield f"took {run.peak / 2**30:.2f} GiB of memory; {MEMORY / 2**30:.0f} must be enough"
    yield from encoding_warnings(run.notebook, str(run.package))


def encoding_warnings(notebook: NotebookNode, package: str) -> Iterator[str]:
    """Yield the warnings about encodings that this course's own code caused, not those of other packages."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type != "stream" or output.name != "stderr":
                continue
            for line in output.text.split("\n"):
                if WARNING in line and any(ours in line for ours in (package, *CELLS)):
                    yield f"a file is opened without an encoding: {line.strip()}"


@contextmanager
def _strict_encodings() -> Iterator[None]:
    """Let kernels that start here warn of a missing encoding."""
    before = os.environ.get("PYTHONWARNDEFAULTENCODING")
    os.environ["PYTHONWARNDEFAULTENCODING"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNDEFAULTENCODING"]
        else:
            os.environ["PYTHONWARNDEFAULTENCODING"] = before
