r"""Cross-entropy over real tokens: padding counts for nothing, neither in the sum nor in the number.

For the log-probabilities :math:`\log p` and the target distribution :math:`q` of each of the :math:`N` real
tokens,

.. math:: L = -\frac{1}{N} \sum_{n=1}^{N} \sum_{v=1}^{V} q_{nv} \log p_{nv}

in nats. All is computed from ``log_softmax``, so that no logarithm of zero is ever taken, and in float32
where the logits are of half precision.

**Label smoothing** takes the share :math:`\varepsilon` away from the target. Two conventions are in use.
:func:`token_cross_entropy` follows the one of ``torch.nn.functional.cross_entropy``, which is that of Szegedy
et al. 2016, section 7: :math:`\varepsilon / V` for *every* class, the target and the padding's own column
included. :func:`smoothed_targets` gives the other, known from annotated code of the Transformer:
:math:`\varepsilon / (V - 2)` for every class but the target and padding.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["TokenLoss", "cross_entropy", "smoothed_targets", "token_cross_entropy", "token_loss"]


class TokenLoss(NamedTuple):
    """A loss that still knows over how many tokens it goes, so that batches of unequal size add up rightly.

    Attributes:
        total: the sum over the real tokens, a scalar, in nats.
        num_tokens: how many real tokens there are, an integer scalar.
    """

    total: Tensor
    num_tokens: Tensor

    def mean(self) -> Tensor:
        """The mean over the real tokens; 0, with a gradient of zeros, where there are none."""
        return self.total / self.num_tokens.clamp(min=1)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats: logits (…, V) against targets (…), the classes on the *last* axis.

    PyTorch's own function wants the classes on the second axis, which is silently wrong for (B, T, V)
    wherever T equals V.

    Raises:
        ValueError: if the shapes do not fit.
    """
    _check_shapes(logits, targets)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def token_loss(logits: Tensor, targets: Tensor, *, pad: int = 0, label_smoothing: float = 0.0) -> TokenLoss:
    """The sum behind :func:`token_cross_entropy`, and the number of tokens it goes over.

    Give this one to :func:`attnlab.training.fit` where it collects micro-batches. Arguments and errors are
    those of :func:`token_cross_entropy`.
    """
    _check_shapes(logits, targets)
    _check_smoothing(label_smoothing)
    num_classes = logits.shape[-1]
    real = targets != pad  # (…)
    _check_targets(targets[real], num_classes)
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    log_p = logits[real].log_softmax(dim=-1)  # (N, V)
    of_target = log_p.gather(-1, targets[real][:, None]).squeeze(-1)  # (N,)
    each = -(1 - label_smoothing) * of_target
    if label_smoothing > 0:
        each = each - label_smoothing * log_p.mean(dim=-1)
    return TokenLoss(each.sum(), real.sum())


def token_cross_entropy(
    logits: Tensor, targets: Tensor, *, pad: int = 0, label_smoothing: float = 0.0
) -> Tensor:
    """Mean cross-entropy over the tokens that are not padding, in nats.

    Args:
        logits: ``(…, V)``, such as ``(B, T, V)``; the classes on the last axis. What stands at padding is
            never looked at, not even where it is NaN, and gets a gradient of zero.
        targets: ``(…)``, ids from 0 to V - 1, or ``pad``.
        pad: the id of padding. It need not be a class: -100 is PyTorch's choice, and an id that occurs
            nowhere means that there is no padding.
        label_smoothing: the share ε of each target that is spread evenly over *all* V classes, PyTorch's
            convention: the target keeps 1 - ε + ε / V. See :func:`smoothed_targets` for the other one.

    Returns:
        A scalar; float32 for logits of half precision. A batch of nothing but padding gives 0.0 and a
        gradient of zeros, where PyTorch's function gives NaN.

    Raises:
        TypeError: if the targets are not ``int64``.
        ValueError: if the shapes do not fit, a target is no class, or the smoothing lies outside 0 to 1.
    """
    return token_loss(logits, targets, pad=pad, label_smoothing=label_smoothing).mean()


def smoothed_targets(targets: Tensor, num_classes: int, *, pad: int = 0, label_smoothing: float) -> Tensor:
    """The distribution to aim at, in the convention that never puts anything on padding.

    The target gets 1 - ε; the other classes share ε evenly, but for padding, whose column stays zero: each
    gets ε / (V - 2). Where ``pad`` is no class, each of the V - 1 others gets ε / (V - 1). A target that is
    padding gives a row of zeros. For V = 5, pad 0, ε = 0.4, target 2: ``[0, .1333, .6, .1333, .1333]``.

    Args:
        targets: ``(…)``, ids from 0 to V - 1, or ``pad``.
        num_classes: V.
        pad: the id of padding.
        label_smoothing: ε.

    Returns:
        ``(…, V)``, float32; every row sums to 1, or to 0 at padding.

    Raises:
        TypeError: if the targets are not ``int64``.
        ValueError: if a target is no class, the smoothing lies outside 0 to 1, or there is no other class
            that could take a share.

    Source: the convention of "The Annotated Transformer" (Rush 2018) for Vaswani et al. 2017, section 5.4.
    """
    _check_smoothing(label_smoothing)
    real = targets != pad  # (…)
    _check_targets(targets[real], num_classes)
    pad_is_a_class = 0 <= pad < num_classes
    others = num_classes - (2 if pad_is_a_class else 1)
    if others < 1 and label_smoothing > 0:
        raise ValueError(
            f"num_classes: expected a class besides the target and padding to take a share, got {num_classes}"
        )
    target = targets.masked_fill(~real, 0)[..., None]  # (…, 1), any class will do at padding
    shares = torch.full(
        (*targets.shape, num_classes), label_smoothing / max(others, 1), device=targets.device
    )
    shares = shares.scatter(-1, target, 1 - label_smoothing)  # (…, V)
    if pad_is_a_class:
        shares[..., pad] = 0.0
    return shares * real[..., None]


def _check_shapes(logits: Tensor, targets: Tensor) -> None:
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"targets: expected {tuple(logits.shape[:-1])}, the shape of the logits without their last axis, "
            f"got {tuple(targets.shape)}"
        )


def _check_smoothing(label_smoothing: float) -> None:
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing: expected a share between 0 and 1, got {label_smoothing}")


def _check_targets(real_targets: Tensor, num_classes: int) -> None:
    """``real_targets`` (N,) are those that are not padding."""
    if real_targets.dtype != torch.int64:
        raise TypeError(f"targets: expected int64, got {real_targets.dtype}")
    wrong = (real_targets < 0) | (real_targets >= num_classes)
    if bool(wrong.any()):
        raise ValueError(
            f"targets: expected padding or classes from 0 to {num_classes - 1}, "
            f"got {int(real_targets[wrong][0])}"
        )
