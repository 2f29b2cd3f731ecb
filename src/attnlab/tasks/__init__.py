"""Data for the experiments: made on the spot, never downloaded.

``synthetic`` holds small problems with one trick each (recall, pair lookup, reversal, copy-back);
``translation`` phrases in English and four other languages, with a gold alignment for ``dates``; ``tokens``
and ``subwords`` cut text into numbered pieces; ``batching`` turns the numbers into padded batches.
"""

from attnlab.tasks.batching import batches, epoch_batches, pad_rows, random_unknowns
from attnlab.tasks.dates import Link, gold_alignment
from attnlab.tasks.subwords import SubwordSplitter, learn_merges
from attnlab.tasks.synthetic import IGNORE, copy_back, pair_lookup, recall, reversal
from attnlab.tasks.tokens import (
    BOS,
    EOS,
    PAD,
    UNK,
    Vocabulary,
    fold_case,
    split_characters,
    split_folded_words,
    split_words,
)
from attnlab.tasks.translation import KINDS, LANGUAGES, TranslationPair, split_pairs, translation_pairs

__all__ = [
    "BOS",
    "EOS",
    "IGNORE",
    "KINDS",
    "LANGUAGES",
    "PAD",
    "UNK",
    "Link",
    "SubwordSplitter",
    "TranslationPair",
    "Vocabulary",
    "batches",
    "copy_back",
    "epoch_batches",
    "fold_case",
    "gold_alignment",
    "learn_merges",
    "pad_rows",
    "pair_lookup",
    "random_unknowns",
    "recall",
    "reversal",
    "split_characters",
    "split_folded_words",
    "split_pairs",
    "split_words",
    "translation_pairs",
]
