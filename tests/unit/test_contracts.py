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
