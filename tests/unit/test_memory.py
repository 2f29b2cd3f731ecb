"""The counter of memory counts exactly, and the process grows by what a call takes."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from attnlab.memory import LiveBytes, counted_peak, measure, resident_growth

FLOAT = 4  # bytes


def floats(count):
    return torch.zeros(count)


def test_each_tensor_counts_for_as_long_as_it_lives():
    with LiveBytes() as counter:
        first = floats(100)
        assert counter.live == counter.peak == 100 * FLOAT
        second = floats(50)
        assert counter.live == counter.peak == 150 * FLOAT
        del first
        assert (counter.live, counter.peak) == (50 * FLOAT, 150 * FLOAT)
        third = floats(70)
        assert (counter.live, counter.peak) == (120 * FLOAT, 150 * FLOAT)
        del second, third
    assert (counter.live, counter.peak) == (0, 150 * FLOAT)


def test_the_peak_is_inside_the_call_and_what_it_returns_is_held():
    def call():
        large = floats(1000)
        return large[:10].clone()

    assert counted_peak(call) == 1010 * FLOAT


def test_views_take_nothing_and_keep_their_storage():
    with LiveBytes() as counter:
        whole = floats(120)
        part = whole.view(10, 12).transpose(0, 1)[2:, 3:]
        assert counter.live == 120 * FLOAT
        del whole
        assert counter.live == 120 * FLOAT
        del part
        assert counter.live == 0


def test_what_was_there_before_does_not_count():
    before = floats(100)
    with LiveBytes() as counter:
        views = [before.view(10, 10), before[3:], before.detach(), before.expand(7, 100)]
        before.add_(1.0).mul_(2.0)
        torch.add(before, before, out=before)
        assert counter.peak == 0
        sums = before + before
        assert counter.peak == 100 * FLOAT
    del views, sums


def test_work_in_place_takes_nothing():
    with LiveBytes() as counter:
        made = floats(100)
        made.add_(1.0).exp_()
        made[:50] = 3.0
        assert counter.live == counter.peak == 100 * FLOAT


def test_the_element_type_matters():
    assert counted_peak(lambda: torch.zeros(100, dtype=torch.float64)) == 800
    assert counted_peak(lambda: torch.zeros(100, dtype=torch.bool)) == 100


def test_a_result_that_is_resized_counts_in_its_new_size():
    with LiveBytes() as counter:
        made = torch.empty(0)
        torch.arange(100, out=made)
        assert counter.live == 100 * FLOAT
        del made
        assert counter.live == 0


def test_every_tensor_of_a_result_counts():
    assert counted_peak(lambda: floats(100).topk(3)) == 100 * FLOAT + 3 * (FLOAT + 8)
    before = floats(100)
    assert counted_peak(lambda: torch._foreach_add([before, before], 1.0)) == 200 * FLOAT


def test_what_autograd_saved_counts_until_it_is_let_go():
    weight = torch.ones(100, requires_grad=True)
    with LiveBytes() as counter:
        loss = weight.exp().sum()  # exp saves its result, of which we hold nothing
        assert counter.live == 100 * FLOAT + FLOAT
        loss.backward()
        assert counter.live == 100 * FLOAT + FLOAT  # the gradient in its place
        weight.grad = None
        assert counter.live == FLOAT


def test_the_backward_pass_counts_too():
    weight = torch.ones(100, requires_grad=True)

    def layer(x):
        return x.exp().exp().exp()

    kept = counted_peak(lambda: torch.autograd.grad(layer(weight).sum(), weight))
    again = counted_peak(
        lambda: torch.autograd.grad(checkpoint(layer, weight, use_reentrant=False).sum(), weight)
    )
    assert kept >= 300 * FLOAT and again >= 300 * FLOAT


def test_a_second_block_starts_from_nothing():
    with LiveBytes() as first:
        kept = floats(100)
    with LiveBytes() as second:
        kept.add_(1.0)
        floats(10)
    assert (first.live, second.peak) == (100 * FLOAT, 10 * FLOAT)


def test_the_process_grows_by_what_a_call_takes():
    grown = resident_growth(lambda: torch.ones(16 * 2**20))  # 64 MiB
    if grown is None:
        pytest.skip("the system does not tell how large a process is")
    assert grown > 32 * 2**20


def test_both_figures_of_one_call():
    memory = measure(lambda: floats(100))
    assert memory.counted == 100 * FLOAT
    assert memory.resident is None or memory.resident >= 0
