"""What a laptop, a workstation and a cluster can pay.

Prices of promises stand beside calls per second, and 1,000 workers are
simulated.

  python -m benchmarks.engine.capacity

The simulation runs the real cut of a schedule (at most 4,096 shards, handed out
in order, run ahead of checkpoints) through a model of a cluster: shard times are
lognormal around their mean (sigma 0.3), one worker in fifty is three times as
slow, the scheduler hands out 2,000 tasks per second (Dask's documentation: about
half a millisecond per task), and a worker fails now and then and its shard starts
again.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from pathlib import Path

import smoothcruiser as sc
from smoothcruiser.engines.shards import cut_shards

# calls per second of one core, the compiled engine on a tabular problem
# (benchmarks/engine/engine.py)
SPEED = 50e6
SCHEDULER_RATE = 2000.0
SLOW_SHARE, SLOWDOWN, SIGMA = 0.02, 3.0, 0.3
FAILURES_PER_HOUR = 0.01  # of one worker

PROMISES = [
    (0.5, 1.0, 2, "1%"),
    (0.5, 1.0, 10, "2%"),
    (0.5, 1.0, 10, "1%"),
    (0.7, 1.0, 2, "5%"),
    (0.7, 1.0, 2, "2%"),
    (0.9, 50.0, 4, "2%"),
]


def schedule(
    discount: float, temperature: float, actions: int, epsilon: str
) -> sc.Schedule:
    problem = sc.make(
        f"garnet:actions={actions}", discount=discount, temperature=temperature
    )
    return sc.explain(problem, epsilon=epsilon, delta=0.1)


def simulate(plan: sc.Schedule, workers: int, seed: int = 0) -> tuple[float, int]:
    """(seconds, shards that were run again) of a whole run without an early stop."""
    rng = random.Random(seed)
    speed = [
        SPEED / (SLOWDOWN if rng.random() < SLOW_SHARE else 1.0)
        for _ in range(workers)
    ]
    per_draw = plan.num_calls / (plan.root.samples * plan.facts.num_actions)
    free = [(0.0, w) for w in range(workers)]
    heapq.heapify(free)
    end, handed, again = 0.0, 0.0, 0
    for shard in [
        s
        for segment in cut_shards(plan)
        for _ in range(plan.facts.num_actions)
        for s in segment
    ]:
        handed += 1.0 / SCHEDULER_RATE
        done = False
        while not done:
            start, w = heapq.heappop(free)
            start = max(start, handed)
            seconds = (
                shard.count
                * per_draw
                / speed[w]
                * math.exp(rng.gauss(-(SIGMA**2) / 2, SIGMA))
            )
            failed = rng.random() < 1.0 - math.exp(
                -FAILURES_PER_HOUR * seconds / 3600.0
            )
            again += failed
            heapq.heappush(
                free,
                (
                    start
                    + seconds * (rng.random() if failed else 1.0)
                    + 60.0 * failed,
                    w,
                ),
            )
            done = not failed
            end = max(end, start + seconds)
    return end, again


def human(seconds: float) -> str:
    for unit, size in (
        ("years", 3.156e7),
        ("days", 86400.0),
        ("h", 3600.0),
        ("min", 60.0),
    ):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = [
        (
            "| γ, λ, K, ε | price (calls) | 2 cores | 32 cores "
            "| 1,000 workers | of ideal | shards | run again |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for discount, temperature, actions, epsilon in PROMISES:
        plan = schedule(discount, temperature, actions, epsilon)
        shards = sum(len(s) for s in cut_shards(plan)) * actions
        times = {n: plan.num_calls / SPEED / n for n in (2, 32, 1000)}
        seconds, again = simulate(plan, 1000)
        name = f"{discount:g}, {temperature:g}, {actions}, {epsilon}"
        lines.append(
            f"| {name} | {plan.num_calls:.2e} | {human(times[2])} | {human(times[32])} "
            f"| {human(seconds)} | {times[1000] / seconds:.0%} | {shards:,} | {again} |"
        )
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
