"""At scale: the same data in every process, and thousands of pairs through a vocabulary and back."""

import os
import random
import subprocess
import sys

import pytest

from attnlab.tasks import (
    LANGUAGES,
    SubwordSplitter,
    Vocabulary,
    learn_merges,
    split_characters,
    split_words,
    translation_pairs,
)
from attnlab.tasks.phrases import PHRASES
from attnlab.tasks.translation import MOST_OF_A_KIND


def test_every_process_draws_the_same_pairs():
    code = (
        "from attnlab.tasks import *; pairs = translation_pairs(40, language='de', seed=3)\n"
        "print(ascii((pairs, split_pairs(pairs, 9, seed=2),"
        " learn_merges([pair.target for pair in pairs], 30),"
        " Vocabulary.from_rows(split_words(pair.target) for pair in pairs).tokens)))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1] and len(outputs[0]) > 1000


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_pair_comes_back_through_a_vocabulary(language):
    pairs = translation_pairs(2500, language=language)
    texts = [text for pair in pairs for text in (pair.source, pair.target)]
    subwords = SubwordSplitter(learn_merges(texts[:500], 60))
    for split in (split_words, split_characters, subwords):
        vocabulary = Vocabulary.from_rows(map(split, texts))
        for text in texts:
            assert "".join(vocabulary.decode(vocabulary.encode(split(text)))) == text


def test_the_most_of_a_kind_is_within_reach():
    """Short numbers run out, and still eight draws for each new one are more than enough."""
    rng = random.Random(0)
    draws = [PHRASES["number_words"].draw(rng) for _ in range(8 * MOST_OF_A_KIND)]
    assert len(set(draws)) > MOST_OF_A_KIND
    assert MOST_OF_A_KIND < 200 * 365
