r"""Who looks at whom, and how sharply: the weights of scaled dot-product attention, to be changed by hand.

The weights are :math:`\mathrm{softmax}(Q K^\top / (\sqrt{d_k}\, \tau))`, row by row (Vaswani et al. 2017,
section 3.2.1, with a temperature :math:`\tau` that is 1 there).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import FLOAT32, CourseWidget, OutOfRange, as_float32, browser_code

__all__ = ["AttentionExplorer"]


class AttentionExplorer(CourseWidget):
    """Change the temperature, the width, the scaling and the mask, and watch every row of weights.

    Args:
        tokens: the T words that stand at the rows (as queries) and at the columns (as keys).
        query: tensor or array of shape (T, d_k), or (H, T, d_k) for H heads.
        key: the same shape as ``query``.
        temperature: divides the scores, without a unit, above 0; 1 is the formula of the paper.
        dimensions: how many of the d_k dimensions are used, the first ones; None means all.
        scaled: divide the scores by the square root of ``dimensions``.
        mask: "none", or "causal": no token may look at a later one.
        head: which head is shown at first, from 0.
        row: which query is chosen at first, from 0.

    Raises:
        TypeError: ``query`` or ``key`` does not hold real numbers, or a token is no text.
        ValueError: shapes that do not fit, numbers that are not finite, a setting out of its range.

    Example:
        >>> AttentionExplorer(["a", "b"], [[0.0], [0.0]], [[1.0], [2.0]]).weights()
        array([[0.5, 0.5],
               [0.5, 0.5]])
    """

    _esm, _css = browser_code(Path(__file__).parent)

    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    shape = traitlets.List(traitlets.Int()).tag(sync=True)  # [H, T, d_k]
    query = traitlets.Bytes().tag(sync=True)  # float32, (H, T, d_k)
    key = traitlets.Bytes().tag(sync=True)  # float32, (H, T, d_k)
    temperature = traitlets.Float(1.0).tag(sync=True)
    dimensions = traitlets.Int(1).tag(sync=True)
    scaled = traitlets.Bool(True).tag(sync=True)
    mask = traitlets.Unicode("none").tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        tokens: Sequence[str],
        query: Any,
        key: Any,
        *,
        temperature: float = 1.0,
        dimensions: int | None = None,
        scaled: bool = True,
        mask: str = "none",
        head: int = 0,
        row: int = 0,
    ) -> None:
        words = _words(tokens)
        self._query, self._key = _heads(query, key, len(words))
        super().__init__(
            tokens=words,
            shape=list(self._query.shape),
            query=self._query.tobytes(),
            key=self._key.tobytes(),
            temperature=temperature,
            dimensions=self._query.shape[-1] if dimensions is None else dimensions,
            scaled=scaled,
            mask=mask,
            head=head,
            row=row,
        )

    @traitlets.validate("temperature")
    def _check_temperature(self, proposal: Any) -> float:
        if not (math.isfinite(proposal["value"]) and proposal["value"] > 0):
            raise OutOfRange(f"temperature: expected a finite number above 0, got {proposal['value']}")
        return float(proposal["value"])

    @traitlets.validate("mask")
    def _check_mask(self, proposal: Any) -> str:
        if proposal["value"] not in ("none", "causal"):
            raise OutOfRange(f'mask: expected "none" or "causal", got {proposal["value"]!r}')
        return str(proposal["value"])

    @traitlets.validate("dimensions", "head", "row")
    def _check_index(self, proposal: Any) -> int:
        heads, length, d_k = self._query.shape
        name, value = proposal["trait"].name, proposal["value"]
        first, last = {"dimensions": (1, d_k), "head": (0, heads - 1), "row": (0, length - 1)}[name]
        if not first <= value <= last:
            raise OutOfRange(f"{name}: expected a whole number from {first} to {last}, got {value}")
        return int(value)

    def weights(self) -> npt.NDArray[np.float64]:
        """The weights that the browser shows now, as it computes them: in float64 from float32 numbers.

        Returns:
            Array of shape (T, T): row i holds what query i gives to each key, and sums to 1.
        """
        n = self.dimensions
        query, key = (part[self.head, :, :n].astype(np.float64) for part in (self._query, self._key))
        scores = query @ key.T / (self.temperature * (math.sqrt(n) if self.scaled else 1.0))  # (T, T)
        if self.mask == "causal":
            scores = np.where(np.tril(np.ones(scores.shape, dtype=bool)), scores, -np.inf)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights: npt.NDArray[np.float64] = shares / shares.sum(axis=-1, keepdims=True)
        return weights

    def summary(self) -> str:
        heads, length, d_k = self.shape
        return f"{length} tokens, {heads} {'head' if heads == 1 else 'heads'}, d_k = {d_k}"


def _words(tokens: Sequence[str]) -> list[str]:
    """The tokens as a list of text that is not empty."""
    if isinstance(tokens, str):
        raise TypeError("tokens: expected a sequence of words, got one str; split it first")
    words = list(tokens)
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"tokens: expected text, got {type(word).__name__} {word!r}")
    if not words:
        raise ValueError("tokens: expected at least one token, got none")
    return words


def _heads(query: Any, key: Any, length: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Check queries and keys and give both the shape (H, T, d_k)."""
    arrays = []
    for name, value in (("query", query), ("key", key)):
        array = as_float32(name, value)
        if array.ndim not in (2, 3) or array.shape[-2] != length:
            raise ValueError(
                f"{name}: expected shape (T, d_k) or (H, T, d_k) with T = {length} tokens, got {array.shape}"
            )
        arrays.append(array.reshape(-1, *array.shape[-2:]).astype(FLOAT32))
    if arrays[0].shape != arrays[1].shape:
        raise ValueError(f"key: expected the shape of query, {arrays[0].shape}, got {arrays[1].shape}")
    return arrays[0], arrays[1]
