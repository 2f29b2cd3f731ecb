"""A pytest plugin that lets nbval compare what matters: ``-p tools.notebooks.nbval_plugin``.

nbval compares stderr, where progress bars and warnings go, and gives a cell's messages five seconds after its
end, too few on a busy machine. Kernels get the environment that the build gives them, and each notebook a
home of its own: what one keeps there, another must not find.
"""

import atexit
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from .execute import environment
from .files import digest

MESSAGE_TIMEOUT = 120
ROOT = Path(__file__).resolve().parents[2]
_HOMES = "ATTNLAB_HOMES"
_session = ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment of the kernels that this process starts."""
    if config.getoption("nbval", default=False):
        given = _session.enter_context(environment(ROOT))
        # A worker of pytest-xdist ends without a last hook. Registered after the folder was made, this runs
        # before the clean-up of the folder itself, which would complain.
        atexit.register(_session.close)
        os.environ.pop("MPLBACKEND", None)
        os.environ.update(given)
        os.environ[_HOMES] = given["ATTNLAB_HOME"]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: Any) -> None:
    """Give a notebook its own home, before its kernel starts."""
    if type(item).__name__ == "IPyNbCell":
        os.environ["ATTNLAB_HOME"] = str(Path(os.environ[_HOMES]) / digest(str(item.path)))


def pytest_itemcollected(item: Any) -> None:
    """Leave stderr out of the comparison, and wait long enough for messages."""
    if type(item).__name__ != "IPyNbCell":
        return
    item.output_timeout = MESSAGE_TIMEOUT
    if "stderr" not in item.parent.skip_compare:
        item.parent.skip_compare += ("stderr",)
