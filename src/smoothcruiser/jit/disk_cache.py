"""The cache on disk: machine code and schedules, for all processes of one user.

An entry is one file. Its name is a digest of all that the entry depends on, so an entry
is right or it is not there, and installations of one version share entries. A file
begins with a digest of its name and its contents: a file that is damaged, truncated or
another entry's counts as missing, and is removed and written again. Files are written
under a temporary name and renamed. An error of the disk costs the next process time, and
no run.

Whoever can write machine code that is loaded can run any code. So a file is read only if
it is a regular one (no link, pipe or device) that belongs to this user or to root and
that nobody else can write, in a folder of which the same holds. Folders above can take
the cache away, and cannot put a file of this user's in its place.

The folder is ``smoothcruiser`` in ``NUMBA_CACHE_DIR``, or else in the user's cache
(``XDG_CACHE_HOME``, ``~/.cache``). It holds at most ``MOST`` entries: those that were not
used for the longest time go first. ``smoothcruiser cache`` shows and clears it.

Numba is loaded where machine code is, and not by schedules. Numba's own cache is not
used: it has one folder per installation, trusts its files, and fills all tables of
Numba's library before it loads a function, with some 150 modules (SciPy's among them),
which takes longer than the import of Numba. Machine code needs the addresses of the names
that it refers to, and an entry lists these. Where one of them has no address yet, the
runtime of Numba is started, and if that does not help, its tables are filled.

Internals of Numba, all of them in ``CodeCache``: the attribute ``_cache`` of a compiled
function (set in ``jit.build``), the plain form of a compiler's result
(``CompileResultCacheImpl.reduce`` and ``rebuild``, which use nothing of the object they
are methods of), the names in its library (``_final_module``), and the two calls that
supply names. Where one of them is gone, nothing is read or written and every process
compiles.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
import pickle
import re
import stat
import sys
import types
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

VARIABLE = "SMOOTHCRUISER_KEEP"  # "0": schedules are neither read nor written
CODE, SCHEDULE = "code", "schedule"  # kinds of entries, which begin their names
MOST = 4096  # entries, most of 20 to 100 kB
LARGEST = 32_000_000  # bytes of an entry; the largest machines have 0.6 million
NAMES = re.compile(
    rf"({CODE}-[0-9a-f]{{32}}|{SCHEDULE})-[0-9a-f]{{32}}(\.tmp\.[0-9a-f]{{16}})?"
)
DIGITS = 32  # of a digest, which ends an entry's name
OWN = "private-"  # begins the name of a user's own folder inside one that others write
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
SEAL_BYTES = hashlib.sha256().digest_size
# O_NONBLOCK: a pipe would wait for a writer. Windows has neither of the two.
READING = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)
WRITING = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_BINARY", 0)
)


# --- the folder -----------------------------------------------------------------------


def is_on() -> bool:
    """Whether schedules are kept between processes."""
    return os.environ.get(VARIABLE) != "0"


def is_private(status: os.stat_result) -> bool:
    """Whether nobody but this user and root can write a file or a folder."""
    if not hasattr(os, "geteuid"):  # Windows: rights are not in the mode
        return True
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & OTHERS_WRITE


def find_folder() -> Path | None:
    """The folder of all entries, created if missing; None where there cannot be one."""
    base_folder = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    folder = Path(base_folder or os.path.expanduser("~/.cache")) / "smoothcruiser"
    if str(folder).startswith("~"):  # a user without a home
        return None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if is_private(folder.stat()):
            return folder
        own_folder = folder / f"{OWN}{os.geteuid()}"
        own_folder.mkdir(mode=0o700, exist_ok=True)
        folder_status = own_folder.lstat()  # a link may lead anywhere
        if stat.S_ISDIR(folder_status.st_mode) and is_private(folder_status):
            return own_folder
    except OSError as error:
        log.debug("%s cannot be used: %r", folder, error)
    _warn_once(str(folder))
    return None


@cache
def _warn_once(folder: str) -> None:
    log.warning(
        "machine code is not kept in %s: it is no folder that you can write, or another "
        "has made what stands for yours there; set NUMBA_CACHE_DIR to a folder of yours",
        folder,
    )


def list_entries() -> list[Path]:
    """All entries, and parts of entries that a killed process left, in no order.

    Other files in the folder are not ours.
    """
    folder = find_folder()
    with contextlib.suppress(OSError):
        if folder is not None:
            return [folder / x for x in os.listdir(folder) if NAMES.fullmatch(x)]
    return []


def count_entries() -> dict[str, dict[str, int]]:
    """The number of files and bytes of each kind of entries."""
    counts = {kind: {"files": 0, "bytes": 0} for kind in (CODE, SCHEDULE)}
    for path in list_entries():
        with contextlib.suppress(OSError):  # another process removes it
            size = path.lstat().st_size
            kind_counts = counts[path.name.partition("-")[0]]
            kind_counts["files"] += 1
            kind_counts["bytes"] += size
    return counts


def clear() -> int:
    """Remove all entries; returns how many could be removed."""
    return sum(map(remove, list_entries()))


def _trim() -> None:
    """Remove the entries that were not used for the longest time, if there are many."""
    entry_paths = list_entries()
    if len(entry_paths) > MOST:
        dated_paths = []
        for path in entry_paths:
            with contextlib.suppress(OSError):  # another process removes it
                dated_paths.append((path.lstat().st_mtime, path))
        for _, path in sorted(dated_paths)[: -(3 * MOST // 4)]:
            remove(path)


# --- entries --------------------------------------------------------------------------


def digest_of(*words: Any) -> str:
    """32 hex digits over plain data."""
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:DIGITS]


def read_entry(name: str) -> bytes | None:
    """The contents of an entry; None if it is missing, damaged, or not to be trusted."""
    folder = find_folder()
    if folder is None:
        return None
    path = folder / name
    try:
        sealed = read_private(path)
    except FileNotFoundError:
        return None
    except OSError as error:  # a pipe, a link, a folder, another user's
        log.debug("%s cannot be read: %r", path, error)
        sealed = b""
    contents = sealed[SEAL_BYTES:]
    if sealed[:SEAL_BYTES] != _seal(name, contents):
        remove(path)
        return None
    with contextlib.suppress(OSError):  # a file that may only be read
        os.utime(path)  # used just now
    return contents


def write_entry(name: str, contents: bytes) -> None:
    """Write an entry at once, or not at all; errors of the disk are ignored."""
    folder = find_folder()
    if folder is None or len(contents) > LARGEST:
        return
    try:
        write_private(folder / name, _seal(name, contents) + contents)
    except OSError as error:
        log.debug("%s cannot be written: %r", folder / name, error)
    _trim()


def _seal(name: str, contents: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + contents).digest()


def read_private(path: Path) -> bytes:
    """The contents of a regular file that nobody else can write; OSError elsewhere."""
    descriptor = os.open(path, READING)
    with os.fdopen(descriptor, "rb") as file:
        file_status = os.fstat(descriptor)
        if not (stat.S_ISREG(file_status.st_mode) and is_private(file_status)):
            raise PermissionError(f"{path} is not a file of this user's own")
        if file_status.st_size > LARGEST + SEAL_BYTES:
            raise OSError(f"{path} is too long")
        return file.read()


def write_private(path: Path, data: bytes) -> None:
    """Write a file at once, or not at all: readers see the new file or the old one."""
    temporary_path = path.with_name(f"{path.name}.tmp.{os.urandom(8).hex()}")
    descriptor = os.open(temporary_path, WRITING, 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary_path, path)
    finally:
        temporary_path.unlink(missing_ok=True)


def remove(path: Path) -> bool:
    """Remove whatever stands in the place of a file; whether this user may."""
    try:
        path.unlink()
    except OSError:  # a folder, another user's, or gone already
        try:
            path.rmdir()
        except OSError:
            log.debug("%s cannot be removed", path)
            return False
    return True


# --- machine code ---------------------------------------------------------------------


@cache
def _environment_words() -> list[Any]:
    """The parts of every key of machine code that do not depend on the function."""
    from importlib.metadata import version

    settings = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("NUMBA_")
        and name not in ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")
    }
    packages = [version(name) for name in ("numba", "llvmlite", "numpy")]
    return [
        sys.version,
        sys.implementation.cache_tag,
        packages,
        sorted(settings.items()),
    ]


def code_prefix(function: types.FunctionType, name: str) -> str | None:
    """The start of the names of a function's entries, one entry for each signature.

    ``name`` tells the function from all others and has a fingerprint of its sources.
    A function over other functions (in its closure) has no such name: None.
    """
    closure_values = [cell.cell_contents for cell in function.__closure__ or ()]
    if not all(isinstance(x, bool | int | float | str) for x in closure_values):
        return None
    bytecode = function.__code__.co_code.hex()
    key_words = function.__module__, name, bytecode, repr(closure_values)
    return f"{CODE}-{digest_of(_environment_words(), *key_words)}-"


def count_coded(prefixes: Collection[str | None]) -> int:
    """How many functions have machine code on disk, for any signature."""
    names = {path.name[:-DIGITS] for path in list_entries()}
    return sum(prefix in names for prefix in prefixes)


def _type_words(kind: Any) -> Iterator[Any]:
    """A type of Numba as text: named tuples by their class and fields."""
    yield str(kind)
    record_class = getattr(kind, "instance_class", None)
    if record_class is not None:
        yield [
            record_class.__module__,
            record_class.__qualname__,
            record_class._fields,
        ]
    for member in getattr(kind, "types", ()):
        yield from _type_words(member)


class CodeCache:
    """The cache that Numba asks for a function before it compiles it."""

    def __init__(self, prefix: str, complete: Callable[[], None]) -> None:
        """``complete`` is called before the function is compiled."""
        self.prefix, self.complete = prefix, complete
        self.cache_path = ""  # of Numba's statistics

    def _entry_name(self, signature: Any, codegen: Any) -> str:
        """The name of the entry of a signature on this processor."""
        type_words = [str(signature)]
        for argument in getattr(signature, "args", signature):
            type_words += _type_words(argument)
        if " at 0x" in str(type_words):
            raise TypeError("a type that is named by an address has no digest")
        return self.prefix + digest_of(type_words, codegen.magic_tuple())

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The compiler's result for a signature from an earlier process, or None."""
        try:
            compile_result = self._load(signature, target_context)
        except Exception as error:  # a class that is gone, or another Numba
            log.debug("machine code %s cannot be loaded: %r", self.prefix, error)
            compile_result = None
        if compile_result is None:
            self.complete()
        return compile_result

    def _load(self, signature: Any, target_context: Any) -> Any:
        contents = read_entry(self._entry_name(signature, target_context.codegen()))
        if contents is None:
            return None
        from llvmlite import binding  # type: ignore[import-untyped]
        from numba.core.caching import CompileResultCacheImpl
        from numba.core.runtime import rtsys

        symbol_names, reduced_result = CodeReader(io.BytesIO(contents)).load()
        # A name without an address would end the process.
        for supply_symbols in (rtsys.initialize, type(target_context).refresh):
            if all(map(binding.address_of_symbol, symbol_names)):
                break
            supply_symbols(target_context)
        return CompileResultCacheImpl.rebuild(None, target_context, reduced_result)

    def save_overload(self, signature: Any, result: Any) -> None:
        """Cache a result of the compiler, if it can be and the disk allows."""
        try:
            from numba.core.caching import CompileResultCacheImpl

            if result.lifted or result.library.has_dynamic_globals:
                return  # it holds addresses of this process
            entry_name = self._entry_name(signature, result.codegen)
            module = result.library._final_module
            symbol_names = sorted(
                symbol.name
                for symbol in (*module.functions, *module.global_variables)
                if symbol.is_declaration and not symbol.name.startswith("llvm.")
            )
            reduced_result = CompileResultCacheImpl.reduce(None, result)
            contents = pickle.dumps((symbol_names, reduced_result), protocol=5)
            CodeReader(io.BytesIO(contents)).load()  # raises if it would be refused
            write_entry(entry_name, contents)
        except Exception as error:  # the next process compiles it again
            log.debug("machine code %s cannot be kept: %r", self.prefix, error)


# Functions that the plain form of a compiler's result calls; types are classes.
REBUILDERS = {
    ("builtins", "object"),
    ("copyreg", "_reconstructor"),
    ("numba.core.environment", "_rebuild_env"),
    ("numba.core.types.abstract", "_type_reconstructor"),
    ("numba.core.funcdesc", "PythonFunctionDescriptor"),
    ("numba.core.typing.templates", "Signature"),
}


class CodeReader(pickle.Unpickler):
    """A reader of the compiler's results that builds nothing else.

    Numba's types have no form but their pickles. A file that names any other function
    or class is refused.
    """

    def find_class(self, module: str, name: str) -> Any:
        """A type of Numba or a class of this package; UnpicklingError for others."""
        is_rebuilder = (module, name) in REBUILDERS
        if is_rebuilder or module.startswith(("numba.core.types.", "smoothcruiser.")):
            member = super().find_class(module, name)
            if is_rebuilder or _is_type(member):
                return member
        raise pickle.UnpicklingError(f"{module}.{name} is no part of compiled code")


def _is_type(member: Any) -> bool:
    """Whether a class is one of Numba's types, or a named tuple."""
    from numba.core.types import Type

    return isinstance(member, type) and issubclass(member, Type | tuple)
