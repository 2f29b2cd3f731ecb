"""Measurements of time and memory, for people to read. No test depends on a time.

``python -m benchmarks`` runs all of them, ``python -m benchmarks attention generation`` some. Each prints
ratios of variants that took turns in one run on one thread, and beside a figure with a goal whether it was
met.
"""

NAMES = (
    "attention",
    "training_step",
    "generation",
    "long_sequences",
    "translation",
    "translator",
    "parameters",
    "grading",
)
"""The benchmarks, each a module of this package with a function ``run(report)``."""
