"""Scale, measured: Dask workers that die and join, overheads, memory.

  python -m benchmarks.scale.scale [--out FILE]

Every line compares a result to the last bit with an undisturbed run, or prints
a ratio taken in the same run. Clusters bind loopback.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import smoothcruiser as sc

PROBLEM = "garnet:states=10,actions=2"
LINES: list[str] = []


def say(text: str) -> None:
    print(text, flush=True)
    LINES.append(text)


def problem() -> sc.Problem:
    return sc.make(PROBLEM, discount=0.5, temperature=1.0)


def same(a: sc.Estimate, b: sc.Estimate) -> bool:
    return (a.value, a.q_values, a.interval, a.num_calls) == (
        b.value,
        b.q_values,
        b.interval,
        b.num_calls,
    )


def fixed_schedule(calls: int) -> sc.Schedule:
    """A schedule without looks of about ``calls`` oracle calls."""
    from smoothcruiser.schedule.compiler.optimizer import (
        compile_schedule,
        smallest_epsilon,
    )

    facts = problem().facts
    return compile_schedule(
        facts,
        epsilon=smallest_epsilon(facts, budget=calls, delta=0.1),
        delta=0.1,
        adaptive=False,
    )


def dask_workers() -> None:
    schedule = fixed_schedule(30_000_000)
    here = sc.run(problem(), schedule, seed=5, shards=30)
    for count in (1, 2, 4):
        there = sc.run(
            problem(), schedule, seed=5, shards=30, executor="dask", workers=count
        )
        say(f"- Dask, {count} workers: bit-identical to threads {same(here, there)}")


def dask_deaths() -> None:
    import distributed

    schedule = fixed_schedule(400_000_000)
    here = sc.run(problem(), schedule, seed=5, shards=40)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        pids = {w.pid for w in cluster.workers.values()}
        events: list[str] = []
        seen = 0

        def disturb(progress: Any) -> None:
            nonlocal seen
            if progress.phase != "sampling" or not progress.calls:
                return
            seen += 1
            if seen == 4:
                os.kill(next(iter(pids)), signal.SIGKILL)
                events.append("one killed in mid-shard")
            if seen == 8:
                cluster.scale(3)
                events.append("one added")

        there = sc.run(
            problem(),
            schedule,
            seed=5,
            shards=40,
            scheduler=cluster.scheduler_address,
            progress=disturb,
        )
    say(
        f"- Dask, two workers, {' and '.join(events)}: bit-identical "
        f"{same(here, there)}, {seen} shards reported of 80"
    )


def dask_overhead() -> None:
    """Shards of about a second: two threads against two Dask workers, interleaved.

    Starting the cluster is not counted.
    """
    import distributed

    schedule, best = fixed_schedule(1_000_000_000), {"threads": 1e9, "dask": 1e9}
    shards = 6
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        for _ in range(3):
            threads = sc.run(problem(), schedule, seed=5, shards=shards, workers=2)
            dask = sc.run(
                problem(),
                schedule,
                seed=5,
                shards=shards,
                scheduler=cluster.scheduler_address,
            )
            assert same(threads, dask)
            best = {
                "threads": min(best["threads"], threads.seconds),
                "dask": min(best["dask"], dask.seconds),
            }
    each = best["threads"] * 2 / (2 * shards)
    ratio = best["dask"] / best["threads"]
    say(
        f"- Dask against threads, {2 * shards} shards of {each:.1f} "
        f"s on two workers: time ratio {ratio:.3f} (bar 1.10)"
    )


def memory() -> None:
    """Peak memory of runs of 10^7, 10^8 and 10^9 calls, each in a fresh process."""
    found = []
    for calls in (10**7, 10**8, 10**9):
        code = (
            f"import sys; sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r}); import "
            "resource, smoothcruiser as sc;from benchmarks.scale.scale import fixed_schedule, "
            "problem; r = sc.run(problem(), "
            f"fixed_schedule({calls}));print(r.num_calls, "
            "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        number, peak = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split()
        found.append(f"{int(number):.2e} calls: {int(peak) / 1024:.0f} MiB")
    say(f"- peak memory: {'; '.join(found)}")


def processes() -> None:
    """A plain Python oracle of some milliseconds, one and two worker processes."""
    from benchmarks.scale import slow_oracle

    mine = slow_oracle.problem()
    schedule = sc.explain(mine, epsilon="6%", delta=0.1)
    one, two = (
        sc.run(mine, schedule, seed=5, shards=16, executor="processes", workers=count)
        for count in (1, 2)
    )
    small = sc.explain(mine, epsilon="25%", delta=0.1)
    here, there = (
        sc.run(mine, small, seed=5, executor=name)
        for name in ("reference", "processes")
    )
    say(
        f"- processes on a Python oracle of some ms, {one.num_calls:,} calls: "
        f"two workers {one.seconds / two.seconds:.2f} times as fast as one "
        f"(bar 1.8), bit-identical {same(one, two) and same(here, there)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    say("# Scale\n")
    load = os.getloadavg()[0]
    say(
        f"`python -m benchmarks.scale.scale`, {time.strftime('%Y-%m-%d')}, "
        f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}\n"
    )
    studies = {
        "dask": dask_workers,
        "deaths": dask_deaths,
        "overhead": dask_overhead,
        "memory": memory,
        "processes": processes,
    }
    for key, study in studies.items():
        if options.only is None or key in options.only:
            study()
    say(
        "\n"
        "This process' own peak: "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"
    )
    if options.out:
        options.out.write_text("\n".join(LINES) + "\n")


if __name__ == "__main__":
    main()
