"""A store as a file: what is opened, what is refused before anything is written.

A file is read first, through a connection that cannot write: one that is not a
store, is damaged, or is of another version is left as it was. The tables have to
be exactly ours, so that a file from elsewhere brings no triggers and no views.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from smoothcruiser.errors import InvalidInput, StoreError

APPLICATION = 0x53435231  # "SCR1" in the file's header
# Version 1 kept sums of the samples themselves. Since version 2 they are of
# distances to the schedule's centre. Version 3 seals its rows. Version 4 keeps what
# the root's bound adds up.
VERSION = 4
WAIT_SECONDS = 30.0  # for another writer's transaction
MOMENT_SECONDS = 1.0  # for another process that makes the store

TABLES = {
    "runs": """CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    created REAL NOT NULL,
    problem TEXT NOT NULL,
    spec TEXT,
    fingerprint TEXT NOT NULL,
    state TEXT NOT NULL,
    method TEXT NOT NULL,
    plan TEXT NOT NULL,
    seed TEXT NOT NULL,
    shards INTEGER,
    executor TEXT NOT NULL,
    versions TEXT NOT NULL,
    seal TEXT NOT NULL
)""",
    "shards": """CREATE TABLE shards (
    run INTEGER NOT NULL REFERENCES runs(id),
    action INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    draws INTEGER NOT NULL,
    total REAL NOT NULL,
    square REAL NOT NULL,
    calls INTEGER NOT NULL,
    score TEXT NOT NULL,
    seal TEXT NOT NULL,
    PRIMARY KEY (run, action, shard)
) WITHOUT ROWID""",
    "memories": """CREATE TABLE memories (
    run INTEGER PRIMARY KEY REFERENCES runs(id),
    calls INTEGER NOT NULL,
    data BLOB NOT NULL,
    seal TEXT NOT NULL
)""",
    "estimates": """CREATE TABLE estimates (
    run INTEGER PRIMARY KEY REFERENCES runs(id),
    finished REAL NOT NULL,
    estimate TEXT NOT NULL,
    seal TEXT NOT NULL
)""",
}


def open_to_write(path: Path) -> sqlite3.Connection:
    """A connection that may write; the file is made where there is none."""
    if _exists(path):
        _refuse_journal(path)
        _check(path)
    elif os.path.lexists(_beside(path, "-wal")) and not _exists(path):
        raise InvalidInput(
            f"There is no store {path}, but its write-ahead log {_beside(path, '-wal')} "
            "is there, which was left untouched; put the store beside it, or give "
            "another file to --store."
        )
    else:
        _refuse_journal(path)
    with _refusing(path, "opened"):
        connection = _connect(path, "rwc")
        try:
            _create(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def open_to_read(path: Path) -> tuple[sqlite3.Connection, contextlib.ExitStack]:
    """A connection that cannot write, and what is to be closed after it.

    SQLite reads the write-ahead log of a killed run only if it can make an index
    beside it. Where the folder is read-only, a copy is read.
    """
    if not _exists(path):
        raise _empty(path)
    _refuse_journal(path)
    stack = contextlib.ExitStack()
    try:
        if not _check(path):
            raise _empty(path)
        return _connect(path, "ro"), stack
    except StoreError:
        if os.access(path.parent, os.W_OK):
            raise
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        copy = _copied(path, Path(folder))
        try:
            if not _check(copy, shown=path):
                raise _empty(path)
            return _connect(copy, "ro"), stack
        except BaseException:
            stack.close()
            raise


def _empty(path: Path) -> InvalidInput:
    return InvalidInput(
        f"The store {path} does not exist or is empty; give the file of a plan that "
        "ran with store=, and if it was copied, its -wal file too."
    )


def _copied(path: Path, folder: Path) -> Path:
    copy = folder / "store"
    try:
        shutil.copyfile(path, copy)
        log = _beside(path, "-wal")
        if log.exists():
            shutil.copyfile(log, f"{copy}-wal")
    except OSError as error:
        raise StoreError(f"The store {path} cannot be read ({error}).") from error
    return copy


def _exists(path: Path) -> bool:
    """Whether there is a file; a folder that is missing, or a folder, is refused."""
    try:
        if path.is_dir():
            raise InvalidInput(
                f"{path} is a folder; give the name of a file to store=."
            )
        if not path.parent.is_dir():
            raise InvalidInput(
                f"The folder {path.parent} for the store does not exist; make it, "
                "or give another file to store=."
            )
        return path.exists() and path.stat().st_size > 0
    except OSError as error:  # a name that is too long, a folder that is closed to us
        raise InvalidInput(
            f"The store {path} cannot be opened ({error.strerror}); give another file "
            "to store=."
        ) from error


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection by a quoted URI, so that ?, # and % in names mean themselves.

    A file without a log is read as it is, so that no log appears beside it.
    """
    still = (
        "&immutable=1" if mode == "ro" and not _beside(path, "-wal").exists() else ""
    )
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}{still}",
        uri=True,
        timeout=WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _beside(path: Path, ending: str) -> Path:
    """What SQLite keeps beside a store, or beside the file behind a link."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}{ending}")


def _refuse_journal(path: Path) -> None:
    """Refuse a store with a rollback journal: SQLite would write it into the store.

    A store keeps a write-ahead log and has a journal only for the moment in which it is
    made, perhaps by another process: that one is waited for.
    """
    journal = _beside(path, "-journal")
    end = time.monotonic() + MOMENT_SECONDS
    while os.path.lexists(journal):
        if time.monotonic() > end:
            raise InvalidInput(
                f"A rollback journal {journal} lies beside the store {path}, which has "
                "none of its own; both were left untouched: move the journal away, or "
                "give another file to --store."
            )
        time.sleep(0.01)


def _create(connection: sqlite3.Connection) -> None:
    run = connection.execute
    run("PRAGMA journal_mode = WAL")
    # Safe against a killed process. A power cut may cost the last shards, but never
    # the file.
    run("PRAGMA synchronous = NORMAL")
    run("BEGIN IMMEDIATE")
    if run("PRAGMA user_version").fetchone()[0] == 0:
        for statement in TABLES.values():
            run(statement)
        run(f"PRAGMA application_id = {APPLICATION}")
        run(f"PRAGMA user_version = {VERSION}")
    run("COMMIT")


def _check(path: Path, shown: Path | None = None) -> bool:
    """Refuse a file that is not a whole store of this version; only read it.

    False if it has no tables yet: it is being made, or its maker was killed.
    """
    name = shown or path
    with (
        _refusing(name, "read"),
        closing(_connect(path, "ro")) as connection,
    ):
        run = connection.execute
        application = run("PRAGMA application_id").fetchone()[0]
        version = run("PRAGMA user_version").fetchone()[0]
        schema = run("SELECT name, sql FROM sqlite_master WHERE sql NOTNULL").fetchall()
        faults = run("PRAGMA integrity_check(1)").fetchone()[0]
        with path.open("rb") as file:
            formats = file.read(20)[18:]  # 1, or 2 with a write-ahead log
    if (application, version, schema) == (0, 0, []):
        return False
    if application != APPLICATION:
        raise InvalidInput(
            f"{name} is a database of another program; it was left untouched: give "
            "another file to store=."
        )
    if 0 < version < VERSION:
        raise InvalidInput(
            f"{name} was written by an older smoothcruiser (store version {version}, "
            f"this one reads {VERSION}) and left untouched; give another file to "
            "store=, and start its runs anew."
        )
    if version > VERSION:
        raise InvalidInput(
            f"{name} was written by a newer smoothcruiser (store version {version}, "
            f"this one reads {VERSION}) and left untouched; upgrade, or give another "
            "file to store=."
        )
    if version != VERSION or dict(schema) != TABLES:
        raise damaged(name, "its tables are not those of a run store")
    if faults != "ok" or not {1, 2}.issuperset(formats):
        raise damaged(name, "its pages do not fit together")
    return True


@contextmanager
def _refusing(path: Path, what: str) -> Iterator[None]:
    """Errors of SQLite as sentences."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"The store {path} cannot be {what} ({error.strerror}); give another file "
            "to store=."
        ) from error
    except (sqlite3.Error, MemoryError, OverflowError, UnicodeError) as error:
        raise told(path, what, error) from error


def told(path: Path, what: str, error: BaseException) -> StoreError | InvalidInput:
    """What an error of SQLite means for a store that was to be opened or read."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    outside = (
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_AUTH,
    )
    if code in outside:
        return StoreError(
            f"The store {path} cannot be {what} ({error}); check the file, its folder "
            "and the room on the disk, or give another file to store=."
        )
    return damaged(path, str(error))


def damaged(path: Path, why: str) -> InvalidInput:
    """The refusal of a file that is not as it was written."""
    return InvalidInput(
        f"{path} is not a run store or is damaged ({why}); it was left untouched: "
        "give another file to store=."
    )
