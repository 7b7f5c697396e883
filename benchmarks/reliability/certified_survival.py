"""Certified searches that are killed while they sample, and taken up again.

  python -m benchmarks.reliability.certified_survival [--kills N] [--out FILE]

A child plans with a store and a slow simulator; when the store shows that it has
sampled further, it gets a kill -9 at a random moment. After the last kill the run
is resumed to its end and compared to the last bit with one that nobody disturbed.
The second table says what saving costs, by the size of the memory.
"""

from __future__ import annotations

import argparse
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numba
from benchmarks.timing import commit

import smoothcruiser as sc
from smoothcruiser.certified import query_progress, search_loop
from smoothcruiser.certified.search import Certified
from smoothcruiser.certified.snapshots.snapshot import restore, to_bytes
from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.store import Store

PAUSE = 4e-4  # seconds of a call: a slow simulator
ASKED: dict[str, Any] = {
    "method": "certified",
    "epsilon": 0.25,
    "delta": 0.1,
    "seed": 7,
}
CHILD = """
import sys
sys.path.insert(0, {here!r})
from benchmarks.reliability.certified_survival import child
child({store!r}, {run!r}, {executor!r})
"""


def step(state, action, rng):
    """A walk on a small torus with continuous rewards, one call at a time."""
    time.sleep(PAUSE)
    x, y = state
    u = rng.random()
    return u * u if action else 0.4 * u, ((x + action + int(3 * u)) % 5, (y + 1) % 3)


def world() -> sc.MDP:
    return sc.MDP(
        step,
        num_actions=2,
        discount=0.7,
        operator=sc.Entropy(0.2),
        initial_state=(0, 0),
        name="slow torus",
    )


def child(store: str, run: int | None, executor: str) -> None:
    """Plan or resume, saving ten times a second: this process is killed."""
    query_progress.LEAST_SAVE_SECONDS, query_progress.RARELY = 0.1, 1
    search_loop.SLICE_SECONDS = 0.02
    how = {"executor": executor, "workers": 2}
    if run is None:
        sc.plan(world(), **ASKED, **how, store=store)
    else:
        sc.resume(run, store, world(), **how)


class Survived(NamedTuple):
    """What became of a run that was killed."""

    same: bool  # whether its bits are those of a run that was not
    kills: list[int]  # calls that were kept at each
    calls: int


def calls_kept(store: Path) -> int:
    """The calls that the store has of run 1; 0 before there is one."""
    try:
        with Store(store, write=False) as opened:
            run = opened.get(1)
            return -1 if run.estimate is not None else run.calls_done
    except SmoothcruiserError:
        return 0


def bits(estimate: sc.Estimate) -> tuple[Any, ...]:
    return (
        estimate.value,
        estimate.interval,
        estimate.q_values,
        estimate.certificate.q_intervals,
        estimate.num_calls,
    )


def survive(store: Path, kills: int, executor: str, seed: int = 0) -> Survived:
    """Kill a search ``kills`` times while it samples, then let it end."""
    moments = random.Random(seed)
    kept: list[int] = []
    here = str(Path(__file__).resolve().parents[2])
    for _ in range(kills):
        run, before = (1, kept[-1]) if kept else (None, 0)
        code = CHILD.format(here=here, store=str(store), run=run, executor=executor)
        process = subprocess.Popen([sys.executable, "-c", code])
        try:
            while 0 <= calls_kept(store) <= before and process.poll() is None:
                time.sleep(0.02)
            time.sleep(moments.uniform(0.0, 0.3))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if calls_kept(store) < 0:
            break  # it was faster
        kept.append(calls_kept(store))
    found = sc.resume(1, store, world())
    expected = sc.plan(world(), **ASKED)
    return Survived(bits(found) == bits(expected), kept, found.num_calls)


def cost_of_saving(states: int) -> tuple[int, int, float, float]:
    """(states met, bytes, seconds to save, seconds to load) in a world of ``states``."""

    @numba.njit
    def jump(state, action, rng):
        u = rng.random()
        return u, (7 * state + action + int(3 * u)) % states

    problem = sc.MDP(
        jump, num_actions=3, discount=0.95, operator=sc.Entropy(0.1), initial_state=1
    )
    memory = Certified(problem, delta=0.1)
    memory.query(budget=30 * states)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        memory.save(Path(folder) / "store.db")
        saved = time.perf_counter() - begin
    data = to_bytes(memory)
    again = Certified(problem, delta=0.1)
    begin = time.perf_counter()
    restore(again, data)
    return memory.memory.num_kept, len(data), saved, time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="per executor")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    lines = [
        "# Certified searches, killed and saved",
        "",
        f"`python -m benchmarks.reliability.certified_survival --kills {asked.kills}`, "
        f"{time.strftime('%Y-%m-%d')}, commit {commit()}, "
        f"Python {platform.python_version()}.",
        "",
        "| executor | kill −9 while sampling | calls kept at each | calls | same bits |",
        "|---|---|---|---|---|",
    ]
    failed = False
    for executor in ("python", "processes"):
        with tempfile.TemporaryDirectory() as folder:
            found = survive(Path(folder) / "store.db", asked.kills, executor)
        failed = failed or not found.same
        kept = ", ".join(f"{calls:,}" for calls in found.kills)
        lines.append(
            f"| {executor} | {len(found.kills)} | {kept} | {found.calls:,} | "
            f"{'yes' if found.same else 'NO'} |"
        )
        print(lines[-1], flush=True)
    lines += [
        "",
        "Saving is due at most every "
        f"{query_progress.LEAST_SAVE_SECONDS:g} s, and {query_progress.RARELY} times what it "
        "took last.",
        "",
        "| states | MB | seconds to save | seconds to load |",
        "|---|---|---|---|",
    ]
    for states in (1_000, 10_000, 100_000):
        met, size, saved, loaded = cost_of_saving(states)
        lines.append(f"| {met:,} | {size / 1e6:.1f} | {saved:.2f} | {loaded:.2f} |")
        print(lines[-1], flush=True)
    if asked.out is not None:
        asked.out.write_text("\n".join(lines) + "\n")
    if failed:
        sys.exit("A run that was killed ended with other bits.")


if __name__ == "__main__":
    main()
