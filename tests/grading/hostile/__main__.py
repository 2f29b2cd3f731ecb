"""Print the figures of the hostile collection; the exit status is 0 where nothing got through."""

import argparse
import sys

from .measure import measure
from .notebook import COLLECTION


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.grading.hostile", description=__doc__)
    parser.add_argument("names", nargs="*", help="submissions to look at alone")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="a line for each submission")
    arguments = parser.parse_args()
    chosen = [one for one in COLLECTION if not arguments.names or one.name in arguments.names]
    told = (lambda line: print(line, flush=True)) if arguments.verbose else (lambda line: None)
    figures = measure(chosen, jobs=arguments.jobs, told=told)
    print(f"hostile submissions: {figures.submissions}, graded in {figures.seconds:.0f} s")
    for label, found in (
        ("escapes", figures.escapes),
        ("lost rows", figures.lost_rows),
        ("submissions with points gained", figures.gained),
        ("honest work that lost points", figures.robbed),
    ):
        print(f"{label}: {len(found)}")
        for line in found:
            print(f"    {line}")
    return int(any((figures.escapes, figures.lost_rows, figures.gained, figures.robbed)))


if __name__ == "__main__":
    sys.exit(main())
