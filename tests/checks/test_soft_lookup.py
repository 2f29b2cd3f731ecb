"""Lesson 2's checks: what is special to the set."""

import functools
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from attnlab.checks import ch02_soft_lookup as chapter
from attnlab.checks import engine
from attnlab.checks.ch02_soft_lookup import judging, references, values
from attnlab.checks.engine import TASKS
from attnlab.recurrent import AdditiveAttention, AttentiveGRUEncoderDecoder

# Time limits have their own tests: here a busy machine must not matter.
evaluate = functools.partial(engine.evaluate, seconds=60)

MANUSCRIPT = Path(__file__).parents[2] / "book" / "exercises" / "02_soft_lookup.py"


def test_the_set_has_six_exercises_of_four_kinds() -> None:
    tasks = [task for task in TASKS.values() if task.lesson == "soft_lookup"]
    kinds = [task.kind for task in tasks]
    assert kinds == ["implement", "predict", "implement", "implement", "explore", "test"]
    assert sum(task.max_points for task in tasks) == 42
    assert all(len(task.mistakes) >= 13 for task in tasks)


def test_the_manuscript_counts_the_programs_of_the_last_exercise_rightly() -> None:
    text = MANUSCRIPT.read_text(encoding="utf-8")
    assert "three right functions and thirteen wrong ones" in text
    assert len(chapter.TEST_LOOKUP.right_ones) == 3 and len(chapter.TEST_LOOKUP.mistakes) == 13


def test_the_manuscript_asks_for_the_parts_that_are_judged() -> None:
    text = MANUSCRIPT.read_text(encoding="utf-8")
    for task in (chapter.PREDICTION, chapter.TEMPERATURE):
        for part in task.specs:
            assert text.count(f'"{part}":') == 2, part


# --- the references, the lesson and the library are the same ----------------------------------------------


def test_the_lookup_is_that_of_the_lesson_where_the_lesson_s_holds() -> None:
    g = torch.Generator().manual_seed(0)
    queries, keys, table_values = chapter._table(g)
    kernel = torch.exp(-((queries[:, None] - keys) ** 2).sum(dim=-1) / (2 * 1.7))
    weights = kernel / kernel.sum(dim=-1, keepdim=True)
    answers, found = references.kernel_lookup(queries, keys, table_values, 1.7)
    torch.testing.assert_close(found, weights)
    torch.testing.assert_close(answers, weights @ table_values)


@pytest.mark.parametrize("seed", range(5))
def test_far_queries_are_out_of_reach_of_wider_numbers_and_do_not_saturate(seed: int) -> None:
    queries, keys, _values, tau = chapter._far(torch.Generator().manual_seed(seed), 2)
    squared = torch.cdist(queries.double(), keys.double()) ** 2
    kernel = torch.exp(-squared / (2 * tau))
    assert (kernel[:, 1:] == 0).all() and (kernel[:, 0] > 0).all()
    weights = references.kernel_lookup(queries, keys, keys, tau)[1]
    assert (weights[:, 1:].max(dim=-1).values < 1 - 1e-6).any()
    tables = chapter._table(torch.Generator().manual_seed(seed), 2)
    assert references.kernel_lookup(*tables, chapter.TAU)[1].max() < 0.99


@pytest.mark.parametrize("seed", range(20))
def test_a_cold_table_has_no_ties(seed: int) -> None:
    arguments = chapter._cold(torch.Generator().manual_seed(seed))
    assert (references.kernel_lookup(*arguments)[1].max(dim=-1).values > 1 - 1e-6).all()


def test_new_dot_products_give_the_weights_by_distance() -> None:
    g = torch.Generator().manual_seed(0)
    queries, keys = chapter._points(g, 2)
    weights = references.kernel_lookup(queries, keys, keys, 0.6)[1]
    found = chapter._product_weights(references.as_dot_products, queries, keys, 0.6)
    torch.testing.assert_close(found, weights)


def test_the_step_is_that_of_the_library() -> None:
    torch.manual_seed(0)
    theirs = AttentiveGRUEncoderDecoder(11, 9, 3, 5)
    ours = references.AttentiveStep(3, 5, 10, 5)
    ours.load_state_dict(
        {f"{name}.weight": getattr(theirs.attention, name).weight for name in ("w_query", "w_key", "v")}
        | {f"cell.{name}": parameter for name, parameter in theirs.decoder.named_parameters()}
    )
    encoded = theirs.encode(torch.randint(3, 11, (2, 7)))
    token = torch.randint(3, 9, (2, 1))
    state = theirs.first_state(encoded.summary).tanh()
    decoded = theirs.decode(token, encoded)
    new, _context, weights = ours(theirs.target_embedding(token[:, 0]), state, encoded.states)
    torch.testing.assert_close(weights, decoded.weights[:, 0])
    torch.testing.assert_close(new, decoded.state)


def test_the_weights_of_the_step_are_those_of_additive_attention() -> None:
    sizes, parameters, token, state, states = chapter._step(torch.Generator().manual_seed(1))
    attention = AdditiveAttention(sizes["d_state"], sizes["d_key"], sizes["d_hidden"])
    attention.load_state_dict({k: v for k, v in parameters.items() if not k.startswith("cell")})
    wanted = attention(state[:, None], states)
    _new, context, weights = chapter.ATTENTIVE_STEP.adapt(references.AttentiveStep)(
        sizes, parameters, token, state, states
    )
    torch.testing.assert_close(context, wanted.output[:, 0])
    torch.testing.assert_close(weights, wanted.weights[:, 0])


@pytest.mark.parametrize("seed", range(5))
def test_the_step_s_weights_are_neither_even_nor_saturated(seed: int) -> None:
    arguments = chapter._step(torch.Generator().manual_seed(seed))
    weights = chapter.ATTENTIVE_STEP.adapt(references.AttentiveStep)(*arguments)[2]
    assert 0.3 < weights.max() < 0.995 and weights.min() > 1e-4


def test_without_a_bend_the_query_does_not_count() -> None:
    """What two of the hints and the solution say."""
    sizes, parameters, token, state, states = chapter._step(torch.Generator().manual_seed(0))
    for joined, counts in (("no tanh", False), ("tanh of each", False), ("tanh of the sum", True)):
        build = functools.partial(references.AttentiveStep, joined=joined)
        step = chapter.ATTENTIVE_STEP.adapt(build)
        first, second = (step(sizes, parameters, token, asked, states)[2] for asked in (state, -state))
        assert torch.allclose(first, second, atol=1e-5) is not counts


# --- predictions and findings follow from a computation ---------------------------------------------------


def test_the_predictions_come_from_running_what_they_are_about() -> None:
    g = torch.Generator().manual_seed(5)
    keys, query, shift = (torch.randn(n, 3, generator=g, dtype=torch.float64) for n in (4, 1, 1))
    zero = torch.zeros_like(query)

    def product(q, k):
        return (q @ k.T).softmax(dim=-1)

    def distance(q, k, tau=1.0):
        return (-(torch.cdist(q, k) ** 2) / (2 * tau)).softmax(dim=-1)

    def says(first, second):
        return "stay" if torch.allclose(first, second) else "change"

    q = torch.tensor([[1.0]], requires_grad=True)
    (slope,) = torch.autograd.grad(distance(q, torch.tensor([[3.0]])) @ torch.tensor([[2.0]]), q)
    twice = distance(torch.tensor([[0.0]]), torch.tensor([[0.0], [9.0], [0.0]]), 0.01)
    by_length = keys.norm(dim=-1).argsort()
    computed = [
        torch.randn(1, 6, generator=g).softmax(dim=0).sum().item(),
        product(zero, keys).max().item(),
        {0: "shortest", 3: "longest"}[(by_length == distance(zero, keys).argmax()).nonzero().item()],
        says(product(query, keys), product(query, keys + shift)),
        says(distance(query, keys), distance(query, keys + shift)),
        (twice @ torch.tensor([[2.0], [5.0], [6.0]])).item(),
        slope.item(),
    ]
    answer = dict(zip(chapter.PREDICTION.specs, computed, strict=True))
    assert evaluate(chapter.PREDICTION, answer).passed


@pytest.mark.parametrize("seed", range(6))
def test_the_findings_hold_whatever_the_noise(seed: int) -> None:
    def best(count, noise, unit=1.0):
        return references.best_temperature(count, noise, unit, seed)

    def way(before, after):
        return "rises" if after > before else "falls" if after < before else "stays"

    measured = references.errors(48, 0.5, seed=seed)["measured"]
    assert measured == sorted(measured)
    computed = {
        values.BEST: best(48, 0.5),
        values.COLD: "lowest",
        values.NOISE: way(best(48, 0.5), best(48, 2.0)),
        values.COUNT: way(best(48, 0.5), best(384, 0.5)),
        values.UNIT: best(48, 0.5, 60.0) / best(48, 0.5),
    }
    assert evaluate(chapter.TEMPERATURE, computed).passed
    assert evaluate(chapter.TEMPERATURE, computed | {values.UNIT: 3600, values.BEST: 0.8}).passed


def test_the_cells_of_the_manuscript_find_the_same_temperature() -> None:
    text = MANUSCRIPT.read_text(encoding="utf-8")
    start = text.index("temperature, noise, count = ")
    cells = text[start : text.index("# Answer from what you find.")]
    lines = [line for line in cells.splitlines() if not line.startswith("#")]
    code = "\n".join(lines[: next(i for i, line in enumerate(lines) if line.startswith("best = ")) + 1])
    drawing = code.index("plots.lines")
    code = code[:drawing] + code[code.index("temperatures = ") :]
    names = {"torch": torch, "math": math, "Tensor": torch.Tensor, "seed": lambda n: n}
    exec(code, names)
    assert names["best"] == pytest.approx(references.best_temperature(48, 0.5), rel=0.4)
    assert names["temperatures"] == pytest.approx(references.TEMPERATURES)


# --- wrong answers that no catalogue holds ----------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda a, w: (a, w.roll(1, dims=-1)),
        lambda a, w: (a.flip(-2), w),
        lambda a, w: (a * 1.001, w),
        lambda a, w: (a, w.half()),
        lambda a, w: (a, w + 0.001),
        lambda a, w: a,
        lambda a, w: (a.detach(), w),
        lambda a, w: (a, w[..., :-1]),
    ],
)
def test_lookups_that_are_wrong_in_other_ways_lose_points(change) -> None:
    report = evaluate(chapter.KERNEL_LOOKUP, lambda *given: change(*references.kernel_lookup(*given)))
    assert report.attempted and report.points < report.max_points


@pytest.mark.parametrize("epsilon", [1e-12, 1e-8, 1e-6])
def test_a_small_number_in_the_sum_is_named(epsilon: float) -> None:
    def lookup(queries, keys, table_values, temperature):
        squared = (queries[..., :, None, :] - keys[..., None, :, :]).square().sum(-1)
        kernel = torch.exp(-squared / (2 * temperature))
        weights = kernel / (kernel.sum(-1, keepdim=True) + epsilon)
        return weights @ table_values, weights

    report = evaluate(chapter.KERNEL_LOOKUP, lookup)
    assert report.mistakes == ("zeros_when_far",) and report.points <= 7


def test_the_lesson_s_own_lines_with_leading_axes_break_far_away() -> None:
    def lookup(queries, keys, table_values, temperature):
        squared = (queries[..., :, None, :] - keys[..., None, :, :]).square().sum(-1).double()
        kernel = torch.exp(-squared / (2 * temperature))
        weights = (kernel / kernel.sum(-1, keepdim=True)).float()
        return weights @ table_values, weights

    report = evaluate(chapter.KERNEL_LOOKUP, lookup)
    assert report.mistakes == ("underflow",)


@pytest.mark.parametrize(
    "change",
    [
        lambda q, k: (q, k[..., :-1]),
        lambda q, k: (q[..., :-1], k[..., :-1]),
        lambda q, k: (q, k * 1.01),
        lambda q, k: (q, -k),
        lambda q, k: (q[:1], k),
        lambda q, k: (q.sum(), k),
        lambda q, k: ((q @ k.mT).softmax(-1), torch.eye(k.shape[-2]).expand(*k.shape[:-1], -1)),
        lambda q, k: q @ k.mT,
    ],
)
def test_new_vectors_that_are_wrong_in_other_ways_lose_points(change) -> None:
    report = evaluate(chapter.AS_DOT_PRODUCTS, lambda *given: change(*references.as_dot_products(*given)))
    assert report.attempted and report.points < report.max_points


def test_scores_in_place_of_vectors_are_told() -> None:
    def scores(queries, keys, temperature):
        table = -torch.cdist(queries, keys).square() / (2 * temperature)
        return table, torch.eye(keys.shape[-2]).expand(*keys.shape[:-1], -1)

    report = evaluate(chapter.AS_DOT_PRODUCTS, scores)
    assert report.mistakes == ("keys_in_the_queries",)
    assert report.points == report.max_points - 1 and "depend on the keys" in repr(report)


class WithBiases(references.AttentiveStep):
    def __init__(self, d_token, d_state, d_key, d_hidden):
        super().__init__(d_token, d_state, d_key, d_hidden)
        self.w_key = nn.Linear(d_key, d_hidden)


class Renamed(references.AttentiveStep):
    def __init__(self, d_token, d_state, d_key, d_hidden):
        super().__init__(d_token, d_state, d_key, d_hidden)
        self.gru = self.cell
        del self.cell


class QueryAfterTheStep(references.AttentiveStep):
    """Reads the last state, updates, and asks with what it has then."""

    def forward(self, token, state, states):
        new = self.cell(torch.cat([token, states[:, -1]], dim=-1), state)
        _new, context, weights = super().forward(token, new, states)
        return new, context, weights


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (WithBiases, "w_key.bias"),
        (Renamed, "no cell"),
        (QueryAfterTheStep, "weights"),
        (references.AttentiveStep(3, 5, 7, 6), "the class itself"),
    ],
)
def test_steps_that_are_wrong_in_other_ways_are_told_in_words(answer, told: str) -> None:
    report = evaluate(chapter.ATTENTIVE_STEP, answer)
    assert report.attempted and report.points < report.max_points and told in repr(report)


# --- the test for any soft lookup -------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [None, True, False])
def test_a_test_that_always_says_the_same_gains_nothing(verdict) -> None:
    assert evaluate(chapter.TEST_LOOKUP, lambda look_up: verdict).points == 0


def random_table(B: int = 2, T: int = 3, S: int = 5):
    g = torch.Generator().manual_seed(4)
    return tuple(torch.randn(B, n, 4, generator=g) for n in (T, S, S))


def test_sums_alone_show_too_little() -> None:
    queries, keys, _values = random_table()

    def sums(look_up) -> bool:
        return bool(((look_up(queries, keys, torch.ones(2, 5, 1)) - 1).abs() < 1e-4).all())

    report = evaluate(chapter.TEST_LOOKUP, sums)
    assert {"company", "hard", "two_best", "no_slope", "by_place", "by_value"} <= set(report.mistakes)
    assert not {"axis_queries", "axis_both", "axis_batch", "each_alone"} & set(report.mistakes)


def test_the_question_of_the_lesson_finds_every_wrong_axis() -> None:
    queries, keys, table_values = random_table()

    def alone(look_up) -> bool:
        answers = look_up(queries, keys, table_values)
        last = look_up(queries[1:, :1], keys[1:], table_values[1:])
        return torch.allclose(last.float(), answers[1:, :1].float(), atol=1e-5)

    report = evaluate(chapter.TEST_LOOKUP, alone)
    assert not {"axis_queries", "company", "axis_both", "axis_batch"} & set(report.mistakes)
    assert {"each_alone", "hard", "no_slope", "by_value"} <= set(report.mistakes)


def test_a_comparison_with_one_score_refuses_right_programs() -> None:
    queries, keys, table_values = random_table()

    def compare(look_up) -> bool:
        wanted = (queries @ keys.mT / 2).softmax(-1) @ table_values
        return torch.allclose(look_up(queries, keys, table_values).float(), wanted, atol=1e-4)

    report = evaluate(chapter.TEST_LOOKUP, compare)
    assert report.points == 0 and "refuses a right program" in repr(report)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("program", chapter.TEST_LOOKUP.right_ones)
def test_right_programs_keep_all_promises_at_any_size(program, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    B, T, S, D = (int(torch.randint(1, 17, (), generator=g)) for _ in range(4))
    queries, keys = (torch.randn(B, n, D, generator=g) for n in (T, S))
    weights = program(queries, keys, torch.eye(S).expand(B, S, S))
    assert (weights > 0).all()
    torch.testing.assert_close(weights.sum(-1).float(), torch.ones(B, T))


def test_a_right_test_may_reorder_the_pairs_as_it_likes() -> None:
    queries, keys, table_values = random_table(S=6)
    wrong = functools.partial(references.look_up, paired="first two exchanged")
    for order in (range(5, -1, -1), (1, 2, 3, 4, 5, 0), (3, 0, 4, 1, 2, 5)):
        chosen = torch.tensor(list(order))
        first = wrong(queries, keys, table_values)
        second = wrong(queries, keys[:, chosen], table_values[:, chosen])
        assert not torch.allclose(first, second, atol=1e-3)


def test_the_example_is_the_test_that_the_check_holds_right() -> None:
    for program in chapter.TEST_LOOKUP.right_ones:
        judging.good_test(program)
