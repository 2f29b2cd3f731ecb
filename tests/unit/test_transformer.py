"""The whole model: embeddings, positions, masks, the tied output, and padding that leaves no trace."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from attnlab import contracts
from attnlab.attention import causal_mask
from attnlab.positions import sinusoidal_positions
from attnlab.transformer import TransformerConfig, greedy_decode, teacher_forcing_pair
from attnlab.transformer.model import Transformer

PAD, BOS, EOS = 0, 1, 2
# Nothing is shrunk: a failure is small already, and the mutants make many.
quick = settings(deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
few_examples = settings(quick, max_examples=8)


def config(**fields):
    return TransformerConfig(
        **{
            "source_vocab_size": 11,
            "target_vocab_size": 13,
            "d_model": 8,
            "num_heads": 2,
            "d_ff": 12,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "max_length": 12,
            **fields,
        }
    )


def model(seed=0, **fields):
    torch.manual_seed(seed)
    return Transformer(config(**fields)).double().eval()


def tokens(batch, length, *, below=11, seed=0):
    return torch.randint(3, below, (batch, length), generator=torch.Generator().manual_seed(seed))


def padded(rows, lengths):
    """Rows whose tokens behind their lengths are padding."""
    rows = rows.clone()
    for row, length in zip(rows, lengths, strict=True):
        row[length:] = PAD
    return rows


def assert_close(received, expected):
    torch.testing.assert_close(received, expected, rtol=0, atol=1e-12)


def input_of(module, run):
    """What a module is given first while ``run`` runs."""
    seen = []
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))
    run()
    handle.remove()
    return seen[0]


@pytest.mark.parametrize("tie_output", [True, False])
@pytest.mark.parametrize("share_embeddings", [True, False])
def test_the_whole_is_its_parts_in_order(tie_output, share_embeddings):
    whole = model(share_embeddings=share_embeddings, source_vocab_size=13, tie_output=tie_output)
    source, target = padded(tokens(2, 7), [7, 5]), tokens(2, 4)
    table = sinusoidal_positions(12, 8, dtype=torch.float64)
    x = whole.source_embedding.weight[source] * 8**0.5 + table[:7]
    y = whole.target_embedding.weight[target] * 8**0.5 + table[:4]
    real = (source != PAD)[:, None]
    hidden = whole.stacks(x, y, real, causal_mask(4), real)
    matrix = whole.target_embedding.weight if tie_output else whole.output.weight
    assert (whole.output is None) == tie_output
    assert (whole.source_embedding is whole.target_embedding) == share_embeddings
    logits = whole(source, target)
    assert logits.shape == (2, 4, 13)
    assert_close(logits, hidden @ matrix.T)
    encoded = whole.encode(source)
    assert encoded.mask.equal(real)
    assert_close(encoded.memory, whole.stacks.encode(x, real).output)
    assert_close(whole.decode(target, encoded.memory, encoded.mask).logits, logits)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
def test_positions_are_added_where_the_tokens_stand(positions):
    whole = model(positions=positions)
    source, target = tokens(2, 5), tokens(2, 6)
    if positions == "learned":
        assert not whole.source_positions.table.equal(whole.target_positions.table)
        tables = whole.source_positions.table, whole.target_positions.table
    else:
        tables = [sinusoidal_positions(12, 8, dtype=torch.float64) * (positions != "none")] * 2
    encoded, cache = whole.encode(source), whole.new_cache()
    read = input_of(whole.stacks.encoder_layers[0], lambda: whole.encode(source))
    assert_close(read, whole.source_embedding(source).detach() * 8**0.5 + tables[0][:5])
    for part in (slice(0, 2), slice(2, 6)):
        written = input_of(
            whole.stacks.decoder_layers[0],
            lambda part=part: whole.decode(target[:, part], encoded.memory, encoded.mask, cache=cache),
        )
        assert_close(written, whole.target_embedding(target[:, part]).detach() * 8**0.5 + tables[1][part])


def test_without_positions_the_source_is_a_bag():
    source, target = tokens(2, 5), tokens(2, 3)
    bag, ordered = model(positions="none"), model()
    assert_close(bag(source.flip(1), target), bag(source, target))
    assert (ordered(source.flip(1), target) - ordered(source, target)).abs().max() > 1e-3


def test_embeddings_and_matrices_begin_as_they_should():
    torch.manual_seed(0)
    whole = Transformer(config(d_model=64, source_vocab_size=500, target_vocab_size=400, tie_output=False))
    for embedding in (whole.source_embedding, whole.target_embedding):
        real = embedding.weight[1:]
        assert real.std().item() == pytest.approx(64**-0.5, rel=0.03)
        assert abs(real.mean().item()) < 0.005 and real.abs().max() > 3 * 64**-0.5
        assert (embedding.weight[PAD] == 0).all() and (real.abs().sum(dim=1) > 0).all()
    bound = math.sqrt(6 / (64 + 400))
    assert 0.97 * bound < whole.output.weight.abs().max() <= bound
    assert whole.output.bias is None
    marked = Transformer(config(pad=5, bos=0, eos=1))
    assert [(row == 0).all().item() for row in marked.source_embedding.weight[:7]] == [False] * 5 + [
        True,
        False,
    ]


def test_scaled_embeddings_and_tied_logits_begin_with_variance_one():
    torch.manual_seed(0)
    whole = Transformer(config(d_model=64, target_vocab_size=400, dropout=0.0))
    logits = whole(tokens(4, 9), tokens(4, 9, below=400))
    assert logits[..., 1:].std().item() == pytest.approx(1.0, abs=0.1)


def test_a_tied_output_gives_padding_a_constant_logit_and_trains_the_table():
    whole = model()
    logits = whole(tokens(2, 5), tokens(2, 3))
    assert (logits[..., PAD] == 0).all() and (logits[..., 1:] != 0).all()
    logits[..., 12].sum().backward()  # a token that no target holds: its row is reached by the output alone
    gradient = whole.target_embedding.weight.grad
    assert gradient[12].abs().max() > 0 and gradient[PAD].abs().max() == 0


def test_a_shared_table_is_saved_once():
    separate, shared = model(), model(share_embeddings=True, source_vocab_size=13)
    assert {name for name in separate.state_dict() if "embedding" in name} == {
        "embeddings.0.weight",
        "embeddings.1.weight",
    }
    names = set(shared.state_dict())
    assert {name for name in names if "embedding" in name} == {"embeddings.0.weight"}
    assert not {name for name in names if "pad" in name or "output" in name or "positions" in name}
    pointers = [tensor.data_ptr() for tensor in shared.state_dict().values()]
    assert len(pointers) == len(set(pointers))
    other = model(seed=1, share_embeddings=True, source_vocab_size=13)
    other.load_state_dict(shared.state_dict())
    source, target = tokens(2, 5), tokens(2, 3)
    assert other(source, target).equal(shared(source, target))


@given(extra=st.integers(0, 5), target_extra=st.integers(0, 6), seed=st.integers(0, 99))
@few_examples
def test_more_padding_changes_no_real_logit(extra, target_extra, seed):
    whole, lengths = model(seed), [6, 1, 4]
    source, target = padded(tokens(3, 6, seed=seed), lengths), tokens(3, 5, below=13, seed=seed + 1)
    logits = whole(source, target)
    longer = whole(F.pad(source, (0, extra), value=PAD), F.pad(target, (0, target_extra), value=PAD))
    assert_close(longer[:, :5], logits)
    for row, length in enumerate(lengths):
        assert_close(whole(source[row : row + 1, :length], target[row : row + 1])[0], logits[row])


def test_padding_anywhere_in_the_source_is_never_attended_to():
    whole, target = model(), tokens(2, 4)
    source = tokens(2, 7)
    source[0, :2], source[1, 3:5] = PAD, PAD
    encoded = whole.encode(source, need_weights=True)
    logits, _, cross = whole.decode(target, encoded.memory, encoded.mask, need_weights=True)
    assert [weights.shape for weights in cross] == [(2, 2, 4, 7)] * 2
    for weights in (*encoded.weights, *cross):
        contracts.rows_sum_to_one(weights, encoded.mask[:, None])
    with torch.no_grad():
        whole.source_embedding.weight[PAD] = 7.0
    assert_close(whole(source, target), logits)


def test_a_source_of_nothing_but_padding_gives_finite_numbers():
    whole, target = model(), tokens(2, 4)
    source = tokens(2, 5)
    logits = whole(source, target)
    source[1] = PAD
    changed = whole(source, target)
    assert changed.isfinite().all()
    assert_close(changed[0], logits[0])
    changed.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in whole.parameters())


@given(seed=st.integers(0, 99), length=st.integers(2, 7))
@few_examples
def test_no_logit_depends_on_a_later_token(seed, length):
    whole, source, target = model(seed), tokens(2, 5), tokens(2, length, below=13)
    embedded = []
    whole.target_embedding.register_forward_hook(lambda _, __, output: embedded.append(output))
    logits = whole(source, target)
    for position in range(length):
        changed = target.clone()
        changed[:, position + 1 :] = (changed[:, position + 1 :] - 2) % 10 + 3
        assert_close(whole(source, changed)[:, : position + 1], logits[:, : position + 1])
        weighted = logits[:, position] @ torch.arange(13.0).double()
        (gradient,) = torch.autograd.grad(weighted.sum(), embedded[0], retain_graph=True)
        reached = gradient.abs().amax(dim=(0, 2)) > 0  # (T,)
        assert reached.tolist() == [other <= position for other in range(length)]


def test_every_logit_depends_on_the_whole_source():
    whole, source, target = model(), tokens(2, 6), tokens(2, 3)
    embedded = []
    whole.source_embedding.register_forward_hook(lambda _, __, output: embedded.append(output))
    logits = whole(source, target)
    for position in range(3):
        weighted = logits[:, position] @ torch.arange(13.0).double()
        (gradient,) = torch.autograd.grad(weighted.sum(), embedded[0], retain_graph=True)
        assert (gradient.abs().amax(dim=2) > 0).all()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
@given(cuts=st.sets(st.integers(1, 6)), seed=st.integers(0, 99))
@settings(quick, max_examples=5)
def test_a_cache_changes_no_logit_however_the_target_is_cut(positions, cuts, seed):
    whole = model(seed, positions=positions, norm="pre")
    encoded = whole.encode(padded(tokens(3, 5, seed=seed), [5, 3, 1]))
    target = tokens(3, 7, below=13, seed=seed)
    logits = whole.decode(target, encoded.memory, encoded.mask).logits
    for _ in range(2):
        cache, edges = whole.new_cache(), [0, *sorted(cuts), 7]
        for start, stop in zip(edges, edges[1:], strict=False):
            part = whole.decode(target[:, start:stop], encoded.memory, encoded.mask, cache=cache)
            assert_close(part.logits, logits[:, start:stop])
        assert cache.length == 7


def test_weights_come_back_only_if_asked_for():
    whole, source, target = model(num_encoder_layers=3), tokens(2, 5), tokens(2, 4)
    encoded = whole.encode(source)
    plain = whole.decode(target, encoded.memory, encoded.mask)
    assert encoded.weights is plain.self_weights is plain.cross_weights is None
    assert [weights.shape for weights in whole.encode(source, need_weights=True).weights] == [
        (2, 2, 5, 5)
    ] * 3
    full = whole.decode(target, encoded.memory, encoded.mask, need_weights=True)
    assert [weights.shape for weights in full.self_weights] == [(2, 2, 4, 4)] * 2
    contracts.rows_sum_to_one(full.self_weights[1], causal_mask(4))
    assert_close(full.logits, plain.logits)


def test_dropout_works_in_training_and_on_the_embeddings_too():
    whole, source, target = model(dropout=0.5), tokens(4, 9), tokens(4, 9)
    contracts.eval_deterministic(whole, source, target)
    whole.train()
    assert not whole(source, target).equal(whole(source, target))
    read = input_of(whole.stacks.encoder_layers[0], lambda: whole.encode(source))
    encoded = whole.encode(source)
    written = input_of(
        whole.stacks.decoder_layers[0], lambda: whole.decode(target, encoded.memory, encoded.mask)
    )
    for x in (read, written):
        assert 0.35 < (x == 0).double().mean().item() < 0.65
    assert whole.dropout.p == model(dropout=0.5).stacks.decoder_layers[1].around_cross.dropout.p == 0.5


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_everything_follows_the_type_of_the_model(norm):
    for dtype in (torch.float64, torch.bfloat16):
        whole = Transformer(config(norm=norm, share_embeddings=True, source_vocab_size=13)).to(dtype)
        tensors = [*whole.parameters(), *whole.buffers()]
        assert {tensor.dtype for tensor in tensors if tensor.is_floating_point()} == {dtype}
        assert whole(tokens(2, 5).int(), tokens(2, 3)).dtype == dtype
        assert greedy_decode(whole, tokens(2, 5), max_length=3).dtype == torch.int64


@pytest.mark.parametrize(
    ("which", "ids", "error", "words"),
    [
        (
            "source",
            torch.zeros(2, 3),
            TypeError,
            "source: expected token ids of type int64 or int32, got .*float32",
        ),
        ("target", torch.ones(2, 3, dtype=torch.bool), TypeError, "target: .*got torch.bool"),
        ("source", torch.full((3,), 3), ValueError, r"source: expected \(B, length\).*got shape \(3,\)"),
        ("target", torch.ones(2, 0, dtype=torch.long), ValueError, r"target: .*got shape \(2, 0\)"),
        (
            "source",
            torch.full((2, 13), 3),
            ValueError,
            "source: expected at most max_length = 12 tokens, got 13",
        ),
        (
            "target",
            torch.full((2, 13), 3),
            ValueError,
            "target: expected at most max_length = 12 tokens, got 13",
        ),
        ("source", torch.tensor([[3, 11], [3, 3]]), ValueError, "source: expected ids from 0 to 10.*got 11"),
        ("target", torch.tensor([[3, 13], [3, 3]]), ValueError, "target: expected ids from 0 to 12.*got 13"),
        ("target", torch.tensor([[3, -1], [3, 3]]), ValueError, "target: expected ids from 0 to 12.*got -1"),
        (
            "target",
            torch.full((3, 2), 3),
            ValueError,
            r"memory: expected one for each of the B = 3.*\(2, 3, 8\)",
        ),
        (
            "target",
            torch.full((1, 2), 3),
            ValueError,
            r"memory: expected one for each of the B = 1.*\(2, 3, 8\)",
        ),
    ],
)
@pytest.mark.parametrize("positions", ["sinusoidal", "none"])
def test_tokens_that_do_not_fit_are_named(which, ids, error, words, positions):
    inputs = {"source": tokens(2, 3), "target": tokens(2, 3), which: ids}
    with pytest.raises(error, match=words):
        model(positions=positions)(**inputs)


def test_a_target_may_be_as_long_as_the_model_and_no_longer_with_a_cache_too():
    whole = model(positions="none")
    encoded, cache = whole.encode(tokens(2, 12)), whole.new_cache()
    whole.decode(tokens(2, 11), encoded.memory, encoded.mask, cache=cache)
    whole.decode(tokens(2, 1), encoded.memory, encoded.mask, cache=cache)
    with pytest.raises(ValueError, match="target: expected at most max_length = 12 tokens, got 13"):
        whole.decode(tokens(2, 1), encoded.memory, encoded.mask, cache=cache)
    assert cache.length == 12


@pytest.mark.parametrize(("share_embeddings", "tie_output"), [(True, True), (False, True), (True, False)])
def test_the_row_of_padding_stays_zero(share_embeddings, tie_output):
    torch.manual_seed(0)
    whole = Transformer(
        config(share_embeddings=share_embeddings, source_vocab_size=13, tie_output=tie_output, pad=3, eos=0)
    )
    optimizer = torch.optim.AdamW(whole.parameters(), lr=0.01, weight_decay=0.1)
    source, rows = tokens(3, 6), tokens(3, 5, below=13, seed=1)  # 3 is padding, here and there
    source[0, 2:], rows[1, 3:] = 3, 3
    before = whole.target_embedding.weight.detach().clone()
    for _ in range(20):
        inputs, labels = teacher_forcing_pair(rows)
        # Padding is not left out of this loss: not even a careless one may move the row.
        loss = F.cross_entropy(whole(source, inputs).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for embedding in (whole.source_embedding, whole.target_embedding):
        assert (embedding.weight[3] == 0).all()
        assert (embedding.weight[4:9].abs().sum(dim=1) > 0).all()
    moved = (whole.target_embedding.weight - before).abs().amax(dim=1)
    assert (moved[4:9] > 1e-3).all()


def test_it_learns_a_few_sentences_by_heart():
    torch.manual_seed(0)
    whole = Transformer(
        config(d_model=16, norm="pre", num_encoder_layers=1, num_decoder_layers=1, dropout=0.0)
    )
    source = padded(tokens(4, 5), [5, 3, 4, 2])
    rows = torch.cat((torch.full((4, 1), BOS), source.flip(1), torch.full((4, 1), PAD)), dim=1)
    for row, length in zip(rows, [5, 3, 4, 2], strict=True):
        row[1 : length + 2] = torch.cat((row[row > EOS], torch.tensor([EOS])))
        row[length + 2 :] = PAD
    optimizer = torch.optim.AdamW(whole.parameters(), lr=0.02)
    inputs, labels = teacher_forcing_pair(rows)
    for _ in range(40):
        loss = F.cross_entropy(whole(source, inputs).flatten(0, 1), labels.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
    assert greedy_decode(whole, source, max_length=8).equal(labels)
