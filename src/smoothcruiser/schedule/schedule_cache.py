"""Schedules of earlier searches, cached on disk for the next process.

A search takes tenths of a second, reading a schedule takes a hundredth. A schedule from
the disk is data like any other: it is built on the requested facts and verified on
them, and it must make the requested promise. So a file that was changed can make a plan
dearer, never false.

An entry is named by a digest of everything that a search depends on: the request, the
sources of this package that take part, the versions of Python and NumPy. Problems with
an operator of the user's own are searched anew, because its functions have no digest
here. Entries lie in Numba's cache folder (``NUMBA_CACHE_DIR``, or ``__pycache__``
beside this file, or the user's cache where that cannot be written). There are at most
``MOST`` of them: the one that was not used for the longest time goes first.
``python -m smoothcruiser.schedule.schedule_cache`` removes all of them, and
``SMOOTHCRUISER_KEEP=0`` neither reads nor writes any.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.jit.private_folder import is_on
from smoothcruiser.problem.facts import Facts
from smoothcruiser.records.json_shapes import DataclassShape
from smoothcruiser.schedule.kinds import Kind, Kinds, estimator_of
from smoothcruiser.schedule.schedule import Level, Schedule, Target

MOST = 256  # entries, of 2 to 30 kB each
LONGEST = 300_000  # bytes of an entry; a table of thousands of rows is not cached
PREFIX = "schedule-"
NAMES = re.compile(rf"{PREFIX}[0-9a-f]{{32}}\.(json|part)")  # no others are removed
PARTS = ("operators", "schedule", "theory", "problem")  # sources that count


class ScheduleRequest(NamedTuple):
    """All that determines the result of a search."""

    facts: Facts
    kinds: Kinds
    epsilon: float
    delta: float
    target: Target
    adaptive: bool
    method: str

    def fits(self, schedule: Schedule) -> bool:
        """Whether a schedule on these facts makes the requested promise."""
        written_promise = (
            schedule.method,
            schedule.epsilon,
            schedule.delta,
            schedule.delta_prime,
        )
        return (
            written_promise == (self.method, self.epsilon, self.delta, None)
            and schedule.root.target in (self.target, "q_values")
            and (self.adaptive or schedule.root.adaptive_delta == 0.0)
            and all(map(self._finds, schedule.levels))
            and all(schedule.visits())  # no rows without visits
        )

    def _finds(self, level: Level) -> bool:
        """Whether a search may find this row: it has the fields of its kind alone."""
        estimator = estimator_of(level.kind)
        return (
            level.kind in self.kinds
            and (estimator.asks or (level.samples, level.query) == (0, -1))
            and (estimator.goes_on or level.continuation == -1)
        )


def load_or_search(
    request: ScheduleRequest, search: Callable[[], Schedule]
) -> Schedule:
    """Return the schedule that ``search`` finds, or found in an earlier process."""
    entry_path = _entry_path(request)
    if entry_path is None:
        return search()
    schedule = _read_entry(entry_path, request)
    if schedule is None:
        schedule = search()
        _write_entry(entry_path, schedule)
    return schedule


def _entry_path(request: ScheduleRequest) -> Path | None:
    """The file of a request; None where it is not cached."""
    if not is_on():
        return None
    operator = type(request.facts.operator)
    if not operator.__module__.startswith("smoothcruiser.operators."):
        return None
    if not all(isinstance(kind, Kind) for kind in request.kinds):
        return None
    facts_data = DataclassShape(Facts).data(request.facts)
    if facts_data["operator"].get("own"):  # its numbers are not written
        return None
    folder, searchers = _cache_folder(), _searchers()
    if folder is None or searchers is None:
        return None
    key_words = [searchers, facts_data, sorted(map(int, request.kinds)), *request[2:]]
    key_digest = _digest(json.dumps(key_words))
    return folder / f"{PREFIX}{key_digest[:32]}.json"


def _cache_folder() -> Path | None:
    """The folder of all entries; None for a user without a home."""
    numba_folder = os.environ.get("NUMBA_CACHE_DIR")
    if numba_folder:
        return Path(numba_folder)
    package_folder = Path(__file__).parent
    if os.access(package_folder, os.W_OK):
        return package_folder / "__pycache__"
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return None if user_cache.startswith("~") else Path(user_cache) / "smoothcruiser"


@cache
def _searchers() -> str | None:
    """A digest of the code that takes part in a search; None where it has no sources.

    A package in an archive or of compiled files alone has none, and its changes would
    go unnoticed.
    """
    package = Path(__file__).parent.parent
    digest = hashlib.sha256(
        f"{platform.python_version()} {np.__version__} {platform.machine()}".encode()
    )
    for source_folder in PARTS:
        source_paths = sorted((package / source_folder).rglob("*.py"))
        if not source_paths:
            return None
        for source_path in source_paths:
            try:
                digest.update(source_path.read_bytes())
            except OSError:
                return None
    return digest.hexdigest()


def _read_entry(path: Path, request: ScheduleRequest) -> Schedule | None:
    """The schedule in a file; None if there is none, or one that was changed."""
    try:
        file_status = path.stat()  # a pipe would never end, nor would a device
        if not stat.S_ISREG(file_status.st_mode) or file_status.st_size > 2 * LONGEST:
            return None
        digest, _, text = path.read_text(encoding="ascii").partition("\n")
        if digest != _digest(text):
            return None
        with np.errstate(all="ignore"):  # numbers that no search has written
            schedule = Schedule.from_dict(json.loads(text), request.facts)
        if not request.fits(schedule):
            return None
    except (OSError, ValueError, RecursionError, SmoothcruiserError):
        return None
    with contextlib.suppress(OSError):  # a file that may only be read
        os.utime(path)  # used just now
    return schedule


def _write_entry(path: Path, schedule: Schedule) -> None:
    """Write a schedule to disk; errors of the disk are ignored."""
    text = json.dumps(schedule.to_dict(), allow_nan=False)
    if len(text) > LONGEST:
        return
    # beside the entry, with the rights that the user gives to new files
    partial_path = path.with_name(f"{PREFIX}{os.urandom(16).hex()}.part")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial_path.open("x", encoding="ascii") as file:
                file.write(f"{_digest(text)}\n{text}")
            os.replace(partial_path, path)
        finally:
            partial_path.unlink(missing_ok=True)
        _remove(_entries()[MOST:])


def _remove(paths: list[Path]) -> int:
    """Remove files; returns how many could be removed."""
    num_removed = 0
    for path in paths:
        with contextlib.suppress(OSError):  # another user's, or gone already
            path.unlink()
            num_removed += 1
    return num_removed


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _entries() -> list[Path]:
    """All entries, the one used last first; other files in the folder are not ours."""
    folder = _cache_folder()
    dated_paths = []
    for path in () if folder is None else folder.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another process removes it
            file_status = path.lstat()
            if NAMES.fullmatch(path.name) and not stat.S_ISDIR(file_status.st_mode):
                dated_paths.append((file_status.st_mtime, path))
    return [path for _, path in sorted(dated_paths, reverse=True)]


def clear() -> int:
    """Remove all entries; returns how many there were."""
    return _remove(_entries())


if __name__ == "__main__":
    print(f"{clear()} kept schedules were removed.")
