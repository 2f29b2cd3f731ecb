"""The recurrent encoder-decoders: what passes from source to target, and that padding does not."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnlab.recurrent import decoding
from attnlab.recurrent.decoding import greedy_decode
from attnlab.recurrent.encoder_decoder import (
    AttentiveGRUEncoderDecoder,
    GRUEncoderDecoder,
    RecurrentDecoded,
    RecurrentEncoded,
)

# By name, so that a module with a slip can take the place of the right one.
MODELS = {
    "plain": lambda *sizes, **marks: GRUEncoderDecoder(*sizes, **marks),
    "attentive": lambda *sizes, **marks: AttentiveGRUEncoderDecoder(*sizes, **marks),
}
BOTH = list(MODELS)


def model(kind, *, d_model=4, hidden=5, seed=0, **marks):
    torch.manual_seed(seed)
    return MODELS[kind](9, 8, d_model, hidden, **marks).double()


def source(*rows, width=None, pad=0):
    width = max(len(row) for row in rows) if width is None else width
    return torch.tensor([row + [pad] * (width - len(row)) for row in rows])


ROWS = ([3, 4, 5, 6, 7], [8, 3], [5, 5, 4])
TARGET = torch.tensor([[1, 3, 4, 5], [1, 6, 2, 0], [1, 7, 7, 7]])


@pytest.mark.parametrize("kind", BOTH)
def test_a_row_alone_gives_what_it_gives_in_a_batch_with_longer_ones(kind):
    net = model(kind)
    together = net(source(*ROWS), TARGET)
    assert together.shape == (3, 4, 8)
    for row, target, logits in zip(ROWS, TARGET, together, strict=True):
        torch.testing.assert_close(net(source(row), target[None])[0], logits, rtol=0, atol=1e-12)


@settings(deadline=None, derandomize=True, max_examples=10)
@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    more=st.integers(0, 3),
    seed=st.integers(0, 99),
)
@pytest.mark.parametrize("kind", BOTH)
def test_more_padding_changes_neither_logits_nor_gradients(kind, lengths, more, seed):
    g = torch.Generator().manual_seed(seed)
    rows = [torch.randint(3, 9, (length,), generator=g).tolist() for length in lengths]
    target = torch.randint(1, 8, (len(rows), 3), generator=g)
    short, long = model(kind), model(kind)
    received = short(source(*rows), target), long(source(*rows, width=max(lengths) + more), target)
    torch.testing.assert_close(*received, rtol=0, atol=1e-12)
    for logits in received:
        logits.square().sum().backward()
    for ours, theirs in zip(short.parameters(), long.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", BOTH)
def test_what_padding_is_embedded_as_does_not_matter(kind):
    net = model(kind)
    before = net(source(*ROWS), TARGET)
    with torch.no_grad():
        net.source_embedding.weight[0] = 1e3
    assert torch.equal(net(source(*ROWS), TARGET), before)


@pytest.mark.parametrize("kind", BOTH)
def test_another_id_of_padding_does_the_same(kind):
    net, other = model(kind), model(kind, pad=8)
    rows = ([3, 4, 5, 6, 7], [7, 3], [5, 5, 4])
    torch.testing.assert_close(other(source(*rows, pad=8), TARGET), net(source(*rows), TARGET))


@pytest.mark.parametrize("kind", BOTH)
def test_the_encoder_reads_in_both_directions_and_hands_over_both_ends(kind):
    net = model(kind)
    encoded = net.encode(source(*ROWS))
    assert isinstance(encoded, RecurrentEncoded)
    assert encoded.mask.tolist() == [
        [[True] * 5],
        [[True, True, False, False, False]],
        [[True] * 3 + [False] * 2],
    ]
    forwards, backwards = nn.GRU(4, 5, batch_first=True).double(), nn.GRU(4, 5, batch_first=True).double()
    with torch.no_grad():
        for name, parameter in net.encoder.named_parameters():
            layer = backwards if name.endswith("_reverse") else forwards
            getattr(layer, name.removesuffix("_reverse")).copy_(parameter)
    for b, row in enumerate(ROWS):
        embedded = net.source_embedding(torch.tensor([row]))
        one, two = forwards(embedded)[0][0], backwards(embedded.flip(1))[0][0].flip(0)
        torch.testing.assert_close(encoded.states[b, : len(row)], torch.cat([one, two], dim=-1))
        torch.testing.assert_close(encoded.summary[b], torch.cat([one[-1], two[0]]))
        assert not encoded.states[b, len(row) :].any()


def test_the_plain_model_is_a_gru_that_sees_the_summary_at_each_step():
    net = model("plain")
    encoded = net.encode(source(*ROWS))
    decoded = net.decode(TARGET, encoded)
    assert isinstance(decoded, RecurrentDecoded)
    assert decoded.weights is None
    cell = nn.GRUCell(14, 5).double()
    cell.load_state_dict({name.removesuffix("_l0"): p for name, p in net.decoder.state_dict().items()})
    state = torch.tanh(net.first_state(encoded.summary))
    for t in range(4):
        state = cell(torch.cat([net.target_embedding(TARGET[:, t]), encoded.summary], dim=-1), state)
        logits = net.readout(torch.cat([state, encoded.summary], dim=-1))
        torch.testing.assert_close(decoded.logits[:, t], logits)
    torch.testing.assert_close(decoded.state, state)


def test_the_attentive_model_asks_with_the_state_before_each_token():
    net = model("attentive")
    encoded = net.encode(source(*ROWS))
    decoded = net.decode(TARGET, encoded)
    assert isinstance(decoded, RecurrentDecoded)
    state = torch.tanh(net.first_state(encoded.summary))
    for t in range(4):
        found = net.attention(state[:, None], encoded.states, None, encoded.mask)
        context = found.output[:, 0]
        state = net.decoder(torch.cat([net.target_embedding(TARGET[:, t]), context], dim=-1), state)
        logits = net.readout(torch.cat([state, context], dim=-1))
        torch.testing.assert_close(decoded.logits[:, t], logits)
        torch.testing.assert_close(decoded.weights[:, t], found.weights[:, 0])
    torch.testing.assert_close(decoded.state, state)


def test_attention_weights_sum_to_one_and_are_zero_at_padding():
    net = model("attentive")
    weights = net.decode(TARGET, net.encode(source(*ROWS, width=7))).weights
    assert weights.shape == (3, 4, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, dtype=torch.float64))
    for b, row in enumerate(ROWS):
        assert not weights[b, :, len(row) :].any()
        assert (weights[b, :, : len(row)] > 0).all()


def test_nothing_but_the_summary_reaches_the_plain_decoder():
    net = model("plain")
    encoded = net.encode(source(*ROWS))
    other = encoded._replace(states=torch.randn_like(encoded.states))
    assert torch.equal(net.decode(TARGET, encoded).logits, net.decode(TARGET, other).logits)


@pytest.mark.parametrize("kind", BOTH)
def test_a_logit_depends_on_no_later_target(kind):
    net = model(kind)
    before = net(source(*ROWS), TARGET)
    for place in range(4):
        changed = TARGET.clone()
        changed[:, place] = 3 + (changed[:, place] == 3).long()
        moved = (net(source(*ROWS), changed) - before).abs().amax(dim=(0, 2))
        assert not moved[:place].any()
        assert (moved[place:] > 1e-6).all()


@pytest.mark.parametrize("kind", BOTH)
def test_decoding_in_pieces_is_decoding_at_once(kind):
    net = model(kind)
    encoded = net.encode(source(*ROWS))
    whole = net.decode(TARGET, encoded)
    first = net.decode(TARGET[:, :1], encoded)
    second = net.decode(TARGET[:, 1:], encoded, first.state)
    torch.testing.assert_close(torch.cat([first.logits, second.logits], dim=1), whole.logits)
    torch.testing.assert_close(second.state, whole.state)


@pytest.mark.parametrize("kind", BOTH)
def test_every_parameter_takes_part(kind):
    net = model(kind)
    net(source(*ROWS), TARGET).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None and bool((parameter.grad != 0).any()), name


def greedy_by_hand(net, row, max_length, bos, eos):
    """One row, the whole prefix read anew for each token."""
    written = []
    while len(written) < max_length and eos not in written:
        target = torch.tensor([[bos, *written]])
        written.append(int(net(torch.tensor([row]), target)[0, -1].argmax()))
    return written


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", BOTH)
def test_greedy_decoding_takes_the_likeliest_token_until_each_row_has_ended(kind, seed):
    net = model(kind, seed=seed)
    with torch.no_grad():  # far from zero, so that the rows say different things and end at different places
        for parameter in net.parameters():
            parameter *= 4
    expected = [greedy_by_hand(net, row, 6, 1, 2) for row in ROWS]
    received = greedy_decode(net, source(*ROWS), max_length=6)
    width = max(len(row) for row in expected)
    assert received.tolist() == [row + [0] * (width - len(row)) for row in expected]


class Scripted(nn.Module):
    """A model that says what its script says, one column a step, whatever it is told."""

    pad, bos, eos = 6, 4, 5

    def __init__(self, *rows):
        super().__init__()
        self.script, self.heard = torch.tensor(rows), []

    def encode(self, source):
        return source

    def decode(self, target, encoded, state=None):
        assert not torch.is_grad_enabled()
        self.heard.append(target[:, 0].tolist())
        step = 0 if state is None else state
        logits = nn.functional.one_hot(self.script[:, step], 8)[:, None]
        return RecurrentDecoded(logits, step + 1, None)


def test_greedy_decoding_ends_each_row_at_its_own_end_and_stops_when_all_have():
    net = Scripted([3, 5, 2, 7], [2, 3, 5, 7])
    received = greedy_decode(net, source([1], [1]), max_length=4)
    assert received.tolist() == [[3, 5, 6], [2, 3, 5]]
    assert net.heard == [[4, 4], [3, 2], [5, 3]]


def test_greedy_decoding_writes_no_more_than_it_may_and_needs_no_gradient():
    net = model("plain", eos=-1)
    received = greedy_decode(net, source(*ROWS), max_length=3)
    assert received.shape == (3, 3)
    assert torch.is_grad_enabled()
    assert decoding.greedy_decode(net, source(*ROWS), max_length=1).shape == (3, 1)


@pytest.mark.parametrize("kind", BOTH)
def test_the_gradient_reaches_every_source_token_and_no_padding(kind):
    net = model(kind)
    net(source(*ROWS), TARGET)[1].square().sum().backward()  # of the row [8, 3]
    moved = (net.source_embedding.weight.grad != 0).any(dim=-1)
    assert moved.nonzero().flatten().tolist() == [3, 8]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GRUEncoderDecoder(0, 8, 4, 5), "source_vocab_size: expected at least 1, got 0"),
        (lambda: AttentiveGRUEncoderDecoder(9, 0, 4, 5), "target_vocab_size: expected at least 1, got 0"),
        (lambda: GRUEncoderDecoder(9, 8, 0, 5), "d_model: expected at least 1, got 0"),
        (lambda: AttentiveGRUEncoderDecoder(9, 8, 4, 0), "hidden_size: expected at least 1, got 0"),
        (lambda: model("plain").encode(torch.tensor([3, 4])), r"source: expected token ids \(B, S\).*\(2,\)"),
        (lambda: model("plain").encode(source([3], [])), "source: expected at least one real token"),
        (lambda: model("plain").encode(torch.zeros(2, 0).long()), "source: expected at least one real token"),
        (lambda: model("attentive").encode(source([0, 3])), "source: expected padding .0. only behind"),
        (lambda: model("attentive").encode(source([3, 0, 3])), "source: expected padding .0. only behind"),
        (lambda: greedy_decode(model("plain"), source([3]), max_length=0), "max_length: .*got 0"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("kind", BOTH)
def test_a_copy_computes_the_same(kind):
    net = model(kind)
    assert torch.equal(copy.deepcopy(net)(source(*ROWS), TARGET), net(source(*ROWS), TARGET))
