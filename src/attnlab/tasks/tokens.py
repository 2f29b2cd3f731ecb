"""Text to tokens and back: three ways to cut a text, and a vocabulary that numbers the pieces.

Every way of cutting keeps every character, spaces included: **joining the pieces gives the text back**, in
any language, and no rules are needed. A space stays with the word or sign beside it, never with a digit: a
digit is then the same token wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from torch import Tensor

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Vocabulary",
    "fold_case",
    "split_characters",
    "split_folded_words",
    "split_words",
]

#: The numbers of the special tokens, the same in every vocabulary: padding, begin, end, unknown.
PAD, BOS, EOS, UNK = range(4)
# A digit; or a word or one sign with the space before it, and with the one behind it where a digit follows;
# or one white space.
_PIECE = re.compile(r"\d| ?(?:[^\W\d_]+|[^\s\d])(?: (?=\d))?|\s")


def split_words(text: str) -> list[str]:
    """Cut a text into words, single digits and single signs, spaces kept.

    ``"1.75 Swiss francs, July 4"`` becomes
    ``["1", ".", "7", "5", " Swiss", " francs", ",", " July ", "4"]``: a space goes with what follows it, but
    with what stands before it where a digit follows. Digits stand alone, so that every number is made of ten
    known pieces.

    Args:
        text: any text.

    Returns:
        Pieces, none of them empty, that join to ``text``.
    """
    return _PIECE.findall(text)


def split_folded_words(text: str) -> list[str]:
    """:func:`split_words` of the text in lower case: for a source whose case says nothing.

    ``"tuesday"`` is then as well known as ``"Tuesday"``. What comes back joins to the text in lower case.

    Args:
        text: any text.

    Returns:
        Pieces that join to ``fold_case(text)``.
    """
    return split_words(fold_case(text))


def split_characters(text: str) -> list[str]:
    """Cut a text into its characters: the natural pieces of Chinese, which writes no spaces between words.

    Args:
        text: any text.

    Returns:
        Pieces of one character that join to ``text``.
    """
    return list(text)


def fold_case(text: str) -> str:
    """The text in lower case, character by character, so that its length stays as it is.

    The few letters whose lower case has two characters, such as "İ", stay as they are: an alignment by
    characters still holds.

    Args:
        text: any text.

    Returns:
        A text of the same length.
    """
    return "".join(lower if len(lower := letter.lower()) == 1 else letter for letter in text)


class Vocabulary:
    """Tokens and their numbers: four special tokens, then the given ones in their order.

    The numbers of the special tokens are the same in every vocabulary: ``pad`` 0, ``bos`` 1 (a target
    begins), ``eos`` 2 (a text ends), ``unk`` 3 (a token that was never seen).

    Args:
        tokens: the tokens in the order of their numbers, which start at 4; see :meth:`from_rows`.
        pad, bos, eos, unk: how the special tokens are written when shown.

    Raises:
        ValueError: if a token occurs twice, is empty or is written like a special token, or if two special
            tokens are written alike. ``pad`` equal to ``eos`` is refused with them: padding is left out of
            the loss, the end with it, and a model trained so never stops.

    Attributes:
        tokens: All tokens, special ones included; ``tokens[number]`` is the token of a number.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        *,
        pad: str = "<pad>",
        bos: str = "<bos>",
        eos: str = "<eos>",
        unk: str = "<unk>",
    ) -> None:
        if pad == eos:
            raise ValueError(
                f"pad: expected another token than eos, got {pad!r} for both: padding is left out of the "
                "loss, so that the model would never learn to end a text"
            )
        special = (pad, bos, eos, unk)
        if len(set(special)) < len(special):
            raise ValueError(f"pad, bos, eos, unk: expected four different tokens, got {special}")
        self.tokens = (*special, *tokens)
        self._numbers = {token: number for number, token in enumerate(self.tokens)}
        if "" in self._numbers:
            raise ValueError("tokens: expected tokens of at least one character, got an empty one")
        if len(self._numbers) < len(self.tokens):
            twice = next(token for number, token in enumerate(self.tokens) if self._numbers[token] != number)
            raise ValueError(
                f"tokens: expected each token once and none like a special one, got {twice!r} twice"
            )

    @classmethod
    def from_rows(cls, rows: Iterable[Iterable[str]]) -> Vocabulary:
        """The vocabulary of every token that occurs, sorted, so that the order of the rows does not matter.

        Args:
            rows: texts cut into tokens, the training ones alone: what is held out must not be known.

        Returns:
            A vocabulary of four special tokens and every different token.

        Raises:
            ValueError: if a token is empty or written like a special token.
        """
        return cls(sorted({token for row in rows for token in row}))

    def __len__(self) -> int:
        """How many tokens there are, special ones included: the rows that an embedding needs."""
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        """Whether a token has a number of its own."""
        return token in self._numbers

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The numbers of some tokens, 3 (``unk``) for one that is not known.

        Args:
            tokens: a text cut into tokens.

        Returns:
            As many numbers. Nothing is added: see :func:`attnlab.tasks.batches`.

        Raises:
            TypeError: if a text is given that is not cut into tokens.
        """
        if isinstance(tokens, str):
            raise TypeError(f"tokens: expected a text cut into tokens, got the text {tokens!r}")
        return [self._numbers.get(token, UNK) for token in tokens]

    def decode(self, numbers: Iterable[int] | Tensor) -> list[str]:
        """The tokens of a row of numbers up to its end; padding and the begin are left out.

        Args:
            numbers: numbers of tokens, (T,), as a model writes them. What follows ``eos`` is not looked at.

        Returns:
            Tokens; ``"".join(tokens)`` is the text.

        Raises:
            ValueError: if a number has no token, or a tensor has not one axis.
        """
        if isinstance(numbers, Tensor):
            if numbers.ndim != 1:
                raise ValueError(f"numbers: expected one row (T,), got shape {tuple(numbers.shape)}")
            numbers = numbers.tolist()
        tokens = []
        for number in numbers:
            if not 0 <= number < len(self.tokens):
                raise ValueError(f"numbers: expected 0 to {len(self.tokens) - 1}, got {number}")
            if number == EOS:
                break
            if number not in (PAD, BOS):
                tokens.append(self.tokens[number])
        return tokens
