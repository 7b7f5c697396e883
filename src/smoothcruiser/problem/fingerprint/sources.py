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

from smoothcruiser.problem.fingerprint.bytecode import Reading, readings
from smoothcruiser.problem.fingerprint.encoding import joined, text
from smoothcruiser.problem.fingerprint.objects import dictionary
from smoothcruiser.problem.fingerprint.owners import USER, owner_of_file

if TYPE_CHECKING:
    from smoothcruiser.problem.fingerprint.walk import Walker

_NAMESPACE = "a folder"  # the file of a package without one


def imports(walk: Walker, reading: Reading, names: dict[str, Any]) -> list[bytes]:
    """References to the modules that code imports; ``names`` are its globals."""
    held = []
    for each in reading.imports:
        steps = _absolute(each, names).split(".")
        for end in range(1, len(steps) + 1):  # packages first
            held.append(_imported(walk, ".".join(steps[:end])))
    for place in reading.chains:
        if place.kind == "import":
            module = _absolute(place.name, names)
            full = ".".join((module, *place.path))
            owner, _ = _located(module)
            if owner != USER:
                held.append(walk.library(owner, full))
            elif len(place.path) == 1 and _located(full)[1] is not None:
                held.append(_imported(walk, full))
    return held


def _absolute(name: str, names: dict[str, Any]) -> str:
    bare = name.lstrip(".")
    level = len(name) - len(bare)
    if level == 0:
        return name
    package = names.get("__package__") or str(names.get("__name__"))
    above = package.split(".")
    above = above[: len(above) - level + 1]
    return ".".join([*above, bare] if bare else above)


def _imported(walk: Walker, name: str) -> bytes:
    return walk.part(
        ("source", name), f"the module {name}", lambda: _source(walk, name)
    )


def _source(walk: Walker, name: str) -> bytes:
    owner, file = _located(name)
    if owner != USER:
        return walk.library(owner, name)
    if file is None:
        module = sys.modules.get(name)
        if module is None:
            walk.cannot(f"the module {name}, which {walk.root} imports")
            return b"!missing"
        return walk.encode(module)
    if not file.endswith(".py"):
        if file != _NAMESPACE:
            walk.cannot(f"the compiled module {name}")
        return text(Path(file).suffix)
    body = compile(Path(file).read_bytes(), name, "exec", dont_inherit=True)
    package = name if Path(file).name == "__init__.py" else name.rpartition(".")[0]
    around = {"__package__": package, "__name__": name}
    held = [walk.encode(body)]
    for reading in readings(body):
        held += imports(walk, reading, around)
    return joined(b"source", held)


def _located(name: str) -> tuple[str, str | None]:
    """(owner, file) of a module, found without importing it or its packages.

    The answer is the same before and after the module is loaded.
    """
    spec, path = None, None
    steps = name.split(".")
    for end in range(1, len(steps) + 1):
        full = ".".join(steps[:end])
        known = sys.modules.get(full)
        spec = None if known is None else dictionary(known).get("__spec__")
        try:
            if spec is None and end == 1:
                spec = importlib.util.find_spec(full)
            elif spec is None:
                spec = importlib.machinery.PathFinder.find_spec(full, path)
        except (ValueError, ImportError):
            spec = None
        if spec is None:
            return owner_of_file(name, None), None
        path = list(spec.submodule_search_locations or ())
    assert spec is not None
    if spec.has_location and spec.origin is not None:
        return owner_of_file(name, spec.origin), spec.origin
    owner = owner_of_file(name, path[0] if path else None)
    return owner, _NAMESPACE if path else None
