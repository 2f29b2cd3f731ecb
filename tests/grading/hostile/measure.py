"""Grade the hostile collection, and count what it reached: nothing, if the sandbox holds.

``python -m tests.grading.hostile`` prints the figures.
"""

import contextlib
import secrets
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from attnlab.grading.batch import Settings, columns_of, grade_all, mark_all, settings_as_texts
from attnlab.grading.budget import Limits
from attnlab.grading.collection import collect
from attnlab.grading.feedback import write_feedback
from attnlab.grading.marks import Mark
from attnlab.grading.resume import Store
from attnlab.grading.scheme import Scheme
from attnlab.grading.summary import write_summary
from attnlab.grading.table import write_marks

from . import cells, cheating, escaping, files, loops, resources  # noqa: F401 - they fill the collection
from .notebook import COLLECTION, EXERCISES, TASKS, Hostile, Notebook, Targets

# Loops end by the time that they compute; the clock alone would rob honest work on a busy machine.
LIMITS = Limits(
    cell_seconds=1.0,
    exercise_seconds=3.0,
    total_seconds=400.0,
    cpu_seconds=60,
    memory_bytes=400 << 20,
)
HIDDEN = """
from attnlab.checks.ch03_query_key_value import references
from attnlab.checks.engine import expect_close, normal
from attnlab.grading.hidden import hidden_case

@hidden_case("query_key_value.attend", "{word}", points=1)
def _(answer, g):
    inputs = (normal(g, 3, 4, 6), *(normal(g, 6, 5) for _ in range(3)))
    expect_close(answer(*inputs), references.attend(*inputs), "{word}")
"""
HONEST = "honest.ipynb"


@dataclass
class Figures:
    """What was counted.

    Attributes:
        submissions: how many were handed in, the honest one not counted.
        escapes: what was reached that should not have been, in words.
        lost_rows: submissions without a row of their own.
        gained: submissions with points that they did not earn.
        robbed: honest work that lost points.
        seconds: for all, by the clock.
        marks: by name, to look at.
    """

    submissions: int = 0
    escapes: list[str] = field(default_factory=list)
    lost_rows: list[str] = field(default_factory=list)
    gained: list[str] = field(default_factory=list)
    robbed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    marks: dict[str, Mark] = field(default_factory=dict)


def measure(
    hostile: Sequence[Hostile] = (), *, jobs: int = 2, told: Callable[[str], None] = lambda line: None
) -> Figures:
    """Hand in a collection, grade it, and count.

    hostile: the whole collection where it is empty. jobs: how many are graded at a time. told: gets a line
    for each submission.
    """
    hostile = list(hostile) or COLLECTION
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attnlab-hostile-") as name, _Listener() as listener:
        folder = Path(name)
        targets = _targets(folder, listener)
        source = folder / "submissions"
        source.mkdir()
        for one in hostile:
            one.make(source, targets)
        Notebook().save(source / HONEST)
        marks = _grade(folder, source, targets, jobs, told)
        figures = Figures(len(hostile), seconds=time.monotonic() - began)
        figures.marks = {mark.submission.name: mark for mark in marks}
        figures.escapes = [
            *_escapes(folder, targets),
            *(["the listener was called"] if listener.called else []),
        ]
    _count(figures, hostile)
    return figures


def _targets(folder: Path, listener: "_Listener") -> Targets:
    word = secrets.token_hex(12)
    private = folder / "private"
    private.mkdir(mode=0o755)
    (private / "secret.ipynb").write_text(f"secret-{word}", encoding="utf-8")
    (private / "canary.txt").write_text("alive", encoding="utf-8")
    # Open to everybody, so that nothing but the sandbox keeps a submission away.
    (private / "canary.txt").chmod(0o666)
    (private / "hidden.py").write_text(HIDDEN.format(word=f"kept-{word}"), encoding="utf-8")
    outside = folder / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    folder.chmod(0o755)
    return Targets(private / "secret.ipynb", private / "canary.txt", listener.port, f"marker-{word}", outside)


def _grade(
    folder: Path, source: Path, targets: Targets, jobs: int, told: Callable[[str], None]
) -> list[Mark]:
    settings = Settings(TASKS, 0, targets.secret.parent / "hidden.py", EXERCISES, jobs, LIMITS)
    submissions = collect(source, folder / "scratch" / "unpacked")
    store = Store(folder / "results", settings_as_texts(settings))
    results = grade_all(submissions, settings, store, told=lambda result, before: told(_line(result)))
    columns = columns_of(results.values(), settings, Scheme())
    marks = mark_all(submissions, results, Scheme(), columns)
    pages = {mark.submission.name: write_feedback(folder / "feedback", mark) for mark in marks}
    write_marks(folder / "marks.csv", marks, list(columns), pages)
    write_summary(folder / "summary.html", marks)
    return marks


def _line(result) -> str:
    reached = " ".join(f"{exercise.points}/{exercise.max_points}" for exercise in result.exercises)
    return f"{result.name}: {result.status} {reached} {result.reason} ({result.seconds:.1f} s)"


def _escapes(folder: Path, targets: Targets) -> Iterator[str]:
    word = targets.marker.removeprefix("marker-")
    if (
        targets.canary.read_text(encoding="utf-8") != "alive"
        or targets.canary.stat().st_mode & 0o777 != 0o666
    ):
        yield "the canary was changed"
    if any(targets.outside.iterdir()) or (folder.parent / "outside").exists():
        yield "a file was written outside"
    told = [*(folder / "feedback").iterdir(), folder / "marks.csv", folder / "summary.html"]
    for path in told:
        text = path.read_text(encoding="utf-8")
        for what in (f"secret-{word}", f"kept-{word}"):
            if what in text:
                yield f"{what.split('-')[0]} is told in {path.name}"
    for path in (folder / "results").iterdir():
        if f"secret-{word}" in path.read_text(encoding="utf-8"):
            yield f"the secret stands in {path.name}"
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False).stdout
    if targets.marker in listing:
        yield "a process was left behind"


def _count(figures: Figures, hostile: Sequence[Hostile]) -> None:
    honest = figures.marks[HONEST]
    full = {mark.result.task_id: mark.max_points for mark in honest.exercises}
    if honest.points != sum(full.values(), Fraction(0)):
        figures.robbed.append(f"{HONEST}: {honest.points} of {sum(full.values())}")
    for one in hostile:
        mark = figures.marks.get(one.name)
        if mark is None:
            figures.lost_rows.append(one.name)
            continue
        for exercise in mark.exercises:
            task_id = exercise.result.task_id
            where = f"{one.name}, {task_id}: {exercise.points} of {full[task_id]}"
            if task_id in one.loses:
                figures.gained += [where] if exercise.points else []
            elif exercise.points != full[task_id] and task_id not in one.may_lose:
                case = next(case for case in exercise.result.results if case.status != "right")
                why = f"{exercise.result.status}: {exercise.result.reason or case.message or case.status}"
                figures.robbed.append(f"{where} ({why})")


class _Listener:
    """Listens on this machine, and notes whether anybody called."""

    def __enter__(self) -> "_Listener":
        self.called = False
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._socket.accept()[0].close()
                self.called = True

    def __exit__(self, *error: object) -> None:
        self._socket.close()
