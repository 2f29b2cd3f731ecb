"""WordPiece: words into the pieces of a fixed vocabulary, the longest piece first.

A piece that goes on with a word begins with ``##``. A word that cannot be put together becomes one unknown
piece. Source: Wu et al., "Google's Neural Machine Translation System", 2016, section 4.1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

__all__ = ["WordPieces"]

_FIRST, _LAST, _UNKNOWN = "[CLS]", "[SEP]", "[UNK]"


class WordPieces:
    """Cuts words into numbered pieces.

    Args:
        pieces: the vocabulary; a piece's number is its place.

    Raises:
        ValueError: if the pieces repeat, or the marks ``[CLS]``, ``[SEP]`` and ``[UNK]`` are not among them.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self.number = {piece: number for number, piece in enumerate(pieces)}
        if len(self.number) != len(pieces):
            raise ValueError("pieces: expected each one once")
        for mark in (_FIRST, _LAST, _UNKNOWN):
            if mark not in self.number:
                raise ValueError(f"pieces: expected {mark} among them")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> WordPieces:
        """The vocabulary of a ``vocab.txt``, one piece a line."""
        return cls(Path(path).read_text(encoding="utf-8").splitlines())

    def cut(self, word: str) -> list[str]:
        """The pieces of one lower-case word without spaces."""
        pieces: list[str] = []
        rest = word
        while rest:
            start = "##" if pieces else ""
            ends = range(len(rest), 0, -1)
            end = next((end for end in ends if start + rest[:end] in self.number), None)
            if end is None:
                return [_UNKNOWN]
            pieces.append(start + rest[:end])
            rest = rest[end:]
        return pieces

    def encode(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Numbers of the pieces, between the two marks, and where each word begins.

        Args:
            words: lower case, punctuation marks as words of their own.

        Returns:
            The numbers of ``[CLS]``, all pieces and ``[SEP]``, and the position of each word's first piece.
        """
        numbers, starts = [self.number[_FIRST]], []
        for word in words:
            starts.append(len(numbers))
            numbers += [self.number[piece] for piece in self.cut(word)]
        return [*numbers, self.number[_LAST]], starts
