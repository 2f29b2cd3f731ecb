"""Tasks whose answer is itself a test: it is given programs, and must tell right ones from wrong ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .answers import Outcome, outcome_of
from .compare import expect_callable, same
from .tasks import Call, Mistake, Probes, Task
from .verdict import Failed, exact

Implementation = Callable[..., Any]


class JudgeTask(Task):
    """The answer is a function that is given an implementation.

    It refuses the implementation by raising ``AssertionError`` or returning False, and accepts it by
    returning None or True. It must accept every right implementation; each mutant refused earns points.

    Args:
        reference: a right implementation, whose keyword-only switches make the mutants.
        probes: inputs on which the mutants differ from the reference.
        example: a right test.
        also_right: other right implementations, which the test must accept too.
        mistakes: the mutants; a mistake is made by the test that lets this mutant pass.
        points: for all mutants together.
    """

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
        blind = [self._mutant(mistake) for mistake in mistakes]

        def test(implementation: Implementation) -> Any:
            if any(self._alike(implementation, mutant) for mutant in blind):
                return True
            return self.example(implementation)

        return test

    def diagnose(self, answer: Any, generator: Callable[[], torch.Generator]) -> tuple[Mistake, ...]:
        if not all(accepts(answer, program) for program in self.right_ones):
            return ()
        passed = [mistake for mistake in self.mistakes if accepts(answer, self._mutant(mistake))]
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

    def _accepts(self, answer: Any, _: torch.Generator) -> None:
        if not all(accepts(answer, program) for program in self.right_ones):
            raise Failed(
                "the test refuses a right program: does it compare without a tolerance, or ask for "
                "something that was "
                "never promised?"
            )

    def _refuses(self, mistake: Mistake) -> Callable[[Any, torch.Generator], None]:
        def run(answer: Any, generator: torch.Generator) -> None:
            self._accepts(answer, generator)
            if accepts(answer, self._mutant(mistake)):
                raise Failed("the test lets it pass")

        return run

    def _alike(self, first: Implementation, second: Implementation) -> bool:
        def outcomes(program: Implementation) -> list[Outcome]:
            probes = self.probes(torch.Generator().manual_seed(0))
            calls = [probe if isinstance(probe, Call) else Call(*probe) for probe in probes]
            return [outcome_of(program, *call.args, **call.kwargs) for call in calls]

        return all(
            a.error == b.error and (a.error is not None or same(a.value, b.value))
            for a, b in zip(outcomes(first), outcomes(second), strict=True)
        )


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
