"""Break the cache line by line: the tests of test_cache.py must notice every time."""

import attnlab.cache
from tests.unit.mutants import Mutants, judging

MUTANTS = [
    ("        self._check(key, value)\n", ""),
    ("_grown(held_key, self._length, key), _grown", "_grown(held_key, self._length, key.detach()), _grown"),
    (", _grown(held_value, self._length, value)", ", _grown(held_value, self._length, key)"),
    ("self._length += key.shape[-2]", "self._length += key.shape[-1]"),
    ("self._length += key.shape[-2]", "self._length = key.shape[-2]"),
    ("return key[..., : self._length, :], value", "return key, value"),
    ("value[..., : self._length, :]", "value[..., : self._length, :].clone()[..., ::-1]"),
    ("if torch.is_grad_enabled():", "if False:"),
    ("if torch.is_grad_enabled():", "if True:"),
    ("return new.clone() if buffer is None", "return new if buffer is None"),
    (
        "torch.cat((buffer[..., :length, :], new), dim=-2)",
        "torch.cat((new, buffer[..., :length, :]), dim=-2)",
    ),
    ("torch.cat((buffer[..., :length, :], new), dim=-2)", "torch.cat((buffer, new), dim=-2)"),
    (" or not _writable(buffer):", ":"),
    ("or buffer.shape[-2] < end or", "or True or"),
    ("    if buffer is not None and end == length:\n        return buffer\n", ""),
    ("max(_SMALLEST, 2 * end)", "end"),
    ("max(_SMALLEST, 2 * end)", "1000"),
    ("        if buffer is not None:\n            larger", "        if False:\n            larger"),
    ("buffer[..., length:end, :] = new", "buffer[..., : end - length, :] = new"),
    ("return torch.is_inference_mode_enabled() or not buffer.is_inference()", "return True"),
    ("if rows.dtype not in (torch.int64, torch.int32):", "if rows.is_floating_point():"),
    ("if rows.dtype not in (torch.int64, torch.int32):", "if rows.dtype == torch.bool:"),
    ("(torch.int64, torch.int32)", "(torch.int64,)"),
    ("if rows.ndim != 1:", "if False:"),
    ("if rows.ndim != 1:", "if rows.ndim > 1:"),
    ("        if self._buffers is None:\n            return\n        key, value", "        key, value"),
    ("if rows.numel() and not 0 <=", "if not 0 <="),
    ("not 0 <= int(rows.min())", "not -9 <= int(rows.min())"),
    ("int(rows.max()) < key.shape[0]", "int(rows.max()) <= key.shape[0]"),
    ("key.index_select(0, rows), value.index_select(0, rows)", "key.index_select(0, rows), value"),
    ("value.index_select(0, rows)", "value.index_select(0, rows.sort().values)"),
    ("self._buffers, self._length = None, 0", "self._buffers = None"),
    ("self._buffers, self._length = None, 0", "self._length = 0"),
    ("if tensor.ndim != 4:", "if tensor.ndim < 3:"),
    ("if value.shape[:-1] != key.shape[:-1]:", "if value.shape[:-2] != key.shape[:-2]:"),
    ("if tensor.dtype != held.dtype or tensor.device", "if tensor.device"),
    ("or tensor.device != held.device:", "or False:"),
    ("(*tensor.shape[:2], tensor.shape[3])", "(*held.shape[:1], tensor.shape[1], tensor.shape[3])"),
    ("(*tensor.shape[:2], tensor.shape[3])", "(*tensor.shape[:1], held.shape[1], tensor.shape[3])"),
    ("(*tensor.shape[:2], tensor.shape[3])", "(*tensor.shape[:2], held.shape[3])"),
    ("if num_layers < 1:", "if num_layers < 0:"),
    ("tuple(LayerCache() for _ in range(num_layers))", "(LayerCache(),) * num_layers"),
    ("return min(layer.length", "return max(layer.length"),
    (
        "        for layer in self._layers:\n            layer.select(rows)",
        "        self._layers[0].select(rows)",
    ),
    ("        for layer in self._layers:\n            layer.clear()", "        self._layers[0].clear()"),
]

CACHE = Mutants(attnlab.cache, "test_cache.py")

test_the_source_as_it_stands_passes, test_mutant_is_noticed = judging({"cache": (CACHE, MUTANTS)})
