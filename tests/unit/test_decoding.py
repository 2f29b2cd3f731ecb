"""Greedy and beam search, against plain searches over small models that are tables, and over real ones."""

import itertools
import math
import random
from typing import NamedTuple

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attnlab.transformer import Transformer, TransformerConfig
from attnlab.transformer.beams import BeamResult, Beams
from attnlab.transformer.decoding import beam_search, greedy_decode

PAD, BOS, EOS, A, B, C = 0, 1, 2, 3, 4, 5
# Nothing is shrunk: a failure is small already, and the mutants make many.
quick = settings(deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
# Each looks its search up when it is called, so that the mutants reach it.
EITHER_SEARCH = [
    lambda model, source, **sizes: greedy_decode(model, source, **sizes),
    lambda model, source, **sizes: beam_search(model, source, beam_size=2, **sizes),
]
few_examples = settings(quick, max_examples=25)


class TableCache:
    """The tokens that were read, row by row; as a real cache holds their keys."""

    def __init__(self):
        self.rows = None

    def extend(self, target):
        self.rows = target.clone() if self.rows is None else torch.cat((self.rows, target), dim=1)

    def select(self, rows):
        self.rows = self.rows[rows]


class TableEncoded(NamedTuple):
    memory: Tensor
    mask: Tensor


class TableDecoded(NamedTuple):
    logits: Tensor


class TableModel(nn.Module):
    """A model that is a function from source and prefix to the probabilities of the next token."""

    def __init__(self, next_probs, vocab_size=6, max_length=12):
        super().__init__()
        self.next_probs, self.num_steps = next_probs, 0
        self.config = TransformerConfig(3, vocab_size, max_length=max_length)
        self.dropout = nn.Dropout(0.5)
        self.frozen = nn.Dropout(0.5).eval()
        self.factor = nn.Parameter(torch.ones((), dtype=torch.float64))

    def encode(self, source):
        return TableEncoded(source[:, :, None].double(), torch.ones(len(source), 1, source.shape[1]).bool())

    def new_cache(self):
        return TableCache()

    def decode(self, target, memory, memory_mask, *, cache):
        assert target.shape[1] == 1 and len(target) == len(memory) == len(memory_mask)
        self.num_steps += 1
        cache.extend(target)
        assert (cache.rows[:, 0] == BOS).all()
        probs = [
            self.next_probs(tuple(source), tuple(prefix))
            for source, prefix in zip(memory[:, :, 0].int().tolist(), cache.rows[:, 1:].tolist(), strict=True)
        ]
        logits = torch.tensor(probs, dtype=torch.float64).log()[:, None] * self.factor  # (B, 1, V)
        return TableDecoded(self.dropout(torch.ones(100)).min() * 0 + logits)


def distribution(vocab_size=6, **probs):
    """A row of probabilities, by the names of tokens."""
    row = [0.0] * vocab_size
    for name, prob in probs.items():
        row[globals()[name]] = prob
    return row


def random_table(seed, vocab_size):
    """Probabilities drawn for every source and prefix, the same each time; pad and bos are likely too."""

    def next_probs(source, prefix):
        draws = random.Random(f"{seed} {source} {prefix}")
        weights = [draws.random() ** 2 + 0.01 for _ in range(vocab_size)]
        return [weight / sum(weights) for weight in weights]

    return TableModel(next_probs, vocab_size)


def log_prob(model, source, tokens):
    """Of these tokens in a row, pad and bos left out of what can come."""
    total = 0.0
    for position, token in enumerate(tokens):
        probs = model.next_probs(source, tokens[:position])
        total += math.log(probs[token] / sum(probs[EOS:]))
    return total


def every_hypothesis(model, source, max_length, length_penalty):
    """All that can be said, as (tokens, score, finished): finished first, then by score."""
    others = range(A, model.config.target_vocab_size)
    found = []
    for length in range(max_length):
        for words in itertools.product(others, repeat=length):
            found.append((*words, EOS))
    found.extend(itertools.product(others, repeat=max_length))
    return ranked(model, source, found, length_penalty)


def ranked(model, source, found, length_penalty):
    scored = [
        (tokens, log_prob(model, source, tokens) / len(tokens) ** length_penalty, tokens[-1] == EOS)
        for tokens in found
    ]
    return sorted(scored, key=lambda hypothesis: (not hypothesis[2], -hypothesis[1]))


def plain_beam_search(model, source, beam_size, max_length, length_penalty):
    """The search in lists, without batches or caches."""
    live, done = [()], []
    for _ in range(max_length):
        grown = [(*tokens, token) for tokens in live for token in range(EOS, model.config.target_vocab_size)]
        grown.sort(key=lambda tokens: -log_prob(model, source, tokens))
        done.extend(tokens for tokens in grown[:beam_size] if tokens[-1] == EOS)
        live = [tokens for tokens in grown[:beam_size] if tokens[-1] != EOS]
        done = [tokens for tokens, *_ in ranked(model, source, done, length_penalty)[:beam_size]]
        if len(done) == beam_size:
            worst = ranked(model, source, done, length_penalty)[-1][1]
            if all(score <= worst for _, score, _ in ranked(model, source, live, length_penalty)):
                live = []
    best = ranked(model, source, done, length_penalty) + ranked(model, source, live, length_penalty)
    return best[:beam_size]


def without_padding(row):
    """The tokens before the padding; nothing but padding may come after it."""
    row = row.tolist()
    length = row.index(PAD) if PAD in row else len(row)
    assert all(token == PAD for token in row[length:])
    return tuple(row[:length])


def as_list(result, row):
    """The hypotheses of one row of a result, those that are there."""
    assert isinstance(result, tuple) and result._fields == BeamResult._fields
    return [
        (without_padding(tokens), score.item(), bool(finished))
        for tokens, score, finished in zip(
            result.tokens[row], result.scores[row], result.finished[row], strict=True
        )
        if score > -math.inf
    ]


def assert_same_hypotheses(received, expected):
    assert [(tokens, finished) for tokens, _, finished in received] == [
        (tokens, finished) for tokens, _, finished in expected
    ]
    assert [score for _, score, _ in received] == pytest.approx([score for _, score, _ in expected])


def ends_after(source, prefix):
    """As many A as the source says, then the end."""
    return distribution(A=0.6, EOS=0.4) if len(prefix) < source[0] else distribution(A=0.4, EOS=0.6)


def test_greedy_rows_end_by_themselves_and_hold_padding_afterwards():
    model = TableModel(ends_after)
    tokens = greedy_decode(model, torch.tensor([[1], [3], [0]]), max_length=9)
    assert tokens.tolist() == [[A, EOS, PAD, PAD], [A, A, A, EOS], [EOS, PAD, PAD, PAD]]
    assert model.num_steps == 4
    assert tokens.dtype == torch.int64


def test_greedy_stops_at_the_length_that_was_asked_for():
    assert greedy_decode(TableModel(ends_after), torch.tensor([[5], [1]]), max_length=3).tolist() == [
        [A, A, A],
        [A, EOS, PAD],
    ]
    assert greedy_decode(TableModel(ends_after), torch.tensor([[5]]), max_length=1).tolist() == [[A]]


def test_padding_and_the_beginning_are_never_said():
    model = TableModel(lambda source, prefix: distribution(PAD=0.5, BOS=0.3, B=0.15, EOS=0.05))
    assert greedy_decode(model, torch.tensor([[1]]), max_length=2).tolist() == [[B, B]]
    result = beam_search(model, torch.tensor([[1]]), beam_size=2, max_length=1, length_penalty=0.0)
    assert sorted(result.tokens.flatten().tolist()) == [EOS, B]
    torch.testing.assert_close(result.scores.exp().sum().item(), 1.0)


def either_e_or_abe(source, prefix):
    """P(E) = .5 and P(A) = .4 at first; after A, B and E are certain."""
    if prefix == ():
        return distribution(EOS=0.5, A=0.4, C=0.1)
    return {(A,): distribution(B=1.0), (A, B): distribution(EOS=1.0)}.get(prefix, distribution(C=1.0))


def test_length_decides_between_a_short_and_a_long_answer():
    model, source = TableModel(either_e_or_abe), torch.tensor([[1]])
    raw = beam_search(model, source, beam_size=2, max_length=5, length_penalty=0.0)
    assert raw.tokens.tolist() == [[[EOS, PAD, PAD], [A, B, EOS]]]
    torch.testing.assert_close(raw.scores, torch.tensor([[0.5, 0.4]], dtype=torch.float64).log())
    mean = beam_search(model, source, beam_size=2, max_length=5, length_penalty=1.0)
    assert mean.tokens.tolist() == [[[A, B, EOS], [EOS, PAD, PAD]]]
    assert mean.scores[0].tolist() == pytest.approx([math.log(0.4) / 3, math.log(0.5)])
    assert [round(score, 3) for score in mean.scores[0].tolist()] == [-0.305, -0.693]
    halfway = beam_search(model, source, beam_size=2, max_length=5, length_penalty=0.5)
    assert halfway.scores[0].tolist() == pytest.approx([math.log(0.4) / 3**0.5, math.log(0.5)])
    assert mean.finished.all() and raw.finished.all()
    assert beam_search(model, source, beam_size=2, max_length=5).scores.equal(mean.scores)


@given(
    seed=st.integers(0, 999),
    beam_size=st.integers(1, 5),
    max_length=st.integers(1, 5),
    vocab_size=st.integers(3, 6),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
)
@few_examples
def test_beam_search_equals_a_plain_one(seed, beam_size, max_length, vocab_size, length_penalty):
    model, sources = random_table(seed, vocab_size), [(1, 2), (2, 2), (0, 1)]
    result = beam_search(
        model,
        torch.tensor(sources),
        beam_size=beam_size,
        max_length=max_length,
        length_penalty=length_penalty,
    )
    assert result.tokens.shape[:2] == result.scores.shape == result.finished.shape == (3, beam_size)
    for row, source in enumerate(sources):
        expected = plain_beam_search(model, source, beam_size, max_length, length_penalty)
        assert_same_hypotheses(as_list(result, row), expected)


@given(
    seed=st.integers(0, 999),
    max_length=st.integers(1, 3),
    vocab_size=st.integers(3, 5),
    length_penalty=st.sampled_from([0.0, 1.0]),
)
@few_examples
def test_the_widest_beam_finds_everything(seed, max_length, vocab_size, length_penalty):
    model, source = random_table(seed, vocab_size), (1, 2)
    expected = every_hypothesis(model, source, max_length, length_penalty)
    arguments = dict(beam_size=len(expected) + 2, max_length=max_length)
    result = beam_search(model, torch.tensor([source]), length_penalty=length_penalty, **arguments)
    assert_same_hypotheses(as_list(result, 0), expected)
    assert (result.tokens[0, -2:] == PAD).all() and not result.finished[0, -2:].any()
    assert result.scores[0, -2:].tolist() == [-math.inf] * 2
    raw = beam_search(model, torch.tensor([source]), length_penalty=0.0, **arguments)
    assert raw.scores.exp().sum().item() == pytest.approx(1.0)


@given(seed=st.integers(0, 999), max_length=st.integers(1, 6), vocab_size=st.integers(3, 6))
@few_examples
def test_a_beam_of_one_is_greedy(seed, max_length, vocab_size):
    model, source = random_table(seed, vocab_size), torch.tensor([[1], [2], [3]])
    greedy = greedy_decode(model, source, max_length=max_length)
    assert beam_search(model, source, beam_size=1, max_length=max_length).tokens[:, 0].equal(greedy)


def test_beams_stop_when_enough_are_finished():
    model = TableModel(either_e_or_abe)
    beam_search(model, torch.tensor([[1], [1]]), beam_size=2, max_length=9)
    assert model.num_steps == 3


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_a_likely_beginning_is_followed_although_enough_others_are_finished(length_penalty):
    """Two unlikely short answers fill a beam of 2 before the likely long one has ended."""

    def next_probs(source, prefix):
        return distribution(EOS=1.0) if len(prefix) == 3 else distribution(A=0.98, EOS=0.02)

    model, source = TableModel(next_probs), torch.tensor([[1]])
    result = beam_search(model, source, beam_size=2, max_length=9, length_penalty=length_penalty)
    assert as_list(result, 0)[0][0] == (A, A, A, EOS)
    assert result.scores[0, 0].item() == pytest.approx(3 * math.log(0.98) / 4**length_penalty)


def test_a_beginning_that_cannot_win_is_not_followed():
    def next_probs(source, prefix):
        return distribution(EOS=0.8, A=0.2) if prefix else distribution(EOS=0.4, A=0.6)

    model = TableModel(next_probs)
    result = beam_search(model, torch.tensor([[1]]), beam_size=2, max_length=9, length_penalty=0.0)
    assert [tokens for tokens, *_ in as_list(result, 0)] == [(A, EOS), (EOS,)]
    assert model.num_steps == 2


def test_what_no_longer_matters_is_not_said():
    """Of a row that has its K finished hypotheses, nothing unfinished remains; others go on."""

    def next_probs(source, prefix):
        if source[0] == 0:
            return distribution(EOS=0.5, A=0.3, B=0.2)
        return distribution(A=0.9, EOS=0.1) if len(prefix) < 4 else distribution(EOS=1.0)

    result = beam_search(TableModel(next_probs), torch.tensor([[0], [1]]), beam_size=2, max_length=9)
    alone = beam_search(TableModel(next_probs), torch.tensor([[0]]), beam_size=2, max_length=9)
    assert_same_hypotheses(as_list(result, 0), as_list(alone, 0))
    assert [tokens for tokens, *_ in as_list(result, 0)] == [(EOS,), (A, EOS)]


@pytest.mark.parametrize("search", EITHER_SEARCH)
def test_every_parts_mode_is_put_back_and_no_gradient_is_kept(search):
    seen = []

    def next_probs(source, prefix):
        seen.append(model.dropout.training or torch.is_grad_enabled())
        return distribution(EOS=1.0)

    model = TableModel(next_probs)
    result = search(model, torch.tensor([[1]]), max_length=3)
    assert seen and not any(seen)
    assert model.training and model.dropout.training and not model.frozen.training
    model.eval()
    search(model, torch.tensor([[1]]), max_length=3)
    assert not model.training and not model.dropout.training
    assert not any(tensor.requires_grad for tensor in (result if isinstance(result, tuple) else [result]))

    def fails(source, prefix):
        raise ArithmeticError

    model.train().next_probs = fails
    with pytest.raises(ArithmeticError):
        search(model, torch.tensor([[1]]), max_length=3)
    assert model.training and model.dropout.training
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("max_length", [0, 13])
def test_a_length_beyond_the_model_is_refused(max_length):
    words = f"max_length: expected 1 to 12, the max_length of the model, got {max_length}"
    with pytest.raises(ValueError, match=words):
        greedy_decode(TableModel(ends_after), torch.tensor([[1]]), max_length=max_length)
    with pytest.raises(ValueError, match=words):
        beam_search(TableModel(ends_after), torch.tensor([[1]]), beam_size=1, max_length=max_length)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"beam_size": 0}, "beam_size: expected at least 1, got 0"),
        ({"length_penalty": -0.5}, "length_penalty: expected a number of 0 or more, got -0.5"),
        ({"length_penalty": math.nan}, "length_penalty.*got nan"),
        ({"length_penalty": math.inf}, "length_penalty.*got inf"),
    ],
)
def test_a_number_out_of_range_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        beam_search(
            TableModel(ends_after), torch.tensor([[1]]), **{"beam_size": 1, "max_length": 2, **arguments}
        )


def test_the_longest_answer_fits_the_model():
    config = TransformerConfig(9, 9, 8, 2, 8, 1, 1, max_length=4)
    torch.manual_seed(0)
    assert greedy_decode(Transformer(config), torch.tensor([[3, 4, 5, 6]]), max_length=4).shape[1] <= 4


def real_model(seed, **fields):
    """A small model in float64, large weights at the end so that answers differ."""
    torch.manual_seed(seed)
    config = TransformerConfig(9, 8, 8, 2, 12, 2, 2, max_length=10, tie_output=False, **fields)
    model = Transformer(config).double()
    with torch.no_grad():
        model.output.weight *= 3.0
    return model


def real_sources(seed):
    """Three sources of different lengths."""
    source = torch.randint(3, 9, (3, 5), generator=torch.Generator().manual_seed(seed))
    source[1, 3:], source[2, 1:] = PAD, PAD
    return source


@torch.no_grad()
def uncached_greedy(model, source, max_length):
    """The whole prefix anew at each step, one source at a time and without its padding."""
    model.eval()
    row = source[source != PAD][None]
    tokens = [BOS]
    while len(tokens) <= max_length and tokens[-1] != EOS:
        logits = model(row, torch.tensor([tokens]))[0, -1]
        logits[[PAD, BOS]] = -math.inf
        tokens.append(int(logits.argmax()))
    return tuple(tokens[1:])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
@given(seed=st.integers(0, 99))
@settings(quick, max_examples=6)
def test_cached_and_batched_equals_uncached_one_by_one(positions, seed):
    model, source = real_model(seed, positions=positions), real_sources(seed)
    expected = [uncached_greedy(model, row, 8) for row in source]
    assert [without_padding(row) for row in greedy_decode(model, source, max_length=8)] == expected


@given(seed=st.integers(0, 99), beam_size=st.integers(1, 4), length_penalty=st.sampled_from([0.0, 1.0]))
@settings(quick, max_examples=10)
def test_beam_scores_are_those_of_the_model_read_anew(seed, beam_size, length_penalty):
    model, source = real_model(seed).eval(), real_sources(seed)
    arguments = dict(beam_size=beam_size, max_length=6, length_penalty=length_penalty)
    result = beam_search(model, source, **arguments)
    for row in range(len(source)):
        real = source[row][source[row] != PAD][None]
        hypotheses = as_list(result, row)
        assert hypotheses == sorted(hypotheses, key=lambda hypothesis: (not hypothesis[2], -hypothesis[1]))
        for tokens, score, _ in hypotheses:
            logits = model(real, torch.tensor([[BOS, *tokens[:-1]]]))[0].detach()
            logits[:, [PAD, BOS]] = -math.inf
            each = logits.log_softmax(dim=-1).gather(1, torch.tensor(tokens)[:, None])
            assert score == pytest.approx(each.sum().item() / len(tokens) ** length_penalty, abs=1e-10)
        assert_same_hypotheses(hypotheses, as_list(beam_search(model, real, **arguments), 0))


@pytest.mark.parametrize("search", EITHER_SEARCH)
def test_keys_of_the_source_are_computed_once(search):
    model, read = real_model(3), []
    for layer in model.stacks.decoder_layers:
        layer.cross_attention.w_k.register_forward_hook(lambda _, inputs, __: read.append(inputs[0].shape[1]))
    search(model, real_sources(3), max_length=6)
    assert len(read) > 2 and read[:2] == [5, 5] and set(read[2:]) == {0}


def test_beams_begin_with_one_empty_beginning():
    beams = Beams(torch.zeros(2, 1, 1), TransformerConfig(3, 4), 3, 5, 1.0)
    assert beams.newest().tolist() == [BOS] * 6
    assert beams.log_probs.tolist() == [[0.0, -math.inf, -math.inf]] * 2
    assert not beams.all_stopped()
