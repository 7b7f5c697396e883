"""Schedules of earlier searches, cached on disk for the next process.

A search takes tenths of a second, reading a schedule takes a hundredth. A schedule from
the disk is data like any other: it is built on the requested facts and verified on
them, and it must make the requested promise. So a file that was changed can make a plan
dearer, never false.

An entry (``jit.disk_cache``) is named by a digest of everything that a search depends
on: the request, the sources of this package that take part, the versions of Python and
NumPy. Problems with an operator of the user's own are searched anew, because its
functions have no digest here. ``SMOOTHCRUISER_KEEP=0`` neither reads nor writes any.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.jit.disk_cache import (
    SCHEDULE,
    digest_of,
    is_on,
    read_entry,
    write_entry,
)
from smoothcruiser.problem.facts import Facts
from smoothcruiser.records.json_shapes import DataclassShape
from smoothcruiser.schedule.kinds import Kind, Kinds, estimator_of
from smoothcruiser.schedule.schedule import Level, Schedule, Target

LONGEST = 300_000  # bytes of an entry; a table of thousands of rows is not cached
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
    name = entry_name(request)
    if name is None:
        return search()
    schedule = _read_schedule(name, request)
    if schedule is None:
        schedule = search()
        _write_schedule(name, schedule)
    return schedule


def entry_name(request: ScheduleRequest) -> str | None:
    """The name of a request's entry; None where it is not cached."""
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
    searchers = _searchers()
    if searchers is None:
        return None
    kinds = sorted(map(int, request.kinds))
    return f"{SCHEDULE}-{digest_of(searchers, facts_data, kinds, *request[2:])}"


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


def _read_schedule(name: str, request: ScheduleRequest) -> Schedule | None:
    """The schedule in an entry; None if there is none, or one that was changed."""
    contents = read_entry(name)
    if contents is None:
        return None
    try:
        with np.errstate(all="ignore"):  # numbers that no search has written
            schedule = Schedule.from_dict(json.loads(contents), request.facts)
        return schedule if request.fits(schedule) else None
    except (ValueError, RecursionError, SmoothcruiserError):
        return None


def _write_schedule(name: str, schedule: Schedule) -> None:
    """Write a schedule to disk, unless it is long."""
    text = json.dumps(schedule.to_dict(), allow_nan=False)
    if len(text) <= LONGEST:
        write_entry(name, text.encode())
