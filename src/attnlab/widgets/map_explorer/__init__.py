r"""The attention maps of a whole model: all heads, their mean in each layer, and attention rollout.

Rollout treats a layer as if it mixed the positions, half by its mean map :math:`A` and half by the residual
connection: :math:`R_l = \tfrac12 (A_l + I) \cdots \tfrac12 (A_1 + I)` (Abnar and Zuidema 2020, section 3).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import CourseWidget, OutOfRange, as_float32, browser_code

__all__ = ["MapExplorer"]

_MOST_LAYERS, _MOST_HEADS, _MOST_TOKENS = 16, 16, 48
_MOST_BYTES = 24_576
_NEAR = 1e-3  # as far from one may the sum of a row be, and as far from zero a hidden weight
_KINDS = ("head", "mean", "rollout")
_Numbers = npt.NDArray[np.float64]


class MapExplorer(CourseWidget):
    """Open any map of a model and choose a row: a head's, the mean of a layer's heads, or rollout up to it.

    Up to 6144 weights travel as float32. More are rounded to 255ths, so that each row still sums to one;
    at most 24 576 are taken.

    Args:
        weights: tensor or array of shape (L, H, Q, K), of one text: up to 16 layers, 16 heads and 48 tokens.
            A row sums to one, or to zero where a query sees no key.
        tokens: Q texts, what stands at the queries, and at the keys where ``keys`` is None.
        keys: K texts where the keys are other tokens than the queries (cross-attention). There is no rollout
            then, since a position of one is none of the other.
        mask: booleans of shape (Q, K), True = may attend. Hidden cells are hatched where they are zero.
        layer: the layer that is opened at first, from 0.
        head: the head that is opened at first, from 0.
        shown: what is opened of the layer: one "head", the "mean" of its heads, or "rollout" up to it.
        row: the query that is chosen at first, from 0; None means the last one.

    Raises:
        TypeError: what should be numbers, whole numbers, booleans or texts is not.
        ValueError: shapes that do not fit, too many weights, rows that do not sum to one, weight on a hidden
            key, a setting out of its range.

    Example:
        >>> maps = [[[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]]]  # one layer of two heads
        >>> widget = MapExplorer(maps, ["a", "b"], shown="mean")
        >>> widget.map().tolist(), widget.map("rollout").tolist()
        ([[1.0, 0.0], [0.75, 0.25]], [[1.0, 0.0], [0.375, 0.625]])
    """

    _esm, _css = browser_code(Path(__file__).parent)

    shape = traitlets.List(traitlets.Int()).tag(sync=True)  # [L, H, Q, K]
    weights = traitlets.Bytes().tag(sync=True)  # float32 or uint8 (255ths), (L, H, Q, K)
    mask = traitlets.Bytes().tag(sync=True)  # uint8, (Q, K), 1 = may attend; empty: nothing is hidden
    query_tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    key_tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)  # empty: the queries
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    shown = traitlets.Unicode("head").tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        weights: Any,
        tokens: Sequence[str],
        *,
        keys: Sequence[str] | None = None,
        mask: Any = None,
        layer: int = 0,
        head: int = 0,
        shown: str = "head",
        row: int | None = None,
    ) -> None:
        given = _maps(weights)
        sent: npt.NDArray[Any] = given if given.nbytes <= _MOST_BYTES else _in_255ths(given)
        self._weights: _Numbers = sent.astype(np.float64) / (1 if sent is given else 255)
        Q, K = given.shape[2:]
        self._has_rollout = keys is None
        queries = _texts("tokens", tokens, Q)
        if keys is None and Q != K:
            raise ValueError(f"keys: expected {K} texts, since there are {K} keys and {Q} queries, got None")
        super().__init__(
            shape=list(given.shape),
            weights=sent.tobytes(),
            mask=b"" if mask is None else _mask(mask, given).tobytes(),
            query_tokens=queries,
            key_tokens=[] if keys is None else _texts("keys", keys, K),
            layer=_whole("layer", layer),
            head=_whole("head", head),
            shown=shown,
            row=Q - 1 if row is None else _whole("row", row),
        )

    @traitlets.validate("layer", "head", "row")
    def _check_index(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        L, H, Q, _ = self._weights.shape
        last = {"layer": L, "head": H, "row": Q}[name] - 1
        if not 0 <= value <= last:
            raise OutOfRange(f"{name}: expected a whole number from 0 to {last}, got {value}")
        return int(value)

    @traitlets.validate("shown")
    def _check_shown(self, proposal: Any) -> str:
        kinds = _KINDS if self._has_rollout else _KINDS[:2]
        if proposal["value"] not in kinds:
            raise OutOfRange(f"shown: expected one of {kinds}, got {proposal['value']!r}")
        return str(proposal["value"])

    def mean(self) -> _Numbers:
        """The mean over the heads of each layer: (L, Q, K)."""
        mean: _Numbers = self._weights.mean(axis=1)
        return mean

    def rollout(self) -> _Numbers:
        """What the positions are made of after each layer, by rollout: (L, Q, Q).

        Raises:
            ValueError: the keys are other tokens than the queries.
        """
        if not self._has_rollout:
            raise ValueError("rollout: expected keys and queries to be the same tokens")
        identity = np.eye(self._weights.shape[-1])
        flows = [identity]
        for weights in self.mean():  # from below
            flows.append((weights + identity) / 2 @ flows[-1])
        return np.stack(flows[1:])

    def map(self, shown: str | None = None) -> _Numbers:
        """A map of the layer that is open, by default the one that is shown: (Q, K)."""
        kind = shown or self.shown
        maps = {"head": lambda: self._weights[:, self.head], "mean": self.mean, "rollout": self.rollout}
        chosen: _Numbers = maps[kind]()[self.layer]
        return chosen

    def gets_most(self) -> tuple[int, float]:
        """The key that gets most in the map that is shown, and its share of all weight in this map."""
        received = self.map().sum(axis=0)  # (K,)
        # Sums that differ by rounding alone count as equal, so that the first one is named everywhere.
        column = int(np.argmax(received >= received.max() - 1e-9))
        return column, float(received[column] / received.sum())

    def summary(self) -> str:
        L, H, Q, K = self.shape
        tokens = f"{Q} tokens" if self._has_rollout else f"{Q} queries, {K} keys"
        return f"{L} {'layer' if L == 1 else 'layers'}, {H} {'head' if H == 1 else 'heads'}, {tokens}"


def _maps(weights: Any) -> npt.NDArray[np.float32]:
    """Check the weights, (L, H, Q, K)."""
    maps = as_float32("weights", weights)
    limits = (_MOST_LAYERS, _MOST_HEADS, _MOST_TOKENS, _MOST_TOKENS)
    if maps.ndim != 4 or any(n > most for n, most in zip(maps.shape, limits, strict=True)):
        raise ValueError(f"weights: expected shape (L, H, Q, K), at most {limits}, got {maps.shape}")
    if maps.size > _MOST_BYTES:
        raise ValueError(f"weights: expected at most {_MOST_BYTES}, got {maps.size}; show fewer tokens")
    if maps.min() < 0:
        raise ValueError(f"weights: expected none below 0, got {maps.min()}")
    sums = maps.sum(axis=-1, dtype=np.float64)
    off = np.minimum(np.abs(sums - 1), sums)  # a row sums to one, or a query sees no key
    if off.max() > _NEAR:
        wrong = sums.ravel()[off.argmax()]
        raise ValueError(f"weights: expected rows that sum to 1, got {wrong:.4g}; was dropout on?")
    return maps


def _in_255ths(maps: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Round to 255ths, down first; the largest remainders of a row get what its sum lacks."""
    sums = maps.sum(axis=-1, keepdims=True, dtype=np.float64)
    parts = 255 * maps / np.where(sums < 0.5, 1.0, sums)
    whole = np.floor(parts)
    lacking = np.rint((parts - whole).sum(axis=-1, keepdims=True))
    place = (whole - parts).argsort(axis=-1, kind="stable").argsort(axis=-1)  # 0: the largest remainder
    rounded: npt.NDArray[np.uint8] = (whole + (place < lacking)).astype(np.uint8)
    return rounded


def _mask(mask: Any, maps: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Check the mask, (Q, K): no weight may stand on what it hides."""
    table: npt.NDArray[Any] = np.asarray(mask.detach().cpu() if hasattr(mask, "detach") else mask)
    if table.dtype != np.bool_:
        raise TypeError(f"mask: expected booleans, True = may attend, got {table.dtype}")
    if table.shape != maps.shape[2:]:
        raise ValueError(f"mask: expected shape (Q, K) = {maps.shape[2:]}, got {table.shape}")
    hidden = maps[:, :, ~table]
    if hidden.size and hidden.max() > _NEAR:
        raise ValueError(f"weights: expected 0 where the mask hides a key, got {hidden.max():.4g}")
    return table.astype(np.uint8)


def _texts(argument: str, tokens: Sequence[str], count: int) -> list[str]:
    """Check the tokens: so many texts."""
    if isinstance(tokens, str):
        raise TypeError(f"{argument}: expected a sequence of texts, got one str; split it first")
    texts = list(tokens)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{argument}: expected text, got {type(text).__name__} {text!r}")
    if len(texts) != count:
        raise ValueError(f"{argument}: expected {count} texts, one for each, got {len(texts)}")
    return texts


def _whole(argument: str, value: Any) -> int:
    """A whole number, also out of a tensor."""
    try:
        return operator.index(value)
    except TypeError as error:
        raise TypeError(f"{argument}: expected a whole number, got {value!r}") from error
