# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Long sequences
#
# **What does $n^2$ cost, and what can be done?**
#
# Attention compares every token with every token. For $n$ tokens that is $n^2$ scores: a page of text makes a million, a
# book makes ten thousand million. You will see which part of this cost is needed and which is not.
#
# **You will be able to**
#
# - say to the byte what attention with a matrix of weights takes, and count it;
# - derive the online softmax, and write attention in tiles with it, forward and backward;
# - say what a sliding window and linear attention compute instead, and what each gives up;
# - put operations and bytes on paper, and compare them with a measurement;
# - choose among five kinds of attention for a given length.
#
# **Before you start** you should know lesson 3, the causal [mask](../book/pages/glossary.md#mask) of lesson 4, and the
# chain rule.
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run, and about half a minute more for the processes that it
# starts.

# %%
import inspect
import json
import math
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attnlab import claim, efficient, plots, seed, tasks, training
from attnlab.memory import MIB, counted_peak, resident_growth
from attnlab.widgets import TileWalk

torch.set_num_threads(1)
generator = torch.Generator().manual_seed(seed(0))

# %% [markdown]
# ## What $n^2$ takes
#
# Take one [head](../book/pages/glossary.md#head) with $T$ [queries](../book/pages/glossary.md#query), as many
# [keys](../book/pages/glossary.md#key), and a width $D = d_k = d_v$. This is attention as lesson 3 writes it; we call it
# *explicit*, since the scores and the weights both exist as matrices.

# %%
def scaled_scores(Q, K):
    return (Q / math.sqrt(Q.shape[-1])) @ K.transpose(-2, -1)    # (..., T, S)


def explicit(Q, K, V):
    scores = scaled_scores(Q, K)                                 # (..., T, S)
    weights = F.softmax(scores, dim=-1)                          # (..., T, S)
    return weights @ V                                           # (..., T, d_v)


# %% [markdown]
# A number in single precision takes four bytes. At the end of the function scores, weights and output are all held:
#
# $$4 \cdot (T^2 + T^2 + T D) = 8 T^2 + 4 T D \text{ bytes.}$$
#
# To check it we count. PyTorch lets a program watch each operator at work. `counted_peak` adds up the bytes of every tensor
# that an operator makes, takes them off when the tensor is let go, and returns the most that were held at once. The count
# is exact, and the same on every machine.

# %%
D = 64


def inputs(T, *leading, dtype=torch.float32):
    return torch.randn(3, *leading, T, D, generator=generator, dtype=dtype)    # Q, K, V


def bytes_of(function, *arguments):
    return counted_peak(lambda: function(*arguments))


counted = {T: bytes_of(explicit, *inputs(T)) for T in (512, 1024, 2048)}
off = {T: abs(count - (8 * T**2 + 4 * T * D)) for T, count in counted.items()}
claim("bytes_off", max(off.values()), equals=0)
claim("explicit_mib", {T: count / MIB for T, count in counted.items()}, at_least=2, at_most=33)

# %% [markdown]
# Paper and count differ by [[bytes_off:.0f]] bytes. Twice the length, [[=four times]] the memory: [[explicit_mib[512]:.1f]],
# [[explicit_mib[1024]:.1f]] and [[explicit_mib[2048]:.1f]] MiB. A model has many heads and layers, and training keeps the
# weights of all of them.
#
# ## A softmax that never sees its whole row
#
# The output has only $T D$ numbers. Must the matrices exist? One query's output needs one row of scores, so rows can be
# worked out one after the other. But a row too can be long, and the [softmax](../book/pages/glossary.md#softmax) seems to
# need all of it: the sum below the fraction line, and for safety the largest score. $e^{89}$ is already too large for
# single precision, so every implementation subtracts the maximum $m$ first, which changes nothing:
#
# $$\frac{e^{s_j}}{\sum_i e^{s_i}} = \frac{e^{s_j - m}}{\sum_i e^{s_i - m}} .$$
#
# Let the scores come in pieces, called *tiles*. By hand, with $(1, 3)$ first: the maximum is $m = 3$ and the sum $\ell =
# e^{-2} + e^0$. Then $(5, 2)$ comes, and the maximum is now $m' = 5$. Every term of the old sum was $e^{s-3}$ and should be
# $e^{s-5}$. That is a common factor, $e^{3-5}$. So the old sum can be corrected without the old scores:
#
# $$m' = \max(m, \max_j s_j), \qquad \ell' = e^{m - m'} \ell + \sum_j e^{s_j - m'} .$$
#
# This is the [online softmax](../book/pages/glossary.md#online-softmax) [@milakov2018, section 3]. In the beginning $m =
# -\infty$ and $\ell = 0$. As a loop over the tiles of one row:

# %%
def online_sum(tiles):
    m, ell = -math.inf, 0.0
    for tile in tiles:
        m_new = max(m, *tile)
        ell = math.exp(m - m_new) * ell + sum(math.exp(s - m_new) for s in tile)
        m = m_new
    return m, ell


m, ell = online_sum([(1.0, 3.0), (5.0, 2.0)])
by_hand = math.exp(-4) + math.exp(-2) + 1 + math.exp(-3)
claim("online_sum_off", abs(ell - by_hand), at_most=1e-12)
claim("running_sum", ell, at_least=1.203, at_most=1.204)

# %% [markdown]
# $\ell$ = [[running_sum:.3f]]. In one go, the sum $e^{1-5} + e^{3-5} + e^{5-5} + e^{2-5}$ differs from it by
# [[online_sum_off:.1g]]. The output works the same way. Keep a
# running output $a$, the sum of the [values](../book/pages/glossary.md#value) with weights that are not yet divided, and
# correct it by the same factor [@rabe2021, section 2; @dao2022, section 3.1]:
#
# $$a' = e^{m - m'} a + \sum_j e^{s_j - m'} v_j, \qquad o = a / \ell .$$
#
# Two numbers and one vector for each query are all that is carried from tile to tile. For many queries at once, in matrices:

# %%
def add_tile(m, ell, a, scores, V):
    """Take one tile into the running maximum, sum (..., T, 1) and output (..., T, d_v)."""
    m_new = torch.maximum(m, scores.amax(dim=-1, keepdim=True))      # (..., T, 1)
    correction = (m - m_new).exp()                                   # (..., T, 1)
    terms = (scores - m_new).exp()                                   # (..., T, tile)
    ell = correction * ell + terms.sum(dim=-1, keepdim=True)         # (..., T, 1)
    return m_new, ell, correction * a + terms @ V                    # (..., T, d_v)


# %% [markdown]
# **Before you run the next cell:** its row has the largest score in the third of four tiles. What will the running sum do
# there?

# %%
row = torch.tensor([1.0, 0.0, 2.0, 1.0, 4.0, 0.0, 1.0, 2.0])         # (S,) scores
values = torch.tensor([[1.0], [0.0], [3.0], [1.0], [2.0], [0.0], [1.0], [3.0]])    # (S, 1)
state = (torch.tensor([[-math.inf]]), torch.zeros(1, 1), torch.zeros(1, 1))
walk = []
for tile in range(0, 8, 2):
    state = add_tile(*state, row[None, tile:tile + 2], values[tile:tile + 2])
    m, ell, a = (number.item() for number in state)
    walk.append({"running maximum": m, "running sum": ell, "output so far": a / ell})
whole = (row.softmax(dim=-1) @ values).item()
claim("walk_off", abs(walk[-1]["output so far"] - whole), at_most=1e-6)
claim("sum_drops", walk[1]["running sum"] - walk[2]["running sum"], at_least=0.5, at_most=0.7)

# %% [markdown]
# ## One row, tile by tile
#
# The figure shows the two running numbers and the output so far, $a / \ell$, after each tile. Look at the third tile.

# %%
plots.lines([2, 4, 6, 8], {name: [step[name] for step in walk] for name in walk[0]},
            x="keys seen", y="number carried", guides={"softmax of the whole row": whole},
            roles=dict(zip(walk[0], ["f", "weight", "value"])),
            alt="Three running numbers after two, four, six and eight keys. The maximum rises "
                "to 4 at the third tile. The running sum rises, falls at the third tile, and "
                "rises again. The output so far ends on the line of the whole row's softmax.")

# %% [markdown]
# At the third tile a score of 4 arrives. All terms so far shrink by $e^{2-4}$, and the sum *falls* by [[sum_drops:.2f]]. The
# output so far is, after each tile, the right output for the keys seen. At the end it differs from the softmax of the
# whole row by [[walk_off:.0e]].
#
# ## Attention in tiles: forward
#
# Now cut the queries into pieces as well. A tile is a rectangle of the score matrix, $c_q$ queries by $c_k$ keys; only one
# exists at a time. This is [chunked attention](../book/pages/glossary.md#chunked-attention).

# %%
def chunked_forward(Q, K, V, c_q=256, c_k=512):
    """Output (..., T, d_v), and maximum and sum of every row of scores, (..., T, 1)."""
    finished = []
    for q in Q.split(c_q, dim=-2):                                   # (..., c_q, d_k)
        m = torch.full_like(q[..., :1], -math.inf)                   # (..., c_q, 1)
        ell = torch.zeros_like(m)                                    # (..., c_q, 1)
        a = q.new_zeros(*q.shape[:-1], V.shape[-1])                  # (..., c_q, d_v)
        for k, v in zip(K.split(c_k, dim=-2), V.split(c_k, dim=-2)):
            m, ell, a = add_tile(m, ell, a, scaled_scores(q, k), v)
        finished.append((a / ell, m, ell))
    return [torch.cat(parts, dim=-2) for parts in zip(*finished)]


Q, K, V = inputs(700, 2, 3, dtype=torch.float64)                     # (B, H, T, D) each
output, m, ell = chunked_forward(Q, K, V)
claim("chunked_double", (output - explicit(Q, K, V)).abs().max().item(), at_most=1e-12)

# %% [markdown]
# 700 is no multiple of 256 or 512, so some tiles are smaller. In double precision the output differs from the explicit one
# by at most [[chunked_double:.0e]]. Nothing is approximated: it is the same sum in another order.
#
# ## Attention in tiles: backward
#
# Training needs the gradients. Let $G$ be the [gradient](../book/pages/glossary.md#gradient) that arrives at the output $O =
# W V$, with the weights $W = \operatorname{softmax}(Z)$ and the scores $Z = QK^\top / \sqrt{d_k}$. Write $\partial / \partial V$ for the loss's
# gradient with respect to $V$, and so for the others. The two products give
#
# $$\frac{\partial}{\partial V} = W^\top G, \qquad \frac{\partial}{\partial W} = G V^\top =: A .$$
#
# Lesson 3 found the softmax's slopes, $\partial w_i / \partial z_j = w_i (\delta_{ij} - w_j)$. For one row with $A$'s
# entries $\alpha_i$,
#
# $$\frac{\partial}{\partial z_j} = \sum_i \alpha_i w_i (\delta_{ij} - w_j) = w_j \Big(\alpha_j - \sum_i w_i \alpha_i\Big) .$$
#
# The sum over $i$ needs the whole row, which is just what a tile does not have. But write out $\alpha_i = g \cdot v_i$, where
# $g$ is the row of $G$:
#
# $$\sum_i w_i \alpha_i = \sum_i w_i \, (g \cdot v_i) = g \cdot \sum_i w_i v_i = g \cdot o .$$
#
# It is one [dot product](../book/pages/glossary.md#dot-product) with the output, which we have [@dao2022, appendix B]. And a
# tile of weights can be worked out again from $Q$, $K$ and the two numbers of each row: $e^{z_j - m} / \ell$. So the forward
# pass keeps those, and lets every tile go.

# %%
def chunked_backward(G, Q, K, V, output, m, ell, c_q=256, c_k=512):
    """Gradients of Q, K and V, given G, the gradient of the output."""
    root = math.sqrt(Q.shape[-1])
    dQ, dK, dV = (torch.zeros_like(x) for x in (Q, K, V))
    mean = (G * output).sum(dim=-1, keepdim=True)                         # (..., T, 1)
    by_query = zip(*(x.split(c_q, dim=-2) for x in (Q, G, m, ell, mean, dQ)))
    for q, g, m_row, ell_row, mean_row, dq in by_query:
        by_key = zip(*(x.split(c_k, dim=-2) for x in (K, V, dK, dV)))
        for k, v, dk, dv in by_key:
            w = (scaled_scores(q, k) - m_row).exp() / ell_row          # (..., c_q, c_k)
            dz = w * (g @ v.transpose(-2, -1) - mean_row) / root     # (..., c_q, c_k)
            dv += w.transpose(-2, -1) @ g
            dq += dz @ k
            dk += dz.transpose(-2, -1) @ q
    return dQ, dK, dV


# %% [markdown]
# `split` gives views, so adding to a piece adds to the whole. The two passes become one differentiable function:

# %%
class ChunkedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, Q, K, V):
        output, m, ell = chunked_forward(Q, K, V)
        ctx.save_for_backward(Q, K, V, output, m, ell)
        return output

    @staticmethod
    def backward(ctx, G):
        return chunked_backward(G, *ctx.saved_tensors)


def chunked(Q, K, V):
    return ChunkedAttention.apply(Q, K, V)


def gradients(attend, tensors, G):
    leaves = [x.clone().requires_grad_() for x in tensors]
    return torch.autograd.grad((attend(*leaves) * G).sum(), leaves)


G = inputs(700, 2, 3, dtype=torch.float64)[0]                        # (B, H, T, D)
pairs = zip(gradients(chunked, (Q, K, V), G), gradients(explicit, (Q, K, V), G))
claim("gradient_off", max((a - b).abs().max().item() for a, b in pairs), at_most=1e-12)

# %% [markdown]
# All three gradients agree with those that PyTorch finds for the explicit version, to [[gradient_off:.0e]]. The course's
# package holds this with masks as `attnlab.efficient.chunked_attention`.
#
# :::{admonition} The common confusion: "working in chunks is enough"
# :class: caution
# A loop over tiles saves memory in inference. In training, PyTorch keeps whatever the backward pass will want, and that is
# every tile of the loop. The saving in training comes from the *backward pass of our own*, which works tiles out again.
# :::

# %%
Q, K, V = inputs(4096)
versions = {"explicit": explicit, "chunked": chunked,
            "loop alone": lambda Q, K, V: chunked_forward(Q, K, V)[0]}
trained, operations = {}, {}
for name, attend in versions.items():
    trained[name] = bytes_of(gradients, attend, (Q, K, V), 1.0) / MIB
    with FlopCounterMode(display=False) as flops:
        gradients(attend, (Q, K, V), 1.0)
    operations[name] = flops.get_total_flops()
claim("trained_explicit", trained["explicit"], at_least=190, at_most=210)
claim("trained_loop", trained["loop alone"], at_least=120, at_most=160)
claim("trained_chunked", trained["chunked"], at_most=12)
claim("extra_work", operations["chunked"] / operations["explicit"],
      at_least=1.16, at_most=1.17)

# %% [markdown]
# Forward and backward at $T = 4096$ take [[trained_explicit:.0f]] MiB explicitly, [[trained_loop:.0f]] with the loop alone,
# and [[trained_chunked:.1f]] with our own backward pass. The price is one more product for each tile, seven where the explicit
# version has six: [[extra_work:.2f]] times the work.
#
# ## A sliding window
#
# Chunking saves memory. All $T^2$ products are still made. To make fewer, leave some out: in a [sliding
# window](../book/pages/glossary.md#sliding-window) of $r$ keys, a query sees its own position and the $r - 1$ before it
# [@beltagy2020, section 3.1, in causal form]. For a piece of $c$ queries only $c + r - 1$ keys can matter.

# %%
def windowed(Q, K, V, window=128, c=128):
    outputs = []
    for start in range(0, Q.shape[-2], c):
        q = Q[..., start:start + c, :]                               # (..., c, d_k)
        stop = start + q.shape[-2]
        first = max(0, start - window + 1)
        i, j = torch.arange(start, stop)[:, None], torch.arange(first, stop)
        seen = (j <= i) & (j > i - window)                           # (c, keys)
        scores = scaled_scores(q, K[..., first:stop, :])             # (..., c, keys)
        weights = scores.masked_fill(~seen, -math.inf).softmax(dim=-1)
        outputs.append(weights @ V[..., first:stop, :])              # (..., c, d_v)
    return torch.cat(outputs, dim=-2)                                # (..., T, d_v)


# %% [markdown]
# What is given up is plain: one layer sees nothing further back than $r - 1$. But layers stack. The token that you see has
# itself seen $r - 1$ further back. So how far does a change of the first token travel through three layers with $r = 5$?

# %%
x = 0.3 * inputs(32, dtype=torch.float64)[0]                         # (T, D)
changed = torch.cat([x[:1] + 1, x[1:]])                              # another first token
for _ in range(3):
    x, changed = (windowed(y, y, y, window=5, c=8) for y in (x, changed))
moved = (x - changed).abs().amax(dim=-1) > 0                         # (T,)
claim("reach", moved.nonzero().max().item(), equals=12)

# %% [markdown]
# To position [[reach:.0f]], which is $3 \cdot (5 - 1)$, and no further: $L$ layers reach $L (r - 1)$ back.
#
# ## Linear attention
#
# Another way to make fewer products is another formula. The weight of a key is $e^{q \cdot k / \sqrt{d_k}}$, divided by the
# row's sum. Replace the exponential by a product of *features*, $\phi(q) \cdot \phi(k)$, where $\phi$ gives $d_k$ positive
# numbers; @katharopoulos2020 (section 3.2) take $\phi(x) = \operatorname{elu}(x) + 1$. Then $q$ can be taken out of the sums:
#
# $$o = \frac{\sum_j \phi(q) \cdot \phi(k_j)\, v_j}{\sum_j \phi(q) \cdot \phi(k_j)}
# = \frac{\phi(q)^\top \big[\sum_j \phi(k_j) v_j^\top\big]}{\phi(q)^\top \big[\sum_j \phi(k_j)\big]} .$$
#
# The brackets hold no query. They are made once, for all queries: this is [linear
# attention](../book/pages/glossary.md#linear-attention).

# %%
def phi(x):
    return F.elu(x) + 1                                              # positive


def linear(Q, K, V):
    q, k = phi(Q), phi(K)                                            # (..., T or S, d_k)
    state = k.transpose(-2, -1) @ V                                  # (..., d_k, d_v)
    total = q @ k.sum(dim=-2)[..., None]                             # (..., T, 1)
    return (q @ state) / total                                       # (..., T, d_v)


# %% [markdown]
# If each token may see only earlier ones, the state can be added up token by token. Then it is a [recurrent
# network](../book/pages/glossary.md#recurrent-network), whose state has $d_k (d_v + 1)$ numbers however long the text is
# [@katharopoulos2020, section 3.4].

# %%
def linear_by_token(Q, K, V):
    state, total, outputs = torch.zeros(D, D), torch.zeros(D), []
    for q, k, v in zip(phi(Q), phi(K), V):                           # (D,) each
        state, total = state + torch.outer(k, v), total + k          # (d_k, d_v), (d_k,)
        outputs.append(q @ state / (q @ total))                      # (d_v,)
    return torch.stack(outputs)                                      # (T, d_v)


Q, K, V = inputs(200)
by_token = linear_by_token(Q, K, V)
claim("state_off", (by_token - efficient.causal_linear_attention(Q, K, V)).abs().max().item(),
      at_most=1e-5)

# %% [markdown]
# It differs from the library's causal version, which works in blocks, by [[state_off:.0e]].
#
# ## Which of the five are exact?
#
# The fifth is PyTorch's own function, a [fused kernel](../book/pages/glossary.md#fused-kernel): one compiled routine that walks
# the tiles as you did. We compare single precision with double. Each is held against its *own* definition, and against
# ordinary attention. The error is the largest difference, as a share of the largest
# entry of $V$, which no output can exceed.

# %%
def fused(Q, K, V):
    return F.scaled_dot_product_attention(Q, K, V)


five = {f.__name__: f for f in (explicit, chunked, windowed, linear, fused)}
T = 2048
Q, K, V = inputs(T, 1, 1)
exact = tuple(x.double() for x in (Q, K, V))
ordinary = explicit(*exact)
in_window = efficient.sliding_window_mask(T, window=128)
features = phi(exact[0]) @ phi(exact[1]).transpose(-2, -1)           # (1, 1, T, T)
own = {"windowed": F.scaled_dot_product_attention(*exact, attn_mask=in_window),
       "linear": features / features.sum(dim=-1, keepdim=True) @ exact[2]}
outputs = {name: f(Q, K, V) for name, f in five.items()}


def error(output, wanted, V):
    return ((output - wanted).abs().max() / V.abs().max()).item()


claim("own_error", {name: error(output, own.get(name, ordinary), V)
                    for name, output in outputs.items()}, at_most=1e-6)
claim("other_function", {name: error(outputs[name], ordinary, V) for name in own},
      at_least=0.02)

# %% [markdown]
# Against its own definition each is right to rounding: explicit [[own_error[explicit]:.0e]], chunked
# [[own_error[chunked]:.0e]], window [[own_error[windowed]:.0e]], linear [[own_error[linear]:.0e]], fused
# [[own_error[fused]:.0e]]. Against ordinary attention, window and linear are off by [[other_function[windowed]:.2f]] and
# [[other_function[linear]:.2f]]. They are *other functions*. A model must be trained with them; put in place of the softmax
# in a trained model, they break it.
#
# ## A cost model on paper
#
# Count multiplications and additions of the matrix products: a product of $(a, b)$ with $(b, c)$ has $2abc$
# [floating-point operations](../book/pages/glossary.md#floating-point-operation). Explicit attention has two with $a = c = T$,
# or $b = T$: $4T^2 D$ in all. The other lines follow in the same way:

# %%
def tile_keys(T, window=128, c=128):
    """Scores that the window's tiles work out in all."""
    return sum(min(c, T - i) * (min(i + c, T) - max(0, i - window + 1))
               for i in range(0, T, c))


paper_operations = {
    "explicit": lambda T: 4 * T**2 * D,
    "chunked": lambda T: 4 * T**2 * D,
    "windowed": lambda T: 4 * tile_keys(T) * D,                      # about 4 T (c + r) D
    "linear": lambda T: 4 * T * D**2 + 2 * T * D,
}
paper_bytes = {
    "explicit": lambda T: 8 * T**2 + 4 * T * D,
    "chunked": lambda T: max(4 * T * (D + 2) + 12 * 256 * 512, 8 * T * (D + 2)),
    "windowed": lambda T: max(4 * T * D + 12 * 128 * 255, 8 * T * D),
    "linear": lambda T: 16 * T * D,
    "fused": lambda T: 4 * T * D,
}

# %% [markdown]
# The bytes are those held at the peak, for $T \ge 512$. Chunked and window hold either the finished outputs and three
# tiles (scores, differences, exponentials), or at the end the outputs twice, in pieces and joined. Linear holds four
# arrays of the size of its input. The fused kernel's tiles live inside one operator, where no count sees them; only the
# output is left.
#
# Operations can be counted, too:

# %%
T = 1000
Q, K, V = inputs(T)
operations = {}
for name in paper_operations:
    with FlopCounterMode(display=False) as flops:
        five[name](Q, K, V)
    operations[name] = flops.get_total_flops()
claim("operations_off", max(abs(operations[name] - paper(T))
                            for name, paper in paper_operations.items()), equals=0)

# %% [markdown]
# Again the difference is [[operations_off:.0f]]. From what length on does each have fewer operations than explicit
# attention, on paper?

# %%
def first_below(paper, other):
    return next(T for T in range(1, 10_000) if paper(T) < other(T))


crossing = {name: first_below(paper_operations[name], paper_operations["explicit"])
            for name in ("windowed", "linear")}
claim("crossing_linear", crossing["linear"], equals=65)
claim("crossing_windowed", crossing["windowed"], at_least=129, at_most=200)

# %% [markdown]
# Linear attention from $T$ = [[crossing_linear:.0f]] on, one more than the width $D$; the window from [[crossing_windowed:.0f]]
# on, as soon as some tile can be left out. Chunked attention never does: it has the same $4T^2D$.
#
# Operations are not all. The explicit version writes the scores to memory, reads them, writes the weights and reads them:
# $16 T^2$ bytes on the way, $D / 4$ operations a byte. A processor that could do more in that time waits. In tiles that stay
# in its fast memory, keys and values are read once for each piece of queries, $8 T D \cdot T / c_q$ bytes: $c_q / 2$
# operations a byte. This is why a fused kernel can be faster with the same operations [@dao2022, section 3.2].
#
# ## The measurement
#
# Now each of the five from $T = 512$ to $16384$, without gradients. Each has a process of its own, so that none profits from
# memory that another one has left. The process also asks the system how far it grew, its [resident
# size](../book/pages/glossary.md#resident-size): what the count cannot see would show there.

# %%
def measure(attend, lengths, D=64):
    def run():
        return attend(Q, K, V)                             # (1, 1, T, D)

    found = {}
    attend(*torch.randn(3, 1, 1, 512, D))                  # loads what the first call loads
    for T in sorted(lengths, reverse=True):                # the longest first, in new memory
        Q, K, V = torch.randn(3, 1, 1, T, D, generator=torch.Generator().manual_seed(T))
        grown = None if found else resident_growth(run)
        counted = counted_peak(run)
        repeats, start = max(1, 4096 // T), time.process_time()
        for _ in range(repeats):
            run()
        found[T] = counted, grown, (time.process_time() - start) / repeats
    return found


# %% [markdown]
# The process is given the source of these functions as its program, and prints what it found.

# %%
PREFACE = """
import json, math, time, torch
import torch.nn.functional as F
from attnlab.memory import counted_peak, resident_growth
torch.set_num_threads(1)
"""
needed = [scaled_scores, explicit, add_tile, chunked_forward, windowed, phi, linear, fused,
          measure]
lengths = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]


def in_own_process(name):
    call = "lambda *x: chunked_forward(*x)[0]" if name == "chunked" else name
    last = f"with torch.inference_mode(): print(json.dumps(measure({call}, {lengths})))"
    program = "\n".join([PREFACE, *map(inspect.getsource, needed), last])
    ended = subprocess.run([sys.executable, "-"], input=program, stdout=subprocess.PIPE,
                           encoding="utf-8", check=True)
    return {int(T): result for T, result in json.loads(ended.stdout).items()}


measured = {name: in_own_process(name) for name in five}

# %%
long = [T for T in lengths if T >= 512]
peak = {name: [measured[name][T][0] / MIB for T in long] for name in five}
roles = {"explicit": "f", "chunked": "a", "windowed": "b", "linear": "c", "fused": "d"}
claim("peak", {name: line[-1] for name, line in peak.items()}, at_least=4, at_most=2052)
claim("explicit_over_chunked", peak["explicit"][-1] / peak["chunked"][-1], at_least=100)
wins = {name: min(T for T in lengths if measured[name][T][0] < measured["explicit"][T][0])
        for name in five if name != "explicit"}
claim("memory_wins", wins, at_least=64, at_most=512)
claim("growth", {name: line[-1] / line[-2] for name, line in peak.items()}, at_least=1.7,
      at_most=4)
claim("paper_off", max(abs(paper(T) / measured[name][T][0] - 1)
                       for name, paper in paper_bytes.items() for T in long), at_most=0.25)
plots.lines(long, peak, log="xy", x="length T", y="peak memory (MiB)", roles=roles,
            alt="Peak memory of five kinds of attention against the length, on logarithmic "
                "axes. The line of explicit attention is twice as steep as all others and "
                "ends far above them.")

# %% [markdown]
# At $T = 16384$ explicit attention takes [[peak[explicit]:.0f]] MiB, chunked [[peak[chunked]:.1f]], the window
# [[peak[windowed]:.1f]], linear [[peak[linear]:.1f]] and the fused kernel [[peak[fused]:.1f]], which is the output alone. From
# 8192 to 16384 explicit grew by a factor of [[growth[explicit]:.2f]] and chunked by [[growth[chunked]:.2f]]. Explicit takes
# [[explicit_over_chunked:.0f]] times what chunked takes. The paper is off by [[paper_off:.0%]] at most. Among the lengths measured, 64 and
# its doublings, the first at which each needs less memory than explicit attention is [[memory_wins[fused]:.0f]] for the fused
# kernel, [[memory_wins[linear]:.0f]] for linear, [[memory_wins[windowed]:.0f]] for the window and [[memory_wins[chunked]:.0f]] for
# chunked, whose tiles are large.
#
# So the popular sentence "attention needs memory that grows as $n^2$" is wrong. Its *work* grows as $n^2$. The memory grows
# as $n^2$ only if somebody stores the matrix, as you must do to look at the weights.
#
# What does the system say?

# %%
resident = {name: results[16384][1] for name, results in measured.items()}
if None in resident.values():
    print("this system does not tell the resident size")
else:
    claim("resident_share", resident["explicit"] / measured["explicit"][16384][0],
          at_least=0.97, at_most=1.06)
    claim("resident_others", max(resident[name] for name in five if name != "explicit") / MIB,
          at_most=100)

# %% [markdown]
# With explicit attention the process grew by [[resident_share:.3f]] times the count. The other four grew by at most
# [[resident_others:.0f]] MiB. That is more than the count: what small tiles give back is kept for later, in pieces. But none
# hides a matrix of a thousand MiB that the count did not see.
#
# ### Time
#
# Times differ from machine to machine, so look at ratios: the figure divides by the time of explicit attention. **Guess
# before you look:** which lines will fall with the length, and which stay level?

# %% tags=["nbval-ignore-output"]
shorter = [name for name in five if name != "explicit"]
ratios = {name: [measured[name][T][2] / measured["explicit"][T][2] for T in lengths]
          for name in shorter}
plots.lines(lengths, ratios, log="xy", x="length T", y="time / time of explicit attention",
            guides={"equally fast": 1.0}, roles=roles,
            alt="Time of four kinds of attention, divided by that of explicit attention, "
                "against the length, on logarithmic axes. Linear and window fall steadily "
                "with the length. Chunked and fused fall at first and then stay level.")

# %% [markdown]
# Linear and window fall, as $1/T$ once the sequence is long. Chunked and fused level off: they have the same operations,
# and differ from explicit attention by a factor, not by a power of $T$. On a short sequence the order may be another one:
# there a product is so small that starting an operator costs more than its work. From which of these lengths on is each
# faster on this machine, and from which on paper?

# %% tags=["nbval-ignore-output"]
for name in shorter:
    faster = [T for T, ratio in zip(lengths, ratios[name]) if ratio < 1]
    on_paper = crossing.get(name, "no fewer operations")
    print(f"{name:9} measured: {min(faster, default='never'):>6}   on paper: {on_paper}")

# %% [markdown]
# The paper names where operations are fewer. Where a measured length is larger, something else than products took the time;
# where one is smaller, or where operations are equal and the time is not, it is the bytes on the way.
#
# ## What linear attention gives up
#
# Linear attention needs little memory and little time. What does it not do? It puts all pairs of key and value into one
# state of $d_k$ rows, and its weight matrix is a product of two matrices that are $d_k$ wide. So the rank of that matrix is at
# most $d_k$. To look up $P$ different pairs without mixing, the weights have to be the identity matrix, whose rank is $P$. With
# $P > d_k$ that is impossible. The exponential of a softmax is no such product:

# %%
q, k = torch.randn(2, 64, 16, generator=generator, dtype=torch.float64)     # P = 64, d_k = 16
by_softmax = scaled_scores(3 * q, 3 * k).softmax(dim=-1)                    # (P, P)
by_features = phi(q) @ phi(k).T                                             # (P, P)
claim("rank_softmax", torch.linalg.matrix_rank(by_softmax).item(), equals=64)
claim("rank_linear", torch.linalg.matrix_rank(by_features).item(), equals=16)

# %% [markdown]
# The ranks are [[rank_softmax:.0f]] and [[rank_linear:.0f]]. (To name the right pair it is enough that the right weight is the
# largest, which is less than the identity. So this is a reason to expect trouble, no proof of it.) We train both on it:
# $P$ pairs of symbols, a query that equals one of the keys, and the value beside it to name, out of 64 symbols.

# %%
class Lookup(nn.Module):
    """Attention as the only way from a pair to the answer."""

    def __init__(self, attend, d_k, d_model=64, num_symbols=64):
        super().__init__()
        self.attend = attend
        self.name = nn.Embedding(num_symbols, d_model)
        self.content = nn.Embedding(num_symbols, d_model)
        self.w_q, self.w_k = (nn.Linear(d_model, d_k, bias=False) for _ in range(2))
        self.readout = nn.Linear(d_model, num_symbols)

    def forward(self, keys, values, queries):                  # (B, P), (B, P), (B,)
        Q = self.w_q(self.name(queries))[:, None]              # (B, 1, d_k)
        K = self.w_k(self.name(keys))                          # (B, P, d_k)
        V = self.content(values)                               # (B, P, d_model)
        return self.readout(self.attend(Q, K, V)[:, 0])        # (B, num_symbols)


# %%
def recall(attend, d_k, pairs, steps):
    torch.manual_seed(seed(0))
    model, data = Lookup(attend, d_k), torch.Generator().manual_seed(seed(1))
    batches = iter(lambda: tasks.pair_lookup(64, pairs, data, num_symbols=64), None)
    training.fit(model, batches, steps=steps, lr=1e-2, stop_below=0.005)
    fresh, answers = tasks.pair_lookup(2000, pairs, data, num_symbols=64)
    with torch.no_grad():
        return (model(*fresh).argmax(dim=-1) == answers).float().mean().item()


pair_counts = [4, 16, 64]
recalled = {"softmax, d_k = 8": [recall(explicit, 8, P, 300) for P in pair_counts],
            "linear, d_k = 32": [recall(linear, 32, P, 300) for P in pair_counts],
            "linear, d_k = 8": [recall(linear, 8, P, 300) for P in pair_counts]}
longer = recall(linear, 8, 64, 900)

# %% [markdown]
# **Before you look:** which line should fall first? Chance is $1/64$.

# %%
soft, wide, narrow = recalled.values()
claim("recall_softmax", soft[-1], at_least=0.94)
claim("recall_narrow", dict(zip(pair_counts, narrow)), at_least=0.1, at_most=0.98)
claim("recall_narrow_64", narrow[-1], at_most=0.3)
claim("recall_wide_64", wide[-1], at_least=0.7, at_most=0.9)
claim("recall_longer", longer, at_most=0.35)
plots.lines(pair_counts, recalled, log="x", x="pairs to remember", y="share recalled",
            guides={"guessing": 1 / 64},
            roles=dict(zip(recalled, ["a", "c", "e"])),
            alt="Share of pairs recalled against the number of pairs, 4, 16 and 64. Softmax "
                "attention of width 8 stays near one. Linear attention of width 32 falls at "
                "64 pairs; of width 8 it falls much further.")

# %% [markdown]
# Softmax attention of width 8 recalls [[recall_softmax:.0%]] of 64 pairs. Linear attention of the same width recalls
# [[recall_narrow[4]:.0%]] of 4 pairs, [[recall_narrow[16]:.0%]] of 16 and [[recall_narrow[64]:.0%]] of 64. With [[=three times]] the
# training it is [[recall_longer:.0%]]; with [[=four times]] the width, [[recall_wide_64:.0%]]. What is short is the state, not the
# training. That is the bargain: a state that does not grow cannot hold a list that does.
#
# ## Which one, then?
#
# - Below some hundred tokens nothing matters. Take explicit attention if you want to look at the weights.
# - Above, take a fused kernel. It is exact and needs no matrix. This is what PyTorch does by itself.
# - If $T^2$ operations are too many, something must be given up: a window gives up distance, linear attention gives up
#   recall. Many models mix such layers with full ones.
#
# ## See it move
#
# Six queries and eight keys. Take one tile after another. The framed one exists; those that are hatched are gone, and what is
# left of them are the three numbers of each row in the table.
#
# **What to look for.** In which rows does the next tile raise the maximum? Watch in the last column what their old sums were
# multiplied by. Then change the tile to one key, and to all eight. Which numbers at the end depend on it?

# %%
scores = 2 * torch.randn(6, 8, generator=generator)                  # (T, S)
TileWalk(scores, torch.randn(8, generator=generator), query_tile=2, key_tile=3, step=2)

# %% [markdown]
# The numbers at the end are the same for each tile, but for rounding. Only the way there differs, and how much of the matrix
# exists at once.
#
# ## What this lesson did not show
#
# One head, one width, one thread of one processor. On a graphics processor the fast memory is smaller and the products are
# faster, so that bytes weigh more; @dao2022 (section 4) measure there. The recall task asks for exact look-up of random
# pairs, which is the hardest thing for a state; language may ask for less of it. Over [[recall_longer:seeds]] seeds the narrow
# model recalled [[recall_narrow_64:range:.0%]] of 64 pairs and the wide one [[recall_wide_64:range:.0%]]. Other feature maps
# than $\operatorname{elu} + 1$ and states that forget do better than this one.
#
# ## Takeaways
#
# - Explicit attention holds $8T^2 + 4TD$ bytes in single precision, and training holds more. Only the work has to grow as
#   $T^2$.
# - A running maximum and a running sum make a softmax from tiles. Old terms are corrected by $e^{m - m'}$. Backward, the
#   sum over a row is $g \cdot o$, and tiles are worked out again.
# - A window sees $r - 1$ back in a layer, and $L (r - 1)$ through $L$. Linear attention is another function with a state of fixed
#   size.
# - $4T^2D$ operations against $4TD^2$: linear wins from $T > D$ on, on paper. Bytes on the way decide between equal counts.
# - Fused for exactness, a window for distance given up, linear for recall given up.

# %% [markdown]
# ## Quiz
#
# 1. The tiles of a row so far have the maximum 2 and the sum [[=1.5]]. A tile with the single score 4 comes. What is the new sum?
#
#    - [ ] $1.5 + e^{4-2}$ :: That keeps the old maximum. It is right in exact arithmetic, but with $e^{100}$ in place of $e^2$
#      it overflows, which is why the maximum is moved.
#    - [x] $1.5\, e^{2-4} + 1$ :: Old terms are corrected from 2 to 4, and the new term is $e^{4-4}$.
#    - [ ] $1.5 + 1$ :: The old terms were made with the maximum 2 and have to shrink by $e^{2-4}$.
#    - [ ] $1.5\, e^{4-2} + 1$ :: The correction never makes terms larger: the maximum only rises, and all exponents only fall.
#
# 2. What does chunked attention save in comparison with explicit attention?
#
#    - [x] memory: no matrix of scores is ever whole :: One tile exists at a time, beside two numbers and one output for each
#      query.
#    - [ ] floating-point operations: fewer products are made :: There are as many, $4T^2D$, and in training one product more for
#      each tile.
#    - [ ] accuracy: it rounds the weights to tiles :: It adds the same terms in another order. The difference is rounding.
#
# 3. You write attention as a loop over tiles and train with it. The memory of training hardly falls. Why?
#
#    - [ ] The tiles are too large. :: With smaller tiles the same number of weights is kept, in more pieces.
#    - [ ] The optimiser holds the matrix. :: It holds two numbers for each parameter and knows nothing of scores.
#    - [x] Autograd keeps every tile for the backward pass. :: What the chain rule will need is kept unless a backward pass of
#      your own works it out again.
#
# 4. A model of six layers has a sliding window of 101 keys in each. From how far back can a token still matter to the output?
#
#    - [ ] 100 positions :: That is one layer. Through the next layer it hears of what those tokens have seen.
#    - [ ] any distance, since layers mix everything :: Each layer moves information by 100 positions at most.
#    - [x] 600 positions :: Six layers, each with its own position and 100 before it.
#
# 5. A trained model has softmax attention of width 64. Somebody puts linear attention in its place, to make it faster at
#    $T = 32$. What do you say?
#
#    - [ ] It gives nearly the same outputs, faster. :: It is another function. The outputs are wrong unless the model is trained
#      with it.
#    - [x] It gives other outputs, and on paper it has more operations there. :: $4TD^2$ is less than $4T^2D$ only where $T$ is
#      larger than $D$.
#    - [ ] It gives the same outputs, but slower. :: On paper it is slower at that length. But the features are no exponential, so
#      the weights differ.
#    - [ ] It is right as long as the state is larger than the text. :: A large state helps recall after training. It does not make
#      two functions equal.

# %% [markdown]
# ## Where to go from here
#
# **Now you:** in [the exercises](../exercises/13_long_sequences.ipynb) you write the online softmax with hidden scores, causal
# attention in tiles and a cache that forgets, predict what a model takes, and write a test for programs that work in tiles.
# **Next:** in lesson 14 programs are wrong without being slow, and nobody notices.
#
# **Papers.** @milakov2018 (section 3) has the online softmax, @rabe2021 attention in little memory, @dao2022 the tiles on a
# graphics processor and the backward pass. @beltagy2020 has the window, @katharopoulos2020 linear attention, and
# @tay2020 many more ways to save.
