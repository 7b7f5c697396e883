"""Stores: runs are kept, resumed and listed; files that are damaged, foreign or old are refused."""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from enum import IntEnum
from pathlib import Path

import pytest

import smoothcruiser as sc
from smoothcruiser.engines.root_scores import BINS, WHOLE
from smoothcruiser.engines.shards import Partial, Shard, cut_shards
from smoothcruiser.engines.stopping_rule import stopping_rule
from smoothcruiser.methods.schedules.schedule_run import store_record
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.query import Query
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.store import Store
from smoothcruiser.store.record import COLUMNS, _comparable, state_entry
from smoothcruiser.store.record_checks import check_parts, schedule_from
from smoothcruiser.store.store_file import APPLICATION, VERSION, seal

PROMISE = {"epsilon": "20%", "delta": 0.1, "method": "smoothcruiser"}


def problem(seed=0):
    return sc.make(
        f"garnet:states=5,actions=2,seed={seed}", discount=0.3, temperature=1.0
    )


def begun(store, seed=0):
    schedule = sc.explain(problem(), epsilon="20%", delta=0.1)
    return store.begin(store_record(Query.of(problem(), seed=seed), schedule))


@pytest.mark.compiles
def test_a_stored_run_is_the_same_run(tmp_path):
    """Bits, counts and intervals do not change by being stored, nor by being
    resumed after the end.
    """
    free = sc.plan(problem(), **PROMISE)
    kept = sc.plan(problem(), store=tmp_path / "runs.db", **PROMISE)
    again = sc.resume(kept.run, tmp_path / "runs.db")
    for estimate in (kept, again):
        assert (
            estimate.value,
            estimate.q_values,
            estimate.interval,
            estimate.num_calls,
        ) == (free.value, free.q_values, free.interval, free.num_calls)


def _moved(kept, store, part):
    """A shard's row with one sample moved by a bin, in all sums."""
    schedule = schedule_from(store.get(kept.run).plan, problem().facts)
    score = list(part.score)
    place = score.index(max(score[:-1]))
    score[place] -= WHOLE
    score[place + 1] += WHOLE
    total = part.total + 1.0 / stopping_rule(schedule).score.scale
    return part._replace(total=total, score=json.dumps(score))


@pytest.mark.compiles
def test_a_run_goes_on_from_the_shards_it_has(tmp_path, monkeypatch):
    """Finished shards are used as they stand, but for the cheapest, which are sampled
    again: an altered one, sealed anew, shows in the result, or is refused.
    """
    monkeypatch.setattr(
        "smoothcruiser.methods.schedules.schedule_run.REPLAYED_CALLS", 30
    )
    path = tmp_path / "runs.db"
    kept = sc.plan(problem(), store=path, shards=8, workers=1, **PROMISE)
    with Store(path) as store:
        parts = store.parts(kept.run)
        # those of shards that were drawn ahead of an early stop too
        assert sum(part.calls for part in parts.values()) == kept.calls_spent
        store.connection.execute("DELETE FROM shards WHERE shard % 2 = 1")
        assert sc.resume(kept.run, path).value == kept.value
        parts = store.parts(kept.run)
        places = sorted(parts, key=lambda place: (parts[place].calls, *place[::-1]))
        for action, shard in (places[-1], places[1]):
            altered = _moved(kept, store, parts[action, shard])
            sealed = seal(store.get(kept.run).seal, kept.run, action, shard, *altered)
            store.connection.execute(
                "UPDATE shards SET total = ?, score = ?, seal = ? "
                "WHERE shard = ? AND action = ?",
                (altered.total, altered.score, sealed, shard, action),
            )
            if (action, shard) == places[-1]:
                assert sc.resume(kept.run, path).q_values != kept.q_values
    with pytest.raises(sc.InvalidInput, match=f"shard {shard} .* taken again"):
        sc.resume(kept.run, path)


def test_a_histogram_has_to_be_one_of_the_samples():
    """Law: weights are whole, add up to the samples, and have their mean."""
    schedule = sc.explain(
        sc.make("garnet", discount=0.5, temperature=1.0), epsilon="10%", delta=0.1
    )
    rule, shard = stopping_rule(schedule), cut_shards(schedule)[0][0]
    per_sample = 1 + schedule.level_calls[schedule.root.child]
    bins = [0] * (BINS + 1)
    bins[BINS // 2] = shard.count * WHOLE
    fair = Partial(shard.count, 0.0, 0.0, shard.count * per_sample, tuple(bins))
    check_parts(rule, None, [0], {(0, 0): fair})
    moved, fewer, half = list(bins), list(bins), list[float](bins)
    moved[BINS // 2], moved[-1] = moved[BINS // 2] - WHOLE, WHOLE
    fewer[BINS // 2] -= 1
    half[BINS // 2], half[0], half[-1] = bins[BINS // 2] - 1, 0.5, 0.5
    for wrong in ((), moved, fewer, half, bins[1:]):
        with pytest.raises(sc.InvalidInput, match="sums that no run"):
            check_parts(rule, None, [0], {(0, 0): fair._replace(score=tuple(wrong))})


def randomized():
    """A problem and a schedule with corrections by chance, of some 25,000 calls."""
    world = sc.make("garnet:states=5,actions=2,seed=1", discount=0.5, temperature=1.0)
    found = compile_schedule(world.facts, epsilon=0.2, delta=0.1, adaptive=False)
    assert found.randomized
    return world, found


@pytest.mark.compiles
def test_a_randomized_run_is_kept_stopped_and_resumed(tmp_path):
    """Law: bits and counts are those of every executor, stored or not, also for a run
    that was stopped in between, whose interval held by then.
    """
    world, schedule = randomized()
    path, how = tmp_path / "runs.db", {"seed": 3, "shards": 6}
    free = sc.run(world, schedule, 0, **how)
    seen = []

    def enough(report):
        seen.append(report)
        return report.calls < free.num_calls / 3

    stopped = sc.run(
        world, schedule, 0, store=path, progress=enough, executor="python", **how
    )
    assert 0 < stopped.num_calls < free.num_calls
    low, high = stopped.interval
    assert low < float(sc.solve(world).values[0]) < high
    again = sc.resume(stopped.run, path)
    python = sc.run(world, schedule, 0, executor="python", **how)
    for other in (again, python):
        assert (other.value, other.q_values, other.interval, other.num_calls) == (
            free.value,
            free.q_values,
            free.interval,
            free.num_calls,
        )
    assert free.certificate.bound == "catoni"


def test_a_score_has_to_be_one_of_the_samples():
    """Law: |sum of psi(alpha d)| is at most alpha times the root of n sum of d^2."""
    _, schedule = randomized()
    rule, shard = stopping_rule(schedule), cut_shards(schedule)[0][0]
    alpha, n = rule.promise.moment.alpha, shard.count
    fair = Partial(n, 0.5 * n, 0.5 * n, 7 * n, (0.3 * n * alpha,))
    check_parts(rule, None, [0], {(0, 0): fair})
    for wrong in ((), (0.8 * n * alpha,), (float("nan"),), (0,)):
        with pytest.raises(sc.InvalidInput, match="sums that no run"):
            check_parts(rule, None, [0], {(0, 0): fair._replace(score=wrong)})


def test_floats_and_large_seeds_survive_exactly(tmp_path):
    part = Partial(3, 0.1 + 0.2, 1e-300, 10**15, (0.1 + 0.2, 1e-300))
    seed = 2**100 + 1
    with Store(tmp_path / "runs.db") as store:
        run = begun(store, seed)
        store.keep(run, Shard(1, 4, 0, 3), part)
        # a second time changes nothing
        store.keep(run, Shard(1, 4, 0, 3), Partial(9, 9.0, 9.0, 9))
        assert store.parts(run) == {(1, 4): part}
        assert store.get(run).seed == seed
        again = schedule_from(store.get(run).plan, problem().facts)
        assert again == sc.explain(problem(), epsilon="20%", delta=0.1)


def written_by(version=None):
    """A maker of a database that another program, or another version, has written."""

    def make(path):
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE customers (name)")
            if version is not None:
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {version}")
        connection.close()

    return make


@pytest.mark.parametrize(
    "make, sentence",
    [
        (written_by(1), "older smoothcruiser"),  # no seals, or sums of another meaning
        (written_by(VERSION + 1), "newer smoothcruiser"),
        (written_by(), "another program"),
        (lambda path: path.write_bytes(b"not a database at all" * 100), "damaged"),
        (
            lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000),
            "damaged",
        ),
    ],
)
def test_what_is_no_store_is_refused_and_left_alone(tmp_path, make, sentence):
    path = tmp_path / "runs.db"
    make(path)
    before = path.read_bytes()
    with pytest.raises(sc.InvalidInput, match=sentence):
        sc.plan(problem(), store=path, **PROMISE)
    assert path.read_bytes() == before


def test_a_missing_folder_and_a_missing_run_are_named(tmp_path):
    with pytest.raises(sc.InvalidInput, match="does not exist"):
        Store(tmp_path / "nowhere" / "runs.db")
    with pytest.raises(sc.InvalidInput, match="does not exist"):
        sc.resume(1, tmp_path / "runs.db")
    Store(tmp_path / "runs.db").close()
    with pytest.raises(sc.InvalidInput, match="no run 7"):
        sc.resume(7, tmp_path / "runs.db")


def test_a_problem_made_in_python_is_passed_again(tmp_path):
    def step(state, action, rng):
        return rng.random(), 1 - state

    def other(state, action, rng):
        return rng.random() / 2, 1 - state

    options = {
        "num_actions": 2,
        "discount": 0.2,
        "operator": sc.Entropy(1.0),
        "initial_state": 0,
    }
    mine, not_mine = sc.MDP(step, **options), sc.MDP(other, **options)
    kept = sc.plan(mine, store=tmp_path / "runs.db", **PROMISE)
    with pytest.raises(sc.InvalidInput, match="made in Python"):
        sc.resume(kept.run, tmp_path / "runs.db")
    with pytest.raises(sc.InvalidInput, match="another problem"):
        sc.resume(kept.run, tmp_path / "runs.db", not_mine)
    assert sc.resume(kept.run, tmp_path / "runs.db", mine).value == kept.value
    assert fingerprint(mine).parts != fingerprint(not_mine).parts


def test_nothing_is_unpickled():
    """A store from a stranger cannot run code: no module of it imports pickle."""
    import smoothcruiser.store as package

    for file in Path(package.__file__).parent.glob("*.py"):
        source = file.read_text()
        assert "import pickle" not in source
        assert "loads(" not in source.replace("json.loads(", "")


class Token(IntEnum):
    LOW, HIGH = 0, 1


class Blind:
    """A state whose text does not show what it holds."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Blind) and other.number == self.number

    def __hash__(self):
        return self.number


def typed(state, rng):
    return (0.1 + 0.2 * (type(state) in (list, Token))) * float(rng.random())


@pytest.mark.parametrize(
    ("initial", "asked", "kept"),
    [([0], None, True), ([0], [1], False), (Token.LOW, None, True)],
)
def test_a_state_comes_back_with_its_type(tmp_path, initial, asked, kept):
    """A list is no tuple and an enumeration no number: a step may tell them apart."""

    def step(state, action, rng):
        return typed(state, rng), initial

    world = sc.MDP(
        step,
        num_actions=2,
        discount=0.3,
        operator=sc.Entropy(1.0),
        initial_state=initial,
        key=repr,
    )
    path, promise = tmp_path / "runs.db", {"epsilon": 0.3, "delta": 0.3}
    whole = sc.plan(world, asked, method="smoothcruiser", store=path, **promise)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM shards")
    if not kept:
        with pytest.raises(sc.InvalidInput, match="pass the same state"):
            sc.resume(1, path, world)
    again = sc.resume(1, path, world, state=asked)
    assert (again.value, again.num_calls) == (whole.value, whole.num_calls)


def test_a_state_that_is_given_again_is_compared_by_what_it_holds():
    world = sc.MDP(
        lambda state, action, rng: (0.5, state),
        num_actions=2,
        discount=0.3,
        operator=sc.Entropy(1.0),
        initial_state=Blind(0),
    )
    one, same, other = (state_entry(world, Blind(number)) for number in (1, 1, 2))
    assert one == same != other
    words = [f"word {number}" for number in range(9)]
    entries = [state_entry(world, set(part)) for part in (words, words[::-1])]
    assert len({_comparable(entry) for entry in entries}) == 1


def test_what_another_process_has_found_is_not_replaced_by_less(tmp_path):
    """Two processes may resume one search; the slower one loses nothing."""
    with Store(tmp_path / "runs.db") as store:
        run = begun(store)
        for calls in (10, 30, 20):
            store.keep_memory(run, str(calls).encode(), calls)
        assert store.memory(run) == b"30"


@pytest.mark.parametrize("name", ["epsilon", "delta", "num_calls", "log10_calls"])
@pytest.mark.parametrize("value", ["x", [1], {}, True])
def test_a_plan_whose_numbers_are_none_is_damaged(tmp_path, name, value):
    """Also with a seal that fits: ``runs`` shows them."""
    with Store(tmp_path / "runs.db") as store:
        run = begun(store)
        names = ", ".join(COLUMNS)
        (row,) = store.connection.execute(f"SELECT {names} FROM runs").fetchall()
        at = COLUMNS.index("plan")
        plan = json.dumps(json.loads(row[at]) | {name: value})
        sealed = seal(*row[:at], plan, *row[at + 1 :])
        store.connection.execute("UPDATE runs SET plan = ?, seal = ?", (plan, sealed))
        (listed,) = store.runs()
        assert listed.to_dict()["status"] == "damaged"
        with pytest.raises(sc.InvalidInput, match=f"its {name} cannot be"):
            store.get(run)


def test_a_stored_state_that_is_too_deep_is_refused(tmp_path):
    """Also with a seal that fits."""
    with Store(tmp_path / "runs.db") as store:
        found = store.get(begun(store))
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(sc.InvalidInput, match="is none of its problem"):
        replace(found, state={"json": deep}).state_at(problem())


# --- the file -----------------------------------------------------------------


def file_problem():
    return sc.make("chain:n=3", discount=0.3, temperature=1.0)


def file_begun(store):
    schedule = sc.explain(file_problem(), epsilon=0.1, delta=0.1)
    return store.begin(
        store_record(Query.of(file_problem(), executor="python"), schedule)
    )


@pytest.mark.parametrize(
    "name", ["a?b.db", "a%20b.db", "a#b.db", "file:x.db", " b.db", "ü.db", "a;b'.db"]
)
def test_any_name_is_the_name_of_its_file(tmp_path, name):
    """Characters that mean something in a URI mean themselves."""
    with Store(tmp_path / name) as store:
        file_begun(store)
    with Store(tmp_path / name, write=False) as store:
        assert len(store.runs()) == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["", "  ", ":memory:", "a\0b", 3, b"x.db"])
def test_what_names_no_file_is_refused(name):
    with pytest.raises(sc.InvalidInput, match="store must be the name of a file"):
        sc.plan(file_problem(), epsilon=0.1, delta=0.1, store=name)


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
        file_begun(store)
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
        run = file_begun(store)
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
    whole = sc.plan(file_problem(), **asked)
    keep = Store.keep
    done = []

    def until_it_fails(store, run, shard, part):
        if len(done) == 3:
            store.connection.execute("PRAGMA query_only = ON")
        keep(store, run, shard, part)
        done.append(shard.index)

    monkeypatch.setattr(Store, "keep", until_it_fails)
    with pytest.raises(sc.StoreError, match=r"readonly.*resume\(1, store="):
        sc.plan(file_problem(), store=path, **asked)
    monkeypatch.undo()
    with Store(path, write=False) as store:
        assert store.get(1).shards_done == 3
    assert sc.resume(1, path).q_values == whole.q_values


def test_triggers_and_views_are_not_ours(tmp_path):
    """A store from elsewhere must not bring statements that run by themselves."""
    path = tmp_path / "runs.db"
    with Store(path) as store:
        file_begun(store)
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
        file_begun(store)
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
        file_begun(store)


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
        file_begun(store)
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
        assert file_begun(store) == 1
