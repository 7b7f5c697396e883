"""Continuous actions: tree search and certified bounds on linear-quadratic control.

    python -m benchmarks.tree.sampled_actions [--seeds 20] [--calls 100000] [--out FILE]

x' = x + u + w with w uniform on [-0.3, 0.3] and u in [-1, 1], four steps of cost
x^2 + u^2 / 2, from x = 1. The linear policy of the Riccati recursion never leaves [-1, 1] from
there, so its value is the exact optimum. Trees get actions from a uniform sampler, 64 to a state.
Each tree grows through all budgets; cells are errors of its value. Then: how often the lower end of
``certify=True`` lies below the optimum, and how often ``evaluate`` holds the exact value of
the optimal and of another linear policy.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from pathlib import Path

import numba
import numpy as np
from benchmarks.tree.widening import interval

import smoothcruiser as sc

NOISE, PRICE, STEPS, DELTA = 0.3, 0.5, 4, 0.1
LARGEST = (1.0 + 3 * 1.3) ** 2 + PRICE  # |x| grows by at most 1.3 a step
WIDE = {"action_widening": (2, 0.5), "widening": (2, 0.25)}
METHODS = {
    "UCT, all 64 actions": sc.UCT(exploration=0.5, action_widening=(64, 0.0)),
    "UCT, default": sc.UCT(exploration=0.5),
    "UCT, widening of both": sc.UCT(exploration=0.5, **WIDE),
    "BTS, all 64 actions": sc.BTS(action_widening=(64, 0.0)),
    "BTS, default": sc.BTS(),
    "BTS, widening of both": sc.BTS(**WIDE),
}


@numba.njit
def step(x, u, rng):
    """One step of control."""
    return -(x * x + 0.5 * u * u), x + u + rng.uniform(-0.3, 0.3)


@numba.njit
def sampler(x, rng):
    """A push between -1 and 1."""
    return rng.uniform(-1.0, 1.0)


def riccati() -> tuple[float, list[float]]:
    """(V(1), the gains of the first, second, ... step)."""
    p, constant, gains = 0.0, 0.0, []
    for _ in range(STEPS):
        gain = p / (PRICE + p)
        constant += p * NOISE * NOISE / 3.0
        p = 1.0 + p - p * p / (PRICE + p)
        gains.insert(0, gain)
    return -(p + constant), gains


def linear(gain: float) -> float:
    """The value of u = -gain x at every step."""
    second, total = 1.0, 0.0
    for _ in range(STEPS):
        total -= (1.0 + PRICE * gain * gain) * second
        second = (1.0 - gain) ** 2 * second + NOISE * NOISE / 3.0
    return total


def curves(problem, optimum, seeds, budgets):
    """Errors by method and budget, one per seed."""
    found = {}
    for name, method in METHODS.items():
        errors = {b: [] for b in budgets}
        for seed in range(seeds):
            tree = sc.Tree(problem, method=method, seed=seed)
            for budget in budgets:
                tree.grow(calls=budget - tree.num_calls)
                errors[budget].append(abs(tree.estimate().value - optimum))
        found[name] = errors
    return found


def certified(problem, optimum, seeds, budget):
    """(runs whose lower end is at most the optimum, the mean lower end)."""
    lows = [
        sc.plan(
            problem, method=sc.BTS(**WIDE), certify=True, delta=DELTA, budget=budget, seed=s
        ).interval[0]
        for s in range(seeds)
    ]  # fmt: skip
    return sum(low <= optimum for low in lows), float(np.mean(lows))


def covered(problem, gain, seeds, budget):
    """(runs whose interval holds the exact value, the mean half-width)."""
    exact, inside, widths = linear(gain), 0, []
    for seed in range(seeds):
        low, high = sc.evaluate(
            problem, lambda x: -gain * x, budget=budget, delta=DELTA, seed=1000 + seed
        ).interval
        inside += low <= exact <= high
        widths.append((high - low) / 2.0)
    return inside, float(np.mean(widths))


def main() -> None:
    """Print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    optimum, gains = riccati()
    problem = sc.MDP(
        step, sample_action=sampler, discount=1.0, horizon=STEPS, operator=sc.Max(),
        initial_state=1.0, reward_range=(-LARGEST, 0.0),
    )  # fmt: skip
    budgets = [b for b in (1000, 3000, 10_000, 30_000, 100_000) if b <= asked.calls]
    begin = time.process_time()
    lines = ["| method | " + " | ".join(f"{b:,} calls" for b in budgets) + " |"]
    lines.append("|---" * (len(budgets) + 1) + "|")
    for name, errors in curves(problem, optimum, asked.seeds, budgets).items():
        cells = ["{:.3f} ± {:.3f}".format(*interval(errors[b])) for b in budgets]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    below, low = certified(problem, optimum, asked.seeds, 40_000)
    tries = 3 * asked.seeds
    lines += ["", "| bound | holds | mean |", "|---|---|---|"]
    lines.append(
        f"| `certify=True`, 40,000 calls: lower end ≤ V | {below} of {asked.seeds} | "
        f"lower end {low:.3f} |"
    )
    for gain in (gains[0], 0.3):
        inside, width = covered(problem, gain, tries, 4000)
        lines.append(
            f"| `evaluate`, u = −{gain:.3f} x, 4,000 calls: holds {linear(gain):.4f} | "
            f"{inside} of {tries} | ± {width:.3f} |"
        )
    table = "\n".join(lines)
    print("optimum", optimum, "gains", gains)
    print(table)
    if asked.out is None:
        return
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()  # fmt: skip
    asked.out.write_text(
        TEXT.format(
            seeds=asked.seeds, calls=asked.calls, commit=commit, table=table, optimum=optimum,
            date=time.strftime("%Y-%m-%d"), load=os.getloadavg()[0], delta=DELTA,
            spent=time.process_time() - begin, gains=", ".join(f"{g:.3f}" for g in gains),
        )
    )  # fmt: skip


TEXT = """# Sampled actions: linear-quadratic control against its exact value

`python -m benchmarks.tree.sampled_actions --seeds {seeds} --calls {calls} --out FILE`
({date}, commit {commit}, load {load:.1f}, {spent:.0f} processor seconds)

x' = x + u + w with w uniform on [−0.3, 0.3], u in [−1, 1], four steps of cost x² + u²/2, from 1.
Exact by the Riccati recursion: V = {optimum:.4f}, gains {gains}. Trees have 64 sampled
actions at a state. Cells: error of the estimated value ± 95% interval over {seeds} seeds.
Bounds at δ = {delta}.

{table}

All seeds share the 64 actions of the first state: a list belongs to its state. What they differ
in are the simulations. "Default" opens 10 √n actions and lets every next state be new; "widening
of both" opens 2 √n and keeps 2 n^¼ next states of a move.
"""


if __name__ == "__main__":
    main()
