"""The class at a glance: how each exercise went, and which mistakes this class made.

The page is for the instructor: it names flags and reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .marks import ExerciseMark, Mark
from .page import document, heading, paragraph, plain, table, write_page

__all__ = ["MistakeCount", "mistakes_of", "render", "write_summary"]

_BARS = 15
_BAR_HEIGHT, _GAP, _LABEL, _WIDTH = 22, 8, 330, 760


@dataclass(frozen=True)
class MistakeCount:
    """How often one known mistake was made.

    Attributes:
        task_id, title: the exercise.
        mistake, hint: its key, and the text that names it.
        count, attempts: submissions that make it, and that have an answer to the exercise.
    """

    task_id: str
    title: str
    mistake: str
    hint: str
    count: int
    attempts: int


def write_summary(path: Path, marks: Sequence[Mark], flags: Sequence[str] = ()) -> None:
    """Write the summary page.

    Args:
        path: the file.
        marks: one for each submission.
        flags: remarks on pairs of submissions, for a person to look at.
    """
    write_page(path, render(marks, flags))


def mistakes_of(marks: Sequence[Mark]) -> list[MistakeCount]:
    """Every mistake that was recognised, the commonest first."""
    counts: Counter[tuple[str, str]] = Counter()
    texts: dict[tuple[str, str], tuple[str, str]] = {}
    attempts: Counter[str] = Counter()
    for exercise in (exercise.result for mark in marks for exercise in mark.exercises):
        attempts[exercise.task_id] += exercise.attempted
        for mistake, hint in zip(exercise.mistakes, exercise.hints, strict=False):
            counts[exercise.task_id, mistake] += 1
            texts[exercise.task_id, mistake] = (exercise.title, hint)
    found = [
        MistakeCount(task_id, texts[task_id, key][0], key, texts[task_id, key][1], count, attempts[task_id])
        for (task_id, key), count in counts.items()
    ]
    return sorted(found, key=lambda one: (-one.count, one.task_id, one.mistake))


def render(marks: Sequence[Mark], flags: Sequence[str] = ()) -> str:
    """The summary page as HTML.

    Args:
        marks: one for each submission.
        flags: remarks on pairs of submissions.
    """
    failed = [mark for mark in marks if mark.result.status == "failed"]
    count = f"{len(marks)} submission{'s' if len(marks) != 1 else ''}"
    parts = [paragraph(f"{count}, {len(failed)} of which could not be graded.")]
    parts += _exercises(marks)
    parts += _mistakes(mistakes_of(marks))
    if failed:
        rows = [(mark.submission.name, mark.result.reason) for mark in failed]
        parts += [
            heading("Not graded"),
            table("What could not be graded, and why", ("Submission", "Reason"), rows),
        ]
    parts += _flags(marks, flags)
    return document("Summary of the class", parts)


def _exercises(marks: Sequence[Mark]) -> Iterator[str]:
    by_exercise: dict[str, list[ExerciseMark]] = {}
    for exercise in (exercise for mark in marks for exercise in mark.exercises):
        by_exercise.setdefault(exercise.result.task_id, []).append(exercise)
    rows = []
    for task_id, found in by_exercise.items():
        tried = [mark for mark in found if mark.result.attempted]
        full = sum(mark.points == mark.max_points for mark in tried)
        shares = [float(mark.points / mark.max_points) for mark in tried if mark.max_points]
        mean = f"{sum(shares) / len(shares):.0%}" if shares else ""
        stopped = sum(mark.result.status in ("stopped", "broken") for mark in found)
        rows.append((found[0].result.title, task_id, str(len(tried)), mean, str(full), str(stopped)))
    if rows:
        yield heading("By exercise")
        head = ("Exercise", "Id", "Answers", "Mean of the points", "Full points", "Stopped or broken")
        yield table("How each exercise went", head, rows, numbers=(2, 3, 4, 5))


def _mistakes(found: Sequence[MistakeCount]) -> Iterator[str]:
    yield heading("By mistake")
    if not found:
        yield paragraph("No known mistake was recognised.")
        return
    yield _chart(found[:_BARS])
    rows = [
        (one.hint, one.title, one.mistake, str(one.count), f"{one.count / one.attempts:.0%}") for one in found
    ]
    head = ("Mistake", "Exercise", "Key", "Submissions", "of the answers")
    yield table("Which mistakes this class made", head, rows, numbers=(3, 4))


def _chart(found: Sequence[MistakeCount]) -> str:
    """Horizontal bars, the commonest mistake first; every value is written beside its bar."""
    most, height = max(one.count for one in found), len(found) * (_BAR_HEIGHT + _GAP) + _GAP
    described = "; ".join(f"{_label(one)}: {one.count}" for one in found)
    lines = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="100%" role="img" ',
        'aria-labelledby="mistakes-title mistakes-text">',
        '<title id="mistakes-title">The commonest mistakes, by the number of submissions</title>',
        f'<desc id="mistakes-text">{plain(described)}</desc>',
    ]
    for index, one in enumerate(found):
        top, width = _GAP + index * (_BAR_HEIGHT + _GAP), (_WIDTH - _LABEL - 60) * one.count / most
        middle = top + _BAR_HEIGHT / 2
        lines += [
            f'<text x="{_LABEL - 8}" y="{middle:.0f}" text-anchor="end" dominant-baseline="central">'
            f"{plain(_label(one))}</text>",
            f'<rect x="{_LABEL}" y="{top}" width="{width:.1f}" height="{_BAR_HEIGHT}" fill="var(--bar)"/>',
            f'<text x="{_LABEL + width + 8:.1f}" y="{middle:.0f}" dominant-baseline="central">'
            f"{one.count}</text>",
        ]
    return "\n".join([*lines, "</svg>"])


def _label(one: MistakeCount) -> str:
    label = f"{one.task_id.split('.')[-1]}: {one.mistake.replace('_', ' ')}"
    return label if len(label) <= 44 else label[:43] + "…"


def _flags(marks: Sequence[Mark], pairs: Sequence[str]) -> Iterator[str]:
    own = [f"{mark.submission.name}: {flag}" for mark in marks for flag in mark.flags]
    if own or pairs:
        yield heading("For a person to look at")
        yield paragraph("A flag is a reason to read the code. It is no proof, and it costs no points.")
        yield f"<ul>{''.join(f'<li>{plain(flag)}</li>' for flag in [*pairs, *own])}</ul>"
