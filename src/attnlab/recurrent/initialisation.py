r"""Initialisations of the gates: how long a layer remembers before it has learnt anything.

An LSTM adds a cell, :math:`c_t = f_t \odot c_{t-1} + i_t \odot g_t`, whose forget gate
:math:`f_t = \sigma(\dots + b_f)` says how much of it stays. The functions here choose :math:`b_f`.

PyTorch stacks the gates of an LSTM as (input, forget, cell, output) and those of a GRU as (reset, update,
new); every layer has two bias vectors, and what counts is their sum.
"""

from typing import TypeVar

import torch
from torch import Tensor, nn

__all__ = ["GatedLayer", "set_chrono_bias", "set_forget_bias"]

GatedLayer = TypeVar("GatedLayer", nn.LSTM, nn.GRU)


@torch.no_grad()
def set_forget_bias(lstm: nn.LSTM, value: float) -> nn.LSTM:
    """Set the forget gate's bias of every layer of an LSTM, in place, and return the LSTM.

    The second bias vector of the gate becomes zero, so that the sum of the two is ``value`` and not twice as
    much.

    Args:
        lstm: the layer to change.
        value: the bias; before training, a gate is then open by about ``sigmoid(value)``.

    Raises:
        TypeError: if ``lstm`` is not an ``nn.LSTM``.
        ValueError: if it has no biases.

    Source: Gers et al. 2000; Jozefowicz et al. 2015, who advise 1.
    """
    if not isinstance(lstm, nn.LSTM):
        raise TypeError(f"lstm: expected an nn.LSTM, which has a forget gate, got {type(lstm).__name__}")
    forget = slice(lstm.hidden_size, 2 * lstm.hidden_size)
    for input_bias, state_bias in _bias_pairs("lstm", lstm):
        input_bias[forget] = value
        state_bias[forget] = 0.0
    return lstm


@torch.no_grad()
def set_chrono_bias(layer: GatedLayer, longest: int, generator: torch.Generator | None = None) -> GatedLayer:
    """Chrono initialisation, in place: spread the memories of the units over 2 … ``longest`` steps.

    A gate with bias ``log(u)`` is open by ``u / (1 + u)`` and keeps what it holds for about ``1 + u`` steps.
    Each unit draws its own ``u``, uniform between 1 and ``longest - 1``. An LSTM's input gate gets the
    opposite bias; in a GRU the update gate does both jobs. All other biases become zero, a choice of ours.

    Args:
        layer: an ``nn.LSTM`` or ``nn.GRU``, with any number of layers and directions.
        longest: the longest dependency to expect, in steps.
        generator: the source of ``u``; PyTorch's global one where ``None``.

    Returns:
        The same layer.

    Raises:
        TypeError: if the layer is neither an LSTM nor a GRU.
        ValueError: if ``longest`` < 2, or the layer has no biases.

    Source: Tallec & Ollivier 2018, section 2.
    """
    if not isinstance(layer, nn.LSTM | nn.GRU):
        raise TypeError(f"layer: expected an nn.LSTM or nn.GRU, which have gates, got {type(layer).__name__}")
    if longest < 2:
        raise ValueError(f"longest: expected at least 2 steps, got {longest}")
    hidden = layer.hidden_size
    for input_bias, state_bias in _bias_pairs("layer", layer):
        u = torch.empty(hidden).uniform_(1.0, longest - 1.0, generator=generator)  # (H,)
        log_u = u.log().to(input_bias)
        input_bias.zero_()
        state_bias.zero_()
        input_bias[hidden : 2 * hidden] = log_u  # an LSTM's forget gate, or a GRU's update gate
        if isinstance(layer, nn.LSTM):
            input_bias[:hidden] = -log_u  # its input gate: what is kept longer is written more slowly
    return layer


def _bias_pairs(name: str, layer: nn.RNNBase) -> list[tuple[Tensor, Tensor]]:
    """The two bias vectors of each layer and direction."""
    if not layer.bias:
        raise ValueError(f"{name}: expected a layer with biases, got one made with bias=False")
    parameters = dict(layer.named_parameters())
    return [
        (parameters[key], parameters[key.replace("bias_ih", "bias_hh")])
        for key in parameters
        if key.startswith("bias_ih")
    ]
