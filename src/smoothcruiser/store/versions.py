"""What the bits of a run depend on besides its problem and its plan.

Numba and NumPy decide how machine code rounds, Python what a step's bytecode is,
and this library everything else. A run is continued by the same ones, or not at
all: its second half would have other bits than it had.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping

import numpy as np

from smoothcruiser.errors import InvalidInput


def versions() -> dict[str, str]:
    """The versions of this process."""
    from importlib.metadata import version

    import numba

    return {
        "smoothcruiser": version("smoothcruiser"),
        "numba": numba.__version__,
        "numpy": np.__version__,
        "python": ".".join(str(part) for part in sys.version_info[:2]),
        "system": platform.system(),
        "machine": platform.machine(),
    }


def check_versions(run: int, stored: Mapping[str, str]) -> None:
    """Refuse to continue a run of other versions."""
    here = versions()
    other = [
        f"{name} {stored.get(name, 'unknown')} (here: {version})"
        for name, version in here.items()
        if stored.get(name) != version
    ]
    if other:
        raise InvalidInput(
            f"Run {run} was started with {', '.join(other)}, and its bits would not be "
            "the same; resume it where it was started, or start a new run."
        )
