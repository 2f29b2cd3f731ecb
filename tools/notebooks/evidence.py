"""Evidence: what the claims of a notebook are with other seeds, and the page that lists it."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

from filelock import FileLock

from . import sources
from .execute import Run
from .files import read, write
from .references import MINUS
from .statements import Claim, Statements

STORE = "notebooks/evidence.json"
PAGE = "notebooks/evidence.md"
INTRODUCTION = """\
# Evidence

Every number that a lesson quotes from its own measurement, with the bounds that the lesson holds it to, and
what it was when the notebook was run again with other seeds. The build fails where a value leaves its bounds.
"""


@dataclass
class Evidence:
    """The stored evidence: an entry for each lesson by its stem, for exercises by ``exercises/stem``."""

    root: Path
    entries: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, root: Path) -> "Evidence":
        """Read the store."""
        path = root / STORE
        return cls(root, json.loads(read(path)) if path.exists() else {})

    def put(self, name: str, entry: dict[str, Any]) -> bool:
        """Write one entry at once, beside what others have written meanwhile; return whether it changed."""
        with FileLock(self.root / f"{STORE}.lock"):
            self.entries = {**Evidence.load(self.root).entries, name: entry}
            text = json.dumps(dict(sorted(self.entries.items())), indent=1, ensure_ascii=False)
            return write(self.root / STORE, text + "\n")

    def values(self, statements: Statements, strict: bool) -> dict[str, list[Any]]:
        """Return the values over seeds of each claim; with ``strict`` complain where they are out of date."""
        entry = self.entries.get(key(statements), {})
        if strict:
            for what in self.stale(statements):
                statements.manuscript.complaints.add(*what)
            for name, claim in entry.get("claims", {}).items():
                if name in statements.claims and claim["code"] == statements.code_of(name):
                    for shift, value in zip(entry["shifts"], claim["values"], strict=True):
                        statements.judge(name, value, f" at seed shift {shift}")
        return {name: claim["values"] for name, claim in entry.get("claims", {}).items()}

    def stale(self, statements: Statements) -> Iterator[tuple[int, str]]:
        """Yield line and complaint for every piece of evidence that the manuscript has outgrown."""
        again = f"run `python -m tools.notebooks evidence {statements.manuscript.stem}`"
        entry = self.entries.get(key(statements))
        if entry is None:
            if statements.claims:
                yield 1, f"no evidence over seeds for its claims; {again}"
            return
        for name, known in sources.hashes(self.root, entry["sources"]).items():
            if known != entry["sources"][name]:
                yield 1, f"evidence is stale: {name} changed since {entry['date']}; {again}"
        for name in entry["claims"].keys() - statements.claims.keys():
            yield 1, f"evidence is stale: claim {name!r} is gone; {again}"
        for name, claim in statements.claims.items():
            if name not in entry["claims"]:
                yield claim.line, f"no evidence over seeds for claim {name!r}; {again}"
            elif entry["claims"][name]["code"] != statements.code_of(name):
                yield (
                    claim.line,
                    (
                        f"evidence for {name!r} is stale: the cells that compute it changed since "
                        f"{entry['date']}; {again}"
                    ),
                )


def key(statements: Statements) -> str:
    """Return the name of a manuscript's entry."""
    manuscript = statements.manuscript
    return manuscript.stem if manuscript.kind == "lesson" else f"exercises/{manuscript.stem}"


def measure(statements: Statements, count: int, run: Callable[[int], Run]) -> dict[str, Any]:
    """Run a notebook with ``count`` seeds and return its entry. Raises ``Problems``."""
    manuscript = statements.manuscript
    manuscript.complaints.stop()
    runs = [run(shift) for shift in range(count)]
    values = [{name: entries[0] for name, entries in one.values.items()} for one in runs]
    if count > 1 and all(one == values[0] for one in values):
        manuscript.complaints.add(1, "no claim changes with the seed: is seed() used?")
        manuscript.complaints.stop()
    root = manuscript.root
    return {
        "date": date.today().isoformat(),
        "shifts": list(range(count)),
        "versions": runs[0].versions,
        "sources": sources.moving(sources.hashes(root, sources.of_run(root, runs[0].modules))),
        "claims": {
            name: {"code": statements.code_of(name), "values": [one[name] for one in values]}
            for name in statements.claims
        },
    }


def page(evidence: Evidence, everything: Iterable[Statements]) -> str:
    """Return the page that lists every claim."""
    lines = [INTRODUCTION]
    for statements in everything:
        if not statements.claims:
            continue
        manuscript = statements.manuscript
        folder = "" if manuscript.kind == "lesson" else "../solutions/"
        kind = "" if manuscript.kind == "lesson" else " (exercises)"
        title = manuscript.title.replace("|", "\\|")
        entry = evidence.entries.get(key(statements), {})
        lines += [
            f"## {manuscript.number.lstrip('0')}. {title}{kind}",
            "",
            f"[The notebook]({folder}{manuscript.stem}.ipynb). {_circumstances(entry)}",
            "",
            "| claim | bounds | seeds | lowest | median | highest |",
            "| --- | --- | ---: | ---: | ---: | ---: |",
        ]
        for claim in statements.claims.values():
            lines += _rows(claim, entry)
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _circumstances(entry: dict[str, Any]) -> str:
    if not entry:
        return "Not measured over seeds yet."
    versions = ", ".join(f"{name} {version}" for name, version in entry["versions"].items())
    return f"Measured on {entry['date']} with {versions}."


def _rows(claim: Claim, entry: dict[str, Any]) -> Iterator[str]:
    """Yield a row for each number of a claim."""
    bounds = claim.words.replace("-", MINUS)  # no line breaks at a minus
    values = entry.get("claims", {}).get(claim.name, {}).get("values", [])
    if not values:
        yield f"| `{claim.name}` | {bounds} | 0 | | | |"
        return
    first = values[0]
    parts: Iterable[Any] = [None]
    if isinstance(first, dict):
        parts = first
    elif isinstance(first, list):
        parts = range(len(first))
    for part in parts:
        numbers = [value if part is None else value[part] for value in values]
        if isinstance(numbers[0], (dict, list)):
            yield f"| `{claim.name}[{part}]` | {bounds} | {len(numbers)} | | | |"
            continue
        shown = " | ".join(map(_said, (min(numbers), median(numbers), max(numbers))))
        name = claim.name if part is None else f"{claim.name}[{part}]"
        yield f"| `{name}` | {bounds} | {len(numbers)} | {shown} |"


def _said(number: float) -> str:
    """Return a number as the table shows it: four digits, but a count in full."""
    text = f"{number:.0f}" if float(number).is_integer() and abs(number) < 1e6 else f"{number:.4g}"
    return text.replace("-", MINUS)
