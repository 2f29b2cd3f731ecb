"""Weights that others have trained, in this course's own encoder: the sentence encoder all-MiniLM-L6-v2.

``files`` finds the model's folder and refuses weights that are not the ones expected; ``encoder`` is BERT's
encoder built of :class:`attnlab.layers.EncoderLayer`; ``wordpiece`` cuts words into the pieces that the model
knows. Nothing is downloaded here.

Sources: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
2019; Wang et al., "MiniLM: Deep Self-Attention Distillation for Task-Agnostic Compression of Pre-Trained
Transformers", 2020.
"""

from attnlab.pretrained.encoder import EncoderConfig, TextEncoder, TextEncoderOutput, load_encoder
from attnlab.pretrained.files import FOLDER_VARIABLE, MINILM_PACKAGE, MINILM_SHA256, find_minilm, read_weights
from attnlab.pretrained.wordpiece import WordPieces

__all__ = [
    "FOLDER_VARIABLE",
    "MINILM_PACKAGE",
    "MINILM_SHA256",
    "EncoderConfig",
    "TextEncoder",
    "TextEncoderOutput",
    "WordPieces",
    "find_minilm",
    "load_encoder",
    "read_weights",
]
