"""A stored run is taken up only where it would end with the bits it had: the same
streams, versions, state and problem. What is not built in asks for trust.
"""

import sys
import textwrap

import pytest

import smoothcruiser as sc
from smoothcruiser.methods.schedule_run import store_record
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


def test_an_edited_problem_is_refused_and_the_edit_named(world, tmp_path):
    path = tmp_path / "runs.db"
    promise = {"epsilon": "20%", "delta": 0.1, "method": "smoothcruiser"}
    sc.plan(sc.make("resumed_world:problem"), store=path, **promise)
    del sys.modules["resumed_world"]
    world.write_text(world.read_text().replace("GAIN = 0.5", "GAIN = 0.25  #"))
    with pytest.raises(sc.InvalidInput, match=r"another problem.*GAIN"):
        sc.resume(1, path, trust=True)
