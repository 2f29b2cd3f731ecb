"""The store of keys and values: what goes in comes out, whatever happens to what came out."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.cache import KeyValueCache, LayerCache

few_examples = settings(max_examples=20, deadline=None, derandomize=True)


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def pair(length, *, batch=2, heads=3, width=4, seed=0, dtype=torch.float64):
    """Keys and values that differ, the values one wider."""
    return (
        draw(batch, heads, length, width, seed=seed, dtype=dtype),
        draw(batch, heads, length, width + 1, seed=seed + 50, dtype=dtype),
    )


@given(
    lengths=st.lists(st.integers(0, 3), min_size=1, max_size=30),
    modes=st.lists(st.sampled_from(["grad", "no grad", "inference"]), min_size=1, max_size=4),
    dtype=st.sampled_from([torch.float64, torch.float32, torch.bfloat16]),
)
@few_examples
def test_returns_all_that_was_given_oldest_first_in_every_mode(lengths, modes, dtype):
    store = LayerCache()
    pieces = [pair(length, seed=number, dtype=dtype) for number, length in enumerate(lengths)]
    came_out = []
    for number, (key, value) in enumerate(pieces):
        mode = modes[number * len(modes) // len(pieces)]
        with torch.set_grad_enabled(mode == "grad"), torch.inference_mode(mode == "inference"):
            came_out.append(store.extend(key, value))
        assert store.length == sum(lengths[: number + 1])
        for count, received in enumerate(came_out, start=1):  # what came out earlier is still what it was
            for part in (0, 1):
                expected = torch.cat([piece[part] for piece in pieces[:count]], dim=-2)
                assert received[part].dtype == dtype and torch.equal(received[part], expected)


@pytest.mark.parametrize("no_grad", [True, False])
def test_what_went_in_may_be_changed_later(no_grad):
    store = LayerCache()
    with torch.set_grad_enabled(not no_grad):
        for _ in range(3):
            key, value = pair(2)
            store.extend(key, value)
            key.zero_(), value.zero_()
        received = store.extend(*pair(0))
    assert all((tensor != 0).all() for tensor in received)


def test_without_gradients_what_is_held_is_seldom_copied():
    store, addresses = LayerCache(), set()
    with torch.no_grad():
        for number in range(200):
            key, _ = store.extend(*pair(1, seed=number))
            addresses.add(key.untyped_storage().data_ptr())
            assert key.untyped_storage().nbytes() <= 8 * max(16, 2 * (number + 1)) * 2 * 3 * 4 * 2
    assert store.length == 200
    assert len(addresses) <= 6  # room is doubled, from 16 on


def test_a_graph_that_is_still_needed_is_not_written_into():
    store, query = LayerCache(), draw(2, 3, 1, 4, seed=9).requires_grad_()
    key, _ = store.extend(*pair(2))
    score = (query * key).sum()
    with torch.no_grad():
        store.extend(*pair(0))
        store.extend(*pair(1))
    (gradient,) = torch.autograd.grad(score, query)  # would fail if the key had been written into
    assert torch.equal(gradient, key.sum(dim=-2, keepdim=True))
    leaf = pair(2)[0].requires_grad_()
    store.clear()
    (received,) = store.extend(leaf, pair(2)[1])[:1]
    squares = received.square().sum()
    with torch.no_grad():
        store.extend(*pair(0))
    assert torch.equal(torch.autograd.grad(squares, leaf)[0], 2 * leaf)


def test_gradients_flow_to_every_piece():
    store = LayerCache()
    pieces = [tuple(tensor.requires_grad_() for tensor in pair(1, seed=number)) for number in range(12)]
    for piece in pieces:
        key, value = store.extend(*piece)
    leaves = [tensor for piece in pieces for tensor in piece]
    for gradient in torch.autograd.grad(key.sum() + 2.0 * value.sum(), leaves):
        assert gradient.unique().tolist() in ([1.0], [2.0])


def test_works_in_inference_mode_and_after_it():
    store = LayerCache()
    with torch.inference_mode():
        store.extend(*pair(2))
        key, _ = store.extend(*pair(1))
    assert key.shape == (2, 3, 3, 4)
    with torch.no_grad():
        assert store.extend(*pair(1))[0].shape == (2, 3, 4, 4)


@pytest.mark.parametrize(
    ("key", "value", "error", "words"),
    [
        ((3, 1, 4), (2, 3, 1, 5), ValueError, r"key: expected four axes .*\(3, 1, 4\)"),
        ((2, 3, 1, 4), (3, 1, 5), ValueError, r"value: expected four axes .*\(3, 1, 5\)"),
        ((2, 3, 1, 4), (2, 3, 2, 5), ValueError, r"value: .*\(2, 3, 1\) as in key, got \(2, 3, 2, 5\)"),
        ((4, 3, 1, 4), (4, 3, 1, 5), ValueError, r"key: .*\(2, 3, T, 4\) as held, got \(4, 3, 1, 4\).*clear"),
        ((2, 1, 1, 4), (2, 1, 1, 5), ValueError, r"key: .*\(2, 3, T, 4\) as held, got \(2, 1, 1, 4\)"),
        ((2, 3, 1, 6), (2, 3, 1, 5), ValueError, r"key: .*\(2, 3, T, 4\) as held, got \(2, 3, 1, 6\)"),
        ((2, 3, 1, 4), (2, 3, 1, 6), ValueError, r"value: .*\(2, 3, T, 5\) as held, got \(2, 3, 1, 6\)"),
    ],
)
def test_what_does_not_fit_is_refused_and_not_held(key, value, error, words):
    store = LayerCache()
    held = pair(2)
    store.extend(*held)
    with pytest.raises(error, match=words):
        store.extend(draw(*key), draw(*value))
    assert store.length == 2
    assert torch.equal(store.extend(*pair(0))[0], held[0])


def test_types_and_devices_must_agree():
    store = LayerCache()
    store.extend(*pair(2))
    with pytest.raises(TypeError, match="key: .*float64 on cpu as held, got torch.float32 on cpu.*clear"):
        store.extend(*pair(1, dtype=torch.float32))
    with pytest.raises(TypeError, match="value: .*got torch.float32"):
        store.extend(pair(1)[0], pair(1, dtype=torch.float32)[1])
    with pytest.raises(TypeError, match="key: .*on cpu as held, got torch.float64 on meta"):
        store.extend(*(tensor.to("meta") for tensor in pair(1)))
    store.clear()
    assert store.extend(*pair(1, dtype=torch.float32))[0].dtype == torch.float32


@given(rows=st.lists(st.integers(0, 2), max_size=5))
@few_examples
def test_rows_are_selected_in_every_layer(rows):
    cache = KeyValueCache(2)
    held = [pair(3, batch=3, seed=layer) for layer in range(2)]
    for layer in range(2):
        for position in range(3):
            cache[layer].extend(*(tensor[:, :, position : position + 1] for tensor in held[layer]))
    cache.select(torch.tensor(rows, dtype=torch.long))
    for layer in range(2):
        empty = pair(0, batch=len(rows))
        for received, expected in zip(cache[layer].extend(*empty), held[layer], strict=True):
            assert torch.equal(received, expected[rows])


def test_rows_are_checked():
    store = LayerCache()
    store.select(torch.tensor([5]))  # nothing is held, and nothing to select from
    store.extend(*pair(1))
    for rows, error, words in [
        (torch.tensor([0.0]), TypeError, "rows: .*float32"),
        (torch.tensor([True, False]), TypeError, "rows: .*bool"),
        (torch.tensor(1), ValueError, r"rows: .*\(\)"),
        (torch.tensor([[1]]), ValueError, r"rows: .*\(1, 1\)"),
        (torch.tensor([0, 2]), ValueError, r"rows: .*0 to 1, got \[0, 2\]"),
        (torch.tensor([-1]), ValueError, r"rows: .*0 to 1, got \[-1\]"),
    ]:
        with pytest.raises(error, match=words):
            store.select(rows)
    store.select(torch.tensor([1, 1, 0], dtype=torch.int32))
    assert store.length == 1


def test_one_text_leaves_nothing_for_the_next():
    cache = KeyValueCache(2)
    for layer in range(2):
        cache[layer].extend(*pair(3))
    cache.clear()
    assert cache.length == cache[0].length == cache[1].length == 0
    new = pair(1, batch=5, heads=1, width=2)
    assert torch.equal(cache[1].extend(*new)[0], new[0])


def test_layers_are_stores_of_their_own():
    cache = KeyValueCache(3)
    assert len(cache) == 3 and len({id(cache[layer]) for layer in range(3)}) == 3
    assert cache.length == 0
    for layer in (0, 1):
        cache[layer].extend(*pair(2))
        assert cache.length == 0  # the pass is not over
    cache[2].extend(*pair(2))
    assert cache.length == 2
    with pytest.raises(IndexError):
        cache[3]
    for num_layers in (0, -1):
        with pytest.raises(ValueError, match=f"num_layers: .*{num_layers}"):
            KeyValueCache(num_layers)
