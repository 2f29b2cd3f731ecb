r"""Splitting into heads and merging, step by step: where each number goes, and where it lies in memory.

A tensor is a walk through memory: the number at the index :math:`(i_1, i_2, \dots)` lies at the address
:math:`\sum_n i_n s_n`, where :math:`s_n` is the stride of axis n. With the split,
:math:`o_h = \mathrm{softmax}(Q_h K_h^T / \sqrt D)\, V_h` in each head (Vaswani et al. 2017, section 3.2.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import CourseWidget, OutOfRange, as_float32, browser_code

__all__ = ["HeadSplitExplorer"]

_STEPS = ("x", "view", "transpose", "attention", "back", "merge")
_FOLLOWED = ("queries", "keys", "values")
_MOST_TOKENS, _WIDEST = 6, 8  # what fits a phone
_Numbers = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]


class HeadSplitExplorer(CourseWidget):
    """Follow every number through view, transpose, attention and back, right and with the well-known bug.

    A number is named by its token, a letter, and its column of x: ``b2`` is column 2 of the second token. An
    output keeps the name of the query number in whose place it stands.

    Args:
        tokens: T words, 1 to 6.
        query: tensor or array of shape (T, d_model), d_model from 1 to 8, without a unit.
        key: as ``query``.
        value: as ``query``.
        heads: number of heads at first, a divisor of d_model.
        step: "x", "view", "transpose", "attention", "back" or "merge".
        followed: which numbers are shown until attention: "queries", "keys" or "values".
        bug: leave the transposes out, and reshape straight to (H, T, D) and back.
        chosen: which number is chosen at first, token × d_model + column.

    Raises:
        TypeError: ``tokens`` is one string, or a tensor does not hold real numbers.
        ValueError: shapes that do not fit, numbers that are not finite, a setting out of its range.

    Example:
        >>> x = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
        >>> widget = HeadSplitExplorer(["a", "b", "c"], x, x, x, heads=2, step="transpose")
        >>> widget.tensor_shape(), widget.strides()
        ((2, 3, 2), (2, 4, 1))
        >>> widget.places()[0].tolist()
        [[0, 1], [4, 5], [8, 9]]
    """

    _esm, _css = browser_code(Path(__file__).parent)

    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    width = traitlets.Int().tag(sync=True)  # d_model
    tensors = traitlets.Bytes().tag(sync=True)  # float32, (3, T, d_model): queries, keys, values
    heads = traitlets.Int(1).tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)  # index into the six steps
    followed = traitlets.Unicode("queries").tag(sync=True)
    bug = traitlets.Bool(False).tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        tokens: Sequence[str],
        query: Any,
        key: Any,
        value: Any,
        *,
        heads: int = 1,
        step: str = "x",
        followed: str = "queries",
        bug: bool = False,
        chosen: int = 0,
    ) -> None:
        words = _words(tokens)
        self._tables = _stack(len(words), query=query, key=key, value=value)
        if step not in _STEPS:
            raise ValueError(f"step: expected one of {_STEPS}, got {step!r}")
        super().__init__(
            tokens=words,
            width=self._tables.shape[-1],
            tensors=self._tables.tobytes(),
            heads=heads,
            step=_STEPS.index(step),
            followed=followed,
            bug=bug,
            chosen=chosen,
        )

    @traitlets.validate("heads")
    def _check_heads(self, proposal: Any) -> int:
        d_model = self._tables.shape[-1]
        if proposal["value"] < 1 or d_model % proposal["value"]:
            raise OutOfRange(f"heads: expected a divisor of {d_model}, got {proposal['value']}")
        return int(proposal["value"])

    @traitlets.validate("step", "chosen")
    def _check_index(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        last = {"step": len(_STEPS), "chosen": self._tables[0].size}[name] - 1
        if not 0 <= value <= last:
            raise OutOfRange(f"{name}: expected a whole number from 0 to {last}, got {value}")
        return int(value)

    @traitlets.validate("followed")
    def _check_followed(self, proposal: Any) -> str:
        if proposal["value"] not in _FOLLOWED:
            raise OutOfRange(f"followed: expected one of {_FOLLOWED}, got {proposal['value']!r}")
        return str(proposal["value"])

    def tensor_shape(self) -> tuple[int, ...]:
        """Shape of the tensor at this step."""
        return self._walk()[0]

    def strides(self) -> tuple[int, ...]:
        """How many numbers apart two neighbours along each axis lie in memory."""
        return self._walk()[1]

    def addresses(self) -> _Integers:
        """Where each number lies in its memory, in numbers from its start; in the tensor's shape."""
        shape, strides = self._walk()
        return np.tensordot(np.array(strides), np.indices(shape), axes=1)

    def memory(self) -> _Integers:
        """Which number lies at each address: (T * d_model,), each token * d_model + column of x."""
        split = self._split()
        # Attention writes its outputs head by head. Merge copies them, unless a head is one number wide.
        by_head = not self.bug and (self.step in (3, 4) or (self.step == 5 and split.shape[-1] == 1))
        return split.ravel() if by_head else np.arange(split.size)

    def places(self) -> _Integers:
        """Which number stands where, in the tensor's shape: token * d_model + column of x."""
        return self.memory()[self.addresses()]

    def weights(self) -> _Numbers:
        """Attention weights of each head, whatever the step: (H, T, T), rows sum to 1."""
        query, key, _ = self._in_heads()
        scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights: _Numbers = shares / shares.sum(axis=-1, keepdims=True)
        return weights

    def numbers(self) -> _Numbers:
        """The numbers at this step, in the tensor's shape: what is followed, or outputs after attention."""
        flat = self._tables[_FOLLOWED.index(self.followed)].astype(np.float64).ravel()
        if self.step >= _STEPS.index("attention"):
            flat[self._split()] = self.weights() @ self._in_heads()[2]
        numbers: _Numbers = flat[self.places()]
        return numbers

    def _walk(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and strides at this step."""
        T, d_model = self._tables.shape[1:]
        H, D = self.heads, d_model // self.heads
        if self.step in (0, 5):
            is_view = self.step == 5 and D == 1 and not self.bug  # so that merge need not copy
            return (T, d_model), (1, T) if is_view else (d_model, 1)
        if self.bug:
            return (H, T, D), (T * D, D, 1)
        if self.step == 3:
            return (H, T, D), (T * D, D, 1)
        return {1: ((T, H, D), (d_model, D, 1)), 2: ((H, T, D), (D, d_model, 1))}.get(
            self.step, ((T, H, D), (D, T * D, 1))
        )

    def _split(self) -> _Integers:
        """Which number each head holds where: (H, T, D)."""
        T, d_model = self._tables.shape[1:]
        places = np.arange(T * d_model)
        if self.bug:
            return places.reshape(self.heads, T, -1)
        return places.reshape(T, self.heads, -1).transpose(1, 0, 2)

    def _in_heads(self) -> _Numbers:
        """Queries, keys and values as the heads get them: (3, H, T, D)."""
        flat = self._tables.reshape(3, -1).astype(np.float64)
        return flat[:, self._split()]

    def summary(self) -> str:
        T, d_model = self._tables.shape[1:]
        return f"{T} tokens, d_model = {d_model}, {self.heads} heads"


def _words(tokens: Sequence[str]) -> list[str]:
    """The words, checked."""
    if isinstance(tokens, str):
        raise TypeError("tokens: expected a sequence of words, got one str")
    words = list(tokens)
    if not 1 <= len(words) <= _MOST_TOKENS:
        raise ValueError(f"tokens: expected 1 to {_MOST_TOKENS}, got {len(words)}")
    return words


def _stack(num_tokens: int, **given: Any) -> npt.NDArray[np.float32]:
    """Check the three tensors and join them: (3, T, d_model)."""
    tables = {name: as_float32(name, table) for name, table in given.items()}
    width = tables["query"].shape[-1] if tables["query"].ndim == 2 else 0
    for name, table in tables.items():
        if table.shape != (num_tokens, width) or width > _WIDEST:
            raise ValueError(
                f"{name}: expected shape (T, d_model) = ({num_tokens}, 1 to {_WIDEST}), the same for query, "
                f"key and value, got {table.shape}"
            )
    return np.stack(list(tables.values()))
