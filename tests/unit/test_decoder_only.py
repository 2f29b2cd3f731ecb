"""The decoder-only model: causal, the same with a cache as without one, and put together as it says."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnlab import contracts
from attnlab.attention import padding_mask
from attnlab.cache import KeyValueCache
from attnlab.decoder_only.config import DecoderOnlyConfig
from attnlab.decoder_only.model import DecoderOnly, check_tokens

KINDS = ["learned", "sinusoidal", "rotary", "alibi", "none"]
HEADS = [(4, None), (4, 2), (3, 1)]
VOCAB, MAX_LENGTH = 11, 12

few = settings(derandomize=True, deadline=None, max_examples=8)
models = st.sampled_from(KINDS), st.sampled_from(HEADS)


def make(positions="learned", heads=(4, 2), *, dtype=torch.float64, seed=0, **changes):
    """A small model whose weights are large enough that what is wrong shows."""
    torch.manual_seed(seed)
    sizes = dict(vocab_size=VOCAB, num_layers=2, d_ff=10, max_length=MAX_LENGTH, positions=positions)
    sizes |= dict(d_model=4 * heads[0], num_heads=heads[0], num_kv_heads=heads[1])
    model = DecoderOnly(DecoderOnlyConfig(**sizes | changes)).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def draw_tokens(*shape, seed=0):
    return torch.randint(VOCAB, shape, generator=torch.Generator().manual_seed(seed))


def read(model):
    return lambda tokens, cache: model(tokens, cache=cache)


def new_cache():
    return KeyValueCache(2)


# How it is put together


@pytest.mark.parametrize("tie", [True, False])
def test_the_model_step_by_step(tie):
    """With learned positions, by the formulas: pre-norm blocks, a final norm, the output."""
    model, tokens = make("learned", (4, None), tie_output=tie), draw_tokens(2, 5)
    x = model.token_embedding.weight[tokens] + model.position_table.table[:5]
    for block in model.blocks:
        heads, wide = block.self_attention, block.feed_forward
        normed = F.layer_norm(x, (16,), block.around_self.norm.weight, block.around_self.norm.bias)
        q, k, v = (
            part(normed).unflatten(-1, (4, 4)).transpose(1, 2) for part in (heads.w_q, heads.w_k, heads.w_v)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + heads.w_o(attended)
        norm = block.around_feed_forward.norm
        x = x + wide.w_2(F.gelu(wide.w_1(F.layer_norm(x, (16,), norm.weight, norm.bias))))
    x = F.layer_norm(x, (16,), model.final_norm.weight, model.final_norm.bias)
    matrix = model.token_embedding.weight if tie else model.output.weight
    torch.testing.assert_close(model(tokens).logits, x @ matrix.T)


def test_embeddings_with_sinusoidal_positions_are_scaled():
    model, tokens = make("sinusoidal"), draw_tokens(2, 3)
    table = torch.tensor([[math.sin(p), math.cos(p)] for p in (5, 6, 7)], dtype=torch.float64)
    added = model.embed(tokens, offset=5) - 4.0 * model.token_embedding.weight[tokens]  # sqrt(d_model) = 4
    torch.testing.assert_close(added[..., :2], table.expand(2, 3, 2))
    plain = make("none")
    torch.testing.assert_close(plain.embed(tokens), plain.token_embedding.weight[tokens])


def test_alibi_lowers_the_scores_of_distant_keys():
    """With queries of zero the weights are those of the penalty alone: slopes 1/4, 1/16, 1/64, 1/256."""
    model = make("alibi", (4, 2))
    nn.init.zeros_(model.blocks[0].self_attention.w_q.weight)
    nn.init.zeros_(model.blocks[0].self_attention.w_q.bias)
    weights = model(draw_tokens(1, 5), need_weights=True).weights[0][0, :, -1]  # (H, S)
    slopes = torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256], dtype=torch.float64)[:, None]
    torch.testing.assert_close(weights, (-slopes * torch.arange(4, -1, -1)).softmax(-1))


def test_the_tied_output_is_one_parameter():
    tied, own = make(), make(tie_output=False)
    assert sum(p.numel() for p in own.parameters()) - sum(p.numel() for p in tied.parameters()) == VOCAB * 16
    assert len({p.data_ptr() for p in tied.state_dict().values()}) == len(tied.state_dict())
    tied(draw_tokens(1, 3)).logits.sum().backward()
    assert (tied.token_embedding.weight.grad.abs().amax(dim=1) > 0).all(), "each row is an output's"


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_gets_a_gradient(kind):
    model = make(kind, tie_output=False)
    model(draw_tokens(4, MAX_LENGTH)).logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


def test_weights_start_as_documented():
    torch.manual_seed(0)
    config = DecoderOnlyConfig(
        vocab_size=300, d_model=48, num_heads=4, num_layers=8, d_ff=64, max_length=150, tie_output=False
    )
    model = DecoderOnly(config)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            assert (parameter == (1.0 if name.endswith("weight") else 0.0)).all(), name
        elif name.endswith("bias"):
            assert (parameter == 0).all(), name
        else:
            expected = 0.02 / 4 if "w_o" in name or "w_2" in name else 0.02  # sqrt(2 * 8 layers) = 4
            assert parameter.std().item() == pytest.approx(expected, rel=0.06), name
            assert abs(parameter.mean().item()) < 0.1 * expected, name


def test_grouped_heads_have_fewer_keys_and_values():
    for heads, width in (((4, None), 16), ((4, 2), 8), ((4, 1), 4)):
        attention = make(heads=heads).blocks[1].self_attention
        assert attention.w_k.weight.shape == attention.w_v.weight.shape == (width, 16)


def test_layers_start_independent():
    first, second = DecoderOnly(make().config).blocks
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert one is not other
        assert one.ndim == 1 or not torch.equal(one, other)


def test_starting_again():
    model = make("learned")
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    model.reset_parameters()
    for name, parameter in model.named_parameters():
        assert not torch.equal(parameter, before[name]), name
        assert parameter.abs().max() <= 1.0, name
    assert (model.final_norm.weight == 1).all()


# What is refused


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_that_is_too_long(kind):
    model = make(kind)
    model(draw_tokens(1, MAX_LENGTH))
    with pytest.raises(ValueError, match="tokens: expected at most max_length = 12 positions, got 13$"):
        model(draw_tokens(1, MAX_LENGTH + 1))
    cache = new_cache()
    model(draw_tokens(1, 10), cache=cache)
    with pytest.raises(
        ValueError, match="max_length = 12 positions, got 3 after the 10 that the cache holds"
    ):
        model(draw_tokens(1, 3), cache=cache)
    assert cache.length == 10, "refused before anything is read"
    with pytest.raises(ValueError, match="max_length = 12"):
        model.run_blocks(torch.zeros(1, 13, 16, dtype=torch.float64))


@pytest.mark.parametrize(
    ("tokens", "error", "words"),
    [
        (torch.zeros(1, 3), TypeError, "tokens: expected int64 or int32 token numbers, got torch.float32"),
        (torch.zeros(1, 3, dtype=torch.bool), TypeError, "got torch.bool"),
        (torch.zeros(1, 3, dtype=torch.uint8), TypeError, "got torch.uint8"),
        (torch.zeros(3, dtype=torch.int64), ValueError, r"tokens: expected \(B, T\) .* got shape \(3,\)"),
        (torch.zeros(1, 3, 2, dtype=torch.int64), ValueError, r"got shape \(1, 3, 2\)"),
        (torch.zeros(1, 0, dtype=torch.int64), ValueError, r"got shape \(1, 0\)"),
        (torch.zeros(0, 3, dtype=torch.int64), ValueError, r"got shape \(0, 3\)"),
        (
            torch.tensor([[0, 11]]),
            ValueError,
            "tokens: expected numbers from 0 to vocab_size - 1 = 10, got 11",
        ),
        (torch.tensor([[-1, 10]]), ValueError, "got -1"),
    ],
)
def test_tokens_that_cannot_be_looked_up(tokens, error, words):
    with pytest.raises(error, match=words):
        make()(tokens)
    with pytest.raises(error, match=words.replace("tokens:", "prompt:")):
        check_tokens(tokens, VOCAB, name="prompt")


def test_the_first_and_the_last_token_of_the_vocabulary_are_taken():
    for dtype in (torch.int32, torch.int64):
        make()(torch.tensor([[0, VOCAB - 1]], dtype=dtype))


@pytest.mark.parametrize(
    ("mask", "error", "words"),
    [
        (
            torch.ones(3, 3),
            TypeError,
            "mask: expected a boolean tensor, True = may attend, got torch.float32",
        ),
        (torch.ones(3, 3, dtype=torch.int64), TypeError, "mask: .* got torch.int64"),
        (torch.ones(3, 4, dtype=torch.bool), ValueError, r"mask: .* \(B, T, S\) = \(2, 3, 3\), got \(3, 4\)"),
        (torch.ones(3, 1, 3, dtype=torch.bool), ValueError, r"mask: .* got \(3, 1, 3\)"),
        (torch.ones(2, 1, 3, 3, dtype=torch.bool), ValueError, r"mask: .* got \(2, 1, 3, 3\)"),
    ],
)
def test_a_mask_that_does_not_fit(mask, error, words):
    cache = new_cache()
    with pytest.raises(error, match=words):
        make()(draw_tokens(2, 3), mask, cache=cache)
    assert cache[0].length == 0, "refused before anything is read"


# Cache


def chunks_of(length):
    """Every way to cut a length into chunks."""
    return st.lists(st.booleans(), min_size=length - 1, max_size=length - 1).map(
        lambda cuts: [len(run) for run in "".join("x" + " " * cut for cut in [*cuts, False]).split()]
    )


@few
@given(*models, st.integers(2, 8).flatmap(chunks_of), st.integers(0, 100))
def test_read_in_chunks_as_read_at_once(kind, heads, split, seed):
    model, tokens = make(kind, heads), draw_tokens(2, sum(split), seed=seed)
    contracts.cache_equal(read(model), tokens, new_cache, splits=[split])


@pytest.mark.parametrize("kind", KINDS)
def test_read_in_chunks_as_read_at_once_in_float32(kind):
    splits = [[6, 1, 1, 1], [1] * 9, [2] * 4 + [1], [3, 3, 3]]
    model, tokens = make(kind, dtype=torch.float32), draw_tokens(2, 9)
    contracts.cache_equal(read(model), tokens, new_cache, splits=splits, tolerance=1e-5)


def test_positions_go_on_where_the_cache_ends():
    """A prompt of 6, then single tokens: offsets 0, 6, 7, 8, and not 6, 12, 13."""
    for kind, name in (("learned", "position_table"), ("sinusoidal", "position_table"), ("rotary", "rotary")):
        model, offsets = make(kind), []
        part = getattr(model, name)
        part.register_forward_pre_hook(
            lambda part, args, kwargs, seen=offsets: seen.append((*args[1:], *kwargs.values())[0]),
            with_kwargs=True,
        )
        tokens, cache = draw_tokens(1, 9), new_cache()
        for start, stop in ((0, 6), (6, 7), (7, 8), (8, 9)):
            model(tokens[:, start:stop], cache=cache)
        calls_a_forward = 2 * 2 if kind == "rotary" else 1  # queries and keys of two layers
        assert offsets == [offset for offset in (0, 6, 7, 8) for _ in range(calls_a_forward)]
        assert cache.length == 9


@pytest.mark.parametrize("kind", KINDS)
def test_weights_with_a_cache_are_the_last_rows_of_those_without(kind):
    model, tokens, cache = make(kind), draw_tokens(2, 7), new_cache()
    whole = model(tokens, need_weights=True)
    model(tokens[:, :4], cache=cache)
    rest = model(tokens[:, 4:], cache=cache, need_weights=True)
    for first, second in zip(whole.weights, rest.weights, strict=True):
        assert second.shape == (2, 4, 3, 7)
        torch.testing.assert_close(second, first[:, :, 4:])


def test_a_cache_of_another_depth_is_refused():
    with pytest.raises(ValueError, match="cache: expected one for 2 layers, got 3"):
        make()(draw_tokens(1, 2), cache=KeyValueCache(3))


# Other properties


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_those_of_causal_attention(kind):
    result = make(kind)(draw_tokens(2, 5), need_weights=True)
    assert len(result.weights) == 2
    for weights in result.weights:
        assert weights.shape == (2, 4, 5, 5)
        contracts.rows_sum_to_one(weights, torch.ones(5, 5, dtype=torch.bool).tril())
    torch.testing.assert_close(result.logits, make(kind)(draw_tokens(2, 5)).logits)
    assert make(kind)(draw_tokens(2, 5)).weights is None


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_do_not_see_each_other(kind):
    contracts.batch_independent(make(kind), draw_tokens(3, 5))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_padding_on_either_side_is_not_seen(kind, left):
    model, mask = make(kind), padding_mask([4, 2])
    mask = mask.flip(2) if left else mask
    x = model.embed(draw_tokens(2, 4)).detach()
    contracts.padding_blind(lambda x: model.run_blocks(x, mask), x, mask[:, 0])


def test_padding_on_the_left_is_seen_without_a_mask():
    model, real = make(), padding_mask([4, 2])[:, 0].flip(1)
    with pytest.raises(AssertionError, match="padding"):
        contracts.padding_blind(model.run_blocks, model.embed(draw_tokens(2, 4)).detach(), real)


def test_padding_is_not_seen_with_a_cache():
    model, tokens, real = make(), draw_tokens(2, 5), padding_mask([5, 3]).flip(2)
    whole, cache = model(tokens, real).logits, new_cache()
    parts = [model(tokens[:, i : i + 1], real[..., : i + 1], cache=cache).logits for i in range(5)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_is_deterministic_and_training_is_not(kind):
    model, tokens = make(kind, dropout=0.4), draw_tokens(2, 5)
    contracts.eval_deterministic(model.train(), tokens)
    assert not torch.equal(model(tokens).logits, model(tokens).logits)


def test_dropout_of_the_embeddings_alone():
    model = make(dropout=0.4).train()
    zeros = (model.embed(draw_tokens(4, 12)) == 0).double().mean()
    assert 0.3 < zeros < 0.5
    assert (model.eval().embed(draw_tokens(4, 12)) != 0).all()


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_dropout_of_the_blocks_alone(dropout):
    model = make(dropout=dropout)
    x = model.embed(draw_tokens(2, 5)).detach()
    model.train()
    assert torch.equal(model.run_blocks(x).logits, model.run_blocks(x).logits) is (dropout == 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_positions_matter_and_without_them_only_the_past_as_a_set_does(kind):
    model = make(kind, num_layers=1)
    first, second = model(torch.tensor([[1, 2, 3, 4], [2, 3, 1, 4]])).logits[:, -1]
    assert torch.allclose(first, second) is (kind == "none")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_type_follows_the_model(kind, dtype):
    model = DecoderOnly(make(kind).config).to(dtype)
    logits = model(draw_tokens(2, MAX_LENGTH)).logits
    assert logits.dtype == dtype and logits.isfinite().all()


def test_a_model_made_double_is_right_to_double():
    """Tables made in float32 and then widened would be off in the eighth digit."""
    for kind in KINDS:
        model = make(kind, dtype=torch.float32)
        torch.set_default_dtype(torch.float64)
        try:
            expected = DecoderOnly(model.config)
        finally:
            torch.set_default_dtype(torch.float32)
        expected.load_state_dict(model.state_dict())
        tokens = draw_tokens(2, 8)
        torch.testing.assert_close(model.double()(tokens).logits, expected.eval()(tokens).logits)


def test_state_is_all_that_a_model_is():
    for kind in KINDS:
        model, other = make(kind, seed=0), make(kind, seed=1)
        other.load_state_dict(model.state_dict())
        torch.testing.assert_close(other(draw_tokens(2, 5)).logits, model(draw_tokens(2, 5)).logits)


# Causality


@few
@given(*models, st.integers(2, 5))
def test_no_logit_depends_on_a_later_vector(kind, heads, length):
    """By change and by gradient."""
    model = make(kind, heads)
    contracts.causal(model.run_blocks, model.embed(draw_tokens(2, length)).detach())


@few
@given(*models, st.integers(2, 4), st.integers(0, 100))
def test_no_logit_depends_on_a_later_token(kind, heads, length, seed):
    model, tokens = make(kind, heads), draw_tokens(2, length, seed=seed)
    before = model(tokens).logits
    for last in range(length - 1):
        changed = tokens.clone()
        changed[:, last + 1 :] = (changed[:, last + 1 :] + 1) % VOCAB
        after = model(changed).logits
        torch.testing.assert_close(after[:, : last + 1], before[:, : last + 1])
        assert not torch.allclose(after[:, last + 1], before[:, last + 1])


@pytest.mark.parametrize("kind", KINDS)
def test_every_logit_depends_on_every_earlier_token(kind):
    model = make(kind)
    x = model.embed(draw_tokens(1, 5)).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model.run_blocks(x).logits[0, -1].square().sum(), x)
    assert (gradient[0].abs().amax(dim=-1) > 1e-6).all()
