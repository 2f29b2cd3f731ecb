"""The sizes of a decoder-only model, in one frozen object that checks itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

__all__ = ["DecoderOnlyConfig", "PositionKind"]

PositionKind = Literal["learned", "sinusoidal", "rotary", "alibi", "none"]


@dataclass(frozen=True, kw_only=True)
class DecoderOnlyConfig:
    """Everything that fixes the shape of a :class:`~attnlab.decoder_only.DecoderOnly`.

    Attributes:
        vocab_size: Number of tokens, V.
        d_model: Width of the residual stream.
        num_heads: Number of query heads, H; a divisor of ``d_model``.
        num_layers: Number of blocks.
        d_ff: Width inside the feed-forward networks.
        max_length: The longest sequence, prompt and continuation together.
        num_kv_heads: Number of key and value heads, a divisor of ``num_heads``; None stands for
            ``num_heads``, 1 is multi-query attention.
        positions: What tells the model the order: ``"learned"`` and ``"sinusoidal"`` are added to the
            embeddings, ``"rotary"`` turns queries and keys, ``"alibi"`` lowers the scores of distant keys,
            ``"none"`` leaves only the causal mask.
        dropout: Share of the embeddings, attention weights and sublayer outputs set to zero in training.
        tie_output: Whether the output uses the transposed embedding instead of a matrix of its own.
        activation: Of the feed-forward networks, ``"gelu"`` or ``"relu"``.

    Raises:
        TypeError: If a size is not an integer, or another field of the wrong type.
        ValueError: If a value is out of range, or the heads do not fit; the message names the field.
    """

    vocab_size: int
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: int
    max_length: int
    num_kv_heads: int | None = None
    positions: PositionKind = "learned"
    dropout: float = 0.0
    tie_output: bool = True
    activation: Literal["relu", "gelu"] = "gelu"

    def __post_init__(self) -> None:
        """Check every field; the errors are those of the class."""
        for name in ("vocab_size", "d_model", "num_heads", "num_layers", "d_ff", "max_length"):
            _check_size(name, getattr(self, name))
        if self.d_model % self.num_heads != 0:
            raise ValueError(
                f"num_heads: expected a divisor of d_model = {self.d_model}, got {self.num_heads}"
            )
        if self.num_kv_heads is not None:
            _check_size("num_kv_heads", self.num_kv_heads)
            if self.num_heads % self.num_kv_heads != 0:
                raise ValueError(
                    f"num_kv_heads: expected a divisor of num_heads = {self.num_heads}, "
                    f"got {self.num_kv_heads}"
                )
        if not isinstance(self.tie_output, bool):
            raise TypeError(f"tie_output: expected True or False, got {self.tie_output!r}")
        _check_choice("positions", self.positions, get_args(PositionKind))
        _check_choice("activation", self.activation, ("relu", "gelu"))
        if self.positions == "rotary" and self.d_head % 2 != 0:
            raise ValueError(
                "num_heads: rotary positions turn pairs, expected an even d_model / num_heads, "
                f"got {self.d_model} / {self.num_heads} = {self.d_head}"
            )
        if not isinstance(self.dropout, int | float) or isinstance(self.dropout, bool):
            raise TypeError(f"dropout: expected a number, got {self.dropout!r}")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout: expected a share from 0 to below 1, got {self.dropout}")

    @property
    def d_head(self) -> int:
        """Width of one head, ``d_model / num_heads``."""
        return self.d_model // self.num_heads

    def to_dict(self) -> dict[str, Any]:
        """The fields as a plain dictionary of numbers, strings and None, fit for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DecoderOnlyConfig:
        """The configuration that :meth:`to_dict` made a dictionary of.

        Args:
            values: One entry for each field and no other. A default is not filled in, so that a change of the
                defaults would change no model that was saved before.

        Raises:
            TypeError: As in the class.
            ValueError: If a field is missing or unknown, or as in the class.
        """
        names = {field.name for field in fields(cls)}
        unknown, missing = sorted(set(values) - names), sorted(names - set(values))
        if unknown or missing:
            raise ValueError(
                f"values: expected every field of {cls.__name__} and no other, "
                f"got unknown {unknown}, missing {missing}"
            )
        return cls(**values)


def _check_size(name: str, size: object) -> None:
    if not isinstance(size, int) or isinstance(size, bool):
        raise TypeError(f"{name}: expected an integer, got {size!r}")
    if size < 1:
        raise ValueError(f"{name}: expected at least 1, got {size}")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, choices))}, got {value!r}")
