# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Positions
#
# **How does a set become a sequence?**
#
# Attention does not know where a token stands. Four ways to tell it are in use. They differ in the jobs that they are
# good at, and most of all in what happens beyond the lengths that a model was trained on. That is what you will measure.
#
# **You will be able to**
#
# - say what attention cannot do without positions, and show it;
# - write sinusoidal, rotary and ALiBi positions, and prove from an angle what each makes the
#   [scores](../book/pages/glossary.md#score) depend on;
# - translate rotary weights from one layout into the other;
# - say which way keeps working on longer sequences than it was trained on, and at what kind of job.
#
# **Before you start** you should know lessons 3 to 5, and the sine and cosine of a sum.
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.

# %%
import math

import torch
import torch.nn.functional as F
from torch import nn

from attnlab import claim, contracts, plots, seed, training
from attnlab.attention import causal_mask
from attnlab.multihead import MultiHeadAttention
from attnlab.widgets import ExtrapolationMap, RotaryExplorer

generator = torch.Generator().manual_seed(seed(0))

# %% [markdown]
# ## A set
#
# *Dog bites man* and *man bites dog* hold the same three words. In lesson 3 you saw that
# [self-attention](../book/pages/glossary.md#self-attention) without a mask is
# [permutation equivariant](../book/pages/glossary.md#permutation-equivariance): shuffle the tokens, and the outputs are
# shuffled in the same way, otherwise unchanged. So *dog* gets the same vector in both sentences, and nothing that comes
# after can tell who bites.
#
# That is true of several heads as well. The contract is silent, so it holds:

# %%
torch.manual_seed(seed(0))
heads = MultiHeadAttention(d_model=16, num_heads=4)
x = torch.randn(2, 5, 16, generator=generator)                        # (B, T, d_model)
contracts.permutation_equivariant(lambda x: heads(x), x)

# %% [markdown]
# ## Add a vector for each place
#
# The plainest remedy: give every place a vector of its own and add it to the token's
# [embedding](../book/pages/glossary.md#embedding). *dog* at place 0 and *dog* at place 2 are then different vectors. If
# the table of these vectors is learnt like any other parameter, we speak of *learned positions*.
#
# @vaswani2017 (section 3.5) fills the table by a formula instead. Place $p$ gets, in dimensions $2i$ and $2i+1$,
#
# $$PE(p, 2i) = \sin(p\, \omega_i), \qquad PE(p, 2i+1) = \cos(p\, \omega_i), \qquad \omega_i = 10000^{-2i/d_{model}} .$$
#
# Each pair of dimensions is a hand of a clock. It starts at angle zero and turns by $\omega_i$ from one place to the
# next: the first hand by 1 radian, the last one by nearly $1/10000$. This is a [position
# encoding](../book/pages/glossary.md#position-encoding) by *sinusoids*.
#
# By hand, for $d_{model} = 4$: $\omega_0 = 1$ and $\omega_1 = 10000^{-1/2} = 0.01$. Place 0 is $(0, 1, 0, 1)$. Place 1 is
# $(\sin 1, \cos 1, \sin 0.01, \cos 0.01)$:

# %%
def sinusoidal_positions(length, d_model):
    place = torch.arange(length, dtype=torch.float64)[:, None]        # (T, 1)
    even = torch.arange(0, d_model, 2, dtype=torch.float64)           # (ceil(D/2),): each 2i
    angle = place * 10_000 ** (-even / d_model)                       # (T, ceil(D/2))
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle[:, :d_model // 2].cos()                    # odd D: one cosine fewer
    return table.float()                                              # (T, D)


sinusoidal_positions(3, 4)

# %% [markdown]
# (The angles are computed in double precision. In single precision, the angle of a late place is already rounded before
# the sine is taken.)
#
# ### "The formula is the sine"
#
# Many articles print the first half only. What is the cosine for? Take the
# [dot product](../book/pages/glossary.md#dot-product) of two places, which is what a score will see. Each pair adds
#
# $$\sin(p\omega)\sin(r\omega) + \cos(p\omega)\cos(r\omega) = \cos\big((p - r)\,\omega\big) .$$
#
# The two places have vanished; only their *distance* is left. Without the cosine half they do not vanish. The figure
# shows the dot product of place $p$ with the place $k$ steps further, for two values of $p$. **With both halves, how
# many curves will you see? And with the sine alone?**

# %%
both = sinusoidal_positions(64, 32)                                   # (T, D)
sine = both.clone()
sine[:, 1::2] = 0.0                                      # the first half of the formula


def by_distance(table, p, steps=24):
    return table[p : p + steps] @ table[p]                            # (steps,)


curves = {f"{name}, from place {p}": by_distance(table, p)
          for name, table in [("both", both), ("sine", sine)] for p in (5, 20)}
plots.lines(range(24), curves, x="distance (places)", y="dot product", marks=False,
            roles={name: "wrong" if name.startswith("sine") else "a" for name in curves},
            alt="Dot product of two places against their distance, from place 5 and from "
                "place 20. With sine and cosine the two curves lie on each other; with the "
                "sine alone they differ.")

# %%
def spread(table):
    """Largest difference between two places p at the same distance."""
    starts = torch.stack([by_distance(table, p) for p in range(40)])  # (p, distance)
    return (starts.amax(dim=0) - starts.amin(dim=0)).max().item()


claim("spread_both", spread(both), at_most=1e-4)
claim("spread_sine", spread(sine), at_least=4)

# %% [markdown]
# With both halves the dot product depends on the distance alone, but for about [[spread_both:.0e]] of rounding. With the sine
# alone it varies by up to [[spread_sine:.1f]] at one and the same distance. The cosine is not decoration.
#
# There is a second way to see it. To go $k$ places further, each hand turns by $k\omega$: a rotation, and so a matrix that
# does not depend on $p$. "Three places back" is therefore something that a projection can learn.
#
# :::{admonition} The common confusion: which axis is time?
# :class: caution
# Some modules take $(B, T, d_{model})$, *batch first*; PyTorch's default is $(T, B, d_{model})$, *sequence first*. The
# table is $(T, d_{model})$. Add it along the wrong axis, and every *sequence* gets a vector of its own while all its
# places get the same one. If $B$ and $T$ can broadcast, no error is raised.
# :::
#
# One look at zeros settles it: all sequences of the batch must become equal, and no two places.

# %%
zeros = torch.zeros(5, 5, 8)                                          # (B, T, d_model), B = T
table = sinusoidal_positions(5, 8)                                    # (T, d_model)
for name, placed in [("along time", zeros + table),
                     ("along the batch", zeros + table[:, None])]:
    sequences = (placed[0] - placed[1]).abs().max().item() > 0
    places = (placed[:, 0] - placed[:, 1]).abs().max().item() > 0
    print(f"{name}: sequences differ: {sequences}, places differ: {places}")

# %% [markdown]
# ## Rotary positions
#
# The sinusoids are added to the token, and projections mix both. What we want is in the score: a dot product of a
# [query](../book/pages/glossary.md#query) and a [key](../book/pages/glossary.md#key) that knows their distance. So turn
# *them*. [Rotary positions](../book/pages/glossary.md#rotary-positions) take the $D$ numbers of a head as $D/2$ pairs, and
# turn pair $i$ of a query at place $m$ by the angle $m\,\theta_i$, and of a key at place $n$ by $n\,\theta_i$, with
# $\theta_i = 10000^{-2i/D}$ [@su2024, section 3.2].
#
# By hand, with one pair and $\theta = 90°$ a place. A query $(1, 0)$ at place 1 becomes $(0, 1)$. A key $(1, 0)$ at place 1
# becomes $(0, 1)$ as well: dot product 1. At place 2 it becomes $(-1, 0)$: dot product 0. At places 5 and 6 all has turned
# further, and the two products are 1 and 0 again. A turn changes no length, and two turns by $m\theta$ and $n\theta$ leave
# the difference $(m - n)\theta$ between the two arrows.

# %%
def rotary_angles(length, D, offset=0):
    place = torch.arange(offset, offset + length, dtype=torch.float64)[:, None]    # (T, 1)
    even = torch.arange(0, D, 2, dtype=torch.float64)                              # (D/2,)
    angle = place * 10_000 ** (-even / D)                                          # (T, D/2)
    return angle.cos().float(), angle.sin().float()


def rotate_interleaved(heads, offset=0):
    """Turn the pairs (0, 1), (2, 3), ... of heads (..., T, D)."""
    cos, sin = rotary_angles(*heads.shape[-2:], offset)
    a, b = heads[..., 0::2], heads[..., 1::2]                                   # (..., T, D/2)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


# %% [markdown]
# Shift query and key by the same number of places, and no score may change. That is a
# [contract](../book/pages/glossary.md#contract), too. We also measure it, with a shift of 100 places:

# %%
q, k = torch.randn(2, 6, 16, generator=generator)                     # (T, D) each
contracts.rotary_shift_invariant(rotate_interleaved, q, k)
near = rotate_interleaved(q) @ rotate_interleaved(k).T                # (T, T)
far = rotate_interleaved(q, 100) @ rotate_interleaved(k, 100).T
claim("shift_difference", (near - far).abs().max().item(), at_most=1e-4)
claim("turned_or_not", (near - q @ k.T).abs().max().item(), at_least=0.5)

# %% [markdown]
# The scores move by [[shift_difference:.0e]], which is rounding. And turning does matter: against scores that were not
# turned, the largest difference is [[turned_or_not:.1f]].
#
# What if the key moves alone? The figure takes the first query at place 5 and the first key at place 3, and moves them further.
# One line is for both together, the other for the key alone.

# %%
def score_at(m, n):
    return (rotate_interleaved(q[:1], m) @ rotate_interleaved(k[:1], n).T).item()


steps = range(100)
moved = {"both move": [score_at(5 + step, 3 + step) for step in steps],
         "the key moves": [score_at(5, 3 + step) for step in steps]}
plots.lines(steps, moved, x="moved by (places)", y="score", marks=False,
            roles={"both move": "a", "the key moves": "key"},
            alt="Score of one query and one key against the places by which they are moved. "
                "Where both move, the line is flat; where the key moves alone, it goes up and "
                "down.")

# %%
ranges = {name: max(scores) - min(scores) for name, scores in moved.items()}
claim("both_move", ranges["both move"], at_most=1e-4)
claim("key_moves", ranges["the key moves"], at_least=1)

# %% [markdown]
# Moved together, the score stays, but for [[both_move:.0e]] of rounding. Moved alone, the key takes it through a range of
# [[key_moves:.1f]].
#
# ### See it move: pairs that turn
#
# Here are this query and this key as eight clocks. In each, one pair of the query is a solid hand and one of the key a dashed
# hand; each clock has its own speed. **Shift both: what will change, and what will not?**

# %%
RotaryExplorer(q[0], k[0], query_place=5, key_place=3)

# %% [markdown]
# The hands turn, the first ones fast and the last ones hardly at all. But in each clock the angle between the two stays, so its
# product stays, and so does the sum. Now move the key alone. The fast clocks change at the next place already and cannot tell
# near from far, since they soon come round again; the slow ones need many places.
#
# Then change the base. A small one makes even the last clock fast. A large one slows all clocks but the first, and the curve
# of the score has fewer ripples. That is one way to stretch rotary positions; this lesson does not try it.
#
# ### Two layouts
#
# Which numbers make a pair? The paper takes neighbours, $(0, 1), (2, 3), \dots$ Others, among them the code for Llama,
# take a number of the first half and one of the second: $(0, D/2), (1, D/2 + 1), \dots$ Both are right, and each is wrong
# with the other's weights. Nothing fails; the model is merely worse.

# %%
def rotate_half_split(heads, offset=0):
    """Turn the pairs (0, D/2), (1, D/2 + 1), ... of heads (..., T, D)."""
    cos, sin = rotary_angles(*heads.shape[-2:], offset)
    a, b = heads.chunk(2, dim=-1)                                               # (..., T, D/2)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


order = torch.arange(16).view(-1, 2).T.flatten()                  # 0, 2, 4, ..., 1, 3, 5, ...
half_split = rotate_half_split(q[:, order]) @ rotate_half_split(k[:, order]).T     # (T, T)
mixed = rotate_half_split(q) @ rotate_half_split(k).T
claim("layouts_translated", (half_split - near).abs().max().item(), at_most=1e-5)
claim("layouts_mixed", (mixed - near).abs().max().item(), at_least=0.5)

# %% [markdown]
# Sort the columns of queries and keys so that the first numbers of all pairs come first, and the other layout gives the
# same scores, to [[layouts_translated:.0e]]. Without sorting, scores are off by up to [[layouts_mixed:.1f]]. Values are
# not turned, so they are not sorted either. The course's package holds all of this lesson in `attnlab.positions`.
#
# ## ALiBi: a price on distance
#
# The last way adds nothing to tokens and turns nothing. [ALiBi](../book/pages/glossary.md#alibi) lowers each score by the
# distance between query and key, times a slope that each head has for itself [@press2022, section 3]:
#
# $$s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d_k}} - m_h\, |i - j| .$$
#
# For $h$ heads, a power of two, the slopes are $2^{-8/h}, 2^{-16/h}, \dots, 2^{-8}$. A head with a steep slope sees its
# neighbours; one with a slope of $2^{-8}$ sees nearly everything. Nothing is learnt.

# %%
def alibi_bias(num_heads, length):
    slopes = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)              # (H,)
    place = torch.arange(length)
    distance = (place[:, None] - place).abs()                                      # (T, S)
    return -slopes[:, None, None] * distance                                       # (H, T, S)


alibi_bias(num_heads=2, length=4)[0]

# %% [markdown]
# With the slope $2^{-4}$ of the first of two heads, the score of a key four places away falls by
# $4 \cdot 2^{-4} = 1/4$. What does that do to the [weights](../book/pages/glossary.md#attention-weight)? All scores are
# zero in the next figure; only the price is left.
# Look at how far back each head reaches.

# %%
bias = alibi_bias(num_heads=4, length=12)
allowed = causal_mask(12)
reach = bias.masked_fill(~allowed, -math.inf).softmax(dim=-1)                      # (H, T, S)
plots.small_multiples(list(reach), titles=[f"slope 2^-{2 * h}" for h in (1, 2, 3, 4)],
                      mask=allowed,
                      alt="Attention weights of four ALiBi heads when all scores are zero. "
                          "The first head, with the steepest slope, looks at the last few "
                          "places; "
                          "the fourth spreads its weight almost evenly.")

# %% [markdown]
# ## What is impossible without positions
#
# **Reverse a list.** The model reads 16 symbols, one of 10 each, and must output the last one first. One attention with four
# heads, a readout, and one of the ways to know places. All models of this lesson are this class:

# %%
class OneAttention(nn.Module):
    """Embedding, one attention, readout; `kind` says how it knows places."""

    def __init__(self, kind, num_tokens=16, d_model=64, num_heads=4, longest=256):
        super().__init__()
        self.kind, self.num_heads = kind, num_heads
        self.token = nn.Embedding(num_tokens, d_model)
        self.heads = MultiHeadAttention(d_model, num_heads)
        self.readout = nn.Linear(d_model, num_tokens)
        table = {"learned": torch.randn(longest, d_model),
                 "sinusoidal": sinusoidal_positions(longest, d_model)}.get(kind)
        self.table = None if table is None else nn.Parameter(table, kind == "learned")

    def forward(self, tokens, mask=None):                             # (B, T), (T, T)
        T, x = tokens.shape[1], self.token(tokens)                    # x: (B, T, d_model)
        if self.table is not None:
            x = x + self.table[:T]
        rotate = rotate_interleaved if self.kind == "rotary" else None
        bias = alibi_bias(self.num_heads, T) if self.kind == "ALiBi" else None
        result = self.heads(x, mask=mask, rotate=rotate, score_bias=bias, need_weights=False)
        return self.readout(result.output)                            # (B, T, num_tokens)


# %%
def reversal():
    while True:
        tokens = torch.randint(10, (64, 16), generator=generator)     # (B, T)
        yield tokens, tokens.flip(1)


def train(kind, batches, steps=250, **options):
    torch.manual_seed(seed(0))
    model = OneAttention(kind)
    training.fit(model, batches, steps=steps, lr=3e-3, **options)
    return model


@torch.no_grad()
def reversal_accuracy(model):
    tokens, targets = next(reversal())
    return (model(tokens).argmax(dim=-1) == targets).float().mean().item()


reversed_by = {kind: reversal_accuracy(train(kind, reversal()))
               for kind in ("none", "sinusoidal")}
claim("reversed_without", reversed_by["none"], at_most=0.3)
claim("reversed_with", reversed_by["sinusoidal"], at_least=0.98)

# %% [markdown]
# Without positions the model names [[reversed_without:.0%]] of the symbols: it can count which symbols occur, and no more.
# With sinusoids it names [[reversed_with:.1%]].
#
# ## Longer than in training
#
# Now the measurement that sets the four apart. Models train on sequences of 48 tokens and are tested on up to 256. There
# are two jobs, both under a [causal mask](../book/pages/glossary.md#causal-mask):
#
# - **three back**: name the token exactly three places back. What counts is an exact distance.
# - **latest**: most tokens are blanks; name the latest one that is not. What counts is what is near, at no fixed
#   distance.

# %%
def three_back(length=48, batch_size=32):
    while True:
        tokens = torch.randint(16, (batch_size, length), generator=generator)      # (B, T)
        targets = tokens.roll(3, dims=1)
        targets[:, :3] = -100                                         # nothing to name yet
        yield (tokens, causal_mask(length)), targets


def latest(length=48, batch_size=32):
    while True:
        tokens = torch.randint(1, 16, (batch_size, length), generator=generator)   # (B, T)
        blank = torch.rand(batch_size, length, generator=generator) < 0.8
        blank[:, 0] = False
        tokens = tokens.masked_fill(blank, 0)
        place = torch.arange(length).masked_fill(blank, 0)            # (B, T)
        targets = tokens.gather(1, place.cummax(dim=1).values)    # the latest one that counts
        yield (tokens, causal_mask(length)), targets


# %% [markdown]
# We look at the last 16 positions of each sequence. In a test that is longer than 48, all of them lie beyond what was
# trained. A target of $-100$ is one that
# PyTorch's loss leaves out.

# %%
def loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@torch.no_grad()
def late_accuracy(model, job, length):
    (tokens, mask), targets = next(job(length, batch_size=64))
    return (model(tokens, mask).argmax(dim=-1) == targets)[:, -16:].float().mean().item()


lengths, kinds = [48, 64, 128, 256], ["none", "learned", "sinusoidal", "rotary", "ALiBi"]


def measure(job):
    models = {kind: train(kind, job(), loss=loss) for kind in kinds}
    return {kind: {length: late_accuracy(model, job, length) for length in lengths}
            for kind, model in models.items()}


three, last = measure(three_back), measure(latest)

# %% [markdown]
# **Before you look:** a learned table has rows for 256 places, but training has only ever touched the first 48. What will
# it do at 64? And which of the others do you trust at 256?

# %%
def as_map(results, title):
    table = torch.tensor([[results[kind][length] for length in lengths] for kind in kinds])
    return plots.matrix(table, rows=kinds, columns=[str(n) for n in lengths], title=title,
                        x="length of the test", y="positions", label="accuracy",
                        alt=f"{title}: accuracy by positions and length. Trained at 48.")


as_map(three, "three back")

# %%
as_map(last, "latest")

# %%
trained = ("learned", "sinusoidal", "rotary")
claim("three_at_48", min(three[kind][48] for kind in trained), at_least=0.95)
claim("three_without", three["none"][48], at_most=0.25)
claim("three_learned_at_64", three["learned"][64], at_most=0.15)
claim("three_sinusoidal_at_64", three["sinusoidal"][64], at_least=0.15, at_most=0.6)
claim("three_rotary", {n: three["rotary"][n] for n in (64, 128)}, at_least=0.25)
claim("three_rotary_at_256", three["rotary"][256], at_most=0.45)
claim("three_alibi", max(three["ALiBi"].values()), at_most=0.35)
claim("latest_alibi", min(last["ALiBi"].values()), at_least=0.9)
claim("latest_rotary", {n: last["rotary"][n] for n in (48, 256)}, at_least=0.2, at_most=1.0)
claim("latest_others_at_256", max(last[kind][256] for kind in kinds if kind != "ALiBi"),
      at_most=0.75)

# %% [markdown]
# **Three back.** At the trained length, learned, sinusoidal and rotary positions all solve it (the lowest is
# [[three_at_48:.3f]]); without positions it is [[three_without:.2f]]. At length 64 the learned table is at
# [[three_learned_at_64:.2f]], which is guessing: its later rows are the random numbers they began as. Sinusoids have fallen to
# [[three_sinusoidal_at_64:.2f]]; their later rows follow the formula, but the projections have never met those angles.
# Rotary positions, whose scores see distances only, still have [[three_rotary[64]:.2f]] at 64. Then they fall, too: over
# [[three_rotary_at_256:seeds]] seeds to [[three_rotary[128]:range:.2f]] at 128 and [[three_rotary_at_256:range:.2f]] at 256. The
# distance *three* was trained; that two hundred further keys must *not* be looked at was not.
#
# ALiBi never gets beyond [[three_alibi:.2f]], at any length. A price that grows steadily can say "near", but not "exactly
# three": the key at two is always cheaper.
#
# **Latest.** Here the price is just right. ALiBi, trained at 48, has at least [[latest_alibi:.2f]] at every length. Rotary
# positions start at [[latest_rotary[48]:.3f]] and end at [[latest_rotary[256]:.2f]], and no kind but ALiBi is above
# [[latest_others_at_256:.2f]] at 256.
#
# ### See it move: beyond the trained length
#
# Both maps once more. Press a cell, or go over the map with the arrow keys. The bars show all kinds at that length, and the
# frame around a bar shows what the kind had at the trained length. **Whose frames stay full?**

# %%
ExtrapolationMap({"three back": three, "latest": last}, trained=48, kind="rotary", length=64)

# %%
claim("alibi_change", max(abs(job["ALiBi"][n] - job["ALiBi"][48])
                          for job in (three, last) for n in lengths), at_most=0.1)

# %% [markdown]
# ALiBi's stay full in both jobs: nowhere is it further than [[alibi_change:.2f]] from where it was at 48. In the first job
# there was little to keep. For "three back" go down the column of 64: the learned table has dropped to guessing, the
# sinusoids most of the way, and rotary positions have hardly moved. They drop at the next length.
#
# So "which positions are best for long texts?" has no answer until one says what must be found there. Rotary positions
# address a distance and break with length. ALiBi keeps its manners at any length, and addresses badly.
#
# ## What this lesson did not show
#
# One attention, few symbols, two jobs of our own. Several layers can combine: a layer may first find "three back" by two
# smaller steps. Models in use stretch rotary angles, or train at growing lengths, before they are trusted with longer texts;
# that is not tried here. A causal mask alone already tells a model something about places, since the first token sees one key and
# the tenth sees ten: "none" is above guessing in both jobs. And on natural text, where near words matter most, the second
# job is the better likeness; @press2022 report that ALiBi keeps its loss beyond the trained length there.
#
# ## Takeaways
#
# - Without positions attention sees a set. It cannot reverse a list.
# - Sinusoids need both halves: sine and cosine together make dot products depend on distance alone.
# - Rotary positions turn queries and keys, so that scores depend on distance alone. Two layouts exist, and a permutation leads
#   from one to the other.
# - ALiBi lowers scores by distance, with one slope a head.
# - At the trained length three of the four find an exact distance. Beyond it, learned tables fail at once, rotary positions
#   later, and ALiBi holds where near is what counts.

# %% [markdown]
# ## Quiz
#
# 1. What happens to the outputs of self-attention without positions and without a mask when two tokens of the input are
#    swapped?
#
#    - [ ] Nothing changes: each output stays where it is, with the numbers it had. :: The outputs belong to the tokens,
#      so the two outputs change places as well.
#    - [x] The two outputs are swapped, and every output has the numbers it had. :: That is permutation equivariance.
#    - [ ] All outputs change, since every token sees every other. :: Each still sees the same set of keys and values, with the
#      same weights.
#
# 2. What is the cosine in sinusoidal positions for?
#
#    - [x] It makes dot products of places depend on distance alone. :: Together with the sine: the two products add up to
#      $\cos((p - r)\,\omega)$.
#    - [ ] It doubles the number of frequencies. :: Sine and cosine of a pair share one frequency.
#    - [ ] It fills the odd dimensions, which would otherwise stay zero for all places. :: Anything would fill them. What
#      matters is what happens in a product.
#
# 3. You load the weights of a model that was trained with half-split rotary pairs into code that turns neighbouring pairs.
#    What do you see?
#
#    - [ ] an error about shapes :: Both layouts have the same shapes.
#    - [ ] the same outputs, up to rounding :: Only if the rows of the query's and the key's weights are permuted within each head.
#    - [x] a model that runs and answers worse :: Its scores are turned by the wrong angles. Only a comparison with the original
#      shows it.
#    - [ ] NaN :: A turn changes no length. All numbers stay as large as they were.
#
# 4. Why are values not turned in rotary positions?
#
#    - [ ] They are wider than queries and keys, so that the pairs would not match. :: Their width is that of the keys,
#      as a rule.
#    - [ ] A third turn in each layer would cost more time than it is worth. :: It would cost as much as turning the keys.
#    - [x] Distance should decide how much is taken from a key, not change what is taken. :: The turn enters the score. A turned
#      value would hand over a content that depends on where it stood.
#
# 5. A model must find the bracket that was opened exactly 40 tokens ago. It uses ALiBi in one layer. What do you expect?
#
#    - [x] It will struggle at any length: keys nearer than 40 are all cheaper. :: The price falls on every key by its
#      distance, and no distance can be singled out. Content may still help, if the bracket is unlike its neighbours.
#    - [ ] It works up to the trained length and fails beyond. :: That is what a learned table does.
#    - [ ] It works at any length, since ALiBi keeps its accuracy beyond the trained one. :: What it carries over to longer
#      texts is "near counts more". An exact distance it does not have at any length.

# %% [markdown]
# ## Where to go from here
#
# In lesson 7 attention gets what it needs to be stacked sixty times.
#
# **Papers.** @vaswani2017 (section 3.5) has the sinusoids, @shaw2018 positions relative to each other, @su2024 rotary
# positions and @press2022 ALiBi with tests beyond the trained length.
