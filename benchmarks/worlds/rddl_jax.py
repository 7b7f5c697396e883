"""RDDL by translation against pyRDDLGym-jax: microseconds of CPU time for a step.

The translation (``adapters.rddl``) steps one state at a time, as searches do;
pyRDDLGym-jax is compiled for batches of several sizes (``vmap`` of its transition). Both
start from the initial state with its default action. It needs pyRDDLGym-jax, which
nothing else here does: pip install pyRDDLGym-jax, in an environment of its own.

Run: python -m benchmarks.worlds.rddl_jax [domain …]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pyRDDLGym.core.env import RDDLEnv
from pyRDDLGym_jax.core.compiler import JaxRDDLCompiler

import smoothcruiser as sc
from smoothcruiser.adapters.rddl.reading import domains
from smoothcruiser.jit.random.streams import stream

DOMAINS = (
    "SysAdmin_MDP_ippc2011",
    "Elevators_MDP_ippc2011",
    "Traffic_MDP_ippc2014",
    "Wildfire_MDP_ippc2014",
)
ROWS = (1, 64, 1024, 16_384)


def spent(run: Callable[[], Any], steps: int) -> float:
    """Microseconds of CPU time for a step, best of three; all threads count."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return 1e6 * best / steps


def translated(domain: str) -> float:
    """One step of ours."""
    problem = sc.make(f"rddl:{domain},1", operator="max")
    oracle, state, rng = problem.oracle, problem.initial_state, stream(1)
    return spent(lambda: [oracle(state, 0, rng) for _ in range(10_000)], 10_000)


def batched(domain: str, rows: int) -> float:
    """One row of pyRDDLGym-jax."""
    folder = domains()[domain]
    env = RDDLEnv(str(folder / "domain.rddl"), str(folder / "instance1.rddl"))
    compiler = JaxRDDLCompiler(env.model)
    compiler.compile()
    step = compiler.compile_transition()
    fluents, constants = compiler.split_fluent_nonfluent(compiler.init_values)
    actions = {name: fluents.pop(name) for name in list(env.model.action_fluents)}

    def one(key: Any, acted: Any, state: Any) -> Any:
        after, log, _ = step(
            key, acted, state, constants, compiler.model_aux["params"]
        )
        return after, log["reward"]

    def copied(x: Any) -> Any:
        return jnp.broadcast_to(jnp.asarray(x), (rows, *np.shape(x)))

    keys = jax.random.split(jax.random.key(1), rows)
    given = (keys, jax.tree.map(copied, actions), jax.tree.map(copied, fluents))
    compiled, times = jax.jit(jax.vmap(one)), max(1, 2000 // rows)
    jax.block_until_ready(compiled(*given))
    return spent(
        lambda: [jax.block_until_ready(compiled(*given)) for _ in range(times)],
        times * rows,
    )


def main() -> None:
    """Print a table."""
    print(
        f"| instance 1 of | translated | {' | '.join(f'{n:,} rows' for n in ROWS)} |"
    )
    print(f"|---|---|{'---|' * len(ROWS)}")
    for domain in sys.argv[1:] or DOMAINS:
        cells = [translated(domain), *(batched(domain, rows) for rows in ROWS)]
        print(f"| {domain} | {' | '.join(f'{x:.2f} µs' for x in cells)} |", flush=True)


if __name__ == "__main__":
    main()
