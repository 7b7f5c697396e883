"""gymnax and Pgx by name: steps per second, one by one and in batches, and their bits.

    python -m benchmarks.worlds.worlds_jax [--steps 300] [--out docs/evidence/worlds-jax.md]
        [name ...]

For each name, from a random walk of ``--steps`` steps:

  bytes        of a state, and which leaves of it the data flow leaves out
  chance       whether the step takes a key at all
  one by one   calls per second of the step of one state, as searches make them
  batched      rows per second of the step over 4,096 rows, as schedules make them
  rewards      how far rewards of a row and of a single state are apart, of the largest
               that the range allows, in units of 2**-24 (epsilon has room for 8)
  states       rows whose next state differs in a bit from that of the single state
  x64          whether the environment can be made in 64 bits

The exit code is 1 if some reward is further apart than epsilon has room for.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.timing import signed

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.problem.batched import FLOAT32_REWARDS
from smoothcruiser.problem.batched.jax import precise

NAMES = (
    "gymnax:CartPole-v1",
    "gymnax:Pendulum-v1,actions=5",
    "gymnax:Acrobot-v1",
    "gymnax:MountainCar-v0",
    "gymnax:MountainCarContinuous-v0,actions=3",
    "gymnax:Asterix-MinAtar",
    "gymnax:Breakout-MinAtar",
    "gymnax:Freeway-MinAtar",
    "gymnax:SpaceInvaders-MinAtar",
    "gymnax:Catch-bsuite",
    "gymnax:DeepSea-bsuite",
    "gymnax:FourRooms-misc",
    "gymnax:FrozenLake-misc",
    "gymnax:PointRobot-misc,actions=3",
    "gymnax:Reacher-misc,actions=3",
    "gymnax:Swimmer-misc,actions=3",
    "gymnax:Pong-misc",
    "pgx:tic_tac_toe",
    "pgx:connect_four",
    "pgx:othello",
    "pgx:hex",
    "pgx:go_9x9",
    "pgx:animal_shogi",
    "pgx:backgammon",
    "pgx:2048",
    "pgx:minatar-breakout",
)
ROWS = 4096
UNIT = 2.0**-24


@dataclass(frozen=True)
class Measured:
    """What was measured of one environment."""

    name: str
    size: int
    dropped: tuple[str, ...]
    chance: bool
    single: float  # calls per second
    batched: float  # rows per second
    apart: float  # rewards, in units of 2**-24 of the largest
    states: float  # share of rows with another next state
    wide: str  # what x64 says


def measured(name: str, steps: int) -> Measured:
    """The row of one environment."""
    problem = sc.make(name, discount=0.9, operator="max")
    oracle = problem.oracle
    walk, choice, state = [], random.Random(0), problem.initial_state
    for i in range(steps):
        action = choice.choice(problem.legal_actions(state))
        key = oracle.key(stream(i))
        paid, after = oracle(state, action, stream(i))
        walk.append((state, action, key, paid, after))
        over = problem.is_terminal(after)
        state = oracle.reset(stream(steps + i)) if over else after
    begin = time.perf_counter()
    for state, action, *_ in walk:
        oracle(state, action, stream(0))
    single = steps / (time.perf_counter() - begin)
    batched, apart, states = _rows(oracle, walk)
    largest = max(abs(x) for x in problem.reward_range)
    matter = oracle.form.matter
    return Measured(
        name,
        oracle.layout.size,
        tuple(x for i, x in enumerate(oracle.form.names) if i not in matter.leaves),
        matter.chance,
        single,
        batched,
        apart / (largest * UNIT),
        states,
        _wide(name),
    )


def _rows(oracle: Any, walk: list[Any]) -> tuple[float, float, float]:
    """(rows per second, largest difference of rewards, share of other states)."""
    index = [i % len(walk) for i in range(ROWS)]

    def one(leaves: Any, action: Any, key: Any) -> Any:
        return oracle.form.step(leaves, action, jax.random.wrap_key_data(key))

    with precise(oracle.x64):
        columns = tuple(
            jnp.asarray(np.stack([oracle.layout.array(walk[i][0], j) for i in index]))
            for j in range(len(oracle.layout.leaves))
        )
        actions = np.array([walk[i][1] for i in index], dtype=np.int32)
        keys = np.stack([walk[i][2] for i in index])
        step = jax.jit(jax.vmap(one))
        paid, after = jax.block_until_ready(step(columns, actions, keys))
        seconds = []
        for _ in range(5):
            begin = time.perf_counter()
            jax.block_until_ready(step(columns, actions, keys))
            seconds.append(time.perf_counter() - begin)
    alone = np.array([walk[i][3] for i in index])
    held = [np.asarray(column) for column in after]
    others = sum(
        b"".join(x[row].tobytes() for x in held) != walk[i][4].words
        for row, i in enumerate(index)
    )
    apart = float(np.abs(np.asarray(paid, np.float64) - alone).max())
    return ROWS / min(seconds), apart, others / ROWS


def _wide(name: str) -> str:
    try:
        problem = sc.make(f"{name},x64=true", discount=0.9, operator="max")
        problem.oracle(problem.initial_state, 0, stream(0))
    except Exception as error:
        return type(error.__cause__ or error).__name__
    return "yes"


def table(found: list[Measured] | None = None) -> list[str]:
    """The rows of the page; by default all names are measured for it."""
    if found is None:
        found = [measured(name, 300) for name in NAMES]
    lines = [
        "| name | bytes | left out | chance | one by one /s | batched /s | rewards apart "
        "| other states | x64 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for x in found:
        lines.append(
            f"| `{x.name}` | {x.size:,} | {', '.join(x.dropped) or 'nothing'} | "
            f"{'yes' if x.chance else 'no'} | {x.single:,.0f} | {x.batched:,.0f} | "
            f"{x.apart:.1f} | {100 * x.states:.0f}% | {x.wide} |"
        )
    return lines


def main() -> int:
    """Print the table, and write it where requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = []
    for name in options.names or NAMES:
        found.append(measured(name, options.steps))
        print(table(found[-1:])[-1], flush=True)
    if options.out is not None:
        packages = ("jax", "gymnax", "pgx", "gymnasium")
        versions = ", ".join(f"{x} {importlib.metadata.version(x)}" for x in packages)
        head = [
            "# gymnax and Pgx by name: speed and bits",
            "",
            f"`python {' '.join(sys.argv)}`, {versions}",
            "",
            signed(),
            "",
            f"Batches have {ROWS:,} rows. Rewards apart: the largest difference of a "
            "reward in a batch and by itself, in units of 2⁻²⁴ of the largest reward that "
            "the range allows; ε has room for 8. Other states: rows whose next state "
            "differs in its last bits from that of the single state.",
            "",
        ]
        options.out.write_text("\n".join([*head, *table(found), ""]))
    room = FLOAT32_REWARDS / UNIT
    return int(any(x.apart > room for x in found))


if __name__ == "__main__":
    sys.exit(main())
