"""The losses over tokens: padding counts for nothing, smoothing goes where its convention says."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.training.losses import TokenLoss, smoothed_targets, token_cross_entropy, token_loss

F = torch.nn.functional


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def by_hand(logits, targets, pad, smoothing):
    """Token by token, in plain numbers: PyTorch's convention of smoothing."""
    total, tokens = 0.0, 0
    for row, target in zip(
        logits.reshape(-1, logits.shape[-1]).tolist(), targets.flatten().tolist(), strict=True
    ):
        if target == pad:
            continue
        top = max(row)
        log_sum = top + math.log(sum(math.exp(x - top) for x in row))
        log_p = [x - log_sum for x in row]
        aim = [smoothing / len(row) + (1 - smoothing) * (v == target) for v in range(len(row))]
        total -= sum(q * p for q, p in zip(aim, log_p, strict=True))
        tokens += 1
    return total / max(tokens, 1)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    rows=st.integers(1, 3),
    length=st.integers(1, 5),
    classes=st.integers(2, 6),
    pad=st.sampled_from([0, 1, -1, -100]),
    smoothing=st.sampled_from([0.0, 0.1, 0.4, 1.0]),
    size=st.sampled_from([1.0, 30.0, 1e4]),
    seed=st.integers(0, 999),
)
def test_it_is_the_mean_over_real_tokens_written_out(rows, length, classes, pad, smoothing, size, seed):
    g = generator(seed)
    logits = size * torch.randn(rows, length, classes, generator=g, dtype=torch.float64)
    targets = torch.randint(classes, (rows, length), generator=g)
    targets = targets.masked_fill(torch.rand(rows, length, generator=g) < 0.3, pad)
    received = token_cross_entropy(logits, targets, pad=pad, label_smoothing=smoothing)
    assert received.shape == ()
    assert received.item() == pytest.approx(by_hand(logits, targets, pad, smoothing), rel=1e-11, abs=1e-12)
    if bool((targets != pad).any()):
        theirs = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=pad, label_smoothing=smoothing)
        torch.testing.assert_close(received, theirs)


def test_it_equals_the_same_batch_without_its_padded_rows():
    logits, targets = torch.tensor([[2.0, 0.0, 0.0], [0.0, 5.0, 0.0]]), torch.tensor([0, -100])
    padded = token_cross_entropy(logits, targets, pad=-100, label_smoothing=0.1)
    assert padded.item() == pytest.approx(0.3729, abs=5e-5)
    assert padded == token_cross_entropy(logits[:1], targets[:1], pad=-100, label_smoothing=0.1)


def test_what_stands_at_padding_is_not_looked_at_and_gets_no_gradient():
    logits = torch.randn(2, 3, 4, generator=generator())
    targets = torch.tensor([[1, 2, 0], [3, 0, 0]])
    logits[targets == 0] = math.nan
    logits.requires_grad_()
    loss = token_cross_entropy(logits, targets, label_smoothing=0.1)
    loss.backward()
    assert loss.isfinite()
    assert (logits.grad[targets == 0] == 0).all()
    assert (logits.grad[targets != 0] != 0).all()


def test_nothing_but_padding_gives_zero_and_a_gradient_of_zeros():
    logits = torch.randn(2, 3, 4, generator=generator(), requires_grad=True)
    loss = token_cross_entropy(logits, torch.zeros(2, 3, dtype=torch.int64), label_smoothing=0.1)
    loss.backward()
    assert loss.item() == 0.0
    assert (logits.grad == 0).all()


def test_an_id_that_occurs_nowhere_means_that_there_is_no_padding():
    logits, targets = torch.randn(2, 3, 4, generator=generator()), torch.tensor([[0, 1, 2], [3, 0, 0]])
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.2)
    torch.testing.assert_close(token_cross_entropy(logits, targets, pad=-1, label_smoothing=0.2), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_half_precision_is_computed_in_float32_and_the_others_in_their_own(dtype):
    logits = torch.randn(3, 50, generator=generator()).to(dtype).requires_grad_()
    targets = torch.tensor([4, 7, 0])
    loss = token_cross_entropy(logits, targets, label_smoothing=0.1)
    expected = token_cross_entropy(logits.double(), targets, label_smoothing=0.1)
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    loss.backward()
    assert logits.grad.dtype == dtype


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_logits_of_ten_thousand_take_no_logarithm_of_zero(smoothing):
    logits = torch.tensor([[1e4, 0.0, -1e4]], requires_grad=True)
    loss = token_cross_entropy(logits, torch.tensor([2]), label_smoothing=smoothing)
    loss.backward()
    assert loss.item() == pytest.approx(2e4 - smoothing * 1e4)
    assert logits.grad.isfinite().all()


def test_sums_and_counts_of_parts_add_up_to_those_of_the_whole():
    logits = torch.randn(4, 3, 5, generator=generator(), dtype=torch.float64)
    targets = torch.tensor([[1, 2, 3], [4, 0, 0], [0, 0, 0], [2, 2, 0]])
    whole = token_loss(logits, targets, label_smoothing=0.1)
    parts = [token_loss(logits[i : i + 1], targets[i : i + 1], label_smoothing=0.1) for i in range(4)]
    assert isinstance(whole, TokenLoss)
    assert [int(part.num_tokens) for part in parts] == [3, 1, 0, 2]
    assert int(whole.num_tokens) == 6
    torch.testing.assert_close(sum(part.total for part in parts), whole.total)
    torch.testing.assert_close(whole.mean(), token_cross_entropy(logits, targets, label_smoothing=0.1))


def test_a_smoothed_target_keeps_off_padding():
    received = smoothed_targets(torch.tensor([2, 0]), 5, pad=0, label_smoothing=0.4)
    expected = torch.tensor([[0, 0.4 / 3, 0.6, 0.4 / 3, 0.4 / 3], [0, 0, 0, 0, 0]])
    torch.testing.assert_close(received, expected)


def test_where_padding_is_no_class_all_others_take_a_share():
    received = smoothed_targets(torch.tensor([2, -100]), 5, pad=-100, label_smoothing=0.4)
    torch.testing.assert_close(received, torch.tensor([[0.1, 0.1, 0.6, 0.1, 0.1], [0, 0, 0, 0, 0]]))
    received = smoothed_targets(torch.tensor([2, 5]), 5, pad=5, label_smoothing=0.4)
    torch.testing.assert_close(received, torch.tensor([[0.1, 0.1, 0.6, 0.1, 0.1], [0, 0, 0, 0, 0]]))


@settings(deadline=None, derandomize=True, max_examples=30)
@given(
    classes=st.integers(3, 7),
    pad=st.sampled_from([0, 2, -100]),
    smoothing=st.floats(0, 1),
    seed=st.integers(0, 999),
)
def test_smoothed_rows_sum_to_one_and_those_of_padding_to_zero(classes, pad, smoothing, seed):
    targets = torch.randint(classes, (2, 4), generator=generator(seed))
    targets[0, 1] = pad
    rows = smoothed_targets(targets, classes, pad=pad, label_smoothing=smoothing)
    assert rows.shape == (2, 4, classes)
    assert rows.dtype == torch.float32
    torch.testing.assert_close(rows.sum(dim=-1), (targets != pad).float())
    assert (rows >= 0).all()
    real = targets != pad
    torch.testing.assert_close(
        rows[real].gather(-1, targets[real][:, None]), torch.full((int(real.sum()), 1), 1 - smoothing)
    )
    if pad >= 0:
        assert not rows[..., pad].any()


def test_without_smoothing_two_classes_are_enough():
    received = smoothed_targets(torch.tensor([1, 0]), 2, label_smoothing=0.0)
    assert received.tolist() == [[0, 1], [0, 0]]


LOGITS, TARGETS = torch.zeros(2, 3, 5), torch.ones(2, 3, dtype=torch.int64)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: token_cross_entropy(LOGITS, TARGETS.T), ValueError, r"targets: expected \(2, 3\).*\(3, 2\)"),
        (lambda: token_cross_entropy(LOGITS, TARGETS + 4), ValueError, "targets: .* 0 to 4, got 5"),
        (lambda: token_cross_entropy(LOGITS, TARGETS - 2), ValueError, "targets: .* 0 to 4, got -1"),
        (
            lambda: token_cross_entropy(LOGITS, TARGETS.int()),
            TypeError,
            "targets: expected int64, got torch.int32",
        ),
        (
            lambda: token_cross_entropy(LOGITS, TARGETS, label_smoothing=-0.1),
            ValueError,
            "label_smoothing: .*-0.1",
        ),
        (
            lambda: token_cross_entropy(LOGITS, TARGETS, label_smoothing=1.1),
            ValueError,
            "label_smoothing: .*1.1",
        ),
        (lambda: smoothed_targets(TARGETS, 5, label_smoothing=1.1), ValueError, "label_smoothing: .*1.1"),
        (lambda: smoothed_targets(TARGETS, 1, label_smoothing=0.1), ValueError, "targets: .*got 1"),
        (lambda: smoothed_targets(TARGETS, 2, label_smoothing=0.1), ValueError, "num_classes: .*got 2"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()
