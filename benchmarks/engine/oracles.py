"""Throughput of every executor on the oracle it is for.

It also shows what plain Python costs above the oracle itself.

Times are CPU seconds of this thread (other work on the machine does not count),
best of five. What is timed is one shard of a sharp schedule of a few million
calls (a few thousand for plain Python). Run: .venv/bin/python
benchmarks/engine/oracles.py [--json]
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

import smoothcruiser as sc
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.registry import make_engine
from smoothcruiser.engines.shards import Shard

PYTHON_CALLS, FAST_CALLS, REPEATS = 30_000, 3_000_000, 5
COMMON = {"num_actions": 4, "discount": 0.5, "operator": sc.Entropy(1.0)}


def tabular():
    return sc.make(
        "garnet:states=200,actions=4,branching=5", discount=0.5, temperature=1.0
    ), 0


def spring(states, actions, rng):
    """A noisy oscillator over arrays."""
    x, v = states[:, 0], states[:, 1]
    v = 0.9 * v - 0.2 * x + 0.1 * (actions - 1.5) + 0.05 * rng.standard_normal(len(x))
    x = x + 0.1 * v
    return 1.0 / (1.0 + x * x), np.stack([x, v], axis=1)


def spring_one(state, action, rng):
    x, v = state
    v = 0.9 * v - 0.2 * x + 0.1 * (action - 1.5) + 0.05 * rng.normal()
    x = x + 0.1 * v
    return 1.0 / (1.0 + x * x), (x, v)


def nothing(state, action, rng):
    """The cheapest oracle there is: what remains is the engine."""
    return 0.5, state


def spring_jax():
    import jax

    def step(state, action, key):
        x, v = state
        v = (
            0.9 * v
            - 0.2 * x
            + 0.1 * (action - 1.5)
            + 0.05 * jax.random.normal(key, dtype=x.dtype)
        )
        x = x + 0.1 * v
        return 1.0 / (1.0 + x * x), (x, v)

    return sc.MDP(sc.batched(step, backend="jax", each=True), **COMMON)


def seconds_per_call(problem, state, executor, calls, epsilon="6%"):
    """(seconds per call, calls of a shard), best of five."""
    schedule = sc.explain(problem, epsilon=epsilon, delta=0.1, method="smoothcruiser")
    engine = make_engine(executor, Job(problem, schedule, state))
    count = max(1, calls // (1 + schedule.level_calls[schedule.root.child]))
    engine.run_shard(
        Shard(0, 0, 0, max(1, count // 20)), 0
    )  # compile and touch memory
    clock = (
        time.process_time
        if executor == "batched" and getattr(problem.oracle, "kind", "") == "jax"
        else time.thread_time
    )
    best, calls_made = float("inf"), 0
    for repeat in range(REPEATS):
        begin = clock()
        calls_made = engine.run_shard(Shard(0, repeat, 0, count), 0).calls
        best = min(best, (clock() - begin) / calls_made)
    return best, calls_made


def own_seconds(step, state):
    """Seconds of the oracle alone, called in a loop."""
    from smoothcruiser.jit.random.streams import stream

    rng, best = stream(0), float("inf")
    for _ in range(REPEATS):
        begin = time.thread_time()
        for _ in range(PYTHON_CALLS):
            step(state, 0, rng)
        best = min(best, (time.thread_time() - begin) / PYTHON_CALLS)
    return best


def gym_problem(name):
    problem = sc.make(name, discount=0.5, temperature=1.0)
    return problem, problem.initial_state


def main() -> None:
    rows = []
    out = sys.stderr if "--json" in sys.argv else sys.stdout

    def add(label, executor, problem, state, calls, own=None):
        try:
            each, calls_made = seconds_per_call(problem, state, executor, calls)
        except sc.SmoothcruiserError as error:
            print(f"{label:34} {executor:10} {error}", file=out)
            return
        over = None if own is None else each - own
        rows.append(
            {
                "oracle": label,
                "executor": executor,
                "calls": calls_made,
                "seconds_per_call": each,
                "calls_a_second": 1 / each,
                "overhead": over,
            }
        )
        extra = (
            ""
            if over is None
            else f"   {1e6 * own:.2f} µs the oracle's own, {1e6 * over:.2f} µs above it"
        )
        print(
            (
                f"{label:34} {executor:10} {1e-6 / each:10.3f} "
                f"M calls/s  {1e9 * each:10.1f} ns a call{extra}"
            ),
            file=out,
            flush=True,
        )

    table, start = tabular()
    add("table, 200 states", "compiled", table, start, FAST_CALLS)
    add("table, 200 states", "batched", table, start, FAST_CALLS)
    add(
        "spring over NumPy arrays",
        "batched",
        sc.MDP(sc.batched(spring), **COMMON),
        np.zeros(2),
        FAST_CALLS,
    )
    try:
        add("spring over JAX (CPU)", "batched", spring_jax(), (0.0, 0.0), FAST_CALLS)
    except ImportError as error:
        print(f"JAX is not installed: {error}", file=out)
    plain = sc.MDP(spring_one, **COMMON)
    for executor in ("python", "reference"):
        add(
            "spring in plain Python",
            executor,
            plain,
            (0.0, 0.0),
            PYTHON_CALLS,
            own_seconds(spring_one, (0.0, 0.0)),
        )
        add(
            "nothing in plain Python",
            executor,
            sc.MDP(nothing, **COMMON),
            0,
            PYTHON_CALLS,
            own_seconds(nothing, 0),
        )
    for name in (
        "gym:CartPole-v1",
        "gym:FrozenLake-v1,access=state,reward_low=0,reward_high=1",
    ):
        try:
            add(
                name.split(",")[0] + ", set state",
                "python",
                *gym_problem(name),
                PYTHON_CALLS // 3,
            )
        except ImportError as error:
            print(f"Gymnasium is not installed: {error}", file=out)
    if "--json" in sys.argv:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
