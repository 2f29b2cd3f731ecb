"""What all tests share: no test touches the learner's own progress, and which tests stay on one worker."""

import re

import pytest


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    """Each test keeps progress in a folder of its own."""
    monkeypatch.setenv("ATTNLAB_HOME", str(tmp_path_factory.mktemp("home")))


def together(nodeid: str) -> str:
    """Tests with the same text stay on one worker: those of a file, or of an exercise in the catalogue."""
    file, _, test = nodeid.partition("::")
    task = re.search(r"\[([a-z_]+\.\w+)", test) if file.endswith("checks/test_catalogue.py") else None
    return f"{file} {task[1]}" if task else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Share the tests among workers as ``together`` says."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return together(nodeid)

    return Together(config, log)
