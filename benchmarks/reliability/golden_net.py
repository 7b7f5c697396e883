"""Answers of one version of the package beside those of another, bit by bit.

  python -m benchmarks.reliability.golden_net --write FOLDER      with the old version on the path
  python -m benchmarks.reliability.golden_net --compare FOLDER    with the new one

Every method is run on eight problems in six forms of a state (table, compiled int,
compiled NamedTuple, plain int, plain tuple, arrays) by every executor that takes them;
an answer is hashed without its times. Snapshots of certified searches are compared byte by
byte. Stored runs are not: a store names the sources that began it, and refuses others.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

import smoothcruiser as sc

CLOCKED = ("seconds", "compile_seconds", "run", "calls_spent")  # or by threads
TREES = ("uct", "ments", "rents", "tents", "bts", "dents", "puct", "gumbel")


class Spot(NamedTuple):
    place: int
    day: int


def walk(place: int, action: int, rng: Any) -> tuple[float, int]:
    move = action - 1 if rng.random() < 0.8 else rng.integers(3) - 1
    after = min(9, max(0, place + move))
    return after / 9.0 * rng.random(), after


def walk_spots(spot: Spot, action: int, rng: Any) -> tuple[float, Spot]:
    move = action - 1 if rng.random() < 0.8 else rng.integers(3) - 1
    after = min(9, max(0, spot.place + move))
    return after / 9.0 * rng.random(), Spot(after, (spot.day + 1) % 3)


def walk_pairs(pair: tuple[int, int], action: int, rng: Any) -> Any:
    move = action - 1 if rng.random() < 0.8 else rng.integers(3) - 1
    after = min(9, max(0, pair[0] + move))
    return after / 9.0 * rng.random(), (after, (pair[1] + 1) % 3)


def walk_rows(places: Any, actions: Any, rng: Any) -> Any:
    noise = rng.random(len(places))
    after = np.clip(places[:, 0] + (actions - 1) * (noise < 0.8), 0.0, 9.0)
    return after / 9.0 * noise, after[:, None]


def problems(form: str) -> Iterator[tuple[str, sc.Problem]]:
    """Eight problems in one form of a state."""
    step, start = {
        "compiled int": (numba.njit(walk), 4),
        "compiled tuple": (numba.njit(walk_spots), Spot(4, 0)),
        "plain int": (walk, 4),
        "plain tuple": (walk_pairs, (4, 0)),
        "arrays": (sc.batched(walk_rows), np.full(1, 4.0)),
    }[form]
    facts: dict[str, Any] = {"num_actions": 3, "initial_state": start}
    operators = {
        "entropy": sc.Entropy(1.0),
        "kl": sc.KL(1.0),
        "sparsemax": sc.Sparsemax(1.0),
        "square root": sc.SquareRoot(1.0),
    }
    for name, operator in operators.items():
        yield name, sc.MDP(step, **facts, discount=0.4, operator=operator)
    greedy = {**facts, "operator": sc.Max()}
    yield "max", sc.MDP(step, **greedy, discount=0.4)
    yield "discount 0.95", sc.MDP(step, **greedy, discount=0.95)
    yield "horizon", sc.MDP(step, **greedy, discount=1.0, horizon=4)
    yield ("costs", sc.MDP(step, **greedy, discount=0.4, reward_range=(-3.0, 1.0)))


def tables() -> Iterator[tuple[str, sc.Problem]]:
    """Eight problems as tables."""
    for operator in ("entropy", "kl", "sparsemax", "square-root"):
        yield (
            operator,
            sc.make(
                "garnet:states=8,actions=3",
                discount=0.4,
                temperature=1.0,
                operator=operator,
            ),
        )
    yield "max", sc.make("garnet:states=8,actions=3", discount=0.4, operator="max")
    yield "discount 0.95", sc.make("chain:n=6", discount=0.95, operator="max")
    yield "grid", sc.make("gridworld:n=4", discount=0.6, temperature=2.0)
    yield (
        "game",
        sc.make("random-game:states=8,actions=2", discount=0.5, temperature=1),
    )


def requests(form: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The requests about a problem: its methods, each by its executors."""
    hard = name in ("discount 0.95", "horizon")
    limit = {"delta": 0.1, "budget": 20_000 if form != "plain tuple" else 4_000}
    plain = form.startswith("plain")
    engines: tuple[str | None, ...] = (None,)
    if plain:
        engines = ("reference", "python")
    elif form in ("compiled int", "table"):
        engines = ("compiled", "reference")
    for method in ("smoothcruiser", "sparse-sampling"):
        for engine in engines if not hard else engines[:1]:
            more = {} if engine is None else {"executor": engine}
            yield f"{method} {engine}", {"method": method, **limit, **more}
    if form == "plain int" and name == "max":
        yield (
            "processes",
            {"method": "smoothcruiser", **limit, "executor": "processes"},
        )
    yield "certified", {"method": "certified", **limit}
    yield "auto", {"method": "auto", **limit}
    if form == "table":
        yield "exact", {"method": "exact"}
    if form != "arrays":
        for method in TREES:
            yield method, {"method": method, "simulations": 150}
        yield (
            "uct certify",
            {"method": "uct", "budget": 3_000, "certify": True, **DELTA},
        )


DELTA = {"delta": 0.1}


def digest(answer: sc.Estimate) -> str:
    """Sixteen digits of an answer without its times; LAPACK's bits are rounded."""
    data = {k: v for k, v in answer.to_dict().items() if k not in CLOCKED}
    data["notes"] = [n for n in data["notes"] if " s" not in n]
    if data["method"] == "exact":
        data = {"value": f"{data['value']:.9g}"}
    text = json.dumps(data, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def answers() -> Iterator[tuple[str, str]]:
    """Names and hashes of all answers; a refusal counts with its sentence."""
    forms = ("compiled int", "compiled tuple", "plain int", "plain tuple", "arrays")
    for form in ("table", *forms):
        for name, problem in tables() if form == "table" else problems(form):
            for title, request in requests(form, name):
                try:
                    mark = digest(sc.plan(problem, seed=5, **request))
                except sc.SmoothcruiserError as error:
                    mark = hashlib.sha256(str(error).encode()).hexdigest()[:16]
                yield f"{form}: {name}: {title}", mark


def snapshots() -> Iterator[tuple[str, str]]:
    """Hashes of the snapshots of three searches, byte by byte."""
    try:
        from smoothcruiser.certified.snapshots.snapshot import to_bytes
    except ModuleNotFoundError:  # a version from before the folder
        from smoothcruiser.certified.snapshot import to_bytes

    plain = dict(problems("plain tuple"))
    for name, problem in {
        "table": next(tables())[1],
        "max": plain["max"],
        "horizon": plain["horizon"],
    }.items():
        memory = sc.Certified(problem, delta=0.1, seed=3)
        memory.query(budget=3_000)
        yield f"snapshot: {name}", hashlib.sha256(to_bytes(memory)).hexdigest()[:16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path)
    options = parser.parse_args()
    begin, folder = time.perf_counter(), options.write or options.compare
    bits = dict(answers())
    bits |= dict(snapshots())
    if options.write:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "answers.json").write_text(json.dumps(bits, indent=1))
        print(f"{len(bits)} answers in {time.perf_counter() - begin:.0f} s")
        return
    before = json.loads((folder / "answers.json").read_text())
    differ = sorted(k for k in before.keys() | bits if before.get(k) != bits.get(k))
    for name in differ:
        print(f"{name}: {before.get(name)} -> {bits.get(name)}")
    print(
        f"{len(bits)} answers, {len(set(bits.values()))} different ones; "
        f"{len(differ)} changed; {time.perf_counter() - begin:.0f} s"
    )
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
