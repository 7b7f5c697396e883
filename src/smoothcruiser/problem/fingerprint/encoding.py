"""Plain values as bytes: typed, length-prefixed, the same in every process.

Every encoding begins with a tag of its type, so that 1, 1.0, True and "1" differ,
and so do 0.0 and -0.0, and NaNs of different bits. A container is the digest of
its parts, each behind its length, so that no two containers collide by
concatenation. Nothing here depends on hashes, addresses or the order of a set.

The owner of code: the user, Python, this package or a library.

The user's code is read function by function. A library is known by its version:
a package installed from an index does not change without it. A package installed from
a folder (``pip install .``) is the user's code. The store keeps this package's own
version, not the fingerprint of a problem.

A namespace's own claim is not enough for a function. ``exec`` and ``eval`` may
run the user's code in a library's namespace, or in a copy of one with names added
(``{**vars(math), "PRICE": 2}``). So a function is a library's only if its code is from a
file of the library, and its globals are those of the library's module.
"""

from __future__ import annotations

import hashlib
import platform
import struct
import sys
import sysconfig
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path, PurePath
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.problem.fingerprint.objects import dictionary

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
    """The contents of an array of numbers or text."""
    contents = np.ascontiguousarray(values)
    raw_bytes: Any = contents.reshape(-1).view(np.uint8) if contents.size else b""
    return hashlib.blake2b(raw_bytes, digest_size=DIGEST_BYTES).digest()


USER = ""  # the owner of code that is read
PYTHON = "python"
OURS = __name__.partition(".")[0]
_INSTALLED = {"site-packages", "dist-packages"}
_PACKAGE = Path(__file__).resolve().parents[2]  # the folder of this package
_FROZEN = "<frozen "  # how the file of code begins that is part of Python itself


@cache
def _is_from_folder(library: str) -> bool:
    """Whether a package was installed from a folder (PEP 610)."""
    try:
        direct_url = metadata.distribution(library).read_text("direct_url.json")
    except (metadata.PackageNotFoundError, ValueError):
        return False
    return direct_url is not None and '"dir_info"' in direct_url


@cache
def owner_of_file(name: str, file: str | None) -> str:
    """The owner of a module that may not have been imported yet."""
    top_name = name.partition(".")[0]
    if top_name == OURS:
        return OURS
    if name == "__main__":
        return USER
    if file is None:
        is_standard = (
            top_name in sys.stdlib_module_names or top_name in sys.builtin_module_names
        )
        return PYTHON if is_standard else USER
    path = PurePath(file)
    if _INSTALLED.intersection(path.parts):
        return USER if _is_from_folder(top_name) else top_name
    return PYTHON if path.is_relative_to(sysconfig.get_path("stdlib")) else USER


def owner_of_names(names: Mapping[str, Any]) -> str:
    """The owner of a module's namespace, such as the globals of a function."""
    module_name, file_name = names.get("__name__"), names.get("__file__")
    return owner_of_file(
        module_name if isinstance(module_name, str) else "__main__",
        file_name if isinstance(file_name, str) else None,
    )


def owner_of_module(name: object) -> str:
    """The owner of the module ``name``; a module that is not there is a user's."""
    module = sys.modules.get(name) if isinstance(name, str) else None
    return USER if module is None else owner_of_names(dictionary(module))


def owner_of_globals(names: dict[str, Any]) -> str:
    """The owner of the globals of a function; a copy of a library's is the user's."""
    owner = owner_of_names(names)
    if owner in (USER, OURS):  # ``jit.build`` makes copies of ours
        return owner
    module = sys.modules.get(str(names.get("__name__")))
    return owner if dictionary(module) is names else USER


def owner_of_function(function: FunctionType) -> str:
    """The owner of a function, by its globals and its code."""
    owner = owner_of_globals(function.__globals__)
    file_name = function.__code__.co_filename
    if owner == USER or file_name.startswith(_FROZEN):
        return owner
    if owner == OURS:
        return OURS if _is_ours(file_name) else USER
    return owner_of_file(str(function.__globals__.get("__name__")), file_name)


@cache
def _is_ours(file: str) -> bool:
    return Path(file).resolve().is_relative_to(_PACKAGE)


@cache
def version_of(library: str) -> str | None:
    """The version of a library, None where nobody knows it."""
    if library == PYTHON:
        return f"{platform.python_implementation()} {platform.python_version()}"
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        own_version = dictionary(sys.modules.get(library)).get("__version__")
        return own_version if isinstance(own_version, str) else None


def importable(value: Any) -> tuple[str, str] | None:
    """(module, qualified name) under which a library's ``value`` can be imported.

    None if there is no such place, or if the user's code is there.
    """
    inner_function = dictionary(value).get("py_func", value)  # of Numba
    if (
        type(inner_function) is FunctionType
        and owner_of_function(inner_function) == USER
    ):
        return None
    # a ufunc of older NumPy (1.26) names no module; its class's is the one
    module_name = getattr(value, "__module__", None) or type(value).__module__
    qualified_name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if not isinstance(module_name, str) or not isinstance(qualified_name, str):
        return None
    target: Any = sys.modules.get(module_name)
    if target is None or owner_of_names(dictionary(target)) == USER:
        return None
    for name_step in qualified_name.split("."):
        namespace = (
            vars(target) if issubclass(type(target), type) else dictionary(target)
        )
        target = namespace.get(name_step)
        if type(target) in (staticmethod, classmethod):
            target = target.__func__
    return (module_name, qualified_name) if target is value else None
