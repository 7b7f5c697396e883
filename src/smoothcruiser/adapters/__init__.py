"""Simulators of other libraries as problems: Gymnasium environments, OpenSpiel games.

Every module or package of this folder registers one adapter when it is imported, and
all of them are imported here. They are cheap to import: each loads its library when it
builds its first problem. To add an adapter, put a file here that calls ``register``
(docs/extending.md), and name its requirements as an extra in pyproject.toml. A file
that cannot be imported leaves the others alone: its fault is recorded, and reported to
callers that list adapters or request it.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from smoothcruiser.problem.adapter_protocol import (
    Adapter,
    LiveAdapter,
    keep_fault,
    register,
)

__all__ = ["Adapter", "LiveAdapter", "register"]

for _module in pkgutil.iter_modules(__path__):
    try:
        import_module(f"{__name__}.{_module.name}")
    except Exception as _error:
        keep_fault(_module.name, f"{__name__}.{_module.name}", _error)
