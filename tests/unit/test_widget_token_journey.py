"""The journey of a token in Python: every station is what the library's own Transformer computes there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab.transformer import Transformer, TransformerConfig
from attnlab.widgets import TokenJourney, token_journey

WORDS = ["·", "<", ">", "a", "b", "c", "d"]
SOURCE, TARGET = torch.tensor([[3, 6, 4, 5, 0]]), torch.tensor([[1, 5, 4, 6]])
CLOSE = {"rtol": 0, "atol": 2e-5}
ENCODER_PARTS, DECODER_PARTS = ("self", "feed"), ("self", "cross", "feed")


def transformer(norm="pre", *, seed=0, **fields):
    """A small model, with numbers that are not those of a fresh one: no norm is the plain one."""
    config = {
        "source_vocab_size": 7,
        "target_vocab_size": 7,
        "d_model": 12,
        "num_heads": 3,
        "d_ff": 20,
        "num_encoder_layers": 2,
        "num_decoder_layers": 3,
        "dropout": 0.0,
        "norm": norm,
        "max_length": 10,
        "share_embeddings": True,
    }
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(**{**config, **fields}))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:
                parameter += 0.5 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def journey(model=None, **settings):
    return TokenJourney(model or transformer(), SOURCE, TARGET, WORDS, **settings)


@torch.no_grad()
def walk(model):
    """Every station of both sides, for all tokens at once, by the library's modules: name to (n, d)."""
    stacks, pre, found = model.stacks, model.config.norm == "pre", {}
    real, causal = (SOURCE != 0)[:, None], torch.ones(4, 4, dtype=torch.bool).tril()
    memory = None
    for stack, tokens in (("encoder", SOURCE), ("decoder", TARGET)):
        x = found[f"{stack} embed"] = model.source_embedding(tokens) * model.config.d_model**0.5
        x = found[f"{stack} position"] = model.source_positions(x)
        for number, layer in enumerate(getattr(stacks, f"{stack}_layers"), start=1):
            for part in ENCODER_PARTS if stack == "encoder" else DECODER_PARTS:
                norm = getattr(layer, "around_" + part.replace("feed", "feed_forward")).norm
                asks = norm(x) if pre else x
                if part == "self":
                    said = layer.self_attention(asks, mask=real if stack == "encoder" else causal).output
                elif part == "cross":
                    said = layer.cross_attention(asks, memory, mask=real).output
                else:
                    said = layer.feed_forward(asks)
                summed = x + said
                normed = asks if pre else norm(summed)
                x = summed if pre else normed
                name = f"{stack} {number} {part}"
                found |= {name: said, f"{name} sum": summed, f"{name} norm": normed}
        if model.config.has_final_norm:
            x = found[f"{stack} last norm"] = getattr(stacks, f"{stack}_norm")(x)
        memory = x
    return {name: vectors[0].numpy() for name, vectors in found.items()}


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("fields", [{}, {"final_norm": True}, {"final_norm": False}, {"num_heads": 1}])
def test_every_station_of_every_token_is_the_librarys(norm, fields):
    model = transformer(norm, **fields)
    expected = walk(model)
    with torch.no_grad():
        logits = model(SOURCE, TARGET)[0]
    expected |= {"decoder logits": logits.numpy(), "decoder softmax": logits.softmax(dim=-1).numpy()}
    widget = journey(model)
    for token in range(5):
        widget.source_token, widget.target_token = token, min(token, 3)
        stations = widget.journey()
        assert {station.name for station in stations} == set(expected)
        for station in stations:
            place = token if station.name.startswith("encoder") else min(token, 3)
            np.testing.assert_allclose(station.goes_out, expected[station.name][place], **CLOSE)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_stations_come_in_the_order_of_the_machine(norm):
    names = [station.name for station in journey(transformer(norm)).journey()]
    steps = ["{} norm", "{}", "{} sum"] if norm == "pre" else ["{}", "{} sum", "{} norm"]
    expected = []
    for stack, layers, parts in (("encoder", 2, ENCODER_PARTS), ("decoder", 3, DECODER_PARTS)):
        expected += [f"{stack} embed", f"{stack} position"]
        inner = [f"{stack} {number} {part}" for number in range(1, layers + 1) for part in parts]
        expected += [step.format(name) for name in inner for step in steps]
        expected += [f"{stack} last norm"] * (norm == "pre")
    assert names == [*expected, "decoder logits", "decoder softmax"]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_what_comes_in_left_the_station_that_is_read(norm):
    """A sublayer reads its norm, a sum what went around the box, and everything else what came before."""
    stations = journey(transformer(norm), source_token=2, target_token=1).journey()
    by_name = {station.name: station for station in stations}
    for before, station in zip(stations, stations[1:], strict=False):
        if station.came_in is None:
            assert station.name.endswith("embed")
        elif station.name.endswith("sum"):
            box = by_name[station.name.removesuffix(" sum")]
            np.testing.assert_array_equal(station.came_in + box.goes_out, station.goes_out)
        else:
            np.testing.assert_array_equal(station.came_in, before.goes_out)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_weights_are_the_librarys_and_hidden_tokens_get_nothing(norm):
    model = transformer(norm)
    with torch.no_grad():
        encoded = model.encode(SOURCE, need_weights=True)
        decoded = model.decode(TARGET, encoded.memory, encoded.mask, need_weights=True)
    expected = {f"encoder {n} self": weights for n, weights in enumerate(encoded.weights, 1)}
    expected |= {f"decoder {n} self": weights for n, weights in enumerate(decoded.self_weights, 1)}
    expected |= {f"decoder {n} cross": weights for n, weights in enumerate(decoded.cross_weights, 1)}
    widget = journey(model)
    for token in range(4):
        widget.source_token = widget.target_token = token
        found = {one.name: one.weights for one in widget.journey() if one.weights is not None}
        assert set(found) == set(expected)
        for name, weights in found.items():
            np.testing.assert_allclose(weights, expected[name][0, :, token].numpy(), **CLOSE)
            hidden = (
                weights[:, token + 1 :] if name.endswith("self") and "decoder" in name else weights[:, 4:]
            )
            assert not hidden.any()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_what_the_output_would_say_is_the_end_of_the_machine(norm):
    """Asked of the decoder's stream after each sublayer, and at the end; of nothing else."""
    model = transformer(norm)
    stations = journey(model, target_token=2).journey()
    last = stations[-1].said
    in_stream = ("embed", "position", "sum" if norm == "pre" else "norm")
    for station in stations:
        if station.name.startswith("encoder"):
            assert station.said is None
        elif "last" in station.name or station.name.endswith(("logits", "softmax")):
            np.testing.assert_array_equal(station.said, last)
        elif station.name.endswith(in_stream):
            with torch.no_grad():
                ended = model.stacks.decoder_norm(torch.tensor(station.goes_out, dtype=torch.float32))
                expected = (ended @ model.target_embedding.weight.T).softmax(dim=-1)
            np.testing.assert_allclose(station.said, expected.numpy(), **CLOSE)
        else:
            assert station.said is None


def test_the_run_leaves_the_model_as_it_was():
    model = transformer(dropout=0.5).train()
    model.stacks.encoder_layers[0].eval()  # modes may be mixed
    modes = [module.training for module in model.modules()]
    noisy = journey(model)
    assert [module.training for module in model.modules()] == modes
    assert not any(module._forward_hooks for module in model.modules())
    calm = journey(model.eval())
    assert noisy.numbers == calm.numbers  # and no dropout was recorded


def test_a_failed_run_leaves_the_model_as_it_was_too():
    model = transformer().train()
    with pytest.raises(ValueError, match="source: expected ids from 0 to 6"):
        TokenJourney(model, SOURCE + 4, TARGET, WORDS)
    assert model.training and not any(module._forward_hooks for module in model.modules())


def test_parameters_are_counted():
    d, d_ff = 12, 20
    expected = {
        "embed": 7 * d,
        "position": 0,
        "norm": 2 * d,
        "attention": 4 * d * d + 4 * d,
        "feed": 2 * d * d_ff + d_ff + d,
    }
    assert journey().counts == expected
    assert journey(transformer(positions="learned")).counts == {**expected, "position": 10 * d}


# --- what is sent, and what comes back
# ------------------------------------------------------------------------


def test_numbers_travel_as_bytes_and_no_list_is_long():
    state = journey().get_state()
    d, S, T = 12, 5, 4
    encoder = 2 * (2 * 2 * d + 4 * S * d)
    decoder = 3 * (3 * 2 * d + 6 * T * d + S * d)
    assert len(state["numbers"]) == 4 * (7 * d + (S + T) * d + encoder + decoder + 2 * 2 * d)
    rest = {name: part for name, part in state.items() if name not in {"numbers", "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 1200
    assert max(len(part) for part in rest.values() if isinstance(part, list)) == len(WORDS)


def test_the_page_of_the_lesson_stays_small():
    """The lesson's model and lists: four heads, width 32, two layers each, six tokens on each side."""
    sizes = {"source_vocab_size": 11, "target_vocab_size": 11, "d_model": 32, "num_heads": 4, "d_ff": 64}
    model = transformer(**sizes, num_decoder_layers=2)
    source, target = torch.tensor([[3, 6, 4, 5, 3, 0]]), torch.tensor([[1, 5, 4, 6, 3, 3]])
    state = TokenJourney(model, source, target, "·<>abcdefgh").get_state()
    folder = Path(token_journey.__file__).parent
    own = sum(path.stat().st_size for kind in ("*.js", "*.css") for path in folder.glob(kind))
    assert own + 4 * len(state["numbers"]) / 3 < 60_000
    assert all(path.stat().st_size < 20_000 for path in folder.glob("*.js"))


def test_the_same_cell_twice_gives_a_state_of_the_same_size():
    sizes = [len(json.dumps(journey().get_state(), default=len)) for _ in range(2)]
    assert sizes[0] == sizes[1]


def test_text_for_pages_that_cannot_show_a_widget():
    assert repr(journey()) == "TokenJourney(5 source tokens, 4 target tokens, 47 stations)"


# --- what is refused
# ------------------------------------------------------------------------------------------


class SeesTheFuture(torch.nn.Module):
    """A model whose decoder has lost its causal mask."""

    def __init__(self):
        super().__init__()
        inner = transformer()
        self.stacks, self.embedding, self.positions = (
            inner.stacks,
            inner.embeddings[0],
            inner.source_positions,
        )

    def forward(self, source, target):
        x, y = (self.positions(self.embedding(tokens) * 12**0.5) for tokens in (source, target))
        real = (source != 0)[:, None]
        memory = self.stacks.encode(x, real).output
        return self.stacks.decode(y, memory, None, real).output @ self.embedding.weight.T


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"model": torch.nn.Linear(2, 2)}, TypeError, "model: expected an encoder-decoder .*, got Linear"),
        ({"model": transformer(share_embeddings=False)}, ValueError, "model: expected one embedding table"),
        ({"model": transformer(tie_output=False)}, ValueError, "model: expected logits from the embedding"),
        ({"model": SeesTheFuture()}, ValueError, "model: .* hidden, got another mask in .*self_attention"),
        ({"pad": 5}, ValueError, "model: expected that only source padding .* are hidden"),
        ({"model": transformer(d_model=96)}, ValueError, "model: expected at most 9000 numbers to keep"),
        ({"source": [3, 4]}, TypeError, "source: expected a tensor of token numbers, got list"),
        ({"source": torch.zeros(2, 3).long()}, ValueError, r"source: expected shape .*, got \(2, 3\)"),
        ({"target": torch.ones(11).long()}, ValueError, r"target: expected shape .* 1 to 10, got \(11,\)"),
        ({"source": torch.zeros(3).long()}, ValueError, "source: expected a token other than padding, 0"),
        ({"words": WORDS[:-1]}, ValueError, "words: expected 7 texts"),
        ({"words": [*WORDS[:-1], " "]}, ValueError, "words: expected 7 texts"),
        ({"source_token": 5}, ValueError, "source_token: .* from 0 to 4, got 5"),
        ({"target_token": -1}, ValueError, "target_token: .* from 0 to 3, got -1"),
        ({"station": 47}, ValueError, "station: .* from 0 to 46, got 47"),
    ],
)
def test_what_does_not_fit_is_refused(given, error, says):
    usual = {"model": transformer(), "source": SOURCE, "target": TARGET, "words": WORDS}
    with pytest.raises(error, match=says):
        TokenJourney(**{**usual, **given})


@pytest.mark.parametrize(
    ("trait", "value"), [("station", 47), ("station", -1), ("source_token", 5), ("target_token", 4)]
)
def test_a_bad_setting_from_the_browser_changes_nothing(trait, value):
    widget = journey(station=7, source_token=3, target_token=2)
    before = getattr(widget, trait)
    with pytest.raises(ValueError, match=f"{trait}: expected"):
        widget.set_state({trait: value})
    assert getattr(widget, trait) == before
