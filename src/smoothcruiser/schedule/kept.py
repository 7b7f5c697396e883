"""Schedules that were found before, kept on disk for the next process.

A search takes tenths of a second, and a schedule that is read takes a hundredth. A
schedule from the disk is data like any other: it is built on the facts that were asked
for and verified on them, and it must make the promise that was asked for. So a file that
was changed can make a plan dearer, never false.

An entry is known by a digest of all that a search depends on: what was asked, the sources
of this package that take part, the versions of Python and NumPy. Problems with an
operator of the user's own, whose functions have no digest here, are searched anew. Entries
lie in Numba's cache folder (``NUMBA_CACHE_DIR``, or ``__pycache__`` beside this file, or the
user's cache where that cannot be written), at most ``MOST`` of them: the one that was not
used for the longest time goes first. ``python -m smoothcruiser.schedule.kept`` removes
all of them, and ``SMOOTHCRUISER_KEEP=0`` neither reads nor writes any.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.problem.facts import Facts
from smoothcruiser.records.fields import DataclassShape
from smoothcruiser.schedule.kinds import Kind, Kinds
from smoothcruiser.schedule.schedule import Schedule, Target

MOST = 256  # entries, of 2 to 30 kB each
LONGEST = 300_000  # bytes of an entry; a table of thousands of rows is not kept
VARIABLE = "SMOOTHCRUISER_KEEP"
PREFIX = "schedule-"
PARTS = ("operators", "schedule", "theory", "problem")  # sources that count


class Sought(NamedTuple):
    """What decides which schedule is found."""

    facts: Facts
    kinds: Kinds
    epsilon: float
    delta: float
    target: Target
    adaptive: bool
    method: str

    def fits(self, found: Schedule) -> bool:
        """Whether a schedule on these facts makes the promise that was asked for."""
        promised = (found.method, found.epsilon, found.delta, found.delta_prime)
        return (
            promised == (self.method, self.epsilon, self.delta, None)
            and found.root.target in (self.target, "q_values")
            and (self.adaptive or not found.root.looks)
        )


def kept(asked: Sought, search: Callable[[], Schedule]) -> Schedule:
    """The schedule that ``search`` finds, or found in an earlier process."""
    path = _place(asked)
    if path is None:
        return search()
    found = _read(path, asked)
    if found is None:
        found = search()
        _write(path, found)
    return found


def is_on() -> bool:
    """Whether anything is kept."""
    return os.environ.get(VARIABLE) != "0"


def _place(asked: Sought) -> Path | None:
    """The file of a request; None where nothing is kept of it."""
    if not is_on():
        return None
    operator = type(asked.facts.operator)
    ours = operator.__module__.startswith("smoothcruiser.operators.")
    if not ours or operator.__name__ == "CustomOperator":
        return None
    if not all(isinstance(kind, Kind) for kind in asked.kinds):
        return None
    facts = DataclassShape(Facts).data(asked.facts)
    words = [_searchers(), facts, sorted(map(int, asked.kinds)), *asked[2:]]
    name = _digest(json.dumps(words))
    return _folder() / f"{PREFIX}{name[:32]}.json"


def _folder() -> Path:
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return Path(given)
    here = Path(__file__).parent
    if os.access(here, os.W_OK):
        return here / "__pycache__"
    users = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(users) / "smoothcruiser"


@cache
def _searchers() -> str:
    """A digest of the code that takes part in a search."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256(
        f"{platform.python_version()} {np.__version__} {platform.machine()}".encode()
    )
    for part in PARTS:
        for path in sorted((package / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _read(path: Path, asked: Sought) -> Schedule | None:
    """The schedule in a file; None if there is none, or one that was changed."""
    try:
        digest, _, text = path.read_text(encoding="ascii").partition("\n")
        if digest != _digest(text):
            return None
        found = Schedule.from_dict(json.loads(text), asked.facts)
        if not asked.fits(found):
            return None
        os.utime(path)  # used just now
    except (OSError, ValueError, SmoothcruiserError):
        return None
    return found


def _write(path: Path, found: Schedule) -> None:
    """Keep a schedule, if the disk takes it."""
    text = json.dumps(found.to_dict(), allow_nan=False)
    if len(text) > LONGEST:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=PREFIX, suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(f"{_digest(text)}\n{text}")
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)
        for old in _entries()[MOST:]:
            old.unlink(missing_ok=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _entries() -> list[Path]:
    """All entries, the one used last first."""
    found = []
    for path in _folder().glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another process removes it
            found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)]


def clear() -> int:
    """Remove all entries; returns how many there were."""
    found = _entries()
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


if __name__ == "__main__":
    print(f"{clear()} kept schedules were removed.")
