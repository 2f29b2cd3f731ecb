"""Memory as the benchmarks print it; ``attnlab.memory`` measures it."""

from attnlab.memory import MIB, Memory, counted_peak, measure

__all__ = ["MIB", "Memory", "counted_peak", "in_mib", "measure"]


def in_mib(size: int | None) -> str:
    """Bytes as MiB with one decimal; a dash where they are not known."""
    return "-" if size is None else f"{size / MIB:.1f}"
