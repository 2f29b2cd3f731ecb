# ---
# jupyter:
#   kernelspec: {name: python3, display_name: Python 3, language: python}
# ---

# %% [markdown]
# # Translation
#
# **Does it translate?**
#
# In lesson 8 you put the [Transformer](../book/pages/glossary.md#transformer) together. Now it gets work: dates, times,
# prices and number words, from English into a language that you choose. Most of what decides whether it works lies
# *around* the model: how text is cut, what the loss counts, how fast the steps are, and how the answers are judged.
#
# **You will be able to**
#
# - cut text into tokens that join to the text again, and say when words will not do and sub-words will;
# - write the loss over real tokens with label smoothing, and a schedule with warm-up;
# - train a translator in under a minute, save it in 8 bits and load it;
# - judge it: by exact match, error by error, by where it looks, and by what happens without one of its parts;
# - name what a high score on held-out data hides.
#
# **Before you start** you should know lessons 3 to 8.
#
# **How long:** [[how-long:read]] to read, [[how-long:run]] to run.

# %%
import functools
import math
import os
import re
import tempfile
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from babel.numbers import format_currency

from attnlab import claim, plots, seed, tasks, training
from attnlab.export import Tokeniser, TrainedTranslator, load_translator, save_translator
from attnlab.tasks import BOS, EOS, PAD, UNK
from attnlab.transformer import Transformer, TransformerConfig, beam_search
from attnlab.widgets import TranslatorExplorer

# %% [markdown]
# One word decides the language. The text below speaks of French. With another word the numbers differ, and a cell says so
# where one leaves the bounds that hold for French.

# %%
torch.set_flush_denormal(True)    # numbers below 1e-38 count as 0: they are slow
language = "fr"                   # or "de", "es", "zh"

# %% [markdown]
# ## Look at the data first
#
# Nothing is downloaded. Babel holds the CLDR, the tables of how each language writes dates, times and amounts, and
# num2words spells out numbers (cn2an for Chinese). A value is drawn and written twice. We draw 21,000 pairs, no English phrase twice, and
# put 1,000 of them aside before we look at anything.

# %%
pairs = tasks.translation_pairs(21_000, language=language, seed=seed(0))
train, held_out = tasks.split_pairs(pairs, 1_000, seed=seed(1))
sources = {pair.source for pair in train}
claim("leaked", sum(pair.source in sources for pair in held_out), equals=0)
for kind in tasks.KINDS:
    for pair in [pair for pair in train if pair.kind == kind][:2]:
        print(f"{kind:12} | {pair.source} | {pair.target}")

# %% [markdown]
# Of the held-out phrases, [[leaked:.0f]] occur in training. Is this more than a dictionary could do? **Before you run
# the next cell:** what changes in an amount of money besides the words? Look at three amounts in five languages.

# %%
locales = {"en": "en_US", "fr": "fr_FR", "de": "de_DE", "es": "es_ES", "zh": "zh_CN"}
for name, locale in locales.items():
    amounts = [format_currency(amount, "CHF", locale=locale, format_type="name")
               for amount in (1.75, 2, 28979.5)]
    print(name, *amounts, sep=" | ")

# %% [markdown]
# The separators trade places: English points become French commas, English commas become French spaces. And French
# writes *1,75 franc suisse* in the **singular**: in French everything below 2 is one. So the last words depend on the
# first digit and on how many digits follow it. There is more of the kind: *8:09 PM* becomes *20:09*, *12:51 AM* becomes
# *00:51*; *eighty-one* is *quatre-vingt-un*, four-twenty-one; *deux cents* loses its *s* as soon as something follows.
# A dictionary has none of this. A model must find it in the pairs.
#
# ## Text to tokens and back
#
# A model reads [tokens](../book/pages/glossary.md#token). A [tokeniser](../book/pages/glossary.md#tokeniser) cuts the
# text. Many throw the spaces away and then need rules to put them back, other rules for each language. Ours throws
# nothing away: a space stays with the word beside it. Digits stand alone, so that every number is made of ten known
# pieces, and never take a space, so that a digit is the same token everywhere.

# %%
PIECE = re.compile(r"\d"                            # a digit; or
                   r"| ?(?:[^\W\d_]+|[^\s\d])"      # a word or a sign with a space before,
                   r"(?: (?=\d))?"                  # and with the space before a digit;
                   r"|\s")                          # or a space that is left over


def split_words(text):
    return PIECE.findall(text)


split_words("1.75 Swiss francs, July 4")

# %%
texts = [text for pair in pairs for text in (pair.source, pair.target)]
claim("not_rejoined", sum("".join(split_words(text)) != text for text in texts), equals=0)
claim("texts", len(texts), equals=42_000)

# %% [markdown]
# Joined again, [[not_rejoined:.0f]] of all [[texts:,.0f]] texts come out changed. The
# [vocabulary](../book/pages/glossary.md#vocabulary) numbers the tokens of the *training* texts. Four numbers are special:
# [padding](../book/pages/glossary.md#padding), the beginning and the end of a text, and 3 for a token that is not known.

# %%
def build_vocabulary(rows):
    tokens = sorted({token for row in rows for token in row})
    special = ["<pad>", "<bos>", "<eos>", "<unk>"]
    return {token: number for number, token in enumerate([*special, *tokens])}


def encode(tokens, vocabulary):
    return [vocabulary.get(token, UNK) for token in tokens]


# %% [markdown]
# ### Capitals, and words never seen
#
# Readers will type *tuesday*. To a vocabulary that is another token than *Tuesday*, and one it has never seen. In these
# English phrases case says nothing, so we fold it: the source is put into lower case, in training and in use. (In German
# *essen* is to eat and *Essen* is food. Folding is a choice about the data, not a rule.)

# %%
as_written = build_vocabulary(split_words(pair.source) for pair in train)
folded = build_vocabulary(split_words(pair.source.lower()) for pair in train)
for text in ["Tuesday, July 4", "tuesday, july 4", "Blursday, July 4"]:
    print(f"{text:17}", encode(split_words(text), as_written),
          encode(split_words(text.lower()), folded))

# %% [markdown]
# Left the numbers with case, right without. *Blursday* is a 3 either way, the [unknown
# token](../book/pages/glossary.md#unknown-token). In training no word is unknown, so that row of the
# [embedding](../book/pages/glossary.md#embedding) would stay the random vector that it began as, and what it does to a
# sentence would be chance. The remedy is to hide a few words at random while training: words only, for digits and signs
# are never new.

# %%
def random_unknowns(source, share, is_word, generator):
    """Source (B, S) in which that share of the words, `is_word` (V,), reads <unk>."""
    chosen = torch.rand(source.shape, generator=generator) < share    # (B, S)
    return source.masked_fill(chosen & is_word[source], UNK)          # (B, S)


# %% [markdown]
# Hiding words costs something: what is hidden cannot be learnt from. So we do it in the first half of the training only.
#
# ### When words will not do
#
# German writes a number below a million as *one* word. **Guess:** of 500 new numbers, how many words has a vocabulary of
# 1,000 others seen?

# %%
numbers = tasks.translation_pairs(1_500, language="de", kinds=["number_words"], seed=seed(0))
words = [pair.target for pair in numbers]
known, new = words[:1_000], words[1_000:]
claim("german_known", len(set(new) & set(known)), equals=0)
print(new[0])

# %% [markdown]
# [[german_known:.0f]]: each number is a word of its own, and a model of words cannot write a single new one. The parts,
# *zwei*, *hundert*, *und*, come again and again. [Byte-pair encoding](../book/pages/glossary.md#byte-pair-encoding)
# [@sennrich2016, section 3.2] finds such parts without knowing German: begin with single characters, join the pair of
# neighbours that occurs most often, and repeat.

# %%
def join(row, pair):
    """The row with each occurrence of the pair made one piece, from the left."""
    joined = []
    for piece in row:
        if joined and (joined[-1], piece) == pair:
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


def learn_merges(counts, num_merges):
    rows, merges = {word: list(word) for word in counts}, []
    for _ in range(num_merges):
        found = Counter()
        for word, row in rows.items():
            for pair in zip(row, row[1:]):
                found[pair] += counts[word]
        merges.append(min(found, key=lambda pair: (-found[pair], pair)))
        rows = {word: join(row, merges[-1]) for word, row in rows.items()}
    return merges


# %% [markdown]
# By hand on five words, each with the count that the code gives it. *e i* stands in all five, more than any other pair, and
# is joined first. Follow *dreihundert*.

# %%
counts = {"zwei": 3, "drei": 3, "zweihundert": 1, "dreihundert": 1, "zweitausend": 1}
row = list("dreihundert")
for pair in learn_merges(counts, 11):
    row = join(row, pair)
    print(f"{'+'.join(pair):9}", " ".join(row))

# %% [markdown]
# The parts of the language stand there. Now 60 merges, learnt on the known words and used on the new ones:

# %%
def cut(word, merges):
    row = list(word)
    for pair in merges:
        row = join(row, pair)
    return row


merges = learn_merges(Counter(known), 60)
parts = {piece for word in known for piece in cut(word, merges)}
new_rows = [cut(word, merges) for word in new]
claim("german_unknown", sum(piece not in parts for row in new_rows for piece in row), equals=0)
claim("german_parts", len(parts), at_least=35, at_most=60)
claim("pieces_a_word", sum(map(len, new_rows)) / len(new), at_least=4.5, at_most=6)
print(" ".join(new_rows[0]))

# %% [markdown]
# [[german_parts:.0f]] [sub-words](../book/pages/glossary.md#sub-word) write all new numbers, with
# [[german_unknown:.0f]] unknown pieces and [[pieces_a_word:.1f]] pieces a word. So German targets are cut into sub-words,
# Chinese ones, which have no spaces, into characters, French and Spanish ones into words. The library's `Tokeniser` holds
# the way to cut and the vocabulary together.

# %%
pieces = {"fr": "words", "es": "words", "de": "subwords", "zh": "characters"}[language]
targets = [pair.target for pair in train]
source_side = Tokeniser.from_texts([pair.source for pair in train], "words", lower_case=True)
target_side = Tokeniser.from_texts(
    targets, pieces, merges=tasks.learn_merges(targets, 60) if language == "de" else ())
rows = [(source_side.encode(pair.source), target_side.encode(pair.target)) for pair in train]

# %% [markdown]
# ## Batches
#
# Rows of a [batch](../book/pages/glossary.md#batch) are filled up to the longest, and padding is work for nothing. So
# batches are made of rows of similar length: shuffle, sort within pools of some batches, cut, and shuffle the batches.

# %%
generator = torch.Generator().manual_seed(seed(2))


def buckets(rows, batch_size, generator, pool=20):
    """Indices of all rows in batches of similar length, in random order."""
    order = torch.randperm(len(rows), generator=generator).tolist()
    batches = []
    for start in range(0, len(order), pool * batch_size):
        near = sorted(order[start:start + pool * batch_size],
                      key=lambda index: sum(map(len, rows[index])))
        batches += [near[i:i + batch_size] for i in range(0, len(near), batch_size)]
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]


def padding_share(batches):
    """Share of the places of sources and targets that hold no token."""
    lengths = [[[len(side) for side in rows[index]] for index in batch] for batch in batches]
    real = sum(sum(map(sum, batch)) for batch in lengths)
    places = sum(len(batch) * sum(map(max, zip(*batch))) for batch in lengths)
    return 1 - real / places


shuffled = torch.randperm(len(rows), generator=generator).split(64)
claim("padding_shuffled", padding_share([batch.tolist() for batch in shuffled]), at_least=0.25)
claim("padding_buckets", padding_share(buckets(rows, 64, generator)), at_most=0.2)

# %% [markdown]
# Padding falls from [[padding_shuffled:.0%]] of all places to [[padding_buckets:.0%]]. `tasks.batches` does this, and the
# shift of lesson 8: where the [decoder](../book/pages/glossary.md#decoder) reads `<bos> x y`, it has to say `x y <eos>`.
#
# ## The loss
#
# The decoder gives at each place a probability $p_v$ for each of the $V$ tokens. The
# [loss](../book/pages/glossary.md#loss) is the [cross-entropy](../book/pages/glossary.md#cross-entropy) over the $N$ real
# tokens of a batch. With [label smoothing](../book/pages/glossary.md#label-smoothing) [@szegedy2016, section 7] the target
# $y_n$ is asked for with $1 - \varepsilon$ only, and $\varepsilon$ is spread evenly over all tokens:
#
# $$L = -\frac{1}{N} \sum_{n=1}^{N} \left[ (1 - \varepsilon) \ln p_{n y_n}
# + \frac{\varepsilon}{V} \sum_{v=1}^{V} \ln p_{nv} \right] .$$
#
# Padding is in neither the sum nor in $N$.

# %%
def token_loss(logits, targets, smoothing=0.0):
    """Mean loss over real tokens, in nats: logits (..., V), targets (...)."""
    log_p = logits.log_softmax(dim=-1)                                # (..., V)
    right = log_p.gather(-1, targets[..., None])[..., 0]              # (...)
    each = (1 - smoothing) * right + smoothing * log_p.mean(dim=-1)   # (...)
    real = targets != PAD                                             # (...)
    return -each[real].sum() / real.sum()


# %% [markdown]
# By hand: with equal [logits](../book/pages/glossary.md#logit) for $V = 4$ tokens each place costs $\ln 4$, however
# much is padding. A mean over *all* places would call the batch with more padding the better one. Then random logits,
# against PyTorch:

# %%
targets = torch.tensor([[5, 6, 2], [4, 2, PAD], [2, PAD, PAD]])       # (B, T)
even = token_loss(torch.zeros(3, 3, 4), targets.clamp(max=3))
logits = torch.randn(3, 3, 7, generator=generator)                    # (B, T, V)
theirs = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=PAD,
                         label_smoothing=0.1)
claim("even_loss", even.item(), at_least=1.3862, at_most=1.3863)
claim("loss_differs", abs(token_loss(logits, targets, 0.1) - theirs).item(), at_most=1e-6)

# %% [markdown]
# The first is [[even_loss:.4f]], and of the second PyTorch's differs by [[loss_differs:.1g]]. The paper smooths with
# $\varepsilon = 0.1$, which makes the model less sure and its translations better [@vaswani2017, section 5.4]. Our phrases
# have one right answer each, so we train without.
#
# ## The schedule
#
# Adam divides by a running mean of squared gradients that is hardly known at first, so the first steps should be small.
# The [learning rate](../book/pages/glossary.md#learning-rate) rises in a straight line, the
# [warm-up](../book/pages/glossary.md#warm-up), and falls along half a cosine to zero, so that the last steps only
# polish.

# %%
def warmup_cosine(step, warmup, total):
    """The factor of the learning rate at a step, counted from 1."""
    if step <= warmup:
        return step / warmup
    return (1 + math.cos(math.pi * (step - warmup) / (total - warmup))) / 2


# %% [markdown]
# ## Train
#
# The model is small: $d_{model} = 64$, 4 heads, 2 layers in the encoder and 2 in the decoder, layer norm before each
# sub-layer (lesson 7), and the output shares its matrix with the target's embedding. In the figure, look at what the loss does
# while the rate falls.

# %%
settings = dict(source_vocab_size=len(source_side.vocabulary),
                d_model=64, num_heads=4, d_ff=256,
                target_vocab_size=len(target_side.vocabulary), num_encoder_layers=2,
                num_decoder_layers=2, dropout=0.0, norm="pre", max_length=64)
is_word = torch.tensor([any(map(str.isalpha, token))
                        for token in source_side.vocabulary.tokens])
is_word[:4] = False                                                   # the special tokens


def noisy_batches(steps, generator):
    """Batches without end; in the first half of the steps a few source words are hidden."""
    batches = enumerate(tasks.batches(rows, 64, generator))
    for step, ((source, target_in), target_out) in batches:
        share = 0.02 if step < steps / 2 else 0.0
        yield (random_unknowns(source, share, is_word, generator), target_in), target_out


def fit(steps, warmup, **changes):
    torch.manual_seed(seed(3))
    model = Transformer(TransformerConfig(**(settings | changes)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    schedule = functools.partial(warmup_cosine, warmup=warmup, total=steps)
    batches = noisy_batches(steps, torch.Generator().manual_seed(seed(4)))
    history = training.fit(model, batches, steps=steps, optimizer=optimizer, clip=1.0,
                           loss=token_loss, schedule=schedule)
    return model.eval(), history


# %%
model, history = fit(steps=800, warmup=200)
claim("parameters", sum(p.numel() for p in model.parameters()),
      at_least=235_000, at_most=265_000)
claim("first_loss", history.losses[0], at_least=3.5)
claim("last_loss", sum(history.losses[-50:]) / 50, at_most=0.02)
tens = torch.tensor(history.losses).view(-1, 10).mean(dim=1)          # (80,)
rates = [rate / 3e-3 for rate in history.learning_rates[9::10]]
plots.lines(range(10, 801, 10), {"loss (nats)": tens, "rate / highest rate": rates},
            marks=False,
            roles={"loss (nats)": "a", "rate / highest rate": "f"}, log="y",
            x="training steps", y="loss; share of the highest rate",
            alt="Loss and learning rate over 800 steps, on a logarithmic axis. The rate rises "
                "for 200 steps and falls to zero. The loss falls from above 5 to a few "
                "thousandths.")

# %% [markdown]
# [[parameters:,.0f]] [parameters](../book/pages/glossary.md#parameter) go from a loss of [[first_loss:.1f]] to
# [[last_loss:.3f]], a mean over the last 50 steps. Most of the last factor of ten is won while the steps get small.
#
# ## Eight bits
#
# A number of the model takes four bytes. A page that loads the model would like one. For each row $w$ of a matrix take
# the scale $s = \max_i |w_i| / 127$ and store the whole numbers $q_i = \operatorname{round}(w_i / s)$: this is
# [quantisation](../book/pages/glossary.md#quantisation). What comes back is $s\, q_i$, at most $s/2$ from $w_i$.

# %%
def quantise_rows(matrix):
    scales = matrix.abs().amax(dim=1) / 127                           # (R,)
    divisors = scales.masked_fill(scales == 0, 1.0)[:, None]       # (R, 1): the row of padding
    return (matrix / divisors).round().to(torch.int8), scales         # (R, C), (R,)


matrix = torch.tensor([[1.27, -0.5, 0.004], [0.0, 0.0, 0.0]])
values, scales = quantise_rows(matrix)
values.tolist(), (values * scales[:, None]).tolist()

# %% [markdown]
# `save_translator` writes this for every matrix into one file, with the configuration, both tokenisers and a checksum.
# **From here on only the model that comes out of the file is used.**

# %%
temporary = tempfile.TemporaryDirectory()
folder = Path(os.environ.get("ATTNLAB_MODELS") or temporary.name)     # where to keep the file
path = folder / f"translator-{language}.safetensors"
trained = TrainedTranslator(model, source_side, target_side, {"language": language})
save_translator(path, trained)
translator = load_translator(path)
claim("kilobytes", path.stat().st_size / 1000, at_most=320)

# %% [markdown]
# [[kilobytes:.0f]] kB. Does it still translate?
#
# ## Does it translate?
#
# The decoder writes one token, reads it back, and writes the next: [greedy
# decoding](../book/pages/glossary.md#greedy-decoding).

# %%
@torch.no_grad()
def greedy(model, source, max_length=64):
    """The likeliest next token, again and again, for source (B, S)."""
    encoded = model.encode(source)
    target = torch.full((len(source), 1), BOS)                        # (B, 1)
    while target.shape[1] < max_length and not (target == EOS).any(dim=1).all():
        logits = model.decode(target, encoded.memory, encoded.mask).logits[:, -1]   # (B, V)
        logits[:, [PAD, BOS]] = -math.inf                             # never answers
        target = torch.cat([target, logits.argmax(dim=-1, keepdim=True)], dim=1)
    return target[:, 1:]                      # what follows <eos> is noise


sources, wanted = [pair.source for pair in held_out], [pair.target for pair in held_out]
first = greedy(translator.model, translator.source_rows(sources[:50]))
ours = [translator.target.decode(row) for row in first]
theirs = translator.translate(sources[:50])
claim("greedy_differs", sum(a != b for a, b in zip(ours, theirs)), equals=0)
ours[:3]

# %% [markdown]
# `translate` uses the library's `greedy_decode`, which keeps the keys and values of earlier tokens; on the first 50 phrases
# the two differ [[greedy_differs:.0f]] times. Now all 1,000. [Exact match](../book/pages/glossary.md#exact-match) counts an
# answer as right only if every character is.

# %%
def count_right(answers):
    return sum(answer == target for answer, target in zip(answers, wanted))


answers = translator.translate(sources)
right = count_right(answers)
claim("exact_match", right / 1_000, at_least=0.99)
claim("lost_by_8_bits", count_right(trained.translate(sources)) - right,
      at_least=-2, at_most=2)

# %% [markdown]
# [[exact_match:.1%]] are right in every character, and [[exact_match:range:.3f]] over [[exact_match:seeds]] seeds. With
# all 32 bits [[lost_by_8_bits:.0f]] more would be right. What of the others? Read each one. What does the model get wrong, and what
# never?

# %% tags=["nbval-ignore-output"]
wrong = [(pair, answer) for pair, answer in zip(held_out, answers) if pair.target != answer]
for pair, answer in sorted(wrong, key=lambda item: item[0].kind):
    print(f"{pair.kind}: {pair.source}\n    wanted   {pair.target}\n    received {answer}")
dates_wrong = sum("date" in pair.kind for pair, _ in wrong)
claim("dates_wrong", dates_wrong, at_most=3)

# %% [markdown]
# The errors sit where rules are rare or long: in number words with *quatre-vingt*, in a plural *s*, in the singular
# below 2. Of the dates and times, some 600 phrases, [[dates_wrong:.0f]] are wrong. No average tells you that. It says of what
# to draw more.
#
# ### Capitals, and words never seen

# %% tags=["nbval-ignore-output"]
shouted = count_right(translator.translate([source.upper() for source in sources]))
full_dates = [pair for pair in held_out if pair.kind == "full_date"]
blursdays = translator.translate(["Blursday" + pair.source[pair.source.index(","):]
                                  for pair in full_dates])
kept = sum(Counter(re.findall(r"\d", answer)) == Counter(re.findall(r"\d", pair.target))
           for answer, pair in zip(blursdays, full_dates)) / len(full_dates)
claim("shouted", shouted - right, equals=0)
claim("blursday_digits", kept, at_least=0.9)
blursdays[:2]

# %% [markdown]
# In capitals [[shouted:.0f]] answers more or fewer are right. With an unknown weekday [[blursday_digits:.0%]] of the dates
# keep their digits, and the weekday is guessed. That is what the hidden words have taught: to leave alone what is known. But
# the model has no way to say "I do not know this word". Whoever shows it to people must say so, by comparing with the
# vocabulary.
#
# ## Greedy and beam
#
# Greedy decoding cannot take a step back. [Beam search](../book/pages/glossary.md#beam-search) follows the $K$ likeliest
# beginnings at once and sets aside those that end. It stops when $K$ have ended and no beginning that is left is likelier
# than the worst of them, and returns the text with the highest probability. **Which will be right more often,** greedy or
# a beam of 4?

# %% tags=["nbval-ignore-output"]
source = translator.source_rows(sources)                              # (B, S)
chosen = {size: beam_search(translator.model, source, beam_size=size, max_length=64,
                            length_penalty=0.0) for size in (1, 4)}   # a beam of 1 is greedy
beam_answers = [translator.target.decode(row) for row in chosen[4].tokens[:, 0]]
changed = [i for i, answer in enumerate(beam_answers) if answer != answers[i]]
difference = chosen[4].scores[changed, 0] - chosen[1].scores[changed, 0]      # of ln P
claim("greedy_right", right, at_least=990)
claim("beam_right", count_right(beam_answers), at_least=985)
claim("beam_changed", len(changed), at_most=20)
claim("beam_less_likely", int((difference < -1e-4).sum()), equals=0)
[(answers[i], beam_answers[i]) for i in changed[:4]]

# %% [markdown]
# Greedy gets [[greedy_right:.0f]] right and the beam [[beam_right:.0f]]. The number of answers in which they differ is
# [[beam_changed:.0f]]; in [[beam_less_likely:.0f]] of these the beam's text is the less likely one. Where a model is nearly certain of
# each word, there is nothing to take a step back from.
#
# The rule for stopping matters more than the number of beams. Stop as soon as four have ended, as some programs do, and a
# text that breaks off early, however unlikely, can push out the good one that is still being written. And where models are
# less sure, other troubles appear: in large translators very wide beams get worse, since a short text costs less
# probability than a long one [@koehn2017, section 3.6].
#
# ## Take parts away
#
# What is each part for? An [ablation](../book/pages/glossary.md#ablation) trains without it. To save time all runs have 250
# steps. Look for the part without which the least is left.

# %%
runs = {"all parts": fit(250, 60),
        "post-norm, no warm-up": fit(250, 0, norm="post"),
        "no positions": fit(250, 60, positions="none")}


def judge(model):
    """Exact match on the first 500 held-out phrases."""
    answers = TrainedTranslator(model, source_side, target_side).translate(sources[:500])
    return sum(a == b for a, b in zip(answers, wanted)) / len(answers)


ablation = {name: judge(model) for name, (model, _) in runs.items()}
claim("ablation_base", ablation["all parts"], at_least=0.5)
claim("ablation_positions", ablation["no positions"], at_most=0.2)
claim("ablation_post", ablation["all parts"] - ablation["post-norm, no warm-up"], at_least=0.0)
plots.bars(ablation, y="exact match after 250 steps", roles={"all parts": "a"},
           alt="Exact match after 250 steps. With all parts it is highest; without positions "
               "it is lowest by far.")

# %% [markdown]
# With all parts [[ablation_base:.0%]] are right. Without positions the encoder sees a bag of words (the causal mask still
# tells the decoder something of order): [[ablation_positions:.0%]]. Post-norm without warm-up gets
# [[ablation_post:.2f]] less; over [[ablation_post:seeds]] seeds the difference was [[ablation_post:range:.2f]]. With two
# layers it survives; lesson 7 shows six layers that do not. Clipping and label smoothing are left out here for the sake of
# time. And an ablation says what a part does *for this budget*: with more steps a model may catch up.
#
# :::{admonition} The common confusion: right tokens or right texts?
# :class: caution
# While training one often watches the share of right *tokens*, with the true tokens before each place given. It looks far
# better than exact match, for two reasons. A text is right only if all its $n$ tokens are, and a share $a$ of right tokens
# would make $a^n$ of right texts if errors were independent. And in use a wrong token is read back.
# :::

# %%
@torch.no_grad()
def token_accuracy(model):
    held_rows = [(source_side.encode(source), target_side.encode(target))
                 for source, target in zip(sources[:500], wanted[:500])]
    hits = []
    for inputs, target_out in tasks.epoch_batches(held_rows, 100, generator):
        logits = model(*inputs)                                       # (B, T, V)
        hits.append((logits.argmax(dim=-1) == target_out)[target_out != PAD])
    return torch.cat(hits).float().mean().item()


right_tokens = token_accuracy(runs["all parts"][0])
length = sum(len(target_side.encode(target)) + 1 for target in wanted) / len(wanted)
claim("right_tokens", right_tokens, at_least=0.85)
claim("tokens_a_text", length, at_least=7, at_most=12)
claim("right_without_positions", token_accuracy(runs["no positions"][0]), at_least=0.55)

# %% [markdown]
# After 250 steps [[right_tokens:.1%]] of the tokens are right, and [[ablation_base:.0%]] of the texts, which have
# [[tokens_a_text:.1f]] tokens on average. Without positions it is even [[right_without_positions:.0%]] of the tokens for
# [[ablation_positions:.0%]] of the texts.
#
# ## A confident answer to a wrong question
#
# Held-out phrases come from the same source as the training ones. Readers do not. **How sure will the model be of
# September 31?** We give it real dates, Septembers with 31 days, and a month that does not exist.

# %% tags=["nbval-ignore-output"]
def confidence(texts):
    """Translations, and the probability of each whole text."""
    result = beam_search(translator.model, translator.source_rows(texts), beam_size=1,
                         max_length=64, length_penalty=0.0)
    texts = [translator.target.decode(row) for row in result.tokens[:, 0]]
    return texts, result.scores[:, 0].exp()


years = range(1990, 2040)
asked = {name: confidence([f"{day}, {year}" for year in years])
         for name, day in [("real", "September 30"), ("impossible", "September 31"),
                           ("unknown", "Smarch 30")]}
sure = {name: probability.median().item() for name, (_, probability) in asked.items()}
claim("sure_real", sure["real"], at_least=0.9)
claim("sure_impossible", sure["impossible"], at_least=0.8)
claim("sure_unknown", sure["unknown"], at_least=0.15)
for text in ["September 31, 2024", "Smarch 30, 2024", "12:30 PM", "hello"]:
    (answer,), probability = confidence([text])
    print(f"{text} | {answer} | {probability.item():.1f}")

# %% [markdown]
# The model gives real dates a probability of [[sure_real:.2f]] and impossible ones [[sure_impossible:.2f]] (medians over 50
# years): it has learnt to write dates, not the calendar. For a month that does not exist a fair guess would be worth one
# twelfth. The model gives its own guess [[sure_unknown:.2f]], over [[sure_unknown:seeds]] seeds [[sure_unknown:range:.2f]]. So
# do not take a high probability for knowledge. To *hello*, and to a time without its date, it answers with something of the
# kinds it knows: it has nothing else to say.
#
# ## See where it looks
#
# In [cross-attention](../book/pages/glossary.md#cross-attention) each place of the target looks at the source. Does the
# place that writes *septembre* look at *September*? The date was written from its parts, so we know which source tokens
# say what a target token says: a gold [alignment](../book/pages/glossary.md#alignment), and nobody had to label it. Take
# the weights of the last decoder layer, mean over heads. In each row of the map, look for the darkest cell.

# %%
@torch.no_grad()
def cross_attention(pair):
    """Mean over heads of each decoder layer's cross-attention, a list of (T + 1, S + 1)."""
    source = translator.source_rows([pair.source])
    target_in = torch.tensor([[BOS, *translator.target.encode(pair.target)]])
    encoded = translator.model.encode(source)
    decoded = translator.model.decode(target_in, encoded.memory, encoded.mask,
                                      need_weights=True)
    return [weights[0].mean(dim=0) for weights in decoded.cross_weights]


example = full_dates[0]
source_tokens, target_tokens = (side.cut(text) for side, text in [
    (translator.source, example.source), (translator.target, example.target)])
plots.matrix(cross_attention(example)[-1],
             rows=[*target_tokens, "<eos>"], columns=[*source_tokens, "<eos>"],
             x="source", y="target, as it is written",
             alt="Cross-attention of the last decoder layer for one date. Each row is the "
                 "place that writes a target token. Weekday, day, month and year mostly "
                 "look at the source token that says the same, out of order.")

# %% [markdown]
# The rows of day and month change places, since French writes the day first, and the digits go in order. A weekday often
# shares its weight with the comma behind it. But one map proves nothing. For all held-out full dates, count how often the darkest cell of a row is one that says the same,
# and compare with a guess that knows no words: the source token at the same share of the way.

# %%
hits = {"first layer": [], "last layer": [], "same place": []}
for pair in full_dates:
    source_tokens, target_tokens = (side.cut(text) for side, text in [
        (translator.source, pair.source), (translator.target, pair.target)])
    gold = tasks.gold_alignment(pair, source_tokens, target_tokens)
    layers = cross_attention(pair)
    for t, says_the_same in enumerate(gold):
        if says_the_same:                                          # a comma has no counterpart
            place = round(t * (len(source_tokens) - 1) / max(len(gold) - 1, 1))
            picks = [layers[0][t].argmax().item(), layers[-1][t].argmax().item(), place]
            for name, pick in zip(hits, picks):
                hits[name].append(pick in says_the_same)
aligned = {name: sum(found) / len(found) for name, found in hits.items()}
claim("aligned", aligned["last layer"], at_least=0.9)
claim("aligned_first", aligned["first layer"], at_least=0.7)
claim("aligned_by_place", aligned["same place"], at_most=0.6)

# %% [markdown]
# In the last layer [[aligned:.1%]] of the rows look at what they write, in the first [[aligned_first:.1%]], and the guess by
# place gets [[aligned_by_place:.0%]]. Nobody told the model which word belongs to which; @bahdanau2015 (section 5.2.1) saw
# the same in a recurrent translator, and @koehn2017 (section 3.5) found one whose attention stood a word beside. It does not
# follow that a map *explains* an output: that is lesson 16. Nor may you name a head: which head does what changes with the
# [seed](../book/pages/glossary.md#seed).
#
# ## See it move
#
# Now the file that you saved runs in the page: the same eight-bit numbers, the same tokens, every weight of every head. Type
# a phrase, or choose one, and step through the words. Each asks anew where to look: find the month's row, and then the other
# [heads](../book/pages/glossary.md#head) of its layer.
#
# Then take something away. The page counts on held-out phrases what that costs. Most heads are hardly missed; without the
# positions almost nothing is left. The [causal mask](../book/pages/glossary.md#causal-mask), without which the training
# would be worth nothing, is missed far less than they are: while a text is written there is no later word to hide. On the
# website, the [playground](../book/pages/playground.md) has all languages, and a translator that was trained without the mask.

# %%
TranslatorExplorer(path, held_out[:100])

# %% [markdown]
# ## What this lesson did not show
#
# The five kinds of phrase are written by rules, and each value has one right answer. Real sentences have many, and exact match
# would be useless there. Every word of the held-out phrases occurs in training; only their combinations are new. A Belgian
# reader writes *nonante* for ninety, and would be marked wrong. The alignment is that of dates. The ablations are of 250
# steps and one size. And 1,000 phrases tell [[=99%]] from [[=98%]], not much finer.
#
# ## Takeaways
#
# - A tokeniser that keeps its spaces needs no rules to join text again. Where words are built like German numbers, sub-words
#   write the new ones from known parts.
# - The loss counts real tokens in the sum and in $N$. Warm-up starts with small steps, the cosine ends with small ones.
# - A quarter of a million numbers, eight bits each, are enough for these phrases; eight bits lose nothing that counts.
# - Exact match says how often, reading the errors says what, the alignment says where, and an ablation says what for.
# - Held-out data from the same source hide what happens elsewhere: the model is as sure of September 31 as of September 30.

# %% [markdown]
# ## Quiz
#
# 1. A batch holds a text of 3 tokens and one of 9. Your loss averages over all 18 places, padding included at zero cost. What
#    is wrong?
#
#    - [ ] The short text counts more than it should. :: Each real token still has the same weight within the batch. What
#      changes is the number that the sum is divided by.
#    - [x] The loss, and with it the gradient, shrinks by the share of padding, which differs from batch to batch. :: Here 12 of
#      18 places are real, so the mean is two thirds of what it should be. In another batch it is another share.
#    - [ ] Nothing, since padding costs zero. :: It adds nothing to the sum, but it is counted in $N$.
#
# 2. `<pad>` and `<eos>` share one number, and padding is left out of the loss. What happens?
#
#    - [x] The model never learns to end a text. :: The end is then padding, and left out with it. The library refuses such a
#      vocabulary.
#    - [ ] The model ends every text at once. :: That would need the end to be learnt everywhere. It is learnt nowhere.
#    - [ ] Only the mask over the source goes wrong, which would hide its last token. :: The mask would hide the end of the
#      source, too. But what hurts most is the loss.
#    - [ ] Training fails with an error. :: All shapes fit, and the loss falls. That makes it dangerous.
#
# 3. Why are the German number words cut into sub-words and the French ones not?
#
#    - [ ] German has more letters. :: Letters do not matter. Byte pairs begin with whatever characters there are.
#    - [ ] Sub-words are always better than words, and French was left out to save time in this lesson's run. :: They make rows
#      longer, and the model must learn to spell. Where a few words write everything, words will do.
#    - [x] A German number is one word, so almost every new number would be an unknown token. :: A French number is made of a few
#      known words with spaces and hyphens between them.
#
# 4. A program stops its beam search as soon as four texts have ended. It returns a text to which the model gives a lower
#    probability than to greedy's. How can that be?
#
#    - [ ] It cannot: the beam sees all that greedy sees. :: It sees that beginning, but it may stop before it has ended.
#    - [ ] The model's probabilities depend on the search. :: The probability of a text given its source is fixed. The searches
#      differ in which texts they get to see.
#    - [x] Four other texts ended first, and the search stopped. :: A text that breaks off ends early. The likelier one was still
#      being written.
#
# 5. A translator gets nearly all held-out phrases right. What may you say about *February 30, 2024*?
#
#    - [ ] It will most likely refuse. :: It has no way to refuse. It writes what is likely after what it has read.
#    - [ ] It will be right with the same high probability as the held-out phrases were. :: The share holds for phrases drawn
#      like the held-out ones. This one never is.
#    - [x] Nothing from that number: such phrases were never drawn. :: You have to try. It writes the date, and is as sure as of any
#      other.
#    - [ ] It will become March 1. :: That would take the calendar. The model has seen how dates are written.

# %% [markdown]
# ## Where to go from here
#
# **Now you:** in [the exercises](../exercises/09_translation.ipynb) you predict what three searches find, write a beam search
# and a loss with label smoothing, test greedy decoding, repair a training loop, and train a translator of your own.
# **Next:** lesson 10, in which the encoder goes and a decoder alone learns to write, is planned. Lesson 13 asks what attention
# costs when texts get long.
#
# **Papers.** @vaswani2017 (sections 5 and 6) trained for up to 3.5 days on eight GPUs. @sennrich2016 has byte pairs, @szegedy2016
# (section 7) label smoothing, @koehn2017 what is hard for translators made of networks, @xiong2020 why post-norm wants a
# warm-up.
