"""The synthetic problems: right answers, fresh rows, the same batch for the same generator."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.tasks import IGNORE, copy_back, pair_lookup, recall, reversal

few_examples = settings(max_examples=25, deadline=None, derandomize=True)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@few_examples
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


@few_examples
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


@few_examples
@given(batch=st.integers(1, 6), length=st.integers(1, 9), symbols=st.integers(2, 9), seed=st.integers(0, 99))
def test_reversal_answers_from_the_last_to_the_first(
    batch: int, length: int, symbols: int, seed: int
) -> None:
    tokens, targets = reversal(batch, length, generator(seed), num_symbols=symbols)
    assert tokens.shape == targets.shape == (batch, length)
    assert tokens.dtype == targets.dtype == torch.int64
    assert targets.tolist() == [row[::-1] for row in tokens.tolist()]
    assert tokens.min() >= 0 and tokens.max() < symbols


@few_examples
@given(
    batch=st.integers(1, 6),
    length=st.integers(1, 9),
    symbols=st.integers(2, 9),
    data=st.data(),
    seed=st.integers(0, 99),
)
def test_copy_back_answers_with_what_stood_so_far_before(
    batch: int, length: int, symbols: int, data: st.DataObject, seed: int
) -> None:
    distance = data.draw(st.integers(0, length - 1))
    tokens, targets = copy_back(batch, length, distance, generator(seed), num_symbols=symbols)
    assert tokens.shape == targets.shape == (batch, length)
    assert tokens.dtype == targets.dtype == torch.int64
    for row, answers in zip(tokens.tolist(), targets.tolist(), strict=True):
        assert answers == [IGNORE] * distance + row[: length - distance]
    assert tokens.min() >= 0 and tokens.max() < symbols


def test_copy_backs_first_positions_are_left_out_of_the_loss() -> None:
    tokens, targets = copy_back(2, 5, 3, generator(), num_symbols=4)
    logits = torch.zeros(2, 5, 4)
    logits[:, 3:] = 50.0 * torch.nn.functional.one_hot(tokens[:, :2], 4)
    assert torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()) < 1e-6
    assert copy_back(2, 5, 3, generator(), ignore=9)[1][:, :3].tolist() == [[9] * 3] * 2


@pytest.mark.parametrize(
    "draw", [lambda g: reversal(8000, 3, g, num_symbols=4), lambda g: copy_back(8000, 3, 1, g, num_symbols=4)]
)
def test_each_position_is_drawn_evenly_and_on_its_own(draw) -> None:  # type: ignore[no-untyped-def]
    tokens, _ = draw(generator())
    for column in tokens.T:
        assert (torch.bincount(column, minlength=4) - 2000).abs().max() < 200
    assert abs((tokens[:, 0] == tokens[:, 1]).double().mean().item() - 1 / 4) < 0.03
    assert abs((tokens[1:] == tokens[:-1]).double().mean().item() - 1 / 4) < 0.03


def test_changing_the_tokens_leaves_the_targets_alone() -> None:
    for tokens, targets in (reversal(4, 3, generator()), copy_back(4, 3, 1, generator())):
        before = targets.clone()
        tokens.fill_(7)
        assert torch.equal(targets, before)


def test_an_unchanged_generator_gives_the_batches_that_earlier_versions_gave() -> None:
    one = generator(3)
    tokens, targets = recall(2, 4, one)
    assert tokens.tolist() == [[8, 0, 1, 3, 0, 0, 9], [8, 5, 3, 2, 3, 1, 9]]
    assert targets.tolist() == [0, 5]
    (keys, values, queries), targets = pair_lookup(2, 3, one, num_symbols=5)
    assert keys.tolist() == [[0, 2, 1], [4, 2, 1]]
    assert values.tolist() == [[2, 3, 2], [4, 4, 0]]
    assert queries.tolist() == [0, 2] and targets.tolist() == [2, 4]


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: recall(3, 4, g),
        lambda g: pair_lookup(3, 4, g),
        lambda g: reversal(3, 4, g),
        lambda g: copy_back(3, 4, 2, g),
    ],
)
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
        (lambda: reversal(0, 3, generator()), "batch_size"),
        (lambda: reversal(2, 0, generator()), "length"),
        (lambda: reversal(2, 3, generator(), num_symbols=1), "num_symbols"),
        (lambda: copy_back(0, 3, 1, generator()), "batch_size"),
        (lambda: copy_back(2, 0, 0, generator()), "length"),
        (lambda: copy_back(2, 3, 1, generator(), num_symbols=1), "num_symbols"),
        (lambda: copy_back(2, 3, 3, generator()), "distance.*0 to length - 1 = 2, got 3"),
        (lambda: copy_back(2, 3, -1, generator()), "distance.*got -1"),
        (lambda: copy_back(2, 3, 1, generator(), ignore=7), "ignore.*0 to 7, got 7"),
        (lambda: copy_back(2, 3, 1, generator(), ignore=0), "ignore.*got 0"),
    ],
)
def test_impossible_sizes_name_the_argument(call, named: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=f"^{named}"):
        call()
