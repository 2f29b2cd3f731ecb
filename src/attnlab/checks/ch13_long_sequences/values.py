"""Lesson 13's prediction of memory: what is asked, what follows from the formula, and known wrong answers."""

from __future__ import annotations

from ..values import Near, Spec, WrongValue

B, HEADS, LAYERS, LENGTH, WIDTH = 3, 8, 6, 2048, 64
BYTES, MIB = 4, 2**20

MATRICES = "one layer, scores and weights, MiB"
OUTPUT = "one layer, outputs of all heads, MiB"
TRAINING = "training, weights kept by six layers, MiB"
LONGER = "length 4096, scores and weights, times"
HEADS_16 = "16 heads of width 32, scores and weights, times"
HALF = "half precision, scores and weights, times"
CHUNKED = "chunked, numbers kept a query beside its output"
STATE = "linear, numbers in the state of one head"

_ONE = B * HEADS * LENGTH**2 * BYTES / MIB


def _mib(value: float) -> Near:
    return Near(value, relative=0.002)


PREDICTION: dict[str, Spec] = {
    MATRICES: _mib(2 * _ONE),
    OUTPUT: _mib(B * HEADS * LENGTH * WIDTH * BYTES / MIB),
    TRAINING: _mib(LAYERS * _ONE),
    LONGER: Near(4),
    HEADS_16: Near(2),
    HALF: Near(0.5),
    CHUNKED: Near(2),
    STATE: Near(WIDTH * (WIDTH + 1)),
}

WRONG = [
    WrongValue(
        "one_matrix", "That is one matrix. Scores and weights are held together.", {MATRICES: _mib(_ONE)}
    ),
    WrongValue(
        "one_head",
        "That is one head of one sequence. Every head of every sequence has matrices of its own.",
        {MATRICES: _mib(2 * _ONE / B / HEADS)},
    ),
    WrongValue(
        "one_sequence",
        "That is one sequence. The batch has three.",
        {MATRICES: _mib(2 * _ONE / B)},
    ),
    WrongValue(
        "numbers_for_bytes",
        "You counted numbers. A number in single precision takes four bytes.",
        {MATRICES: _mib(2 * _ONE / BYTES)},
    ),
    WrongValue(
        "as_the_matrices",
        "An output has one row of 64 numbers for each query, and no axis of keys.",
        {OUTPUT: _mib(_ONE)},
    ),
    WrongValue(
        "one_layer_of_six",
        "The backward pass goes through all six layers, and each one's weights are kept for it.",
        {TRAINING: _mib(_ONE)},
    ),
    WrongValue(
        "scores_kept_too",
        "You kept the scores as well. The slopes of a softmax can be told from the weights alone.",
        {TRAINING: _mib(2 * LAYERS * _ONE)},
    ),
    WrongValue(
        "grows_as_the_length",
        "Both axes of the matrix grow: there are more queries, and each has more keys.",
        {LONGER: 2},
    ),
    WrongValue(
        "heads_share",
        "Sixteen heads of half the width have as many numbers in queries and keys. But how many matrices of "
        "scores are there, and does a score have a width?",
        {HEADS_16: 1},
    ),
    WrongValue(
        "half_of_both",
        "A number takes half the bytes. The matrix has as many numbers as before.",
        {HALF: 0.25},
    ),
    WrongValue(
        "log_sum",
        "One number can do, the logarithm of the sum with the maximum added. The lesson's program keeps its "
        "two parts.",
        {CHUNKED: 1},
    ),
    WrongValue(
        "row_kept",
        "That is a row of the matrix, just what chunked attention never keeps.",
        {CHUNKED: 2048},
    ),
    WrongValue(
        "sum_forgotten",
        "That is the sum of the products of keys and values. The sum of the keys' features, below the "
        "fraction line, is carried, too.",
        {STATE: WIDTH * WIDTH},
    ),
    WrongValue(
        "grows_with_text",
        "That is what a list of all keys and values would hold. The state does not know how long the text "
        "is.",
        {STATE: 2 * LENGTH * WIDTH},
    ),
]
