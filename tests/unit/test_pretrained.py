"""Weights of others in our encoder: found, checked, renamed, and computed with as PyTorch does."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from attnlab import pretrained
from attnlab.attention import padding_mask
from attnlab.measured.real_heads import real_heads
from attnlab.pretrained import EncoderConfig, TextEncoder, WordPieces

SIZES = {
    "vocab_size": 11,
    "max_position_embeddings": 9,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "num_hidden_layers": 3,
    "layer_norm_eps": 1e-12,
}
CONFIG = {"model_type": "bert", "hidden_act": "gelu", **SIZES}
LINEAR = {
    "attention.self.query": (8, 8),
    "attention.self.key": (8, 8),
    "attention.self.value": (8, 8),
    "attention.output.dense": (8, 8),
    "intermediate.dense": (12, 8),
    "output.dense": (8, 12),
}


def published(seed=0):
    """Random tensors under the names that BERT's files have, those of no use included."""
    g = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=g) / 2

    found = {
        "embeddings.word_embeddings.weight": draw(11, 8),
        "embeddings.position_embeddings.weight": draw(9, 8),
        "embeddings.token_type_embeddings.weight": draw(2, 8),
        "embeddings.LayerNorm.weight": 1 + draw(8),
        "embeddings.LayerNorm.bias": draw(8),
        "embeddings.position_ids": torch.arange(9)[None],
        "pooler.dense.weight": draw(8, 8),
        "pooler.dense.bias": draw(8),
    }
    for layer in range(3):
        start = f"encoder.layer.{layer}."
        for name, shape in LINEAR.items():
            found |= {f"{start}{name}.weight": draw(*shape), f"{start}{name}.bias": draw(shape[0])}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            found |= {f"{start}{name}.weight": 1 + draw(8), f"{start}{name}.bias": draw(8)}
    return found


@pytest.fixture
def folder(tmp_path):
    save_file(published(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    return tmp_path


def digest(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def by_torch(weights, tokens, hidden):
    """The same by PyTorch's own layers: no code in common with ours but the arithmetic of tensors."""
    x = weights["embeddings.word_embeddings.weight"][tokens]
    x = x + weights["embeddings.position_embeddings.weight"][: tokens.shape[1]]
    x = x + weights["embeddings.token_type_embeddings.weight"][0]
    x = nn.functional.layer_norm(
        x, (8,), weights["embeddings.LayerNorm.weight"], weights["embeddings.LayerNorm.bias"], 1e-12
    )
    for number in range(3):
        part = {
            name.removeprefix(f"encoder.layer.{number}."): tensor
            for name, tensor in weights.items()
            if name.startswith(f"encoder.layer.{number}.")
        }
        layer = nn.TransformerEncoderLayer(
            8, 2, 12, dropout=0.0, activation="gelu", layer_norm_eps=1e-12, batch_first=True
        )
        qkv = ("attention.self.query", "attention.self.key", "attention.self.value")
        own = {
            "self_attn.in_proj_weight": torch.cat([part[f"{name}.weight"] for name in qkv]),
            "self_attn.in_proj_bias": torch.cat([part[f"{name}.bias"] for name in qkv]),
        }
        for ours, theirs in (
            ("self_attn.out_proj", "attention.output.dense"),
            ("linear1", "intermediate.dense"),
            ("linear2", "output.dense"),
            ("norm1", "attention.output.LayerNorm"),
            ("norm2", "output.LayerNorm"),
        ):
            own |= {f"{ours}.{kind}": part[f"{theirs}.{kind}"] for kind in ("weight", "bias")}
        layer.load_state_dict(own)
        x = layer(x, src_key_padding_mask=hidden)
    return x


def test_the_encoder_is_what_torch_computes(folder):
    encoder = pretrained.load_encoder(folder, sha256=digest(folder))
    assert not encoder.training
    tokens = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]])
    lengths = torch.tensor([5, 3])
    mask = padding_mask(lengths)
    result = encoder(tokens, mask)
    expected = by_torch(published(), tokens, ~mask[:, 0])
    torch.testing.assert_close(result.output[mask[:, 0]], expected[mask[:, 0]], rtol=0, atol=1e-5)
    assert result.weights.shape == (3, 2, 2, 5, 5)
    assert len(result.states) == 4 and torch.equal(result.states[-1], result.output)
    assert (result.weights[:, 1, :, :, 3:] == 0).all()


def test_loading_draws_no_random_numbers(folder):
    state = torch.get_rng_state()
    pretrained.load_encoder(folder, sha256=digest(folder))
    assert torch.equal(state, torch.get_rng_state())


def test_another_file_is_refused(folder):
    with pytest.raises(ValueError, match="SHA-256 is 53aa"):
        pretrained.load_encoder(folder)
    known = digest(folder)
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match="SHA-256"):
        pretrained.read_weights(folder / "model.safetensors", known)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("encoder.layer.1.output.dense.bias", None),
        ("encoder.layer.1.output.dense.bias", torch.zeros(5)),
        ("encoder.layer.1.surprise.bias", torch.zeros(5)),
        ("encoder.layer.7.output.dense.bias", torch.zeros(8)),
    ],
)
def test_weights_that_do_not_fit_are_refused(folder, name, change):
    encoder = TextEncoder(EncoderConfig.read(folder / "config.json"))
    weights = published() | {name: change}
    with pytest.raises(ValueError, match="published: expected"):
        encoder.load_published({key: tensor for key, tensor in weights.items() if tensor is not None})


@pytest.mark.parametrize(
    "change", [{"model_type": "gpt2"}, {"hidden_act": "relu"}, {"position_embedding_type": "relative_key"}]
)
def test_another_kind_of_model_is_refused(folder, change):
    (folder / "config.json").write_text(json.dumps({**CONFIG, **change}), encoding="utf-8")
    with pytest.raises(ValueError, match="path: expected"):
        EncoderConfig.read(folder / "config.json")


def test_a_text_that_is_too_long_is_refused(folder):
    encoder = pretrained.load_encoder(folder, sha256=digest(folder))
    with pytest.raises(ValueError, match="at most 9 positions, got 10"):
        encoder(torch.zeros(1, 10, dtype=torch.int64))


def test_the_folder_is_found_by_its_name_or_not_at_all(folder, monkeypatch, tmp_path_factory):
    monkeypatch.setenv(pretrained.FOLDER_VARIABLE, str(folder))
    assert pretrained.find_minilm() == folder
    monkeypatch.setenv(pretrained.FOLDER_VARIABLE, str(tmp_path_factory.mktemp("empty")))
    assert pretrained.find_minilm() is None


def test_the_folder_is_found_in_the_package_without_importing_it(folder, monkeypatch, tmp_path_factory):
    place = tmp_path_factory.mktemp("packages")
    model = place / pretrained.MINILM_PACKAGE / "model"
    model.mkdir(parents=True)
    (model.parent / "__init__.py").write_text("raise RuntimeError('imported')\n", encoding="utf-8")
    monkeypatch.delenv(pretrained.FOLDER_VARIABLE, raising=False)
    monkeypatch.syspath_prepend(str(place))
    assert pretrained.find_minilm() is None  # the package is there, its weights are not
    (model / "model.safetensors").write_bytes(b"")
    assert pretrained.find_minilm() == model


def test_words_are_cut_into_the_longest_pieces():
    pieces = WordPieces(["[CLS]", "[SEP]", "[UNK]", "play", "##ing", "##in", "##g", "a", "pla"])
    assert pieces.cut("playing") == ["play", "##ing"]
    assert pieces.cut("ag") == ["a", "##g"]
    assert pieces.cut("playx") == ["[UNK]"]
    assert pieces.encode(["a", "playing", "zoo", "a"]) == ([0, 7, 3, 4, 2, 7, 1], [1, 2, 4, 5])


@pytest.mark.parametrize("pieces", [["[CLS]", "[SEP]", "a"], ["[CLS]", "[SEP]", "[UNK]", "a", "a"]])
def test_a_vocabulary_that_is_none_is_refused(pieces):
    with pytest.raises(ValueError, match="pieces: expected"):
        WordPieces(pieces)


@pytest.mark.skipif(pretrained.find_minilm() is None, reason="the weights are not on this machine")
def test_the_real_model_equals_the_other_program():
    reference = real_heads().reference
    encoder = pretrained.load_encoder(pretrained.find_minilm())
    mask = padding_mask(reference.lengths)
    with torch.no_grad():
        output = encoder(reference.tokens, mask).output
    assert (output - reference.output)[mask[:, 0]].abs().max() < 1e-5
