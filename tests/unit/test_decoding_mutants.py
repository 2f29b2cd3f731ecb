"""Break the searches line by line: the tests of test_decoding.py must notice every time."""

import attnlab.transformer.beams
import attnlab.transformer.decoding
from tests.unit.mutants import Mutants, judging

# (what is there, what a slip would make of it); the first text stands exactly once in the source.
DECODING_MUTANTS = [
    ("[model.config.pad, model.config.bos]", "[model.config.bos]"),
    ("[model.config.pad, model.config.bos]", "[model.config.pad]"),
    (".log_softmax(dim=-1)", ".softmax(dim=-1)"),
    (".log_softmax(dim=-1)", ".log_softmax(dim=0)"),
    (
        "logits.index_fill(-1, never, -math.inf).log_softmax(dim=-1)",
        "logits.index_fill(-1, never, -math.inf)",
    ),
    (
        "logits.index_fill(-1, never, -math.inf).log_softmax(dim=-1)",
        "logits.log_softmax(dim=-1).index_fill(-1, never, -math.inf)",
    ),
    (".masked_fill(finished, config.pad)", ".masked_fill(finished, config.eos)"),
    (".masked_fill(finished, config.pad)", ""),
    ("finished = finished | (newest == config.eos)", "finished = newest == config.eos"),
    ("finished = finished | (newest == config.eos)", "finished = finished | (newest == config.pad)"),
    ("bool(finished.all())", "bool(finished.any())"),
    ("bool(finished.all())", "bool((newest == config.eos).all())"),
    ("bool(finished.all())", "False"),
    ("len(columns) < max_length", "len(columns) < max_length - 1"),
    ("(source.shape[0],), config.bos)", "(source.shape[0],), config.eos)"),
    ("torch.stack(columns, dim=1)", "torch.stack(columns, dim=0)"),
    ("log_probs.argmax(dim=-1)", "log_probs.argmin(dim=-1)"),
    ("@torch.no_grad()\ndef greedy_decode", "def greedy_decode"),
    ("@torch.no_grad()\ndef beam_search", "def beam_search"),
    ("    model.eval()\n", "    pass\n"),
    ("            module.training = mode", "            pass"),
    ("            module.training = mode", "            module.training = True"),
    ("    try:\n        yield\n    finally:\n", "    yield\n    if True:\n"),
    (".repeat_interleave(beam_size)", ".repeat(beam_size)"),
    ("cache.select(beams.advance(log_probs))", "beams.advance(log_probs)"),
    ("            if beams.all_stopped():\n                break\n", ""),
    ("if not 1 <= max_length <= config.max_length:", "if max_length < 1:"),
    ("if not 1 <= max_length <= config.max_length:", "if max_length > config.max_length:"),
    ("if not 1 <= max_length <= config.max_length:", "if not 1 <= max_length < config.max_length:"),
    ("if beam_size < 1:", "if False:"),
    ("if not 0.0 <= length_penalty < math.inf:", "if length_penalty < 0.0:"),
    ("if not 0.0 <= length_penalty < math.inf:", "if not length_penalty < math.inf:"),
    ("length_penalty: float = 1.0", "length_penalty: float = 0.0"),
]
BEAM_MUTANTS = [
    ("self.log_probs[:, 0] = 0.0", "self.log_probs[:] = 0.0"),
    ("(*shape, max_length), config.pad", "(*shape, max_length), config.eos"),
    ("numel(),), self.config.bos)", "numel(),), self.config.eos)"),
    ("self.tokens[:, :, self.step - 1].flatten()", "self.tokens[:, :, 0].flatten()"),
    ("self.tokens[:, :, self.step - 1].flatten()", "self.tokens[:, :, self.step - 1].T.flatten()"),
    ("self.log_probs[:, :, None] + ", "0.0 * self.log_probs[:, :, None].nan_to_num() + "),
    ("total.flatten(1).topk(beam_size)", "total.flatten(1).topk(beam_size, largest=False)"),
    ("place // vocab_size, place % vocab_size", "place % vocab_size, place // vocab_size"),
    ("self.tokens = _take(self.tokens, parent)", "pass"),
    ("token == self.config.eos", "token == self.config.pad"),
    ("(first_row + parent).flatten()", "parent.flatten()"),
    (
        "(first_row + parent).flatten()",
        "(first_row + torch.arange(beam_size)).expand_as(parent).flatten()",
    ),
    ("self._scores().masked_fill(~ended, -math.inf)", "self._scores()"),
    ("self._scores().masked_fill(~ended, -math.inf)", "self.log_probs.masked_fill(~ended, -math.inf)"),
    ("scores.topk(self.done_scores.shape[1])", "scores.topk(self.done_scores.shape[1], largest=False)"),
    ("self.done_tokens = _take(tokens, best)", "pass"),
    (".all(dim=1, keepdim=True)", ".all()"),
    ("masked_fill(ended | decided, -math.inf)", "masked_fill(ended, -math.inf)"),
    ("masked_fill(ended | decided, -math.inf)", "masked_fill(decided, -math.inf)"),
    ("(running <= worst).all(dim=1", "worst.isfinite().all(dim=1"),
    ("(running <= worst).all(dim=1", "(running <= worst).any(dim=1"),
    ("running = self._scores().masked_fill(ended, -math.inf)", "running = self._scores()"),
    ("worst = self.done_scores[:, -1:]", "worst = self.done_scores[:, :1]"),
    ("math.pow(self.step, self.length_penalty)", "math.pow(self.step + 1, self.length_penalty)"),
    ("math.pow(self.step, self.length_penalty)", "(self.step * self.length_penalty + 1e-9)"),
    ("math.pow(self.step, self.length_penalty)", "math.pow((5 + self.step) / 6, self.length_penalty)"),
    ("self.log_probs / math", "self.log_probs * math"),
    ("return not bool(self.log_probs.isfinite().any())", "return not bool(self.log_probs.isfinite().all())"),
    ("self._scores().sort(dim=1, descending=True)", "self._scores().sort(dim=1)"),
    ("_take(self.tokens, order)), dim=1)", "self.tokens), dim=1)"),
    ("finished = real & (", "finished = (real | True) & ("),
    (" < beam_size)\n", " < 2 * beam_size)\n"),
    ("argsort(dim=1, descending=True, stable=True)", "argsort(dim=1, stable=True)"),
    ("[:, :beam_size]  # (B, K)", "[:, -beam_size:]  # (B, K)"),
    (".masked_fill(~real[:, :, None], self.config.pad)", ""),
    ("[:, :, : self.step],", ","),
]

ROOMS = {
    "searches": (Mutants(attnlab.transformer.decoding, "test_decoding.py"), DECODING_MUTANTS),
    "beams": (
        Mutants(attnlab.transformer.beams, "test_decoding.py", users=[attnlab.transformer.decoding]),
        BEAM_MUTANTS,
    ),
}

test_the_source_as_it_stands_passes, test_mutant_is_noticed = judging(ROOMS)
