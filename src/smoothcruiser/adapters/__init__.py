"""Other people's simulators as problems: Gymnasium environments, OpenSpiel
games. Each adapter imports its library, and only there.
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """The adapter ``gymnasium`` or ``openspiel``, imported when it is first
    asked for.
    """
    if name not in ("gymnasium", "openspiel"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
