"""The training loop: what it does to a model, when it stops, what it leaves behind."""

import itertools
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from attnlab.training import History, cross_entropy, fit


def model() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 4)


def batches(seed: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    g = torch.Generator().manual_seed(seed)
    while True:
        x = torch.randn(16, 3, generator=g)
        yield x, x.argmax(dim=-1)


def test_fit_is_adam_with_clipping_step_by_step() -> None:
    ours, theirs = model(), model()
    history = fit(ours, batches(), steps=5, lr=0.1, clip=0.05)

    optimizer, losses, norms = torch.optim.Adam(theirs.parameters(), lr=0.1), [], []
    for x, y in itertools.islice(batches(), 5):
        loss = nn.functional.cross_entropy(theirs(x), y)
        optimizer.zero_grad()
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(theirs.parameters(), 0.05).item())
        optimizer.step()
        losses.append(loss.item())
    assert history.losses == losses
    assert history.gradient_norms == norms
    assert torch.equal(ours.weight, theirs.weight)


def test_the_norm_that_is_recorded_is_the_one_before_clipping_and_the_step_obeys_it() -> None:
    net = model()
    before = net.weight.detach().clone(), net.bias.detach().clone()
    history = fit(
        net, batches(), steps=1, lr=1.0, clip=0.01, optimizer=torch.optim.SGD(net.parameters(), lr=1.0)
    )
    moved = torch.cat([(net.weight - before[0]).flatten(), net.bias - before[1]]).norm().item()
    assert history.gradient_norms[0] > 0.1
    assert moved == pytest.approx(0.01, rel=1e-3)


def test_without_clipping_the_step_is_the_gradient() -> None:
    net = model()
    before = net.weight.detach().clone(), net.bias.detach().clone()
    steep = ((20 * x, y) for x, y in batches())
    history = fit(net, steep, steps=1, lr=1.0, clip=None, optimizer=torch.optim.SGD(net.parameters(), lr=1.0))
    moved = torch.cat([(net.weight - before[0]).flatten(), net.bias - before[1]]).norm().item()
    assert history.gradient_norms[0] > 5
    assert moved == pytest.approx(history.gradient_norms[0], rel=1e-4)


def test_training_learns() -> None:
    history = fit(model(), batches(), steps=150, lr=0.1)
    assert history.steps == 150
    assert not history.stopped_early
    assert history.losses[0] > 1.0
    assert max(history.losses[-10:]) < 0.5


def test_it_stops_at_the_first_loss_below_the_bound() -> None:
    history = fit(model(), batches(), steps=150, lr=0.1, stop_below=0.6)
    assert history.stopped_early
    assert history.steps < 150
    assert history.losses[-1] < 0.6
    assert min(history.losses[:-1]) >= 0.6


def test_it_draws_no_more_batches_than_it_uses() -> None:
    stream = itertools.islice(batches(), 10)
    fit(model(), stream, steps=4, lr=0.1)
    assert len(list(stream)) == 6


def test_a_tuple_of_inputs_is_handed_over_as_arguments() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = model()

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.layer(x + y)

    split = (((0.25 * x, 0.75 * x), y) for x, y in batches())
    assert fit(Sum(), split, steps=3, lr=0.1).losses == pytest.approx(
        fit(model(), batches(), steps=3, lr=0.1).losses
    )


@pytest.mark.parametrize("training", [True, False])
def test_the_model_trains_in_training_mode_and_gets_its_own_mode_back(training: bool) -> None:
    seen = []

    class Watched(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(self.training)
            return super().forward(x)

    net = Watched(3, 4).train(training)
    fit(net, batches(), steps=2, lr=0.1)
    assert seen == [True, True]
    assert net.training is training


def test_another_loss_is_used() -> None:
    net = nn.Linear(3, 1)
    stream = ((x, x.sum(dim=-1, keepdim=True)) for x, _ in batches())
    history = fit(net, stream, steps=200, lr=0.05, loss=nn.functional.mse_loss)
    assert history.losses[-1] < 0.05 < history.losses[0]


def test_frozen_parameters_stay() -> None:
    net = model()
    net.bias.requires_grad_(False)
    bias = net.bias.clone()
    fit(net, batches(), steps=3, lr=0.1)
    assert torch.equal(net.bias, bias)


@pytest.mark.parametrize("progress", [False, True])
def test_the_bar_is_off_unless_asked_for_and_never_on_stdout(
    progress: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(model(), batches(), steps=3, lr=0.1, progress=progress)
    out, err = capsys.readouterr()
    assert out == ""
    assert bool(err) is progress


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 0, "lr": 0.1}, "^steps: "),
        ({"steps": 1, "lr": 0.0}, "^lr: "),
        ({"steps": 1, "lr": 0.1, "clip": 0.0}, "^clip: "),
    ],
)
def test_impossible_settings_name_the_argument(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(model(), batches(), **arguments)  # type: ignore[arg-type]


def test_batches_that_end_too_soon_are_an_error_and_the_mode_is_restored() -> None:
    net = model().eval()
    with pytest.raises(ValueError, match="batches: ended after 2 of 5 steps"):
        fit(net, itertools.islice(batches(), 2), steps=5, lr=0.1)
    assert not net.training


def test_cross_entropy_takes_the_classes_from_the_last_axis() -> None:
    g = torch.Generator().manual_seed(0)
    logits, targets = torch.randn(2, 4, 4, generator=g), torch.randint(4, (2, 4), generator=g)  # T equals V
    expected = nn.functional.cross_entropy(logits.transpose(1, 2), targets)
    torch.testing.assert_close(cross_entropy(logits, targets), expected)
    wrong = nn.functional.cross_entropy(logits, targets)
    assert (cross_entropy(logits, targets) - wrong).abs() > 0.01


def test_cross_entropy_names_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"targets: expected \(2, 3\).*got \(3, 2\)"):
        cross_entropy(torch.zeros(2, 3, 5), torch.zeros(3, 2, dtype=torch.int64))


def test_a_new_history_is_empty_and_shares_nothing() -> None:
    first, second = History(), History()
    first.losses.append(1.0)
    assert first.steps == 1
    assert second.steps == 0
