"""Positions: what tells attention the order of its inputs.

======================  =======================================================================
module                  holds
======================  =======================================================================
``tables``              vectors added to the embeddings: sinusoidal (a formula) and learned
``rotary``              queries and keys turned by an angle that grows with their position
``alibi``               a penalty on distance, added to the scores
======================  =======================================================================
"""

from attnlab.positions.alibi import alibi_bias, alibi_slopes
from attnlab.positions.rotary import HalfSplitRotary, InterleavedRotary, RotaryPositions, rotary_permutation
from attnlab.positions.tables import LearnedPositions, SinusoidalPositions, sinusoidal_positions

__all__ = [
    "HalfSplitRotary",
    "InterleavedRotary",
    "LearnedPositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "alibi_bias",
    "alibi_slopes",
    "rotary_permutation",
    "sinusoidal_positions",
]
