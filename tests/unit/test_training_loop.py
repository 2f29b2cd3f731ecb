"""The training loop beyond its first use: micro-batches, schedules, going on, what is not finite."""

import copy
import itertools
import math

import pytest
import torch
from torch import nn

from attnlab.training import token_cross_entropy, token_loss, warmup_cosine
from attnlab.training.loop import History, NotFiniteError, fit


def model(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(6, 5), nn.Linear(5, 6)).to(dtype)


def rows():
    """Four rows of tokens with 5, 1, 3 and 0 real targets."""
    g = torch.Generator().manual_seed(1)
    inputs = torch.randint(6, (4, 5), generator=g)
    targets = torch.randint(1, 6, (4, 5), generator=g)
    real = torch.arange(5) < torch.tensor([5, 1, 3, 0])[:, None]
    return inputs, targets * real


def batches(seed=0):
    g = torch.Generator().manual_seed(seed)
    while True:
        inputs = torch.randint(6, (3, 5), generator=g)
        yield inputs, (inputs + 1) % 6


def step_of(net, drawn, **settings):
    """The gradient that one update of `net` uses, and the history."""
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    before = [parameter.detach().clone() for parameter in net.parameters()]
    history = fit(net, drawn, steps=1, optimizer=optimizer, clip=None, **settings)
    return [old - new.detach() for old, new in zip(before, net.parameters(), strict=True)], history


@pytest.mark.parametrize("parts", [[4], [1, 3], [3, 1], [2, 2], [1, 1, 1, 1]])
def test_micro_batches_of_unequal_size_give_the_gradient_of_the_whole(parts):
    inputs, targets = rows()
    expected = copy.deepcopy(model())
    token_cross_entropy(expected(inputs), targets).backward()
    pieces = list(zip(inputs.split(parts), targets.split(parts), strict=True))
    received, history = step_of(model(), pieces, micro_batches=len(parts), loss=token_loss)
    for ours, parameter in zip(received, expected.parameters(), strict=True):
        assert (ours - parameter.grad).abs().max() <= 1e-12
    with torch.no_grad():
        assert history.losses == pytest.approx(
            [token_cross_entropy(model()(inputs), targets).item()], rel=1e-12
        )
    norm = torch.cat([parameter.grad.flatten() for parameter in expected.parameters()]).norm().item()
    assert history.gradient_norms == pytest.approx([norm], rel=1e-12)


def test_the_mean_of_the_parts_means_would_be_another_gradient():
    inputs, targets = rows()
    whole, parts = model(), model()
    token_cross_entropy(whole(inputs), targets).backward()
    for i in (0, 1, 2):
        (token_cross_entropy(parts(inputs[i : i + 1]), targets[i : i + 1]) / 3).backward()
    assert (whole[1].bias.grad - parts[1].bias.grad).abs().max() > 0.01


def test_micro_batches_of_nothing_but_padding_change_nothing():
    inputs, targets = rows()
    net = model()
    received, history = step_of(net, [(inputs, 0 * targets)] * 2, micro_batches=2, loss=token_loss)
    assert all((part == 0).all() for part in received)
    assert history.losses == [0.0]


def test_clipping_measures_all_micro_batches_together():
    inputs, targets = rows()
    pieces = list(zip(inputs.split(1), targets.split(1), strict=True))
    net = model()
    before = [parameter.detach().clone() for parameter in net.parameters()]
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    fit(net, pieces, steps=1, micro_batches=4, loss=token_loss, optimizer=optimizer, clip=0.01)
    moved = [old - new.detach() for old, new in zip(before, net.parameters(), strict=True)]
    assert torch.cat([part.flatten() for part in moved]).norm().item() == pytest.approx(0.01, rel=1e-3)


def test_each_update_draws_as_many_batches_as_it_was_told_and_no_more():
    stream = itertools.islice(batches(), 10)
    history = fit(model(), stream, steps=2, lr=0.1, micro_batches=3, loss=token_loss)
    assert history.steps == 2
    assert len(list(stream)) == 4
    with pytest.raises(ValueError, match="batches: ended after 1 of 2 steps"):
        fit(model(), itertools.islice(batches(), 5), steps=2, lr=0.1, micro_batches=3, loss=token_loss)


def test_a_loss_that_does_not_count_is_refused_with_micro_batches():
    with pytest.raises(TypeError, match="loss: expected one that counts its tokens"):
        fit(model(), batches(), steps=1, lr=0.1, micro_batches=2)


def test_a_loss_that_counts_trains_as_its_mean_does():
    one, two = model(), model()
    first = fit(one, batches(), steps=4, lr=0.1, loss=token_loss)
    second = fit(two, batches(), steps=4, lr=0.1, loss=token_cross_entropy)
    assert first.losses == pytest.approx(second.losses, rel=1e-12)
    torch.testing.assert_close(one[1].weight, two[1].weight)


def test_the_schedule_multiplies_each_groups_own_rate_from_the_first_step_on():
    net = model()
    groups = [{"params": net[0].parameters(), "lr": 0.5}, {"params": net[1].parameters(), "lr": 2.0}]
    optimizer = torch.optim.SGD(groups)
    seen = []
    history = fit(
        net,
        batches(),
        steps=4,
        optimizer=optimizer,
        schedule=lambda step: 1 / 2**step,
        after_step=lambda _: seen.append([group["lr"] for group in optimizer.param_groups]),
    )
    assert seen == [[0.25, 1.0], [0.125, 0.5], [0.0625, 0.25], [0.03125, 0.125]]
    assert history.learning_rates == [0.25, 0.125, 0.0625, 0.03125]


def test_the_rate_of_a_step_is_the_one_that_it_is_made_with():
    received = []
    for step in (1, 2):
        net = model()
        before = net[1].bias.detach().clone()
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        fit(net, batches(), steps=1, optimizer=optimizer, clip=None, schedule=lambda _, s=step: float(s))
        received.append(net[1].bias.detach() - before)
    torch.testing.assert_close(received[1], 2 * received[0])


def test_without_a_schedule_the_rate_is_recorded_and_left_alone():
    history = fit(model(), batches(), steps=3, lr=0.1)
    assert history.learning_rates == [0.1, 0.1, 0.1]


def test_a_run_in_two_parts_is_the_run_in_one():
    def schedule(step):
        return warmup_cosine(step, warmup=3, total=8)

    whole, parts = model(), model()
    expected = fit(whole, batches(), steps=8, lr=0.1, schedule=schedule)
    optimizer, stream = torch.optim.Adam(parts.parameters(), lr=0.1), batches()
    history = fit(parts, stream, steps=5, optimizer=optimizer, schedule=schedule)
    again = fit(parts, stream, steps=3, optimizer=optimizer, schedule=schedule, history=history)
    assert again is history
    assert history == expected
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), parts.parameters(), strict=True))


def test_a_run_that_was_stopped_early_can_go_on():
    net, history = model(), History()
    fit(net, batches(), steps=5, lr=0.1, stop_below=100.0, history=history)
    assert history.stopped_early
    assert history.steps == 1
    fit(net, batches(), steps=2, lr=0.1, history=history)
    assert history.steps == 3
    assert not history.stopped_early


def test_after_each_step_the_history_is_handed_over():
    seen = []
    fit(model(), batches(), steps=3, lr=0.1, after_step=lambda history: seen.append(history.steps))
    assert seen == [1, 2, 3]


def spoilt_after(good, value):
    """A loss that is multiplied by `value` after `good` calls."""
    calls = itertools.count(1)

    def loss(prediction, targets):
        right = token_cross_entropy(prediction, targets, pad=-1)
        return right if next(calls) <= good else right * value

    return loss


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_stops_the_run_before_the_update(value):
    net, expected = model(), model()
    fit(expected, batches(), steps=2, lr=0.1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    with pytest.raises(NotFiniteError, match="step 3: the loss is (nan|inf|-inf)") as caught:
        fit(net, batches(), steps=5, optimizer=optimizer, loss=spoilt_after(2, value))
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), expected.parameters(), strict=True))
    assert all(int(state["step"]) == 2 for state in optimizer.state.values())
    assert caught.value.step == 3
    assert caught.value.history.steps == len(caught.value.history.learning_rates) == 2
    assert all(parameter.grad is None for parameter in net.parameters())


def test_a_gradient_that_is_not_finite_stops_the_run_before_the_update():
    net = model()
    before = [parameter.detach().clone() for parameter in net.parameters()]

    def steep(prediction, targets):
        # The root's slope at zero is infinite, its value is not.
        return (prediction - prediction.detach()).abs().sum().sqrt()

    history = History()
    with pytest.raises(NotFiniteError, match="step 1: the norm of the gradient is (nan|inf)"):
        fit(net, batches(), steps=1, lr=0.1, loss=steep, history=history)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), before, strict=True))
    assert history == History()


def test_parameters_outside_the_optimizer_neither_move_nor_count_in_the_norm():
    net = model()
    before = net[0].weight.detach().clone()
    optimizer = torch.optim.SGD(net[1].parameters(), lr=0.1)
    history = fit(net, batches(), steps=3, optimizer=optimizer, clip=None)
    assert torch.equal(net[0].weight, before)
    alone = model().requires_grad_(False)
    alone[1].requires_grad_(True)
    expected = fit(
        alone, batches(), steps=3, optimizer=torch.optim.SGD(alone[1].parameters(), lr=0.1), clip=None
    )
    assert history == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 1}, "lr: expected a learning rate, or an optimizer"),
        ({"steps": 1, "lr": 0.1, "micro_batches": 0}, "micro_batches: expected at least 1, got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit(model(), batches(), **arguments)
