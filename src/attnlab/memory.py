"""How much memory a call takes at its peak, seen in two ways.

``LiveBytes`` counts what PyTorch's operators make and let go, exactly and on any machine. What one operator
takes and frees inside itself it cannot see. ``resident_growth`` asks the operating system how far the process
grew: that includes all of it, rounded up to pages, with whatever the allocator keeps for later.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["MIB", "LiveBytes", "Memory", "counted_peak", "measure", "resident_growth"]

MIB = 2**20


class Memory(NamedTuple):
    """Peak memory of one call, in bytes.

    Attributes:
        counted: the most that operators held at once beyond what was there before.
        resident: how far the process grew; None where the system does not tell.
    """

    counted: int
    resident: int | None


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of every storage that operators make inside the block, for as long as it lives.

    A storage counts once, however many views of it there are. What an operator is given from outside the
    block and hands back (a view, a result in place) is not new and does not count. Data that Python hands in
    (``torch.tensor([1.0])``) is made by no operator and does not count either.

    Attributes:
        live: bytes held now.
        peak: the most bytes held at once since the block began.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = self.peak = 0
        self._sizes: dict[int, int] = {}  # the storage's identity: its bytes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = {id(storage) for storage in _storages((args, kwargs))}
        result = func(*args, **kwargs)
        for storage in _storages(result):
            if id(storage) in self._sizes:
                self._change(id(storage), storage.nbytes())  # an operator with ``out=`` may have resized it
            elif id(storage) not in given:
                self._sizes[id(storage)] = 0
                self._change(id(storage), storage.nbytes())
                # PyTorch keeps one Python object for a storage until the storage itself is freed, so this
                # waits for whatever autograd has saved, too.
                weakref.finalize(storage, self._release, id(storage))
        return result

    def _change(self, identity: int, size: int) -> None:
        self.live += size - self._sizes[identity]
        self._sizes[identity] = size
        self.peak = max(self.peak, self.live)

    def _release(self, identity: int) -> None:
        self.live -= self._sizes.pop(identity)


def _storages(tree: Any) -> list[torch.UntypedStorage]:
    return [leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def counted_peak(call: Callable[[], object]) -> int:
    """The most bytes that the operators of this call held at once beyond what was there before."""
    counter = LiveBytes()
    with counter:
        kept = call()
    del kept  # until here: a result counts as held
    return counter.peak


def resident_growth(call: Callable[[], object]) -> int | None:
    """How far the resident size of the process rose during the call, in bytes; None where it is not told.

    Memory that an earlier call of the same process gave back to the allocator, not to the system, hides part
    of the growth: measure each call in a process of its own.
    """
    gc.collect()
    _forget_resident_peak()
    before = _resident_peak()
    kept = call()
    after = _resident_peak()
    del kept
    return None if before is None or after is None else after - before


def measure(call: Callable[[], object]) -> Memory:
    """Both figures of one call. It runs twice, uncounted first."""
    resident = resident_growth(call)
    return Memory(counted_peak(call), resident)


def _forget_resident_peak() -> None:
    """Let the peak start again from what is resident now, where Linux allows it."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as control:
            control.write("5")
    except OSError:
        pass  # the peak since the process began is kept: a small growth is then hidden by that of the start


def _resident_peak() -> int | None:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
