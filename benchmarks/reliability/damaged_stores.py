"""Stores that were damaged or edited: each is refused, or resumes to the same bits.

  python -m benchmarks.reliability.damaged_stores [--stores 2000] [--out FILE]

A few runs are stored whole and half done, with and without a write-ahead log. Each
case takes one of them, damages the file or edits its rows, and then lists and
resumes it in this process. The law:

  * ``runs`` and ``resume`` raise nothing but the library's own errors;
  * a resumed run has the bits of one that was never stopped;
  * a refused file is as it was, to the byte.

Rows that are edited *and sealed anew* are another run, by somebody who wanted it.
They are counted apart: nothing raw may be raised, and the certificate has to be one
of the run that the row now describes.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import shutil
import sqlite3
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.timing import commit

import smoothcruiser as sc
from smoothcruiser.store import Store
from smoothcruiser.store.store_file import seal

PROMISE = {"epsilon": "20%", "delta": 0.1, "method": "smoothcruiser"}
SIDES = ("", "-wal")  # a store and its write-ahead log


@dataclass(frozen=True)
class Base:
    """A store that is whole, and what its run ends with."""

    name: str
    folder: Path
    expected: tuple[Any, ...]


def bits(estimate: sc.Estimate) -> tuple[Any, ...]:
    """What has to be the same after a resume."""
    return (
        estimate.value,
        tuple(estimate.q_values),
        tuple(estimate.interval),
        estimate.policy,
        estimate.epsilon,
        estimate.num_calls,
    )


# --- stores that are whole ----------------------------------------------------


def bases(folder: Path) -> list[Base]:
    """Runs of several kinds, finished and half done, checkpointed or not."""
    found = []
    worlds = {
        "garnet": ("garnet:states=5,actions=2", {}),
        "games": ("random-game:states=4,actions=2", {}),
        "value": ("garnet:states=5,actions=2", {"target": "value"}),
        "terminals": ("gridworld:n=3", {}),
    }
    for name, (text, more) in worlds.items():
        problem = sc.make(text, discount=0.3, temperature=1.0)
        for half in (False, True):
            for log in (False, True):
                here = folder / f"{name}-{half}-{log}"
                here.mkdir()
                found.append(_stored(here, problem, half, log, **PROMISE, **more))
    for half in (False, True):
        here = folder / f"certified-{half}"
        here.mkdir()
        problem = sc.make("garnet:states=5,actions=2", discount=0.3, temperature=1.0)
        asked = {"epsilon": "20%", "delta": 0.1, "method": "certified"}
        found.append(_stored(here, problem, half, True, **asked))
    return found


def _stored(
    folder: Path, problem: sc.Problem, half: bool, log: bool, **asked: Any
) -> Base:
    """A store in ``folder``; ``half``: parts were lost; ``log``: as after a kill."""
    path = folder / "made.db"
    cut = {} if asked["method"] == "certified" else {"shards": 6}
    kept = sc.plan(problem, store=path, seed=3, **cut, **asked)
    with Store(path) as opened:
        if half:
            opened.connection.execute("DELETE FROM estimates")
            opened.connection.execute("DELETE FROM shards WHERE shard % 2 = 1")
        if log:  # copied while it is open, as a killed process leaves it
            _copy(path, folder / "runs.db")
    if not log:
        _copy(path, folder / "runs.db")
    return Base(folder.name, folder, bits(kept))


def _copy(path: Path, other: Path) -> None:
    for side in SIDES:
        if Path(f"{path}{side}").exists():
            shutil.copyfile(f"{path}{side}", f"{other}{side}")


# --- damage -------------------------------------------------------------------


def flip_bytes(path: Path, rng: random.Random) -> str:
    """Some bits of the file or its log change."""
    side = Path(f"{path}{rng.choice(SIDES)}")
    side = side if side.exists() and side.stat().st_size else path
    content = bytearray(side.read_bytes())
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        # headers and schemas are small, and so need a share of their own
        end = rng.choice((100, 4096, len(content)))
        content[rng.randrange(min(end, len(content)))] ^= 1 << rng.randrange(8)
    side.write_bytes(content)
    return "bits flipped"


PIECE_DAMAGES = ("cut", "zero", "copy", "add", "drop")


def damage_piece(
    content: bytearray, damage: str, place: slice, to: int, rng: random.Random
) -> None:
    """Damage a piece of a file in one of the ways of ``PIECE_DAMAGES``."""
    piece = content[place]
    if damage == "cut":
        del content[place.start :]
    elif damage == "zero":
        content[place] = bytes(len(piece))
    elif damage == "copy":
        content[to : to + len(piece)] = piece
    elif damage == "add":
        content += rng.randbytes(place.stop - place.start)
    else:
        del content[place]


def cut_blocks(path: Path, rng: random.Random) -> str:
    """A piece of the file is lost, zeroed, copied elsewhere or added."""
    side = Path(f"{path}{rng.choice(SIDES)}")
    side = side if side.exists() and side.stat().st_size else path
    content = bytearray(side.read_bytes())
    size = rng.choice((1, 100, 512, 4096))
    at, to = (rng.randrange(0, len(content), size) for _ in range(2))
    damage_piece(content, rng.choice(PIECE_DAMAGES), slice(at, at + size), to, rng)
    side.write_bytes(content)
    return "blocks lost or moved"


def edit_value(path: Path, rng: random.Random) -> str:
    """One value of one row becomes another."""
    with sqlite3.connect(path) as connection:
        table, columns, row = _some_row(connection, rng)
        column = rng.choice(columns)
        value = _other(dict(zip(columns, row, strict=True))[column], rng)
        _update(connection, table, columns, row, column, value)
    connection.close()
    return "a value edited"


def edit_json(path: Path, rng: random.Random) -> str:
    """One leaf of the JSON in a row becomes another, or a name goes."""
    with sqlite3.connect(path) as connection:
        column = rng.choice(("plan", "plan", "spec", "state", "versions"))
        text = connection.execute(f"SELECT {column} FROM runs").fetchone()[0]
        edited = _other_json(json.loads(text), rng)
        connection.execute(f"UPDATE runs SET {column} = ?", (json.dumps(edited),))
    connection.close()
    return "JSON edited"


def move_rows(path: Path, rng: random.Random) -> str:
    """Rows are deleted, copied to another key, or change places."""
    with sqlite3.connect(path) as connection:
        run = connection.execute
        rows = run("SELECT action, shard FROM shards").fetchall()
        how = rng.choice(("delete", "copy", "swap", "run", "memory", "estimate"))
        if how == "delete" and rows:
            action, shard = rng.choice(rows)
            run("DELETE FROM shards WHERE action = ? AND shard = ?", (action, shard))
        elif how in ("copy", "swap") and len(rows) > 1:
            one, other = rng.sample(rows, 2)
            if how == "copy":
                run("DELETE FROM shards WHERE action = ? AND shard = ?", other)
            else:
                run(
                    "UPDATE shards SET action = -1 WHERE action = ? AND shard = ?",
                    other,
                )
            run(
                "UPDATE shards SET action = ?, shard = ? WHERE action = ? AND shard = ?",
                (*other, *one),
            )
            run("UPDATE shards SET action = ?, shard = ? WHERE action = -1", one)
        elif how == "run":
            run("UPDATE runs SET id = 2")
            run(
                "INSERT INTO runs SELECT 1, created, problem, spec, fingerprint, state, "
                "method, plan, seed, shards, executor, versions, seal FROM runs"
            )
        else:
            run(f"DELETE FROM {'memories' if how == 'memory' else 'estimates'}")
    connection.close()
    return "rows moved or lost"


def edit_schema(path: Path, rng: random.Random) -> str:
    """Tables, columns, triggers, views and numbers in the header change."""
    statement = rng.choice(
        (
            "DROP TABLE shards",
            "DROP TABLE estimates",
            "DROP TABLE memories",
            "ALTER TABLE shards ADD COLUMN more INTEGER",
            "ALTER TABLE runs RENAME COLUMN seed TO seeds",
            "ALTER TABLE shards RENAME TO parts",
            "CREATE INDEX fast ON shards (calls)",
            "CREATE VIEW all_runs AS SELECT * FROM runs",
            "CREATE TRIGGER t AFTER INSERT ON shards BEGIN UPDATE shards SET total = 0; "
            "END",
            f"PRAGMA user_version = {rng.choice((0, 1, 2, 4, -1, 2**31 - 1))}",
            f"PRAGMA application_id = {rng.choice((0, 1, 2**31 - 1))}",
        )
    )
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    return "schema edited"


def seal_anew(path: Path, rng: random.Random) -> str:
    """A value of a row is edited, and its seal made to fit."""
    with sqlite3.connect(path) as connection:
        table, columns, row = _some_row(connection, rng)
        names = [name for name in columns if name not in ("seal", "id", "run")]
        column = rng.choice(names)
        values = dict(zip(columns, row, strict=True))
        if column in ("plan", "spec", "state", "versions", "fingerprint", "estimate"):
            edited = _other_json(json.loads(values[column]), rng)
            values[column] = json.dumps(edited)
        else:
            values[column] = _other(values[column], rng)
        run_seal = connection.execute("SELECT seal FROM runs").fetchone()[0]
        fields = [values[name] for name in columns if name != "seal"]
        try:
            sealed = seal(*fields) if table == "runs" else seal(run_seal, *fields)
        except OverflowError:
            return "sealed anew"
        _update(connection, table, columns, row, column, values[column])
        where = "id" if table == "runs" else "run"
        keys = " AND action = :action AND shard = :shard" if table == "shards" else ""
        connection.execute(
            f"UPDATE {table} SET seal = :seal_new WHERE {where} = :{where}{keys}",
            values | {"seal_new": sealed},
        )
        if table == "runs":  # and the rows below it, as a forger would
            _seal_below(connection, sealed)
    connection.close()
    return "sealed anew"


def _seal_below(connection: sqlite3.Connection, run_seal: str) -> None:
    for table in ("shards", "memories", "estimates"):
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        for row in connection.execute(f"SELECT * FROM {table}").fetchall():
            fields = row[: columns.index("seal")]
            _update(connection, table, columns, row, "seal", seal(run_seal, *fields))


def _some_row(
    connection: sqlite3.Connection, rng: random.Random
) -> tuple[str, list[str], tuple[Any, ...]]:
    tables = {
        table: connection.execute(f"SELECT * FROM {table}").fetchall()
        for table in ("runs", "shards", "shards", "memories", "estimates")
    }
    table = rng.choice([name for name, rows in tables.items() if rows])
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    return table, columns, rng.choice(tables[table])


def _update(
    connection: sqlite3.Connection,
    table: str,
    columns: list[str],
    row: tuple[Any, ...],
    column: str,
    value: Any,
) -> None:
    keys = ["run", "action", "shard"] if table == "shards" else [columns[0]]
    where = " AND ".join(f"{key} = ?" for key in keys)
    found = [row[columns.index(key)] for key in keys]
    try:
        connection.execute(
            f"UPDATE {table} SET {column} = ? WHERE {where}", (value, *found)
        )
    except (sqlite3.IntegrityError, OverflowError):
        connection.execute(f"DELETE FROM {table} WHERE {where}", found)


def _other(value: Any, rng: random.Random) -> Any:
    """Another value: near, of another sign, size or type."""
    odd = [0, -1, 1, 2**62, -(2**62), 0.5, -0.0, 1e308, float("inf"), "", "x", b"\x00"]
    if isinstance(value, bool) or not isinstance(value, int | float | str | bytes):
        return rng.choice(odd)
    if isinstance(value, int):
        near = [
            value + 1,
            value - 1,
            -value,
            2 * value,
            float(value) + 0.5,
            str(value),
        ]
        return rng.choice(near + odd)
    if isinstance(value, float):
        (bits_of,) = struct.unpack("<q", struct.pack("<d", value))
        (next_to,) = struct.unpack("<d", struct.pack("<q", bits_of ^ 1))
        near = [next_to, -value, value * 1.5, value + 1.0, value / 3.0, int(value)]
        return rng.choice(near + odd) if value == value else 0.0
    if isinstance(value, str):
        near_text = [value[:-1], value[1:], value.upper(), f"{value} ", value[::-1]]
        return rng.choice([*near_text, "\x1b[31m", "{" * 2000, "1" * 5000, None])
    content = bytearray(value or b"\x00")
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return rng.choice([bytes(content), bytes(content[:-1]), b"", value + b"\x00"])


def _other_json(data: Any, rng: random.Random) -> Any:
    """Plain data with one leaf or name changed."""
    if isinstance(data, dict) and data:
        name = rng.choice(sorted(data))
        if rng.random() < 0.1:
            return {key: value for key, value in data.items() if key != name}
        return data | {name: _other_json(data[name], rng)}
    if isinstance(data, list) and data:
        at = rng.randrange(len(data))
        if rng.random() < 0.1:
            return data[:at] + data[at + 1 :]
        return [*data[:at], _other_json(data[at], rng), *data[at + 1 :]]
    changed = _other(data, rng)
    return changed.hex() if isinstance(changed, bytes) else changed


DAMAGES: tuple[Callable[[Path, random.Random], str], ...] = (
    flip_bytes,
    flip_bytes,
    cut_blocks,
    edit_value,
    edit_value,
    edit_json,
    move_rows,
    edit_schema,
    seal_anew,
)


# --- the law ------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """What became of one damaged store."""

    damage: str
    result: str  # "refused", "the same bits", or what broke the law
    told: str = ""

    @property
    def broken(self) -> bool:
        """Whether the law was broken."""
        return self.result not in ("refused", "the same bits", "another run")


def tried(base: Base, number: int, folder: Path) -> Case:
    """One case: a copy of a store is damaged, listed and resumed."""
    rng = random.Random(number)
    path = folder / f"case-{number}.db"
    _copy(base.folder / "runs.db", path)
    damage = rng.choice(DAMAGES)(path, rng)
    content = path.read_bytes()
    try:
        with Store(path, write=False) as opened:
            listed = opened.runs()
        json.dumps([run.to_dict() for run in listed])
    except sc.SmoothcruiserError:
        pass
    except Exception as error:
        return Case(damage, f"runs: raw {type(error).__name__}", str(error))
    try:
        found = bits(sc.resume(1, path, seconds=20.0))
    except sc.SmoothcruiserError as error:
        untouched = path.read_bytes() == content
        return Case(
            damage, "refused" if untouched else "refused and written", str(error)
        )
    except Exception as error:
        return Case(damage, f"resume: raw {type(error).__name__}", str(error))
    finally:
        for side in (*SIDES, "-shm"):
            Path(f"{path}{side}").unlink(missing_ok=True)
    if found == base.expected:
        return Case(damage, "the same bits")
    return Case(damage, "another run" if damage == "sealed anew" else "OTHER BITS")


def all_cases(stores: int, folder: Path) -> list[tuple[str, Case]]:
    """Every case, with the name of its base."""
    found = bases(folder)
    return [
        (base.name, tried(base, number, folder))
        for number in range(stores)
        for base in (found[number % len(found)],)
    ]


def table(cases: list[tuple[str, Case]]) -> list[str]:
    """Counts by damage and result, as Markdown."""
    results = sorted({case.result for _, case in cases})
    counts = Counter((case.damage, case.result) for _, case in cases)
    lines = [f"| damage | {' | '.join(results)} |", "|---" * (len(results) + 1) + "|"]
    for damage in sorted({case.damage for _, case in cases}):
        row = " | ".join(str(counts[damage, result]) for result in results)
        lines.append(f"| {damage} | {row} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stores", type=int, default=2000)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        cases = all_cases(asked.stores, Path(folder))
    broken = [(name, case) for name, case in cases if case.broken]
    lines = [
        "# Damaged and edited stores",
        "",
        f"`python -m benchmarks.reliability.damaged_stores --stores {asked.stores}`, "
        f"{time.strftime('%Y-%m-%d')}, commit {commit()}, {platform.machine()}, "
        f"{time.perf_counter() - begin:.0f} s",
        "",
        *table(cases),
        "",
        f"{len(cases):,} stores, {len(broken)} broke the law (a raw exception, other "
        "bits, or a refused file that was written to). *Another run* are rows that "
        "were edited and then sealed anew, with the library's own function.",
    ]
    for name, case in broken:
        lines.append(f"- {name}: {case.damage}: {case.result}: {case.told[:200]}")
    text = "\n".join(lines) + "\n"
    print(text)
    if asked.out is not None:
        asked.out.write_text(text)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
