"""A rehearsal: other seeds, no network, strict encodings, measured memory, and nothing written."""

from dataclasses import replace

import pytest

from tools import course
from tools.notebooks import execute, rehearsal

HEAD = "book/lessons/01_back.py"


@pytest.fixture
def in_kernel(lab):
    """The small book, its lesson's last code cell replaced; runs go to a real kernel."""
    return lambda code: lab.edit('print("later")', code)("rehearse", "01")


def test_claims_are_judged_with_shifted_seeds_and_nothing_is_written(lab, quick):
    before = lab.snapshot()
    assert lab("rehearse") == [] and quick == ["notebooks", "solutions"]
    assert lab.said[0].startswith(f"{HEAD}: seed shift 1, ") and "2 claims hold" in lab.said[0]
    assert lab("rehearse", "01", "--shift", "2") == [] and "seed shift 2" in lab.said[0]
    assert lab.snapshot() == before


def test_a_claim_that_holds_for_one_seed_only_fails(lab, quick):
    lab.edit("at_least=0.1, at_most=0.9", "at_least=0.1, at_most=0.1752")
    assert lab("rehearse", "01", "--shift", "0") == []
    (complaint,) = lab("rehearse", "01")
    assert complaint.startswith(f"{HEAD}:16: claim 'score' is ") and "at seed shift 1" in complaint


def test_all_notebooks_are_rehearsed_though_one_fails(lab, quick):
    lab.edit("at_most=0.9", "at_most=0.1")
    assert len(lab("rehearse")) == 1 and quick == ["notebooks", "solutions"]


def test_too_much_memory_fails(lab, quick, monkeypatch):
    run = execute.run
    for peak, complaints in ((rehearsal.MEMORY, 0), (rehearsal.MEMORY + 1, 2)):
        monkeypatch.setattr(execute, "run", lambda *a, peak=peak, **k: replace(run(*a, **k), peak=peak))
        assert len(lab("rehearse", "01")) == complaints


def test_memory_is_measured(in_kernel, lab):
    assert in_kernel("block = b'x' * 300_000_000") == []
    size = float(lab.said[0].partition("at most ")[2].split(" GiB")[0])
    assert 0.3 < size < 1.5


@pytest.mark.parametrize(
    "code",
    [
        "import urllib.request\nurllib.request.urlopen('http://example.org/')",
        "import socket\nsocket.create_connection(('192.0.2.1', 80))",
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
    ],
)
def test_the_network_is_cut_off(in_kernel, code):
    (complaint,) = in_kernel(code)
    assert complaint.startswith(f"{HEAD}:21: ") and "a rehearsal has no network" in complaint


def test_this_machine_may_still_be_asked(in_kernel):
    code = (
        "import socket, threading\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "line = socket.create_connection(server.getsockname())"
    )
    assert in_kernel(code) == []


def test_a_file_opened_without_an_encoding_is_found(in_kernel, lab):
    (complaint,) = in_kernel("import os\nopen(os.devnull).close()")
    assert "a file is opened without an encoding" in complaint and "EncodingWarning" in complaint


def test_so_is_one_that_the_library_opens(in_kernel, lab):
    lab.write(
        "src/attnlab/reader.py",
        "import os\n\n\ndef read():\n    with open(os.devnull) as file:\n        file.read()\n",
    )
    (complaint,) = in_kernel("from attnlab import reader\nreader.read()")
    assert "src/attnlab/reader.py:5" in complaint


def test_make_passes_the_shift_on(monkeypatch):
    said = []
    monkeypatch.setattr(course, "environment", lambda pins: None)
    monkeypatch.setattr(course, "run", lambda *command, **_: said.append([str(part) for part in command[1:]]))
    monkeypatch.setenv("SEED_SHIFT", "1")
    course.notebooks(["03"])
    assert said == [["-m", "tools.notebooks", "rehearse", "03", "--shift", "1"]]
    monkeypatch.setenv("SEED_SHIFT", "0")
    course.notebooks(["03"])
    assert said[1] == ["-m", "tools.notebooks", "build", "03"]
