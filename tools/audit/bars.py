"""What the course promises of its pages, and what is said where a page misses it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tools.audit.lighthouse import Scores
from tools.audit.visit import Findings

WITHOUT_FIGURES, WITH_FIGURES = 150_000, 350_000  # bytes, of a lesson with its widget
PERFORMANCE = {"mobile": 98, "desktop": 100}  # on the heaviest lesson
LESSON = re.compile(r"notebooks/\d\d_")
UNLISTED = ("search", "404")  # they ask search engines to leave them out, which costs them their SEO


@dataclass
class Row:
    """One page: what was found, its scores by form (none without Lighthouse), and the audits that failed."""

    name: str
    found: Findings
    scores: dict[str, Scores] = field(default_factory=dict)
    failing: dict[str, list[str]] = field(default_factory=dict)


def heaviest(weights: Mapping[str, int]) -> str | None:
    """The lesson that weighs most; None where there is no lesson."""
    lessons = {name: weight for name, weight in weights.items() if LESSON.match(name)}
    return max(lessons, key=lambda name: lessons[name], default=None)


def missed(row: Row, is_heaviest: bool) -> list[str]:
    """What a page misses, in sentences without their full stop."""
    found = row.found
    said = [f"axe, {violation}" for violation in found.axe] + list(found.policy)
    if LESSON.match(row.name):
        if found.text > WITHOUT_FIGURES:
            said.append(f"{found.text / 1000:.0f} kB without figures, at most {WITHOUT_FIGURES // 1000}")
        if found.weight > WITH_FIGURES:
            said.append(f"{found.weight / 1000:.0f} kB with figures, at most {WITH_FIGURES // 1000}")
    for form, scores in row.scores.items():
        for name, score in scores.items():
            if name == "seo" and row.name in UNLISTED:
                continue
            least = PERFORMANCE[form] if name == "performance" else 100
            if score < least and (name != "performance" or is_heaviest):
                why = "" if name == "performance" else f" ({', '.join(row.failing.get(form, []))})"
                said.append(f"{form} {name} {score}, at least {least}{why}")
    return said
