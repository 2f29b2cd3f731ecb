"""Lesson 17's checks: wrong answers nobody foresaw, half-repaired programs, predictions that follow."""

import functools

import pytest
import torch

from attnlab.checks import engine
from attnlab.checks.ch17_circuits import mistakes, references
from attnlab.checks.engine import load_tasks
from tests.checks.right_answers.circuits import patch_by_index

evaluate = functools.partial(engine.evaluate, seconds=60, hidden=True)

TASK = {task.name: task for task in load_tasks().values() if task.lesson == "circuits"}


def test_there_are_five_exercises_of_three_kinds() -> None:
    assert len(TASK) == 5
    assert {task.kind for task in TASK.values()} == {"implement", "predict", "repair"}


def test_the_program_to_repair_is_no_attempt_until_something_changes() -> None:
    def as_given(heads, clean, head, positions):
        patched = clean.clone()
        patched[:, head, positions] = heads[:, head, positions]
        return patched

    report = evaluate(TASK["patch"], as_given)
    assert not report.attempted and report.points == 0 and not report.hints, report

    def turned(heads, clean, head, positions):
        return as_given(clean, heads, head, positions)

    report = evaluate(TASK["patch"], turned)
    assert report.attempted and report.mistakes == ("crossed",) and 0 < report.points < report.max_points

    def paired(heads, clean, head, positions):
        rows = torch.arange(len(heads))
        patched = clean.clone()
        patched[rows, head, positions] = heads[rows, head, positions]
        return patched

    report = evaluate(TASK["patch"], paired)
    assert report.mistakes == ("reversed",) and 0 < report.points < report.max_points


def test_a_patch_that_writes_into_what_it_was_given_is_refused() -> None:
    def in_place(heads, clean, head, positions):
        rows = torch.arange(len(heads))
        heads[rows, head, positions] = clean[rows, head, positions]
        return heads

    report = evaluate(TASK["patch"], in_place)
    assert report.points == 0 and "changes its first argument" in repr(report)


def test_a_patch_for_one_head_of_the_check_is_not_enough() -> None:
    def always_the_second(heads, clean, head, positions):
        return patch_by_index(heads, clean, 1, positions)

    assert not evaluate(TASK["patch"], always_the_second).passed


def test_detectors_that_guess_are_refused() -> None:
    def constant(weights, tokens):
        return torch.full(weights.shape[1:2], 0.5), torch.full(weights.shape[1:2], 0.5)

    assert evaluate(TASK["detect"], constant).points <= 1

    def without_the_repeat_next_door(weights, tokens):
        """Leaves j = t out, where a token follows itself."""
        previous, _ = references.detect(weights, tokens)
        follows = torch.zeros(weights[:, 0].shape, dtype=torch.bool)
        follows[:, :, 1:] = tokens[:, :, None] == tokens[:, None, :-1]
        follows = follows.tril(-1)
        seen = follows.any(dim=-1).sum().clamp(min=1)
        return previous, (weights * follows[:, None]).sum(dim=(0, 2, 3)) / seen

    assert not evaluate(TASK["detect"], without_the_repeat_next_door).passed


def test_an_ablation_that_removes_after_the_mix_is_refused() -> None:
    def too_late(heads, w_o, removed):
        output = references.ablate(heads, w_o, [])
        width = heads.shape[-1]
        for head in removed:
            output[..., head * width : (head + 1) * width] = 0
        return output

    report = evaluate(TASK["ablate"], too_late)
    assert report.attempted and not report.passed


@pytest.mark.parametrize("answer", [(0, 0.5, 0.5), (torch.tensor(2), 1.0, 0.0)])
def test_three_numbers_without_a_measurement_are_refused(answer) -> None:
    assert not evaluate(TASK["compare"], lambda *args: answer).passed


def test_each_half_has_another_best_head_and_another_commonest_offset() -> None:
    from attnlab.checks.ch17_circuits import _halves

    one, two, first, second = _halves(torch.Generator().manual_seed(0))
    both = torch.cat([one, two])
    assert len({int(hits.float().mean(dim=0).argmax()) for hits in (one, two, both)}) == 3
    assert len({int(found.mode().values) for found in (first, second, torch.cat([first, second]))}) == 3


def test_the_predictions_follow_from_the_circuit() -> None:
    order = torch.randperm(40, generator=torch.Generator().manual_seed(3))
    tokens = order[:6].repeat(2)
    first, second, output = references.circuit(tokens, 40)
    cut = references.circuit(tokens, 40, previous=False)[1]
    still = references.circuit(tokens, 40, induction=False)[0]
    stripe = second.diagonal(-5)[1:].mean(), cut.diagonal(-5)[1:].mean()
    right = output[:-1].argmax(dim=-1) == tokens[1:]
    followed = {
        mistakes.STRIPE: int(11 - second[11].argmax()),
        mistakes.NO_PREVIOUS: "falls" if stripe[1] < stripe[0] - 0.3 else "stays",
        mistakes.NO_INDUCTION: "stays" if torch.equal(first, still) else "falls",
        mistakes.NEW_SYMBOLS: "right" if right[6:].all() else "wrong",
        mistakes.ONE_OF_TWO: "halves" if output.max() / (2 * output).max() == 0.5 else "stays",
        mistakes.FIRST_COPY: "few" if right[:5].float().mean() < 0.5 else "most",
    }
    assert evaluate(TASK["prediction"], followed).passed


def test_predictions_that_are_missing_are_not_attempted() -> None:
    task = TASK["prediction"]
    assert not evaluate(task, dict.fromkeys(task.specs)).attempted
    one = evaluate(task, dict.fromkeys(task.specs) | {mistakes.STRIPE: 6})
    assert one.points == 0 and one.mistakes == ("whole_period",)
