"""The published comparisons of tree searches, run again.

Curves are means over 10 repeats with intervals.

    python -m benchmarks.tree.literature [PART ...] [--quick] [--out DIR]

The parts are d-chain, frozen-lake, sailing and synthetic-tree.

Painter et al. 2023: return of the recommended policy against trials on the
10-chain, the 8 x 8 lake and 6 x 6 sailing. As there, every trial's whole path
is added to the tree and untried actions have a fixed value (0; -200 in
sailing). Their code explores with probability e/log(N+1), ours follows the
papers of MENTS, RENTS and TENTS, e|A|/log(N+1): the e below are theirs divided
by |A|. The return is the mean of 250 fresh rollouts of the recommended actions
(uniform off the tree). Dam et al. 2021: |V - V_Omega|, |V - max| and the regret
of the recommended action on synthetic trees, 25 runs. About an hour and a half
on one core in all.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from pathlib import Path

import matplotlib
import numpy as np

import smoothcruiser as sc
from smoothcruiser.evaluation.evaluate import rollout_setting
from smoothcruiser.evaluation.path_rules import PathRule, X
from smoothcruiser.evaluation.rollouts import CompiledRollouts, RolloutTask
from smoothcruiser.tree.tree import Tree

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROLLOUTS = 250
# whole paths are added: no tree below was ever full,
LAKE_NODES, SAILING_NODES = 5_000_000, 12_000_000
FULL_TREE = 2_500_000  # but for the one that is meant to be
COLOURS = {
    "uct": "black",
    "ments": "C1",
    "rents": "C2",
    "tents": "C4",
    "bts": "C0",
    "dents": "C3",
}
# Student's t for a 95% interval of a mean of so many runs
T95 = {3: 4.303, 4: 3.182, 10: 2.262, 25: 2.064}


def mean_return(problem, tree, seed):
    """Mean of 250 rollouts of the tree's recommended policy."""
    task = RolloutTask(
        problem, tree.state, rollout_setting(problem, problem.horizon), seed
    )
    rollouts = CompiledRollouts.of_tree(task, tree)
    rule = PathRule(problem.horizon, True, problem.discount)
    return float(rollouts.run_paths(ROLLOUTS, 2**62, rule)[:, X].mean())


def interval(values):
    """(mean, half-width of its 95% interval)."""
    if len(values) < 2:
        return values[0], math.nan
    t = T95[len(values)]
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(
        len(values)
    )


def checkpoints(trials, points=12, first=10):
    return sorted(
        {round(first * (trials / first) ** (i / (points - 1))) for i in range(points)}
    )


def curves(problem, methods, trials, repeats):
    """{method: [(trials, mean return, half-width), ...]} and seconds per run."""
    marks = checkpoints(trials)
    found = {}
    for label, method in methods.items():
        returns = {mark: [] for mark in marks}
        begin = time.perf_counter()
        nodes = 0
        for seed in range(repeats):
            tree = Tree(problem, method=method, seed=seed)
            for mark in marks:
                tree.grow(simulations=mark - tree.simulations)
                returns[mark].append(mean_return(problem, tree, seed))
            nodes = max(nodes, tree.num_nodes)
        seconds = (time.perf_counter() - begin) / repeats
        found[label] = {
            "curve": [(mark, *interval(returns[mark])) for mark in marks],
            "seconds": seconds,
            "nodes": nodes,
        }
        last = found[label]["curve"][-1]
        print(
            f"  {label:28} {last[1]:9.4f} +- {last[2]:.4f}   {seconds:.1f} s per run",
            flush=True,
        )
    return found


def whole(initial=0.0, **parameters):
    return {"expansion": None, "initial_q": initial, **parameters}


def d_chain(quick):
    """The 10-chain with R_f = 1 and 0.5; optimum 1.0 and 0.9."""
    trials, repeats = (2_000, 3) if quick else (10_000, 10)
    found = {}
    for final in (1.0, 0.5):
        problem = sc.make(f"d-chain:final={final}", discount=1.0, operator="max")
        methods = {
            "uct": sc.UCT(expansion=None),
            "ments 1": sc.MENTS(temperature=1.0, exploration=0.05, **whole()),
            "ments 0.01": sc.MENTS(temperature=0.01, exploration=0.05, **whole()),
            "rents 0.1": sc.RENTS(
                temperature=0.1, exploration=0.05, prior="parent", **whole()
            ),
            "tents 1": sc.TENTS(temperature=1.0, exploration=0.05, **whole()),
            "bts 1": sc.BTS(search_temperature=1.0, exploration=0.1, **whole()),
            "dents 1": sc.DENTS(search_temperature=1.0, exploration=0.1, **whole()),
        }
        print(f"d-chain, R_f = {final}")
        found[f"d-chain, R_f = {final:g}"] = {
            "optimum": 1.0 if final == 1.0 else 0.9,
            "trials": trials,
            "published trials": 10_000,
            "repeats": repeats,
            "methods": curves(problem, methods, trials, repeats),
        }
    return found


def frozen_lake(quick):
    """The 8 x 8 lake, temperatures 1 to 0.001; optimum 0.99^14 = 0.8687."""
    trials, repeats = (5_000, 3) if quick else (300_000, 10)
    problem = sc.make("frozen-lake", discount=1.0, operator="max")
    methods = {"uct": sc.UCT(expansion=None, max_nodes=LAKE_NODES)}
    for c in (1.0, 0.1):
        methods[f"uct c={c:g}"] = sc.UCT(
            exploration=c, expansion=None, max_nodes=LAKE_NODES
        )
    for t in (1.0, 0.1, 0.001):
        methods[f"ments {t:g}"] = sc.MENTS(
            temperature=t, exploration=0.25, **whole(max_nodes=LAKE_NODES)
        )
        methods[f"tents {t:g}"] = sc.TENTS(
            temperature=t, exploration=0.25, **whole(max_nodes=LAKE_NODES)
        )
        methods[f"bts {t:g}"] = sc.BTS(
            search_temperature=t, exploration=1.0, **whole(max_nodes=LAKE_NODES)
        )
        methods[f"dents {t:g}"] = sc.DENTS(
            search_temperature=t, exploration=1.0, **whole(max_nodes=LAKE_NODES)
        )
    methods["rents 0.001"] = sc.RENTS(
        temperature=0.001,
        exploration=0.25,
        prior="parent",
        **whole(max_nodes=LAKE_NODES),
    )
    print("frozen lake")
    return {
        "frozen lake 8 x 8": {
            "optimum": 0.99**14,
            "trials": trials,
            "published trials": 300_000,
            "repeats": repeats,
            "methods": curves(problem, methods, trials, repeats),
        }
    }


def sailing(quick):
    """6 x 6 sailing from wind SE; optimum -15.0."""
    trials, repeats = (3_000, 3) if quick else (300_000, 10)
    problem = sc.make("sailing", discount=1.0, operator="max")
    # whole paths in a stochastic lake: 20 to 50 nodes a trial
    low = whole(-200.0, max_nodes=SAILING_NODES)
    methods = {
        "uct": sc.UCT(expansion=None, max_nodes=SAILING_NODES),
        "uct c=10": sc.UCT(exploration=10.0, expansion=None, max_nodes=SAILING_NODES),
        "uct c=50": sc.UCT(exploration=50.0, expansion=None, max_nodes=SAILING_NODES),
        "ments 10": sc.MENTS(temperature=10.0, exploration=0.125, **low),
        "ments 1": sc.MENTS(temperature=1.0, exploration=0.125, **low),
        "rents 10": sc.RENTS(
            temperature=10.0, exploration=0.125, prior="parent", **low
        ),
        "tents 0.1": sc.TENTS(temperature=0.1, exploration=0.25, **low),
        "bts 10": sc.BTS(search_temperature=10.0, exploration=1.0, **low),
        "dents 10": sc.DENTS(search_temperature=10.0, exploration=1.0, **low),
        "ments 10 full": sc.MENTS(
            temperature=10.0, exploration=0.125, **whole(-200.0, max_nodes=FULL_TREE)
        ),
    }
    print("sailing")
    return {
        "sailing 6 x 6": {
            "optimum": float(sc.solve(problem).values[problem.initial_state]),
            "trials": trials,
            "published trials": 300_000,
            "repeats": repeats,
            "methods": curves(problem, methods, trials, repeats),
        }
    }


METRICS = ("error to its own value", "error to the maximum", "regret of the action")


def synthetic_tree(quick):
    """|V - V_Omega|, |V - max| and regret against simulations.

    5 trees with 5 runs each; temperature and e are 0.1.
    """
    sims, trees, runs = (1_000, 2, 2) if quick else (10_000, 5, 5)
    soft = {"temperature": 0.1, "exploration": 0.1}
    cold = {"search_temperature": 0.1, "exploration": 0.1}
    methods = {
        "uct": sc.UCT(exploration=math.sqrt(2.0) * 0.1),
        "ments": sc.MENTS(**soft),
        "rents": sc.RENTS(**soft),
        "rents, parent": sc.RENTS(prior="parent", **soft),
        "tents": sc.TENTS(**soft),
        "bts": sc.BTS(**cold),
        "dents": sc.DENTS(**cold),
    }
    cases = {}
    for k, d in ((4, 4), (8, 3), (16, 2), (16, 3), (2, 5)):
        case = {
            "methods": {
                name: on_trees(k, d, method, sims, trees, runs)
                for name, method in methods.items()
            }
        }
        case["value with an informed prior"] = statistics.fmean(
            informed_value(k, d, number) for number in range(trees)
        )
        cases[f"k = {k}, d = {d}"] = case
        ends = {
            name: [round(m, 4) for m, _ in (run[metric][-1][1:] for metric in METRICS)]
            for name, run in case["methods"].items()
        }
        print(k, d, ends, round(case["value with an informed prior"], 4), flush=True)
    return {
        "synthetic tree": {
            "simulations": sims,
            "trees": trees,
            "runs": runs,
            "cases": cases,
        }
    }


def on_trees(k, d, method, sims, trees, runs):
    """{metric: [(simulations, mean, half-width), ...]} over all trees and runs."""
    marks = checkpoints(sims, points=10)
    found = {metric: {mark: [] for mark in marks} for metric in METRICS}
    for number in range(trees):
        name = f"synthetic-tree:k={k},d={d},seed={number}"
        plain = sc.make(name, discount=1.0, operator="max")
        exact = sc.solve(plain)
        target = sc.solve(
            sc.make(name, discount=1.0, operator=method.operator(plain.operator))
        ).values[0]
        for seed in range(runs):
            tree = Tree(plain, method=method, seed=seed)
            for mark in marks:
                estimate = tree.grow(simulations=mark - tree.simulations).estimate()
                regret = exact.values[0] - exact.q_values[0][estimate.action]
                for metric, x in zip(
                    METRICS,
                    (
                        abs(estimate.value - target),
                        abs(estimate.value - exact.values[0]),
                        regret,
                    ),
                    strict=True,
                ):
                    found[metric][mark].append(x)
    return {
        metric: [(mark, *interval(values)) for mark, values in by_mark.items()]
        for metric, by_mark in found.items()
    }


def informed_value(k, d, number, temperature=0.1):
    """What RENTS converges to when its prior knows the answer.

    pi_0 is proportional to the best leaf below each action (see the docs).
    """
    problem = sc.make(
        f"synthetic-tree:k={k},d={d},seed={number}", discount=1.0, operator="max"
    )
    # the true value of each action, by levels
    best = sc.solve(problem).q_values[: (k**d - 1) // (k - 1)]
    values = best[(k ** (d - 1) - 1) // (k - 1) :]  # of the last level's actions
    for level in range(d - 1, -1, -1):
        first = (k**level - 1) // (k - 1)
        true = best[first : first + k**level]
        prior = true / true.sum(axis=1, keepdims=True)
        v = temperature * np.log((prior * np.exp(values / temperature)).sum(axis=1))
        values = v.reshape(-1, k) if level else v
    return float(values[0])


def draw_trees(data, out):
    """One row of three panels a case."""
    for name, case in data["cases"].items():
        figure, axes = plt.subplots(1, 3, figsize=(12.0, 3.4))
        for axis, metric in zip(axes, METRICS, strict=True):
            for label, run in case["methods"].items():
                x, y, half = zip(*run[metric], strict=True)
                style = ":" if "parent" in label else "-"
                axis.plot(
                    x,
                    y,
                    style,
                    color=COLOURS[label.split(",")[0]],
                    label=label,
                    linewidth=1.3,
                )
                axis.fill_between(
                    x,
                    [a - b for a, b in zip(y, half, strict=True)],
                    [a + b for a, b in zip(y, half, strict=True)],
                    color=COLOURS[label.split(",")[0]],
                    alpha=0.12,
                    linewidth=0,
                )
            axis.set_xscale("log")
            axis.set_ylim(bottom=0.0)
            axis.set_xlabel("simulations")
            axis.set_title(metric, fontsize=9)
        axes[0].legend(fontsize=7)
        runs = data["trees"] * data["runs"]
        figure.suptitle(
            f"synthetic tree, {name}: mean of {runs} runs, 95% intervals", fontsize=9
        )
        figure.tight_layout()
        figure.savefig(
            out / f"synthetic-tree-{name.replace(' = ', '').replace(', ', '-')}.svg"
        )
        plt.close(figure)


def draw(name, data, path):
    """Curves with their intervals, one panel."""
    figure, axis = plt.subplots(figsize=(7.0, 4.2))
    dashes = ["-", "--", ":"]
    seen: dict[str, int] = {}
    for label, run in data["methods"].items():
        family = label.split()[0]
        order = seen[family] = seen.get(family, -1) + 1
        colour = COLOURS[family]
        x, y, half = zip(*run["curve"], strict=True)
        axis.plot(x, y, dashes[order % 3], color=colour, label=label, linewidth=1.3)
        axis.fill_between(
            x,
            [a - b for a, b in zip(y, half, strict=True)],
            [a + b for a, b in zip(y, half, strict=True)],
            color=colour,
            alpha=0.12,
            linewidth=0,
        )
    axis.axhline(data["optimum"], color="grey", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xlabel("trials")
    axis.set_ylabel("return of the recommended policy")
    axis.set_title(
        f"{name}: mean of {data['repeats']} runs, 95% intervals; grey: optimum",
        fontsize=9,
    )
    axis.legend(fontsize=7, ncol=2)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


PARTS = {
    "d-chain": d_chain,
    "frozen-lake": frozen_lake,
    "sailing": sailing,
    "synthetic-tree": synthetic_tree,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", default="docs/evidence/literature")
    options = parser.parse_args()
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    for part in options.parts or PARTS:
        begin = time.perf_counter()
        for name, data in PARTS[part](options.quick).items():
            quick = " --quick" if options.quick else ""
            data |= {
                "command": f"python -m benchmarks.tree.literature {part}{quick}",
                "date": time.strftime("%Y-%m-%d"),
                "load": os.getloadavg(),
            }
            data["seconds"] = time.perf_counter() - begin
            stem = (
                name.replace(" ", "-")
                .replace(",", "")
                .replace("=", "")
                .replace("--", "-")
            )
            (out / f"{stem}.json").write_text(
                json.dumps(data, indent=1, default=float) + "\n"
            )
            if "methods" in data:
                draw(name, data, out / f"{stem}.svg")
            else:
                draw_trees(data, out)


if __name__ == "__main__":
    main()
