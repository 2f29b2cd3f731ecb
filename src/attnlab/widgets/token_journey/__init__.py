r"""One token on its way through a trained encoder-decoder: each station, each attention, the next token.

A source token travels from its row of the embedding table to the memory, a target token from there on to the
softmax (Vaswani et al. 2017, figure 1). What the sublayers said was measured; norms, sums, attention weights
:math:`\mathrm{softmax}(q_h K_h^T / \sqrt D)` and the softmax at the end are worked out again in the browser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets

from .._base import CourseWidget, OutOfRange, browser_code
from ._recorded import Recorded, Sublayer, attention_weights, record

__all__ = ["Station", "TokenJourney"]

_MOST_TOKENS, _MOST_NUMBERS = 10, 9000  # what fits a phone, and a page
_Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Station:
    """One station of a token.

    Attributes:
        name: such as "encoder 1 self", "decoder 2 cross sum" or "decoder softmax".
        came_in: the vector that comes in, (d,); None at the first station of a side.
        goes_out: the vector that goes out, (d,), or (V,) at the logits and the softmax.
        weights: of the token's attention, (H, m), hidden keys 0; None where nothing is asked.
        said: what the output would say next if the decoder ended here, (V,); None where the vector is not
            the decoder's stream.
    """

    name: str
    came_in: _Numbers | None
    goes_out: _Numbers
    weights: _Numbers | None = None
    said: _Numbers | None = None


class TokenJourney(CourseWidget):
    """Follow a token from station to station of an encoder-decoder Transformer.

    Args:
        model: an encoder-decoder with the parts and names of :class:`attnlab.transformer.Transformer`: one
            embedding table for both languages and the output, layers in ``stacks``. It is run once, in
            evaluation mode, and left as it was.
        source: tensor of token numbers, (S,) or (1, S), 1 to 10 of them.
        target: tensor of the token numbers that the decoder reads, (T,) or (1, T), 1 to 10.
        words: how each token number is written, V texts.
        pad: the number of padding, which is hidden in the source.
        source_token: which source token is followed at first, from 0.
        target_token: which target token is followed at first, from 0.
        station: the station at first, from 0; those of the source come first.

    Raises:
        TypeError: the model has not these parts, or a sequence is no tensor.
        ValueError: it has, but other masks, two tables or more than 9000 numbers to keep; or words and
            tokens do not fit, or a setting is out of its range.
    """

    _esm, _css = browser_code(Path(__file__).parent)

    words = traitlets.List(traitlets.Unicode()).tag(sync=True)
    source = traitlets.List(traitlets.Int()).tag(sync=True)
    target = traitlets.List(traitlets.Int()).tag(sync=True)
    # d_model, heads, encoder and decoder layers, pad; whether norms stand before, and behind each stack
    sizes = traitlets.Dict().tag(sync=True)
    counts = traitlets.Dict().tag(sync=True)  # parameters of each part
    numbers = traitlets.Bytes().tag(sync=True)  # float32, in the order of Recorded.packed
    source_token = traitlets.Int(0).tag(sync=True)
    target_token = traitlets.Int(0).tag(sync=True)
    station = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        model: Any,
        source: Any,
        target: Any,
        words: Sequence[str],
        *,
        pad: int = 0,
        source_token: int = 0,
        target_token: int = 0,
        station: int = 0,
    ) -> None:
        rows = [_row("source", source), _row("target", target)]
        if all(number == pad for number in rows[0][0].tolist()):
            raise ValueError(f"source: expected a token other than padding, {pad}, got none")
        self._recorded = recorded = record(model, rows[0], rows[1], pad)
        texts = _texts(words, len(recorded.table))
        numbers = recorded.packed()
        if len(numbers) > 4 * _MOST_NUMBERS:
            raise ValueError(
                f"model: expected at most {_MOST_NUMBERS} numbers to keep for these tokens, got "
                f"{len(numbers) // 4}; take a smaller model or shorter sentences"
            )
        self._ids = [row[0].tolist() for row in rows]
        self._length = len(self._names("source")) + len(self._names("target"))
        super().__init__(
            words=texts,
            source=self._ids[0],
            target=self._ids[1],
            sizes={
                "width": recorded.table.shape[1],
                "heads": recorded.heads,
                "layers": [len(layers) for layers in recorded.layers],
                "pad": pad,
                "eps": recorded.eps,
                "pre": recorded.pre,
                "last": [last is not None for last in recorded.last_norms],
            },
            counts=recorded.counts,
            numbers=numbers,
            source_token=source_token,
            target_token=target_token,
            station=station,
        )

    @traitlets.validate("source_token", "target_token", "station")
    def _check_index(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        counts = {"source_token": len(self._ids[0]), "target_token": len(self._ids[1])}
        last = counts.get(name, self._length) - 1
        if not 0 <= value <= last:
            raise OutOfRange(f"{name}: expected a whole number from 0 to {last}, got {value}")
        return int(value)

    def journey(self) -> list[Station]:
        """All stations: those of the followed source token, then those of the followed target token."""
        return [*self._side(0, self.source_token), *self._side(1, self.target_token)]

    def _names(self, side: str) -> list[str]:
        return [station.name for station in self._side(("source", "target").index(side), 0)]

    def _side(self, side: int, token: int) -> list[Station]:
        """The stations of one token of the source (side 0) or of the target (side 1)."""
        recorded, eps = self._recorded, self._recorded.eps
        stack = ("encoder", "decoder")[side]
        last = recorded.last_norms[side]
        row = recorded.table[self._ids[side][token]].astype(np.float64)  # (d,)
        x = row * np.sqrt(len(row))
        stations: list[Station] = []

        def stop(name: str, came_in: _Numbers | None, goes_out: _Numbers, *, in_stream: bool = True) -> None:
            said = self._say(goes_out) if side == 1 and in_stream else None
            stations.append(Station(name, came_in, goes_out, said=said))

        stop(f"{stack} embed", None, x)
        placed = x + recorded.positions[side][token]
        stop(f"{stack} position", x, placed)
        x = placed
        for number, layer in enumerate(recorded.layers[side], start=1):
            for sublayer in layer:
                name = f"{stack} {number} {sublayer.part}"
                asked = x
                if recorded.pre:
                    asked = _normed(x, sublayer.norm, eps)
                    stop(f"{name} norm", x, asked, in_stream=False)
                output = sublayer.output[token].astype(np.float64)
                stations.append(Station(name, asked, output, _weights(sublayer, token, recorded)))
                summed = x + output
                stop(f"{name} sum", x, summed, in_stream=recorded.pre)
                x = summed
                if not recorded.pre:
                    x = _normed(summed, sublayer.norm, eps)
                    stop(f"{name} norm", summed, x)
        if last is not None:
            said = self._say(x) if side == 1 else None
            stations.append(Station(f"{stack} last norm", x, _normed(x, last, eps), said=said))
        if side == 1:
            stations += self._next_token(stations[-1].goes_out)
        return stations

    def _next_token(self, x: _Numbers) -> list[Station]:
        """The logits of the decoder's last vector, and their softmax."""
        logits = _logits(self._recorded, x)
        said = _softmax(logits)
        return [
            Station("decoder logits", x, logits, said=said),
            Station("decoder softmax", logits, said, said=said),
        ]

    def _say(self, x: _Numbers) -> _Numbers:
        """Probabilities of the next token, (V,), if the decoder ended with this vector, (d,)."""
        last = self._recorded.last_norms[1]
        normed = x if last is None else _normed(x, last, self._recorded.eps)
        return _softmax(_logits(self._recorded, normed))

    def summary(self) -> str:
        S, T = len(self._ids[0]), len(self._ids[1])
        return f"{S} source tokens, {T} target tokens, {self._length} stations"


def _logits(recorded: Recorded, x: _Numbers) -> _Numbers:
    """The dot product of a vector with each row of the embedding table: (d,) to (V,)."""
    logits: _Numbers = recorded.table.astype(np.float64) @ x
    return logits


def _weights(sublayer: Sublayer, token: int, recorded: Recorded) -> _Numbers | None:
    """The weights of one token in each head, (H, m); None for the feed-forward network."""
    if sublayer.query is None or sublayer.key is None or sublayer.allowed is None:
        return None
    query, allowed = sublayer.query[token : token + 1], sublayer.allowed[token : token + 1]
    return attention_weights(query, sublayer.key, allowed, recorded.heads)[:, 0]


def _normed(x: _Numbers, norm: Any, eps: float) -> _Numbers:
    """Layer norm of one vector; ``norm`` holds the factors and the shifts, (2, d)."""
    centred = x - x.mean()
    normed: _Numbers = centred / np.sqrt((centred**2).mean() + eps) * norm[0] + norm[1]
    return normed


def _softmax(logits: _Numbers) -> _Numbers:
    shares = np.exp(logits - logits.max())
    softmax: _Numbers = shares / shares.sum()
    return softmax


def _row(argument: str, tokens: Any) -> Any:
    """One row of token numbers as a batch of one, (1, n)."""
    if not hasattr(tokens, "tolist") or not hasattr(tokens, "ndim"):
        raise TypeError(f"{argument}: expected a tensor of token numbers, got {type(tokens).__name__}")
    row = tokens[None] if tokens.ndim == 1 else tokens
    if row.ndim != 2 or row.shape[0] != 1 or not 1 <= row.shape[1] <= _MOST_TOKENS:
        raise ValueError(
            f"{argument}: expected shape (n,) or (1, n) with n from 1 to {_MOST_TOKENS}, got "
            f"{tuple(tokens.shape)}"
        )
    return row


def _texts(words: Sequence[str], vocabulary: int) -> list[str]:
    """The words, checked."""
    texts = list(words)
    if len(texts) != vocabulary or not all(isinstance(text, str) and text.strip() for text in texts):
        raise ValueError(f"words: expected {vocabulary} texts, one for each token number, got {texts!r}")
    return texts
