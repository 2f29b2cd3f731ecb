# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # The limits of recurrence
#
# **What do recurrent networks forget, and why?**
#
# For decades, the usual way to read a sentence with a neural network was to read it word by word and keep notes.
# The [Transformer](../book/pages/glossary.md#transformer) gave that up. Before you learn what it does instead, you
# measure in this lesson what was wrong.
#
# **You will be able to**
#
# - compute a step of a recurrent network by hand, and say which steps have to wait for which;
# - derive why gradients fade with distance, and say what the largest singular value proves and what it does not;
# - choose a forget bias for a memory that you want, and explain chrono initialisation;
# - measure how far back a model can learn, and tell "cannot learn to keep" from "forgets";
# - judge the sentence "attention is faster because it is parallel".
#
# **Before you start** you should know matrix products, the chain rule, and a training loop in PyTorch.
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.

# %%
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

from attnlab import claim, plots, seed
from attnlab.attention import scaled_dot_product_attention
from attnlab.positions import sinusoidal_positions
from attnlab.tasks import recall
from attnlab.widgets import GradientExplorer

torch.manual_seed(seed(0))
torch.set_num_threads(1)  # models this small are not faster on two

# %% [markdown]
# ## One step after another
#
# A [recurrent network](../book/pages/glossary.md#recurrent-network) [@elman1990] reads a
# [sequence](../book/pages/glossary.md#sequence) of inputs $x_1, x_2, \dots$ one at a time. All that it knows of the past is one vector, the [hidden state](../book/pages/glossary.md#hidden-state) $h$:
#
# $$h_t = \tanh(W h_{t-1} + U x_t + b), \qquad h_0 = 0.$$
#
# $W$ takes the old state to the new one, $U$ brings the input in, $b$ is a bias. Here is a network small enough to
# follow with a pencil: a state of two numbers, inputs of one number, three inputs.

# %%
W = torch.tensor([[0.5, -1.0], [1.0, 0.5]])   # (hidden, hidden)
U = torch.tensor([[1.0], [0.5]])              # (hidden, D)
b = torch.tensor([0.0, -0.5])                 # (hidden,)
x = torch.tensor([[1.0], [0.0], [-1.0]])      # (T, D)

h1 = torch.tanh(U @ x[0] + b)                 # (hidden,) the old state is zero
h2 = torch.tanh(W @ h1 + U @ x[1] + b)        # (hidden,) needs h1
h1, h2

# %% [markdown]
# Check the first one: before the tanh it is $(1 \cdot 1 + 0,\; 0.5 \cdot 1 - 0.5) = (1, 0)$. Note the order, too. `h2` cannot
# be started before `h1` is there. Written as a loop, for any number of inputs:

# %%
def rnn_states(inputs, state, W, U, b):
    """Read inputs (T, D), starting from a state (hidden,); return all states (T, hidden)."""
    states = []
    for x_t in inputs:
        state = torch.tanh(W @ state + U @ x_t + b)   # (hidden,)
        states.append(state)
    return torch.stack(states)                        # (T, hidden)


states = rnn_states(x, torch.zeros(2), W, U, b)
states

# %% [markdown]
# PyTorch's own layer does the same, given the same numbers:

# %%
layer = nn.RNN(input_size=1, hidden_size=2, batch_first=True)
layer.load_state_dict({
    "weight_hh_l0": W, "weight_ih_l0": U, "bias_ih_l0": b, "bias_hh_l0": torch.zeros(2)})
output, _ = layer(x[None])                        # (B, T, hidden)
torch.allclose(output[0], states)

# %% [markdown]
# ## Why early inputs fade
#
# Suppose that the network reads many words and then makes a mistake that the first word could have prevented.
# Training follows [gradients](../book/pages/glossary.md#gradient), so it can learn from the mistake only if the last state $h_T$ answers a
# small change of the early state $h_t$. How it answers is a matrix of derivatives, a
# [Jacobian](../book/pages/glossary.md#jacobian). For one step the chain rule gives
#
# $$J_t = \frac{\partial h_t}{\partial h_{t-1}} = \operatorname{diag}(1 - h_t^2)\, W,$$
#
# since the slope of $\tanh$ is 1 minus its square. For many steps it gives a product, one matrix a step. Training computes it
# from the last step to the first, which is called [backpropagation through time](../book/pages/glossary.md#backpropagation-through-time):
#
# $$\frac{\partial h_T}{\partial h_t} = J_T\, J_{T-1} \cdots J_{t+1}.$$
#
# In the small network, the product of two matrices by hand and the answer of autograd agree:

# %%
jacobians = [torch.diag(1 - h**2) @ W for h in states]   # T times (hidden, hidden)
by_hand = jacobians[2] @ jacobians[1]                    # (hidden, hidden) dh3/dh1
by_autograd = torch.autograd.functional.jacobian(
    lambda h1: rnn_states(x[1:], h1, W, U, b)[-1], states[0])
by_hand, torch.allclose(by_hand, by_autograd)

# %% [markdown]
# How large can such a product be? The norm $\lVert A \rVert$ of a matrix is the most by which it stretches a vector: its largest
# [singular value](../book/pages/glossary.md#singular-value), $\sigma_{max}(A)$. The diagonal matrices hold slopes of tanh, which
# are at most 1. So each step stretches by $\sigma_{max}(W)$ at most, and $k$ steps by
#
# $$\left\lVert \frac{\partial h_T}{\partial h_{T-k}} \right\rVert \le \sigma_{max}(W)^k.$$
#
# A $\sigma_{max}$ below 1 proves that the gradient [vanishes](../book/pages/glossary.md#vanishing-gradient), exponentially [@pascanu2013, section 2]. Above 1 it
# proves nothing. Which case is a freshly made `nn.RNN`? **Before you run the next cell, guess:** is its $\sigma_{max}$ above or below 1?

# %%
layer = nn.RNN(64, 64, batch_first=True).double()
W = layer.weight_hh_l0.detach()                              # (hidden, hidden)
sigma = torch.linalg.matrix_norm(W, ord=2).item()
rho = torch.linalg.eigvals(W).abs().max().item()

inputs = torch.randn(1, 100, 64, dtype=torch.float64)        # (B, T, D)
states = layer(inputs)[0][0].detach()                        # (T, hidden)
product, left = torch.eye(64, dtype=torch.float64), []
for h in states.flip(0):                                     # from the last state backwards
    product = product @ torch.diag(1 - h**2) @ W             # (hidden, hidden)
    left.append(torch.linalg.matrix_norm(product, ord=2).item())

claim("sigma", sigma, at_least=1.05, at_most=1.2)
claim("rho", rho, at_least=0.5, at_most=0.68)
claim("step_factor", (left[49] / left[9]) ** (1 / 40), at_least=0.38, at_most=0.52)

# %% [markdown]
# It is above: $\sigma_{max}$ is [[sigma:.2f]], so the bound *grows* with $k$. The figure shows what the product really
# does. Look at the distance between the lines.

# %% tags=["hide-input"]
steps = torch.arange(1, 101)
plots.lines(steps, {"bound, σ_max to the power k": sigma**steps.double(),
                    "largest eigenvalue to the power k": rho**steps.double(),
                    "measured": left},
            log="y", marks=False, x="steps back, k", y="norm of the Jacobian",
            roles={"measured": "a"},
            alt="Three lines over 100 steps on a log axis. The bound rises slowly. The "
                "largest eigenvalue's power falls as a straight line, and the measured norm "
                "falls in an almost straight, steeper line below it.")

# %% [markdown]
# From step 10 to step 50, each step leaves [[step_factor:.2f]] of the norm, while the bound promised nothing. Two things are at
# work. The direction that $W$ stretches most comes out pointing elsewhere, so the next step does not stretch
# it again: over many steps, powers of $W$ follow its largest [eigenvalue](../book/pages/glossary.md#eigenvalue), here [[rho:.2f]] in size. And the tanh takes off
# some more at each step. Gradients can also grow step by step, or [explode](../book/pages/glossary.md#exploding-gradient). That needs a $\sigma_{max}$
# above 1, but a $\sigma_{max}$ above 1 does not bring it about.
#
# ## Gates: a path that is not multiplied by a matrix
#
# The [LSTM](../book/pages/glossary.md#lstm) [@hochreiter1997] adds a second memory, the [cell state](../book/pages/glossary.md#cell-state) $c_t$. Today's form,
# with the [forget gate](../book/pages/glossary.md#forget-gate) of @gers2000, is
#
# $$c_t = f_t \odot c_{t-1} + i_t \odot g_t, \qquad h_t = o_t \odot \tanh(c_t).$$
#
# $\odot$ multiplies entry by entry. $g_t$ is what could be written. The [gates](../book/pages/glossary.md#gate) $f$ (forget), $i$ (input)
# and $o$ (output) hold numbers from 0 to 1, made from $x_t$ and $h_{t-1}$ by a logistic function $\sigma(z) = 1/(1+e^{-z})$. The
# forget gate is
#
# $$f_t = \sigma(W_f h_{t-1} + U_f x_t + b_f).$$
#
# Along the cell state, one step back multiplies a gradient by $f_t$. There is no matrix in it, and no tanh. If a gate stays
# at 1, its gradient passes whole. (There are detours as well, from a gate through $h_{t-1}$ and its matrices. For now, leave them out.)
# Before any training, weights are small and a gate sits near $\sigma(b_f)$. The
# [forget bias](../book/pages/glossary.md#forget-bias) $b_f$ is therefore a choice of memory. Which one keeps half of a gradient over 50 steps?
# **Guess first:** 1, 4 or 20?

# %%
def kept(forget_bias, steps):
    """The share of a gradient that passes `steps` forget gates with this bias."""
    return torch.sigmoid(torch.tensor(forget_bias, dtype=torch.float64)).item() ** steps


gate = 0.5 ** (1 / 50)                       # to the power 50, it is one half
bias_for_half = math.log(gate / (1 - gate))  # the inverse of the logistic function
claim("bias_for_half", bias_for_half, at_least=4.2, at_most=4.35)
{f"bias {bias:.1f}": f"keeps {kept(bias, 50):.0e}" for bias in (0.0, 1.0, 2.0, bias_for_half)}

# %% [markdown]
# It takes a bias of [[bias_for_half:.1f]]. PyTorch's default is near 0. The 1 that @jozefowicz2015 advise keeps far more
# than that, but next to nothing over 50 steps. Setting the bias has a trap: PyTorch's LSTM has *two* bias vectors, and it
# adds them. Put 1 into both, and the forget bias is 2.

# %%
@torch.no_grad()
def set_forget_bias(lstm, value):
    # PyTorch's order of the gates is input, forget, cell, output.
    forget = slice(lstm.hidden_size, 2 * lstm.hidden_size)
    lstm.bias_ih_l0[forget] = value
    lstm.bias_hh_l0[forget] = 0.0   # the two are added
    return lstm

# %% [markdown]
# One bias for all units gives them all the same memory. @tallec2018 (section 2) spread the memories out. A unit whose gate stands at $f$
# keeps things for about $1/(1-f)$ steps; then the share $1/e$ is left. Choose $f = u/(1+u)$, and that is $1 + u$ steps. The bias for it is the inverse of $\sigma$:
#
# $$b_f = \log\frac{f}{1-f} = \log u.$$
#
# Now let each unit draw its own $u$ from a uniform distribution between 1 and $T_{max} - 1$, where $T_{max}$ is the longest memory that you
# want. That is [chrono initialisation](../book/pages/glossary.md#chrono-initialisation). The input gate gets $b_i = -\log u$: what is kept longer is
# written more slowly, so that the sum in the cell stays within bounds.

# %%
@torch.no_grad()
def set_chrono_bias(lstm, longest, generator=None):
    hidden = lstm.hidden_size
    u = torch.empty(hidden).uniform_(1.0, longest - 1.0, generator=generator)   # (hidden,)
    lstm.bias_ih_l0.zero_()                        # our choice for all other biases
    lstm.bias_hh_l0.zero_()
    lstm.bias_ih_l0[hidden:2 * hidden] = u.log()   # forget gate
    lstm.bias_ih_l0[:hidden] = -u.log()            # input gate
    return lstm

# %% [markdown]
# The course's package holds both functions, with checks of what they are given, in `attnlab.recurrent`.
#
# ## How much gradient is left at a distance?
#
# So much for the argument; now the measurement. Add up the numbers of the last output with random weights, follow this sum back
# to every input, and note how long the gradient is that arrives. Divide by its length at the last input, at distance 0.

# %%
def gradient_by_distance(last_output, inputs, generator):
    """How much gradient of the last output arrives at inputs (B, T, D).

    Returns (T,): entry k is the gradient's norm k steps back, divided by entry 0.
    """
    inputs = inputs.detach().requires_grad_()
    output = last_output(inputs)                                   # (B, hidden)
    direction = torch.randn(output.shape, generator=generator, dtype=output.dtype)
    (gradient,) = torch.autograd.grad(output, inputs, direction)   # (B, T, D)
    norms = gradient.norm(dim=-1).mean(dim=0).flip(0)              # (T,) the last input first
    return norms / norms[0]

# %% [markdown]
# Two kinds of model read the inputs. One is recurrent, and answers with its last state. The other is
# [attention](../book/pages/glossary.md#attention), still a black box: it compares what the last position asks for with what
# every position offers, and returns a weighted average over all of them. So any input reaches the answer in one
# step. By itself, attention does not see order: a [position encoding](../book/pages/glossary.md#position-encoding), added to the inputs, tells it
# which place is which (lesson 6). [Lesson 3](03_query_key_value.ipynb) opens the box.

# %%
class LastState(nn.Module):
    """Reads (B, T, D) with a recurrent layer and returns its last state (B, hidden)."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        states, _ = self.layer(x)     # (B, T, hidden)
        return states[:, -1]          # (B, hidden)


class LastAsks(nn.Module):
    """Reads (B, T, D): the last position asks, all positions answer. Returns (B, D)."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        _, length, width = x.shape
        # Halved, so that x does not drown out the positions.
        x = 0.5 * x + sinusoidal_positions(length, width, dtype=x.dtype)   # (B, T, D)
        query = self.query(x[:, -1:])                                      # (B, 1, D)
        attended = scaled_dot_product_attention(query, self.key(x), self.value(x))
        return attended.output[:, 0]                                       # (B, D)

# %% [markdown]
# Seven models, each with 64 units and untrained, read 200 random inputs. One is a [GRU](../book/pages/glossary.md#gru) [@cho2014], a lighter relative of
# the LSTM with gates but no cell. We use float64: float32 has no numbers small enough for what follows. **Guess before you go on:** how much of the default LSTM's gradient
# is left after 50 steps? One half? A thousandth?

# %%
width, length = 64, 200


def lstm():
    return nn.LSTM(width, width, batch_first=True)


models = {
    "RNN": lambda: LastState(nn.RNN(width, width, batch_first=True)),
    "GRU": lambda: LastState(nn.GRU(width, width, batch_first=True)),
    "LSTM, default": lambda: LastState(lstm()),
    "LSTM, forget bias 1": lambda: LastState(set_forget_bias(lstm(), 1.0)),
    "LSTM, forget bias 2": lambda: LastState(set_forget_bias(lstm(), 2.0)),
    "LSTM, chrono": lambda: LastState(set_chrono_bias(lstm(), length)),
    "attention": lambda: LastAsks(width),
}

# %% [markdown]
# Each curve is the geometric mean over five random networks and inputs: for numbers that differ by powers of ten, an ordinary
# mean would only repeat the largest.

# %%
def curve(make):
    logs = []
    for i in range(5):
        torch.manual_seed(seed(i))
        g = torch.Generator().manual_seed(seed(100 + i))
        inputs = torch.randn(16, length, width, generator=g, dtype=torch.float64)  # (B, T, D)
        logs.append(gradient_by_distance(make().double(), inputs, g).log())        # (T,)
    return torch.stack(logs).mean(dim=0).exp()                                     # (T,)


curves = {name: curve(make) for name, make in models.items()}

# %% [markdown]
# On this axis, a straight line means that each step takes away the same share. Look for the lines that are straight, the one
# that bends, and the one that is flat.

# %% tags=["hide-input"]
shown = {name: c.masked_fill(c < 1e-20, torch.nan) for name, c in curves.items()}
plots.lines(range(length), shown, log="y", marks=False, roles={"attention": "weight"},
            x="distance to the last input, in steps", y="gradient, relative to distance 0",
            alt="Gradient against distance on a log axis. RNN, GRU and default LSTM fall in "
                "straight lines and leave the figure within 100 steps. Forget bias 1 falls "
                "more slowly, forget bias 2 more slowly still. Chrono bends and stays above "
                "a hundredth. Attention drops at the first step and is flat from there.")

# %% [markdown]
# Lines leave the figure where they fall below $10^{-20}$; the RNN, the GRU and the default LSTM do. In numbers, at distance 50:

# %%
at_50 = {name: c[50].item() for name, c in curves.items()}
faded = ("RNN", "LSTM, default", "LSTM, forget bias 1")
lost = {name: -math.log10(at_50[name]) for name in faded}
claim("rnn_lost", lost["RNN"], at_least=15, at_most=18.5)
claim("lstm_lost", lost["LSTM, default"], at_least=10.4, at_most=11.4)
claim("bias_1_lost", lost["LSTM, forget bias 1"], at_least=4.3, at_most=5.1)
claim("bias_2_kept", at_50["LSTM, forget bias 2"], at_least=0.025, at_most=0.045)
claim("chrono_kept", at_50["LSTM, chrono"], at_least=0.08, at_most=0.17)
claim("attention_kept", at_50["attention"], at_least=0.1, at_most=0.25)
beyond = curves["attention"][1:]
claim("attention_ripple", (beyond.max() / beyond.min()).item(), at_most=1.6)

# %% [markdown]
# | model | gradient left at distance 50 |
# | --- | --- |
# | RNN | [[rnn_lost:.0f]] powers of ten are gone |
# | LSTM, default | [[lstm_lost:.0f]] powers of ten are gone |
# | LSTM, forget bias 1 | [[bias_1_lost:.0f]] powers of ten are gone |
# | LSTM, forget bias 2 | [[bias_2_kept:.1%]] |
# | LSTM, chrono | [[chrono_kept:.0%]] |
# | attention | [[attention_kept:.0%]], and about as much at any distance above 0 |
#
# **Often said: "early inputs fade."** They do in a default RNN, GRU or LSTM. But what decides is the
# [initialisation](../book/pages/glossary.md#initialisation), not the name of
# the network: the four LSTMs have the same formula and differ in two vectors of numbers. Chrono's line bends
# because its units have many memories: the short ones fade first, and the long ones remain. The LSTMs with one bias keep more than our
# $\sigma(b_f)^{50}$. What they have on top came through the detours; exercise 5 closes these and measures again.
#
# **The limits of this result.** These networks are untrained, and their inputs are noise: training moves the gates. A flat
# line does not mean a strong gradient either: attention spreads its weight over all 200 inputs, so each gets a small share. Nor is the line
# quite flat: its largest and smallest values beyond distance 0 differ by a factor of [[attention_ripple:.1f]]. Distance 0 stands out, since
# the last input also asks the question.
#
# Drag the distance, and read off what each model has left. (The GRU is left out: it falls like the default LSTM.)

# %%
drawn = {name: c for name, c in curves.items() if name != "GRU"}
colours = dict(zip(curves, "abcdef")) | {"attention": "weight"}         # the figure's
GradientExplorer(drawn, distance=50, roles={name: colours[name] for name in drawn})

# %% [markdown]
# :::{admonition} The common confusion: "the gradient vanishes, so the network forgets"
# :class: caution
# A gradient says how the output answers a *small change* of an input. That is not memory. A light switch remembers
# for years which way it was last pressed, and a breath of air does not move it: no gradient, perfect memory. The next cell builds one.
# :::

# %%
# Two runs of a network with one unit: the first input says on, or off.
first = torch.tensor([1.0, -1.0], dtype=torch.float64, requires_grad=True)   # (B,)
state = torch.tanh(3 * first)                                                # (B,)
for _ in range(200):
    state = torch.tanh(2 * state)   # W = 2, and no more input
state.sum().backward()

claim("latch_state", state[0].item(), at_least=0.957, at_most=0.958)
claim("latch_lost", -math.log10(first.grad[0].item()), at_least=156, at_most=159)
state.detach().round(decimals=2)

# %% [markdown]
# After 200 steps the state is still [[latch_state:.2f]] or its negative: the unit knows what came first. The gradient has lost
# [[latch_lost:.0f]] powers of ten. @bengio1994 showed that the two belong together: a network that stores a bit safely
# against noise has, for that very reason, a vanishing gradient. So a vanished gradient does not say that a network *forgets*. It says that
# the network can hardly *learn*, by gradient descent, to keep something. (The vanishing itself was first described by @hochreiter1991.)
#
# ## Can it learn to remember?
#
# Then let it learn. The [recall task](../book/pages/glossary.md#recall-task) is the smallest test: one of 8 symbols, then $N$
# [distractors](../book/pages/glossary.md#distractor), then a cue that asks for the first symbol. Distractors are drawn from the same 8 symbols, so that
# only its place, after a start mark, tells the one to keep. Guessing is right one time in eight. Each row holds
# [tokens](../book/pages/glossary.md#token), whole numbers that stand for symbols and marks:

# %%
num_symbols = 8
tokens, targets = recall(2, 5, torch.Generator().manual_seed(seed(0)), num_symbols=num_symbols)
tokens, targets   # (B, N + 3) and (B,); 8 is the start mark, 9 the cue

# %% [markdown]
# The models are the ones you know, with an [embedding](../book/pages/glossary.md#embedding) (a learned vector for each symbol) before them
# and a linear layer behind them.

# %%
class Reader(nn.Module):
    """Tokens (B, T) in, one score for each symbol (B, V) out."""

    def __init__(self, body):
        super().__init__()
        self.embedding = nn.Embedding(num_symbols + 2, width)
        self.body = body
        self.readout = nn.Linear(width, num_symbols)

    def forward(self, tokens):
        x = self.embedding(tokens)             # (B, T, D)
        return self.readout(self.body(x))      # (B, V)

# %% [markdown]
# Everyone gets the same training: [Adam](../book/pages/glossary.md#adam) changes all [parameters](../book/pages/glossary.md#parameter), with a
# [learning rate](../book/pages/glossary.md#learning-rate) of 0.003, on fresh [batches](../book/pages/glossary.md#batch) of 64, with gradients
# [clipped](../book/pages/glossary.md#gradient-clipping) to norm 1, for at most 300 steps. Training ends early when the
# [loss](../book/pages/glossary.md#loss), here the [cross-entropy](../book/pages/glossary.md#cross-entropy), is almost zero.

# %%
def train(model, batches, steps=300, lr=3e-3, stop_below=0.01):
    """Train in place until the loss of a batch is below `stop_below`; return the losses."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        tokens, targets = next(batches)
        loss = F.cross_entropy(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if losses[-1] < stop_below:
            break
    return losses

# %%
def accuracy_after_training(body, distractors):
    """The share of 1,000 fresh rows that a newly trained reader answers right."""
    g = torch.Generator().manual_seed(seed(1))
    model = Reader(body)
    train(model, (recall(64, distractors, g) for _ in range(300)))
    with torch.no_grad():
        tokens, targets = recall(1000, distractors, g)
        return (model(tokens).argmax(dim=-1) == targets).double().mean().item()

# %% [markdown]
# **Guess before you run it:** the default LSTM, over 5 distractors, and over 30?

# %%
tests = {
    "LSTM, default": (lambda n: LastState(lstm()), [5, 30]),
    "LSTM, forget bias 2": (lambda n: LastState(set_forget_bias(lstm(), 2.0)), [5, 30, 100]),
    "LSTM, chrono": (lambda n: LastState(set_chrono_bias(lstm(), 2 * n)), [5, 30, 100]),
    "attention": (lambda n: LastAsks(width), [5, 30, 100, 500]),
}
accuracy = {}
for name, (make, distances) in tests.items():
    for n in distances:
        torch.manual_seed(seed(0))
        accuracy[name, n] = accuracy_after_training(make(n), n)

# %% [markdown]
# The default LSTM was not tried beyond its first failure. No LSTM was tried at 500, to save time: whether chrono would get there,
# the figure does not say. Look for the bars that stop at the dotted line, where guessing is.

# %% tags=["hide-input"]
labels = {(name, n): f"{name}, N = {n}" for name, n in accuracy}
roles = {label: "weight" for (name, _), label in labels.items() if name == "attention"}
plots.bars({labels[pair]: share for pair, share in accuracy.items()},
           y="share of rows answered right", roles=roles, guides={"chance": 1 / num_symbols},
           alt="One bar for each model and number of distractors. The default LSTM is near 1 "
               "at 5 and at chance at 30. Forget bias 2 still learns at 30 and is at chance "
               "at 100. Chrono stays near 1 up to 100, attention up to 500.")

# %%
claim("default_5", accuracy["LSTM, default", 5], at_least=0.98)
claim("default_30", accuracy["LSTM, default", 30], at_most=0.25)
claim("bias_2_30", accuracy["LSTM, forget bias 2", 30], at_least=0.8)
claim("bias_2_100", accuracy["LSTM, forget bias 2", 100], at_most=0.25)
claim("chrono_100", accuracy["LSTM, chrono", 100], at_least=0.99)
claim("attention_500", accuracy["attention", 500], at_least=0.99)

# %% [markdown]
# | model | N | right | right, over [[chrono_100:seeds]] [seeds](../book/pages/glossary.md#seed) |
# | --- | --- | --- | --- |
# | LSTM, default | 5 | [[default_5:.1%]] | [[default_5:range:.1%]] |
# | LSTM, default | 30 | [[default_30:.1%]] | [[default_30:range:.1%]] |
# | LSTM, forget bias 2 | 30 | [[bias_2_30:.1%]] | [[bias_2_30:range:.1%]] |
# | LSTM, forget bias 2 | 100 | [[bias_2_100:.1%]] | [[bias_2_100:range:.1%]] |
# | LSTM, chrono | 100 | [[chrono_100:.1%]] | [[chrono_100:range:.1%]] |
# | attention | 500 | [[attention_500:.1%]] | [[attention_500:range:.1%]] |
#
# The default LSTM recalls over 5 distractors and guesses over 30: it is at [chance](../book/pages/glossary.md#chance-level). The models fail
# in the order in which their gradients faded.
#
# **Often said: "an LSTM loses context beyond 100 steps."** There is no such constant. The same LSTM, trained the same way,
# failed at 30 and solved 100; what changed were its biases at the start. In a *trained* language model, @khandelwal2018
# found that an LSTM used about 200 tokens, and heeded their order only in the nearest 50. That is
# what those models had learned from those texts, not a wall in the formula.
#
# **The limits of this result.** It is a toy: one symbol at a fixed place, and 300 steps of training. The chrono network was told how long
# its memory should be ($T_{max} = 2N$). And the task suits attention, which needs only to learn where to look.
#
# ## Parallel is not the same as fast
#
# There is a second limit. A recurrent network must compute $h_1$, then $h_2$, and so on: its
# [dependent steps](../book/pages/glossary.md#dependent-steps) grow with the number of inputs, $T$. We can count them. Autograd keeps a
# graph of which operation used the result of which. The operations on its longest path must run one after another, whatever the
# hardware. (A matrix product counts as one operation, of any size.)

# %%
def longest_chain(result):
    """The number of operations on the longest path from `result` back to its inputs."""
    length, waiting = {}, [result.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [parent for parent, _ in node.next_functions if parent is not None]
        missing = [parent for parent in before if parent not in length]
        if missing:
            waiting.extend(missing)
        else:
            length[waiting.pop()] = 1 + max((length[parent] for parent in before), default=0)
    return length[result.grad_fn]

# %% [markdown]
# **Guess:** doubling $T$ does what to the chain of an RNN, and to that of attention?

# %%
rnn_chain, attention_chain = {}, {}
W, U, b = (torch.randn(shape, requires_grad=True) for shape in [(4, 4), (4, 4), (4,)])
for T in (8, 16, 32, 64):
    x = torch.randn(T, 4)   # (T, D)
    rnn_chain[T] = longest_chain(rnn_states(x, torch.zeros(4), W, U, b)[-1])
    attended = scaled_dot_product_attention(x @ W, x @ U, x @ W)
    attention_chain[T] = longest_chain(attended.output)

claim("rnn_chain", rnn_chain, at_least=24)
claim("rnn_growth", (rnn_chain[64] - rnn_chain[32]) / 32, at_least=2, at_most=5)
claim("attention_chain", attention_chain, at_most=12)
claim("attention_growth", attention_chain[64] - attention_chain[8], equals=0)

# %% [markdown]
# | inputs, T | RNN: operations in a row | attention: operations in a row |
# | --- | --- | --- |
# | 8 | [[rnn_chain[8]]] | [[attention_chain[8]]] |
# | 64 | [[rnn_chain[64]]] | [[attention_chain[64]]] |
#
# Each input adds [[rnn_growth:.0f]] operations to the RNN's chain. Attention's chain grows by [[attention_growth]]: all positions are done
# at once. This is the sense in which attention is parallel [@vaswani2017, section 4].
#
# **Often said: "attention is faster because it is parallel."** A short chain helps where there is idle hardware to
# fill. It says nothing about the amount of work. Count multiplications for $T$ inputs of width $D$: an LSTM has four gates with
# two matrices each, $8TD^2$. Attention has three matrices, $3TD^2$, and compares all pairs and averages over all pairs, $2T^2D$.
# The two are equal where $8D = 3D + 2T$:

# %%
D = 256
claim("equal_work", (8 * D - 3 * D) / 2, equals=640)

# %% [markdown]
# So at width 256, attention multiplies less below $T =$ [[equal_work:.0f]], and more and more above. Now the clock, on one thread of
# a CPU, where there is no idle hardware: the forward pass of PyTorch's LSTM and of attention (in its fastest form), side by side.

# %%
def seconds(function, x, repeats):
    """The fastest of several runs: other programs can only add time."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function(x)
        times.append(time.perf_counter() - start)
    return min(times)


recurrent = nn.LSTM(D, D, batch_first=True)
query, key, value = (nn.Linear(D, D) for _ in range(3))


def attend(x):
    attended = scaled_dot_product_attention(query(x), key(x), value(x), need_weights=False)
    return attended.output   # (B, T, D)

# %% [markdown]
# The figure shows the LSTM's time divided by that of attention. Above the thin line, attention is faster.

# %% tags=["nbval-ignore-output"]
lengths, ratios = [32, 128, 512, 2048, 8192], []
with torch.no_grad():
    for T in lengths:
        x = torch.randn(1, T, D)   # (B, T, D)
        repeats = max(2, 1024 // T)
        ratios.append(seconds(recurrent, x, repeats) / seconds(attend, x, repeats))

plots.lines(lengths, {"LSTM / attention": ratios}, log="x",
            x="inputs, T", y="time of LSTM / time of attention",
            guides={"equally fast": 1.0}, roles={"LSTM / attention": "weight"},
            alt="Time of the LSTM over time of attention against the number of inputs. The "
                "ratio lies well above 1 for few inputs and below 1 for the most.")

# %% [markdown]
# Attention wins on short sequences and loses on long ones. Your line may cross 1 elsewhere than ours, and later than the count said:
# one large product uses a processor better than many small ones, so the LSTM pays for its order even here. On a graphics
# processor thousands of arithmetic units wait for each link of the chain. We expect the crossing much further out there,
# but have not measured it.
#
# ## Takeaways
#
# - A recurrent network computes $h_t$ from $h_{t-1}$, so each step waits for the one before: [[rnn_growth:.0f]] operations in a row for each input.
# - The gradient over $k$ steps is a product of $k$ Jacobians. $\sigma_{max} < 1$ proves that it vanishes; above 1 it proves nothing, and
#   in a fresh RNN it vanishes all the same, to [[step_factor:.2f]] of itself at each step.
# - Along the cell state, a forget gate multiplies the gradient by $f \approx \sigma(b_f)$. Keeping half over 50 steps takes a bias of [[bias_for_half:.1f]]; chrono
#   initialisation spreads the units over all memories up to the longest one.
# - A vanished gradient means that a network can hardly *learn* to keep something, not that it forgets. The default LSTM failed a recall
#   over 30 distractors; the same LSTM with chrono biases solved 100, and attention 500.
# - "Parallel" counts dependent steps; "fast" depends on the work and on the machine. For long sequences, attention's work grows as $T^2$.

# %% [markdown]
# ## Quiz
#
# 1. The largest singular value of an RNN's matrix $W$ is above 1. What does that prove about its gradients over many steps?
#
#    - [ ] They explode. :: To explode, gradients need a $\sigma_{max}$ above 1, but that is not enough. In the fresh `nn.RNN` it was
#      above 1, and the gradients vanished.
#    - [ ] They last, since no step can shrink them. :: $\sigma_{max}$ is the *most* that a step stretches. Other directions are
#      stretched less or shrunk, and the slopes of the tanh, at most 1, take off more.
#    - [x] nothing :: The bound $\sigma_{max}^k$ then grows, and a bound that grows forbids neither growth nor decay. Only a
#      $\sigma_{max}$ below 1 proves something: that they vanish.
#
# 2. What forget bias does this LSTM of PyTorch have?
#
#    ```python
#    forget = slice(hidden, 2 * hidden)
#    lstm.bias_ih_l0.data[forget] = 1.0
#    lstm.bias_hh_l0.data[forget] = 1.0
#    ```
#
#    - [x] 2 :: PyTorch's LSTM has two bias vectors and adds them. Each gate sees the sum.
#    - [ ] 1 :: It would be, if the last line set zeros. The two vectors are added.
#    - [ ] none: these entries belong to the input gate :: PyTorch's order is input, forget, cell, output. The second
#      block of `hidden` entries is the forget gate's.
#
# 3. A gradient has lost more than a hundred powers of ten on its way back to the first input. What follows?
#
#    - [ ] The network has forgotten the first input. :: The light switch shows that it need not: its state still says what came
#      first, while the gradient is gone. A gradient measures the answer to a *small change*.
#    - [x] Training can hardly teach the network to keep that input. :: Gradient descent follows this number. Where it is
#      that small, nothing tells the early steps what they should have kept.
#    - [ ] A larger learning rate is needed for the early inputs. :: All steps of a recurrent network share one $W$, so there is no
#      such thing as a rate for early inputs. And what multiplies the tiny part multiplies the large parts, too.
#    - [ ] The gradient was clipped too hard. :: Clipping scales the whole gradient by one number. It cannot make one part fade
#      against another.
#
# 4. "An LSTM loses context beyond 100 steps." What did this lesson measure?
#
#    - [ ] It is right for every LSTM, and wrong for attention. :: With chrono biases, the same LSTM solved a recall over 100
#      distractors.
#    - [ ] It is wrong: an LSTM keeps what it needs for as long as it is needed. :: The default LSTM guessed at 30
#      distractors. A cell state *can* last, but training has to get there from where it starts.
#    - [x] There is no such number: initialisation, task and training decide. :: The formula was the same each time. Two vectors
#      of biases decided whether 30 distractors were too many or 100 were few.
#
# 5. Your sequences are very long and your processor has one thread. Why may an LSTM take less time than attention?
#
#    - [ ] It has fewer operations in a row. :: It is the other way round: an LSTM's chain grows with $T$, attention's does
#      not grow at all.
#    - [x] Its work grows as $T$, that of attention as $T^2$. :: A short chain helps where hardware is idle. On one thread there is
#      none, and the amount of work decides.
#    - [ ] Attention waits for the first position before it computes the last. :: No position waits for another in attention. That is
#      what parallel means.
#    - [ ] It was trained with clipped gradients. :: Clipping belongs to training. The clock measured a forward pass.

# %% [markdown]
# ## Where to go from here
#
# **Practise:** [the exercises of this lesson](../exercises/01_recurrence_limits.ipynb).
#
# **What comes next.** Attention solved the recall as a black box. [Lesson 2](02_soft_lookup.ipynb) opens it from the side of the
# lookup, and lesson 3 from the side of the formula: what is asked, what answers, and why the answer is scaled.
#
# **Papers.** Why gradients vanish: @hochreiter1991, @bengio1994, @pascanu2013. Gates and their biases: @hochreiter1997, @gers2000,
# @jozefowicz2015, @tallec2018. What trained LSTMs use: @khandelwal2018. The network that gave up recurrence: @vaswani2017.
