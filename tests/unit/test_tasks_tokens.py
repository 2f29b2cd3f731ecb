"""Tokens: joining gives every text back; vocabularies, sub-words, batches and unknown tokens."""

import itertools
from collections import Counter

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from attnlab.tasks import (
    BOS,
    EOS,
    LANGUAGES,
    PAD,
    UNK,
    SubwordSplitter,
    Vocabulary,
    batches,
    epoch_batches,
    fold_case,
    learn_merges,
    pad_rows,
    random_unknowns,
    split_characters,
    split_folded_words,
    split_words,
    translation_pairs,
)

few_examples = settings(
    max_examples=25, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)
ANY_TEXT = st.text(max_size=30) | st.text(st.sampled_from("ab ẞ3 4,-\t\u00a0_é年²"), max_size=30)
SMALL_MERGES = learn_merges(["the cat sat on the mat", "zweihundert zweitausend"], 12)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@given(text=ANY_TEXT)
@settings(max_examples=100, deadline=None, derandomize=True, phases=few_examples.phases)
def test_joining_the_pieces_gives_any_text_back(text):
    for split in (split_words, split_characters, SubwordSplitter(SMALL_MERGES), SubwordSplitter([])):
        pieces = split(text)
        assert "".join(pieces) == text
        assert all(pieces)
    assert "".join(split_folded_words(text)) == fold_case(text)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("1.75 Swiss francs", ["1", ".", "7", "5", " Swiss", " francs"]),
        ("July 4, 1999", ["July ", "4", ", ", "1", "9", "9", "9"]),
        ("3 de mayo de 2024", ["3", " de", " mayo", " de ", "2", "0", "2", "4"]),
        ("2 345,60", ["2", " ", "3", "4", "5", ",", "6", "0"]),
        ("vingt-deux", ["vingt", "-", "deux"]),
        ("a  b\t c", ["a", " ", " b", "\t", " c"]),
        ("x_1", ["x", "_", "1"]),
        ("", []),
    ],
)
def test_words_digits_and_signs(text, pieces):
    assert split_words(text) == pieces


def test_a_digit_is_always_the_same_token():
    for language in LANGUAGES:
        for pair in translation_pairs(200, language=language):
            for piece in split_words(pair.source) + split_words(pair.target):
                assert piece.isdecimal() == any(character.isdecimal() for character in piece)
                assert not piece.isdecimal() or len(piece) == 1


def test_folding_keeps_the_length():
    assert split_folded_words("Tuesday, May 4") == ["tuesday", ",", " may ", "4"]
    assert fold_case("ÉÖ İ ß") == "éö İ ß"


@given(text=ANY_TEXT)
@few_examples
def test_folding_any_text_keeps_the_length_and_folds_twice_alike(text):
    assert len(fold_case(text)) == len(text)
    assert fold_case(fold_case(text)) == fold_case(text)


def naive_merges(words, num_merges):
    """The algorithm of the paper, counting everything anew for each merge."""
    counts = Counter(words)
    rows = {word: list(word) for word in counts}
    merges = []
    for _ in range(num_merges):
        pairs = Counter()
        for word, row in rows.items():
            for pair in itertools.pairwise(row):
                pairs[pair] += counts[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for word, row in rows.items():
            joined = []
            while row:
                joined.append("".join(row[:2]) if tuple(row[:2]) == best else row[0])
                row = row[2:] if tuple(row[:2]) == best else row[1:]
            rows[word] = joined
    return merges, rows


@given(
    words=st.lists(st.text("abc", min_size=1, max_size=7), min_size=1, max_size=8),
    num_merges=st.integers(0, 12),
)
@settings(max_examples=60, deadline=None, derandomize=True, phases=few_examples.phases)
def test_merges_are_those_of_the_paper(words, num_merges):
    merges, rows = naive_merges(words, num_merges)
    assert learn_merges(words, num_merges) == merges
    split = SubwordSplitter(merges)
    for word, row in rows.items():
        assert split(word) == row  # what was learnt from is cut as it was while learning


def test_the_example_of_the_paper():
    # Section 3.2: low 5 times, lower 2, newest 6, widest 3.
    texts = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
    assert learn_merges(texts, 3) == [("e", "s"), ("es", "t"), ("l", "o")]
    split = SubwordSplitter(learn_merges(texts, 4))
    assert split("lowest") == ["low", "est"]  # never seen, and still known pieces


def test_spaces_stand_with_the_ends_of_a_word_and_digits_stand_alone():
    merges = learn_merges(["am Tag 1", "am Tag 2"], 99)
    assert merges == [(" T", "a"), (" Ta", "g "), ("a", "m")]
    split = SubwordSplitter(merges)
    assert split("am Tag 12") == ["am", " Tag ", "1", "2"]
    assert split("Tag") == ["T", "a", "g"]


def test_the_order_of_texts_does_not_matter():
    texts = [pair.target for pair in translation_pairs(300, language="de")]
    merges = learn_merges(texts, 60)
    assert learn_merges(reversed(texts), 60) == merges and len(merges) == 60


def test_merges_refuse_what_they_cannot_use():
    with pytest.raises(TypeError, match="^texts: expected several texts, got the text 'low'"):
        learn_merges("low", 3)
    with pytest.raises(ValueError, match="^num_merges: .*got -1"):
        learn_merges(["low"], -1)
    assert learn_merges([], 3) == learn_merges(["1 2"], 3) == []


def test_a_vocabulary_numbers_its_tokens():
    vocabulary = Vocabulary.from_rows([["b", " a"], ["b", "c"]])
    assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
    assert vocabulary.tokens == ("<pad>", "<bos>", "<eos>", "<unk>", " a", "b", "c")
    assert len(vocabulary) == 7
    assert "b" in vocabulary and "d" not in vocabulary
    assert vocabulary.encode(["b", "d", " a"]) == [5, UNK, 4]
    assert Vocabulary.from_rows([["c"], ["b", " a", "b"]]).tokens == vocabulary.tokens
    # So many that no order of a set is theirs by chance.
    letters = tuple("abcdefghijklmnopqrstuvwxyz")
    assert Vocabulary.from_rows([letters[::-1], letters]).tokens[4:] == letters
    assert Vocabulary(["z", "a"]).encode(["a", "z"]) == [5, 4]


def test_decoding_stops_at_the_end():
    vocabulary = Vocabulary(["x", "y"])
    assert vocabulary.decode([BOS, 4, PAD, UNK, 5, EOS, 4, 99]) == ["x", "<unk>", "y"]
    assert vocabulary.decode(torch.tensor([4, 5])) == ["x", "y"]
    assert vocabulary.decode([]) == []


def test_a_vocabulary_refuses_what_would_mislead():
    with pytest.raises(ValueError, match="^pad: .*'<eos>' for both.*never learn to end"):
        Vocabulary(["x"], pad="<eos>")
    with pytest.raises(ValueError, match="^pad, bos, eos, unk: .*four different"):
        Vocabulary(["x"], bos="<unk>")
    with pytest.raises(ValueError, match="^tokens: .*'x' twice"):
        Vocabulary(["x", "y", "x"])
    with pytest.raises(ValueError, match="^tokens: .*'<bos>' twice"):
        Vocabulary(["x", "<bos>"])
    with pytest.raises(ValueError, match="^tokens: .*empty"):
        Vocabulary(["x", ""])
    with pytest.raises(TypeError, match="^tokens: .*the text 'xy'"):
        Vocabulary(["x"]).encode("xy")
    for numbers in ([4, 5], [-1]):
        with pytest.raises(ValueError, match=f"^numbers: expected 0 to 4, got {numbers[-1]}"):
            Vocabulary(["x"]).decode(numbers)
    with pytest.raises(ValueError, match=r"^numbers: .*\(1, 2\)"):
        Vocabulary(["x"]).decode(torch.tensor([[4, 4]]))


def test_rows_are_filled_up_at_the_end():
    padded = pad_rows([[4, 5], [], [6]])
    assert padded.tolist() == [[4, 5], [0, 0], [6, 0]] and padded.dtype == torch.int64
    assert pad_rows([[4, 0], [6]], pad=9).tolist() == [[4, 0], [6, 9]]
    assert pad_rows([[], []]).shape == (2, 0) and pad_rows([[], []]).dtype == torch.int64
    assert pad_rows([[1]], device="meta").device.type == "meta"
    with pytest.raises(ValueError, match="^rows: expected at least one"):
        pad_rows([])
    with pytest.raises(ValueError, match=r"^rows: .*pad = 0, got \[5, 0\] as row 1"):
        pad_rows([[4], [5, 0]])


def numbered_pairs(lengths):
    """Pairs that all differ: pair n is made of the number n + 4, source and target of given lengths."""
    return [([n + 4] * source, [n + 4] * target) for n, (source, target) in enumerate(lengths)]


def pairs_of(batch):
    """The pairs in a batch, after a look at its marks and its padding."""
    (source, target), target_out = batch
    assert source.dtype == target.dtype == target_out.dtype == torch.int64
    assert target.shape == target_out.shape and len(source) == len(target)
    assert (source != PAD).any(0).all() and (target_out != PAD).any(0).all()  # no column of padding alone
    rows = []
    for given_source, given_target, wanted in zip(
        source.tolist(), target.tolist(), target_out.tolist(), strict=True
    ):
        ends = [row.index(EOS) for row in (given_source, wanted)]
        assert given_target[0] == BOS and EOS not in given_target
        assert given_target[1 : ends[1] + 1] == wanted[: ends[1]]  # shifted by one
        tails = (given_source[ends[0] + 1 :], wanted[ends[1] + 1 :], given_target[ends[1] + 1 :])
        assert not any(number for tail in tails for number in tail)
        rows.append((given_source[: ends[0]], wanted[: ends[1]]))
    return rows


LENGTHS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=70)


@given(lengths=LENGTHS, batch_size=st.integers(1, 5), seed=st.integers(0, 99))
@few_examples
def test_an_epoch_holds_every_pair_once(lengths, batch_size, seed):
    pairs = numbered_pairs([(source + 1, target) for source, target in lengths])
    found = [pairs_of(batch) for batch in epoch_batches(pairs, batch_size, generator(seed))]
    assert sorted(pair for batch in found for pair in batch) == sorted(pairs)
    sizes = [len(batch) for batch in found]
    assert len(sizes) == -(-len(pairs) // batch_size)
    assert sorted(sizes)[1:] == [batch_size] * (len(sizes) - 1)


def test_each_epoch_is_shuffled_anew_and_the_generator_alone_decides():
    pairs = numbered_pairs([(n % 9 + 1, n % 7) for n in range(100)])
    stream = batches(pairs, 8, generator(1))
    epochs = [[pairs_of(next(stream)) for _ in range(13)] for _ in range(3)]
    for epoch in epochs:
        assert sorted(pair for batch in epoch for pair in batch) == sorted(pairs)
    assert epochs[0] != epochs[1] != epochs[2]
    # Other pairs meet, not the same batches in another order.
    assert not {str(sorted(batch)) for batch in epochs[0]} & {str(sorted(batch)) for batch in epochs[1]}
    again = batches(pairs, 8, generator(1))
    assert [pairs_of(next(again)) for _ in range(13)] == epochs[0]
    assert [pairs_of(batch) for batch in epoch_batches(pairs, 8, generator(2))] != epochs[0]


def test_pairs_of_similar_length_stand_together_and_the_batches_are_mixed():
    pairs = numbered_pairs([(n % 20 + 1, n % 20 + 1) for n in range(400)])
    epoch = list(epoch_batches(pairs, 20, generator()))
    spreads, firsts = [], []
    for batch in epoch:
        lengths = [len(source) for source, _ in pairs_of(batch)]
        spreads.append(max(lengths) - min(lengths))
        firsts.append(lengths[0])
    assert max(spreads) == 0  # one pool of twenty batches
    assert firsts != sorted(firsts)
    # Beyond one pool the shuffle decides who meets whom.
    spread = [
        len({source[0] // 84 for source, _ in pairs_of(batch)})
        for batch in epoch_batches(pairs[:80], 2, generator())
    ]
    assert len(spread) == 40


def test_other_numbers_for_the_special_tokens():
    batch = next(epoch_batches([([1, 2], [3])], 4, generator(), pad=9, bos=8, eos=7))
    assert [tensor.tolist() for tensor in (*batch[0], batch[1])] == [[[1, 2, 7]], [[8, 3]], [[3, 7]]]


@pytest.mark.parametrize("name", ["batches", "epoch_batches"])
@pytest.mark.parametrize(
    ("pairs", "arguments", "words"),
    [
        ([], {}, "pairs: expected at least one"),
        ([([4], [5])], {"batch_size": 0}, "batch_size: .*got 0"),
        ([([4], [5])], {"pad": 2}, "pad: .*got 2 for both.*never learn to end"),
        ([([4], [5])], {"bos": 0}, "bos: .*got 0"),
        ([([4], [5])], {"bos": 2}, "bos: .*got 2"),
        ([([4], [5]), ([4, 0], [5])], {}, r"pairs: .*\[0, 1, 2\].*as pair 1"),
        ([([4], [5, 2])], {}, "pairs: .*as pair 0"),
        ([([1, 4], [5])], {}, "pairs: .*as pair 0"),
    ],
)
def test_batches_refuse_at_once_what_would_train_wrongly(name, pairs, arguments, words):
    function = {"batches": batches, "epoch_batches": epoch_batches}[name]
    with pytest.raises(ValueError, match=f"^{words}"):
        function(pairs, **{"batch_size": 3, "generator": generator(), **arguments})


def test_unknowns_come_at_random_and_spare_the_special_tokens():
    tokens = torch.arange(8).repeat(4000, 1)  # (B, S)
    before = tokens.clone()
    changed = random_unknowns(tokens, 0.25, generator(1))
    assert torch.equal(tokens, before)
    assert torch.equal(changed[:, :4], tokens[:, :4])
    replaced = changed[:, 4:] != tokens[:, 4:]
    assert (changed[:, 4:][replaced] == UNK).all()
    assert ((replaced.double().mean(0) - 0.25).abs() < 0.04).all()
    assert torch.equal(changed, random_unknowns(tokens, 0.25, generator(1)))
    assert not torch.equal(changed, random_unknowns(tokens, 0.25, generator(2)))
    assert torch.equal(random_unknowns(tokens, 0.0, generator()), tokens)
    assert random_unknowns(tokens, 1.0, generator(), unk=9, special=(5,))[0].tolist() == [
        9,
        9,
        9,
        9,
        9,
        5,
        9,
        9,
    ]


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_the_share_of_unknowns_is_a_probability(probability):
    with pytest.raises(ValueError, match="^probability: expected 0 to 1, got"):
        random_unknowns(torch.tensor([4]), probability, generator())
