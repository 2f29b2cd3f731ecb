"""Lesson 16's checks: what is special to them, and the puzzles that they look into."""

import functools

import pytest
import torch

from attnlab import contracts
from attnlab.attention import causal_mask
from attnlab.checks import engine
from attnlab.checks.ch16_attention_maps import guesses, references
from attnlab.checks.ch16_attention_maps.puzzle import TOKENS, encode, hand_made, mystery_maps
from attnlab.checks.engine import load_tasks

# Time limits have their own tests: here a busy machine must not matter.
evaluate = functools.partial(engine.evaluate, seconds=60)

TASK = {task.name: task for task in load_tasks().values() if task.lesson == "attention_maps"}


def test_there_are_five_exercises_of_different_kinds() -> None:
    assert len(TASK) == 5
    assert {task.kind for task in TASK.values()} == {"implement", "predict", "measure", "explore"}
    assert sum(len(task.mistakes) for task in TASK.values()) >= 30


# --- rollout and removal ----------------------------------------------------------------------------------


def test_rollout_by_hand() -> None:
    maps = torch.tensor([[[1.0, 0, 0], [1, 0, 0], [0, 0, 1]], [[1.0, 0, 0], [0, 1, 0], [0, 1, 0]]])
    flow = references.rollout(maps[:, None, None])
    torch.testing.assert_close(flow[0, -1], torch.tensor([0.25, 0.25, 0.5]))


def test_a_rollout_that_changes_its_input_earns_nothing() -> None:
    def careless(maps):
        maps.add_(torch.eye(maps.shape[-1])).div_(2)  # averaged later, which is right
        flow = torch.eye(maps.shape[-1])
        for weights in maps:
            flow = weights.mean(dim=1) @ flow
        return flow

    report = evaluate(TASK["rollout"], careless)
    assert report.points == 0 and "changes its first argument" in repr(report)


def test_effects_of_a_contribution_that_is_cut_out_are_another_thing() -> None:
    def without_the_model(predict, tokens):
        return torch.zeros(*tokens.shape, tokens.shape[1])

    report = evaluate(TASK["removal_effects"], without_the_model)
    assert report.points < report.max_points / 2 + 1 and not report.passed


# --- predictions ------------------------------------------------------------------------------------------


def test_the_predictions_follow_from_computations() -> None:
    A = torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    step = (A + torch.eye(3)) / 2
    g = torch.Generator().manual_seed(0)
    free = {}
    for keys in (40, 12):
        conditions = torch.cat([torch.randn(keys, 16, generator=g), torch.ones(keys, 1)], dim=1)
        free[keys] = keys - torch.linalg.matrix_rank(conditions).item()
    torch.manual_seed(0)
    sums = torch.dropout(torch.rand(4000, 9, generator=g).softmax(dim=-1), 0.4, True).sum(dim=-1)
    assert sums.min() < 0.9 and sums.max() > 1.1 and abs(sums.mean() - 1) < 0.03
    scores = torch.randn(6, generator=g)
    assert (scores[1:].softmax(dim=-1) > scores.softmax(dim=-1)[1:]).all()
    measured = {
        "rollout, third token to first": (step @ step)[2, 0].item(),
        "40 keys, d_v = 16, free directions": free[40],
        "12 keys, d_v = 16, free directions": free[12],
        "rows of weights after dropout": "1 on average",
        "mean of heads 1, 1, 0, 0": 0.5,
        "a key is hidden, weights of the others": "grow",
    }
    assert evaluate(TASK["prediction"], measured).passed


@pytest.mark.parametrize("name", ["prediction", "claims", "sink"])
def test_what_is_missing_is_no_attempt(name: str) -> None:
    assert not evaluate(TASK[name], dict.fromkeys(TASK[name].specs)).attempted


# --- the sink ---------------------------------------------------------------------------------------------


def test_the_mystery_maps_are_maps() -> None:
    maps = mystery_maps()
    assert maps.shape == (2, 3, 10, 10)
    contracts.rows_sum_to_one(maps, causal_mask(10))


def test_only_one_head_has_a_sink() -> None:
    maps = mystery_maps()
    over_share = torch.stack(
        [
            (maps[..., j + 1 :, j] - 1 / torch.arange(j + 2.0, 11)).median(dim=-1).values
            for j in range(7)  # three queries or more come later
        ],
        dim=-1,
    )
    place = torch.unravel_index(over_share.argmax(), over_share.shape)
    assert [number.item() for number in place] == [1, 2, 3]
    others = over_share.flatten().sort().values[:-1]
    assert over_share.max() > 0.4 and others.max() < 0.25


def test_the_decoys_are_darker_by_the_wrong_measures() -> None:
    maps = mystery_maps()
    assert maps[1].amax(dim=(-2, -1))[1] > maps[1, 2, 4:, 3].max()  # the loud cell
    assert maps[0, 1, :3, 0].mean() > 0.6  # the first column of the even head, where it has little choice


# --- the model made by hand -------------------------------------------------------------------------------


def test_the_model_made_by_hand_reads_notes() -> None:
    logits, maps = hand_made(encode("^ a 3 b 7 a 3 c 1 b"))
    contracts.rows_sum_to_one(maps, causal_mask(10))
    probability = logits.softmax(dim=-1)[0]
    assert probability[5, 3] > 0.99 and probability[9, 7] > 0.99  # known letters
    assert probability[7].max() < 0.2  # a new letter: it does not know
    assert maps[1, 0, 7, 0] > 0.9  # and looks at the start mark
    assert len(TOKENS) == 15


def test_the_claims_are_what_the_maps_suggest_and_removal_decides() -> None:
    maps = hand_made(encode(guesses.TEXT_B))[1][:, 0, -1]
    assert maps[1, 4] > 0.9 and maps[1, 3] < 0.01 and maps[0, 8] > 0.9
    maps = hand_made(encode(guesses.TEXT_C))[1][:, 0, -1]
    assert abs(maps[1, 6] - 0.5) < 0.01 and abs(maps[1, 8] - 0.5) < 0.01
    verdicts = [spec.example() for spec in guesses.measured_claims().values()]
    assert verdicts[:4] == ["holds", "refuted", "refuted", "refuted"] and verdicts[4] > 0.8
