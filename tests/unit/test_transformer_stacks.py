"""The two stacks against :class:`torch.nn.Transformer`, and what they keep to themselves."""

import copy
import warnings

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import nn

from attnlab import contracts
from attnlab.attention import causal_mask, padding_mask
from attnlab.transformer.config import TransformerConfig
from attnlab.transformer.stacks import DecoderCache, EncoderDecoder
from attnlab.transformer.torch_weights import config_from_torch, parts_from_torch

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
# Nothing is shrunk: a failure is small already, and the mutants make many.
quick = settings(deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
few_examples = settings(quick, max_examples=4)


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def torch_transformer(dtype=torch.float64, seed=0, **arguments):
    """PyTorch's model with every parameter disturbed, so that no norm is the identity and no bias zero."""
    torch.manual_seed(seed)
    arguments = {
        "d_model": 12,
        "nhead": 3,
        "num_encoder_layers": 2,
        "num_decoder_layers": 3,
        "dim_feedforward": 20,
        "dropout": 0.0,
        "batch_first": True,
        **arguments,
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*enable_nested_tensor.*")
        theirs = nn.Transformer(**arguments).to(dtype)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return theirs


def config(**fields):
    return TransformerConfig(
        **{
            "source_vocab_size": 3,
            "target_vocab_size": 3,
            "d_model": 8,
            "num_heads": 2,
            "d_ff": 12,
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "dropout": 0.0,
            **fields,
        }
    )


def gradients_as_ours(theirs):
    """Their gradients under our names: a copy whose parameters are the gradients, read like weights."""
    gradients = copy.deepcopy(theirs)
    with torch.no_grad():
        for parameter, own in zip(gradients.parameters(), theirs.parameters(), strict=True):
            parameter.copy_(own.grad)
    return dict(EncoderDecoder.from_torch(gradients).named_parameters())


def assert_parity(theirs, source, target, lengths, target_lengths):
    dtype, (num_source, num_target) = source.dtype, (source.shape[1], target.shape[1])
    ours = EncoderDecoder.from_torch(theirs)
    real, target_real = padding_mask(lengths, num_source), padding_mask(target_lengths, num_target)
    causal = causal_mask(num_target)
    leaves = [tensor.clone().requires_grad_() for tensor in (source, target)]
    output = ours(*leaves, real, causal & target_real, real)
    reference_leaves = [tensor.clone().requires_grad_() for tensor in (source, target)]
    first = theirs.batch_first
    reference = theirs(
        *(leaf if first else leaf.transpose(0, 1) for leaf in reference_leaves),
        tgt_mask=~causal,
        src_key_padding_mask=~real[:, 0],
        tgt_key_padding_mask=~target_real[:, 0],
        memory_key_padding_mask=~real[:, 0],
    )
    reference = reference if first else reference.transpose(0, 1)
    probe = draw(*output.shape, seed=9, dtype=dtype) / output.numel() ** 0.5
    (output * probe).sum().backward()
    (reference * probe).sum().backward()
    close = dict(rtol=0, atol=TOLERANCE[dtype])
    torch.testing.assert_close(output, reference, **close)
    for leaf, reference_leaf in zip(leaves, reference_leaves, strict=True):
        torch.testing.assert_close(leaf.grad, reference_leaf.grad, **close)
    expected = gradients_as_ours(theirs)
    assert expected.keys() == {name for name, _ in ours.named_parameters()}
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close({name: parameter.grad}, {name: expected[name]}, **close)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_configuration_read_from_torch_builds_the_same_stacks(norm_first):
    theirs = torch_transformer(norm_first=norm_first, activation="gelu", dropout=0.25)
    read = config_from_torch(theirs, source_vocab_size=7, max_length=9)
    assert (read.source_vocab_size, read.target_vocab_size, read.max_length) == (7, 3, 9)
    assert (read.d_model, read.num_heads, read.d_ff, read.dropout) == (12, 3, 20, 0.25)
    assert (read.num_encoder_layers, read.num_decoder_layers, read.activation) == (2, 3, "gelu")
    assert read.norm == ("pre" if norm_first else "post") and read.has_final_norm
    copied, made = EncoderDecoder.from_torch(theirs).eval(), EncoderDecoder(read).double().eval()
    made.load_state_dict(copied.state_dict())
    inputs = draw(2, 4, 12), draw(2, 3, 12, seed=1)
    assert made(*inputs).equal(copied(*inputs))
    copied.train(), made.train()
    torch.manual_seed(5)
    first = copied(*inputs)
    torch.manual_seed(5)
    assert made(*inputs).equal(first) and not first.equal(copied(*inputs))


def test_the_copy_shares_nothing_and_keeps_the_mode():
    theirs = torch_transformer().eval()
    generator_state = torch.get_rng_state()
    ours = EncoderDecoder.from_torch(theirs)
    assert torch.get_rng_state().equal(generator_state)
    assert not any(module.training for module in ours.modules())
    assert EncoderDecoder.from_torch(theirs.train()).training
    own = {parameter.data_ptr() for parameter in ours.parameters()}
    assert own.isdisjoint(parameter.data_ptr() for parameter in theirs.parameters())
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.float64}


def test_torch_without_final_norms_and_with_one():
    theirs = torch_transformer()
    theirs.encoder.norm = theirs.decoder.norm = None
    assert not config_from_torch(theirs).has_final_norm
    parts = parts_from_torch(theirs)
    assert isinstance(parts.encoder_norm, nn.Identity) and isinstance(parts.decoder_norm, nn.Identity)
    assert_parity(theirs, draw(2, 4, 12), draw(2, 3, 12, seed=1), [4, 2], [1, 3])
    theirs.decoder.norm = nn.LayerNorm(12)
    with pytest.raises(ValueError, match="theirs: expected a final norm behind both stacks or none"):
        config_from_torch(theirs)


def test_what_is_no_transformer_of_torch_is_refused():
    with pytest.raises(TypeError, match="theirs: expected an nn.Transformer, got Linear"):
        EncoderDecoder.from_torch(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="theirs: expected an nn.TransformerDecoder in it, got Identity"):
        EncoderDecoder.from_torch(torch_transformer(custom_decoder=nn.Identity()))
    with pytest.raises(TypeError, match="theirs: expected an nn.TransformerEncoder in it, got Identity"):
        parts_from_torch(torch_transformer(custom_encoder=nn.Identity()))


def test_layers_are_distinct_and_unequal_when_made():
    stacks = EncoderDecoder(config(num_encoder_layers=4, num_decoder_layers=3))
    for layers, number in ((stacks.encoder_layers, 4), (stacks.decoder_layers, 3)):
        assert len(layers) == number == len(set(map(id, layers)))
        sizes = [sum(parameter.numel() for parameter in layer.parameters()) for layer in layers]
        assert sum(parameter.numel() for parameter in layers.parameters()) == number * sizes[0]
        for name, first in layers[0].named_parameters():
            if first.ndim > 1:
                for other in layers[1:]:
                    assert not other.get_parameter(name).equal(first)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"norm": "pre"}, True),
        ({"norm": "post"}, False),
        ({"norm": "post", "final_norm": True}, True),
        ({"norm": "pre", "final_norm": False}, False),
    ],
)
def test_a_norm_ends_each_stack_where_it_should(fields, expected):
    stacks = EncoderDecoder(config(**fields))
    assert isinstance(stacks.encoder_norm, nn.LayerNorm) == expected
    assert isinstance(stacks.decoder_norm, nn.LayerNorm) == expected
    if expected:
        with torch.no_grad():
            stacks.encoder_norm.weight.fill_(0.0), stacks.encoder_norm.bias.fill_(2.0)
            stacks.decoder_norm.weight.fill_(0.0), stacks.decoder_norm.bias.fill_(3.0)
        assert (stacks.encode(torch.ones(1, 2, 8)).output == 2.0).all()
        assert (stacks.decode(torch.ones(1, 2, 8), torch.ones(1, 2, 8)).output == 3.0).all()


def test_each_kind_of_mask_goes_where_it_belongs():
    stacks, source, target = EncoderDecoder(config()).double(), draw(2, 7, 8), draw(2, 4, 8, seed=1)
    real = padding_mask([7, 5])
    memory = stacks.encode(source, real).output
    contracts.padding_blind(lambda x: stacks.encode(x, real).output, source, real[:, 0])
    contracts.padding_blind(
        lambda x: stacks.decode(target, x, causal_mask(4), real).output,
        memory.detach(),
        real[:, 0],
        compare=torch.ones(2, 4, dtype=torch.bool),
    )
    contracts.padding_blind(
        lambda x: stacks(x, target, real, causal_mask(4), real),
        source,
        real[:, 0],
        compare=torch.ones(2, 4, dtype=torch.bool),
    )
    contracts.causal(lambda x: stacks(source, x, real, causal_mask(4), real), target)
    contracts.batch_independent(lambda x: stacks.encode(x).output, source)


def test_weights_come_back_for_each_layer_and_only_if_asked_for():
    stacks = EncoderDecoder(config(num_encoder_layers=1, num_decoder_layers=3)).double()
    source, target, real = draw(2, 7, 8), draw(2, 4, 8, seed=1), padding_mask([7, 5])
    encoded = stacks.encode(source, real, need_weights=True)
    assert [weights.shape for weights in encoded.weights] == [(2, 2, 7, 7)]
    contracts.rows_sum_to_one(encoded.weights[0], real[:, None])
    decoded = stacks.decode(target, encoded.output, causal_mask(4), real, need_weights=True)
    assert [weights.shape for weights in decoded.self_weights] == [(2, 2, 4, 4)] * 3
    assert [weights.shape for weights in decoded.cross_weights] == [(2, 2, 4, 7)] * 3
    for over_target, over_source in zip(decoded.self_weights, decoded.cross_weights, strict=True):
        contracts.rows_sum_to_one(over_target, causal_mask(4))
        contracts.rows_sum_to_one(over_source, real[:, None])
    plain = stacks.decode(target, encoded.output, causal_mask(4), real)
    assert stacks.encode(source, real).weights is plain.self_weights is plain.cross_weights is None
    torch.testing.assert_close(plain.output, decoded.output, rtol=0, atol=1e-12)


@given(cuts=st.sets(st.integers(1, 5)), seed=st.integers(0, 9))
@settings(quick, max_examples=10)
def test_a_cache_changes_nothing_however_the_target_is_cut(cuts, seed):
    torch.manual_seed(seed)
    stacks = EncoderDecoder(config(norm="pre")).double()
    memory, target, real = draw(2, 5, 8), draw(2, 6, 8, seed=1), padding_mask([5, 3])
    whole = stacks.decode(target, memory, causal_mask(6), real, need_weights=True)
    cache, edges = DecoderCache(2), [0, *sorted(cuts), 6]
    for start, stop in zip(edges, edges[1:], strict=False):
        assert cache.length == start
        part = stacks.decode(
            target[:, start:stop],
            memory,
            causal_mask(stop - start, stop),
            real,
            cache=cache,
            need_weights=True,
        )
        torch.testing.assert_close(part.output, whole.output[:, start:stop], rtol=0, atol=1e-12)
        for one, other in zip(part.cross_weights, whole.cross_weights, strict=True):
            torch.testing.assert_close(one, other[:, :, start:stop], rtol=0, atol=1e-12)
    cache.select(torch.tensor([1, 1]))
    again = stacks.decode(target[:1].repeat(2, 1, 1)[:, :1], memory[[1, 1]], None, real[[1, 1]], cache=cache)
    assert cache.length == 7 and again.output[0].equal(again.output[1])
    assert cache.memory[1].extend(*[torch.zeros(2, 2, 0, 4).double()] * 2)[0].shape == (2, 2, 5, 4)
    cache.clear()
    assert cache.length == cache.memory.length == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm_first", [False, True])
@given(data=st.data(), batch_first=st.booleans())
@few_examples
def test_equals_torch_in_values_and_gradients(dtype, norm_first, data, batch_first):
    batch, num_source, num_target = data.draw(st.tuples(*[st.integers(1, 5)] * 3))
    lengths, target_lengths = (
        data.draw(st.lists(st.integers(1, longest), min_size=batch, max_size=batch))
        for longest in (num_source, num_target)
    )
    theirs = torch_transformer(
        dtype,
        data.draw(st.integers(0, 99)),
        norm_first=norm_first,
        batch_first=batch_first,
        activation=data.draw(st.sampled_from(["relu", "gelu"])),
    )
    inputs = draw(batch, num_source, 12, dtype=dtype), draw(batch, num_target, 12, seed=1, dtype=dtype)
    assert_parity(theirs, *inputs, lengths, target_lengths)
