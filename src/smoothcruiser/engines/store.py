"""The run store: one SQLite file that survives ``kill -9`` at any moment.

It keeps runs, their schedules, every finished shard and the estimates. A run is
(problem, schedule, seed, cut). All of it is in the store as plain JSON and
numbers, and nothing is ever unpickled. A problem is kept as its spec (what
``make`` was called with) and a fingerprint; for problems without a spec the
caller passes the problem again and the fingerprint is compared. Each shard is
its own transaction in WAL mode, so readers never wait and a finished shard is
never lost. A file of a newer version, or one that is not ours, is refused
before anything is written to it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smoothcruiser.engines.shards import Partial, Shard
from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Estimate
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.kinds import kind_named
from smoothcruiser.schedule.schedule import Level, Root, Schedule

APPLICATION = 0x53435231  # "SCR1" in the file's header
# Version 1 kept sums of the samples themselves. Since version 2 they are of
# distances to the schedule's centre.
VERSION = 2
WAIT_SECONDS = 30.0  # for another writer's transaction

_SCHEMA = """
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    created REAL NOT NULL,
    problem TEXT NOT NULL,
    spec TEXT,
    fingerprint TEXT NOT NULL,
    state TEXT NOT NULL,
    schedule TEXT NOT NULL,
    seed TEXT NOT NULL,
    shards INTEGER,
    executor TEXT NOT NULL,
    versions TEXT NOT NULL,
    estimate TEXT,
    finished REAL
);
CREATE TABLE shards (
    run INTEGER NOT NULL REFERENCES runs(id),
    action INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    draws INTEGER NOT NULL,
    total REAL NOT NULL,
    square REAL NOT NULL,
    calls INTEGER NOT NULL,
    PRIMARY KEY (run, action, shard)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class StoredRun:
    """One run as the store knows it."""

    id: int
    created: float
    problem: str
    spec: dict[str, Any] | None
    fingerprint: str
    state: Any
    schedule: dict[str, Any]
    seed: int
    shards: int | None
    executor: str
    versions: dict[str, str]
    estimate: dict[str, Any] | None
    finished: float | None
    shards_done: int
    calls_done: int

    def to_dict(self) -> dict[str, Any]:
        """The run as plain data, without the table of levels."""
        plan = self.schedule
        return {
            "run": self.id,
            "created": self.created,
            "problem": self.problem,
            "state": self.state,
            "method": plan["method"],
            "epsilon": plan["epsilon"],
            "delta": plan["delta"],
            "seed": self.seed,
            "executor": self.executor,
            "num_calls": plan["num_calls"],
            "log10_calls": plan.get("log10_calls"),
            "calls_done": self.calls_done,
            "shards_done": self.shards_done,
            "status": "finished" if self.estimate is not None else "unfinished",
            "estimate": self.estimate,
            "versions": self.versions,
        }


class Store:
    """An open store; use as a context manager or ``close`` it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        _refuse_foreign(self.path)
        try:
            self.connection = sqlite3.connect(
                self.path,
                timeout=WAIT_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            self._create()
        except sqlite3.Error as error:
            raise InvalidInput(
                f"The store {self.path} cannot be opened ({error}); give another "
                "file to --store."
            ) from error

    def _create(self) -> None:
        run = self.connection.execute
        run("PRAGMA journal_mode = WAL")
        # Safe against a killed process. A power cut may cost the last shards,
        # but never the file.
        run("PRAGMA synchronous = NORMAL")
        run("BEGIN IMMEDIATE")
        if run("PRAGMA user_version").fetchone()[0] == 0:
            for statement in filter(str.strip, _SCHEMA.split(";")):
                run(statement)
            run(f"PRAGMA application_id = {APPLICATION}")
            run(f"PRAGMA user_version = {VERSION}")
        run("COMMIT")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    # --- writing --------------------------------------------------------------

    def begin(
        self,
        problem: Problem,
        schedule: Schedule,
        state: Any,
        seed: int,
        shards: int | None,
        executor: str,
    ) -> int:
        """The number of a new run."""
        row = (
            time.time(),
            problem.name,
            json.dumps(problem.spec) if problem.spec is not None else None,
            fingerprint(problem),
            _state_text(state),
            schedule.to_json(),
            str(seed),
            shards,
            executor,
            json.dumps(_versions()),
        )
        with self._changing() as connection:
            cursor = connection.execute(
                "INSERT INTO runs (created, problem, spec, fingerprint, state, "
                "schedule, seed, shards, executor, versions) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def keep(self, run: int, shard: Shard, part: Partial) -> None:
        """Keep a finished shard; keeping it twice changes nothing."""
        values = (
            run,
            shard.action,
            shard.index,
            part.draws,
            part.total,
            part.square,
            part.calls,
        )
        with self._changing() as connection:
            connection.execute(
                "INSERT OR IGNORE INTO shards VALUES (?, ?, ?, ?, ?, ?, ?)", values
            )

    def finish(self, run: int, estimate: Estimate) -> None:
        """Keep the estimate of a run."""
        with self._changing() as connection:
            connection.execute(
                "UPDATE runs SET estimate = ?, finished = ? WHERE id = ?",
                (estimate.to_json(), time.time(), run),
            )

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield self.connection
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    # --- reading --------------------------------------------------------------

    def runs(self) -> list[StoredRun]:
        """All runs, oldest first."""
        return [
            self.get(int(row[0]))
            for row in self.connection.execute(
                "SELECT id FROM runs ORDER BY id"
            ).fetchall()
        ]

    def get(self, run: int) -> StoredRun:
        """The run with number ``run``."""
        row = self.connection.execute(
            "SELECT id, created, problem, spec, fingerprint, state, schedule, seed, "
            "shards, executor, versions, estimate, finished "
            "FROM runs WHERE id = ?",
            (run,),
        ).fetchone()
        if row is None:
            known = [
                str(r[0])
                for r in self.connection.execute(
                    "SELECT id FROM runs ORDER BY id DESC LIMIT 5"
                ).fetchall()
            ]
            raise InvalidInput(
                f"The store {self.path} has no run {run}; its newest runs are "
                f"{', '.join(known) or 'none'}."
            )
        done = self.connection.execute(
            "SELECT count(*), coalesce(sum(calls), 0) FROM shards WHERE run = ?", (run,)
        ).fetchone()
        spec, estimate = (
            json.loads(text) if text is not None else None for text in (row[3], row[11])
        )
        state, schedule, versions = (
            json.loads(text) for text in (row[5], row[6], row[10])
        )
        seed, shards, executor, finished = int(row[7]), row[8], row[9], row[12]
        return StoredRun(
            row[0],
            row[1],
            row[2],
            spec,
            row[4],
            _as_state(state),
            schedule,
            seed,
            shards,
            executor,
            versions,
            estimate,
            finished,
            *done,
        )

    def parts(self, run: int) -> dict[tuple[int, int], Partial]:
        """The finished shards of a run."""
        rows = self.connection.execute(
            (
                "SELECT action, shard, draws, total, square, calls FROM shards WHERE "
                "run = ?"
            ),
            (run,),
        )
        return {
            (action, shard): Partial(draws, total, square, calls)
            for action, shard, draws, total, square, calls in rows
        }


def schedule_from(data: dict[str, Any], problem: Problem) -> Schedule:
    """The schedule of a stored run, verified again as every schedule is when built."""
    levels = tuple(
        Level(
            kind_named(row["kind"]),
            row["samples"],
            row["query"],
            row["continuation"],
            row["constant"],
            row["shift"],
        )
        for row in data["levels"]
    )
    top = data["root"]
    root = Root(
        top["target"],
        top["samples"],
        top["child"],
        top["bound"],
        tuple(top["looks"]),
        top["adaptive_delta"],
    )
    clip = None if data["clip"] is None else (data["clip"][0], data["clip"][1])
    return Schedule(
        data["method"],
        problem.facts,
        levels,
        root,
        data["epsilon"],
        data["delta"],
        clip,
        data["delta_prime"],
    )


def fingerprint(problem: Problem) -> str:
    """Sixteen hex digits over a problem's facts and its tables or functions' code."""
    digest = hashlib.sha256(repr(problem.facts).encode())
    if problem.tables is not None:
        tables = problem.tables
        for array in (
            tables.start,
            tables.next_state,
            tables.prob,
            tables.reward,
            tables.player,
            tables.terminal,
            tables.legal,
        ):
            digest.update(np.ascontiguousarray(array).tobytes())
    else:
        for name in ("oracle", "legal", "terminal", "player"):
            digest.update(_code(getattr(problem, name, None)))
    return digest.hexdigest()[:16]


def _code(function: Any) -> bytes:
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    if code is None:
        return (
            type(function).__qualname__.encode()
            if callable(function)
            else repr(function).encode()
        )
    constants = [
        c.co_code if hasattr(c, "co_code") else repr(c).encode() for c in code.co_consts
    ]
    return b"".join([code.co_code, *constants, repr(code.co_names).encode()])


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    import numba

    return {
        "smoothcruiser": version("smoothcruiser"),
        "numba": numba.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def _state_text(state: Any) -> str:
    plain = state.tolist() if hasattr(state, "tolist") else state
    try:
        return json.dumps(plain)
    except TypeError:
        return json.dumps({"repr": repr(state)})


def _as_state(state: Any) -> Any:
    return (
        tuple(_as_state(part) for part in state) if isinstance(state, list) else state
    )


def _refuse_foreign(path: Path) -> None:
    """Refuse a file that is not a store, is damaged, or is of a newer version.

    The file is read without writing to it.
    """
    if not path.exists():
        if not path.parent.exists():
            raise InvalidInput(
                f"The folder {path.parent} for the store does not exist; make it, "
                "or give another file to --store."
            )
        return
    if path.is_file() and path.stat().st_size == 0:
        return
    try:
        with closing(
            sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=WAIT_SECONDS)
        ) as connection:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute(
                "SELECT count(*) FROM sqlite_master"
            ).fetchone()[0]
            if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("its pages do not fit together")
    except sqlite3.Error as error:
        raise InvalidInput(
            f"{path} is not a run store or is damaged ({error}); it was left "
            "untouched: give another file to --store."
        ) from error
    if application != APPLICATION and (application, version, tables) != (0, 0, 0):
        raise InvalidInput(
            f"{path} is a database of another program; it was left untouched: give "
            "another file to --store."
        )
    if 0 < version < VERSION:
        raise InvalidInput(
            f"{path} was written by an older smoothcruiser (store version {version}, "
            f"this one reads {VERSION}), whose sums mean "
            "something else, and left untouched; give another file to --store, and "
            "start its runs anew."
        )
    if version > VERSION:
        raise InvalidInput(
            f"{path} was written by a newer smoothcruiser (store version {version}, "
            f"this one reads {VERSION}) and left untouched; "
            "upgrade, or give another file to --store."
        )
