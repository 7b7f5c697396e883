"""Seals: a checksum of a row's values, kept beside them.

A seal tells a row that was written whole from one that a disk, a copy or an
editor has changed. It is no signature: whoever recomputes it can forge a row, and
so a store of a stranger's is still checked for possible numbers
(``store.checks``) and asks before it runs anything (docs/security.md).
"""

from __future__ import annotations

import hashlib
import struct

Value = None | int | float | str | bytes


def seal(*values: Value) -> str:
    """32 hex digits over values and their types."""
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        type_code, content = _encode_value(value)
        digest.update(type_code + len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def _encode_value(value: Value) -> tuple[bytes, bytes]:
    if value is None:
        return b"n", b""
    if isinstance(value, int):
        return b"i", str(value).encode()
    if isinstance(value, float):
        return b"f", struct.pack("<d", value)
    if isinstance(value, str):
        return b"s", value.encode("utf-8", "surrogatepass")
    return b"b", value
