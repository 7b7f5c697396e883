"""Names, files and disks: what a store can be kept in, and what is said otherwise."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import smoothcruiser as sc
from smoothcruiser.engines.shards import Partial, Shard
from smoothcruiser.methods.schedule_run import store_record
from smoothcruiser.query import Query
from smoothcruiser.store import Store


def problem():
    return sc.make("chain:n=3", discount=0.3, temperature=1.0)


def begun(store):
    schedule = sc.explain(problem(), epsilon=0.1, delta=0.1)
    return store.begin(store_record(Query.of(problem(), executor="python"), schedule))


@pytest.mark.parametrize(
    "name", ["a?b.db", "a%20b.db", "a#b.db", "file:x.db", " b.db", "ü.db", "a;b'.db"]
)
def test_any_name_is_the_name_of_its_file(tmp_path, name):
    """Characters that mean something in a URI mean themselves."""
    with Store(tmp_path / name) as store:
        begun(store)
    with Store(tmp_path / name, write=False) as store:
        assert len(store.runs()) == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["", "  ", ":memory:", "a\0b", 3, b"x.db"])
def test_what_names_no_file_is_refused(name):
    with pytest.raises(sc.InvalidInput, match="store must be the name of a file"):
        sc.plan(problem(), epsilon=0.1, delta=0.1, store=name)


def test_folders_and_names_that_are_too_long_are_refused(tmp_path):
    with pytest.raises(sc.InvalidInput, match="is a folder"):
        Store(tmp_path)
    with pytest.raises(sc.InvalidInput, match="cannot be opened"):
        Store(tmp_path / ("x" * 5000))


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="drops privileges")
@pytest.mark.compiles
@pytest.mark.parametrize("killed", [False, True])
def test_a_read_only_store_can_be_listed_and_not_resumed(tmp_path, killed):
    """Also one that a kill left with a write-ahead log, in a folder that is
    read-only: nothing is written beside it.
    """
    path = tmp_path / "made.db"
    with Store(path) as store:
        begun(store)
        if killed:
            for side in ("", "-wal"):
                content = Path(f"{path}{side}").read_bytes()
                Path(f"{tmp_path}/runs.db{side}").write_bytes(content)
    if not killed:
        path.rename(tmp_path / "runs.db")
    for file in tmp_path.iterdir():
        file.chmod(0o444)
    tmp_path.chmod(0o555)
    for folder in tmp_path.parents[:3]:
        folder.chmod(folder.stat().st_mode | 0o055)
    before = sorted(file.name for file in tmp_path.iterdir())
    code = (
        "import os; import smoothcruiser as sc; from smoothcruiser.store import Store\n"
        "problem = sc.make('chain:n=3', discount=0.3, temperature=1.0)\n"
        "asked = {'method': 'smoothcruiser', 'epsilon': 0.1, 'delta': 0.1}\n"
        "folder = os.path.realpath(os.path.join(os.getcwd(), '..', 'warm.db'))\n"
        "sc.plan(problem, executor='python', store=folder, **asked)\n"
        "os.setuid(65534)  # everything is imported\n"
        "with Store('runs.db', write=False) as s: print(len(s.runs()))\n"
        "try: sc.resume(1, 'runs.db')\n"
        "except sc.StoreError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.startswith("1\n"), done.stderr
    assert "cannot be" in done.stdout
    assert "runs.db" in done.stdout
    assert sorted(file.name for file in tmp_path.iterdir()) == before


def test_a_full_disk_is_a_sentence_and_keeps_what_is_there(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        run = begun(store)
        store.keep(run, Shard(0, 0, 0, 1), Partial(1, 0.5, 0.25, 3))
        store.connection.execute("PRAGMA max_page_count = 1")

        def fill():
            for index in range(1, 500):
                store.keep(run, Shard(0, index, index, 1), Partial(1, 0.5, 0.25, 3))

        with pytest.raises(sc.StoreError, match=r"cannot be written .*full"):
            fill()
        kept = store.parts(run)
        assert kept[0, 0] == Partial(1, 0.5, 0.25, 3)
        store.connection.execute("PRAGMA max_page_count = 100000")
        store.keep(run, Shard(0, 2000, 2000, 1), Partial(1, 0.5, 0.25, 3))
        assert store.parts(run) == kept | {(0, 2000): Partial(1, 0.5, 0.25, 3)}


@pytest.mark.compiles
def test_a_run_whose_store_fails_says_how_to_go_on(tmp_path, monkeypatch):
    """The finished shards are kept, and the run ends with its bits when the file can
    be written again.
    """
    path = tmp_path / "runs.db"
    asked = {"method": "smoothcruiser", "epsilon": 0.05, "delta": 0.1, "shards": 20}
    asked |= {"executor": "python", "seed": 4}
    whole = sc.plan(problem(), **asked)
    keep = Store.keep
    done = []

    def until_it_fails(store, run, shard, part):
        if len(done) == 3:
            store.connection.execute("PRAGMA query_only = ON")
        keep(store, run, shard, part)
        done.append(shard.index)

    monkeypatch.setattr(Store, "keep", until_it_fails)
    with pytest.raises(sc.StoreError, match=r"readonly.*resume\(1, store="):
        sc.plan(problem(), store=path, **asked)
    monkeypatch.undo()
    with Store(path, write=False) as store:
        assert store.get(1).shards_done == 3
    assert sc.resume(1, path).q_values == whole.q_values


def test_triggers_and_views_are_not_ours(tmp_path):
    """A store from elsewhere must not bring statements that run by themselves."""
    path = tmp_path / "runs.db"
    with Store(path) as store:
        begun(store)
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TRIGGER t AFTER INSERT ON shards BEGIN DELETE FROM runs; END"
    )
    connection.commit()
    connection.close()
    with pytest.raises(sc.InvalidInput, match="tables are not those of a run store"):
        Store(path)


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_a_link_to_a_store_leads_to_its_log_too(tmp_path):
    """What a run that is not closed has written lies in a log beside the file."""
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "real" / "runs.db")
    with Store(link) as store:
        begun(store)
        with Store(link, write=False) as reader:
            assert len(reader.runs()) == 1


def test_a_store_without_tables_is_empty(tmp_path):
    """A kill while it was made, or a copy without its log."""
    path = tmp_path / "runs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert path.stat().st_size > 0
    with pytest.raises(sc.InvalidInput, match=r"is empty; .*its -wal file"):
        Store(path, write=False)
    with Store(path) as store:
        begun(store)


def hot_journal(path, folder):
    """The journal of a writer that was killed when it emptied the runs of a store."""
    copy = folder / "copy"
    copy.write_bytes(path.read_bytes())
    writer = sqlite3.connect(copy, isolation_level=None)
    for statement in ("journal_mode = DELETE", "cache_size = 1", "synchronous = FULL"):
        writer.execute(f"PRAGMA {statement}")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("CREATE TABLE more (data)")
    for _ in range(30):  # until pages are written before the end
        writer.execute("INSERT INTO more VALUES (randomblob(4000))")
    found = (folder / "copy-journal").read_bytes()
    writer.close()
    return found


@pytest.mark.parametrize("write", [True, False])
def test_a_stale_journal_is_refused_and_nothing_is_touched(
    tmp_path, monkeypatch, write
):
    """SQLite would roll it back into the store, and remove it."""
    monkeypatch.setattr("smoothcruiser.store.store_file.MOMENT_SECONDS", 0.02)
    path, journal = tmp_path / "store", tmp_path / "store-journal"
    with Store(path) as store:
        begun(store)
    journal.write_bytes(hot_journal(path, tmp_path))
    before = path.read_bytes(), journal.read_bytes()
    with pytest.raises(sc.InvalidInput, match="left untouched: move the journal away"):
        Store(path, write=write)
    assert (path.read_bytes(), journal.read_bytes()) == before
    journal.unlink()
    with Store(path, write=write) as store:
        assert len(store.runs()) == 1


def test_a_log_without_its_store_is_refused_and_not_removed(tmp_path):
    log = tmp_path / "store-wal"
    log.write_bytes(b"what another run has written")
    with pytest.raises(sc.InvalidInput, match="put the store beside it"):
        Store(tmp_path / "store")
    assert log.read_bytes() == b"what another run has written"
    assert not (tmp_path / "store").exists()


def test_the_journal_of_a_store_that_is_being_made_is_waited_for(tmp_path):
    journal = tmp_path / "store-journal"
    journal.write_bytes(b"")
    threading.Timer(0.05, journal.unlink).start()
    with Store(tmp_path / "store") as store:
        assert begun(store) == 1
