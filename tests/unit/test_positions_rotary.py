"""Rotary positions against multiplication by complex numbers, in both layouts."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.positions import HalfSplitRotary, InterleavedRotary, RotaryPositions, rotary_permutation
from tests.unit.new_memory import filled_with_nan

few_examples = settings(max_examples=15, deadline=None, derandomize=True)
both_layouts = pytest.mark.parametrize("layout", ["interleaved", "half-split"])
HALF_WIDTHS = st.integers(1, 8)


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def rotary_of(layout, *arguments, **options):
    """The module of a layout, looked up when it is wanted."""
    return {"interleaved": InterleavedRotary, "half-split": HalfSplitRotary}[layout](*arguments, **options)


def pairs(layout, d_head):
    """The two columns of each pair."""
    half = d_head // 2
    if layout == "interleaved":
        return [(2 * i, 2 * i + 1) for i in range(half)]
    return [(i, i + half) for i in range(half)]


def turned(layout, heads, offset=0, base=10_000.0):
    """Each pair as a complex number, times a number on the unit circle; in float64."""
    result = torch.empty(heads.shape, dtype=torch.float64)
    for i, (real, imaginary) in enumerate(pairs(layout, heads.shape[-1])):
        for row in range(heads.shape[-2]):
            angle = (row + offset) * base ** (-2 * i / heads.shape[-1])
            number = torch.complex(heads[..., row, real].double(), heads[..., row, imaginary].double())
            number = number * complex(math.cos(angle), math.sin(angle))
            result[..., row, real], result[..., row, imaginary] = number.real, number.imag
    return result


@both_layouts
@few_examples
@given(
    leading=st.sampled_from([(), (3,), (2, 3)]),
    length=st.integers(0, 5),
    half=HALF_WIDTHS,
    offset=st.integers(0, 9),
    base=st.sampled_from([10_000.0, 500_000.0, 4.0]),
)
def test_equals_complex_multiplication(layout, leading, length, half, offset, base):
    heads = draw(*leading, length, 2 * half)
    rotary = rotary_of(layout, 2 * half, 14, base=base).double()
    expected = turned(layout, heads, offset, base)
    torch.testing.assert_close(rotary(heads, offset), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(rotary(heads, offset=offset), expected, rtol=0, atol=1e-12)


def test_a_turn_worked_out_by_hand():
    # Width 4, base 10,000: the pairs turn by 1 and by 1/100 for each position.
    ones = torch.ones(3, 4, dtype=torch.float64)
    quick, slow = (
        (math.cos(2) - math.sin(2), math.sin(2) + math.cos(2)),
        (
            math.cos(0.02) - math.sin(0.02),
            math.sin(0.02) + math.cos(0.02),
        ),
    )
    interleaved, half_split = InterleavedRotary(4, 3).double()(ones), HalfSplitRotary(4, 3).double()(ones)
    assert interleaved[2].tolist() == pytest.approx([*quick, *slow], abs=1e-12)
    assert half_split[2].tolist() == pytest.approx([quick[0], slow[0], quick[1], slow[1]], abs=1e-12)
    assert torch.equal(interleaved[0], ones[0]) and torch.equal(half_split[0], ones[0])


@few_examples
@given(half=HALF_WIDTHS, offset=st.integers(0, 4))
def test_the_permutation_leads_from_one_layout_to_the_other(half, offset):
    d_head = 2 * half
    index = rotary_permutation(d_head)
    interleaved, half_split = InterleavedRotary(d_head, 9).double(), HalfSplitRotary(d_head, 9).double()
    query, key = draw(2, 5, d_head), draw(2, 5, d_head, seed=1)
    there = half_split(query[..., index], offset)
    torch.testing.assert_close(there, interleaved(query, offset)[..., index], rtol=0, atol=1e-15)
    assert torch.equal(there[..., index.argsort()], interleaved(query, offset))
    scores = interleaved(query, offset) @ interleaved(key, offset).mT
    same = there @ half_split(key[..., index], offset).mT
    torch.testing.assert_close(same, scores, rtol=0, atol=1e-12)
    if half > 1:
        without = half_split(query, offset) @ half_split(key, offset).mT
        assert not torch.allclose(without, scores)


def test_the_permutation_takes_the_even_columns_first():
    assert rotary_permutation(6).tolist() == [0, 2, 4, 1, 3, 5]
    assert rotary_permutation(2).tolist() == [0, 1]


@both_layouts
@few_examples
@given(half=HALF_WIDTHS, offset=st.integers(0, 9), seed=st.integers(0, 99))
def test_every_row_keeps_its_length(layout, half, offset, seed):
    heads = draw(2, 5, 2 * half, seed=seed)
    lengths = rotary_of(layout, 2 * half, 14).double()(heads, offset).norm(dim=-1)
    torch.testing.assert_close(lengths, heads.norm(dim=-1), rtol=0, atol=1e-12)


@both_layouts
@few_examples
@given(half=HALF_WIDTHS, shift=st.integers(1, 2000), seed=st.integers(0, 99))
def test_scores_depend_on_distance_alone(layout, half, shift, seed):
    rotary = rotary_of(layout, 2 * half, 2010).double()
    query, key = draw(2 * half, seed=seed).expand(6, -1), draw(2 * half, seed=seed + 1).expand(6, -1)
    scores = rotary(query) @ rotary(key).T  # one vector at six positions
    for distance in range(-5, 6):
        diagonal = scores.diagonal(distance)
        assert (diagonal - diagonal[0]).abs().max() < 1e-12
    later = rotary(query, shift) @ rotary(key, shift).T
    torch.testing.assert_close(later, scores, rtol=0, atol=1e-12)
    assert (scores[0, 1:] - scores[0, 0]).abs().min() > 1e-6  # and they do depend on it


@both_layouts
def test_a_step_at_an_offset_is_a_row_of_the_whole(layout):
    rotary, heads = rotary_of(layout, 6, 7), draw(2, 3, 7, 6, dtype=torch.float32)
    whole = rotary(heads)
    for step in range(7):
        assert torch.equal(rotary(heads[..., step : step + 1, :], step), whole[..., step : step + 1, :])


@both_layouts
def test_late_positions_are_exact_in_float32(layout):
    heads = draw(3, 4, 8, dtype=torch.float32)
    received = rotary_of(layout, 8, 100_000)(heads, 99_990)
    torch.testing.assert_close(received.double(), turned(layout, heads, 99_990), rtol=0, atol=1e-6)


@both_layouts
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("module_too", [True, False])
def test_half_precision_turns_in_float32(layout, dtype, module_too):
    rotary, heads = rotary_of(layout, 8, 10_010), draw(3, 4, 8, dtype=dtype)
    rotary = rotary.to(dtype) if module_too else rotary
    received = rotary(heads, 10_000)
    assert received.dtype == dtype
    assert rotary.cos.dtype == rotary.sin.dtype == torch.float32
    assert torch.equal(received, rotary_of(layout, 8, 10_010)(heads.float(), 10_000).to(dtype))


@both_layouts
def test_tables_that_changed_their_type_are_as_exact_as_ones_made_in_it(layout):
    rotary, heads = rotary_of(layout, 6, 50).half().double(), draw(50, 6)
    assert rotary.cos.dtype == rotary.sin.dtype == torch.float64
    torch.testing.assert_close(rotary(heads), turned(layout, heads), rtol=0, atol=1e-12)
    assert rotary(heads.float()).dtype == torch.float32
    assert torch.equal(rotary.float().cos, rotary_of(layout, 6, 50).cos)
    with filled_with_nan():
        rotary = rotary.to("meta").to_empty(device="cpu")
    assert torch.equal(rotary.sin, rotary_of(layout, 6, 50).sin)


@both_layouts
def test_nothing_is_learned_or_saved(layout):
    rotary = rotary_of(layout, 6, 5)
    assert not list(rotary.parameters()) and not rotary.state_dict()
    assert {name for name, _ in rotary.named_buffers()} == {"cos", "sin"}


@both_layouts
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_is_turned_back(layout, dtype):
    rotary, heads = rotary_of(layout, 6, 9).to(dtype), draw(2, 4, 6, dtype=dtype).requires_grad_()
    (gradient,) = torch.autograd.grad(rotary(heads, 3).pow(2).sum() / 2, heads)
    torch.testing.assert_close(gradient, heads.detach(), rtol=0, atol=1e-6)


def test_the_base_class_has_no_layout():
    with pytest.raises(TypeError, match="abstract"):
        RotaryPositions(4, 5)


@both_layouts
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"d_head": 5}, "d_head: expected an even width.*got 5"),
        ({"d_head": 0}, "d_head: expected an even width.*got 0"),
        ({"d_head": -2}, "d_head: expected an even width.*got -2"),
        ({"max_length": 0}, "max_length: .*got 0"),
        ({"base": 0.0}, "base: .*got 0"),
        ({"base": math.nan}, "base: .*got nan"),
    ],
)
def test_impossible_sizes_name_the_argument(layout, arguments, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        rotary_of(layout, **{"d_head": 4, "max_length": 5, **arguments})


@both_layouts
@pytest.mark.parametrize(
    ("shape", "offset", "words"),
    [
        ((2, 6, 4), 0, "heads: length 6 from offset 0 .*max_length=5"),
        ((2, 2, 4), 4, "heads: length 2 from offset 4 .*max_length=5"),
        ((2, 1, 4), -1, "offset: .*got -1"),
        ((2, 3, 6), 0, r"heads: .*d_head=4.*\(2, 3, 6\)"),
        ((2, 3, 1), 0, r"heads: .*d_head=4.*\(2, 3, 1\)"),
        ((4,), 0, r"heads: .*d_head=4.*\(4,\)"),
    ],
)
def test_heads_that_do_not_fit_are_refused(layout, shape, offset, words):
    with pytest.raises(ValueError, match=f"^{words}"):
        rotary_of(layout, 4, 5)(torch.zeros(shape), offset)


@both_layouts
def test_the_last_row_of_the_tables_is_there(layout):
    assert rotary_of(layout, 4, 5)(torch.zeros(5, 4)).shape == (5, 4)
    assert rotary_of(layout, 4, 5)(torch.zeros(1, 4), 4).shape == (1, 4)


@pytest.mark.parametrize("d_head", [7, 0, -2])
def test_an_odd_width_has_no_permutation(d_head):
    with pytest.raises(ValueError, match=f"^d_head: .*{d_head}"):
        rotary_permutation(d_head)
