"""An optimizer's memory as tensors and plain values, by the names of the parameters.

PyTorch numbers the parameters of an optimizer in the order in which they were handed over. Names say which is
which, so that an optimizer whose groups are sorted differently is noticed instead of filled wrongly.
"""

import os
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

__all__ = ["check_optimizer", "optimizer_record"]


def optimizer_record(model: nn.Module, optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors, as ``optimizer/<what>/<parameter>``, and a record of all else that JSON can hold.

    Raises:
        TypeError: if the optimizer remembers something besides tensors and plain values.
        ValueError: if it holds a parameter that the model has not.
    """
    tensors: dict[str, Tensor] = {}
    values: dict[str, dict[str, Any]] = {}
    groups = []
    for group, names in zip(optimizer.param_groups, _group_names(model, optimizer), strict=True):
        options = {key: _plain(key, value) for key, value in group.items() if key != "params"}
        groups.append({"params": names, "options": options})
        for name, parameter in zip(names, group["params"], strict=True):
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer/{key}/{name}"] = value
                else:
                    values.setdefault(name, {})[key] = _plain(key, value)
    return tensors, {"class": type(optimizer).__name__, "groups": groups, "values": values}


def check_optimizer(
    path: str | os.PathLike[str],
    model: nn.Module,
    optimizer: Optimizer,
    tensors: Mapping[str, Tensor],
    record: Mapping[str, Any],
) -> dict[str, Any]:
    """A state for ``optimizer.load_state_dict``, from what :func:`optimizer_record` gave.

    Args:
        path: the file that it came from, for the message of an error.
        model: whose parameters the optimizer holds.
        optimizer: the one to fill; left as it is here.
        tensors: the tensors of the file, by name.
        record: the rest of the state.

    Raises:
        ValueError: if the optimizer is of another class, or holds other parameters or in another order.
    """
    if type(optimizer).__name__ != record["class"]:
        raise ValueError(
            f"optimizer: expected {record['class']}, as saved in {path}, got {type(optimizer).__name__}"
        )
    names = _group_names(model, optimizer)
    saved_names = [group["params"] for group in record["groups"]]
    if names != saved_names:
        raise ValueError(
            f"optimizer: expected groups of the parameters saved in {path}, {saved_names}, got {names}"
        )
    numbers = {name: number for number, name in enumerate(name for group in names for name in group)}
    state: dict[int, dict[str, Any]] = {}
    for full_name, tensor in tensors.items():
        if full_name.startswith("optimizer/"):
            _, key, name = full_name.split("/", 2)
            state.setdefault(numbers[name], {})[key] = tensor
    for name, values in record["values"].items():
        for key, value in values.items():
            state.setdefault(numbers[name], {})[key] = _unplain(value)
    groups = [
        {key: _unplain(value) for key, value in group["options"].items()}
        | {"params": [numbers[name] for name in group["params"]]}
        for group in record["groups"]
    ]
    return {"state": state, "param_groups": groups}


def _group_names(model: nn.Module, optimizer: Optimizer) -> list[list[str]]:
    """The names of the parameters of each group."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    try:
        return [[names[id(parameter)] for parameter in group["params"]] for group in optimizer.param_groups]
    except KeyError as error:
        raise ValueError("optimizer: expected parameters of the model, got one of another") from error


def _plain(key: str, value: Any) -> Any:
    """What JSON can hold: a tuple is marked as one, since JSON knows lists alone."""
    if isinstance(value, tuple):
        return {"tuple": [_plain(key, item) for item in value]}
    if isinstance(value, list):
        return [_plain(key, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"optimizer: expected tensors and plain values, got {type(value).__name__} as {key}")


def _unplain(value: Any) -> Any:
    """What :func:`_plain` was given."""
    if isinstance(value, dict):
        return tuple(_unplain(item) for item in value["tuple"])
    if isinstance(value, list):
        return [_unplain(item) for item in value]
    return value
