"""The encoder-decoder Transformer: its configuration, the model, and decoding.

==================  ===========================================================================
module              holds
==================  ===========================================================================
``config``          sizes and choices in one frozen record; the paper's two models
``stacks``          encoder and decoder without embeddings, equal to :class:`torch.nn.Transformer`
``model``           the whole: token ids in, logits out
``decoding``        greedy and beam search
``beams``           what a beam search holds
``shift``           teacher forcing: what the decoder reads, and what it has to say
``torch_weights``   sizes and weights out of :class:`torch.nn.Transformer`
==================  ===========================================================================

Source: Vaswani et al., "Attention Is All You Need", 2017.
"""

from attnlab.transformer.beams import BeamResult
from attnlab.transformer.config import TransformerConfig, paper_base, paper_big
from attnlab.transformer.decoding import Translator, beam_search, greedy_decode
from attnlab.transformer.model import Decoded, Encoded, Transformer
from attnlab.transformer.shift import pad_by_length, shift_right, teacher_forcing_pair
from attnlab.transformer.stacks import DecoderCache, DecoderOutput, EncoderDecoder, EncoderOutput
from attnlab.transformer.torch_weights import config_from_torch

__all__ = [
    "BeamResult",
    "DecoderCache",
    "DecoderOutput",
    "Decoded",
    "Encoded",
    "EncoderDecoder",
    "EncoderOutput",
    "Transformer",
    "TransformerConfig",
    "Translator",
    "beam_search",
    "config_from_torch",
    "greedy_decode",
    "pad_by_length",
    "paper_base",
    "paper_big",
    "shift_right",
    "teacher_forcing_pair",
]
