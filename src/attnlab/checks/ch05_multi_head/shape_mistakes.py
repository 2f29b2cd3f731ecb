"""Lesson 5, known mistakes with the axes of heads: name, switches, and the hint that names it.

A hint names what was done and points to the idea. It never says the line that should stand there.
"""

from __future__ import annotations

from ..tasks import Mistake

SPLIT = (
    Mistake(
        "split_view",
        "The shape is right and the content is not: a view alone cuts each sequence into runs of tokens, in "
        "place of a group of columns from every token. Which axis has to move, and what moves an axis?",
        {"layout": "view"},
    ),
    Mistake(
        "not_moved",
        "The columns are cut, but the axis of the heads still stands behind the positions.",
        {"layout": "not moved"},
    ),
    Mistake(
        "interleaved",
        "Each head gets columns from all over the token, one in every few. It would train, but the columns "
        "of a head are asked to lie side by side: in which order do you name the two new axes?",
        {"layout": "interleaved"},
    ),
    Mistake(
        "width_for_number",
        "There are as many heads as each should be wide, and the other way round. The number of heads is "
        "given; the width follows.",
        {"layout": "width"},
    ),
    Mistake(
        "heads_first",
        "The axis of the heads went all the way to the front, before the batch. It belongs just before the "
        "positions.",
        {"layout": "heads first"},
    ),
    Mistake(
        "turned",
        "The two last axes have changed places: in each head, a row should be a token and a column a number "
        "of it.",
        {"layout": "turned"},
    ),
    Mistake(
        "three_axes",
        "It works on three axes alone. Any number of axes may stand before the positions, also none: count "
        "axes from the end.",
        {"axes": "three"},
    ),
    Mistake(
        "fixed_axes",
        "You move axes by their number from the front. With more or fewer axes before the positions, those "
        "numbers mean others: count from the end.",
        {"axes": "first"},
    ),
    Mistake(
        "torch_refuses",
        "Where the width cannot be shared out evenly, your function leaves the error to PyTorch, whose "
        "message speaks of shapes. Look first, and raise a ValueError that names both numbers.",
        {"refusal": "torch"},
    ),
    Mistake(
        "asserted",
        "You refuse with an assert. Python can be run without those: what a caller may get wrong deserves a "
        "ValueError.",
        {"refusal": "assert"},
    ),
    Mistake(
        "cropped",
        "Where the width cannot be shared out evenly, columns are dropped and nothing is said.",
        {"refusal": "none"},
    ),
    Mistake(
        "one_number",
        "Your error does not name both numbers. Who reads it has to know which two do not fit.",
        {"refusal": "one number"},
    ),
)

MERGE = (
    Mistake(
        "merge_view",
        "The shape is right and the content is not: each row of the result comes from several positions of "
        "one head. A reshape reads the numbers in the order of the axes; in which order should they stand?",
        {"layout": "view"},
    ),
    Mistake(
        "view_refused",
        "PyTorch refuses your view: after an axis has moved, the numbers of one token no longer lie side by "
        "side, and a view never copies. What does the same, and copies where it must?",
        {"layout": "refused"},
    ),
    Mistake(
        "interleaved",
        "The numbers of the heads are shuffled into each other, one of each head in turn. Each head's piece "
        "should stay in one piece.",
        {"layout": "interleaved"},
    ),
    Mistake(
        "along_positions",
        "The heads are put one after the other along the positions: the sequence is longer now, and no "
        "wider. Heads stand side by side within a token.",
        {"layout": "along positions"},
    ),
    Mistake(
        "mean",
        "You average the heads. Then nobody can tell which head found what: each keeps columns of its own.",
        {"layout": "mean"},
    ),
    Mistake(
        "sum",
        "You add the heads up. Then nobody can tell which head found what: each keeps columns of its own.",
        {"layout": "sum"},
    ),
    Mistake(
        "turned",
        "Heads and numbers have changed places on the way: a head's piece runs over its numbers, for one "
        "position at a time.",
        {"layout": "turned"},
    ),
    Mistake(
        "four_axes",
        "It works on four axes alone. Any number of axes may stand before the heads, also none: count axes "
        "from the end.",
        {"axes": "four"},
    ),
    Mistake(
        "fixed_axes",
        "You move axes by their number from the front. With more or fewer axes before the heads, those "
        "numbers mean others: count from the end.",
        {"axes": "first"},
    ),
)
