"""A decoder-only Transformer in the manner of GPT.

================  =========================================================================
module            holds
================  =========================================================================
``config``        the sizes
``model``         the model: tokens to logits, with or without a cache
``sampling``      temperature, top-k and top-p: logits to a token
``generation``    token after token
================  =========================================================================
"""

from attnlab.cache import KeyValueCache
from attnlab.decoder_only.config import DecoderOnlyConfig
from attnlab.decoder_only.generation import generate
from attnlab.decoder_only.model import DecoderOnly, DecoderOnlyOutput
from attnlab.decoder_only.sampling import apply_temperature, choose_tokens, keep_top_k, keep_top_p

__all__ = [
    "DecoderOnly",
    "DecoderOnlyConfig",
    "DecoderOnlyOutput",
    "KeyValueCache",
    "apply_temperature",
    "choose_tokens",
    "generate",
    "keep_top_k",
    "keep_top_p",
]
