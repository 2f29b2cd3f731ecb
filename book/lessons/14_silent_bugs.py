# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Silent bugs
#
# **What breaks without an error?**
#
# A program with a wrong shape stops. A [silent bug](../book/pages/glossary.md#silent-bug) does not: every shape fits, the
# loss falls, and the model is wrong. You plant fourteen of them in a small [Transformer](../book/pages/glossary.md#transformer), one at a time, look at
# the curve that each one gives, and then find every one without training at all.
#
# **You will be able to**
#
# - say of fourteen common bugs what each does to the loss and to what the model writes;
# - tell three kinds of curve apart, and why the best-looking one is the most suspicious;
# - write a property that exposes a bug in milliseconds, and say what it cannot see;
# - say what dropout on attention weights, clipping and warm-up each do, and which of them cures a softmax that has saturated.
#
# **Before you start** you should know lessons 3 to 8, and how lesson 9 trains.
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.

# %%
import math
import time

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import nn

from attnlab import claim, contracts, plots, seed, training
from attnlab.positions import sinusoidal_positions
from attnlab.tasks import BOS, EOS, PAD
from attnlab.widgets import BugGame

_ = torch.set_flush_denormal(True)    # numbers below 1e-38 count as 0: they are slow

# %% [markdown]
# ## A program that is right
#
# The task is a code. Numbers of two to six digits come in, and digit $d$ has to be written as the last digit of $3d + 5$. To
# *write* means: token after [token](../book/pages/glossary.md#token), until the model itself says `<eos>`, as in lesson 9.
# It is small, and it has all that a bug needs: two sequences, [padding](../book/pages/glossary.md#padding), an order, and
# lengths that differ. The rows of a [batch](../book/pages/glossary.md#batch) are sorted by length.

# %%
def draw(B, generator, longest=6):
    """Numbers (B, longest + 1) and how they are written (B, longest + 2), short ones first."""
    digits = torch.randint(10, (B, longest), generator=generator)                # (B, longest)
    lengths = torch.randint(2, longest + 1, (B, 1), generator=generator)           # (B, 1)
    lengths = lengths.sort(dim=0).values                                           # (B, 1)
    beyond = torch.arange(longest) >= lengths                                    # (B, longest)
    source = torch.full((B, longest + 1), PAD)                                     # (B, S)
    target = torch.full((B, longest + 2), PAD)                                     # (B, T + 1)
    source[:, :-1] = (digits + 3).masked_fill(beyond, PAD)
    target[:, 1:-1] = ((3 * digits + 5) % 10 + 3).masked_fill(beyond, PAD)
    target[:, 0] = BOS
    return source.scatter(1, lengths, EOS), target.scatter(1, lengths + 1, EOS)


source, target = draw(3, torch.Generator().manual_seed(seed(0)))
print(source, target, sep="\n")

# %% [markdown]
# (Numbers 0, 1 and 2 are padding, begin and end; 3 to 12 are the digits.)
#
# Now the model. Each bug below changes one decision, a line or two. So we put every such decision into a method of its own,
# and a bug will be the same class with one method replaced. First the decisions inside attention:

# %%
class AttentionChoices:
    dropout = 0.0

    def divisor(self, d_model, d_k):
        return math.sqrt(d_k)

    def softmax(self, scores):                             # (B, H, T, S)
        return scores.softmax(dim=-1)                      # (B, H, T, S)

    def drop(self, weights, training):
        return F.dropout(weights, self.dropout, training)

    def split(self, x, h):                                 # (B, T, d_model)
        return x.unflatten(-1, (h, -1)).transpose(1, 2)    # (B, H, T, d_k)

    def merge(self, x):                                    # (B, H, T, d_k)
        return x.transpose(1, 2).flatten(2)                # (B, T, d_model)

# %% [markdown]
# Then those around it. The loss gets a list of pieces, because large batches are often computed in parts, so-called
# [micro-batches](../book/pages/glossary.md#micro-batch), whose [gradients](../book/pages/glossary.md#gradient) are added up before one step is made.

# %%
class Program(AttentionChoices):
    """The right program: the decisions of attention, of the model and of training."""

    def may_see(self, T):
        return torch.ones(T, T, dtype=torch.bool).tril()   # (T, T), True = may attend

    def is_real(self, tokens):                             # (B, S)
        return (tokens != PAD)[:, None, None]              # (B, 1, 1, S)

    def place(self, x, table):                             # (B, T, d_model), (many, d_model)
        return x + table[:x.shape[1]]                      # (B, T, d_model)

    def crossed(self, memory, x):
        return memory                                      # what cross-attention reads

    def norm(self, d_model):
        return nn.LayerNorm(d_model)

    def stack(self, make_layer, n):
        return [make_layer() for _ in range(n)]

    def shift(self, rows):                                 # (B, T + 1)
        return rows[:, :-1], rows[:, 1:]                   # (B, T) read, (B, T) asked

    def loss(self, pieces):
        total = sum(token_losses(logits, labels).sum() for logits, labels in pieces)
        return total / sum((labels != PAD).sum() for _, labels in pieces)


def token_losses(logits, labels, ignore=PAD):
    return F.cross_entropy(logits.mT, labels, ignore_index=ignore, reduction="none")   # (B, T)

# %% [markdown]
# The modules ask the program for each decision. The rest is as in lessons 5, 7 and 8. The task needs neither an
# [encoder](../book/pages/glossary.md#encoder) nor feed-forward networks, so there are none: the
# [cross-attention](../book/pages/glossary.md#cross-attention) reads the embedded source directly.

# %%
class Attention(nn.Module):
    def __init__(self, program, d_model, h):
        super().__init__()
        self.program, self.d_model, self.h = program, d_model, h
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model) for _ in range(4))

    def weights(self, Q, K, mask=None):                              # (B, H, T or S, d_k)
        divisor = self.program.divisor(self.d_model, Q.shape[-1])
        scores = Q @ K.mT / divisor                                  # (B, H, T, S)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        return self.program.softmax(scores)                          # (B, H, T, S)

    def forward(self, x, read, mask=None):                           # (B, T or S, d_model)
        Q, K, V = (self.program.split(linear(tensor), self.h) for linear, tensor in
                   [(self.w_q, x), (self.w_k, read), (self.w_v, read)])
        weights = self.weights(Q, K, mask)                           # (B, H, T, S)
        mixed = self.program.drop(weights, self.training) @ V        # (B, H, T, d_k)
        return self.w_o(self.program.merge(mixed)), weights          # (B, T, d_model)

# %%
class Layer(nn.Module):
    def __init__(self, program, d_model, h):
        super().__init__()
        self.program = program
        self.self_attention = Attention(program, d_model, h)
        self.cross_attention = Attention(program, d_model, h)
        self.norm_1, self.norm_2 = program.norm(d_model), program.norm(d_model)

    def forward(self, x, memory, causal, real):                      # (B, T, d_model)
        y = self.norm_1(x)
        x = x + self.self_attention(y, y, causal)[0]                 # (B, T, d_model)
        y = self.norm_2(x)
        read = self.program.crossed(memory, y)                       # (B, S, d_model)
        mask = real if read is memory else None
        return x + self.cross_attention(y, read, mask)[0]            # (B, T, d_model)

# %%
class Translator(nn.Module):
    def __init__(self, program, d_model=32, h=4, n=2, vocabulary=13):
        super().__init__()
        self.program = program
        self.source = nn.Embedding(vocabulary, d_model)
        self.target = nn.Embedding(vocabulary, d_model)
        layers = program.stack(lambda: Layer(program, d_model, h), n)
        self.layers, self.norm = nn.ModuleList(layers), program.norm(d_model)
        self.output = nn.Linear(d_model, vocabulary)
        self.register_buffer("table", sinusoidal_positions(512, d_model))

    def embed(self, tokens, embedding):
        return self.program.place(embedding(tokens), self.table)     # (B, T, d_model)

    def decode(self, x, memory, real):
        causal = self.program.may_see(x.shape[1])                    # (T, T)
        for layer in self.layers:
            x = layer(x, memory, causal, real)                       # (B, T, d_model)
        return self.output(self.norm(x))                             # (B, T, V)

    def forward(self, source, target):
        memory, x = self.embed(source, self.source), self.embed(target, self.target)
        return self.decode(x, memory, self.program.is_real(source))  # (B, T, V)

# %% [markdown]
# Training takes [[=160]] steps, each on 32 fresh examples in two pieces. At the end the model writes 300 new numbers by
# [greedy decoding](../book/pages/glossary.md#greedy-decoding). Two numbers judge a program: its last losses, which
# everybody looks at, and the share of numbers written without a slip, its [exact
# match](../book/pages/glossary.md#exact-match).

# %%
def train(program, steps=160, lr=1.5e-2, clip=1.0, warmup=20, examples=draw, spoil=None):
    torch.manual_seed(seed(1))                                       # the same start for all
    data = torch.Generator().manual_seed(seed(2))                    # and the same examples
    model, losses = Translator(program), []
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(1, steps + 1):
        rate = lr * training.warmup_cosine(step, warmup=warmup, total=steps)
        optimizer.param_groups[0]["lr"] = rate
        source, target = examples(32, data)
        read, asked = program.shift(target)                          # (B, T) each
        logits = model(source, read)                                 # (B, T, V)
        loss = program.loss([(logits[:16], asked[:16]), (logits[16:], asked[16:])])
        optimizer.zero_grad()
        (loss if spoil is None else spoil(step, loss)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    return model, losses

# %%
@torch.no_grad()
def exact_match(model, count=300):
    source, target = draw(count, torch.Generator().manual_seed(seed(3)))
    written = torch.full((count, 1), BOS)                            # (count, 1)
    while written.shape[1] < target.shape[1]:
        ended = (written == EOS).any(dim=1)                          # (count,)
        newest = model(source, written)[:, -1].argmax(dim=-1)        # (count,)
        written = torch.cat([written, newest.masked_fill(ended, PAD)[:, None]], dim=1)
    return (written == target).all(dim=1).float().mean().item()


def judge(program):
    model, losses = train(program)
    return losses, exact_match(model.eval())


runs = {"right": judge(Program())}

# %% [markdown]
# ## Fourteen bugs
#
# All of these have been met in real code. Read them slowly: **before you go on, note for each one whether its loss will end
# above, near or below that of the right program.** First those inside attention:

# %%
class OverQueries(Program):
    def softmax(self, scores):
        return scores.softmax(dim=-2)                        # the wrong axis


class RootOfModel(Program):
    def divisor(self, d_model, d_k):
        return math.sqrt(d_model)                            # of the model, not of the head


class NoTranspose(Program):
    def split(self, x, h):
        return x.reshape(len(x), h, x.shape[1], -1)          # (B, H, T, d_k), wrongly filled

    def merge(self, x):
        return x.reshape(len(x), x.shape[2], -1)             # (B, T, d_model)


class AlwaysDropping(Program):
    dropout = 0.1

    def drop(self, weights, training):
        return F.dropout(weights, self.dropout)              # does not know eval()

# %% [markdown]
# Then those in what may be seen. The second confuses two conventions: in `nn.MultiheadAttention` True means *may not*
# attend (lesson 4).

# %%
class NoCausalMask(Program):
    def may_see(self, T):
        return torch.ones(T, T, dtype=torch.bool)            # the target leaks


class PaddingInverted(Program):
    def is_real(self, tokens):
        return (tokens == PAD)[:, None, None]                # True where it must be False


class CrossReadsTarget(Program):
    def crossed(self, memory, x):
        return x                                             # never hears the source


class PlacesAlongBatch(Program):
    def place(self, x, table):
        return x + table[:len(x), None]                      # (B, 1, d_model): the wrong axis

# %% [markdown]
# Then those in how the model is put together:

# %%
class OtherNorm(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        spread = x.std(dim=-1, keepdim=True) + 1e-5          # divides by d_model - 1
        return centred / spread * self.weight + self.bias


class WrongNorm(Program):
    def norm(self, d_model):
        return OtherNorm(d_model)


class TiedLayers(Program):
    def stack(self, make_layer, n):
        return [make_layer()] * n                            # one layer, n times

# %% [markdown]
# And those in the training:

# %%
class ShiftZero(Program):
    def shift(self, rows):
        return rows[:, 1:], rows[:, 1:]                      # reads what it is asked for


class ShiftTwo(Program):
    def shift(self, rows):
        return rows[:, :-2], rows[:, 2:]                     # shifted here and by the data


class PaddingCounted(Program):
    def loss(self, pieces):
        each = [token_losses(*piece, ignore=-100).flatten() for piece in pieces]
        return torch.cat(each).mean()                        # padding is asked for, too


class MeanOfMeans(Program):
    def loss(self, pieces):
        return sum(super(MeanOfMeans, self).loss([piece]) for piece in pieces) / len(pieces)

# %% [markdown]
# None raises an error. Each trains from the same start on the same numbers.

# %%
bugs = {"softmax over queries": OverQueries, "root of d_model": RootOfModel,
        "no transpose": NoTranspose, "dropout left on": AlwaysDropping,
        "no causal mask": NoCausalMask, "padding mask inverted": PaddingInverted,
        "cross reads target": CrossReadsTarget, "places along batch": PlacesAlongBatch,
        "another norm": WrongNorm, "tied layers": TiedLayers, "shift by zero": ShiftZero,
        "shift by two": ShiftTwo, "padding in the loss": PaddingCounted,
        "mean of means": MeanOfMeans}
runs |= {name: judge(bug()) for name, bug in bugs.items()}

# %% [markdown]
# ### What the curves say
#
# A bug is the solid line, the right program the dashed one. Each point is a mean over five steps, on a logarithmic axis. The
# number at the bottom is the share of numbers written rightly. First those two whose curve is worse. **Look at where they end.**

# %% tags=["hide-input"]
def fives(losses):
    return torch.tensor(losses).view(-1, 5).mean(dim=1)              # (steps / 5,)


noted = range(5, 161, 5)
curves = {name: fives(losses) for name, (losses, _) in runs.items()}


def panels(names, alt, across=3):
    down = math.ceil(len(names) / across)
    with plots.style():
        figure = Figure(figsize=(2.5 * across, 1.9 * down + 0.3), layout="constrained")
        grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        for ax, name in zip(grid.flat, names):
            ax.plot(noted, curves["right"], color=plots.COLOURS["f"], linestyle="--")
            ax.plot(noted, curves[name], color=plots.COLOURS["wrong"])
            ax.set_yscale("log")
            ax.set_title(name, fontsize=10)
            ax.text(0.04, 0.06, f"{runs[name][1]:.2f}", transform=ax.transAxes)
        figure.supxlabel("training steps", fontsize=10)
        figure.supylabel("loss (nats)", fontsize=10)
    return plots.show(figure, alt=alt)


worse = ["padding mask inverted", "places along batch"]
panels(worse, across=2, alt="Training losses of two bugs beside that of the right program, "
       "on a logarithmic axis. The right one falls below a hundredth; the padding mask that "
       "is inverted ends near two, the places along the batch near one.")

# %%
end = {name: sum(losses[-20:]) / 20 for name, (losses, _) in runs.items()}
written = {name: share for name, (_, share) in runs.items()}
claim("right_loss", end["right"], at_most=0.04)
claim("right_written", written["right"], at_least=0.97)
claim("worse_loss", {name: end[name] for name in worse}, at_least=0.3)
claim("seen", sum(end[name] > 20 * end["right"] for name in bugs), equals=2)

# %% [markdown]
# The right program ends at a loss of [[right_loss:.3f]] and writes [[right_written:.1%]] of the numbers. These two end at
# [[worse_loss[padding mask inverted]:.1f]] and [[worse_loss[places along batch]:.1f]]. The first reads the padding of a
# source in place of its digits, the second does not know where a digit stands. Anyone would go looking for a bug here. But of fourteen bugs, only
# [[seen:.0f]] end with a loss of more than [[=20]] times that of the right program.
#
# **Now look at six that look good.** Which would you trust? Then read the numbers at the bottom.

# %% tags=["hide-input"]
flattering = ["shift by zero", "no causal mask", "cross reads target", "softmax over queries",
              "no transpose", "shift by two"]
panels(flattering, "Training losses of six bugs beside that of the right program. All fall as "
       "low as the right one or lower, that of the shift by zero within forty steps. The "
       "share of numbers written rightly is at most a tenth in all six.")

# %%
claim("flattering_loss", {name: end[name] for name in flattering}, at_most=0.05)
claim("flattering_written", {name: written[name] for name in flattering}, at_most=0.3)

# %% [markdown]
# All six end as low as the right program or nearly so, the shift by zero at [[flattering_loss[shift by zero]:.5f]], the shift by two at
# [[flattering_loss[shift by two]:.3f]]. And what they write is wrong: [[flattering_written[shift by zero]:.1%]],
# [[flattering_written[no causal mask]:.1%]], [[flattering_written[cross reads target]:.1%]],
# [[flattering_written[softmax over queries]:.1%]], [[flattering_written[no transpose]:.1%]] and
# [[flattering_written[shift by two]:.1%]] of the numbers are right. There are two ways to get there.
#
# - **It reads the answer.** With a shift by zero, the model is given the token that it is asked for. Without the mask, or where
#   cross-attention reads the target, it looks one place ahead. A softmax over the queries leaks more quietly: each column is
#   divided by a sum over *all* queries, later ones too. In use the answer is not there yet. A
#   [leak](../book/pages/glossary.md#leak) is how a curve becomes too good.
# - **It learns another task.** Shifted by two, the model learns to say the token after the next: honestly, and useless to
#   whoever asks for the next. Without the transpose, what a head sees depends on how *long* the sequence is. In
#   training all are of one length; in writing they grow.
#
# Last, six whose numbers are right, or nearly all. **Which of the curves would make you look for a bug?**

# %% tags=["hide-input"]
unseen = ["root of d_model", "another norm", "tied layers", "padding in the loss",
          "mean of means", "dropout left on"]
panels(unseen, "Training losses of six bugs beside that of the right program. The lines "
       "nearly coincide, but for the dropout left on, which ends several times higher. The "
       "share of numbers written rightly is near one in all six.")

# %%
five = [end[name] for name in unseen[:5]]
claim("unseen_loss", {"least": min(five), "most": max(five)}, at_most=0.05)
claim("left_on_loss", end["dropout left on"], at_least=0.01, at_most=0.15)
claim("unseen_written", {name: written[name] for name in unseen[:5]}, at_least=0.94)

# %% [markdown]
# The first five write [[unseen_written[root of d_model]:.1%]], [[unseen_written[another norm]:.1%]],
# [[unseen_written[tied layers]:.1%]], [[unseen_written[padding in the loss]:.1%]] and [[unseen_written[mean of means]:.1%]] of the
# numbers rightly, and end at losses from [[unseen_loss[least]:.3f]] to [[unseen_loss[most]:.3f]]. From seed to seed, the right
# program itself ends at [[right_loss:range:.3f]]. So no look at a curve finds these, and on this task they do little harm, if
# any. They are bugs all the same: the program is not the one that its paper describes. Weights from elsewhere
# will not fit it; with tied layers, half of the layers' parameters are missing; and a loss that counts padding cannot be
# compared with one that does not, as it changes with how much padding a batch holds.
#
# The sixth ends higher, at [[left_on_loss:.3f]], and is another matter. What does the curve of the right dropout look like, which
# is off in use? And what do its weights write with dropout off, and with dropout on?

# %%
class Dropping(Program):
    dropout = 0.1


model, losses = train(Dropping())
same = [a == b for a, b in zip(losses, runs["dropout left on"][0])]
claim("same_losses", sum(same), equals=160)
off, on = exact_match(model.eval(), 2000), exact_match(model.train(), 2000)
claim("dropout_written", off, at_least=0.97)
claim("left_on_cost", off - on, at_least=0.005)
claim("caught", sum(written[name] < 0.5 for name in bugs), equals=8)

# %% [markdown]
# All [[same_losses:.0f]] losses are equal to the last digit: in *training* there is no bug. Dropout alone makes that curve. The bug
# lies in use. With dropout off, [[dropout_written:.1%]] of 2000 numbers are right; left on, it costs [[left_on_cost:.1%]] of
# them, and gives another answer each time that you ask.
#
# :::{admonition} The common confusion: "`eval()` switches dropout off"
# :class: caution
# `model.eval()` sets one flag, `training`, on each module, and changes nothing else. `nn.Dropout` looks at the flag.
# `F.dropout(x, p)` and `F.scaled_dot_product_attention(..., dropout_p=p)` are functions and know no model: unless
# you hand them the flag, they drop for ever.
# :::

# %%
kept = torch.ones(1000)
by_module = nn.Dropout(0.1).eval()(kept)
by_function = F.dropout(kept, 0.1)                               # training=True is its default
claim("dropped_by_module", (by_module == 0).sum().item(), equals=0)
claim("dropped_by_function", (by_function == 0).sum().item(), at_least=50)

# %% [markdown]
# Of 1000 numbers the module drops [[dropped_by_module:.0f]], the function [[dropped_by_function:.0f]].
#
# ## Properties instead of curves
#
# A curve says that something is wrong, at best, after training. A property says what, before. You know
# [contracts](../book/pages/glossary.md#contract): functions that try a program and raise an error where a property fails.
# `attnlab.contracts` holds these six that fit here:
#
# - `causal`: no output depends on a later input;
# - `rows_sum_to_one`: each query has one whole to share;
# - `permutation_equivariant`: without positions, order does not count;
# - `padding_blind`: what stands in the padding changes nothing;
# - `batch_independent`: a sequence alone gives what it gives in the batch;
# - `eval_deterministic`: after `eval()`, the same twice.
#
# They are about attention. What stands around it needs seven more, each a few lines. (The library holds them with
# messages and checks of what they are given.) First the root and the norm. A new layer norm gives each vector mean 0 and
# variance 1. Two log weights of a row differ as their scores do, since
# the softmax subtracts the same number from both: $\ln w_i - \ln w_j = q \cdot (k_i - k_j) / \sqrt{d_k}$.

# %%
def require_close(received, expected, tolerance):
    gap = (received - expected).abs().max().item()
    if not gap <= tolerance:
        raise AssertionError(f"differs by {gap:.3g}")


def scaled_by_width(weights_of, query, key):
    logs = weights_of(query, key).log()                            # (..., T, S)
    scores = query @ key.mT / math.sqrt(query.shape[-1])           # (..., T, S)
    require_close(logs - logs[..., :1], scores - scores[..., :1], 1e-4)


def norm_standardises(norm, x):
    y = norm(x)                                                    # (..., d_model)
    require_close(y.mean(dim=-1), torch.zeros(()), 1e-3)
    require_close(y.var(dim=-1, correction=0), torch.ones(()), 1e-3)

# %% [markdown]
# Then the parts of the model: no parameter in two layers, and an output that hears the source.

# %%
def layers_distinct(layers):
    owners = {}
    for number, layer in enumerate(layers):
        for name, parameter in layer.named_parameters():
            if owners.setdefault(id(parameter), number) != number:
                raise AssertionError(f"layer {number} shares {name} with an earlier one")


def reads_memory(attend, memory):
    noise = torch.randn(memory.shape, generator=torch.Generator().manual_seed(seed(4)))
    change = attend(memory + noise) - attend(memory)               # (B, T, V)
    if not change.flatten(1).any(dim=1).all():
        raise AssertionError("another memory leaves an output as it was")

# %% [markdown]
# And the training. For the shift, give it rows in which each token says where it stands: 1, 2, 3, and so on. For the loss,
# add padding, or cut the batch somewhere else; nothing should change.

# %%
def next_token_asked(shift, length=5):
    rows = torch.arange(1, length + 1).expand(2, -1)               # (B, T + 1)
    read, asked = shift(rows)                                      # (B, T) each
    if not (asked - read == 1).all() or read[0, 0] != 1 or asked[0, -1] != length:
        raise AssertionError("what is asked for is not the next token")


def padding_costs_nothing(loss, logits, labels):
    more = torch.zeros(len(labels), 3, dtype=torch.int64)          # (B, 3), all PAD
    longer = torch.cat([logits, logits[:, :3]], dim=1), torch.cat([labels, more], dim=1)
    require_close(loss([longer]), loss([(logits, labels)]), 1e-5)


def same_in_pieces(loss, logits, labels):
    for cut in range(1, len(labels)):
        pieces = [(logits[:cut], labels[:cut]), (logits[cut:], labels[cut:])]
        require_close(loss(pieces), loss([(logits, labels)]), 1e-5)

# %% [markdown]
# Now the thirteen are tried on a program. Nothing is trained: the model is as it was born, the inputs are random, and all
# sizes differ, so that no wrong axis can hide.

# %%
def properties(program):
    torch.manual_seed(seed(5))
    g, model = torch.Generator().manual_seed(seed(6)), Translator(program)
    one = model.layers[0].self_attention.eval()                    # two layers, four heads
    source, target = draw(3, g, longest=5)                         # (3, 6), (3, 7)
    real = (source != PAD).index_fill(1, torch.tensor([5]), False)  # (B, S), some padding
    may_read = program.is_real(torch.where(real, 3, PAD))          # (B, 1, 1, S)
    x, memory = (torch.randn(3, n, 32, generator=g) for n in (7, 6))    # (B, n, d_model)
    Q, K = (torch.randn(3, 4, n, 8, generator=g) for n in (7, 6))       # (B, H, n, d_k)
    logits = torch.randn(3, 7, 13, generator=g)                    # (B, T, V)

    def read(memory):
        return model.decode(x, memory, may_read)                   # (B, T, V)

    return {
        "causal": lambda: contracts.causal(lambda x: model.decode(x, memory, may_read), x),
        "rows sum to one": lambda: contracts.rows_sum_to_one(one(x, memory)[1]),
        "order does not count": lambda: contracts.permutation_equivariant(
            lambda x: one(x, x)[0], x),
        "blind to padding": lambda: contracts.padding_blind(
            read, memory, real, compare=torch.ones(3, 7, dtype=torch.bool)),
        "alone as in the batch": lambda: contracts.batch_independent(
            lambda tokens: model.eval()(tokens, tokens), source),
        "the same twice": lambda: contracts.eval_deterministic(model, source, target),
        "root of d_k": lambda: scaled_by_width(one.weights, Q, K),
        "norm: mean 0, variance 1": lambda: norm_standardises(program.norm(32), x),
        "layers are distinct": lambda: layers_distinct(model.layers),
        "hears the source": lambda: reads_memory(read, memory),
        "asks for the next token": lambda: next_token_asked(program.shift),
        "padding costs nothing": lambda: padding_costs_nothing(program.loss, logits, target),
        "the same in pieces": lambda: same_in_pieces(program.loss, logits, target),
    }

# %% [markdown]
# **Before you run the next cells:** which of the fourteen will be found by `causal`? More than one.

# %%
def refuses(a_property):
    try:
        a_property()
    except AssertionError:
        return True
    return False


programs = {"right": Program, **bugs}
found = {name: {label: refuses(check) for label, check in properties(make()).items()}
         for name, make in programs.items()}
of_library = list(found["right"])[:6]
claim("refused_right", sum(found["right"].values()), equals=0)
claim("bugs_found", sum(any(found[name].values()) for name in bugs), equals=14)
claim("found_by_six", sum(any(found[name][label] for label in of_library) for name in bugs),
      equals=7)
claim("found_once", sum(sum(found[name].values()) == 1 for name in bugs), equals=10)
claim("found_by_causal", sum(found[name]["causal"] for name in bugs), equals=4)

# %% [markdown]
# How long does that take? The cell compares the thirteen properties with one training of [[=160]] steps, in CPU time. Times
# differ from machine to machine, so they are printed and not kept.

# %% tags=["nbval-ignore-output"]
def cpu_seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


looking = cpu_seconds(lambda: [refuses(check) for check in properties(Program()).values()])
print(f"13 properties: {1000 * looking:.0f} milliseconds, "
      f"one training: {cpu_seconds(lambda: train(Program())):.1f} seconds")

# %% [markdown]
# Some milliseconds for each property. All [[bugs_found:.0f]] bugs are found, and the right program is refused by
# [[refused_right:.0f]] of the thirteen. The first six find [[found_by_six:.0f]] bugs; the others need the seven that were
# written here. `causal` finds [[found_by_causal:.0f]]: the missing mask, the cross-attention that reads the target, the
# softmax over the queries, and the dropout, which never gives the same twice. [[found_once:.0f]] bugs are found by one
# property alone: leave it out, and the bug stays.
#
# ## Which property finds which bug
#
# This is the whole lesson in one picture. Look for rows with several marks, and for columns with one.

# %% tags=["hide-input"]
def draw_found(found):
    names, labels = list(found), list(found["right"])
    with plots.style():
        figure = Figure(figsize=(7.5, 6.2), layout="constrained")
        ax = figure.subplots()
        for row, name in enumerate(names):
            for column, label in enumerate(labels):
                bad = found[name][label]
                ax.plot(column, row, marker="X" if bad else ".", markersize=9 if bad else 3,
                        color=plots.COLOURS["wrong" if bad else "f"])
        ax.set_xticks(range(len(labels)), labels, rotation=55, ha="left")
        ax.set_yticks(range(len(names)), names)
        ax.xaxis.tick_top()
        ax.invert_yaxis()
    return plots.show(figure, alt="A table of fifteen programs and thirteen properties; a "
                      "cross is a property that refuses a program. The right program has "
                      "none, dropout left on five, softmax over queries four, no transpose "
                      "and cross reads target two each, every other bug one.")


draw_found(found)

# %% [markdown]
# A bug in attention itself breaks several properties at once. It helps to know which is the plainest: *the same twice*
# comes first, since a program that answers at random breaks nearly everything that compares two answers. And a property may hold for
# the wrong reason: cross-attention that reads the target *is* blind to padding, for it is blind to the whole source. A property
# that forbids needs one beside it that demands, here *hears the source*.
#
# For each bug, the cell notes what gives it away, and of the properties that find it the one that refuses the fewest programs.

# %% tags=["hide-input"]
gives_away = {
    "softmax over queries":
        "It falls a little too fast. Each column is divided by a sum over all queries, "
        "later ones too: a quiet leak.",
    "root of d_model":
        "All scores are halved, and queries and keys grow to make up for it.",
    "no transpose":
        "It falls far too early: what a head sees depends on how long the sequence is, "
        "and in training all are of one length.",
    "dropout left on":
        "It ends higher, as every training with dropout does. The bug itself lies in use: "
        "it goes on dropping there.",
    "no causal mask":
        "It may look one place ahead, where the answer stands. In use nothing stands "
        "there yet.",
    "padding mask inverted":
        "It hardly falls: of the source it reads the padding alone, so it guesses digits.",
    "cross reads target":
        "First it lags, then it drops too fast: it never hears the source, and has found "
        "the answer one place ahead.",
    "places along batch":
        "It stays high: every token of a row gets the same place, so the model does not "
        "know which digit is next.",
    "another norm":
        "It divides by d_model - 1 and adds its small number outside of the root. What is "
        "learnt behind it makes up for that.",
    "tied layers":
        "One layer stands in both places, with half of the parameters. This task needs no "
        "more.",
    "shift by zero":
        "It falls far faster than any work is learnt: the model is given the token that "
        "it is asked for.",
    "shift by two":
        "It learns the token after the next, honestly and as fast. Whoever asks for the "
        "next gets nothing of use.",
    "padding in the loss":
        "It starts to fall early, as padding is easily foretold. Then the two run "
        "together.",
    "mean of means":
        "Each piece counts alike, however many tokens it holds. Here both hold about as "
        "many.",
}
refused = {label: sum(found[name][label] for name in bugs) for label in found["right"]}
plainest = {name: min((label for label in refused if found[name][label]), key=refused.get)
            for name in bugs}

# %% [markdown]
# When are two curves alike? The right program, trained on other examples from the same start, does not give the same curve
# either. The widest gap between the two says what chance alone does.

# %%
def apart(curve):
    """The widest factor between a curve and that of the right program."""
    return (curve / curves["right"]).log().abs().max().exp().item()


others = torch.Generator().manual_seed(seed(11))
again = fives(train(Program(), examples=lambda B, _: draw(B, others))[1])     # (steps / 5,)
claim("again_apart", apart(again), at_least=1.3, at_most=6)
alike = {name: f"{written[name]:.2f}" for name in bugs if apart(curves[name]) <= 2.5}
claim("alike", len(alike), at_least=3, at_most=10)
alike

# %% [markdown]
# ## See it move
#
# Which bug made this curve? In each round you see the right program's curve, dashed, and that of one of the fourteen bugs. Choose among
# four names, by pointer or with the keys 1 to 4. **Before each answer, ask yourself first: would I go looking for a bug here at all?** After it
# you see what gives the bug away, which property finds it, and, if you chose another, its curve as a dotted line.
#
# Chance alone made a gap of up to a factor of [[again_apart:.1f]] ([[again_apart:range:.1f]] over [[again_apart:seeds]] seeds). So the
# game takes two curves for alike where none of their means over five steps differ by more than a factor of [[=2.5]]. If no curve can tell
# your answer from the right one, it counts, and the game says so.

# %%
BugGame({name: curves[name] for name in bugs}, curves["right"], noted,
        gives_away=gives_away, found_by=plainest, alike=2.5, game=3)

# %% [markdown]
# Some curves you will soon know: the one that falls at once, the two that hardly fall. Others nobody can know. The cell before the game
# lists [[alike:.0f]] that no curve shows, with the share of numbers that each writes rightly: with some nearly all, with others next to
# nothing. The curve does not say which is which. The property does, in each of the fourteen rounds. And the game is easier than life:
# here all start alike and learn from the same examples.
#
# ## What dropout, clipping and warm-up each do
#
# "The [softmax](../book/pages/glossary.md#softmax)'s vanishing gradient is cured by attention
# [dropout](../book/pages/glossary.md#dropout) and [gradient clipping](../book/pages/glossary.md#gradient-clipping)": so one often
# reads, and [warm-up](../book/pages/glossary.md#warm-up) is named in the same breath. Lesson 3 trained with both and was not cured.
# Now each is measured alone, for what it is said to do and for what it does. First the cure. Queries and keys are 256 wide, and
# their scores are left undivided: the softmax saturates. How much of the gradient still reaches the scores? We take the median
# length of a query's part of it, relative to the length of the gradient at the values.

# %%
def reaches_scores(scale, dropout_p=0.0, clip=math.inf):
    g = torch.Generator().manual_seed(seed(7))
    Q, K = torch.randn(500, 256, generator=g), torch.randn(64, 256, generator=g)
    V, direction = torch.randn(64, 256, generator=g), torch.randn(500, 256, generator=g)
    scores = (scale * Q @ K.T).requires_grad_()                          # (500, 64)
    V.requires_grad_()                                                   # (64, 256)
    torch.manual_seed(seed(8))
    weights = F.dropout(F.softmax(scores, dim=-1), dropout_p)            # (500, 64)
    (weights @ V * direction).sum().backward()
    nn.utils.clip_grad_norm_([scores, V], clip)
    return (scores.grad.norm(dim=-1).median() / V.grad.norm()).item()


plain = reaches_scores(1.0)
cures = {"dropout": reaches_scores(1.0, dropout_p=0.1) / plain,
         "clipping": reaches_scores(1.0, clip=1.0) / plain,
         "division": reaches_scores(1 / math.sqrt(256)) / plain}
claim("by_dropout", cures["dropout"], at_least=0.4, at_most=1.8)
claim("by_clipping", cures["clipping"], at_least=0.999, at_most=1.001)
claim("by_division", cures["division"], at_least=15)

# %% [markdown]
# Over [[by_dropout:seeds]] seeds, dropout multiplies that share by [[by_dropout:range:.2f]], clipping by
# [[by_clipping:range:.2f]], dividing by the root of $d_k$ by [[by_division:range:.0f]]. Clipping shortens *all* of a gradient by one factor, so no share of it can change. Warm-up does not touch
# gradients at all: it multiplies the step. Only the division is a cure. So what are the three for?
#
# **Dropout** keeps a model from leaning on single tokens. That matters where examples are few, so we take 64, again and
# again, and look at the loss on new ones. With [[=0.3]] of the weights dropped:

# %%
few_source, few_target = draw(64, torch.Generator().manual_seed(seed(9)))


def few(B, generator):
    rows = torch.randperm(64, generator=generator)[:B].sort().values     # (B,)
    return few_source[rows], few_target[rows]


@torch.no_grad()
def held_out_loss(model):
    source, target = draw(500, torch.Generator().manual_seed(seed(10)))
    logits = model.eval()(source, target[:, :-1])                        # (B, T, V)
    return Program().loss([(logits, target[:, 1:])]).item()


class MuchDropping(Program):
    dropout = 0.3


kept_all, dropped = train(Program(), examples=few), train(MuchDropping(), examples=few)
in_training = {"none": sum(kept_all[1][-20:]) / 20, "dropout": sum(dropped[1][-20:]) / 20}
on_new = {"none": held_out_loss(kept_all[0]), "dropout": held_out_loss(dropped[0])}
claim("few_training", in_training["none"], at_most=0.02)
claim("few_training_dropped", in_training["dropout"], at_least=0.03)
claim("few_new", on_new["none"], at_least=0.8)
claim("few_gain", on_new["none"] - on_new["dropout"], at_least=0.3)

# %% [markdown]
# Without dropout the loss is [[few_training:.3f]] on the 64 numbers and [[few_new:.2f]] on new ones: learnt by heart. With it,
# training ends higher, at [[few_training_dropped:.2f]], and the loss on new numbers is lower by [[few_gain:.2f]]. Dropout
# regularises, and makes the training loss *worse*.
#
# **Clipping** bounds what one batch can do. At step 60 we make a single loss a thousand times too large, as a corrupted example
# or a forgotten division would. With clipping and without; and without clipping where no batch is spoilt:

# %%
def spoil(step, loss):
    return 1000 * loss if step == 60 else loss


spoilt = {"clipped": train(Program(), spoil=spoil),
          "not clipped": train(Program(), spoil=spoil, clip=math.inf),
          "not clipped, no spoilt batch": train(Program(), clip=math.inf)}
shares = {name: exact_match(model.eval()) for name, (model, _) in spoilt.items()}
claim("spoilt_clipped", shares["clipped"], at_least=0.95)
claim("spoilt_not_clipped", shares["not clipped"], at_most=0.3)
claim("never_spoilt", shares["not clipped, no spoilt batch"], at_least=0.95)
plots.lines(noted, {name: fives(losses) for name, (_, losses) in spoilt.items()},
            log="y", marks=False, x="training steps", y="loss (nats)",
            roles={"clipped": "a", "not clipped": "wrong",
                   "not clipped, no spoilt batch": "f"},
            alt="Loss over 160 steps on a logarithmic axis. With clipping the spoilt batch at "
                "step 60 leaves no trace. Without it the loss jumps back to where it began, "
                "and stays far above. Without a spoilt batch, clipping "
                "makes no visible difference.")

# %% [markdown]
# Clipped, the spoilt batch leaves no trace: [[spoilt_clipped:.1%]] right. Not clipped, [[spoilt_not_clipped:.0%]]. It is not the one
# step that hurts: [Adam](../book/pages/glossary.md#adam) divides by the size of recent gradients, so no step is much larger than the
# rate. But it *remembers*: for many steps it goes on in the spoilt batch's direction, and divides all that follows by its
# size. Where no batch is spoilt, the run without clipping writes [[never_spoilt:.1%]] rightly. Clipping is an insurance, and
# shows nothing in a year without a fire.
#
# **Warm-up** is about the first steps. Adam divides the mean gradient by the root of the mean square. After *one* step both means know one
# gradient $g$, and $g / \sqrt{g^2} = \pm 1$: each parameter moves by the whole
# [learning rate](../book/pages/glossary.md#learning-rate), however small its gradient. A rate that is good later may be too
# much then.

# %%
cold = {"slow": train(Program(), warmup=0), "fast": train(Program(), lr=0.04, warmup=0),
        "fast, warmed up": train(Program(), lr=0.04, warmup=40)}
warm = {name: exact_match(model.eval()) for name, (model, _) in cold.items()}
claim("cold_slow", warm["slow"], at_least=0.9)
claim("cold_fast", warm["fast"], at_most=0.8)
claim("warm_fast", warm["fast, warmed up"], at_least=0.9)

# %% [markdown]
# At the rate of all runs above, [[=0.015]], no warm-up is needed: [[cold_slow:.1%]] right without it. At [[=0.04]] it decides:
# [[cold_fast:.0%]] without, [[warm_fast:.1%]] with 40 steps of it. Warm-up widens the range of rates that train.
#
# ## What this lesson did not show
#
# One task, one small model, [[right_written:seeds]] seeds. Where the right program ends at [[right_written:range:.1%]], small
# harm cannot be seen: on a harder task the wrong root, the tied layers or the wrong mean may well cost something, and on another a
# bug that was fatal here may pass. The gap in dropout is that of 64 examples; with plenty, dropout mostly slows a small model down.
# And properties find what somebody thought of. They do not replace a test of the whole: write, and compare with the truth.
# An exact match on new examples catches [[caught:.0f]] of the fourteen, and does not say what is wrong.
#
# ## Takeaways
#
# - A silent bug changes numbers and no shapes. Some end with a worse loss, some with the same, some with a better one.
# - The best-looking curves are the most suspicious: a loss that is too good says that the model reads the answer, or learns an
#   easier task. What it writes on its own tells.
# - A property such as "no output depends on a later input" needs no training and no data, takes milliseconds, and names the
#   bug. Beside each that forbids stands one that demands.
# - Dropout regularises, clipping insures against a spoilt batch, warm-up tames the first steps. None cures a saturated softmax;
#   dividing by $\sqrt{d_k}$ does.

# %% [markdown]
# ## Quiz
#
# 1. A translator's loss falls to a thousandth within fifty steps. What do you do first?
#
#    - [ ] Lower the learning rate: what is learnt so fast is soon forgotten again. :: The speed is a symptom. A task that takes work cannot be learnt in
#      fifty steps; something in the input must hold the answer.
#    - [ ] Save the model, and run it again with another seed, to see whether it was luck. :: It may write nothing right. With a shift by zero, that was
#      [[flattering_written[shift by zero]:.1%]] of the numbers.
#    - [x] Let it write on its own, and test whether any output depends on a later input. :: Both tell a model that has learnt
#      from one that is shown the answer. The second needs no training at all.
#
# 2. Scores are divided by $\sqrt{d_{model}}$ in a model with four heads. What does its training curve show?
#
#    - [x] nearly what the right one shows :: All scores are halved, and the projections can learn to make up for it. A property
#      that compares log weights with scores finds it at once.
#    - [ ] a loss that stays at chance :: The weights are more even than they should be, not uniform, and queries and keys can
#      grow.
#    - [ ] a loss that is suspiciously low :: That takes a way to the answer. A wrong factor opens none.
#
# 3. A batch is cut into two micro-batches, and the loss is the mean of their means. When is that right?
#
#    - [ ] always, since a mean of means is the mean :: Only for groups of one size. Here each piece would count alike, however
#      many tokens it holds.
#    - [ ] never, since gradients cannot be added :: They can: a gradient of a sum is the sum of the gradients. It is the weights of
#      the pieces that go wrong.
#    - [ ] when both have the same number of rows :: Rows differ in length. What is averaged is tokens, and padding is none.
#    - [x] when both have the same number of real tokens :: Then each token has the same weight in either way. In general, add up
#      the sums and divide once.
#
# 4. A model gives another answer each time, though `model.eval()` was called. What is the likeliest line?
#
#    - [ ] `self.drop = nn.Dropout(0.1)` :: A module looks at its flag `training`, which `eval()` has set to False.
#    - [x] `weights = F.dropout(weights, 0.1)` :: A function has no flag to look at. Its argument `training` is True unless you say
#      otherwise.
#    - [ ] `weights = F.dropout(weights, 0.1, self.training)` :: That hands the flag over, and is right.
#
# 5. Training stalls after one corrupted batch. Which remedy would have helped, and why?
#
#    - [ ] warm-up, since it makes steps small where gradients are too large :: Only the first ones. The corrupted batch came later.
#    - [ ] dropout, since it makes a model robust against examples that are wrong :: It makes a model lean less on single tokens. The corrupted gradient is as long
#      with it as without.
#    - [x] clipping, since it bounds the gradient that the optimiser remembers :: Adam divides by the size of recent gradients. One
#      that is a thousand times too long makes all steps after it too short.

# %% [markdown]
# ## Where to go from here
#
# **Now you:** in [the exercises](../exercises/14_silent_bugs.ipynb) you write a test that has to find twelve bugs, and repair
# a program with three at once. **Next:** lesson 15, which is planned, spreads one training over several processes, where pieces of
# a batch meet again. In lesson 16 you ask what a picture of attention tells.
#
# **Papers.** @srivastava2014 introduces dropout, @pascanu2013 (section 3.2) clipping by norm, @kingma2015 Adam. @vaswani2017 (section
# 5.3) trains with warm-up; @liu2020 asks why it is needed. @xiong2020 shows when it is not.
