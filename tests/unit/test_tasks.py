"""Recall and pair lookup: right answers, fresh rows, the same batch for the same generator."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.tasks import pair_lookup, recall


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@settings(deadline=None)
@given(
    batch=st.integers(1, 6),
    distractors=st.integers(0, 12),
    symbols=st.integers(2, 9),
    seed=st.integers(0, 99),
)
def test_recall_rows_are_start_symbol_distractors_cue(
    batch: int, distractors: int, symbols: int, seed: int
) -> None:
    tokens, targets = recall(batch, distractors, generator(seed), num_symbols=symbols)
    assert tokens.shape == (batch, distractors + 3)
    assert targets.shape == (batch,)
    assert tokens.dtype == targets.dtype == torch.int64
    assert (tokens[:, 0] == symbols).all()
    assert (tokens[:, -1] == symbols + 1).all()
    assert torch.equal(tokens[:, 1], targets)
    assert tokens[:, 1:-1].min() >= 0
    assert tokens[:, 1:-1].max() < symbols


def test_recall_draws_every_symbol_evenly_everywhere() -> None:
    tokens, targets = recall(8000, 2, generator())
    for column in (targets, tokens[:, 2], tokens[:, 3]):
        counts = torch.bincount(column, minlength=8)
        assert (counts - 1000).abs().max() < 150  # five standard deviations
    # Neither a distractor nor the row before tells the answer.
    assert abs((tokens[:, 2] == targets).double().mean().item() - 1 / 8) < 0.02
    assert abs((targets[1:] == targets[:-1]).double().mean().item() - 1 / 8) < 0.02


def test_changing_recalls_tokens_leaves_its_targets_alone() -> None:
    tokens, targets = recall(4, 3, generator())
    before = targets.clone()
    tokens[:, 1] = 7
    assert torch.equal(targets, before)


@settings(deadline=None)
@given(batch=st.integers(1, 6), symbols=st.integers(2, 12), data=st.data(), seed=st.integers(0, 99))
def test_pair_lookup_has_one_answer_and_it_is_right(
    batch: int, symbols: int, data: st.DataObject, seed: int
) -> None:
    pairs = data.draw(st.integers(1, symbols))
    (keys, values, queries), targets = pair_lookup(batch, pairs, generator(seed), num_symbols=symbols)
    assert keys.shape == values.shape == (batch, pairs)
    for row in range(batch):
        assert len(set(keys[row].tolist())) == pairs
        table = dict(zip(keys[row].tolist(), values[row].tolist(), strict=True))
        assert table[queries[row].item()] == targets[row].item()
    for drawn in (keys, values, queries, targets):
        assert drawn.dtype == torch.int64
        assert drawn.min() >= 0
        assert drawn.max() < symbols


def test_pair_lookup_asks_for_every_place_and_shuffles_every_key() -> None:
    (keys, values, queries), targets = pair_lookup(8000, 4, generator(), num_symbols=8)
    place = (keys == queries[:, None]).int().argmax(dim=-1)
    assert (torch.bincount(place, minlength=4) - 2000).abs().max() < 200
    assert (torch.bincount(keys[:, 0], minlength=8) - 1000).abs().max() < 150
    assert (torch.bincount(values[:, 0], minlength=8) - 1000).abs().max() < 150
    assert abs((queries == targets).double().mean().item() - 1 / 8) < 0.02  # keys say nothing of values


@pytest.mark.parametrize("draw", [lambda g: recall(3, 4, g), lambda g: pair_lookup(3, 4, g)])
def test_the_generator_alone_decides(draw) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(1)
    first = draw(generator(5))
    torch.manual_seed(2)
    again = draw(generator(5))
    other = draw(generator(6))
    assert repr(first) == repr(again)
    assert repr(first) != repr(other)
    one = generator(5)
    assert repr(draw(one)) != repr(draw(one))  # a stream of batches, not one batch again and again


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: recall(0, 3, generator()), "batch_size"),
        (lambda: recall(2, -1, generator()), "distractors"),
        (lambda: recall(2, 3, generator(), num_symbols=1), "num_symbols"),
        (lambda: pair_lookup(0, 3, generator()), "batch_size"),
        (lambda: pair_lookup(2, 0, generator()), "pairs"),
        (lambda: pair_lookup(2, 3, generator(), num_symbols=1), "num_symbols"),
        (lambda: pair_lookup(2, 9, generator(), num_symbols=8), "pairs.*num_symbols=8.*got 9"),
    ],
)
def test_impossible_sizes_name_the_argument(call, named: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=f"^{named}"):
        call()
