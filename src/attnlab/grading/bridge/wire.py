"""Frames on a pipe: a JSON header and raw bytes, each with its length before it, both limited."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Sequence
from typing import Any

MOST_HEADER = 2 << 20
MOST_BUFFERS = 4096
_PREFIX = struct.Struct("<IQ")
_CHUNK = 1 << 20

Buffer = bytes | bytearray | memoryview
Wait = Callable[[int, bool], None]


class WireError(Exception):
    """The other side does not keep to the protocol, or has gone."""


class Closed(WireError):
    """The other side has closed its end."""


class TooLarge(WireError):
    """A message is larger than the limit; nothing of it was sent."""


class Channel:
    """Sends and receives frames.

    Args:
        reading, writing: file descriptors.
        most: bytes of one message, its header apart.
        wait: called with a descriptor, and whether it is to be written to, before each read and write; it may
            raise to give up. None blocks.
    """

    def __init__(self, reading: int, writing: int, *, most: int, wait: Wait | None = None) -> None:
        self._reading, self._writing, self._most, self._wait = reading, writing, most, wait

    def send(self, header: dict[str, Any], buffers: Sequence[Buffer] = ()) -> None:
        """Send one message. Raises ``TooLarge`` before a byte is written."""
        sizes = [len(buffer) for buffer in buffers]
        text = json.dumps({**header, "b": sizes}, allow_nan=False, separators=(",", ":")).encode("ascii")
        if len(text) > MOST_HEADER or sum(sizes) > self._most or len(sizes) > MOST_BUFFERS:
            raise TooLarge(f"a message of {(len(text) + sum(sizes)) / (1 << 20):.1f} MiB")
        for part in (_PREFIX.pack(len(text), sum(sizes)), text, *buffers):
            self._write(memoryview(part))

    def receive(self) -> tuple[dict[str, Any], list[bytearray]]:
        """The next message. Raises ``Closed`` at the end, ``WireError`` for anything that is no message."""
        length, body = _PREFIX.unpack(self._read(_PREFIX.size))
        if length > MOST_HEADER or body > self._most:
            raise WireError("a message above the limit")
        text = self._read(length)
        try:
            header = json.loads(text, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise WireError("a header that is no JSON") from error
        if type(header) is not dict:
            raise WireError("a header that is no object")
        sizes = header.get("b")
        if type(sizes) is not list or any(type(size) is not int or size < 0 for size in sizes):
            raise WireError("a header without sizes")
        if sum(sizes) != body or len(sizes) > MOST_BUFFERS:
            raise WireError("sizes that do not fit the message")
        return header, [self._read(size) for size in sizes]

    def _write(self, data: memoryview) -> None:
        while data:
            if self._wait is not None:
                self._wait(self._writing, True)
            try:
                data = data[os.write(self._writing, data[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise Closed("the other side has gone") from error

    def _read(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            if self._wait is not None:
                self._wait(self._reading, False)
            try:
                chunk = os.read(self._reading, min(size - len(data), _CHUNK))
            except BlockingIOError:
                continue
            except OSError as error:
                raise Closed("the other side has gone") from error
            if not chunk:
                raise Closed("the other side has gone")
            data += chunk
        return data


def _no_constant(name: str) -> None:
    raise ValueError(name)
