"""Planning competitions again: the MDP domains of IPPC 2011 and 2014.

Each planner plays whole episodes in pyRDDLGym's own environment, with the same number of
oracle calls for every decision: what it finds depends on seeds alone, not on the
machine. Beside the tree searches stand doing nothing, legal actions at random, certified
search where it proves its first decision in time, and the exact solver's proven optimum
with the
returns of its policy where it is found in time: these should agree, since the law was
derived and the world was not.

Instance 1 of each domain is played. Four domains of 2014 came back with the files of
2011; of these, the first instance with other files is played in addition, so that no row
stands twice.

What is the same everywhere: a tree as deep as ``--depth`` steps or what is left of the
horizon, and for the searches that need a temperature ``--warmth`` times the width of the
instance's range of rewards. Certified search gets all steps that are left, and as many
rows and calls as the others get calls. The bar is that a mean return lies above the upper
end of random play's 95% interval.

Returns are undiscounted sums of rewards over the horizon, as in the competitions;
intervals are Student's, over episodes. The seed of an episode is that of the real
environment, so all play against the same chance; planners have streams of their own.

Long runs are made in pieces: ``--keep FILE`` holds what was played, ``--minutes`` ends a
piece (exit code 3), and the same command goes on with the next.

Run: .venv/bin/python -m benchmarks.worlds.worlds_ippc [--calls 500] [--episodes 10] [--keep
FILE.json] [--minutes 7] [--out FILE.md] [domain …]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.timing import commit, load, signed
from scipy.stats import t as student

import smoothcruiser as sc
from smoothcruiser.adapters.rddl.reading import domains, texts

SEARCHES = ("uct", "bts", "dents", "ments", "rents", "tents")
MOST_ACTIONS = 64
QUICK = 1.0  # CPU seconds of a solution that is made for every decision
CONTESTS = ("_MDP_ippc2011", "_MDP_ippc2014")
BAR = (14, 12)  # domains, and how many of them have a mean above random play
UNFINISHED = 3  # the exit code of a piece that is not the last


@dataclass(frozen=True)
class Plan:
    """How much is played, and how."""

    calls: int = 500  # for a decision
    episodes: int = 10  # of each planner
    blind: int = 60  # episodes of random play and of doing nothing
    depth: int = 20  # of trees
    warmth: float = 0.1  # temperature, in widths of the range of rewards
    proven: int = 20  # episodes of a proven policy
    exact_seconds: float = 15.0
    certified_seconds: float = 0.5  # CPU time of the first decision, at the most
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
    """One instance, and what was played in it so far."""

    domain: str
    instance: int
    twins: (
        int  # domains whose instance 1 has the same files; 0 if it is not instance 1
    )
    actions: int
    fluents: int
    means: dict[str, Mean] = field(default_factory=dict)
    optimum: float | None = None  # where it is proven
    cpu: dict[str, float] = field(default_factory=dict)  # seconds per decision
    done: list[str] = field(
        default_factory=list
    )  # players, also those that cannot play

    def above(self, name: str) -> bool:
        """Whether a planner's mean lies above random play's interval."""
        blind = self.means["random"]
        return self.means[name].mean > blind.mean + blind.reach

    def apart(self, name: str) -> bool:
        """Whether a planner's whole interval does."""
        blind, own = self.means["random"], self.means[name]
        return own.mean - own.reach > blind.mean + blind.reach

    def helped(self, name: str) -> bool:
        """``above`` of an agent that plays what is certified where that can play."""
        return self.above("certified" if "certified" in self.means else name)


def contest(names: Sequence[str] = ()) -> list[tuple[str, int, int]]:
    """(domain, instance, twins), in which no two have the same files."""
    found = [name for name in domains() if name.endswith(CONTESTS)]
    first = {name: texts(name, 1) for name in found}
    seen, taken = set(), []
    for name in found:
        if first[name] not in seen:
            twins = sum(other == first[name] for other in first.values())
            taken.append((name, 1, twins))
            seen.add(first[name])
            continue
        for instance in range(2, 11):
            if texts(name, instance) not in seen:
                seen.add(texts(name, instance))
                taken.append((name, instance, 0))
                break
    return [each for each in taken if not names or each[0] in names]


def environment(row: Row) -> Any:
    from pyRDDLGym.core.env import RDDLEnv

    folder = domains()[row.domain]
    instance = folder / f"instance{row.instance}.rddl"
    return RDDLEnv(str(folder / "domain.rddl"), str(instance))


def returns(
    row: Row, problem: Any, episodes: int, decide: Callable[[Any, int], int]
) -> Mean:
    """Whole episodes in the real environment; ``decide(state, steps left)``."""
    env, found, oracle = environment(row), [], problem.oracle
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


# --- players: each puts what it plays into the row ------------------------------------


def blindly(row: Row, problem: Any, plan: Plan) -> None:
    """Doing nothing, and legal actions at random."""
    chance = np.random.default_rng(7)

    def blind(state: Any, left: int) -> int:
        legal = problem.legal_actions(state)
        return legal[int(chance.integers(len(legal)))]

    row.means["noop"] = returns(row, problem, plan.blind, lambda state, left: 0)
    row.means["random"] = returns(row, problem, plan.blind, blind)


def played(
    row: Row, problem: Any, made: dict[str, Any], plan: Plan
) -> tuple[Mean, float]:
    """Returns of an agent that keeps its tree below the moves made, and the CPU
    seconds of a decision; ``made`` is its method.
    """
    decisions, cpu, agent = 0, 0.0, None
    sc.plan(problem, **made, budget=200)  # what is compiled once is not timed

    def decide(state: Any, left: int) -> int:
        nonlocal agent, decisions, cpu
        if left == problem.horizon:  # a new episode: nothing is remembered
            agent = sc.Agent(problem, **made, budget=plan.calls, seed=decisions)
        decisions += 1
        began = time.process_time()
        action = int(agent.decide(state, remaining=left))
        cpu += time.process_time() - began
        return action

    found = returns(row, problem, plan.episodes, decide)
    return found, cpu / decisions


def searching(name: str, row: Row, problem: Any, plan: Plan) -> None:
    """A tree search by its name."""
    made = search(name, problem, plan)
    row.means[name], row.cpu[name] = played(row, problem, made, plan)


def certifying(row: Row, problem: Any, plan: Plan) -> None:
    """Certified search, where its first decision proves the value, soon enough.

    It plans anew for every number of steps left, by rows that it reads: what it decides
    depends on the state and on this number, so one decision serves where they come back.
    """
    agent, spent = sc.Agent(problem, "certified", budget=plan.calls, delta=0.1), []

    @lru_cache(None)
    def decide(state: Any, left: int) -> int:
        began = time.process_time()
        action = int(agent.decide(state, remaining=left))
        spent.append(time.process_time() - began)
        return action

    decide(problem.initial_state, problem.horizon - 1)  # compiles
    decide(problem.initial_state, problem.horizon)
    row.cpu["certified"] = spent[-1]
    low, high = agent.estimate.interval
    proven = high - low < 1e-6 * (1 + abs(high)) and agent.estimate.num_calls == 0
    if proven and spent[-1] <= plan.certified_seconds:
        row.means["certified"] = returns(row, problem, plan.episodes, decide)
        row.cpu["certified"] = float(np.mean(spent[1:]))


def proving(row: Row, problem: Any, plan: Plan) -> None:
    """The proven optimum, where there is time for it, and its policy."""
    try:
        found = sc.plan(problem, method="exact", seconds=plan.exact_seconds)
    except sc.SmoothcruiserError:  # a law with too many outcomes to be listed
        return
    low, high = found.interval
    if high - low >= 1e-6 * (1 + abs(high)):
        return
    row.optimum, agent = found.value, sc.Agent(problem, "exact")
    began = time.process_time()
    agent.decide(remaining=problem.horizon - 1)
    if time.process_time() - began < QUICK:  # it solves anew for each decision
        proven = lru_cache(None)(lambda s, left: agent.decide(s, remaining=left))
        row.means["exact"] = returns(row, problem, plan.proven, proven)


def players(plan: Plan) -> dict[str, Callable[[Row, Any, Plan], None]]:
    """Who plays, in this order."""
    trees = {
        name: (
            lambda row, problem, plan, name=name: searching(name, row, problem, plan)
        )
        for name in plan.searches
    }
    exact = {"exact": proving} if plan.exact_seconds else {}
    return {"blind": blindly, "certified": certifying, **exact, **trees}


# --- pieces ----------------------------------------------------------------------------


class Kept:
    """What was played, in a file where one is named; pieces of one run share it."""

    def __init__(self, path: Path | None, plan: Plan) -> None:
        self.path, self.rows, self.pieces = path, {}, []
        whole = dataclasses.replace(plan, names=(), searches=())  # may grow by pieces
        self.plan = json.loads(json.dumps(dataclasses.asdict(whole)))
        if path is not None and path.exists():
            data = json.loads(path.read_text())
            if data["plan"] != self.plan:
                sys.exit(
                    f"{path} holds another plan, {data['plan']}; take another file."
                )
            self.pieces = data["pieces"]
            for key, row in data["rows"].items():
                means = {n: Mean(tuple(r["returns"])) for n, r in row["means"].items()}
                self.rows[key] = Row(**row | {"means": means})
        began = time.strftime("%H:%M UTC", time.gmtime())
        self.pieces.append({"began": began, "commit": commit(), "load": load()})

    def row(self, domain: str, instance: int, twins: int, problem: Any) -> Row:
        sizes = (problem.num_actions, len(problem.initial_state))
        return self.rows.setdefault(
            f"{domain},{instance}", Row(domain, instance, twins, *sizes)
        )

    def save(self) -> None:
        if self.path is not None:
            rows = {key: dataclasses.asdict(row) for key, row in self.rows.items()}
            data = {"plan": self.plan, "pieces": self.pieces, "rows": rows}
            self.path.write_text(json.dumps(data))


def rows(plan: Plan, kept: Kept, minutes: float) -> list[Row]:
    """All instances, player after player; stops between two at the limit."""
    deadline, made = time.monotonic() + 60 * minutes, {}
    for domain, instance, twins in contest(plan.names):
        name = f"rddl:{domain},{instance},max_actions={MOST_ACTIONS}"
        try:
            made[domain] = sc.make(name, operator="max")
        except sc.InvalidInput as error:
            print(f"{domain}: {error}", file=sys.stderr)
            continue
        kept.row(domain, instance, twins, made[domain])
    found = [row for row in kept.rows.values() if row.domain in made]
    for player, plays in players(plan).items():
        for row in found:
            if player in row.done:
                continue
            if time.monotonic() > deadline:
                print(f"The same command goes on with {player} in {row.domain}.")
                sys.exit(UNFINISHED)
            plays(row, made[row.domain], plan)
            row.done.append(player)
            kept.save()
            print(row.domain, player, row.means.get(player, ""), flush=True)
    return found


# --- the page --------------------------------------------------------------------------


def lines(found: Sequence[Row], plan: Plan) -> list[str]:
    """The table of what was played, as Markdown."""
    played = (*plan.searches, "certified")
    names = ("noop", "random", *played)
    shown = [
        f"| instance | actions | fluents | {' | '.join(names)} | proven policy | proven "
        "optimum |",
        f"|---|---|---|{'---|' * len(names)}---|---|",
    ]
    for row in found:
        cells = [_cell(row, name, name in played) for name in names]
        proven = "–" if row.optimum is None else f"{row.optimum:.2f}"
        shown.append(
            f"| {row.domain}, {row.instance} | {row.actions} | {row.fluents} | "
            f"{' | '.join(cells)} | {row.means.get('exact', '–')} | {proven} |"
        )
    cpu = ", ".join(
        f"{name} {1000 * np.median([row.cpu[name] for row in found]):.0f} ms"
        for name in plan.searches
    )
    return [
        *shown,
        "",
        f"CPU time of a decision (median of instances): {cpu}. {_certified(found)}",
        "",
        *_counts(found, plan),
    ]


def _cell(row: Row, name: str, planner: bool) -> str:
    if name not in row.means:
        return "–"
    return (
        f"**{row.means[name]}**"
        if planner and row.above(name)
        else str(row.means[name])
    )


def _certified(found: Sequence[Row]) -> str:
    """Where certified search plays, and what it costs."""
    parts = []
    can = [row.cpu["certified"] for row in found if "certified" in row.means]
    dear = [row.cpu["certified"] for row in found if "certified" not in row.means]
    if can:
        spent = f"{min(can):.2g} to {max(can):.2g}"
        parts.append(f"a decision takes it {spent} CPU seconds there")
    if dear:
        spent = f"{min(dear):.2g} to {max(dear):.2g}"
        parts.append(
            f"in the others its first one took {spent} and left the value open, or took "
            "too long"
        )
    return f"Certified search plays in {len(can)} of {len(found)}: {'; '.join(parts)}."


def _counts(found: Sequence[Row], plan: Plan) -> list[str]:
    """How often each planner was above random play, and who meets the bar."""
    firsts = sum(row.twins for row in found)
    shown = [
        f"Means above random play's upper end (bold above), of {len(found)} instances "
        f"with different files; whole intervals above it; and instance 1 of each of the "
        f"{firsts} domains, where {sum(max(row.twins - 1, 0) for row in found)} of 2014 "
        "have the files of 2011 and count by their row:",
        "",
        "| planner | means above | intervals above | instance 1 of each | the bar |",
        "|---|---|---|---|---|",
    ]
    for name in plan.searches:
        shown.append(_count(found, name, Row.above, lambda row, n=name: row.apart(n)))
    for name in plan.searches:
        title = f"certified where it plays, else {name}"
        shown.append(_count(found, title, lambda row, _, n=name: row.helped(n), None))
    at_least, of_them = BAR
    shown += [
        "",
        f"The bar: at least {at_least} domains, and in at least {of_them} of them a mean "
        "above random play's upper end, in both ways of counting.",
    ]
    return shown


def _count(
    found: Sequence[Row],
    title: str,
    above: Callable[[Row, str], bool],
    apart: Callable[[Row], bool] | None,
) -> str:
    means = sum(above(row, title) for row in found)
    firsts = sum(row.twins for row in found if above(row, title))
    whole = "" if apart is None else str(sum(apart(row) for row in found))
    met = len(found) >= BAR[0] and min(means, firsts) >= BAR[1]
    return f"| {title} | {means} | {whole} | {firsts} | {'met' if met else 'missed'} |"


def page(found: Sequence[Row], plan: Plan, kept: Kept) -> str:
    """The evidence: how it was made, and what came of it."""
    pieces = "; ".join(
        f"{p['began']} at commit {p['commit']}, load {p['load'][0]}"
        for p in kept.pieces
    )
    how = (
        f"{plan.calls:,} oracle calls for a decision (certified search: rows and "
        f"calls), {plan.episodes} episodes of each planner, {plan.blind} of random play "
        f"and of doing nothing, {plan.proven} of a proven policy ({plan.exact_seconds:g} "
        f"s to prove it), trees {plan.depth} steps deep, temperatures {plan.warmth:g} of "
        f"the range of rewards. Played in pieces, which began at {pieces}."
    )
    body = "\n".join(lines(found, plan))
    return (
        "# The MDP domains of IPPC 2011 and 2014\n\n"
        f"`python {' '.join(sys.argv)}`: {how}\n\n{signed()}\n\n{body}\n"
    )


def main() -> None:
    """Play, print, and write the evidence."""
    default = Plan()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="domains; all by default")
    for name in ("calls", "episodes", "blind", "depth", "warmth"):
        value = getattr(default, name)
        parser.add_argument(f"--{name}", type=type(value), default=value)
    for name in ("exact-seconds", "certified-seconds"):
        value = getattr(default, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=float, default=value)
    parser.add_argument("--searches", nargs="+", default=list(default.searches))
    parser.add_argument("--keep", type=Path, help="what was played, for pieces")
    parser.add_argument("--minutes", type=float, default=1e9, help="of this piece")
    parser.add_argument("--out", type=Path)
    asked = vars(parser.parse_args())
    out, keep, minutes = (asked.pop(name) for name in ("out", "keep", "minutes"))
    plan = Plan(
        **{k: tuple(v) if isinstance(v, list) else v for k, v in asked.items()}
    )
    kept = Kept(keep, plan)
    found = rows(plan, kept, minutes)
    print("\n".join(lines(found, plan)))
    if out is not None:
        out.write_text(page(found, plan, kept))


if __name__ == "__main__":
    main()
