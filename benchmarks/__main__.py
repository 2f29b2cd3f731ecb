"""Run the benchmarks that are named, or all: ``python -m benchmarks [NAME ...]``."""

import argparse
import importlib
import os
import sys
import time
from collections.abc import Sequence

from benchmarks import NAMES


def main(argv: Sequence[str] | None = None) -> int:
    """Run them one after the other; 0 however the figures come out, since a time depends on the machine."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; all if left out"
    )
    names = parser.parse_args(argv).names or list(NAMES)
    for name in names:
        if name not in NAMES:
            parser.error(f"NAME: expected one of {', '.join(NAMES)}, got {name}")
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # read when torch is imported
    from benchmarks.harness import Report

    began = time.monotonic()
    report = Report()
    report.head()
    for name in names:
        importlib.import_module(f"benchmarks.{name}").run(report)
    report.summary(time.monotonic() - began)
    return 0


if __name__ == "__main__":
    sys.exit(main())
