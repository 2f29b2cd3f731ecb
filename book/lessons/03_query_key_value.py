# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Query, key, value
#
# **What are $Q$, $K$ and $V$, and why divide by $\sqrt{d_k}$?**
#
# The formula at the heart of the [Transformer](../book/pages/glossary.md#transformer) fits on one line. You take it
# apart, put it together again, and measure what one small division in it is for.
#
# **You will be able to**
#
# - say what a [query](../book/pages/glossary.md#query), a [key](../book/pages/glossary.md#key) and a
#   [value](../book/pages/glossary.md#value) are, and compute one attention output by hand;
# - write the four steps as a loop, as matrices and as a module, and show that all three agree, and agree with
#   PyTorch;
# - explain, from a sum and from a derivative, why scores are divided by $\sqrt{d_k}$;
# - tell what that division does from what [dropout](../book/pages/glossary.md#dropout) and [gradient
#   clipping](../book/pages/glossary.md#gradient-clipping) do.
#
# **Before you start** you should know matrix products, mean and variance, the quotient rule, and a training loop in
# PyTorch.
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.

# %%
import itertools
import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab import claim, contracts, plots, seed, tasks, training
from attnlab.widgets import AttentionExplorer

generator = torch.Generator().manual_seed(seed(0))

# %% [markdown]
# ## Three roles for one token
#
# Read this sentence: *Mia lost her keys*. To understand *her* you look back for a person and find *Mia*. That small
# act has three parts. You had a **question** ("which person?"). Each word had a **sign** that it can be found by ("I
# am a person", "I am an action"). And once found, the word handed over its **content**.
#
# A model reads a text as a list of [tokens](../book/pages/glossary.md#token), here words, each a vector of numbers.
# [Self-attention](../book/pages/glossary.md#self-attention) makes three vectors from each token, one for each part:
# the query asks, the key is what the token is found by, the value is what it hands over. A dictionary in Python is
# similar, but there a question fits one key or none. Here it fits every key to some degree, and the answer is a
# mixture of all values.
#
# Our tokens have four features that you can read: is it a person, an action, a thing, and does it refer to something
# else? (Trained models find their own, and few are so tidy.) The $T = 4$ tokens are the rows of a matrix, each
# $d_{model}=4$ numbers wide. A comment such as `(T, d_model)` gives the shape of what its line makes.

# %%
tokens = ["Mia", "lost", "her", "keys"]
#                  person action thing refers
x = torch.tensor([[1.0,   0.0,   0.0,  0.0],     # Mia
                  [0.0,   1.0,   0.0,  0.0],     # lost
                  [1.0,   0.0,   0.0,  1.0],     # her: a person, named elsewhere
                  [0.0,   0.0,   1.0,  0.0]])    # keys           x: (T, d_model)

# %% [markdown]
# ## Step 1: projection
#
# Three matrices turn each token into its three vectors. Such a product is called a
# [projection](../book/pages/glossary.md#projection). With $X$ for all tokens (`x` in the code),
#
# $$Q = X W^Q, \qquad K = X W^K, \qquad V = X W^V .$$
#
# $W^Q$ and $W^K$ have shape $(d_{model}, d_k)$, $W^V$ has $(d_{model}, d_v)$. A query and a key will meet in a [dot
# product](../book/pages/glossary.md#dot-product), so both are $d_k$ wide; a value may have a width $d_v$ of its own.
# Here $d_k = 4$ and $d_v = 3$.
#
# A network learns these matrices; we choose ours by hand. Each row belongs to a feature, and says what it asks for,
# how it can be found, or what it gives.

# %%
# Columns of W_Q and W_K: person, action, thing, and one that is not used.
W_Q = torch.tensor([[0.0,  2.0, 0.0, 0.0],     # a person asks: what was done?
                    [2.0,  0.0, 2.0, 0.0],     # an action asks: by whom, to what?
                    [0.0,  2.0, 0.0, 0.0],     # a thing asks: what happened to it?
                    [3.0, -2.0, 0.0, 0.0]])    # what refers asks for a person, no action
W_K = torch.tensor([[2.0,  0.0, 0.0, 0.0],     # a person is found as a person
                    [0.0,  2.0, 0.0, 0.0],     # an action as an action
                    [0.0,  0.0, 2.0, 0.0],     # a thing as a thing
                    [-2.0, 0.0, 0.0, 0.0]])    # what only refers is not found as a person
W_V = torch.tensor([[4.0,  0.0, 0.0],          # a person gives "person"
                    [0.0,  4.0, 0.0],          # an action gives "action"
                    [0.0,  0.0, 4.0],          # a thing gives "thing"
                    [-4.0, 0.0, 0.0]])         # what only refers gives no person

# %%
Q = x @ W_Q    # (T, d_k)
K = x @ W_K    # (T, d_k)
V = x @ W_V    # (T, d_v)
Q, K, V

# %% [markdown]
# Look at the third row of each, the token *her*. It has two features, *person* and *refers*, so each of its vectors
# is the sum of two rows. The query is $(0,2,0,0) + (3,-2,0,0) = (3,0,0,0)$: it asks for a person. In the key and in
# the value the two rows cancel: *her* is no answer to "which person?", and alone it has nothing to tell.
#
# ## Steps 2 to 4, for one token
#
# **Step 2: scores and scaling.** How well does key $k_j$, the key of token $j$, fit the query $q$? Their dot product
# is large where both have large numbers in the same places. Divided by $\sqrt{d_k}$, here $\sqrt 4 = 2$, it is the
# [score](../book/pages/glossary.md#score); the second half of this lesson says why.
#
# $$s_j = \frac{q \cdot k_j}{\sqrt{d_k}} .$$
#
# For *her* and *Mia* that is $3 \cdot 2 / 2 = 3$. The other keys have a zero where the query has its 3: they score
# $0$.
#
# **Step 3: softmax.** The [softmax](../book/pages/glossary.md#softmax) turns scores into shares: all positive, and
# one in sum. These shares are the [attention weights](../book/pages/glossary.md#attention-weight),
#
# $$w_j = \frac{e^{s_j}}{\sum_{l} e^{s_l}} .$$
#
# **Before you run the next cell, guess:** one key scores 3 and three keys score 0. What share does the first one get?
# (In the comments, S is the number of keys. In self-attention it equals T.)

# %%
q = Q[2]                                          # "her", (d_k,)
scores = K @ q / math.sqrt(4)                     # (S,)
weights = scores.exp() / scores.exp().sum()       # (S,)
claim("her_to_mia", weights[0].item(), at_least=0.8695, at_most=0.8705)
scores, weights

# %% [markdown]
# By hand: $e^3 / (e^3 + 3)$, since $e^0 = 1$. So *her* gives *Mia* a weight of [[her_to_mia:.2f]], and the other
# keys, its own among them, share the rest. No share is exactly zero, since $e^s$ never is.
#
# **Step 4: weighted sum.** The output adds up all values, each multiplied by its weight: $o = \sum_j w_j v_j$.

# %%
weights @ V    # (S,) @ (S, d_v) -> (d_v,)

# %% [markdown]
# Check the first number: only *Mia*'s value $(4,0,0)$ has anything there, so it is *Mia*'s weight multiplied by 4.
# *her* now carries mostly what *Mia* handed over. That is all of attention; now do it for every token.
#
# ## For all tokens: a loop
#
# A loop over the queries, and inside it one over the keys:

# %%
def attention_loop(Q, K, V):
    d_k = Q.shape[-1]
    outputs = []
    for q in Q:                                                      # each query, (d_k,)
        scores = torch.stack([q @ k for k in K]) / math.sqrt(d_k)    # (S,)
        weights = scores.exp() / scores.exp().sum()                  # (S,)
        outputs.append(sum(w * v for w, v in zip(weights, V)))       # (d_v,)
    return torch.stack(outputs)                                      # (T, d_v)


by_loop = attention_loop(Q, K, V)
by_loop

# %% [markdown]
# The third row is the output of *her* that you know.
#
# ## For all tokens: matrices
#
# All dot products of all queries with all keys are one matrix product, $QK^\top$, with a row for each query and a
# column for each key. The softmax runs along the keys, the last axis, so that each *row* sums to one. A product with
# $V$ takes all weighted sums. The steps become the formula of @vaswani2017 (section 3.2.1), [scaled dot-product
# attention](../book/pages/glossary.md#scaled-dot-product-attention):
#
# $$\operatorname{Attention}(Q, K, V) = \operatorname{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V .$$
#
# In the code, `...` stands for further axes in front, such as the sequences of a
# [batch](../book/pages/glossary.md#batch).

# %%
def attention(Q, K, V):
    d_k = Q.shape[-1]
    scores = Q @ K.transpose(-2, -1) / math.sqrt(d_k)    # (..., T, S)
    weights = F.softmax(scores, dim=-1)                  # (..., T, S)
    return weights @ V, weights                          # (..., T, d_v), (..., T, S)


output, weights = attention(Q, K, V)
claim("loop_difference", (output - by_loop).abs().max().item(), at_most=1e-6)

# %% [markdown]
# Loop and matrices differ by about [[loop_difference:.0e]], which is rounding.
#
# The weights show who looks at whom, one row for each query. **Before you look:** the query of *lost* is $(2,0,2,0)$,
# "by whom, to what?". How will its row be divided?

# %%
plots.matrix(weights, rows=tokens, columns=tokens,
             alt="Attention weights of four tokens. The row of her is nearly all on Mia; the "
                 "row of lost is mostly on Mia and keys, in equal parts; Mia and keys look "
                 "mostly at lost.")

# %%
lost_row = dict(zip(tokens, weights[1].tolist()))
claim("lost_row", {name: lost_row[name] for name in ("Mia", "keys")},
      at_least=0.44, at_most=0.441)

# %% [markdown]
# *lost* asks two things at once, and gives *Mia* and *keys* [[lost_row[Mia]:.2f]] each. A row has one whole to share
# out: where two keys fit alike, neither can have more than half. One such attention with its three matrices is called
# a [head](../book/pages/glossary.md#head); in lesson 5 several heads ask several questions.
#
# PyTorch has the function built in. We compare on random numbers in which all sizes differ, so that no wrong
# transpose can hide.

# %%
B, T, S, d_k, d_v = 2, 5, 7, 16, 3
Q, K, V = (torch.randn(B, length, width, generator=generator)
           for length, width in [(T, d_k), (S, d_k), (S, d_v)])
single = attention(Q, K, V)[0] - F.scaled_dot_product_attention(Q, K, V)    # (B, T, d_v)
Q, K, V = Q.double(), K.double(), V.double()
double = attention(Q, K, V)[0] - F.scaled_dot_product_attention(Q, K, V)    # (B, T, d_v)
claim("float32_difference", single.abs().max().item(), at_most=1e-6)
claim("float64_difference", double.abs().max().item(), at_most=1e-12)

# %% [markdown]
# The largest difference is [[float32_difference:.1g]] in single and [[float64_difference:.1g]] in double precision.
# (Another machine may add in another order and differ in the last digit.)
#
# ## The module
#
# The three matrices are to be learnt. `nn.Linear(a, b, bias=False)` holds a matrix that training can change, and
# multiplies by it. This is the complete module:

# %%
class SelfAttention(nn.Module):
    """One head: every token of x attends to every token of x."""

    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_k, bias=False)
        self.w_k = nn.Linear(d_model, d_k, bias=False)
        self.w_v = nn.Linear(d_model, d_v, bias=False)

    def forward(self, x):                                          # (..., T, d_model)
        return attention(self.w_q(x), self.w_k(x), self.w_v(x))    # (..., T, d_v), (..., T, T)


head = SelfAttention(d_model=4, d_k=4, d_v=3)
for linear, W in [(head.w_q, W_Q), (head.w_k, W_K), (head.w_v, W_V)]:
    linear.weight.data = W.T                                       # it stores W transposed
claim("module_difference", (head(x)[0] - by_loop).abs().max().item(), at_most=1e-6)

# %% [markdown]
# Given our matrices, it differs from the loop by about [[module_difference:.0e]]. The course's package holds the
# same module, with masks (lesson 4) and a check of every shape, as `attnlab.attention.SelfAttention`.
#
# ### Does the printed version run?
#
# You will meet this module in many articles. This version has two slips that are common in print. **Find both.**

# %%
printed = """
import torch
from torch import nn

class SelfAttention(nn.Module):
    def __init__(self, d_model, d_k):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(d_model, d_k) for _ in range(3))

    def forward(self, x):
        Q, K, V = self.query(x), self.key(x), self.value(x)    # (B, T, d_model)
        scores = Q @ K.transpose(-2, -1) / math.sqrt(K.shape[-1])
        return scores.softmax(dim=-1) @ V
"""

# %% [markdown]
# Python looks up the names in a method when the method *runs*. So a missing import does not show when the class is
# defined, and in a notebook where another cell imports `math` it never shows. A comment on a shape is checked by
# nobody. One habit finds both: run the text where no other names exist, on an input in which no two sizes are equal.

# %%
B, T, d_model, d_k = 2, 5, 6, 4
alone = {}                                               # holds only the names the text makes
exec(printed, alone)
printed_head = alone["SelfAttention"](d_model, d_k)
try:
    printed_head(torch.zeros(B, T, d_model))
except NameError as error:
    print(error)
projected = printed_head.query(torch.zeros(B, T, d_model))
print("noted: ", (B, T, d_model), " seen: ", tuple(projected.shape))

# %% [markdown]
# `math` is never imported, and the projections are $(B, T, d_k)$. Where $d_k = d_{model}$ the wrong note looks right,
# which is how it survives. Not every printed version has these slips; the check tells.
#
# ## What the root is for
#
# Why not leave the dot products as they are? Because of their size, as you will see in three steps.
#
# ### Scores grow with the width
#
# Let the entries of a query and a key be independent, with [variance](../book/pages/glossary.md#variance) 1 and mean
# zero. Then each term $q_i k_i$ has mean zero and variance $\mathbb{E}[q_i^2]\,\mathbb{E}[k_i^2] = 1$. Variances of
# independent terms add up, so
#
# $$\operatorname{Var}(q \cdot k) = \sum_{i=1}^{d_k} \operatorname{Var}(q_i k_i) = d_k .$$
#
# The typical size of a dot product, its standard deviation, is $\sqrt{d_k}$. Divide by it, and the variance is 1
# again, at any width. A footnote of @vaswani2017 (section 3.2.1) gives this argument. Does it hold? We draw
# $N = 1000$ queries at each of five widths, and $n = 64$ keys for each query.

# %%
def draw_scores(d_k, num_keys=64, num_queries=1000):
    q = torch.randn(num_queries, d_k, generator=generator)              # (N, d_k)
    k = torch.randn(num_queries, num_keys, d_k, generator=generator)    # (N, n, d_k)
    return torch.einsum("nd,nsd->ns", q, k)                             # (N, n), not divided


widths = [4, 16, 64, 256, 1024]
raw = {d_k: draw_scores(d_k) for d_k in widths}
variance = {d_k: s.var().item() for d_k, s in raw.items()}
relative = {d_k: v / d_k for d_k, v in variance.items()}
claim("variance_1024", variance[1024], at_least=970, at_most=1080)
claim("variance_over_width", relative, at_least=0.9, at_most=1.1)

# %% [markdown]
# At $d_k = 1024$ the variance is [[variance_1024:.0f]]. Divided by the width, it is [[variance_over_width[4]:.2f]] at
# 4, [[variance_over_width[64]:.2f]] at 64 and [[variance_over_width[1024]:.2f]] at 1024: the variance is the width.
#
# ### A softmax of scores far apart has no slope
#
# The paper only suspects the next part: large dot products push the softmax to where its
# [gradients](../book/pages/glossary.md#gradient) are tiny. We derive it. With $Z = \sum_l e^{s_l}$ the weights are
# $w_i = e^{s_i}/Z$. Let $\delta_{ij}$ be 1 where $i = j$ and 0 elsewhere. The quotient rule gives the slope of weight
# $i$ along score $j$:
#
# $$\frac{\partial w_i}{\partial s_j} = \frac{\delta_{ij}\, e^{s_i} Z - e^{s_i} e^{s_j}}{Z^2}
# = w_i\,(\delta_{ij} - w_j) .$$
#
# So it is $w_i (1 - w_i)$ for a key's own score, and $-w_i w_j$ for another's. Now let one weight be nearly 1. The
# others are nearly 0, and each of these products has a factor that is nearly 0: *all* slopes are tiny.
#
# First we check the derivation against automatic differentiation, at the scores of *her*, which are still in
# `scores`:

# %%
w = F.softmax(scores, dim=-1)                               # (S,)
by_hand = torch.diag(w) - torch.outer(w, w)                 # w_i (delta_ij - w_j), (S, S)
by_torch = torch.autograd.functional.jacobian(
    lambda s: F.softmax(s, dim=-1), scores)                 # (S, S)
claim("jacobian_difference", (by_hand - by_torch).abs().max().item(), at_most=1e-6)

# %% [markdown]
# They agree to [[jacobian_difference:.0e]]. How small do slopes get? With two keys of weights $w$ and $1 - w$, every
# slope is $w(1-w)$ in size, at most one quarter. The difference of two undivided scores has variance $2 d_k$, so at
# $d_k = 256$ a typical gap is $\sqrt{2 \cdot 256}$, and $\sqrt 2$ once divided. **Guess before you run this:** by
# what factor do the two slopes differ?

# %%
gaps = {"divided": math.sqrt(2), "not divided": math.sqrt(2 * 256)}
slope = {name: math.exp(-gap) / (1 + math.exp(-gap)) ** 2 for name, gap in gaps.items()}
claim("two_keys", slope["divided"], at_least=0.157, at_most=0.158)
claim("two_keys_undivided", slope["not divided"], at_least=1.4e-10, at_most=1.6e-10)

# %% [markdown]
# It is [[two_keys:.2f]] against [[two_keys_undivided:.0e]]. The undivided softmax has
# [saturated](../book/pages/glossary.md#saturation): it has chosen, and hardly any gradient comes through to change
# that.
#
# That was one typical gap. For all scores that we drew, follow two numbers:
#
# - the [entropy](../book/pages/glossary.md#entropy) of a row of weights, $-\sum_j w_j \ln w_j$, divided by $\ln n$,
#   the largest value that it can have with $n$ keys: 1 means spread evenly, 0 means all on one key;
# - the length of the gradient that reaches a query's scores, when each key has a random number as its value; the
#   median over all queries.

# %%
def entropy_share(scores):
    w = F.softmax(scores, dim=-1)                                 # (N, n)
    return torch.special.entr(w).sum(-1).mean().item() / math.log(scores.shape[-1])


def softmax_gradient(scores, dropout_p=0.0):
    leaf = scores.clone().requires_grad_()
    w = F.dropout(F.softmax(leaf, dim=-1), dropout_p)             # (N, n)
    values = torch.randn(scores.shape, generator=generator)       # (N, n), one for each key
    (gradient,) = torch.autograd.grad((w * values).sum(), leaf)   # (N, n)
    return gradient.norm(dim=-1).median().item()

# %%
divided = {d_k: s / math.sqrt(d_k) for d_k, s in raw.items()}
entropy = {"divided by √d_k": [entropy_share(s) for s in divided.values()],
           "not divided": [entropy_share(s) for s in raw.values()]}
gradient = {"divided by √d_k": [softmax_gradient(s) for s in divided.values()],
            "not divided": [softmax_gradient(s) for s in raw.values()]}

entropy_flat = dict(zip(widths, entropy["divided by √d_k"]))
gradient_flat = dict(zip(widths, gradient["divided by √d_k"]))
claim("entropy_flat", entropy_flat, at_least=0.87, at_most=0.91)
claim("entropy_narrow", entropy["not divided"][0], at_least=0.64, at_most=0.71)
claim("entropy_wide", entropy["not divided"][-1], at_most=0.04)
claim("gradient_flat", gradient_flat, at_least=0.14, at_most=0.19)
claim("gradient_narrow", gradient["not divided"][0], at_least=0.18, at_most=0.24)
claim("gradient_wide", gradient["not divided"][-1], at_most=3e-4)

# %% [markdown]
# In both figures, follow the lines from narrow to wide heads. Which stays level?

# %%
roles = {"divided by √d_k": "a", "not divided": "wrong"}
plots.lines(widths, entropy, log="x", roles=roles,
            x="width of query and key, d_k", y="entropy of the weights / ln n",
            alt="Entropy share against d_k from 4 to 1024. Divided by the root it is level "
                "near 0.89; not divided it falls from about 0.67 to 0.03.")

# %%
plots.lines(widths, gradient, log="xy", roles=roles,
            x="width of query and key, d_k", y="median gradient at the scores",
            alt="Median gradient at the scores against d_k, both axes logarithmic. Divided by "
                "the root it is level near 0.16; not divided it is near 0.2 up to 16, then "
                "falls to about one ten-thousandth at 1024.")

# %% [markdown]
# Divided, both stay level: entropy [[entropy_flat[4]:.2f]] at $d_k = 4$ and [[entropy_flat[1024]:.2f]] at 1024,
# gradient [[gradient_flat[4]:.2f]] and [[gradient_flat[1024]:.2f]]. Not divided, entropy falls from
# [[entropy_narrow:.2f]] to [[entropy_wide:.2f]] and the gradient from [[gradient_narrow:.2f]] to
# [[gradient_wide:.0e]]. Narrow heads pass gradients either way; the division matters where heads are wide.
#
# ### Does learning suffer?
#
# It need not: the optimiser [Adam](../book/pages/glossary.md#adam) makes up for gradients that are small throughout.
# So we train. Each example shows eight pairs of a name and a content, each one of 16 symbols, then one of the names:
# answer with its content. [Embeddings](../book/pages/glossary.md#embedding) turn symbols into vectors, one head with
# $d_k = 256$ has to learn which key fits which query, and a matrix `w_o` and a readout turn what it found into an
# answer.

# %%
class Lookup(nn.Module):
    def __init__(self, d_k, scale, dropout_p=0.0, num_symbols=16):
        super().__init__()
        self.scale, self.dropout_p = scale, dropout_p
        self.name = nn.Embedding(num_symbols, d_k)
        self.content = nn.Embedding(num_symbols, d_k)
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_k, d_k, bias=False) for _ in range(4))
        self.readout = nn.Linear(d_k, num_symbols)
        for linear in (self.w_q, self.w_k):
            nn.init.normal_(linear.weight, std=d_k**-0.5)    # keeps the variance of its input

    def forward(self, keys, values, queries):
        pairs = self.name(keys) + self.content(values)                       # (B, S, d_k)
        Q = self.w_q(self.name(queries))[:, None]                            # (B, 1, d_k)
        K, V = self.w_k(pairs), self.w_v(pairs)                              # (B, S, d_k)
        weights = F.softmax(self.scale * Q @ K.transpose(-2, -1), dim=-1)    # (B, 1, S)
        weights = F.dropout(weights, self.dropout_p, self.training)          # (B, 1, S)
        return self.readout(self.w_o((weights @ V)[:, 0]))                   # (B, num_symbols)

# %% [markdown]
# All runs start from the same [parameters](../book/pages/glossary.md#parameter), see the same examples, and end with
# a test on fresh ones.

# %%
# Numbers below 1e-38 count as 0. They change nothing here, but slow many CPUs down.
torch.set_flush_denormal(True)


def train(scale, dropout_p=0.0, clip=None, lr=2e-3, steps=200):
    torch.manual_seed(seed(1))                             # the same parameters for every run
    data = torch.Generator().manual_seed(seed(2))          # and the same examples
    model = Lookup(256, scale, dropout_p)
    batches = (tasks.pair_lookup(64, 8, data) for _ in itertools.count())
    history = training.fit(model, batches, steps=steps, lr=lr, clip=clip)
    inputs, answers = tasks.pair_lookup(2000, 8, data)     # fresh examples
    with torch.no_grad():                                  # eval() switches dropout off
        return history, F.cross_entropy(model.eval()(*inputs), answers).item()


runs = {"divided by √d_k": train(1 / math.sqrt(256)), "not divided": train(1.0)}

# %% [markdown]
# The figure shows the [loss](../book/pages/glossary.md#loss), a mean over each ten steps. When does each line leave
# that of a guess, $\ln 16$?

# %%
def tens(run):
    return torch.tensor(run[0].losses).view(-1, 10).mean(dim=1)    # (steps / 10,)


losses = {name: tens(run) for name, run in runs.items()}
claim("loss_at_40", losses["divided by √d_k"][3].item(), at_most=0.05)    # steps 31 to 40
claim("undivided_at_40", losses["not divided"][3].item(), at_least=1.5)
claim("undivided_at_200", losses["not divided"][-1].item(), at_least=0.5)
plots.lines(range(10, 201, 10), losses, roles=roles, marks=False,
            x="training steps", y="loss (nats)", guides={"guessing": math.log(16)},
            alt="Training loss over 200 steps. Divided by the root, it falls to nearly zero "
                "within 40 steps. Not divided, it starts near guessing and is still far from "
                "zero after 200.")

# %% [markdown]
# Just before step 40 the divided model has a loss of [[loss_at_40:.1g]]; the other has [[undivided_at_40:.1f]] there,
# and still [[undivided_at_200:.2f]] at the end.
#
# ## "Dropout and clipping cure it"
#
# So one often reads of the softmax's vanishing gradient. *Dropout* sets random attention weights to zero in training.
# *Clipping* shortens a gradient that is longer than a bound. We leave the division out and try each, both, and a
# smaller [learning rate](../book/pages/glossary.md#learning-rate). **Which runs do you expect to learn?** Look for
# low bars.

# %%
runs |= {"with dropout": train(1.0, dropout_p=0.1),
         "with clipping": train(1.0, clip=1.0),
         "with both": train(1.0, dropout_p=0.1, clip=1.0),
         "smaller steps": train(1.0, lr=5e-4)}
end = {name: loss for name, (_, loss) in runs.items()}
cures = ["not divided", "with dropout", "with clipping", "with both"]
claim("no_cure", {name: end[name] for name in cures}, at_least=0.3)
clipping_gain = end["not divided"] - end["with clipping"]
claim("clipping_gain", clipping_gain, at_least=0.1, at_most=0.7)
claim("divided_end", end["divided by √d_k"], at_most=0.01)
claim("smaller_steps", end["smaller steps"], at_most=0.1)
claim("smaller_steps_at_40", tens(runs["smaller steps"])[3].item(), at_least=0.5)
plots.bars(end, y="loss on fresh examples after 200 steps (nats)", roles=roles,
           alt="Loss on fresh examples after 200 steps. Two models are near zero: the one "
               "whose scores are divided, and the one with smaller steps. Without the "
               "division the loss stays high, and so it does with dropout, clipping and both.")

# %% [markdown]
# The divided model ends at [[divided_end:.1g]]. Not divided, the loss is [[no_cure[not divided]:.2f]] without a
# remedy, [[no_cure[with dropout]:.2f]] with dropout, [[no_cure[with clipping]:.2f]] with clipping and
# [[no_cure[with both]:.2f]] with both. Over [[clipping_gain:seeds]] seeds, clipping alone lowered it by
# [[clipping_gain:range:.2f]]; whether dropout helps depends on the seed. None comes near the division.
#
# With smaller steps the undivided model does get there, [[smaller_steps:.1g]] at the end. Leaving the division out
# makes learning slow and touchy, not impossible: just before step 40 that run still stood at
# [[smaller_steps_at_40:.1f]]. So what does each means do?

# %%
wide = raw[256]
claim("gradient_divided", softmax_gradient(divided[256]), at_least=0.14)
claim("gradient_undivided", softmax_gradient(wide), at_least=0.005, at_most=0.025)
claim("gradient_dropout", softmax_gradient(wide, dropout_p=0.1), at_least=0.005, at_most=0.025)
norms = torch.tensor(runs["with clipping"][0].gradient_norms)    # before clipping, (steps,)
claim("longest_gradient", norms.max().item(), at_least=12)
claim("share_clipped", (norms > 1).float().mean().item(), at_least=0.9)

# %% [markdown]
# - **Scaling** prevents saturation: at $d_k = 256$ the gradient at the scores is [[gradient_divided:.2f]] instead of
#   [[gradient_undivided:.3f]].
# - **Dropout** leaves that gradient at [[gradient_dropout:.3f]]: it cannot bring back a slope that is not there. It
#   is there to *regularise* [@srivastava2014]: to keep a model from leaning on any one unit; here, on any one token.
# - **Clipping** bounds the length of a gradient [@pascanu2013, section 3.2], and so how far one unusual batch can
#   pull. The longest here, over all parameters, had length [[longest_gradient:.0f]], and [[share_clipped:.0%]] were
#   shortened to 1. Clipping makes none longer.
#
# How can that gradient be long where slopes vanish? The softmax of the median query has chosen. That of a few queries
# has not, and their slopes are not small. On the way from scores to $q$ and $k$, the division would have made gradients
# smaller by $\sqrt{d_k}$; left out, it does not.
#
# :::{admonition} The common confusion: $\sqrt{d_{model}}$ or $\sqrt{d_{head}}$?
# :class: caution
# With $h$ heads, each usually has $d_k = d_{head} = d_{model} / h$ dimensions. A score sums over that many terms, so
# the root is of that number. $\sqrt{d_{model}}$ makes all scores smaller, by a factor of $\sqrt h$, and all weights
# more even. No error is raised, so nobody looks. A pair of keys tells the two roots apart.
# :::

# %%
d_model, h = 64, 4
d_head = d_model // h
q = torch.ones(d_head)                                         # (d_head,)
k = torch.stack([torch.ones(d_head), torch.zeros(d_head)])     # (2, d_head): only one fits
v = torch.eye(2)                                               # (2, 2): output = weights
right = F.scaled_dot_product_attention(q[None], k, v)[0, 0]
slip = F.softmax(k @ q / math.sqrt(d_model), dim=-1)[0]
claim("weight_by_head", right.item(), at_least=0.9819, at_most=0.9821)
claim("weight_by_model", slip.item(), at_least=0.8807, at_most=0.8809)

# %% [markdown]
# PyTorch, which takes the root of $d_{head}$, gives the fitting key [[weight_by_head:.4f]]; the slip gives it
# [[weight_by_model:.4f]]. Try such a pair on implementations that you meet.
#
# ## See it move
#
# Random queries and keys, 64 wide. Three maps use 4, 16 and all 64 dimensions undivided; the last divides. Compare
# the largest weights of the rows.

# %%
query, key = torch.randn(2, len(tokens), 64, generator=generator)   # (T, d_k) each
maps = [F.softmax(query[:, :d] @ key[:, :d].T, dim=-1) for d in (4, 16, 64)]
maps.append(attention(query, key, key)[1])                          # (T, T) each
claim("largest_undivided", maps[2].amax(dim=-1).mean().item(), at_least=0.7)
claim("largest_divided", maps[3].amax(dim=-1).mean().item(), at_most=0.65)
plots.small_multiples(maps, titles=["d_k = 4", "d_k = 16", "d_k = 64", "64, divided"],
                      rows=tokens, columns=tokens,
                      alt="Four maps of attention weights. Not divided, some rows of 4 "
                          "dimensions are mixed, those of 16 and 64 are nearly all on one "
                          "key; divided by 8, the rows of 64 dimensions are spread again.")

# %% [markdown]
# At 64 dimensions the largest weight of a row is [[largest_undivided:.2f]] on average, and [[largest_divided:.2f]]
# when divided. Below, change the width, the division, the [mask](../book/pages/glossary.md#mask) (which keys a query
# may see) and the [temperature](../book/pages/glossary.md#temperature), a further number that divides the scores.
# **Guess, then try:** at 16 dimensions, which temperature makes up for a missing division?

# %%
AttentionExplorer(tokens, query, key)

# %% [markdown]
# It is $\sqrt{16} = 4$, the last stop of the slider: the temperature and the root divide the same scores. All 64
# dimensions would need $\sqrt{64} = 8$.
#
# ## What attention cannot see
#
# The formula does not say *where* a token stands. Shuffle the tokens, and each should get the output that it had,
# only in the new place. This is [permutation equivariance](../book/pages/glossary.md#permutation-equivariance). The
# course writes such properties as [contracts](../book/pages/glossary.md#contract): functions that try an attention
# and raise an error where the property fails.

# %%
order = [3, 1, 2, 0]                                         # "keys lost her Mia"
shuffled, before = head(x[order])[0], head(x)[0]             # (T, d_v) each
claim("shuffle_difference", (shuffled - before[order]).abs().max().item(), at_most=1e-6)
contracts.permutation_equivariant(lambda x: head(x)[0], x)   # silent: the property holds

# %% [markdown]
# *keys lost her Mia* gives each token the same output; the largest difference is [[shuffle_difference:.1g]]. A
# contract is worth something only if it can fail. So we add to each token its place:

# %%
place = torch.arange(4.0)[:, None]                           # (T, 1)
try:
    contracts.permutation_equivariant(lambda x: head(x + place)[0], x)
except AssertionError as error:
    print(str(error).split(":")[0])

# %% [markdown]
# Now order counts. How to add it well is the question of lesson 6.
#
# ## What this lesson did not show
#
# The variance argument holds for independent entries of variance 1: roughly a network at its start, not at its end.
# In training, entries grow and correlate, and a head may saturate because that helps. The runs are one task, one
# width and one optimiser. Over [[loss_at_40:seeds]] seeds the undivided loss at step 200 was
# [[undivided_at_200:range:.2f]]: how far it gets is chance, but each was far behind. And weights that you can picture
# do not yet explain what a model does (lesson 16).
#
# ## Takeaways
#
# - A query asks, a key is what a token is found by, a value is what it hands over. One output is a weighted sum of
#   values.
# - Projection, scores and scaling, softmax, weighted sum: as a loop, a formula or a module, the four steps give the
#   same to rounding, and the same as PyTorch.
# - A dot product of $d_k$ terms has variance $d_k$, and the softmax's slopes vanish when one weight takes all.
#   Dividing by $\sqrt{d_k}$ keeps scores at variance 1, whatever the width.
# - Scaling prevents saturation, dropout regularises, clipping bounds a gradient. None replaces another.

# %% [markdown]
# ## Quiz
#
# 1. Two tokens have the same key and different values. A query attends to both. What is sure?
#
#    - [ ] The query gives more weight to the one whose value fits it better. :: A value is never compared with
#      anything. Scores come from the query and the keys alone; the value is only what is handed over.
#    - [ ] The output is the same as if both had the first one's value. :: Each value enters the sum with its own
#      weight. Change one of the two, and the output changes.
#    - [x] Both get the same weight, and both values enter the output. :: Equal keys have equal dot products with the
#      query, hence equal scores and equal [attention weights](../book/pages/glossary.md#attention-weight). So it was
#      with *Mia* and *keys*, each of which fitted the query of *lost* as well as the other.
#
# 2. Somebody writes the softmax with another axis. `scores` has the shape $(B, T, S)$.
#
#    ```python
#    weights = F.softmax(scores, dim=-2)
#    output = weights @ V
#    ```
#
#    What happens?
#
#    - [x] It runs, and each key shares one whole among the queries. :: Axis -2 counts the queries, so now the columns
#      sum to one, and a row may sum to anything. No shape changes, so nothing complains.
#    - [ ] PyTorch raises an error, since the shapes no longer fit. :: A softmax keeps the shape of what it gets. The
#      product with $V$ works exactly as before, which is why the slip survives.
#    - [ ] Nothing, as long as $T = S$. :: Equal lengths hide a wrong *transpose*. Here rows and columns are still
#      different things: the columns sum to one, and the rows do not.
#    - [ ] The rows still sum to one, and only their order changes. :: Each entry is divided by another sum, that of its
#      column. The numbers change, not only their places.
#
# 3. A token is $d_{model} = 512$ numbers wide, and a head projects it to $d_k = 64$. By what does the head divide its dot
#    products, and why?
#
#    - [ ] by $\sqrt{512}$, since that is the width of the model :: The dot product never sees the model's width: it is
#      a sum of $d_k$ products. Divided by too much, the scores have a variance below 1, and the weights are too even.
#    - [ ] by 64, since the dot product sums 64 terms :: 64 is the *variance*. Divide by $c$, and the variance is divided by
#      $c^2$: dividing by 64 would leave a variance of one 64th.
#    - [x] by 8, since that makes the variance 1 again :: The sum of 64 independent products has the variance 64. Its
#      root, the standard deviation, is 8.
#    - [ ] by the length of the longest key, so that no score is above 1 :: That would be another method. The root of $d_k$
#      is fixed before any data is seen, and a single score may well be large.
#
# 4. A wide head without the division hardly learns. Which of these helps, and why?
#
#    - [ ] gradient clipping, since it keeps gradients at a useful length :: Clipping shortens gradients that are too
#      long. It never lengthens one, and here they are too *short*.
#    - [x] dividing the scores, since the slopes $w_i(\delta_{ij} - w_j)$ are then not all near zero :: A softmax with one
#      weight near 1 has only tiny slopes. Scores of variance 1 keep it away from there, whatever the width.
#    - [ ] dropout on the weights, since it makes the head use other keys :: Dropped weights are zero after the softmax. The
#      slopes *of* the softmax are what they were, and the ones that were tiny stay tiny.
#
# 5. You feed the tokens of a sentence to a self-attention module in another order, without telling it the places. What comes
#    out?
#
#    - [ ] the same list of outputs, since attention sees a set :: Nearly. The *set* of outputs is the same, but each output
#      moves with its token: the list is reordered, too.
#    - [x] the old outputs, reordered like the tokens :: That is [permutation
#      equivariance](../book/pages/glossary.md#permutation-equivariance). Each token asks the same question of the same
#      keys, wherever it stands.
#    - [ ] other outputs, since each token now has other neighbours :: Attention knows no neighbours. Each query is compared
#      with *all* keys, and no score depends on a distance.

# %% [markdown]
# ## Where to go from here
#
# **Now you:** in [the exercises](../exercises/03_query_key_value.ipynb) you write the function and the module, and
# find a wrong scale from its curve. **Next:** in lesson 4, masks decide who may look at whom.
#
# **Papers.** @vaswani2017 (section 3.2.1) has the formula and the argument for the root. @luong2015 compares ways to
# compute a score, the dot product among them. @graves2014 looks things up by content, with weights that sum to one.
