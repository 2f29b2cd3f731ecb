"""One small training loop, for any model and any stream of ``(inputs, targets)``, and what belongs to it.

``losses`` average over real tokens, ``schedules`` give the learning rate of each step, ``loop`` holds
:func:`fit`, and ``checkpoint`` writes a run to a file from which it goes on as if it had never stopped
(``storage`` is the file itself, in the safetensors layout; ``optimizer_state`` what an optimizer remembers).
"""

from .checkpoint import (
    Checkpoint,
    load_checkpoint,
    load_weights,
    read_config,
    save_checkpoint,
    save_weights,
)
from .loop import History, NotFiniteError, fit
from .losses import TokenLoss, cross_entropy, smoothed_targets, token_cross_entropy, token_loss
from .schedules import constant, warmup_cosine, warmup_inverse_sqrt

__all__ = [
    "Checkpoint",
    "History",
    "NotFiniteError",
    "TokenLoss",
    "constant",
    "cross_entropy",
    "fit",
    "load_checkpoint",
    "load_weights",
    "read_config",
    "save_checkpoint",
    "save_weights",
    "smoothed_targets",
    "token_cross_entropy",
    "token_loss",
    "warmup_cosine",
    "warmup_inverse_sqrt",
]
