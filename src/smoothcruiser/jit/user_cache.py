"""Users' compiled functions, cached on disk for the next process.

Numba's own cache looks at the file of a function alone, so it would serve a step after
a helper in another file has changed. Here the key of an entry is a digest of all that its
code depends on, which the caller computes (``problem.fingerprint.machine_code``), of the
type of its states, and of the versions and settings of the compiler. Any difference
makes another entry; no entry is ever brought up to date.

Entries lie in Numba's cache folder (``NUMBA_CACHE_DIR``, or ``__pycache__`` beside this
file; ``private_folder`` says when in a folder of the user's own inside it), as Numba writes
them, with a digest of their contents. There are at most ``MOST`` of them, of
``MOST_BYTES`` together: the one that was not used for the longest time goes first.
``python -m smoothcruiser.jit.user_cache`` removes all of them, and ``SMOOTHCRUISER_KEEP=0``
neither reads nor writes any.
"""

from __future__ import annotations

import contextlib
import os
import types
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config

from smoothcruiser.jit.code_files import OnDisk
from smoothcruiser.jit.private_folder import remove

MOST = 64  # entries, of some 50 kB each
MOST_BYTES = 64_000_000  # a step that refers to large arrays has them in its code
PREFIX = "user_"
# Settings of Numba that change no machine code: where it is kept, and by how many
# threads it is run. All others count.
PLACES = {"CACHE_DIR", "CACHE_LOCATOR_CLASSES", "CPU_COUNT", "NUM_THREADS"}
PLACES |= {"NUMBA_NUM_THREADS", "NUMBA_DEFAULT_NUM_THREADS", "COLOR_SCHEME"}
PLAIN = (bool, int, float, str, type(None))


def surroundings() -> list[str]:
    """Versions and settings of the compiler that machine code depends on."""
    import llvmlite  # type: ignore[import-untyped]
    from numba.core.registry import cpu_target

    return [
        numba.__version__,
        llvmlite.__version__,
        np.__version__,
        *(f"{name}={value}" for name, value in sorted(_settings().items())),
        *map(str, cpu_target.target_context.codegen().magic_tuple()),
    ]


def _settings() -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(config).items()
        if name.isupper() and name not in PLACES and isinstance(value, PLAIN)
    }


def _entry_function(which: int, state: int, action: int, rng: int, out: int) -> int:
    """A placeholder for the function of an entry: gives its file and name."""
    raise NotImplementedError


class DiskEntry(OnDisk):
    """The entry of one digest."""

    def __init__(self, digest: str) -> None:
        self.digest, self.result = digest, None
        self.function = types.FunctionType(
            _entry_function.__code__, _entry_function.__globals__
        )
        self.function.__qualname__ = PREFIX + digest
        super().__init__(self.function, self._forget)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return sig, codegen.magic_tuple(), self.digest

    @property
    def index(self) -> Path:
        """The index file of the entry."""
        return Path(self._cache_file._index_path)

    def _forget(self) -> None:
        """Remove an entry that could not be read; new machine code replaces it."""
        with contextlib.suppress(OSError):
            _remove(self.index)

    def load(self, signature: Any) -> Any:
        """The dispatcher of the cached machine code, or None."""
        function = numba.njit(self.function, nogil=True)
        self.result = self.load_overload(signature, function.targetctx)
        if self.result is None:
            return None
        with contextlib.suppress(OSError):
            os.utime(self.index)
        function._cache = _LoadedEntry(self.result)
        function.compile(signature)
        return function

    def save(self, signature: Any, result: Any) -> None:
        """Cache a result of the compiler if possible, and drop the oldest entries."""
        if result.library.has_dynamic_globals or result.lifted:
            return
        with contextlib.suppress(Exception):  # the next process compiles it again
            self.save_overload(signature, result)
            _trim(self.index.parent)


class _LoadedEntry:
    """The interface of a cache for a dispatcher, with one result that is loaded."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The result."""
        return self.result


def _entries(folder: Path) -> list[Path]:
    """The indices of all entries, the one used last first."""
    dated_entries = []
    for path in folder.glob(f"{Path(__file__).stem}.{PREFIX}*.nbi"):
        with contextlib.suppress(OSError):  # another process removes it
            dated_entries.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(dated_entries, reverse=True)]


def _files(index: Path) -> list[Path]:
    return [index, *index.parent.glob(f"{index.stem}.*.nbc")]


def _remove(index: Path) -> None:
    for path in _files(index):
        remove(path)


def _trim(folder: Path) -> None:
    used_bytes = 0
    for entry_rank, index in enumerate(_entries(folder)):
        used_bytes += sum(path.stat().st_size for path in _files(index))
        if entry_rank >= MOST or (entry_rank > 0 and used_bytes > MOST_BYTES):
            _remove(index)


def clear() -> int:
    """Remove all entries; returns how many there were."""
    entries = _entries(DiskEntry("none").index.parent)
    for index in entries:
        _remove(index)
    return len(entries)


if __name__ == "__main__":
    print(f"{clear()} kept simulators were removed.")
