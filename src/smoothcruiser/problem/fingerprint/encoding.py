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


def join_parts(tag: bytes, parts: Iterable[bytes]) -> bytes:
    """The encoding of a container with these parts: its tag and their digest."""
    digest = hashlib.blake2b(tag, digest_size=DIGEST_BYTES)
    for encoded_part in parts:
        digest.update(struct.pack("<q", len(encoded_part)))
        digest.update(encoded_part)
    return b"(" + tag + digest.digest()  # no other encoding begins so


def hexadecimal(encoded: bytes) -> str:
    """The digest of an encoding, as 32 hex digits."""
    return hashlib.blake2b(encoded, digest_size=DIGEST_BYTES).hexdigest()


def encode_text(value: str) -> bytes:
    """A string."""
    return b"s" + value.encode("utf-8", "surrogatepass")


def _encode_integer(value: int) -> bytes:
    num_bytes = value.bit_length() // 8 + 1
    return b"i" + value.to_bytes(num_bytes, "little", signed=True)


ATOMS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"N",
    type(Ellipsis): lambda value: b"E",
    type(NotImplemented): lambda value: b"n",
    bool: lambda value: b"T" if value else b"F",
    int: _encode_integer,
    float: lambda value: b"f" + struct.pack("<d", value),
    complex: lambda value: b"c" + struct.pack("<dd", value.real, value.imag),
    str: encode_text,
    bytes: lambda value: b"b" + value,
    bytearray: lambda value: b"B" + bytes(value),
    range: lambda value: join_parts(
        b"range", map(_encode_integer, (value.start, value.stop, value.step))
    ),
}


def encode_run(values: Sequence[Any]) -> bytes | None:
    """A long run of numbers or of strings of one type; None for anything else.

    Lists of millions are read at the speed of memory, not of a loop.
    """
    value_types = set(map(type, values))
    if value_types == {float}:
        return b"f*" + array("d", values).tobytes()
    if value_types == {int}:
        try:
            return b"i*" + array("q", values).tobytes()
        except OverflowError:
            return None
    if value_types == {str}:
        encoded_values = [value.encode("utf-8", "surrogatepass") for value in values]
        lengths = array("q", map(len, encoded_values))
        return b"s*" + lengths.tobytes() + b"".join(encoded_values)
    return None


def encode_array(values: NDArray[Any]) -> bytes:
    """An array of anything but objects: its type, shape and contents."""
    array_type = values.dtype
    if array_type.names is not None:  # by field: the bytes between fields mean nothing
        field_parts = (
            encoded_part
            for field_name in array_type.names
            for encoded_part in (
                encode_text(field_name),
                encode_array(values[field_name]),
            )
        )
        return join_parts(b"record", [encode_text(str(values.shape)), *field_parts])
    contents = np.ascontiguousarray(values)
    raw_bytes: Any = contents.reshape(-1).view(np.uint8) if contents.size else b""
    header_text = f"{array_type.str} {values.shape}"
    digest = hashlib.blake2b(raw_bytes, digest_size=DIGEST_BYTES).digest()
    return join_parts(b"array", [encode_text(header_text), digest])
