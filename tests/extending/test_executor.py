"""The recipe for an executor: one file, one row."""

import pytest
from recipes import written

import smoothcruiser as sc
from smoothcruiser.engines.registry import EXECUTORS

PROMISE = {
    "method": "smoothcruiser",
    "epsilon": "25%",
    "delta": 0.1,
    "seed": 3,
    "shards": 5,
}


@pytest.fixture
def backwards(tmp_path):
    before = dict(EXECUTORS)
    try:
        with written("An executor", tmp_path) as module:
            yield module
    finally:
        EXECUTORS.clear()
        EXECUTORS.update(before)


def step(state, action, rng):
    return rng.random(), (state + action + int(rng.integers(3))) % 5


def problem(kind=sc.MDP, **more):
    facts = {"discount": 0.4, "operator": sc.Entropy(1.0), "initial_state": 0}
    return kind(step, num_actions=2, **facts, **more)


def test_an_executor_is_one_file(backwards, monkeypatch):
    """The law of a row: same schedule, same shards, so the bits of ``reference``;
    and it was the recipe that ran them, in its own order.
    """
    indices = []
    plain = backwards.ReferenceEngine.run_shard

    def spied(engine, shard, seed):
        indices.append((shard.index, shard.action))
        return plain(engine, shard, seed)

    monkeypatch.setattr(backwards.ReferenceEngine, "run_shard", spied)
    mine = sc.plan(problem(), executor="backwards", **PROMISE)
    assert indices
    assert indices == sorted(indices, reverse=True)
    known = sc.plan(problem(), executor="reference", **PROMISE)
    assert mine.executor == "backwards"
    assert (mine.value, mine.q_values, mine.interval, mine.num_calls) == (
        known.value,
        known.q_values,
        known.interval,
        known.num_calls,
    )


def test_the_table_lists_it(backwards):
    """Whoever names an executor that does not exist is told of this one."""
    with pytest.raises(
        sc.InvalidInput, match=r"executor 'sideways'.*dask, backwards\."
    ):
        sc.plan(problem(), executor="sideways", **PROMISE)


def test_it_refuses_in_one_sentence(backwards):
    """What ``refuses`` returns is what the user reads, before anything runs."""
    game = problem(sc.Game, player=lambda state: 1 + state % 2)
    with pytest.raises(sc.InvalidInput, match=r"'backwards' runs MDPs; use executor="):
        sc.plan(game, executor="backwards", **PROMISE)
