"""Ratios of time and memory: attention with its weights, without them, PyTorch's module, and an LSTM.

Everything is measured side by side in one run on one thread, forward only. Times are process time, the best
of several rounds in which the variants take turns, so that a busy machine disturbs all alike. Memory is the
most that PyTorch's operators held at once beyond inputs and parameters. What one operator uses and frees
inside itself is not seen; an LSTM is one operator, so its memory is left out.

    python -m benchmarks.attention
"""

import gc
import platform
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnlab.attention import scaled_dot_product_attention

D_MODEL, NUM_HEADS = 256, 4
LENGTHS = (128, 256, 512, 1024, 2048)
ROUNDS = 5
MIB = 2**20


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of every storage that operators make, for as long as it lives; keeps the peak."""

    def __init__(self, known: list[Tensor]) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._seen = {tensor.untyped_storage().data_ptr() for tensor in known}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        address, size = storage.data_ptr(), storage.nbytes()
        if not address or address in self._seen:
            return
        self._seen.add(address)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._release, address, size)

    def _release(self, address: int, size: int) -> None:
        self._seen.discard(address)
        self.live -= size


def variants(length: int) -> tuple[dict[str, Callable[[], object]], list[Tensor]]:
    """The calls to compare at one length, and the tensors that are there before."""
    generator = torch.Generator().manual_seed(length)
    x = torch.randn(1, length, D_MODEL, generator=generator)  # (B, T, d_model)
    w_in = torch.randn(3 * D_MODEL, D_MODEL, generator=generator) * D_MODEL**-0.5
    w_out = torch.randn(D_MODEL, D_MODEL, generator=generator) * D_MODEL**-0.5
    module = nn.MultiheadAttention(D_MODEL, NUM_HEADS, bias=False, batch_first=True).eval()
    lstm = nn.LSTM(D_MODEL, D_MODEL, batch_first=True).eval()

    def attention(need_weights: bool) -> Tensor:
        """The same work as the module: projections, heads, attention, output projection."""
        heads = (x @ w_in.T).view(1, length, 3, NUM_HEADS, -1).permute(2, 0, 3, 1, 4)  # (3, B, H, T, D)
        output = scaled_dot_product_attention(*heads, need_weights=need_weights).output
        return output.transpose(1, 2).reshape(1, length, D_MODEL) @ w_out.T

    calls: dict[str, Callable[[], object]] = {
        "with weights": lambda: attention(True),
        "without weights": lambda: attention(False),
        "nn.MultiheadAttention, with weights": lambda: module(x, x, x, average_attn_weights=False),
        "nn.MultiheadAttention, without": lambda: module(x, x, x, need_weights=False),
        "LSTM": lambda: lstm(x),
    }
    return calls, [x, w_in, w_out, *module.parameters(), *lstm.parameters()]


def seconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Least process time of each call; the calls take turns."""
    best = dict.fromkeys(calls, float("inf"))
    for round_number in range(ROUNDS + 1):
        for name, call in calls.items():
            start = time.process_time()
            call()
            if round_number > 0:  # the first round warms up
                best[name] = min(best[name], time.process_time() - start)
    return best


def peak_bytes(call: Callable[[], object], known: list[Tensor]) -> int:
    gc.collect()
    with LiveBytes(known) as counter:
        call()
    return counter.peak


def main() -> None:
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {platform.machine()}, one thread, float32, forward only")
    print(f"d_model {D_MODEL}, {NUM_HEADS} heads, one sequence of T tokens")
    print(
        "Ratios to attention without weights (the fused kernel): above 1 is slower, or takes more memory.\n"
    )
    print(f"{'T':>5}  {'variant':<36}{'time':>7}{'memory':>8}{'MiB':>9}")
    for length in LENGTHS:
        calls, known = variants(length)
        with torch.inference_mode():
            times = seconds(calls)
            peaks = {name: peak_bytes(call, known) for name, call in calls.items() if name != "LSTM"}
        for name in calls:
            slower = times[name] / times["without weights"]
            line = f"{length:>5}  {name:<36}{slower:>7.2f}"
            if name in peaks:
                line += f"{peaks[name] / peaks['without weights']:>8.2f}{peaks[name] / MIB:>9.2f}"
            print(line)
        print()


if __name__ == "__main__":
    main()
