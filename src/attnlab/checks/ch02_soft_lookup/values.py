"""Lesson 2's answers that are values: what is predicted, and what is found by turning the temperature."""

from __future__ import annotations

import torch

from ..values import Between, Choice, Near, Spec, WrongValue
from . import references

STAY = ("stay", "change")
WAYS = ("rises", "falls", "stays")

ALONE = "1. softmax over the queries, one query, 6 keys: its weights sum to"
ZERO_PRODUCT = "2. query of zeros, dot products, 4 keys: largest weight"
ZERO_DISTANCE = "3. query of zeros, distances: largest weight goes to the key that is"
SHIFT_PRODUCT = "4. same vector added to every key, dot products: the weights"
SHIFT_DISTANCE = "5. same vector added to every key, distances: the weights"
TWICE = "6. key stored twice, with values 2 and 6, cold: answer"
SINGLE = "7. table with one entry: slope of the answer in the query"


def predicted() -> dict[str, Spec]:
    """What happens, computed."""
    g = torch.Generator().manual_seed(0)
    queries, keys = torch.randn(3, 2, generator=g), torch.randn(4, 2, generator=g)
    shift, values = torch.tensor([1.5, -0.5]), torch.randn(4, 1, generator=g)

    def weights(queries: torch.Tensor, keys: torch.Tensor, closeness: str) -> torch.Tensor:
        return references.kernel_lookup(queries, keys, values, 1.0, closeness=closeness)[1]

    def shifted(closeness: str) -> Choice:
        change = weights(queries, keys, closeness) - weights(queries, keys + shift, closeness)
        return Choice("stay" if change.abs().max() < 1e-5 else "change", STAY)

    zero = torch.zeros(1, 2)
    nearest = weights(zero, keys, "squared")[0].argmax() == keys.norm(dim=-1).argmin()
    twice = references.kernel_lookup(
        torch.tensor([[3.0]]), torch.tensor([[0.0], [3.0], [3.0]]), torch.tensor([[1.0], [2.0], [6.0]]), 0.01
    )[0]
    single = torch.tensor([[4.0]], requires_grad=True)
    answer, _ = references.kernel_lookup(single, torch.tensor([[3.0]]), torch.tensor([[2.0]]), 2.0)
    (slope,) = torch.autograd.grad(answer, single)
    return {
        ALONE: Near(torch.randn(1, 6, generator=g).softmax(dim=-2).sum().item(), absolute=0.01),
        ZERO_PRODUCT: Near(weights(zero, keys, "dot product").max().item(), absolute=0.01),
        ZERO_DISTANCE: Choice("shortest" if nearest else "longest", ("shortest", "longest", "none")),
        SHIFT_PRODUCT: shifted("dot product"),
        SHIFT_DISTANCE: shifted("squared"),
        TWICE: Near(twice.item(), absolute=0.01),
        SINGLE: Near(slope.item(), absolute=0.01),
    }


WRONGLY_PREDICTED = (
    WrongValue(
        "rows_sum_to_one",
        "The columns sum to 1 here. There is one query, so how long is a column, and how many columns are "
        "there?",
        {ALONE: 1},
    ),
    WrongValue(
        "shared_by_keys",
        "You shared the whole out among the keys. Here each key shares itself out among those who ask: "
        "among how many?",
        {ALONE: Near(1 / 6, absolute=0.01)},
    ),
    WrongValue(
        "zero_takes_all",
        "Compute the scores: what is the dot product of zeros with any key? And what does a softmax make "
        "of equal scores?",
        {ZERO_PRODUCT: 1},
    ),
    WrongValue(
        "zero_gets_nothing",
        "A score of 0 is no weight of 0: its exponential is not 0, and the weights sum to 1.",
        {ZERO_PRODUCT: 0},
    ),
    WrongValue(
        "long_keys_win",
        "Long keys gain with dot products. Here the distance decides: which key is nearest to the origin?",
        {ZERO_DISTANCE: "longest"},
    ),
    WrongValue(
        "zero_sees_nothing",
        "By dot product a query of zeros prefers no key. But zeros are a place like any other: how far is "
        "it from each key?",
        {ZERO_DISTANCE: "none"},
    ),
    WrongValue(
        "shift_moves_products",
        "Write out q · (k_j + c). Which part of it depends on j?",
        {SHIFT_PRODUCT: "change"},
    ),
    WrongValue(
        "distance_blind_to_shift",
        "The distances would stay if the query moved along. The keys alone have moved.",
        {SHIFT_DISTANCE: "stay"},
    ),
    WrongValue(
        "first_found",
        "You took the first one that is found. Both entries are equally near: what do their weights look "
        "like?",
        {TWICE: 2},
    ),
    WrongValue(
        "last_stored",
        "A dictionary would keep the last one. A soft lookup keeps both, and both are equally near.",
        {TWICE: 6},
    ),
    WrongValue(
        "added_up",
        "You added the two values. Their weights are shares of one whole.",
        {TWICE: 8},
    ),
    WrongValue(
        "slope_without_others",
        "The slope is a covariance over the entries that count. How much does anything vary among a "
        "single one?",
        {SINGLE: Between(0.05, 100)},
    ),
    WrongValue(
        "slope_negative",
        "The query has moved away from the key, but where else can its weight go? The weights sum to 1.",
        {SINGLE: Between(-100, -0.05)},
    ),
)

BEST = "48 entries, noise 0.5: temperature of the least error to the true depths"
COLD = "error to the measured depths is least when the temperature is"
NOISE = "noise 2 in place of 0.5: the best temperature"
COUNT = "384 entries in place of 48: the best temperature"
UNIT = "minutes in place of hours: the best temperature is multiplied by"


def _way(before: float, after: float) -> Choice:
    return Choice("rises" if after > before else "falls" if after < before else "stays", WAYS)


def found() -> dict[str, Spec]:
    """What turning the temperature shows, computed; the margins hold for any seed."""
    best = references.best_temperature(48, 0.5)
    measured = references.errors(48, 0.5)["measured"]
    ratio = references.best_temperature(48, 0.5, unit=60.0) / best
    return {
        BEST: Between(best / 2.2, best * 2.2),
        COLD: Choice("lowest" if measured[0] == min(measured) else "best", ("lowest", "best", "highest")),
        NOISE: _way(best, references.best_temperature(48, 2.0)),
        COUNT: _way(best, references.best_temperature(384, 0.5)),
        UNIT: Between(ratio / 2, ratio * 2),
    }


WRONGLY_FOUND = (
    WrongValue(
        "coldest_is_best",
        "There the lookup repeats each measured depth, its noise included. Which of the two errors did "
        "you read?",
        {BEST: Between(0.0, 0.1)},
    ),
    WrongValue(
        "too_hot",
        "There the answers are nearly the same at all hours. Look for the place where the line is lowest.",
        {BEST: Between(5, 1e9)},
    ),
    WrongValue(
        "a_little_hot",
        "Around there the lookup has begun to cut off high and low water. Where exactly is the line lowest?",
        {BEST: Between(2.5, 4.9)},
    ),
    WrongValue(
        "errors_agree",
        "The two errors are not least at the same place. Follow the line of the measured depths to its "
        "left end.",
        {COLD: "best"},
    ),
    WrongValue(
        "hot_fits",
        "Hot, every answer is nearly the mean. Follow the line of the measured depths to its left end.",
        {COLD: "highest"},
    ),
    WrongValue(
        "noise_sharpens",
        "The more noise in each entry, the more of them should be averaged. Which way is that?",
        {NOISE: "falls"},
    ),
    WrongValue(
        "noise_ignored",
        "Set the noise to 2 and run both cells again. Noise is averaged away: over how many entries?",
        {NOISE: "stays"},
    ),
    WrongValue(
        "count_widens",
        "With more entries there are more of them close by. How wide need the average be?",
        {COUNT: "rises"},
    ),
    WrongValue(
        "count_ignored",
        "Set the number of entries to 384 and run both cells again. How many lie within an hour of a query?",
        {COUNT: "stays"},
    ),
    WrongValue(
        "unit_not_squared",
        "The distances are multiplied by that. What does the temperature divide?",
        {UNIT: Near(60, relative=0.4)},
    ),
    WrongValue(
        "unit_ignored",
        "A lookup does not know what an hour is. All distances are larger numbers now, and the "
        "temperature is compared with their squares.",
        {UNIT: Near(1, relative=0.4)},
    ),
    WrongValue(
        "unit_upside_down",
        "You turned the factor round: are the distances larger or smaller numbers in minutes?",
        {UNIT: Between(1e-9, 0.1)},
    ),
    WrongValue(
        "unit_root",
        "You took a root where a square is needed. What does the temperature divide?",
        {UNIT: Near(60**0.5, relative=0.3)},
    ),
)
