"""The layers of the Transformer: sublayers, and the encoder's and decoder's layers made of them."""

from attnlab.layers.blocks import DecoderLayer, DecoderLayerOutput, EncoderLayer, EncoderLayerOutput, Norm
from attnlab.layers.sublayers import Activation, FeedForward, PostNorm, PreNorm, Residual, layer_norm

__all__ = [
    "Activation",
    "DecoderLayer",
    "DecoderLayerOutput",
    "EncoderLayer",
    "EncoderLayerOutput",
    "FeedForward",
    "Norm",
    "PostNorm",
    "PreNorm",
    "Residual",
    "layer_norm",
]
