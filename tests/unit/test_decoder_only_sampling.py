"""Temperature, top-k and top-p, each against a reference in plain Python, and draws against their chances."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attnlab.decoder_only.sampling import (
    apply_temperature,
    check_sampling,
    choose_tokens,
    keep_top_k,
    keep_top_p,
)

few = settings(derandomize=True, deadline=None, max_examples=60)
# Few different values, so that ties are common.
rows = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 0.5, 1.0, 3.0, -math.inf]), min_size=1, max_size=8)
batches = st.integers(1, 6).flatmap(
    lambda size: st.lists(
        st.lists(st.floats(-4, 4, allow_subnormal=False), min_size=size, max_size=size),
        min_size=1,
        max_size=3,
    )
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def likeliest_first(row):
    return sorted(range(len(row)), key=lambda token: (-row[token], token))


def only(row, kept):
    return [logit if token in kept else -math.inf for token, logit in enumerate(row)]


def probabilities(row):
    weights = [math.exp(logit) for logit in row]
    return [weight / math.fsum(weights) for weight in weights]


def top_p_by_hand(row, p):
    chances, kept = probabilities(row), []
    for token in likeliest_first(row):
        held = math.fsum(chances[other] for other in kept)
        assume(abs(held - p) > 1e-9)  # at the edge the rounding of the sum would decide
        if held >= p:
            break
        kept.append(token)
    return only(row, kept)


# Temperature


@few
@given(batches, st.floats(0.1, 10))
def test_temperature_divides_the_logits(batch, temperature):
    expected = torch.tensor([[logit / temperature for logit in row] for row in batch], dtype=torch.float64)
    received = apply_temperature(torch.tensor(batch, dtype=torch.float64), temperature)
    torch.testing.assert_close(received, expected)


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.inf, math.nan])
def test_temperature_out_of_range(temperature):
    with pytest.raises(ValueError, match="temperature: expected a finite number above 0"):
        apply_temperature(torch.zeros(3), temperature)


# Top-k


@few
@given(rows, st.integers(1, 10))
def test_top_k_equals_the_reference(row, k):
    logits = torch.tensor(row, dtype=torch.float64)
    assert keep_top_k(logits, k).tolist() == only(row, likeliest_first(row)[:k])


@few
@given(batches, st.integers(1, 7))
def test_top_k_looks_at_each_row_by_itself(batch, k):
    expected = [only(row, likeliest_first(row)[:k]) for row in batch]
    assert keep_top_k(torch.tensor(batch, dtype=torch.float64), k).tolist() == expected


def test_top_k_keeps_exactly_k_where_all_are_equal():
    for k in range(1, 6):
        kept = keep_top_k(torch.zeros(2, 3, 5), k).isfinite()
        assert kept.sum(dim=-1).eq(k).all()
        assert kept[..., :k].all(), "among equal logits the lower numbers are kept"


def test_top_k_keeps_the_type_and_leaves_the_argument_alone():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        logits = torch.arange(4, dtype=dtype)
        assert keep_top_k(logits, 2).dtype == keep_top_p(logits, 0.5).dtype == dtype
        assert logits.tolist() == [0, 1, 2, 3]


def test_top_k_out_of_range():
    with pytest.raises(ValueError, match="k: expected at least 1 token to keep, got 0"):
        keep_top_k(torch.zeros(3), 0)


# Top-p


@few
@given(batches, st.floats(0.001, 0.999))
def test_top_p_equals_the_reference(batch, p):
    expected = [top_p_by_hand(row, p) for row in batch]
    assert keep_top_p(torch.tensor(batch, dtype=torch.float64), p).tolist() == expected


@few
@given(rows.filter(lambda row: max(row) > -math.inf), st.floats(0.001, 0.999))
def test_top_p_keeps_no_more_after_top_k(row, p):
    filtered = only(row, likeliest_first(row)[:3])
    assert keep_top_p(torch.tensor(filtered, dtype=torch.float64), p).tolist() == top_p_by_hand(filtered, p)


@pytest.mark.parametrize(
    ("p", "kept"), [(1e-9, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.51, 3), (0.75, 3), (0.76, 4), (1.0, 4)]
)
def test_top_p_keeps_the_smallest_set_that_reaches_p(p, kept):
    assert keep_top_p(torch.zeros(2, 4), p).isfinite().tolist() == [[True] * kept + [False] * (4 - kept)] * 2


def test_top_p_of_one_keeps_even_what_rounding_would_lose():
    assert keep_top_p(torch.tensor([50.0, 0.0, -50.0]), 1.0).isfinite().all()


def test_top_p_counts_finely_in_half_precision():
    """1/1000 each: summed in half precision, the sum would soon stop growing."""
    for dtype in (torch.float16, torch.bfloat16):
        kept = keep_top_p(torch.zeros(1000, dtype=dtype), 0.9)
        assert abs(int(kept.isfinite().sum()) - 900) <= 1


@pytest.mark.parametrize("p", [0.0, -0.1, 1.1, math.nan])
def test_top_p_out_of_range(p):
    with pytest.raises(ValueError, match="p: expected a probability above 0 and at most 1"):
        keep_top_p(torch.zeros(3), p)


# Choosing

LOGITS = torch.tensor([[0.3, 2.0, -1.0, 1.2, 0.0], [1.0, -0.5, 0.7, -2.0, 1.5]], dtype=torch.float64)


def shares(logits, draws=20_000, **arguments):
    """How often each token comes, for one row of logits."""
    tokens = choose_tokens(logits.expand(draws, -1), generator=seeded(3), **arguments)
    return tokens.bincount(minlength=logits.shape[-1]) / draws


@pytest.mark.parametrize(
    ("arguments", "filtered"),
    [
        ({}, LOGITS[0]),
        ({"temperature": 0.5}, LOGITS[0] * 2),
        ({"temperature": 3.0}, LOGITS[0] / 3),
        ({"top_k": 2}, keep_top_k(LOGITS[0], 2)),
        ({"top_p": 0.7}, keep_top_p(LOGITS[0], 0.7)),
        ({"temperature": 4.0, "top_p": 0.7}, keep_top_p(LOGITS[0] / 4, 0.7)),
        ({"top_k": 3, "top_p": 0.9}, keep_top_p(keep_top_k(LOGITS[0], 3), 0.9)),
    ],
)
def test_tokens_come_as_often_as_their_probabilities_say(arguments, filtered):
    expected = filtered.softmax(-1)
    received = shares(LOGITS[0], **arguments)
    # Four standard errors of a share; what has probability 0 never comes.
    assert ((received - expected).abs() <= 4 * (expected * (1 - expected) / 20_000).sqrt()).all()
    assert (received[expected == 0] == 0).all()


def test_top_p_takes_its_share_of_what_top_k_left():
    """Top-p first would keep three tokens, and top-k all three of them."""
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    assert (shares(logits, top_k=3, top_p=0.75) > 0).tolist() == [True, True, False, False]
    assert (keep_top_k(keep_top_p(logits, 0.75), 3) > -math.inf).tolist() == [True, True, True, False]


def test_top_p_sees_the_temperature():
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    assert (shares(logits, temperature=0.2, top_p=0.75) > 0).tolist() == [True, False, False, False]


def test_greedy_takes_the_largest_and_of_equal_ones_the_first():
    logits = torch.tensor([[0.0, 3.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0], [-math.inf, 0.0, 1.0, 1.0]])
    assert choose_tokens(logits, temperature=0.0).tolist() == [1, 0, 2]


def test_greedy_draws_nothing():
    generator = seeded()
    before = generator.get_state()
    choose_tokens(LOGITS, temperature=0.0, generator=generator)
    assert torch.equal(generator.get_state(), before)


def test_draws_are_the_generators_alone():
    state = torch.get_rng_state()
    first, again, other = (choose_tokens(LOGITS.repeat(20, 1), generator=seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_any_leading_axes():
    logits = keep_top_k(torch.randn(2, 3, 4, 7, generator=seeded()), 1)
    tokens = choose_tokens(logits, generator=seeded())
    assert tokens.dtype == torch.int64
    assert torch.equal(tokens, logits.argmax(-1))
    assert choose_tokens(logits[0, 0, 0], generator=seeded()).shape == ()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_tiny_temperature_is_nearly_greedy_in_every_type(dtype):
    logits = torch.tensor([300.0, 400.0, -400.0], dtype=dtype)
    assert choose_tokens(logits, generator=seeded(), temperature=1e-4) == 1


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("row", [[0.0, math.nan], [0.0, math.inf], [-math.inf, -math.inf]])
def test_logits_that_give_no_probabilities(row, temperature):
    with pytest.raises(ValueError, match="logits: expected finite numbers"):
        choose_tokens(torch.tensor([[0.0, 1.0], row]), generator=seeded(), temperature=temperature)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"temperature": -1.0}, "temperature: .* got -1.0"),
        ({"temperature": math.inf}, "temperature: .* got inf"),
        ({"temperature": math.nan}, "temperature: .* got nan"),
        ({"top_k": 0}, "top_k: .* got 0"),
        ({"top_p": 0.0}, "top_p: .* got 0.0"),
        ({"top_p": 1.5}, "top_p: .* got 1.5"),
        ({"generator": None}, "generator: expected a torch.Generator"),
    ],
)
def test_arguments_out_of_range(arguments, words):
    settings = {"generator": seeded(), "temperature": 1.0, "top_k": None, "top_p": None} | arguments
    with pytest.raises(ValueError, match=words):
        check_sampling(**settings)
    with pytest.raises(ValueError, match=words):
        choose_tokens(LOGITS, **settings)


@pytest.mark.parametrize(
    "function",
    [
        lambda logits: apply_temperature(logits, 1.0),
        lambda logits: keep_top_k(logits, 1),
        lambda logits: keep_top_p(logits, 0.5),
        lambda logits: choose_tokens(logits, temperature=0.0),
    ],
)
def test_logits_of_the_wrong_kind(function):
    with pytest.raises(TypeError, match="logits: expected a floating-point tensor, got torch.int64"):
        function(torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="V of at least 1"):
        function(torch.zeros(3, 0))
    with pytest.raises(ValueError, match="V of at least 1"):
        function(torch.tensor(0.0))
