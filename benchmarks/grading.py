"""How many submissions ``attnlab grade`` gets through in a minute, and whether it grades any twice.

A made-up class hands in one exercise set; two submissions are graded at a time. Then the same command runs
again, as after an interruption: everything is there, and nothing is graded.

    python -m benchmarks grading
"""

import contextlib
import io
import tempfile
import time
from pathlib import Path

from attnlab.cli import main
from benchmarks.harness import Report
from tools.grade_demo import hand_in

SUBMISSIONS = 200


def run(report: Report, *, submissions: int = SUBMISSIONS, jobs: int = 2) -> None:
    """Print submissions a minute, and how many a second run of the same command grades."""
    report.title(
        "grading: a class of one exercise set",
        f"{submissions} submissions of exercise set 3, --jobs {jobs}, six exercises each, in the sandbox",
    )
    with tempfile.TemporaryDirectory(prefix="attnlab-benchmark-") as name:
        folder = Path(name)
        hand_in(folder / "submissions", submissions, odd=False)
        first, seconds = graded(folder, jobs)
        report.line(
            f"first run: {seconds:.0f} s, {60 * submissions / seconds:.1f} submissions a minute ({first})"
        )
        again, seconds = graded(folder, jobs)
        report.line(f"second run: {seconds:.1f} s ({again})")
        before = int(again.split(": ")[1].split()[0])
        report.line(f"graded twice: {report.at_most('grading, graded twice', submissions - before, 0)}")


def graded(folder: Path, jobs: int) -> tuple[str, float]:
    """Run the command on a folder's submissions; its last line, and how long it took by the clock."""
    began, printed = time.monotonic(), io.StringIO()
    command = ["grade", str(folder / "submissions"), "--out", str(folder / "marks.csv"), "--jobs", str(jobs)]
    with contextlib.redirect_stdout(printed):
        status = main([*command, "--only", "query_key_value"])
    if status:
        raise RuntimeError(f"attnlab grade ended with {status}")
    return printed.getvalue().strip().splitlines()[-1], time.monotonic() - began
