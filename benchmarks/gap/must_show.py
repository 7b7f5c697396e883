"""``gap`` on problems that nothing else certifies: intervals, truths, price, and ``plan``.

``python -m benchmarks.gap.must_show`` writes docs/evidence/gap.md. Parts:

  truths    the independent values (``benchmarks.gap.truths``), into truths.json
  before    ``plan`` with 20 seconds and its ``auto``, into before.json. It was run at the
            commit that the file names, before ``plan`` knew of ``gap``.
  run       ``sc.gap`` on every problem: a process each, so that CPU seconds are its own
  after     ``plan`` again, for as long as ``gap`` took

W is built in (no ``value=``) but for the max-calls, where the owner of the option brings
a regression of her own, as everybody does there: Longstaff and Schwartz's on 100,000
paths, with the basis of Andersen and Broadie and European calls. Its seconds count.

  gap       twice the estimate of V minus that of the policy's value, as a share of |V|:
            the distance of the means, before confidence
  width     of the certified interval, as a share of |V|; all statements of an answer hold
            together with probability 0.95
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.gap import truths, worlds
from benchmarks.gap.max_call_critic import fit_critic

import smoothcruiser as sc

HERE = Path(__file__).parent
PAGE = Path("docs/evidence/gap.md")
SECONDS_BEFORE = 20.0
SEED = 2026
DELTA = 0.05

# --- truths -------------------------------------------------------------------


def write_truths() -> None:
    """All values with their errors, or the intervals of 95% that are published."""
    numbers: dict[str, tuple[float, float]] = {}
    for (assets, spot), truth in truths.call_truths().items():
        numbers[f"max-call, {assets} assets, {spot}"] = truth
    for (assets, spot), (low, high) in truths.PUBLISHED_CALLS.items():
        if assets == 5:
            middle = (low + high) / 2.0
            numbers[f"max-call, 5 assets, {spot}"] = middle, (high - low) / 2.0
    for name, discount, steps in (("H = 100", 1.0, 100), ("0.99", 0.99, None)):
        for label, temperature in (("max", 0.0), ("entropy 0.1", 0.1)):
            truth = truths.storage_value(discount, steps, temperature)
            numbers[f"storage, {name}, {label}"] = truth
    for lead in (1, 2, 3):
        value = truths.lost_sales_value(lead, 1.0, 50)
        numbers[f"lost sales, lead {lead}, H = 50"] = value, 0.0
    numbers["two queues, 0.99"] = truths.two_queues_value(), 0.0
    numbers["battery of a house"] = truths.battery_value()
    numbers["machine that wears"] = truths.wear_value()
    numbers["selling in a market"] = truths.selling_value()
    numbers["American put"] = truths.put_value()
    numbers["agent in blackjack"] = truths.blackjack_value(12, 3, False), 0.0
    numbers["agent at the store"] = numbers["storage, 0.99, max"]
    for name, make in GAMES.items():
        known = make(is_known=True)
        answer = sc.plan(known, method="exact")
        numbers[name] = answer.value, (answer.interval[1] - answer.interval[0]) / 2.0
    write_part("truths", numbers)


def write_part(name: str, numbers: dict[str, Any]) -> None:
    """A part of the evidence, beside this file."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    head = {
        "commit": commit.stdout.strip(),
        "date": str(date.today()),
        "python": platform.python_version(),
    }
    text = json.dumps({"head": head, "numbers": numbers}, indent=1)
    (HERE / f"{name}.json").write_text(text + "\n")


def read_part(name: str) -> dict[str, Any]:
    """The numbers of a part; empty where it was not run."""
    path = HERE / f"{name}.json"
    return json.loads(path.read_text())["numbers"] if path.exists() else {}


# --- agents -------------------------------------------------------------------


def train_in_blackjack(episodes: int = 300_000) -> Callable[[Any], int]:
    """Tabular Q-learning in Gymnasium's Blackjack-v1, by observations alone."""
    import gymnasium

    env = gymnasium.make("Blackjack-v1")
    rng = np.random.default_rng(7)
    q = np.zeros((33, 11, 2, 2))
    counts = np.zeros_like(q)
    seed: int | None = 7
    for _ in range(episodes):
        seen, _ = env.reset(seed=seed)
        seed, is_over = None, False
        while not is_over:
            here = int(seen[0]), int(seen[1]), int(seen[2])
            explores = rng.random() < 0.2
            action = int(rng.integers(2) if explores else q[here].argmax())
            seen, reward, is_over, _, _ = env.step(action)
            after = (
                0.0 if is_over else q[int(seen[0]), int(seen[1]), int(seen[2])].max()
            )
            counts[*here, action] += 1.0
            rate = counts[*here, action] ** -0.7
            q[*here, action] += rate * (float(reward) + after - q[*here, action])
    rule = q.argmax(axis=-1)
    return lambda hand: int(rule[hand.total, hand.dealer, int(hand.ace)])


def train_at_the_store(steps: int = 400_000) -> Callable[[Any], int]:
    """Q-learning at the store, over levels times nine cells of the price."""
    step = worlds.zoo_world("storage, 0.99, max").make().oracle.py_func
    rng, q = np.random.default_rng(3), np.zeros((11, 9, 3))

    class Numbers:
        """A stream for the step."""

        normal = staticmethod(rng.standard_normal)

    def cell_of(state: Any) -> tuple[int, int]:
        return state.level, min(8, int((state.log_price + 1.2) / 2.4 * 9.0))

    state = sc.make("storage").start()
    for k in range(steps):
        cell = cell_of(state)
        action = int(rng.integers(3) if rng.random() < 0.2 else q[cell].argmax())
        reward, state = step(state, action, Numbers)
        target = reward + 0.99 * q[cell_of(state)].max()
        q[*cell, action] += 0.2 / (1.0 + k / 50_000) * (target - q[*cell, action])
    rule = q.argmax(axis=-1)
    return lambda here: int(rule[cell_of(here)])


# --- runs ---------------------------------------------------------------------

GAMES: dict[str, Callable[..., Any]] = {
    "game with chance: dice race": worlds.make_race,
    "game, entropy 0.2: random": worlds.make_garnet,
}


def list_runs() -> dict[str, Callable[[], dict[str, Any]]]:
    """Name -> the request: a problem, keywords, and the most that the width may be."""
    runs: dict[str, Callable[[], dict[str, Any]]] = {}
    for world in (*worlds.zoo_worlds(), *worlds.OWN_WORLDS):
        runs[world.name] = lambda world=world: request_of(world)
    for name, make in GAMES.items():
        runs[name] = lambda make=make: {"problem": make(), "width": 0.1}
    runs["agent in blackjack"] = lambda: {
        "problem": worlds.make_blackjack(),
        "train": train_in_blackjack,
        "width": 0.1,
        "upper": "paths",
    }
    runs["agent at the store"] = lambda: {
        "problem": sc.make("storage"),
        "train": train_at_the_store,
        "width": 0.05,
    }
    return runs


def request_of(world: worlds.World) -> dict[str, Any]:
    """The request of a world: its critic where it has one."""
    problem = world.make()
    words: dict[str, Any] = {"problem": problem, "width": world.most_width or 0.03}
    if world.name.startswith("max-call"):
        words["value"] = fit_critic(len(problem.start()), problem.start()[0])
    return words


def run_one(name: str) -> dict[str, Any]:
    """``sc.gap`` on one problem, in this process."""
    start = time.process_time()
    words = list_runs()[name]()
    if "train" in words:
        words["policy"] = words.pop("train")()
    fit_seconds = time.process_time() - start
    problem, width = words.pop("problem"), words.pop("width")
    gap = sc.gap(
        problem,
        epsilon=f"{50.0 * width:g}% of value",
        delta=DELTA,
        seed=SEED,
        seconds=600.0,
        **words,
    )
    print(gap, file=sys.stderr, flush=True)
    return {
        "interval": gap.interval,
        "value": gap.value,
        "policy value": gap.policy_value,
        "policy interval": gap.policy_interval,
        "regret": gap.regret,
        "nash conv": gap.nash_conv,
        "calls": gap.num_calls,
        "paths": gap.certificate.num_paths,
        "upper": gap.upper,
        "notes": gap.notes,
        "fit seconds": fit_seconds,
        "compile seconds": gap.compile_seconds,
        "cpu seconds": time.process_time() - start,
        "most width": width,
    }


def plan_one(name: str, seconds: float) -> dict[str, Any]:
    """``plan`` with its own choice of method, for some seconds."""
    problem = list_runs()[name]().pop("problem")
    start = time.process_time()
    try:
        answer = sc.plan(problem, seconds=seconds, delta=DELTA, seed=SEED)
    except sc.SmoothcruiserError as error:
        return {"refusal": str(error)}
    return {
        "interval": answer.interval,
        "value": answer.value,
        "method": answer.method,
        "calls": answer.num_calls,
        "cpu seconds": time.process_time() - start,
    }


def run_part(part: str, names: list[str]) -> None:
    """A part over all problems, each in a process of its own; what is there is kept."""
    numbers = read_part(part)
    for name in names:
        program = [sys.executable, "-m", __spec__.name, part, "--only", name]
        done = subprocess.run(program, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"{name}: failed", file=sys.stderr)
            continue
        numbers[name] = json.loads(done.stdout.splitlines()[-1])
        write_part(part, numbers)
        print(part, name, done.stdout.splitlines()[-1], flush=True)


# --- the page -----------------------------------------------------------------


def shown_interval(interval: Any) -> str:
    """An interval with as many digits as it can use."""
    low, high = interval
    if not all(map(math.isfinite, (low, high))):
        return f"[{low:g}, {high:g}]"
    digits = max(0, min(5, 1 - math.floor(math.log10(max(high - low, 1e-9) / 2.0))))
    return f"[{low:.{digits}f}, {high:.{digits}f}]"


def page_rows() -> list[str]:
    """The table."""
    exact, runs = read_part("truths"), read_part("run")
    before, after = read_part("before"), read_part("after")
    rows = [
        "| problem | value | `gap`, 95% | width | gap | CPU s | calls | `plan` before | after |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, run in runs.items():
        value, error = exact[name]
        low, high = run["interval"]
        inside = low <= value + error and value - error <= high
        share = 100.0 / abs(value)
        gap = 2.0 * (run["value"] - run["policy value"]) * share
        gap_text = f"{gap:.2f}%" if math.isfinite(gap) else ""  # none in a game
        plans = [
            shown_interval(part[name]["interval"])
            if part.get(name, {}).get("interval")
            else "refused"
            if "refusal" in part.get(name, {})
            else ""
            for part in (before, after)
        ]
        rows.append(
            f"| {name} | {value:.6g}{f' ± {error:.1g}' if error > 1e-9 else ''} "
            f"| {shown_interval(run['interval'])}{'' if inside else ' **misses**'} "
            f"| {(high - low) * share:.2f}% | {gap_text} | {run['cpu seconds']:.0f} "
            f"| {run['calls']:.2g} | {' | '.join(plans)} |"
        )
    return rows


def agent_rows() -> list[str]:
    """The agents and the pairs of policies."""
    rows = [
        "| who | value of the policy | regret at most | regret by the means |",
        "|---|---|---|---|",
    ]
    for name, run in read_part("run").items():
        if name.startswith("agent"):
            regret = run["value"] - run["policy value"]
            rows.append(
                f"| {name} | {shown_interval(run['policy interval'])} | "
                f"{run['regret']:.4f} | {2.0 * regret:.4f} |"
            )
        elif run.get("nash conv") is not None:
            rows.append(f"| {name} | | {run['nash conv']:.4f} (NashConv) | |")
    return rows


LEGEND = (
    "**gap**: the mean of U minus that of L, before confidence, as a share of the value. "
    "**width**: of the certified interval; all statements of an answer hold together with "
    "probability 0.95. **W** is built in (no `value=`) but for the max-calls, where the "
    "owner of the option brings a regression of her own, as everybody does there "
    "(`benchmarks/gap/max_call_critic.py`). **CPU s** are all of the process's own: the "
    "fit, compiling, pilot and paths. **value** is that of independent solvers "
    "(`benchmarks/gap/truths.py`; `check_truths.py` tests them against the steps); ± is "
    "the change from a grid of twice the step, for five assets the published interval of "
    "95%, for games the proven error of `exact`.",
    "",
)


def write_page() -> None:
    """docs/evidence/gap.md."""
    head = json.loads((HERE / "run.json").read_text())["head"]
    first = json.loads((HERE / "before.json").read_text())
    spent = [
        run["cpu seconds"] for run in first["numbers"].values() if "cpu seconds" in run
    ]
    lines = [
        "# `gap`: two-sided certificates where states never come back",
        "",
        f"`python -m benchmarks.gap.must_show`, {head['date']}, commit {head['commit']}, "
        f"Python {head['python']}, one process of one core per row. `plan` before: commit "
        f"{first['head']['commit']}, {SECONDS_BEFORE:g} seconds of the clock each, on a busy "
        f"machine {min(spent):.0f} to {max(spent):.0f} CPU seconds; after: the CPU seconds "
        "of the row.",
        "",
        *LEGEND,
        *page_rows(),
        "",
        *agent_rows(),
        "",
    ]
    PAGE.write_text("\n".join(lines))


def main() -> None:
    """Run a part, or all of them and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", default="all")
    parser.add_argument("--only", action="append")
    arguments = parser.parse_args()
    part, names = arguments.part, list(list_runs())
    if (
        part in ("run", "before", "after")
        and arguments.only
        and len(arguments.only) == 1
    ):
        (name,) = arguments.only
        seconds = {"after": read_part("run").get(name, {}).get("cpu seconds")}
        answer = (
            run_one(name)
            if part == "run"
            else plan_one(name, seconds.get(part) or SECONDS_BEFORE)
        )
        print(json.dumps(answer))
        return
    parts = ("truths", "run", "after", "page") if part == "all" else (part,)
    for each in parts:
        if each == "truths":
            write_truths()
        elif each == "page":
            write_page()
        else:
            run_part(each, arguments.only or names)


if __name__ == "__main__":
    main()
