"""Checkpoints: a run that is saved and loaded goes on as if it had never stopped, bit for bit.

A checkpoint holds the weights, all that the optimizer remembers, the state of each random generator, the
history and a config. Loading checks everything before it changes anything.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .loop import History
from .optimizer_state import check_optimizer, optimizer_record
from .storage import read_document, read_file, write_file

__all__ = ["Checkpoint", "load_checkpoint", "load_weights", "read_config", "save_checkpoint", "save_weights"]

PathLike: TypeAlias = str | os.PathLike[str]
_CURVES = ("losses", "gradient_norms", "learning_rates")


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint says besides what it puts into model, optimizer and generators.

    Attributes:
        step: how many updates had been made.
        history: their history, to hand to :func:`attnlab.training.fit`.
        config: what was saved as config.
    """

    step: int
    history: History
    config: dict[str, Any]


def save_checkpoint(
    path: PathLike,
    model: nn.Module,
    optimizer: Optimizer,
    *,
    step: int,
    history: History | None = None,
    config: dict[str, Any] | None = None,
    generators: Mapping[str, torch.Generator] | None = None,
) -> None:
    """Write all that a run needs to go on, in one step: an older file stays whole until the new one is.

    Args:
        path: the file, by custom ``*.safetensors``.
        model: its parameters and buffers are saved; tied ones once.
        optimizer: its state and the options of its groups, the base rate of a schedule among them.
        step: how many updates were made, ``history.steps`` after :func:`attnlab.training.fit`.
        history: the history so far.
        config: what it takes to build the model again; text as keys, no tuples.
        generators: those that the run draws from, by a name each. Dropout draws from PyTorch's global one,
            ``torch.default_generator``.

    Raises:
        OSError: if the file cannot be written.
        TypeError: if model or optimizer hold something besides tensors and plain values.
        ValueError: if JSON would change the config, or the optimizer has parameters that the model has not.
    """
    tensors, tied = _model_tensors(model)
    optimizer_tensors, record = optimizer_record(model, optimizer)
    history = History() if history is None else history
    generators = {} if generators is None else generators
    tensors |= optimizer_tensors
    tensors |= {f"generator/{name}": generator.get_state() for name, generator in generators.items()}
    tensors |= {
        f"history/{name}": torch.tensor(getattr(history, name), dtype=torch.float64) for name in _CURVES
    }
    document = {
        "kind": "checkpoint",
        "step": step,
        "config": {} if config is None else config,
        "tied": tied,
        "optimizer": record,
        "stopped_early": history.stopped_early,
    }
    write_file(path, tensors, document)


def load_checkpoint(
    path: PathLike,
    model: nn.Module,
    optimizer: Optimizer | None = None,
    *,
    generators: Mapping[str, torch.Generator] | None = None,
) -> Checkpoint:
    """Put a saved run into a model, an optimizer and generators that were made as those that were saved.

    Nothing is changed where anything does not fit.

    Args:
        path: the file.
        model: takes the weights.
        optimizer: takes the state; left out, the run is looked at and not gone on with.
        generators: take their states, under the names they were saved under: all of them, or none.

    Returns:
        The step, the history and the config.

    Raises:
        FileNotFoundError: if there is no file.
        ValueError: if it is damaged, no checkpoint, or of a newer version; if the model's names, shapes,
            types or tied tensors are others; if the optimizer is of another class or holds other parameters;
            if the generators' names are others.
    """
    tensors, document = read_file(path)
    if document["kind"] != "checkpoint":
        raise ValueError(f"{path}: expected a checkpoint, got a file of {document['kind']}")
    weights = _fitting_weights(path, model, tensors, document)
    state = None
    if optimizer is not None:
        state = check_optimizer(path, model, optimizer, tensors, document["optimizer"])
    states = _fitting_generators(path, _part(tensors, "generator/"), generators)

    model.load_state_dict(weights)
    if optimizer is not None and state is not None:
        optimizer.load_state_dict(state)
    for name, generator in (generators or {}).items():
        generator.set_state(states[name])
    curves = {name: tensors[f"history/{name}"].tolist() for name in _CURVES}
    history = History(stopped_early=document["stopped_early"], **curves)
    return Checkpoint(document["step"], history, document["config"])


def save_weights(path: PathLike, model: nn.Module, config: dict[str, Any] | None = None) -> None:
    """Write the weights alone, with a config. Arguments and errors are those of :func:`save_checkpoint`."""
    tensors, tied = _model_tensors(model)
    write_file(path, tensors, {"kind": "weights", "config": {} if config is None else config, "tied": tied})


def load_weights(path: PathLike, model: nn.Module) -> dict[str, Any]:
    """Put the weights of a file into a model, and return the config. A checkpoint will do, too.

    Args:
        path: the file, of :func:`save_weights` or :func:`save_checkpoint`.
        model: of the shapes that the file holds; changed in place.

    Raises:
        FileNotFoundError: if there is no file.
        ValueError: as :func:`load_checkpoint`; the model is then left as it was.
    """
    tensors, document = read_file(path)
    model.load_state_dict(_fitting_weights(path, model, tensors, document))
    config: dict[str, Any] = document["config"]
    return config


def read_config(path: PathLike) -> dict[str, Any]:
    """The config of a checkpoint or a file of weights, to build the model from before its weights are loaded.

    Raises:
        FileNotFoundError: if there is no file.
        ValueError: if it is no file of ours, or of a newer version.
    """
    config: dict[str, Any] = read_document(path)["config"]
    return config


def _model_tensors(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each parameter and buffer under its first name, and for tied ones the other names with the first."""
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    first_names: dict[int, str] = {}
    for name, value in model.state_dict(keep_vars=True).items():
        if not isinstance(value, Tensor):
            raise TypeError(f"model: expected a state of tensors, got {type(value).__name__} as {name}")
        first = first_names.setdefault(id(value), name)
        if first != name:
            tied[name] = first
        else:
            tensors[f"model/{name}"] = value
    return tensors, tied


def _fitting_weights(
    path: PathLike, model: nn.Module, tensors: Mapping[str, Tensor], document: Mapping[str, Any]
) -> dict[str, Tensor]:
    """The file's weights as a state for the model, or an error that says why they are those of another."""
    expected, tied = _model_tensors(model)
    given, asked = _part(tensors, "model/"), _part(expected, "model/")
    if given.keys() != asked.keys():
        missing, unknown = sorted(asked.keys() - given.keys()), sorted(given.keys() - asked.keys())
        raise ValueError(
            f"model: expected the one saved in {path}, which lacks {missing} and has {unknown} besides"
        )
    for name, tensor in given.items():
        ours = asked[name]
        if tensor.shape != ours.shape or tensor.dtype != ours.dtype:
            raise ValueError(
                f"model: expected {name} as in {path}, {tuple(tensor.shape)} of {tensor.dtype}, "
                f"got {tuple(ours.shape)} of {ours.dtype}"
            )
    if tied != document["tied"]:
        raise ValueError(f"model: expected the tied tensors of {path}, {document['tied']}, got {tied}")
    return given | {name: given[first] for name, first in tied.items()}


def _fitting_generators(
    path: PathLike, states: dict[str, Tensor], generators: Mapping[str, torch.Generator] | None
) -> dict[str, Tensor]:
    """The states by name, tried out on generators that nobody uses."""
    if generators is None:
        return {}
    if states.keys() != generators.keys():
        raise ValueError(
            f"generators: expected those saved in {path}, {sorted(states)}, got {sorted(generators)}"
        )
    for name, generator in generators.items():
        try:
            torch.Generator(generator.device).set_state(states[name])
        except RuntimeError as error:
            raise ValueError(
                f"generators: expected {name!r} on the kind of device it was saved on, got {generator.device}"
            ) from error
    return states


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
