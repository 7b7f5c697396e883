"""Stops and errors: a run ends soon, for one thread and two, and says what was
at fault; nothing hangs.

"Soon" is asserted on counts of oracle calls, which a busy machine cannot change.
"""

import math
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest
from engine_agreement import by_hand, engine_of, sums_of
from numba import njit

import smoothcruiser as sc
from smoothcruiser import InvalidInput, Kind, Level, OracleError
from smoothcruiser.engines.compiled.engine import CompiledEngine

HUGE = 10**13  # root draws: days of work, so a run that ends was stopped

RAISES, NOT_A_NUMBER, TOO_LARGE, ENDS, STUCK, NOBODY, RARE = range(7)


@njit
def moody(state, action, rng):
    """A walk that misbehaves in state (mood, 3), action 1."""
    mood, place = state
    after = (place + 1 + rng.integers(2)) % 5
    reward = rng.random()
    over = False
    if mood == RARE and place > 0 and reward < 1e-7:
        raise RuntimeError("one in ten million")
    if place == 3 and action == 1:
        if mood == RAISES:
            raise ValueError("broken bridge")
        if mood == NOT_A_NUMBER:
            reward = math.nan
        if mood == TOO_LARGE:
            reward = 1.5
        over = mood == ENDS
    return reward, (mood, after), over


@njit
def can_move(state, action):
    return not (state[0] == STUCK and state[1] == 3)


@njit
def moves_here(state):
    return 3 if state[0] == NOBODY and state[1] == 3 else 1 + state[1] % 2


def moody_problem(mood):
    # ``legal`` and ``player`` stay in the machine for every mood, so that all six
    # share one compilation.
    functions = {"legal": can_move, "player": moves_here}
    facts = {"num_actions": 2, "min_actions": 2, "discount": 0.5}
    facts["operator"] = sc.Entropy(1.0)
    return sc.Game(moody, initial_state=(mood, 0), **functions, **facts)


def table(problem, *, samples=2000, levels=None):
    leaf = Level(Kind.CONSTANT, constant=0.5)
    usual = leaf, Level(Kind.PLUGIN, samples=2, query=0), Level(Kind.ROLLOUT, 2, 1, 1)
    return by_hand(problem.facts, levels or usual, samples=samples)


OUTSIDE = r"action 1, outside reward_range \(0, 1\)"
FAULTS = {
    RAISES: r"raised ValueError: broken bridge at state \(0, 3\), action 1",
    NOT_A_NUMBER: rf"reward nan at state \(1, 3\), {OUTSIDE}",
    TOO_LARGE: rf"reward 1\.5 at state \(2, 3\), {OUTSIDE}",
    ENDS: r"ended the episode at state \(3, 3\), action 1, but .* no terminal states",
    STUCK: r"State \(4, 3\) has no legal action",
    NOBODY: r"player\(\(5, 3\)\) must be 1 \(max\) or 2 \(min\), got 3",
}


def test_an_error_names_the_state_and_action_at_fault(monkeypatch):
    """Six ways to misbehave, from one thread and two; the replay in plain
    Python is a small part of the shard.
    """
    replayed = []
    problem = moody_problem(RAISES)
    reference = type(engine_of("reference", problem, table(problem), (RAISES, 0)))
    original = reference.run_draws

    def noted(self, action, count, rng):
        replayed.append(count)
        return original(self, action, count, rng)

    monkeypatch.setattr(reference, "run_draws", noted)
    replays = "smoothcruiser.engines.compiled.engine.REPLAYED_CALLS"
    monkeypatch.setattr(replays, 100)
    # it would find the faults first
    monkeypatch.setattr("smoothcruiser.engines.workers.look", lambda *_, **__: (0, ()))
    for mood, message in FAULTS.items():
        problem = moody_problem(mood)
        error = InvalidInput if mood in (STUCK, NOBODY) else OracleError
        for how in (
            {"executor": "compiled", "workers": 1, "shards": 2},
            {"executor": "compiled", "workers": 2, "shards": 2},
            {"executor": "reference"},
        ):
            with pytest.raises(error, match=message):
                sc.run(problem, table(problem), **how)
    per_draw = table(moody_problem(0)).level_calls[-1] + 1
    assert max(count for count in replayed if count != 2000) * per_draw <= 100


def test_an_error_deep_inside_a_shard_is_found():
    """Millions of calls go well before the error: the machine finds the draw,
    Python replays a few around it.
    """
    problem = moody_problem(RARE)
    levels = (Level(Kind.CONSTANT), Level(Kind.BLIND, continuation=0))
    schedule = table(problem, samples=HUGE, levels=levels)
    engine = engine_of("compiled", problem, schedule, (RARE, 0))
    with pytest.raises(OracleError, match=r"one in ten million at state \(6, [12]\),"):
        sums_of(engine, 0, HUGE, seed=0)


def chain():
    return sc.make("chain:n=5", discount=0.2, temperature=1.0)


TABLES = {
    "many small draws": (Level(Kind.CONSTANT), Level(Kind.PLUGIN, samples=2, query=0)),
    "one draw of nested loops": (
        Level(Kind.CONSTANT),
        Level(Kind.PLUGIN, samples=10**4, query=0),
        Level(Kind.PLUGIN, samples=10**9, query=1),
    ),
    "one endless leaf": (
        Level(Kind.CONSTANT),
        Level(Kind.PLUGIN, samples=HUGE, query=0),
    ),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("executor", ["compiled", "reference"])
def test_a_stop_from_another_thread_ends_a_shard(name, executor):
    """Each of these shards would take days."""
    problem = chain()
    schedule = table(problem, samples=HUGE, levels=TABLES[name])
    engine = engine_of(executor, problem, schedule, 0)
    timer = threading.Timer(0.2, engine.stop)
    timer.start()
    with pytest.raises(sc.SmoothcruiserError) as error:
        sums_of(engine, 0, HUGE, seed=0)
    timer.join()
    assert type(error.value).__name__ == "Interrupted"


def test_a_time_limit_returns_what_the_samples_allow():
    """The first checkpoint comes too early, the last segment would take days; the
    answer is what the samples certify until then, which may be more than was asked.
    """
    problem = sc.make("garnet:states=9,actions=2", discount=0.2, temperature=1.0)
    whole = sc.explain(problem, epsilon=0.02, delta=0.1)
    root = replace(whole.root, samples=HUGE, looks=(whole.root.looks[0] // 2,))
    answer = sc.run(problem, replace(whole, root=root), seconds=2.0, workers=2)
    assert any("stopped by its time limit" in note for note in answer.notes)
    assert answer.num_calls <= answer.calls_spent
    low, high = answer.interval
    assert low <= sc.solve(problem).values[0] <= high
    assert high - low <= 2.0 * answer.epsilon + 1e-12
    assert answer.epsilon < whole.epsilon
    assert answer.certificate.bound == "betting"


def test_a_time_limit_before_the_first_look_is_no_error():
    """A table made by hand promises nothing: its calls are counted all the same."""
    problem = chain()
    schedule = table(problem, samples=HUGE, levels=TABLES["many small draws"])
    answer = sc.run(problem, schedule, seconds=0.5, workers=2)
    assert answer.num_calls > 0
    assert answer.interval is None


@pytest.mark.parametrize("executor", ["reference", "python"])
def test_a_stop_in_the_first_shard_uses_the_samples_before_it(executor, tmp_path):
    """Ctrl-C in the middle of the first shard: all calls are counted, the first action
    has an interval of its own, and one without samples has the range of values.
    """
    made, pressed = 0, 1000

    def step(state, action, rng):
        nonlocal made
        made += 1
        if made == pressed:
            raise KeyboardInterrupt
        return rng.random(), state

    problem = sc.MDP(
        step, num_actions=2, discount=0.5, operator=sc.Entropy(1.0), initial_state=0
    )
    schedule = sc.explain(problem, epsilon="10%", delta=0.1)
    answer = sc.run(problem, schedule, executor=executor)
    assert answer.calls_spent == made
    assert any("stopped by hand" in note for note in answer.notes)
    first, second = answer.certificate.q_intervals
    box = problem.facts.q_bounds()
    assert second == box
    assert box[0] <= first[0] < first[1] <= box[1]
    # the actions in turn, for a part of the samples
    made, pressed, store = 0, 3000, tmp_path / "runs.db"
    kept = sc.run(problem, schedule, executor=executor, shards=200, store=store)
    assert any("Finished shards are kept: go on" in note for note in kept.notes)
    assert kept.interval[1] - kept.interval[0] < 0.99 * (box[1] - box[0])
    whole = sc.run(problem, schedule, executor=executor, shards=200)
    again = sc.resume(1, store, problem)
    assert (again.value, again.interval) == (whole.value, whole.interval)


SCRIPT = """
import math, sys, threading
import smoothcruiser as sc
from smoothcruiser import Kind, Level, Root, Schedule

problem = sc.make("chain:n=5", discount=0.2, temperature=1.0)
levels = (Level(Kind.CONSTANT), Level(Kind.PLUGIN, samples={samples}, query=0))
root, first = Root("q_values", {draws}, 1, "none"), Root("q_values", 1, 0, "none")
schedule = Schedule("hand", problem.facts, levels, root, math.inf, 1.0)
sc.run(problem, Schedule("hand", problem.facts, levels[:1], first, math.inf, 1.0))
print("ready", flush=True)
answer = sc.run(problem, schedule, workers={workers}, shards={shards})
assert "stopped by hand" in answer.notes[-1], answer.notes
print("interrupted", *sorted(t.name for t in threading.enumerate()), flush=True)
"""


@pytest.mark.parametrize(
    "workers, shards, draws, samples", [(2, 8, 10**12, 2), (1, 1, 1, 10**13)]
)
def test_control_c_ends_a_run(workers, shards, draws, samples):
    """SIGINT in the main thread ends compiled shards of days, in one thread (a
    single endless draw) and in two. No thread of the run is left, but the listener for
    the second one.
    """
    script = SCRIPT.format(
        workers=workers, shards=shards, draws=draws, samples=samples
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        output, _ = child.communicate(timeout=60)
    finally:
        child.kill()
    assert output == "interrupted MainThread smoothcruiser-signals\n"
    assert child.returncode == 0


def test_control_c_while_an_engine_is_compiled_is_not_lost(monkeypatch):
    """An error in a callback of LLVM is printed and forgotten, as it is here."""
    compile_engine = CompiledEngine._warm_up

    def compile_during_control_c(engine):
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        compile_engine(engine)

    monkeypatch.setattr(CompiledEngine, "_warm_up", compile_during_control_c)
    problem = sc.make("chain:n=5", discount=0.2, temperature=10.0)
    estimate = sc.plan(
        problem, epsilon="10%", delta=0.1, method="smoothcruiser", executor="compiled"
    )
    assert any("stopped by hand" in note for note in estimate.notes)
    assert estimate.calls_spent == 0


def test_a_state_of_another_type_is_refused_with_a_remedy():
    for executor in ("compiled", "reference"):
        with pytest.raises(
            InvalidInput,
            match=r"Compiled oracles take states of numbers, tuples.* got dict",
        ):
            engine_of(executor, moody_problem(0), table(moody_problem(0)), {1: 2})
    with pytest.raises(InvalidInput, match="could not be compiled for a state of typ"):
        sc.run(moody_problem(0), table(moody_problem(0)), (0, 1, 2))
