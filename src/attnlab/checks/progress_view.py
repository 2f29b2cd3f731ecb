"""Progress as plain text and as HTML: the same words and the same chart, without a script or a colour.

A bar says what the text beside it says. In text it is made of characters that every console has; in HTML it
is a drawing in the colour of the text, so that it is seen on light and dark pages and in forced colours.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from .progress_rows import Row, Sum, by_kind, by_lesson, next_step, total

_BAR = 20  # characters
_WIDTH = 120  # pixels


def as_text(rows: Sequence[Row], notes: Iterable[str]) -> str:
    """The exercises by lesson, then the points by lesson and by kind as bars, then what to try next."""
    lines = [f"Your progress: {total(rows)} points"]
    lessons = by_lesson(rows)
    for title, group in lessons.items():
        lines += ["", f"{title}: {total(group)} points"]
        lines += [
            f"  {_sum(row)!s:>8}  {row.state:<11}  {row.exercise.title} ({row.exercise.kind})"
            for row in group
        ]
    for heading, groups in _charts(rows).items():
        lines += ["", f"Points by {heading}", *_text_bars(groups)]
    return "\n".join([*lines, "", next_step(list(rows)), *notes])


def as_html(rows: Sequence[Row], notes: Iterable[str]) -> str:
    """The same as one block of HTML; titles are escaped."""
    parts = [f"<p><strong>Your progress: {total(rows)} points</strong></p>"]
    parts += [_table(title, group) for title, group in by_lesson(rows).items()]
    parts += [_chart(heading, groups) for heading, groups in _charts(rows).items()]
    parts += [f"<p>{html.escape(line)}</p>" for line in (next_step(list(rows)), *notes)]
    return f'<div role="group" aria-label="Your progress">{"".join(parts)}</div>'


def _sum(row: Row) -> Sum:
    return Sum(row.points, row.max_points)


def _charts(rows: Sequence[Row]) -> dict[str, dict[str, Sum]]:
    """What is drawn: a chart of a single lesson would repeat the line above it."""
    lessons = {title: total(group) for title, group in by_lesson(rows).items()}
    kinds = {kind: total(group) for kind, group in by_kind(rows).items()}
    charts = {"lesson": lessons} if len(lessons) > 1 else {}
    return {**charts, "kind": kinds} if kinds else charts


def _text_bars(groups: Mapping[str, Sum]) -> list[str]:
    wide = max(len(str(one)) for one in groups.values())
    return [f"  [{'#' * one.steps(_BAR):.<{_BAR}}]  {one!s:>{wide}}  {name}" for name, one in groups.items()]


def _table(title: str, rows: Iterable[Row]) -> str:
    rows = list(rows)
    body = [
        f'<tr><th scope="row">{html.escape(row.exercise.title)}</th><td>{row.exercise.kind}</td>'
        f"<td>{_sum(row)}</td><td>{row.state}</td></tr>"
        for row in rows
    ]
    heads = ("Exercise", "Kind", "Points", "State")
    return _framed(f"{title}: {total(rows)} points", heads, body)


def _chart(heading: str, groups: Mapping[str, Sum]) -> str:
    body = [
        f'<tr><th scope="row">{html.escape(name)}</th><td>{one}</td>'
        f"<td>{_bar(one)} {one.steps(100)}%</td></tr>"
        for name, one in groups.items()
    ]
    return _framed(f"Points by {heading}", (heading.capitalize(), "Points", "Share"), body)


def _framed(caption: str, heads: Iterable[str], body: Iterable[str]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
    )


def _bar(one: Sum) -> str:
    """A frame that is filled as far as the share goes; the text beside it says the same."""
    filled = one.steps(_WIDTH - 4)
    return (
        f'<svg aria-hidden="true" width="{_WIDTH}" height="12" viewBox="0 0 {_WIDTH} 12">'
        f'<rect x="0.5" y="0.5" width="{_WIDTH - 1}" height="11" fill="none" stroke="currentColor"/>'
        f'<rect x="2" y="2" width="{filled}" height="8" fill="currentColor"/></svg>'
    )
