"""What lesson 7 defines in its own cells is what the library holds, and what PyTorch computes."""

import ast
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import layers as library
from attnlab import tasks
from attnlab.attention import causal_mask
from attnlab.multihead import MultiHeadAttention
from attnlab.positions import sinusoidal_positions

MANUSCRIPT = Path(__file__).parents[2] / "book/lessons/07_block.py"
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-12}
BLOCKS = {"PostNormBlock": "post", "PreNormBlock": "pre"}


@pytest.fixture(scope="module")
def lesson():
    """The functions and classes of the manuscript, and nothing else of it: no training, no figures."""
    tree = ast.parse(MANUSCRIPT.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    names = {
        "torch": torch,
        "nn": nn,
        "F": F,
        "tasks": tasks,
        "MultiHeadAttention": MultiHeadAttention,
        "sinusoidal_positions": sinusoidal_positions,
    }
    exec(compile(tree, MANUSCRIPT.name, "exec"), names)
    return names


def draw(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def close(received, expected, factor=1):
    torch.testing.assert_close(received, expected, rtol=0, atol=factor * TOLERANCE[expected.dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_the_norm_is_the_library_function_and_torch(lesson, dtype, eps):
    x, weight, bias = 3 + 2 * draw(2, 5, 6, dtype=dtype), draw(6, dtype=dtype, seed=1), draw(6, dtype=dtype)
    close(lesson["layer_norm"](x, weight, bias, eps), library.layer_norm(x, weight, bias, eps))
    close(lesson["layer_norm"](x, weight, bias, eps), F.layer_norm(x, (6,), weight, bias, eps))
    close(lesson["layer_norm"](x), F.layer_norm(x, (6,)))


def test_the_loop_is_the_norm_of_one_vector(lesson):
    x = 3 + 2 * draw(6)
    close(torch.tensor(lesson["layer_norm_loop"](x.tolist()), dtype=torch.float64), F.layer_norm(x, (6,)))


def test_the_norm_by_hand_and_the_slip(lesson):
    one = torch.tensor([1.0, 0.0, 0.0, 0.0])
    right, slip = lesson["layer_norm"](one), lesson["slip"](one)
    torch.testing.assert_close(right, torch.tensor([1.7320, -0.5773, -0.5773, -0.5773]), rtol=0, atol=1e-4)
    torch.testing.assert_close(slip, torch.tensor([1.5, -0.5, -0.5, -0.5]), rtol=0, atol=1e-4)
    assert torch.equal(lesson["layer_norm"](torch.full((4,), 3.0)), torch.zeros(4))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_network_is_the_librarys(lesson, dtype):
    ours, theirs = lesson["FeedForward"](6, 10).to(dtype), library.FeedForward(6, 10).to(dtype)
    theirs.load_state_dict(ours.state_dict())
    x = draw(2, 5, 6, dtype=dtype)
    close(ours(x), theirs(x))


def test_the_network_begins_as_the_librarys(lesson):
    torch.manual_seed(0)
    ours = lesson["FeedForward"](6, 10)
    torch.manual_seed(0)
    theirs = library.FeedForward(6, 10)
    for name, weight in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], weight)


def pair(lesson, name, dtype):
    """A block of the lesson and the library's with equal weights, none of them at its start."""
    torch.manual_seed(0)
    ours = lesson[name](8, 2, 12).to(dtype)
    for number, parameter in enumerate(ours.parameters()):
        parameter.data += 0.3 * draw(*parameter.shape, dtype=dtype, seed=number)
    theirs = library.EncoderLayer(8, 2, 12, norm=BLOCKS[name]).to(dtype)
    theirs.load_state_dict(dict(zip(theirs.state_dict(), ours.state_dict().values(), strict=True)))
    return ours, theirs


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("mask", [None, causal_mask(5)], ids=["no mask", "causal"])
def test_the_blocks_are_the_librarys_with_their_gradients(lesson, name, dtype, mask):
    ours, theirs = pair(lesson, name, dtype)
    x = draw(2, 5, 8, dtype=dtype)
    received, expected = ours(x, mask), theirs(x, mask).output
    close(received, expected, factor=10)
    probe = draw(2, 5, 8, dtype=dtype, seed=1)
    mine = torch.autograd.grad((received * probe).sum(), list(ours.parameters()))
    reference = torch.autograd.grad((expected * probe).sum(), list(theirs.parameters()))
    for gradient, other in zip(mine, reference, strict=True):
        close(gradient, other, factor=100)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_blocks_are_torchs_layer(lesson, name):
    ours, _ = pair(lesson, name, torch.float64)
    theirs = nn.TransformerEncoderLayer(
        8, 2, 12, dropout=0.0, batch_first=True, norm_first=BLOCKS[name] == "pre", dtype=torch.float64
    )
    copied = library.EncoderLayer.from_torch(theirs)
    ours.load_state_dict(dict(zip(ours.state_dict(), copied.state_dict().values(), strict=True)))
    x = draw(2, 5, 8)
    close(ours(x), theirs(x))


def test_the_two_blocks_differ(lesson):
    ours, _ = pair(lesson, "PreNormBlock", torch.float64)
    other = lesson["PostNormBlock"](8, 2, 12).double()
    other.load_state_dict(ours.state_dict())
    x = draw(2, 5, 8)
    assert (ours(x) - other(x)).abs().max() > 0.1


def test_each_ablation_leaves_out_what_it_says(lesson):
    torch.manual_seed(0)
    x = draw(2, 5, 8)
    full = lesson["PreNormBlock"](8, 2, 12).double()

    def variant(name):
        block = lesson[name](8, 2, 12).double()
        block.load_state_dict(full.state_dict())
        return block

    attended = x + full.self_attention(full.norm_1(x)).output
    close(variant("NoFeedForward")(x), attended)
    close(variant("NoAttention")(x), x + full.feed_forward(full.norm_2(x)))
    summed = x + full.self_attention(x).output
    close(variant("NoNorm")(x), summed + full.feed_forward(summed))
    close(variant("NoResidual")(x), full.feed_forward(full.norm_2(attended - x)))
    close(variant("Neither")(x), full.feed_forward(full.self_attention(x).output))
    close(full(x), attended + full.feed_forward(full.norm_2(attended)))


def test_the_distinct_share(lesson):
    share = lesson["distinct_share"]
    assert share(torch.ones(2, 3, 4)) == 0
    assert share(draw(2, 3, 4) - draw(2, 3, 4).mean(dim=1, keepdim=True)) == pytest.approx(1)
    apart = torch.tensor([[[1.0, 1.0], [1.0, -1.0]]])  # the mean (1, 0) holds half of the squares
    assert share(apart) == pytest.approx(0.5)


def test_mirror_sums(lesson):
    tokens, sums = lesson["mirror_sums"](20, torch.Generator().manual_seed(0))
    assert tokens.shape == sums.shape == (20, 6)
    for row, answers in zip(tokens.tolist(), sums.tolist(), strict=True):
        assert answers == [(row[t] + row[5 - t]) % 5 for t in range(6)]


def test_the_model_has_a_last_norm_where_no_norm_ends_its_blocks(lesson):
    last = {name: type(lesson["Mirror"](lesson[name], depth=1).last_norm) for name in BLOCKS}
    assert last == {"PostNormBlock": nn.Identity, "PreNormBlock": nn.LayerNorm}


def test_layers_are_distinct_parameters_with_weights_of_their_own(lesson):
    torch.manual_seed(0)
    blocks = nn.ModuleList(lesson["PreNormBlock"](8, 2, 12) for _ in range(4))
    shared = nn.ModuleList([blocks[0]] * 4)
    count, difference = lesson["count"], lesson["start_difference"]
    assert count(blocks) == 4 * count(blocks[0])
    assert count(shared) == count(blocks[0])
    assert difference(blocks) > 0.1
    assert difference(shared) == 0
    theirs = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), num_layers=4)
    assert difference(theirs.layers) == 0
    assert count(theirs.layers) == 4 * count(theirs.layers[0])
