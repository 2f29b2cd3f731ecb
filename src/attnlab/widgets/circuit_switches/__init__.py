r"""Heads of two layers switched off: how often the model is then right, and where a head of layer 2 looks.

An induction head gives position t its weight at positions j > 0 whose predecessor is the same token,
:math:`x_{j-1} = x_t`. On a string that repeats itself these places make a stripe below the diagonal (Olsson
et al. 2022). A head of layer 2 depends on what layer 1 hands over, so its map has one form for each set of
heads of layer 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import CourseWidget, OutOfRange, as_float32, browser_code

__all__ = ["CircuitSwitches"]

_MOST_HEADS, _MOST_TOKENS, _MOST_LETTERS = 3, 24, 3
_FULL = 255  # a weight of 1, as it is sent
_NEAR = 1e-3  # how far the sum of a row of weights may be from 1


class CircuitSwitches(CourseWidget):
    """Switch heads of both layers off: the measured accuracy, and the map of a head of layer 2.

    A set of heads is a number whose bit h says that head h is on: first the H heads of layer 1, then the G
    heads of layer 2.

    Args:
        measured: 2^(H + G) shares from 0 to 1: for each set of heads, how often the model is right.
        maps: shape (2^H, G, T, T): for each set of heads of layer 1 the weights of each head of layer 2 on
            one string, causal, so that position t sees none after it; H and G from 1 to 3. A weight is kept
            to 1/255.
        tokens: the string, T texts of one to three letters, at most 24. One of them has to come again.
        heads_on: the set of heads at first; None means all.
        head: whose map is shown at first, a head of layer 2, from 0.
        row: the position that is chosen at first, from 0; None means the first with a stripe.

    Raises:
        TypeError: what should be numbers or texts is not.
        ValueError: shapes that do not fit, shares outside 0 to 1, rows that do not sum to 1 or that see what
            comes later, a string in which nothing comes again, a setting out of its range.

    Example:
        >>> looks = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.8, 0.2]]  # of one head, with layer 1 on
        >>> blind = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.4, 0.2, 0.4]]  # and off
        >>> widget = CircuitSwitches([0.1, 0.1, 0.1, 0.9], [[blind], [looks]], tokens=["A", "B", "A"])
        >>> [(round(widget.accuracy(on), 1), round(widget.stripe(on), 1)) for on in (0b11, 0b10)]
        [(0.9, 0.8), (0.1, 0.2)]
    """

    _esm, _css = browser_code(Path(__file__).parent)

    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    heads = traitlets.List(traitlets.Int()).tag(sync=True)  # [H, G], how many a layer has
    measured = traitlets.Bytes().tag(sync=True)  # float32, (2^(H + G),)
    maps = traitlets.Bytes().tag(sync=True)  # uint8, (2^H, G, T, T)
    heads_on = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        measured: Any,
        maps: Any,
        tokens: Sequence[str],
        *,
        heads_on: int | None = None,
        head: int = 0,
        row: int | None = None,
    ) -> None:
        texts = _texts(tokens)
        self._on_stripe = _stripe(texts)
        self._maps = _maps(maps, len(texts))
        first, second = len(self._maps).bit_length() - 1, self._maps.shape[1]
        self._measured = _shares(measured, 2 ** (first + second))
        self._counts = {"heads_on": len(self._measured), "head": second, "row": len(texts)}
        super().__init__(
            tokens=texts,
            heads=[first, second],
            measured=self._measured.tobytes(),
            maps=self._maps.tobytes(),
            heads_on=len(self._measured) - 1 if heads_on is None else heads_on,
            head=head,
            row=int(self._on_stripe.any(axis=1).argmax()) if row is None else row,
        )

    @traitlets.validate("heads_on", "head", "row")
    def _check_index(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        last = self._counts[name] - 1
        if not 0 <= value <= last:
            raise OutOfRange(f"{name}: expected a whole number from 0 to {last}, got {value}")
        return int(value)

    def is_on(self) -> npt.NDArray[np.bool_]:
        """Which heads are on: (H + G,), those of layer 1 and then those of layer 2."""
        return np.array([bool(self.heads_on >> h & 1) for h in range(sum(self.heads))])

    def on_stripe(self) -> npt.NDArray[np.bool_]:
        """The places after an earlier copy of the row's token: (T, T)."""
        return self._on_stripe.copy()

    def weights(self, heads_on: int | None = None, head: int | None = None) -> npt.NDArray[np.float64]:
        """The map of a head, by default the one shown, for the heads that are on: (T, T)."""
        first = (self.heads_on if heads_on is None else heads_on) % len(self._maps)
        weights: npt.NDArray[np.float64] = self._maps[first, self.head if head is None else head] / _FULL
        return weights

    def stripe(self, heads_on: int | None = None, head: int | None = None) -> float:
        """The weight on the stripe, the mean of the rows that have one."""
        on = (self.weights(heads_on, head) * self._on_stripe).sum(axis=-1)
        return float(on[self._on_stripe.any(axis=-1)].mean())

    def accuracy(self, heads_on: int | None = None) -> float:
        """The measured share for a set of heads, by default the one that is on."""
        return float(self._measured[self.heads_on if heads_on is None else heads_on])

    def summary(self) -> str:
        first, second = self.heads
        return f"{first} and {second} heads, {len(self.tokens)} tokens"


def _texts(tokens: Sequence[str]) -> list[str]:
    """Check the string."""
    texts = list(tokens)
    bad = [text for text in texts if not isinstance(text, str)]
    if bad:
        raise TypeError(f"tokens: expected text, got {type(bad[0]).__name__} {bad[0]!r}")
    if not 3 <= len(texts) <= _MOST_TOKENS:
        raise ValueError(f"tokens: expected 3 to {_MOST_TOKENS}, got {len(texts)}")
    if not all(len(text.strip()) >= 1 and len(text) <= _MOST_LETTERS for text in texts):
        raise ValueError(f"tokens: expected texts of 1 to {_MOST_LETTERS} letters, got {texts}")
    return texts


def _stripe(texts: list[str]) -> npt.NDArray[np.bool_]:
    """Where a row has its own token one place before, no later than itself: (T, T)."""
    row = np.array(texts)
    follows = np.zeros((len(row), len(row)), dtype=bool)
    follows[:, 1:] = row[:, None] == row[None, :-1]
    follows = np.tril(follows)
    if not follows.any():
        raise ValueError(f"tokens: expected one that comes again, got {texts}")
    return follows


def _maps(maps: Any, length: int) -> npt.NDArray[np.uint8]:
    """Check the weights, (2^H, G, T, T), and keep each as a number of 255 steps."""
    weights = as_float32("maps", maps)
    sets = [2**heads for heads in range(1, _MOST_HEADS + 1)]
    fits = weights.ndim == 4 and weights.shape[0] in sets and 1 <= weights.shape[1] <= _MOST_HEADS
    if not fits or weights.shape[2:] != (length, length):
        raise ValueError(
            f"maps: expected shape (2^H, G, {length}, {length}), H and G from 1 to {_MOST_HEADS}, "
            f"got {weights.shape}"
        )
    if weights.min() < 0 or abs(weights.sum(axis=-1) - 1).max() > _NEAR:
        raise ValueError("maps: expected weights that are not negative, in rows that sum to 1")
    if np.triu(weights, 1).any():
        raise ValueError("maps: expected no weight on what comes later")
    steps: npt.NDArray[np.uint8] = np.rint(_FULL * weights.clip(max=1)).astype(np.uint8)
    return steps


def _shares(measured: Any, count: int) -> npt.NDArray[np.float32]:
    """Check the measured shares, one for each set of heads."""
    shares = as_float32("measured", measured)
    if shares.shape != (count,):
        raise ValueError(f"measured: expected shape (2^(H + G),) = ({count},), got {shares.shape}")
    if shares.min() < 0 or shares.max() > 1:
        raise ValueError(f"measured: expected shares from 0 to 1, got {shares.min()} to {shares.max()}")
    return shares
