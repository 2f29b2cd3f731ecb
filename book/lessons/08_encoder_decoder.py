# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Encoder and decoder
#
# **How do the pieces make the machine of the paper?**
#
# You have every piece: [attention](../book/pages/glossary.md#attention) with [masks](../book/pages/glossary.md#mask)
# and [heads](../book/pages/glossary.md#head), positions, and the layer of lesson 7. Now they become the
# [Transformer](../book/pages/glossary.md#transformer): one stack that reads, one that writes. Most of what goes wrong
# from here on is not in the pieces but in the joints.
#
# **You will be able to**
#
# - follow two sentences through the whole machine and name the shape at every arrow;
# - write the decoder layer and both stacks, and show that they equal PyTorch's to rounding;
# - say where queries, keys and values of [cross-attention](../book/pages/glossary.md#cross-attention) come from, and
#   which mask goes where;
# - shift the target once, no more and no less, and tell what each slip does;
# - count the [parameters](../book/pages/glossary.md#parameter) of the paper's two models, and say what the count does
#   not explain.
#
# **Before you start** you should know lessons 4 to 7.
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.

# %%
import math
import warnings
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import nn

from attnlab import claim, contracts, plots, seed, training
from attnlab import transformer as library
from attnlab.attention import causal_mask, padding_mask, scaled_dot_product_attention
from attnlab.layers import EncoderLayer, FeedForward, PostNorm, PreNorm
from attnlab.multihead import MultiHeadAttention
from attnlab.positions import SinusoidalPositions
from attnlab.widgets import TokenJourney

generator = torch.Generator().manual_seed(seed(0))

# %% [markdown]
# ## The whole machine
#
# The [encoder](../book/pages/glossary.md#encoder) reads the source, the sentence to be translated. What it returns,
# one vector for each source [token](../book/pages/glossary.md#token), is called the
# [memory](../book/pages/glossary.md#encoder-memory). The [decoder](../book/pages/glossary.md#decoder) writes the
# target: given the tokens written so far, it says what may come next. The design is that of @vaswani2017 (figure 1);
# the drawing is ours and reads from top to bottom.
#
# A batch holds $B$ sentence pairs, $S$ source tokens and $T$ target tokens each. Look for three things: the box on
# the right that has no counterpart on the left, the colours of the arrows that enter it, and the shape that never
# changes inside a stack.

# %% tags=["hide-input"]
INK, GREY = "#1b2430", plots.COLOURS["f"]
LEFT, RIGHT = 15, 51                                        # the middle of each column


def frame(ax, left, bottom, width, height, **style):
    ax.add_patch(FancyBboxPatch((left, bottom), width, height, linewidth=1,
                                boxstyle="round,pad=0,rounding_size=1", **style))


def box(ax, x, y, text, width=23, height=5.4, fill="#f3f5f8", edge=GREY):
    frame(ax, x - width / 2, y - height / 2, width, height, facecolor=fill, edgecolor=edge)
    ax.text(x, y, text, ha="center", va="center", fontsize=9.5, linespacing=1.3)


def path(ax, *points, role=None, label="", at=(0, 0)):
    colour = plots.COLOURS.get(role, INK)
    ax.plot(*zip(*points), color=colour, linewidth=1.6)
    ax.annotate("", points[-1], points[-2], arrowprops={"color": colour, "linewidth": 1.6,
                "arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0})
    ax.text(*at, label, fontsize=9.5, color=colour, va="center", clip_on=True)


def sublayer(ax, x, top, text, entries=()):
    """A box, the way around it, and the sum; `top` is where the stream comes in."""
    ax.plot([x, x], [top, top - 2.2], color=INK, linewidth=1.6)
    for shift, role, name in entries or [(0, None, "")]:
        path(ax, (x, top - 2.2), (x + shift, top - 2.2), (x + shift, top - 5.6), role=role,
             label=name, at=(x + shift + 0.8, top - 3.9))
    box(ax, x, top - 8.6, text, height=6)
    path(ax, (x, top - 11.6), (x, top - 13.9))
    path(ax, (x, top - 1), (x + 13.5, top - 1), (x + 13.5, top - 15), (x + 0.9, top - 15))
    ax.plot([x], [top - 15], "o", markersize=13, color="white", markeredgecolor=INK, zorder=3)
    ax.text(x, top - 15.1, "+", ha="center", va="center", fontsize=11, zorder=4)
    ax.plot([x, x], [top - 16, top - 16.4], color=INK, linewidth=1.6)


def draw_machine(ax):
    self_entries = [(-7, "query", "Q"), (0, "key", "K"), (7, "value", "V")]
    columns = [(LEFT, "S", "source tokens", "N encoder layers", 44),
               (RIGHT, "T", "target tokens so far", "N decoder layers", 27.6)]
    for x, length, tokens, layers, bottom in columns:
        box(ax, x, 104, tokens, fill="white", edge=INK)
        path(ax, (x, 101.3), (x, 97.7), label=f"(B, {length})", at=(x + 1.2, 99.6))
        box(ax, x, 95, "embedding, times √d_model")
        path(ax, (x, 92.3), (x, 88.7), label=f"(B, {length}, d_model)", at=(x + 1.2, 90.6))
        box(ax, x, 86, "plus position")
        path(ax, (x, 83.3), (x, 76.4), label=f"(B, {length}, d_model)", at=(x + 1.2, 81.4))
        frame(ax, x - 13.8, bottom, 29, 79.3 - bottom, facecolor="none", edgecolor=GREY,
              linestyle=(0, (4, 3)))
        ax.text(x - 13, 77.5, layers, fontsize=9.5, color=GREY, va="center")
    sublayer(ax, LEFT, 76.4, "self-attention\nmask: source padding", self_entries)
    sublayer(ax, LEFT, 60, "feed-forward")
    sublayer(ax, RIGHT, 76.4, "self-attention\nmask: causal", self_entries)
    sublayer(ax, RIGHT, 60, "cross-attention\nmask: source padding", [(0, "query", "Q")])
    sublayer(ax, RIGHT, 43.6, "feed-forward")
    path(ax, (LEFT, 43.6), (LEFT, 38.7), label="(B, S, d_model)", at=(LEFT + 1.2, 41.8))
    box(ax, LEFT, 36, "memory", width=14, fill="white", edge=INK)
    path(ax, (22, 37), (33, 37), (33, 52.6), (39.4, 52.6), role="key", label="K",
         at=(30.6, 38.6))
    path(ax, (22, 35), (34.8, 35), (34.8, 50.2), (39.4, 50.2), role="value", label="V",
         at=(30.6, 33.3))
    path(ax, (RIGHT, 27.2), (RIGHT, 22.7), label="(B, T, d_model)", at=(RIGHT + 1.2, 25.2))
    box(ax, RIGHT, 20, "times the embedding table")
    path(ax, (RIGHT, 17.3), (RIGHT, 13.7), label="(B, T, vocabulary)", at=(RIGHT + 1.2, 15.6))
    box(ax, RIGHT, 11, "softmax: the next token", fill="white", edge=INK)
    ax.text(2, 18, "Q  queries,  K  keys,  V  values\n\n+  adds what went around a box.\n"
            "A layer norm stands before each\nbox (pre) or behind each + (post).",
            fontsize=9.5, color=GREY, va="center", linespacing=1.4)


alt = ("The encoder-decoder Transformer from top to bottom. Left: source tokens, embedding, "
       "position, N encoder layers of self-attention and feed-forward, memory. Right: target "
       "tokens, embedding, position, N decoder layers of self-attention, cross-attention and "
       "feed-forward, then the embedding table and a softmax. Cross-attention takes queries "
       "from the decoder, keys and values from the memory. A way goes around each box.")
with plots.style():
    figure = Figure(figsize=(7, 9))
    axes = figure.subplots()
    axes.set(xlim=(0, 68), ylim=(7.5, 107.5))
    axes.axis("off")
    draw_machine(axes)
plots.show(figure, alt=alt)

# %% [markdown]
# An encoder layer has two sublayers, a decoder layer three: between them stands cross-attention, fed from both sides.
# Every box of a stack takes $d_{model}$ numbers for each token and gives back as many. That is what allows the way
# around it, the [residual connection](../book/pages/glossary.md#residual-connection), and any number of layers.
#
# ## Into the machine
#
# Two sentence pairs, cut to the same number of columns. Three special tokens belong to our
# [vocabulary](../book/pages/glossary.md#vocabulary): [padding](../book/pages/glossary.md#padding), and the
# [marks](../book/pages/glossary.md#begin-and-end-marks) of the beginning (`bos`) and the end (`eos`) of a sequence.

# %%
PAD, BOS, EOS = 0, 1, 2
sources = ["the cat that sleeps sees a bird", "Mia reads a long letter <pad> <pad>"]
targets = ["<bos> le chat qui", "<bos> Mia lit une"]            # as far as they are written
words = ["<pad>", "<bos>", "<eos>"]
words += sorted({w for line in sources + targets for w in line.split()} - set(words))
source, target = (torch.tensor([[words.index(w) for w in line.split()] for line in lines])
                  for lines in (sources, targets))              # (B, S), (B, T)
source, target

# %% [markdown]
# So $B = 2$, $S = 7$, $T = 4$: three different numbers, so that no wrong axis can hide. An
# [embedding](../book/pages/glossary.md#embedding), a table with a row for each token, turns numbers into vectors. The
# paper multiplies these by $\sqrt{d_{model}}$ (section 3.4) before it adds positions (section 3.5), and gives no
# reason. One is easy to measure. The same table also makes the output, as you will see, so its entries should be
# small: we draw them with [variance](../book/pages/glossary.md#variance) $1/d_{model}$. A row is then about 1 long. A
# sinusoidal position has $d_{model}/2$ pairs of a sine and a cosine, each pair of length 1, so it is
# $\sqrt{d_{model}/2}$ long.

# %%
def lengths_ratio(scale, d_model=512):
    """How many times as long as a token's vector its position is, on average."""
    table = torch.randn(1000, d_model, generator=generator)          # (1000, d_model)
    token = (scale * table / math.sqrt(d_model)).norm(dim=-1).mean()
    position = SinusoidalPositions(d_model, 50).table.norm(dim=-1).mean()
    return (position / token).item()


claim("ratio_unscaled", lengths_ratio(1.0), at_least=15.5, at_most=16.5)
claim("ratio_scaled", lengths_ratio(math.sqrt(512)), at_least=0.69, at_most=0.72)

# %% [markdown]
# At $d_{model} = 512$ a position would be [[ratio_unscaled:.0f]] times as long as the word it is added to; after the
# multiplication it is [[ratio_scaled:.2f]] times as long.
#
# ## Cross-attention
#
# Take two target vectors and three memory vectors, two numbers wide, and no projections. Each target vector is a
# [query](../book/pages/glossary.md#query). The memory provides [keys](../book/pages/glossary.md#key) *and*
# [values](../book/pages/glossary.md#value). For the query $(1, 0)$ the [scores](../book/pages/glossary.md#score) are
# $2/\sqrt2 = \sqrt2$, $0$ and $0$, so the first source token gets the
# [weight](../book/pages/glossary.md#attention-weight) $e^{\sqrt 2} / (e^{\sqrt 2} + 2)$.

# %%
y = torch.tensor([[1.0, 0.0], [0.0, 3.0]])                      # (T, d): the target
memory = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 2.0]])     # (S, d)
rows = []
for query in y:                                                 # each target token asks
    weight = torch.stack([query @ key for key in memory]).div(math.sqrt(2)).exp()    # (S,)
    rows.append(sum(w * value for w, value in zip(weight / weight.sum(), memory)))   # (d,)
by_loop = torch.stack(rows)                                     # (T, d)
crossed = scaled_dot_product_attention(y, memory, memory)       # weights: (T, S)
claim("cross_first", crossed.weights[0, 0].item(), at_least=0.672, at_most=0.673)
claim("cross_loop", (crossed.output - by_loop).abs().max().item(), at_most=1e-6)

# %% [markdown]
# The weight is [[cross_first:.2f]], and loop and function differ by about [[cross_loop:.0e]]. It is the function of
# lesson 3; only its inputs come from two places. The output has a row for each *target* token, and it is a mixture of
# *source* vectors. So the decoder layer, in full (D is $d_{model}$):

# %%
class DecoderLayer(nn.Module):
    """Self-attention over the target, cross-attention over the memory, feed-forward."""

    def __init__(self, d_model, num_heads, d_ff, norm="post"):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, num_heads)
        self.cross_attention = MultiHeadAttention(d_model, num_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        residual = {"pre": PreNorm, "post": PostNorm}[norm]    # of lesson 7
        self.around_self, self.around_cross, self.around_feed_forward = (
            residual(d_model) for _ in range(3))

    def forward(self, x, memory, mask=None, memory_mask=None):    # (B, T, D), (B, S, D)
        def attend(x):
            return self.self_attention(x, x, x, mask).output                      # (B, T, D)

        def cross(x):
            return self.cross_attention(x, memory, memory, memory_mask).output    # (B, T, D)

        x = self.around_self(x, attend)
        x = self.around_cross(x, cross)
        return self.around_feed_forward(x, self.feed_forward)                     # (B, T, D)


# %% [markdown]
# Three sublayers, three lines at the end. The memory enters `cross` as it is: with pre-norm, the
# layer normalises what *asks*, not what is asked.
#
# :::{admonition} The common confusion: which side asks in cross-attention?
# :class: caution
# "The decoder looks at the encoder", so the **decoder asks**: queries from the target, keys and values from the
# memory. One often reads it the other way round, since the encoder seems to "send its result to the decoder". Shapes
# settle it as long as $S \neq T$. Where they are equal nothing complains, and something worse happens.
# :::

# %%
def right(layer, x, memory):
    return x + layer.cross_attention(x, memory).output    # queries, then keys and values


def exchanged(layer, x, memory):
    return x + layer.cross_attention(memory, x).output


torch.manual_seed(seed(0))
layer = DecoderLayer(d_model=16, num_heads=2, d_ff=32)
x, memory = (torch.randn(2, n, 16, generator=generator) for n in (4, 7))    # target, memory
weights = layer.cross_attention(x, memory).weights               # (B, H, T, S)
print("right:     weights", tuple(weights.shape))
try:
    exchanged(layer, x, memory)
except RuntimeError as error:
    print("exchanged:", str(error).split(" at ")[0])

# %% [markdown]
# Seven rows do not fit onto four. Now let both sides have four tokens, and let a
# [contract](../book/pages/glossary.md#contract) ask whether an output sees later *target* tokens:

# %%
short = memory[:, :4]                                            # S = T = 4
for way in (right, exchanged):
    name = way.__name__ + ":"
    try:
        contracts.causal_by_change(lambda x, way=way: way(layer, x, short), x)
        print(f"{name:10} no leak")
    except AssertionError as error:
        print(f"{name:10}", str(error).split(":")[0])

# %% [markdown]
# The exchanged version reads the future: its keys are target tokens, and no [causal
# mask](../book/pages/glossary.md#causal-mask) hides the later ones. It is a [leak](../book/pages/glossary.md#leak),
# and a loss that is too good would be its only sign.
#
# ## The two stacks
#
# The encoder is a pile of encoder layers, the decoder a pile of decoder layers. *Every* decoder layer gets the same
# finished memory, that of the last encoder layer. A stack may end in one more [layer
# norm](../book/pages/glossary.md#layer-normalisation): with pre-norm it must, since nothing else bounds the sum
# (lesson 7); the paper's post-norm stacks have none, and PyTorch's always have one.

# %%
class EncoderDecoder(nn.Module):
    """The two stacks, from vectors to vectors."""

    def __init__(self, d_model, num_heads, d_ff, num_layers, norm="post", final_norm=True):
        super().__init__()
        sizes = d_model, num_heads, d_ff
        self.encoder_layers = nn.ModuleList(
            EncoderLayer(*sizes, norm=norm) for _ in range(num_layers))
        self.decoder_layers = nn.ModuleList(
            DecoderLayer(*sizes, norm=norm) for _ in range(num_layers))
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(d_model) if final_norm else nn.Identity() for _ in range(2))

    def encode(self, x, mask=None):                                 # (B, S, d_model)
        for layer in self.encoder_layers:
            x = layer(x, mask).output
        return self.encoder_norm(x)                                 # (B, S, d_model)

    def decode(self, x, memory, mask=None, memory_mask=None):       # (B, T, d_model)
        for layer in self.decoder_layers:
            x = layer(x, memory, mask, memory_mask)
        return self.decoder_norm(x)                                 # (B, T, d_model)


# %% [markdown]
# Around the stacks stand embeddings, positions, masks and the output. One table serves both languages and a [tied
# output](../book/pages/glossary.md#tied-output), where a target vector's [dot
# product](../book/pages/glossary.md#dot-product) with each row says how well that token would come next
# [@vaswani2017, section 3.4; @press2017]. These numbers are the [logits](../book/pages/glossary.md#logit): V for each
# target vector, where V is the number of tokens known.

# %%
class Transformer(nn.Module):
    """Token numbers in, logits for the next target token out."""

    def __init__(self, vocab_size, d_model, num_heads, d_ff, num_layers, norm="post"):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=1 / math.sqrt(d_model))
        self.positions = SinusoidalPositions(d_model, max_length=64)
        self.stacks = EncoderDecoder(d_model, num_heads, d_ff, num_layers, norm, norm == "pre")

    def embed(self, tokens):                                        # (B, S or T)
        scaled = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        return self.positions(scaled)                               # (B, S or T, d_model)

    def encode(self, source):                                       # (B, S)
        real = (source != PAD)[:, None]                             # (B, 1, S)
        return self.stacks.encode(self.embed(source), real), real   # memory (B, S, d_model)

    def decode(self, target, memory, memory_mask):                  # (B, T)
        mask = causal_mask(target.shape[1])                         # (T, T)
        x = self.stacks.decode(self.embed(target), memory, mask, memory_mask)
        return x @ self.embedding.weight.T                          # (B, T, V)

    def forward(self, source, target):
        memory, memory_mask = self.encode(source)
        return self.decode(target, memory, memory_mask)             # (B, T, V)


# %% [markdown]
# Send the two sentences through, and note what leaves each part. PyTorch lets you hang a *hook* on a module: a
# function that is called with what the module returned.

# %%
@contextmanager
def watch(modules):
    """Collect (name, output) of these modules while the block runs."""
    seen = []
    hooks = []
    for name, module in modules.items():
        def note(_module, _inputs, output, name=name):
            seen.append((name, output))

        hooks.append(module.register_forward_hook(note))
    yield seen
    for hook in hooks:
        hook.remove()


# %%
torch.manual_seed(seed(0))
model = Transformer(len(words), d_model=16, num_heads=2, d_ff=32, num_layers=2)
first = model.stacks.decoder_layers[0]
parts = {"embedding": model.embedding, "plus position": model.positions,
         "encoder stack": model.stacks.encoder_norm,
         "decoder: self-attention": first.around_self,
         "decoder: cross-attention": first.around_cross,
         "decoder: feed-forward": first.around_feed_forward,
         "decoder stack": model.stacks.decoder_norm, "logits": model}
with watch(parts) as seen:
    model(source, target)
for name, output in seen:
    print(f"{name:25}", tuple(output.shape))

# %% [markdown]
# First the source, then the target; the axis of seven never enters the target's side. It ends inside cross-attention,
# where each of four queries takes its weighted sum over seven values.
#
# ## Is it the machine?
#
# PyTorch's `nn.Transformer` has both stacks without embeddings. We copy its weights into our classes and compare on
# the real positions, with all masks, for both places of the norm. Our names are those of the course's library, so the
# library's translation of PyTorch's weights can be loaded as it is. PyTorch's masks say who may *not* look, hence
# each `~`.

# %%
def torch_machine(norm, **options):
    with warnings.catch_warnings(action="ignore"):    # a shortcut that pre-norm does not have
        return nn.Transformer(16, 2, 2, 2, 32, dropout=0.0, norm_first=norm == "pre",
                              **options)


def difference(norm, dtype):
    theirs = torch_machine(norm, batch_first=True).to(dtype)
    ours = EncoderDecoder(16, 2, 32, num_layers=2, norm=norm).to(dtype)
    ours.load_state_dict(library.EncoderDecoder.from_torch(theirs).state_dict())
    x, y = (torch.randn(2, n, 16, generator=generator).to(dtype) for n in (7, 4))
    causal, real = causal_mask(4), padding_mask([7, 5], 7)                 # (T, T), (B, 1, S)
    memory = ours.encode(x, real)
    hidden = {"src_key_padding_mask": ~real[:, 0], "memory_key_padding_mask": ~real[:, 0]}
    expected = theirs(x, y, tgt_mask=~causal, **hidden)                    # (B, T, d_model)
    return (ours.decode(y, memory, causal, real) - expected).abs().max().item()


torch.manual_seed(seed(0))
norms = ("post", "pre")
claim("single", {norm: difference(norm, torch.float32) for norm in norms}, at_most=1e-5)
claim("double", {norm: difference(norm, torch.float64) for norm in norms}, at_most=1e-12)

# %% [markdown]
# Post-norm differs by about [[single[post]:.0e]] in single and [[double[post]:.0e]] in double precision, pre-norm
# by [[single[pre]:.0e]] and [[double[pre]:.0e]]. So it is the same machine.
#
# :::{admonition} The common confusion: batch first or sequence first?
# :class: caution
# PyTorch's class expects $(T, B, d_{model})$ unless you say `batch_first=True`. Everything in this course is
# batch-first. Given the other order, it takes sentences for positions. If $S = T$ nothing complains: the sentences of
# a batch then attend to each other.
# :::

# %%
pair = torch.randn(3, 5, 16, generator=generator)                          # (B, T, d_model)
for batch_first in (True, False):
    theirs = torch_machine("post", batch_first=batch_first)
    try:
        contracts.batch_independent(lambda x, run=theirs: run(x, x), pair)
        print(f"batch_first={batch_first}: each sentence by itself")
    except AssertionError as error:
        print(f"batch_first={batch_first}:", str(error).split(" in the batch")[0])

# %% [markdown]
# In the wrong order a sentence by itself gives something else than among the others of its batch.
#
# ## Which mask goes where
#
# Three attentions, three masks. All hide *keys*, so each has a column for every token that is asked.
#
# | attention | keys are | mask | shape |
# | --- | --- | --- | --- |
# | encoder, self | source tokens | [padding](../book/pages/glossary.md#padding-mask) of the source | $(B, 1, S)$ |
# | decoder, self | target tokens | causal | $(T, T)$ |
# | decoder, cross | source tokens | padding of the source, again | $(B, 1, S)$ |
#
# The encoder has no triangle: the source is complete, and each word may see what comes after it. And where is the
# padding of the target? It stands at the end, so the triangle hides it from every real token, and what comes out *at*
# padding is left out of the [loss](../book/pages/glossary.md#loss).
#
# Who can move whom? For the second sentence we take the [gradient](../book/pages/glossary.md#gradient) of every
# memory vector and every output with respect to every input, each row divided by its largest entry; cells that are
# exactly zero are hatched. **Before you look:** which two rectangles must be empty, and which triangle?

# %%
def influence(stacks, x, y, real):
    """Length of the gradient of each vector that comes out by each input, (S + T, S + T)."""
    x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
    memory = stacks.encode(x, real)
    outputs = torch.cat([memory, stacks.decode(y, memory, causal_mask(4), real)], dim=1)[0]
    rows = []
    for output in outputs:
        direction = torch.randn(len(output), generator=generator)
        gradients = torch.autograd.grad(output @ direction, (x, y), retain_graph=True,
                                        materialize_grads=True)
        rows.append(torch.cat(gradients, dim=1)[0].norm(dim=-1))       # (S + T,)
    table = torch.stack(rows)
    return table / table.amax(dim=-1, keepdim=True)


x, y, real = model.embed(source)[1:], model.embed(target)[1:], padding_mask([5], 7)
moved = influence(model.stacks, x, y, real)[[0, 1, 2, 3, 4, 7, 8, 9, 10]]    # real tokens
names = [line.split() for line in (sources[1], targets[1])]
labels = ["memory: " + w for w in names[0][:5]] + ["output: " + w for w in names[1]]
plots.matrix(moved, rows=labels, columns=names[0] + names[1], mask=moved > 0,
             x="inputs: source, then target", y="what comes out", label="influence",
             alt="Map of which input influences which vector. Memory vectors depend on all "
                 "five real source tokens and on no target token. Outputs depend on all real "
                 "source tokens and on the target tokens up to their own. The columns of "
                 "source padding are empty.")

# %%
claim("from_padding", moved[:, 5:7].sum().item(), equals=0.0)
claim("from_target", moved[:5, 7:].sum().item(), equals=0.0)
claim("from_future", moved[5:, 7:].triu(1).sum().item(), equals=0.0)
claim("from_source", (moved[:, :5] > 0).float().mean().item(), equals=1.0)

# %% [markdown]
# Padding moves nothing (the columns add up to exactly [[from_padding:.0f]]), the target moves no memory vector
# ([[from_target:.0f]]), and no later target token moves an output ([[from_future:.0f]]). Every real source token
# moves everything: [[from_source:.0%]] of those cells are filled.
#
# Both uses of the source's mask are needed, and the target's mask has no business in cross-attention. The contract
# `padding_blind` of lesson 4 changes the padding and looks at all outputs. To let the wrong mask fit at all, we give
# the target as many columns as the source:

# %%
x, y = (torch.randn(2, 7, 16, generator=generator) for _ in range(2))        # S = T = 7
of_source, of_target = padding_mask([7, 5], 7), padding_mask([4, 7], 7)      # (B, 1, 7) each
choices = {"source's, both times": (of_source, of_source),
           "only in the encoder": (of_source, None),
           "only in cross-attention": (None, of_source),
           "the target's in cross-attention": (of_source, of_target)}
for name, (encoder_mask, memory_mask) in choices.items():
    def run(x, e=encoder_mask, m=memory_mask):
        return model.stacks.decode(y, model.stacks.encode(x, e), causal_mask(7), m)

    try:
        everything = torch.ones(2, 7, dtype=torch.bool)
        contracts.padding_blind(run, x, of_source[:, 0], compare=everything)
        print(f"{name}: blind to padding")
    except AssertionError:
        print(f"{name}: padding changes the output")

# %% [markdown]
# ## The shift
#
# In training the whole target is known, and the decoder reads all of it at once. Position $t$ reads the tokens up to
# $t$ and has to say token $t + 1$. To read the *right* earlier tokens, not its own guesses, is called [teacher
# forcing](../book/pages/glossary.md#teacher-forcing). So that there is something to read before the first word and
# something to say after the last one, a row begins with `bos` and ends with `eos`. One line makes both sides:

# %%
def teacher_forcing(rows):                                # (B, T + 1)
    return rows[:, :-1], rows[:, 1:]                      # to read, to say: (B, T) each


a, b, c = 3, 4, 5
rows = torch.tensor([[BOS, a, EOS, PAD, PAD], [BOS, a, b, c, EOS]])
inputs, labels = teacher_forcing(rows)
claim("targets_counted", (labels[0] != PAD).sum().item(), equals=2)
inputs, labels

# %% [markdown]
# Cutting the last column costs the long row its `eos` as an *input*, which nobody needs to read. The short row keeps
# its `eos` as an input, but what it would have to say there is padding, which the loss leaves out. It counts
# [[targets_counted:.0f]] targets: `a` and `eos`.
#
# :::{admonition} The common confusion: where does the shift happen?
# :class: caution
# **Exactly once**, between what is read and what is to be said. The causal mask does not shift: position $t$ may see
# itself. Forget the shift, and the model has to say what it has just read. Shift in the data *and* in a model that
# shifts by itself, as some libraries' do, and it has to say the token after the next.
# :::
#
# Neither slip raises an error. A test needs no training, only *oracles*: made-up logits that are sure of the token
# $k$ places ahead. Which oracle has no loss under which shift?

# %%
def token_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)


rows = torch.randint(3, 11, (50, 12), generator=generator)        # letters only
length = rows.shape[1] - 2
losses = {}
for shift in (0, 1, 2):
    labels = rows[:, shift:shift + length]                        # (B, T)
    for k in (0, 1, 2):
        sure = 50.0 * F.one_hot(rows[:, k:k + length], 11)        # (B, T, V)
        losses[shift, k] = token_loss(sure, labels).item()
for shift in (0, 1, 2):
    print(f"shift {shift}: loss of the oracles of t, t + 1, t + 2:",
          [round(losses[shift, k]) for k in (0, 1, 2)])
claim("right_oracle", losses[1, 1], at_most=1e-6)
claim("wrong_oracles", [losses[1, 0], losses[1, 2]], at_least=35.0)

# %% [markdown]
# A right pipeline gives the oracle of $t + 1$ a loss of [[right_oracle:.0f]], those of $t$ and $t + 2$ one of
# [[wrong_oracles[0]:.0f]] and [[wrong_oracles[1]:.0f]]. Under a wrong shift another oracle is rewarded, and so would
# be a model.
#
# **When the end is padding.** Some data comes with `eos` as filler: `[5, 6, eos, eos, eos]` has a length of 3. Hide
# the filler by its value and you hide the end as well. What does training then do to the logit of `eos`? The gradient
# of [cross-entropy](../book/pages/glossary.md#cross-entropy) with respect to a logit is its probability, minus one
# where it is the right answer. A negative gradient raises a logit.

# %%
labels = torch.tensor([[5, 6, EOS, EOS, EOS]])                      # the sentence has 3 tokens
by_value = labels.masked_fill(labels == EOS, PAD)
by_length = labels.masked_fill(~padding_mask([3], 5)[:, 0], PAD)    # ends in EOS, PAD, PAD
pull = {}
for name, kept in {"by_value": by_value, "by_length": by_length}.items():
    logits = torch.zeros(1, 5, 8, requires_grad=True)               # (B, T, V)
    token_loss(logits, kept).backward()
    pull[name] = logits.grad[0, :, EOS].sum().item()
    print(f"{name}: {(kept != PAD).sum().item()} targets, pull on eos {pull[name]:.3f}")
claim("pull_by_value", pull["by_value"], at_least=0.12, at_most=0.13)
claim("pull_by_length", pull["by_length"], at_most=-0.2)

# %% [markdown]
# Hidden by value, `eos` is never the answer, so each gradient on it is positive ([[pull_by_value:.3f]] in sum): it is
# pushed down at every step, and a model that is trained so never learns to stop. Hidden by length, the sum is
# [[pull_by_length:.2f]].
#
# ## Writing
#
# In use there is no target to read. The machine reads what it has written. It takes the likeliest token, appends it,
# and asks again, until `eos`: [greedy decoding](../book/pages/glossary.md#greedy-decoding). The encoder runs
# **once**, since the source does not change. The decoder runs once for each token.

# %%
@torch.no_grad()
def write(model, source, max_length):
    """Tokens (B, L) without bos; padding after eos."""
    memory, memory_mask = model.encode(source)                    # once
    written = torch.full((len(source), 1), BOS)                   # (B, 1)
    finished = torch.zeros(len(source), 1, dtype=torch.bool)
    while written.shape[1] <= max_length and not finished.all():
        logits = model.decode(written, memory, memory_mask)[:, -1:].clone()    # (B, 1, V)
        logits[..., [PAD, BOS]] = -math.inf                       # these are never written
        newest = logits.argmax(dim=-1).masked_fill(finished, PAD)
        finished = finished | (newest == EOS)
        written = torch.cat([written, newest], dim=1)
    return written[:, 1:]


# %% [markdown]
# Does it work? The smallest job in which both sides matter: the source is a list of three to seven letters, the
# target the same list backwards. Lists whose token numbers add up to a multiple of five are *held out*, never trained
# on.

# %%
def lists(batch_size, held_out):
    """Lists (B, 7), and as target rows (B, 9) the same lists from the last to the first."""
    letters = torch.randint(3, 11, (batch_size, 7), generator=generator)       # a to h
    lengths = torch.randint(3, 8, (batch_size,), generator=generator)
    source = letters.masked_fill(~padding_mask(lengths, 7)[:, 0], PAD)         # (B, 7)
    keep = (source.sum(dim=1) % 5 == 0) == held_out
    source, lengths = source[keep], lengths[keep]
    places = lengths[:, None] - 1 - torch.arange(7)                # (B, 7), last first
    backwards = source.gather(1, places.clamp(min=0)).masked_fill(places < 0, PAD)
    rows = F.pad(backwards, (1, 1), value=PAD)                                 # (B, 9)
    rows[:, 0], rows[torch.arange(len(rows)), lengths + 1] = BOS, EOS
    return source, rows


def training_batches():
    while True:
        source, rows = lists(80, held_out=False)
        inputs, labels = teacher_forcing(rows)
        yield (source, inputs), labels


def learning_rate(step):                                 # up in 30 steps, then down to nothing
    return training.warmup_cosine(step, warmup=30, total=250)


torch.manual_seed(seed(0))
toy = Transformer(vocab_size=11, d_model=32, num_heads=4, d_ff=64, num_layers=2, norm="pre")
training.fit(toy, training_batches(), steps=250, lr=8e-3, loss=token_loss,
             schedule=learning_rate)
print(sum(p.numel() for p in toy.parameters()), "parameters")

# %%
letters = "·<>abcdefgh"                                   # padding, bos, eos, letters


def spell(row):
    return "".join(letters[token] for token in row)


source, rows = lists(2000, held_out=True)
memory_runs, decoder_runs = toy.stacks.encoder_norm, toy.stacks.decoder_norm
with watch({"encoder": memory_runs, "decoder": decoder_runs}) as seen:
    written = write(toy, source, max_length=8)            # (B, 8)
runs = [name for name, _ in seen]
right = (written == rows[:, 1:]).all(dim=1).float().mean().item()
claim("held_out_lists", len(source), at_least=300)
claim("exact", right, at_least=0.97)
claim("encoder_runs", runs.count("encoder"), equals=1)
claim("decoder_runs", runs.count("decoder"), equals=8)
for given, answer in list(zip(source, written))[:4]:
    print(spell(given), "->", spell(answer))

# %% [markdown]
# Of [[held_out_lists:.0f]] held-out lists, [[exact:.1%]] come out exactly right, each with its `eos` (printed as `>`)
# in the right place; over [[exact:seeds]] seeds it is [[exact:range:.1%]]. All of them together took
# [[encoder_runs:.0f]] run of the encoder and [[decoder_runs:.0f]] of the decoder, the longest list and its `eos`.
# Each of these reads everything written so far anew; lesson 11 saves that.
#
# How did it find the letters? It was never told where to look. Here is the cross-attention of its last layer for one
# list, the mean over the heads. `<` is the begin mark. Look for the direction of the dark cells.

# %%
source, rows = lists(400, held_out=True)
source, rows = (whole[source[:, -1] != PAD] for whole in (source, rows))       # lists of seven
last_layer = toy.stacks.decoder_layers[-1]
with torch.no_grad(), watch({"cross": last_layer.cross_attention}) as seen:
    toy(source, rows[:, :-1])
weights = seen[0][1].weights.mean(dim=1)                                       # (B, T, S)
facing = weights[:, :7].flip(-1).diagonal(dim1=-2, dim2=-1)                    # (B, 7)
claim("facing", facing.mean().item(), at_least=0.4)
plots.matrix(weights[0], rows=list(spell(rows[0, :-1])),
             columns=list(spell(source[0])), x="source", y="target token read",
             alt="Cross-attention of one list of seven letters. The dark cells run from the "
                 "upper right to the lower left.")

# %% [markdown]
# Having read the begin mark, the decoder looks mostly at the last letter; having read that one, at the last but one.
# Over all lists of seven letters, [[facing:.2f]] of the weight lies on the letter to be written, where an even spread
# would put one seventh.

# %% [markdown]
# ## How many parameters?
#
# Count one layer. Each of attention's four [projections](../book/pages/glossary.md#projection) is a $d \times d$
# matrix with a bias, where $d = d_{model}$: $4d^2 + 4d$. The feed-forward network has two matrices, $2\,d\,d_{ff}$,
# and $d_{ff} + d$ biases. A norm has $2d$. With $d_{ff} = 4d$, as in the paper, an encoder layer has
#
# $$(4d^2 + 4d) + (8d^2 + 5d) + 2 \cdot 2d = 12 d^2 + 13 d ,$$
#
# and a decoder layer, with one more attention and norm, $16 d^2 + 19 d$. To the six layers of each comes a table of
# $d$ numbers for each of the vocabulary's tokens, shared three ways. Sinusoidal positions cost nothing.

# %%
def by_formula(d, d_ff, layers=6):
    encoder = 4 * d**2 + 4 * d + 2 * d * d_ff + d_ff + d + 4 * d
    decoder = 8 * d**2 + 8 * d + 2 * d * d_ff + d_ff + d + 6 * d
    return layers * (encoder + decoder)


def by_counting(d, heads, d_ff, layers=6):
    with torch.device("meta"):                                 # shapes without numbers
        stacks = EncoderDecoder(d, heads, d_ff, layers, final_norm=False)
    return sum(p.numel() for p in stacks.parameters())


assert by_formula(512, 2048) == by_counting(512, 8, 2048) == 6 * (28 * 512**2 + 32 * 512)
assert by_formula(1024, 4096) == by_counting(1024, 16, 4096)
vocabulary = 37_000                                            # section 5.1: "about 37000"
base = by_counting(512, 8, 2048) + vocabulary * 512
big = by_counting(1024, 16, 4096) + vocabulary * 1024
claim("base", base / 1e6, at_least=63.08, at_most=63.09)
claim("big", big / 1e6, at_least=214.24, at_most=214.25)

# %% [markdown]
# Formula and count agree to the last parameter. At 37,000 tokens we get [[base:.1f]] million for the base model and
# [[big:.1f]] million for the big one. The paper's table 3 says 65 and 213 [@vaswani2017]. What explains the
# difference? Not a second table for the output: it would add $37{,}000 \cdot 512$, nearly nineteen million. But the
# paper's table also lists variants of the base model. From the number that it gives for each we subtract our stacks,
# and divide by $d_{model}$: so many rows the embedding must have had. Numbers rounded to millions give intervals.
# Look for a vertical line that crosses all bars.

# %%
#            millions of parameters, d_model, d_ff, layers
table_3 = {"base": (65, 512, 2048, 6), "2 layers": (36, 512, 2048, 2),
           "4 layers": (50, 512, 2048, 4), "8 layers": (80, 512, 2048, 8),
           "d_model 256": (28, 256, 2048, 6), "d_model 1024": (168, 1024, 2048, 6),
           "d_ff 1024": (53, 512, 1024, 6), "d_ff 4096": (90, 512, 4096, 6),
           "big": (213, 1024, 4096, 6)}
implied = {}
for name, (millions, d, d_ff, layers) in table_3.items():
    implied[name] = [((millions + half) * 1e6 - by_formula(d, d_ff, layers)) / d / 1000
                     for half in (-0.5, 0.5)]                       # thousands of rows
small = [ends for name, ends in implied.items() if name != "big"]
first, last = implied["big"]
common = {"from": max(low for low, _ in small), "to": min(high for _, high in small)}
claim("common", common, at_least=40.9, at_most=41.2)
claim("big_rows", {"from": first, "to": last}, at_least=35.2, at_most=36.3)

# %% tags=["hide-input"]
with plots.style():
    figure = Figure(figsize=(7, 3.6))
    axes = figure.subplots()
    lows = [low for low, _ in implied.values()]
    colours = [plots.COLOURS["b" if name == "big" else "a"] for name in implied]
    axes.barh(list(implied), [high - low for low, high in implied.values()], left=lows,
              color=colours, height=0.55)
    for at, name in [(37, "section 5.1"), (sum(common.values()) / 2, "common to eight")]:
        axes.axvline(at, color=plots.COLOURS["f"], linewidth=1.2, linestyle=(0, (4, 2)))
        axes.annotate(name, (at, 1), xycoords=("data", "axes fraction"), xytext=(0, 3),
                      textcoords="offset points", ha="center", fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(34.5, 44)
    axes.set_xlabel("rows of the embedding that table 3 implies, in thousands")
plots.show(figure, alt="Intervals for the rows of the embedding, one for each model of table "
                       "3. Those of the base model and its seven variants all contain 41 "
                       "thousand; that of the big model lies near 36 thousand. The 37 "
                       "thousand of section 5.1 lies between, in none of them.")

# %% [markdown]
# The base model and its seven variants agree with *one* table, of [[common[from]:.1f]] to [[common[to]:.1f]] thousand
# rows. So at every depth and width listed, nothing contradicts our stacks (biases in attention's projections are too
# few to show), and the base model's missing two million are about four thousand rows more than "about 37000". Why,
# the paper does not say. The big model does not fit: it leaves room for [[big_rows[from]:.1f]] to
# [[big_rows[to]:.1f]] thousand. No vocabulary explains both.
#
# ## One token through the whole machine
#
# What happens to one token on its way? Take the toy's decoder where it has read three letters and has to say the
# fourth, another letter than the third. After each sublayer we ask: if the stack ended here, what would the output
# say? We apply the last norm and the embedding table to what the residual connection carries, and take the mean over
# many lists. **Before you look:** which sublayer is the first that *can* know the letter to be written?

# %%
stages = {"embedding": toy.embedding, "+ position": toy.positions}
for number, layer in enumerate(toy.stacks.decoder_layers, start=1):
    stages |= {f"self {number}": layer.around_self, f"cross {number}": layer.around_cross,
               f"feed {number}": layer.around_feed_forward}
source, rows = lists(4000, held_out=True)
other = (rows[:, 4] > EOS) & (rows[:, 4] != rows[:, 3])                 # (B,)
source, rows = source[other], rows[other]
with torch.no_grad(), watch(stages) as seen:
    toy(source, rows[:, :4])                                            # bos and three letters
    read, following, leads = {}, {}, {}
    for name, x in seen[2:]:                                            # the target's side
        ended = toy.stacks.decoder_norm(x[:, 3])                        # (B, d_model)
        chance = (ended @ toy.embedding.weight.T).softmax(dim=-1)       # (B, V)
        for found, column in [(read, rows[:, 3]), (following, rows[:, 4])]:
            found[name] = chance.gather(1, column[:, None]).mean().item()
        leads[name] = chance.argmax(dim=-1) == rows[:, 4]               # (B,)

# %%
claim("read_at_start", read["+ position"], at_least=0.8)
claim("before_cross", following["self 1"], at_most=0.2)
claim("second_cross", following["cross 2"] - following["self 2"], at_least=0.3)
claim("at_the_end", following["feed 2"], at_least=0.95)
claim("read_at_end", read["feed 2"], at_most=0.02)
late = leads["cross 2"] & ~leads["self 2"]                              # (B,)
claim("lead_at_second", late.float().mean().item(), at_least=0.5)
picture = plots.lines(range(len(read)), {"letter just read": list(read.values()),
                                         "letter to be written": list(following.values())},
                      roles={"letter just read": "a", "letter to be written": "b"},
                      x="sublayer of the decoder", y="probability, if the stack ended here",
                      guides={"chance": 1 / 8},
                      alt="Probability of two letters along the decoder. The letter just "
                          "read starts near one and falls to zero. The letter to be written "
                          "is at or below chance before the first cross-attention and ends "
                          "near one; the last cross-attention lifts it most.")
picture.figure.axes[0].set_xticks(range(len(read)), list(read), rotation=40, ha="right")
picture

# %% [markdown]
# The token enters as the letter that was read ([[read_at_start:.2f]]) and leaves as the letter that follows
# ([[at_the_end:.2f]]); of the old one [[read_at_end:.3f]] is left. Before the first cross-attention the new letter
# stands at [[before_cross:.2f]]: nothing on the target's side can know it. The first cross-attention could tell it;
# in this toy the second does most, and adds [[second_cross:.2f]]. So the stream is no store of "the letter at place
# three". It is a place that is worked on, from what was read to what is to be said.
#
# ## See it move
#
# Here is one of these lists on its way, five letters and one place of padding. The toy puts its norms before the boxes.
# Press ▶ to go from station to station, or press a box of the drawing. Each station shows its shape, its parameters and
# the vector that leaves it; under an attention, each row is a head, and hatched cells are hidden.
#
# **What to look for.** First follow a letter of the source to the memory. Then follow the third letter of the target, as
# in the figure. At which station does the letter to be written take the lead? Where did the heads look just before?

# %%
five = (source[:, 4] != PAD) & (source[:, 5] == PAD)                    # letters
once = (source == rows[:, 4:5]).sum(dim=1) == 1         # the one to be written, at one place
one = (five & once).nonzero()[0, 0]
TokenJourney(toy, source[one, :6], rows[one, :6], letters, target_token=3)

# %% [markdown]
# In [[lead_at_second:.0%]] of the lists it is the second cross-attention that brings the letter to the front, and over
# [[lead_at_second:seeds]] seeds in [[lead_at_second:range:.0%]].
#
# Two more journeys. Choose the begin mark and go to the decoder's first self-attention: every head gives it all of its
# weight, since the other tokens come later. And follow the padding of the source: it asks like a letter, and arrives in
# the memory as a vector that is not zero. But no head looks at it, wherever the source is asked. The mask hides what
# is asked, not who asks.
#
# ## What this lesson did not show
#
# Equality with PyTorch was shown for what goes forward; the library's tests compare gradients, too. The toy's rule
# needs no meaning, and its lists are no longer than those it was trained on. Taking the likeliest token at each step
# need not give the likeliest sentence (lesson 9). And what a stream says before its end is read with a norm and a
# table that were trained for the end only: a low number there need not mean that the letter is unknown.
#
# ## Takeaways
#
# - Source: $(B, S)$, then $(B, S, d_{model})$ up to the memory. Target: $(B, T)$, then $(B, T, d_{model})$, then
#   logits. $S$ ends inside cross-attention.
# - A decoder layer is self-attention, cross-attention and feed-forward. With copied weights the stacks equal
#   PyTorch's to rounding, pre-norm and post-norm.
# - Cross-attention asks from the target and finds in the memory. The source's padding mask belongs wherever source
#   tokens are keys; the target needs the triangle alone.
# - The shift happens once, between what is read and what is to be said, and `eos` must not be padding. Oracles test
#   it without training.
# - An encoder layer has $12d^2 + 13d$ parameters, a decoder layer $16d^2 + 19d$. That fits the paper's base model and
#   its variants with one table of about 41 thousand rows. It does not fit the big model.

# %% [markdown]
# ## Quiz
#
# 1. In cross-attention, a source of 9 tokens and a target of 5. What is the shape of the weights of one head, for one
#    sentence?
#
#    - [ ] $(9, 5)$ :: Rows belong to queries. Here nine source tokens would ask, which is the exchange that fits
#      nothing and that leaks where both lengths are equal.
#    - [x] $(5, 9)$ :: Each of the five target tokens asks, and shares one whole among the nine source tokens.
#    - [ ] $(5, 5)$ :: That is the decoder's self-attention, where target tokens ask target tokens.
#    - [ ] $(14, 14)$ :: The two sentences are never joined into one. The encoder has no target token among its keys.
#
# 2. Your batch has padded sources and padded targets. A colleague removes the padding mask from cross-attention,
#    "since the encoder has already masked it". What happens?
#
#    - [ ] Nothing, since the memory at padding is zero anyway. :: A mask hides *keys*. At padding the encoder still computes a
#      query and an output, and that output is not zero.
#    - [ ] The target's mask takes over. :: It has columns for target tokens. Cross-attention has columns for source
#      tokens.
#    - [x] Outputs depend on how far the source was padded. :: Target tokens attend to the memory at padding. A mask
#      hides keys in one attention only, and in cross-attention the keys are source tokens again.
#
# 3. The data already holds inputs and labels that are shifted by one. The model you downloaded shifts the labels once
#    more by itself. What will you see?
#
#    - [ ] an error about shapes, since the labels are one too short :: Both shifts cut their sides to fit. Every
#      shape is right.
#    - [ ] a loss that does not fall, whatever learning rate you choose :: It falls. The token after the next can be
#      predicted, too, and a source may tell it all.
#    - [ ] a loss of zero at once, since the answer stands in the input :: That is no shift at all. Two shifts ask for
#      a token that was *not* read.
#    - [x] a loss that falls, and a text that skips tokens when it writes :: The model has learnt to say the token
#      after the next. An oracle shows it without training, or a look at what it writes.
#
# 4. A row is `[bos, a, b, eos, pad]`. How many targets does the loss count, and which?
#
#    - [x] three: `a`, `b` and `eos` :: All that stands behind `bos` and is real. `bos` is only read, and padding is
#      left out.
#    - [ ] four: `bos`, `a`, `b` and `eos` :: Nobody has to say `bos`. It is there to be read before the first word.
#    - [ ] two: `a` and `b` :: Then nothing would ever ask for an end, and the model would not learn to stop.
#
# 5. The model writes 20 tokens for one source, greedily and as in this lesson. How often does a layer of the encoder
#    run, and one of the decoder?
#
#    - [ ] each once for every token, so as to read source and target :: The source does not change while the target
#      is written. Its memory is computed once and kept.
#    - [ ] each once, since all positions are computed at once :: That is training, where the whole target is known.
#      In use, a token must be written before it can be read.
#    - [x] the encoder's once, the decoder's once for every token :: Each new token is read together with those before
#      it. What the decoder then computes again and again is the subject of lesson 11.

# %% [markdown]
# ## Where to go from here
#
# The library's versions, with dropout, a cache and checks of every shape, are `attnlab.transformer` and
# `attnlab.layers`. In lesson 9 this machine learns to translate.
#
# **Papers.** @vaswani2017: section 3.1 has the stacks, 3.2.3 the three attentions, 3.4 the shared table, table 3 the
# sizes. @press2017 ties the output to the embedding. @sutskever2014 and @bahdanau2015 built encoder and decoder from
# recurrent networks, the second with attention between them. @rush2018 goes through the paper line by line in code.
