"""The versions that a run was started with: it is continued by the same, or not at all.

With others its second half would have other bits than it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from smoothcruiser.engines.versions import sources_hash, versions
from smoothcruiser.errors import InvalidInput

SOURCES = "smoothcruiser's sources"


def all_versions() -> dict[str, str]:
    """The versions of this process, this package's and its sources included."""
    package_versions = {
        "smoothcruiser": version("smoothcruiser"),
        SOURCES: sources_hash(),
    }
    return package_versions | versions()


def check_versions(run: int, stored: Mapping[str, str]) -> None:
    """Refuse to continue a run of other versions."""
    changed_versions = [
        f"{name} {stored.get(name, 'unknown')} (here: {installed})"
        for name, installed in all_versions().items()
        if stored.get(name) != installed
    ]
    if changed_versions:
        raise InvalidInput(
            f"Run {run} was started with {', '.join(changed_versions)}, and its bits "
            "would not be the same; resume it where it was started, or start a new run."
        )
