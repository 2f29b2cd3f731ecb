"""A file of tensors and one document, whole or not there at all.

The file is in the safetensors layout: nothing in it is ever executed, unlike a pickle. Beside the tensors it
holds a JSON document and a digest of everything, so that damage is noticed and not trained on. It is written
under another name first and takes its place in one step: who stops in the middle leaves the old file whole.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

__all__ = ["FORMAT_VERSION", "read_document", "read_file", "replace_file", "write_file"]

FORMAT_VERSION = 1
_FORMAT = "attnlab"


def write_file(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], document: dict[str, Any]) -> None:
    """Write tensors and a document, replacing what was at ``path`` in one step.

    Args:
        path: where to; its folder must be there.
        tensors: by name, on any device; two that share memory are stored twice.
        document: what JSON can hold unchanged.

    Raises:
        OSError: if the file cannot be written; an older file is then still there.
        ValueError: if JSON would change the document: text for a number as a key, a list for a tuple.
    """
    text = json.dumps(document)
    if json.loads(text) != document:
        raise ValueError("document: expected what JSON can hold unchanged, with text as keys and no tuples")
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    header = {
        "format": _FORMAT,
        "version": str(FORMAT_VERSION),
        "document": text,
        "sha256": _digest(plain, text),
    }
    replace_file(path, save(plain, header))


def replace_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file in one step: it is written beside, then takes its place.

    Args:
        path: where to; its folder must be there.
        content: all of the file.

    Raises:
        OSError: if the file cannot be written; an older file is then still there, whole.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def read_file(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_file` wrote: the tensors, on the CPU, and the document.

    Raises:
        FileNotFoundError: if there is no file.
        ValueError: if it is damaged, no file of ours, or of a newer version; the message names the path.
    """
    try:
        with safe_open(path, framework="pt") as file:
            text, digest = _text_and_digest(path, file.metadata())
            # Clones: what was read must not hang on the file, which may be replaced.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path}: damaged, or no safetensors file ({error})") from error
    if _digest(tensors, text) != digest:
        raise ValueError(f"{path}: damaged, the content does not match its digest")
    return tensors, json.loads(text)


def read_document(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the document alone, without checking the tensors.

    Errors are those of :func:`read_file`, but for damage to the tensors.
    """
    try:
        with safe_open(path, framework="pt") as file:
            text, _ = _text_and_digest(path, file.metadata())
    except SafetensorError as error:
        raise ValueError(f"{path}: damaged, or no safetensors file ({error})") from error
    try:
        document: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: damaged, its document is not JSON ({error})") from error
    return document


def _text_and_digest(path: str | os.PathLike[str], header: dict[str, str] | None) -> tuple[str, str]:
    """The document's text and the digest, from a header that is one of ours."""
    header = header or {}
    if header.get("format") != _FORMAT:
        raise ValueError(f"{path}: expected a file written by this library, got another safetensors file")
    version = header.get("version", "")
    if not version.isdigit() or int(version) > FORMAT_VERSION:
        raise ValueError(
            f"{path}: expected a format of version {FORMAT_VERSION} at most, got {version!r}; "
            "a newer attnlab wrote it"
        )
    if "document" not in header or "sha256" not in header:
        raise ValueError(f"{path}: damaged, its header lacks the document or the digest")
    return header["document"], header["sha256"]


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """SHA-256 over the document and every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(text.encode("utf-8"))
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
