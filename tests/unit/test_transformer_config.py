"""The configuration: what it refuses, what it writes down, and the sizes of the paper's models."""

import dataclasses
import json
import math

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from attnlab.transformer import Transformer
from attnlab.transformer.config import TransformerConfig, paper_base, paper_big

# Nothing is shrunk: a failure is small already, and the mutants make many.
few_examples = settings(
    max_examples=30, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate]
)


def config(**fields):
    return TransformerConfig(**{"source_vocab_size": 11, "target_vocab_size": 13, **fields})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        *[
            ({name: 0}, [f"{name}: expected at least 1", "got 0"])
            for name in (
                "source_vocab_size",
                "target_vocab_size",
                "d_model",
                "num_heads",
                "d_ff",
                "num_encoder_layers",
                "num_decoder_layers",
                "max_length",
            )
        ],
        ({"d_model": 10, "num_heads": 4}, ["num_heads: expected a divisor of d_model = 10", "got 4"]),
        ({"dropout": 1.0}, ["dropout: expected at least 0 and below 1", "got 1.0"]),
        ({"dropout": -0.1}, ["dropout", "got -0.1"]),
        ({"dropout": math.nan}, ["dropout", "got nan"]),
        ({"norm": "middle"}, ["norm: expected one of", "'pre'", "'post'", "got 'middle'"]),
        ({"activation": "tanh"}, ["activation: expected one of", "'relu'", "'gelu'", "got 'tanh'"]),
        ({"positions": "rotary"}, ["positions: expected one of", "'sinusoidal'", "'none'", "got 'rotary'"]),
        ({"share_embeddings": True}, ["share_embeddings: expected equal vocabularies", "11", "13"]),
        ({"pad": 11}, ["pad: expected an id of both vocabularies, 0 to 10", "got 11"]),
        ({"bos": -1}, ["bos: expected an id of both", "got -1"]),
        ({"eos": 12, "source_vocab_size": 13, "target_vocab_size": 12}, ["eos", "0 to 11", "got 12"]),
        ({"pad": 2}, ["eos: expected an id other than pad = 2, got 2", "out of the loss", "stop"]),
        ({"bos": 0}, ["bos: expected an id other than pad = 0, got 0", "zero"]),
        ({"bos": 2}, ["bos: expected an id other than eos = 2, got 2", "end"]),
    ],
)
def test_a_value_that_does_not_fit_is_named(fields, words):
    with pytest.raises(ValueError) as error:
        config(**fields)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"d_model": 64.0}, "d_model: expected a whole number, got 64.0"),
        ({"pad": False}, "pad: expected a whole number, got False"),
        ({"dropout": "none"}, "dropout: expected a number, got 'none'"),
        ({"dropout": True}, "dropout: expected a number, got True"),
        ({"tie_output": 1}, "tie_output: expected True or False, got 1"),
        ({"share_embeddings": None}, "share_embeddings: expected True or False, got None"),
        ({"final_norm": "yes"}, "final_norm: expected True, False or None, got 'yes'"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(fields, words):
    with pytest.raises(TypeError, match=words):
        config(**fields)


def test_it_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config().d_model = 4


def test_a_final_norm_comes_with_pre_norm_and_can_be_asked_for():
    assert config(norm="pre").has_final_norm and not config(norm="post").has_final_norm
    assert config(norm="post", final_norm=True).has_final_norm
    assert not config(norm="pre", final_norm=False).has_final_norm


@given(
    heads=st.integers(1, 4),
    width=st.integers(1, 9),
    dropout=st.floats(0.0, 0.9),
    final_norm=st.sampled_from([None, True, False]),
    marks=st.permutations([0, 3, 7]),
    positions=st.sampled_from(["sinusoidal", "learned", "none"]),
)
@few_examples
def test_comes_back_from_json(heads, width, dropout, final_norm, marks, positions):
    pad, bos, eos = marks
    before = config(
        d_model=heads * width,
        num_heads=heads,
        dropout=dropout,
        final_norm=final_norm,
        pad=pad,
        bos=bos,
        eos=eos,
        positions=positions,
        tie_output=False,
    )
    after = TransformerConfig.from_dict(json.loads(json.dumps(before.to_dict())))
    assert after == before and isinstance(after, TransformerConfig)


def test_fields_that_are_missing_or_unknown_are_named():
    fields = config().to_dict()
    del fields["d_ff"]
    with pytest.raises(ValueError, match=r"fields: .*unknown \[\], missing \['d_ff'\]"):
        TransformerConfig.from_dict(fields)
    with pytest.raises(ValueError, match=r"fields: .*unknown \['width'\], missing \[\]"):
        TransformerConfig.from_dict({**config().to_dict(), "width": 3})
    with pytest.raises(ValueError, match="d_ff"):
        TransformerConfig.from_dict({**config().to_dict(), "d_ff": 0})


def num_parameters(config):
    """Counted, not allocated."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Transformer(config).parameters())


def test_the_papers_models_have_their_sizes():
    assert num_parameters(paper_base(37_000)) == 63_082_496
    assert num_parameters(paper_big(37_000)) == 214_245_376
    base, big = paper_base(37_000, max_length=99), paper_big(100, max_length=98)
    assert (base.d_model, base.num_heads, base.d_ff, base.dropout) == (512, 8, 2048, 0.1)
    assert (big.d_model, big.num_heads, big.d_ff, big.dropout) == (1024, 16, 4096, 0.3)
    for paper in (base, big):
        assert (paper.num_encoder_layers, paper.num_decoder_layers) == (6, 6)
        assert paper.norm == "post" and not paper.has_final_norm and paper.activation == "relu"
        assert paper.share_embeddings and paper.tie_output and paper.positions == "sinusoidal"
    assert (base.max_length, big.max_length) == (99, 98)


def test_one_number_of_embeddings_explains_the_papers_base_models_but_not_its_big_one():
    """Table 3, parameters in millions: the stacks say how many rows of embeddings the rest would be."""
    base_models = [
        ({}, 65),
        ({"num_encoder_layers": 2, "num_decoder_layers": 2}, 36),
        ({"num_encoder_layers": 4, "num_decoder_layers": 4}, 50),
        ({"num_encoder_layers": 8, "num_decoder_layers": 8}, 80),
        ({"d_model": 256}, 28),
        ({"d_model": 1024}, 168),
        ({"d_ff": 1024}, 53),
        ({"d_ff": 4096}, 90),
    ]
    least, most = zip(
        *(rows_left(dataclasses.replace(paper_base(3), **fields), size) for fields, size in base_models),
        strict=True,
    )
    assert (max(least), min(most)) == (40_932, 41_160)
    assert rows_left(paper_big(3), 213) == (35_296, 36_272)


def rows_left(config, millions):
    """Least and most rows of a shared table that make this size, rounded to millions."""
    stacks = num_parameters(config) - 3 * config.d_model
    bounds = [(millions + rounding) * 1e6 - stacks for rounding in (-0.5, 0.5)]
    return math.ceil(bounds[0] / config.d_model), math.floor(bounds[1] / config.d_model)
