"""LibraryMachine code that comes with an installed wheel: kernels without a compiler.

Platform wheels hold a shared library of the kernels that most requests run, built from
the same sources by ``build_library.py``. A function of it takes the address of a block
of words, one argument after the other, and the address of its results:

  i  an int, b a bool, f a float   one word
  u  an unsigned int of NumPy's    one word
  s  a random stream               the address of its state
  [dtype:n:w]  an array            its address, and the lengths of its n axes
  (...)  a tuple                   its members

A kernel that calls a user's step by address has one for each version of Numba, whose
calling convention the step has. Where the step raises, the kernel does not come to its end
(``UnfinishedKernel``), and its caller repeats the step in Python, which tells the error.

The name of a kernel has a fingerprint of its sources, as on disk (``jit.build``), and a
library lists the names and forms that it has. So edited sources, or arguments of another
form, find nothing, and Numba compiles as it does in a source checkout. The file's name is
a digest of its contents: a damaged file is not loaded, nor is one of another platform.

``SMOOTHCRUISER_LIBRARY`` names another file, and 0 stands for none; it is for tests and
measurements.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import struct
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.jit.build import name_on_disk
from smoothcruiser.jit.random.streams import Stream

log = logging.getLogger(__name__)

VARIABLE = "SMOOTHCRUISER_LIBRARY"
PATTERN = (
    "machines-*"  # followed by the digest of the contents, and .so, .dylib or .dll
)
TABLE = "smoothcruiser_machines"  # the symbol of the list, as JSON
WORD = 8  # bytes


class UnfinishedKernel(RuntimeError):
    """A kernel of the library in which a user's function raised an error."""


class LibraryKernel(NamedTuple):
    """A kernel of the library for arguments of one form."""

    call: Any  # (block, results) -> None
    result: str  # its form; empty for None


def file_digest(contents: bytes) -> str:
    """The digest in the name of a library."""
    return hashlib.sha256(contents).hexdigest()[:32]


@cache
def load_library() -> dict[tuple[str, str], LibraryKernel]:
    """The kernels of the library by name and form; none where no library fits."""
    chosen_path = os.environ.get(VARIABLE)
    folder = Path(__file__).parent
    paths = [Path(chosen_path)] if chosen_path else sorted(folder.glob(PATTERN))
    for path in paths if chosen_path != "0" else ():
        try:
            return _read_library(path)
        except (OSError, ValueError, AttributeError) as error:
            log.debug("%s is not used: %r", path, error)
    return {}


def _read_library(path: Path) -> dict[tuple[str, str], LibraryKernel]:
    if path.stem != f"machines-{file_digest(path.read_bytes())}":
        raise ValueError("a damaged file")
    library = ctypes.CDLL(str(path))
    text = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, TABLE)))
    entries = {}
    for name, form, result, symbol in json.loads(text):
        function = getattr(library, symbol)
        function.argtypes = ctypes.c_char_p, ctypes.c_void_p
        function.restype = None
        entries[name, form] = LibraryKernel(function, result)
    return entries


@cache
def has_machine(function: Any, salt: str | None) -> bool:
    """Whether the library has a kernel, in whatever form."""
    name = name_on_disk(function, salt)
    return any(name == entry_name for entry_name, _ in load_library())


class LibraryMachine:
    """A kernel as the library has it, and else as Numba compiles it."""

    def __init__(self, name: str, compile_kernel: Callable[[], Any]) -> None:
        self.name, self.compile_kernel = name, compile_kernel
        self.compiled: Any = None
        self.num_calls = 0  # of the library

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel."""
        library_call = self.find_call(arguments)
        if library_call is not None:
            return library_call()
        if self.compiled is None:
            self.compiled = self.compile_kernel()
        return self.compiled(*arguments)

    def find_call(self, arguments: tuple[Any, ...]) -> Callable[[], Any] | None:
        """The call of the library's kernel; None where it has none of this form."""
        entries = load_library()
        if entries:
            form, words = pack(arguments)
            entry = entries.get((self.name, form))
            if entry is not None:
                return partial(self._call_entry, entry, words)
        return None

    def _call_entry(self, entry: LibraryKernel, words: list[int | float]) -> Any:
        self.num_calls += 1
        kinds = "".join("d" if isinstance(word, float) else "q" for word in words)
        result_kinds = _word_kinds(entry.result)
        results = ctypes.create_string_buffer(WORD * (1 + len(result_kinds)))
        entry.call(struct.pack(f"={kinds}", *words), results)
        is_done, *values = struct.unpack(f"=q{result_kinds}", results.raw)
        if not is_done:  # the last that a kernel writes
            raise UnfinishedKernel(f"the kernel {self.name} did not come to its end")
        values = [
            bool(value) if kind == "b" else value
            for kind, value in zip(entry.result.strip("()"), values, strict=True)
        ]
        is_tuple = entry.result.startswith("(")
        return tuple(values) if is_tuple else values[0] if values else None


def _word_kinds(form: str) -> str:
    return "".join("d" if kind == "f" else "q" for kind in form.strip("()"))


def pack(value: Any) -> tuple[str, list[int | float]]:
    """The form of an argument, and its words; the form ``?`` is in no library."""
    if isinstance(value, tuple):
        members = [pack(member) for member in value]
        forms = "".join(form for form, _ in members)
        return f"({forms})", [word for _, words in members for word in words]
    if isinstance(value, bool | np.bool_):
        return "b", [int(value)]
    if isinstance(value, int | np.int64) and -(2**63) <= value < 2**63:
        return "i", [int(value)]
    if isinstance(value, np.uint64):
        return "u", [int(value.astype(np.int64))]
    if isinstance(value, float):
        return "f", [float(value)]
    if isinstance(value, Stream):
        return "s", [value.address]
    if isinstance(value, np.ndarray) and value.flags.carray:
        return array_form(value.dtype, value.ndim), [value.ctypes.data, *value.shape]
    return "?", []


def array_form(dtype: Any, num_axes: int) -> str:
    """The form of an array that is contiguous, aligned and may be written."""
    return f"[{dtype if dtype.names else dtype.str}:{num_axes}:w]"


_machines: dict[str, LibraryMachine] = {}


def shared_machine(
    function: Any, salt: str | None, compile_kernel: Callable[[], Any]
) -> LibraryMachine:
    """A kernel of this package, whose parts ``salt`` identifies.

    ``compile_kernel`` is called where the library does not have it.
    """
    name = name_on_disk(function, salt)
    if name not in _machines:
        _machines[name] = LibraryMachine(name, compile_kernel)
    return _machines[name]


def list_machines() -> list[LibraryMachine]:
    """The kernels that this process asked for."""
    return list(_machines.values())
