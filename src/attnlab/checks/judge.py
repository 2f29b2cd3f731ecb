"""Tasks whose answer is itself a test: it is given programs, and must tell right ones from wrong ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .answers import Outcome, outcome_of
from .compare import expect_callable, same
from .guard import reseed
from .tasks import Call, Mistake, Probes, Task
from .verdict import Failed, exact

Implementation = Callable[..., Any]


@dataclass(frozen=True)
class _Round:
    """What one test said of every program, in one go: True, False, or the exception that it ended in."""

    test: object
    right: tuple[bool | BaseException, ...]
    wrong: dict[str, bool | BaseException]


class JudgeTask(Task):
    """The answer is a function that is given an implementation.

    It refuses the implementation by raising ``AssertionError`` or returning False, and accepts it by
    returning None or True. It must accept every right implementation; each mutant refused earns points.

    In each round the test sees every program once, right and wrong ones in an order drawn anew: a test that
    counts its calls learns nothing, and none is run twice.

    Args:
        reference: a right implementation, whose keyword-only switches make the mutants.
        probes: inputs on which the mutants differ from the reference.
        example: a right test.
        also_right: other right implementations, which the test must accept too.
        mistakes: the mutants; a mistake is made by the test that lets this mutant pass.
        points: for all mutants together.
    """

    #: How far numbers of programs that behave alike may be apart.
    absolute = 1e-5

    def __init__(
        self,
        task_id: str,
        title: str,
        *,
        reference: Implementation,
        probes: Probes,
        example: Callable[[Implementation], Any],
        mistakes: Sequence[Mistake],
        also_right: Sequence[Implementation] = (),
        points: float = 2,
        kind: str = "test",
    ) -> None:
        super().__init__(task_id, title, kind=kind, mistakes=mistakes)
        self.reference, self.probes, self.example = reference, probes, example
        self.right_ones = (reference, *also_right)
        self._rounds: dict[int, _Round] = {}
        self.case("accepts every right program", 0)(self._accepts)
        for index, mistake in enumerate(mistakes, start=1):
            share = exact(points) / len(mistakes)
            self.case(f"refuses wrong program {index}", float(share))(self._refuses(mistake))

    def adapt(self, answer: object) -> Any:
        return expect_callable(answer, "a function that is given a program")

    def right(self) -> object:
        return self.example

    def answer_with(self, *mistakes: Mistake) -> object:
        """The example, blind to these mutants: it lets pass what behaves like one of them."""
        blind = [self.behaviour(self._mutant(mistake)) for mistake in mistakes]

        def test(implementation: Implementation) -> Any:
            behaviour = self.behaviour(implementation)
            if any(self._alike(behaviour, known) for known in blind):
                return True
            return self.example(implementation)

        return test

    def behaviour(self, program: Implementation) -> list[Outcome]:
        """What can be seen of a program: what it gives on the probes, whose numbers are always the same."""
        probes = self.probes(torch.Generator().manual_seed(0))
        calls = [probe if isinstance(probe, Call) else Call(*probe) for probe in probes]
        return [outcome_of(program, *call.args, **call.kwargs) for call in calls]

    def diagnose(self, answer: Any, generator: Callable[[], torch.Generator]) -> tuple[Mistake, ...]:
        seen = self._round(answer, generator())
        if not all(verdict is True for verdict in seen.right):
            return ()
        passed = [mistake for mistake in self.mistakes if seen.wrong[mistake.key] is True]
        # A test that lets everything pass has not begun to test: no list of all bugs for it.
        return tuple(passed) if len(passed) < len(self.mistakes) else ()

    def combinations(self) -> Iterator[tuple[Mistake, ...]]:
        """Single mutants, then all pairs that leave another one to be refused."""
        yield from ((mistake,) for mistake in self.mistakes)
        if len(self.mistakes) > 2:
            yield from itertools.combinations(self.mistakes, 2)

    def _mutant(self, mistake: Mistake) -> Implementation:
        def implementation(*args: Any, **kwargs: Any) -> Any:
            return self.reference(*args, **kwargs, **mistake.switches)

        return implementation

    def _alike(self, first: Sequence[Outcome], second: Sequence[Outcome]) -> bool:
        return all(
            a.error == b.error and (a.error is not None or same(a.value, b.value, absolute=self.absolute))
            for a, b in zip(first, second, strict=True)
        )

    def _accepts(self, answer: Any, generator: torch.Generator) -> None:
        # The first case: whatever the test calls may have changed since this seed was last asked for.
        self._rounds.pop(generator.initial_seed(), None)
        self._require_acceptance(self._round(answer, generator))

    def _require_acceptance(self, seen: _Round) -> None:
        for verdict in seen.right:
            if isinstance(verdict, BaseException):
                raise verdict
        if not all(seen.right):
            raise Failed(
                "the test refuses a right program: does it compare without a tolerance, or ask for "
                "something that was never promised?"
            )

    def _refuses(self, mistake: Mistake) -> Callable[[Any, torch.Generator], None]:
        def run(answer: Any, generator: torch.Generator) -> None:
            seen = self._round(answer, generator)
            self._require_acceptance(seen)
            verdict = seen.wrong[mistake.key]
            if isinstance(verdict, BaseException):
                raise verdict
            if verdict:
                raise Failed("the test lets it pass")

        return run

    def _round(self, answer: Any, generator: torch.Generator) -> _Round:
        """Show the test every program, in an order that the generator's seed decides."""
        seed = generator.initial_seed()
        known = self._rounds.get(seed)
        if known is not None and known.test is answer:
            return known
        programs = [*self.right_ones, *(self._mutant(mistake) for mistake in self.mistakes)]
        verdicts: dict[int, bool | BaseException] = {}
        for number in torch.randperm(len(programs), generator=generator).tolist():
            reseed(seed)  # what the test draws does not depend on the order
            try:
                verdicts[number] = accepts(answer, programs[number])
            except Exception as error:
                verdicts[number] = error
        count = len(self.right_ones)
        wrong = {mistake.key: verdicts[count + i] for i, mistake in enumerate(self.mistakes)}
        seen = _Round(answer, tuple(verdicts[i] for i in range(count)), wrong)
        others = [(key, entry) for key, entry in self._rounds.items() if entry.test is answer]
        self._rounds = dict([*others[-1:], (seed, seen)])  # one on the fixed inputs, one on fresh ones
        return seen


def accepts(test: Callable[[Implementation], Any], program: Implementation) -> bool:
    """Whether a test lets a program pass; an exception other than ``AssertionError`` is passed on."""

    def implementation(
        *args: Any, **kwargs: Any
    ) -> Any:  # a fresh name each time: nothing to recognise it by
        return program(*args, **kwargs)

    try:
        verdict = test(implementation)
    except AssertionError:
        return False
    if verdict is None or verdict is True:
        return True
    if verdict is False:
        return False
    raise Failed(f"the test should return nothing, or True or False; this is {type(verdict).__name__}")
