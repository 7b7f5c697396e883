"""Modules that code imports when it runs.

They may not have been loaded yet, and are not loaded for this: the source of a
user's module is compiled, and read as a whole with all that it imports in turn. So a
fingerprint is the same before the first step and after it.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothcruiser.problem.fingerprint.bytecode import Reading, decode_all
from smoothcruiser.problem.fingerprint.encoding import encode_text, join_parts
from smoothcruiser.problem.fingerprint.objects import dictionary
from smoothcruiser.problem.fingerprint.owners import USER, owner_of_file

if TYPE_CHECKING:
    from smoothcruiser.problem.fingerprint.walk import Walker

_NAMESPACE = "a folder"  # the file of a package without one


def encode_imports(
    walk: Walker, reading: Reading, names: dict[str, Any]
) -> list[bytes]:
    """References to the modules that code imports; ``names`` are its globals."""
    encoded_parts = []
    for import_name in reading.imports:
        module_steps = _absolute_name(import_name, names).split(".")
        for end in range(1, len(module_steps) + 1):  # packages first
            encoded_parts.append(_encode_import(walk, ".".join(module_steps[:end])))
    for value_place in reading.chains:
        if value_place.kind == "import":
            module_name = _absolute_name(value_place.name, names)
            full_name = ".".join((module_name, *value_place.path))
            owner, _ = _locate_module(module_name)
            if owner != USER:
                encoded_parts.append(walk.library(owner, full_name))
            elif (
                len(value_place.path) == 1 and _locate_module(full_name)[1] is not None
            ):
                encoded_parts.append(_encode_import(walk, full_name))
    return encoded_parts


def _absolute_name(name: str, names: dict[str, Any]) -> str:
    bare_name = name.lstrip(".")
    level = len(name) - len(bare_name)
    if level == 0:
        return name
    package = names.get("__package__") or str(names.get("__name__"))
    outer_packages = package.split(".")
    outer_packages = outer_packages[: len(outer_packages) - level + 1]
    return ".".join([*outer_packages, bare_name] if bare_name else outer_packages)


def _encode_import(walk: Walker, name: str) -> bytes:
    return walk.part(
        ("source", name), f"the module {name}", lambda: _encode_source(walk, name)
    )


def _encode_source(walk: Walker, name: str) -> bytes:
    owner, file = _locate_module(name)
    if owner != USER:
        return walk.library(owner, name)
    if file is None:
        module = sys.modules.get(name)
        if module is None:
            walk.mark_unseen(f"the module {name}, which {walk.root} imports")
            return b"!missing"
        return walk.encode(module)
    if not file.endswith(".py"):
        if file != _NAMESPACE:
            walk.mark_unseen(f"the compiled module {name}")
        return encode_text(Path(file).suffix)
    module_code = compile(Path(file).read_bytes(), name, "exec", dont_inherit=True)
    package_name = name if Path(file).name == "__init__.py" else name.rpartition(".")[0]
    module_globals = {"__package__": package_name, "__name__": name}
    encoded_parts = [walk.encode(module_code)]
    for reading in decode_all(module_code):
        encoded_parts += encode_imports(walk, reading, module_globals)
    return join_parts(b"source", encoded_parts)


def _locate_module(name: str) -> tuple[str, str | None]:
    """(owner, file) of a module, found without importing it or its packages.

    The answer is the same before and after the module is loaded.
    """
    spec, search_path = None, None
    module_steps = name.split(".")
    for end in range(1, len(module_steps) + 1):
        full_name = ".".join(module_steps[:end])
        loaded_module = sys.modules.get(full_name)
        spec = (
            None if loaded_module is None else dictionary(loaded_module).get("__spec__")
        )
        try:
            if spec is None and end == 1:
                spec = importlib.util.find_spec(full_name)
            elif spec is None:
                spec = importlib.machinery.PathFinder.find_spec(full_name, search_path)
        except (ValueError, ImportError):
            spec = None
        if spec is None:
            return owner_of_file(name, None), None
        search_path = list(spec.submodule_search_locations or ())
    assert spec is not None
    if spec.has_location and spec.origin is not None:
        return owner_of_file(name, spec.origin), spec.origin
    owner = owner_of_file(name, search_path[0] if search_path else None)
    return owner, _NAMESPACE if search_path else None
