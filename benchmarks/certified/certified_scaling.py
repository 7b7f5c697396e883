"""How certified search grows with the problem: calls, seconds, memory, threads.

python -m benchmarks.certified.certified --scaling [--million] [--out FILE]

Sparse Garnet MDPs: 2 actions, 3 successors per pair, discount 0.9, entropy 0.1, delta
= 0.1; epsilon in percent of B. Bytes per pair of state and action that was seen: of
the arrays (``Memory.num_bytes``), and of everything that the search allocated and still
holds when it has answered (``tracemalloc``; the problem's own tables are not part of
it). ``--million`` adds 10**6 states, which takes minutes.
"""

from __future__ import annotations

import gc
import hashlib
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

from benchmarks.certified.certified_worlds import sparse_garnet
from benchmarks.timing import signed

from smoothcruiser.certified.search import Certified
from smoothcruiser.problem.problem import Problem

HEAD = "# How certified search grows\n"
COLUMNS = (
    "| states | asked | seen | pairs | calls | seconds | half-width | bytes per pair: "
    "arrays | all | at the peak | MB |"
)


def garnet(states: int) -> Problem:
    """A problem whose tables are ready."""
    problem = sparse_garnet(states, 1, 0.9)
    assert problem.tables is not None
    _ = problem.tables.sampling
    return problem


def run(problem: Problem, *, measure: bool, workers: int = 1, **asked: Any) -> Any:
    """A search that has answered, its answer, and the bytes held and at the peak."""
    gc.collect()
    if measure:
        tracemalloc.start()
    search = Certified(problem, delta=0.1, workers=workers)
    found = search.query(**asked)
    gc.collect()
    held = tracemalloc.get_traced_memory() if measure else (0, 0)
    tracemalloc.stop()
    search.close()
    return search, found, held


def row(states: int, share: float | None, budget: float) -> str:
    """One line of the table: to a share of B, or as far as a budget leads."""
    problem = garnet(states)
    span = problem.facts.value_span()
    asked = {"budget": budget} | ({} if share is None else {"epsilon": share * span})
    search, found, (held, peak) = run(problem, measure=True, **asked)
    memory = search.memory
    pairs, wide = memory.num_pairs, 0.5 * (found.interval[1] - found.interval[0])
    goal = f"{budget:.0e} calls" if share is None else f"{share:.0%}"
    return (
        f"| {states:,} | {goal} | {memory.num_nodes - 1:,} | {pairs:,} | "
        f"{found.num_calls:,} | {found.seconds:.1f} | {wide / span:.1%} | "
        f"{memory.num_bytes / pairs:.0f} | {held / pairs:.0f} | {peak / pairs:.0f} | "
        f"{held / 1e6:.1f} |"
    )


def threads(states: int, budget: float) -> list[str]:
    """Whether one and two threads have the same bits, and how long they take."""
    problem, lines, digests = garnet(states), [], []
    for workers in (1, 2):
        begin = time.process_time()
        search, found, _ = run(problem, measure=False, workers=workers, budget=budget)
        spent = time.process_time() - begin
        digest = hashlib.sha256(repr((found.interval, found.q_values)).encode())
        size = search.memory.num_pairs
        for name in ("q_lower", "q_upper", "total"):
            digest.update(search.memory.graph.pairs[name][:size].tobytes())
        digests.append(digest.hexdigest()[:16])
        lines.append(
            f"| {states:,} | {workers} | {found.num_calls:,} | {found.seconds:.1f} | "
            f"{spent:.1f} | {digests[-1]} |"
        )
    assert len(set(digests)) == 1, "threads have changed a bit"
    return lines


def show_scaling(million: bool, out: Path | None) -> None:
    """Print the tables, and write them to ``out``."""
    lines = [HEAD, f"`python {' '.join(sys.argv)}`\n", signed() + "\n"]
    lines += [(__doc__ or "").split("\n\n", 2)[2]]

    def say(*more: str) -> None:
        lines.extend(more)
        print("\n".join(more), flush=True)
        if out is not None:
            out.write_text("\n".join(lines) + "\n")

    Certified(sparse_garnet(50, 0, 0.5), delta=0.1).query(budget=1_000)  # compile
    say(COLUMNS, "|---" * 11 + "|")
    for states in (100, 300, 1_000, 3_000, 10_000, 30_000):
        say(row(states, 0.1, 4e8))
    say(row(100_000, None, 3e6), row(100_000, 0.2, 4e8), row(100_000, 0.1, 4e8))
    if million:
        say(row(1_000_000, None, 1e7))
    say("", "1,000 states, against epsilon:", "")
    say("| epsilon | calls | seconds |", "|---" * 3 + "|")
    for share in (0.2, 0.1, 0.05, 0.025):
        problem = garnet(1_000)
        epsilon = share * problem.facts.value_span()
        _, found, _ = run(problem, measure=False, epsilon=epsilon)
        say(f"| {share:.1%} | {found.num_calls:,} | {found.seconds:.2f} |")
    say("", "Threads sample; the bounds of all pairs and all counts are compared:", "")
    say(
        "| states | threads | calls | seconds | processor seconds | sha256 |",
        "|---" * 6 + "|",
        *threads(10_000, 2e7),
    )
