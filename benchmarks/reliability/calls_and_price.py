"""Calls that requests really make, against the price that was printed for them.

  python -m benchmarks.reliability.calls_and_price [--requests N] [--seed 0] [--light] [--minutes M]
      [--out FILE]

Each request is a random world (states, actions, discount, terminals, legal actions,
horizon, deterministic steps, states that cannot be compared), a method, an executor and
options. The step itself counts its calls, in this process and in workers: each call
appends a byte to a file. A request breaks its price where more calls are made than

  prepare   says before the run (``Prepared.price``; None where nothing bounds the calls)
  Estimate  says after it (``price``, ``calls_spent``; ``num_calls`` are those used)
  budget    allows

Machine code cannot append to a file: there the calls that the answer counts are taken for
those made. Exits with 1 if a request breaks its price.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.timing import publish

import smoothcruiser as sc

SCHEDULES = ("smoothcruiser", "paper", "sparse-sampling")
TREES = ("uct", "ments", "rents", "tents", "bts", "dents", "puct", "gumbel")
METHODS = (*SCHEDULES, "certified", "exact", *TREES, "auto")
VERBS = ("plan", "plan_many", "agent", "evaluate")
# out of a hundred requests, those that start processes or compile
PROCESSES, COMPILED, BATCHED = 1, 3, 4
DEAR = 20_000  # calls that no request here is given where nothing limits it
DECISIONS = 2  # of an agent
EVERY = 100  # requests between two lines that say how far it is


class Always:
    """A stream of one number."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self) -> float:
        return self.number


class Opaque:
    """A state that shows nothing to compare."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


@dataclass(frozen=True)
class World:
    """A random walk whose calls append to a file; it can be sent to a process."""

    path: str
    seed: int
    states: int
    actions: int
    certain: bool = False
    ends: bool = False
    opaque: bool = False

    def number(self, state: Any) -> int:
        return state.number if self.opaque else int(state)

    def state(self, number: int) -> Any:
        return Opaque(number) if self.opaque else number

    def __call__(self, state: Any, action: int, rng: Any) -> Any:
        with open(self.path, "ab", buffering=0) as file:
            file.write(b".")
        return self.move(state, action, rng)

    def move(self, state: Any, action: int, rng: Any) -> Any:
        here = self.number(state)
        spot = self.seed + 7 * here + 3 * action
        far = not self.certain and rng.random() < 0.4
        after = (spot * (5 if far else 1) + 1) % self.states
        reward = float((spot % 5) / 4.0)
        if self.ends:
            return reward, self.state(after), after == 0
        return reward, self.state(after)

    def batch(self, states: Any, actions: Any, rng: Any) -> Any:
        with open(self.path, "ab", buffering=0) as file:
            file.write(b"." * len(states))
        spot = self.seed + 7 * states + 3 * actions
        far = rng.random(len(states)) < 0.4
        after = (np.where(far, 5 * spot, spot) + 1) % self.states
        return (spot % 5) / 4.0, after

    def outcomes(self, state: Any, action: int) -> Any:
        """The model, for methods that read one."""
        rewards, after = zip(
            *(self.move(state, action, Always(x))[:2] for x in (0.0, 1.0)), strict=True
        )
        return [(0.4, rewards[0], after[0]), (0.6, rewards[1], after[1])]

    def terminal(self, state: Any) -> bool:
        return self.number(state) == 0

    def legal(self, state: Any, action: int) -> bool:
        return action == 0 or (self.number(state) + action) % 3 > 0

    @property
    def calls(self) -> int:
        return os.path.getsize(self.path) if os.path.exists(self.path) else 0


@cache
def compiled_world() -> sc.MDP:
    """One problem for all compiled requests: it is compiled once."""
    import numba

    @numba.njit
    def step(state, action, rng):
        after = (state + 1 + action) % 9 if rng.random() < 0.7 else (2 * state) % 9
        return (1.0 if after == 3 else 0.0), after

    about: dict[str, Any] = {"discount": 0.5, "operator": sc.Entropy(1.0)}
    return sc.MDP(step, num_actions=2, initial_state=1, **about)


@dataclass(frozen=True)
class Request:
    """One request, as data that can be printed."""

    verb: str
    method: str
    world: World | None  # None: the compiled one, which counts by itself
    about: dict[str, Any]  # of the problem
    options: dict[str, Any]
    parameters: dict[str, Any] = field(default_factory=dict)  # of the method

    def __str__(self) -> str:
        shown = [f"{k}={v!r}" for k, v in {**self.options, **self.parameters}.items()]
        world = "compiled" if self.world is None else replace(self.world, path="")
        return f"{self.verb} {self.method} {' '.join(shown)} of {world} {self.about}"


@dataclass(frozen=True)
class Paid:
    """What came of one request."""

    request: Request
    num_calls: int  # that the step counted
    prepared: int | None  # the price before the run
    price: int | None  # the Estimate's
    spent: int
    budget: int | None
    refused: str = ""  # one sentence; a request may be refused

    @property
    def limit(self) -> int | None:
        """The smallest of what bounds the calls."""
        known = [self.prepared, self.price, self.budget]
        return min((x for x in known if x is not None), default=None)

    @property
    def broken(self) -> str:
        """What is broken, in words; empty where all holds."""
        if self.refused:
            over = self.budget is not None and self.num_calls > self.budget
            return f"{self.num_calls} calls before it was refused" if over else ""
        limits = {
            "the price that prepare said": self.prepared,
            "the price of the Estimate": self.price,
            "the budget": self.budget,
        }
        broken = [
            f"{self.num_calls} calls made, {name} is {limit}"
            for name, limit in limits.items()
            if limit is not None and self.num_calls > limit
        ]
        options = self.request.options
        # workers that the clock ends count no more
        ended = options.get("executor") == "processes" and "seconds" in options
        too_many = self.num_calls > self.spent and not ended
        # and one call may be broken off by it after it was begun, before it wrote its byte
        unwritten = 1 if "seconds" in options else 0
        if too_many or self.num_calls < self.spent - unwritten:
            broken.append(f"{self.num_calls} calls made, {self.spent} counted")
        return "; ".join(broken)


def requests(seed: int, folder: Path, *, light: bool = False) -> Iterator[Request]:
    """Random requests without end; ``light`` ones neither compile nor start workers."""
    rng = np.random.default_rng(seed)
    while True:
        kind = 100 if light else rng.integers(100)
        world = random_world(rng, str(folder / "calls"))
        executor: str | None = None
        if kind < PROCESSES:
            executor = "processes"
        elif kind < PROCESSES + COMPILED:
            yield compiled_request(rng)
            continue
        elif kind < PROCESSES + COMPILED + BATCHED:
            executor = "batched"
            world = replace(world, certain=False, ends=False, opaque=False)
        yield random_request(rng, world, executor)


def random_world(rng: np.random.Generator, path: str) -> World:
    return World(
        path,
        seed=int(rng.integers(1000)),
        states=int(rng.integers(2, 30)),
        actions=int(rng.integers(1, 5)),
        certain=bool(rng.random() < 0.2),
        ends=bool(rng.random() < 0.3),
        opaque=bool(rng.random() < 0.2),
    )


def random_request(
    rng: np.random.Generator, world: World, executor: str | None
) -> Request:
    some = rng.choice
    verb = str(some(VERBS, p=(0.7, 0.1, 0.1, 0.1)))
    method = "" if verb == "evaluate" else str(some(METHODS))
    if executor == "processes":
        verb, method = "plan", str(some(["smoothcruiser", "certified", "auto"]))
    elif executor == "batched":
        verb, method = "plan", str(some(["smoothcruiser", "sparse-sampling"]))
    about: dict[str, Any] = {
        "discount": float(some([0.2, 0.5, 0.9])),
        "operator": some([sc.Entropy(1.0), sc.Max(), sc.Sparsemax(0.5)]),
    }
    if rng.random() < 0.2:
        about["horizon"] = int(rng.integers(1, 5))
    if method == "exact" and verb != "evaluate":
        about["outcomes"] = world.outcomes
    if executor != "batched":
        if world.opaque and (method == "exact" or rng.random() < 0.5):
            about["key"] = world.number
        if world.certain and rng.random() < 0.7:
            about["deterministic"] = True
        if rng.random() < 0.2:
            about["legal"] = world.legal
    options = random_limits(rng, verb, method)
    if executor is not None:
        options["executor"] = executor
    elif verb != "evaluate" and method in SCHEDULES and rng.random() < 0.3:
        options["executor"] = "reference"
    if executor == "processes":
        options["workers"] = 2
    elif verb == "plan" and method in SCHEDULES and rng.random() < 0.2:
        options["store"] = str(Path(world.path).parent / "runs.db")
    if method in SCHEDULES and verb != "evaluate" and rng.random() < 0.2:
        options["shards"] = int(rng.integers(1, 9))
    parameters: dict[str, Any] = {}
    if verb == "plan" and method in ("uct", "ments") and rng.random() < 0.3:
        parameters["certify"], options["delta"] = True, 0.1
    return Request(verb, method, world, about, options, parameters)


def random_limits(rng: np.random.Generator, verb: str, method: str) -> dict[str, Any]:
    """Limits that the method takes, at least one."""
    some, options = rng.choice, {"seed": int(rng.integers(1000))}
    if verb == "evaluate" or method not in (*TREES, "exact"):
        options["delta"] = 0.1
        if method == "paper" and verb != "evaluate":
            options["epsilon"] = "50%"
        elif rng.random() < 0.6:
            options["epsilon"] = str(some(["10%", "20%", "30%", "45%"]))
    if method == "exact" and verb != "evaluate":
        return {}
    if method in TREES and verb != "evaluate" and rng.random() < 0.3:
        options["simulations"] = int(rng.integers(1, 100))
    if rng.random() < 0.4:
        options["seconds"] = float(some([0.01, 0.05, 0.2]))
    unlimited = "epsilon" not in options or verb != "plan"
    if rng.random() < 0.4 or (unlimited and "seconds" not in options):
        options["budget"] = int(10 ** rng.uniform(0.0, 3.7))
    return options


def compiled_request(rng: np.random.Generator) -> Request:
    method = str(rng.choice(["smoothcruiser", "sparse-sampling", "certified", "uct"]))
    return Request("plan", method, None, {}, random_limits(rng, "plan", method))


def problem_of(request: Request) -> sc.MDP:
    world = request.world
    if world is None:
        return compiled_world()
    step: Any = world
    if request.options.get("executor") == "batched":
        step = sc.batched(world.batch)
    return sc.MDP(
        step,
        num_actions=world.actions,
        initial_state=world.state(1),
        **({"terminal": world.terminal} if world.ends else {}),
        **request.about,
    )


def paid(request: Request) -> Paid:
    """Run a request and count."""
    world, budget = request.world, request.options.get("budget")
    if budget is not None and request.verb == "agent":
        budget *= DECISIONS
    if world is not None:
        Path(world.path).unlink(missing_ok=True)
    problem = problem_of(request)

    def outcome(price: Any, answers: Any, refused: str = "") -> Paid:
        spent = sum(x.calls_spent or x.num_calls for x in answers)
        num_calls = spent if world is None else world.calls
        prices = [x.price for x in answers]
        known = all(x is not None for x in prices) and prices
        told = sum(prices) if known else None
        return Paid(request, num_calls, price, told, spent, budget, refused)

    try:
        price, answers = VERB[request.verb](problem, request)
    except sc.SmoothcruiserError as error:
        return outcome(None, [], str(error))
    return outcome(price, answers)


def _plan(problem: sc.MDP, request: Request) -> Any:
    keywords = {"method": request.method, **request.options, **request.parameters}
    ready = sc.prepare(problem, **keywords)
    price = DEAR if ready.price is None else ready.price
    if not {"budget", "seconds"} & keywords.keys() and price >= DEAR:
        raise sc.InvalidInput(f"a price of {ready.price} is not paid here")
    return ready.price, [ready.run()]


def _plan_many(problem: sc.MDP, request: Request) -> Any:
    world = request.world
    assert world is not None
    states = [world.state(n) for n in range(1, min(4, world.states))]
    options = {k: v for k, v in request.options.items() if k != "store"}
    answers = sc.plan_many(problem, states, method=request.method, **options)
    whole = {
        "num_calls": answers.num_calls,
        "calls_spent": None,
        "price": answers.price,
    }
    return None, [replace(answers[0], **whole)]


def _act(problem: sc.MDP, request: Request) -> Any:
    """Some decisions; the budget is each one's."""
    answers = []
    agent = sc.Agent(problem, method=request.method, **request.options)
    try:
        for _ in range(DECISIONS):
            agent.act(problem.initial_state)
            answers.append(agent.estimate)
    finally:
        agent.close()
    return None, answers


def _evaluate(problem: sc.MDP, request: Request) -> Any:
    def policy(state: Any) -> list[float]:
        legal = problem.legal_actions(state)
        return [(a in legal) / len(legal) for a in range(problem.num_actions)]

    return None, [sc.evaluate(problem, policy, **request.options)]


VERB: dict[str, Callable[[sc.MDP, Request], Any]] = {
    "plan": _plan,
    "plan_many": _plan_many,
    "agent": _act,
    "evaluate": _evaluate,
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="at the most")
    parser.add_argument(
        "--light", action="store_true", help="no workers, no compiling"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    begin, rows = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as name:
        stream = requests(options.seed, Path(name), light=options.light)
        for request, _ in zip(stream, range(options.requests), strict=False):
            rows.append(paid(request))
            if rows[-1].broken:
                print(f"BROKEN {request}\n  {rows[-1].broken}", flush=True)
            if time.perf_counter() - begin > 60.0 * options.minutes:
                break
            if len(rows) % EVERY == 0:
                took, bad = (
                    time.perf_counter() - begin,
                    sum(bool(r.broken) for r in rows),
                )
                print(f"{len(rows)} requests, {bad} broken, {took:.0f} s", flush=True)
    text = report(rows, time.perf_counter() - begin)
    publish(text, options.out)
    return int(any(row.broken for row in rows))


def report(rows: list[Paid], seconds: float) -> str:
    """The page of the evidence: one line per method and verb, and what was broken."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout
    broken = [row for row in rows if row.broken]
    lines = [
        "# Calls and prices",
        "",
        f"`python {' '.join(sys.argv)}` at commit {commit.strip()}, "
        f"{time.strftime('%Y-%m-%d')}, {seconds:.0f} s (what is counted: the script's head)",
        "",
        f"{len(rows):,} random requests, {sum(bool(row.refused) for row in rows):,} of "
        f"them refused in a sentence; {sum(row.num_calls for row in rows):,} calls counted by "
        f"the steps themselves. Requests that made more calls than their price or their "
        f"budget, or counted others than they made: {len(broken)}.",
        "",
        "| verb | method | requests | refused | with seconds | calls | largest share of "
        "the price | broken |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups = Counter((row.request.verb, row.request.method) for row in rows)
    for (verb, method), number in sorted(groups.items()):
        part = [
            r for r in rows if (r.request.verb, r.request.method) == (verb, method)
        ]
        shares = [
            row.num_calls / row.limit for row in part if not row.refused and row.limit
        ]
        cells = (
            verb,
            "" if verb == "evaluate" else method,
            f"{number:,}",
            f"{sum(bool(row.refused) for row in part):,}",
            f"{sum('seconds' in row.request.options for row in part):,}",
            f"{sum(row.num_calls for row in part):,}",
            f"{max(shares):.3f}" if shares else "",
            str(sum(bool(row.broken) for row in part)),
        )
        lines.append(f"| {' | '.join(cells)} |")
    executors = Counter(
        "compiled"
        if r.request.world is None
        else r.request.options.get("executor", "default")
        for r in rows
    )
    counted = ", ".join(f"{name} {n:,}" for name, n in sorted(executors.items()))
    lines += ["", f"Executors: {counted}."]
    lines += [f"- {row.request}: {row.broken}" for row in broken]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
