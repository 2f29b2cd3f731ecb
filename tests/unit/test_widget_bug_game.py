"""The bug game in Python: rounds, distances, verdicts and score, what is sent and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from attnlab.widgets import BugGame

RIGHT = np.array([2.0, 1.0, 0.5, 0.2, 0.1])
CURVES = {
    "low": RIGHT * [1, 0.5, 0.1, 0.05, 0.1],
    "same": RIGHT,
    "above": RIGHT * [1, 1, 1.4, 1, 1],
    "below": RIGHT * [1, 1, 1 / 1.4, 1, 1],
    "high": RIGHT * [1, 2, 4, 9, 16],
    "higher": RIGHT * [1, 2.1, 4, 10, 20],
}
STEPS = [10, 20, 30, 40, 50]
ORDER = [0, 4, 2, 3, 5, 1]  # of the bugs in game 0
TEXTS = {name: f"About {name}." for name in CURVES}


def game(**settings):
    given = {"curves": CURVES, "right": RIGHT, "steps": STEPS, "alike": 1.5, **settings}
    return BugGame(**{"gives_away": TEXTS, "found_by": {name: name.upper() for name in TEXTS}, **given})


def play(widget, **settings):
    """Set several traits at once, as the browser does."""
    widget.set_state(settings)


def test_distances_are_the_widest_factor_either_way():
    widget = game()
    assert widget.apart("low") == widget.apart("low", "same") == pytest.approx(20)
    assert widget.apart("above", "below") == widget.apart("below", "above") == pytest.approx(1.96)
    assert widget.apart("low", "higher") == pytest.approx(200)
    assert widget.apart("same") == 1.0
    assert [name for name in CURVES if widget.unseen(name)] == ["same", "above", "below"]
    assert [name for name in CURVES if game(alike=1.3).unseen(name)] == ["same"]


@pytest.mark.parametrize("number", range(20))
def test_a_game_shows_each_bug_once_among_four_of_which_one_does_not_count(number):
    widget = game(game=number)
    unseen = {1, 2, 3}
    assert sorted(bug for bug, _ in widget.rounds()) == list(range(6))
    for bug, offered in widget.rounds():
        assert len({*offered}) == 4 and bug in offered
        counts = unseen if bug in unseen else {4, 5} if bug in {4, 5} else {bug}
        assert not {*offered} <= counts
    assert widget.rounds() == game(game=number).rounds()


def test_games_differ_and_stay_what_they_are():
    assert len({str(game(game=number).rounds()) for number in range(100)}) == 100
    assert [bug for bug, _ in game().rounds()] == ORDER
    places = [offered.index(bug) for number in range(100) for bug, offered in game(game=number).rounds()]
    assert min(np.bincount(places)) > 100  # a quarter of 600 at each place


@pytest.mark.parametrize(
    ("bug", "answer", "verdict"),
    [
        ("low", "low", "right"),
        ("above", "below", "alike"),  # 1.96 apart, but neither differs from the right program
        ("high", "higher", "alike"),  # near each other, far from the right program
        ("same", "high", "missed"),
        ("low", "same", "missed"),
    ],
)
def test_what_counts_as_an_answer(bug, answer, verdict):
    names = list(CURVES)
    for number in range(200):
        widget = game(game=number)
        first, offered = widget.rounds()[0]
        if first == names.index(bug) and names.index(answer) in offered:
            widget.answers = [names.index(answer)]
            assert widget.verdicts() == [verdict]
            assert widget.score() == (verdict != "missed")
            assert widget.missed() == ([bug] if verdict == "missed" else [])
            return
    pytest.fail("no game begins so")


def test_a_whole_game_is_counted():
    widget = game(game=3)
    rounds = widget.rounds()
    play(widget, round=6, answers=[offered[0] for _, offered in rounds])
    wrong = [
        widget.names[bug]
        for (bug, _), said in zip(rounds, widget.verdicts(), strict=True)
        if said == "missed"
    ]
    assert widget.missed() == wrong and 0 < len(wrong) < 6
    assert widget.score() == 6 - len(wrong)
    play(widget, game=4, round=0, answers=[])
    assert (widget.verdicts(), widget.score(), widget.missed()) == ([], 0, [])


def test_what_travels_is_small():
    state = game().get_state()
    sizes = {name: len(part) for name, part in state.items() if isinstance(part, bytes)}
    assert sizes == {"curves": 4 * 7 * 5, "steps": 4 * 5}
    sent = np.frombuffer(state["curves"], "<f4").reshape(7, 5)
    np.testing.assert_array_equal(sent, np.array([RIGHT, *CURVES.values()], "<f4"))
    rest = {name: part for name, part in state.items() if name not in {*sizes, "_esm", "_css"}}
    assert len(json.dumps(rest, default=str)) < 1000
    assert len(state["_esm"]) + len(state["_css"]) < 40_000
    assert len(json.dumps(game().get_state(), default=len)) == len(json.dumps(state, default=len))
    assert repr(game()) == "BugGame(6 bugs, 5 noted steps, game 0)"


def without(name):
    return {key: text for key, text in TEXTS.items() if key != name}


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"curves": [RIGHT]}, TypeError, "curves: expected a mapping .*, got list"),
        ({"curves": dict(list(CURVES.items())[:3])}, ValueError, "curves: expected 4 to 24 bugs, got 3"),
        ({"curves": {**CURVES, "low": RIGHT[:4]}}, ValueError, r"curves\['low'\]: .* \(5,\), got \(4,\)"),
        ({"curves": {**CURVES, "low": RIGHT - 0.1}}, ValueError, r"curves\['low'\]: expected losses above 0"),
        ({"curves": {**CURVES, " ": RIGHT}}, ValueError, "curves: expected 1 to 240 letters for ' ', got 0"),
        ({"right": RIGHT[None]}, ValueError, r"right: expected shape \(P,\) .*, got \(1, 5\)"),
        ({"right": RIGHT * np.nan}, ValueError, "right: expected finite numbers"),
        ({"right": ["x"] * 5}, TypeError, "right: expected a tensor or an array"),
        ({"steps": [1, 2, 3, 4]}, ValueError, "steps: expected 5 rising whole numbers"),
        ({"steps": [1, 2, 2, 4, 5]}, ValueError, "steps: expected 5 rising whole numbers"),
        ({"steps": [-1, 2, 3, 4, 5]}, ValueError, "steps: expected 5 rising whole numbers"),
        ({"steps": [1, 2, 3.5, 4, 5]}, ValueError, "steps: expected 5 rising whole numbers"),
        ({"gives_away": without("low")}, ValueError, r"gives_away: .* each bug .*\['low'\]"),
        ({"gives_away": {**TEXTS, "more": "x"}}, ValueError, r"gives_away: .* no other.*\['more'\]"),
        ({"gives_away": {**TEXTS, "low": 3}}, TypeError, "gives_away: expected text for 'low', got int"),
        ({"gives_away": {**TEXTS, "low": "x" * 241}}, ValueError, "gives_away: expected 1 to 240 letters"),
        ({"found_by": list(TEXTS)}, TypeError, "found_by: expected a mapping .*, got list"),
        ({"alike": 1.0}, ValueError, "alike: expected a factor above 1, got 1.0"),
        ({"alike": float("inf")}, ValueError, "alike: expected a factor above 1, got inf"),
        ({"game": -1}, ValueError, "game: expected 0 to 999, got -1"),
        ({"game": 1000}, ValueError, "game: expected 0 to 999, got 1000"),
    ],
)
def test_what_does_not_fit_is_refused(given, error, says):
    with pytest.raises(error, match=says):
        game(**given)


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="name: expected one of .*, got 'none'"):
        game().apart("none")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"round": 7}, "round: expected 0 to 6, got 7"),
        ({"round": 1}, "round: expected 1 or 2 answers in round 1, got 0"),
        ({"round": 0, "answers": [0, 0]}, "expected 0 or 1 answers in round 0, got 2"),
        ({"answers": [6]}, r"answers: expected one of \[.*\] as answer 0, got 6"),
        ({"game": 1000}, "game: expected 0 to 999, got 1000"),
        ({"alike": 0.5}, "alike: expected a factor above 1"),
    ],
)
def test_a_bad_setting_from_the_browser_changes_nothing(settings, says):
    widget = game()
    with pytest.raises(ValueError, match=says):
        play(widget, **settings)
    assert (widget.game, widget.round, widget.answers, widget.alike) == (0, 0, [], 1.5)
