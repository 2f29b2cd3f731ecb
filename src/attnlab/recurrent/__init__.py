r"""Recurrent networks: what attention was made to help, and what it is compared with.

A recurrent layer reads a sequence one position at a time and keeps all that it knows in one state:

.. math::
    h_t = \tanh(W h_{t-1} + U x_t + b) \qquad\text{(Elman 1990)}

The room holds the layers and a reader built on them, the initialisations of their gates, a measure of how
much of an early input is left, additive attention, and two encoder-decoders: one that passes a sentence on
through a single vector, and one that attends to all of its states.

Axes: B = batch, S = source positions, T = target positions (or positions, where there is one sequence),
D = width of an input, H = width of a state.
"""

from .additive import AdditiveAttention
from .decoding import greedy_decode
from .encoder_decoder import (
    AttentiveGRUEncoderDecoder,
    GRUEncoderDecoder,
    RecurrentDecoded,
    RecurrentEncoded,
)
from .initialisation import GatedLayer, set_chrono_bias, set_forget_bias
from .layers import Kind, RecurrentReader, recurrent_layer
from .sensitivity import gradient_by_distance

__all__ = [
    "AdditiveAttention",
    "AttentiveGRUEncoderDecoder",
    "GRUEncoderDecoder",
    "GatedLayer",
    "Kind",
    "RecurrentDecoded",
    "RecurrentEncoded",
    "RecurrentReader",
    "gradient_by_distance",
    "greedy_decode",
    "recurrent_layer",
    "set_chrono_bias",
    "set_forget_bias",
]
