"""Inside of the sandbox: nothing of the grader is seen, nothing can be reached or changed."""

import contextlib
import os
import socket
import sys
import time
from pathlib import Path

import pytest

from attnlab.grading import sandbox
from attnlab.grading.budget import MIB, Limits
from attnlab.grading.course_copy import PACKAGE, chapter_modules, course_folder
from attnlab.grading.link import Link, Stopped
from attnlab.grading.meter import family, threads_of
from attnlab.grading.process import WorkerProcess

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is for Linux"),
]
LIMITS = Limits(
    cell_seconds=5,
    exercise_seconds=10,
    memory_bytes=300 * MIB,
    file_size_bytes=MIB,
    scratch_bytes=4 * MIB,
    processes=12,
    message_bytes=4 * MIB,
)
PROBE = """
def probe(text):
    space = {}
    try:
        exec(text, space)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return space.get("result")
"""
SECRET = "the-secret-of-the-grader"


class Inside:
    """Runs code in a sandbox; a worker that has ended is replaced."""

    def __init__(self, hidden=()):
        self.hidden, self.link = hidden, None

    def start(self):
        process = WorkerProcess(
            course_folder(chapter_modules(["from attnlab.checks.ch03_query_key_value.puzzle import x"])),
            LIMITS,
            until=time.monotonic() + 200,
            hidden=self.hidden,
        )
        self.link = Link(process)
        self.link.await_ready()
        run = {"op": "run", "set": "trial", "ours": [], "theirs": [[1, PROBE]], "script": False}
        self.link.request({**run, "answers": {"trial.probe": "probe"}, "skip": []})
        self.probe = self.link.request({"op": "answer", "set": "trial", "task": "trial.probe"})[1]

    def __call__(self, text):
        if self.link is None or self.link.process.over:
            self.start()
        self.link.begin(LIMITS.exercise_seconds)
        return self.probe(text)

    def close(self):
        if self.link is not None:
            self.link.process.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("class")
    (folder / "ben.ipynb").write_text(SECRET, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def inside(folder):
    os.environ["GRADER_SECRET"] = SECRET
    worker = Inside()
    yield worker
    worker.close()
    del os.environ["GRADER_SECRET"]


def test_it_is_another_machine_as_far_as_it_can_see(inside):
    seen = inside(
        "import os, socket\nresult = [os.getuid(), os.getpid() < 5, socket.gethostname(), os.getcwd()]"
    )
    assert seen[0] != 0 and seen[1:] == [True, "sandbox", "/tmp"]
    assert inside("import os\nresult = sorted(p for p in os.listdir('/proc') if p.isdigit())") == ["1", "2"]
    assert "Operation not permitted" in inside("import os\nos.setuid(0)") or os.geteuid() != 0


def test_the_environment_tells_nothing(inside):
    everything = inside("import os\nresult = str(dict(os.environ)) + open('/proc/self/environ').read()")
    assert SECRET not in everything and "GRADER" not in everything


@pytest.mark.parametrize("place", ["/root", "/home", "/etc/passwd", "/var", "/run", "/sys", "/mnt"])
def test_places_of_the_machine_are_empty_or_missing(inside, place):
    found = inside(
        f"import os\nresult = []\nfor path, _, files in os.walk({place!r}):\n"
        "    result += [path + '/' + name for name in files if 'site-packages' not in path]\n"
        "    if len(result) > 20: break\n"
        f"result += [{place!r}] if os.path.isfile({place!r}) else []\n"
    )
    pythons = tuple(os.path.realpath(one) for one in (sys.prefix, sys.base_prefix))
    assert [path for path in found if not path.startswith(pythons)] == []


def test_other_submissions_and_the_repository_are_not_there(inside, folder):
    assert "FileNotFoundError" in inside(f"open({str(folder / 'ben.ipynb')!r})")
    for part in ("src", "solutions", "exercises", "tests", "book"):
        path = Path(__file__).resolve().parents[2] / part
        assert inside(f"import os\nresult = os.path.exists({str(path)!r})") is False


def test_no_check_and_no_reference_is_there(inside):
    assert "ModuleNotFoundError" in inside("import attnlab.checks.engine")
    assert "ModuleNotFoundError" in inside("import attnlab.checks.ch03_query_key_value.references")
    assert "ModuleNotFoundError" in inside("import attnlab.grading")
    assert inside("import attnlab.checks.ch03_query_key_value as m\nresult = dir(m)").count("ATTENTION") == 0
    assert inside("from attnlab.checks.ch03_query_key_value.puzzle import colleague_weights\nresult = 1") == 1
    found = inside(
        "import os, sys\nresult = []\n"
        "for place in sys.path:\n"
        "    for path, _, files in os.walk(place):\n"
        "        names = ('references.py', 'catalogue.py', 'verdict.py')\n"
        "        result += [path + '/' + f for f in files if f in names and 'attnlab' in path]\n"
    )
    assert found == []


def test_the_library_and_the_packages_are_there(inside):
    assert inside("import torch, numpy, attnlab.attention, attnlab.tasks\nresult = 1") == 1
    assert (
        inside("from attnlab import plots, widgets, seed\nresult = plots.lines([1], {}) is not None") is True
    )


@pytest.mark.parametrize(
    "place", ["/x", "/usr/x", "/course/x", "/course/attnlab/attention.py", "/dev/x", "/proc/x"]
)
def test_nothing_can_be_written_but_scratch(inside, place):
    assert "Error" in inside(f"open({place!r}, 'w')")
    assert inside("open('/tmp/x', 'w').write('a')\nresult = 1") == 1


def test_scratch_is_small(inside):
    fill = "for k in range(99):\n    with open('/{}/f%d' % k, 'wb') as f: f.write(b'0' * 900_000)\n"
    for place in ("tmp", "dev/shm"):
        assert "No space left" in inside(fill.format(place))
    inside("import os\nfor p in ('/tmp', '/dev/shm'):\n    for f in os.listdir(p): os.unlink(p + '/' + f)")
    assert "File too large" in inside("with open('/tmp/big', 'wb') as f: f.write(b'0' * 1_500_000)")


def test_there_is_no_network(inside):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        assert "Error" in inside(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)")
        with pytest.raises(TimeoutError):
            server.accept()
    assert "Error" in inside("import socket\nsocket.create_connection(('192.0.2.1', 80), 1)")
    assert "rror" in inside("import socket\nsocket.getaddrinfo('example.org', 80)")


def test_the_grader_cannot_be_signalled_or_traced(inside):
    assert "Error" in inside(f"import os\nos.kill({os.getpid()}, 9)")
    assert "Error" in inside(f"import os\nos.kill({os.getppid()}, 9)")


def test_new_worlds_cannot_be_made(inside):
    code = "import ctypes\nresult = ctypes.CDLL(None, use_errno=True).{}"
    assert inside(code.format("mount(b'none', b'/tmp', b'tmpfs', 0, None)")) == -1
    assert inside(code.format("chroot(b'/tmp')")) == -1
    assert inside(code.format("sethostname(b'x', 1)")) == -1


def test_processes_are_limited(inside):
    limit = inside("import resource\nresult = resource.getrlimit(resource.RLIMIT_NPROC)")
    assert limit == (LIMITS.processes, LIMITS.processes) and inside("import os\nresult = os.getuid()") != 0
    # Small processes, so that they meet the limit of their number before the one of memory.
    command = "[sys.executable, '-S', '-c', 'import time; time.sleep(60)']"
    many = f"import subprocess, sys\nfor _ in range(99):\n    subprocess.Popen({command})"
    assert "BlockingIOError" in inside(many)
    assert sum(threads_of(process) for process in family(inside.link.process.number())) == LIMITS.processes
    inside.close()


def test_a_bomb_of_processes_does_no_harm(inside):
    with contextlib.suppress(Stopped):  # its processes speak all at once: which of them ends it is chance
        assert "Error" in str(inside("import os\nwhile True:\n    os.fork()"))
    inside.close()
    assert inside("result = 1") == 1


def _refused(inside, text):
    """Whether something fails, or ends the worker for the processes or the memory that it takes."""
    try:
        return "Error" in str(inside(text))
    except Stopped:
        return "processes" in inside.link.reason or "memory" in inside.link.reason


def test_memory_is_limited(inside):
    for text in ("x = bytearray(900 << 20)", "import torch\nx = torch.ones(900 << 18)"):
        assert _refused(inside, text)
    assert inside("result = 1") == 1


def test_memory_of_children_counts_too(inside):
    grow = (
        "import os, time\nfor _ in range(4):\n"
        "    if os.fork() == 0:\n        x = bytearray(140 << 20)\n        time.sleep(30)\n"
        "time.sleep(30)"
    )
    with pytest.raises(Stopped):
        inside(grow)
    assert "memory" in inside.link.reason or "processes" in inside.link.reason


def test_a_returned_giant_is_refused(inside):
    with pytest.raises(ValueError, match="too large"):
        inside("result = b'0' * (5 << 20)")


def test_a_loop_is_stopped_and_the_worker_lives(inside):
    inside("result = 1")
    process = inside.link.process
    inside.link.begin(0.5)
    with pytest.raises(Stopped):
        inside.probe("while True: pass")
    assert "endless loop" in inside.link.reason and not process.over
    assert inside("result = 2") == 2 and inside.link.process is process


def test_a_loop_that_does_not_listen_ends_the_worker(inside):
    inside("result = 1")
    inside.link.begin(0.5)
    with pytest.raises(Stopped):
        inside.probe("import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\nwhile True: pass")
    assert inside.link.process.over


def test_sleep_counts_as_time(inside):
    inside("result = 1")
    inside.link.begin(0.5)
    with pytest.raises(Stopped):
        inside.probe("import time\ntime.sleep(100)")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import os\nos._exit(0)", "ended its own process"),
        ("import ctypes\nctypes.string_at(0)", "crashed"),
        (
            "import os\nfor fd in range(256):\n    try: os.write(fd, b'x' * 100)\n    except OSError: pass",
            "disturbed",
        ),
        ("import os\nos.closerange(3, 256)", "ended its own process"),
    ],
)
def test_the_end_of_a_worker_is_told(inside, text, why):
    with pytest.raises(Stopped):
        inside(text)
    assert why in inside.link.reason
    assert inside("result = 3") == 3


def test_nothing_is_left_running(inside):
    inside(
        "import threading, time, atexit\nthreading.Thread(target=time.sleep, args=(99,)).start()\nresult = 1"
    )
    process = inside.link.process
    number = process.number()
    inside.link.process.close()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{number}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{number}").exists()
    assert process.outer.poll() is not None


def test_a_hidden_file_in_sight_is_covered(tmp_path):
    beside = Path(sys.prefix) / f"hidden_{os.getpid()}.py"
    beside.write_text(SECRET, encoding="utf-8")
    worker = Inside(hidden=[beside])
    try:
        assert SECRET not in str(worker(f"result = open({str(beside)!r}).read()"))
    finally:
        worker.close()
        beside.unlink()


def test_without_bubblewrap_it_says_what_to_do(monkeypatch):
    sandbox._trouble.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(sandbox.NoSandbox, match="bubblewrap.*is not installed.*--unsafe"):
        sandbox.require_sandbox()
    sandbox._trouble.cache_clear()
    monkeypatch.undo()
    sandbox.require_sandbox()


def test_the_copy_of_the_course_has_no_check_in_it():
    folder = course_folder()
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}
    assert {name for name in names if "checks/" in name} == {
        "attnlab/checks/__init__.py",
        "attnlab/checks/guard.py",
    }
    assert not any("grading" in name for name in names) and "attnlab/attention.py" in names
    library = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")}
    assert {name.split("/")[1] for name in names if name.startswith("attnlab/")} == library - {
        "grading",
        "cli.py",
    }
