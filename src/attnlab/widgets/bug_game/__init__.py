"""Which bug made this curve? A game with measured loss curves, a right program's and those of known bugs.

Two curves are alike where no step shows them further apart than a given factor. A bug whose curve is alike to
the right program's is shown by no curve. So that no one loses by bad luck, an answer counts where its curve
is alike to the one that is drawn, and where neither bug is shown by a curve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import FLOAT32, CourseWidget, OutOfRange, as_float32, browser_code

__all__ = ["BugGame"]

_CHOICES = 4
_MOST_BUGS, _MOST_STEPS, _MOST_LETTERS, _GAMES = 24, 200, 240, 1000


class BugGame(CourseWidget):
    """Guess which of several bugs made a loss curve, round by round, with a score.

    A game has one round for each bug. The order of the rounds, and the four names that each offers, depend on
    the number of the game alone, so they are the same for everyone. Where it can, a round offers a name
    that does not count, so that there is something to see.

    Args:
        curves: from the name of each bug, 4 to 24 of them, to its losses: tensors or arrays of shape (P,),
            2 to 200 losses above 0, in nats, one for each noted step.
        right: the losses of the right program, (P,).
        steps: the noted steps, P rising whole numbers from 0.
        gives_away: from each name to one sentence that tells what gives the bug away.
        found_by: from each name to the name of the property that exposes the bug.
        alike: a factor above 1. Two curves that are further apart at no noted step cannot be told apart.
        game: which game is played at first, from 0 to 999.

    Raises:
        TypeError: ``curves``, ``gives_away`` or ``found_by`` is no mapping, a text is none, or a curve holds
            no real numbers.
        ValueError: names, lengths or steps that do not fit, losses that are not above 0, a text that is empty
            or too long, a factor or a game out of its range.

    Example:
        >>> curves = {"a": [2, 2], "b": [2, 1], "c": [2, 0.5], "d": [2, 1.1]}
        >>> texts = {name: f"bug {name}" for name in curves}
        >>> game = BugGame(curves, [2, 1], [1, 2], gives_away=texts, found_by=texts, alike=1.2)
        >>> game.apart("a", "c"), [name for name in curves if game.unseen(name)]
        (4.0, ['b', 'd'])
    """

    _esm, _css = browser_code(Path(__file__).parent)

    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    gives_away = traitlets.List(traitlets.Unicode()).tag(sync=True)
    found_by = traitlets.List(traitlets.Unicode()).tag(sync=True)
    curves = traitlets.Bytes().tag(sync=True)  # float32, (bugs + 1, P), the right program first
    steps = traitlets.Bytes().tag(sync=True)  # float32, (P,)
    alike = traitlets.Float(1.5).tag(sync=True)
    game = traitlets.Int(0).tag(sync=True)
    round = traitlets.Int(0).tag(sync=True)  # the one that is looked at; after the last, the number of bugs
    answers = traitlets.List(traitlets.Int()).tag(sync=True)  # one for each round that has one, as bugs

    def __init__(
        self,
        curves: Mapping[str, Any],
        right: Any,
        steps: Sequence[int],
        *,
        gives_away: Mapping[str, str],
        found_by: Mapping[str, str],
        alike: float,
        game: int = 0,
    ) -> None:
        self._losses = _checked_losses(curves, right)
        names = list(curves)
        self._count = len(names)
        super().__init__(
            names=names,
            gives_away=_texts("gives_away", gives_away, names),
            found_by=_texts("found_by", found_by, names),
            curves=self._losses.tobytes(),
            steps=_checked_steps(steps, self._losses.shape[1]).tobytes(),
            alike=float(alike),
            game=game,
        )

    @traitlets.validate("alike")
    def _check_alike(self, proposal: Any) -> float:
        if not (np.isfinite(proposal["value"]) and proposal["value"] > 1):
            raise OutOfRange(f"alike: expected a factor above 1, got {proposal['value']}")
        return float(proposal["value"])

    @traitlets.validate("game", "round", "answers")
    def _check_play(self, proposal: Any) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        play = {"game": self.game, "round": self.round, "answers": self.answers, name: value}
        now, given = play["round"], play["answers"]
        if not 0 <= play["game"] < _GAMES:
            raise OutOfRange(f"game: expected 0 to {_GAMES - 1}, got {play['game']}")
        if not 0 <= now <= self._count:
            raise OutOfRange(f"round: expected 0 to {self._count}, got {now}")
        if not now <= len(given) <= min(now + 1, self._count):
            raise OutOfRange(f"{name}: expected {now} or {now + 1} answers in round {now}, got {len(given)}")
        for place, (answer, (_, offered)) in enumerate(zip(given, self._deal(play["game"]), strict=False)):
            if answer not in offered:
                raise OutOfRange(f"{name}: expected one of {offered} as answer {place}, got {answer}")
        return value

    def rounds(self) -> list[tuple[int, list[int]]]:
        """For each round of this game the bug whose curve is shown, and the four that are offered."""
        return self._deal(self.game)

    def _deal(self, game: int) -> list[tuple[int, list[int]]]:
        draw = _dice(game)
        rounds = []
        for bug in _shuffled(range(self._count), draw):
            others = _shuffled((other for other in range(self._count) if other != bug), draw)
            offered = others[: _CHOICES - 1]
            if all(self._alike(bug, other) for other in offered):
                offered[-1] = next((o for o in others if not self._alike(bug, o)), offered[-1])
            rounds.append((bug, _shuffled([bug, *offered], draw)))
        return rounds

    def apart(self, one: str, other: str | None = None) -> float:
        """The largest factor between two curves at any noted step; without ``other``, to the right one."""
        return self._apart(self._index(one), -1 if other is None else self._index(other))

    def unseen(self, name: str) -> bool:
        """Whether no curve shows this bug: its own is alike to that of the right program."""
        return self.apart(name) <= self.alike

    def verdicts(self) -> list[str]:
        """For each answer "right", "alike" (no curve tells the two apart: it counts) or "missed"."""

        def verdict(bug: int, answer: int) -> str:
            return "right" if answer == bug else "alike" if self._alike(bug, answer) else "missed"

        return [verdict(bug, answer) for (bug, _), answer in zip(self.rounds(), self.answers, strict=False)]

    def score(self) -> int:
        """How many answers count."""
        return sum(verdict != "missed" for verdict in self.verdicts())

    def missed(self) -> list[str]:
        """The names of the bugs that were missed, in the order of the rounds."""
        return [
            self.names[bug]
            for (bug, _), verdict in zip(self.rounds(), self.verdicts(), strict=False)
            if verdict == "missed"
        ]

    def summary(self) -> str:
        return f"{self._count} bugs, {self._losses.shape[1]} noted steps, game {self.game}"

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise ValueError(f"name: expected one of {self.names}, got {name!r}")
        return self.names.index(name)

    def _apart(self, one: int, other: int) -> float:
        a, b = self._losses[[one + 1, other + 1]].astype(np.float64)
        return float(np.maximum(a / b, b / a).max())

    def _alike(self, one: int, other: int) -> bool:
        """Whether no curve tells two bugs apart."""
        unseen = all(self._apart(bug, -1) <= self.alike for bug in (one, other))
        return unseen or self._apart(one, other) <= self.alike


def _dice(game: int) -> Callable[[int], int]:
    """Whole numbers below a bound, the same for each game: Lehmer's generator, as in the browser."""
    state = game + 1

    def draw(below: int) -> int:
        nonlocal state
        state = state * 48271 % (2**31 - 1)
        return state % below

    for _ in range(3):  # the first numbers of neighbouring games are much alike
        draw(1)
    return draw


def _shuffled(things: Any, draw: Callable[[int], int]) -> list[int]:
    rest = list(things)
    for last in range(len(rest) - 1, 0, -1):
        other = draw(last + 1)
        rest[last], rest[other] = rest[other], rest[last]
    return rest


def _checked_losses(curves: Mapping[str, Any], right: Any) -> npt.NDArray[np.float32]:
    """The right program's curve and those of the bugs, (bugs + 1, P)."""
    if not isinstance(curves, Mapping):
        raise TypeError(f"curves: expected a mapping from names to losses, got {type(curves).__name__}")
    if not _CHOICES <= len(curves) <= _MOST_BUGS:
        raise ValueError(f"curves: expected {_CHOICES} to {_MOST_BUGS} bugs, got {len(curves)}")
    rows: list[npt.NDArray[np.float32]] = []
    for argument, curve in [("right", right), *((f"curves[{name!r}]", row) for name, row in curves.items())]:
        row = as_float32(argument, curve)
        length = len(rows[0]) if rows else row.size
        if row.shape != (length,) or not 2 <= length <= _MOST_STEPS:
            expected = f"({length},)" if rows else f"(P,) with 2 to {_MOST_STEPS} losses"
            raise ValueError(f"{argument}: expected shape {expected}, got {row.shape}")
        if row.min() <= 0:
            raise ValueError(f"{argument}: expected losses above 0, got {row.min()}")
        rows.append(row)
    _texts("curves", {name: name for name in curves}, list(curves))
    return np.stack(rows).astype(FLOAT32)


def _checked_steps(steps: Sequence[int], count: int) -> npt.NDArray[np.float32]:
    row = as_float32("steps", steps)
    whole = row.shape == (count,) and row[0] >= 0 and row[-1] < 2**24 and bool((row == np.floor(row)).all())
    if not whole or not (np.diff(row) > 0).all():
        raise ValueError(f"steps: expected {count} rising whole numbers from 0, got {list(steps)}")
    return row


def _texts(argument: str, texts: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """The texts in the order of the names."""
    if not isinstance(texts, Mapping):
        raise TypeError(f"{argument}: expected a mapping from names to texts, got {type(texts).__name__}")
    if set(texts) != set(names):
        wrong = sorted(map(str, set(texts) ^ set(names)))
        raise ValueError(
            f"{argument}: expected a text for each bug and no other, got too few or many: {wrong}"
        )
    for name in names:
        text = texts[name]
        if not isinstance(text, str):
            raise TypeError(f"{argument}: expected text for {name!r}, got {type(text).__name__}")
        if not text.strip() or len(text) > _MOST_LETTERS:
            raise ValueError(
                f"{argument}: expected 1 to {_MOST_LETTERS} letters for {name!r}, got {len(text.strip())}"
            )
    return [texts[name] for name in names]
