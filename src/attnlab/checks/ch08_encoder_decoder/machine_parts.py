"""A tiny encoder and decoder, as two functions of tensors, for the program that is to be repaired."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...attention import scaled_dot_product_attention
from .references import Decode, Encode

VOCABULARY = 31
_WIDTH = 8
_BOS, _EOS = 1, 2


class Parts(NamedTuple):
    """What the program is called with."""

    encode: Encode
    decode: Decode
    source: Tensor
    rows: Tensor
    pad: int

    def with_other_padding(self) -> Parts:
        """The same, but the memory holds something else where the source is padding."""

        def encode(source: Tensor, mask: Tensor | None = None) -> Tensor:
            memory = self.encode(source, mask)
            return torch.where((source != self.pad)[..., None], memory, memory.flip(-1) + 3.0)

        return self._replace(encode=encode)

    def saying(self, logits: Tensor) -> Parts:
        """The same, but the decoder says ``logits`` (B, T, V), whatever it may attend to.

        It may be called with some of the batch's rows, and with the first tokens of each.
        """

        def decode(inputs: Tensor, *_: Tensor | None, **__: Tensor | None) -> Tensor:
            length = inputs.shape[1]
            said = torch.zeros(len(inputs), length, logits.shape[-1])
            for place, tokens in enumerate(inputs):
                same = (self.rows[:, :length] == tokens).all(dim=1).nonzero()
                if len(same):
                    said[place] = logits[int(same[0]), :length]
            return said

        return self._replace(decode=decode)


def make_parts(g: torch.Generator, *, S: int, T: int, pad: int = 30) -> Parts:
    """An encoder, a decoder and a batch of three, drawn from the generator; one source is all padding."""
    table = torch.randn(VOCABULARY, _WIDTH, generator=g)
    maps = torch.randn(9, _WIDTH, _WIDTH, generator=g) / _WIDTH**0.5

    def attend(x: Tensor, asked: Tensor, mask: Tensor | None, first: int) -> Tensor:
        query, key, value = x @ maps[first], asked @ maps[first + 1], asked @ maps[first + 2]
        return x + scaled_dot_product_attention(query, key, value, mask).output

    def encode(source: Tensor, mask: Tensor | None = None) -> Tensor:
        x = table[source]  # (B, S, D)
        return attend(x, x, mask, 0)

    def decode(
        inputs: Tensor, memory: Tensor, mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        x = table[inputs]  # (B, T, D)
        x = attend(x, x, mask, 3)
        x = attend(x, memory, memory_mask, 6)
        logits: Tensor = x @ table.T / _WIDTH**0.5  # (B, T, V)
        return logits

    source = torch.randint(3, 30, (3, S), generator=g)
    for row, length in zip(source, (S - 2, S, 0), strict=True):
        row[length:] = pad
    rows = torch.stack([3 + torch.randperm(27, generator=g)[:T] for _ in range(3)])  # (B, T)
    rows = F.pad(rows, (1, 0), value=_BOS)  # (B, T + 1)
    for row, end in zip(rows, (T, T - 2, 2), strict=True):
        row[end], row[end + 1 :] = _EOS, pad
    return Parts(encode, decode, source, rows, pad)
