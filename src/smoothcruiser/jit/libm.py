"""``exp`` and ``log`` of compiled code: the C library's own, without a detour.

Numba sends both through its helper library. For the sake of old systems that is linked
with glibc's old versions, which wrap today's functions in a second check for errors.
Numbers are the same; the detour takes 2 to 3% of a run with few samples per node. So
LLVM gets the addresses of the functions themselves, for all code that is linked from
then on.

Only glibc has two versions. Elsewhere this does nothing.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

NAMES = ("exp", "log")


@cache
def bind() -> None:
    """Give LLVM the addresses, after Numba has given it those of its helpers."""
    if not sys.platform.startswith("linux"):
        return
    from llvmlite import binding  # type: ignore[import-untyped]
    from numba.core.registry import cpu_target

    assert cpu_target.target_context is not None  # has given LLVM the helpers
    try:
        library = ctypes.CDLL("libm.so.6")
        function_addresses = [
            ctypes.cast(getattr(library, name), ctypes.c_void_p) for name in NAMES
        ]
    except (OSError, AttributeError):
        return
    for name, function_address in zip(NAMES, function_addresses, strict=True):
        if function_address.value:
            binding.add_symbol(name, function_address.value)
