"""The contracts of what stands around attention: each accepts what is right, and refuses what it is about."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import contracts

QUERY = torch.randn(2, 3, 5, 8, generator=torch.Generator().manual_seed(0))
KEY = torch.randn(2, 3, 7, 8, generator=torch.Generator().manual_seed(1))
LOGITS = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(2))
LABELS = torch.tensor([[3, 0, 0, 0, 0], [1, 2, 0, 0, 0], [4, 5, 1, 0, 0], [1, 1, 2, 3, 5]])
MEMORY = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(3))


def refused(words="."):
    return pytest.raises(AssertionError, match=words)


# The root


def weights(query, key, *, width=8, dim=-1):
    return (query @ key.mT / math.sqrt(width)).softmax(dim=dim)


def test_scaled_by_width_accepts_the_root_of_the_head_and_any_shift_of_a_row():
    contracts.scaled_by_width(weights, QUERY, KEY)
    contracts.scaled_by_width(weights, QUERY.double(), KEY.double(), tolerance=1e-10)
    contracts.scaled_by_width(lambda q, k: (weights(q, k).log() + 5).softmax(dim=-1), QUERY, KEY)


@pytest.mark.parametrize("wrong", [{"width": 24}, {"width": 64}, {"width": 1}, {"dim": -2}])
def test_scaled_by_width_refuses_another_divisor_and_another_axis(wrong):
    with refused("root of 8"):
        contracts.scaled_by_width(lambda q, k: weights(q, k, **wrong), QUERY, KEY)


def test_scaled_by_width_needs_two_keys():
    with pytest.raises(ValueError, match="two keys"):
        contracts.scaled_by_width(weights, QUERY, KEY[..., :1, :])


# The layers


def test_layers_distinct_accepts_layers_of_their_own_that_share_inside():
    tied = nn.ModuleList([nn.Linear(3, 3)] * 2)
    contracts.layers_distinct([nn.Linear(3, 3), nn.Linear(3, 3), tied])


def test_layers_distinct_names_what_is_shared():
    one, other = nn.Linear(3, 3), nn.Linear(3, 3)
    with refused("layers 0 and 2 share the parameter weight"):
        contracts.layers_distinct([one, other, one])
    other.bias = one.bias
    with refused("layers 0 and 1 share the parameter bias"):
        contracts.layers_distinct([one, other])


# The norm


@pytest.mark.parametrize("norm", [nn.LayerNorm(8), lambda x: F.layer_norm(x, (8,), eps=1e-6)])
def test_norm_standardises_accepts_a_layer_norm(norm):
    contracts.norm_standardises(norm, 3 * QUERY + 1)


@pytest.mark.parametrize(
    ("norm", "words"),
    [
        (lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True), "variance"),
        (lambda x: x / x.std(-1, keepdim=True, correction=0), "mean"),
        (lambda x: x - x.mean(-1, keepdim=True), "variance"),
        (lambda x: F.layer_norm(x.mT, (5,)).mT, "mean"),
    ],
)
def test_norm_standardises_refuses_another_mean_or_variance(norm, words):
    with refused(f"another {words}"):
        contracts.norm_standardises(norm, 3 * QUERY + 1)


# The memory


def test_reads_memory_accepts_what_hears_it_and_a_tuple():
    contracts.reads_memory(lambda memory: memory.mean(dim=1, keepdim=True), MEMORY)
    contracts.reads_memory(lambda memory: (memory[:, :1], None), MEMORY)


def test_reads_memory_refuses_a_deaf_sequence():
    with refused("sequence 0"):
        contracts.reads_memory(lambda memory: torch.ones(3, 2, 6), MEMORY)
    hears = torch.tensor([1.0, 0.0, 1.0])[:, None, None]
    with refused("sequence 1"):
        contracts.reads_memory(lambda memory: memory * hears, MEMORY)


def test_what_never_reads_the_memory_is_blind_to_padding_and_refused_only_here():
    real = torch.ones(3, 4, dtype=torch.bool)
    real[:, -1] = False
    deaf = nn.Parameter(torch.ones(3, 4, 6))
    contracts.padding_blind(lambda memory: deaf * 2, MEMORY, real)
    with refused("another memory"):
        contracts.reads_memory(lambda memory: deaf * 2, MEMORY)


# The shift


def test_next_token_asked_accepts_the_shift():
    contracts.next_token_asked(lambda rows: (rows[:, :-1], rows[:, 1:]))
    contracts.next_token_asked(lambda rows: (rows[:, :-1], rows[:, 1:]), length=3)


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (lambda rows: (rows[:, 1:], rows[:, 1:]), r"\[0\] places"),
        (lambda rows: (rows[:, :-2], rows[:, 2:]), r"\[2\] places"),
        (lambda rows: (rows[:, 1:], rows[:, :-1]), r"\[-1\] places"),
        (lambda rows: (rows[:, 1:-1], rows[:, 2:]), "first token is not read"),
        (lambda rows: (rows[:, :-2], rows[:, 1:-1]), "last one is not asked"),
        (lambda rows: (rows, rows[:, 1:]), "shape"),
        (lambda rows: (rows[:, :-1], rows.roll(-1, dims=1)[:, 1:]), "places"),
        (lambda rows: (rows[:, :-1], rows[:, [1, 2, 2, 4]]), r"\[0, 1\] places"),
    ],
)
def test_next_token_asked_refuses_every_other_shift(shift, words):
    with refused(words):
        contracts.next_token_asked(shift)


def test_next_token_asked_needs_three_tokens():
    with pytest.raises(ValueError, match="at least 3"):
        contracts.next_token_asked(lambda rows: (rows[:, :-1], rows[:, 1:]), length=2)


# The loss


def loss(pieces, *, pad=0):
    each = [F.cross_entropy(a.mT, b, ignore_index=pad, reduction="sum") for a, b in pieces]
    return sum(each) / sum((labels != pad).sum() for _, labels in pieces)


def mean_of_means(pieces):
    return sum(loss([piece]) for piece in pieces) / len(pieces)


def mean_over_places(pieces):
    each = [F.cross_entropy(a.mT, b, ignore_index=0, reduction="sum") for a, b in pieces]
    return sum(each) / sum(labels.numel() for _, labels in pieces)


def test_padding_costs_nothing_accepts_a_mean_over_real_tokens():
    contracts.padding_costs_nothing(loss, LOGITS, LABELS)
    contracts.padding_costs_nothing(lambda p: loss(p, pad=5), LOGITS, LABELS, pad=5, columns=1)
    contracts.padding_costs_nothing(mean_of_means, LOGITS, LABELS)


@pytest.mark.parametrize("wrong", [mean_over_places, lambda pieces: loss(pieces, pad=-100)])
def test_padding_costs_nothing_refuses_padding_in_the_sum_or_in_the_number(wrong):
    with refused("3 more columns of padding"):
        contracts.padding_costs_nothing(wrong, LOGITS, LABELS)


def test_same_in_pieces_accepts_sums_that_are_divided_once():
    contracts.same_in_pieces(loss, LOGITS, LABELS)
    contracts.same_in_pieces(mean_over_places, LOGITS, LABELS)


def test_same_in_pieces_refuses_a_mean_of_means_wherever_the_pieces_are_unequal():
    with refused("cut after 1 of 4 rows"):
        contracts.same_in_pieces(mean_of_means, LOGITS, LABELS)
    with refused("cut after 1 of 4 rows"):
        contracts.same_in_pieces(lambda pieces: sum(map(loss, [[p] for p in pieces])), LOGITS, LABELS)
    equal = torch.tensor([[1, 2, 0, 0, 0]] * 3 + [[1, 2, 3, 0, 0]])  # unequal only at the last row
    with refused("cut"):
        contracts.same_in_pieces(mean_of_means, LOGITS, equal)


def test_same_in_pieces_looks_at_the_last_cut_too():
    def blind_to_early_cuts(pieces):
        return mean_of_means(pieces) if len(pieces) > 1 and len(pieces[1][1]) == 1 else loss(pieces)

    with refused("cut after 3 of 4 rows"):
        contracts.same_in_pieces(blind_to_early_cuts, LOGITS, LABELS)


def test_same_in_pieces_needs_two_rows():
    with pytest.raises(ValueError, match="two rows"):
        contracts.same_in_pieces(loss, LOGITS[:1], LABELS[:1])
