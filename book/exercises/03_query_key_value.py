# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown] tags=["exercise-only"]
# # Exercises 3: Query, key, value
#
# Six exercises on [lesson 3](../notebooks/03_query_key_value.ipynb). You write attention as a function and as a
# module, predict what it does, repair a program that runs wrongly, find out a scale from its curve, and write a test
# that finds bugs.
#
# **How it works.** Replace `raise NotImplementedError("your turn")`, or each `None`, by your answer and run the cell.
# Then run the check below it, as often as you like. It gives points, and where it knows your mistake, it names it.
# The hints are folded, and each says more than the one before.
#
# **How long:** about an hour and three quarters for all six. Each one says its difficulty, from 1 to 3.
#
# The letters are those of the lesson: B sequences, T queries, S keys, and the widths $d_k$ and $d_v$.

# %% [markdown] tags=["solution-only"]
# # Solutions 3: Query, key, value
#
# The [exercises of lesson 3](../exercises/03_query_key_value.ipynb) with an answer to each. It is one answer of many: a check accepts
# any that does the same. Below each stands why the tempting wrong answers are wrong. Try an exercise before you read
# its solution; what you found yourself stays with you.

# %%
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab import plots, seed
from attnlab.attention import scaled_dot_product_attention
from attnlab.checks import check, progress
from attnlab.checks.ch03_query_key_value.puzzle import colleague_weights

# %% [markdown]
# ## 1. The attention function
#
# *Implement. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** Every model in the rest of the course calls such a function. New here is the
# [mask](../book/pages/glossary.md#mask), which says which keys a query may see: write it once yourself, and you know
# what each later model does at its heart.
#
# $$\operatorname{Attention}(Q, K, V) = \operatorname{softmax}\!\left(\frac{Q K^{\top}}{\sqrt{d_k}}\right) V$$
#
# The mask is boolean. True means: this query may attend to this key. A key that is hidden from a query has a weight
# of zero, and the others share the whole. A query that may attend to nothing gets zeros, as its weights and as its
# output, and its gradients are finite. Write the steps yourself; PyTorch's own attention function is what you compare
# with, not what you call.

# %%
def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Mix the values, each by how well its key matches the query.

    query: (..., T, d_k), what each position looks for.
    key: (..., S, d_k), what each position can be found by.
    value: (..., S, d_v), what each position hands over.
    mask: boolean (..., T, S), True = may attend; None = every query may attend to every key.

    Returns the output (..., T, d_v) and the weights (..., T, S). Changes none of its inputs.
    Raises whatever PyTorch raises where shapes do not fit.
    """
    # BEGIN SOLUTION
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (..., T, S)
    if mask is None:
        weights = scores.softmax(dim=-1)  # (..., T, S)
    else:
        nothing = ~mask.any(dim=-1, keepdim=True)  # (..., T, 1)
        allowed = scores.masked_fill(~mask, -math.inf).masked_fill(nothing, 0.0)
        weights = allowed.softmax(dim=-1).masked_fill(nothing, 0.0)  # (..., T, S)
    return weights @ value, weights  # (..., T, d_v), (..., T, S)
    # END SOLUTION


# %% tags=["check"]
check("query_key_value.attention", attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Leave the mask out at first. Write down the shape of each step: the table of scores has one row for each query and
# one column for each key. Which product of two matrices has that shape? And which axis lies along a row?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The weights that are left must sum to 1, so a hidden key has to be gone before the softmax divides by the sum. What
# would its score have to be, for its exponential to be zero? And what becomes of a row in which all scores are like
# that?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Fill hidden scores with minus infinity (`masked_fill`). A row of nothing else becomes zero divided by zero. Find
# these rows first, with `mask.any(dim=-1, keepdim=True)`. Give them harmless scores before the softmax, and zeros
# after it.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Zero the weights after the softmax.** The hidden keys are gone, but they took their share first: the rest of the
#   row sums to less than 1.
# - **Give hidden keys the score 0.** Zero is a score like any other. Its exponential is 1, so the key gets weight.
# - **Fill with a large negative number, such as -1e9.** Each row looks right until a row hides everything. Then all
#   its scores are equally low, and the query attends to everything alike. In half precision that number does not even
#   exist.
# - **Let the NaN happen and clean it up afterwards.** The output is zeros. But if the mask was added as minus
#   infinity, the NaN is met again on the way back, and the gradients of the queries and keys become NaN. (With
#   `masked_fill`, whose gradient at the hidden places is zero, it happens to go well.)
# - **Divide by the root of the width of the values, or of the token.** It runs and trains. But a score is a dot
#   product of a query and a key: the number of its terms is their width, not another.

# %% [markdown]
# ## 2. Predict, then test
#
# *Predict and then test. Difficulty 1, about 10 minutes.*
#
# **Why it is worth doing.** If you can say beforehand what a change does, you can later read a curve and know where
# to look. Fill in all six predictions before you run anything. Then run the check, and the measurement below it.
#
# 1. Every query is doubled. What happens to the largest [attention
#    weight](../book/pages/glossary.md#attention-weight) of a row: `"grows"`, `"stays"` or `"shrinks"`?
# 2. The number 5 is added to every score of one row, before the softmax. Do its weights `"change"`, or is each one as
#    before, `"stays"`?
# 3. Every value is doubled. The largest weight: `"grows"`, `"stays"`, `"shrinks"`?
# 4. The entries of queries and keys are independent, with variance 1. The width $d_k$ goes from 16 to 256. By which
#    factor does the spread (the standard deviation) of $q \cdot k$ change? Give a number.
# 5. The same for $q \cdot k / \sqrt{d_k}$.
# 6. The keys are put into another order, and the values into the same one. The output: `"is reordered"` or `"stays"`?

# %%
# BEGIN SOLUTION
# STUB prediction = {
# STUB     "query doubled, largest weight": None,
# STUB     "5 added to a row of scores, its weights": None,
# STUB     "values doubled, largest weight": None,
# STUB     "d_k from 16 to 256, spread of q·k, times": None,
# STUB     "d_k from 16 to 256, spread of q·k / √d_k, times": None,
# STUB     "keys and values reordered together, output": None,
# STUB }
prediction = {
    "query doubled, largest weight": "grows",
    "5 added to a row of scores, its weights": "stays",
    "values doubled, largest weight": "stays",
    "d_k from 16 to 256, spread of q·k, times": 4,
    "d_k from 16 to 256, spread of q·k / √d_k, times": 1,
    "keys and values reordered together, output": "stays",
}
# END SOLUTION

# %% tags=["check"]
check("query_key_value.prediction", prediction)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Take two keys with the scores 1 and 0. The softmax gives the first one $e / (e + 1)$. What do the changes make of
# that fraction?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A dot product of width $d_k$ is a sum of $d_k$ independent terms. What adds up when you add independent terms: their
# spreads or their variances? How do you get from one to the other?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The spread is the root of the variance: take the root of each variance before you compare. For the last prediction,
# write the output of one query as a sum over the keys, $\sum_j w_j v_j$. What changes in that sum when its terms
# change places?
#
# </details>
#
# Now test your predictions. The cell measures nothing until all six are there.

# %%
def measure_predictions() -> dict[str, float]:
    g = torch.Generator().manual_seed(seed(0))
    q, k, v = (torch.randn(n, 8, generator=g) for n in (50, 30, 30))
    plain = scaled_dot_product_attention(q, k, v)
    doubled = scaled_dot_product_attention(2 * q, k, v)
    shifted = F.softmax(plain.scores + 5, dim=-1)
    louder = scaled_dot_product_attention(q, k, 2 * v)
    order = torch.randperm(30, generator=g)
    reordered = scaled_dot_product_attention(q, k[order], v[order])
    pairs = (torch.randn(2, 20_000, d, generator=g) for d in (16, 256))
    narrow, wide = (queries_keys.prod(dim=0).sum(dim=-1).std() for queries_keys in pairs)
    return {
        "1. mean largest weight, plain": plain.weights.max(dim=-1).values.mean(),
        "1. mean largest weight, queries doubled": doubled.weights.max(dim=-1).values.mean(),
        "2. largest change of a weight": (plain.weights - shifted).abs().max(),
        "3. largest change of a weight": (plain.weights - louder.weights).abs().max(),
        "4. spread at 256 / spread at 16": wide / narrow,
        "5. the same, divided by the root of d_k": (wide / 256**0.5) / (narrow / 16**0.5),
        "6. largest change of the output": (plain.output - reordered.output).abs().max(),
    }


if None not in prediction.values():
    for name, measured in measure_predictions().items():
        print(f"{name}: {measured:.2f}")

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"Doubling the query changes nothing, a softmax is relative."** It is blind to a number that is *added* to all
#   scores. A factor spreads them, and a softmax of spread scores favours the largest.
# - **"The spread grows as much as the width."** That is the variance. The spread is its root, and this is why the
#   formula has a root.
# - **"Doubling the values makes them win."** The values enter in the last step, when the weights are ready.
# - **"Reordering the keys reorders the output."** The rows of the output belong to the queries. Over the keys there
#   is a sum, which has no order: attention alone cannot see where a key stands.

# %% [markdown]
# ## 3. The module
#
# *Implement. Difficulty 2, about 20 minutes.*
#
# **Why it is worth doing.** A function keeps nothing between two calls. The three matrices that make queries, keys
# and values are what attention *learns*, so they need a module to live in. This one has
# [dropout](../book/pages/glossary.md#dropout) too, which acts in training alone, and is easily put in the wrong
# place.
#
# Keep the names `w_q`, `w_k` and `w_v`: the check loads weights of its own into your module. The three projections
# have no bias. Dropout acts on the weights, after the softmax, and only while the module is in training mode. The
# weights that you return are those before dropout. You may call your `attention`, or write the steps again.

# %%
class SelfAttention(nn.Module):
    """One head of self-attention.

    d_model: width of a token's vector. d_k: width of queries and keys. d_v: width of values.
    dropout: share of the weights that is set to zero in training, from 0 up to 1.
    """

    def __init__(self, d_model: int, d_k: int, d_v: int, dropout: float = 0.0) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.w_q = nn.Linear(d_model, d_k, bias=False)
        self.w_k = nn.Linear(d_model, d_k, bias=False)
        self.w_v = nn.Linear(d_model, d_v, bias=False)
        self.dropout = nn.Dropout(dropout)
        # END SOLUTION

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Let every position attend to every position that the mask allows.

        x: (B, T, d_model). mask: boolean (T, T) or (B, T, T), True = may attend.
        Returns the output (B, T, d_v) and the weights (B, T, T), as they were before dropout.
        """
        # BEGIN SOLUTION
        query, key = self.w_q(x), self.w_k(x)                  # (B, T, d_k) each
        value = self.w_v(x)                                    # (B, T, d_v)
        _output, weights = attention(query, key, value, mask)  # (B, T, T)
        return self.dropout(weights) @ value, weights          # (B, T, d_v), (B, T, T)
        # END SOLUTION


# %% tags=["check"]
check("query_key_value.SelfAttention", SelfAttention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# In the constructor, think of what is *learned*: what holds a matrix, and how wide is each of the three results? In
# `forward`, remember that it is *self*-attention: who asks, and who answers?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# PyTorch has dropout as a layer and as a function. Which of the two knows by itself whether your module is in
# training? And where among the four steps do the weights stand ready?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Make an `nn.Dropout` in the constructor; it comes between the softmax and the product with the values. If you call
# your `attention`, take its weights, and make the output once more from weights that went through dropout.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Call `F.dropout(weights, p)`.** Its default is to drop, so it drops in evaluation as well, and the same input
#   gives another answer each time. (`F.dropout(weights, p, self.training)` is right.)
# - **Drop entries of the output.** That removes single numbers of a mixture. Attention dropout removes whole links
#   between two tokens.
# - **Drop scores before the softmax.** A score of zero is not a missing link. It gets weight.
# - **Return the weights after dropout.** Their rows sum to 1 only on average. Drawn as a picture, they show links
#   that the model uses as if they were gone.
# - **Use one matrix for queries and keys.** Then what a token looks for is what it can be found by. The score of
#   *her* for *Mia* would always be that of *Mia* for *her*, and tokens would favour tokens like themselves.

# %% [markdown]
# ## 4. Repair a program that runs
#
# *Repair. Difficulty 2, about 15 minutes.*
#
# **Why it is worth doing.** Many mistakes in attention never raise an error. The shapes fit, the loss falls, and the
# model is a little worse than it should be, for ever. The program below is of that kind. It has **two** faults. Find
# both and repair them; nothing else has to change.

# %%
def attend(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    """Self-attention of each sequence in x (B, T, d_model), without a mask.

    w_q, w_k: (d_model, d_k). w_v: (d_model, d_v). Returns the output (B, T, d_v).
    """
    query, key, value = x @ w_q, x @ w_k, x @ w_v  # (B, T, d_k) twice, (B, T, d_v)
    # BEGIN SOLUTION
    # STUB scores = query @ key.transpose(1, 2) / math.sqrt(x.shape[-1])  # (B, T, T)
    # STUB weights = torch.softmax(scores, dim=1)  # (B, T, T)
    scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])  # (B, T, T)
    weights = torch.softmax(scores, dim=-1)  # (B, T, T)
    # END SOLUTION
    return weights @ value  # (B, T, d_v)


# %% tags=["check"]
check("query_key_value.attend", attend)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Do not read the code first. Ask what must be true of the result. If all values are the same vector, what is the
# output, whatever the scores are? Try it.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Print the sums of the weights along each of their axes. Which sums should be 1, and which are?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The second fault shows in no sum. Look at the number under the root: which tensor's width is it? And which one does
# the formula name?
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **"The rows look fine, they are positive and sum to something near 1."** With the softmax over the queries, the
#   *columns* sum to 1. There are as many columns as rows, so the rows sum to 1 on average, but a single row does so
#   only by accident.
# - **Use `dim=1` because the queries are what we loop over.** What competes lies along the axis of the softmax, and
#   it is the keys that compete, for one query's attention.
# - **Leave the root of the token's width, since it is only a constant.** It is a constant that makes all scores too
#   small, the more so the narrower the head is beside the token. With several heads this is a common slip.
# - **Divide by the width itself.** The variance of a dot product grows like the width, its typical size like the
#   root.

# %% [markdown]
# ## 5. Which scale is this?
#
# *Measure. Difficulty 3, about 15 minutes.*
#
# **Why it is worth doing.** You will meet models whose code you cannot read: a compiled kernel, a colleague's
# library. What such a program does can still be measured. The function `colleague_weights(query, key)` gives
# attention weights. It divides the dot products by some power of the width, $q \cdot k / d_k^{\,a}$, and $a$ is not
# that of the paper, which is one half.
#
# The weights come out of a [softmax](../book/pages/glossary.md#softmax). Their logarithms are the scores again, up to
# a constant for each row. So the spread (the standard deviation) of the logarithms along a row is the spread of its
# scores. The figure shows how it grows with the width. Both axes show logarithms, so a power of $d_k$ is a straight
# line. Look at how steep it is.

# %%
def score_spread(d_k: int, num_queries: int = 500, num_keys: int = 500) -> float:
    """Spread of the scores along a row, averaged over many queries, from the weights alone."""
    g = torch.Generator().manual_seed(seed(d_k))
    query = torch.randn(num_queries, d_k, generator=g)  # (T, d_k)
    key = torch.randn(num_keys, d_k, generator=g)  # (S, d_k)
    weights = colleague_weights(query, key)  # (T, S)
    return weights.log().var(dim=-1).mean().sqrt().item()


widths = [4, 8, 16, 32, 64, 128]
spreads = [score_spread(d) for d in widths]
plots.lines(
    [math.log2(d) for d in widths],
    {"the colleague's program": [math.log2(spread) for spread in spreads]},
    x="width of query and key, log₂ d_k", y="spread of the scores, log₂",
    alt="One line over the width of query and key, both as logarithms to base 2. The spread "
        "of the scores rises steadily.",
)

# %% [markdown]
# What is $a$? Compute it from `widths` and `spreads`, or read it off the figure.

# %%
# BEGIN SOLUTION
# STUB exponent = None  # the power of d_k that the scores are divided by
slope = math.log(spreads[-1] / spreads[0]) / math.log(widths[-1] / widths[0])
exponent = 0.5 - slope  # dot products grow with power 0.5; the division takes a away
# END SOLUTION

# %% tags=["check"]
check("query_key_value.exponent", exponent)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# What would the line look like if nothing were divided? And if the division were the right one? The line in the
# figure is less steep than the one and steeper than the other.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A straight line on two logarithmic axes is a power. Take two points far apart. By which factor does the width grow
# from one to the other, and by which factor the spread? Which power turns the first factor into the second?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The power that you measured is the logarithm of the second factor, divided by that of the first. Undivided dot
# products grow with a power that you know from the lesson. Dividing by $d_k^{\,a}$ takes $a$ away from that power:
# you have measured what is left.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Give the slope itself.** The slope is what is left after the division. Asked for is what was divided by.
# - **Fit the variance.** It grows with twice the power. It serves as well, if you halve the slope before you compare.
# - **Add where the division subtracts.** A stronger division gives a flatter line, so a steep line means a small $a$.
# - **Trust the formula in the paper.** A measured line that rises says that this program does something else.

# %% [markdown]
# ## 6. A test that finds the bugs
#
# *Write a test. Difficulty 3, about 20 minutes.*
#
# **Why it is worth doing.** A test that cannot fail shows nothing. Here you write one that must be able to. It is
# given an attention function, called like the one of exercise 1, and has to decide whether that function is right.
# The check hands it three right ones, written in different ways, and eight wrong ones. Each wrong one runs, and
# returns the right shapes.
#
# Refuse a wrong function with an `assert` that fails. Let a right one pass: right ones may round differently in the
# last digits or compute in another number type, so convert and compare with a tolerance. Two tools are at hand:
# properties that any attention has (you know some, and `attnlab.contracts` holds more), and a second opinion on
# numbers, `F.scaled_dot_product_attention(query, key, value)`.

# %%
def test_attention(attention) -> None:
    """Fail with an AssertionError if this attention function is wrong.

    attention: called as attention(query, key, value) or attention(query, key, value, mask),
    with the shapes of exercise 1; returns the output and the weights.
    """
    # BEGIN SOLUTION
    g = torch.Generator().manual_seed(0)
    query = torch.randn(2, 3, 4, generator=g)  # (B, T, d_k)
    key = torch.randn(2, 5, 4, generator=g)  # (B, S, d_k)
    value = torch.randn(2, 5, 6, generator=g)  # (B, S, d_v)

    output, weights = attention(query, key, value)
    expected = F.scaled_dot_product_attention(query, key, value)
    close = torch.allclose(output.to(expected), expected, atol=1e-5)
    assert close, "the output differs from PyTorch's"

    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[:, 0, 3:] = False  # hides two keys
    mask[:, 1, 0] = False  # hides one
    mask[:, 2] = False  # hides all
    _output, weights = attention(query, key, value, mask)
    sums = weights.sum(dim=-1)  # (B, T)
    assert (weights[~mask] == 0).all(), "a hidden key has weight"
    assert torch.allclose(sums[:, :2], torch.ones_like(sums[:, :2])), "a row does not sum to 1"
    # The rows of zeros need no line of their own: the first assert on the weights covers them.
    # END SOLUTION


# %% tags=["check"]
check("query_key_value.test_attention", test_attention)

# %% [markdown]
# <details><summary>Hint 1</summary>
#
# Make one small example with all sizes different, so that nothing fits by accident. Then list what must be true of
# its weights, without a mask and with one.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Some wrong functions have perfect weights as far as sums can tell: they sharpen or blur too much. What else could
# show that? Others go wrong only with a mask, or only with a row of it that hides everything. Which rows does your
# mask have?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Without a mask, compare the output with PyTorch's. Then use a mask with three kinds of rows: one that hides some
# keys, another that hides others, and one that hides all. Ask three things of the weights: hidden keys have none,
# rows that show something sum to 1, rows that hide everything sum to 0.
#
# </details>

# %% [markdown] tags=["solution-only"]
# ### Why the tempting answers are wrong
#
# - **Only check the shapes.** All eight wrong functions return the right ones.
# - **Only check that rows sum to 1.** A wrong scale, and even a hard choice of the best key, pass.
# - **Only compare with PyTorch, without a mask.** Everything that is wrong with masks passes.
# - **Compare with `torch.equal`.** A right function that adds in another order, or computes in a wider number type,
#   is refused for its last digit. A test that refuses right programs is switched off by the first person it annoys.
# - **Use as many queries as keys.** Then queries and keys may swap their roles, or a mask be read with its axes
#   swapped, and every shape still fits.

# %% [markdown]
# ## Where you stand
#
# Next comes lesson 4, on masks: who may look at whom. The paper behind these exercises is
# @vaswani2017 (section 3.2.1).

# %%
progress("query_key_value")
