"""Versions and source hashes that the bits of a run depend on.

Numba, LLVM, NumPy and the C library decide how numbers are rounded, Python decides
a step's bytecode, and the source files of this package decide everything else. Runs are
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
    file_hashes = {}
    for folder, _, names in os.walk(PACKAGE):
        inner_folder = folder[len(str(PACKAGE)) + 1 :].replace(os.sep, "/")
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    file_hash = hashlib.sha256(file.read()).hexdigest()
                file_hashes[f"{inner_folder}/{name}" if inner_folder else name] = (
                    file_hash
                )
    return dict(sorted(file_hashes.items()))


def sources_hash() -> str:
    """One hash over all source files, 32 hex digits."""
    hash_text = repr(sorted(source_hashes().items()))
    return hashlib.sha256(hash_text.encode()).hexdigest()[:32]
