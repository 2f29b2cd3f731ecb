"""What a task is, and the commonest kind: a function.

The others are in ``modules`` (classes), ``values`` and ``judge`` (tests that a learner writes). A mistake is
a switch of one reference, so that the reference, the catalogue of mistakes and the tests of the checks are
the same code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch

from .answers import Answer, Outcome, outcome_of
from .compare import expect_callable, same
from .verdict import exact, total

KINDS = ("implement", "predict", "repair", "test", "measure", "explore")

TASKS: dict[str, Task] = {}
"""Every task that was defined, by id, in the order of definition."""


class Call:
    """The arguments of one probe, where keyword arguments are wanted too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


Probes = Callable[[torch.Generator], Sequence["Call | tuple[Any, ...]"]]
CaseFunction = Callable[[Any, torch.Generator], None]


@dataclass(frozen=True)
class Mistake:
    """A known mistake: a setting of the reference's switches, and a hint that names it.

    Attributes:
        key: a short name, unique within its task.
        hint: names the mistake and points to the idea, not to the answer.
        switches: keyword arguments of the reference that make it wrong in this way.
    """

    key: str
    hint: str
    switches: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One thing that a check looks at: ``run(answer, generator)`` raises ``Failed`` if it does not hold."""

    name: str
    points: Fraction
    run: CaseFunction
    hidden: bool = False


class Task:
    """What all kinds share: an id, a title, cases with points, and a catalogue of mistakes.

    Args:
        task_id: ``slug.exercise``, the slug being the lesson's name without its number.
        title: as shown to the learner.
        kind: one of ``KINDS``.
        mistakes: the catalogue, the likeliest first.
    Raises:
        ValueError: if the id is taken or has no dot, the kind is unknown, or two mistakes share a key.
    """

    def __init__(self, task_id: str, title: str, *, kind: str, mistakes: Sequence[Any] = ()) -> None:
        if task_id in TASKS or "." not in task_id:
            raise ValueError(f"task_id must be new and read slug.exercise, got {task_id!r}")
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
        keys = [mistake.key for mistake in mistakes]
        if len(set(keys)) != len(keys):
            raise ValueError(f"mistakes must have different keys, got {keys}")
        self.task_id, self.title, self.kind = task_id, title, kind
        self.mistakes: tuple[Any, ...] = tuple(mistakes)
        self.cases: list[Case] = []
        TASKS[task_id] = self

    @property
    def lesson(self) -> str:
        """The lesson's slug, without its number."""
        return self.task_id.split(".")[0]

    @property
    def name(self) -> str:
        """The name under which the answer is looked up in a notebook."""
        return self.task_id.split(".")[-1]

    @property
    def max_points(self) -> float:
        """Points of the cases that learners see."""
        return total(case.points for case in self.cases if not case.hidden)

    def case(
        self, name: str, points: float, *, hidden: bool = False
    ) -> Callable[[CaseFunction], CaseFunction]:
        """Decorator: add ``run(answer, generator)`` as a case worth ``points``."""

        def add(run: CaseFunction) -> CaseFunction:
            self.cases.append(Case(name, exact(points), run, hidden))
            return run

        return add

    def adapt(self, answer: object) -> Any:
        """The answer as the cases see it. Raises ``Failed`` where it is not of the right sort at all."""
        raise NotImplementedError

    def right(self) -> object:
        """A right answer."""
        raise NotImplementedError

    def answer_with(self, *mistakes: Any) -> object:
        """An answer that makes these mistakes."""
        raise NotImplementedError

    def diagnose(self, answer: Any, generator: Callable[[], torch.Generator]) -> tuple[Any, ...]:
        """The mistakes that give just what ``answer`` gives, single ones first, then pairs; else empty."""
        raise NotImplementedError

    def is_untouched(self, found: Sequence[Any]) -> bool:
        """Whether the answer is still the program that was given."""
        return False

    def combinations(self) -> Iterator[tuple[Any, ...]]:
        """Single mistakes, then the pairs that can be made together (no switch in common)."""
        for mistake in self.mistakes:
            yield (mistake,)
        for first, second in itertools.combinations(self.mistakes, 2):
            if not first.switches.keys() & second.switches.keys():
                yield first, second


class FunctionTask(Task):
    """The answer is a function; the reference computes the same, and its keyword switches turn mistakes on.

    Args:
        reference: a right function, called like the answer, with extra keyword-only switches.
        probes: inputs on which all mistakes, and all pairs of them, differ; drawn from the generator.
        untouched: keys of the mistakes in the program as it is given (a program to be repaired).
        observe: what is looked at when mistakes are told apart, from the adapted answer and a probe's
            arguments; by default what the answer returns.
        absolute, relative: how far numbers may be apart when mistakes are told apart.
    """

    def __init__(
        self,
        task_id: str,
        title: str,
        reference: Callable[..., Any],
        probes: Probes,
        mistakes: Sequence[Mistake] = (),
        *,
        kind: str = "implement",
        untouched: Sequence[str] = (),
        observe: Callable[..., Any] | None = None,
        absolute: float = 1e-5,
        relative: float = 1e-4,
    ) -> None:
        super().__init__(task_id, title, kind=kind, mistakes=mistakes)
        unknown = set(untouched) - {mistake.key for mistake in self.mistakes}
        if unknown:
            raise ValueError(f"untouched must name known mistakes, got {sorted(unknown)}")
        self.reference, self.probes, self.untouched = reference, probes, tuple(untouched)
        self.observe = observe or (lambda answer, *args, **kwargs: answer(*args, **kwargs))
        self.absolute, self.relative = absolute, relative
        self._seen: dict[tuple[tuple[str, ...], int, int], Outcome] = {}

    def adapt(self, answer: object) -> Any:
        return Answer(expect_callable(answer, "a function"))

    def right(self) -> Callable[..., Any]:
        return self.reference

    def answer_with(self, *mistakes: Mistake) -> Callable[..., Any]:
        switches = {name: value for mistake in mistakes for name, value in mistake.switches.items()}
        reference = self.reference

        def wrong(*args: Any, **kwargs: Any) -> Any:
            return reference(*args, **kwargs, **switches)

        return wrong

    def diagnose(self, answer: Any, generator: Callable[[], torch.Generator]) -> tuple[Mistake, ...]:
        probes = self._calls(generator())
        given = [self._observe(answer, probe, generator) for probe in probes]
        wanted = [self._variant((), index, generator) for index in range(len(probes))]
        # A probe on which the answer stumbles says nothing, unless the reference refuses it as well.
        usable = [i for i in range(len(probes)) if given[i].error is None or wanted[i].error is not None]
        if all(self._same(given[i], wanted[i]) for i in usable):
            return ()
        for mistakes in self.combinations():
            if all(self._same(given[i], self._variant(mistakes, i, generator)) for i in usable):
                return mistakes
        return ()

    def alike(self, first: tuple[Mistake, ...], second: tuple[Mistake, ...], seed: int) -> bool:
        """Whether two sets of mistakes give the same on every probe: then no check can tell them apart."""

        def generator() -> torch.Generator:
            return torch.Generator().manual_seed(seed)

        return all(
            self._same(self._variant(first, index, generator), self._variant(second, index, generator))
            for index in range(len(self._calls(generator())))
        )

    def is_untouched(self, found: Sequence[Mistake]) -> bool:
        return bool(self.untouched) and {mistake.key for mistake in found} == set(self.untouched)

    def _calls(self, generator: torch.Generator) -> list[Call]:
        return [probe if isinstance(probe, Call) else Call(*probe) for probe in self.probes(generator)]

    def _observe(self, adapted: Any, probe: Call, generator: Callable[[], torch.Generator]) -> Outcome:
        generator()  # the global random state is the same for each
        return outcome_of(self.observe, adapted, *probe.args, **probe.kwargs)

    def _variant(
        self, mistakes: tuple[Mistake, ...], index: int, generator: Callable[[], torch.Generator]
    ) -> Outcome:
        """What the reference with these mistakes gives on one probe; kept, since each check asks again."""
        source = generator()
        place = (tuple(mistake.key for mistake in mistakes), index, source.initial_seed())
        if place not in self._seen:
            probe = self._calls(source)[index]
            answer = self.answer_with(*mistakes) if mistakes else self.right()
            self._seen[place] = self._observe(self.adapt(answer), probe, generator)
        return self._seen[place]

    def _same(self, given: Outcome, wanted: Outcome) -> bool:
        if given.error is not None or wanted.error is not None:
            return given.error == wanted.error
        return same(given.value, wanted.value, absolute=self.absolute, relative=self.relative)
