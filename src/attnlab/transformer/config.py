"""The sizes and choices that make an encoder-decoder Transformer, in one frozen record.

Source: Vaswani et al., "Attention Is All You Need", 2017, sections 3 and 5.4 and table 3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

__all__ = ["TransformerConfig", "paper_base", "paper_big"]

Norm = Literal["pre", "post"]
Activation = Literal["relu", "gelu"]
Positions = Literal["sinusoidal", "learned", "none"]

_SIZES = (
    "source_vocab_size",
    "target_vocab_size",
    "d_model",
    "num_heads",
    "d_ff",
    "num_encoder_layers",
    "num_decoder_layers",
    "max_length",
)
_MARKS = ("pad", "bos", "eos")
_CHOICES = {"norm": get_args(Norm), "activation": get_args(Activation), "positions": get_args(Positions)}
_SWITCHES = ("share_embeddings", "tie_output")


@dataclass(frozen=True)
class TransformerConfig:
    """What a :class:`~attnlab.transformer.Transformer` is made of; it checks itself.

    Attributes:
        source_vocab_size: Number of different source tokens.
        target_vocab_size: Number of different target tokens.
        d_model: Width of a token's vector between the layers.
        num_heads: Heads of each attention, a divisor of ``d_model``.
        d_ff: Width of the hidden layer of each feed-forward network.
        num_encoder_layers: Layers of the encoder.
        num_decoder_layers: Layers of the decoder.
        dropout: Share of the entries set to zero at random in training.
        norm: ``"post"``, layer norm after each residual sum as in the paper (section 3.1), or ``"pre"``,
            before each sub-layer (Xiong et al. 2020).
        final_norm: Whether one more layer norm follows each stack. Left out, it follows ``norm``: a pre-norm
            stack needs it, for nothing else normalises what it returns; the paper's post-norm stack ends in a
            norm already and has none. :class:`torch.nn.Transformer` has it in both cases.
        activation: Of the feed-forward networks, ``"relu"`` (section 3.3) or ``"gelu"``.
        max_length: The longest source and the longest target, in tokens.
        pad: Id of the token that fills rows up; it is never attended to in the source and never predicted.
        bos: Id of the token that every target begins with.
        eos: Id of the token that ends a sequence.
        share_embeddings: One table for source and target (section 3.4); the vocabularies must be one.
        tie_output: The output projection is the table of target embeddings (section 3.4).
        positions: ``"sinusoidal"`` (section 3.5), ``"learned"`` or ``"none"``.

    Raises:
        ValueError: If a value is out of range or does not fit another.
        TypeError: If a size or an id is not a whole number, or a switch is not a bool.
    """

    source_vocab_size: int
    target_vocab_size: int
    d_model: int = 512
    num_heads: int = 8
    d_ff: int = 2048
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    dropout: float = 0.1
    norm: Norm = "post"
    final_norm: bool | None = None
    activation: Activation = "relu"
    max_length: int = 256
    pad: int = 0
    bos: int = 1
    eos: int = 2
    share_embeddings: bool = False
    tie_output: bool = True
    positions: Positions = "sinusoidal"

    def __post_init__(self) -> None:
        self._check_kinds()
        self._check_fit()
        self._check_marks()

    @property
    def has_final_norm(self) -> bool:
        """Whether a layer norm follows each stack, the default worked out."""
        return self.norm == "pre" if self.final_norm is None else self.final_norm

    def to_dict(self) -> dict[str, int | float | str | bool | None]:
        """The fields by name, as plain values that JSON can hold."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TransformerConfig:
        """The configuration that :meth:`to_dict` wrote down.

        Args:
            fields: A value for every field, and nothing else: a checkpoint says all, so that a change of the
                defaults changes no model that was saved before.

        Raises:
            ValueError: If a field is missing or unknown, or a value does not fit.
            TypeError: If a value is of the wrong type.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(fields) - set(names))
        missing = [name for name in names if name not in fields]
        if unknown or missing:
            raise ValueError(
                f"fields: expected every field of TransformerConfig and no other, "
                f"got unknown {unknown}, missing {missing}"
            )
        return cls(**fields)

    def _check_kinds(self) -> None:
        for name in (*_SIZES, *_MARKS):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name}: expected a whole number, got {value!r}")
        for name in _SIZES:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if isinstance(self.dropout, bool) or not isinstance(self.dropout, int | float):
            raise TypeError(f"dropout: expected a number, got {self.dropout!r}")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout: expected at least 0 and below 1, got {self.dropout}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name}: expected one of {choices}, got {getattr(self, name)!r}")
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        if self.final_norm is not None and not isinstance(self.final_norm, bool):
            raise TypeError(f"final_norm: expected True, False or None, got {self.final_norm!r}")

    def _check_fit(self) -> None:
        if self.d_model % self.num_heads:
            raise ValueError(
                f"num_heads: expected a divisor of d_model = {self.d_model}, got {self.num_heads}"
            )
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                f"share_embeddings: expected equal vocabularies, got source_vocab_size = "
                f"{self.source_vocab_size} and target_vocab_size = {self.target_vocab_size}"
            )

    def _check_marks(self) -> None:
        vocab_size = min(self.source_vocab_size, self.target_vocab_size)
        for name in _MARKS:
            value = getattr(self, name)
            if not 0 <= value < vocab_size:
                raise ValueError(
                    f"{name}: expected an id of both vocabularies, 0 to {vocab_size - 1}, got {value}"
                )
        if self.pad == self.eos:
            raise ValueError(
                f"eos: expected an id other than pad = {self.pad}, got {self.eos}: what leaves padding out "
                "of the loss would leave the end of a sequence out too, and the model would not learn to stop"
            )
        if self.pad == self.bos:
            raise ValueError(
                f"bos: expected an id other than pad = {self.pad}, got {self.bos}: the vector of pad is zero"
            )
        if self.bos == self.eos:
            raise ValueError(
                f"bos: expected an id other than eos = {self.eos}, got {self.bos}: decoding never predicts a "
                "beginning, so that no sequence would end"
            )


def paper_base(vocab_size: int, *, max_length: int = 256) -> TransformerConfig:
    """The paper's base model, with one vocabulary of ``vocab_size`` tokens for both languages.

    ``max_length`` has no influence on the parameters: positions are sinusoidal.

    At 37,000 tokens it has 63.1 million parameters; table 3 says 65. The stacks account for the table's other
    rows of this size; the tables' embeddings come out near 41,000 rows, where section 5.1 says "about 37000".

    Raises:
        ValueError: If a size is out of range.

    Source: Vaswani et al. 2017, table 3, row "base", and section 3.4 for the shared embeddings.
    """
    return TransformerConfig(
        source_vocab_size=vocab_size,
        target_vocab_size=vocab_size,
        max_length=max_length,
        share_embeddings=True,
    )


def paper_big(vocab_size: int, *, max_length: int = 256) -> TransformerConfig:
    """The paper's big model, with one vocabulary of ``vocab_size`` tokens for both languages.

    ``max_length`` has no influence on the parameters: positions are sinusoidal.

    At 37,000 tokens it has 214.2 million parameters; table 3 says 213, which would be 35,800 tokens. No one
    vocabulary explains both this figure and that of the base model.

    Raises:
        ValueError: If a size is out of range.

    Source: Vaswani et al. 2017, table 3, row "big", and section 3.4 for the shared embeddings.
    """
    return TransformerConfig(
        source_vocab_size=vocab_size,
        target_vocab_size=vocab_size,
        d_model=1024,
        num_heads=16,
        d_ff=4096,
        dropout=0.3,
        max_length=max_length,
        share_embeddings=True,
    )
