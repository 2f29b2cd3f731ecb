"""Known mistakes of lesson 16's two functions: the hint names what was done and points to the idea."""

from __future__ import annotations

from ..tasks import Mistake

ROLLOUT = (
    Mistake(
        "no_residual",
        "The maps are multiplied as they are. Each layer also keeps what stood at a position before: which "
        "connection does that, and where is it in your product?",
        {"residual": "none"},
    ),
    Mistake(
        "residual_added",
        "The identity is added and the rows now sum to 2 in each layer. A layer has one whole to share "
        "between attention and what it keeps.",
        {"residual": "added"},
    ),
    Mistake(
        "downwards",
        "The layers are multiplied in the other order. Whose places does a row of the upper map speak of: "
        "those that the lower layer has filled, or those that it will?",
        {"order": "downwards"},
    ),
    Mistake(
        "heads_summed",
        "The heads are summed, so that the rows of a layer sum to the number of heads. Rollout takes their "
        "average.",
        {"heads": "sum"},
    ),
    Mistake(
        "heads_largest",
        "Of each cell you take the largest weight of any head. Such rows do not sum to one: take the "
        "average of the heads.",
        {"heads": "largest"},
    ),
    Mistake(
        "first_head",
        "Only the first head enters. All heads of a layer write into the same stream: average them.",
        {"heads": "first"},
    ),
    Mistake(
        "layers_averaged",
        "The layers are averaged. That forgets that the upper layer reads what the lower one has mixed: "
        "which operation puts one mixing after another?",
        {"join": "mean"},
    ),
    Mistake(
        "last_layer",
        "Only the last layer enters. What stands at its keys was mixed by the layers below.",
        {"join": "last"},
    ),
    Mistake(
        "cell_by_cell",
        "The maps are multiplied cell by cell. A path goes from a query to a position, and from there on: "
        "sum over the position in between.",
        {"join": "cells"},
    ),
    Mistake(
        "turned",
        "Rows and columns have changed places: a row should say what one query is made of, and sum to one.",
        {"turned": True},
    ),
)

REMOVAL = (
    Mistake(
        "query_hidden",
        "You hide what one query sees, a row of the mask. A token is removed when nobody sees *it*: which "
        "axis of a mask counts the keys?",
        {"hides": "query"},
    ),
    Mistake(
        "all_but_hidden",
        "Everything is hidden but the one token. Is your mask the wrong way round? True means may attend.",
        {"hides": "all but the key"},
    ),
    Mistake(
        "itself_hidden",
        "The token is hidden from itself, too, so that its own row changes, and the first query sees "
        "nothing at all. Hide it from the others.",
        {"itself": "hidden"},
    ),
    Mistake(
        "not_halved",
        "The differences are summed but not halved: two predictions that share nothing would be at 2. The "
        "shift goes from 0 to 1.",
        {"measure": "whole"},
    ),
    Mistake(
        "logits_compared",
        "Logits are compared. A number added to all of them changes no prediction: compare what the softmax "
        "makes of them.",
        {"measure": "logits"},
    ),
    Mistake(
        "signed",
        "The differences keep their signs, and both distributions sum to one: what do signed differences "
        "sum to?",
        {"measure": "signed"},
    ),
    Mistake(
        "largest_change",
        "You take the largest change of one probability. The shift counts all of them.",
        {"measure": "largest"},
    ),
    Mistake(
        "axes_swapped",
        "Rows and columns have changed places. Entry (t, j) belongs to query t and removed key j, as in a "
        "map: on which axis do you stack?",
        {"stacked": 1},
    ),
    Mistake(
        "mask_kept",
        "Tokens that were hidden stay hidden: each mask should begin anew, with one token missing.",
        {"masks": "kept"},
    ),
    Mistake(
        "future_seen",
        "Queries see what comes after them. The model was trained with a causal mask, and the mask that you "
        "pass takes its place.",
        {"visible": "everything"},
    ),
)
