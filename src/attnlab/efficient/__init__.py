"""Attention for long sequences: memory that grows with the length, not with its square.

=================================  ============================================================
function                           what it computes
=================================  ============================================================
:func:`chunked_attention`          the same as ordinary attention, tile by tile
:func:`sliding_window_attention`   the same as ordinary attention with :func:`sliding_window_mask`
:func:`linear_attention`           another function: a product of features replaces the softmax
:func:`causal_linear_attention`    that function, each position seeing only the ones before it
=================================  ============================================================
"""

from attnlab.efficient.chunked import chunked_attention, sliding_window_attention
from attnlab.efficient.linear import causal_linear_attention, elu_features, linear_attention
from attnlab.efficient.tiling import Tile, Tiling, sliding_window_mask

__all__ = [
    "Tile",
    "Tiling",
    "causal_linear_attention",
    "chunked_attention",
    "elu_features",
    "linear_attention",
    "sliding_window_attention",
    "sliding_window_mask",
]
