"""Tiles cover what may be attended to, once, and nothing that may not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.attention import causal_mask
from attnlab.efficient import Tiling, sliding_window_mask

few_examples = settings(max_examples=25, deadline=None, derandomize=True)
LENGTHS = st.integers(0, 9)
CHUNKS = st.integers(1, 5)


def draw_mask(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < 0.5


def put_together(tiles, num_queries, num_keys):
    """The mask that the tiles stand for, and how often each score is in a tile."""
    seen = torch.zeros(num_queries, num_keys, dtype=torch.bool)
    count = torch.zeros(num_queries, num_keys, dtype=torch.long)
    for queries, keys, allowed in tiles:
        seen[queries, keys] = True if allowed is None else allowed
        count[queries, keys] += 1
    return seen, count


@few_examples
@given(
    num_queries=LENGTHS,
    num_keys=LENGTHS,
    chunks=st.tuples(CHUNKS, CHUNKS),
    window=st.none() | st.integers(1, 12),
    masked=st.booleans(),
)
def test_causal_tiles_cover_what_may_be_seen(num_queries, num_keys, chunks, window, masked):
    mask = draw_mask(num_queries, num_keys) if masked else None
    tiles = list(Tiling(*chunks, causal=True, window=window).tiles(num_queries, num_keys, mask))
    band = causal_mask(num_queries, num_keys)
    if window is not None:
        band = sliding_window_mask(num_queries, num_keys, window=window)
    seen, count = put_together(tiles, num_queries, num_keys)
    assert torch.equal(seen, band & mask if masked else band)
    assert (count <= 1).all()
    for queries, keys, allowed in tiles:
        part = band[queries, keys]
        assert part.numel() and part.any()  # no tile is empty or hidden throughout
        assert part.shape[0] <= chunks[0] and part.shape[1] <= chunks[1]
        if not masked:
            assert (allowed is None) == bool(part.all())


@few_examples
@given(num_queries=LENGTHS, num_keys=LENGTHS, chunks=st.tuples(CHUNKS, CHUNKS))
def test_without_a_limit_the_tiles_cover_everything_and_slice_the_mask(num_queries, num_keys, chunks):
    tiles = list(Tiling(*chunks, causal=False).tiles(num_queries, num_keys))
    seen, count = put_together(tiles, num_queries, num_keys)
    assert seen.all() and (count == 1).all()
    assert all(tile.allowed is None for tile in tiles)
    mask = draw_mask(2, num_queries, num_keys)
    for queries, keys, allowed in Tiling(*chunks, causal=False).tiles(num_queries, num_keys, mask):
        assert torch.equal(allowed, mask[:, queries, keys])
        assert allowed.untyped_storage().data_ptr() == mask.untyped_storage().data_ptr()


@pytest.mark.parametrize("chunks", [(1, 1), (2, 2), (3, 2), (2, 5), (8, 8)])
def test_a_tile_has_a_mask_where_the_window_cuts_it_and_only_there(chunks):
    for window in range(1, 9):
        band = sliding_window_mask(7, 8, window=window)
        tiles = list(Tiling(*chunks, causal=True, window=window).tiles(7, 8))
        assert torch.equal(put_together(tiles, 7, 8)[0], band)
        assert [tile.allowed is None for tile in tiles] == [bool(band[q, k].all()) for q, k, _ in tiles]


def test_tiles_of_the_future_and_before_the_window_are_left_out():
    # 8 positions in chunks of 2: 16 tiles; 10 touch the causal triangle, 7 a window of 3, 4 one of 1.
    assert len(list(Tiling(2, 2, causal=False).tiles(8, 8))) == 16
    assert len(list(Tiling(2, 2, causal=True).tiles(8, 8))) == 10
    assert len(list(Tiling(2, 2, causal=True, window=3).tiles(8, 8))) == 7
    assert len(list(Tiling(2, 2, causal=True, window=1).tiles(8, 8))) == 4
    assert [tile.keys for tile in Tiling(2, 8, causal=True, window=3).tiles(8, 8)] == [
        slice(0, 2),
        slice(0, 4),
        slice(2, 6),
        slice(4, 8),
    ]


def test_masks_are_made_where_they_are_asked_for():
    tiles = Tiling(2, 2, causal=True).tiles(3, 3, device=torch.device("meta"))
    made = [tile.allowed for tile in tiles if tile.allowed is not None]
    assert made and all(allowed.is_meta for allowed in made)


@few_examples
@given(
    num_queries=LENGTHS,
    num_keys=st.none() | LENGTHS,
    window=st.integers(1, 12),
    offset=st.none() | st.integers(-4, 9),
)
def test_window_mask_entry_by_entry(num_queries, num_keys, window, offset):
    mask = sliding_window_mask(num_queries, num_keys, window=window, offset=offset)
    keys = num_queries if num_keys is None else num_keys
    shift = keys - num_queries if offset is None else offset
    assert mask.dtype == torch.bool and mask.shape == (num_queries, keys)
    own = range(shift, num_queries + shift)
    assert mask.tolist() == [[at - window < key <= at for key in range(keys)] for at in own]


def test_window_mask_shows_itself_and_those_just_before():
    assert sliding_window_mask(4, window=2).int().tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 1, 1],
    ]
    assert sliding_window_mask(1, 4, window=2).int().tolist() == [[0, 0, 1, 1]]
    assert torch.equal(sliding_window_mask(5, window=5), causal_mask(5))


def test_window_mask_errors_name_the_argument():
    with pytest.raises(ValueError, match="^window: .*0"):
        sliding_window_mask(3, window=0)
    with pytest.raises(ValueError, match="^num_queries: .*-1"):
        sliding_window_mask(-1, window=2)
    with pytest.raises(ValueError, match="^num_keys: .*-2"):
        sliding_window_mask(1, -2, window=2)
