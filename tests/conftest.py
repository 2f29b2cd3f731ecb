"""What all tests share: no test touches the learner's own progress."""

import pytest


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory, monkeypatch):
    """Each test keeps progress in a folder of its own."""
    monkeypatch.setenv("ATTNLAB_HOME", str(tmp_path_factory.mktemp("home")))
