"""Open the file of a translator that a stranger wrote: sizes are looked at before anything is built."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from attnlab.export import load_translator
from attnlab.transformer import greedy_decode

from ..verdict import Failed

# Far above what fits into a file of some hundred kB, and far below what would fill a memory.
_MOST = {
    "d_model": 512,
    "num_heads": 512,
    "d_ff": 4096,
    "num_encoder_layers": 24,
    "num_decoder_layers": 24,
    "max_length": 512,
    "source_vocab_size": 20_000,
    "target_vocab_size": 20_000,
}
_MOST_NUMBERS = 2_000_000
_MORE_TOKENS = 4


def load_model(content: bytes) -> Callable[[Sequence[str], Sequence[str]], list[str]]:
    """The translator in a file, as a function of texts and of what is wanted, which decides one thing alone.

    A translation is cut off a few tokens behind the length of the longest one that is wanted: a model that
    never ends a text would take longer than a check may.

    Raises:
        Failed: if the file is none, is damaged, or declares a model that is larger than itself.
    """
    _check_sizes(_config(content))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "translator.safetensors"
        path.write_bytes(content)
        try:
            translator = load_translator(path)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Failed("'model' is no file of a translator, or it is damaged") from error

    def translate(texts: Sequence[str], wanted: Sequence[str]) -> list[str]:
        longest = max(len(translator.target.encode(text)) for text in wanted)
        limit = min(longest + _MORE_TOKENS, translator.model.config.max_length)
        # Of similar length, so that a few long texts do not keep all others waiting.
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        answers = [""] * len(texts)
        with torch.no_grad():
            for start in range(0, len(order), 100):
                chosen = order[start : start + 100]
                source = translator.source_rows([texts[index] for index in chosen])
                rows = greedy_decode(translator.model, source, max_length=limit)
                translated = [translator.target.decode(row) for row in rows]
                for index, text in zip(chosen, translated, strict=True):
                    answers[index] = text
        return answers

    return translate


def _config(content: bytes) -> dict[str, Any]:
    """What the file says about its model, read without building anything."""
    try:
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
        config = json.loads(header["__metadata__"]["attnlab"])["config"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Failed("'model' is no file of a translator, as save_translator writes it") from error
    if type(config) is not dict:
        raise Failed("'model' is no file of a translator, as save_translator writes it")
    return config


def _check_sizes(config: dict[str, Any]) -> None:
    sizes = {name: config.get(name) for name in _MOST}
    if any(type(size) is not int or not 0 < size <= _MOST[name] for name, size in sizes.items()):
        raise Failed("'model' declares sizes that no model of this project has")
    width, hidden = config["d_model"], config["d_ff"]
    layers = config["num_encoder_layers"] + 2 * config["num_decoder_layers"]
    vocabulary = config["source_vocab_size"] + config["target_vocab_size"]
    if vocabulary * width + layers * (4 * width * width + 2 * width * hidden) > _MOST_NUMBERS:
        raise Failed("'model' declares more numbers than its file can hold")
