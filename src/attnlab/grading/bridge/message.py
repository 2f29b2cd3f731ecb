"""Messages: a value with its tables of tensors and modules, as it goes out and as it comes in."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from . import modules, tensors
from .values import Reader, Writer
from .wire import Buffer, WireError

T = TypeVar("T")

MOST_TENSORS = 3000


class Registry(Protocol):
    """What messages ask of the side that sends or receives them."""

    grader: bool

    def export(self, value: Any) -> int: ...

    def name_of(self, value: Any) -> list[Any]: ...

    def method_of(self, value: Any) -> tuple[nn.Module, str] | None: ...

    def named(self, node: list[Any]) -> Any: ...

    def exported(self, reference: object) -> Any: ...

    def mirror(self, reference: int, name: object, base: object) -> nn.Module: ...


class Outgoing(Writer):
    """A message that is being written.

    Args:
        side: the side that sends it.
        home: the request that it answers: a tensor or module of the request goes back as that.
        picture: whether everything that came with the request is written out, to see what has changed in it.
    """

    def __init__(self, side: Registry, home: Incoming | None = None, *, picture: bool = False) -> None:
        super().__init__()
        self._side, self._home, self._picture = side, home, picture
        self.tensors: list[Tensor] = []
        self.modules: list[nn.Module] = []
        self._descriptions: list[Any] = []
        self._buffers: list[Buffer] = []
        self._entries: list[Any] = []
        self._places: dict[int, int] = {}
        self._module_places: dict[int, int] = {}
        if home is not None and picture:
            for tensor in home.tensors:
                self.tensor(tensor)
            for module in home.modules:
                self.module(module)

    def message(self, value: Any) -> tuple[dict[str, Any], list[Buffer]]:
        """Header and buffers of a message that holds this value."""
        node = self.write(value)
        header = {"v": node, "t": self._descriptions, "m": self._entries}
        return header, [*self._buffers, *self.extra]

    def tensor(self, value: Tensor) -> int:
        if id(value) not in self._places:
            if len(self.tensors) >= MOST_TENSORS:
                raise ValueError("too many tensors")
            self._places[id(value)] = len(self.tensors)
            self.tensors.append(value)
            self._describe(value)
        return self._places[id(value)]

    def _describe(self, value: Tensor) -> None:
        known = None if self._home is None else self._home.place(value)
        if known is not None and not self._picture:
            self._descriptions.append({"arg": known})
            self._buffers.append(b"")
            return
        about, data = tensors.describe(value)
        self._descriptions.append(about if known is None else {**about, "arg": known})
        self._buffers.append(data)

    def module(self, value: nn.Module) -> int:
        if id(value) not in self._module_places:
            self._module_places[id(value)] = place = len(self.modules)
            self.modules.append(value)
            self._entries.append(None)
            self._entries[place] = self._entry(value)
        return self._module_places[id(value)]

    def _entry(self, value: nn.Module) -> list[Any]:
        reference = modules.reference_of(value)
        known = None if self._home is None else self._home.module_place(value)
        if known is not None:
            return ["arg", known, self._state(value) if self._picture else None]
        if reference is not None:
            return ["own", reference, self._state(value)]
        if self._side.grader and modules.both_have(value):
            return ["plan", modules.plan_of(value, self.write), self._state(value)]
        return ["new", modules.tree_of(value, self._side.export), self._state(value)]

    def _state(self, value: nn.Module) -> modules.State:
        home = self._home
        known = home.parameters if home is not None and self._picture else None
        return modules.state_of(value, self.tensor, lambda one: known is None or id(one) in known)

    def named(self, value: Any) -> list[Any]:
        method = self._side.method_of(value)
        if method is not None:
            return ["bound", self.write(method[0]), method[1]]
        return self._side.name_of(value)


class Incoming(Reader):
    """A message that was received.

    Args:
        side: the side that received it.
        header, buffers: the message.
        request: the message that it answers.
        graph: whether gradients are wanted, so that tensors which ask for one are leaves here.
    """

    def __init__(
        self,
        side: Registry,
        header: dict[str, Any],
        buffers: list[bytearray],
        *,
        request: Outgoing | None = None,
        graph: bool = False,
    ) -> None:
        self._about = _list(header, "t")
        if len(self._about) > min(len(buffers), MOST_TENSORS):
            raise WireError("more tensors than bytes")
        super().__init__(buffers[len(self._about) :])
        self._side, self._request, self._graph = side, request, graph
        self._node = header.get("v")
        self.leaves: list[Tensor] = []
        self.tensors = [self._tensor(about, data) for about, data in zip(self._about, buffers, strict=False)]
        self._entries = _list(header, "m")
        if len(self._entries) > modules.MOST_MODULES:
            raise WireError("too many modules")
        mine = request.tensors if request is not None else []
        self._placed = {id(one) for one in mine if isinstance(one, nn.Parameter)}
        self.modules: list[nn.Module] = []
        for entry in self._entries:
            self.modules.append(self._module(entry))
        self.parameters = {id(one) for module in self.modules for one in module.parameters()}
        self._places = {id(one): place for place, one in enumerate(self.tensors)}
        self._module_places = {id(one): place for place, one in enumerate(self.modules)}

    def value(self) -> Any:
        """What the message holds."""
        return self.read(self._node)

    def results(self) -> list[int]:
        """The places of the tensors that the other side computed from what asks for a gradient."""
        return [place for place, about in enumerate(self._about) if about.get("r") == 2]

    def place(self, tensor: Tensor) -> int | None:
        """Where a tensor of this message stands in its table."""
        return self._places.get(id(tensor))

    def module_place(self, module: nn.Module) -> int | None:
        """Where a module of this message stands in its table."""
        return self._module_places.get(id(module))

    def inputs(self) -> list[Tensor]:
        """The tensors for which gradients are wanted, in the order of the table."""
        wanted = [place for place, about in enumerate(self._about) if about.get("r")]
        return [self.tensors[p] if self.tensors[p].is_leaf else self.leaves[p] for p in wanted]

    def _tensor(self, about: Any, data: bytearray) -> Tensor:
        if type(about) is dict and "arg" in about:
            mine = _at(self._request.tensors if self._request is not None else [], about["arg"])
            if "d" in about:
                modules.put(mine, tensors.build(about, data))
            self.leaves.append(mine)
            return mine
        tensor = tensors.build(about, data)
        asks = about.get("r")
        if asks and not (tensor.is_floating_point() or tensor.is_complex()):
            raise WireError("a gradient for whole numbers")
        if about.get("p"):
            tensor = nn.Parameter(tensor, requires_grad=bool(asks))
        elif asks == 1 or (asks and self._graph):
            tensor.requires_grad_()
        self.leaves.append(tensor)
        # The result of an operation may be changed in place; a leaf may not.
        return tensor.clone() if asks == 2 and self._graph else tensor

    def tensor_at(self, place: Any) -> Tensor:
        return _at(self.tensors, place)

    def module_at(self, place: Any) -> nn.Module:
        return _at(self.modules, place)

    def stands_for(self, node: list[Any]) -> Any:
        return self._side.named(node)

    def _module(self, entry: Any) -> nn.Module:
        if type(entry) is not list or len(entry) != 3:
            raise WireError("no module")
        kind, what, state = entry
        if kind == "arg" and self._request is not None:
            module: nn.Module = _at(self._request.modules, what)
        elif kind == "own":
            module = self._side.exported(what)
            if not isinstance(module, nn.Module):
                raise WireError("no module of this side")
        elif kind == "new":
            module = modules.from_tree(what, self._side.mirror)
        elif kind == "plan" and not self._side.grader:
            module = modules.from_plan(what, self.read)
        else:
            raise WireError("no module that may come here")
        if state is not None:
            modules.apply_state(module, state, self.tensors, self._placed)
            modules.settle(module)
        return module


def merge(mine: Any, theirs: Any) -> Any:
    """Make a container that was handed over what it has become on the other side; tensors are so already."""
    if type(mine) is not type(theirs):
        return theirs
    if type(mine) is list:
        before = list(mine)
        mine[:] = [merge(a, b) for a, b in zip(before, theirs, strict=False)] + theirs[len(before) :]
        return mine
    if type(mine) is dict:
        merged = {key: merge(mine[key], value) if key in mine else value for key, value in theirs.items()}
        mine.clear()
        mine.update(merged)
        return mine
    if type(mine) is tuple:
        return tuple(merge(a, b) for a, b in zip(mine, theirs, strict=False))
    if isinstance(mine, torch.Generator):
        mine.set_state(theirs.get_state())
        return mine
    return theirs


def _list(header: dict[str, Any], name: str) -> list[Any]:
    found = header.get(name)
    if type(found) is not list or any(type(entry) not in (dict, list) for entry in found):
        raise WireError("a message without its tables")
    return found


def _at(table: list[T], place: Any) -> T:
    if type(place) is not int or not 0 <= place < len(table):
        raise WireError("a place outside of the table")
    return table[place]
