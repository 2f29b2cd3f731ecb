"""Lesson 6's checks: what is special to them. ``test_catalogue`` has what all chapters share."""

import functools
import json
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab import positions
from attnlab.attention import scaled_dot_product_attention
from attnlab.checks import ch06_positions, engine
from attnlab.checks.ch06_positions import references
from attnlab.checks.ch06_positions.inputs import half_split, interleaved, rotary_scores
from attnlab.checks.ch06_positions.testing import RIGHT_PROGRAMS
from attnlab.checks.engine import TASKS
from tests.checks.right_answers.positions import ByExponential
from tests.checks.right_answers.positions import test_by_contract as contract_test

# Time limits have their own tests: here a busy machine must not matter.
evaluate = functools.partial(engine.evaluate, seconds=60)

TASK = {task.name: task for task in TASKS.values() if task.lesson == "positions"}
ROOT = Path(__file__).parents[2]
PAIRS = {"interleaved": interleaved, "half-split": half_split}


# --- the set ----------------------------------------------------------------------------------------------


def test_the_set_mixes_six_kinds_and_knows_many_mistakes() -> None:
    assert [task.kind for task in TASK.values()] == [
        "implement",
        "predict",
        "implement",
        "repair",
        "implement",
        "explore",
        "test",
    ]
    assert sum(len(task.mistakes) for task in TASK.values()) >= 80
    assert all(len(task.mistakes) >= 8 for task in TASK.values() if task.kind == "implement")
    assert len(ch06_positions.__all__) == len(TASK)


@pytest.mark.parametrize("name", ["SinusoidalPositions", "rotate", "half_split_weights", "alibi_bias"])
def test_a_program_has_a_hidden_case(name: str) -> None:
    assert sum(case.hidden for case in TASK[name].cases) == 1


# --- the references and the course's own positions are the same -------------------------------------------


@pytest.mark.parametrize("d_model", [1, 3, 6, 11])
def test_the_sinusoids_are_the_course_s(d_model: int) -> None:
    ours = references.sinusoids(330, d_model)
    torch.testing.assert_close(ours, positions.sinusoidal_positions(330, d_model, dtype=torch.float64))
    x = torch.randn(2, 5, d_model)
    module = references.SinusoidalPositions(d_model, 330)
    torch.testing.assert_close(
        module(x, 300), positions.SinusoidalPositions(d_model, 330)(x, offset=300), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("layout", PAIRS)
def test_the_turn_is_the_course_s(layout: str) -> None:
    kind = {"interleaved": positions.InterleavedRotary, "half-split": positions.HalfSplitRotary}[layout]
    heads = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    ours = references.rotate(heads, 290 + torch.arange(5).expand(2, 5), PAIRS[layout](8))
    torch.testing.assert_close(ours, kind(8, 300).double()(heads, 290))


@pytest.mark.parametrize(("program", "kind"), [(0, positions.HalfSplitRotary)])
def test_the_right_programs_are_the_course_s(program: int, kind: type) -> None:
    heads, at = torch.randn(2, 3, 5, 8), 40 + torch.arange(5).expand(2, 5)
    torch.testing.assert_close(RIGHT_PROGRAMS[program](heads, at), kind(8, 50)(heads, 40))
    interleaved_ones = positions.InterleavedRotary(8, 50)(heads, 40)
    torch.testing.assert_close(references.rotate_by_distance(heads, at), interleaved_ones)


def test_the_weights_are_sorted_as_the_course_sorts_them() -> None:
    w_q, w_k, w_v = torch.randn(3, 24, 5)
    ours = references.half_split_weights(w_q, w_k, w_v, 3)
    order = positions.rotary_permutation(8)
    for given, weight in zip(ours[:2], (w_q, w_k), strict=True):
        assert torch.equal(given, weight.view(3, 8, 5)[:, order].flatten(0, 1))
    assert torch.equal(ours[2], w_v)


@pytest.mark.parametrize("num_heads", [1, 2, 3, 5, 8, 12, 13, 16, 20, 33])
def test_the_bias_is_the_course_s(num_heads: int) -> None:
    torch.testing.assert_close(
        references.alibi_bias(num_heads, 3, 7), positions.alibi_bias(num_heads, 3, 7), atol=0, rtol=0
    )


def test_three_heads_have_the_slopes_that_the_text_says() -> None:
    assert references.alibi_slopes(3).tolist() == [2**-4, 2**-8, 2**-2]


# --- right in float32, and no more ------------------------------------------------------------------------


def test_two_right_formulas_differ_in_float32_and_both_pass() -> None:
    """At place 300 the usual exponential and the power are apart by more than a strict comparison allows."""
    exponential = ByExponential(10, 330).table[0]
    exact = references.sinusoids(330, 10)
    gap = (exponential - exact).abs().max().item()
    assert 1e-6 < gap < ch06_positions.NEAR / 5
    assert evaluate(TASK["SinusoidalPositions"], ByExponential, hidden=True).passed


def test_a_frozen_parameter_is_not_learnt_and_one_with_a_gradient_is() -> None:
    class Learnt(ByExponential):
        def __init__(self, d_model, max_length):
            super().__init__(d_model, max_length)
            table = self._buffers.pop("table")
            self.table = nn.Parameter(table)

    report = evaluate(TASK["SinusoidalPositions"], Learnt)
    assert report.mistakes == ("learnt",) and report.points == report.max_points - 1


# --- wrong answers that nobody foresaw --------------------------------------------------------------------


def caught(name: str, answer: object) -> engine.Report:
    report = evaluate(TASK[name], answer, hidden=True)
    assert report.attempted and not report.passed and not report.hints, report
    return report


def test_unforeseen_sinusoids_are_caught() -> None:
    class Slow(ByExponential):
        def __init__(self, d_model, max_length):
            super().__init__(d_model, max_length)
            self.table = 0.5 * self.table

    class Reversed(ByExponential):
        def forward(self, x, offset=0):
            return super().forward(x.flip(1), offset).flip(1)

    class NoOffsetPastTen(ByExponential):
        def forward(self, x, offset=0):
            return super().forward(x, min(offset, 10))

    class ChangesItsInput(ByExponential):
        def forward(self, x, offset=0):
            x += self.table[0, offset : offset + x.shape[1]]
            return x

    for answer in (Slow, Reversed, NoOffsetPastTen):
        caught("SinusoidalPositions", answer)
    assert "changes its first argument" in repr(evaluate(TASK["SinusoidalPositions"], ChangesItsInput))


def test_a_module_may_be_half_written() -> None:
    class NoForward(ByExponential):
        def forward(self, x, offset=0):
            raise NotImplementedError("your turn")

    report = evaluate(TASK["SinusoidalPositions"], NoForward)
    assert not report.attempted and report.points == 0


def test_unforeseen_turns_are_caught() -> None:
    def by_detaching(heads, at, pairs):
        return references.rotate(heads.detach(), at, pairs)

    def by_rounding(heads, at, pairs):
        return references.rotate(heads, at, pairs).round(decimals=1)

    def not_beyond_twenty(heads, at, pairs):
        turned = references.rotate(heads, at, pairs)
        return torch.where(at[:, None, :, None] > 20, heads, turned)

    assert "no gradient" in repr(evaluate(TASK["rotate"], by_detaching))
    for answer in (by_rounding, not_beyond_twenty):
        caught("rotate", answer)


def test_unforeseen_biases_are_caught() -> None:
    def whole_numbers(num_heads, num_queries, num_keys):
        return references.alibi_bias(num_heads, num_queries, num_keys).round()

    def right_up_to_eight(num_heads, num_queries, num_keys):
        bias = references.alibi_bias(num_heads, num_queries, num_keys)
        return bias if num_heads <= 8 else 2 * bias

    for answer in (whole_numbers, right_up_to_eight):
        caught("alibi_bias", answer)


def test_a_hard_coded_answer_to_the_fixed_inputs_gains_nothing() -> None:
    memory = {}

    def remembers(heads, at, pairs):
        key = tuple(heads.flatten()[:3].tolist())
        if key not in memory and len(memory) < 1:
            memory[key] = references.rotate(heads, at, pairs)
        return memory.get(key, heads)

    assert evaluate(TASK["rotate"], remembers).points <= 1


# --- the program to repair --------------------------------------------------------------------------------


def as_given(w_q, w_k, w_v, num_heads):
    order = torch.arange(len(w_q)).view(-1, 2).T.flatten()
    return w_q[order], w_k[order], w_v[order]


def test_the_program_to_repair_is_no_attempt_until_something_changes() -> None:
    report = evaluate(TASK["half_split_weights"], as_given, hidden=True)
    assert not report.attempted and report.points == 0 and not report.hints, report


def test_a_program_half_repaired_is_told_what_is_left() -> None:
    def values_left_alone(w_q, w_k, w_v, num_heads):
        return *as_given(w_q, w_k, w_v, num_heads)[:2], w_v

    report = evaluate(TASK["half_split_weights"], values_left_alone)
    assert report.mistakes == ("across_heads",) and report.points == 1

    def head_by_head(w_q, w_k, w_v, num_heads):
        return tuple(
            torch.cat([torch.cat((head[::2], head[1::2])) for head in weight.chunk(num_heads)])
            for weight in (w_q, w_k, w_v)
        )

    report = evaluate(TASK["half_split_weights"], head_by_head)
    assert report.mistakes == ("values_sorted",) and report.points == 3


def test_repaired_weights_give_the_scores_and_the_given_ones_do_not() -> None:
    g = torch.Generator().manual_seed(0)
    w_q, w_k, w_v = torch.randn(3, 24, 5, generator=g)
    x, at = torch.randn(2, 4, 5, generator=g), torch.arange(4).expand(2, 4)
    old = rotary_scores(x, w_q, w_k, at, interleaved(8))
    for program, right in ((references.half_split_weights, True), (as_given, False)):
        new_q, new_k, _ = program(w_q, w_k, w_v, 3)
        gap = (rotary_scores(x, new_q, new_k, at, half_split(8)) - old).abs().max().item()
        assert (gap < 1e-4) is right


def test_for_heads_of_four_the_way_back_is_the_way_there() -> None:
    order = positions.rotary_permutation(4)
    assert torch.equal(order, order.argsort())
    assert not torch.equal(positions.rotary_permutation(8), positions.rotary_permutation(8).argsort())


# --- tests that learners write ----------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [None, True, False])
def test_a_test_that_always_says_the_same_gains_nothing(verdict) -> None:
    report = evaluate(TASK["test_rotary"], lambda rotate: verdict)
    assert report.points == 0


def test_a_test_that_knows_one_layout_refuses_right_programs() -> None:
    def knows_a_layout(rotate):
        heads, at = torch.randn(2, 3, 5, 8), torch.arange(5).expand(2, 5)
        wanted = positions.InterleavedRotary(8, 10)(heads)
        assert torch.allclose(rotate(heads, at).float(), wanted, atol=1e-4)

    report = evaluate(TASK["test_rotary"], knows_a_layout)
    assert report.points == 0 and "refuses a right program" in repr(report)


def test_a_test_of_single_sequences_lets_one_pass() -> None:
    def one_by_one(rotate):
        contract_test(
            lambda heads, at: torch.cat([rotate(h[None], p[None]) for h, p in zip(heads, at, strict=True)])
        )

    assert evaluate(TASK["test_rotary"], one_by_one).mistakes == ("places_of_the_first",)


def test_a_test_of_invariance_alone_lets_four_pass() -> None:
    def invariance(rotate):
        g = torch.Generator().manual_seed(0)
        query, key = torch.randn(2, 2, 3, 5, 8, generator=g)
        at = torch.arange(5) + torch.tensor([[0], [11]])
        near, far = (rotate(query, p) @ rotate(key, p).transpose(-2, -1) for p in (at, at + 3))
        assert (near - far).abs().max() < 1e-3

    report = evaluate(TASK["test_rotary"], invariance)
    assert set(report.mistakes) == {
        "turns_nothing",
        "places_counted",
        "places_of_the_first",
        "table_too_short",
    }


# --- predictions and what is found: each follows from a computation ---------------------------------------


def measured_predictions() -> dict[str, object]:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(6, 8, generator=g, dtype=torch.float64)

    def attend(x):
        return F.scaled_dot_product_attention(x, x, x)

    swapped = (attend(x)[0] - attend(x[[0, 2, 1, 3, 4, 5]])[0]).abs().max().item()
    table = positions.sinusoidal_positions(200, 64, dtype=torch.float64)
    further = (table[103] @ table[107] - table[3] @ table[7]).item()
    one_pair = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    angles = torch.tensor([1.2, 0.2], dtype=torch.float64)
    arrows = [one_pair @ torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]]).double() for a in angles]
    weights = torch.softmax(-0.5 * torch.arange(9, dtype=torch.float64), dim=-1)
    turn = positions.HalfSplitRotary(8, 40).double()
    outputs = [scaled_dot_product_attention(*[turn(x, start)] * 3).output for start in (0, 7)]
    return {
        "two other tokens swapped, this token's output": "stays" if swapped < 1e-12 else "changes",
        "PE(10) · PE(10), width 64": (table[10] @ table[10]).item(),
        "PE(103) · PE(107) against PE(3) · PE(7)": "equal" if abs(further) < 1e-9 else "other",
        "rotary score, places 12 and 2": (arrows[0] @ arrows[1].T).item(),
        "ALiBi, weight four places back / weight here": (weights[4] / weights[0]).item(),
        "values turned too, all moved on by 7, outputs": "change"
        if (outputs[0] - outputs[1]).abs().max() > 0.1
        else "stay",
    }


def test_the_predictions_are_what_a_computation_gives() -> None:
    report = evaluate(TASK["prediction"], measured_predictions())
    assert report.passed, report


def test_the_reaches_are_what_a_computation_gives() -> None:
    def reach(num_heads, length):
        weights = positions.alibi_bias(num_heads, 1, length)[:, 0].double().softmax(dim=-1)
        return weights @ torch.arange(length - 1, -1, -1, dtype=torch.float64)

    def change(head):
        before, after = reach(8, 512)[head].item(), reach(16, 512)[head].item()
        return (
            "stays" if math.isclose(before, after, rel_tol=1e-6) else "grows" if after > before else "shrinks"
        )

    found = {
        "from 8 to 16 heads, reach of the last head": change(-1),
        "from 8 to 16 heads, reach of the first head": change(0),
        "8 heads, length 8192, reach of the last head": reach(8, 8192)[-1].item(),
        "12 heads, number of the head that reaches least": 1 + reach(12, 64).argmin().item(),
    }
    assert evaluate(TASK["reach"], found).passed
    # A longer text still does not help, and a reading with three digits is enough.
    for reading in (reach(8, 16384)[-1].item(), 255, 256, 250.0):
        assert evaluate(
            TASK["reach"], found | {"8 heads, length 8192, reach of the last head": reading}
        ).passed
    named = {512: "read_at_512", 64: "read_at_64"}
    for length, key in named.items():
        wrong = found | {"8 heads, length 8192, reach of the last head": reach(8, length)[-1].item()}
        assert evaluate(TASK["reach"], wrong).mistakes == (key,)


def test_the_text_is_right_about_sorted_slopes_and_the_flattest_head() -> None:
    slopes = positions.alibi_slopes(12)
    assert bool((slopes != slopes.sort(descending=True).values).all())
    assert positions.alibi_slopes(8)[-1].item() * 256 == 1


# --- the notebook -----------------------------------------------------------------------------------------


def test_the_untouched_notebook_says_not_attempted_and_measures_nothing() -> None:
    notebook = json.loads((ROOT / "exercises" / "06_positions.ipynb").read_text(encoding="utf-8"))
    outputs = [
        "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
    ]
    checks = [text for text in outputs if "not attempted yet" in text]
    assert len(checks) >= len(TASK)
    assert not any("largest change" in text for text in outputs)


# --- right where one looks first, and wrong elsewhere -----------------------------------------------------


def changed(change):
    """A module that is right but for what ``change(x, right, offset, module)`` makes of its result."""

    class Changed(ByExponential):
        def forward(self, x, offset=0):
            return change(x, super().forward(x, offset), offset, self)

    return Changed


@pytest.mark.parametrize(
    "change",
    [
        lambda x, right, offset, module: right - x + x.detach(),
        lambda x, right, offset, module: F.dropout(right, 0.1, training=module.training),
        lambda x, right, offset, module: right.squeeze(),
        lambda x, right, offset, module: right if len(x) > 1 else x,
        lambda x, right, offset, module: right.float(),
    ],
    ids=["no gradient", "dropout in training", "squeezed", "one sequence", "always float32"],
)
def test_sinusoids_that_are_wrong_now_and_then_are_caught(change) -> None:
    assert not evaluate(TASK["SinusoidalPositions"], changed(change)).passed


def test_the_offset_has_the_default_of_the_stub() -> None:
    class FromOne(ByExponential):
        def forward(self, x, offset=1):
            return super().forward(x, offset)

    caught("SinusoidalPositions", FromOne)


def test_a_table_that_widens_half_precision_is_named() -> None:
    class Widens(ByExponential):
        def forward(self, x, offset=0):
            return x + self.table[:, offset : offset + self.room(x, offset)]

        def room(self, x, offset):
            if offset + x.shape[1] > self.table.shape[1]:
                raise ValueError("too long")
            return x.shape[1]

    report = evaluate(TASK["SinusoidalPositions"], Widens)
    assert report.mistakes == ("promoted",) and report.points == report.max_points - 1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("turn", "named"),
    [
        (lambda heads, at, pairs: references.rotate(heads.float(), at, pairs), ("promoted",)),
        (
            lambda heads, at, pairs: references.rotate(heads, at, pairs, numbers="angles rounded"),
            ("angles_rounded",),
        ),
        # What is wrong at late places, or with pairs of no known layout, is not called a rounding.
        (lambda heads, at, pairs: references.rotate(heads, at.clamp(max=60), pairs), ()),
        (
            lambda heads, at, pairs: references.rotate(
                heads, at, interleaved(heads.shape[-1]) if pairs[0, 1] == 1 else half_split(heads.shape[-1])
            ),
            (),
        ),
    ],
    ids=["always float32", "angles in half precision", "a short table", "two layouts alone"],
)
def test_turns_that_are_wrong_in_half_precision_or_at_late_places(turn, named, seed: int) -> None:
    report = evaluate(TASK["rotate"], turn, seed=seed)
    assert not report.passed and report.mistakes == named, report


def test_the_text_is_right_about_late_places_in_half_precision() -> None:
    late = torch.arange(2048, 2056).half()
    assert bool((late % 2 == 0).all()) and len(late.unique()) == 5


def test_weights_keep_their_number_type_and_any_number_of_heads_is_sorted() -> None:
    def narrow(*inputs):
        return [weight.float() for weight in references.half_split_weights(*inputs)]

    def odd_alone(w_q, w_k, w_v, num_heads):
        new_q, new_k, _ = references.half_split_weights(w_q, w_k, w_v, num_heads)
        return new_q, new_k, w_v if num_heads % 2 else w_v.flip(0)

    for answer in (narrow, odd_alone):
        assert not evaluate(TASK["half_split_weights"], answer).passed


@pytest.mark.parametrize("numbers", [{1}, {20, 24, 33}])
def test_a_bias_for_most_numbers_of_heads_is_not_enough(numbers: set[int]) -> None:
    def bias(num_heads, num_queries, num_keys):
        right = references.alibi_bias(num_heads, num_queries, num_keys)
        return 0 * right if num_heads in numbers else right

    assert not evaluate(TASK["alibi_bias"], bias).passed


def test_a_test_that_compares_with_usual_bases_refuses_a_right_program() -> None:
    def usual(rotate) -> bool:
        heads, at = torch.randn(2, 3, 5, 8), 40 + torch.arange(5).expand(2, 5)
        return any(
            torch.allclose(
                rotate(heads, at).float(),
                references.rotate_by_distance(heads, at, pairs=pairs, base=base),
                atol=1e-3,
            )
            for pairs in ("neighbours", "halves")
            for base in (10_000.0, 100_000.0, 500_000.0, 1_000_000.0)
        )

    assert evaluate(TASK["test_rotary"], usual).points == 0
