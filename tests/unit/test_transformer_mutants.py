"""Break the Transformer line by line: its tests must notice every time."""

import pytest

import attnlab.transformer.config
import attnlab.transformer.model
import attnlab.transformer.shift
import attnlab.transformer.stacks
import attnlab.transformer.torch_weights
from tests.unit.mutants import Mutants

# (what is there, what a slip would make of it); the first text stands exactly once in the source.
CONFIG_MUTANTS = [
    ("@dataclass(frozen=True)", "@dataclass"),
    ('return self.norm == "pre" if', 'return self.norm == "post" if'),
    ("if self.final_norm is None else self.final_norm", "or bool(self.final_norm)"),
    ("if unknown or missing:", "if unknown:"),
    ("if unknown or missing:", "if missing:"),
    ("or isinstance(value, bool)", ""),
    ("if getattr(self, name) < 1:", "if getattr(self, name) < 0:"),
    ("if isinstance(self.dropout, bool) or not", "if not"),
    ("if not 0.0 <= self.dropout < 1.0:", "if not 0.0 <= self.dropout <= 1.0:"),
    ("if not 0.0 <= self.dropout < 1.0:", "if self.dropout < 0.0 or self.dropout >= 1.0:"),
    ("if not 0.0 <= self.dropout < 1.0:", "if not self.dropout < 1.0:"),
    ("if getattr(self, name) not in choices:", "if False:"),
    ("if not isinstance(getattr(self, name), bool):", "if getattr(self, name) is None:"),
    ("if self.final_norm is not None and not isinstance(self.final_norm, bool):", "if False:"),
    ("if self.d_model % self.num_heads:", "if False:"),
    ("if self.share_embeddings and self.source", "if self.source"),
    ("if self.share_embeddings and self.source", "if False and self.source"),
    ("min(self.source_vocab_size, self.target_vocab_size)", "self.source_vocab_size"),
    ("min(self.source_vocab_size, self.target_vocab_size)", "self.target_vocab_size"),
    ("if not 0 <= value < vocab_size:", "if not 0 <= value <= vocab_size:"),
    ("if not 0 <= value < vocab_size:", "if not value < vocab_size:"),
    ("if self.pad == self.eos:", "if False:"),
    ("if self.pad == self.bos:", "if False:"),
    ("if self.bos == self.eos:", "if False:"),
    ('"d_ff",\n', ""),
    ("d_model=1024,", "d_model=512,"),
    ("dropout=0.3,", ""),
]
SHIFT_MUTANTS = [
    ("return rows[:, :-1], rows[:, 1:]", "return rows[:, :-1], rows[:, :-1]"),
    ("return rows[:, :-1], rows[:, 1:]", "return rows[:, 1:], rows[:, :-1]"),
    ("return rows[:, :-1], rows[:, 1:]", "return rows[:, :-2], rows[:, 2:]"),
    ("target.roll(1, dims=1)", "target.roll(-1, dims=1)"),
    ("target.roll(1, dims=1)", "target"),
    ("shifted[:, :1] = bos", "shifted[:1] = bos"),
    ("rows.masked_fill(~real, pad)", "rows.masked_fill(real, pad)"),
    ("rows.masked_fill(~real, pad)", "rows.masked_fill_(~real, pad)"),
    ("rows.masked_fill(~real, pad)", "rows.masked_fill(rows == rows[0, -1], pad)"),
    ("if rows.shape[1] < 2:", "if False:"),
    ("if real.shape != rows.shape:", "if False:"),
    ("or ids.dtype == torch.bool", ""),
    ("if ids.is_floating_point() or", "if"),
    ("if ids.ndim != 2:", "if False:"),
]
STACKS_MUTANTS = [
    ("self.encoder_norm = _final_norm(config)", "self.encoder_norm = nn.Identity()"),
    ("self.decoder_norm = _final_norm(config)", "self.decoder_norm = nn.Identity()"),
    ("self.decoder_norm = _final_norm(config)", "self.decoder_norm = self.encoder_norm"),
    ("if config.has_final_norm else", "if config.final_norm else"),
    ("for _ in range(config.num_encoder_layers)", "for _ in range(config.num_decoder_layers)"),
    ("for _ in range(config.num_decoder_layers)", "for _ in range(config.num_encoder_layers)"),
    ("EncoderOutput(self.encoder_norm(x)", "EncoderOutput((x)"),
    ("output = self.decoder_norm(x)", "output = x"),
    ("output = self.decoder_norm(x)", "output = self.encoder_norm(x)"),
    ("layer(x, mask, need_weights=need_weights)", "layer(x, need_weights=need_weights)"),
    (
        "                mask,\n                memory_mask,\n",
        "                mask,\n                mask,\n",
    ),
    (
        "                mask,\n                memory_mask,\n",
        "                None,\n                memory_mask,\n",
    ),
    (
        "                mask,\n                memory_mask,\n",
        "                mask,\n                None,\n",
    ),
    ("                x,\n                memory,\n", "                memory,\n                x,\n"),
    ("cache.target[number]", "cache.target[0]"),
    ("cache.memory[number]", "cache.memory[0]"),
    ("cache.memory[number]", "cache.target[number]"),
    ("cache=None if cache is None else cache.target[number],", "cache=None,"),
    ("self_weights.append(over_target)", "self_weights.append(over_source)"),
    ("cross_weights.append(over_source)", "cross_weights.append(over_target)"),
    ("tuple(weights) if need_weights else None", "tuple(weights)"),
    ("        if not need_weights:\n", "        if False:\n"),
    ("self.target.select(rows)", "pass"),
    ("self.memory.select(rows)", "pass"),
    ("self.target.clear()", "pass"),
    ("self.memory.clear()", "pass"),
    ("return self.target.length", "return self.memory.length"),
    ("self.encode(source, source_mask)", "self.encode(source)"),
    ("self.decode(target, memory, target_mask, memory_mask)", "self.decode(target, memory, target_mask)"),
    (
        "self.decode(target, memory, target_mask, memory_mask)",
        "self.decode(target, source, target_mask, memory_mask)",
    ),
    ("return ours.train(theirs.training)", "return ours"),
    ('with torch.device("meta"):', "if True:"),
    (", parts.encoder_norm\n", ", parts.decoder_norm\n"),
    (", parts.decoder_norm\n", ", parts.encoder_norm\n"),
    ("nn.ModuleList(parts.encoder_layers)", "nn.ModuleList(parts.encoder_layers[::-1])"),
    ("nn.ModuleList(parts.decoder_layers)", "nn.ModuleList(parts.decoder_layers[:1] * 3)"),
]
TORCH_MUTANTS = [
    ('if norms["encoder"] != norms["decoder"]:', "if False:"),
    ('"num_encoder_layers": len(theirs.encoder.layers)', '"num_encoder_layers": len(theirs.decoder.layers)'),
    ('"num_decoder_layers": len(theirs.decoder.layers)', '"num_decoder_layers": len(theirs.encoder.layers)'),
    ("w_1.out_features", "w_1.in_features"),
    ('"dropout": layer.feed_forward.dropout.p', '"dropout": 0.1'),
    ('"pre" if theirs', '"post" if theirs'),
    ('"final_norm": norms["encoder"]', '"final_norm": None'),
    ('"activation": layer.feed_forward.activation', '"activation": "relu"'),
    ("{**read, **fields}", "{**fields, **read}"),
    ("_copy_norm(theirs.decoder.norm)", "_copy_norm(theirs.encoder.norm)"),
    ("copy.deepcopy(norm)", "norm"),
    ("if norm is None else", "if True else"),
    ("if not isinstance(theirs, nn.Transformer):", "if False:"),
    ("if not isinstance(stack, kind):", "if False:"),
]
MODEL_MUTANTS = [
    ("* math.sqrt(self.config.d_model)", ""),
    ("* math.sqrt(self.config.d_model)", "* self.config.d_model"),
    ("* math.sqrt(self.config.d_model)", "/ math.sqrt(self.config.d_model)"),
    ("std=config.d_model**-0.5", "std=config.d_model**-1"),
    ("std=config.d_model**-0.5", "std=1.0"),
    ("table.weight[config.pad] = 0.0", "pass"),
    ("table.weight[config.pad] = 0.0", "table.weight[0] = 0.0"),
    (", padding_idx=config.pad)", ")"),
    (".index_fill(0, self.pad_row, 0.0)", ""),
    (".index_fill(0, self.pad_row, 0.0)", ".detach().index_fill(0, self.pad_row, 0.0)"),
    (".index_fill(0, self.pad_row, 0.0)", ".index_fill(1, self.pad_row, 0.0)"),
    ("torch.tensor([config.pad]), persistent=False", "torch.tensor([config.pad])"),
    ("torch.tensor([config.pad])", "torch.tensor([0])"),
    ("self.dropout(positions(scaled, offset=offset))", "positions(self.dropout(scaled), offset=offset)"),
    ("self.dropout(positions(scaled, offset=offset))", "positions(scaled, offset=offset)"),
    ("self.dropout(positions(scaled, offset=offset))", "self.dropout(positions(scaled))"),
    ("self.dropout(positions(scaled, offset=offset))", "self.dropout(scaled)"),
    ("nn.Dropout(config.dropout)", "nn.Dropout(0.1)"),
    ("(source != self.config.pad)[:, None, :]", "(source == self.config.pad)[:, None, :]"),
    ("(source != self.config.pad)[:, None, :]", "(source != self.config.pad)[:, :, None]"),
    ("(source != self.config.pad)[:, None, :]", "torch.ones_like(source, dtype=torch.bool)[:, None]"),
    ("(source != self.config.pad)[:, None, :]", "(source != self.config.pad)[:1, None, :]"),
    ("self.stacks.encode(x, mask,", "self.stacks.encode(x, None,"),
    ("self.source_embedding, self.source_positions", "self.target_embedding, self.source_positions"),
    ("self.target_embedding, self.target_positions", "self.source_embedding, self.target_positions"),
    ("self.target_embedding, self.target_positions", "self.target_embedding, self.source_positions"),
    ("self.target_positions, offset=held", "self.target_positions, offset=0"),
    ("causal_mask(num_new, held + num_new)", "causal_mask(num_new, held + num_new, offset=0)"),
    ("causal_mask(num_new, held + num_new)", "causal_mask(num_new, held + num_new, offset=held + 1)"),
    ("causal_mask(num_new, held + num_new)", "causal_mask(num_new, held + num_new, offset=held - 1)"),
    ("x, memory, mask, memory_mask, cache=cache,", "x, memory, mask, None, cache=cache,"),
    ("x, memory, mask, memory_mask, cache=cache,", "x, memory, None, memory_mask, cache=cache,"),
    ("x, memory, mask, memory_mask, cache=cache,", "x, memory, mask, memory_mask,"),
    ("cache=cache, need_weights=need_weights\n", "cache=cache\n"),
    ("self.target_embedding.weight.index_fill", "self.source_embedding.weight.index_fill"),
    ("table = self.embeddings[-1]", "table = self.embeddings[0]"),
    ("if not config.share_embeddings:", "if True:"),
    ("if not config.tie_output:", "if True:"),
    ("config.target_vocab_size, bias=False)", "config.target_vocab_size)"),
    ("nn.init.xavier_uniform_(self.output.weight)", "pass"),
    ("self.target_positions = _positions(config)", "self.target_positions = self.source_positions"),
    ('if config.positions == "sinusoidal":', 'if config.positions != "learned":'),
    ('if config.positions == "learned":', "if False:"),
    ("encoded.memory, encoded.mask).logits", "encoded.memory, encoded.mask.logical_not()).logits"),
    ("if tokens.dtype not in (torch.int64, torch.int32):", "if tokens.is_floating_point():"),
    ("(torch.int64, torch.int32)", "(torch.int64, torch.int64)"),
    ("or tokens.numel() == 0", ""),
    ("length = held + tokens.shape[1]", "length = tokens.shape[1]"),
    ("if length > self.config.max_length:", "if length >= self.config.max_length:"),
    ("if length > self.config.max_length:", "if False:"),
    ("largest >= vocab_size", "largest > vocab_size"),
    ("if smallest < 0 or largest", "if largest"),
    ('"target", target, self.config.target_vocab_size', '"target", target, self.config.source_vocab_size'),
    ('"source", source, self.config.source_vocab_size', '"source", source, self.config.target_vocab_size'),
    ("if memory.shape[0] != target.shape[0]:", "if False:"),
]


class TorchMutants(Mutants):
    """What reads PyTorch's model is used through the stacks, so they are given the broken one too."""

    NAMES = ("config_from_torch", "parts_from_torch")

    def first_failure(self, source):
        try:
            return super().first_failure(source)
        finally:
            self._give_stacks(self.module)

    def _exchange(self, mutant):
        super()._exchange(mutant)
        self._give_stacks(mutant)

    def _give_stacks(self, module):
        for name in self.NAMES:
            setattr(attnlab.transformer.stacks, name, getattr(module, name))


ROOM = {
    "config": (Mutants(attnlab.transformer.config, "test_transformer_config.py"), CONFIG_MUTANTS),
    "shift": (Mutants(attnlab.transformer.shift, "test_transformer_shift.py"), SHIFT_MUTANTS),
    "stacks": (Mutants(attnlab.transformer.stacks, "test_transformer_stacks.py"), STACKS_MUTANTS),
    "torch": (TorchMutants(attnlab.transformer.torch_weights, "test_transformer_stacks.py"), TORCH_MUTANTS),
    "model": (Mutants(attnlab.transformer.model, "test_transformer.py"), MODEL_MUTANTS),
}
EVERY_MUTANT = [
    pytest.param(name, there, slip, id=f"{name}-{number:02d}")
    for name, (_, slips) in ROOM.items()
    for number, (there, slip) in enumerate(slips)
]


@pytest.mark.parametrize("name", ROOM)
def test_the_source_as_it_stands_passes(name):
    mutants, _ = ROOM[name]
    assert mutants.first_failure(mutants.source) is None


@pytest.mark.parametrize(("name", "there", "slip"), EVERY_MUTANT)
def test_mutant_is_noticed(name, there, slip):
    mutants, _ = ROOM[name]
    mutants.require_noticed(there, slip)
