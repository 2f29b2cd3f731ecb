"""Known mistakes of lesson 2: what each is called, which switches make it, and the hint that names it.

A hint names what was done and points to the idea. It never says the line that should stand there.
"""

from __future__ import annotations

from ..tasks import Mistake

KERNEL_LOOKUP = (
    Mistake(
        "underflow",
        "A query far from every key gets NaN: each of its exponentials is rounded to 0, and then 0 is "
        "divided by 0. What may you add to all scores of a query without changing its weights?",
        {"shares": "plain"},
    ),
    Mistake(
        "zeros_when_far",
        "A query far from every key gets zeros. Its exponentials were rounded to 0 before the division, "
        "and the NaN was covered up. Its weights should still sum to 1: where does the trouble begin?",
        {"shares": "plain, cleaned"},
    ),
    Mistake(
        "one_shift_for_all",
        "The largest score of all was taken off. A query that is further away than the others still gets "
        "0 divided by 0: whose largest score does it need?",
        {"shares": "shifted by one for all"},
    ),
    Mistake(
        "axis_queries",
        "The weights sum to 1 over the queries. Who has one whole to share out: the one who asks, or the "
        "entry?",
        {"axis": -2},
    ),
    Mistake(
        "axis_first",
        "The weights sum to 1 over the first axis. With leading axes that is the batch: tables that have "
        "nothing to do with each other compete.",
        {"axis": 0},
    ),
    Mistake(
        "temperature_squared",
        "The temperature is squared. The temperature is the square of the bandwidth already; which of the "
        "two were you given?",
        {"divided_by": "squared"},
    ),
    Mistake(
        "temperature_multiplied",
        "A hotter lookup is sharper here: the temperature multiplies. In Python `x / 2 * t` is not x "
        "divided by 2t.",
        {"divided_by": "multiplied"},
    ),
    Mistake(
        "temperature_ignored",
        "The temperature makes no difference. Where does it stand in the formula?",
        {"divided_by": "ignored"},
    ),
    Mistake(
        "temperature_root",
        "You divided by the root of the temperature, the bandwidth. Which power of it stands below the "
        "squared distance?",
        {"divided_by": "root"},
    ),
    Mistake(
        "half_forgotten",
        "The exponent is twice too large. What stands below the fraction line beside the temperature?",
        {"closeness": "not halved"},
    ),
    Mistake(
        "not_squared",
        "The distance enters as it is. The bell curve falls with its square.",
        {"closeness": "not squared"},
    ),
    Mistake(
        "mean_of_squares",
        "The squared differences are averaged over the width. A squared distance is their sum.",
        {"closeness": "mean of squares"},
    ),
    Mistake(
        "dot_product",
        "The score is the dot product. It does what the distance does only if all keys have one length, "
        "and these have not.",
        {"closeness": "dot product"},
    ),
    Mistake(
        "far_counts",
        "Far entries count more than near ones. Which way should the exponential go as the distance grows?",
        {"closeness": "far counts"},
    ),
    Mistake(
        "not_divided",
        "The kernel is used as it is. Weights are shares: what are they divided by?",
        {"shares": "not divided"},
    ),
    Mistake(
        "divided_by_number",
        "The kernel is divided by the number of entries. Shares that sum to 1 are divided by another number.",
        {"shares": "divided by the number"},
    ),
    Mistake(
        "hard",
        "Each query takes its nearest entry alone. That is the hard lookup, and it has no slope.",
        {"shares": "hard"},
    ),
    Mistake(
        "averages_keys",
        "The average is one of the keys. By a key an entry is found; what does it hand over?",
        {"summed": "keys"},
    ),
    Mistake(
        "returns_swapped",
        "The two parts are returned in the other order: first the answers, then the weights.",
        {"returned": "weights, answers"},
    ),
)

AS_DOT_PRODUCTS = (
    Mistake(
        "lengths_forgotten",
        "Your dot products know nothing of how long each key is. One factor of the lesson's three "
        "cancels; this one does not.",
        {"lengths": "none"},
    ),
    Mistake(
        "lengths_added",
        "A long key gains from its length. In a distance, does it gain or lose by it?",
        {"lengths": "added"},
    ),
    Mistake(
        "lengths_not_halved",
        "The length of a key is taken off twice as much as it should be. Compare the middle term of the "
        "squared distance with the last one: what does each become when both are halved?",
        {"lengths": "square"},
    ),
    Mistake(
        "lengths_not_squared",
        "You took off the length of the key. In the squared distance it is squared.",
        {"lengths": "not squared"},
    ),
    Mistake(
        "lengths_averaged",
        "You averaged the squares of a key's numbers. The square of a length is their sum.",
        {"lengths": "mean of squares"},
    ),
    Mistake(
        "sum_squared",
        "You squared the sum of a key's numbers. The square of a length is the sum of their squares.",
        {"lengths": "sum of numbers"},
    ),
    Mistake(
        "lengths_not_divided",
        "The temperature divides the product of query and key, but not what belongs to the key's length. "
        "It divides the whole squared distance.",
        {"length_divided": False},
    ),
    Mistake(
        "temperature_twice",
        "The temperature divides twice. If you divide both the queries and the keys by it, what becomes "
        "of their product?",
        {"divided_by": "squared"},
    ),
    Mistake(
        "temperature_root",
        "The products are divided by the root of the temperature. Dividing by the root is right if you do "
        "it to queries and keys, both of them.",
        {"divided_by": "root"},
    ),
    Mistake(
        "temperature_ignored",
        "The temperature makes no difference. The softmax that follows knows nothing of it.",
        {"divided_by": "ignored"},
    ),
    Mistake(
        "temperature_multiplied",
        "The temperature multiplies where it should divide: a hotter lookup is sharper.",
        {"divided_by": "multiplied"},
    ),
    Mistake(
        "keys_of_length_1",
        "You brought all keys to one length. Then the distances are no longer those that were given.",
        {"keys_as": "of length 1"},
    ),
    Mistake(
        "keys_in_the_queries",
        "The weights are right, but the new queries hold what only the keys know: each query was compared "
        "with the keys before it was handed over. Prepare each side without looking at the other.",
        {"queries_hold": "scores"},
    ),
    Mistake(
        "returns_swapped",
        "The two parts are returned in the other order: first the queries, then the keys.",
        {"returned": "keys, queries"},
    ),
)

ATTENTIVE_STEP = (
    Mistake(
        "axis_of_one",
        "Every weight is 1: the softmax runs along an axis of length 1, and a single number has the whole "
        "to itself. Which axis counts the encoder's states?",
        {"shared": "axis of one"},
    ),
    Mistake(
        "axis_batch",
        "The softmax runs over the batch: sentences that have nothing to do with each other compete.",
        {"shared": "batch"},
    ),
    Mistake(
        "axis_everything",
        "All states of all sentences share one whole. Each sentence has a decoder that asks, and each has "
        "one whole of its own.",
        {"shared": "everything"},
    ),
    Mistake(
        "no_softmax",
        "The scores are used as weights as they are. They may be negative and do not sum to 1: what turns "
        "them into shares?",
        {"shared": "nothing"},
    ),
    Mistake(
        "each_alone",
        "Each score goes through a sigmoid of its own. The states have to compete for one whole.",
        {"shared": "sigmoid"},
    ),
    Mistake(
        "hard",
        "One state gets all the weight. That is a hard lookup: nothing tells the decoder how to ask better.",
        {"shared": "hard"},
    ),
    Mistake(
        "no_tanh",
        "There is no tanh in the score. Then the part of the query is the same for every state, and the "
        "softmax does not see it at all.",
        {"joined": "no tanh"},
    ),
    Mistake(
        "tanh_of_each",
        "Query and key go through a tanh each, and are added after it. Then the part of the query is the "
        "same for every state, and the softmax does not see it at all.",
        {"joined": "tanh of each"},
    ),
    Mistake(
        "tanh_outside",
        "The tanh stands outside, around the finished score. In the formula it bends the sum before v_a "
        "is applied.",
        {"joined": "tanh outside"},
    ),
    Mistake(
        "other_bend",
        "A sigmoid bends the sum. The formula has another function, which may be negative.",
        {"joined": "sigmoid"},
    ),
    Mistake(
        "relu",
        "A ReLU bends the sum. The formula has another function, which may be negative.",
        {"joined": "relu"},
    ),
    Mistake(
        "product",
        "Query and key are multiplied, number by number. This attention is called additive for a reason.",
        {"joined": "product"},
    ),
    Mistake(
        "difference",
        "The key is taken off the query. The formula has the two joined in another way; the network "
        "learns the sign by itself.",
        {"joined": "difference"},
    ),
    Mistake(
        "scaled",
        "The scores are divided by the root of a width. That belongs to dot products, and to lesson 3.",
        {"joined": "scaled"},
    ),
    Mistake(
        "weighted_mean",
        "The weighted states are averaged once more. The weights sum to 1 already.",
        {"context": "weighted mean"},
    ),
    Mistake(
        "context_mean",
        "The context is the plain mean of all states. What are the weights for?",
        {"context": "mean"},
    ),
    Mistake(
        "context_last",
        "The context is the encoder's last state, as in the model with one vector.",
        {"context": "last"},
    ),
    Mistake(
        "context_best",
        "The context is the state of the largest weight. Every state should count as much as its weight "
        "says.",
        {"context": "best"},
    ),
    Mistake(
        "joined_the_other_way",
        "The cell reads the context first and the token second. The formula has them the other way round, "
        "and the weights that are loaded expect it.",
        {"order": "context, token"},
    ),
    Mistake(
        "state_forgotten",
        "The cell starts from zeros at each step. What came before this token is lost.",
        {"previous": "zeros"},
    ),
    Mistake(
        "returns_state_before",
        "The state that you return is the one that came in. The next step needs the one after this token.",
        {"returned": "state before"},
    ),
    Mistake(
        "returns_scores",
        "The last part that you return are the scores. The weights are asked for.",
        {"returned": "scores"},
    ),
    Mistake(
        "returns_context_first",
        "The parts are returned in another order: the new state, the context, the weights.",
        {"returned": "context, state, weights"},
    ),
    Mistake(
        "returns_weights_second",
        "The parts are returned in another order: the new state, the context, the weights.",
        {"returned": "state, weights, context"},
    ),
)


def _bug(key: str, what: str, **switches: str) -> Mistake:
    return Mistake(key, f"Your test lets pass a program in which {what}", switches)


LOOKUP_BUGS = (
    _bug(
        "axis_queries",
        "the weights sum to 1 over the queries. What do they sum to for each query?",
        shares="over queries",
    ),
    _bug(
        "company",
        "an answer depends on what others ask, although its weights sum to 1. Ask once alone, and once in "
        "company.",
        shares="over queries, then divided",
    ),
    _bug(
        "axis_both",
        "all queries of a sequence share one whole, so that each gets less the more others ask.",
        shares="over both",
    ),
    _bug(
        "axis_batch",
        "the sequences of a batch compete with each other. Does your example have more than one?",
        shares="over the batch",
    ),
    _bug("each_alone", "the weights of a query do not sum to 1.", shares="each alone"),
    _bug(
        "negative",
        "weights sum to 1 and some of them are negative. How can you see the weights, when only answers "
        "are returned?",
        shares="by the plain sum",
    ),
    _bug(
        "hard",
        "each query takes its best entry alone. Which entries should have some weight, and what has no "
        "slope?",
        shares="hard",
    ),
    _bug("two_best", "all entries but the two best have no weight.", shares="two best"),
    _bug(
        "no_slope",
        "the answers are right, and no gradient reaches the queries. Whatever computes them would learn "
        "nothing.",
        slope="cut",
    ),
    _bug("last_ignored", "the last entry never counts.", shares="without the last"),
    _bug(
        "by_place",
        "entries count more the later they stand in the table. What should happen when the table is "
        "reordered?",
        score="by place",
    ),
    _bug(
        "by_value",
        "an entry counts more if its value is large. An entry is found by its key alone: change the "
        "values and compare the weights.",
        score="by value",
    ),
    _bug(
        "wrong_pairs",
        "the first two entries hand over each other's value. A table is a set of pairs: what should happen "
        "when it is put into quite another order?",
        paired="first two exchanged",
    ),
)
