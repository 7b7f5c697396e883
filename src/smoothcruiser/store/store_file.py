"""A store as a file: opening it, and refusing it before anything is written.

A file is read first, through a connection that cannot write: one that is not a
store, is damaged, or is of another version is left as it was. The tables have to
be exactly ours, so that a file from elsewhere brings no triggers and no views.

Seals: a checksum of a row's values, kept beside them.

A seal tells a row that was written whole from one that a disk, a copy or an
editor has changed. It is no signature: whoever recomputes it can forge a row, and
so a store of a stranger's is still checked for possible numbers
(``store.record_checks``) and asks before it runs anything (docs/security.md).

The versions that a run was started with: it is continued by the same, or not at all.

With others its second half would have other bits than it had.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path

from smoothcruiser.engines.base import sources_hash, versions
from smoothcruiser.errors import InvalidInput, StoreError

APPLICATION = 0x53435231  # "SCR1" in the file's header
# Version 1 kept sums of the samples themselves. Since version 2 they are of
# distances to the schedule's centre. Version 3 seals its rows. Version 4 keeps the
# sums of the root's bound.
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
    elif os.path.lexists(_companion_file(path, "-wal")) and not _exists(path):
        raise InvalidInput(
            f"There is no store {path}, but its write-ahead log "
            f"{_companion_file(path, '-wal')} is there, which was left untouched; put "
            "the store beside it, or give "
            "another file to store=."
        )
    else:
        _refuse_journal(path)
    with _sqlite_errors(path, "opened"):
        connection = _connect(path, "rwc")
        try:
            _create(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def open_to_read(path: Path) -> tuple[sqlite3.Connection, contextlib.ExitStack]:
    """A connection that cannot write, and the exit stack to close after it.

    SQLite reads the write-ahead log of a killed run only if it can make an index
    beside it. Where the folder is read-only, a copy is read.
    """
    if not _exists(path):
        raise _missing_error(path)
    _refuse_journal(path)
    exit_stack = contextlib.ExitStack()
    try:
        if not _check(path):
            raise _missing_error(path)
        return _connect(path, "ro"), exit_stack
    except StoreError:
        if os.access(path.parent, os.W_OK):
            raise
        temporary_folder = exit_stack.enter_context(tempfile.TemporaryDirectory())
        try:
            store_copy = _copy_store(path, Path(temporary_folder))
            if not _check(store_copy, shown_path=path):
                raise _missing_error(path)
            return _connect(store_copy, "ro"), exit_stack
        except BaseException:
            exit_stack.close()
            raise


def _missing_error(path: Path) -> InvalidInput:
    return InvalidInput(
        f"The store {path} does not exist or is empty; give the file of a plan that "
        "ran with store=, and if it was copied, its -wal file too."
    )


def _copy_store(path: Path, folder: Path) -> Path:
    store_copy = folder / "store"
    try:
        shutil.copyfile(path, store_copy)
        log_file = _companion_file(path, "-wal")
        if log_file.exists():
            shutil.copyfile(log_file, f"{store_copy}-wal")
    except OSError as error:
        raise StoreError(f"The store {path} cannot be read ({error}).") from error
    return store_copy


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
    immutable_flag = (
        "&immutable=1"
        if mode == "ro" and not _companion_file(path, "-wal").exists()
        else ""
    )
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}{immutable_flag}",
        uri=True,
        timeout=WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _companion_file(path: Path, ending: str) -> Path:
    """The file that SQLite keeps beside a store, or beside the file behind a link."""
    real_path = Path(os.path.realpath(path))
    return real_path.with_name(f"{real_path.name}{ending}")


def _refuse_journal(path: Path) -> None:
    """Refuse a store with a rollback journal: SQLite would write it into the store.

    A store keeps a write-ahead log and has a journal only for the moment in which it is
    made, perhaps by another process: that one is waited for.
    """
    journal = _companion_file(path, "-journal")
    deadline = time.monotonic() + MOMENT_SECONDS
    while os.path.lexists(journal):
        if time.monotonic() > deadline:
            raise InvalidInput(
                f"A rollback journal {journal} lies beside the store {path}, which has "
                "none of its own; both were left untouched: move the journal away, or "
                "give another file to store=."
            )
        time.sleep(0.01)


def _create(connection: sqlite3.Connection) -> None:
    execute = connection.execute
    execute("PRAGMA journal_mode = WAL")
    # Safe against a killed process. A power cut may cost the last shards, but never
    # the file.
    execute("PRAGMA synchronous = NORMAL")
    execute("BEGIN IMMEDIATE")
    if execute("PRAGMA user_version").fetchone()[0] == 0:
        for statement in TABLES.values():
            execute(statement)
        execute(f"PRAGMA application_id = {APPLICATION}")
        execute(f"PRAGMA user_version = {VERSION}")
    execute("COMMIT")


def _check(path: Path, shown_path: Path | None = None) -> bool:
    """Refuse a file that is not a whole store of this version; only read it.

    False if it has no tables yet: it is being made, or its maker was killed.
    """
    shown_name = shown_path or path
    with (
        _sqlite_errors(shown_name, "read"),
        closing(_connect(path, "ro")) as connection,
    ):
        execute = connection.execute
        application_id = execute("PRAGMA application_id").fetchone()[0]
        store_version = execute("PRAGMA user_version").fetchone()[0]
        table_rows = execute(
            "SELECT name, sql FROM sqlite_master WHERE sql NOTNULL"
        ).fetchall()
        integrity = execute("PRAGMA integrity_check(1)").fetchone()[0]
        with path.open("rb") as file:
            file_formats = file.read(20)[18:]  # 1, or 2 with a write-ahead log
    if (application_id, store_version, table_rows) == (0, 0, []):
        return False
    if application_id != APPLICATION:
        raise InvalidInput(
            f"{shown_name} is a database of another program; it was left untouched: "
            "give another file to store=."
        )
    if 0 < store_version < VERSION:
        raise InvalidInput(
            f"{shown_name} was written by an older smoothcruiser "
            f"(store version {store_version}, this one reads {VERSION}) and left "
            "untouched; give another file to "
            "store=, and start its runs anew."
        )
    if store_version > VERSION:
        raise InvalidInput(
            f"{shown_name} was written by a newer smoothcruiser "
            f"(store version {store_version}, this one reads {VERSION}) and left "
            "untouched; upgrade, or give another "
            "file to store=."
        )
    if store_version != VERSION or dict(table_rows) != TABLES:
        raise damage_error(shown_name, "its tables are not those of a run store")
    if integrity != "ok" or not {1, 2}.issuperset(file_formats):
        raise damage_error(shown_name, "its pages do not fit together")
    return True


@contextmanager
def _sqlite_errors(path: Path, action: str) -> Iterator[None]:
    """Errors of SQLite as sentences."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"The store {path} cannot be {action} ({error.strerror}); give another "
            "file "
            "to store=."
        ) from error
    except (sqlite3.Error, MemoryError, OverflowError, UnicodeError) as error:
        raise open_error(path, action, error) from error


def open_error(
    path: Path, action: str, error: BaseException
) -> StoreError | InvalidInput:
    """The error to raise for one of SQLite, while a store is opened or read."""
    error_code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    outside_codes = (
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_AUTH,
    )
    if error_code in outside_codes:
        return StoreError(
            f"The store {path} cannot be {action} ({error}); check the file, its "
            "folder "
            "and the room on the disk, or give another file to store=."
        )
    return damage_error(path, str(error))


def damage_error(path: Path, why: str) -> InvalidInput:
    """The refusal of a file that is not as it was written."""
    return InvalidInput(
        f"{path} is not a run store or is damaged ({why}); it was left untouched: "
        "give another file to store=."
    )


Value = None | int | float | str | bytes


def seal(*values: Value) -> str:
    """32 hex digits over values and their types."""
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        type_code, content = _encode_value(value)
        digest.update(type_code + len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def _encode_value(value: Value) -> tuple[bytes, bytes]:
    if value is None:
        return b"n", b""
    if isinstance(value, int):
        return b"i", str(value).encode()
    if isinstance(value, float):
        return b"f", struct.pack("<d", value)
    if isinstance(value, str):
        return b"s", value.encode("utf-8", "surrogatepass")
    return b"b", value


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
