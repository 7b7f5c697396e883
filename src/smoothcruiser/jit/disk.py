"""Machine code on disk that is ready without a compiler.

Numba's own cache fills all tables of Numba's library before it loads a function, with
some 150 modules (SciPy's among them), which takes longer than the import of Numba. Only
compiling needs them: machine code needs the addresses of the names that it refers to.
So a file here holds these names beside the code. Where one of them has no address yet,
the runtime of Numba is started, and if that does not help, its tables are filled: a name
without an address would end the process.

Every file begins with a digest of the rest, since a wrong bit may be a wrong number. What
cannot be read counts as missing, and is compiled and written again.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llvmlite import binding  # type: ignore[import-untyped]
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.runtime import rtsys

DIGEST = hashlib.sha256().digest_size


class _Checked(IndexDataCacheFile):  # type: ignore[misc]
    """Numba's files, each with a digest of its contents."""

    def _save_data(self, name: str, data: Any) -> None:
        held = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(hashlib.sha256(held).digest() + held)

    def _load_data(self, name: str) -> Any:
        found = Path(self._data_path(name)).read_bytes()
        if hashlib.sha256(found[DIGEST:]).digest() != found[:DIGEST]:
            raise ValueError("a damaged file")
        return pickle.loads(found[DIGEST:])


class OnDisk(FunctionCache):  # type: ignore[misc]
    """What Numba asks for a function before it compiles it."""

    def __init__(self, function: Any, complete: Callable[[], None]) -> None:
        """``complete`` is called before ``function`` is compiled."""
        super().__init__(function)
        self.complete = complete
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _Checked(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The result of the compiler that is kept for a signature, or None."""
        try:
            found = self._load_overload(sig, target_context)
        except Exception:  # a damaged file, or a module that is gone
            found = None
        if found is None:
            self.complete()
        return found

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        held = self._cache_file.load(self._index_key(sig, target_context.codegen()))
        if held is None:
            return None
        names, result = held
        for supply in (rtsys.initialize, type(target_context).refresh):
            if all(binding.address_of_symbol(name) for name in names):
                break
            supply(target_context)
        return self._impl.rebuild(target_context, result)

    def _save_overload(self, sig: Any, data: Any) -> None:
        if not self._impl.check_cachable(data):
            return
        self._impl.locator.ensure_cache_path()
        held = _foreign(data.library), self._impl.reduce(data)
        self._cache_file.save(self._index_key(sig, data.codegen), held)


def _foreign(library: Any) -> list[str]:
    """The names that machine code refers to and does not define."""
    module = library._final_module
    return sorted(
        each.name
        for each in (*module.functions, *module.global_variables)
        if each.is_declaration and not each.name.startswith("llvm.")
    )
