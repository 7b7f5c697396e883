"""Executors: every list has each of them, every row keeps its word; shards in pieces; tiers
of compiled code.
"""

import dataclasses
import math
import re
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numba import njit

import smoothcruiser as sc
from smoothcruiser import InvalidInput, Kind, Level, Root, Schedule
from smoothcruiser.cli.app import app
from smoothcruiser.engines import workers
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.compiled import tiers
from smoothcruiser.engines.compiled.engine import CompiledEngine
from smoothcruiser.engines.compiled.tiers import ADDRESS, INLINED
from smoothcruiser.engines.registry import (
    BATCHED,
    COMPILED,
    DASK,
    EXECUTORS,
    PYTHON,
    REFERENCE,
    choose,
    default_executor,
    machine_code,
    make_engine,
    open_workers,
)
from smoothcruiser.engines.root_scores import BINNED, BINS, Score
from smoothcruiser.engines.run import Ledger, RootSums
from smoothcruiser.engines.shards import Partial, Piece, Shard, cut_shards
from smoothcruiser.engines.workers import Turns
from smoothcruiser.errors import Interrupted
from smoothcruiser.query import Compute
from smoothcruiser.run_control.control import StopReason

ROOT = Path(__file__).resolve().parents[3]
# executors that the golden answers do not name, and why
NOT_GOLDEN = {
    "compiled": "the default of all problems there but two",
    "batched": "the default of 'spring', which is there",
    "dask": "an extra; tests/end_to_end/test_survival.py compares its bits",
}


def place(executor=None, scheduler=None):
    return Compute(executor=executor, scheduler=scheduler, workers=1)


def table():
    return sc.make("garnet:states=5,actions=2", discount=0.4, temperature=1.0)


def step(state, action, rng):
    return rng.random(), (state + action) % 3


def plain():
    return sc.MDP(
        step, num_actions=2, discount=0.4, operator=sc.Entropy(1.0), initial_state=0
    )


def job(problem):
    schedule = sc.explain(problem, epsilon="30%", delta=0.1, method="smoothcruiser")
    return Job(problem, schedule, problem.initial_state)


@pytest.mark.parametrize("name", list(EXECUTORS))
def test_every_list_of_executors_has_every_executor(name):
    help_text = CliRunner().invoke(app, ["plan", "--help"]).output
    listed = re.search(r"--executor NAME\s+(.*?)\s+\[default", help_text, flags=re.S)
    assert listed is not None
    assert name in re.findall(r"\w+", listed[1])
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/scale.md").read_text(), re.M)
    assert rows == list(EXECUTORS)
    golden = (ROOT / "tests/golden/test_answers.py").read_text()
    assert name in NOT_GOLDEN or f'"{name}"' in golden


@pytest.mark.parametrize("name", list(EXECUTORS))
def test_a_row_has_its_own_name_and_an_engine_that_declares_itself(name):
    """Kinds are declared one by one: a kind that is added to the enumeration is
    refused until an engine can run it.
    """
    row = EXECUTORS[name]
    assert row.name == name
    engine = row.engine(table())
    for attribute in ("name", "kinds", "parallel", "python"):
        assert attribute in vars(engine), attribute
    assert isinstance(engine.kinds, frozenset)
    assert engine.kinds <= set(Kind)
    assert {level.kind for level in job(table()).schedule.levels} <= engine.kinds


@pytest.mark.compiles
@pytest.mark.parametrize("name", [REFERENCE.name, PYTHON.name, BATCHED.name])
def test_same_bits_is_what_a_row_says(name):
    """A row whose bits are those of reference runs a shard to the same sums."""
    shard = cut_shards(job(table()).schedule)[0][0]
    mine = make_engine(name, job(table())).run_shard(shard, 5)
    known = make_engine(REFERENCE.name, job(table())).run_shard(shard, 5)
    assert (mine == known) is EXECUTORS[name].same_bits


def test_what_a_row_refuses_is_refused_before_it_opens():
    for name, sentence in (
        ("compiled", "The compiled executor needs a tabular problem"),
        ("batched", "The batched executor needs a step over arrays"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            open_workers(job(plain()), place(name))


def test_the_default_is_the_fastest_that_can():
    import numba

    rows = dataclasses.replace(plain(), oracle=sc.batched(step))
    machine = dataclasses.replace(plain(), oracle=numba.njit(step))
    for problem, expected in (
        (plain(), PYTHON),
        (table(), COMPILED),
        (machine, COMPILED),
        (rows, BATCHED),
    ):
        assert default_executor(problem) == expected.name
        assert choose(problem, place()) is expected


def test_an_address_chooses_the_cluster_and_nothing_else_takes_it():
    assert choose(plain(), place(scheduler="tcp://there:1")) is DASK
    assert choose(plain(), place("dask", "tcp://there:1")) is DASK
    with pytest.raises(InvalidInput, match=r"belongs to executor 'dask', got .*pytho"):
        choose(plain(), place("python", "tcp://there:1"))


def test_methods_with_two_forms_ask_the_table():
    assert machine_code(None, "Tree search") is None
    assert machine_code("compiled", "Tree search") is True
    assert machine_code("reference", "Tree search") is False
    with pytest.raises(InvalidInput, match="Tree search runs on executor 'compiled' "):
        machine_code("dask", "Tree search")


# --- shards in pieces, and what is known of a run in its middle ---------------


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


def prefix_step(state, action, rng):
    return rng.random() * (0.5 + 0.5 * rng.numpy().random()), (state + action) % 5


def problem():
    facts = {"num_actions": 2, "discount": 0.4, "operator": sc.Entropy(1.0)}
    return sc.MDP(prefix_step, initial_state=0, **facts)


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


# --- tiers of compiled code ---------------------------------------------------


@njit
def wander(state, action, rng):
    """Does what it must not in states 3 to 6, each of them rare."""
    if state == 3:
        raise ValueError("state three")
    reward = 2.0 if state == 4 else rng.random()
    return reward, state + (rng.random() < 0.01), state == 5


@njit
def scribble(state, action, rng):
    if rng.random() < 0.001:
        state[0] += 1.0
    return rng.random(), np.zeros(2)


def tier_table(problem, samples=400):
    levels = (
        Level(Kind.CONSTANT, constant=0.5),
        Level(Kind.PLUGIN, samples=4, query=0),
        Level(Kind.ROLLOUT, samples=2, query=1, continuation=1),
    )
    root = Root("q_values", samples, 2, "none")
    return Schedule("tiers", problem.facts, levels, root, math.inf, 1.0)


def mdp(step):
    return sc.MDP(step, num_actions=2, discount=0.5, operator=sc.Entropy(1.0))


def raised(problem, state, tier):
    engine = CompiledEngine(Job(problem, tier_table(problem), state), tier)
    with pytest.raises(sc.SmoothcruiserError) as error:
        engine.run_shard(Shard(0, 0, 0, 400), 1)
    return type(error.value), str(error.value)


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("step", "state", "says"),
    [
        pytest.param(wander, 2, "state three", marks=pytest.mark.slow),
        pytest.param(wander, 4, "reward 2.0", marks=pytest.mark.slow),
        pytest.param(wander, 5, "terminal=True", marks=pytest.mark.slow),
        (scribble, np.zeros(2), "array"),  # a step that writes into its state
    ],
)
def test_errors_of_the_step_are_those_of_the_inlined_machine(step, state, says):
    found = raised(mdp(step), state, ADDRESS)
    assert says in found[1]
    assert found == raised(mdp(step), state, INLINED)


@njit
def yes(state, action, rng):
    return rng.random() < 0.5, (state[0], 1 - state[1])


@pytest.mark.compiles
@pytest.mark.slow
def test_functions_that_cannot_be_called_by_address_are_left_to_the_other_machine():
    problem = mdp(yes)  # Numba has no float(bool)
    for tier in (ADDRESS, INLINED):
        with pytest.raises(sc.InvalidInput, match="could not be compiled"):
            CompiledEngine(Job(problem, tier_table(problem), (0, 1)), tier)
    asked = {"epsilon": "20%", "delta": 0.1, "seed": 0}
    assert sc.plan(problem, (0, 1), method="certified", **asked).value > 0


@pytest.mark.compiles
def test_a_stop_ends_a_shard_on_the_shared_machine():
    problem = mdp(wander)
    schedule = tier_table(problem, 1_000_000_000)
    engine = CompiledEngine(Job(problem, schedule, 7), ADDRESS)
    threading.Timer(0.3, engine.stop).start()
    with pytest.raises(Interrupted) as stop:
        engine.run_shard(Shard(0, 0, 0, 1_000_000_000), 1)
    part = stop.value.piece.part
    again = CompiledEngine(Job(problem, schedule, 7), INLINED)
    assert 0 < part.draws < 1_000_000_000
    whole = again.run_shard(Shard(0, 0, 0, part.draws), 1)
    assert (whole.total, whole.square) == (part.total, part.square)


@njit
def jump(state, action, rng):
    return rng.random(), state + 1


@pytest.mark.compiles
def test_the_prices_of_jobs_choose_the_machine_before_the_run(monkeypatch):
    problem = mdp(jump)
    price = tier_table(problem).num_calls
    monkeypatch.setattr(tiers, "_prices", Counter())
    monkeypatch.setattr(tiers, "PAYS", 2 * price)
    job = Job(problem, tier_table(problem), 0)
    engines = [CompiledEngine(job) for _ in range(2)]
    assert [engine.tier.name for engine in engines] == [ADDRESS, INLINED]
    first, second = (engine.run_shard(Shard(0, 0, 0, 50), 3) for engine in engines)
    assert first == second


@njit
def widen(state, action, rng):
    return rng.random(), 0.5 * state


@njit(fastmath=True)
def hurried(x):
    return x * x + 0.25 * x


@njit
def careless(state, action, rng):
    return 0.5 * hurried(rng.random()), state


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize("step", [careless, widen])
def test_reordered_arithmetic_and_states_of_another_type_are_inlined_at_once(step):
    problem = mdp(step)
    engine = CompiledEngine(Job(problem, tier_table(problem), 1), ADDRESS)
    assert engine.tier.name == INLINED
    assert engine.run_shard(Shard(0, 0, 0, 4), 1).draws == 4


@pytest.mark.compiles
def test_the_variable_names_a_machine(monkeypatch):
    problem = mdp(jump)
    monkeypatch.setenv(tiers.VARIABLE, ADDRESS)
    engine = CompiledEngine(Job(problem, tier_table(problem), 0))
    assert engine.tier.name == ADDRESS
    monkeypatch.setenv(tiers.VARIABLE, "quick")
    with pytest.raises(sc.InvalidInput, match=r"SMOOTHCRUISER_TIER.*'quick'"):
        CompiledEngine(Job(problem, tier_table(problem), 0))
