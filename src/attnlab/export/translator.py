"""A model with all that stands between it and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from attnlab.export.tokeniser import Tokeniser
from attnlab.tasks import EOS, pad_rows
from attnlab.transformer import Transformer, greedy_decode

__all__ = ["TrainedTranslator"]


@dataclass(frozen=True)
class TrainedTranslator:
    """A model with all that stands between it and text.

    Attributes:
        model: The Transformer.
        source: How its source is read.
        target: How its target is written.
        about: What else a reader of the file should know, such as the language; what JSON can hold unchanged.

    Raises:
        ValueError: if a vocabulary has another size than the model's configuration says.
    """

    model: Transformer
    source: Tokeniser
    target: Tokeniser
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for side in ("source", "target"):
            expected = getattr(self.model.config, f"{side}_vocab_size")
            given = len(getattr(self, side).vocabulary)
            if given != expected:
                raise ValueError(f"{side}: expected a vocabulary of {expected} tokens, got {given}")

    def source_rows(self, texts: Sequence[str]) -> Tensor:
        """Texts as the model reads them: numbers ``(B, S)``, each row with ``eos`` and padded."""
        return pad_rows([[*self.source.encode(text), EOS] for text in texts])

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate texts by greedy search.

        Args:
            texts: at least one; what the vocabulary does not know is read as unknown.

        Returns:
            As many texts.

        Raises:
            ValueError: if there is no text, or one is longer than the model's ``max_length``.
        """
        rows = greedy_decode(
            self.model, self.source_rows(texts), max_length=self.model.config.max_length
        )  # (B, L)
        return [self.target.decode(row) for row in rows]
