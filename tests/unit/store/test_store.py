"""The run store: what is kept, what is refused, and that a stored run is the
same run.
"""

import json
import sqlite3
from dataclasses import replace
from enum import IntEnum
from pathlib import Path

import pytest

import smoothcruiser as sc
from smoothcruiser.engines.root_scores import BINS, WHOLE
from smoothcruiser.engines.shards import Partial, Shard, cut_shards
from smoothcruiser.engines.stopping_rule import stopping_rule
from smoothcruiser.methods.schedule_run import store_record
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
    monkeypatch.setattr("smoothcruiser.methods.schedule_run.REPLAYED_CALLS", 30)
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
