"""Generation: the same with a cache as without one, the same twice, and nothing but padding after the end."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attnlab.decoder_only.config import DecoderOnlyConfig
from attnlab.decoder_only.generation import generate
from attnlab.decoder_only.model import DecoderOnly, DecoderOnlyOutput

KINDS = ["learned", "sinusoidal", "rotary", "alibi", "none"]
VOCAB, MAX_LENGTH = 9, 14
PROMPT = torch.tensor([[1, 2, 3, 4, 5, 6], [8, 0, 3, 3, 1, 7]])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make(positions="learned", *, dropout=0.0, heads=(4, 2), seed=0):
    torch.manual_seed(seed)
    config = DecoderOnlyConfig(
        vocab_size=VOCAB,
        d_model=16,
        num_heads=heads[0],
        num_kv_heads=heads[1],
        num_layers=2,
        d_ff=12,
        max_length=MAX_LENGTH,
        positions=positions,
        dropout=dropout,
        tie_output=False,
    )
    model = DecoderOnly(config).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


class Scripted(DecoderOnly):
    """Says at each position what a script has for the sequence, and counts the tokens that it was given."""

    def __init__(self, script):
        super().__init__(make().config)
        self.script, self.given = script, []

    def forward(self, tokens, mask=None, *, cache=None, need_weights=False):
        self.given.append(tokens.shape[1])
        super().forward(tokens, cache=cache)
        said = torch.full((*tokens.shape, VOCAB), -10.0)
        step = sum(self.given) - PROMPT.shape[1] if cache is not None else tokens.shape[1] - PROMPT.shape[1]
        for row, answers in enumerate(self.script):
            said[row, -1, answers[step]] = 10.0
        return DecoderOnlyOutput(said, None)


class Broken(DecoderOnly):
    def forward(self, *args, **kwargs):
        raise ArithmeticError


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"max_new_tokens": 9}, ValueError, r"max_new_tokens: .* max_length = 14 .* got 6 \+ 9 = 15"),
        ({"max_new_tokens": -1}, ValueError, "max_new_tokens: expected 0 or more, got -1"),
        ({"prompt": PROMPT[0]}, ValueError, r"prompt: expected \(B, T\)"),
        ({"prompt": PROMPT.double()}, TypeError, "prompt: expected int64"),
        ({"prompt": PROMPT + 1}, ValueError, "prompt: expected numbers from 0 to vocab_size - 1 = 8, got 9"),
        ({"prompt": PROMPT[:, :0]}, ValueError, "prompt: expected .* at least one token"),
        ({"eos": 9}, ValueError, "eos: expected a token from 0 to 8, got 9"),
        ({"eos": 1, "pad": -1}, ValueError, "pad: expected a token from 0 to 8, got -1"),
        ({"pad": 1}, ValueError, "pad: expected None where there is no eos"),
        ({"temperature": -1.0}, ValueError, "temperature"),
        ({"top_k": 0}, ValueError, "top_k"),
        ({"top_p": 2.0}, ValueError, "top_p"),
        ({"generator": None}, ValueError, "generator"),
    ],
)
def test_refused_before_anything_is_computed(change, error, words):
    generator = seeded()
    before = generator.get_state()
    arguments = {"prompt": PROMPT, "max_new_tokens": 4, "generator": generator} | change
    with pytest.raises(error, match=words):
        generate(Broken(make().config), **arguments)
    assert torch.equal(generator.get_state(), before)


few = settings(derandomize=True, deadline=None, max_examples=12)


@few
@given(
    st.sampled_from(KINDS),
    st.sampled_from([(4, None), (4, 2), (4, 1)]),
    st.integers(1, 6),
    st.integers(0, 6),
    st.sampled_from([{}, {"temperature": 0.0}, {"temperature": 1.5, "top_k": 4}, {"top_p": 0.8}, {"eos": 3}]),
    st.integers(0, 1000),
)
def test_with_a_cache_as_without_one(kind, heads, length, more, arguments, seed):
    model, prompt = make(kind, heads=heads), PROMPT[:, :length]
    cached, uncached = (
        generate(model, prompt, more, generator=seeded(seed), use_cache=use, **arguments)
        for use in (True, False)
    )
    assert torch.equal(cached, uncached)
    assert torch.equal(cached[:, :length], prompt)
    assert cached.shape[1] == length + more or "eos" in arguments


@pytest.mark.parametrize("use_cache", [True, False])
def test_twice_is_the_same(use_cache):
    """One generation leaves nothing behind for the next, whatever was generated between the two."""
    model = make("rotary", dropout=0.3)
    first = generate(model, PROMPT, 8, generator=seeded(4), use_cache=use_cache)
    generate(model, PROMPT.flip(0), 3, generator=seeded(5), use_cache=use_cache)
    assert torch.equal(generate(model, PROMPT, 8, generator=seeded(4), use_cache=use_cache), first)
    assert not torch.equal(generate(model, PROMPT, 8, generator=seeded(5), use_cache=use_cache), first)


def test_temperature_zero_takes_the_likeliest_each_time():
    model = make("rotary").eval()
    tokens = PROMPT
    for _ in range(6):
        tokens = torch.cat([tokens, model(tokens).logits[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(generate(model, PROMPT, 6, temperature=0.0), tokens)
    assert torch.equal(generate(model, PROMPT, 6, generator=seeded(), top_k=1), tokens)
    assert torch.equal(generate(model, PROMPT, 6, generator=seeded(), top_p=1e-9), tokens)
    assert torch.equal(generate(model, PROMPT, 6, generator=seeded(), temperature=1e-6), tokens)


def test_a_high_temperature_draws_otherwise():
    model = make()
    hot = generate(model, PROMPT, 8, generator=seeded(), temperature=20.0)
    assert not torch.equal(hot, generate(model, PROMPT, 8, generator=seeded(), temperature=0.3))


def test_the_first_token_comes_as_often_as_the_model_says():
    model = make()
    with torch.no_grad():
        expected = model.eval()(PROMPT[:1]).logits[0, -1].softmax(-1)
    tokens = generate(model, PROMPT[:1].expand(4000, -1), 1, generator=seeded(1))[:, -1]
    shares = tokens.bincount(minlength=VOCAB) / 4000
    assert ((shares - expected).abs() <= 4 * (expected * (1 - expected) / 4000).sqrt()).all()


@pytest.mark.parametrize("use_cache", [True, False])
def test_the_cache_spares_what_was_read(use_cache):
    model = Scripted([[1] * 5, [2] * 5])
    generate(model, PROMPT, 4, temperature=0.0, use_cache=use_cache)
    assert model.given == ([6, 1, 1, 1] if use_cache else [6, 7, 8, 9])


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize(
    ("pad", "expected"),
    [
        (None, [[4, 5, 5, 5, 5], [1, 2, 3, 4, 5]]),
        (0, [[4, 5, 0, 0, 0], [1, 2, 3, 4, 5]]),
        (5, [[4, 5, 5, 5, 5], [1, 2, 3, 4, 5]]),
    ],
)
def test_nothing_but_padding_after_the_end(pad, expected, use_cache):
    script = [[4, 5, 6, 7, 8, 8, 8, 8], [1, 2, 3, 4, 5, 1, 1, 1]]
    tokens = generate(Scripted(script), PROMPT, 8, temperature=0.0, eos=5, pad=pad, use_cache=use_cache)
    assert tokens[:, 6:].tolist() == expected, "and it stops when both have ended"


def test_without_an_end_it_goes_on():
    script = [[4, 5, 6, 7], [5, 5, 5, 5]]
    assert generate(Scripted(script), PROMPT, 4, temperature=0.0)[:, 6:].tolist() == script


def test_an_end_in_the_prompt_ends_nothing():
    script = [[4, 2, 6], [3, 4, 6]]
    tokens = generate(Scripted(script), PROMPT, 3, temperature=0.0, eos=7)  # the second prompt ends in 7
    assert tokens[:, 6:].tolist() == script


def test_a_sequence_ends_before_others_without_changing_them():
    """The draws of a sequence do not hang on whether another has ended."""
    model = make()
    free = generate(model, PROMPT, 8, generator=seeded(2))
    eos = int(free[0, 7])  # what the first sequence says second
    ended = generate(model, PROMPT, 8, generator=seeded(2), eos=eos, pad=0)
    row, stops = free[1, 6:].tolist(), ended[1, 6:].tolist()
    reach = row.index(eos) + 1 if eos in row else len(stops)
    assert stops[:reach] == row[:reach]


def test_nothing_to_add():
    assert torch.equal(generate(make(), PROMPT, 0, temperature=0.0), PROMPT)


def test_the_prompt_stays_and_its_type_is_kept():
    prompt = PROMPT.to(torch.int32)
    tokens = generate(make(), prompt, 3, generator=seeded(), eos=0)
    assert tokens.dtype == torch.int32
    assert torch.equal(prompt, PROMPT.to(torch.int32))


def test_the_longest_sequence_is_generated():
    for kind in KINDS:
        assert generate(make(kind), PROMPT, 8, generator=seeded()).shape == (2, MAX_LENGTH)


@pytest.mark.parametrize("training", [True, False])
def test_each_part_gets_its_mode_back(training):
    model = make(dropout=0.5).train(training)
    model.blocks[0].train(not training)
    modes = [part.training for part in model.modules()]
    drawn = generate(model, PROMPT, 4, generator=seeded())
    assert [part.training for part in model.modules()] == modes
    assert torch.equal(drawn, generate(model.eval(), PROMPT, 4, generator=seeded())), "no dropout meanwhile"


def test_the_mode_comes_back_after_an_error():
    model = Broken(make().config).train()
    with pytest.raises(ArithmeticError):
        generate(model, PROMPT, 4, generator=seeded())
    assert all(part.training for part in model.modules())


def test_no_gradient_is_recorded_and_gradients_are_on_afterwards():
    recorded = []

    class Watched(DecoderOnly):
        def forward(self, *args, **kwargs):
            result = super().forward(*args, **kwargs)
            recorded.append(result.logits.requires_grad)
            return result

    generate(Watched(make().config), PROMPT, 2, generator=seeded())
    assert recorded == [False, False]
    assert nn.Linear(1, 1)(torch.ones(1)).requires_grad
