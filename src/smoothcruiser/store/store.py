"""The run store: one SQLite file that survives ``kill -9`` at any moment.

It keeps runs, every finished shard, memories of certified search and estimates.
A problem is kept as its spec (the arguments of ``make``) and a fingerprint;
for problems without a spec the caller passes the problem again and the
fingerprint is compared. Each shard is its own transaction in WAL mode, so readers
never wait and a finished shard is never lost.

Every row carries a seal over its values. That of a shard, a memory or an estimate
covers the seal of its run too, so that rows cannot change places. A row that does
not fit is refused and stays as it is. This file leaves out the file itself
(``store.store_file``), the rows of runs (``store.record``), and the checks of a
schedule's shards (``store.record_checks``).
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
from smoothcruiser.store.record import (
    COLUMNS,
    DamagedRun,
    Record,
    Runs,
    StoredRun,
    Unreadable,
    plain_data,
    read_row,
    require,
    state_entry,
)
from smoothcruiser.store.store_file import (
    all_versions,
    open_error,
    open_to_read,
    open_to_write,
    seal,
)

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
        """The call that resumes a run, as text."""
        return f"resume({run}, store={str(self.path)!r})"

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
        self._closing.close()

    # --- writing --------------------------------------------------------------

    def begin(self, record: Record) -> int:
        """The number of a new run."""
        problem = record.problem
        row_values = (
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
        with self._transaction() as execute:
            run_number = (
                1 + execute("SELECT coalesce(max(id), 0) FROM runs").fetchone()[0]
            )
            row_seal = seal(run_number, *row_values)
            self._insert("runs", run_number, *row_values, row_seal)
        self._seals[run_number] = row_seal
        return int(run_number)

    def keep(self, run: int, shard: Shard, shard_sums: Partial) -> None:
        """Keep a finished shard; keeping it twice changes nothing."""
        *sums, score = shard_sums
        row_values = (run, shard.action, shard.index, *sums, json.dumps(score))
        row_seal = self._seal_row(run, *row_values)
        with self._transaction():
            self._insert("shards", *row_values, row_seal, otherwise="OR IGNORE")

    def keep_memory(self, run: int, data: bytes, calls: int) -> None:
        """Keep the memory of a certified search after ``calls``, in place of an older.

        Where another process has gone farther with the same run, that one is kept.
        """
        row_values = (run, calls, data)
        row_seal = self._seal_row(run, *row_values)
        with self._transaction() as execute:
            farther_query = "SELECT 1 FROM memories WHERE run = ? AND calls > ?"
            if execute(farther_query, (run, calls)).fetchone() is None:
                self._insert("memories", *row_values, row_seal, otherwise="OR REPLACE")

    def finish(self, run: int, estimate: Estimate) -> None:
        """Keep the estimate of a run."""
        row_values = (run, time.time(), estimate.to_json())
        row_seal = self._seal_row(run, *row_values)
        with self._transaction():
            self._insert("estimates", *row_values, row_seal, otherwise="OR REPLACE")

    def _insert(self, table: str, *values: Any, otherwise: str = "") -> None:
        placeholders = ", ".join("?" * len(values))
        self.connection.execute(
            f"INSERT {otherwise} INTO {table} VALUES ({placeholders})", values
        )

    def _seal_row(self, run: int, *values: Any) -> str:
        """The seal of values that belong to a run."""
        if run not in self._seals:
            self.get(run)
        return seal(self._seals[run], *values)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """One transaction; an error of the disk becomes a sentence."""
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
        run_list: list[StoredRun | DamagedRun] = []
        for (run_number,) in self._rows("SELECT id FROM runs ORDER BY id"):
            try:
                run_list.append(self.get(int(run_number)))
            except SmoothcruiserError as error:
                run_list.append(DamagedRun(int(run_number), str(error)))
        return Runs(run_list)

    def get(self, run: int) -> StoredRun:
        """The run with number ``run``, every seal of it checked."""
        run_rows = self._rows(
            f"SELECT {', '.join(COLUMNS)}, seal FROM runs WHERE id = ?", run
        )
        if not run_rows:
            newest_rows = self._rows("SELECT id FROM runs ORDER BY id DESC LIMIT 5")
            newest_runs = ", ".join(str(row[0]) for row in newest_rows)
            raise InvalidInput(
                f"The store {self.path} has no run {run}; its newest runs are "
                f"{newest_runs or 'none'}."
            )
        with self._naming_run(run):
            run_fields = read_row(run_rows[0][:-1], run_rows[0][-1])
            self._seals[run] = run_fields["seal"]
            finished_shards = self.parts(run)
            memory = self._memory(run)
            estimate, finished = self._estimate(run)
            shard_calls = sum(
                shard_sums.calls for shard_sums in finished_shards.values()
            )
            return StoredRun(
                **run_fields,
                estimate=estimate,
                finished=finished,
                shards_done=len(finished_shards),
                calls_done=shard_calls if memory is None else memory[0],
            )

    def parts(self, run: int) -> dict[tuple[int, int], Partial]:
        """The finished shards of a run."""
        finished_shards: dict[tuple[int, int], Partial] = {}
        with self._naming_run(run):
            for *row_values, row_seal in self._rows(
                "SELECT run, action, shard, draws, total, square, calls, score, seal "
                "FROM shards WHERE run = ?",
                run,
            ):
                self._check_seal(row_seal, row_values)
                _, action, shard, num_draws, total, square, calls, score_text = (
                    row_values
                )
                are_whole = all(map(is_whole, (action, shard, num_draws, calls)))
                require(are_whole and calls >= 0, "counts")
                require(isinstance(total, float), "sum")
                require(isinstance(square, float), "sum of squares")
                score = plain_data(score_text, "score")
                require(isinstance(score, list), "score")
                finished_shards[action, shard] = Partial(
                    num_draws, total, square, calls, tuple(score)
                )
        return finished_shards

    def memory(self, run: int) -> bytes | None:
        """The last memory kept of a certified search; None if there is none."""
        with self._naming_run(run):
            memory_row = self._memory(run)
        return None if memory_row is None else memory_row[1]

    def _memory(self, run: int) -> tuple[int, bytes] | None:
        for *row_values, row_seal in self._rows(
            "SELECT run, calls, data, seal FROM memories WHERE run = ?", run
        ):
            self._check_seal(row_seal, row_values)
            _, calls, data = row_values
            require(isinstance(calls, int) and calls >= 0, "number of calls")
            require(isinstance(data, bytes), "memory")
            return calls, data
        return None

    def _estimate(self, run: int) -> tuple[dict[str, Any] | None, float | None]:
        for *row_values, row_seal in self._rows(
            "SELECT run, finished, estimate, seal FROM estimates WHERE run = ?", run
        ):
            self._check_seal(row_seal, row_values)
            _, finished, estimate_text = row_values
            estimate = plain_data(estimate_text, "estimate")
            require(isinstance(finished, float), "time of its end")
            require(isinstance(estimate, dict), "estimate")
            return estimate, finished
        return None, None

    def _check_seal(self, row_seal: Any, values: list[Any]) -> None:
        """Refuse values that their seal does not fit."""
        if self._seal_row(values[0], *values) != row_seal:
            raise Unreadable("a seal does not fit")

    def _rows(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self.connection.execute(text, values).fetchall()
        except (sqlite3.Error, MemoryError, OverflowError, UnicodeError) as error:
            raise open_error(self.path, "read", error) from error

    @contextmanager
    def _naming_run(self, run: int) -> Iterator[None]:
        """Say which run cannot be read, and why."""
        try:
            yield
        except Unreadable as error:
            raise InvalidInput(
                f"Run {run} of {self.path} is damaged ({error}) and was left "
                "untouched; start it anew."
            ) from error
