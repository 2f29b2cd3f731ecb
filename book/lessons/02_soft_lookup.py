# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Soft lookup
#
# **How can a network look something up and still be differentiable?**
#
# In lesson 1, attention recalled a symbol across 500 distractors. How? It looked it up. You build such a lookup from a
# table with four rows, turn it into the form that the rest of the course uses, and put it where it was first needed:
# between two recurrent networks.
#
# **You will be able to**
#
# - say why a dictionary gives a network nothing to learn from, and build a lookup that does;
# - derive the softmax of dot products from a weighting by distance, and say when the two differ;
# - say what the temperature does to the answer and to its gradient, and along which axis the softmax runs;
# - write additive attention and one step of a decoder that uses it, and read its map with care.
#
# **Before you start** you should know matrix products, the chain rule, a training loop in PyTorch, and what a
# [GRU](../book/pages/glossary.md#gru) is (lesson 1).
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.

# %%
import functools

import torch
import torch.nn.functional as F
from torch import nn

from attnlab import claim, plots, recurrent, seed, tasks, training
from attnlab.widgets import SoftLookupExplorer

generator = torch.Generator().manual_seed(seed(0))
torch.set_num_threads(1)  # models this small are not faster on two

# %% [markdown]
# ## A dictionary is all or nothing
#
# A harbour keeps a table of how deep the water is at certain hours. In Python that is a dictionary:

# %%
depth = {0: 1.0, 3: 2.0, 6: 4.0, 9: 3.0}    # hour: metres of water
try:
    depth[4]
except KeyError as hour:
    print("no entry for hour", hour)

# %% [markdown]
# What you ask with is the [query](../book/pages/glossary.md#query), here hour 4. What an entry is found by is its
# [key](../book/pages/glossary.md#key), what it hands over is its [value](../book/pages/glossary.md#value). A
# dictionary demands that the query *equal* a key. We can be kinder and take the nearest key. (Each key and each value
# gets a row of its own, so that they may be longer vectors later. There are S of them.)

# %%
keys = torch.tensor([[0.0], [3.0], [6.0], [9.0]])      # (S, 1)
values = torch.tensor([[1.0], [2.0], [4.0], [3.0]])    # (S, 1)


def hard_lookup(q, keys, values):
    return values[(q - keys).norm(dim=-1).argmin()]    # the row of the nearest key


q = torch.tensor([4.0], requires_grad=True)
answer = hard_lookup(q, keys, values)
claim("hard_answer", answer.item(), equals=2.0)
print("connected to the query:", answer.requires_grad)

# %% [markdown]
# Now let the query come from a network, and let the answer, [[hard_answer:.0f]] metres, be wrong. Should the network
# have asked for a later or an earlier hour? A [gradient](../book/pages/glossary.md#gradient) would say: it is what the
# answer does when the query moves a little, and networks are built of functions that have one, *differentiable*
# functions. But here the answer does nothing. It stays the same until another key is nearer, and then it jumps. PyTorch
# does not even connect the two.

# %%
later, earlier = (hard_lookup(torch.tensor([hour]), keys, values) for hour in (4.1, 3.9))
claim("hard_slope", ((later - earlier) / 0.2).item(), equals=0.0)

# %% [markdown]
# The slope is [[hard_slope:.0f]]. Whatever computed this query cannot learn to ask better.
#
# ## Let every entry count
#
# Instead of choosing one entry, take a weighted average of all, and give more weight to the nearer ones. Statistics
# has done so since 1964 [@nadaraya1964; @watson1964]: this is
# [kernel regression](../book/pages/glossary.md#kernel-regression). A *kernel* is a function that says how much an
# entry counts. The usual one is a bell curve of the distance between query $q$ and key $k_j$:
#
# $$w_j = \frac{e^{-(q - k_j)^2 / 2\tau}}{\sum_l e^{-(q - k_l)^2 / 2\tau}}, \qquad o = \sum_j w_j\, v_j .$$
#
# The sum below the fraction line makes the $w_j$ shares, positive and one in sum: the
# [attention weights](../book/pages/glossary.md#attention-weight). The output $o$ is the average of the values $v_j$
# under them. This is a [soft lookup](../book/pages/glossary.md#soft-lookup), or in one word
# [attention](../book/pages/glossary.md#attention). The root of $\tau$ is the *bandwidth*, the distance at which an entry
# begins to fade. We call $\tau$ itself the [temperature](../book/pages/glossary.md#temperature).
#
# **By hand,** for hour 4 and $\tau = 2$: the squared distances to the keys are 16, 1, 4 and 25, and each is divided by
# $2\tau = 4$. **Before you run the cell, guess** the answer: it lies somewhere between 2 and 4 metres.

# %%
kernel = torch.tensor([-16 / 4, -1 / 4, -4 / 4, -25 / 4]).exp()    # (S,)
weights = kernel / kernel.sum()                                 # (S,)
by_hand = weights @ values                                      # (1,)
claim("soft_answer", by_hand.item(), at_least=2.616, at_most=2.617)
claim("nearest_weight", weights[1].item(), at_least=0.667, at_most=0.668)
weights

# %% [markdown]
# The nearest entry gets a weight of [[nearest_weight:.2f]], the next one most of the rest, and the answer is
# [[soft_answer:.2f]] metres. For many queries it is a loop over the queries with one over the keys inside:

# %%
def lookup_loop(queries, keys, values, temperature):
    answers = []
    for q in queries:                                           # each (D,)
        kernel = [torch.exp(-((q - k) ** 2).sum() / (2 * temperature)) for k in keys]
        answers.append(sum(c * v for c, v in zip(kernel, values)) / sum(kernel))
    return torch.stack(answers)                                 # (T, d_v)


# %% [markdown]
# And in matrices, one row for each of the T queries and one column for each of the S keys:

# %%
def squared_distances(queries, keys):
    return ((queries[:, None] - keys) ** 2).sum(dim=-1)         # (T, S)


def kernel_lookup(queries, keys, values, temperature):
    kernel = torch.exp(-squared_distances(queries, keys) / (2 * temperature))    # (T, S)
    weights = kernel / kernel.sum(dim=-1, keepdim=True)         # (T, S), rows sum to 1
    return weights @ values, weights                            # (T, d_v), (T, S)


queries = torch.tensor([[4.0], [0.5], [7.0]])                   # (T, 1)
by_loop = lookup_loop(queries, keys, values, temperature=2.0)
by_matrix, _ = kernel_lookup(queries, keys, values, temperature=2.0)
differences = [(by_matrix - by_loop).abs().max().item(), (by_loop[0] - by_hand).abs().item()]
claim("three_ways", max(differences), at_most=1e-6)

# %% [markdown]
# By hand, loop and matrices differ by about [[three_ways:.0e]].
#
# The figure shows the kernel alone, before it is divided by the sum. At which distance has each line lost half of its
# height?

# %%
distance = torch.linspace(0, 6, 61)
bells = {f"τ = {t:g}": torch.exp(-distance**2 / (2 * t)) for t in (0.25, 1, 4, 16)}
plots.lines(distance, bells, marks=False,
            x="distance from query to key", y="kernel, before dividing by the sum",
            alt="Four bell curves over distance, all 1 at distance 0. At temperature 0.25 the "
                "kernel is near 0 from distance 2 on; at 16 it is still about a third at 6.")

# %% [markdown]
# Half is lost a little beyond the bandwidth $\sqrt\tau$. A cold kernel sees its nearest neighbours, a hot one sees
# everybody.
#
# ## Now there is a gradient
#
# Take the logarithm of $w_j$ and its derivative. The first term of $\ln w_j$ gives $(k_j - q)/\tau$, and the sum takes
# off the average of that, so
#
# $$\frac{\partial w_j}{\partial q} = \frac{w_j\,(k_j - \bar k)}{\tau}, \qquad
# \frac{\partial o}{\partial q} = \frac 1 \tau \sum_j w_j\,(k_j - \bar k)\, v_j , \qquad \bar k = \sum_l w_l\, k_l .$$
#
# The sum on the right is the covariance of keys and values, weighted by $w$: among the entries that count, do later
# hours go with deeper water? If so, asking for a later hour gives more. It is zero if one entry has all the weight,
# for then nothing varies. Check it against automatic differentiation:

# %%
q = torch.tensor([[4.0]], requires_grad=True)                   # (1, 1)
answer, weights = kernel_lookup(q, keys, values, temperature=2.0)
(slope,) = torch.autograd.grad(answer, q)
w = weights[0].detach()                                         # (S,)
covariance = (w * (keys[:, 0] - w @ keys[:, 0])) @ values[:, 0]
claim("slope", slope.item(), at_least=0.69, at_most=0.70)
claim("slope_difference", (slope - covariance / 2.0).abs().item(), at_most=1e-6)

# %% [markdown]
# [[slope:.2f]] metres an hour; the two differ by [[slope_difference:.0e]]. So the lookup is
# differentiable, and learning needs no more. Suppose the answer should have been 3.2 metres. Move the query downhill on the squared error:

# %%
for _ in range(20):
    answer, _ = kernel_lookup(q, keys, values, temperature=2.0)
    (gradient,) = torch.autograd.grad((answer - 3.2).square().sum(), q)
    q = (q - gradient).detach().requires_grad_()
claim("learnt_query", q.item(), at_least=4.78, at_most=4.79)
claim("learnt_answer", answer.item(), at_least=3.199, at_most=3.201)

# %% [markdown]
# The query has moved to hour [[learnt_query:.2f]], where the answer is [[learnt_answer:.2f]] metres. A network does the
# same to the parameters that make its queries.
#
# ## From distances to dot products
#
# [Transformers](../book/pages/glossary.md#transformer) do not compute distances. They compute [dot products](../book/pages/glossary.md#dot-product),
# $q \cdot k = \sum_i q_i k_i$. One line connects the two. For vectors,
# $\lVert q - k_j \rVert^2 = \lVert q \rVert^2 - 2\, q \cdot k_j + \lVert k_j \rVert^2$, so
#
# $$e^{-\lVert q - k_j \rVert^2 / 2\tau} =
# \underbrace{e^{-\lVert q \rVert^2 / 2\tau}}_{\text{same for all keys}} \cdot\;
# e^{\,q \cdot k_j / \tau} \cdot \underbrace{e^{-\lVert k_j \rVert^2 / 2\tau}}_{\text{same if keys are equally long}} .$$
#
# The first factor stands in every term above and below the fraction line, and cancels. If all keys have one length,
# so does the last. What is left is the [softmax](../book/pages/glossary.md#softmax) of $q \cdot k_j / \tau$, with
#
# $$\text{softmax}(z)_j = \frac{e^{z_j}}{\sum_l e^{z_l}} .$$
#
# So the softmax is a kernel divided by its sum, and the [score](../book/pages/glossary.md#score) $s_j$, the number
# that it is given, is a matter of choice. We check on keys of length 2 in five dimensions:

# %%
def dot_lookup(queries, keys, values, temperature):
    scores = queries @ keys.T / temperature                     # (T, S)
    weights = scores.softmax(dim=-1)                            # (T, S)
    return weights @ values, weights


Q, K, V = (torch.randn(n, 5, generator=generator) for n in (3, 6, 6))    # (T or S, D)
K = 2 * K / K.norm(dim=-1, keepdim=True)                        # all of length 2
by_distance, by_product = kernel_lookup(Q, K, V, 1.5)[1], dot_lookup(Q, K, V, 1.5)[1]
claim("equal_lengths", (by_distance - by_product).abs().max().item(), at_most=1e-6)

# %% [markdown]
# The weights differ by about [[equal_lengths:.0e]].
#
# **And when lengths differ?** The last factor no longer cancels: the dot product multiplies each key's weight by
# $e^{\lVert k_j \rVert^2 / 2\tau}$ more than the distance would, so long keys gain. Here a query equals the first key
# *exactly*, and the third one, $(3, 0)$, points the same way and is longer. **Which key wins?**

# %%
q = torch.tensor([[1.0, 0.0]])                                  # (1, 2)
k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [3.0, 0.0]])          # (S, 2)
unused = torch.zeros(3, 1)                                      # (S, 1): only weights matter
near, dot = kernel_lookup(q, k, unused, 1.0)[1][0], dot_lookup(q, k, unused, 1.0)[1][0]
repaired = (q @ k.T - k.square().sum(dim=-1) / 2).softmax(dim=-1)[0]    # (S,)
claim("exact_by_distance", near[0].item(), at_least=0.66, at_most=0.67)
claim("exact_by_product", dot[0].item(), at_least=0.11, at_most=0.12)
claim("long_by_product", dot[2].item(), at_least=0.84, at_most=0.85)
claim("repaired", (repaired - near).abs().max().item(), at_most=1e-6)

# %% [markdown]
# By distance the key that equals the query gets [[exact_by_distance:.2f]]. By dot product it gets
# [[exact_by_product:.2f]], and the long key [[long_by_product:.2f]]. So "the dot product measures similarity" is half
# right: it measures agreement of direction *times both lengths*. Take $\lVert k_j \rVert^2 / 2$ off each score, and the
# weights are those of the distance again: the largest difference is [[repaired:.1g]]. Attention leaves it
# out and lets a key be loud: its length is one more thing to learn. A longer *query* changes no order among the keys. It multiplies all scores, as a lower temperature would.
#
# :::{admonition} The common confusion: which axis does the softmax run along?
# :class: caution
# The scores are a matrix $(T, S)$, a row for each query. The query has one whole to share among the keys, so each *row*
# must sum to one: the softmax runs along the last axis, `dim=-1`. With `dim=-2` the columns sum to one, the shapes are
# the same, and no error is raised.
# :::
#
# A question settles it: may the answer to your query depend on what *others* ask in the same call?

# %%
scores = queries @ keys.T / 10                                  # (T, S)
for name, dim in [("rows, dim=-1", -1), ("columns, dim=-2", -2)]:
    weights = scores.softmax(dim=dim)                           # (T, S)
    alone = scores[:1].softmax(dim=dim)                         # (1, S): the first query alone
    print(f"{name:16} rows sum to", [round(n, 2) for n in weights.sum(dim=-1).tolist()],
          " same when asked alone:", torch.allclose(weights[:1], alone))

# %% [markdown]
# Along the rows, the first query gets the same weights alone and in company. Along the columns the keys share
# themselves out among whoever is asking.
#
# ## Hot and cold
#
# What becomes of the answer as the temperature changes? We use the softmax with the distance as its score. (PyTorch's
# softmax first takes off the largest score, which cancels too. Our `kernel_lookup` would divide 0 by 0 when very cold.)
# In the figure, compare the coldest line with the jumps of the hard lookup, and the hottest with the mean of all
# values.

# %%
def lookup_at(queries, temperature):
    scores = -squared_distances(queries, keys) / (2 * temperature)    # (T, S)
    return scores.softmax(dim=-1) @ values                      # (T, 1)


hours = torch.linspace(0, 9, 181)[:, None]                      # (T, 1)
curves = {f"τ = {t:g}": lookup_at(hours, t)[:, 0] for t in (100, 2, 0.1)}
curves["nearest key"] = torch.stack([hard_lookup(hour, keys, values)[0] for hour in hours])
plots.lines(hours[:, 0], curves, marks=False, x="query: hour", y="answer: metres of water",
            guides={"mean of all values": values.mean().item()},
            roles={"nearest key": "wrong"},
            alt="Answers over the query. At temperature 100 the line is nearly level at the "
                "mean of all values; at 2 it is a smooth curve; at 0.1 it is a staircase "
                "that all but covers the lookup of the nearest key.")

# %%
def slope_at(hour, temperature):
    q = torch.tensor([[hour]], requires_grad=True)
    (slope,) = torch.autograd.grad(lookup_at(q, temperature), q)
    return abs(slope.item())


slopes = {"100": slope_at(4.0, 100), "2": slope_at(4.0, 2), "0.5": slope_at(4.0, 0.5),
          "0.1": slope_at(4.0, 0.1), "0.01": slope_at(4.0, 0.01)}
claim("slope_warm", slopes["2"], at_least=0.69, at_most=0.70)
claim("slope_hot", slopes["100"], at_most=0.05)
claim("slope_cold", slopes["0.1"], at_most=1e-4)
claim("slope_frozen", slopes["0.01"], equals=0.0)
claim("slope_tie", slope_at(4.5, 0.1), at_least=14, at_most=16)

# %% [markdown]
# Cold, the lookup becomes the hard one, which takes the value of the highest score (the *arg-max*). Its slope at hour 4 goes with it: [[slope_warm:.2f]]
# at $\tau = 2$, [[slope_cold:.0e]] at a tenth, and at a hundredth it is [[slope_frozen:.0f]], too small for a 32-bit
# number. Only at a tie, halfway between two keys, is the cold slope steep: [[slope_tie:.0f]] metres an
# hour. Hot, every query gets nearly the same mean, and the slope is small again:
# [[slope_hot:.2f]]. Lookups learn in between, and keeping them there is what lesson 3 has a square root for.
#
# ## A sentence through one vector
#
# In 2014 a neural translator was a pair of recurrent networks [@sutskever2014; @cho2014, section 2]. An [encoder](../book/pages/glossary.md#encoder) reads the source and leaves a
# state $h_j$ at each position $j$. A [decoder](../book/pages/glossary.md#decoder) writes the target one token at a time.
# Its state $d_t$ comes from the state before, the vector $y_{t-1}$ of the token that it has just written, and a *context*
# $c$:
#
# $$d_t = \operatorname{GRU}\!\big(d_{t-1},\, [\,y_{t-1},\, c\,]\big) .$$
#
# From $d_t$ and $c$ a readout predicts the next token. In the plain model, $c$ is the encoder's last state, the same at
# each step: the whole sentence goes through one vector. (Our encoder reads in both directions, so $h_j$ has two halves,
# and $c$ is the last state of each.)
#
# **The task** is to write a row of symbols in reverse. Each symbol is one of 8, at random, so nothing can be guessed
# from its neighbours. In training, the decoder reads the *true* tokens before each place, whatever it would have
# written. This is [teacher forcing](../book/pages/glossary.md#teacher-forcing). So the model gets the source and the
# target shifted by one, with a mark for the beginning:

# %%
PAD, BOS, EOS = 0, 1, 2                                         # filling, beginning, end
NUM_TOKENS = 3 + 8                                              # the marks and 8 symbols


def reversal(batch_size, length, generator):
    """((source, the tokens before each place), target)."""
    symbols, backwards = tasks.reversal(batch_size, length, generator)    # (B, S) each, from 0
    target = F.pad(backwards + 3, (0, 1), value=EOS)            # (B, T), T = S + 1
    before = F.pad(target[:, :-1], (1, 0), value=BOS)           # (B, T): shifted by one
    return (symbols + 3, before), target


(source, before), target = reversal(1, 5, torch.Generator().manual_seed(seed(3)))
for name, row in [("source", source), ("before", before), ("target", target)]:
    print(name, row[0].tolist())

# %% [markdown]
# ## Attention: look again at each step
#
# @bahdanau2015 (section 3.1) let the decoder look the context up anew at each step. The query is its state, and the
# keys and the values are *both* the states of the encoder: queries from one sequence, keys from another, which is
# now called [cross-attention](../book/pages/glossary.md#cross-attention). Their score is neither a distance nor a product.
# A small network computes it, with matrices $W_a$, $U_a$ and a vector $v_a$ to be learnt:
#
# $$s_{tj} = v_a^\top \tanh(W_a\, d_{t-1} + U_a\, h_j), \qquad
# w_{tj} = \text{softmax}(s_t)_j, \qquad c_t = \sum_j w_{tj}\, h_j .$$
#
# The query and the key are added inside, hence [additive attention](../book/pages/glossary.md#additive-attention):

# %%
class AdditiveAttention(nn.Module):
    """A small network says how well each key fits each query."""

    def __init__(self, d_query, d_key, d_hidden):
        super().__init__()
        self.w_query = nn.Linear(d_query, d_hidden, bias=False)    # W_a
        self.w_key = nn.Linear(d_key, d_hidden, bias=False)     # U_a
        self.v = nn.Linear(d_hidden, 1, bias=False)             # v_a

    def forward(self, query, key, value):        # (B, T, d_query), (B, S, d_key), (B, S, d_v)
        asked, found = self.w_query(query), self.w_key(key)     # (B, T or S, d_hidden)
        pairs = asked[:, :, None] + found[:, None]              # (B, T, S, d_hidden)
        scores = self.v(pairs.tanh()).squeeze(-1)               # (B, T, S)
        weights = scores.softmax(dim=-1)                        # (B, T, S)
        return weights @ value, weights                         # (B, T, d_v), (B, T, S)


# %% [markdown]
# The attentive model is the plain one of `attnlab.recurrent` with another decoder. Encoder, first state and readout
# stay. Read `step`: look up, update the state, predict.

# %%
class WithAttention(recurrent.GRUEncoderDecoder):
    """The decoder looks at all states of the encoder anew at each step."""

    def __init__(self, num_source, num_target, d_model, hidden_size):
        super().__init__(num_source, num_target, d_model, hidden_size)
        self.attention = AdditiveAttention(hidden_size, 2 * hidden_size, hidden_size)
        self.decoder = nn.GRUCell(d_model + 2 * hidden_size, hidden_size)

    def step(self, token, state, states):                       # (B,), (B, H), (B, S, 2H)
        context, weights = self.attention(state[:, None], states, states)    # (B, 1, ...) each
        context = context[:, 0]                                 # (B, 2H)
        embedded = self.target_embedding(token)                 # (B, d_model)
        state = self.decoder(torch.cat([embedded, context], dim=-1), state)    # (B, H)
        logits = self.readout(torch.cat([state, context], dim=-1))    # (B, V): V tokens
        return logits, state, weights[:, 0]                     # weights: (B, S)

    def decode(self, target, encoded, state=None):
        if state is None:
            state = self.first_state(encoded.summary).tanh()    # (B, H)
        logits, weights = [], []
        for token in target.unbind(dim=1):
            scores, state, row = self.step(token, state, encoded.states)
            logits.append(scores)
            weights.append(row)
        logits, weights = torch.stack(logits, 1), torch.stack(weights, 1)    # (B, T, V or S)
        return recurrent.RecurrentDecoded(logits, state, weights)


# %% [markdown]
# The package holds the same as `AttentiveGRUEncoderDecoder`, with a mask for rows of unequal length (lesson 4). Given
# the same parameters, do both give the same?

# %%
sizes = NUM_TOKENS, NUM_TOKENS, 32, 64                          # source, target, d_model, H
ours, theirs = WithAttention(*sizes), recurrent.AttentiveGRUEncoderDecoder(*sizes)
theirs.load_state_dict(ours.state_dict())
inputs, _ = reversal(4, 7, generator)
apart = (ours(*inputs) - theirs(*inputs)).abs() > 1e-5            # (B, T, V)
claim("apart_from_library", apart.sum().item(), at_most=0)

# %% [markdown]
# The two agree: [[apart_from_library:.0f]] outputs are further apart than rounding. Now train both models on rows of 1 to 14
# symbols, from the same [seed](../book/pages/glossary.md#seed) and on the same [batches](../book/pages/glossary.md#batch). A third run gives
# the plain model 1,200 steps in place of 600.

# %%
def rows_of_all_lengths(longest=14):
    data = torch.Generator().manual_seed(seed(1))               # the same for each model
    while True:
        length = int(torch.randint(1, longest + 1, (), generator=data))
        yield reversal(32, length, data)


def train(model_class, steps=600):
    torch.manual_seed(seed(0))
    model = model_class(*sizes)
    schedule = functools.partial(training.warmup_cosine, warmup=50, total=steps)
    training.fit(model, rows_of_all_lengths(), steps=steps, lr=1e-2, schedule=schedule)
    return model


models = {"with attention": train(WithAttention),
          "one vector, longer training": train(recurrent.GRUEncoderDecoder, steps=1200),
          "one vector": train(recurrent.GRUEncoderDecoder)}

# %% [markdown]
# In the test nobody forces. The decoder takes its likeliest token and reads it back in, which is
# [greedy decoding](../book/pages/glossary.md#greedy-decoding). We count the symbols at the right place. **How far do you
# expect one vector to carry?** Compare the lines from left to right.

# %%
def accuracy(model, length):
    (source, _), target = reversal(500, length, generator)
    written = recurrent.greedy_decode(model, source, max_length=length)    # (B, <= S)
    written = F.pad(written, (0, length - written.shape[1]), value=PAD)    # (B, S)
    return (written == target[:, :length]).float().mean().item()


lengths = [1, 3, 6, 9, 12, 14]
right = {name: {n: accuracy(model, n) for n in lengths} for name, model in models.items()}
plots.lines(lengths, {name: list(shares.values()) for name, shares in right.items()},
            x="symbols in the source", y="share of symbols right", guides={"chance": 1 / 8},
            roles={"with attention": "weight", "one vector": "wrong"},
            alt="Share of symbols right against the length of the source. With attention it "
                "stays near 1 up to 14. Through one vector it falls from 1 to below a half at "
                "14; with longer training it falls later and less far.")

# %%
short, long = [right["one vector"][n] for n in (3, 12)]
claim("attentive", {n: right["with attention"][n] for n in (3, 6, 9, 12)}, at_least=0.98)
claim("attentive_longest", right["with attention"][14], at_least=0.94)
claim("plain_longest", right["one vector"][14], at_least=0.35, at_most=0.55)
claim("plain_short", short, at_least=0.97)
claim("plain_long", long, at_least=0.4, at_most=0.65)
longer_training = right["one vector, longer training"][12]
claim("plain_trained_longer", longer_training - long, at_least=0.08, at_most=0.3)

# %% [markdown]
# | symbols | with attention | one vector |
# | --- | --- | --- |
# | 3 | [[attentive[3]:.1%]] | [[plain_short:.1%]] |
# | 12 | [[attentive[12]:.1%]] | [[plain_long:.1%]] |
# | 14 | [[attentive_longest:.1%]] | [[plain_longest:.1%]] |
#
# Over [[plain_long:seeds]] seeds, the plain model is right at [[plain_long:range:.0%]] of 12 symbols, the attentive one
# at [[attentive[12]:range:.1%]].
#
# **Often said: "one vector cannot hold a long sentence."** Count. Twelve symbols of 3 bits each are 36 bits, and the
# vector has 128 numbers of 32 bits. It has room. And with 1,200 steps in place of 600, accuracy at 12 symbols rises by
# [[plain_trained_longer:.2f]]. So at least part of the trouble is, as in lesson 1, what training finds in its time.
# Attention gives it something easier to find: where to look.
#
# ## What the weights show
#
# Which states did the decoder look at? The figure shows the mean weights over 256 rows of 9 symbols. Output 0 needs the
# last symbol, output 1 the one before, so the dark cells should form the diagonal from top right to bottom left, the
# *anti-diagonal*. **Do they? Look at the exact cells,** for instance in the row of output 4.

# %%
length = 9
(source, before), target = reversal(256, length, generator)
model = models["with attention"]
with torch.no_grad():
    encoded = model.encode(source)
    weights = model.decode(before, encoded).weights[:, :length]    # (B, T, S), without the end
mean_weights = weights.mean(dim=0)                              # (T, S)
plots.matrix(mean_weights, x="source position", y="output",
             alt="Mean attention weights, outputs by source positions. The dark band runs "
                 "from top right to bottom left. Below the first rows its darkest cells lie "
                 "one "
                 "place to the right of the anti-diagonal, the next darkest on it.")

# %%
mirrored = mean_weights.flip(-1)                                # anti-diagonal to diagonal
on, beside = mirrored.diagonal()[1:].mean().item(), mirrored.diagonal(-1).mean().item()
needed = torch.arange(length - 1, -1, -1)                       # the source position needed
close = ((weights.argmax(dim=-1) - needed).abs() <= 1).float().mean().item()
claim("on_the_needed", on, at_least=0.15, at_most=0.45)
claim("one_beside", beside, at_least=0.5, at_most=0.85)
claim("within_one", close, at_least=0.97)

# %% [markdown]
# The band is there, and at [[within_one:.1%]] of outputs the darkest cell lies within one place of the needed symbol.
# But from the second output on, the needed position gets [[on_the_needed:.2f]] of the weight, and its neighbour to the
# right [[one_beside:.2f]]. How can the answer be right? The weights pick *states*, and a state of a recurrent network
# has read its neighbours. We test that: can a linear readout tell the symbol at position $j-1$ from the state at $j$?

# %%
def readout_accuracy(offset, positions=slice(2, 7)):
    """Fit a linear readout of the symbol at j + offset from the state at j, and test it."""
    states = encoded.states[:, positions].flatten(0, 1)         # (N, 2H)
    features = F.pad(states, (0, 1), value=1.0)                 # (N, 2H + 1): with a constant
    symbols = (source - 3).roll(-offset, dims=1)[:, positions].flatten()    # (N,)
    half = len(symbols) // 2
    wanted = F.one_hot(symbols[:half], 8).float()               # (N / 2, 8)
    fit = torch.linalg.lstsq(features[:half], wanted).solution    # (2H + 1, 8)
    return ((features[half:] @ fit).argmax(-1) == symbols[half:]).float().mean().item()


claim("own_symbol", readout_accuracy(0), at_least=0.98)
claim("left_symbol", readout_accuracy(-1), at_least=0.95)
claim("further_left", readout_accuracy(-2), at_least=0.4, at_most=0.85)

# %% [markdown]
# It can: on states that it was not fitted on, the readout is right at [[own_symbol:.0%]] for the state's own symbol and
# [[left_symbol:.0%]] for the left neighbour, against [[further_left:.0%]] two places away. So both dark cells hold
# what is needed. A map shows which vectors were read, not what was read from them. Over [[one_beside:seeds]] seeds, the
# neighbour got [[one_beside:range:.2f]] of the weight. In a German to English translator, too, attention has been seen to
# point one word off [@koehn2017, section 3.5].
#
# ## What this lesson did not show
#
# It is one task, small sizes, and a few hundred steps. Reversal suits attention, since each output needs one place. The
# plain model may gain from more width, which we leave to you. The decoder
# learnt under teacher forcing, so it never saw its own mistakes. And attention does not by itself reach beyond what it was
# trained on:

# %%
claim("attentive_at_24", accuracy(models["with attention"], 24), at_least=0.3, at_most=0.7)

# %% [markdown]
# At 24 symbols, ten more than it has ever seen, it is right at [[attentive_at_24:.0%]].
#
# ## A query among keys
#
# Here is the lookup once more, as the rest of the course will use it: dot products in more than one dimension. Eight
# keys of equal length point along the compass. A query turns from north by east to south. Compare the four
# temperatures, and look at the rows halfway between two keys.

# %%
def compass(degrees, length=1.0):
    angles = torch.deg2rad(torch.as_tensor(degrees))
    return length * torch.stack([angles.sin(), angles.cos()], dim=-1)    # (N, 2): east, north


names = ["N", "NE", "E", "SE", "S", "SW", "W", "NW"]
points, turns = compass([45.0 * n for n in range(8)]), [22.5 * n for n in range(9)]
colder = [5.0, 1.0, 0.2, 0.02]
maps = [dot_lookup(compass(turns), points, points, t)[1] for t in colder]    # (T, S) each
claim("halfway", maps[3][1, :2].tolist(), at_least=0.499, at_most=0.501)
plots.small_multiples(maps, titles=[f"τ = {t:g}" for t in colder], columns=names,
                      rows=[f"{turn:g}°" for turn in turns], y="query",
                      alt="Four maps of weights, nine directions of the query by eight keys. "
                          "At temperature 5 all cells are pale; at 1 there is a broad band, "
                          "at 0.2 a narrow one; at 0.02 one key has all, or two share it "
                          "equally "
                          "where the query is halfway.")

# %% [markdown]
# The hottest query hears all keys nearly alike, the coldest only the nearest. Halfway, even
# that one gives [[halfway[0]:.2f]] to each neighbour: at a tie no temperature chooses.
#
# ## See it move
#
# Now move the query by hand. The four main directions of the compass are the keys, and the four depths of the harbour are
# their values. Drag $q$, or press the arrow keys on it. A line to each key is as thick as its weight, and the small arrow
# at $q$ points the way in which the answer rises fastest: the slope, as a direction.

# %%
SoftLookupExplorer(points[::2], values, names=names[::2], query=(0.6, 0.8), temperature=0.2,
                   stretched="E", axes=("east", "north"), unit="m")

# %% [markdown]
# **Try three things.** First, cool it down to the last stop, the arg-max, and drag $q$ round: the answer jumps from depth
# to depth, the arrow is gone and the slope is zero. Warm it up again, and the arrow comes back, then shrinks as every
# query gets nearly the mean of all values. Second, put $q$ halfway between N and E, where east and north are
# equal: at every temperature the two get the same share.
#
# Third, switch between dot product and distance: no weight changes, as long as all keys have one length. **Then stretch the key E
# to 1.5. What do you expect?**

# %%
q = torch.tensor([[0.6, 0.8]])                                  # (1, 2)
longer = points[::2] * torch.tensor([[1.0], [1.5], [1.0], [1.0]])    # (S, 2)
shares = {"equal": dot_lookup(q, points[::2], values, 0.2)[1][0, 1].item(),
          "product": dot_lookup(q, longer, values, 0.2)[1][0, 1].item(),
          "distance": kernel_lookup(q, longer, values, 0.2)[1][0, 1].item()}
claim("east_equal", shares["equal"], at_least=0.268, at_most=0.270)
claim("east_by_product", shares["product"], at_least=0.621, at_most=0.623)
claim("east_by_distance", shares["distance"], at_least=0.066, at_most=0.069)

# %% [markdown]
# At the query's first place and $\tau = 0.2$, E has [[east_equal:.2f]] of the weight. Stretched, it has [[east_by_product:.2f]] by dot
# product and [[east_by_distance:.2f]] by distance: the same longer key is louder for the one and further away for the other.

# %% [markdown]
# ## Takeaways
#
# - A dictionary, and even the nearest key, answers in steps: the slope is zero, and a query cannot be learnt. A weighted
#   average of all values has a slope, the weighted covariance of keys and values over the temperature.
# - The softmax of $q \cdot k_j / \tau$ *is* the weighting by distance if all keys have one length. If not, long keys gain.
# - Low temperature approaches the hard lookup and loses its gradient, high temperature forgets the query. The softmax runs
#   along the keys, so that each query's row sums to one.
# - A decoder with additive attention looks its context up at each step, and reversed rows where one vector failed after
#   as many steps. Its map shows which states were read; a state can hold its neighbours.

# %% [markdown]
# ## Quiz
#
# 1. A network computes a query and takes the value of the nearest key. Why can gradient descent not improve the query?
#
#    - [ ] The nearest key is often the wrong one. :: It may be, but then a gradient would be welcome. There is none, right
#      answer or wrong.
#    - [x] A small move of the query leaves the answer as it is. :: The slope is zero wherever it exists, and at the jumps
#      there is none.
#    - [ ] Finding the nearest key takes too long. :: It takes about as long as the weighted average. Time is not the
#      obstacle.
#
# 2. `scores` has the shape $(B, T, S)$. Which line gives each query weights that sum to one?
#
#    - [x] `scores.softmax(dim=-1)` :: The last axis counts the keys. It is the query that has one whole to share.
#    - [ ] `scores.softmax(dim=1)` :: Axis 1 counts the queries. Each *key* would be shared out among them, and your answer
#      would depend on what others ask.
#    - [ ] `scores.flatten(1).softmax(dim=-1).view_as(scores)` :: Then all queries of a sequence share one whole, and a query
#      gets less the more others ask.
#    - [ ] `scores / scores.sum(dim=-1, keepdim=True)` :: These sum to one, but scores may be negative, and their sum may be
#      zero. The exponential makes all terms positive.
#
# 3. One key is made longer, its direction unchanged. What happens to its weight in a softmax of dot products?
#
#    - [ ] Nothing, since its direction decides. :: It would if the product were divided by both lengths. The plain dot
#      product grows with the key.
#    - [ ] It grows for every query. :: Only where the product is positive. If query and key point in opposite ways, the
#      score becomes more negative.
#    - [x] It grows for queries on its side and shrinks for those on the other. :: Its score is multiplied by a number above one and keeps its sign.
#    - [ ] It shrinks, since the key is now further away from the query. :: So it may be by distance. The dot product lacks
#      the term $-\lVert k \rVert^2/2$ that would say so.
#
# 4. In an encoder-decoder with additive attention, where do query, keys and values come from?
#
#    - [ ] All come from the source. :: Then nobody would ask. What is needed next depends on what has been written.
#    - [ ] The query comes from the encoder, keys and values from the decoder. :: It is the other way round: the one who writes
#      asks, and the one who has read answers.
#    - [ ] The query is the decoder's state, the keys are the encoder's states, and the values are the source tokens. :: Nearly.
#      But what is averaged are the encoder's states, too: key and value are the same vector here.
#    - [x] The query is the decoder's state; the encoder's states are keys and values. :: Each step of the decoder asks anew.
#
# 5. A translator with recurrent networks writes the right word. Its largest attention weight lies on the word beside the
#    one that it translates. What follows?
#
#    - [ ] The model was right by luck. :: A model that reverses random symbols put most of its weight one place off and was
#      right nearly always.
#    - [x] The state there may hold what was needed, so the map alone does not tell. :: A recurrent state has read its
#      neighbours. A linear readout found the left neighbour in it.
#    - [ ] The softmax ran along the wrong axis. :: Then rows would not sum to one. Nothing here says so.
#    - [ ] The temperature was too high. :: That would spread the weights over many words. It would not move the largest.

# %% [markdown]
# ## Where to go from here
#
# The attentive model still has a chain: the decoder's state waits for the one before, and the encoder's states, too. The
# Transformer [@vaswani2017] goes on from here with three ideas, and the rest of
# the course builds them:
#
# - **Attention only.** If each step can look up what it needs, nothing has to be carried along. The recurrent networks go,
#   and the decoder asks the encoder as it did here.
# - **All positions at once.** Each token asks all others by a lookup of its own, and no lookup waits for another. In
#   training a few matrix products do the whole row.
# - **Layers that abstract step by step.** A lookup mixes what is there, and the next one asks about the mixture. With a small
#   network after each, layer upon layer can find relations between relations.
#
# In [lesson 3](03_query_key_value.ipynb), each token makes its own query, key and value.
#
# **Papers.** @nadaraya1964 and @watson1964 have the weighted average, @bahdanau2015 (section 3 and appendix A) the attention,
# and @sutskever2014 the single vector that it replaced. @luong2015 (section 3) puts the dot product in place of the small
# network.
