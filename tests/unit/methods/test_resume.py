"""A stored run is resumed only by an executor that samples from the same streams."""

import pytest

import smoothcruiser as sc
from smoothcruiser.methods.scheduled import record
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
        return store.begin(record(query, schedule))


@pytest.mark.parametrize(
    ("before", "now"), [("batched", "reference"), ("compiled", "batched")]
)
def test_another_family_of_streams_is_refused(tmp_path, before, now):
    path = tmp_path / "runs.db"
    number = stopped(path, before)
    with pytest.raises(sc.InvalidInput, match=f"started with executor '{before}'"):
        sc.resume(number, path, executor=now)


@pytest.mark.parametrize("now", ["reference", "python", None])
def test_executors_of_one_family_resume_each_other(tmp_path, now):
    path = tmp_path / "runs.db"
    number = stopped(path, "compiled")
    answer = sc.resume(number, path, executor=now)
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
