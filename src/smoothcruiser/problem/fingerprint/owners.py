"""Whose code is it: the user's, Python's, this package's or a library's?

The user's code is read function by function. A library is known by its version:
what is installed from an index does not change without it. What was installed from a
folder (``pip install .``) is the user's code. This
package's own version is kept by the store, not by the fingerprint of a problem.

What a namespace says of itself is not enough for a function. ``exec`` and ``eval`` may
run the user's code in a library's namespace, or in a copy of one with names added
(``{**vars(math), "PRICE": 2}``). So a function is a library's only if its code is from a
file of the library, and its globals are those of the library's module.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path, PurePath
from types import FunctionType
from typing import Any

from smoothcruiser.problem.fingerprint.objects import dictionary

USER = ""  # the owner of what is read
PYTHON = "python"
OURS = __name__.partition(".")[0]
_INSTALLED = {"site-packages", "dist-packages"}
_PACKAGE = Path(__file__).resolve().parents[2]  # the folder of this package
_FROZEN = "<frozen "  # how the file of code begins that is part of Python itself


@cache
def _from_folder(library: str) -> bool:
    """Whether a package was installed from a folder (PEP 610)."""
    try:
        said = metadata.distribution(library).read_text("direct_url.json")
    except (metadata.PackageNotFoundError, ValueError):
        return False
    return said is not None and '"dir_info"' in said


@cache
def _owner(name: str, file: str | None) -> str:
    top = name.partition(".")[0]
    if top == OURS:
        return OURS
    if name == "__main__":
        return USER
    if file is None:
        known = top in sys.stdlib_module_names or top in sys.builtin_module_names
        return PYTHON if known else USER
    path = PurePath(file)
    if _INSTALLED.intersection(path.parts):
        return USER if _from_folder(top) else top
    return PYTHON if path.is_relative_to(sysconfig.get_path("stdlib")) else USER


def owner_of_names(names: Mapping[str, Any]) -> str:
    """Who owns a module's namespace, such as the globals of a function."""
    name, file = names.get("__name__"), names.get("__file__")
    return _owner(
        name if isinstance(name, str) else "__main__",
        file if isinstance(file, str) else None,
    )


def owner_of_module(name: object) -> str:
    """Who owns the module called ``name``; a module that is not there is a user's."""
    module = sys.modules.get(name) if isinstance(name, str) else None
    return USER if module is None else owner_of_names(dictionary(module))


def owner_of_globals(names: dict[str, Any]) -> str:
    """Who owns the globals of a function; a copy of a library's is the user's."""
    owner = owner_of_names(names)
    if owner in (USER, OURS):  # ``jit.build`` makes copies of ours
        return owner
    module = sys.modules.get(str(names.get("__name__")))
    return owner if dictionary(module) is names else USER


def owner_of_function(function: FunctionType) -> str:
    """Who owns a function: its globals, and its code."""
    owner = owner_of_globals(function.__globals__)
    file = function.__code__.co_filename
    if owner == USER or file.startswith(_FROZEN):
        return owner
    if owner == OURS:
        return OURS if _is_ours(file) else USER
    return _owner(str(function.__globals__.get("__name__")), file)


@cache
def _is_ours(file: str) -> bool:
    return Path(file).resolve().is_relative_to(_PACKAGE)


def owner_of_file(name: str, file: str | None) -> str:
    """Who owns a module that may not have been imported yet."""
    return _owner(name, file)


@cache
def _packages() -> Mapping[str, list[str]]:
    """The packages that a module is installed by."""
    # slow: it reads the lists of files of everything that is installed
    return metadata.packages_distributions()


@cache
def version_of(library: str) -> str | None:
    """The version of a library, None where nobody knows it."""
    if library == PYTHON:
        return f"{platform.python_implementation()} {platform.python_version()}"
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        pass
    said = dictionary(sys.modules.get(library)).get("__version__")
    if isinstance(said, str):
        return said
    packages = _packages().get(library, [])
    return ", ".join(f"{name} {metadata.version(name)}" for name in packages) or None


def importable(value: Any) -> tuple[str, str] | None:
    """(module, qualified name) under which a library's ``value`` can be imported.

    None if there is no such place, or if the user's code is there.
    """
    inside = dictionary(value).get("py_func", value)  # of Numba
    if type(inside) is FunctionType and owner_of_function(inside) == USER:
        return None
    # a ufunc of older NumPy (1.26) names no module; its class's is the one
    module = getattr(value, "__module__", None) or type(value).__module__
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    found: Any = sys.modules.get(module)
    if found is None or owner_of_names(dictionary(found)) == USER:
        return None
    for step in name.split("."):
        held = vars(found) if issubclass(type(found), type) else dictionary(found)
        found = held.get(step)
        if type(found) in (staticmethod, classmethod):
            found = found.__func__
    return (module, name) if found is value else None
