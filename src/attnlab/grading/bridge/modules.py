"""Modules across the bridge: their weights travel with each call, and the forward pass runs where they live.

A module of one side is a ``Mirror`` on the other: it has parameters and buffers of the same names, which can
be loaded, read, trained and moved as ever. Layers of torch and of the course's library, which both sides
have, are rebuilt for a learner's function instead, so that it can look into them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor, nn

from . import faults
from .wire import WireError

MOST_MODULES = 2000
MOST_LEVELS = 40
_OWN = frozenset(vars(nn.Module())) | {"_flat_weights", "_flat_weight_refs", "_is_hf_initialized"}

State = dict[str, Any]


class Peer(Protocol):
    """What a mirror asks of the bridge."""

    def call(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], how: str, name: str
    ) -> Any: ...


class Mirror(nn.Module):
    """A module that lives on the other side."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._peer().call(self, args, kwargs, "call", "")

    def __getattr__(self, name: str) -> Any:
        try:
            return nn.Module.__getattr__(self, name)
        except AttributeError:
            if name.startswith("_"):
                raise
        return self._peer().call(self, (), {}, "attribute", name)

    # Layers of torch have their own ways of doing these, for parts that a mirror lacks.
    __setattr__ = nn.Module.__setattr__
    _apply = nn.Module._apply

    def __deepcopy__(self, _: dict[int, Any]) -> Any:
        return self._peer().call(self, (), {}, "copy", "")

    def __reduce_ex__(self, _: Any) -> NoReturn:
        raise TypeError("a module of the other side cannot be stored")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def _peer(self) -> Peer:
        peer: Peer = self.__dict__["_bridge"][0]
        return peer


def new_mirror(peer: Peer, reference: int, name: object, base: object) -> Mirror:
    """An empty mirror; of a layer of torch, it is an instance of that layer as well."""
    found = getattr(nn, base, None) if type(base) is str else None
    layer = found if isinstance(found, type) and issubclass(found, nn.Module) else nn.Module
    bases = (Mirror,) if layer is nn.Module else (Mirror, layer)
    mirror: Mirror = nn.Module.__new__(type(faults.word(name, "Module"), bases, {}))
    nn.Module.__init__(mirror)
    mirror.__dict__["_bridge"] = (peer, reference)
    return mirror


def reference_of(module: nn.Module) -> int | None:
    """The number under which the other side knows a mirror; None for a module of this side."""
    if not isinstance(module, Mirror):
        return None
    reference: int = module.__dict__["_bridge"][1]
    return reference


def tree_of(module: nn.Module, export: Callable[[nn.Module], int], level: int = 0) -> dict[str, Any]:
    """The structure of a module, with a number for each part of it."""
    _bounded(level)
    kind = type(module)
    base = next((kind.__name__ for kind in kind.__mro__ if getattr(nn, kind.__name__, None) is kind), None)
    children = [
        [name, None if child is None else tree_of(child, export, level + 1)]
        for name, child in module._modules.items()
    ]
    return {"ref": export(module), "name": kind.__name__, "base": base, "in": children}


def from_tree(tree: object, make: Callable[[int, object, object], nn.Module], level: int = 0) -> nn.Module:
    """Mirrors for a structure. Raises ``WireError`` for what is none."""
    _bounded(level)
    if type(tree) is not dict or type(tree.get("ref")) is not int or type(tree.get("in")) is not list:
        raise WireError("no structure of a module")
    module = make(tree["ref"], tree.get("name"), tree.get("base"))
    for entry in tree["in"]:
        if type(entry) is not list or len(entry) != 2 or type(entry[0]) is not str:
            raise WireError("no part of a module")
        child = None if entry[1] is None else from_tree(entry[1], make, level + 1)
        module._modules[entry[0]] = child
    return module


# --- state ------------------------------------------------------------------------------------------------


def state_of(module: nn.Module, place: Callable[[Tensor], int], same: Callable[[Tensor], bool]) -> State:
    """Parameters, gradients, buffers and modes, the tensors by their place in the message's table."""
    parameters = [
        [
            *(name, place(value), same(value), value.requires_grad),
            None if value.grad is None else place(value.grad),
        ]
        for name, value in module.named_parameters(remove_duplicate=False)
    ]
    buffers = [
        [name, place(value), not _kept(module, name)]
        for name, value in module.named_buffers(remove_duplicate=False)
    ]
    modes = [[name, part.training] for name, part in module.named_modules(remove_duplicate=False)]
    return {"p": parameters, "u": buffers, "mode": modes}


def apply_state(module: nn.Module, state: object, tensors: list[Tensor], placed: set[int]) -> None:
    """Give a module this state, in place where that is possible; ``tensors`` then holds its parameters.

    ``placed`` has the ids of parameters that stand in a module already: met again, one is shared.

    Raises ``WireError`` where state and module do not fit.
    """
    try:
        _apply_state(module, state, tensors, placed)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise WireError("a state that does not fit its module") from error


def _apply_state(module: nn.Module, state: Any, tensors: list[Tensor], placed: set[int]) -> None:
    seen: set[tuple[int, str]] = set()
    for name, index, same, asks, grad in state["p"]:
        owner, leaf = _owner(module, name)
        parameter = _put_parameter(owner, leaf, tensors[index], same is True, placed)
        tensors[index] = parameter
        placed.add(id(parameter))
        if parameter.requires_grad != (asks is True):
            parameter.requires_grad_(asks is True)
        given = None if grad is None else tensors[grad].detach()
        if given is None or parameter.grad is None or not torch.equal(parameter.grad, given):
            parameter.grad = given
        seen.add((id(owner), leaf))
    for name, index, transient in state["u"]:
        owner, leaf = _owner(module, name)
        owner._buffers[leaf] = _updated(owner._buffers.get(leaf), tensors[index].detach())
        passing = owner._non_persistent_buffers_set
        (passing.add if transient else passing.discard)(leaf)
        seen.add((id(owner), leaf))
    for name, training in state["mode"]:
        (module.get_submodule(name) if name else module).training = training is True
    for part in module.modules():
        for table in (part._parameters, part._buffers):
            for leaf in [leaf for leaf, value in table.items() if value is not None]:
                if (id(part), leaf) not in seen:
                    del table[leaf]


def _put_parameter(owner: nn.Module, leaf: str, value: Tensor, same: bool, placed: set[int]) -> nn.Parameter:
    present = owner._parameters.get(leaf)
    if isinstance(value, nn.Parameter) and (id(value) in placed or present is None or not same):
        owner._parameters[leaf] = value
        return value
    if present is None or not same:
        present = owner._parameters[leaf] = nn.Parameter(value.detach(), requires_grad=False)
        return present
    put(present, value.detach())
    return present


def _updated(present: Tensor | None, value: Tensor) -> Tensor:
    if present is None:
        return value
    put(present, value)
    return present


def put(present: Tensor, value: Tensor) -> None:
    """Give a tensor other numbers in place; nothing happens where they are the same."""
    if present.shape != value.shape or present.dtype != value.dtype:
        present.data = value
    elif present.device.type == "cpu" and not torch.equal(present, value):
        with torch.no_grad():
            present.copy_(value)


def _owner(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    path, _, leaf = name.rpartition(".")
    if not leaf:
        raise WireError("a parameter without a name")
    return (module.get_submodule(path) if path else module), leaf


def _kept(module: nn.Module, name: str) -> bool:
    owner, leaf = _owner(module, name)
    return leaf not in owner._non_persistent_buffers_set


# --- modules that both sides have -------------------------------------------------------------------------


def both_have(module: nn.Module) -> bool:
    """Whether a module and all its parts are layers of torch or of the course's library."""
    return all(_is_shared(type(part)) for part in module.modules())


def _is_shared(kind: type) -> bool:
    place = kind.__module__
    if place.startswith("attnlab."):
        return not place.startswith(("attnlab.checks", "attnlab.grading"))
    return place.startswith("torch.nn.modules.") and "<locals>" not in kind.__qualname__


def plan_of(module: nn.Module, write: Callable[[Any], Any], level: int = 0) -> dict[str, Any]:
    """How to build a module of the same class: its class, its plain attributes and its parts."""
    _bounded(level)
    kind = type(module)
    attributes = {name: value for name, value in vars(module).items() if name not in _OWN}
    children = [
        [name, None if child is None else plan_of(child, write, level + 1)]
        for name, child in module._modules.items()
    ]
    return {"class": [kind.__module__, kind.__qualname__], "has": write(attributes), "in": children}


def from_plan(plan: dict[str, Any], read: Callable[[Any], Any]) -> nn.Module:
    """The module of a plan, its weights not in it yet."""
    module_name, name = plan["class"]
    kind: Any = importlib.import_module(module_name)
    for part in name.split("."):
        kind = getattr(kind, part)
    module: nn.Module = kind.__new__(kind)
    nn.Module.__init__(module)
    module.__dict__.update(read(plan["has"]))
    for child, part in plan["in"]:
        module._modules[child] = None if part is None else from_plan(part, read)
    return module


def settle(module: nn.Module) -> None:
    """Rebuild what recurrent layers keep beside their parameters."""
    for part in module.modules():
        if isinstance(part, nn.RNNBase) and not isinstance(part, Mirror):
            part._init_flat_weights()


def _bounded(level: int) -> None:
    if level > MOST_LEVELS:
        raise WireError("a module with too many levels")
