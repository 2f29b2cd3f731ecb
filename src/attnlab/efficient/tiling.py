"""How a matrix of scores is cut into tiles, and which tiles need not exist.

Query i stands at position ``i + offset`` among the keys. A causal query sees no key after its own position;
with a window it sees only the last ``window`` of those. A tile in which no query sees a key is left out.

Axes: T = queries, S = keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attnlab.attention import causal_mask

__all__ = ["Tile", "Tiling", "sliding_window_mask"]


def sliding_window_mask(
    num_queries: int, num_keys: int | None = None, *, window: int, offset: int | None = None
) -> Tensor:
    """Let each query see its own position and the ``window - 1`` before it.

    Query ``i`` may see key ``j`` where ``i + offset - window < j <= i + offset``.

    Args:
        num_queries: Number of queries, T.
        num_keys: Number of keys, S; T where it is left out.
        window: Number of keys that a query may see, itself included.
        offset: Position of the first query among the keys. Left out, it is ``S - T``: the last query sees the
            last key.

    Returns:
        Boolean mask ``(T, S)``, True = may attend.

    Raises:
        ValueError: If ``window`` is below 1 or a number of positions is negative.

    Source: Beltagy et al., "Longformer", 2020, section 3.1, in its causal form.
    """
    if window < 1:
        raise ValueError(f"window: expected at least 1 key, got {window}")
    num_keys = num_queries if num_keys is None else num_keys
    offset = num_keys - num_queries if offset is None else offset
    seen = causal_mask(num_queries, num_keys, offset=offset)  # (T, S)
    return seen & ~causal_mask(num_queries, num_keys, offset=offset - window)


class Tile(NamedTuple):
    """Some queries and some keys.

    Attributes:
        queries: Which rows of the queries.
        keys: Which rows of the keys.
        allowed: Boolean, True = may attend; broadcasts to the tile's scores. None where all may.
    """

    queries: slice
    keys: slice
    allowed: Tensor | None


class Tiling(NamedTuple):
    """A way to cut the scores.

    Attributes:
        query_chunk: Number of queries in a tile, but for those at the end.
        key_chunk: Number of keys in a tile, but for the last ones of a row of tiles.
        causal: Whether a query sees only the keys up to its own position; the last query stands at the last
            key.
        window: Number of keys that a causal query sees, itself included; all of them where it is None.
    """

    query_chunk: int
    key_chunk: int
    causal: bool
    window: int | None = None

    def tiles(
        self,
        num_queries: int,
        num_keys: int,
        mask: Tensor | None = None,
        *,
        device: torch.device | None = None,
    ) -> Iterator[Tile]:
        """The tiles row by row, but for those in which no query sees a key.

        Args:
            num_queries: Number of queries, T.
            num_keys: Number of keys, S.
            mask: Boolean ``(..., T, S)``, which joins with what ``causal`` and ``window`` allow. It is
                sliced, never copied as a whole, and never read to leave a tile out.
            device: Where the tiles' masks are made.

        Yields:
            One tile at a time; its mask is made with it.
        """
        offset = num_keys - num_queries
        for start in range(0, num_queries, self.query_chunk):
            stop = min(start + self.query_chunk, num_queries)
            first = 0 if self.window is None else max(0, start + offset - self.window + 1)
            last = min(num_keys, stop + offset) if self.causal else num_keys
            for key_start in range(first, last, self.key_chunk):
                queries = slice(start, stop)
                keys = slice(key_start, min(key_start + self.key_chunk, last))
                allowed = self._allowed(queries, keys, offset, device)
                if mask is not None:
                    part = mask[..., queries, keys]
                    allowed = part if allowed is None else part & allowed
                yield Tile(queries, keys, allowed)

    def _allowed(
        self, queries: slice, keys: slice, offset: int, device: torch.device | None
    ) -> Tensor | None:
        """What ``causal`` and ``window`` allow within a tile; None where they allow all of it."""
        if not self.causal:
            return None
        late = keys.stop - 1 > queries.start + offset  # the last key is after the first query
        early = self.window is not None and keys.start <= queries.stop - 1 + offset - self.window
        if not (late or early):
            return None
        query_at = torch.arange(queries.start, queries.stop, device=device)[:, None] + offset
        key_at = torch.arange(keys.start, keys.stop, device=device)
        seen = key_at <= query_at
        return seen if self.window is None else seen & (key_at > query_at - self.window)
