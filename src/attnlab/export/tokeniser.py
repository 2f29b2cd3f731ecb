"""From text to numbers and back: a way to cut with its vocabulary, in one record that can be saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from torch import Tensor

from attnlab.tasks import SubwordSplitter, Vocabulary, fold_case, split_characters, split_words

__all__ = ["Tokeniser"]

Pieces = Literal["words", "characters", "subwords"]


@dataclass(frozen=True)
class Tokeniser:
    """How the text of one side becomes numbers, and how numbers become text.

    Attributes:
        vocabulary: The tokens and their numbers.
        pieces: ``"words"`` (:func:`attnlab.tasks.split_words`), ``"characters"`` or ``"subwords"``.
        lower_case: Whether a text is put into lower case first.
        merges: For sub-words the pairs of pieces in the order in which to join them.

    Raises:
        ValueError: if ``pieces`` is unknown, or there are merges without sub-words.
    """

    vocabulary: Vocabulary
    pieces: Pieces = "words"
    lower_case: bool = False
    merges: Sequence[tuple[str, str]] = ()

    def __post_init__(self) -> None:
        if self.pieces not in get_args(Pieces):
            raise ValueError(f"pieces: expected one of {get_args(Pieces)}, got {self.pieces!r}")
        if self.merges and self.pieces != "subwords":
            raise ValueError(f"merges: expected none for {self.pieces}, got {len(self.merges)}")

    @classmethod
    def from_texts(
        cls,
        texts: Sequence[str],
        pieces: Pieces = "words",
        *,
        lower_case: bool = False,
        merges: Sequence[tuple[str, str]] = (),
    ) -> Tokeniser:
        """A tokeniser that knows every piece of some texts.

        Args:
            texts: the training texts alone: what is held out must not be known.
            pieces, lower_case, merges: how to cut them, as in the class.
        """
        cut = cls(Vocabulary([]), pieces, lower_case, merges).cut
        return cls(Vocabulary.from_rows(map(cut, texts)), pieces, lower_case, merges)

    def cut(self, text: str) -> list[str]:
        """The text's pieces. They join to the text, or to the text in lower case."""
        text = fold_case(text) if self.lower_case else text
        if self.pieces == "subwords":
            return self._splitter(text)
        return split_words(text) if self.pieces == "words" else split_characters(text)

    @cached_property
    def _splitter(self) -> SubwordSplitter:
        """Kept, since it remembers the words that it has cut."""
        return SubwordSplitter(self.merges)

    def encode(self, text: str) -> list[int]:
        """The numbers of the text's pieces; nothing is added at either end."""
        return self.vocabulary.encode(self.cut(text))

    def decode(self, numbers: Iterable[int] | Tensor) -> str:
        """The text that a row of numbers says, up to its end."""
        return "".join(self.vocabulary.decode(numbers))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values that JSON can hold."""
        return {
            "tokens": list(self.vocabulary.tokens),
            "pieces": self.pieces,
            "lower_case": self.lower_case,
            "merges": [list(pair) for pair in self.merges],
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Tokeniser:
        """The tokeniser that :meth:`to_dict` wrote down."""
        pad, bos, eos, unk, *tokens = fields["tokens"]
        return cls(
            Vocabulary(tokens, pad=pad, bos=bos, eos=eos, unk=unk),
            fields["pieces"],
            fields["lower_case"],
            tuple((first, second) for first, second in fields["merges"]),
        )
