"""The configuration of the decoder-only model refuses what no model could be made of."""

import dataclasses
import json

import pytest

from attnlab.decoder_only.config import DecoderOnlyConfig

SIZES = dict(vocab_size=7, d_model=12, num_heads=6, num_layers=2, d_ff=20, max_length=9)


def test_defaults():
    config = DecoderOnlyConfig(**SIZES)
    assert (config.num_kv_heads, config.positions, config.dropout) == (None, "learned", 0.0)
    assert (config.tie_output, config.activation) == (True, "gelu")


def test_width_of_a_head():
    assert DecoderOnlyConfig(**SIZES).d_head == 2


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DecoderOnlyConfig(**SIZES).d_model = 4


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        *(({name: 0}, ValueError, f"^{name}: expected at least 1, got 0") for name in SIZES),
        *(({name: 2.0}, TypeError, f"^{name}: expected an integer, got 2.0") for name in SIZES),
        ({"d_ff": True}, TypeError, "^d_ff: expected an integer, got True"),
        (
            {"d_model": 10, "num_heads": 4},
            ValueError,
            "^num_heads: expected a divisor of d_model = 10, got 4",
        ),
        ({"num_kv_heads": 4}, ValueError, "^num_kv_heads: expected a divisor of num_heads = 6, got 4"),
        ({"num_kv_heads": 0}, ValueError, "^num_kv_heads: expected at least 1, got 0"),
        ({"num_kv_heads": "2"}, TypeError, "^num_kv_heads: expected an integer"),
        ({"positions": "relative"}, ValueError, "^positions: expected one of 'learned', .*, got 'relative'"),
        ({"activation": "swish"}, ValueError, "^activation: expected one of 'relu', 'gelu', got 'swish'"),
        ({"positions": "rotary", "num_heads": 4}, ValueError, "^num_heads: rotary .* 12 / 4 = 3"),
        ({"dropout": 1.0}, ValueError, "^dropout: expected a share from 0 to below 1, got 1.0"),
        ({"dropout": -0.1}, ValueError, "^dropout: expected a share"),
        ({"dropout": "0.1"}, TypeError, "^dropout: expected a number"),
        ({"dropout": False}, TypeError, "^dropout: expected a number"),
        ({"tie_output": 1}, TypeError, "^tie_output: expected True or False, got 1"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, words):
    with pytest.raises(error, match=words):
        DecoderOnlyConfig(**SIZES | change)


@pytest.mark.parametrize(
    "change", [{"num_kv_heads": 1}, {"num_kv_heads": 6}, {"positions": "rotary"}, {"num_heads": 4}]
)
def test_what_fits_is_taken(change):
    DecoderOnlyConfig(**SIZES | change)


def test_a_dictionary_and_back():
    config = DecoderOnlyConfig(
        **SIZES, num_kv_heads=3, positions="alibi", dropout=0.1, tie_output=False, activation="relu"
    )
    values = config.to_dict()
    assert list(values) == [field.name for field in dataclasses.fields(config)]
    assert DecoderOnlyConfig.from_dict(json.loads(json.dumps(values))) == config


def test_a_dictionary_holds_every_field_and_no_other():
    values = DecoderOnlyConfig(**SIZES).to_dict()
    with pytest.raises(ValueError, match=r"unknown \['bias'\], missing \[\]"):
        DecoderOnlyConfig.from_dict(values | {"bias": True})
    del values["dropout"]
    with pytest.raises(ValueError, match=r"unknown \[\], missing \['dropout'\]"):
        DecoderOnlyConfig.from_dict(values)
