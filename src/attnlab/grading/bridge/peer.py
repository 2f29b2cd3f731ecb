"""One side of the bridge: calls functions of the other side, and answers its calls meanwhile.

At any time one side runs and the other waits for it, so that a call within a call needs no thread. Gradients
cross in the same way: ``backward`` asks the side that has the graph for the product with the Jacobian.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from . import faults, grafts, values
from .identities import Identities
from .message import Incoming, Outgoing, merge
from .wire import Buffer, Channel, TooLarge, WireError

Header = dict[str, Any]
Sent = tuple[Header, list[Buffer]]
_HOWS = ("call", "method", "attribute", "copy")
_MOST_GRAPHS = 4000
_MOST_KEPT = 512 << 20
_MOST_BORROWED = 500


class Peer(Identities):
    """This side.

    Args:
        channel: to the other side.
        grader: whether this is the grader's side.
    """

    def __init__(self, channel: Channel, *, grader: bool) -> None:
        super().__init__(grader=grader)
        self.channel = channel
        self._graphs: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self._kept = 0  # bytes
        self._borrowed: list[list[tuple[tuple[int, int], Tensor]]] = []
        self._asked = 0
        self._dropped: list[int] = []

    # --- what a side may do in its own way ---

    def shielded(self, function: Callable[[], Any]) -> Any:
        """Run something that the other side asked for; the worker puts its limits around it."""
        return function()

    def may_be_called(self, target: Any, how: str, name: str) -> bool:
        """Whether the other side may do this; the grader's side allows little."""
        return True

    def told(self, header: Header) -> None:
        """Take note of what the other side tells while it works."""

    def handle(self, header: Header) -> Any:
        """Answer a request that is neither a call nor about gradients."""
        raise WireError("a request that nobody answers")

    # --- calls of the other side ---

    def call(
        self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], how: str = "call", name: str = ""
    ) -> Any:
        """Call something of the other side, or ask for an attribute of it, as if it were here."""
        out = Outgoing(self)
        header, buffers = out.message((target, args, kwargs))
        header |= {"op": "call", "how": how, "name": name, **_settings()}
        reply, received = self.ask(header, [*buffers, *values.random_states()])
        values.set_random_states(received[-3:])
        back, count = reply.get("back"), reply.get("n")
        if type(count) is not int or not 0 <= count <= len(received) - 3:
            raise WireError("a reply without its parts")
        incoming = Incoming(self, reply, received[:count], request=out)
        inputs = [one for one in out.tensors if one.requires_grad] + self._own_results(reply.get("from", []))
        grown = self._graft(incoming, reply, inputs)
        if self._borrowed and not out.modules:  # a module's weights are among the inputs already
            pairs = [(reply["graph"], place) for place in range(len(grown))]
            self._borrowed[-1] += zip(pairs, grown, strict=True)
            del self._borrowed[-1][:-_MOST_BORROWED]
        value = incoming.value()
        if type(back) is dict:
            merge((args, kwargs), Incoming(self, back, received[count:-3], request=out).value()[1:])
        return value

    def ask(self, header: Header, buffers: list[Any] | None = None) -> tuple[Header, list[bytearray]]:
        """The reply to a request, the other side's calls being answered meanwhile. Raises what it raises."""
        reply, received = self.exchange(header, buffers)
        if reply.get("op") == "error":
            raise faults.read(reply.get("error"))
        return reply, received

    def request(self, header: Header) -> Any:
        """The value of the reply to a request that is neither a call nor about gradients."""
        reply, received = self.ask({**header, "v": None, "t": [], "m": []})
        return Incoming(self, reply, received).value()

    def exchange(self, header: Header, buffers: list[Any] | None = None) -> tuple[Header, list[bytearray]]:
        """The reply to a request, also where it is an error."""
        self._asked += 1
        number, dropped, self._dropped = self._asked, self._dropped, []
        self.channel.send({**header, "id": number, "drop": dropped}, buffers or [])
        while True:
            reply, received = self.channel.receive()
            kind = reply.get("op")
            if kind in ("reply", "error") and reply.get("id") == number:
                return reply, received
            if kind == "tell":
                self.told(reply)
            elif kind in ("call", "vjp"):
                self.answer(reply, received)
            else:
                raise WireError("a message that was not waited for")

    def tell(self, header: Header) -> None:
        """Tell the other side something while working for it."""
        self.channel.send({**header, "op": "tell"})

    def pull(self, graph: int, gradients: list[Tensor | None], inputs: list[Tensor]) -> list[Tensor | None]:
        """The other side's product of these gradients with the Jacobian of a call."""
        out, again = Outgoing(self), torch.is_grad_enabled()
        header, buffers = out.message(gradients)
        reply, received = self.ask({**header, "op": "vjp", "graph": graph, "again": again}, buffers)
        incoming = Incoming(self, reply, received, request=out)
        self._graft(incoming, reply, [*(one for one in out.tensors if one.requires_grad), *inputs])
        found = incoming.value()
        fits = type(found) is list and len(found) == len(inputs)
        if not fits or any(one is not None and type(one) is not Tensor for one in found):
            raise WireError("no gradients")
        return found  # type: ignore[no-any-return]

    def drop(self, graph: int) -> None:
        """Note that a graph of the other side is not needed any more; it is told with the next request."""
        self._dropped.append(graph)

    def _graft(self, incoming: Incoming, reply: Header, inputs: list[Tensor]) -> list[Tensor]:
        places = incoming.results()
        if not places or not torch.is_grad_enabled():
            return []
        if type(reply.get("graph")) is not int:
            raise WireError("results without a graph")
        results = [incoming.tensors[place] for place in places]
        grown = list(grafts.graft(self, reply["graph"], results, inputs))
        for place, tensor in zip(places, grown, strict=True):
            incoming.tensors[place] = tensor
        return grown

    def _own_results(self, names: Any) -> list[Tensor]:
        """Results of this side, which the other side borrowed for what it computed."""
        if type(names) is not list or len(names) > _MOST_BORROWED:
            raise WireError("no list of results")
        found = []
        for name in names:
            if type(name) is not list or len(name) != 2 or any(type(part) is not int for part in name):
                raise WireError("no name of a result")
            outputs = self._graphs.get(name[0], ([], []))[0]
            # One that was let go of gets no gradient.
            found.append(outputs[name[1]] if 0 <= name[1] < len(outputs) else torch.empty(0))
        return found

    # --- calls of this side ---

    def answer(self, message: Header, buffers: list[bytearray]) -> None:
        """Answer one request of the other side."""
        number, dropped = message.get("id"), message.get("drop")
        if type(dropped) is not list or any(type(graph) is not int for graph in dropped):
            raise WireError("a request without its parts")
        for graph in dropped:
            self._let_go(graph)
        try:
            reply, sent = self._answered(message, buffers)
            self.channel.send({**reply, "op": "reply", "id": number}, sent)
        except TooLarge as error:
            self._refuse(number, ValueError(f"what is returned is too large: {error}"))
        except Exception as error:
            if self.grader and isinstance(error, WireError):
                raise
            self._refuse(number, error)
        except BaseException as error:
            if self.grader:
                raise
            self._refuse(number, error)

    def forget(self) -> None:
        super().forget()
        self._graphs, self._kept = {}, 0

    def _refuse(self, number: Any, error: BaseException) -> None:
        self.channel.send({"op": "error", "id": number, "error": faults.written(error)})

    def _answered(self, message: Header, buffers: list[bytearray]) -> Sent:
        if message.get("op") == "call":
            return self._answer_call(message, buffers)
        if message.get("op") == "vjp":
            return self._answer_vjp(message, buffers)
        return Outgoing(self).message(self.handle(message))

    def _answer_call(self, message: Header, buffers: list[bytearray]) -> Sent:
        home = Incoming(self, message, buffers[:-3], graph=message.get("grad") is True)
        target, args, kwargs = home.value()
        how, name = message.get("how"), message.get("name")
        if how not in _HOWS or type(name) is not str or not self.may_be_called(target, how, name):
            raise WireError("a call of something that was not handed over")
        before = Outgoing(self, home, picture=True).message((target, args, kwargs))
        values.set_random_states(buffers[-3:])
        self._borrowed.append([])
        try:
            with _settings_of(message):
                result = self.shielded(lambda: _run(target, args, kwargs, how, name))
        finally:
            borrowed = self._borrowed.pop()
        out = Outgoing(self, home)
        reply, sent = out.message(result)
        reply["n"] = len(sent)
        results = [one for one in out.tensors if not one.is_leaf and home.place(one) is None]
        results = [one for one in results if one.requires_grad]
        if results:
            # What calls within this call gave depends on weights that only the other side has.
            reply["from"] = [list(pair) for pair, _ in borrowed]
            reply["graph"] = self._keep(results, [*home.inputs(), *(tensor for _, tensor in borrowed)])
        after = Outgoing(self, home, picture=True).message((target, args, kwargs))
        if after != before:
            reply["back"] = after[0]
            sent = [*sent, *after[1]]
        return reply, [*sent, *values.random_states()]

    def _answer_vjp(self, message: Header, buffers: list[bytearray]) -> Sent:
        if message.get("graph") not in self._graphs:
            raise WireError("a graph that is not kept")
        outputs, inputs = self._graphs[message["graph"]]
        again = message.get("again") is True
        home = Incoming(self, message, buffers, graph=again)
        gradients = home.value()
        if type(gradients) is not list or len(gradients) != len(outputs):
            raise WireError("gradients that do not fit")
        found = self.shielded(lambda: grafts.product(outputs, inputs, gradients, again=again))
        out = Outgoing(self, home)
        reply, sent = out.message(found)
        results = [one for one in out.tensors if not one.is_leaf and home.place(one) is None]
        results = [one for one in results if one.requires_grad]
        if results:
            reply["graph"] = self._keep(results, [*home.inputs(), *inputs])
        return reply, sent

    def _keep(self, results: list[Tensor], inputs: list[Tensor]) -> int:
        number = self.number()
        self._graphs[number] = (results, inputs)
        self._kept += _size(results, inputs)
        while len(self._graphs) > _MOST_GRAPHS or (self._kept > _MOST_KEPT and len(self._graphs) > 1):
            self._let_go(next(iter(self._graphs)))
        return number

    def _let_go(self, number: int) -> None:
        if number in self._graphs:
            self._kept -= _size(*self._graphs.pop(number))


def _run(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], how: str, name: str) -> Any:
    if how == "copy":
        return copy.deepcopy(target)
    if how == "attribute":
        return getattr(target, name)
    return getattr(target, name)(*args, **kwargs) if how == "method" else target(*args, **kwargs)


def _size(results: list[Tensor], inputs: list[Tensor]) -> int:
    return sum(one.numel() * one.element_size() for one in (*results, *inputs))


def _settings() -> Header:
    return {"grad": torch.is_grad_enabled(), "dtype": str(torch.get_default_dtype()).removeprefix("torch.")}


@contextlib.contextmanager
def _settings_of(message: Header) -> Iterator[None]:
    """The caller's default type of numbers, and whether it wants gradients."""
    dtype = torch.get_default_dtype()
    wanted = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16}
    try:
        torch.set_default_dtype(wanted.get(str(message.get("dtype")), torch.float32))
        with torch.set_grad_enabled(message.get("grad") is True):
            yield
    finally:
        torch.set_default_dtype(dtype)
