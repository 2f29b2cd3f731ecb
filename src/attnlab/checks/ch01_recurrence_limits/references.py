r"""Right answers to the exercises of lesson 1, with switches that turn known mistakes on.

The recurrence is :math:`h_t = \tanh(W h_{t-1} + U x_t + b)`. Axes: B = batch, T = positions, D = width of an
input, H = width of the state. Each function here does what its exercise asks for; its keyword-only arguments
make it wrong in one known way each, and the chapter's catalogue says which is which.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...recurrent import Kind, recurrent_layer

Step = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Step] = {
    "tanh": torch.tanh,
    "identity": lambda x: x,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}


def rnn_states(
    inputs: Tensor,
    first_state: Tensor,
    W: Tensor,
    U: Tensor,
    b: Tensor,
    *,
    activation: str = "tanh",
    inside: str = "everything",
    transpose_w: bool = False,
    previous: str = "last state",
    start: str = "given",
    order: str = "forward",
    returned: str = "after",
    bias_times: float = 1.0,
) -> Tensor:
    """All states of a plain recurrent network: inputs (B, T, D), first_state (B, H) -> (B, T, H)."""
    state = first_state if start == "given" else torch.zeros_like(first_state)  # (B, H)
    origin = state
    positions = range(inputs.shape[1])
    states = []
    for t in reversed(positions) if order == "backward" else positions:
        before = state
        source = {"last state": state, "first state": origin, "none": torch.zeros_like(state)}[previous]
        from_state = source @ (W if transpose_w else W.T)  # (B, H)
        from_input = inputs[:, t] @ U.T  # (B, H)
        state = _joined(inside, ACTIVATIONS[activation], from_state, from_input, bias_times * b)
        if inside == "residual":
            state = before + state
        states.append(state if returned == "after" else before)
    return torch.stack(states, dim=1)  # (B, T, H)


def _joined(inside: str, act: Step, from_state: Tensor, from_input: Tensor, b: Tensor) -> Tensor:
    """The new state from three parts, (B, H), (B, H) and (H,); `inside` says what goes through the tanh."""
    if inside == "without bias":
        return act(from_state + from_input) + b
    if inside == "input only":
        return from_state + act(from_input + b)
    if inside == "each alone":
        return act(from_state) + act(from_input + b)
    return act(from_state + from_input + b)


QUANTITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "largest singular value": lambda w: torch.linalg.matrix_norm(w, ord=2),
    "largest eigenvalue": lambda w: torch.linalg.eigvals(w).abs().max(),
    "squared singular value": lambda w: torch.linalg.eigvalsh(w.T @ w).max(),
    "smallest singular value": lambda w: torch.linalg.svdvals(w)[-1],
    "sum of singular values": lambda w: torch.linalg.svdvals(w).sum(),
    "mean singular value": lambda w: torch.linalg.svdvals(w).mean(),
    "frobenius": lambda w: torch.linalg.matrix_norm(w),
    "largest entry": lambda w: w.abs().max(),
    "largest row": lambda w: w.abs().sum(dim=1).max(),
    "determinant": lambda w: torch.linalg.det(w).abs(),
}

POWERS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "distance": lambda base, distance: base**distance,
    "one more": lambda base, distance: base ** (distance + 1),
    "one less": lambda base, distance: base ** (distance - 1),
    "none": lambda base, distance: base,
    "times": lambda base, distance: base * distance,
}


def decay_bound(
    W: Tensor, distance: int, *, quantity: str = "largest singular value", power: str = "distance"
) -> Tensor:
    """What the gradient can be multiplied by, at most, over ``distance`` steps: W (H, H) -> a number."""
    return POWERS[power](QUANTITIES[quantity](W), distance)


OUTPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "last": lambda outputs: outputs[:, -1],
    "first": lambda outputs: outputs[:, 0],
    "all": lambda outputs: outputs.sum(dim=1),
    "last example": lambda outputs: outputs[-1, -1].expand(outputs.shape[0], -1),
}

NORMS: dict[str, Callable[[Tensor], Tensor]] = {  # (B, T, D) -> (T,)
    "mean of norms": lambda g: g.norm(dim=-1).mean(dim=0),
    "norm of mean": lambda g: g.mean(dim=0).norm(dim=-1),
    "plain sum": lambda g: g.sum(dim=-1).mean(dim=0),
    "absolute values": lambda g: g.abs().sum(dim=-1).mean(dim=0),
    "squares": lambda g: g.square().sum(dim=-1).mean(dim=0),
    "largest of batch": lambda g: g.norm(dim=-1).amax(dim=0),
    "first example": lambda g: g.norm(dim=-1)[0],
    "rows first": lambda g: (g.norm(dim=-1) / g.norm(dim=-1)[:, -1:]).mean(dim=0),
}


def remaining_gradient(
    layer: nn.Module,
    inputs: Tensor,
    direction: Tensor,
    *,
    output: str = "last",
    norm: str = "mean of norms",
    flipped: bool = True,
    divide_by: str = "nearest",
    use_direction: bool = True,
) -> Tensor:
    """Gradient norm by distance from the last position: inputs (B, T, D), direction (B, H) -> (T,)."""
    inputs = inputs.detach().clone().requires_grad_()
    outputs, _ = layer(inputs)  # (B, T, H)
    chosen = OUTPUTS[output](outputs)  # (B, H)
    weight = direction if use_direction else torch.ones_like(direction)
    (gradient,) = torch.autograd.grad(chosen, inputs, weight)  # (B, T, D)
    norms = NORMS[norm](gradient)  # (T,)
    if norm == "rows first" and divide_by == "nearest":
        divide_by = "nothing"
    scale = {
        "nearest": norms[-1],
        "farthest": norms[0],
        "largest": norms.abs().max(),
        "total": norms.sum(),
        "nothing": torch.ones_like(norms[0]),
    }[divide_by]
    curve = norms / scale
    return curve.flip(0) if flipped else curve


GATES = {"input": 0, "forget": 1, "cell": 2, "output": 3}


def set_forget_bias(
    lstm: nn.LSTM,
    value: float,
    *,
    gate: str = "forget",
    written: str = "first, second to zero",
    where: str = "everywhere",
    how: str = "in place",
    also: str = "nothing",
) -> None:
    """Make the forget gate's bias ``value`` in every layer and direction, in place."""
    target = copy.deepcopy(lstm) if how == "a copy" else lstm
    size = lstm.hidden_size
    chosen = slice(None) if gate == "all" else slice(GATES[gate] * size, (GATES[gate] + 1) * size)
    for first, second in _bias_names(target, where):
        pair = [getattr(target, first).detach().clone(), getattr(target, second).detach().clone()]
        if also == "other gates to zero":
            pair = [torch.zeros_like(bias) for bias in pair]
        pair[0][chosen], pair[1][chosen] = _pair_for(written, value, pair[0][chosen], pair[1][chosen])
        for name, bias in zip((first, second), pair, strict=True):
            _store(target, name, bias, how)


def _bias_names(lstm: nn.LSTM, where: str) -> list[tuple[str, str]]:
    layers = range(lstm.num_layers)
    layers = {"first layer": layers[:1], "last layer": layers[-1:]}.get(where, layers)
    directions = ["", "_reverse"] if lstm.bidirectional and where != "forward only" else [""]
    endings = [f"l{layer}{direction}" for layer in layers for direction in directions]
    return [(f"bias_ih_{ending}", f"bias_hh_{ending}") for ending in endings]


def _pair_for(written: str, value: float, first: Tensor, second: Tensor) -> tuple[Any, Any]:
    """What the two biases of the gate become; PyTorch adds them."""
    return {
        "first, second to zero": (value, 0.0),
        "both": (value, value),
        "first only": (value, second),
        "second only": (first, value),
        "added": (first + value, second),
        "gate value": (torch.sigmoid(torch.tensor(value)), 0.0),
        "minus": (-value, 0.0),
    }[written]


def _store(lstm: nn.LSTM, name: str, bias: Tensor, how: str) -> None:
    if how == "new parameters":
        setattr(lstm, name, nn.Parameter(bias))
        return
    parameter = getattr(lstm, name)
    with torch.no_grad():
        parameter.copy_(bias)
    if how == "frozen":
        parameter.requires_grad_(False)


def answer_loss(
    embedding: nn.Module,
    layer: nn.Module,
    readout: nn.Module,
    tokens: Tensor,
    targets: Tensor,
    *,
    carried: str = "state",
    read_at: str = "last",
    scores: str = "logits",
    chunk: int = 8,
) -> Tensor:
    """Cross-entropy of the answer that is read after the last token: tokens (B, T), targets (B,) -> ()."""
    state: Any = None
    outputs = []
    for part in embedding(tokens).split(chunk, dim=1):
        if carried == "nothing":
            state = None
        output, state = layer(part, state)  # (B, chunk, H)
        if carried == "detached":
            state = state.detach()
        outputs.append(output)
    states = torch.cat(outputs, dim=1)  # (B, T, H)
    read = {
        "last": lambda: states[:, -1],
        "first": lambda: states[:, 0],
        "before last": lambda: states[:, -2],
        "mean": lambda: states.mean(dim=1),
        "last example": lambda: states[-1, -1].expand(states.shape[0], -1),
    }[read_at]()
    logits = readout(read)  # (B, num_classes)
    return {
        "logits": lambda: F.cross_entropy(logits, targets),
        "softmax twice": lambda: F.cross_entropy(logits.softmax(-1), targets),
        "nll of softmax": lambda: F.nll_loss(logits.softmax(-1), targets),
        "softmax over batch": lambda: F.nll_loss(logits.log_softmax(0), targets),
        "sum": lambda: F.cross_entropy(logits, targets, reduction="sum"),
        "negated": lambda: -F.cross_entropy(logits, targets),
    }[scores]()


READER_WIDTH = 3  # of the inputs that the programs of the test-writing exercise read
_READER_STATE = 5


@functools.cache
def _fixed(kind: Kind, seed: int, scale: float, dtype: torch.dtype) -> nn.Module:
    """A layer whose weights are the same for all and take no gradient of their own."""
    generator = torch.Generator().manual_seed(seed)
    layer = recurrent_layer(kind, READER_WIDTH, _READER_STATE)
    for parameter in layer.parameters():
        parameter.requires_grad_(False)
        parameter.copy_(scale * (2 * torch.rand(parameter.shape, generator=generator) - 1))
    return layer.to(dtype)


def read_all(inputs: Tensor, *, cut: str = "nowhere") -> Tensor:
    """All states of a small plain network with fixed weights: inputs (B, T, 3) -> (B, T, 5).

    cut: where the gradient is cut. The states stay the same, except where they are thrown away.
    """
    layer = _fixed("rnn", 1, 0.8, inputs.dtype)
    inputs = _cut_inputs(inputs, cut)
    state = inputs.new_zeros(1, inputs.shape[0], _READER_STATE)
    outputs = []
    for part in torch.split(inputs, {"every step": 1}.get(cut, 16), dim=1):
        if cut in ("every step", "every 16"):
            state = state.detach()
        if cut == "thrown away":
            state = torch.zeros_like(state)
        output, state = layer(part, state)
        outputs.append(output)
    return torch.cat(outputs, dim=1)  # (B, T, H)


def _cut_inputs(inputs: Tensor, cut: str) -> Tensor:
    """The inputs, with some of their numbers cut off from the gradient."""
    keep = torch.ones(inputs.shape, dtype=torch.bool)
    length = inputs.shape[1]
    if cut == "window":
        keep[:, : max(0, length - 10)] = False
    elif cut == "first input":
        keep[:, 0] = False
    elif cut == "one position":
        keep[:, length // 2] = False
    elif cut == "other examples":
        keep[1:] = False
    elif cut == "one feature":
        keep[:, :, 1] = False
    return torch.where(keep, inputs, inputs.detach())


def _reader(kind: Kind, scale: float) -> Step:
    def read(inputs: Tensor) -> Tensor:
        outputs: Tensor = _fixed(kind, 2, scale, inputs.dtype)(inputs)[0]
        return outputs

    return read


def _averages(inputs: Tensor) -> Tensor:
    """No recurrence at all: each position sees the mean of all inputs up to its own."""
    counts = torch.arange(1, inputs.shape[1] + 1, dtype=inputs.dtype)[:, None]
    return torch.tanh(inputs.cumsum(dim=1) / counts)


OTHER_READERS: tuple[Step, ...] = (
    _reader("gru", 0.8),
    _reader("lstm", 0.8),
    _reader("rnn", 0.4),  # its gradient is tiny after some steps, and not zero
    _averages,
)
