"""Each contract accepts a right attention and refuses one that is wrong in just the way that it is about."""

import pytest
import torch
from torch import nn

from attnlab import contracts
from attnlab.attention import (
    AttentionOutput,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
)
from attnlab.cache import LayerCache
from attnlab.layers import EncoderLayer
from attnlab.multihead import MultiHeadAttention
from attnlab.positions import HalfSplitRotary, InterleavedRotary


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attend(x, mask=None):
    return scaled_dot_product_attention(x, x, x, mask)


X = draw(3, 5, 4)
KEY, VALUE = draw(3, 6, 4, seed=1), draw(3, 6, 2, seed=2)
LENGTHS = [5, 2, 3]
REAL = padding_mask(LENGTHS)[:, 0]  # (B, T)


def refused(words="."):
    return pytest.raises(AssertionError, match=words)


# Rows of weights


def test_rows_sum_to_one_accepts_a_softmax():
    mask = causal_mask(5) & padding_mask(LENGTHS)
    mask[0, 2] = False
    contracts.rows_sum_to_one(attend(X).weights)
    contracts.rows_sum_to_one(attend(X, mask).weights, mask)


@pytest.mark.parametrize(
    ("weights", "mask", "words"),
    [
        (draw(3, 5, 5).softmax(dim=-2), None, r"row \(\d, \d\) sums to"),
        (torch.nn.functional.dropout(torch.full((4, 9), 1 / 9), 0.5), None, "sums to"),
        (torch.tensor([[0.5, 0.5], [0.5, 0.4]]), None, r"row \(1\) sums to 0.9, expected 1"),
        (torch.tensor([[1.5, -0.5]]), None, "negative"),
        (torch.tensor([[torch.nan, 1.0]]), None, "finite"),
        (torch.tensor([[0.5, 0.5]]), torch.tensor([True, False]), r"entry \(0, 1\) has weight 0.5"),
        (torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([[True] * 2, [False] * 2]), "hides"),
        (torch.tensor([[0.9, 0.0]]), torch.tensor([True, False]), "expected 1"),
    ],
)
def test_rows_sum_to_one_refuses(weights, mask, words):
    torch.manual_seed(0)
    with refused(words):
        contracts.rows_sum_to_one(weights, mask)


def test_an_inverted_mask_is_seen_in_the_weights():
    with refused("inverted"):
        contracts.rows_sum_to_one(attend(X, ~causal_mask(5)).weights, causal_mask(5))


def test_weights_explain_output():
    result = scaled_dot_product_attention(X, KEY, VALUE)
    contracts.weights_explain_output(result, VALUE)
    with refused("differs from the output"):
        contracts.weights_explain_output(result._replace(weights=result.weights.flip(-1)), VALUE)
    with refused("no weights"):
        contracts.weights_explain_output(result._replace(weights=None), VALUE)


# Order


def with_positions(x):
    return attend(x + torch.arange(x.shape[-2], dtype=x.dtype)[:, None])


def with_distances(x):
    """A bias that reversing the sequence does not change, but any other shuffle does."""
    positions = torch.arange(x.shape[-2], dtype=x.dtype)
    scores = x @ x.transpose(-2, -1) - (positions[:, None] - positions).abs()
    return scores.softmax(dim=-1) @ x


def test_permutation_equivariant():
    contracts.permutation_equivariant(attend, X)
    contracts.permutation_equivariant(attend, X, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("wrong", [with_positions, with_distances, lambda x: attend(x, causal_mask(5))])
@pytest.mark.parametrize("seed", range(3))
def test_permutation_equivariant_refuses(wrong, seed):
    with refused("shuffling"):
        contracts.permutation_equivariant(wrong, X, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("num_positions", [3, 4])
def test_permutations_are_neither_the_identity_nor_the_reversal(num_positions):
    for seed in range(20):
        with refused("shuffling"):
            contracts.permutation_equivariant(
                with_distances, draw(num_positions, 4), generator=torch.Generator().manual_seed(seed)
            )


# Causality


def leaks_one_ahead(x):
    return attend(x, causal_mask(x.shape[-2], offset=1))


def leaks_through_the_mean(x):
    return attend(x, causal_mask(x.shape[-2])).output + 1e-3 * x.mean(dim=-2, keepdim=True)


def leaks_a_whisper(x):
    """Too little for any sensible tolerance, but a gradient shows it."""
    return attend(x, causal_mask(x.shape[-2])).output + 1e-13 * x.mean(dim=-2, keepdim=True)


def leaks_by_comparison(x):
    """The answer hangs on the future, but by a step that has no gradient."""
    return attend(x, causal_mask(x.shape[-2])).output + (x[..., -1:, :] > 0).to(x)


def test_causal():
    contracts.causal(lambda x: attend(x, causal_mask(5)), X)
    contracts.causal(lambda x: x, X)


@pytest.mark.parametrize("wrong", [attend, leaks_one_ahead, leaks_through_the_mean, leaks_by_comparison])
def test_causal_by_change_refuses(wrong):
    with refused("changing the inputs after position"):
        contracts.causal_by_change(wrong, X)
    with refused():
        contracts.causal(wrong, X)


@pytest.mark.parametrize("wrong", [attend, leaks_one_ahead, leaks_through_the_mean, leaks_a_whisper])
def test_causal_by_gradient_refuses(wrong):
    with refused(r"output 0 depends on input \d, which comes after it"):
        contracts.causal_by_gradient(wrong, X)
    with refused():
        contracts.causal(wrong, X)


def test_causal_names_the_leaking_input():
    def peeks(x):
        return attend(x, causal_mask(5)).output + x[..., 3:4, :] * torch.tensor([0, 1, 0, 0, 0.0])[:, None]

    with refused("output 1 depends on input 3,"):
        contracts.causal_by_gradient(peeks, X)


def test_causal_wants_positions_to_compare():
    with pytest.raises(ValueError, match="two positions"):
        contracts.causal(attend, X[:, :1])


# Padding


@pytest.mark.parametrize("left", [False, True])
def test_padding_blind(left):
    real = REAL.flip(1) if left else REAL
    contracts.padding_blind(lambda x: attend(x, real[:, None]), X, real)
    with refused("padding"):
        contracts.padding_blind(attend, X, real)
    with refused("padding"):
        contracts.padding_blind(lambda x: attend(x, real.flip(1)[:, None]), X, real)


def test_padding_blind_sees_a_step_and_a_whisper():
    with refused("changing the padding"):
        contracts.padding_blind(lambda x: attend(x, REAL[:, None]).output + (x[:, -1:] > 0).to(x), X, REAL)
    with refused("gradient"):
        contracts.padding_blind(
            lambda x: attend(x, REAL[:, None]).output + 1e-13 * x.mean(dim=1, keepdim=True), X, REAL
        )


def test_padding_blind_in_cross_attention():
    def cross(source, mask=REAL[:, None]):
        return scaled_dot_product_attention(draw(3, 7, 4, seed=3), source, source, mask)

    every_output = torch.ones(3, 7, dtype=torch.bool)
    contracts.padding_blind(cross, X, REAL, compare=every_output)
    with refused("padding"):
        contracts.padding_blind(lambda x: cross(x, None), X, REAL, compare=every_output)


def test_padding_blind_wants_padding():
    with pytest.raises(ValueError, match="no padding"):
        contracts.padding_blind(attend, X, torch.ones(3, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"\(3, 5\)"):
        contracts.padding_blind(attend, X, REAL[0])


# Batch


def test_batch_independent():
    contracts.batch_independent(attend, X)
    with refused("sequence 0 alone"):
        contracts.batch_independent(lambda x: attend(x - x.mean(dim=0)), X)
    with refused("sequence"):
        contracts.batch_independent(lambda x: attend(x.transpose(0, 1)).output.transpose(0, 1), X)
    with pytest.raises(ValueError, match="two sequences"):
        contracts.batch_independent(attend, X[:1])


# Rows that see nothing


def minus_infinity(query, key, value, mask):
    return (query @ key.transpose(-2, -1)).masked_fill(~mask, -torch.inf).softmax(-1) @ value


def minus_a_billion(query, key, value, mask):
    return (query @ key.transpose(-2, -1)).masked_fill(~mask, -1e9).softmax(-1) @ value


def patched_afterwards(query, key, value, mask):
    return minus_infinity(query, key, value, mask).nan_to_num(0.0)


def test_masked_rows_zero():
    contracts.masked_rows_zero(scaled_dot_product_attention, X, KEY, VALUE)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (minus_infinity, "output: expected finite"),
        (minus_a_billion, "expected zeros"),
        (patched_afterwards, r"gradient of input \d: expected finite"),
    ],
)
def test_masked_rows_zero_refuses(wrong, words):
    with refused(words):
        contracts.masked_rows_zero(wrong, X, KEY, VALUE)


def test_gradients_finite():
    contracts.gradients_finite(lambda x, unused: x.exp(), X, X)
    with refused("input 1"):
        contracts.gradients_finite(lambda x, y: x + y.sqrt(), X, torch.zeros_like(X))


# Evaluation


class Noisy(nn.Module):
    def forward(self, x):
        return AttentionOutput(torch.nn.functional.dropout(x, 0.5), None, None)


@pytest.mark.parametrize("training", [True, False])
def test_eval_deterministic_puts_the_mode_back(training):
    module = nn.Dropout(0.5).train(training)
    contracts.eval_deterministic(module, X)
    assert module.training is training
    noisy = Noisy().train(training)
    with refused("dropout still on"):
        contracts.eval_deterministic(noisy, X)
    assert noisy.training is training


# What holds for all


def test_not_a_number_is_never_close():
    with refused("finite"):
        contracts.permutation_equivariant(lambda x: x * torch.nan, X)
    with refused("finite"):
        contracts.causal_by_change(lambda x: x * torch.nan, X)


def test_one_entry_is_enough_to_differ():
    def one_off(x):
        wrong = torch.zeros_like(x)
        wrong[-1, -1, -1] = 2e-5  # on the average over 20 entries it would pass
        return x + (wrong if x.shape[0] == 3 else 0)

    with refused(r"sequence 2 alone .* entry \(4, 3\) differs by"):
        contracts.batch_independent(one_off, X.float())


def test_not_a_number_is_named_where_it_alone_differs():
    with refused("output: expected finite"):
        contracts.batch_independent(lambda x: x if x.shape[0] == 3 else x * torch.nan, X)


def test_a_changed_shape_is_refused():
    with refused("shape"):
        contracts.batch_independent(lambda x: x[:, : x.shape[0] + 1], X)


def test_tolerance_follows_the_type():
    def nearly(size):
        return lambda x: attend(x).output + size * torch.arange(x.shape[-2], dtype=x.dtype)[:, None]

    contracts.permutation_equivariant(nearly(1e-6), X.float())
    with refused("1e-10"):
        contracts.permutation_equivariant(nearly(1e-6), X)
    contracts.permutation_equivariant(nearly(1e-6), X, tolerance=1e-4)


# Caches


class Memory:
    """A cache for one head: the inputs read so far."""

    def __init__(self):
        self.held = X[:, :0]

    def extend(self, x):
        self.held = torch.cat([self.held, x], dim=-2)
        return self.held


def read(x, memory=None, *, ahead=0, forget=0, restart=False):
    """Causal attention with or without a memory, and ways in which it goes wrong."""
    offset = 0 if memory is None else memory.held.shape[-2]
    everything = x if memory is None else memory.extend(x)
    if memory is not None and forget:
        memory.held = memory.held[:, -forget:]
    positions = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] + (0 if restart else offset)
    mask = causal_mask(x.shape[-2], everything.shape[-2], offset=offset + ahead)
    result = scaled_dot_product_attention(x, everything, everything, mask)
    return result._replace(output=result.output + positions)


def test_cache_equal_accepts_a_right_cache():
    contracts.cache_equal(read, X, Memory)
    contracts.cache_equal(read, X, Memory, generator=torch.Generator().manual_seed(1))
    contracts.cache_equal(read, X, Memory, splits=[[2, 2, 1], [4, 1]])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x, memory: read(x), r"split \[1, 1, 1, 1, 1\]: chunk 1, position 1 of the sequence differs"),
        (lambda x, memory: read(x, memory, restart=True), "chunk 1, position 1 of the sequence differs"),
        (lambda x, memory: read(x, memory, forget=3), "chunk 4, position 4 of the sequence differs"),
        (lambda x, memory: read(x, memory, ahead=0 if memory is None else -1), "position 0 of the sequence"),
        (lambda x, memory: read(x, memory).output[:, -1:], "an output for each of the 5 positions, got 1"),
        (
            lambda x, memory: read(x, memory).output[:, -1 if memory else 0 :],
            r"split \[3, 1, 1\]: chunk 0: shape \(3, 1, 4\) against \(3, 3, 4\)",
        ),
    ],
)
def test_cache_equal_refuses(wrong, words):
    with refused(words):
        contracts.cache_equal(wrong, X, Memory, splits=[[1] * 5, [3, 1, 1]])


def test_cache_equal_sees_a_fault_of_chunks_alone():
    """Right for the whole and for single positions: a chunk that may look ahead in itself."""

    def looks_ahead(x, memory):
        return read(x, memory, ahead=0 if memory is None or x.shape[-2] in (1, 5) else 4)

    contracts.cache_equal(looks_ahead, X, Memory, splits=[[5], [1] * 5])
    with refused(r"split \[2, 2, 1\]: chunk 0, position 0"):
        contracts.cache_equal(looks_ahead, X, Memory, splits=[[5], [2, 2, 1]])
    with refused("split"):
        contracts.cache_equal(looks_ahead, X, Memory)


def test_cache_equal_sees_a_fault_of_later_chunks_alone():
    """Right for a prompt and then single positions; splits at random find it."""

    def looks_ahead(x, memory):
        later = memory is not None and memory.held.shape[-2] > 0
        return read(x, memory, ahead=4 if later and x.shape[-2] > 1 else 0)

    contracts.cache_equal(looks_ahead, X, Memory, splits=[[5], [1] * 5, [3, 1, 1]])
    for seed in range(5):
        with refused("split"):
            contracts.cache_equal(looks_ahead, X, Memory, generator=torch.Generator().manual_seed(seed))


def test_cache_equal_wants_a_fresh_cache_for_each_split():
    kept = Memory()
    with refused(r"split \[1, 1, 1, 1, 1\]: chunk 0"):
        contracts.cache_equal(read, X, lambda: kept)


def test_cache_equal_takes_tokens():
    tokens, table = torch.tensor([[3, 0, 1, 2], [1, 1, 2, 0]]), draw(4, 4, seed=9)

    def look_up(ids, memory):
        x = table[ids]
        if memory is not None and memory.held.shape[0] != 2:
            memory.held = x[:, :0]
        return read(x, memory)

    contracts.cache_equal(look_up, tokens, Memory)
    with refused("position 1"):
        contracts.cache_equal(lambda ids, memory: read(table[ids]), tokens, Memory)


def test_cache_equal_wants_splits_of_the_sequence():
    for split in ([3, 1], [5, 1], [5, 0]):
        with pytest.raises(ValueError, match="add up to T = 5"):
            contracts.cache_equal(read, X, Memory, splits=[split])
    with pytest.raises(ValueError, match="two positions"):
        contracts.cache_equal(read, X[:, :1], Memory)


def test_cache_equal_follows_the_type():
    def nearly(x, memory):
        return read(x).output if memory is None else read(x, memory).output + 1e-7

    def float_memory():
        memory = Memory()
        memory.held = memory.held.float()
        return memory

    contracts.cache_equal(nearly, X.float(), float_memory)
    with refused("1e-10"):
        contracts.cache_equal(nearly, X, Memory)
    contracts.cache_equal(nearly, X, Memory, tolerance=1e-6)


# Rotation


def turned(x, angles, offset=0):
    """Pairs of neighbours turned by position times an angle, the angles growing from pair to pair."""
    angle = counted(x, offset) * angles
    even, odd = x[..., 0::2], x[..., 1::2]
    pairs = even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()
    return torch.stack(pairs, dim=-1).flatten(-2)


ANGLES = torch.tensor([1.0, 0.01], dtype=torch.float64)


def counted(x, offset):
    """The positions of the rows, ``(T, 1)``."""
    return torch.arange(offset, offset + x.shape[-2], dtype=x.dtype)[:, None]


def rotation(x, offset):
    return turned(x, ANGLES.to(x), offset)


def test_rotary_shift_invariant_accepts_a_rotation():
    contracts.rotary_shift_invariant(rotation, X, KEY)
    contracts.rotary_shift_invariant(rotation, X.float(), KEY.float())
    contracts.rotary_shift_invariant(rotation, 1e4 * X.float(), 1e4 * KEY.float(), shifts=[1, 30])


@pytest.mark.parametrize("rotary", [HalfSplitRotary, InterleavedRotary])
def test_rotary_positions_are_shift_invariant(rotary):
    contracts.rotary_shift_invariant(rotary(4, 12).double(), X, KEY)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x, offset: x, "the rotation tells no positions apart"),
        (lambda x, offset: turned(x, 0 * ANGLES), "the rotation tells no positions apart"),
        (
            lambda x, offset: rotation(x, 0),
            "row 1 rotated from offset 0 on is another than alone with offset 1",
        ),
        (lambda x, offset: rotation(x, -offset), "row 1 rotated from offset 0"),
        (lambda x, offset: rotation(torch.zeros_like(x), 0) + rotation(x, offset)[..., :1, :], "row 1"),
        (lambda x, offset: rotation(x, offset + offset // 8), "row 3 rotated from offset 5"),
        (lambda x, offset: rotation(x, offset) + counted(x, offset), "on by 1 changes a score"),
        (lambda x, offset: rotation(x, offset) * 0.9 ** counted(x, offset), "on by 1 changes a score"),
        (lambda x, offset: rotation(x, offset)[..., :2], "shape"),
        (lambda x, offset: rotation(x, offset) * torch.nan, "finite"),
    ],
)
def test_rotary_shift_invariant_refuses(wrong, words):
    with refused(words):
        contracts.rotary_shift_invariant(wrong, X, KEY)


def squared_rows(x, offset):
    """The angle grows with the square of the position: no function of distance."""
    rows = [turned(x[..., i : i + 1, :], ANGLES * (offset + i) ** 2, 1) for i in range(x.shape[-2])]
    return torch.cat(rows, dim=-2)


def test_rotary_shift_invariant_refuses_the_square_of_positions():
    with refused("moving queries and keys on by 3 changes a score"):
        contracts.rotary_shift_invariant(squared_rows, X, KEY, shifts=[3])


def test_rotary_shift_invariant_wants_something_to_move():
    with pytest.raises(ValueError, match="two positions"):
        contracts.rotary_shift_invariant(rotation, X[:, :1], KEY)
    for shifts in ([], [0], [2, -1]):
        with pytest.raises(ValueError, match="shifts: expected numbers above 0"):
            contracts.rotary_shift_invariant(rotation, X, KEY, shifts=shifts)


# The library's own modules


def module(kind):
    torch.manual_seed(0)
    return {
        "heads": lambda: MultiHeadAttention(4, 2, num_kv_heads=1, dropout=0.3),
        "layer": lambda: EncoderLayer(4, 2, 8, dropout=0.3, norm="pre"),
    }[kind]().double()


@pytest.mark.parametrize("kind", ["heads", "layer"])
def test_the_librarys_modules_are_accepted(kind):
    part = module(kind).eval()
    contracts.batch_independent(part, X)
    contracts.eval_deterministic(part.train(), X)
    part.eval()
    contracts.permutation_equivariant(part, X)
    contracts.causal(lambda x: part(x, mask=causal_mask(x.shape[-2])), X)
    contracts.gradients_finite(part, X)


@pytest.mark.parametrize("kind", ["heads", "layer"])
@pytest.mark.parametrize("left", [False, True])
def test_the_librarys_modules_are_blind_to_padding_on_either_side(kind, left):
    part = module(kind).eval()
    real = REAL.flip(1) if left else REAL
    contracts.padding_blind(lambda x: part(x, mask=real[:, None]), X, real)
    with refused("padding"):
        contracts.padding_blind(part, X, real)
    with refused("padding"):
        contracts.padding_blind(lambda x: part(x, mask=real.flip(1)[:, None]), X, real)


def test_the_librarys_modules_keep_the_cache_contract():
    part = module("layer").eval()

    def run(x, cache):
        offset = 0 if cache is None else cache.length
        mask = causal_mask(x.shape[-2], offset + x.shape[-2], offset=offset)
        return part(x, mask, cache=cache)

    contracts.cache_equal(run, X, LayerCache)
    with refused("position 1"):
        contracts.cache_equal(lambda x, cache: run(x, None), X, LayerCache)


def test_batch_independent_takes_tokens():
    tokens, table = torch.tensor([[3, 0, 1], [1, 1, 2]]), draw(4, 4, seed=9)
    contracts.batch_independent(lambda ids: attend(table[ids]), tokens)
    with refused("sequence"):
        contracts.batch_independent(lambda ids: attend(table[ids + ids.flip(0) - ids]), tokens)
    with pytest.raises(ValueError, match="two sequences"):
        contracts.batch_independent(lambda ids: attend(table[ids]), tokens[:1])


def test_eval_deterministic_puts_back_the_mode_of_each_part():
    frozen = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5)).train()
    frozen[0].eval()
    contracts.eval_deterministic(frozen, X)
    assert [frozen.training, frozen[0].training, frozen[1].training] == [True, False, True]
