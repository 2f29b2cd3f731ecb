"""Right answers to the exercises of lesson 1."""

import torch
from torch import nn
from torch.nn import functional as F


def states_by_cell(inputs, first_state, W, U, b):
    cell = nn.RNNCell(inputs.shape[-1], W.shape[0])
    weights = {"weight_ih": U, "weight_hh": W, "bias_ih": b, "bias_hh": torch.zeros_like(b)}
    states = [first_state]
    for step in inputs.unbind(dim=1):
        states.append(torch.func.functional_call(cell, weights, (step, states[-1])))
    return torch.stack(states[1:], dim=1)


def states_by_columns(inputs, first_state, W, U, b):
    result = torch.zeros(inputs.shape[0], inputs.shape[1], len(b))
    for row in range(inputs.shape[0]):
        h = first_state[row]
        for t in range(inputs.shape[1]):
            h = torch.tanh(W @ h + U @ inputs[row, t] + b)
            result[row, t] = h
    return result


def states_by_layer(inputs, first_state, W, U, b):
    layer = nn.RNN(inputs.shape[-1], len(b), batch_first=True)
    weights = {
        "weight_ih_l0": U,
        "weight_hh_l0": W,
        "bias_ih_l0": b / 2,
        "bias_hh_l0": b / 2,
    }
    return torch.func.functional_call(layer, weights, (inputs, first_state[None]))[0]


def bound_from_values(W, distance):
    return float(torch.linalg.svdvals(W)[0]) ** distance


def bound_from_square(W, distance):
    return torch.linalg.eigvalsh(W @ W.T)[-1].sqrt().pow(distance)


def bound_step_by_step(W, distance):
    bound = 1.0
    for _ in range(distance):
        bound *= torch.linalg.norm(W, 2).item()
    return bound


def gradient_by_backward(layer, inputs, direction):
    inputs.requires_grad_()
    output, _ = layer(inputs)
    output[:, -1].backward(direction)
    curve = inputs.grad.square().sum(-1).sqrt().mean(0)
    return torch.flip(curve, (0,)) / curve[-1]


def gradient_by_sum(layer, inputs, direction):
    x = inputs.detach().clone().requires_grad_()
    torch.einsum("bh,bh->", layer(x)[0][:, -1, :], direction).backward()
    norms = torch.linalg.vector_norm(x.grad, dim=2).sum(dim=0)  # a sum over the batch divides out
    return norms.flip(-1) / norms[-1]


def gradient_one_by_one(layer, inputs, direction):
    total = torch.zeros(inputs.shape[1], dtype=inputs.dtype)
    for x, d in zip(inputs, direction, strict=True):
        x = x[None].clone().requires_grad_()
        (g,) = torch.autograd.grad(layer(x)[1][0], x, d[None])
        total += g[0].norm(dim=1)
    return torch.stack([total[-1 - k] / total[-1] for k in range(len(total))])


def bias_by_quarters(lstm, value):
    H = lstm.hidden_size
    for name, parameter in lstm.named_parameters():
        if "bias" in name:
            parameter.data[H : 2 * H].fill_(value / 2)


def bias_by_attributes(lstm, value):
    with torch.no_grad():
        for layer in range(lstm.num_layers):
            for ending in ["", "_reverse"][: 1 + lstm.bidirectional]:
                _, ih, _, _ = getattr(lstm, f"bias_ih_l{layer}{ending}").chunk(4)
                _, hh, _, _ = getattr(lstm, f"bias_hh_l{layer}{ending}").chunk(4)
                ih.zero_()
                hh.fill_(value)
    return lstm


@torch.no_grad()
def bias_by_difference(lstm, value):
    biases = {name: p.view(4, -1)[1] for name, p in lstm.named_parameters() if name.startswith("bias")}
    for name, forget in biases.items():
        if "_ih_" in name:
            forget.copy_(value - biases[name.replace("_ih_", "_hh_")])


def judge_by_jacobian(program):
    inputs = torch.randn(2, 36, 3, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: program(x)[:, -1].sum(dim=0), inputs)
    return bool((jacobian.abs().sum(dim=0) > 0).all())


def judge_by_loop(program):
    x = torch.randn(4, 50, 3, requires_grad=True)
    program(x)[:, -1].pow(2).sum().backward()
    for row in x.grad:
        for t, vector in enumerate(row):
            assert vector.ne(0).all(), t


def judge_by_weights(program):
    x = torch.rand(3, 33, 3, dtype=torch.float64).add(0.1).requires_grad_(True)
    last = program(x)[:, -1]
    weights = torch.randn(last.shape, generator=torch.Generator().manual_seed(3), dtype=last.dtype)
    if torch.autograd.grad(last, x, weights)[0].eq(0).any():
        raise AssertionError


def loss_in_one_piece(embedding, layer, readout, tokens, targets):
    return F.cross_entropy(readout(layer(embedding(tokens))[0][:, -1]), targets)


def loss_from_last_state(embedding, layer, readout, tokens, targets):
    state = None
    for part in tokens.split(8, dim=1):
        _, state = layer(embedding(part), state)
    return F.nll_loss(readout(state[-1]).log_softmax(dim=-1), targets)


def loss_by_hand(embedding, layer, readout, tokens, targets):
    state = torch.zeros(1, len(tokens), layer.hidden_size)
    for t in range(tokens.shape[1]):
        output, state = layer(embedding(tokens[:, t : t + 1]), state)
    logits = readout(output[:, 0])
    return (logits.logsumexp(dim=-1) - logits.gather(1, targets[:, None])[:, 0]).mean()


RIGHT = {
    "recurrence_limits.rnn_states": [states_by_cell, states_by_columns, states_by_layer],
    "recurrence_limits.decay_bound": [bound_from_values, bound_from_square, bound_step_by_step],
    "recurrence_limits.remaining_gradient": [gradient_by_backward, gradient_by_sum, gradient_one_by_one],
    "recurrence_limits.set_forget_bias": [bias_by_quarters, bias_by_attributes, bias_by_difference],
    "recurrence_limits.catches_cut": [judge_by_jacobian, judge_by_loop, judge_by_weights],
    "recurrence_limits.answer_loss": [loss_in_one_piece, loss_from_last_state, loss_by_hand],
}
