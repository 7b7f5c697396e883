"""Machine code on disk that is ready without a compiler.

Numba's own cache fills all tables of Numba's library before it loads a function, with
some 150 modules (SciPy's among them), which takes longer than the import of Numba. Only
compiling needs them: machine code needs the addresses of the names that it refers to.
So a file here holds these names beside the code. Where one of them has no address yet,
the runtime of Numba is started, and if that does not help, its tables are filled: a name
without an address would end the process.

Every file begins with a digest of the rest, since a wrong bit may be a wrong number. A
file that cannot be read counts as missing, is removed, and is compiled and written
again. Files are loaded by ``pickle``, so only those that nobody else can write are read
(``jit.private_folder``).
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llvmlite import binding  # type: ignore[import-untyped]
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.runtime import rtsys

from smoothcruiser.jit.private_folder import (
    find_private_folder,
    read_private,
    remove,
    write_private,
)

log = logging.getLogger(__name__)

DIGEST = hashlib.sha256().digest_size


class _CheckedFiles(IndexDataCacheFile):  # type: ignore[misc]
    """Numba's files, each with a digest of its contents.

    An entry holds its own key: two processes that number their entries at the same time
    may write each other's, and an entry under a wrong number counts as missing.
    """

    def load(self, key: Any) -> Any:
        """The entry of a key, or None; a file that cannot be read is removed."""
        file_name = self._load_index().get(key)
        if file_name is None:
            return None
        path = Path(self._data_path(file_name))
        try:
            entry_key, entry_data = self._read_checked(path)
        except FileNotFoundError:
            return None
        except Exception:
            remove(path)
            return None
        return entry_data if entry_key == key else None

    def _load_index(self) -> dict[Any, str]:
        path = Path(self._index_path)
        try:
            version, source_stamp, overloads = self._read_checked(path)
        except FileNotFoundError:
            return {}
        except Exception:  # empty, cut off, a pipe, of another form, of another user
            remove(path)
            return {}
        is_current = version == self._version and source_stamp == self._source_stamp
        return dict(overloads) if is_current else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write_checked(
            Path(self._index_path), (self._version, self._source_stamp, overloads)
        )

    def save(self, key: Any, data: Any) -> None:
        """Write the entry of a key, then the index that names it."""
        overloads = self._load_index()
        taken_names = set(overloads.values())
        candidate_names = map(self._data_name, itertools.count(1))
        file_name = overloads.get(key) or next(
            x for x in candidate_names if x not in taken_names
        )
        self._write_checked(Path(self._data_path(file_name)), (key, data))
        self._save_index(overloads | {key: file_name})

    def _write_checked(self, path: Path, data: Any) -> None:
        contents = self._dump(data)
        write_private(path, hashlib.sha256(contents).digest() + contents)

    def _read_checked(self, path: Path) -> Any:
        contents = read_private(path)
        if hashlib.sha256(contents[DIGEST:]).digest() != contents[:DIGEST]:
            raise ValueError("a damaged file")
        return pickle.loads(contents[DIGEST:])


class OnDisk(FunctionCache):  # type: ignore[misc]
    """The cache that Numba asks for a function before it compiles it."""

    def __init__(self, function: Any, complete: Callable[[], None]) -> None:
        """``complete`` is called before ``function`` is compiled."""
        super().__init__(function)
        self.complete = complete
        source_stamp = self._impl.locator.get_source_stamp()
        folder = find_private_folder(Path(self._cache_path))
        self.private = folder is not None
        cache_folder = str(folder or self._cache_path)
        self._cache_file = _CheckedFiles(
            cache_folder, self._impl.filename_base, source_stamp
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiler's cached result for a signature, or None."""
        compile_result = None
        if self.private:
            try:
                compile_result = self._load_overload(sig, target_context)
            except (
                Exception
            ) as error:  # code that does not fit, or a module that is gone
                log.debug("machine code of %s cannot be loaded: %r", self._name, error)
        if compile_result is None:
            self.complete()
        return compile_result

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        disk_entry = self._cache_file.load(
            self._index_key(sig, target_context.codegen())
        )
        if disk_entry is None:
            return None
        symbol_names, reduced_result = disk_entry
        for supply_symbols in (rtsys.initialize, type(target_context).refresh):
            if all(binding.address_of_symbol(name) for name in symbol_names):
                break
            supply_symbols(target_context)
        return self._impl.rebuild(target_context, reduced_result)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Cache a result of the compiler, if the disk allows."""
        if not self.private:
            return
        try:
            self._save_overload(sig, data)
        except (
            Exception
        ) as error:  # a full disk, say: the next process compiles it again
            log.debug("machine code of %s cannot be kept: %r", self._name, error)

    def _save_overload(self, sig: Any, data: Any) -> None:
        if not self._impl.check_cachable(data):
            return
        disk_entry = _foreign_symbols(data.library), self._impl.reduce(data)
        self._cache_file.save(self._index_key(sig, data.codegen), disk_entry)


def _foreign_symbols(library: Any) -> list[str]:
    """The names that machine code refers to and does not define."""
    module = library._final_module
    return sorted(
        symbol.name
        for symbol in (*module.functions, *module.global_variables)
        if symbol.is_declaration and not symbol.name.startswith("llvm.")
    )
