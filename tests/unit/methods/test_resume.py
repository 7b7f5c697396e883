"""Stored runs: schedules and memories that are resumed."""

import sys
import textwrap

import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified import query_progress, sample_batches
from smoothcruiser.methods.schedules.schedule_run import store_record
from smoothcruiser.query import Query
from smoothcruiser.store import Store

pytestmark = pytest.mark.compiles


def problem():
    return sc.make("chain:n=3", discount=0.3, temperature=1.0)


def stopped(path, executor):
    """A run that was stored and never finished: its first shards alone are kept."""
    schedule = sc.explain(problem(), epsilon=0.1, delta=0.1)
    with Store(path) as store:
        query = Query.of(problem(), seed=5, shards=4, executor=executor)
        return store.begin(store_record(query, schedule))


SOURCES = "smoothcruiser.store.store_file.sources_hash"


@pytest.mark.parametrize(
    ("before", "now", "edited", "words"),
    [
        ("batched", {"executor": "reference"}, {}, "started with executor 'batched'"),
        ("compiled", {"executor": "batched"}, {}, "started with executor 'compiled'"),
        ("compiled", {"state": 1}, {}, "started at state 0, got 1"),
        ("compiled", {}, {"numpy.__version__": "0.1"}, "with NumPy .*here: 0.1"),
        ("compiled", {}, {SOURCES: lambda: "edited"}, "smoothcruiser's sources"),
    ],
)
def test_what_may_change_bits_is_refused(
    tmp_path, monkeypatch, before, now, edited, words
):
    """Other streams, shards of another state, other versions, one line of ours."""
    number = stopped(tmp_path / "runs.db", before)
    for name, value in edited.items():
        monkeypatch.setattr(name, value)
    with pytest.raises(sc.InvalidInput, match=words):
        sc.resume(number, tmp_path / "runs.db", **now)


@pytest.mark.parametrize("now", ["reference", "python", None])
def test_executors_of_one_family_resume_each_other(tmp_path, now):
    path = tmp_path / "runs.db"
    answer = sc.resume(stopped(path, "compiled"), path, executor=now, state=0)
    schedule = sc.explain(problem(), epsilon=0.1, delta=0.1)
    whole = sc.run(problem(), schedule, seed=5, shards=4, executor="reference")
    assert answer.q_values == whole.q_values


def test_a_run_that_names_a_cluster_is_stored_with_its_executor(tmp_path, monkeypatch):
    """The address alone chooses dask; the store has to remember that."""

    def unreachable(*_):
        raise sc.SmoothcruiserError("no cluster there")

    monkeypatch.setattr("smoothcruiser.engines.registry.open_workers", unreachable)
    path = tmp_path / "runs.db"
    asked = {"scheduler": "tcp://127.0.0.1:1", "store": path}
    with pytest.raises(sc.SmoothcruiserError):
        sc.plan(problem(), method="smoothcruiser", epsilon=0.1, delta=0.1, **asked)
    with Store(path) as store:
        assert store.get(1).executor == "dask"


WORLD = """
import smoothcruiser as sc

print("the module is imported")
GAIN = 0.5

def step(state, action, rng):
    return GAIN * rng.random(), 1 - state

problem = sc.MDP(
    step, num_actions=2, discount=0.2, operator=sc.Entropy(1.0), initial_state=0
)
"""


@pytest.fixture
def world(tmp_path, monkeypatch):
    """The file of a module with a problem, which can be imported."""
    file = tmp_path / "resumed_world.py"
    file.write_text(textwrap.dedent(WORLD))
    monkeypatch.syspath_prepend(tmp_path)
    yield file
    sys.modules.pop("resumed_world", None)


def test_a_module_is_imported_only_with_trust(world, tmp_path, capsys):
    """Whoever sends a store names the module; nothing of it may run unasked."""
    path = tmp_path / "runs.db"
    promise = {"epsilon": "20%", "delta": 0.1, "method": "smoothcruiser"}
    kept = sc.plan(sc.make("resumed_world:problem"), store=path, **promise)
    del sys.modules["resumed_world"]
    capsys.readouterr()
    with pytest.raises(sc.InvalidInput, match=r"import and run the module 'resumed_w"):
        sc.resume(1, path)
    with Store(path, write=False) as store:
        assert store.runs()[0].to_dict()["problem"] == "resumed_world:problem"
    assert capsys.readouterr().out == ""
    assert sc.resume(1, path, trust=True).q_values == kept.q_values
    assert capsys.readouterr().out == "the module is imported\n"


# --- memories in stores -------------------------------------------------------


GARNET = "garnet:states=40,actions=2,branching=5"
ASKED = {"method": "certified", "epsilon": 0.5, "delta": 0.1, "seed": 3}


def memory_problem():
    return sc.make(GARNET, discount=0.8, temperature=0.1)


def step(state, action, rng):
    u = rng.random()
    return u if action else 0.5 * u, ((state[0] + int(4 * u)) % 9,)


def plain():
    return mdp(step, discount=0.7, operator=sc.Max(), initial_state=(0,))


def bits(estimate):
    return (
        estimate.value,
        estimate.certificate,
        estimate.q_values,
        estimate.num_calls,
    )


def test_a_finished_run_is_kept_and_answers_again(tmp_path):
    """With and without a store, and resumed: one answer. It is listed as finished."""
    store = tmp_path / "store.db"
    free = sc.plan(memory_problem(), **ASKED)
    kept = sc.plan(memory_problem(), **ASKED, store=store)
    assert bits(kept) == bits(free)
    assert bits(sc.resume(kept.run, store)) == bits(free)
    with Store(store, write=False) as opened:
        row = opened.get(1).to_dict()
    assert (row["status"], row["method"]) == ("finished", "certified")
    assert (row["epsilon"], row["delta"]) == (0.5, 0.1)
    assert row["calls_done"] >= free.num_calls


def test_a_stop_by_the_clock_costs_no_bit(tmp_path):
    """seconds= ends a search anywhere, many times; the last session ends with the
    bits of one that had the time.
    """
    store = tmp_path / "store.db"
    asked = ASKED | {"epsilon": 0.15}
    whole = sc.plan(plain(), **asked)
    part = sc.plan(plain(), **asked, seconds=1e-3, store=store)
    stops = 0
    while part.epsilon > 0.15 and stops < 8:
        assert "go on with resume(1" in " ".join(part.notes)
        part = sc.resume(1, store, plain(), seconds=2e-3)
        stops += 1
    assert stops > 1
    assert bits(sc.resume(1, store, plain())) == bits(whole)


def test_a_smaller_budget_than_before_is_kept(tmp_path, monkeypatch):
    """A round that was under way is not finished beyond the new budget."""
    monkeypatch.setattr(sample_batches, "MOST_GROWTH", 1)
    store = tmp_path / "store.db"
    part = sc.plan(plain(), **ASKED | {"epsilon": 0.01}, seconds=0.05, store=store)
    found = sc.resume(1, store, plain(), budget=part.num_calls + 2)
    assert found.num_calls <= part.num_calls + 2 + 24  # the step is looked at again


def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path, monkeypatch):
    """The answer names the run, and what was saved ends with the same bits."""
    monkeypatch.setattr(query_progress, "LEAST_SAVE_SECONDS", 0.0)
    monkeypatch.setattr(query_progress, "RARELY", 0)
    store = tmp_path / "store.db"

    def pressed(report):
        if report.calls > 500:
            raise KeyboardInterrupt

    part = sc.plan(plain(), **ASKED, store=store, progress=pressed)
    assert part.notes[0].startswith(f"Stopped by hand after {part.num_calls:,} calls")
    assert "resume(1, store=" in part.notes[-1]
    with Store(store, write=False) as opened:
        assert opened.get(1).calls_done > 100
    assert bits(sc.resume(1, store, plain())) == bits(sc.plan(plain(), **ASKED))


def test_a_store_loads_as_a_memory(tmp_path):
    """A run that was stopped answers further queries, under its own delta."""
    store = tmp_path / "store.db"
    part = sc.plan(plain(), **ASKED | {"epsilon": 0.01}, budget=3_000, store=store)
    memory = sc.Certified.load(store, plain())
    assert memory.delta == 0.1
    assert memory.num_calls >= 3_000
    found = memory.query((3,), epsilon=0.9)
    assert found.delta == 0.1
    again = memory.query((0,), budget=1)  # the last sweeps of the answer are not kept
    assert again.epsilon <= 1.01 * part.epsilon


def test_what_cannot_be_loaded_is_said(tmp_path):
    """A store without a memory, another problem, a memory without a query."""
    store = tmp_path / "store.db"
    easy = sc.make("chain:n=3", discount=0.2, temperature=1.0)
    sc.plan(easy, method="smoothcruiser", epsilon="20%", delta=0.1, store=store)
    with pytest.raises(sc.InvalidInput, match="no memory of certified search"):
        sc.Certified.load(store)
    with pytest.raises(sc.InvalidInput, match="has no memory"):
        sc.Certified.load(store, run=1)
    memory = sc.Certified(memory_problem(), delta=0.1)
    with pytest.raises(sc.InvalidInput, match="empty"):
        memory.save(store)
    memory.query(epsilon=1.0)
    number = memory.save(store)
    with pytest.raises(sc.InvalidInput, match=r"load it with Certified.load"):
        sc.resume(number, store)
    with pytest.raises(sc.InvalidInput, match="another problem"):
        sc.Certified.load(store, plain())
    with pytest.raises(sc.InvalidInput, match="not kept in a store"):
        sc.Agent(plain(), method="certified", epsilon=1, delta=0.1, store=store)
