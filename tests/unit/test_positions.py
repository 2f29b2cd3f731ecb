"""Sinusoidal positions: the formula, odd widths, the module's table."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.positions import SinusoidalPositions, sinusoidal_positions

widths = st.integers(1, 33)
lengths = st.integers(0, 40)


def formula(position: int, column: int, d_model: int) -> float:
    """One entry of the table, written down from the paper, one number at a time."""
    angle = position / 10_000 ** ((column - column % 2) / d_model)
    return math.sin(angle) if column % 2 == 0 else math.cos(angle)


@settings(deadline=None)
@given(length=lengths, d_model=widths)
def test_every_entry_follows_the_formula(length: int, d_model: int) -> None:
    expected = torch.tensor(
        [[formula(p, j, d_model) for j in range(d_model)] for p in range(length)], dtype=torch.float64
    ).reshape(length, d_model)
    torch.testing.assert_close(
        sinusoidal_positions(length, d_model, dtype=torch.float64), expected, rtol=0, atol=1e-12
    )


def test_three_columns_have_two_sines_and_one_cosine() -> None:
    expected = torch.tensor([[0.0, 1.0, 0.0], [0.8415, 0.5403, 0.0022]])
    torch.testing.assert_close(sinusoidal_positions(2, 3), expected, rtol=0, atol=5e-5)


@settings(deadline=None)
@given(length=st.integers(2, 30), half=st.integers(1, 16))
def test_similarity_depends_on_distance_alone_for_even_widths(length: int, half: int) -> None:
    table = sinusoidal_positions(length, 2 * half, dtype=torch.float64)
    similarity = table @ table.T
    for offset in range(length):
        diagonal = similarity.diagonal(offset)
        assert (diagonal - diagonal[0]).abs().max() < 1e-10
    assert similarity[0, 0].item() == pytest.approx(half)


def test_the_known_diagonals_of_width_eight() -> None:
    similarity = sinusoidal_positions(5, 8) @ sinusoidal_positions(5, 8).T
    assert similarity[0, 0].item() == pytest.approx(4.0, abs=1e-5)
    assert similarity[2, 3].item() == pytest.approx(3.5353, abs=1e-4)


def test_late_positions_are_exact_in_float32() -> None:
    late = sinusoidal_positions(100_001, 2)[100_000]
    assert late.tolist() == pytest.approx([math.sin(100_000), math.cos(100_000)], abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_table_has_the_dtype_asked_for(dtype: torch.dtype) -> None:
    assert sinusoidal_positions(3, 4, dtype=dtype).dtype == dtype


@pytest.mark.parametrize(("length", "d_model", "named"), [(-1, 4, "length"), (3, 0, "d_model")])
def test_impossible_sizes_name_the_argument(length: int, d_model: int, named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}: "):
        sinusoidal_positions(length, d_model)


def test_positions_are_added_along_time_and_not_along_the_batch() -> None:
    output = SinusoidalPositions(8, 5)(torch.zeros(3, 5, 8))
    assert torch.equal(output[0], output[1])
    assert torch.equal(output[0], output[2])
    assert not torch.allclose(output[0, 0], output[0, 1])
    assert torch.equal(output[0], sinusoidal_positions(5, 8))


@settings(deadline=None)
@given(d_model=widths, max_length=st.integers(1, 20), data=st.data())
def test_a_shorter_sequence_gets_the_first_rows(d_model: int, max_length: int, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, max_length))
    x = torch.randn(2, length, d_model, generator=torch.Generator().manual_seed(length))
    expected = x + sinusoidal_positions(length, d_model)
    torch.testing.assert_close(SinusoidalPositions(d_model, max_length)(x), expected)


def test_past_the_end_of_the_table_both_lengths_are_named() -> None:
    with pytest.raises(ValueError, match=r"length 6 .*max_length=5"):
        SinusoidalPositions(8, 5)(torch.zeros(3, 6, 8))


def test_another_width_is_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match=r"d_model=8.*\(3, 5, 1\)"):
        SinusoidalPositions(8, 5)(torch.zeros(3, 5, 1))  # would broadcast silently


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(ValueError, match="max_length"):
        SinusoidalPositions(8, 0)


def test_the_table_follows_the_module_and_is_neither_learned_nor_saved() -> None:
    module = SinusoidalPositions(4, 3).double()
    assert module(torch.zeros(1, 3, 4, dtype=torch.float64)).dtype == torch.float64
    assert [name for name, _ in module.named_buffers()] == ["table"]
    assert not list(module.parameters())
    assert not module.state_dict()
