# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 2: Soft lookup
#
# Six exercises on [lesson 2](../notebooks/02_soft_lookup.ipynb). You write a lookup by distance that holds where the
# lesson's breaks, predict what lookups do, turn distances into dot products, write a decoder's step with additive
# attention, explore how hot a lookup should be, and write a test for lookups whose score you do not know.
#
# **How it works.** Replace `raise NotImplementedError("your turn")`, or each `None`, by your answer and run the cell.
# Then run the check below it, as often as you like. It gives points, and where it knows your mistake, it names it.
# You may leave an exercise out: nothing after it breaks. The hints are folded, and each says more than the one before.
#
# **How long:** about two hours for all six. Each one says its difficulty, from 1 to 3.
#
# The letters are those of the lesson: B tables or sentences, T queries, S entries with a key and a value each, D
# numbers in a query and in a key, and the [temperature](../book/pages/glossary.md#temperature) $\tau$.

# %% [markdown] tags=["solution-only"]
# # Solutions 2: Soft lookup
#
# The [exercises of lesson 2](../exercises/02_soft_lookup.ipynb) with an answer to each. It is one answer of many: a
# check accepts any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise
# before you read its solution; what you found yourself stays with you.

# %%
import contextlib
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from attnlab import plots, seed
from attnlab.checks import check, progress

torch.set_num_threads(1)  # programs this small are not faster on two

# %% [markdown]
# ## 1. A lookup by distance
#
# *Implement. Difficulty 1, about 15 minutes.*
#
# **Why it is worth doing.** The lesson's `kernel_lookup` follows the formula of
# [kernel regression](../book/pages/glossary.md#kernel-regression) to the letter. It serves one table, and it breaks
# when the lookup is very cold or a query is far from every key. Write it so that it serves any number of tables, and
# holds. Every [attention](../book/pages/glossary.md#attention) function of the course needs the same care.
#
# $$w_j = \frac{e^{-\lVert q - k_j \rVert^2 / 2\tau}}{\sum_l e^{-\lVert q - k_l \rVert^2 / 2\tau}}, \qquad
# o = \sum_j w_j\, v_j$$

# %%
def kernel_lookup(
    queries: Tensor, keys: Tensor, values: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Average the values of a table, each weighted by how near its key is to the query.

    queries: (..., T, D), what is asked. keys: (..., S, D), what entries are found by.
    values: (..., S, d_v), what entries hand over. In front stand any number of leading axes,
    the same for all three, or none: each table is asked by its own queries.
    temperature: above 0, the square of the bandwidth.

    Returns the answers (..., T, d_v) and the weights (..., T, S). However cold the lookup and
    however far a query: nothing is NaN, and the weights of each query sum to 1.
    """
    # BEGIN SOLUTION
    difference = queries[..., :, None, :] - keys[..., None, :, :]  # (..., T, S, D)
    scores = -difference.square().sum(dim=-1) / (2 * temperature)  # (..., T, S)
    weights = scores.softmax(dim=-1)                               # (..., T, S)
    return weights @ values, weights                               # (..., T, d_v), (..., T, S)
    # END SOLUTION


# %% tags=["check"]
check("soft_lookup.kernel_lookup", kernel_lookup)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# First the distances. Each query meets each key, so you need an axis for the one and an axis for the other before you
# subtract. Where do the leading axes go?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Take a single query, a thousand steps away from two keys. What is $e^{-d^2/2\tau}$ for each of the two, in a number
# of 32 bits? And what is the sum that you divide by? The lesson names a function that gives the same shares without
# that trouble.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Put the new axes in with `queries[..., :, None, :]` and `keys[..., None, :, :]`. The exponents, without the
# exponential, are [scores](../book/pages/glossary.md#score). PyTorch's
# [softmax](../book/pages/glossary.md#softmax) first takes the largest score of each row off, so the nearest entry has
# $e^0 = 1$ and the sum is never zero.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **The lesson's lines, `kernel / kernel.sum(...)`.** Right in theory. But a kernel of $e^{-900}$ is 0 in 32 bits and
#   in 64, and a row of zeros is divided by zero.
# - **Add a small number to the sum, or clean the NaN up.** The query then gets weights of zero and the answer zero,
#   which is no average of anything. And the query gets no useful gradient to come back with.
# - **Take off the largest score of *all* queries.** The query that is further away than the others keeps its zeros.
#   Shares are formed within a row, so a row may lose a number of its own, and only that.
# - **`/ 2 * temperature`.** Python divides by 2 and then multiplies. At a temperature of 1 nobody sees it.
# - **The temperature squared.** Many books write $2h^2$ below the line, with a bandwidth $h$. Here the temperature *is*
#   $h^2$.

# %% [markdown]
# ## 2. Predict, then test
#
# *Predict and then test. Difficulty 1, about 10 minutes.*
#
# **Why it is worth doing.** A lookup gives numbers whatever you feed it, and a wrong one looks like a right one. If
# you know what must come out in a simple case, you have a test. Fill in all seven predictions before you run anything.
#
# 1. The scores of one query and 6 keys go through a softmax that runs, by mistake, over the *queries*. The weights of
#    that query sum to? Give a number.
# 2. A query is all zeros. The weights are the softmax of [dot products](../book/pages/glossary.md#dot-product) with 4
#    different keys. The largest weight? Give a number.
# 3. The same query of zeros looks up by distance. The largest weight goes to the key that is the `"shortest"`, the
#    `"longest"`, or to `"none"`, as all get the same?
# 4. The same vector is added to every key, and the queries stay. The weights are the softmax of dot products. Do they
#    `"stay"` or `"change"`?
# 5. The same, but with weights by distance.
# 6. A table holds one key twice, once with the value 2 and once with the value 6; all other keys are far. The query
#    equals that key, and the lookup by distance is very cold. The answer? Give a number.
# 7. A table has one entry only. How fast does the answer change as the query moves? Give the slope, a number.

# %%
# BEGIN SOLUTION
# STUB prediction = {
# STUB     "1. softmax over the queries, one query, 6 keys: its weights sum to": None,
# STUB     "2. query of zeros, dot products, 4 keys: largest weight": None,
# STUB     "3. query of zeros, distances: largest weight goes to the key that is": None,
# STUB     "4. same vector added to every key, dot products: the weights": None,
# STUB     "5. same vector added to every key, distances: the weights": None,
# STUB     "6. key stored twice, with values 2 and 6, cold: answer": None,
# STUB     "7. table with one entry: slope of the answer in the query": None,
# STUB }
prediction = {
    "1. softmax over the queries, one query, 6 keys: its weights sum to": 6,
    "2. query of zeros, dot products, 4 keys: largest weight": 1 / 4,
    "3. query of zeros, distances: largest weight goes to the key that is": "shortest",
    "4. same vector added to every key, dot products: the weights": "stay",
    "5. same vector added to every key, distances: the weights": "change",
    "6. key stored twice, with values 2 and 6, cold: answer": 4,
    "7. table with one entry: slope of the answer in the query": 0,
}
# END SOLUTION

# %% tags=["check"]
check("soft_lookup.prediction", prediction)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write down the scores of each case, as a table with a row for each query and a column for each key. For 1, that table
# has one row. What does each of its columns look like?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The weights of a row stay if all its scores grow by the same number. Which of the changes are of that kind? For 3, ask
# how far each key is from the origin.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# $q \cdot (k_j + c) = q \cdot k_j + q \cdot c$: does the last term know which key it belongs to? For 6, two entries are
# equally near and share the whole. For 7, a single weight is always 1, wherever the query is.
#
# </details>
#
# Now test your predictions. The cell measures nothing until all seven are there.

# %%
def by_product(queries: Tensor, keys: Tensor) -> Tensor:
    return (queries @ keys.T).softmax(dim=-1)                                  # (T, S)


def by_distance(queries: Tensor, keys: Tensor, temperature: float = 1.0) -> Tensor:
    squared = (queries[:, None] - keys).square().sum(dim=-1)                   # (T, S)
    return (-squared / (2 * temperature)).softmax(dim=-1)                      # (T, S)


def measure_predictions() -> dict[str, float]:
    g = torch.Generator().manual_seed(seed(0))
    queries, keys = torch.randn(3, 2, generator=g), torch.randn(4, 2, generator=g)
    scores = torch.randn(1, 6, generator=g)                                    # (T, S)
    zero, shift = torch.zeros(1, 2), torch.tensor([1.5, -0.5])
    moved = [(weigh(queries, keys) - weigh(queries, keys + shift)).abs().max()
             for weigh in (by_product, by_distance)]
    lengths = keys.norm(dim=-1)                                                # (S,)
    twice = by_distance(torch.tensor([[3.0]]), torch.tensor([[0.0], [3.0], [3.0]]), 0.01)
    q = torch.tensor([[4.0]], requires_grad=True)
    answer = by_distance(q, torch.tensor([[3.0]])) @ torch.tensor([[2.0]])     # (1, 1)
    (slope,) = torch.autograd.grad(answer, q)
    return {
        "1. sum of the query's weights": scores.softmax(dim=-2).sum().item(),
        "2. largest weight": by_product(zero, keys).max().item(),
        "3. length of the key with the largest weight, over the smallest length":
            (lengths[by_distance(zero, keys)[0].argmax()] / lengths.min()).item(),
        "4. largest change of a weight": moved[0].item(),
        "5. largest change of a weight": moved[1].item(),
        "6. answer": (twice @ torch.tensor([[1.0], [2.0], [6.0]])).item(),
        "7. slope": slope.item(),
    }


if None not in prediction.values():
    for name, measured in measure_predictions().items():
        print(f"{name}: {round(measured, 2) + 0:.2f}")

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"Weights sum to 1."** They do along the axis of the softmax. Over the queries, each key shares itself out, and with
#   a single query it has nobody to share with: six weights of 1.
# - **"A query of zeros finds nothing."** By dot product all its scores are 0, so it finds everything alike. By distance,
#   zeros are a place like any other.
# - **"New keys, new weights."** Adding a vector to every key adds one number to all scores of a query, and a softmax is
#   blind to that. By distance, the keys have moved away from the query. (If query *and* keys move, distances stay, and
#   dot products do not.)
# - **"The last value wins, as in a dictionary."** A soft lookup keeps both entries, and both are equally near.
# - **"A slope of 1 over the temperature."** The slope is a covariance, and a single entry has none: the answer is its
#   value, whatever you ask.

# %% [markdown]
# ## 3. From distances to dot products
#
# *Derive and implement. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** The lesson shows that softmaxes of distances and of dot products agree if all keys have one
# length. With one trick they agree for *any* keys, and you see what a dot product can hold: with a few more
# numbers in each vector, a program that knows nothing but dot products does the work of another.
#
# You are given a program that computes `(new_queries @ new_keys.T).softmax(dim=-1)`, and nothing else. Its input is
# yours to prepare. Turn queries and keys into new ones, so that it gives the weights of exercise 1.

# %%
def as_dot_products(
    queries: Tensor, keys: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """New vectors whose dot products, after a softmax, give the weights by distance.

    queries: (..., T, D). keys: (..., S, D), of any lengths. temperature: above 0.
    Leading axes are the same for both; there may be none.

    Returns new queries (..., T, E) and new keys (..., S, E). The width E is yours to choose.
    The new queries must not depend on the keys, nor the new keys on the queries.
    """
    # BEGIN SOLUTION
    ones = torch.ones_like(queries[..., :1])                              # (..., T, 1)
    lengths = keys.square().sum(dim=-1, keepdim=True)                     # (..., S, 1)
    new_queries = torch.cat([queries, ones], dim=-1)                      # (..., T, D + 1)
    new_keys = torch.cat([keys, -lengths / 2], dim=-1) / temperature      # (..., S, D + 1)
    return new_queries, new_keys
    # END SOLUTION


# %% tags=["check"]
check("soft_lookup.as_dot_products", as_dot_products)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Write $-\lVert q - k_j \rVert^2 / 2\tau$ as three terms, as the lesson does. Which one is a dot product already? Which
# one is the same for all keys, so that the softmax does not see it? One is left.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The term that is left belongs to the key alone. A dot product is a sum of products, one for each number of the two
# vectors. What must the query hold in one more place, so that this product is what the *key* holds there?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Give each query a 1 as its last number, and each key minus half the square of its length. Then divide all numbers of
# the keys by the temperature, the last one, too. (`torch.cat([..., ...], dim=-1)` puts vectors end to end.)
#
# </details>
#
# If you have written it, the next cell asks the lesson's question once more. The query equals the first key, and the
# third key points the same way and is longer. Which one gets the largest weight, before and after?

# %%
q = torch.tensor([[1.0, 0.0]])                                            # (T, D)
k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]])                    # (S, D)
rows = {"dot products": by_product(q, k), "distances": by_distance(q, k)}
with contextlib.suppress(NotImplementedError, TypeError):
    rows["new dot products"] = by_product(*as_dot_products(q, k, 1.0))
for name, row in rows.items():
    print(f"{name:17}", [round(weight, 2) for weight in row[0].tolist()])

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Divide by the temperature and leave the rest.** That is enough if all keys have one length. Here a long key gains
#   what it should lose.
# - **Bring the keys to one length.** Then dot products and distances agree, but these are distances to other keys.
# - **Add the length of the *query*.** It is one number for all keys of that query, and the softmax does not see it.
# - **Divide both queries and keys by the temperature.** Their product is then divided by its square. Either one of them,
#   or both by the root.
# - **Divide first, then append.** The temperature divides the whole squared distance. If the last number is left as it
#   is, the weights are right at a temperature of 1 and nowhere else.
#
# The trick works the other way round, too: with one more number in each key, all keys can be given one length. Methods
# that search for near vectors use it to search for large dot products.

# %% [markdown]
# ## 4. A decoder's step with additive attention
#
# *Implement. Difficulty 2, about 25 minutes.*
#
# **Why it is worth doing.** This is the place where attention was first needed [@bahdanau2015, appendix A]: one step of
# a [decoder](../book/pages/glossary.md#decoder) that looks its context up. The lesson spreads it over two classes. Put
# together, it is a few lines, and nearly all of the ways to get them wrong still train.
#
# $$s_j = v_a^\top \tanh(W_a\, d + U_a\, h_j), \qquad w = \text{softmax}(s),$$
#
# $$c = \sum_j w_j\, h_j, \qquad d' = \operatorname{GRU}\!\big(d,\, [\,y,\, c\,]\big) .$$
#
# Here $d$ is the decoder's state before the step and $d'$ the one after it, $h_j$ are the
# [encoder](../book/pages/glossary.md#encoder)'s states, and $y$ is the vector of the token that was just written. There
# is **one query** for each sentence, so this time there is no axis T.
#
# Keep the names `w_query`, `w_key`, `v` and `cell`: the check loads weights of its own into your module. The first three
# are `nn.Linear` without a bias, and `cell` is an `nn.GRUCell` that reads token and context end to end, in this order.
# Write the attention yourself, without the package's module.

# %%
class AttentiveStep(nn.Module):
    """One step of a recurrent decoder that looks its context up by additive attention.

    d_token: width of a token's vector. d_state: width of the decoder's state.
    d_key: width of an encoder's state. d_hidden: width of the layer inside the score.
    """

    def __init__(self, d_token: int, d_state: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.w_query = nn.Linear(d_state, d_hidden, bias=False)           # W_a
        self.w_key = nn.Linear(d_key, d_hidden, bias=False)               # U_a
        self.v = nn.Linear(d_hidden, 1, bias=False)                       # v_a
        self.cell = nn.GRUCell(d_token + d_key, d_state)
        # END SOLUTION

    def forward(
        self, token: Tensor, state: Tensor, states: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Look up, then update the state.

        token: (B, d_token), the token that was just written, as a vector.
        state: (B, d_state), the decoder's state before this step; it asks.
        states: (B, S, d_key), the encoder's states; they are keys and values.

        Returns the new state (B, d_state), the context (B, d_key) and the weights (B, S).
        """
        # BEGIN SOLUTION
        pairs = self.w_query(state)[:, None] + self.w_key(states)         # (B, S, d_hidden)
        weights = self.v(pairs.tanh()).squeeze(-1).softmax(dim=-1)        # (B, S)
        context = (weights[:, :, None] * states).sum(dim=1)               # (B, d_key)
        read = torch.cat([token, context], dim=-1)                # (B, d_token + d_key)
        return self.cell(read, state), context, weights
        # END SOLUTION


# %% tags=["check"]
check("soft_lookup.AttentiveStep", AttentiveStep)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# In the constructor, write down for each of the four parts how wide its input and its output are. In `forward`, first
# make the scores, (B, S), then the weights, then the context. The cell comes last.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The query is (B, d_hidden) and the keys are (B, S, d_hidden) after their matrices. Which axis does the query need
# before the two can be added? `v` leaves an axis of length 1 behind. What would a softmax along *that* axis give?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Put the axis in with `[:, None]`, take `tanh` of the sum, apply `v`, remove its axis with `.squeeze(-1)`, and let the
# softmax run along the states. The context is `(weights[:, :, None] * states).sum(dim=1)`. An `nn.GRUCell` is called
# with what it reads and with the state before.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **`self.v(pairs.tanh()).softmax(dim=-1)`.** The last axis has length 1 here, so each weight is 1 and the context is
#   the plain sum of all states. Nothing fails. Remove the axis first, or name the right one.
# - **Leave the tanh out, or put it around each part.** The score is then a number of the query plus a number of the key.
#   The query's number is the same for all keys, and the softmax does not see it: whatever the decoder asks, it gets the
#   same context. The bend has to come *after* the two have met.
# - **Put the tanh around the finished score.** Then every score lies between -1 and 1, and no state can get more than
#   $e^2$ times as much as another: the decoder can never look at one place alone.
# - **Multiply query and key.** That is another attention, and one that works. It is not this one.
# - **Context first, token second.** A model that is trained so is as good. One with loaded weights reads each number with
#   the weights of another.
# - **`self.cell(read)`.** Without a second argument the cell starts from zeros, and the decoder forgets all that it has
#   written but the last token.

# %% [markdown]
# ## 5. How hot should a lookup be?
#
# *Explore. Difficulty 1, about 20 minutes.*
#
# **Why it is worth doing.** The lesson's table was exact. Most tables are not: what was measured is the truth and some
# noise. A lookup averages, and averages take noise away. They take other things away, too. The temperature decides how
# much of both, and no formula knows it beforehand.
#
# For a whole day the depth of a harbour was measured. The truth is a tide, a sine. The cell measures it `tables`
# times, looks the depth up at each hour of the table, and draws the first of these days. Change the numbers, run both
# cells, and watch what the lookup makes of high and low water.

# %%
temperature, noise, count = 0.1, 0.5, 48   # change these: temperature from 0.01 to 1000,
unit = 1                                   # noise up to 2, entries up to 400; 60 for minutes
tables = 20


def look_up(times: Tensor, depths: Tensor, temperature: float) -> Tensor:
    """Answers at the times of the table itself, for several columns of depths (S, N)."""
    squared = (times[:, None] - times).square()                        # (S, S)
    return (-squared / (2 * temperature)).softmax(dim=-1) @ depths     # (S, N)


g = torch.Generator().manual_seed(seed(0))
hours = 24 * (torch.arange(count) + 0.5) / count                       # (S,)
times = hours * unit                                                   # (S,)
true = 2.5 + 1.5 * torch.sin(2 * math.pi * hours / 12.4)               # (S,)
measured = true[:, None] + noise * torch.randn(count, tables, generator=g)    # (S, N)
answers = look_up(times, measured, temperature)                        # (S, N)
plots.lines(hours, {"measured": measured[:, 0], "true": true, "looked up": answers[:, 0]},
            marks=False, x="hour", y="metres of water",
            roles={"true": "value", "looked up": "weight"},
            alt="Depth over the hours of a day: a jagged line as measured, the smooth wave of "
                "the truth, and the answers of the lookup. The colder the lookup, the more of "
                "the jags it repeats; the hotter, the flatter its wave.")

# %%
temperatures = [10 ** (step / 8) for step in range(-16, 49)]
to_true, to_measured = [], []
for hot in temperatures:
    answers = look_up(times, measured, hot)                            # (S, N)
    to_true.append((answers - true[:, None]).square().mean().sqrt().item())
    to_measured.append((answers - measured).square().mean().sqrt().item())
best = temperatures[to_true.index(min(to_true))]
print(f"least error to the true depths at a temperature of about {best:.2f}")
errors = {"to the measured depths": to_measured, "to the true depths": to_true}
plots.lines(temperatures, errors, log="x", marks=False,
            x="temperature", y="root mean square error, metres",
            roles={"to the true depths": "value"},
            alt="Two errors over the temperature, on a logarithmic axis. The error to the "
                "measured depths rises from left to right. The error to the true depths first "
                "falls, has a lowest place, and then rises.")

# %% [markdown]
# Answer from what you find. Begin each question with the numbers as they were given: 48 entries, noise of one half, hours.

# %%
# BEGIN SOLUTION
# STUB findings = {
# STUB     "48 entries, noise 0.5: temperature of the least error to the true depths": None,
# STUB     # "lowest", "best" (as in the line above) or "highest":
# STUB     "error to the measured depths is least when the temperature is": None,
# STUB     # "rises", "falls" or "stays":
# STUB     "noise 2 in place of 0.5: the best temperature": None,
# STUB     "384 entries in place of 48: the best temperature": None,
# STUB     # a number:
# STUB     "minutes in place of hours: the best temperature is multiplied by": None,
# STUB }
findings = {
    "48 entries, noise 0.5: temperature of the least error to the true depths": 0.8,
    "error to the measured depths is least when the temperature is": "lowest",
    "noise 2 in place of 0.5: the best temperature": "rises",
    "384 entries in place of 48: the best temperature": "falls",
    "minutes in place of hours: the best temperature is multiplied by": 60**2,
}
# END SOLUTION

# %% tags=["check"]
check("soft_lookup.temperature", findings)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Set the temperature to 0.01, then to 1, then to 100, and look at the first figure each time. Which of the two other
# lines does the lookup follow?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Change one number at a time, run both cells, and note the printed temperature. For the last question set `unit` to 60.
# Compare what was printed before with what is printed then.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# What the temperature divides is a *squared* distance. Every hour is sixty minutes, so by which factor does the number
# of each distance grow? And by which factor its square? The printed temperatures are steps of a ladder, so expect the factor
# roughly.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"The best temperature fits the measured depths best."** At the lowest temperature each hour finds its own entry and
#   nothing else, so the lookup repeats what was measured, noise and all. Its error to the measured depths is then zero, and
#   says nothing.
# - **"The hotter, the less noise, the better."** The average also takes in hours when the water stood elsewhere. High
#   water comes out too low and low water too high, until there is no tide left.
# - **"More noise needs a sharper look."** It needs more entries in the average, so a wider one. With more entries in the
#   table, enough of them lie close by, and a colder lookup serves.
# - **"Sixty minutes, factor 60."** That would be the bandwidth. The temperature is its square. For attention it means this:
#   if all queries and keys grow, the right temperature grows, too. Lesson 3 computes it.

# %% [markdown]
# ## 6. A test for any soft lookup
#
# *Write a test. Difficulty 3, about 30 minutes.*
#
# **Why it is worth doing.** Often you have nothing to compare with: the score is learnt, or the code is not yours. What
# you know is what a [soft lookup](../book/pages/glossary.md#soft-lookup) *promises*, and that is enough to find out if
# its softmax runs along the wrong axis, and more.
#
# Your test is given a function, called as `look_up(queries, keys, values)` with the shapes (B, T, D), (B, S, D) and
# (B, S, d_v). It returns the answers, (B, T, d_v), and no weights. Which score it uses is not known. It promises this:
#
# - Each answer is an average of the values of its own table, under weights that are positive and sum to one.
# - The weights of a query depend on that query and on the keys of its table, and on nothing else.
# - A table is a set of pairs of a key and a value: their order does not matter.
# - A gradient reaches the queries.
#
# The check hands your test three right functions and thirteen wrong ones. Each wrong one returns the right shapes.
# Refuse it with an `assert` that fails. Let a right one pass, also if it rounds differently or computes in another number
# type: convert, and compare with a tolerance. Keep your numbers ordinary, as `torch.randn` gives them, and your example
# small, since your test is run again and again.

# %%
def test_lookup(look_up: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """Fail with an AssertionError if this function breaks a promise of a soft lookup.

    look_up: takes queries (B, T, D), keys (B, S, D) and values (B, S, d_v), returns the
    answers (B, T, d_v). Any B, T, S, D and d_v from 1 up to 16 will do.
    """
    # BEGIN SOLUTION
    g = torch.Generator().manual_seed(0)
    queries = torch.randn(2, 3, 4, generator=g).requires_grad_()          # (B, T, D)
    keys, values = (torch.randn(2, 5, n, generator=g) for n in (4, 6))    # (B, S, D or d_v)

    def same(given: Tensor, wanted: Tensor) -> bool:
        return torch.allclose(given.float(), wanted.float(), atol=1e-5)

    unit_vectors = torch.eye(5).expand(2, 5, 5)                           # (B, S, S)
    weights = look_up(queries, keys, unit_vectors)                        # (B, T, S)
    assert (weights > 0).all(), "a weight is not positive"
    assert same(weights.sum(dim=-1), torch.ones(2, 3)), "the weights do not sum to one"

    answers = look_up(queries, keys, values)                              # (B, T, d_v)
    assert same(answers, weights.float() @ values), "the values change the weights"
    alone = look_up(queries[1:, :1], keys[1:], values[1:])                # (1, 1, d_v)
    assert same(alone, answers[1:, :1]), "the answer depends on the company"
    order = torch.tensor([3, 0, 4, 1, 2])
    assert same(look_up(queries, keys[:, order], values[:, order]), answers), "order matters"

    assert answers.requires_grad, "no gradient reaches the queries"
    (slope,) = torch.autograd.grad(answers.square().sum(), queries)       # (B, T, D)
    assert (slope != 0).any(dim=-1).all(), "a query has no slope"
    # END SOLUTION


# %% tags=["check"]
check("soft_lookup.test_lookup", test_lookup)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Go through the promises one by one. For each, think of two calls whose answers you can compare with each other,
# without knowing the score. Choose all sizes different, and more than one table.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# You see no weights, but you choose the values. If they are all ones, what does each answer tell you? And which values
# would make the answers *be* the weights? For the rest: ask the same query alone and in company, and reorder a table.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Unit vectors as values, `torch.eye(S).expand(B, S, S)`, show the weights: positive, with rows that sum to one. Then
# look up random values: the answers must be these weights times the values. Ask one query of the *last* table alone.
# Put the pairs into another order. Let the queries ask for a gradient, and see that one arrives.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Only check that the weights sum to one.** A softmax over the queries whose rows are divided by their sums passes, and
#   so does a hard lookup.
# - **Only compare with your own softmax of dot products.** A right lookup by distance is refused, and nobody promised dot
#   products.
# - **Ask the first query of the first table alone.** In most wrong programs this shows the fault. Ask a query of *each*
#   table if you want to be sure that tables do not mix.
# - **Look at the answers and forget the gradient.** A lookup whose queries are cut off gives every answer rightly. It is
#   found out after a day of training, if at all.
# - **Use as many queries as keys.** Then wrong axes fit, and a table that is read along the other one may sum to one.

# %% [markdown]
# ## Where you stand
#
# In lesson 3, each token makes its own query, key and value. The papers behind these exercises are @nadaraya1964,
# @watson1964 and @bahdanau2015.

# %%
progress("soft_lookup")
