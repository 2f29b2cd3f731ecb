"""What lesson 9 defines in its own cells is what the library holds, and what PyTorch computes."""

import ast
import math
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import export, tasks, training
from attnlab.tasks import BOS, EOS, PAD, UNK
from attnlab.transformer import Transformer, TransformerConfig, greedy_decode

MANUSCRIPT = Path(__file__).parents[2] / "book/lessons/09_translation.py"
ODD_TEXTS = ["", " ", "  a  1 ", "1 2", "May 1, 5:07 PM", "l’été à 8 h", "5月1日 星期三", "a_b\n-\t3", "🙂 1"]


@pytest.fixture(scope="module")
def lesson():
    """The functions of the manuscript and its pattern, and nothing else of it: no training, no figures."""
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))
    tree.body = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        or (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PIECE")
    ]
    names = {"math": math, "re": re, "torch": torch, "nn": nn, "F": F, "Counter": Counter, "tasks": tasks}
    names |= {"BOS": BOS, "EOS": EOS, "PAD": PAD, "UNK": UNK}
    exec(compile(tree, MANUSCRIPT.name, "exec"), names)
    return names


@pytest.fixture(scope="module")
def pairs():
    return {language: tasks.translation_pairs(200, language=language) for language in tasks.LANGUAGES}


def drawn(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_tokens_are_those_of_the_library(lesson, pairs):
    texts = [text for some in pairs.values() for pair in some for text in (pair.source, pair.target)]
    for text in [*ODD_TEXTS, *texts]:
        assert lesson["split_words"](text) == tasks.split_words(text)
        assert "".join(lesson["split_words"](text)) == text


def test_the_vocabulary_is_that_of_the_library(lesson, pairs):
    rows = [tasks.split_words(pair.target) for pair in pairs["fr"]]
    ours, theirs = lesson["build_vocabulary"](rows), tasks.Vocabulary.from_rows(rows)
    assert tuple(ours) == theirs.tokens and list(ours.values()) == list(range(len(theirs)))
    for row in [*rows, ["never seen", "mai"]]:
        assert lesson["encode"](row, ours) == theirs.encode(row)


@pytest.mark.parametrize("num_merges", [0, 1, 40])
def test_the_sub_words_are_those_of_the_library(lesson, num_merges):
    words = [
        pair.target for pair in tasks.translation_pairs(150, language="de", kinds=["number_words"], seed=1)
    ]
    merges = lesson["learn_merges"](Counter(words[:100]), num_merges)
    assert merges == tasks.learn_merges(words[:100], num_merges)
    splitter = tasks.SubwordSplitter(merges)
    for word in words:
        assert lesson["cut"](word, merges) == splitter(word)


def test_pairs_that_overlap_are_joined_from_the_left(lesson):
    assert lesson["join"](list("aaaba"), ("a", "a")) == ["aa", "a", "b", "a"]
    assert lesson["join"](["ab", "c", "ab"], ("ab", "c")) == ["abc", "ab"]


def test_the_buckets_are_those_of_the_library(lesson, pairs):
    rows = [
        (list(pair.source.encode()), list(pair.target.encode()))
        for pair in pairs["fr"]  # bytes of text: any numbers above 3
    ]
    chosen = lesson["buckets"](rows, 8, drawn(), pool=20)
    assert sorted(index for batch in chosen for index in batch) == list(range(len(rows)))
    for batch, ((source, _), target_out) in zip(chosen, tasks.epoch_batches(rows, 8, drawn()), strict=True):
        assert [row[: row.index(EOS)] for row in source.tolist()] == [rows[index][0] for index in batch]
        assert [row[: row.index(EOS)] for row in target_out.tolist()] == [rows[index][1] for index in batch]


def test_the_share_of_padding_by_hand(lesson):
    lesson["rows"] = [([1, 1, 1], [1]), ([1], [1, 1]), ([1, 1], [1, 1])]
    assert lesson["padding_share"]([[0, 1], [2]]) == pytest.approx(3 / 14)
    assert lesson["padding_share"]([[1], [2]]) == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_the_library_and_of_torch(lesson, smoothing):
    logits = torch.randn(3, 5, 7, generator=drawn(), dtype=torch.float64, requires_grad=True)
    targets = torch.randint(7, (3, 5), generator=drawn(1))
    targets[0, 2:] = PAD
    ours = lesson["token_loss"](logits, targets, smoothing)
    library = training.token_cross_entropy(logits, targets, pad=PAD, label_smoothing=smoothing)
    theirs = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=PAD, label_smoothing=smoothing)
    torch.testing.assert_close(ours, library, rtol=0, atol=1e-12)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad(ours, logits)
    (expected,) = torch.autograd.grad(theirs, logits)
    torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-12)
    assert gradient[0, 2:].abs().max() == 0


@pytest.mark.parametrize(("warmup", "total"), [(0, 10), (3, 10), (10, 40)])
def test_the_schedule_is_that_of_the_library(lesson, warmup, total):
    for step in range(1, total + 1):
        ours = lesson["warmup_cosine"](step, warmup, total)
        assert ours == pytest.approx(training.warmup_cosine(step, warmup=warmup, total=total), abs=1e-12)


def test_eight_bits_are_those_of_the_library(lesson):
    matrix = torch.randn(5, 9, generator=drawn())
    matrix[2] = 0.0
    values, scales = lesson["quantise_rows"](matrix)
    expected = export.quantise_rows(matrix)
    assert torch.equal(values, expected.values) and torch.equal(scales, expected.scales)


def test_hidden_words_are_those_of_the_library(lesson):
    is_word = torch.tensor([False] * 6 + [True] * 4)
    source = torch.randint(10, (20, 30), generator=drawn())
    kept = [number for number in range(10) if not is_word[number]]
    for share in (0.0, 0.3, 1.0):
        ours = lesson["random_unknowns"](source, share, is_word, drawn(1))
        theirs = tasks.random_unknowns(source, share, drawn(1), special=kept)
        assert torch.equal(ours, theirs)
    assert torch.equal(ours == UNK, is_word[source] | (source == UNK))


def test_words_are_hidden_in_the_first_half_of_the_steps_only(lesson):
    rows = [([5, 6, 7], [4, 4]), ([8, 9], [5])] * 8
    lesson |= {"rows": rows, "is_word": torch.tensor([False] * 4 + [True] * 6)}
    stream = lesson["noisy_batches"](200, drawn())
    hidden = [bool((next(stream)[0][0] == UNK).any()) for _ in range(200)]
    assert 20 < sum(hidden[:100]) < 95 and not any(hidden[100:])


def test_greedy_decoding_is_that_of_the_library(lesson):
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(9, 8, d_model=8, num_heads=2, d_ff=12, num_encoder_layers=1,
                          num_decoder_layers=1, dropout=0.0, norm="pre", max_length=12)
    ).eval()  # fmt: skip
    source = torch.randint(3, 9, (40, 6), generator=drawn())
    source[::2, 4:] = PAD
    with torch.no_grad():
        model.target_embedding.weight[EOS] *= 3  # so that some rows end early and others late
    ours, theirs = lesson["greedy"](model, source, 12), greedy_decode(model, source, max_length=11)
    ended = []
    for mine, other in zip(ours.tolist(), theirs.tolist(), strict=True):
        kept = [token for token in other if token != PAD]
        assert mine[: len(kept)] == kept
        ended.append(len(kept) if EOS in kept else None)
    assert len(set(ended)) > 2  # rows of different lengths, or the test would say little
