"""The limit on the states of a search: the requested number, and the memory at hand.

A search that meets more states than fit ends with the interval it has. The
limit changes no bit of a search that does not reach it.

  max_states   the states kept, ends included; by default no number is set
  max_bytes    the limit of the memory: ``SHARE`` of the bytes available when the
               search begins, ``LARGE_SHARE`` where ``max_states`` was given. It
               counts the arrays with their free room, the array that replaces
               one that grows, and states that are Python objects

The available bytes are the least that the system, the control group and the process
limit leave. This file leaves out the handling of samples that do not fit (``intake``).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import is_whole

SHARE = 0.5  # the rest is for other programs, and for a snapshot of the search
LARGE_SHARE = 0.9
# of a search that is stored: SQLite keeps 1e9 bytes in one place, and numbers may take
# more as text
STORE_BYTES = 7 * 10**8
UNKNOWN = 2**30  # bytes taken for available where no system says
# a place in a list and in a dict that is two thirds full at the most, and the boxes of
# two whole numbers
PYTHON_BYTES = 200
# why a search keeps no more, and the remedy
FULL = {
    "max_states": (
        "it keeps all the states that max_states allows (allow more, or merge states "
        "with key=)"
    ),
    "memory": (
        "no more fits in the memory at hand (free some, take a larger machine, or "
        "merge states with key=)"
    ),
    "store": (
        "no more fits in a store, which keeps 1 GB of one search (plan without a "
        "store, or merge states with key=)"
    ),
    "indices": (
        "a memory numbers at most 2**31 states, actions and outcomes (merge states with "
        "key=)"
    ),
}
MEMINFO = Path("/proc/meminfo")
OWN_GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


class MemoryFull(Exception):
    """The memory has no room for the samples; ``reason`` is the limit it met.

    ``calls`` counts the calls without an entered sample.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(FULL[reason])
        self.reason, self.calls = reason, 0


@dataclass(frozen=True)
class MemoryLimit:
    """The limits of a memory, in states and in bytes."""

    max_states: int | None = None
    max_bytes: int = 2**63
    why: str = "memory"  # the limit that sets ``max_bytes``

    @classmethod
    def at_hand(cls, max_states: int | None) -> MemoryLimit:
        """The room of a search that begins now."""
        memory_share = SHARE if max_states is None else LARGE_SHARE
        return cls(max_states, int(memory_share * available_bytes()))

    def in_store(self) -> MemoryLimit:
        """The same for a search of which a store keeps snapshots."""
        if self.max_bytes <= STORE_BYTES:
            return self
        return MemoryLimit(self.max_states, STORE_BYTES, "store")


def check_max_states(max_states: Any) -> int | None:
    """Return a number of states, or None for as many as fit."""
    if max_states is None:
        return None
    if not is_whole(max_states) or max_states < 1:
        raise InvalidInput(
            f"max_states must be a whole number of at least 1, got {max_states!r}."
        )
    return int(max_states)


def available_bytes() -> int:
    """The bytes that this process can still take without harm."""
    known_limits = [*_system(), *_groups(), *_process()]
    return min(known_limits) if known_limits else UNKNOWN


def _system() -> list[int]:
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return [1024 * int(line.split()[1])]
    except (OSError, ValueError, IndexError):
        pass  # no Linux
    try:  # half of the machine: the use by others is not known
        return [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2]
    except (AttributeError, OSError, ValueError):
        return []


def _groups() -> list[int]:
    """The bytes that each control group of this process leaves, up to the root."""
    try:
        group_lines = OWN_GROUP.read_text().splitlines()
    except OSError:
        return []
    bytes_left = []
    for line in group_lines:  # hierarchy:controllers:path
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        is_version_two = controllers == ""  # version 2 has one hierarchy for all
        if not is_version_two and "memory" not in controllers.split(","):
            continue
        groups_root = GROUPS if is_version_two else GROUPS / "memory"
        group_path = Path(path.lstrip("/"))
        for group in (group_path, *group_path.parents):
            group_left = _left(groups_root / group, *(V2 if is_version_two else V1))
            bytes_left += [] if group_left is None else [group_left]
    return bytes_left


# names of the limit, of the bytes in use, and of the droppable ones among these
V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _left(group: Path, limit: str, used: str, cached: str) -> int | None:
    """The bytes that one control group leaves; None where it sets no limit."""
    try:
        limit_bytes, used_bytes = (
            int((group / limit).read_text()),
            int((group / used).read_text()),
        )
    except (OSError, ValueError):  # no such file, or "max"
        return None
    try:
        stat_rows = [
            stat_row.split()
            for stat_row in (group / "memory.stat").read_text().splitlines()
        ]
        used_bytes -= sum(
            int(stat_row[1]) for stat_row in stat_rows if stat_row[0] == cached
        )
    except (OSError, ValueError, IndexError):
        pass
    return max(0, limit_bytes - used_bytes)


def _process() -> list[int]:
    try:
        import resource

        limit_bytes = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit_bytes in (resource.RLIM_INFINITY, -1):
            return []
        num_pages = int(Path("/proc/self/statm").read_text().split()[0])
        return [max(0, limit_bytes - num_pages * os.sysconf("SC_PAGE_SIZE"))]
    except (ImportError, OSError, ValueError, IndexError):
        return []


def size_of(value: Any) -> int:
    """The bytes of a state as a Python object, its parts included."""
    num_bytes, waiting_members, seen_ids = 0, [value], set[int]()
    while waiting_members:
        member = waiting_members.pop()
        if id(member) in seen_ids:
            continue
        seen_ids.add(id(member))
        num_bytes += sys.getsizeof(member)
        if isinstance(member, tuple | list | set | frozenset):
            waiting_members += member
        elif isinstance(member, dict):
            waiting_members += [*member.keys(), *member.values()]
        elif isinstance(getattr(member, "__dict__", None), dict) and not callable(
            member
        ):
            waiting_members.append(member.__dict__)
    return num_bytes
