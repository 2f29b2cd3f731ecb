"""New memory that holds nothing useful, for tests of what has to be filled anew."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def filled_with_nan() -> Iterator[None]:
    """Fill what is made and not set with NaN: by chance, it may hold what was there before."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # with it, PyTorch fills uninitialised memory
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
