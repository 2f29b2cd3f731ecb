"""The schedules: their formulas, their corners, never zero at the first step."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.training.schedules import constant, warmup_cosine, warmup_inverse_sqrt


def test_constant_is_one_at_every_step():
    assert [constant(step) for step in (1, 2, 10**6)] == [1.0, 1.0, 1.0]


def test_a_cosine_rises_in_a_line_then_falls_along_half_a_wave_and_stays_down():
    rates = [warmup_cosine(step, warmup=4, total=12, floor=0.2) for step in range(1, 15)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[7] == pytest.approx(0.6)  # half way down, at step 8
    assert rates[5] == pytest.approx(0.2 + 0.8 * (1 + math.sqrt(0.5)) / 2)  # a quarter of the way, at step 6
    assert rates[11:] == [0.2, 0.2, 0.2]


@settings(deadline=None, derandomize=True, max_examples=50)
@given(warmup=st.integers(0, 20), more=st.integers(1, 30), floor=st.floats(0, 1))
def test_a_cosine_stays_between_floor_and_one_and_falls_all_the_way(warmup, more, floor):
    total = warmup + more
    rates = [warmup_cosine(step, warmup=warmup, total=total, floor=floor) for step in range(1, total + 5)]
    assert rates[0] > 0 or total == 1
    assert all(floor <= rate <= 1 for rate in rates[warmup:])
    falling = rates[max(warmup - 1, 0) :]
    assert all(later <= earlier for earlier, later in zip(falling, falling[1:], strict=False))
    assert rates[-1] == floor


def test_without_warm_up_a_cosine_starts_near_the_top():
    assert warmup_cosine(1, warmup=0, total=100) == pytest.approx((1 + math.cos(math.pi / 100)) / 2)


def test_a_cosine_may_be_nothing_but_warm_up():
    assert [warmup_cosine(step, warmup=2, total=2) for step in (1, 2, 3)] == [0.5, 1.0, 0.0]


@settings(deadline=None, derandomize=True, max_examples=50)
@given(step=st.integers(1, 100_000), d_model=st.integers(1, 1024), warmup=st.integers(1, 8000))
def test_the_inverse_root_is_equation_3_of_the_paper(step, d_model, warmup):
    expected = min(1 / math.sqrt(step), step / (warmup * math.sqrt(warmup))) / math.sqrt(d_model)
    assert warmup_inverse_sqrt(step, d_model=d_model, warmup=warmup) == pytest.approx(expected, rel=1e-12)


def test_the_papers_base_model_peaks_at_seven_ten_thousandths():
    rates = [warmup_inverse_sqrt(step, d_model=512, warmup=4000) for step in (1, 3999, 4000, 4001, 16000)]
    assert rates[2] == max(rates) == pytest.approx(6.99e-4, abs=1e-6)
    assert rates[0] == pytest.approx(rates[2] / 4000)
    assert rates[4] == pytest.approx(rates[2] / 2)


def test_without_warm_up_the_inverse_root_only_falls():
    rates = [warmup_inverse_sqrt(step, d_model=4, warmup=0) for step in (1, 4, 9)]
    assert rates == pytest.approx([1 / 2, 1 / 4, 1 / 6])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: constant(0), "step: expected at least 1, got 0"),
        (lambda: warmup_cosine(0, warmup=1, total=2), "step: expected at least 1, got 0"),
        (lambda: warmup_cosine(1, warmup=-1, total=2), "warmup: expected at least 0, got -1"),
        (lambda: warmup_cosine(1, warmup=3, total=2), "total: expected at least 3, got 2"),
        (lambda: warmup_cosine(1, warmup=0, total=0), "total: expected at least 1, got 0"),
        (lambda: warmup_cosine(1, warmup=1, total=2, floor=1.5), "floor: .*got 1.5"),
        (lambda: warmup_cosine(1, warmup=1, total=2, floor=-0.5), "floor: .*got -0.5"),
        (lambda: warmup_inverse_sqrt(0, d_model=4, warmup=2), "step: expected at least 1, got 0"),
        (lambda: warmup_inverse_sqrt(1, d_model=0, warmup=2), "d_model: expected at least 1, got 0"),
        (lambda: warmup_inverse_sqrt(1, d_model=4, warmup=-2), "warmup: expected at least 0, got -2"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
