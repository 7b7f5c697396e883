"""A user's knowledge in a few lines, and what it is worth to a tree search.

Sailing, and domains of the planning competitions (IPPC) by their names. UCT and BTS
value a new leaf by a rollout, or by the heuristic (``value=``), with the same number of
oracle calls for each decision. A heuristic spends no calls, so the same calls buy more
leaves. Depths and temperatures are those of ``worlds_ippc``.

Episodes of a domain are played in pyRDDLGym's own environment from the same seeds
(``worlds_ippc``), those of sailing in the problem itself. Returns are undiscounted sums
over the horizon with Student's 95% intervals. Worlds are played side by side, in
processes, which changes no number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from benchmarks.worlds.worlds_ippc import Mean, Plan, Row, played

import smoothcruiser as sc
from smoothcruiser.jit.random import Key
from smoothcruiser.jit.random.streams import stream

On = Collection[str]  # names of what differs from its default, ``oracle.plain(state)``
LOST = -40.0  # an episode has 40 steps, which cost 1 each


# --- what a user knows ------------------------------------------------------------------


def sailing(n: int) -> np.ndarray:
    """Moves to the far corner, at 2.5 each: the middle of what moves cost (1 to 4)."""
    cells = np.arange(n * n * 8) // 8
    return -2.5 * np.maximum(n - 1 - cells // n, n - 1 - cells % n)


def robot(on: On, columns: str, rows: str) -> tuple[int, int] | None:
    """Where the robot is, by the numbers of its column and row; None: it is gone."""
    for name in on:
        if name.startswith("robot-at("):
            x, y = name[9:-1].split(",")
            return columns.split().index(x), rows.split().index(y)
    return None


RISKS = (0.05, 0.35, 0.64, 0.93)  # of the middle row, by column


def navigation(on: On) -> float:
    """Moves to the goal in the last column and row, through the middle row where moves
    and risk are least together: who disappears there pays all 40 steps.
    """
    at = robot(on, "x6 x9 x14 x21", "y12 y15 y20")
    if at is None:
        return LOST
    x, y = at
    if y > 0:
        return -float(3 - x + 2 - y)
    return max(LOST * RISKS[c] - abs(x - c) - 2 - (3 - c) for c in range(4))


def crossing(on: On) -> float:
    """Moves to the goal in the last column and row; a robot that is gone, or that a car
    has reached, is lost.
    """
    at = robot(on, "x1 x2 x3", "y1 y2 y3")
    if at is None or f"obstacle-at(x{at[0] + 1},y{at[1] + 1})" in on:
        return LOST
    return float(sum(at) - 4)


def elevator(on: On) -> float:
    """Steps until those who wait are in (1 each) and those who ride arrive (0.75 each, 3
    in the wrong direction). The floors are f0 to f2; ``on`` has what is not the default,
    and by default the door is closed and the direction is up.
    """
    floor = next(int(name[-2]) for name in on if name.startswith("elevator-at-floor"))
    is_open, down = "elevator-closed(e0)" in on, "elevator-dir-up(e0)" in on
    cost = 0.0
    for name in on:
        wants_down = "down" in name
        if name.startswith("person-waiting"):
            far = abs(int(name[-2]) - floor)
            enters = far == 0 and is_open and wants_down == down
            cost += 1.5 + (1.0 if enters else far + 2.0)
        elif name.startswith("person-in-elevator"):
            cost += 0.75 * ((floor if wants_down else 2 - floor) + is_open)
            cost += 0.0 if wants_down == down else 3.0
    return -cost


# of the long way, which has a spare tire in every place
ROADS_LEFT = {"la1a1": 4, "la2a1": 3, "la3a1": 2, "la2a2": 1, "la1a2": 1, "la1a3": 0}


def tires(on: On) -> float:
    """100 at the goal, less the way there. A road takes a step, and with probability 0.6
    a flat tire, which takes two more (load, change); without a spare it is the end.
    """
    if "goal-reward-received" in on:
        return 0.0
    here = next(name[11:-1] for name in on if name.startswith("vehicle-at("))
    fixing = 0.0
    if "not-flattire" not in on:
        fixing = 1.0 if "hasspare" in on else 2.0
        if fixing == 2.0 and f"spare-in({here})" not in on:
            return LOST
    return 100.0 - 2.2 * ROADS_LEFT[here] - fixing


def courses(on: On) -> float:
    """A required course that is missing costs about two steps at 5 each, one that
    others build on some steps' worth of failing.
    """
    required = sum(f"passed({c})" not in on for c in ("CS21", "CS22", "CS41"))
    basic = sum(f"passed({c})" not in on for c in ("CS11", "CS12"))
    return -10.0 * required - 3.0 * basic if required else 0.0


DOMAINS: dict[str, Callable[[On], float]] = {
    "Navigation_MDP_ippc2011": navigation,
    "CrossingTraffic_MDP_ippc2011": crossing,
    "Elevators_MDP_ippc2011": elevator,
    "TriangleTireworld_MDP_ippc2014": tires,
    "AcademicAdvising_MDP_ippc2014": courses,
}


# --- what it is worth -------------------------------------------------------------------


def ways(problem: Any, value: Any, **options: Any) -> list[Any]:
    """Two searches, each without and with what is known."""
    low, high = problem.reward_range
    warm = {"search_temperature": Plan.warmth * (high - low), **options}
    return [
        sc.UCT(**options),
        sc.UCT(value=value, **options),
        sc.BTS(**warm),
        sc.BTS(value=value, **warm),
    ]


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


def optimum(problem: Any, seconds: float = 10.0) -> str:
    """The proven optimum, where it is found in time."""
    try:
        found = sc.plan(problem, method="exact", seconds=seconds)
    except sc.SmoothcruiserError:  # a law with too many outcomes to be listed
        return "–"
    low, high = found.interval
    return f"{found.value:.2f}" if high - low < 1e-6 * (1 + abs(high)) else "–"


def line(world: str, calls: int, episodes: int, cells: list[Any], problem: Any) -> str:
    """A row of the table; in bold what is better than without, beyond both intervals."""
    means = [str(mean) for mean, _ in cells]
    for i in (0, 2):
        (blind, _), (own, _) = cells[i : i + 2]
        if own.mean - own.reach > blind.mean + blind.reach:
            means[i + 1] = f"**{means[i + 1]}**"
    spent = ", ".join(f"{1e3 * cpu:.0f}" for _, cpu in cells)
    return (
        f"| {world} | {calls:,} | {episodes} | {' | '.join(means)} | "
        f"{optimum(problem)} | {spent} |"
    )


def sailing_row(calls: int, episodes: int) -> str:
    problem = sc.make("sailing", discount=1.0, operator="max")
    made = ways(problem, sailing(6))
    cells = [sailed(problem, method, calls, episodes) for method in made]
    return line("sailing 6 × 6", calls, episodes, cells, problem)


def domain_row(domain: str, episodes: int) -> str:
    problem, plan = (
        sc.make(f"rddl:{domain},1", operator="max"),
        Plan(episodes=episodes),
    )
    row = Row(domain, 1, 1, problem.num_actions, len(problem.initial_state))
    plain, knows = problem.oracle.plain, DOMAINS[domain]
    made = ways(problem, lambda state: knows(plain(state)), depth=plan.depth)
    cells = [played(row, problem, {"method": method}, plan) for method in made]
    return line(f"{domain}, 1", plan.calls, episodes, cells, problem)


def heuristics(quick: bool) -> list[str]:
    """The table: one row per world and number of calls."""
    lines = [
        "| world | calls per decision | episodes | UCT | UCT, `value=` | BTS | BTS, "
        "`value=` | proven optimum | ms per decision |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        sails = ((500, 4),) if quick else ((500, 100), (5_000, 100))
        jobs = [pool.submit(sailing_row, *sail) for sail in sails]
        jobs += [pool.submit(domain_row, d, 2 if quick else 12) for d in DOMAINS]
        for job in jobs:
            lines.append(job.result())
            print(lines[-1], flush=True)
    return lines
