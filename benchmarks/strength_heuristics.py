"""A user's knowledge in a few lines, and what it is worth to a tree search.

Sailing, and domains of the planning competitions (IPPC) by their names. The search is
UCT; what is compared is how it values a new leaf, with the same number of oracle calls
for each decision: by a rollout, by the heuristic (``value=``), or by the mean of both
(``mix=0.5``). A heuristic spends no calls, so the same calls buy more leaves.

Episodes of a domain are played in pyRDDLGym's own environment from the same seeds
(``worlds_ippc``), those of sailing in the problem itself. Returns are undiscounted sums
over the horizon with Student's 95% intervals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from worlds_ippc import Mean, Plan, Row, played

import smoothcruiser as sc
from smoothcruiser.jit.keys import Key
from smoothcruiser.jit.streams import stream

On = Collection[str]  # names of what differs from its default, ``oracle.plain(state)``
LOST = -40.0  # an episode has 40 steps, which cost 1 each


# --- what a user knows ------------------------------------------------------------------


def sailing(problem: Any, n: int) -> np.ndarray:
    """Moves to the far corner, at 2.5 each: the middle of what moves cost (1 to 4)."""
    cells = np.arange(n * n * 8) // 8
    return -2.5 * np.maximum(n - 1 - cells // n, n - 1 - cells % n)


def to_the_corner(columns: str, rows: str) -> Callable[[On], float]:
    """Moves to the goal in the last column and row; without a robot all is lost."""
    xs, ys = columns.split(), rows.split()

    def value(on: On) -> float:
        for name in on:
            if name.startswith("robot-at("):
                x, y = name[9:-1].split(",")
                return xs.index(x) - len(xs) + ys.index(y) - len(ys) + 2.0
        return LOST

    return value


def elevator(on: On) -> float:
    """Who waits pays 1 per step until the elevator is there (and 3 more: open, enter,
    close), who rides 0.75 per floor. The floors are f0, f1 and f2.
    """
    floor = next(int(name[-2]) for name in on if name.startswith("elevator-at-floor"))
    cost = 0.0
    for name in on:
        if name.startswith("person-waiting"):
            cost += abs(int(name[-2]) - floor) + 3.0
        elif name.startswith("person-in-elevator-going-up"):
            cost += 0.75 * (2 - floor)
        elif name.startswith("person-in-elevator-going-down"):
            cost += 0.75 * floor
    return -cost


ROADS_LEFT = {"la1a3": 0, "la1a2": 1, "la2a2": 1, "la1a1": 2, "la2a1": 2, "la3a1": 2}


def tires(on: On) -> float:
    """100 at the goal less the roads there; a flat tire without a spare is the end."""
    if "goal-reward-received" in on:
        return 0.0
    here = next(name[11:-1] for name in on if name.startswith("vehicle-at("))
    rolls = {"not-flattire", "hasspare", f"spare-in({here})"} & set(on)
    return 100.0 - ROADS_LEFT[here] if rolls else LOST


def courses(on: On) -> float:
    """A required course that is missing costs about two steps at 5 each, one that
    others build on some steps' worth of failing.
    """
    required = sum(f"passed({c})" not in on for c in ("CS21", "CS22", "CS41"))
    basic = sum(f"passed({c})" not in on for c in ("CS11", "CS12"))
    return -10.0 * required - 3.0 * basic if required else 0.0


DOMAINS: dict[str, Callable[[On], float]] = {
    "Navigation_MDP_ippc2011": to_the_corner("x6 x9 x14 x21", "y12 y15 y20"),
    "CrossingTraffic_MDP_ippc2011": to_the_corner("x1 x2 x3", "y1 y2 y3"),
    "Elevators_MDP_ippc2011": elevator,
    "TriangleTireworld_MDP_ippc2014": tires,
    "AcademicAdvising_MDP_ippc2014": courses,
}


# --- what it is worth -------------------------------------------------------------------


def ways(value: Any, **options: Any) -> dict[str, Any]:
    """The same search with three kinds of leaves."""
    return {
        "rollouts": sc.UCT(**options),
        "value=": sc.UCT(value=value, **options),
        "value=, mix=0.5": sc.UCT(value=value, mix=0.5, **options),
    }


def sailed(problem: Any, method: Any, calls: int, episodes: int) -> tuple[Mean, float]:
    """Returns of episodes, and processor seconds of a decision."""
    sc.plan(problem, method=method, budget=200)  # what is compiled once is not timed
    found, decisions, spent = [], 0, 0.0
    for episode in range(episodes):
        world = stream(0, Key.WORLD, episode)
        agent = sc.Agent(problem, method, budget=calls, seed=episode)
        state, total, left = problem.initial_state, 0.0, problem.horizon
        while left and not problem.is_terminal(state):
            began = time.process_time()
            action = agent.decide(state, remaining=left)
            spent, decisions = spent + time.process_time() - began, decisions + 1
            reward, state, *_ = problem.oracle(state, action, world)
            total, left = total + reward, left - 1
        found.append(total)
    return Mean(tuple(found)), spent / decisions


def heuristics(quick: bool) -> list[str]:
    """The table: one row per world and number of calls."""
    lines = [
        "| world | calls per decision | episodes | rollouts | `value=` | `value=`, "
        "`mix=0.5` | ms per decision | known |",
        "|---|---|---|---|---|---|---|---|",
    ]

    def add(world: str, calls: int, episodes: int, cells: dict[str, Any], known: str):
        means = " | ".join(str(mean) for mean, _ in cells.values())
        spent = ", ".join(f"{1e3 * cpu:.1f}" for _, cpu in cells.values())
        lines.append(
            f"| {world} | {calls:,} | {episodes} | {means} | {spent} | {known} |"
        )
        print(lines[-1], flush=True)

    problem = sc.make("sailing", discount=1.0, operator="max")
    episodes = 4 if quick else 100
    for calls in (500,) if quick else (500, 5_000, 50_000):
        cells = {
            name: sailed(problem, method, calls, episodes)
            for name, method in ways(sailing(problem, 6)).items()
        }
        add("sailing 6 × 6", calls, episodes, cells, "optimum -15.0")
    plan = Plan(episodes=2 if quick else 30)
    for domain, knows in DOMAINS.items():
        problem = sc.make(f"rddl:{domain},1", operator="max")
        row = Row(domain, 1, 1, problem.num_actions, len(problem.initial_state))
        value = lambda state, p=problem, f=knows: f(p.oracle.plain(state))  # noqa: E731
        cells = {
            name: played(row, problem, {"method": method}, plan)
            for name, method in ways(value, depth=plan.depth).items()
        }
        add(domain, plan.calls, plan.episodes, cells, "")
    return lines
