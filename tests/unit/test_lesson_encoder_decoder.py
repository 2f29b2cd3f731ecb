"""What lesson 8 defines in its own cells is what the library holds, and what PyTorch computes."""

import ast
import math
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import layers, training, transformer
from attnlab.attention import causal_mask, padding_mask
from attnlab.multihead import MultiHeadAttention
from attnlab.positions import SinusoidalPositions

MANUSCRIPT = Path(__file__).parents[2] / "book/lessons/08_encoder_decoder.py"
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
SIZES = {"d_model": 16, "num_heads": 2, "d_ff": 24}
PAD, BOS, EOS = 0, 1, 2
DRAWING = {"frame", "box", "path", "sublayer", "draw_machine"}


@pytest.fixture(scope="module")
def lesson():
    """The functions and classes of the manuscript, and nothing else of it: no training, no figures."""
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))
    tree.body = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name not in DRAWING
    ]
    names = {"math": math, "torch": torch, "nn": nn, "F": F, "warnings": warnings, "training": training}
    names |= {"contextmanager": contextmanager, "library": transformer}
    names |= {"causal_mask": causal_mask, "padding_mask": padding_mask}
    names |= {"MultiHeadAttention": MultiHeadAttention, "SinusoidalPositions": SinusoidalPositions}
    names |= {name: getattr(layers, name) for name in ("EncoderLayer", "FeedForward", "PreNorm", "PostNorm")}
    names |= {"PAD": PAD, "BOS": BOS, "EOS": EOS, "generator": torch.Generator().manual_seed(0)}
    exec(compile(tree, MANUSCRIPT.name, "exec"), names)
    return names


def draw(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def close(received, expected):
    torch.testing.assert_close(received, expected, rtol=0, atol=TOLERANCE[expected.dtype])


def close_gradients(output, ours, expected, theirs):
    mine, other = dict(ours.named_parameters()), dict(theirs.named_parameters())
    assert set(mine) == set(other)
    probe = draw(*output.shape, dtype=output.dtype, seed=9)
    gradients = torch.autograd.grad((output * probe).sum(), [mine[name] for name in other])
    references = torch.autograd.grad((expected * probe).sum(), list(other.values()))
    for gradient, reference in zip(gradients, references, strict=True):
        torch.testing.assert_close(gradient, reference, rtol=0, atol=20 * TOLERANCE[output.dtype])


def config(norm, **fields):
    return transformer.TransformerConfig(
        source_vocab_size=11,
        target_vocab_size=11,
        num_encoder_layers=2,
        num_decoder_layers=2,
        dropout=0.0,
        norm=norm,
        max_length=64,
        **SIZES,
        **fields,
    )


def masks():
    """Causal (T, T) and the source's (B, 1, S), for B = 2, T = 4, S = 7 with two columns of padding."""
    return causal_mask(4), padding_mask([7, 5], 7)


def token_ids():
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(3, 11, (3, 7), generator=generator)
    source[1, 5:] = PAD
    target = torch.randint(3, 11, (3, 5), generator=generator)
    target[:, 0] = BOS
    target[2, 3:] = torch.tensor([EOS, PAD])
    return source, target


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_decoder_layer_is_the_one_of_the_library(lesson, norm, dtype):
    torch.manual_seed(0)
    ours = lesson["DecoderLayer"](**SIZES, norm=norm).to(dtype)
    theirs = layers.DecoderLayer(**SIZES, norm=norm).to(dtype)
    theirs.load_state_dict(ours.state_dict())  # the same names and shapes, or this raises
    x, memory = draw(2, 4, 16, dtype=dtype), draw(2, 7, 16, dtype=dtype, seed=1)
    output, expected = ours(x, memory, *masks()), theirs(x, memory, *masks()).output
    close(output, expected)
    close_gradients(output, ours, expected, theirs)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("norm", "final_norm"), [("pre", True), ("post", True), ("post", False)])
def test_the_stacks_are_those_of_the_library(lesson, norm, final_norm, dtype):
    torch.manual_seed(0)
    ours = lesson["EncoderDecoder"](**SIZES, num_layers=2, norm=norm, final_norm=final_norm).to(dtype)
    theirs = transformer.EncoderDecoder(config(norm, final_norm=final_norm)).to(dtype)
    theirs.load_state_dict(ours.state_dict())
    causal, real = masks()
    x, y = draw(2, 7, 16, dtype=dtype), draw(2, 4, 16, dtype=dtype, seed=1)
    output, expected = ours.decode(y, ours.encode(x, real), causal, real), theirs(x, y, real, causal, real)
    close(output, expected)
    close_gradients(output, ours, expected, theirs)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_stacks_are_those_of_torch_and_the_lesson_measures_it(lesson, norm, dtype):
    torch.manual_seed(0)
    assert 0 < lesson["difference"](norm, dtype) < TOLERANCE[dtype]


def models(lesson, norm):
    """The lesson's model and the library's with the same weights."""
    torch.manual_seed(0)
    ours = lesson["Transformer"](11, num_layers=2, norm=norm, **SIZES).double()
    theirs = transformer.Transformer(config(norm, share_embeddings=True)).double()
    theirs.stacks.load_state_dict(ours.stacks.state_dict())
    with torch.no_grad():
        ours.embedding.weight[PAD] = 0.0  # as in the library
        theirs.source_embedding.weight.copy_(ours.embedding.weight)
    return ours, theirs


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_whole_is_the_library_model(lesson, norm):
    ours, theirs = models(lesson, norm)
    close(ours(*token_ids()), theirs(*token_ids()))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_writing_is_the_greedy_decoding_of_the_library(lesson, norm):
    ours, theirs = models(lesson, norm)
    sources = torch.randint(3, 11, (40, 7), generator=torch.Generator().manual_seed(4))
    sources[::2, 4:] = PAD
    written = lesson["write"](ours, sources, max_length=9)
    assert torch.equal(written, transformer.greedy_decode(theirs, sources, max_length=9))


class Scripted:
    """Ends each row after a number of letters; padding and a beginning always look likelier still."""

    def __init__(self, letters):
        self.letters, self.encoded, self.read = torch.tensor(letters), 0, []

    def encode(self, source):
        self.encoded += 1
        return source[..., None].double(), (source != PAD)[:, None]

    def decode(self, target, memory, memory_mask):
        self.read.append(target.clone())
        logits = torch.zeros(*target.shape, 6)
        logits[..., [PAD, BOS]] = 5.0
        logits[..., 4] = 1.0
        logits[torch.arange(target.shape[1]) == self.letters[:, None]] += 3.0 * F.one_hot(
            torch.tensor(EOS), 6
        )
        return logits


def test_writing_ends_each_row_by_itself_and_reads_the_source_once(lesson):
    model = Scripted([2, 0, 1])
    source = torch.full((3, 4), 5)
    written = lesson["write"](model, source, max_length=9)
    assert written.tolist() == [[4, 4, EOS], [EOS, PAD, PAD], [4, EOS, PAD]]
    assert model.encoded == 1
    assert [tokens.shape[1] for tokens in model.read] == [1, 2, 3]
    assert (model.read[-1][:, 0] == BOS).all()
    assert lesson["write"](Scripted([7, 9, 8]), source, max_length=5).tolist() == [[4] * 5] * 3


def test_the_shift_is_the_one_of_the_library(lesson):
    rows = torch.tensor([[BOS, 3, EOS, PAD, PAD], [BOS, 3, 4, 5, EOS]])
    for ours, expected in zip(
        lesson["teacher_forcing"](rows), transformer.teacher_forcing_pair(rows), strict=True
    ):
        assert torch.equal(ours, expected)
    assert (lesson["teacher_forcing"](rows)[1] != PAD).sum(dim=1).tolist() == [2, 4]


def test_the_loss_is_the_one_of_the_library_and_leaves_padding_out(lesson):
    logits, labels = draw(2, 4, 11), torch.tensor([[3, EOS, PAD, PAD], [3, 4, 5, EOS]])
    expected = training.token_cross_entropy(logits, labels, pad=PAD)
    close(lesson["token_loss"](logits, labels), expected)
    logits[0, 2:] += 7.0 * draw(2, 11, seed=5)
    close(lesson["token_loss"](logits, labels), expected)


def test_lists_are_turned_round_and_held_out_ones_are_never_trained_on(lesson):
    sources = {}
    for held_out in (False, True):
        source, rows = lesson["lists"](300, held_out)
        assert ((source.sum(dim=1) % 5 == 0) == held_out).all()
        for given, row in zip(source.tolist(), rows.tolist(), strict=True):
            letters = [token for token in given if token != PAD]
            assert 3 <= len(letters) <= 7
            assert given == letters + [PAD] * (7 - len(letters))
            assert row == [BOS, *letters[::-1], EOS] + [PAD] * (7 - len(letters))
        sources[held_out] = {tuple(row) for row in source.tolist()}
    assert sources[False].isdisjoint(sources[True])


def test_the_exchange_of_queries_and_keys_is_what_it_says(lesson):
    layer = lesson["DecoderLayer"](**SIZES).double()
    x, memory = draw(2, 5, 16), draw(2, 5, 16, seed=1)
    attention = layer.cross_attention
    close(lesson["right"](layer, x, memory), x + attention(x, memory, memory).output)
    close(lesson["exchanged"](layer, x, memory), x + attention(memory, x, x).output)


def test_the_formula_counts_the_library_models_of_the_paper(lesson):
    for make, d_model, num_heads, d_ff in [
        (transformer.paper_base, 512, 8, 2048),
        (transformer.paper_big, 1024, 16, 4096),
    ]:
        with torch.device("meta"):
            whole = transformer.Transformer(make(37_000))
        stacks = sum(parameter.numel() for parameter in whole.stacks.parameters())
        assert lesson["by_formula"](d_model, d_ff) == stacks
        assert lesson["by_counting"](d_model, num_heads, d_ff) == stacks
        assert sum(p.numel() for p in whole.parameters()) == stacks + 37_000 * d_model


def test_watching_leaves_no_hook_behind_and_notes_every_call(lesson):
    part = nn.Linear(3, 3)
    with lesson["watch"]({"part": part}) as seen:
        outputs = [part(draw(1, 3, dtype=torch.float32)) for _ in range(2)]
    part(draw(1, 3, dtype=torch.float32))
    assert [name for name, _ in seen] == ["part", "part"]
    assert all(noted is output for (_, noted), output in zip(seen, outputs, strict=True))
