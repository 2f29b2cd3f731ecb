"""Break the decoder-only model line by line: its tests must notice every time."""

import pytest

import attnlab.decoder_only.config
import attnlab.decoder_only.generation
import attnlab.decoder_only.model
import attnlab.decoder_only.sampling
from tests.unit.mutants import Mutants

# (what is there, what a slip would make of it); the first text stands exactly once in the source.
CONFIG_MUTANTS = [
    ("if self.d_model % self.num_heads != 0:", "if False:"),
    ("if self.num_heads % self.num_kv_heads != 0:", "if False:"),
    ("if self.num_heads % self.num_kv_heads != 0:", "if self.d_model % self.num_kv_heads != 0:"),
    ('_check_size("num_kv_heads", self.num_kv_heads)', "pass"),
    ('self.positions == "rotary" and self.d_head % 2 != 0', "self.d_head % 2 != 0"),
    (
        'self.positions == "rotary" and self.d_head % 2 != 0',
        'self.positions == "rotary" and self.d_model % 2',
    ),
    ("if not 0.0 <= self.dropout < 1.0:", "if not 0.0 <= self.dropout <= 1.0:"),
    ("if not 0.0 <= self.dropout < 1.0:", "if self.dropout >= 1.0:"),
    ("if not isinstance(self.tie_output, bool):", "if False:"),
    ("self.d_model // self.num_heads", "self.d_model // (self.num_kv_heads or 1)"),
    ("if size < 1:", "if size < 0:"),
    ("or isinstance(size, bool)", ""),
    ("or isinstance(self.dropout, bool)", ""),
    ('"vocab_size", "d_model"', '"d_model"'),
    ('"d_ff", "max_length"', '"d_ff"'),
    ("if unknown or missing:", "if unknown:"),
    ("if unknown or missing:", "if missing:"),
    ("if value not in choices:", "if False:"),
    ("@dataclass(frozen=True, kw_only=True)", "@dataclass(kw_only=True)"),
]
MODEL_MUTANTS = [
    ("offset = 0 if cache is None else cache.length", "offset = 0"),
    ("offset = 0 if cache is None else cache.length", "offset = 0 if cache is None else cache.length + 1"),
    ("self.embed(tokens, offset=offset)", "self.embed(tokens)"),
    ("self.position_table(x, offset=offset)", "self.position_table(x)"),
    ("causal_mask(num_new, num_all, offset=offset)", "causal_mask(num_new, num_all, offset=0)"),
    ("causal_mask(num_new, num_all, offset=offset)", "causal_mask(num_new, num_all, offset=offset + 1)"),
    ("causal_mask(num_new, num_all, offset=offset)", "torch.ones(num_new, num_all, dtype=torch.bool)"),
    ("num_all = offset + num_new", "num_all = num_new"),
    ("causal if mask is None else causal & mask", "causal if mask is None else mask"),
    ("        allowed = mask\n", "        allowed = None\n"),
    ("if num_new > 1:", "if num_new > 2:"),
    ("causal if mask is None else causal & mask", "causal if mask is None else causal | mask"),
    ("num_new, num_all, offset=offset, dtype", "num_new, num_all, offset=0, dtype"),
    ('if self.config.positions == "alibi":', "if False:"),
    ("score_bias=bias,", "score_bias=None if bias is None else -bias,"),
    ("rotate=self.rotary,", "rotate=None,"),
    ("cache=None if cache is None else cache[number]", "cache=None if cache is None else cache[0]"),
    ("cache=None if cache is None else cache[number]", "cache=None"),
    ("x = result.output  # (B, T, d_model)", "pass"),
    ("F.linear(self.final_norm(x), matrix)", "F.linear(x, matrix)"),
    ("if self.output is None else self.output.weight", "if True else self.output.weight"),
    ("x = x * math.sqrt(self.config.d_model)", "x = x * self.config.d_model"),
    ("x = x * math.sqrt(self.config.d_model)", "pass"),
    ('if self.config.positions == "sinusoidal":', 'if self.config.positions != "learned":'),
    ('if config.positions == "learned":', 'if config.positions in ("learned", "none"):'),
    ('elif config.positions == "sinusoidal":', 'elif config.positions == "alibi":'),
    ('if config.positions == "rotary" else None', 'if config.positions != "alibi" else None'),
    ("dropped: Tensor = self.dropout(x)", "dropped: Tensor = x"),
    ("self.dropout = nn.Dropout(config.dropout)", "self.dropout = nn.Dropout(0.0)"),
    (
        "                dropout=config.dropout,\n",
        "                dropout=0.9 * bool(config.dropout == 0),\n",
    ),
    ('norm="pre"', 'norm="post"'),
    ("activation=config.activation", 'activation="relu"'),
    ("num_kv_heads=config.num_kv_heads", "num_kv_heads=None"),
    ("for _ in range(config.num_layers)", "for _ in range(1)"),
    (
        "for block in self.blocks:\n            assert",
        "for block in self.blocks[:1]:\n            assert",
    ),
    ("math.sqrt(2 * self.config.num_layers)", "math.sqrt(self.config.num_layers)"),
    ("math.sqrt(2 * self.config.num_layers)", "(2 * self.config.num_layers)"),
    ("nn.init.normal_(block.self_attention.w_o.weight, std=smaller)", "pass"),
    ("nn.init.normal_(block.feed_forward.w_2.weight, std=smaller)", "pass"),
    ("nn.init.normal_(module.weight, std=0.02)", "nn.init.normal_(module.weight, std=0.025)"),
    ("isinstance(module, nn.Linear | nn.Embedding)", "isinstance(module, nn.Linear)"),
    ("nn.init.normal_(module.table, std=0.02)", "pass"),
    ("module.reset_parameters()", "pass"),
    ("nn.init.zeros_(module.bias)", "pass"),
    ("        self.reset_parameters()\n", ""),
    ("if config.tie_output else", "if not config.tie_output else"),
    ("config.vocab_size, bias=False)", "config.vocab_size)"),
    ("tuple(weights) if need_weights else None", "tuple(weights)"),
    ("tuple(weights) if need_weights else None", "tuple(reversed(weights)) if need_weights else None"),
    (
        "                need_weights=need_weights,\n",
        "                need_weights=True,\n                mask=None,\n",
    ),
    ("if cache is not None and len(cache) != self.config.num_layers:", "if False:"),
    ("if offset + num_new > self.config.max_length:", "if num_new > self.config.max_length:"),
    ("if offset + num_new > self.config.max_length:", "if offset + num_new >= self.config.max_length:"),
    ("if offset + num_new > self.config.max_length:", "if False:"),
    ("if mask.dtype != torch.bool:", "if mask.is_floating_point():"),
    ("mask.ndim <= 3 and all(", "all("),
    ("given in (1, wanted) for", "True for"),
    ("if tokens.dtype not in (torch.int64, torch.int32):", "if tokens.is_floating_point():"),
    ("if tokens.ndim != 2 or tokens.numel() == 0:", "if tokens.ndim != 2:"),
    ("if tokens.ndim != 2 or tokens.numel() == 0:", "if tokens.numel() == 0:"),
    ("if lowest < 0 or highest >= vocab_size:", "if highest >= vocab_size:"),
    ("if lowest < 0 or highest >= vocab_size:", "if lowest < 0 or highest > vocab_size:"),
    ("if lowest < 0 or highest >= vocab_size:", "if lowest <= 0 or highest >= vocab_size:"),
    ("check_tokens(tokens, self.config.vocab_size)", "pass"),
]
GENERATION_MUTANTS = [
    ("check_sampling(generator=generator, temperature=temperature, top_k=top_k, top_p=top_p)", "pass"),
    ("_check_request(model.config, prompt, max_new_tokens, eos, pad)", "pass"),
    ("if use_cache else None", "if True else None"),
    ("if use_cache else None", "if False else None"),
    ("KeyValueCache(model.config.num_layers)", 'vars(model).setdefault("kept", KeyValueCache(2))'),
    ("tokens[:, cache.length :]", "tokens[:, -1:]"),
    ("tokens[:, cache.length :]", "tokens"),
    (".logits[:, -1]", ".logits[:, 0]"),
    ("filler = eos if pad is None else pad", "filler = 0 if pad is None else pad"),
    ("filler = eos if pad is None else pad", "filler = eos"),
    ("newest = newest.masked_fill(ended, filler)", "pass"),
    (
        "newest = newest.masked_fill(ended, filler)",
        "newest = newest.masked_fill(ended | (newest == eos), filler)",
    ),
    ("ended = ended | (newest == eos)", "ended = newest == eos"),
    ("if bool(ended.all()):", "if bool(ended.any()):"),
    ("if bool(ended.all()):", "if False:"),
    (
        "temperature=temperature, top_k=top_k, top_p=top_p\n",
        "temperature=temperature, top_k=None, top_p=top_p\n",
    ),
    (
        "temperature=temperature, top_k=top_k, top_p=top_p\n",
        "temperature=temperature, top_k=top_k, top_p=None\n",
    ),
    ("temperature=temperature, top_k=top_k, top_p=top_p\n", "temperature=1.0, top_k=top_k, top_p=top_p\n"),
    ("logits, generator=generator", "logits, generator=torch.Generator().manual_seed(0)"),
    (").to(prompt.dtype)", ")"),
    ("with torch.no_grad(), _evaluating(model):", "with _evaluating(model):"),
    ("with torch.no_grad(), _evaluating(model):", "with torch.no_grad():"),
    ("    try:\n        yield\n    finally:\n", "    yield\n    if True:\n"),
    ("module.training = training", "module.training = True"),
    ("module.training = training", "module.training = modes[0][1]"),
    ("for _ in range(max_new_tokens):", "for _ in range(max_new_tokens + 1):"),
    ("if max_new_tokens < 0:", "if False:"),
    ("length = prompt.shape[1] + max_new_tokens", "length = max_new_tokens"),
    ("if length > config.max_length:", "if length >= config.max_length:"),
    ("if length > config.max_length:", "if length > config.max_length + 1:"),
    ("0 <= token < config.vocab_size", "0 <= token"),
    ("0 <= token < config.vocab_size", "token < config.vocab_size"),
    ("if pad is not None and eos is None:", "if False:"),
    ('(("eos", eos), ("pad", pad))', '(("eos", eos),)'),
]
SAMPLING_MUTANTS = [
    ("return logits / temperature", "return logits * temperature"),
    ("return logits / temperature", "return logits"),
    ("if not 0.0 < temperature < math.inf:", "if not 0.0 <= temperature < math.inf:"),
    ("if not 0.0 < temperature < math.inf:", "if not 0.0 < temperature:"),
    ("if k < 1:", "if k < 0:"),
    ("_likeliest_first(logits)[..., :k]", "_likeliest_first(logits)[..., : k + 1]"),
    ("_likeliest_first(logits)[..., :k]", "_likeliest_first(logits)[..., -k:]"),
    (
        "kept = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, best, True)",
        "kept = logits >= logits.gather(-1, best[..., -1:])",
    ),
    ("logits.masked_fill(~kept, -math.inf)", "logits.masked_fill(~kept, 0.0)"),
    ("logits.masked_fill(~kept, -math.inf)", "logits.masked_fill(kept, -math.inf)"),
    ("logits.masked_fill(~kept, -math.inf)", "logits.masked_fill_(~kept, -math.inf)"),
    ("if not 0.0 < p <= 1.0:", "if not 0.0 <= p <= 1.0:"),
    ("if not 0.0 < p <= 1.0:", "if not 0.0 < p:"),
    ("    if p == 1.0:\n        return logits", "    if False:\n        return logits"),
    ("mass[..., :-1] >= p", "mass[..., :-1] > p"),
    ("mass[..., :-1] >= p", "mass[..., 1:] >= p"),
    ("torch.zeros_like(mass[..., :1], dtype=torch.bool)", "mass[..., :1] >= p"),
    (".scatter(-1, order, enough)", ".gather(-1, order) | enough"),
    ("_probabilities(logits).gather(-1, order).cumsum(dim=-1)", "_probabilities(logits).cumsum(dim=-1)"),
    (
        "_probabilities(logits).gather(-1, order).cumsum(dim=-1)",
        "logits.softmax(-1).gather(-1, order).cumsum(dim=-1)",
    ),
    ("logits.masked_fill(dropped, -math.inf)", "logits.masked_fill(~dropped, -math.inf)"),
    ("if not bool(logits.amax(dim=-1).isfinite().all()):", "if False:"),
    (
        "if not bool(logits.amax(dim=-1).isfinite().all()):",
        "if not bool(logits.amax(dim=-1).isfinite().any()):",
    ),
    ("return _likeliest_first(logits)[..., 0]", "return _likeliest_first(logits)[..., -1]"),
    (
        "return _likeliest_first(logits)[..., 0]",
        "return torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]",
    ),
    ("logits - logits.amax(dim=-1, keepdim=True), temperature", "logits, temperature"),
    ("logits - logits.amax(dim=-1, keepdim=True), temperature", "logits - logits.amax(), 1.0"),
    ("logits = keep_top_k(logits, top_k)", "pass"),
    ("logits = keep_top_p(logits, top_p)", "pass"),
    ("1, generator=generator).to(logits.device)", "1).to(logits.device)"),
    (".reshape(logits.shape[:-1])", ".squeeze()"),
    ("if not 0.0 <= temperature < math.inf:", "if temperature < 0.0:"),
    ("if not 0.0 <= temperature < math.inf:", "if not 0.0 < temperature < math.inf:"),
    ("if top_k is not None and top_k < 1:", "if False:"),
    ("if top_p is not None and not 0.0 < top_p <= 1.0:", "if False:"),
    ("if generator is None and temperature > 0.0:", "if generator is None:"),
    ("if generator is None and temperature > 0.0:", "if False:"),
    ("descending=True, stable=True", "descending=False, stable=True"),
    (
        "logits.argsort(dim=-1, descending=True, stable=True)",
        "logits.flip(-1).argsort(dim=-1, descending=True)",
    ),
    (
        "logits.softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))",
        "logits.softmax(dim=-1)",
    ),
    (
        "logits.softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))",
        "logits.softmax(dim=0)",
    ),
    ("if not logits.is_floating_point():", "if False:"),
    ("if logits.ndim < 1 or logits.shape[-1] < 1:", "if False:"),
    ("if logits.ndim < 1 or logits.shape[-1] < 1:", "if logits.ndim < 1:"),
]
CONFIG = Mutants(attnlab.decoder_only.config, "test_decoder_only_config.py")
MODEL = Mutants(attnlab.decoder_only.model, "test_decoder_only.py")
GENERATION = Mutants(attnlab.decoder_only.generation, "test_decoder_only_generation.py")
SAMPLING = Mutants(attnlab.decoder_only.sampling, "test_decoder_only_sampling.py")

ALL = [
    pytest.param(room, there, slip, id=f"{name}-{number:02d}")
    for name, room, mutants in (
        ("config", CONFIG, CONFIG_MUTANTS),
        ("model", MODEL, MODEL_MUTANTS),
        ("generation", GENERATION, GENERATION_MUTANTS),
        ("sampling", SAMPLING, SAMPLING_MUTANTS),
    )
    for number, (there, slip) in enumerate(mutants)
]


@pytest.mark.parametrize("room", [CONFIG, MODEL, GENERATION, SAMPLING], ids=lambda room: room.module.__name__)
def test_the_source_as_it_stands_passes(room):
    assert room.first_failure(room.source) is None


@pytest.mark.parametrize(("room", "there", "slip"), ALL)
def test_mutant_is_noticed(room, there, slip):
    room.require_noticed(there, slip)
