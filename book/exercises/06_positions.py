# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 6: Positions
#
# Six exercises on [lesson 6](../notebooks/06_positions.ipynb). You write sinusoidal positions as a module, rotary
# positions in any layout, and ALiBi for any number of heads. You predict what positions do to a score, repair a
# program that carries weights from one layout to the other, explore how far a head reaches, and write a test that
# needs no layout to find the bugs.
#
# **How it works.** Replace `raise NotImplementedError("your turn")`, or each `None`, by your answer and run the cell
# (in exercise 4, change what stands there). Then run the check below it, as often as you like. It gives points, and
# where it knows your mistake, it names it.
# The hints are folded, and each says more than the one before.
#
# **How long:** nearly two hours for all six. Each one says its difficulty, from 1 to 3.
#
# The letters are those of the lesson: B sequences, H heads, T queries, S keys, and D numbers in a head. Places are
# counted from 0.

# %% [markdown] tags=["solution-only"]
# # Solutions 6: Positions
#
# The [exercises of lesson 6](../exercises/06_positions.ipynb) with an answer to each. It is one answer of many: a
# check accepts any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise
# before you read its solution; what you found yourself stays with you.

# %%
import math

import torch
from torch import Tensor, nn

from attnlab import plots, positions, seed
from attnlab.attention import scaled_dot_product_attention
from attnlab.checks import check, progress

# %% [markdown]
# ## 1. Sinusoidal positions as a module
#
# *Implement. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** In the lesson the table was a function, and the model took its first rows. A model that
# is used needs three things more: a place for the table that no optimiser touches, an *offset* for texts that are
# read piece by piece, and a clear word when a text is too long.
#
# $$PE(p, 2i) = \sin(p\, \omega_i), \qquad PE(p, 2i+1) = \cos(p\, \omega_i), \qquad \omega_i = 10000^{-2i/d_{model}}$$
#
# The width $d_{model}$ may be odd. The columns are then $0$ to $d_{model} - 1$ as ever, the last one is a sine, and
# there is no cosine beside it.

# %%
class SinusoidalPositions(nn.Module):
    """Adds sinusoids to a batch of embeddings. Nothing in it is learnt.

    d_model: width of an embedding, 1 or more, even or odd.
    max_length: number of places in the table; they are 0 to max_length - 1.
    """

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        # BEGIN SOLUTION
        place = torch.arange(max_length, dtype=torch.float64)[:, None]  # (max_length, 1)
        even = torch.arange(0, d_model, 2, dtype=torch.float64)  # (ceil(d_model/2),): each 2i
        angle = place * 10_000 ** (-even / d_model)  # (max_length, ceil(d_model/2))
        table = torch.empty(max_length, d_model)
        table[:, 0::2] = angle.sin()
        table[:, 1::2] = angle[:, : d_model // 2].cos()
        self.register_buffer("table", table, persistent=False)
        # END SOLUTION

    def forward(self, x: Tensor, offset: int = 0) -> Tensor:
        """Add to each embedding the row of its place.

        x: (B, T, d_model). offset: place of the first embedding of each sequence, 0 or more.
        Returns (B, T, d_model), of the number type of x.
        Raises ValueError where the last place, offset + T - 1, is not in the table.
        """
        # BEGIN SOLUTION
        max_length, end = len(self.table), offset + x.shape[1]
        if end > max_length:
            raise ValueError(f"x: place {end - 1} is past the end, max_length={max_length}")
        rows = self.table[offset:end].to(x.dtype)  # (T, d_model); one table for all sequences
        return x + rows  # (B, T, d_model)
        # END SOLUTION


# %% tags=["check"]
check("positions.SinusoidalPositions", SinusoidalPositions)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Make the whole table once, in the constructor: a row for each place, a column for each number. Write down, for a
# width of 5, which function and which $\omega_i$ stand in each of the five columns. Then think of what `forward` has
# to cut out of the table.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# All angles are one product: places as a column, times the rates as a row. How many rates does a width of 5 have,
# and how many of them have a cosine? As for keeping the table: a module has a word for tensors that belong to it and
# are no parameters, `register_buffer`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Sines go into `table[:, 0::2]`, cosines into `table[:, 1::2]`, and for the cosines take `d_model // 2` columns of
# the angles. In `forward`, the rows are those from `offset` up to `offset + T`. A slice that goes past the end is cut
# short without a word, so compare first. And half precision plus `float32` is `float32`: rows have `.to(x.dtype)`.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Keep the table as a parameter.** The result is right, until the first step of training changes it. (A parameter
#   that asks for no gradient is left alone. A buffer says what is meant.)
# - **Give the cosine its own exponent,** that of $2i + 1$. It runs, but the two of a pair then turn at different
#   rates, and dot products of places no longer depend on the distance alone.
# - **For an odd width, make the table one wider and cut.** The rates of the wider table are not those of the narrow
#   one: the width stands in the exponent. Cutting is fine if the rates come from the width that was asked for.
# - **Add `table[offset + T]`.** That is one row. All places of a sequence become alike.
# - **Add the rows along the batch.** Where B happens to be equal to T, no error is raised. Each sequence gets a vector
#   of its own, and its places stay a set.
# - **Leave the end to the shapes.** A slice past the end is shorter, and the addition raises a `RuntimeError` about
#   sizes. But if one row is left, it spreads over all places, and nothing is raised.
# - **Add the `float32` table to whatever comes.** Half precision plus `float32` is `float32`: the model goes on in the
#   wider type from here, without a word, and takes more memory than it was given.
#
# The table is worked out in double precision and rounded once. A check that asks for less is fair: in single
# precision the angle at place 300 is off in the fifth decimal, and that is no mistake.

# %% [markdown]
# ## 2. Predict, then test
#
# *Predict and then test. Difficulty 1, about 10 minutes.*
#
# **Why it is worth doing.** Bugs in positions are quiet. Whoever knows beforehand what a [score](../book/pages/glossary.md#score)
# must depend on can see that it depends on something else. Fill in all six predictions before you run anything.
# Then run the check, and the measurement below it.
#
# 1. [Self-attention](../book/pages/glossary.md#self-attention) without positions and without a
#    [mask](../book/pages/glossary.md#mask). Two *other* tokens of the sequence change places. The output of this token:
#    `"changes"` or `"stays"`?
# 2. Sinusoids of width 64. What is the dot product of the row of place 10 with itself? Give a number.
# 3. Both halves of the formula. Is the dot product of the rows of places 103 and 107 `"larger"` than that of 3 and 7,
#    `"equal"` to it or `"smaller"`?
# 4. Rotary positions with one pair that turns by $0.1$ radian a place. The query $(1, 0)$ stands at place 12, the key
#    $(1, 0)$ at place 2. What is their dot product after the turn? Give a number.
# 5. ALiBi with the slope $1/2$. All scores are zero before the price is taken off. The weight of the key four places
#    back, divided by the weight of the key at the query's own place: give a number.
# 6. By mistake, a program turns the values just as it turns queries and keys. The same tokens are moved on by 7
#    places, all together. The outputs of its rotary attention: `"change"` or `"stay"`?

# %%
# BEGIN SOLUTION
# STUB prediction = {
# STUB     "two other tokens swapped, this token's output": None,
# STUB     "PE(10) · PE(10), width 64": None,
# STUB     "PE(103) · PE(107) against PE(3) · PE(7)": None,
# STUB     "rotary score, places 12 and 2": None,
# STUB     "ALiBi, weight four places back / weight here": None,
# STUB     "values turned too, all moved on by 7, outputs": None,
# STUB }
prediction = {
    "two other tokens swapped, this token's output": "stays",
    "PE(10) · PE(10), width 64": 32,
    "PE(103) · PE(107) against PE(3) · PE(7)": "equal",
    "rotary score, places 12 and 2": math.cos(0.1 * (12 - 2)),
    "ALiBi, weight four places back / weight here": math.exp(-4 / 2),
    "values turned too, all moved on by 7, outputs": "change",
}
# END SOLUTION

# %% tags=["check"]
check("positions.prediction", prediction)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# For the first one, write the output as a sum over the keys, $\sum_j w_j v_j$. For the second and the third, write
# out what one pair of columns adds to the dot product of two places.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A pair adds $\cos((p - r)\,\omega)$. What is that for $p = r$, and how many pairs are there? The two arrows of the
# fourth question are turned by 12 and by 2 steps: what is the angle between them?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The dot product of two arrows of length 1 is the cosine of the angle between them; the angle is in radians. The
# weights of two keys are in the ratio of the exponentials of their scores. And in the last question the weights stay
# what they were: what is it that they mix?
#
# </details>
#
# Now test your predictions. The cell measures nothing until all six are there.

# %%
def measure_predictions() -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed(0))
    x = torch.randn(6, 8, generator=g)  # (T, D)
    swapped = x[[0, 2, 1, 3, 4, 5]]  # the token at place 0 stays
    plain, other = (scaled_dot_product_attention(y, y, y).output for y in (x, swapped))
    table = positions.sinusoidal_positions(200, 64)  # (T, d_model)
    arrow = {p: torch.tensor([math.cos(0.1 * p), math.sin(0.1 * p)]) for p in (12, 2)}
    weights = (-torch.arange(5) / 2).softmax(dim=-1)  # by distance: (S,)
    turn = positions.InterleavedRotary(8, max_length=50)

    def all_turned(offset):
        turned = turn(x, offset)
        return scaled_dot_product_attention(turned, turned, turned).output

    return {
        "1. largest change of this token's output": (plain[0] - other[0]).abs().max(),
        "2. dot product of a place with itself": table[10] @ table[10],
        "3. difference of the two dot products": table[103] @ table[107] - table[3] @ table[7],
        "4. dot product after the turn": arrow[12] @ arrow[2],
        "5. weight four places back / weight here": weights[4] / weights[0],
        "6. largest change of an output": (all_turned(0) - all_turned(7)).abs().max(),
    }


if None not in prediction.values():
    for name, measured in measure_predictions().items():
        print(f"{name}: {abs(measured):.2f}")

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"The other tokens moved, so what they give me changes."** The output is a sum over the keys. Each key brings its
#   value and its weight along, wherever it stands.
# - **"64 columns, so 64."** A pair adds $\sin^2 + \cos^2$, which is 1: one for each pair, not for each column.
# - **"Late places are weaker"** or **"larger".** Sine and cosine stay between $-1$ and 1 for ever. Put together, only
#   the difference of the places is left, and that is four both times.
# - **Add the two angles,** or **multiply the two cosines.** The arrows turn the same way, so what is between them is the
#   *difference*. And an arrow has two numbers: the cosines alone are half of the dot product.
# - **"A half for each place, so one sixteenth."** The slope is taken from the score, and the softmax takes the
#   exponential: each place costs the factor $e^{-1/2}$, not $1/2$.
# - **"Nothing changes, since the scores do not."** The weights stay, but what they mix are values that are turned
#   further. The whole output is turned by 7 places: it tells the next layer an absolute place.

# %% [markdown]
# ## 3. Rotary positions, in any layout
#
# *Implement. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** The lesson has [rotary positions](../book/pages/glossary.md#rotary-positions) in two
# layouts, as two functions. A layout is nothing but a list of pairs. Write the turn once, for any list, and the
# difference between the two is one line. Here each sequence also has positions of its own, as in a batch whose texts
# begin at different places.
#
# Pair $i$ of a head at place $p$ is turned by the angle $p\,\theta_i$, with $\theta_i = 10000^{-2i/D}$:
#
# $$(a, b) \;\to\; (a \cos p\theta_i - b \sin p\theta_i,\;\; a \sin p\theta_i + b \cos p\theta_i), \qquad i = 0, \dots, D/2 - 1 .$$
#
# The numbers of a pair stay where they are in the head. Here are the two layouts, for a head of 8 numbers:

# %%
interleaved = torch.arange(8).view(-1, 2)  # (D/2, 2)
half_split = torch.arange(8).view(2, -1).T  # (D/2, 2)
print("interleaved:", interleaved.tolist())
print("half-split: ", half_split.tolist())

# %%
def rotate(heads: Tensor, positions: Tensor, pairs: Tensor) -> Tensor:
    """Turn each pair of numbers by an angle that grows with the position.

    heads: (B, H, T, D), queries or keys; D is even.
    positions: integers (B, T), the place of each token, another row for each sequence.
    pairs: integers (D/2, 2); pair i is made of the numbers pairs[i, 0] and pairs[i, 1] of a
        head, in this order. Each number of a head is in one pair.

    Returns (B, H, T, D), of the number type of heads. Changes none of its inputs.
    """
    # BEGIN SOLUTION
    D = heads.shape[-1]
    rate = 10_000 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)  # (D/2,)
    angle = positions[:, None, :, None] * rate  # (B, 1, T, D/2)
    cos, sin = angle.cos().to(heads), angle.sin().to(heads)
    a, b = heads[..., pairs[:, 0]], heads[..., pairs[:, 1]]  # (B, H, T, D/2) each
    turned = torch.empty_like(heads)
    turned[..., pairs[:, 0]] = a * cos - b * sin
    turned[..., pairs[:, 1]] = a * sin + b * cos
    return turned  # (B, H, T, D)
    # END SOLUTION


# %% tags=["check"]
check("positions.rotate", rotate)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Separate three things: which angles there are, which numbers are $a$ and which are $b$, and where the turned ones
# go. Write the shape of each down. The angles belong to a sequence, a place and a pair: on which axis do they have to
# be stretched, to meet heads?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `heads[..., pairs[:, 0]]` is all $a$ at once, in the order of the pairs. So the angles are `(B, T, D/2)`, with an axis
# of length 1 where heads have H. Keep both old numbers until both new ones are made.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The rates are `10_000 ** (-torch.arange(0, D, 2) / D)`, and `positions[:, None, :, None]` makes of the places something
# that multiplies them. For the result take an empty tensor like `heads`, and assign to `[..., pairs[:, 0]]` and
# `[..., pairs[:, 1]]`. If heads are in half precision, so is the result; but angles are large numbers, and need more.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Join the turned numbers with `torch.cat`.** Then the first numbers of all pairs come first. If the pairs were
#   neighbours, every number has moved. Scores do not show it, because queries and keys are shuffled alike. The first
#   program that compares heads from two places does.
# - **Overwrite $a$, then compute $b$.** The second row needs the *old* $a$. What comes out is no turn, lengths change,
#   and scores depend on absolute places.
# - **Count places from 0 in each call.** That is right as long as whole sequences are read at once. A key that comes
#   later, alone, would stand at place 0.
# - **Divide by $D/2$ in the exponent,** since there are $D/2$ pairs. The exponent is $-2i/D$ for pair $i$: with the even
#   numbers 0, 2, ... above the line, $D$ stands below it.
# - **Work out the angles in the number type of the heads.** Above 2048, half precision has only the even numbers, so
#   two neighbours may stand at one place. Make the angles in `float32` or wider, and cast sine and cosine.
# - **Take the width of all heads.** Each head is turned for itself, with all rates from fast to slow. With the width of
#   all heads together the slow ones would be missing.

# %% [markdown]
# ## 4. Repair: from one layout to the other
#
# *Repair. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** Weights trained with one layout are wrong in the other, and nothing fails: the model is
# merely worse. So whoever loads weights of another code base has to carry them over. The program below does that, for
# weights as `nn.Linear` keeps them: a *row* for each number that comes out, the heads one after the other. In the end a
# half-split model with the new weights has to give just what an interleaved model gives with the old ones.
#
# It runs, all shapes are right, and it has **two** faults. Find both and repair them; nothing else has to change.

# %%
def half_split_weights(
    w_q: Tensor, w_k: Tensor, w_v: Tensor, num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Weights for half-split rotary pairs, from weights for interleaved ones.

    w_q, w_k, w_v: (num_heads * D, d_model), weights that make queries, keys and values;
        rows 0 to D - 1 belong to the first head, the next D to the second, and so on.

    Returns new w_q, w_k and w_v, in the same shapes: each head has the same scores under
    half-split pairs as before under interleaved ones, and the same output. It is the first
    number of a pair that comes into the first half. Changes none of its inputs.
    """
    # BEGIN SOLUTION
    # STUB numbers = torch.arange(len(w_q))
    # STUB order = numbers.view(-1, 2).T.flatten()  # 0, 2, 4, ..., then 1, 3, 5, ...
    # STUB return w_q[order], w_k[order], w_v[order]
    numbers = torch.arange(len(w_q)).view(num_heads, -1, 2)  # (H, D/2, 2)
    order = numbers.transpose(1, 2).flatten()  # in each head 0, 2, 4, ..., then 1, 3, 5, ...
    return w_q[order], w_k[order], w_v
    # END SOLUTION


# %% tags=["check"]
check("positions.half_split_weights", half_split_weights)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Do not read the code first. Make the smallest example in which something can go wrong: two heads of four numbers, and
# weights whose rows are numbered, `torch.arange(8.)[:, None]`. Where does each row end up, and where should it be?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A pair lies within one head, and so does the half that its first number goes to. Do all rows of your example stay in
# their head? As for the other fault: which of the three, queries, keys and values, are turned at all?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Cut the numbers into heads before you cut them into pairs: `view(num_heads, -1, 2)`. Then exchange the last two axes,
# and no others. What is never turned does not need another order.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **One order for all rows.** With one head it is right, so a test with one head passes. With several, the first
#   numbers of *all* heads come first: numbers of one head land in another.
# - **"All three go through the same layer, so sort all three."** Values are not turned. Sorted, each head would hand over
#   its numbers in another order, and the matrix that mixes the heads afterwards was trained for the old one.
# - **Use `order.argsort()`.** That is the way back, from half-split to interleaved. For heads of four numbers the two
#   are the same, so a test that is too small lets it pass.
# - **Sort the columns.** They belong to the token that comes in. What is turned comes out, and has the rows.

# %% [markdown]
# ## 5. ALiBi for any number of heads
#
# *Implement, then explore. Difficulty 2, about 30 minutes.*
#
# **Why it is worth doing.** The lesson's [ALiBi](../book/pages/glossary.md#alibi) serves powers of two, and as many
# queries as keys. Models in use have twelve heads, and read token by token: one query, many keys. In both cases the
# short formula gives numbers, and they are the wrong ones.
#
# $$b_{hij} = - m_h\, |i - j|$$
#
# Here $i$ is the place of the query and $j$ that of the key; the price is the same before and after the query. There are
# at least as many keys as queries, and **the last query stands at the place of the last key**.
#
# For $n$ heads, a power of two, the slopes are $2^{-8/n}, 2^{-16/n}, \dots, 2^{-8}$. For other numbers of heads the code
# published with the paper [@press2022] does this: let $n$ be the largest power of two below the number of heads. The
# first $n$ heads get the slopes of $n$ heads. The others get the first, third, fifth, ... of the slopes of $2n$ heads,
# until there are enough. So three heads have $2^{-4}$ and $2^{-8}$, and then $2^{-2}$. They are not sorted.

# %%
def alibi_bias(num_heads: int, num_queries: int, num_keys: int) -> Tensor:
    """What is added to the scores of each head: minus slope times distance.

    num_heads: H, 1 or more. num_queries: T. num_keys: S, at least T.
    Returns (H, T, S), of PyTorch's default number type. Nothing is hidden: that is left to
    the mask.
    """
    # BEGIN SOLUTION
    def slopes_of(n: int) -> list[float]:
        return [2 ** (-8 * head / n) for head in range(1, n + 1)]

    n = 2 ** (num_heads.bit_length() - 1)  # the largest power of two that is not above H
    slopes = torch.tensor((slopes_of(n) + slopes_of(2 * n)[::2])[:num_heads])  # (H,)
    query_at = torch.arange(num_keys - num_queries, num_keys)[:, None]  # (T, 1)
    distance = (query_at - torch.arange(num_keys)).abs()  # (T, S)
    return -slopes[:, None, None] * distance  # (H, T, S)
    # END SOLUTION


# %% tags=["check"]
check("positions.alibi_bias", alibi_bias)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Two parts that do not know of each other: one slope for each head, and a table of distances. Begin with the table:
# draw it for 2 queries and 4 keys. Where are its zeros?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# With $S$ keys the last query stands at $S - 1$, so where does the first of $T$ queries stand? For the slopes, write a
# small function for powers of two and call it with two of them. For which
# numbers of heads is nothing of the second call used?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The queries stand at $S - T$ to $S - 1$. The slopes are `slopes_of(n)` and, behind them, every other one of
# `slopes_of(2 * n)`, beginning with its first (`[::2]`); cut the list after `num_heads`. Then give slopes two axes of
# length 1, so that they meet the table.
#
# </details>

# %% [markdown]
# ### How far does a head reach?
#
# Now look at what the slopes do. All scores are zero in the next cell, so that the price alone decides. The figure
# shows, for each head, how far back the last query looks: the mean distance of the keys, under their weights. Beyond
# the query there is nothing. (The cell uses the course's own `positions.alibi_bias`, so it runs in any case.)
#
# **Change the number of heads and the lengths, and run the cell again.** You may give more lengths than two. The
# function gives the numbers behind the figure: `mean_distance(8, 512)`.

# %%
num_heads, lengths = 8, [64, 512]  # change these


def mean_distance(num_heads: int, length: int) -> Tensor:
    """Mean distance from the last query to the keys, for each head (H,)."""
    bias = positions.alibi_bias(num_heads, 1, length)  # (H, 1, S)
    weights = bias[:, 0].softmax(dim=-1)  # (H, S)
    distance = torch.arange(length - 1, -1, -1.0)  # (S,)
    return weights @ distance  # (H,)


plots.lines(
    range(1, num_heads + 1),
    {f"length {length}": mean_distance(num_heads, length) for length in lengths},
    log="y", x="head", y="mean distance of the keys (places)",
    alt="Mean distance of the keys for each head, one line for each length. The first lines "
        "rise from head to head, and part where the length becomes too short for a head.",
)

# %% [markdown]
# What did you find?
#
# 1. From 8 to 16 heads, the reach of the *last* head: `"grows"`, `"stays"` or `"shrinks"`?
# 2. From 8 to 16 heads, the reach of the *first* head: `"grows"`, `"stays"` or `"shrinks"`?
# 3. With 8 heads and a length of 8192, what is the reach of the last head? Give a number.
# 4. With 12 heads, which head reaches least? Give its number; heads are counted from 1.

# %%
# BEGIN SOLUTION
# STUB reach = {
# STUB     "from 8 to 16 heads, reach of the last head": None,
# STUB     "from 8 to 16 heads, reach of the first head": None,
# STUB     "8 heads, length 8192, reach of the last head": None,
# STUB     "12 heads, number of the head that reaches least": None,
# STUB }
nearest = mean_distance(12, 512).argmin().item()  # counted from 0
reach = {
    "from 8 to 16 heads, reach of the last head": "stays",
    "from 8 to 16 heads, reach of the first head": "shrinks",
    "8 heads, length 8192, reach of the last head": mean_distance(8, 8192)[-1].item(),
    "12 heads, number of the head that reaches least": 1 + nearest,
}
# END SOLUTION

# %% tags=["check"]
check("positions.reach", reach)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Change one thing at a time. For the first two questions it is the number of heads; look at both ends of the line.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For the third question add 8192 to the lengths. Does the line of a longer sequence still differ from the one before
# it? For the fourth one, set the number of heads to 12 and look for the lowest point.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The numbers are `mean_distance(8, 8192)[-1]`, and the smallest entry of `mean_distance(12, 512)`. An entry's index is
# counted from 0, its head from 1.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Use $2^{-8h/H}$ for twelve heads, too.** It gives twelve sensible slopes. But weights that were trained with the
#   published rule expect other ones, head by head; nothing fails.
# - **Sort the slopes.** A head's weights were trained with its slope. Sorted, each of twelve heads gets the slope of another.
# - **Let the first query stand at the first key.** With as many keys as queries it is the same. A query that comes
#   alone, with a hundred keys before it, would pay most for its nearest ones.
# - **Leave out the absolute value.** Under a causal mask nothing shows. Without one, a key far ahead gets a bonus, and the
#   further the larger.
# - **"More heads reach further."** Every row of slopes for a power of two ends at $2^{-8}$, so the last head reaches the
#   same. What more heads add is at the near end and in between.
# - **"The flattest head sees everything, so half of the length."** So it seems at length 64. A slope of $2^{-8}$ takes 1
#   from a score over 256 places; that is about as far as the head looks, however long the text is.
# - **"The first head is always the nearest."** For twelve heads the four that were added begin with the steepest slope of
#   all. It is the ninth head's.

# %% [markdown]
# ## 6. A test that needs no layout
#
# *Write a test. Difficulty 3, about 20 minutes.*
#
# **Why it is worth doing.** How would you test a rotary program whose layout you do not know? You cannot compare its
# numbers with yours. But you know what it is for: a score may depend on the distance between query and key, and on
# nothing else about their places. That is a property, and a test of a property fits every layout.
#
# Your test is given a function, called as `rotate(heads, positions)`, with the shapes of exercise 3. It has to decide
# whether that function is right. The check hands it four right ones: two layouts, one that computes in another
# number type, and one with another base than 10000. Each of them takes any positions from 0 to 1000. And it hands it
# eight wrong ones, which run and return the right shapes.
#
# Refuse a wrong function with an `assert` that fails. Let a right one pass: compare with a tolerance.

# %%
def test_rotary(rotate) -> None:
    """Fail with an AssertionError if scores do not depend on distance, and on distance alone.

    rotate: called as rotate(heads, positions), with heads (B, H, T, D) and integer positions
        (B, T); returns heads (B, H, T, D), turned.
    """
    # BEGIN SOLUTION
    g = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 2, 3, 5, 8, generator=g)  # (B, H, T, D) each
    places = torch.arange(5) + torch.tensor([[0], [11]])  # (B, T)

    def scores(queries_at: Tensor, keys_at: Tensor) -> Tensor:
        return rotate(query, queries_at) @ rotate(key, keys_at).transpose(-2, -1)

    near = scores(places, places)  # (B, H, T, T)
    for shift in (1, 500):
        both = scores(places + shift, places + shift)
        assert (both - near).abs().max() < 1e-3, "both moved on, and a score changes"
        alone = scores(places + shift, places)
        assert (alone - near).abs().max() > 1e-2, "queries moved on, and no score changes"

    second = rotate(query[1:], places[1:])  # the second sequence without the first
    together = rotate(query, places)[1:]
    assert (second - together).abs().max() < 1e-3, "a sequence depends on its neighbour"
    # END SOLUTION


# %% tags=["check"]
check("positions.test_rotary", test_rotary)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Make random queries and keys, and positions for them. Then ask two questions. What must not change when queries and keys
# both move on by the same number of places? And what must change when the queries alone do?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Both questions need scores, `rotate(query, ...) @ rotate(key, ...).transpose(-2, -1)`. Two kinds of wrong programs get
# past them: one goes wrong at late places only, the other mixes up the sequences of a batch. How far do you move, and do
# your sequences have the same positions?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Move by 1 and by several hundred. Give the two sequences of the batch different positions, such as
# `torch.arange(5) + torch.tensor([[0], [11]])`. And turn the second sequence alone, `heads[1:]` with `positions[1:]`: it
# has to come out as it did in the batch.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Compare with your own `rotate`.** It has one layout, and half of the right programs have the other.
# - **Only ask what must not change.** A program that returns the heads as they are changes nothing, ever. So does one that
#   counts places from 0 in each call. A test of an invariance needs its opposite beside it.
# - **Move on by one or two places only.** Tables have an end. A program that uses its last row for all later places is
#   right up to there.
# - **Only check the lengths of the vectors.** A turn by a wrong angle keeps them as well.
# - **Use one sequence, or the same positions for all.** Then a program that takes the first sequence's positions for the
#   whole batch is right.
# - **Compare with `torch.equal`.** A cosine of a difference and a sum of products agree up to rounding, and no further.

# %% [markdown]
# ## Where you stand
#
# Next comes lesson 7, in which attention gets what it needs to be stacked sixty times. The papers behind these exercises
# are @vaswani2017 (section 3.5), @su2024 (section 3.2) and @press2022 (section 3).

# %%
progress("positions")
