"""The run store: one SQLite file that survives ``kill -9`` at any moment.

It keeps runs, every finished shard, memories of certified search and estimates.
A problem is kept as its spec (what ``make`` was called with) and a fingerprint;
for problems without a spec the caller passes the problem again and the
fingerprint is compared. Each shard is its own transaction in WAL mode, so readers
never wait and a finished shard is never lost.

Every row carries a seal over its values. That of a shard, a memory or an estimate
covers the seal of its run too, so that rows cannot change places. A row that does
not fit is refused and stays as it is. What this file leaves out: the file itself
(``store.file``), the rows of runs (``store.record``), and what shards of a
schedule can be (``store.checks``).
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from smoothcruiser.engines.shards import Partial, Shard
from smoothcruiser.errors import InvalidInput, SmoothcruiserError, StoreError
from smoothcruiser.estimate import Estimate
from smoothcruiser.problem.arguments import is_whole
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.query import check_store
from smoothcruiser.store.file import open_to_read, open_to_write, told
from smoothcruiser.store.record import (
    COLUMNS,
    Record,
    StoredRun,
    Unreadable,
    plain_data,
    read_row,
    require,
    state_entry,
)
from smoothcruiser.store.runs import DamagedRun, Runs
from smoothcruiser.store.seal import seal
from smoothcruiser.store.versions import all_versions

log = logging.getLogger(__name__)


class Store:
    """An open store; use as a context manager or ``close`` it."""

    def __init__(self, path: str | Path, *, write: bool = True) -> None:
        """Open a store, to write (it is made where there is none) or to read only."""
        self.path = check_store(path)
        self._closing = contextlib.ExitStack()
        self._seals: dict[int, str] = {}
        if write:
            self.connection = open_to_write(self.path)
        else:
            self.connection, self._closing = open_to_read(self.path)
        log.info("store %s is opened to %s", self.path, "write" if write else "read")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def way_back(self, run: int) -> str:
        """What to type to go on with a run."""
        return f"resume({run}, store={str(self.path)!r})"

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
        self._closing.close()

    # --- writing --------------------------------------------------------------

    def begin(self, record: Record) -> int:
        """The number of a new run."""
        problem = record.problem
        values = (
            time.time(),
            problem.name,
            None if problem.spec is None else json.dumps(problem.spec),
            json.dumps(fingerprint(problem).parts),
            json.dumps(state_entry(problem, record.state)),
            record.method,
            json.dumps(record.plan),
            str(record.seed),
            record.shards,
            record.executor,
            json.dumps(all_versions()),
        )
        with self._changing() as run:
            number = 1 + run("SELECT coalesce(max(id), 0) FROM runs").fetchone()[0]
            sealed = seal(number, *values)
            self._insert("runs", number, *values, sealed)
        self._seals[number] = sealed
        return int(number)

    def keep(self, run: int, shard: Shard, part: Partial) -> None:
        """Keep a finished shard; keeping it twice changes nothing."""
        *sums, score = part
        values = (run, shard.action, shard.index, *sums, json.dumps(score))
        sealed = self._sealed(run, *values)
        with self._changing():
            self._insert("shards", *values, sealed, otherwise="OR IGNORE")

    def keep_memory(self, run: int, data: bytes, calls: int) -> None:
        """Keep what a certified search knows after ``calls``, in place of before.

        Where another process has gone farther with the same run, that is kept.
        """
        values = (run, calls, data)
        sealed = self._sealed(run, *values)
        with self._changing() as change:
            farther = "SELECT 1 FROM memories WHERE run = ? AND calls > ?"
            if change(farther, (run, calls)).fetchone() is None:
                self._insert("memories", *values, sealed, otherwise="OR REPLACE")

    def finish(self, run: int, estimate: Estimate) -> None:
        """Keep the estimate of a run."""
        values = (run, time.time(), estimate.to_json())
        sealed = self._sealed(run, *values)
        with self._changing():
            self._insert("estimates", *values, sealed, otherwise="OR REPLACE")

    def _insert(self, table: str, *values: Any, otherwise: str = "") -> None:
        marks = ", ".join("?" * len(values))
        self.connection.execute(
            f"INSERT {otherwise} INTO {table} VALUES ({marks})", values
        )

    def _sealed(self, run: int, *values: Any) -> str:
        """The seal of values that belong to a run."""
        if run not in self._seals:
            self.get(run)
        return seal(self._seals[run], *values)

    @contextmanager
    def _changing(self) -> Iterator[Any]:
        """One transaction; what the disk says against it becomes a sentence."""
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection.execute
            except BaseException:
                if self.connection.in_transaction:  # a full disk has ended it already
                    self.connection.execute("ROLLBACK")
                raise
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            raise StoreError(
                f"The store {self.path} cannot be written ({error}); make room on its "
                "disk, or make the file writable."
            ) from error

    # --- reading --------------------------------------------------------------

    def runs(self) -> Runs:
        """All runs, oldest first; one that cannot be read says why."""
        found: list[StoredRun | DamagedRun] = []
        for (number,) in self._rows("SELECT id FROM runs ORDER BY id"):
            try:
                found.append(self.get(int(number)))
            except SmoothcruiserError as error:
                found.append(DamagedRun(int(number), str(error)))
        return Runs(found)

    def get(self, run: int) -> StoredRun:
        """The run with number ``run``, every seal of it checked."""
        rows = self._rows(
            f"SELECT {', '.join(COLUMNS)}, seal FROM runs WHERE id = ?", run
        )
        if not rows:
            newest = self._rows("SELECT id FROM runs ORDER BY id DESC LIMIT 5")
            known = ", ".join(str(row[0]) for row in newest)
            raise InvalidInput(
                f"The store {self.path} has no run {run}; its newest runs are "
                f"{known or 'none'}."
            )
        with self._naming(run):
            found = read_row(rows[0][:-1], rows[0][-1])
            self._seals[run] = found["seal"]
            parts = self.parts(run)
            memory = self._memory(run)
            estimate, finished = self._estimate(run)
            calls = sum(part.calls for part in parts.values())
            return StoredRun(
                **found,
                estimate=estimate,
                finished=finished,
                shards_done=len(parts),
                calls_done=calls if memory is None else memory[0],
            )

    def parts(self, run: int) -> dict[tuple[int, int], Partial]:
        """The finished shards of a run."""
        found: dict[tuple[int, int], Partial] = {}
        with self._naming(run):
            for *values, sealed in self._rows(
                "SELECT run, action, shard, draws, total, square, calls, score, seal "
                "FROM shards WHERE run = ?",
                run,
            ):
                self._fits(sealed, values)
                _, action, shard, draws, total, square, calls, text = values
                whole = all(map(is_whole, (action, shard, draws, calls)))
                require(whole and calls >= 0, "counts")
                require(isinstance(total, float), "sum")
                require(isinstance(square, float), "sum of squares")
                score = plain_data(text, "score")
                require(isinstance(score, list), "score")
                found[action, shard] = Partial(
                    draws, total, square, calls, tuple(score)
                )
        return found

    def memory(self, run: int) -> bytes | None:
        """What was last kept of a certified search; None if nothing was."""
        with self._naming(run):
            found = self._memory(run)
        return None if found is None else found[1]

    def _memory(self, run: int) -> tuple[int, bytes] | None:
        for *values, sealed in self._rows(
            "SELECT run, calls, data, seal FROM memories WHERE run = ?", run
        ):
            self._fits(sealed, values)
            _, calls, data = values
            require(isinstance(calls, int) and calls >= 0, "number of calls")
            require(isinstance(data, bytes), "memory")
            return calls, data
        return None

    def _estimate(self, run: int) -> tuple[dict[str, Any] | None, float | None]:
        for *values, sealed in self._rows(
            "SELECT run, finished, estimate, seal FROM estimates WHERE run = ?", run
        ):
            self._fits(sealed, values)
            _, finished, text = values
            estimate = plain_data(text, "estimate")
            require(isinstance(finished, float), "time of its end")
            require(isinstance(estimate, dict), "estimate")
            return estimate, finished
        return None, None

    def _fits(self, found: Any, values: list[Any]) -> None:
        """Refuse values whose seal is another one."""
        if self._sealed(values[0], *values) != found:
            raise Unreadable("a seal does not fit")

    def _rows(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self.connection.execute(text, values).fetchall()
        except (sqlite3.Error, MemoryError, OverflowError, UnicodeError) as error:
            raise told(self.path, "read", error) from error

    @contextmanager
    def _naming(self, run: int) -> Iterator[None]:
        """Say which run cannot be read, and why."""
        try:
            yield
        except Unreadable as error:
            raise InvalidInput(
                f"Run {run} of {self.path} is damaged ({error}) and was left "
                "untouched; start it anew."
            ) from error
