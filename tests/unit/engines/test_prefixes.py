"""Shards in pieces, and what is known of a run in its middle."""

import threading

import pytest

import smoothcruiser as sc
from smoothcruiser.engines import workers
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.registry import make_engine
from smoothcruiser.engines.root_scores import BINNED, BINS, Score
from smoothcruiser.engines.run import Ledger, RootSums
from smoothcruiser.engines.shards import Partial, Piece, Shard
from smoothcruiser.engines.workers import Turns
from smoothcruiser.errors import Interrupted
from smoothcruiser.run_control.control import StopReason


def part(draws, total):
    return Partial(draws, total, total * total, 10 * draws)


SEGMENTS = (
    (Shard(0, 0, 0, 2), Shard(0, 1, 2, 2)),
    (Shard(0, 2, 4, 2), Shard(0, 3, 6, 2)),
)


def test_a_prefix_ends_at_the_first_shard_that_is_missing():
    """Law: shards out of order count only as far as they extend the prefix; the first
    samples of the next shard are a part of it.
    """
    ledger = Ledger(SEGMENTS, [0, 1], lambda look, tally: False)
    assert ledger.so_far() == ({0: RootSums(), 1: RootSums()}, 0)
    ledger.add(Shard(0, 1, 2, 2), part(2, 5.0))
    assert ledger.so_far()[0][0].draws == 0
    ledger.add(Shard(0, 0, 0, 2), part(2, 1.0))
    ledger.add(Shard(0, 3, 6, 2), part(1, 9.0))  # of no use without its predecessor
    ledger.add(Shard(0, 2, 4, 2), part(1, 7.0))
    ledger.add(Shard(1, 0, 0, 2), part(1, 3.0))
    found = ledger.stopped(StopReason.HAND)
    known = found.tallies[0]
    assert (known.draws, known.total) == (5, 13.0)
    assert found.tallies[1].draws == 1
    assert found.num_calls == 20 + 20 + 10 + 10


def test_an_action_that_has_stopped_keeps_its_sums():
    """Law: shards beyond the checkpoint where it stopped are not counted."""
    ledger = Ledger(SEGMENTS, [0], lambda look, tally: True)
    ledger.add(Shard(0, 2, 4, 2), part(2, 9.0))
    ledger.add(Shard(0, 0, 0, 2), part(2, 1.0))
    ledger.add(Shard(0, 1, 2, 2), part(2, 5.0))
    assert ledger.complete
    tallies, calls = ledger.so_far()
    assert (tallies[0].draws, tallies[0].look, calls) == (4, 0, 40)


def test_actions_take_turns():
    """Law: a shard that was begun waits until every action has one under way."""
    shards = [Shard(action, index, 0, 9) for index in (0, 1) for action in (0, 1)]
    turns = Turns(iter(shards), 5, abreast=2)
    order = []
    for _ in range(8):
        shard, seed, begun = next(turns)
        assert seed == 5
        order.append((shard.action, shard.index))
        done = 0 if begun is None else begun.part.draws
        if done == 0:
            turns.begun.append(Piece(shard, part(1, 0.0), (1,)))
    first, second = [(0, 0), (1, 0)], [(0, 1), (1, 1)]
    assert order == first * 2 + second * 2
    assert next(turns, None) is None


def step(state, action, rng):
    return rng.random() * (0.5 + 0.5 * rng.numpy().random()), (state + action) % 5


def problem():
    facts = {"num_actions": 2, "discount": 0.4, "operator": sc.Entropy(1.0)}
    return sc.MDP(step, initial_state=0, **facts)


PROMISE = {"epsilon": "25%", "delta": 0.1, "method": "smoothcruiser"}


@pytest.mark.compiles
def test_pieces_do_not_change_a_bit(monkeypatch):
    """Law: one sample per piece gives the bits, calls and certificate of whole shards."""
    whole = sc.plan(problem(), executor="python", **PROMISE)
    monkeypatch.setattr(workers, "PIECE_SECONDS", 0.0)
    seen = []
    pieces = sc.plan(problem(), executor="python", progress=seen.append, **PROMISE)
    assert len(seen) > 25
    for name in ("value", "interval", "num_calls", "calls_spent", "certificate"):
        assert getattr(pieces, name) == getattr(whole, name)


@pytest.mark.compiles
@pytest.mark.parametrize("executor", ["python", "reference", "compiled", "batched"])
def test_a_stopped_shard_leaves_the_sums_of_its_first_samples(executor):
    """Law: what is left is, to the last bit, a shard of so many samples (of so many
    whole batches for batched).
    """
    asked = sc.make("garnet:states=9,actions=2", discount=0.5, temperature=1.0)
    schedule = sc.explain(asked, epsilon="12%", delta=0.1)
    job = Job(asked, schedule, 0, 0.7, Score(BINNED, 2.0, BINS / 4.0))
    engine = make_engine(executor, job)
    threading.Timer(0.1, engine.stop).start()
    shard = Shard(1, 4, 0, 10**9)
    with pytest.raises(Interrupted) as stop:
        engine.run_shard(shard, 3)
    left = stop.value.piece
    assert left.shard == shard
    assert not left.whole
    again = make_engine(executor, job).run_shard(Shard(1, 4, 0, left.part.draws), 3)
    assert left.part._replace(calls=again.calls) == again
    assert 0 <= left.part.calls - again.calls < 10**6
    assert left.part.draws > 0 or executor == "batched"
