"""Failures of whole runs of ``gap`` by paths, and of normal quantiles on the same paths.

Every run is a whole one: inspection, pilot, blocks, a refit of W at 256 paths, a stop.
It fails where any of its statements is false: V(state), the policy's value, its regret
or the value of an action outside its limits. W is the truth with errors of 20% of the
span of V, drawn anew for each run and each refit, or 0 in the worlds of jackpots. There
one action is legal, U is the return and its mean is V: nothing but the confidence
stands between the paths and a failure.

    python -m benchmarks.gap.gap_coverage --runs 1250 --out docs/evidence/gap-coverage.md
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import stats

import smoothcruiser as sc
from smoothcruiser.duality.machines.path_machines import LOOKAHEAD, build_machine
from smoothcruiser.duality.runs.path_run import GapRun
from smoothcruiser.duality.runs.path_samples import PathRequest
from smoothcruiser.progress import Phases
from smoothcruiser.query import Promise
from smoothcruiser.run_control.control import Control, Limits

DELTA = 0.1
ERROR = 0.2  # of W, in units of the span of V
STATES = 6
COLUMNS = (
    *("world", "runs", "paths", "refits", "width", "any statement fails", "V"),
    *("policy", "regret", "actions", "upper end", "normal upper end"),
    "normal interval",
)
HEADER = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"
RARE = 195  # steps between two jackpots: 4.3 among the paths of a run


@numba.njit
def table_value(table: Any, steps_left: int, state: int) -> float:
    """W of a state with a number; the last row without a horizon."""
    row = len(table) - 1 if steps_left < 0 else steps_left
    return table[row, state]


class TableCritic:
    """W as an array, by steps left and state."""

    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def __init__(self, table: Any) -> None:
        self.table = np.ascontiguousarray(table, dtype=np.float64)

    def values(self, states: Any, steps_left: int | None) -> Any:
        """W of some states."""
        row = len(self.table) - 1 if steps_left is None else steps_left
        return self.table[row, np.asarray(states, dtype=np.int64)]

    def compiled_parts(self, state_type: Any) -> Any:
        """The array and the function that reads it."""
        return table_value, self.table


class Truth(NamedTuple):
    """Exact values at state 0."""

    value: float
    policy_value: float
    q_values: Any


class CoverageWorld(NamedTuple):
    """A problem, a policy, its truth and the budget of a run."""

    name: str
    problem: Any
    policy: Any
    truth: Truth
    table: Any  # V by steps left and state
    error: float
    budget: int


@numba.njit
def pay_rarely(state: int, action: int, rng: Any) -> tuple[float, int]:
    """One in ``RARE`` steps pays 1."""
    return (1.0 if rng.random() * RARE < 1.0 else 0.0), state


def lottery_world(name: str, budget: int) -> CoverageWorld:
    """One action and one step: the two-point law at the edge of its range."""
    problem = sc.MDP(
        pay_rarely,
        num_actions=1,
        discount=1.0,
        operator=sc.Max(),
        horizon=1,
        initial_state=0,
        reward_range=(0.0, 1.0),
    )
    truth = Truth(1.0 / RARE, 1.0 / RARE, np.array([1.0 / RARE]))
    return CoverageWorld(
        name, problem, LOOKAHEAD, truth, np.zeros((2, 1)), 0.0, budget
    )


def jackpot_world(name: str, chance: float, steps: int, budget: int) -> CoverageWorld:
    """One action; a step leads to a state that pays 1 with a small chance. W is 0."""
    chances = np.zeros((STATES, 1, STATES))
    # state 1 is the jackpot: it pays 1 and leads on like state 0
    chances[:, :, 0], chances[:, :, 1] = 1.0 - chance, chance
    rewards = np.zeros((STATES, 1))
    rewards[1] = 1.0
    return _tabular_world(name, chances, rewards, 1.0, steps, 0.0, budget)


def chain_world(
    name: str, seed: int, discount: float, steps: int | None, budget: int
) -> CoverageWorld:
    """Two actions, random transitions, a rare state that pays 5."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.ones(STATES - 1), size=(STATES, 2))
    chances = np.concatenate([0.98 * chances, np.full((STATES, 2, 1), 0.02)], axis=2)
    rewards = rng.uniform(0.0, 1.0, (STATES, 2))
    rewards[-1] = 5.0
    return _tabular_world(name, chances, rewards, discount, steps, ERROR, budget)


def _tabular_world(
    name: str,
    chances: Any,
    rewards: Any,
    discount: float,
    steps: int | None,
    error: float,
    budget: int,
) -> CoverageWorld:
    num_actions = rewards.shape[1]
    problem = sc.tabular(
        chances,
        rewards,
        discount=discount,
        operator=sc.Max(),
        horizon=steps,
        initial_state=0,
    )
    rng = np.random.default_rng(len(name))
    policy = rng.dirichlet(np.ones(num_actions), size=STATES)
    rounds = 2000 if steps is None else steps
    table, own = np.zeros((rounds + 1, STATES)), np.zeros(STATES)
    q = np.zeros((STATES, num_actions))
    for left in range(1, rounds + 1):
        q = rewards + discount * chances @ table[left - 1]
        table[left] = q.max(axis=1)
        own = (policy * (rewards + discount * chances @ own)).sum(axis=1)
    truth = Truth(float(table[-1, 0]), float(own[0]), q[0])
    if steps is None:
        table = table[-1:]
    return CoverageWorld(name, problem, policy, truth, table, error, budget)


def noisy_critic(world: CoverageWorld, rng: np.random.Generator) -> TableCritic:
    """The truth with errors, or 0."""
    if world.error == 0.0:
        return TableCritic(np.zeros_like(world.table))
    span = float(np.ptp(world.table[-1]))
    noise = rng.uniform(-1.0, 1.0, world.table.shape) * world.error * span
    return TableCritic(world.table + noise)


def play_run(world: CoverageWorld, seed: int) -> dict[str, bool | float]:
    """What one whole run says, and whether it is true."""
    rng = np.random.default_rng((seed, 1))
    steps = world.problem.horizon
    critic = noisy_critic(world, rng)
    machine = build_machine(world.problem, 0, critic, world.policy, seed)
    request = PathRequest(
        world.problem,
        0,
        steps,
        critic,
        DELTA,
        Promise(delta=DELTA),
        num_lookahead=1 if world.policy is LOOKAHEAD else 0,
        # a single inner sample: U is the reward of one step, the two-point law
        num_inner=1 if world.policy is LOOKAHEAD else None,
        seed=seed,
    )

    def refit(num_paths: int) -> tuple[Any, int]:
        return noisy_critic(world, rng), 0

    limits = Limits(calls=world.budget)
    run = GapRun(
        request,
        machine,
        Phases(None),
        Control(limits),
        most_calls=world.budget,
        refit=refit,
    )
    summary = run.run_paths()
    machine.close()
    assert summary.num_calls <= world.budget
    truth, slack = world.truth, 1e-9
    low, high = summary.interval
    policy_low, policy_high = summary.policy_interval
    failures: dict[str, bool | float] = {
        "interval": not low - slack <= truth.value <= high + slack,
        "policy": not policy_low - slack <= truth.policy_value <= policy_high + slack,
        "regret": summary.regret < truth.value - truth.policy_value - slack,
        "actions": any(
            not q_low - slack <= q <= q_high + slack
            for (q_low, q_high), q in zip(
                summary.q_intervals, truth.q_values, strict=True
            )
        ),
    }
    failures["any"] = any(failures.values())
    assert run.statements is not None
    means = run.statements.moments.means
    errors = run.statements.moments.standard_errors()
    # the same share of delta, by normal quantiles
    upper_z, lower_z = (
        float(stats.norm.isf(summary.shares[side])) for side in ("upper", "lower")
    )
    failures["normal"] = bool(
        means[0] + upper_z * errors[0] < truth.value - slack
        or means[1] - lower_z * errors[1] > truth.value + slack
    )
    failures["normal upper"] = bool(means[0] + upper_z * errors[0] < truth.value)
    failures["upper"] = bool(high < truth.value - slack)
    return failures | {
        "width": high - low,
        "paths": float(summary.num_paths),
        "refits": float(len(summary.refits)),
    }


def worlds() -> list[CoverageWorld]:
    """The worlds of the table."""
    return [
        lottery_world("lottery, 1 step, m = 1", 1_800),
        jackpot_world("jackpot, 6 steps", 0.0015, 6, 13_000),
        chain_world("two actions, horizon 5, W 20% off", 3, 0.95, 5, 36_000),
        chain_world("two actions, discount .7, W 20% off", 4, 0.7, None, 36_000),
    ]


def run_world(
    world: CoverageWorld, runs: int, first: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """All runs of a world."""
    results, began = [], time.perf_counter()
    for seed in range(first, first + runs):
        results.append(play_run(world, seed))
        if (seed - first) % 50 == 49:
            seconds = time.perf_counter() - began
            fails = sum(result["any"] for result in results)
            normal = sum(result["normal"] for result in results)
            text = f"{len(results)} runs, {fails} fail, normal {normal}"
            say(f"{world.name}: {text}, {seconds:.0f} s")
    return results


def table_row(world: CoverageWorld, results: list[dict[str, Any]]) -> str:
    """One line of the report."""
    counts = {
        name: sum(bool(result[name]) for result in results)
        for name in (
            *("any", "interval", "policy", "regret", "actions"),
            *("upper", "normal upper", "normal"),
        )
    }
    means = {
        name: float(np.mean([result[name] for result in results]))
        for name in ("paths", "refits", "width")
    }
    high = stats.binomtest(counts["any"], len(results)).proportion_ci(0.99).high
    return (
        f"| {world.name} | {len(results):,} | {means['paths']:,.0f} | "
        f"{means['refits']:.2f} | {means['width']:.3g} | "
        f"**{counts['any']}** ({100 * counts['any'] / len(results):.2f}%, "
        f"at most {100 * high:.2f}%) | {counts['interval']} | {counts['policy']} | "
        f"{counts['regret']} | {counts['actions']} | {counts['upper']} | "
        f"{counts['normal upper']} | {counts['normal']} "
        f"({100 * counts['normal'] / len(results):.1f}%) |"
    )


def main() -> None:
    """Run all worlds in a thread: there a machine needs no other one of its own."""
    thread = threading.Thread(target=_run_all)
    thread.start()
    thread.join()


def _run_all() -> None:
    """Run all worlds and write the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1250, help="of each world")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of worlds")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    began = time.process_time()
    rows = []
    chosen = worlds()
    if arguments.only is not None:
        chosen = [chosen[number] for number in arguments.only]
    for world in chosen:
        results = run_world(
            world,
            arguments.runs,
            arguments.first,
            lambda text: print(text, flush=True),
        )
        rows.append(table_row(world, results))
        print(rows[-1], flush=True)
    seconds = time.process_time() - began
    if arguments.out is None:
        return
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    share = math.isfinite(seconds) and seconds / 60.0
    arguments.out.write_text(
        f"""# Coverage of `gap` by paths

`python -m benchmarks.gap.gap_coverage --runs {arguments.runs}`, {date.today()}, commit
{commit}, {os.cpu_count()} cores, {share:.0f} CPU minutes.

Whole runs at delta = {DELTA:g}: inspection, pilot, paths, a refit of W at 256 paths (and
at 1,024), until the budget ends them. A run fails if any of its statements is false:
the interval of V, that of the policy, the regret, the values of the actions. All of
them hold together with probability {1 - DELTA:g}. W is the truth with errors up to 20% of
the span of V, new ones at each refit; in the worlds of jackpots it is 0, one action is
legal and U is the plain return, so that E U = V and only the confidence is left.
"normal" is the usual interval (mean and standard error of U and of L) at the same shares
of delta, on the same paths.

{HEADER}
"""
        + "\n".join(rows)
        + f"""

Promised: at most {100 * DELTA:g}% in the column "any statement fails" (in brackets the upper
end of an exact 99% interval of the rate), and {100 * 0.35 * DELTA / 2:.2f}% (one action) or
{100 * 0.35 * DELTA / 3:.2f}% (two) in the column "upper end".
""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
