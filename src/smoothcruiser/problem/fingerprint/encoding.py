"""Plain values as bytes: typed, length-prefixed, the same in every process.

Every encoding begins with a tag of its type, so that 1, 1.0, True and "1" differ,
and so do 0.0 and -0.0, and NaNs of different bits. A container is the digest of
its parts, each behind its length, so that no two containers collide by
concatenation. Nothing here depends on hashes, addresses or the order of a set.
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGEST_BYTES = 16


def joined(tag: bytes, parts: Iterable[bytes]) -> bytes:
    """The encoding of a container with these parts: its tag and their digest."""
    digest = hashlib.blake2b(tag, digest_size=DIGEST_BYTES)
    for part in parts:
        digest.update(struct.pack("<q", len(part)))
        digest.update(part)
    return b"(" + tag + digest.digest()  # no other encoding begins so


def hexadecimal(encoded: bytes) -> str:
    """The digest of an encoding, as 32 hex digits."""
    return hashlib.blake2b(encoded, digest_size=DIGEST_BYTES).hexdigest()


def text(value: str) -> bytes:
    """A string."""
    return b"s" + value.encode("utf-8", "surrogatepass")


def _integer(value: int) -> bytes:
    size = value.bit_length() // 8 + 1
    return b"i" + value.to_bytes(size, "little", signed=True)


ATOMS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"N",
    type(Ellipsis): lambda value: b"E",
    type(NotImplemented): lambda value: b"n",
    bool: lambda value: b"T" if value else b"F",
    int: _integer,
    float: lambda value: b"f" + struct.pack("<d", value),
    complex: lambda value: b"c" + struct.pack("<dd", value.real, value.imag),
    str: text,
    bytes: lambda value: b"b" + value,
    bytearray: lambda value: b"B" + bytes(value),
    range: lambda value: joined(
        b"range", map(_integer, (value.start, value.stop, value.step))
    ),
}


def flat(values: Sequence[Any]) -> bytes | None:
    """A long run of numbers or of strings of one type; None for anything else.

    Lists of millions are read at the speed of memory, not of a loop.
    """
    types = set(map(type, values))
    if types == {float}:
        return b"f*" + array("d", values).tobytes()
    if types == {int}:
        try:
            return b"i*" + array("q", values).tobytes()
        except OverflowError:
            return None
    if types == {str}:
        encoded = [value.encode("utf-8", "surrogatepass") for value in values]
        lengths = array("q", map(len, encoded))
        return b"s*" + lengths.tobytes() + b"".join(encoded)
    return None


def numbers(values: NDArray[Any]) -> bytes:
    """An array of anything but objects: its type, shape and contents."""
    kind = values.dtype
    if kind.names is not None:  # by field: the bytes between fields mean nothing
        fields = (
            part for name in kind.names for part in (text(name), numbers(values[name]))
        )
        return joined(b"record", [text(str(values.shape)), *fields])
    contents = np.ascontiguousarray(values)
    raw: Any = contents.reshape(-1).view(np.uint8) if contents.size else b""
    head = f"{kind.str} {values.shape}"
    digest = hashlib.blake2b(raw, digest_size=DIGEST_BYTES).digest()
    return joined(b"array", [text(head), digest])
