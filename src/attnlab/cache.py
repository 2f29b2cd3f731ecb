"""Keys and values of the positions that a model has read, held so that the next token need not repeat them.

With causal attention the keys and values of earlier positions never change. A model that writes token by
token may therefore hold them, and compute those of the newest position alone.

Axes: B batch, H_kv heads of keys and values, T new positions, S positions held, D width of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["KeyValueCache", "LayerCache"]

_SMALLEST = 16  # positions for which a new buffer has room at least


class LayerCache:
    """The keys and values of one layer; a :class:`~attnlab.multihead.KeyValueStore`.

    Type, device, batch and widths are those of the first keys and values that it is given.
    """

    def __init__(self) -> None:
        # Two tensors (B, H_kv, capacity, D), of which the first positions are in use. Where no gradient is
        # wanted the next ones are written behind them; copying all that is held at every token would take
        # longer than the attention to it.
        self._buffers: tuple[Tensor, Tensor] | None = None
        self._length = 0

    @property
    def length(self) -> int:
        """Number of positions held, S."""
        return self._length

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Hold the keys and values of the next positions, and return all that are held.

        What is returned does not change when more is added, but it is what is held here, not a copy: read it,
        and do not write into it. With gradients enabled everything is copied at each call, and gradients flow
        through it to every piece.

        Args:
            key: ``(B, H_kv, T, D)``; T may be 0.
            value: ``(B, H_kv, T, D_v)``.

        Returns:
            Keys ``(B, H_kv, S, D)`` and values ``(B, H_kv, S, D_v)``, oldest first.

        Raises:
            TypeError: If a type is not that of what is held.
            ValueError: If a shape does not fit the other tensor or what is held.
        """
        self._check(key, value)
        held_key, held_value = (None, None) if self._buffers is None else self._buffers
        self._buffers = _grown(held_key, self._length, key), _grown(held_value, self._length, value)
        self._length += key.shape[-2]
        return self._held()

    def select(self, rows: Tensor) -> None:
        """Hold these rows of the batch instead, in this order, as when beams go on or end.

        Args:
            rows: Integers ``(B',)`` from 0 to ``B - 1``; a row may be taken more than once.

        Raises:
            TypeError: If they are not integers.
            ValueError: If they are not one row of numbers from 0 to ``B - 1``.
        """
        if rows.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"rows: expected integers of 32 or 64 bits, got {rows.dtype}")
        if rows.ndim != 1:
            raise ValueError(f"rows: expected one for each sequence, shape (B,), got {tuple(rows.shape)}")
        if self._buffers is None:
            return
        key, value = self._held()
        if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < key.shape[0]:
            raise ValueError(f"rows: expected numbers from 0 to {key.shape[0] - 1}, got {rows.tolist()}")
        self._buffers = key.index_select(0, rows), value.index_select(0, rows)

    def clear(self) -> None:
        """Forget everything."""
        self._buffers, self._length = None, 0

    def _held(self) -> tuple[Tensor, Tensor]:
        """What is in use of the two buffers, as views."""
        assert self._buffers is not None
        key, value = self._buffers
        return key[..., : self._length, :], value[..., : self._length, :]

    def _check(self, key: Tensor, value: Tensor) -> None:
        for name, tensor in (("key", key), ("value", value)):
            if tensor.ndim != 4:
                raise ValueError(f"{name}: expected four axes (B, H_kv, T, D), got {tuple(tensor.shape)}")
        if value.shape[:-1] != key.shape[:-1]:
            raise ValueError(
                f"value: expected (B, H_kv, T) = {tuple(key.shape[:-1])} as in key, got {tuple(value.shape)}"
            )
        if self._buffers is None:
            return
        for name, tensor, held in zip(("key", "value"), (key, value), self._buffers, strict=True):
            if tensor.dtype != held.dtype or tensor.device != held.device:
                raise TypeError(
                    f"{name}: expected {held.dtype} on {held.device} as held, got {tensor.dtype} on "
                    f"{tensor.device}. A new text begins with clear()"
                )
            if (*tensor.shape[:2], tensor.shape[3]) != (*held.shape[:2], held.shape[3]):
                raise ValueError(
                    f"{name}: expected (B, H_kv, T, D) = ({held.shape[0]}, {held.shape[1]}, T, "
                    f"{held.shape[3]}) as held, got {tuple(tensor.shape)}. A new text begins with clear()"
                )


def _grown(buffer: Tensor | None, length: int, new: Tensor) -> Tensor:
    """A buffer that holds the first ``length`` positions of the present one, and ``new`` behind them."""
    end = length + new.shape[-2]
    if torch.is_grad_enabled():
        # What a backward pass may still read must not be written into. Such a buffer has no room to spare.
        return new.clone() if buffer is None else torch.cat((buffer[..., :length, :], new), dim=-2)
    if buffer is not None and end == length:
        return buffer
    if buffer is None or buffer.shape[-2] < end or not _writable(buffer):
        larger = new.new_empty(*new.shape[:2], max(_SMALLEST, 2 * end), new.shape[-1])
        if buffer is not None:
            larger[..., :length, :] = buffer[..., :length, :]
        buffer = larger
    buffer[..., length:end, :] = new
    return buffer


def _writable(buffer: Tensor) -> bool:
    """Whether it is no tensor of an inference mode that is over."""
    return torch.is_inference_mode_enabled() or not buffer.is_inference()


class KeyValueCache:
    """One :class:`LayerCache` for each layer of a model: ``cache[0]`` is that of the first layer.

    Args:
        num_layers: Number of layers.

    Raises:
        ValueError: If there is not at least one layer.
    """

    def __init__(self, num_layers: int) -> None:
        if num_layers < 1:
            raise ValueError(f"num_layers: expected at least 1, got {num_layers}")
        self._layers = tuple(LayerCache() for _ in range(num_layers))

    def __len__(self) -> int:
        """Number of layers."""
        return len(self._layers)

    def __getitem__(self, layer: int) -> LayerCache:
        """The store of one layer, counted from 0."""
        return self._layers[layer]

    @property
    def length(self) -> int:
        """Number of positions that every layer holds: between two passes, that all of them hold."""
        return min(layer.length for layer in self._layers)

    def select(self, rows: Tensor) -> None:
        """Hold these rows of the batch instead in every layer; as :meth:`LayerCache.select`."""
        for layer in self._layers:
            layer.select(rows)

    def clear(self) -> None:
        """Forget everything, so that another text may begin."""
        for layer in self._layers:
            layer.clear()
