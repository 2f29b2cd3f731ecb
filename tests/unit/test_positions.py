"""Positions that are added: the sinusoidal formula, learned rows, and the tables of both modules."""

import itertools
import math
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnlab.positions import LearnedPositions, SinusoidalPositions, sinusoidal_positions
from tests.unit.new_memory import filled_with_nan

few_examples = settings(max_examples=15, deadline=None, derandomize=True)
both_modules = pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
widths = st.integers(1, 33)
lengths = st.integers(0, 40)


def module_of(kind: str, d_model: int, max_length: int) -> nn.Module:
    """The module of a kind, looked up when it is wanted."""
    return {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}[kind](d_model, max_length)


def formula(position: int, column: int, d_model: int) -> float:
    """One entry of the table, written down from the paper, one number at a time."""
    angle = position / 10_000 ** ((column - column % 2) / d_model)
    return math.sin(angle) if column % 2 == 0 else math.cos(angle)


@few_examples
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


@few_examples
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


@both_modules
@few_examples
@given(
    leading=st.sampled_from([(), (3,), (2, 3)]),
    length=st.integers(2, 9),
    d_model=widths,
    offset=st.integers(0, 3),
)
def test_positions_are_added_along_time_and_not_along_the_batch(
    kind: str, leading: tuple[int, ...], length: int, d_model: int, offset: int
) -> None:
    positions = module_of(kind, d_model, 12)
    added = positions(torch.zeros(*leading, length, d_model), offset=offset)
    assert added.shape == (*leading, length, d_model)
    for rows in added.reshape(-1, length, d_model):
        assert torch.equal(rows, positions.table[offset : offset + length])
    assert all(not torch.equal(a, b) for a, b in itertools.pairwise(positions.table))


@few_examples
@given(d_model=widths, max_length=st.integers(1, 20), data=st.data())
def test_a_shorter_sequence_gets_the_first_rows(d_model: int, max_length: int, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, max_length))
    x = torch.randn(2, length, d_model, generator=torch.Generator().manual_seed(length))
    expected = x + sinusoidal_positions(length, d_model)
    torch.testing.assert_close(SinusoidalPositions(d_model, max_length)(x), expected)


@both_modules
@few_examples
@given(d_model=widths, max_length=st.integers(1, 20), offset=st.integers(0, 20), length=st.integers(1, 20))
def test_the_table_ends_at_max_length_counted_from_the_offset(
    kind: str, d_model: int, max_length: int, offset: int, length: int
) -> None:
    positions, embeddings = module_of(kind, d_model, max_length), torch.zeros(2, length, d_model)
    if offset + length <= max_length:
        assert positions(embeddings, offset=offset).shape == embeddings.shape
    else:
        with pytest.raises(ValueError, match=f"^embeddings: length {length} .*max_length={max_length}"):
            positions(embeddings, offset=offset)


@both_modules
def test_past_the_end_of_the_table_both_lengths_are_named(kind: str) -> None:
    with pytest.raises(ValueError, match=r"length 6 .*max_length=5"):
        module_of(kind, 8, 5)(torch.zeros(3, 6, 8))
    with pytest.raises(ValueError, match=r"length 2 from offset 4 .*max_length=5"):
        module_of(kind, 8, 5)(torch.zeros(3, 2, 8), offset=4)


@both_modules
def test_a_step_at_an_offset_is_a_row_of_the_whole(kind: str) -> None:
    positions, x = module_of(kind, 8, 5), torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))
    whole = positions(x)
    for step in range(5):
        assert torch.equal(positions(x[:, step : step + 1], offset=step), whole[:, step : step + 1])


@both_modules
@pytest.mark.parametrize("shape", [(3, 5, 1), (5, 9), (8,)])  # one column would spread silently
def test_another_width_is_refused_with_both_numbers(kind: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"embeddings: .*d_model=8.*{re.escape(str(shape))}"):
        module_of(kind, 8, 5)(torch.zeros(shape))


@both_modules
def test_a_negative_offset_is_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="^offset: .*-1"):
        module_of(kind, 8, 5)(torch.zeros(3, 1, 8), offset=-1)


@both_modules
@pytest.mark.parametrize(("d_model", "max_length", "named"), [(8, 0, "max_length"), (0, 8, "d_model")])
def test_an_empty_table_is_refused(kind: str, d_model: int, max_length: int, named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}: expected at least 1, got 0"):
        module_of(kind, d_model, max_length)


def test_the_table_follows_the_module_and_is_neither_learned_nor_saved() -> None:
    module = SinusoidalPositions(4, 3).double()
    assert module(torch.zeros(1, 3, 4, dtype=torch.float64)).dtype == torch.float64
    assert [name for name, _ in module.named_buffers()] == ["table"]
    assert not list(module.parameters())
    assert not module.state_dict()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_table_that_changed_its_type_is_as_exact_as_one_made_in_it(dtype: torch.dtype) -> None:
    table = SinusoidalPositions(6, 200).half().to(dtype).table
    assert table.dtype == dtype
    assert torch.equal(table, sinusoidal_positions(200, 6, dtype=dtype))


def test_a_table_moves_with_the_module() -> None:
    assert SinusoidalPositions(6, 5).to("meta").table.is_meta
    with torch.device("meta"):
        module = SinusoidalPositions(6, 5)
    with filled_with_nan():
        module = module.to_empty(device="cpu")
    assert torch.equal(module.table, sinusoidal_positions(5, 6))


def test_learned_positions_are_parameters_and_are_learned() -> None:
    torch.manual_seed(0)
    module = LearnedPositions(64, 50)
    assert [name for name, _ in module.named_parameters()] == ["table"] == list(module.state_dict())
    assert not list(module.buffers())
    assert module.table.std().item() == pytest.approx(0.02, rel=0.1)
    assert module.table.mean().item() == pytest.approx(0.0, abs=0.002)
    module(torch.zeros(3, 4, 64), offset=2).sum().backward()
    used = torch.zeros(50, 64)
    used[2:6] = 3.0  # three examples use each row
    assert torch.equal(module.table.grad, used)
