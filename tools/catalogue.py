"""The table of known mistakes: is each caught and named, and is every right answer accepted?

    python -m tools.catalogue                    all chapters, three seeds
    python -m tools.catalogue masks --seeds 1    one chapter, one seed

Each known mistake is made, then each pair of mistakes that can be made together, and judged by the check. The
exit status is 1 if one is missed or misnamed, or if a right answer is refused.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from tqdm import tqdm

from attnlab.checks.catalogue import trials
from attnlab.checks.engine import evaluate, load_tasks
from attnlab.checks.tasks import Task
from tests.checks.right_answers import right_answers

_PATIENT = 120.0
_HEAD = ("exercise", "kind", "mistakes", "caught", "named", "pairs", "caught", "named", "right", "accepted")


@dataclass
class Row:
    """What was seen of one exercise; ``wrong`` says in words what should not be."""

    task: Task
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def cells(self) -> list[str]:
        """The row as text."""
        one, two = self.counts["single"], self.counts["pair"]
        shares = [
            str(len(self.task.mistakes)),
            _share(self.counts["single caught"], one),
            _share(self.counts["single named"], one),
            str(sum(len(mistakes) == 2 for mistakes in self.task.combinations())),
            _share(self.counts["pair caught"], two),
            _share(self.counts["pair named"], two),
            str(self.counts["right"]),
            _share(self.counts["accepted"], self.counts["judged"]),
        ]
        return [self.task.task_id, self.task.kind, *shares]


def look_at(task: Task, right: Sequence[object], seeds: Iterable[int]) -> Row:
    """Make every known mistake of an exercise and hand in every right answer, on each seed."""
    row = Row(task)
    row.counts["right"] = len(right) + 1
    for seed in seeds:
        for trial in trials(task, seed):
            size = "single" if len(trial.planted) == 1 else "pair"
            named = trial.named == trial.planted if size == "single" else trial.rightly
            row.counts.update({size: 1, f"{size} caught": trial.caught, f"{size} named": named})
            if not (trial.caught and named):
                row.wrong.append(f"{task.task_id}: made {trial.planted}, named {trial.named}, seed {seed}")
        for number, answer in enumerate((task.right(), *right)):
            report = evaluate(task, answer, seed=seed, fresh=seed + 1000, hidden=True, seconds=_PATIENT)
            row.counts.update({"judged": 1, "accepted": report.passed})
            if not report.passed:
                row.wrong.append(f"{task.task_id}: refused right answer {number}, seed {seed}\n{report}")
    return row


def table(rows: Sequence[Row]) -> str:
    """The rows below each other, with a line of sums."""
    cells = [list(_HEAD), *(row.cells() for row in rows)]
    total = sum((row.counts for row in rows), Counter())
    known = sum(len(row.task.mistakes) for row in rows)
    cells.append([f"{len(rows)} exercises", "", str(known), "", "", "", "", "", str(total["right"]), ""])
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.4g} %" if whole else "-"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 0 if all is as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tools.catalogue", description=__doc__.splitlines()[0])
    parser.add_argument("slugs", nargs="*", help="lessons by name, such as masks; all if left out")
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: 3)")
    arguments = parser.parse_args(argv)
    tasks = load_tasks()
    unknown = set(arguments.slugs) - {task.lesson for task in tasks.values()}
    if unknown:
        parser.error(f"slugs: expected lessons with exercises, got {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    wanted = [task for task in tasks.values() if not arguments.slugs or task.lesson in arguments.slugs]
    rows = []
    for task in tqdm(wanted, unit="exercise", disable=None):
        right = right_answers(task.lesson).get(task.task_id, ())
        rows.append(look_at(task, right, range(arguments.seeds)))
    print(table(rows))
    wrong = [line for row in rows for line in row.wrong]
    print("\n".join(wrong) if wrong else "Every mistake is caught and named, every right answer accepted.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
