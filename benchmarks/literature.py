"""The published comparisons of tree searches, run again: curves over 10 repeats with intervals.

    python benchmarks/literature.py [d-chain] [frozen-lake] [sailing] [synthetic-tree] [--quick] [--out DIR]

Painter et al. 2023: return of the recommended policy against trials on the 10-chain, the 8 x 8 lake and 6 x 6 sailing. As there, every
trial's whole path is added to the tree and untried actions have a fixed value (0; -200 in sailing). Their code explores with probability
e/log(N+1), ours follows the papers of MENTS, RENTS and TENTS, e|A|/log(N+1): the e below are theirs divided by |A|. The return is the mean
of 250 fresh rollouts of the recommended actions (uniform off the tree). Dam et al. 2021: |V - V_Omega|, |V - max| and the regret of the
recommended action on synthetic trees. Where their trials were cut to fit a few minutes on two shared cores, the table says so.
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

import smoothcruiser as sc
from smoothcruiser.search.evaluate import _setting
from smoothcruiser.search.evaluate_bounds import TOTAL, begin
from smoothcruiser.search.evaluate_rollouts import CompiledRollouts
from smoothcruiser.search.tree import Tree

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROLLOUTS = 250
T95 = {3: 4.303, 5: 2.776, 10: 2.262}  # Student's t for a 95% interval of a mean of so many runs


def mean_return(problem, tree, seed):
    """Mean of 250 rollouts of the tree's recommended policy."""
    setting = _setting(problem, problem.horizon, 0.0)
    rollouts = CompiledRollouts.of_tree(problem, tree, tree.state, setting, seed)
    sequence = begin(0.5, 0.0)
    low, high = problem.facts.value_bounds()
    rollouts.run(ROLLOUTS, 2**62, low, high - low, sequence)
    return low + (high - low) * float(sequence[TOTAL]) / ROLLOUTS


def interval(values):
    """(mean, half-width of its 95% interval)."""
    if len(values) < 2:
        return values[0], math.nan
    t = T95.get(len(values), 2.3)
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(len(values))


def checkpoints(trials, points=12, first=10):
    return sorted({round(first * (trials / first) ** (i / (points - 1))) for i in range(points)})


def curves(problem, methods, trials, repeats):
    """{method: [(trials, mean return, half-width), ...]} and seconds a run."""
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
        found[label] = {"curve": [(mark, *interval(returns[mark])) for mark in marks], "seconds": seconds, "nodes": nodes}
        last = found[label]["curve"][-1]
        print(f"  {label:28} {last[1]:9.4f} +- {last[2]:.4f}   {seconds:.1f} s a run", flush=True)
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
            "rents 0.1": sc.RENTS(temperature=0.1, exploration=0.05, **whole()),
            "tents 1": sc.TENTS(temperature=1.0, exploration=0.05, **whole()),
            "bts 1": sc.BTS(search_temperature=1.0, exploration=0.1, **whole()),
            "dents 1": sc.DENTS(search_temperature=1.0, exploration=0.1, **whole()),
        }
        print(f"d-chain, R_f = {final}")
        found[f"d-chain, R_f = {final:g}"] = {
            "optimum": 1.0 if final == 1.0 else 0.9, "trials": trials, "published trials": 10_000, "repeats": repeats,
            "methods": curves(problem, methods, trials, repeats),
        }  # fmt: skip
    return found


def frozen_lake(quick):
    """The 8 x 8 lake, temperatures 1 to 0.001; optimum 0.99^14 = 0.8687."""
    trials, repeats = (5_000, 3) if quick else (40_000, 10)
    problem = sc.make("frozen-lake", discount=1.0, operator="max")
    methods = {"uct": sc.UCT(expansion=None)}
    for t in (1.0, 0.1, 0.001):
        methods[f"ments {t:g}"] = sc.MENTS(temperature=t, exploration=0.25, **whole())
        methods[f"tents {t:g}"] = sc.TENTS(temperature=t, exploration=0.25, **whole())
        methods[f"bts {t:g}"] = sc.BTS(search_temperature=t, exploration=1.0, **whole())
        methods[f"dents {t:g}"] = sc.DENTS(search_temperature=t, exploration=1.0, **whole())
    methods["rents 0.001"] = sc.RENTS(temperature=0.001, exploration=0.25, **whole())
    print("frozen lake")
    return {
        "frozen lake 8 x 8": {
            "optimum": 0.99**14, "trials": trials, "published trials": 300_000, "repeats": repeats,
            "methods": curves(problem, methods, trials, repeats),
        }
    }  # fmt: skip


def sailing(quick):
    """6 x 6 sailing from wind SE; optimum -15.0."""
    trials, repeats = (3_000, 3) if quick else (150_000, 10)
    problem = sc.make("sailing", discount=1.0, operator="max")
    low = whole(-200.0, max_nodes=5_000_000)  # whole paths in a stochastic lake: 20 to 50 nodes a trial
    methods = {
        "uct": sc.UCT(expansion=None, max_nodes=5_000_000),
        "ments 10": sc.MENTS(temperature=10.0, exploration=0.125, **low),
        "ments 1": sc.MENTS(temperature=1.0, exploration=0.125, **low),
        "rents 10": sc.RENTS(temperature=10.0, exploration=0.125, **low),
        "tents 0.1": sc.TENTS(temperature=0.1, exploration=0.25, **low),
        "bts 10": sc.BTS(search_temperature=10.0, exploration=1.0, **low),
        "dents 10": sc.DENTS(search_temperature=10.0, exploration=1.0, **low),
    }
    print("sailing")
    return {
        "sailing 6 x 6": {
            "optimum": float(sc.solve(problem).values[problem.initial_state]), "trials": trials, "published trials": 300_000,
            "repeats": repeats, "methods": curves(problem, methods, trials, repeats),
        }
    }  # fmt: skip


def synthetic_tree(quick):
    """|V - V_Omega|, |V - max| and regret after 10,000 simulations; 5 trees x 5 runs; temperature and e 0.1."""
    sims, trees, runs = (1_000, 2, 2) if quick else (10_000, 5, 5)
    found = {}
    for k, d in ((4, 4), (8, 3), (16, 2), (16, 3), (2, 5)):
        rows = {}
        for name in ("uct", "ments", "rents", "tents", "bts", "dents"):
            soft, hard, regret = [], [], []
            for number in range(trees):
                plain = sc.make(f"synthetic-tree:k={k},d={d},seed={number}", discount=1.0, operator="max")
                method = {
                    "uct": sc.UCT(exploration=math.sqrt(2.0) * 0.1), "ments": sc.MENTS(temperature=0.1, exploration=0.1),
                    "rents": sc.RENTS(temperature=0.1, exploration=0.1), "tents": sc.TENTS(temperature=0.1, exploration=0.1),
                    "bts": sc.BTS(search_temperature=0.1, exploration=0.1), "dents": sc.DENTS(search_temperature=0.1, exploration=0.1),
                }[name]  # fmt: skip
                own = method.operator(plain.operator)
                exact = sc.solve(plain)
                target = sc.solve(sc.make(f"synthetic-tree:k={k},d={d},seed={number}", discount=1.0, operator=own)).values[0]
                for seed in range(runs):
                    estimate = Tree(plain, method=method, seed=seed).grow(simulations=sims).estimate()
                    soft.append(abs(estimate.value - target))
                    hard.append(abs(estimate.value - exact.values[0]))
                    regret.append(exact.values[0] - exact.q_values[0][estimate.action])
            rows[name] = {"soft error": statistics.fmean(soft), "error to max": statistics.fmean(hard), "regret": statistics.fmean(regret)}
        found[f"k = {k}, d = {d}"] = rows
        print(k, d, {name: [round(x, 4) for x in row.values()] for name, row in rows.items()}, flush=True)
    return {"synthetic tree": {"simulations": sims, "trees": trees, "runs": runs, "cases": found}}


def draw(name, data, path):
    """Curves with their intervals, one panel."""
    figure, axis = plt.subplots(figsize=(7.0, 4.2))
    styles = {"uct": "k-", "ments": "C1", "rents": "C2", "tents": "C4", "bts": "C0", "dents": "C3"}
    dashes = ["-", "--", ":"]
    seen: dict[str, int] = {}
    for label, run in data["methods"].items():
        family = label.split()[0]
        order = seen[family] = seen.get(family, -1) + 1
        colour = "black" if family == "uct" else styles[family]
        x, y, half = zip(*run["curve"], strict=True)
        axis.plot(x, y, dashes[order % 3], color=colour, label=label, linewidth=1.3)
        axis.fill_between(x, [a - b for a, b in zip(y, half, strict=True)], [a + b for a, b in zip(y, half, strict=True)],
                          color=colour, alpha=0.12, linewidth=0)  # fmt: skip
    axis.axhline(data["optimum"], color="grey", linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xlabel("trials")
    axis.set_ylabel("return of the recommended policy")
    axis.set_title(f"{name}: mean of {data['repeats']} runs, 95% intervals; grey: optimum", fontsize=9)
    axis.legend(fontsize=7, ncol=2)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


PARTS = {"d-chain": d_chain, "frozen-lake": frozen_lake, "sailing": sailing, "synthetic-tree": synthetic_tree}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", default="docs/evidence/literature")
    asked = parser.parse_args()
    out = Path(asked.out)
    out.mkdir(parents=True, exist_ok=True)
    for part in asked.parts or PARTS:
        begin = time.perf_counter()
        for name, data in PARTS[part](asked.quick).items():
            quick = " --quick" if asked.quick else ""
            data |= {
                "command": f"python benchmarks/literature.py {part}{quick}",
                "date": time.strftime("%Y-%m-%d"),
                "load": os.getloadavg(),
            }
            data["seconds"] = time.perf_counter() - begin
            stem = name.replace(" ", "-").replace(",", "").replace("=", "").replace("--", "-")
            (out / f"{stem}.json").write_text(json.dumps(data, indent=1, default=float) + "\n")
            if "methods" in data:
                draw(name, data, out / f"{stem}.svg")


if __name__ == "__main__":
    main()
