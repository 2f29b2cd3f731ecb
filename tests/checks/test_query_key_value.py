"""Lesson 3's checks: right answers, however written; known mistakes, caught and named; untouched stubs."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.attention import SelfAttention, causal_mask, scaled_dot_product_attention
from attnlab.checks import engine
from attnlab.checks.catalogue import trials
from attnlab.checks.ch03_query_key_value import references
from attnlab.checks.ch03_query_key_value.puzzle import colleague_weights
from attnlab.checks.engine import load_tasks

# Time limits have their own tests: here a busy machine must not matter.
evaluate = functools.partial(engine.evaluate, seconds=60)

TASKS = {task_id: task for task_id, task in load_tasks().items() if task.lesson == "query_key_value"}
TASK = {task.name: task for task in TASKS.values()}


def test_there_are_six_exercises_of_different_kinds() -> None:
    kinds = [task.kind for task in TASKS.values()]
    assert len(kinds) == 6
    assert set(kinds) == {"implement", "predict", "repair", "measure", "test"}


@pytest.mark.parametrize("task_id", TASKS)
def test_every_mistake_has_a_hint_and_implement_tasks_know_at_least_eight(task_id: str) -> None:
    task = TASKS[task_id]
    assert all(len(mistake.hint) > 20 for mistake in task.mistakes)
    if task.kind == "implement":
        assert len(task.mistakes) >= 8


@pytest.mark.parametrize("task_id", TASKS)
@pytest.mark.parametrize("seed", range(5))
def test_the_reference_gets_full_marks(task_id: str, seed: int) -> None:
    task = TASKS[task_id]
    report = evaluate(task, task.right(), seed=seed, fresh=seed + 100, hidden=True)
    assert report.passed and report.points == report.max_points and not report.hints, report


@pytest.mark.parametrize("task_id", TASKS)
@pytest.mark.parametrize("seed", range(3))
def test_each_mistake_is_caught_and_named_alone(task_id: str, seed: int) -> None:
    for trial in trials(TASKS[task_id], seed, pairs=False):
        assert trial.caught and trial.named == trial.planted, trial


@pytest.mark.parametrize("task_id", TASKS)
@pytest.mark.parametrize("seed", range(3))
def test_each_pair_of_mistakes_is_caught_and_named(task_id: str, seed: int) -> None:
    for trial in trials(TASKS[task_id], seed):
        assert trial.caught and trial.rightly, trial


# --- right answers, written in other ways -----------------------------------------------------------------


def by_loops(query, key, value, mask=None):
    lead = query.shape[:-2]
    parts = (query, key, value) if mask is None else (query, key, value, mask.expand(*lead, *mask.shape[-2:]))
    flat = [part.reshape(-1, *part.shape[-2:]) for part in parts]
    outputs, weights = [], []
    for b in range(flat[0].shape[0]):
        for t in range(query.shape[-2]):
            row = torch.zeros(key.shape[-2])
            seen = [s for s in range(key.shape[-2]) if mask is None or bool(flat[3][b, t, s])]
            if seen:
                scores = torch.stack([flat[0][b, t].dot(flat[1][b, s]) for s in seen])
                row[seen] = (
                    torch.exp(scores / math.sqrt(key.shape[-1]))
                    / torch.exp(scores / math.sqrt(key.shape[-1])).sum()
                )
            weights.append(row)
            outputs.append((row[:, None] * flat[2][b]).sum(dim=0))
    shape = (*lead, query.shape[-2], -1)
    return torch.stack(outputs).reshape(shape), torch.stack(weights).reshape(shape)


def by_einsum(query, key, value, mask=None):
    scores = torch.einsum("...td,...sd->...ts", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-torch.inf))
    exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True).clamp(min=-1e30))
    weights = exponentials / exponentials.sum(dim=-1, keepdim=True).clamp(min=1e-30)
    return torch.einsum("...ts,...sv->...tv", weights, value), weights


def by_fused_call(query, key, value, mask=None):
    eye = torch.eye(key.shape[-2]).expand(*key.shape[:-1], key.shape[-2])
    everything = torch.cat([value, eye], dim=-1)
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.shape[-2])
    both = F.scaled_dot_product_attention(query, key, everything, attn_mask=mask)
    if mask is not None:
        both = both.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
    return both[..., : value.shape[-1]], both[..., value.shape[-1] :]


def scaled_first(query, key, value, mask=None):
    root = query.shape[-1] ** 0.25
    scores = (query / root) @ (key / root).transpose(-2, -1)
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1).nan_to_num(0.0)
    return weights @ value, weights


def in_double(query, key, value, mask=None):
    output, weights, _scores = scaled_dot_product_attention(
        query.double(), key.double(), value.double(), mask
    )
    return output.float(), weights.float()


def gives_double(query, key, value, mask=None):
    return references.attention(query.double(), key.double(), value.double(), mask)


def of_the_course(query, key, value, mask=None):
    result = scaled_dot_product_attention(query, key, value, mask)
    return [result.output, result.weights]


WAYS = [by_loops, by_einsum, by_fused_call, scaled_first, in_double, gives_double, of_the_course]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("attention", WAYS)
def test_a_right_function_gets_full_marks_however_it_is_written(attention, seed: int) -> None:
    report = evaluate(TASK["attention"], attention, seed=seed, hidden=True)
    assert report.passed, report


def test_a_wider_number_type_is_accepted_and_named() -> None:
    report = evaluate(TASK["attention"], gives_double)
    assert report.passed and any("float64" in note for note in report.notes)


def test_a_narrower_number_type_is_refused_and_named() -> None:
    def half(query, key, value, mask=None):
        return tuple(part.half() for part in references.attention(query, key, value, mask))

    report = evaluate(TASK["attention"], half)
    assert report.points <= 1 and "float16" in repr(report)


class _Own(nn.Module):
    """The names and sizes of the exercise; ``mix`` does the rest."""

    def __init__(self, d_model, d_k, d_v, dropout=0.0):
        super().__init__()
        self.w_q, self.w_k = (nn.Linear(d_model, d_k, bias=False) for _ in range(2))
        self.w_v = nn.Linear(d_model, d_v, bias=False)
        self.dropout = dropout

    def drop(self, weights):
        return F.dropout(weights, self.dropout, training=self.training)


class ByEinsum(_Own):
    def forward(self, x, mask=None):
        _, weights = by_einsum(self.w_q(x), self.w_k(x), self.w_v(x), mask)
        return torch.einsum("bts,bsv->btv", self.drop(weights), self.w_v(x)), weights


class OwnDropout(_Own):
    def drop(self, weights):
        if not self.training or not self.dropout:
            return weights
        keep = torch.bernoulli(torch.full_like(weights, 1 - self.dropout))
        return weights * keep / (1 - self.dropout)

    def forward(self, x, mask=None):
        weights = by_loops(self.w_q(x), self.w_k(x), self.w_v(x), mask)[1]
        return self.drop(weights) @ self.w_v(x), weights


class Doubled(_Own):
    def forward(self, x, mask=None):
        q, k, v = (layer(x).double() for layer in (self.w_q, self.w_k, self.w_v))
        weights = scaled_dot_product_attention(q, k, v, mask).weights
        return (self.drop(weights) @ v).float(), weights.float()


class WeightsFirst(_Own):
    """Dropout on weights, the product with x before the projection: another order of the same product."""

    def forward(self, x, mask=None):
        _, weights = scaled_first(self.w_q(x), self.w_k(x), self.w_v(x), mask)
        return (self.drop(weights) @ x) @ self.w_v.weight.T, weights


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("module", [ByEinsum, OwnDropout, Doubled, WeightsFirst])
def test_a_right_module_gets_full_marks_however_it_is_written(module, seed: int) -> None:
    report = evaluate(TASK["SelfAttention"], module, seed=seed, hidden=True)
    assert report.passed, report


def attend_by_einsum(x, w_q, w_k, w_v):
    scores = torch.einsum("btm,mk,nk,bsn->bts", x, w_q, w_k, x) / w_q.shape[1] ** 0.5
    return torch.einsum("bts,bsm,mv->btv", scores.softmax(-1), x, w_v)


def attend_fused(x, w_q, w_k, w_v):
    return F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)


def attend_by_loop(x, w_q, w_k, w_v):
    return torch.stack([by_loops(each @ w_q, each @ w_k, each @ w_v)[0] for each in x])


def attend_transposed(x, w_q, w_k, w_v):
    scores = (x @ w_k) @ (x @ w_q).mT / math.sqrt(w_k.shape[1])  # keys in rows: the softmax runs over them
    return scores.softmax(dim=1).mT @ (x @ w_v)


@pytest.mark.parametrize("attend", [attend_by_einsum, attend_fused, attend_by_loop, attend_transposed])
def test_a_repaired_program_gets_full_marks_however_it_is_written(attend) -> None:
    report = evaluate(TASK["attend"], attend, hidden=True)
    assert report.passed, report


@pytest.mark.parametrize("prediction", ["GROWS ", "grows"])
def test_predictions_may_be_tensors_and_may_be_written_in_capitals(prediction: str) -> None:
    answer = TASK["prediction"].right()
    answer["query doubled, largest weight"] = prediction
    answer["d_k from 16 to 256, spread of q·k, times"] = torch.tensor(4.0)
    assert evaluate(TASK["prediction"], answer).passed


# --- what is given, and what must not earn anything -------------------------------------------------------


def test_the_program_to_repair_is_no_attempt_until_something_changes() -> None:
    def as_given(x, w_q, w_k, w_v):
        query, key, value = x @ w_q, x @ w_k, x @ w_v
        scores = query @ key.transpose(1, 2) / math.sqrt(x.shape[-1])
        return torch.softmax(scores, dim=1) @ value

    report = evaluate(TASK["attend"], as_given)
    assert not report.attempted and report.points == 0 and not report.hints, report

    def half_repaired(x, w_q, w_k, w_v):
        query, key, value = x @ w_q, x @ w_k, x @ w_v
        return torch.softmax(query @ key.transpose(1, 2) / math.sqrt(x.shape[-1]), dim=-1) @ value

    report = evaluate(TASK["attend"], half_repaired)
    assert report.attempted and report.mistakes == ("scale_d_model",) and report.points == 1


def test_predictions_that_are_missing_are_not_attempted() -> None:
    task = TASK["prediction"]
    assert not evaluate(task, dict.fromkeys(task.specs)).attempted
    one = evaluate(task, dict.fromkeys(task.specs) | {"d_k from 16 to 256, spread of q·k, times": 16})
    assert one.attempted and one.points == 0 and one.mistakes == ("variance_for_spread",)


@pytest.mark.parametrize("verdict", [None, True, False])
def test_a_test_that_always_says_the_same_gains_nothing(verdict) -> None:
    assert evaluate(TASK["test_attention"], lambda attention: verdict).points == 0


def test_a_test_that_compares_to_the_last_digit_refuses_right_programs() -> None:
    def too_strict(attention):
        g = torch.Generator().manual_seed(0)
        inputs = [torch.randn(2, n, d, generator=g) for n, d in ((3, 4), (5, 4), (5, 6))]
        assert torch.equal(attention(*inputs)[0].double(), references.attention(*inputs)[0].double())

    report = evaluate(TASK["test_attention"], too_strict)
    assert report.points == 0 and "refuses a right program" in repr(report)


def test_a_module_says_in_words_what_is_missing() -> None:
    class OtherNames(nn.Module):
        def __init__(self, d_model, d_k, d_v, dropout=0.0):
            super().__init__()
            self.query = nn.Linear(d_model, d_k, bias=False)

    report = evaluate(TASK["SelfAttention"], OtherNames)
    assert report.points == 0 and "w_q.weight" in repr(report)

    class WithBias(_Own):
        def __init__(self, d_model, d_k, d_v, dropout=0.0):
            super().__init__(d_model, d_k, d_v, dropout)
            self.w_v = nn.Linear(d_model, d_v)

    assert "w_v.bias" in repr(evaluate(TASK["SelfAttention"], WithBias))
    report = evaluate(TASK["SelfAttention"], _Own(6, 4, 3))
    assert report.points == 0 and "the class itself" in repr(report)


# --- the references and the course's own attention are the same -------------------------------------------


def test_the_reference_equals_the_course() -> None:
    g = torch.Generator().manual_seed(3)
    query, key, value = (torch.randn(2, n, d, generator=g) for n, d in ((3, 4), (5, 4), (5, 6)))
    mask = causal_mask(3, 5)
    mask[0] = False
    wanted = scaled_dot_product_attention(query, key, value, mask)
    output, weights = references.attention(query, key, value, mask)
    torch.testing.assert_close(output, wanted.output)
    torch.testing.assert_close(weights, wanted.weights)

    ours, theirs = references.SelfAttention(6, 4, 3), SelfAttention(6, 4, 3)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 5, 6, generator=g)
    torch.testing.assert_close(ours(x)[0], theirs(x).output)


def test_the_puzzle_has_the_scale_that_its_check_expects() -> None:
    g = torch.Generator().manual_seed(0)
    spreads = []
    for width in (8, 128):
        query, key = torch.randn(400, width, generator=g), torch.randn(100, width, generator=g)
        spreads.append(colleague_weights(query, key).log().std(dim=-1).mean().item())
    exponent = 0.5 - math.log(spreads[1] / spreads[0]) / math.log(128 / 8)
    assert evaluate(TASK["exponent"], exponent).passed
