r"""Recurrent baselines: what attention is compared with.

A recurrent layer reads a sequence one position at a time and keeps all that it knows in one state:

.. math::
    h_t = \tanh(W h_{t-1} + U x_t + b) \qquad\text{(Elman 1990)}

An LSTM adds a cell, :math:`c_t = f_t \odot c_{t-1} + i_t \odot g_t`, whose forget gate
:math:`f_t = \sigma(\dots + b_f)` says how much of it stays. The initialisations here choose :math:`b_f`.

Axes: B = batch, T = positions, D = width of an input, H = width of the state. PyTorch stacks the gates of an
LSTM as (input, forget, cell, output) and those of a GRU as (reset, update, new); every layer has two bias
vectors, and what counts is their sum.
"""

import math
from collections.abc import Callable
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

Kind = Literal["rnn", "gru", "lstm"]
GatedLayer = TypeVar("GatedLayer", nn.LSTM, nn.GRU)

_LAYERS: dict[str, type[nn.RNN] | type[nn.GRU] | type[nn.LSTM]] = {
    "rnn": nn.RNN,
    "gru": nn.GRU,
    "lstm": nn.LSTM,
}


def recurrent_layer(kind: Kind, input_size: int, hidden_size: int) -> nn.RNN | nn.GRU | nn.LSTM:
    """One layer, batch first, with PyTorch's default initialisation: all uniform within ±1/√H.

    Args:
        kind: ``"rnn"`` (tanh; Elman 1990), ``"gru"`` (Cho et al. 2014) or ``"lstm"`` (Hochreiter &
            Schmidhuber 1997, with the forget gate of Gers et al. 2000).
        input_size: D.
        hidden_size: H.

    Returns:
        A layer that maps (B, T, D) to the states (B, T, H) and the last state.

    Raises:
        ValueError: if ``kind`` is another word.
    """
    if kind not in _LAYERS:
        raise ValueError(f"kind: expected one of {', '.join(_LAYERS)}, got {kind!r}")
    return _LAYERS[kind](input_size, hidden_size, batch_first=True)


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


class RecurrentReader(nn.Module):
    """Reads a sequence of tokens with a recurrent layer and answers from its last state.

    Args:
        layer: an ``nn.RNN``, ``nn.GRU`` or ``nn.LSTM`` that is batch first.
        num_tokens: how many different tokens there are.
        num_classes: how many different answers there are.

    Raises:
        ValueError: if the layer is not batch first: it would read across the batch.
    """

    def __init__(self, layer: nn.RNN | nn.GRU | nn.LSTM, num_tokens: int, num_classes: int) -> None:
        super().__init__()
        if not layer.batch_first:
            raise ValueError("layer: expected batch_first=True, got a layer that wants (T, B, D)")
        self.embedding = nn.Embedding(num_tokens, layer.input_size)
        self.layer = layer
        self.readout = nn.Linear(layer.hidden_size * (2 if layer.bidirectional else 1), num_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (B, T) -> logits (B, num_classes)."""
        states, _ = self.layer(self.embedding(tokens))  # (B, T, H)
        logits: Tensor = self.readout(states[:, -1])  # (B, num_classes)
        return logits


def gradient_by_distance(
    last_output: Callable[[Tensor], Tensor], inputs: Tensor, generator: torch.Generator
) -> Tensor:
    """How much the last output depends on each earlier input, measured by gradients.

    One random direction of the output is followed back to every input, and the norm of what arrives is
    averaged over the batch. Use float64: in float32 the gradient of a plain RNN is zero after some sixty
    steps.

    Args:
        last_output: maps inputs (B, T, D) to the output of the last position (B, H).
        inputs: (B, T, D), floating point.
        generator: draws the direction.

    Returns:
        (T,): entry ``k`` is the norm for the input ``k`` steps before the last one, divided by entry 0.

    Raises:
        ValueError: if ``inputs`` is not (B, T, D), or the last output does not depend on the last input.

    Source: the sensitivity studied by Hochreiter 1991, Bengio et al. 1994 and Pascanu et al. 2013, section 2.
    """
    if inputs.dim() != 3:
        raise ValueError(f"inputs: expected (B, T, D), got {tuple(inputs.shape)}")
    inputs = inputs.detach().requires_grad_()
    output = last_output(inputs)  # (B, H)
    direction = torch.randn(output.shape, generator=generator, dtype=output.dtype, device=output.device)
    (gradient,) = torch.autograd.grad(output, inputs, direction)  # (B, T, D)
    norms: Tensor = gradient.norm(dim=-1).mean(dim=0).flip(0)  # (T,) from the last position backwards
    nearest = norms[0].item()
    if nearest == 0 or not math.isfinite(nearest):
        raise ValueError(f"last_output: expected a gradient at the last input to compare with, got {nearest}")
    return norms / nearest


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
