"""Sub-words by byte-pair encoding, learnt from text: what a language of compounds needs.

German writes ``zweihunderttausend`` as one word, so that a vocabulary of words meets new ones all the time.
The pieces here start as single characters; the pair of neighbours that occurs most becomes one piece, again
and again. Every word can be written with the pieces, and joining them gives it back.

The paper marks the end of a word. Here the spaces beside a word stand with its first and last character
instead, which says as much and lets the text be joined again without rules.

Source: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", 2016, section 3.2.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from attnlab.tasks.tokens import split_words

__all__ = ["SubwordSplitter", "learn_merges"]

Pair = tuple[str, str]


def learn_merges(texts: Iterable[str], num_merges: int) -> list[Pair]:
    """Learn which pieces to join, from how often they stand side by side.

    A pair counts in each word as often as the word occurs. Of pairs that are equally frequent the first in
    the order of characters is taken, so that the order of the texts does not matter.

    Args:
        texts: what to learn from; some hundred examples are enough for short phrases.
        num_merges: how many pairs to join; fewer come back where all words are whole before.

    Returns:
        Pairs of pieces in the order in which to join them.

    Raises:
        TypeError: if one text is given in place of several.
        ValueError: if ``num_merges`` < 0.

    Source: Sennrich et al. 2016, section 3.2, algorithm 1.
    """
    if isinstance(texts, str):
        raise TypeError(f"texts: expected several texts, got the text {texts!r}")
    if num_merges < 0:
        raise ValueError(f"num_merges: expected 0 or more, got {num_merges}")
    counts = Counter(word for text in texts for word in split_words(text) if _is_word(word))
    pieces = {word: _first_pieces(word) for word in counts}
    pair_counts: Counter[Pair] = Counter()
    words_with: defaultdict[Pair, set[str]] = defaultdict(set)
    for word, row in pieces.items():
        for pair in _neighbours(row):
            pair_counts[pair] += counts[word]
            words_with[pair].add(word)
    merges: list[Pair] = []
    while len(merges) < num_merges and pair_counts:
        best = min(pair_counts, key=lambda pair: (-pair_counts[pair], pair))
        merges.append(best)
        # Only the words that hold the pair change, so only their pairs are counted anew.
        for word in words_with.pop(best):
            for pair in _neighbours(pieces[word]):
                pair_counts[pair] -= counts[word]
                if not pair_counts[pair]:
                    del pair_counts[pair]
            pieces[word] = _join(pieces[word], best)
            for pair in _neighbours(pieces[word]):
                pair_counts[pair] += counts[word]
                words_with[pair].add(word)
    return merges


class SubwordSplitter:
    """Cut a text into sub-words: a function of a text like :func:`attnlab.tasks.split_words`.

    Words are cut by joining characters in the order of the merges; digits and signs are what they are in
    :func:`attnlab.tasks.split_words`.

    Args:
        merges: pairs of pieces in the order in which to join them; see :func:`learn_merges`.

    Attributes:
        merges: The pairs.
    """

    def __init__(self, merges: Iterable[Pair]) -> None:
        self.merges = tuple(merges)
        self._rank = {pair: rank for rank, pair in enumerate(self.merges)}
        self._known: dict[str, list[str]] = {}  # words come again and again

    def __call__(self, text: str) -> list[str]:
        """Cut a text.

        Args:
            text: any text.

        Returns:
            Pieces, none of them empty, that join to ``text``.
        """
        pieces = []
        for word in split_words(text):
            if word not in self._known:
                self._known[word] = self._split(word) if _is_word(word) else [word]
            pieces += self._known[word]
        return pieces

    def _split(self, word: str) -> list[str]:
        row = _first_pieces(word)
        while known := [pair for pair in _neighbours(row) if pair in self._rank]:
            row = _join(row, min(known, key=self._rank.__getitem__))
        return row


def _is_word(piece: str) -> bool:
    """Whether there are letters to join: digits and signs stand alone."""
    return len(piece.strip(" ")) > 1


def _first_pieces(word: str) -> list[str]:
    """The characters of a word, the outer ones with the spaces beside the word."""
    row = list(word.strip(" "))
    row[0] = " " + row[0] if word[0] == " " else row[0]
    row[-1] = row[-1] + " " if word[-1] == " " else row[-1]
    return row


def _neighbours(row: Sequence[str]) -> list[Pair]:
    return list(zip(row, row[1:], strict=False))


def _join(row: Sequence[str], pair: Pair) -> list[str]:
    """The row with every occurrence of the pair joined, from the left."""
    joined: list[str] = []
    position = 0
    while position < len(row):
        if tuple(row[position : position + 2]) == pair:
            joined.append(pair[0] + pair[1])
            position += 2
        else:
            joined.append(row[position])
            position += 1
    return joined
