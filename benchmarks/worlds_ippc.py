"""Planning competitions again: the MDP domains of IPPC 2011 and 2014, instance 1 of each.

Each planner plays whole episodes in pyRDDLGym's own environment, with the same time for
every decision. Beside them stand doing nothing, legal actions at random and, where the
exact solver proves the optimum within its limit of time, that number and the returns of
the proven policy: they should agree, since the law was derived and the world was not.

What is the same everywhere: a tree as deep as ``--depth`` steps or what is left of the
horizon, and for the searches that need a temperature ``--warmth`` times the width of the
instance's range of rewards. The bar is that a mean return lies above the upper end of
random play's 95% interval. It is read for each search alone, and for an agent that plays
the proven policy where there is one and searches elsewhere.

Returns are undiscounted sums of rewards over the horizon, as in the competitions;
intervals are Student's, over episodes. The seed of an episode is that of the real
environment, so all play against the same chance; planners have streams of their own.

Run: .venv/bin/python benchmarks/worlds_ippc.py [--seconds 0.1] [--episodes 5] [--out
FILE.md] [domain …]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student
from timing import machine, signed

import smoothcruiser as sc
from smoothcruiser.adapters.rddl.repository import domains, texts

SEARCHES = ("uct", "bts", "dents", "ments", "rents", "tents")
MOST_ACTIONS = 64
QUICK = 1.0  # seconds of a solution that is made for every decision
CONTESTS = ("_MDP_ippc2011", "_MDP_ippc2014")


@dataclass(frozen=True)
class Plan:
    """How much is played, and how."""

    seconds: float = 0.1  # for a decision
    episodes: int = 5  # of each planner
    blind: int = 100  # episodes of random play and of doing nothing
    depth: int = 20  # of trees
    warmth: float = 0.1  # temperature, in widths of the range of rewards
    proven: int = 20  # episodes of a proven policy
    exact_seconds: float = 30.0
    searches: tuple[str, ...] = SEARCHES
    names: tuple[str, ...] = ()  # domains; none for all


@dataclass(frozen=True)
class Mean:
    """The mean of returns, and how far a 95% interval reaches to both sides."""

    returns: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def reach(self) -> float:
        n = len(self.returns)
        if n < 2:
            return float("inf")
        return float(student.ppf(0.975, n - 1) * np.std(self.returns, ddof=1) / n**0.5)

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.reach:.2f}"


@dataclass
class Row:
    """One domain."""

    domain: str
    actions: int
    fluents: int
    means: dict[str, Mean] = field(default_factory=dict)
    optimum: float | None = None  # where it is proven
    calls: dict[str, float] = field(default_factory=dict)  # per decision
    late: int = 0  # decisions without one simulation in time: noop was played

    def above(self, name: str) -> bool:
        """Whether a planner's mean lies above random play's interval."""
        blind = self.means["random"]
        return self.means[name].mean > blind.mean + blind.reach

    def helped(self, name: str) -> bool:
        """The same of an agent that plays the proven policy where there is one."""
        return self.above("exact" if "exact" in self.means else name)


def contest(names: Sequence[str] = ()) -> list[str]:
    """The domains of the two competitions."""
    found = [name for name in domains() if name.endswith(CONTESTS)]
    return [name for name in found if not names or name in names]


def environment(domain: str) -> Any:
    from pyRDDLGym.core.env import RDDLEnv

    folder = domains()[domain]
    return RDDLEnv(str(folder / "domain.rddl"), str(folder / "instance1.rddl"))


def returns(
    domain: str, problem: Any, episodes: int, decide: Callable[[Any, int], int]
) -> Mean:
    """Whole episodes in the real environment; ``decide(state, steps left)``."""
    env, found, oracle = environment(domain), [], problem.oracle
    for episode in range(episodes):
        env.reset(seed=1000 + episode)
        total, left, done = 0.0, problem.horizon, False
        while not done:
            action = decide(oracle.read(env), left)
            _, reward, ended, cut, _ = env.step(oracle.actions[action])
            total, left, done = total + reward, left - 1, ended or cut
        found.append(total)
    return Mean(tuple(found))


def search(name: str, problem: Any, plan: Plan) -> Any:
    """A tree search with the depth and temperature that all domains share."""
    low, high = problem.reward_range
    warm = plan.warmth * (high - low)
    options: dict[str, Any] = {"depth": plan.depth}
    if name in ("ments", "rents", "tents"):
        options["temperature"] = warm
    elif name in ("bts", "dents"):
        options["search_temperature"] = warm
    return {"options": options, "method": name}


def played(name: str, domain: str, problem: Any, plan: Plan) -> tuple[Mean, float, int]:
    """The returns of a tree search, its calls per decision, and decisions too late."""
    made, decisions, calls, late = search(name, problem, plan), 0, 0, 0
    sc.plan(problem, **made, budget=200)  # what is compiled once is not timed
    agent: Any = None

    def decide(state: Any, left: int) -> int:
        nonlocal agent, decisions, calls, late
        if left == problem.horizon:  # a new episode: nothing is remembered
            agent = sc.Agent(problem, **made, seconds=plan.seconds, seed=decisions)
        decisions += 1
        try:
            action = int(agent.decide(state, remaining=left))
        except sc.InvalidInput:  # not one simulation: the machine was elsewhere
            late += 1
            return 0
        calls += agent.estimate.num_calls
        return action

    mean = returns(domain, problem, plan.episodes, decide)
    return mean, calls / decisions, late


def optimum(problem: Any, seconds: float) -> float | None:
    """The proven value of the initial state, where there is time for it."""
    try:
        found = sc.plan(problem, method="exact", seconds=seconds)
    except sc.SmoothcruiserError:  # a law with too many outcomes to be listed
        return None
    low, high = found.interval
    return found.value if high - low < 1e-6 * (1 + abs(high)) else None


def measured(domain: str, plan: Plan) -> Row | None:
    """One domain, or None where it has too many actions."""
    try:
        problem = sc.make(f"rddl:{domain},1,max_actions={MOST_ACTIONS}", operator="max")
    except sc.InvalidInput as error:
        print(f"{domain}: {error}", file=sys.stderr)
        return None
    row = Row(domain, problem.num_actions, len(problem.initial_state))
    chance = np.random.default_rng(7)

    def blind(state: Any, left: int) -> int:
        legal = problem.legal_actions(state)
        return legal[int(chance.integers(len(legal)))]

    row.means["noop"] = returns(domain, problem, plan.blind, lambda state, left: 0)
    row.means["random"] = returns(domain, problem, plan.blind, blind)
    for name in plan.searches:
        row.means[name], row.calls[name], late = played(name, domain, problem, plan)
        row.late += late
    if plan.exact_seconds:
        row.optimum = optimum(problem, plan.exact_seconds)
    if row.optimum is not None:
        began, agent = time.perf_counter(), sc.Agent(problem, "exact")
        agent.decide(remaining=problem.horizon - 1)
        if time.perf_counter() - began < QUICK:  # it solves anew for each decision
            proven = lru_cache(None)(lambda s, left: agent.decide(s, remaining=left))
            row.means["exact"] = returns(domain, problem, plan.proven, proven)
    return row


def rows(plan: Plan) -> list[Row]:
    """All domains, one after the other."""
    found = []
    for domain in contest(plan.names):
        began = time.perf_counter()
        row = measured(domain, plan)
        if row is not None:
            found.append(row)
            took = time.perf_counter() - began
            shown = ", ".join(f"{name} {mean}" for name, mean in row.means.items())
            print(f"{domain}: {shown} ({took:.0f} s)", flush=True)
    return found


def lines(found: Sequence[Row], plan: Plan) -> list[str]:
    """The table of what was played, as Markdown."""
    names = ("noop", "random", *plan.searches)
    shown = [
        f"| domain | actions | fluents | {' | '.join(names)} | proven policy | proven "
        "optimum |",
        f"|---|---|---|{'---|' * len(names)}---|---|",
    ]
    for row in found:
        proven = "–" if row.optimum is None else f"{row.optimum:.2f}"
        cells = [
            f"**{row.means[name]}**"
            if name in plan.searches and row.above(name)
            else str(row.means[name])
            for name in names
        ]
        shown.append(
            f"| {row.domain} | {row.actions} | {row.fluents} | {' | '.join(cells)} | "
            f"{row.means.get('exact', '–')} | {proven} |"
        )
    counts = ", ".join(
        f"{name} {sum(row.above(name) for row in found)}" for name in plan.searches
    )
    calls = ", ".join(
        f"{name} {np.median([row.calls[name] for row in found]):,.0f}"
        for name in plan.searches
    )
    helped = ", ".join(
        f"{name} {sum(row.helped(name) for row in found)}" for name in plan.searches
    )
    return [
        *shown,
        "",
        f"{len(found)} domains, {distinct(found)} of them with different files (the "
        f"others of 2014 are those of 2011). Means above random play's upper end (bold): {counts}. "
        "With the proven policy wherever it was played, and the search elsewhere: "
        f"{helped}.",
        "",
        f"Calls per decision (median of domains): {calls}. Decisions without one "
        f"simulation in time, where noop was played: {sum(row.late for row in found)}.",
        "",
        "The bar: at least 14 domains, and in at least 12 of them a mean above random "
        f"play's upper end: {_verdict(found, plan)}.",
    ]


def distinct(found: Sequence[Row]) -> int:
    """Domains that differ in their files: some instances came back in 2014."""
    return len({texts(row.domain, 1) for row in found})


def _verdict(found: Sequence[Row], plan: Plan) -> str:
    """Which agents meet the bar."""
    met = {
        kind: [
            name
            for name in plan.searches
            if len(found) >= 14 and sum(above(row, name) for row in found) >= 12
        ]
        for kind, above in (("alone", Row.above), ("with proofs", Row.helped))
    }
    said = (f"{', '.join(who) or 'none'} {kind}" for kind, who in met.items())
    return "met by " + "; by ".join(said)


def table(
    *,
    seconds: float = 0.1,
    episodes: int = 5,
    blind: int = 100,
    exact_seconds: float = 30.0,
    names: Sequence[str] = (),
) -> list[str]:
    """The table as lines of Markdown, played now."""
    plan = Plan(
        seconds=seconds,
        episodes=episodes,
        blind=blind,
        exact_seconds=exact_seconds,
        names=tuple(names),
    )
    return lines(rows(plan), plan)


def main() -> None:
    """Play, print, and write the evidence."""
    default = Plan()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="domains; all by default")
    parser.add_argument("--seconds", type=float, default=default.seconds)
    parser.add_argument("--episodes", type=int, default=default.episodes)
    parser.add_argument("--blind", type=int, default=default.blind)
    parser.add_argument("--depth", type=int, default=default.depth)
    parser.add_argument("--warmth", type=float, default=default.warmth)
    parser.add_argument("--exact-seconds", type=float, default=default.exact_seconds)
    parser.add_argument("--searches", nargs="+", default=list(default.searches))
    parser.add_argument("--out", type=Path)
    asked = vars(parser.parse_args())
    out = asked.pop("out")
    plan = Plan(**{k: tuple(v) if isinstance(v, list) else v for k, v in asked.items()})
    before = machine()["load"]
    shown = lines(rows(plan), plan)
    print("\n".join(shown))
    if out is not None:
        how = (
            f"{plan.seconds:g} s for a decision, {plan.episodes} episodes of each "
            f"search, {plan.blind} of random play and of doing nothing, {plan.proven} of "
            f"a proven policy ({plan.exact_seconds:g} s to prove it), trees "
            f"{plan.depth} steps deep, temperatures {plan.warmth:g} of the range of "
            f"rewards; load before the run {before}."
        )
        head = "# The MDP domains of IPPC 2011 and 2014, instance 1 of each\n\n"
        command = f"`python {' '.join(sys.argv)}`: {how}"
        body = "\n".join(shown)
        out.write_text(f"{head}{command}\n\n{signed()}\n\n{body}\n")


if __name__ == "__main__":
    main()
