"""What was measured beforehand is read as it was stored."""

import pytest
import torch

from attnlab import measured


def test_the_map_has_one_curve_for_each_cell():
    stored = measured.training_map()
    counts = (len(stored.kinds), len(stored.depths), len(stored.rates))
    assert stored.curves.dtype == torch.uint8
    assert stored.curves.shape[:3] == counts == (4, 5, 7)
    assert stored.steps % stored.curves.shape[3] == 0


def test_losses_are_in_nats_and_begin_near_a_guess():
    stored = measured.training_map()
    for number, kind in enumerate(stored.kinds):
        losses = stored.losses(kind)
        assert losses.shape == stored.curves.shape[1:]
        finite = stored.curves[number] != measured.NOT_FINITE
        assert torch.equal(finite, losses.isfinite())
        torch.testing.assert_close(100 * losses[finite], stored.curves[number][finite].float())
        assert 1.4 < losses[0, 0, 0] < 2.5


def test_a_loss_that_was_not_finite_is_infinite():
    curves = torch.tensor([[[[0, measured.LARGEST_LOSS, measured.NOT_FINITE]]]], dtype=torch.uint8)
    data = measured.TrainingMapData(["pre-norm"], [6], [0.005], 300, curves, "2026-01-01")
    torch.testing.assert_close(data.losses("pre-norm"), torch.tensor([[[0.0, 2.54, torch.inf]]]))
    with pytest.raises(ValueError, match="kind: expected one of"):
        data.losses("no norm")
