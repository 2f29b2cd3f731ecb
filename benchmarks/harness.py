"""What all benchmarks share: turns on the clock, processes of their own, goals, and printed lines."""

import gc
import importlib
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import torch

R = TypeVar("R")
Times = dict[str, list[float]]
"""For each variant its process time in seconds, one entry a round."""


class Report:
    """Prints as it goes, and keeps which goals were met."""

    def __init__(self) -> None:
        self.met: list[str] = []
        self.missed: list[str] = []

    def line(self, text: str = "") -> None:
        print(text, flush=True)

    def title(self, name: str, *notes: str) -> None:
        """The heading of one benchmark and what is measured."""
        self.line(f"\n== {name}")
        for note in notes:
            self.line(note)

    def head(self) -> None:
        """Machine, versions and how to read the figures."""
        torch.set_num_threads(1)
        self.line(
            f"{processor()}, {platform.system()} {platform.machine()}, Python {platform.python_version()},"
        )
        self.line(
            f"torch {torch.__version__}, one thread, {torch.get_default_dtype()}".replace("torch.f", "f")
        )
        self.line("A time is process time; variants take turns; a ratio is the median over the rounds.")

    def at_most(self, what: str, value: float, bound: float) -> str:
        """Words for a figure that should not be above a bound, such as ``goal <= 1.0: 0.93, met``.

        The figure is judged as it is printed, to two decimals; the rest is noise.
        """
        return self._judge(what, f"goal <= {bound}: {value:.2f}", round(value, 2) <= bound)

    def at_least(self, what: str, value: float, bound: float) -> str:
        """Words for a figure that should not be below a bound."""
        return self._judge(what, f"goal >= {bound:g}: {value:.1f}", round(value, 1) >= bound)

    def _judge(self, what: str, text: str, met: bool) -> str:
        (self.met if met else self.missed).append(f"{what}: {text}")
        return f"{text}, {'met' if met else 'MISSED'}"

    def summary(self, seconds: float) -> None:
        """How many goals were met, and which were not."""
        count = len(self.met) + len(self.missed)
        self.line(f"\n{len(self.met)} of {count} goals met, in {seconds:.0f} s.")
        for text in self.missed:
            self.line(f"missed: {text}")


def processor() -> str:
    """What the system calls its processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return f"{os.cpu_count()} x {line.partition(':')[2].strip()}"
    return f"{os.cpu_count()} x {platform.processor() or 'processor of unknown name'}"


def take_turns(
    calls: Mapping[str, Callable[[], object]], *, rounds: int, least: float = 0.01, warm_up: bool = True
) -> Times:
    """Time each call ``rounds`` times; in each round every call has one turn.

    Args:
        calls: what to time, by name.
        rounds: number of rounds.
        least: a turn repeats its call until it should last this long, in seconds of process time.
        warm_up: whether each call is run once before. It tells how often a turn has to repeat it: without,
            once. Leave it out only for calls of many seconds.

    Returns:
        For each name the seconds of one call, one entry a round.
    """
    repeats = dict.fromkeys(calls, 1)
    if warm_up:
        for name, call in calls.items():
            repeats[name] = max(1, round(least / max(_seconds(call, 1), 1e-6)))
    times: Times = {name: [] for name in calls}
    names = list(calls)
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            # Who goes first changes, so that nobody always follows the same neighbour's caches.
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                times[name].append(_seconds(calls[name], repeats[name]))
    finally:
        gc.enable()
    return times


def _seconds(call: Callable[[], object], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats


def ratio(times: Times, name: str, base: str) -> float:
    """How many times as long ``name`` takes as ``base``: the median over rounds of the two turns' ratio."""
    return statistics.median(a / b for a, b in zip(times[name], times[base], strict=True))


def milliseconds(times: Times, name: str) -> float:
    """The median time of one call, in milliseconds."""
    return 1000 * statistics.median(times[name])


def apart(function: Callable[..., R], jobs: Iterable[tuple[object, ...]]) -> list[R]:
    """Run ``function(*job)`` for each job, one after the other, each in a fresh process on one thread.

    Where the system can, the processes are copies of one that has imported torch and done nothing else,
    which saves the seconds that the import takes.

    Args:
        function: a function of a module, found again there by its name.
        jobs: arguments, picklable as the result must be.
    """
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(["torch", function.__module__])
    results = []
    for job in jobs:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            results.append(pool.submit(_on_one_thread, function.__module__, function.__name__, job).result())
    return results


def _on_one_thread(module: str, name: str, job: tuple[object, ...]) -> Any:
    torch.set_num_threads(1)
    return getattr(importlib.import_module(module), name)(*job)
