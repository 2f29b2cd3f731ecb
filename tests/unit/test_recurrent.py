"""The recurrent baselines: their layers, their initialisations, the gradient by distance."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attnlab.recurrent import (
    RecurrentReader,
    gradient_by_distance,
    recurrent_layer,
    set_chrono_bias,
    set_forget_bias,
)

KINDS = ("rnn", "gru", "lstm")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("kind", "expected"), [("rnn", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)])
def test_a_layer_is_batch_first_with_pytorchs_initialisation(kind: str, expected: type[nn.Module]) -> None:
    torch.manual_seed(0)
    layer = recurrent_layer(kind, 3, 5)  # type: ignore[arg-type]
    torch.manual_seed(0)
    reference = expected(3, 5, batch_first=True)
    assert type(layer) is expected
    assert layer(torch.zeros(2, 4, 3))[0].shape == (2, 4, 5)
    for ours, theirs in zip(layer.parameters(), reference.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_another_kind_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="kind: expected one of rnn, gru, lstm, got 'elman'"):
        recurrent_layer("elman", 3, 5)  # type: ignore[arg-type]


def gate_preactivations(lstm: nn.LSTM) -> Tensor:
    """What an LSTM of silenced weights adds in each gate: (4, hidden), the two biases together."""
    return (lstm.bias_ih_l0 + lstm.bias_hh_l0).detach().reshape(4, -1)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(hidden=st.integers(1, 9), value=st.floats(-3, 6))
def test_the_forget_gate_gets_the_bias_once_and_nothing_else_changes(hidden: int, value: float) -> None:
    lstm = nn.LSTM(3, hidden)
    before = gate_preactivations(lstm).clone()
    weights = lstm.weight_hh_l0.clone()
    assert set_forget_bias(lstm, value) is lstm
    after = gate_preactivations(lstm)
    torch.testing.assert_close(after[1], torch.full((hidden,), value))
    assert torch.equal(after[[0, 2, 3]], before[[0, 2, 3]])
    assert torch.equal(lstm.weight_hh_l0, weights)


def cell_after(lstm: nn.LSTM, steps: int) -> Tensor:
    """What is left of a cell state of ones after `steps` zero inputs, all weights being zero."""
    with torch.no_grad():
        for name, parameter in lstm.named_parameters():
            if name.startswith("weight"):
                parameter.zero_()
        # The cell's own candidate must stay out, or it would add to what is left.
        lstm.bias_ih_l0[2 * lstm.hidden_size : 3 * lstm.hidden_size] = 0.0
        lstm.bias_hh_l0[2 * lstm.hidden_size : 3 * lstm.hidden_size] = 0.0
        state = torch.zeros(1, 1, lstm.hidden_size), torch.ones(1, 1, lstm.hidden_size)
        _, (_, cell) = lstm(torch.zeros(1, steps, lstm.input_size), state)
    return cell.flatten()


def test_the_bias_decides_how_much_of_the_cell_is_left() -> None:
    left = cell_after(set_forget_bias(nn.LSTM(2, 3, batch_first=True), 2.0), steps=7)
    expected = torch.sigmoid(torch.tensor(2.0)) ** 7
    torch.testing.assert_close(left, expected.expand(3))


@settings(deadline=None, derandomize=True, max_examples=25)
@given(longest=st.integers(2, 500), seed=st.integers(0, 99))
def test_chrono_spreads_memories_up_to_the_longest(longest: int, seed: int) -> None:
    lstm = set_chrono_bias(nn.LSTM(2, 64), longest, generator(seed))
    input_gate, forget_gate, candidate, output_gate = gate_preactivations(lstm)
    memory = 1 / (1 - torch.sigmoid(forget_gate.double()))
    assert memory.min() >= 2 - 1e-3
    assert memory.max() <= longest + 1e-3 * longest
    torch.testing.assert_close(input_gate, -forget_gate)
    assert not candidate.any()
    assert not output_gate.any()


def test_chrono_memories_are_uniform_and_not_their_logarithms() -> None:
    lstm = set_chrono_bias(nn.LSTM(2, 4000), 101, generator())
    memory = 1 / (1 - torch.sigmoid(gate_preactivations(lstm)[1].double()))
    assert memory.mean().item() == pytest.approx(51.5, abs=2.5)  # five standard errors
    assert memory.quantile(0.25).item() == pytest.approx(26.75, abs=3.5)


def test_a_chrono_gru_keeps_with_its_update_gate() -> None:
    gru = set_chrono_bias(nn.GRU(2, 50, batch_first=True), 20, generator())
    with torch.no_grad():
        for name, parameter in gru.named_parameters():
            if name.startswith("weight"):
                parameter.zero_()
        _, state = gru(torch.zeros(1, 1, 2), torch.ones(1, 1, 50))
    memory = 1 / (1 - state.flatten().double())  # the state keeps f of itself, and the candidate is zero
    assert memory.min() >= 2 - 1e-3
    assert memory.max() <= 20.01
    assert memory.std() > 3


def test_every_layer_and_direction_is_initialised() -> None:
    lstm = set_chrono_bias(nn.LSTM(2, 6, num_layers=2, bidirectional=True), 30, generator())
    forget = [p[6:12] for name, p in lstm.named_parameters() if name.startswith("bias_ih")]
    assert len(forget) == 4
    assert all((bias > 0).all() for bias in forget)
    assert not torch.equal(forget[0], forget[1])
    lstm = set_forget_bias(lstm, 1.5)
    for name, p in lstm.named_parameters():
        if name.startswith("bias_ih"):
            assert (p[6:12] == 1.5).all()


def test_the_generator_alone_decides_the_chrono_biases() -> None:
    one, two, other = (set_chrono_bias(nn.LSTM(2, 6), 30, generator(s)).bias_ih_l0 for s in (3, 3, 4))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_parameters_stay_trainable() -> None:
    lstm = set_chrono_bias(set_forget_bias(nn.LSTM(2, 3), 1.0), 5)
    lstm(torch.ones(4, 2))[0].sum().backward()
    assert lstm.bias_ih_l0.requires_grad
    assert lstm.bias_ih_l0.grad is not None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: set_forget_bias(nn.GRU(2, 3), 1.0), TypeError, "lstm: expected an nn.LSTM.*got GRU"),
        (lambda: set_forget_bias(nn.LSTM(2, 3, bias=False), 1.0), ValueError, "lstm: .*bias=False"),
        (lambda: set_chrono_bias(nn.RNN(2, 3), 9), TypeError, "layer: .*got RNN"),
        (lambda: set_chrono_bias(nn.LSTM(2, 3), 1), ValueError, "longest: expected at least 2 steps, got 1"),
        (lambda: set_chrono_bias(nn.GRU(2, 3, bias=False), 9), ValueError, "layer: .*bias=False"),
        (lambda: RecurrentReader(nn.LSTM(2, 3), 5, 4), ValueError, "layer: expected batch_first=True"),
    ],
)
def test_what_cannot_be_done_is_refused(call, error: type[Exception], message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=message):
        call()


def test_chrono_leaves_the_other_biases_at_zero() -> None:
    gru = set_chrono_bias(nn.GRU(2, 4), 30, generator())
    lstm = set_chrono_bias(nn.LSTM(2, 4), 30, generator())
    assert not gru.bias_hh_l0.any() and not lstm.bias_hh_l0.any()
    assert not gru.bias_ih_l0[[0, 1, 2, 3, 8, 9, 10, 11]].any()
    assert (gru.bias_ih_l0[4:8] > 0).all()
    assert not lstm.bias_ih_l0[8:].any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_answers_from_all_tokens_of_its_own_row(kind: str) -> None:
    torch.manual_seed(0)
    reader = RecurrentReader(recurrent_layer(kind, 6, 8), num_tokens=5, num_classes=3)  # type: ignore[arg-type]
    tokens = torch.tensor([[0, 1, 2, 3], [4, 3, 2, 1]])
    logits = reader(tokens)
    assert logits.shape == (2, 3)
    for place in range(4):
        changed = tokens.clone()
        changed[0, place] = 4
        moved = (reader(changed) - logits).abs().amax(dim=-1)
        assert moved[0] > 1e-5  # every token counts, the first and the last too
        assert moved[1] == 0  # and the other row does not


def test_a_reader_may_be_bidirectional() -> None:
    reader = RecurrentReader(nn.LSTM(4, 3, batch_first=True, bidirectional=True), 5, 2)
    assert reader(torch.zeros(2, 6, dtype=torch.int64)).shape == (2, 2)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(decay=st.floats(0.1, 1.2), length=st.integers(1, 20), seed=st.integers(0, 99))
def test_a_known_decay_is_measured(decay: float, length: int, seed: int) -> None:
    """The model h_t = decay · h_{t-1} + x_t has the gradient decay**k at distance k."""
    powers = decay ** torch.arange(length - 1, -1, -1, dtype=torch.float64)
    inputs = torch.randn(3, length, 2, dtype=torch.float64, generator=generator(seed))
    measured = gradient_by_distance(lambda x: (powers[:, None] * x).sum(dim=1), inputs, generator(seed))
    torch.testing.assert_close(measured, powers.flip(0))


def test_the_norm_of_a_gradient_is_its_length() -> None:
    weights = torch.tensor([[3.0, 4.0], [1.0, 0.0]])
    measured = gradient_by_distance(
        lambda x: (weights * x).sum(dim=(1, 2))[:, None], torch.ones(1, 2, 2), generator()
    )
    torch.testing.assert_close(measured, torch.tensor([1.0, 5.0]))


def test_the_default_lstm_loses_ten_powers_of_ten_over_fifty_steps_and_chrono_keeps_a_tenth() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(8, 60, 64, dtype=torch.float64, generator=generator())

    def left(layer: nn.Module) -> float:
        layer = layer.double()
        return gradient_by_distance(lambda x: layer(x)[0][:, -1], inputs, generator())[50].item()

    assert 9 < -math.log10(left(recurrent_layer("lstm", 64, 64))) < 13
    chrono = set_chrono_bias(nn.LSTM(64, 64, batch_first=True), 200, generator())
    assert 0.05 < left(chrono) < 0.3


def test_the_measurement_leaves_model_and_inputs_as_they_were() -> None:
    layer = recurrent_layer("rnn", 2, 3)
    inputs = torch.randn(1, 4, 2, generator=generator())
    gradient_by_distance(lambda x: layer(x)[0][:, -1], inputs, generator())
    assert inputs.grad is None
    assert not inputs.requires_grad
    assert all(parameter.grad is None for parameter in layer.parameters())


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ValueError, match=r"inputs: expected \(B, T, D\), got \(4, 2\)"):
        gradient_by_distance(lambda x: x[:, -1], torch.zeros(4, 2), generator())
    with pytest.raises(ValueError, match="last_output: expected a gradient at the last input"):
        gradient_by_distance(lambda x: x[:, 0], torch.ones(1, 3, 2), generator())
