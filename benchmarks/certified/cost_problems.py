"""Cost problems through ``plan``: estimates, intervals and calls, before and after.

    python -m benchmarks.certified.cost_problems [--figures FILE] [--before FILE]
        [--out FILE]

The first table has the calls of the complaints (``cost_worlds.COMPLAINTS``): medians of
three seeds beside the lower ends of the prototype. The second has the calls until the
interval of V is within 5% and 2% of |V| on either side of its middle, with
``target="value"``; ``search`` is what the prototype's author measured for certified
search, and ``goal`` for its upper end with a lower end by paths. The third has further
problems with exact values. delta = .1 in all.

``--figures FILE`` writes the numbers and stops; run with an older version of the package
on the path it makes the file that ``--before`` sets beside those of today.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.certified.cost_worlds import COMPLAINTS, FURTHER, World
from benchmarks.timing import publish, signed

import smoothcruiser as sc

DELTA, SEEDS = 0.1, 3
# (calls of certified search alone, of a lower end by paths with its upper end): cost.md
TWO_SIDED: dict[str, dict[float, tuple[float, float]]] = {
    "garnet": {0.05: (1.2e6, 4.0e5), 0.02: (3.2e6, 9.1e5)},
    "inventory": {0.05: (7.2e6, 1.3e6), 0.02: (1.6e7, 4.1e6)},
    "queues": {0.05: (6.9e6, 3.5e6), 0.02: (3.5e7, 1.7e7)},
    "lake": {0.05: (6.2e6, 4.3e6), 0.02: (2.8e7, 1.9e7)},
    "maintenance": {0.05: (4.9e7, 2.2e7)},
}


def ask(world: World, seed: int, request: dict[str, Any]) -> dict[str, Any]:
    """One answer as plain numbers."""
    begin = time.process_time()
    answer = sc.plan(
        world.problem(), method="certified", delta=DELTA, seed=seed, **request
    )
    assert answer.interval is not None
    return {
        "value": answer.value,
        "low": answer.interval[0],
        "high": answer.interval[1],
        "calls": answer.num_calls,
        "seconds": time.process_time() - begin,
    }


def figures(part: str) -> dict[str, Any]:
    """The numbers of a part, or of all, by table and row."""
    found: dict[str, Any] = {}
    if part in ("all", "complaints"):
        for name, (build, calls, _) in COMPLAINTS.items():
            world = build()
            runs = [ask(world, seed, {"budget": calls}) for seed in range(SEEDS)]
            middle = {key: median(run[key] for run in runs) for key in runs[0]}
            found[f"complaint {name}"] = middle | {"truth": world.truth}
            print(name, middle, flush=True)
    if part in ("all", "further"):
        for name, (build, calls) in FURTHER.items():
            world = build()
            run = ask(world, 0, {"budget": calls})
            states, discount = world.num_states, world.discount
            found[f"further {name}"] = run | {
                "truth": world.truth,
                "states": states,
                "discount": discount,
            }
            print(name, found[f"further {name}"], flush=True)
    if part in ("all", "calls"):
        for name, goals in TWO_SIDED.items():
            world = COMPLAINTS[name][0]()
            for share in goals:
                epsilon = share * abs(world.truth)
                run = ask(world, 0, {"epsilon": epsilon, "target": "value"})
                found[f"calls {name} {share}"] = run | {"truth": world.truth}
                print(name, share, run, flush=True)
    return found


def shown(run: dict[str, Any] | None) -> str:
    """A value with its interval."""
    if run is None:
        return "not run"
    return f"{run['value']:.4g} ({run['low']:.4g}, {run['high']:.4g})"


def page(now: dict[str, Any], before: dict[str, Any]) -> str:
    """The tables as Markdown."""
    lines = [
        "# Cost problems: certified search with paths",
        "",
        "`python -m benchmarks.certified.cost_problems`; " + signed(),
        "",
        "What is shown: the script's head.",
        "",
        "| problem | V | calls | before | now | prototype's lower end | CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (_, calls, low) in COMPLAINTS.items():
        key = f"complaint {name}"
        if key in now:
            lines.append(
                f"| {name} | {now[key]['truth']:.5g} | {calls:,} | "
                f"{shown(before.get(key))} | {shown(now[key])} | {low:g} | "
                f"{now[key]['seconds']:.1f} s |"
            )
    lines += [
        "",
        "| problem | within | search alone | goal | before | now | interval | CPU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, goals in TWO_SIDED.items():
        for share, (alone, goal) in goals.items():
            key = f"calls {name} {share}"
            if key in now:
                old = before.get(key)
                lines.append(
                    f"| {name} | {share:.0%} | {alone:.2g} | {goal:.2g} | "
                    f"{'not run' if old is None else format(old['calls'], ',')} | "
                    f"{now[key]['calls']:,} | {shown(now[key])} | "
                    f"{now[key]['seconds']:.1f} s |"
                )
    lines += [
        "",
        "| problem | states | discount | V | calls | before | now | CPU |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (_, calls) in FURTHER.items():
        key = f"further {name}"
        if key in now:
            lines.append(
                f"| {name} | {now[key]['states']:,} | {now[key]['discount']:g} | "
                f"{now[key]['truth']:.5g} | {calls:,} | {shown(before.get(key))} | "
                f"{shown(now[key])} | {now[key]['seconds']:.1f} s |"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ("all", "complaints", "further", "calls")
    parser.add_argument("--part", default="all", choices=parts)
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--before", type=Path, nargs="*", default=[])
    parser.add_argument("--now", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    now: dict[str, Any] = {}
    for path in options.now:
        now |= json.loads(path.read_text())
    if not now:
        now = figures(options.part)
    if options.figures:
        options.figures.write_text(json.dumps(now, indent=1))
        return 0
    before: dict[str, Any] = {}
    for path in options.before:
        before |= json.loads(path.read_text())
    publish(page(now, before), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
