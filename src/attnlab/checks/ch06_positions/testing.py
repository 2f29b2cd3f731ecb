"""A right test of rotary programs, the right programs that it has to accept, and the wrong ones."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..tasks import Mistake
from .references import rotate_by_distance

Rotate = Callable[[Tensor, Tensor], Tensor]


def _half_split(heads: Tensor, positions: Tensor) -> Tensor:
    return rotate_by_distance(heads, positions, pairs="halves")


def _in_double(heads: Tensor, positions: Tensor) -> Tensor:
    return rotate_by_distance(heads.double(), positions)


def _slower(heads: Tensor, positions: Tensor) -> Tensor:
    return rotate_by_distance(heads, positions, pairs="halves", base=23_000.0)


RIGHT_PROGRAMS = (_half_split, _in_double, _slower)


def good_test(rotate: Rotate) -> None:
    """Refuse a program whose scores do not depend on the distance alone, or not on the distance at all."""
    g = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 2, 3, 5, 8, generator=g)  # (B, H, T, D) each
    places = torch.arange(5) + torch.tensor([[0], [11]])  # (B, T)

    def scores(queries_on: int, keys_on: int) -> Tensor:
        turned = rotate(query, places + queries_on), rotate(key, places + keys_on)
        return turned[0] @ turned[1].transpose(-2, -1)

    near = scores(0, 0)
    for shift in (1, 500):
        assert (scores(shift, shift) - near).abs().max() < 1e-3, "both moved on, and a score changes"
        assert (scores(shift, 0) - near).abs().max() > 1e-2, "queries moved on, and no score changes"
    alone = rotate(query[1:], places[1:])
    assert (alone - rotate(query, places)[1:]).abs().max() < 1e-3, "a sequence depends on its neighbour"


_LETS_PASS = "Your test lets pass a program {}"


def _bug(key: str, what: str, **switches: object) -> Mistake:
    return Mistake(key, _LETS_PASS.format(what), switches)


WRONG_PROGRAMS = (
    _bug(
        "turns_nothing",
        "that turns nothing. All that should stay the same does, then; what has to change, and when?",
        turn="nothing",
    ),
    _bug(
        "places_counted",
        "that counts places from 0 in every call. What if the queries alone move on?",
        places="counted",
    ),
    _bug(
        "added", "that adds sinusoids where it should turn. What does a shift of both do then?", turn="added"
    ),
    _bug(
        "both_plus",
        "in which both sines have a plus. What does a shift of both do then, or the length of a vector?",
        turn="both plus",
    ),
    _bug(
        "from_the_new_first",
        "that makes the second number of a pair from the first one after it was turned.",
        turn="from the new first",
    ),
    _bug(
        "mixed_layouts",
        "that turns neighbours by the angles of the other layout, so that the two of a pair have two angles.",
        turn="tables of the other layout",
    ),
    _bug(
        "places_of_the_first",
        "that gives all sequences the positions of the first one. Have your sequences different places, "
        "and does each alone give what it gives in the batch?",
        places="of the first sequence",
    ),
    _bug(
        "table_too_short",
        "whose table ends early: late places are all turned like its last one. How late were yours?",
        longest=64,
    ),
)
