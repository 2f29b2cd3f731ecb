# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Attention maps
#
# **What does a picture of attention tell?**
#
# A map of [attention weights](../book/pages/glossary.md#attention-weight) is the best-known picture of a
# [Transformer](../book/pages/glossary.md#transformer), and the easiest to read too much into. You train a model so small
# that you know what it *has* to look at, draw its maps well, and then hold what they seem to say against what happens
# when something is taken away.
#
# **You will be able to**
#
# - draw maps that do not mislead by their scale, their choice of head or their averages, and check that they are the
#   weights that the model used;
# - find an attention sink, and say why a softmax makes one;
# - measure what removing a token does, and correlate it with the weight that the token had;
# - compute attention rollout by hand and in code, and name what it leaves out;
# - show when other weights give the same output, and when they do not.
#
# **Before you start** you should know lessons 3 to 7.
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.

# %%
import copy
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from attnlab import claim, contracts, plots, seed, training
from attnlab.attention import causal_mask, masked_softmax
from attnlab.multihead import merge_heads, split_heads
from attnlab.positions import sinusoidal_positions
from attnlab.widgets import MapExplorer

generator = torch.Generator().manual_seed(seed(0))

# %% [markdown]
# ## A model whose task you know
#
# Each text is a list of notes: a start mark `^`, then pairs of a letter and its digit, as in `^ a 3 b 7 a 3`. Digits are
# drawn anew for each text, but within it a letter keeps its digit. The model reads a text and predicts each next
# [token](../book/pages/glossary.md#token). So there are three cases. After a letter that was **known** before, the digit
# is certain, and has to be looked up. After a **new** letter, and after a **digit**, nobody can know what comes, and
# there is nothing to look up.

# %%
TOKENS = ["^", *"abcdef", *"01234567"]


def notes(batch_size, data, pairs=9):
    codes = torch.randint(7, 15, (batch_size, 6), generator=data)            # a digit a letter
    letters = torch.randint(1, 7, (batch_size, pairs), generator=data)       # (B, pairs)
    both = torch.stack([letters, codes.gather(1, letters - 1)], dim=-1)      # (B, pairs, 2)
    text = F.pad(both.flatten(1), (1, 0))                                    # (B, 1 + 2 pairs)
    return text[:, :-1], text[:, 1:]                                         # (B, T) each


def kinds(tokens):
    letter = (tokens >= 1) & (tokens <= 6)                                   # (B, T)
    before = (tokens[:, :, None] == tokens[:, None, :]).tril(-1).any(dim=-1)
    return {"known": letter & before, "new": letter & ~before, "digit": tokens >= 7}


" ".join(TOKENS[number] for number in notes(1, generator)[0][0])

# %% [markdown]
# The model has two layers of four [heads](../book/pages/glossary.md#head). A [causal
# mask](../book/pages/glossary.md#causal-mask) hides what comes later. Each layer is a norm, attention and a sum, as in
# lesson 7, without the [feed-forward network](../book/pages/glossary.md#feed-forward-network): that works on each
# position alone, and maps show what moves *between* positions.
#
# A layer returns its weights and [values](../book/pages/glossary.md#value), so that a picture shows what was computed
# and not a second version of it. And it lets a function `edit` the weights before they are used: later you will.

# %%
class Layer(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(d_model)
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        for linear in (self.w_q, self.w_k, self.w_v, self.w_o):
            nn.init.normal_(linear.weight, std=d_model**-0.5)    # keeps its input's variance

    def forward(self, x, mask, edit=None):                                   # (B, T, d_model)
        normed = self.norm(x)
        q, k, v = (split_heads(project(normed), self.num_heads)              # (B, H, T, d_k)
                   for project in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])            # (B, H, T, T)
        weights = masked_softmax(scores, mask)
        weights = weights if edit is None else edit(weights)
        return x + self.w_o(merge_heads(weights @ v)), weights, v          # x: (B, T, d_model)

# %%
class Reading(NamedTuple):
    logits: Tensor     # (B, T, V)
    maps: Tensor       # (L, B, H, T, T), for each of the L layers
    values: Tensor     # (L, B, H, T, d_v)


class Reader(nn.Module):
    def __init__(self, d_model=48, num_heads=4, num_layers=2):
        super().__init__()
        self.embedding = nn.Embedding(len(TOKENS), d_model)
        self.register_buffer("places", sinusoidal_positions(32, d_model))
        self.layers = nn.ModuleList(Layer(d_model, num_heads) for _ in range(num_layers))
        self.readout = nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, len(TOKENS)))

    def forward(self, tokens, mask=None, edits=(None, None)):                # (B, T)
        T = tokens.shape[1]
        mask = causal_mask(T) if mask is None else mask
        x, maps, values = self.embedding(tokens) + self.places[:T], [], []   # (B, T, d_model)
        for layer, edit in zip(self.layers, edits):
            x, weights, v = layer(x, mask, edit)
            maps.append(weights)
            values.append(v)
        return Reading(self.readout(x), torch.stack(maps), torch.stack(values))

# %% [markdown]
# We train it with a learning rate that rises at first and then falls.

# %%
torch.set_flush_denormal(True)    # numbers below 1e-38 count as 0: they are slow


def predicts(reading, following):
    return F.cross_entropy(reading.logits.flatten(0, 1), following.flatten())


def train(model, batches, steps, loss=predicts):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, betas=(0.9, 0.98), fused=True)
    training.fit(
        model, batches, steps=steps, optimizer=optimizer, loss=loss,
        schedule=lambda step: min(1, step / 50) * (1 + math.cos(math.pi * step / steps)) / 2)
    return model.eval().requires_grad_(False)


torch.manual_seed(seed(1))
model = train(Reader(), (notes(64, generator) for _ in range(900)), steps=900)

# %%
tokens, following = notes(200, generator)                                    # (B, T) each
reading, kind = model(tokens), kinds(tokens)
maps, values = reading.maps, reading.values


def share_right(reading):
    return (reading.logits.argmax(dim=-1) == following)[kind["known"]].float().mean()


certainty = reading.logits.softmax(dim=-1).amax(dim=-1)                      # (B, T)
claim("right", share_right(reading), at_least=0.99)
claim("certainty_new", certainty[kind["new"]].mean(), at_most=0.2)

# %% [markdown]
# After known letters [[right:.1%]] of its predictions are right. After new letters it gives its best guess a probability of
# [[certainty_new:.2f]], where one of eight digits deserves [[=0.125]]. It has learnt the task, and knows when it does not know.
#
# ## Good pictures
#
# Below are all eight heads on one text. A row is a [query](../book/pages/glossary.md#query): the token that has just been
# read. Hatched cells are hidden by the mask. **Before you look:** what must a head look at from the second `b`, whose
# digit is known?

# %%
def encode(text):
    return torch.tensor([[TOKENS.index(token) for token in text.split()]])   # (1, T)


text = "^ a 3 b 7 a 3 c 1 b 7 d"
words, example = text.split(), model(encode(text))
plots.small_multiples(
    [head for layer in example.maps for head in layer[0]],
    titles=[f"layer {layer}, head {head}" for layer in (1, 2) for head in (1, 2, 3, 4)],
    rows=words, columns=words, mask=causal_mask(len(words)),
    alt="Eight maps of one text, four heads in each of two layers. In layer 1 some heads look "
        "at the token before. In layer 2 known letters look at the digit behind their earlier "
        "copy in some heads, and most digits and new letters look at the start mark.")

# %% [markdown]
# Find the row of the second `b` in the maps of layer 2: in some head its weight stands on the 7 behind the first `b`.
# And in layer 1, look for a head in which digits look one token back.
#
# Four habits went into this figure. *All heads are shown*, not the one that fits the story. *All maps share one scale*
# from 0 to 1. *The mask is drawn*, since a white cell that could not be anything else is no finding. And *rows are
# queries*, and say so.
#
# How much can a scale do? Many programs stretch each map from its own lowest to its own highest number. Take the last row
# of the evenest head of layer 1, and of the head of layer 2 that does the lookup. We find that head by what it does: the
# weight that it gives, after known letters, to the digit behind an earlier copy.

# %%
def sources(tokens):
    """(B, T, T) twice: earlier copies of each letter, and the digits behind these copies."""
    letter = (tokens >= 1) & (tokens <= 6)
    copies = (tokens[:, :, None] == tokens[:, None, :]).tril(-1) & letter[:, :, None]
    return copies, F.pad(copies, (1, 0))[..., :-1].tril(-1)


def entropy(weights):
    return -(weights * weights.clamp_min(1e-9).log()).sum(dim=-1)            # (..., T)


copies, digits = sources(tokens)
late = torch.arange(tokens.shape[1]) >= 4                                    # (T,)
known, new, digit = (kind[name] & late for name in ("known", "new", "digit"))
on_source = (maps[1] * digits[:, None]).sum(dim=-1)                          # (B, H, T)
by_head = on_source.transpose(1, 2)[known].mean(dim=0)                       # (H,)
lookup, evenest = by_head.argmax(), entropy(maps[0])[..., -1].mean(dim=0).argmax()
claim("lookup_weight", by_head[lookup], at_least=0.9)
claim("evenest_largest", maps[0][:, evenest, -1].amax(dim=-1).mean(), at_most=0.45)

# %% [markdown]
# The lookup head gives the right digit [[lookup_weight:.3f]]. In the evenest head's last row the largest weight is
# [[evenest_largest:.2f]] on average: on a scale of its own it would be just as dark.
#
# **Arcs** show one head as lines from queries to keys. They are good for long texts, and they need a threshold: what is
# below it is gone without a trace. How much of all weight do arcs of at least 0.2 draw?

# %%
def arcs(weights, words, least=0.2):
    with plots.style():
        figure = Figure(figsize=(7, 2.2))
        axes = figure.subplots()
        for t, s in (weights >= least).nonzero().tolist():
            turn = torch.linspace(0, math.pi, 40)
            axes.plot((t + s) / 2 + (t - s) / 2 * turn.cos(), (t - s) ** 0.7 * turn.sin(),
                      color=plots.COLOURS["weight"], linewidth=3 * weights[t, s].item())
        axes.set_xticks(range(len(words)), words)
        axes.set_yticks([])
        axes.set_xlabel("a line leads from a query back to a key")
    return figure


drawn = {name: (head[..., late, :] * (head[..., late, :] >= 0.2)).sum(dim=-1).mean()
         for name, head in [("lookup", maps[1][:, lookup]), ("evenest", maps[0][:, evenest])]}
claim("drawn_lookup", drawn["lookup"], at_least=0.8)
claim("drawn_evenest", drawn["evenest"], at_most=0.8)
plots.show(arcs(example.maps[1, 0, lookup], words),
           alt="Arcs of the lookup head. From the second a an arc leads to the first 3, from "
               "the second b to the first 7; other tokens lead to the start mark or nearby.")

# %% [markdown]
# Of the lookup head [[drawn_lookup:.0%]] is drawn, of the evenest [[drawn_evenest:.0%]]. State the share with the figure.
#
# **Averages** are the third way to mislead. One may average over heads, as many programs do without saying so, and over
# texts, to show "the" map of a head.

# %%
on_before = maps[0].diagonal(offset=-1, dim1=-2, dim2=-1).transpose(1, 2)    # (B, T - 1, H)
before_by_head = on_before[digit[:, 1:]].mean(dim=0)                         # (H,)
one_text = entropy(maps[1][:, lookup])[:, -1].mean()                      # each text's own row
all_texts = entropy(maps[1][:, lookup].mean(dim=0))[-1]                    # the mean map's row
claim("one_back", before_by_head.max(), at_least=0.5)
claim("mean_over_heads", before_by_head.mean(), at_most=0.75)
claim("hidden_by_mean", before_by_head.max() - before_by_head.mean(), at_least=0.1)
claim("entropy_one", one_text, at_most=1.1)
claim("entropy_all", all_texts, at_least=1.6)

# %% [markdown]
# - *Over heads*: one head of layer 1 lets digits look one token back, with a weight of [[one_back:.2f]]. The mean over
#   heads shows [[mean_over_heads:.2f]], which is [[hidden_by_mean:.2f]] less. A mean of one half may be four heads that
#   hesitate, or two that are sure and two with other work.
# - *Over texts*, a row that has an [entropy](../book/pages/glossary.md#entropy) of [[entropy_one:.2f]] in each single text
#   has [[entropy_all:.2f]] in the mean map. The head looks at one digit, wherever it stands. The mean shows a blur, as if
#   it looked at all.
#
# ## Are these the weights that were used?
#
# Take PyTorch's own module in training mode, with [dropout](../book/pages/glossary.md#dropout), and ask for its weights.

# %%
torch.manual_seed(seed(3))
theirs = nn.MultiheadAttention(8, 2, dropout=0.4, batch_first=True)
x = torch.randn(3, 6, 8, generator=generator)                                # (B, T, d_model)
training_sums = theirs(x, x, x)[1].sum(dim=-1)                               # (B, T)
shape = tuple(theirs(x, x, x)[1].shape)
single = theirs.eval()(x, x, x, average_attn_weights=False)[1]               # (B, H, T, T)
claim("largest_sum", training_sums.max(), at_least=1.1)
claim("smallest_sum", training_sums.min(), at_most=0.9)
contracts.rows_sum_to_one(single)
shape, tuple(single.shape)

# %% [markdown]
# Rows sum to between [[smallest_sum:.2f]] and [[largest_sum:.2f]]: these weights were kept *after* dropout. Links that the
# model has are missing from such a picture, and the rest are too dark. And the first shape has no axis of heads: they
# were averaged, by default. Call `eval()`, ask for single heads, and test three things before you draw: the shape is
# $(B, H, T, S)$, each row sums to one, and weights times values give the head's output. For our model:

# %%
contracts.rows_sum_to_one(maps, causal_mask(tokens.shape[1]))
before = model.embedding(tokens) + model.places[:tokens.shape[1]]            # (B, T, d_model)
for layer, weights, v in zip(model.layers, maps, values):
    before = before + layer.w_o(merge_heads(weights @ v))                    # (B, T, d_model)
rebuilt = model.readout(before)
claim("rebuilt", (rebuilt - reading.logits).abs().max(), at_most=1e-4)

# %% [markdown]
# From its maps and values alone we get the model's outputs back. The largest difference is [[rebuilt:.1g]].
#
# ## Rows with nothing to look up
#
# After a digit there is nothing to look up. But a softmax row sums to one: its weight has to go somewhere. Look at the
# rows of digits and of new letters in the maps of layer 2, first column.

# %%
on_start = maps[1][..., 0].transpose(1, 2)                                   # (B, T, H)
sink = on_start[digit].mean(dim=0).argmax()
start_weight = {"digit": on_start[digit].mean(dim=0)[sink],
                "known": on_start[known].mean(dim=0)[lookup]}
claim("sink_weight", start_weight["digit"], at_least=0.8)
claim("sink_known", start_weight["known"], at_most=0.1)
start_value = values[1][:, sink, 0]                                          # (B, d_v)
claim("sink_varies", start_value.std(dim=0).max(), at_most=1e-6)
others = values[1][:, sink, 1:].norm(dim=-1).mean()
claim("sink_length", start_value.norm(dim=-1).mean() / others, at_least=1.0)

# %% [markdown]
# In one head digits give the start mark [[sink_weight:.2f]] of their weight, on average. A key that takes the weight
# nobody else needs is called an [attention sink](../book/pages/glossary.md#attention-sink). Where there is something to
# look up, the lookup head leaves it alone ([[sink_known:.0e]]).
#
# What does the sink hand over? `^` sees nothing but itself, so its value is the same vector in every text: it varies by
# [[sink_varies:.0f]]. The darkest column of the map says nothing about the text. It says that there was nothing to say.
#
# @clark2019 (section 3.2) found such heads in BERT, on the separator mark. @xiao2024 (section 3.1) found them on the first
# token of language models, whatever it is, and models that broke when it was dropped. Is it so here? Hide the sink in
# layer 2, and let the other keys share its weight:

# %%
def without_start(weights):
    kept = weights.clone()
    kept[..., 1:, 0] = 0.0
    return kept / kept.sum(dim=-1, keepdim=True)                             # (B, H, T, T)


def shift(a, b):
    """Half the summed difference of two predictions: 0 if equal, 1 if they share nothing."""
    return (a.softmax(dim=-1) - b.softmax(dim=-1)).abs().sum(dim=-1) / 2     # (B, T)


no_sink = shift(reading.logits, model(tokens, edits=(None, without_start)).logits)
moved = {name: no_sink[rows].mean() for name, rows in [("known", known), ("digit", digit)]}
claim("no_sink_known", moved["known"], at_most=0.005)
claim("no_sink_digit", moved["digit"], at_least=0.01)

# %% [markdown]
# Predictions are compared by their *shift*, half the sum of the absolute differences of two distributions, from 0 to 1. After
# known letters it is [[no_sink_known:.4f]]: no sink needed. After digits it is [[no_sink_digit:.2f]] (over
# [[no_sink_digit:seeds]] seeds [[no_sink_digit:range:.2f]]): weight that had been parked now falls on tokens that *do* say
# something, and moves a prediction that should not depend on them. How far is a matter of the seed.
#
# "A sink's value is nearly zero", one reads, and for large language models @guo2024 measured it. Here the sink's value is
# [[sink_length:.1f]] times as long as the others. A constant can be taken away by the layer's other parts; it need not be
# small.
#
# ## Does weight mean effect?
#
# Now the central question. For each query, hide one earlier token from everybody, in both layers, and measure the shift
# of the prediction. **Before you run this:** for a known letter, which tokens will matter, and will they be those with
# weight?

# %%
def removal_effects(model, tokens):
    """Shift of each query's prediction when a key is hidden from all others: (B, T, T)."""
    T, whole, effects = tokens.shape[1], model(tokens).logits, []
    for j in range(T):
        mask = causal_mask(T)
        mask[:, j] = False
        mask[j, j] = True                                                # it still sees itself
        effects.append(shift(whole, model(tokens, mask).logits))             # (B, T)
    return torch.stack(effects, dim=-1)


effects = removal_effects(model, tokens)
raw = maps[1].mean(dim=1)                                                    # (B, T, T)
times_seen = digits.sum(dim=-1)                                              # (B, T)
once, often = known & (times_seen == 1), known & (times_seen >= 2)
roles = {"its digit, seen once": digits & once[..., None],
         "its digit, seen more often": digits & often[..., None],
         "its letter, seen once": copies & once[..., None]}
weight = {name: raw[cells].mean() for name, cells in roles.items()}
effect = {name: effects[cells].mean() for name, cells in roles.items()}

# %% [markdown]
# In the figure, look for points far from a rising line: at the top left, and at the bottom right.

# %%
def scatter(weights, few=25):
    with plots.style():
        figure = Figure(figsize=(7, 3.4))
        axes = figure.subplots()
        rest = known[..., None] & causal_mask(tokens.shape[1]).tril(-1)
        for cells in roles.values():
            rest = rest & ~cells
        looks = zip([*roles.items(), ("any other token", rest)],
                    ["a", "b", "c", "f"], "osD.")
        for (name, cells), colour, marker in looks:
            axes.scatter(weights[:few][cells[:few]], effects[:few][cells[:few]], s=16,
                         label=name, color=plots.COLOURS[colour], marker=marker, alpha=0.6)
        axes.set_xlabel("weight in layer 2, mean over heads")
        axes.set_ylabel("effect of removing it")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    return figure


plots.show(scatter(raw),
           alt="Scatter plot of the effect of removing a token against its weight, for "
               "queries with a known letter. A digit that was seen once has a large weight "
               "and a large effect. Its letter has a small weight and as large an effect. A "
               "digit that was seen more often has weight and no effect.")

# %%
claim("once", {"weight": weight["its digit, seen once"],
               "effect": effect["its digit, seen once"]}, at_least=0.3)
claim("letter_weight", weight["its letter, seen once"], at_most=0.25)
claim("letter_effect", effect["its letter, seen once"], at_least=0.6)
claim("often_weight", weight["its digit, seen more often"], at_least=0.15)
claim("often_effect", effect["its digit, seen more often"], at_most=0.05)

# %% [markdown]
# - The **digit, seen once**: weight [[once[weight]:.2f]], effect [[once[effect]:.2f]]. Here the map tells what you hoped.
# - The **letter before it**: weight [[letter_weight:.4f]], effect [[letter_effect:.2f]]. Layer 1 has carried the letter to
#   its digit; in layer 2 it is the digit's place that is looked at, for what *stands there by now*. A map shows places,
#   not where their contents came from.
# - The **digit, seen more often**: weight [[often_weight:.2f]], effect [[often_effect:.4f]]. Another copy says the same. It
#   was used, and it is not missed.
#
# :::{admonition} The common confusion: a high weight means that the token matters
# :class: caution
# Three questions get mixed up. *Was it looked at?* The weight answers that. *Did its content enter the output?* That takes
# the value, too: the sink is looked at and has nothing to tell. *Would the answer change without it?* Only taking it away
# tells, and even then a copy may stand in. Over all earlier tokens of the known letters' rows, how far does the one go
# with the other?
# :::

# %%
def ranks(x):
    _, place, count = x.unique(return_inverse=True, return_counts=True)
    return (count.cumsum(0) - (count - 1) / 2)[place]                       # ties share a rank


def correlations(weights, rows):
    cells = rows[..., None] & causal_mask(tokens.shape[1]).tril(-1)          # (B, T, T)
    a, b = weights[cells], effects[cells]
    pairs = {"values": (a, b), "ranks": (ranks(a), ranks(b))}
    return {name: torch.corrcoef(torch.stack(pair))[0, 1] for name, pair in pairs.items()}


raw_correlation = correlations(raw, known)
claim("raw_correlation", raw_correlation["values"], at_least=0.3, at_most=0.85)
claim("raw_ranks", raw_correlation["ranks"], at_least=0.1, at_most=0.7)

# %% [markdown]
# The correlation is [[raw_correlation:.2f]], and that of their ranks [[raw_ranks:.2f]] (over [[raw_ranks:seeds]] seeds
# [[raw_ranks:range:.2f]]). Weights are not noise, and they are not effects. @jain2019 (section 4.1) found weak
# correlations in recurrent classifiers.
#
# ## Following the weight through the layers
#
# The letter's credit was lost because layer 2 looks at places that layer 1 has filled. [Attention
# rollout](../book/pages/glossary.md#attention-rollout) [@abnar2020, section 3] follows the weight down. Treat a layer as
# if it mixed the positions, half by its mean map $A$ and half by the [residual
# connection](../book/pages/glossary.md#residual-connection), which keeps each position where it is; then multiply:
#
# $$\hat A = \tfrac12 A + \tfrac12 I, \qquad R = \hat A_L \cdots \hat A_2 \hat A_1 .$$
#
# By hand, for three tokens `b 7 b`. In layer 1 the 7 looks at the first `b` alone, in layer 2 the second `b` looks at the
# 7 alone; all others look at themselves. So $\hat A_2$ has the last row $(0, \tfrac12, \tfrac12)$: half from the 7, half
# its own. And $\hat A_1$ says what stands at the 7: $(\tfrac12, \tfrac12, 0)$. Half of a half, and the letter gets
# $\tfrac14$, the digit $\tfrac14$, the second `b` itself $\tfrac12$.

# %%
def rollout_loop(mean_maps):
    num_tokens = len(mean_maps[0])
    flow = [[float(i == k) for k in range(num_tokens)] for i in range(num_tokens)]
    for A in mean_maps:                                                      # from below
        T = range(len(A))
        step = [[(A[i][j] + float(i == j)) / 2 for j in T] for i in T]
        flow = [[sum(step[i][j] * flow[j][k] for j in T) for k in T] for i in T]
    return flow


by_hand = [[[1.0, 0, 0], [1, 0, 0], [0, 0, 1]], [[1.0, 0, 0], [0, 1, 0], [0, 1, 0]]]
rollout_loop(by_hand)[-1]

# %% [markdown]
# As matrices, for all texts at once:

# %%
def rollout(maps):
    """Attention rollout of maps (L, B, H, T, T): what each position is made of, (B, T, T)."""
    identity = torch.eye(maps.shape[-1])
    flow = identity
    for weights in maps:                                                     # (B, H, T, T)
        flow = (weights.mean(dim=-3) + identity) / 2 @ flow                  # (B, T, T)
    return flow


looped = torch.tensor(rollout_loop(example.maps[:, 0].mean(dim=1).tolist()))
claim("rollout_difference", (rollout(example.maps)[0] - looped).abs().max(), at_most=1e-6)
flow = rollout(maps)
contracts.rows_sum_to_one(flow)
share = {name: (weights[roles["its letter, seen once"]].mean()
                / weights[roles["its digit, seen once"]].mean())
         for name, weights in [("raw", raw), ("rollout", flow)]}

# %% [markdown]
# Loop and matrices differ by [[rollout_difference:.0e]], and rows still sum to one. Does the letter get its credit?

# %%
rollout_correlation = correlations(flow, known)
gain = rollout_correlation["ranks"] - raw_correlation["ranks"]
claim("letter_share", share, at_most=0.9)
claim("letter_gain", share["rollout"] - share["raw"], at_least=0.2)
claim("rollout_correlation", rollout_correlation["values"], at_least=0.3, at_most=0.9)
claim("rollout_ranks", rollout_correlation["ranks"], at_least=0.5)
claim("rank_gain", gain, at_least=0.05)
claim("often_rollout", flow[roles["its digit, seen more often"]].mean(), at_least=0.03)

# %% [markdown]
# Where its letter stood once, the raw map gives that letter [[letter_share[raw]:.4f]] of what it gives the digit, rollout
# [[letter_share[rollout]:.2f]], a gain of [[letter_gain:.2f]] (over [[letter_gain:seeds]] seeds
# [[letter_gain:range:.2f]]). The rank correlation with the effect rises by [[rank_gain:.2f]] to [[rollout_ranks:.2f]];
# the plain one goes from [[raw_correlation:.2f]] to [[rollout_correlation:.2f]]. @abnar2020 (section 4) found such gains in
# larger models. What rollout does not know: the values, so it believes the sink; that two copies say the same
# ([[often_rollout:.2f]] for a digit that nobody would miss); and how large the residual stream is beside what attention
# adds. One half is a convention.
#
# ## The same output from other weights
#
# If other weights give the same output, can these be *the* reason? First, exactly. A head's output is $wV$: $d_v$ numbers.
# Together with the sum of one that makes $d_v + 1$ conditions on $S$ weights. Where $S > d_v + 1$, there are directions in
# which the weights can move and the output stays [@brunner2020, section 3]. Here $d_v = 12$, and the last row has 18 keys.

# %%
rows = torch.cat([values[1][0, lookup], torch.ones(tokens.shape[1], 1)], dim=1)  # (S, d_v + 1)
claim("conditions", torch.linalg.matrix_rank(rows.double()), equals=13)
claim("directions", len(rows) - torch.linalg.matrix_rank(rows.double()), equals=5)

# %% [markdown]
# [[conditions:.0f]] independent conditions leave [[directions:.0f]] directions free. But weights cannot be negative, and
# that can stop the move at once. So take one key, and lower its weight as far as the other keys can make up for it:

# %%
def lower(w, V, key):
    """Weights (S,) with the same output and sum as w, and as little on this key as can be."""
    w, free = w.double().clone(), torch.ones(len(w), dtype=torch.bool)
    goal = -F.one_hot(torch.tensor(key), len(w)).double()                    # (S,)
    conditions = torch.cat([V.double(), torch.ones(len(w), 1)], dim=1)       # (S, d_v + 1)
    while free[key]:
        C, step = conditions[free], torch.zeros_like(w)
        step[free] = goal[free] - C @ (torch.linalg.pinv(C) @ goal[free])    # leaves C.T @ w
        falling = step < -1e-9
        if not falling.any():
            break
        w = w + (w[falling] / -step[falling]).min() * step                  # until one is zero
        free = free & (w > 1e-9)
        w[~free] = 0.0
    return w


def farthest(w, V):
    found = [lower(w, V, key) for key in range(len(w))]
    return max(found, key=lambda other: (other - w).abs().sum())

# %%
wide = [(maps[0][b, evenest, -1], values[0][b, evenest]) for b in range(30)]
sharp = [(maps[1][b, lookup, t], values[1][b, lookup, :t + 1])
         for b, t in once.nonzero().tolist() if t >= 15][:30]
moves, drift = {}, []
for name, cases in [("evenest", wide), ("lookup", sharp)]:
    other = [(w[:len(V)], farthest(w[:len(V)], V), V) for w, V in cases]
    moves[name] = sum((a - b).abs().sum().item() / 2 for a, b, _ in other) / len(other)
    drift += [(a.double() @ V.double() - b @ V.double()).abs().max() for a, b, V in other]
claim("drift", max(drift), at_most=1e-5)
claim("move_evenest", moves["evenest"], at_least=0.1)
claim("move_lookup", moves["lookup"], at_most=0.05)

# %% [markdown]
# The output stays the same to [[drift:.0e]]. In the evenest head of layer 1, [[move_evenest:.0%]] of a row's weight can
# be moved to other keys on average. In the lookup head, where one weight is nearly all, [[move_lookup:.2%]]. Longer texts
# and narrower heads have more freedom; sure rows have little, whatever their length.
#
# Below is one row of the evenest head, and beside it the row farthest from it that we found with the same output. **At which
# keys do they part?**

# %%
even, V = wide[0]
other = farthest(even, V).float()
plots.lines(list(range(len(even))), {"the model's": even.tolist(), "others": other.tolist()},
            x="position of the key", y="weight",
            alt="Two rows of weights over the same 18 keys. They are about the same at early "
                "keys and apart at late ones, some weights larger and some smaller, and give "
                "the same output to five decimals.")

# %% [markdown]
# They part at later keys, of which some get more and some get less, and the output does not show it.
#
# Second, nearly. @jain2019 (section 4.2) shuffled the weights of trained classifiers and searched for others, and
# predictions often hardly changed: "attention is not explanation". @wiegreffe2019 answer that a classifier may not need
# attention at all, and ask for controls (section 3): do predictions survive *equal* weights? Try both in layer 2.

# %%
seen = causal_mask(tokens.shape[1])


def shuffled(weights):
    noise = torch.rand(len(weights), 1, *seen.shape, generator=generator)    # one order a text
    order = noise.masked_fill(~seen, 2.0).argsort(dim=-1).expand_as(weights)
    return weights.gather(-1, order)                                         # (B, H, T, T)


def equal(weights):
    return (seen / seen.sum(dim=-1, keepdim=True)).expand_as(weights)        # (B, H, T, T)


shifts = {name: shift(reading.logits, model(tokens, edits=(None, edit)).logits)[known].mean()
          for name, edit in [("shuffled", shuffled), ("equal", equal)]}
claim("edited_shift", dict(shifts), at_least=0.4)

# %% [markdown]
# Shuffled weights shift the predictions by [[edited_shift[shuffled]:.2f]], equal ones by [[edited_shift[equal]:.2f]].
# *This* model, with these parameters, needs its weights. But must a model have these maps to do the task? @wiegreffe2019
# (section 4) train an adversary: it is rewarded for right predictions, and for maps unlike the model's. How unlike, the
# *Jensen-Shannon divergence* of the mean maps' rows says: the entropy of two rows' mean, less the mean of their entropies.
# Divided by $\ln 2$ it is 0 for equal rows and 1 for rows that share no key.

# %%
def divergence(a, b):
    return (entropy((a + b) / 2) - (entropy(a) + entropy(b)) / 2) / math.log(2)   # (..., T)


def with_maps(steps):
    for _ in range(steps):
        tokens, following = notes(64, generator)
        yield tokens, (following, model(tokens).maps.mean(dim=2))            # (L, B, T, T)


def predicts_otherwise(reading, targets):
    following, avoided = targets
    apart = divergence(reading.maps.mean(dim=2), avoided).mean(dim=(1, 2))   # (L,)
    return predicts(reading, following) - 0.35 * apart.sum()


adversary = copy.deepcopy(model).requires_grad_()
adversary = train(adversary, with_maps(400), 400, predicts_otherwise)
other = adversary(tokens)
apart = divergence(maps.mean(dim=2), other.maps.mean(dim=2))                 # (L, B, T)
shifts["adversary"] = shift(reading.logits, other.logits)[known].mean()

# %%
claim("adversary_right", share_right(other), at_least=0.99)
claim("adversary_shift", shifts["adversary"], at_most=0.05)
claim("adversary_apart", {"layer 1": apart[0][:, late].mean(),
                          "layer 2": apart[1][:, late].mean()}, at_least=0.2)
plots.bars(shifts, y="shift of the prediction after known letters",
           roles={"adversary": "b"},
           alt="Shift of the prediction after known letters. Shuffled and equal weights shift "
               "it a lot, a model trained to have other maps hardly at all.")

# %% [markdown]
# The adversary gets [[adversary_right:.1%]] right, shifts the predictions by [[adversary_shift:.3f]], and its maps are
# [[adversary_apart[layer 1]:.2f]] apart from the model's in layer 1, [[adversary_apart[layer 2]:.2f]] in layer 2. Both
# sides have a point. A map is not arbitrary *within* a model: change the weights alone, and the predictions go. But it is a
# map of *one* set of parameters, not of the task. Do not read a law from it.
#
# ## One question, three answers
#
# For the second `b` of the text above: where does the weight lie, where does rollout lead, and what is missed when it is
# gone? Compare the rows at the first `b` and at the `7` behind it.

# %%
place, ours = 9, removal_effects(model, encode(text))[0]
answers = torch.stack([example.maps[1, 0].mean(dim=0)[place], rollout(example.maps)[0, place],
                       ours[place]])[:, :place]                              # (3, 9)
claim("example_letter", {"effect": answers[2, 3]}, at_least=0.3)
plots.matrix(answers, rows=["weight, layer 2", "rollout", "effect"], columns=words[:place],
             x="earlier tokens", y="", label="0 to 1",
             alt="Three rows over the nine tokens before the second b: the weight of layer 2 "
                 "is mostly on the first 7, rollout is spread with some on the first b and "
                 "the 7, and removing either the first b or the 7 changes the prediction.")

# %% [markdown]
# Removing the first `b` shifts the prediction by [[example_letter[effect]:.2f]]. If somebody shows you the first row alone
# and says that the model used the 7 and ignored the `b`, you know what to ask for.

# %% [markdown]
# ## See it move
#
# Here are all maps of that text, one row a layer, with their mean and with rollout through the layers so far. Open one by a
# click or with the arrow keys, and choose a row in the large map. Its weights stand beside it, and below them what the
# chosen cell has in every map of the layer. The first `7` is chosen, and its weight on the `b` before it in layer 1.
# **Before you look at the bars, open the mean: how many heads look back at that `b`?**

# %%
above = torch.cat([example.maps[1, 0], rollout(example.maps)])               # (H + 1, T, T)
tops = above.sum(dim=-2).argmax(dim=-1)                                      # (H + 1,)
claim("sink_maps", (tops == 0).sum(), at_least=4)
claim("b_in_layer_2", answers[0, 3], at_most=0.2)
claim("b_in_rollout", answers[1, 3], at_least=0.05)
MapExplorer(example.maps[:, 0], words, mask=causal_mask(len(words)), layer=0,
            head=before_by_head.argmax(), row=4)

# %% [markdown]
# The mean cannot tell you: four heads made it, and the bars show each of them. Now open layer 2 and choose the second `b`, at place
# 10. Go through its heads, then open rollout, and watch the first `b`, at place 4. Layer 2 gives it [[b_in_layer_2:.6f]] in
# the mean. Rollout gives it [[b_in_rollout:.2f]], because layer 1 has carried it to the 7.
#
# Last, look at the marks ▲ below the maps of layer 2: each stands under the key that gets most. Of the five maps beside the
# mean, four heads and rollout, that is `^` in [[sink_maps:.0f]]. It sends the same vector in every text, and rollout, which knows no values,
# believes it all the same.
#
# ## What this lesson did not show
#
# Two layers, made-up notes and a task that needs attention. In a classifier whose hidden states already know the answer,
# shuffling may change little. Hiding a token is not the only way to remove one: exchange it for another, and other numbers
# come out. Correlations pool the rows of all texts. And nothing here says what a head *computes*; that takes experiments
# on heads (lesson 17).
#
# ## Takeaways
#
# - Draw all heads on one scale with the mask, name the threshold of arcs, and distrust averages. Check shape, row sums, and
#   that weights times values give the output.
# - A row must sum to one. With nothing to look up its weight goes to a sink: a dark column that hands over a constant.
# - Weight is not effect. A filled place hides where its content came from, and a copy makes a used token expendable. Remove
#   tokens and measure.
# - Rollout multiplies $\tfrac12 A + \tfrac12 I$ through the layers. It finds origins that the last map hides, and knows
#   neither values nor copies.
# - Where there are more keys than $d_v + 1$, weights are not fixed by the output; sure rows hardly move all the same. Whether
#   a model needs its weights is to be measured, and another model with the same answers may have other maps.

# %% [markdown]
# ## Quiz
#
# 1. A figure shows one map for a layer with eight heads. A row has 0.5 on one word. What may you conclude?
#
#    - [ ] Every head gives that word about half of its weight. :: That is one way to get this mean. Four heads that give it
#      everything and four that give it nothing are another.
#    - [x] Nothing about a single head. :: The map is a mean over heads, and many different rows have the same mean. Ask for the
#      shape $(B, H, T, S)$.
#    - [ ] That the word makes up half of the layer's output. :: What enters the output is weight times value, and values have
#      different lengths and directions.
#
# 2. You fetch weights from a model, and some rows sum to [[=1.4]]. What is most likely?
#
#    - [x] Dropout was on, and the weights were kept after it. :: What dropout keeps it makes larger, so that rows sum to one only
#      on average. Call `eval()`.
#    - [ ] The softmax ran along the queries. :: Then rows could sum to anything, too, so it is worth a look. But it would also be
#      so in evaluation, and such a model would hardly have been published.
#    - [ ] Rounding, since the model runs in half precision. :: Half precision is off by about a thousandth, not by 0.4.
#    - [ ] The head has found several relevant keys. :: However many there are, a softmax shares one whole among them.
#
# 3. In a language model, most heads give most of their weight to the first token, whatever it is. A good reading is:
#
#    - [ ] The first word of a text is the most important one. :: The weight stays if the word is replaced. It is the place that
#      attracts it, since every query can see it.
#    - [ ] These heads are broken and can be removed. :: A head may rest on most tokens and work on a few. Our lookup head does.
#    - [x] Most heads have nothing to look up at most tokens. :: A row has to sum to one, and a key that hands over nothing of use
#      is a safe place for the rest. Hide it, and that weight falls on others.
#
# 4. The last layer gives a token a weight of [[=0.3]], and hiding that token changes nothing. Which explanation does **not** work?
#
#    - [ ] Another token says the same. :: It does work: so it was with letters that had been seen more than once.
#    - [ ] The token's value has next to no part in the output. :: It does work: a sink may have weight and little to say.
#    - [x] The weight was computed in the wrong layer. :: The last layer's weight was really used to mix its values. No other layer
#      takes that back. It only does not follow that the token is needed.
#
# 5. A head has $d_v = 64$. For a text of 50 tokens, can its weights be changed without changing its output?
#
#    - [x] In general not. :: There are 65 conditions on 50 weights. If no value is a mixture of the others, the output fixes the
#      weights.
#    - [ ] Yes, since attention is not explanation. :: Freedom appears where there are more keys than $d_v + 1$. Fifty are fewer.
#    - [ ] Yes, by dividing all of them by two. :: Then the row would sum to one half, and the output would be halved, too.

# %% [markdown]
# ## Where to go from here
#
# **Now you:** in [the exercises](../exercises/16_attention_maps.ipynb) you build rollout, find a sink and refute claims read
# off a map. **Next:** in lesson 17 you switch heads off, and find out what they compute.
#
# **Papers.** @jain2019 and @wiegreffe2019 are best read together. @abnar2020 has rollout, and a second method by the maximal flow.
# @brunner2020 asks when weights are identifiable. @clark2019 looks at BERT, @xiao2024 and @guo2024 at sinks.
