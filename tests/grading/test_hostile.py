"""The hostile collection, graded in the sandbox: nothing gets out, no row is lost, no point is gained.

The daily tests leave out what is much like another one; ``make hostile`` hands in everything.
"""

import pytest

from tests.grading.hostile.measure import HONEST, measure
from tests.grading.hostile.notebook import ALL, COLLECTION, TASKS

pytestmark = pytest.mark.sandbox
DAILY = [one for one in COLLECTION if not one.rare]


@pytest.fixture(scope="module")
def figures():
    """The collection, handed in and graded once."""
    return measure(DAILY, jobs=2)


@pytest.mark.timeout(900)
def test_every_submission_has_its_row(figures):
    assert figures.submissions == len(DAILY) >= 40
    assert figures.lost_rows == []
    assert set(figures.marks) == {HONEST, *(one.name for one in DAILY)}


@pytest.mark.timeout(900)
def test_nothing_gets_out(figures):
    assert figures.escapes == []


@pytest.mark.timeout(900)
def test_no_point_is_gained(figures):
    assert figures.gained == []


@pytest.mark.timeout(900)
def test_honest_work_keeps_its_points(figures):
    assert figures.robbed == []


@pytest.mark.timeout(900)
def test_every_row_that_failed_has_a_reason(figures):
    failed = [mark.result for mark in figures.marks.values() if mark.result.status == "failed"]
    assert len(failed) > 10 and all(result.reason for result in failed)


def test_the_collection_attacks_and_is_honest_enough_to_tell():
    """Each submission says what it may lose; most keep their honest work."""
    assert all(one.loses | one.may_lose <= ALL for one in COLLECTION)
    kept = sum(len(ALL - one.loses - one.may_lose) for one in COLLECTION)
    assert kept > len(COLLECTION) * len(TASKS) / 2
