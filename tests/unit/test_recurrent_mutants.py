"""Break the recurrent models line by line: their tests must notice every time."""

import attnlab.recurrent.additive
import attnlab.recurrent.decoding
import attnlab.recurrent.encoder_decoder
import attnlab.recurrent.initialisation
import attnlab.recurrent.layers
import attnlab.recurrent.sensitivity
from tests.unit.mutants import Mutants, judging

# (what is there, what a slip would make of it); the first text stands exactly once in the source.
ADDITIVE = [
    ("nn.Linear(d_query, d_hidden, bias=False)", "nn.Linear(d_query, d_hidden)"),
    ("nn.Linear(d_key, d_hidden, bias=False)", "nn.Linear(d_key, d_hidden)"),
    ("nn.Linear(d_hidden, 1, bias=False)", "nn.Linear(d_hidden, 1)"),
    ("key if value is None else value, mask)", "key, mask)"),
    ("key if value is None else value, mask)", "key if value is None else value)"),
    ("self.w_query(query)[:, :, None, :] + projected", "self.w_query(query)[:, :, None, :] - projected"),
    ("self.w_query(query)[:, :, None, :] + projected", "self.w_query(query)[:, :, None, :] * projected"),
    ("together.tanh()", "together"),
    ("together.tanh()", "together.sigmoid()"),
    (
        "AttentionOutput(weights @ value, weights, scores)",
        "AttentionOutput(weights @ value, weights, weights)",
    ),
    ("AttentionOutput(weights @ value, weights, scores)", "AttentionOutput(weights @ value, scores, scores)"),
    ("AttentionOutput(weights @ value, weights, scores)", "AttentionOutput(scores @ value, weights, scores)"),
    ("masked_softmax(scores, mask)", "masked_softmax(scores, None)"),
    ("masked_softmax(scores, mask)", "masked_softmax(scores.mT, None).mT"),
    ("if width < 1:", "if width < 0:"),
    ("if key.ndim != 3 or key.shape[-1] != width:", "if key.ndim != 3:"),
    ("if key.ndim != 3 or key.shape[-1] != width:", "if key.shape[-1] != width:"),
    ("if query.ndim != 3 or query.shape[-1] != width:", "if query.ndim != 3:"),
    ("if query.ndim != 3 or query.shape[-1] != width:", "if query.shape[-1] != width:"),
    ("if projected_key.shape[0] != query.shape[0]:", "if False:"),
    ("if value.ndim != 3 or value.shape[:2] != projected_key.shape[:2]:", "if value.ndim != 3:"),
    ("if value.ndim != 3 or value.shape[:2] != projected_key.shape[:2]:", "if False:"),
    ("            check_mask(mask, (*query.shape[:2], projected_key.shape[1]))\n", "            pass\n"),
    ("check_mask(mask, (*query.shape[:2], projected_key", "check_mask(mask, (*query.shape[:2], query"),
]
ENCODER_DECODER = [
    ("if size < 1:", "if size < 0:"),
    ("bidirectional=True)", "bidirectional=True, num_layers=2)"),
    ("lengths.cpu(), batch_first=True", "torch.full_like(lengths, source.shape[1]).cpu(), batch_first=True"),
    ("total_length=source.shape[1]", "total_length=None"),
    ("torch.cat([last[0], last[1]], dim=-1)", "torch.cat([last[1], last[0]], dim=-1)"),
    ("torch.cat([last[0], last[1]], dim=-1)", "states[:, -1]"),
    ("padding_mask(lengths, source.shape[1])", "~padding_mask(lengths, source.shape[1])"),
    ("padding_mask(lengths, source.shape[1])", "padding_mask(0 * lengths + source.shape[1])"),
    ("self.first_state(encoded.summary).tanh()", "self.first_state(encoded.summary)"),
    ("        if state is not None:\n            return state\n", ""),
    ("context = encoded.summary[:, None, :].expand(", "context = encoded.states[:, :1].expand("),
    ("self._start(encoded, state)[None])", "0 * self._start(encoded, state)[None])"),
    ("torch.cat([states, context], dim=-1)", "torch.cat([states, 0 * context], dim=-1)"),
    ("RecurrentDecoded(logits, last[0], None)", "RecurrentDecoded(logits, states[:, 0], None)"),
    (
        "        state = self._start(encoded, state)  # (B, H)\n",
        "        state = self._start(encoded, None)\n",
    ),
    ("encoded.states, encoded.mask)\n", "encoded.states)\n"),
    (
        "found = self.attention.attend(state[:, None, :]",
        "found = self.attention.attend(0 * state[:, None, :]",
    ),
    ("torch.cat([embedded, context], dim=-1), state)", "torch.cat([embedded, 0 * context], dim=-1), state)"),
    ("torch.cat([embedded, context], dim=-1), state)", "torch.cat([embedded, context], dim=-1), 0 * state)"),
    ("            states.append(state)\n", "            states.append(states[0] if states else state)\n"),
    ("            contexts.append(context)\n", "            contexts.append(encoded.summary)\n"),
    ("torch.cat(rows, dim=1))", "torch.cat(rows[::-1], dim=1))"),
    ("real = source != pad", "real = source != 0"),
    ("if source.ndim != 2:", "if False:"),
    ("if bool((lengths == 0).any()):", "if bool((lengths == 0).all()):"),
    ("(real[:, 1:] & ~real[:, :-1])", "(~real[:, 1:] & real[:, :-1])"),
    ("    if bool((real[:, 1:] & ~real[:, :-1]).any()):\n", "    if False:\n"),
]
DECODING = [
    ("@torch.no_grad()\n", ""),
    ("if max_length < 1:", "if max_length < 0:"),
    ("torch.full_like(source[:, :1], model.bos)", "source[:, :1]"),
    ("torch.full_like(source[:, :1], model.bos)", "torch.full_like(source[:, :1], 1)"),
    ("len(written) < max_length and not", "len(written) <= max_length and not"),
    ("< max_length and not bool(finished.all())", "< max_length"),
    ("< max_length and not bool(finished.all())", "< max_length and not bool(finished.any())"),
    ("model.decode(token, encoded, state)", "model.decode(token, encoded)"),
    ("argmax(dim=-1).masked_fill(finished, model.pad)", "argmax(dim=-1)"),
    ("argmax(dim=-1).masked_fill(finished, model.pad)", "argmax(dim=-1).masked_fill(finished, 0)"),
    ("argmax(dim=-1).masked_fill(finished, model.pad)", "argmin(dim=-1).masked_fill(finished, model.pad)"),
    ("finished = finished | (token == model.eos)", "finished = token == model.eos"),
    ("finished = finished | (token == model.eos)", "finished = finished | (token == 2)"),
]
INITIALISATION = [
    ("        state_bias[forget] = 0.0\n", "        state_bias[forget] = value\n"),
    ("slice(lstm.hidden_size, 2 * lstm.hidden_size)", "slice(0, lstm.hidden_size)"),
    ("uniform_(1.0, longest - 1.0, generator=generator)", "uniform_(1.0, longest - 1.0)"),
    (
        "uniform_(1.0, longest - 1.0, generator=generator)",
        "uniform_(0.0, longest - 1.0, generator=generator)",
    ),
    ("log_u = u.log().to(input_bias)", "log_u = u.to(input_bias)"),
    ("            input_bias[:hidden] = -log_u", "            input_bias[:hidden] = log_u"),
    ("        state_bias.zero_()\n", ""),
    ("        if isinstance(layer, nn.LSTM):\n", "        if True:\n"),
    ("    if longest < 2:\n", "    if longest < 1:\n"),
    ("    if not layer.bias:\n", "    if False:\n"),
]
LAYERS = [
    ("hidden_size, batch_first=True)", "hidden_size)"),
    ("if kind not in _LAYERS:", "if False:"),
    ("if not layer.batch_first:", "if False:"),
    ("(2 if layer.bidirectional else 1)", "1"),
    ("self.readout(states[:, -1])", "self.readout(states[:, 0])"),
    ("self.readout(states[:, -1])", "self.readout(states[-1])"),
]
SENSITIVITY = [
    ("if inputs.dim() != 3:", "if False:"),
    ("if nearest == 0 or not math.isfinite(nearest):", "if False:"),
    ("return norms / nearest", "return norms"),
    (".mean(dim=0).flip(0)", ".mean(dim=0)"),
    ("gradient.norm(dim=-1)", "gradient.abs().amax(dim=-1)"),
]

FILES = {
    "additive": (attnlab.recurrent.additive, "test_recurrent_additive.py", [], ADDITIVE),
    "encoder_decoder": (
        attnlab.recurrent.encoder_decoder,
        "test_recurrent_encoder_decoder.py",
        ["RecurrentEncoded", "RecurrentDecoded"],
        ENCODER_DECODER,
    ),
    "decoding": (attnlab.recurrent.decoding, "test_recurrent_encoder_decoder.py", [], DECODING),
    "initialisation": (attnlab.recurrent.initialisation, "test_recurrent.py", [], INITIALISATION),
    "layers": (attnlab.recurrent.layers, "test_recurrent.py", [], LAYERS),
    "sensitivity": (attnlab.recurrent.sensitivity, "test_recurrent.py", [], SENSITIVITY),
}

ROOMS = {
    name: (Mutants(module, tests, keep=keep), slips) for name, (module, tests, keep, slips) in FILES.items()
}
test_the_source_as_it_stands_passes, test_mutant_is_noticed = judging(ROOMS)
