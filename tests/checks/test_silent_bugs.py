"""Lesson 14's checks: what is special to the set."""

import ast
import functools
import math
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from attnlab import contracts
from attnlab.attention import scaled_dot_product_attention
from attnlab.checks import ch14_silent_bugs as chapter
from attnlab.checks import engine
from attnlab.checks.ch14_silent_bugs import inputs, references
from attnlab.checks.engine import TASKS, load_tasks
from attnlab.training import token_loss
from tests.checks.right_answers import silent_bugs as right

# Time limits have their own tests: here a busy machine must not matter.
evaluate = functools.partial(engine.evaluate, seconds=60)

load_tasks()
TASK = {task.name: task for task in TASKS.values() if task.lesson == "silent_bugs"}
EXERCISES = Path(__file__).parents[2] / "book/exercises/14_silent_bugs.py"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_set_mixes_five_kinds() -> None:
    kinds = [task.kind for task in TASK.values()]
    assert kinds == ["predict", "implement", "implement", "explore", "test", "repair"]
    assert sum(len(task.mistakes) for task in TASK.values()) >= 60


# --- the references and the library are the same ------------------------------------------------------------


def test_the_loss_equals_the_library_and_torch() -> None:
    pieces = inputs.three_pieces(generator(), pad=4)
    ours = references.loss_of_pieces(pieces, 4)
    parts = [token_loss(logits, labels, pad=4) for logits, labels in pieces]
    torch.testing.assert_close(ours, sum(p.total for p in parts) / sum(p.num_tokens for p in parts))
    logits = torch.cat([logits.flatten(0, 1) for logits, _ in pieces])
    labels = torch.cat([labels.flatten() for _, labels in pieces])
    torch.testing.assert_close(ours, F.cross_entropy(logits, labels, ignore_index=4))


@pytest.mark.parametrize(("clip", "warmup"), [(1.0, 0), (0.3, 5), (100.0, 30)])
def test_the_moves_are_those_of_torch(clip: float, warmup: int) -> None:
    row = inputs.gradients(generator(), 40, long=20)
    ours = references.adam_moves(row, 0.1, clip, warmup)
    torch.testing.assert_close(ours, right.moves_by_torch(row, 0.1, clip, warmup), atol=1e-5, rtol=1e-4)


def test_attention_equals_the_library() -> None:
    x, read, real, heads = inputs.attended(generator())
    q, k = (y.unflatten(-1, (heads, -1)).transpose(1, 2) for y in (x, read))
    expected = scaled_dot_product_attention(q, k, k, real[:, None, None]).output
    torch.testing.assert_close(references.attend(x, read, real, heads), expected.transpose(1, 2).flatten(2))


def test_the_repaired_program_keeps_the_contracts_and_the_planted_bugs_break_them() -> None:
    weights, pieces = inputs.translator(generator()), inputs.pairs(generator(1), [(4, 5)])
    source, target = pieces[0]

    def by_rows(**switches):
        rows = [[(source[i : i + 1], target[i : i + 1])] for i in range(4)]
        numbers = [int((target[i, 1:] != 0).sum()) for i in range(4)]
        losses = [references.batch_loss(weights, row, 2, **switches) for row in rows]
        return sum(n * loss for n, loss in zip(numbers, losses, strict=True)) / sum(numbers)

    whole = references.batch_loss(weights, pieces, 2)
    torch.testing.assert_close(by_rows(), whole)
    along = references.batch_loss(weights, pieces, 2, places="along the batch")
    assert (by_rows(places="along the batch") - along).abs() > 1e-3

    def loss(parts, **switches):
        return references.loss_of_pieces(parts, 0, **switches)

    logits, labels = inputs.piece(generator(), 4, 5)
    contracts.same_in_pieces(loss, logits, labels)
    contracts.padding_costs_nothing(loss, logits, labels)
    with pytest.raises(AssertionError, match="cut after"):
        contracts.same_in_pieces(lambda parts: loss(parts, mean="of means"), logits, labels)


def test_every_real_target_is_foreseen_only_with_the_mask_one_ahead() -> None:
    """Changing the last token that is read changes an earlier loss only where a place sees ahead."""
    weights = inputs.translator(generator())
    source, target = inputs.pairs(generator(1), [(1, 5)])[0]
    target = torch.tensor([[1, 3, 4, 5, 6, 2, 0]])
    other = torch.tensor([[1, 3, 4, 5, 7, 2, 0]])

    def first_losses(rows, ahead):
        # What is asked from the third place on is padding here, so that only earlier places are in the loss.
        kept = rows.clone()
        total = []
        for last in (2, 3):
            kept = rows[:, : last + 2]
            total.append(references.batch_loss(weights, [(source, kept)], 2, ahead=ahead) * (last + 1))
        return torch.stack(total)

    same, seen = (first_losses(target, a) - first_losses(other, a) for a in (0, 1))
    assert same[0].abs() < 1e-6
    assert seen.abs().max() > 1e-3


# --- predictions and findings follow from a computation -----------------------------------------------------


def test_the_predictions_are_what_a_computation_gives() -> None:
    losses = torch.tensor([3.0] * 3 + [1.0] * 9 + [0.25] * 3)
    pieces = [losses[:3], losses[3:12]]
    scores = torch.stack([torch.ones(16), torch.zeros(16)]) @ torch.ones(16)
    table, x = torch.arange(64.0).view(32, 2), torch.zeros(3, 7, 2)
    placed = x + table[: len(x), None]
    steps = torch.arange(10)
    data_inputs, data_labels = steps[:-1], steps[1:]
    asked = data_labels[1:]
    answers = (
        losses[:12].mean(),
        torch.stack([piece.mean() for piece in pieces]).mean(),
        losses.mean(),
        (scores / math.sqrt(64)).softmax(dim=0)[0],
        len(placed[0].unique(dim=0)),
        int((asked - data_inputs[:-1])[0]),
        _finder(),
    )
    prediction = dict(zip(TASK["prediction"].specs, answers, strict=True))
    assert evaluate(TASK["prediction"], prediction).passed


def _finder() -> str:
    """The only property of the four that refuses the one and lets pass the other."""
    x = torch.randn(3, 5, 4, generator=generator(2))

    def attend(x, axis, mask):
        scores = (x @ x.mT / 2).masked_fill(~mask, -1e9)
        weights = scores.softmax(dim=axis)
        return weights @ x, weights

    everything = torch.ones(5, 5, dtype=torch.bool)
    causal = everything.tril()
    verdicts = {}
    for label, axis, mask in (("over queries", -2, causal), ("no mask", -1, everything)):
        checks = {
            "rows sum to one": lambda a=axis, m=mask: contracts.rows_sum_to_one(attend(x, a, m)[1]),
            "causal": lambda a=axis, m=mask: contracts.causal(lambda x: attend(x, a, m)[0], x),
            "alone as in the batch": lambda a=axis, m=mask: contracts.batch_independent(
                lambda x: attend(x, a, m)[0], x
            ),
        }
        for name, check in checks.items():
            try:
                check()
            except AssertionError:
                verdicts.setdefault(name, set()).add(label)
    (found,) = [name for name, refused in verdicts.items() if refused == {"over queries"}]
    return found


def _functions() -> dict[str, object]:
    """The functions of the exercise notebook, as they are given."""
    text = EXERCISES.read_text(encoding="utf-8")
    given = re.sub(r"( *)# BEGIN SOLUTION\n.*?# END SOLUTION", _stub, text, flags=re.S)
    tree = ast.parse(given)
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    names = {"math": math, "torch": torch, "F": F, "Tensor": torch.Tensor}
    exec("from collections.abc import Callable", names)
    exec(compile(tree, EXERCISES.name, "exec"), names)
    return names


def _stub(found: re.Match[str]) -> str:
    lines = re.findall(r"^ *# STUB (.*)$", found[0], flags=re.M)
    return "\n".join(found[1] + line for line in lines) or found[1] + "raise NotImplementedError"


@pytest.mark.parametrize(("times", "clip"), [(1e3, math.inf), (1e4, math.inf), (1e3, 1.0), (30, math.inf)])
def test_the_cell_to_explore_shows_what_the_check_expects(times: float, clip: float) -> None:
    gradients = [times if step == 60 else 1.0 for step in range(1, 801)]
    lengths = _functions()["lengths_of_moves"](gradients, clip)
    assert sum(length < 0.5 for length in lengths) == chapter.small_moves(times, clip)


def test_findings_may_be_read_off_and_are_not_all_alike() -> None:
    numbers = [chapter.small_moves(*at) for at in ((1e3, math.inf), (1e4, math.inf), (1e3, 1.0))]
    assert numbers[2] == 0
    assert 100 < numbers[1] - numbers[0] < 300  # a factor of ten adds a number of steps
    findings = dict(zip(TASK["findings"].specs, [numbers[0] + 3, numbers[1], 0, 0.999], strict=True))
    assert evaluate(TASK["findings"], findings).passed


# --- the program that is given, and half repairs ------------------------------------------------------------


def test_the_program_given_counts_as_untouched() -> None:
    report = evaluate(TASK["batch_loss"], _functions()["batch_loss"])
    assert not report.attempted and report.points == 0


@pytest.mark.parametrize(
    "left", [("one_ahead",), ("along_batch", "mean_of_means"), ("one_ahead", "mean_of_means")]
)
def test_half_a_repair_is_told_what_is_left(left: tuple[str, ...]) -> None:
    task = TASK["batch_loss"]
    mistakes = [mistake for mistake in task.mistakes if mistake.key in left]
    report = evaluate(task, task.answer_with(*mistakes))
    assert report.attempted and not report.passed
    assert any(hint in str(report) for hint in (mistake.hint for mistake in mistakes))


# --- wrong answers that nobody foresaw ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("loss_of_pieces", lambda pieces, pad: right.loss_by_ignoring(pieces[::-1][:2], pad)),
        ("loss_of_pieces", lambda pieces, pad: right.loss_by_ignoring(pieces, pad) / math.log(2)),
        ("loss_of_pieces", lambda pieces, pad: torch.tensor(1.5)),
        ("adam_moves", lambda g, lr, clip, warmup: -lr * torch.tensor(g).sign()),
        ("adam_moves", lambda g, lr, clip, warmup: right.moves_in_a_loop(g, lr, clip, 2 * warmup)),
        ("adam_moves", lambda g, lr, clip, warmup: right.moves_in_a_loop(g, lr, clip, warmup).cumsum(0)),
        ("batch_loss", lambda w, pieces, h: references.batch_loss(w, pieces[:1], h)),
        ("batch_loss", lambda w, pieces, h: references.batch_loss(w, pieces, 1)),
        ("batch_loss", lambda w, pieces, h: torch.tensor(2.0)),
    ],
)
def test_a_wrong_answer_that_nobody_foresaw_is_caught(name, wrong) -> None:
    report = evaluate(TASK[name], wrong)
    assert not report.passed and report.points < report.max_points


@pytest.mark.parametrize("verdict", [True, None])
def test_a_test_that_accepts_everything_earns_nothing(verdict) -> None:
    assert evaluate(TASK["test_attention"], lambda attend: verdict).points == 0


def test_a_test_that_refuses_everything_earns_nothing() -> None:
    assert evaluate(TASK["test_attention"], lambda attend: False).points == 0


def test_a_test_with_one_head_and_no_padding_misses_bugs() -> None:
    def weak(attend):
        x, read = torch.randn(2, 3, 5, 6, generator=generator()).unbind()
        real = torch.ones(3, 5, dtype=torch.bool)
        assert (attend(x, read, real, 1) - (x @ read.mT / 6**0.5).softmax(-1) @ read).abs().max() < 1e-4

    report = evaluate(TASK["test_attention"], weak)
    assert 0 < report.points < report.max_points / 2


def test_no_answer_at_once_passes_two_exercises() -> None:
    assert not evaluate(TASK["adam_moves"], right.loss_by_ignoring).passed
    assert not evaluate(TASK["batch_loss"], references.adam_moves).passed
