"""A repair in which more than two bugs are planted at once."""

from __future__ import annotations

from collections.abc import Iterator

from ..tasks import FunctionTask, Mistake


class ThreeBugsTask(FunctionTask):
    """Looks for single mistakes, then for the program as it is given, then for the pairs."""

    def combinations(self) -> Iterator[tuple[Mistake, ...]]:
        """Of the pairs those come first that half a repair leaves."""
        planted = tuple(mistake for mistake in self.mistakes if mistake.key in self.untouched)
        yield from ((mistake,) for mistake in self.mistakes)
        yield planted
        pairs = [found for found in super().combinations() if len(found) == 2]
        yield from sorted(pairs, key=lambda pair: sum(mistake not in planted for mistake in pair))
