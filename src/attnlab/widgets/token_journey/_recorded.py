"""What a model computed for one pair of sentences, as arrays: what a journey does not work out again.

Axes: n tokens of the side that a sublayer works on, m tokens that it asks, d the width of a vector, V words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .._base import as_float32

__all__ = ["Recorded", "Sublayer", "attention_weights", "record"]

_Floats = npt.NDArray[np.float32]
_Numbers = npt.NDArray[np.float64]
_PARTS = {"self": "self_attention", "cross": "cross_attention", "feed": "feed_forward"}


@dataclass(frozen=True)
class Sublayer:
    """One sublayer as it was run: what it said for each token, and what its attention asked with.

    Attributes:
        part: "self", "cross" or "feed".
        norm: the factors and the shifts of its layer norm, (2, d).
        output: what it adds to the stream, (n, d).
        query: (n, d), the heads side by side; None for "feed".
        key: (m, d); None for "feed".
        allowed: (n, m), True = may attend; None for "feed".
    """

    part: str
    norm: _Floats
    output: _Floats
    query: _Floats | None = None
    key: _Floats | None = None
    allowed: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Recorded:
    """The whole run.

    Attributes:
        table: the embedding table, (V, d).
        positions: what was added to the embeddings of source and target, (S, d) and (T, d).
        layers: for encoder and decoder a list of layers, each a list of sublayers.
        last_norms: factors and shifts of the norm behind each stack, (2, d), or None where there is none.
        pre: whether a norm stands before its sublayer, not behind the sum.
        heads: number of heads.
        eps: added to the variance inside the norms' root.
        counts: parameters of a part: "embed", "position", "norm", "attention", "feed".
    """

    table: _Floats
    positions: tuple[_Floats, _Floats]
    layers: tuple[list[list[Sublayer]], list[list[Sublayer]]]
    last_norms: tuple[_Floats | None, _Floats | None]
    pre: bool
    heads: int
    eps: float
    counts: dict[str, int]

    def packed(self) -> bytes:
        """All numbers in the order in which the browser reads them."""
        return b"".join(array.tobytes() for array in self._arrays())

    def _arrays(self) -> Iterator[_Floats]:
        yield from (self.table, *self.positions)
        for layers, last in zip(self.layers, self.last_norms, strict=True):
            for sublayer in (one for layer in layers for one in layer):
                arrays = (sublayer.norm, sublayer.query, sublayer.key, sublayer.output)
                yield from (array for array in arrays if array is not None)
            if last is not None:
                yield last


def attention_weights(query: Any, key: Any, allowed: Any, heads: int) -> _Numbers:
    """Softmax over the allowed keys of each head: (n, d) and (m, d) to (H, n, m), hidden keys 0."""
    split_query, split_key = (
        np.asarray(array, np.float64).reshape(len(array), heads, -1).transpose(1, 0, 2)
        for array in (query, key)
    )
    scores = split_query @ split_key.transpose(0, 2, 1) / np.sqrt(split_query.shape[-1])  # (H, n, m)
    scores = np.where(allowed, scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: _Numbers = shares / shares.sum(axis=-1, keepdims=True)
    return weights


class _Run:
    """One run of a model in evaluation mode, with what entered and left each of its modules."""

    def __init__(self, model: Any, source: Any, target: Any) -> None:
        self.model = model
        self.seen: list[tuple[str, Any, Any]] = []
        modes = [(module, module.training) for module in model.modules()]
        hooks = [module.register_forward_hook(self._note(name)) for name, module in model.named_modules()]
        model.eval()  # no dropout on the way
        try:
            model(source, target)
        finally:
            for hook in hooks:
                hook.remove()
            for module, was_training in modes:
                module.training = was_training

    def _note(self, name: str) -> Any:
        def note(_module: Any, inputs: Any, output: Any) -> None:
            self.seen.append((name, inputs[0] if inputs else None, getattr(output, "output", output)))

        return note

    def names(self, ending: str) -> list[str]:
        """The modules with this end of their name, once for each time that they ran, in order."""
        return [name for name, _, _ in self.seen if name.endswith(ending)]

    def array(self, name: str, *, entered: bool = False) -> _Floats:
        """What left this module, or entered it, for the one pair: without the axis of the batch."""
        event = next(event for event in self.seen if event[0] == name)
        return as_float32("model", event[1 if entered else 2][0])

    def count(self, name: str) -> int:
        return sum(parameter.numel() for parameter in self.model.get_submodule(name).parameters())


def record(model: Any, source: Any, target: Any, pad: int) -> Recorded:
    """Run the model once on one pair, (1, S) and (1, T) token numbers, and keep what a journey needs.

    Raises:
        TypeError: the model has not the parts of an encoder-decoder.
        ValueError: it has them, but other masks or another output than the journey shows.
    """
    if not hasattr(model, "stacks") or not hasattr(model, "named_modules"):
        raise TypeError(
            f"model: expected an encoder-decoder Transformer with its layers in `stacks`, got "
            f"{type(model).__name__}"
        )
    run = _Run(model, source, target)
    tables = run.names("embedding") or run.names("embeddings.0") + run.names("embeddings.1")
    if len(set(tables)) != 1:
        raise ValueError(f"model: expected one embedding table for both languages, got {sorted(set(tables))}")
    masks = _masks(source[0].tolist(), len(target[0]), pad)
    layers = (_layers(run, "encoder", masks), _layers(run, "decoder", masks))
    first = "stacks.encoder_layers.0."
    order = [name for name, _, _ in run.seen]
    norm = model.get_submodule(first + "around_self.norm")
    recorded = Recorded(
        table=as_float32("model", model.get_submodule(tables[0]).weight),
        positions=_positions(run),
        layers=layers,
        last_norms=(_norm(model.stacks.encoder_norm), _norm(model.stacks.decoder_norm)),
        pre=order.index(first + "around_self.norm") < order.index(first + "self_attention"),
        heads=model.get_submodule(first + "self_attention").num_heads,
        eps=float(norm.eps),
        counts={
            "embed": run.count(tables[0]),
            "position": run.count(run.names("positions")[0]),
            "norm": run.count(first + "around_self.norm"),
            "attention": run.count(first + "self_attention"),
            "feed": run.count(first + "feed_forward"),
        },
    )
    _check_output(recorded, run)
    return recorded


def _masks(source: list[int], T: int, pad: int) -> dict[str, npt.NDArray[np.bool_]]:
    """Who may attend to whom, for each attention: True = may."""
    real = np.array([number != pad for number in source])
    return {
        "encoder self": np.tile(real, (len(source), 1)),  # (S, S)
        "decoder self": np.tril(np.ones((T, T), dtype=bool)),  # (T, T)
        "decoder cross": np.tile(real, (T, 1)),  # (T, S)
    }


def _norm(module: Any) -> _Floats | None:
    """Factors and shifts, (2, d); None for a module that is no norm."""
    weight = getattr(module, "weight", None)
    if weight is None:
        return None
    bias = getattr(module, "bias", None)
    return np.stack([as_float32("model", weight), as_float32("model", weight * 0 if bias is None else bias)])


def _positions(run: _Run) -> tuple[_Floats, _Floats]:
    """What was added to the embeddings: the source's came first."""
    events = [(before, after) for name, before, after in run.seen if name.endswith("positions")]
    source, target = (as_float32("model", (after - before)[0]) for before, after in events)
    return source, target


def _layers(run: _Run, stack: str, masks: dict[str, npt.NDArray[np.bool_]]) -> list[list[Sublayer]]:
    """The layers of a stack, each a list of its sublayers in their order."""
    found = []
    for number in range(len(getattr(run.model.stacks, f"{stack}_layers"))):
        prefix = f"stacks.{stack}_layers.{number}."
        parts = ("self", "feed") if stack == "encoder" else ("self", "cross", "feed")
        found.append([_sublayer(run, prefix, part, masks.get(f"{stack} {part}")) for part in parts])
    return found


def _sublayer(run: _Run, prefix: str, part: str, allowed: npt.NDArray[np.bool_] | None) -> Sublayer:
    name = prefix + _PARTS[part]
    around = {"self": "around_self", "cross": "around_cross", "feed": "around_feed_forward"}[part]
    norm = _norm(run.model.get_submodule(f"{prefix}{around}.norm"))
    assert norm is not None
    output = run.array(name)
    if allowed is None:
        return Sublayer(part, norm, output)
    query, key, value = (run.array(f"{name}.{projection}") for projection in ("w_q", "w_k", "w_v"))
    heads = run.model.get_submodule(name).num_heads
    if key.shape[-1] != query.shape[-1]:
        raise ValueError("model: expected a key for each head that asks, got heads that share keys")
    weights = attention_weights(query, key, allowed, heads)  # (H, n, m)
    mixed = np.einsum("hnm,mhd->nhd", weights, value.reshape(len(value), heads, -1)).reshape(query.shape)
    if not np.allclose(mixed, run.array(f"{name}.w_o", entered=True), rtol=1e-3, atol=1e-3):
        raise ValueError(
            f"model: expected that only source padding and later target tokens are hidden, got another mask "
            f"in {name}"
        )
    return Sublayer(part, norm, output, query, key, allowed)


def _check_output(recorded: Recorded, run: _Run) -> None:
    """The model's logits must be the decoder's vectors times the embedding table."""
    stack = run.array("stacks.decoder_norm")
    logits = run.array("")
    table = recorded.table
    if logits.shape != (len(stack), len(table)) or not np.allclose(
        stack @ table.T, logits, rtol=1e-3, atol=1e-3
    ):
        raise ValueError("model: expected logits from the embedding table (a tied output), got others")
