"""What the bits of a run depend on besides its problem and its plan.

Numba, LLVM, NumPy and the C library decide how numbers are rounded, Python what a
step's bytecode is, and the source files of this package everything else. Runs are
continued (``store``) and shared (``engines.pools.dask``) only among processes that
have the same ones.
"""

from __future__ import annotations

import hashlib
import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np

PACKAGE = Path(__file__).parents[1]  # the folder of smoothcruiser


def versions() -> dict[str, str]:
    """The versions of this process, besides this package's own.

    The C library is part of it, because it computes exp and log.
    """
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "NumPy": np.__version__,
        "Numba": version("numba"),
        "llvmlite": version("llvmlite"),
        "platform": " ".join(
            (platform.system(), platform.machine(), *platform.libc_ver())
        ).strip(),
    }


def source_hashes() -> dict[str, str]:
    """The hash of each source file of this package, by its path in the package."""
    found = {}
    for folder, _, names in os.walk(PACKAGE):
        inside = folder[len(str(PACKAGE)) + 1 :].replace(os.sep, "/")
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    held = hashlib.sha256(file.read()).hexdigest()
                found[f"{inside}/{name}" if inside else name] = held
    return dict(sorted(found.items()))


def sources_hash() -> str:
    """One hash over all source files, 32 hex digits."""
    files = repr(sorted(source_hashes().items()))
    return hashlib.sha256(files.encode()).hexdigest()[:32]
