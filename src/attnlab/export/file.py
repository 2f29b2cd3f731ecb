"""The file of a translator: weights in 8 bits, configuration, both vocabularies and a digest.

It is in the safetensors layout, so that nothing in it is ever executed.

=============  ==========================================================
tensor         holds
=============  ==========================================================
``M``          a matrix in 8 bits, int8 ``(R, C)``
``M.scale``    its scales, float32 ``(R,)``
``v``          a vector, such as a bias, float32
=============  ==========================================================

The metadata have one key, ``attnlab``: a JSON text with the keys ``sha256``, ``format``, ``version``,
``config``, ``source``, ``target`` and ``about``. The digest is that of the whole file with its own 64 digits
replaced by zeros. The same translator gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from
from safetensors.torch import save as bytes_from
from torch import Tensor

from attnlab.export.rows import QuantisedRows, quantise_rows, restore_rows
from attnlab.export.tokeniser import Tokeniser
from attnlab.export.translator import TrainedTranslator
from attnlab.training.storage import replace_file
from attnlab.transformer import Transformer, TransformerConfig

__all__ = ["FORMAT_VERSION", "load_translator", "save_translator"]

#: Goes up when a name, the layout or the way to cut a text changes.
FORMAT_VERSION = 1
_FORMAT = "attnlab translator"
_NO_DIGEST = "0" * 64
_SCALE = ".scale"
#: Sinusoidal positions stand in no file: without a limit a few digits could ask for any amount of memory.
_MOST_POSITIONS = 1 << 16

PathLike: TypeAlias = str | os.PathLike[str]


def save_translator(path: PathLike, translator: TrainedTranslator) -> str:
    """Write a translator to one file, in one step: an older file stays whole until the new one is.

    Args:
        path: the file, by custom ``*.safetensors``; its folder must be there.
        translator: what to write.

    Returns:
        The file's digest, 64 hexadecimal digits.

    Raises:
        OSError: if the file cannot be written.
        ValueError: if a weight is not finite, ``max_length`` is above 65,536, or JSON would change what
            ``about`` holds.
    """
    _check_length(translator.model.config)
    document = {
        "sha256": _NO_DIGEST,  # first, so that the first run of zeros in the file is this one
        "format": _FORMAT,
        "version": FORMAT_VERSION,
        "config": translator.model.config.to_dict(),
        "source": translator.source.to_dict(),
        "target": translator.target.to_dict(),
        "about": translator.about,
    }
    text = json.dumps(document, ensure_ascii=False)
    if json.loads(text)["about"] != translator.about:
        raise ValueError("about: expected what JSON can hold unchanged, with text as keys and no tuples")
    # One key: the order of several is not the same in each process.
    content = bytes_from(_packed(translator.model), {"attnlab": text})
    digest = hashlib.sha256(content).hexdigest()
    replace_file(path, content.replace(_NO_DIGEST.encode(), digest.encode(), 1))
    return digest


def load_translator(path: PathLike) -> TrainedTranslator:
    """Read what :func:`save_translator` wrote. The model is on the CPU, in float32 and in evaluation mode.

    Raises:
        FileNotFoundError: if there is no file.
        ValueError: if it is damaged, no file of this kind, or of a newer version; the message names the path.
    """
    content = Path(path).read_bytes()
    try:
        tensors = tensors_from(content)
    except SafetensorError as error:
        raise ValueError(f"{path}: damaged, or no safetensors file ({error})") from error
    document = _document(path, content)
    try:
        weights = _unpacked(tensors)
        model = _model_of(TransformerConfig.from_dict(document["config"]), weights)
        source, target = (Tokeniser.from_dict(document[side]) for side in ("source", "target"))
        return TrainedTranslator(model, source, target, document["about"])
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: damaged, its parts do not fit together ({error})") from error


def _packed(model: Transformer) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        if value.ndim == 2:
            tensors[name], tensors[name + _SCALE] = quantise_rows(value)
        elif not bool(value.isfinite().all()):
            raise ValueError(f"model: expected finite weights, got NaN or infinity in {name}")
        else:
            tensors[name] = value.detach().cpu().float().contiguous()
    return tensors


def _unpacked(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: restore_rows(QuantisedRows(value, tensors[name + _SCALE]))
        if name + _SCALE in tensors
        else value
        for name, value in tensors.items()
        if not name.endswith(_SCALE)
    }


def _model_of(config: TransformerConfig, weights: Mapping[str, Tensor]) -> Transformer:
    """A model with these weights. It takes memory only once the weights are known to be all of its own."""
    _check_length(config)
    layers = config.num_encoder_layers + config.num_decoder_layers
    if layers > len(weights):  # a layer has several; even empty ones would take memory
        raise ValueError(f"config: {layers} layers, but the file has {len(weights)} tensors")
    # A table of sinusoidal positions is no weight, and is worked out on the CPU whatever the device.
    saved = replace(config, positions="none") if config.positions == "sinusoidal" else config
    with torch.device("meta"):
        expected = {name: value.shape for name, value in Transformer(saved).state_dict().items()}
    given = {name: value.shape for name, value in weights.items()}
    for name in sorted(expected.keys() | given.keys()):
        if expected.get(name) != given.get(name):
            wanted, found = (_shape(shapes.get(name)) for shapes in (expected, given))
            raise ValueError(f"{name}: the config asks for {wanted}, the file has {found}")
    model = Transformer(config).eval()
    model.load_state_dict(weights)
    return model


def _shape(shape: torch.Size | None) -> str:
    return "none" if shape is None else str(tuple(shape))


def _check_length(config: TransformerConfig) -> None:
    if config.max_length > _MOST_POSITIONS:
        raise ValueError(f"max_length: expected at most {_MOST_POSITIONS}, got {config.max_length}")


def _document(path: PathLike, content: bytes) -> dict[str, Any]:
    """The document of a file that is of this kind, not newer than this code, and whole."""
    header_size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + header_size])
    text = header.get("__metadata__", {}).get("attnlab", "{}")
    try:
        document: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: damaged, its document is not JSON ({error})") from error
    if document.get("format") != _FORMAT:
        raise ValueError(f"{path}: expected a saved translator, got another safetensors file")
    version = document.get("version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ValueError(
            f"{path}: expected a format of version {FORMAT_VERSION} at most, got {version!r}; "
            "a newer attnlab wrote it"
        )
    digest = str(document.get("sha256"))
    blank = content.replace(digest.encode(), _NO_DIGEST.encode(), 1)
    if hashlib.sha256(blank).hexdigest() != digest:
        raise ValueError(f"{path}: damaged, the content does not match its digest")
    return document
