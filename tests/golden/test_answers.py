"""Answers by hash: method x problem x executor. A change of structure must not
change a bit of any of them.

``python tests/golden/test_answers.py`` writes ``answers.json`` anew, after a
change that is meant to change answers; the file holds the value beside the
hash, so that a reader of the difference sees by how much. Bits are promised for
one platform and one set of libraries (README, "The bits"), so the test is
skipped elsewhere.

Proofs are computed by NumPy over arrays, whose functions differ in the last digit between
makes of processors. So intervals and accuracies are recorded as they are and agree to nine
digits (a hash of rounded numbers changes where a number lies near a boundary); values,
policies, samples and prices count to the last bit.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.certified.sampling.step_loops import STEP_LOOPS, TABLE_LOOPS
from smoothcruiser.certified.sweeps.compiled_loops import CERTIFIED
from smoothcruiser.engines.registry import EXECUTORS, default_executor
from smoothcruiser.methods import METHODS

FILE = Path(__file__).with_name("answers.json")
HERE = (
    f"{platform.system()} {platform.machine()}, numpy {np.__version__}, numba "
    f"{numba.__version__}"
)
PROVEN = {"interval", "epsilon", "q_intervals", "confidence", "policy_loss"}


def walk(state, action, rng):
    """A walk on twelve places that pays for the height reached, with a slip and
    an end.
    """
    move = action - 1 if rng.random() < 0.9 else rng.integers(3) - 1
    place = min(11, max(0, state + move))
    return place / 11.0 * rng.random(), place


def over(state):
    return state == 11


def allowed(state, action):
    return action != 2 or state % 3 != 0


def turn(state):
    return 1 + state % 2


COMPILED = {f: numba.njit(f) for f in (walk, over, allowed, turn)}


def spring(states, actions, rng):
    """A noisy spring over arrays."""
    noise = 0.05 * rng.standard_normal(len(states))
    x = 0.8 * states[:, 0] + 0.1 * (actions - 1) + noise
    return 1.0 / (1.0 + x * x), x[:, None]


def soft_value(q):
    """A user's own operator: log-sum-exp at temperature 1/2, as a weighted one."""
    top = max(q)
    return top + 0.5 * math.log(sum(math.exp((x - top) / 0.5) for x in q))


def soft_gradient(q):
    top = max(q)
    weights = [math.exp((x - top) / 0.5) for x in q]
    return np.array(weights) / sum(weights)


def user_problem(compiled: bool, **more) -> sc.Problem:
    step, ends, legal, player = (
        COMPILED[f] if compiled else f for f in (walk, over, allowed, turn)
    )
    kind = sc.Game if more.pop("game", False) else sc.MDP
    parts = {"terminal": ends, "legal": legal, "initial_state": 4, "num_actions": 3}
    parts |= {"discount": 0.4, "operator": sc.Entropy(1.0)}
    if kind is sc.Game:
        parts["player"] = player
    return kind(step, **(parts | more))


def garnet(operator: str, actions: int = 3, **facts) -> sc.Problem:
    facts = {"discount": 0.4, "temperature": 1.0} | facts
    return sc.make(f"garnet:states=8,actions={actions}", operator=operator, **facts)


def problems() -> dict[str, sc.Problem]:
    warm = {"discount": 0.5, "temperature": 1.0}
    soft = sc.CustomOperator(soft_value, soft_gradient, smooth=1.0, sums_to_one=True)
    springs = {"num_actions": 3, "discount": 0.4, "operator": sc.Entropy(1.0)}
    return {
        "chain": sc.make("chain:n=5", **warm),
        "grid": sc.make("gridworld:n=4", discount=0.6, temperature=2.0),
        "garnet kl": garnet("kl"),
        "garnet max": garnet("max", 2, discount=0.3, temperature=None),
        "garnet sparsemax": garnet("sparsemax"),
        "garnet square root": garnet("square-root"),
        "game": sc.make("random-game:states=8,actions=2", **warm),
        "walk": user_problem(True),
        "walk, python": user_problem(False),
        "turns": user_problem(True, game=True),
        "horizon": user_problem(True, horizon=3, discount=0.7),
        "spring": sc.MDP(sc.batched(spring), initial_state=np.zeros(1), **springs),
        "custom operator": user_problem(False, operator=soft),
        "turns, python": user_problem(False, game=True),
    }


SHARP = {"method": "smoothcruiser", "epsilon": "12%", "delta": 0.1}
SPARSE = {"method": "sparse-sampling", "epsilon": "30%", "delta": 0.1}
SEARCH = {"method": "certified", "epsilon": "8%", "delta": 0.1}
TREE = {"simulations": 300}
CASES: dict[str, tuple[str, dict[str, Any]]] = {}
SEARCHED = "chain,grid,garnet kl,garnet max,garnet sparsemax,garnet square root,game"
for _problem in f"{SEARCHED},walk,turns,horizon".split(","):
    CASES[f"{_problem}: smoothcruiser"] = (_problem, SHARP)
    CASES[f"{_problem}: certified"] = (_problem, SEARCH)
for _problem in ("chain", "garnet kl", "game"):
    CASES[f"{_problem}: sparse-sampling"] = (_problem, SPARSE)
    CASES[f"{_problem}: value"] = (_problem, SHARP | {"target": "value"})
    CASES[f"{_problem}: exact"] = (_problem, {"method": "exact"})
    CASES[f"{_problem}: auto"] = (_problem, {"epsilon": "12%", "delta": 0.1})
PATHS = {"method": "gap", "budget": 20_000, "delta": 0.1}
for _problem in ("walk, python", "turns, python"):
    CASES[f"{_problem}: gap"] = (_problem, PATHS)
PAPER = {"method": "paper", "epsilon": 3.0, "delta_prime": 0.9, "budget": 10**7}
CASES["chain: paper"] = ("chain", PAPER)
for _executor in ("reference", "python", "processes"):
    CASES[f"walk: {_executor}"] = ("walk, python", SHARP | {"executor": _executor})
CASES["spring: batched"] = ("spring", SHARP)
CASES["walk: shards=3"] = ("walk", SHARP | {"shards": 3})
for _method in ("uct", "ments", "rents", "tents", "bts", "dents"):
    CASES[f"walk: {_method}"] = ("walk", TREE | {"method": _method})
BELOW = {"method": "uct", "budget": 4000, "certify": True, "delta": 0.1}
CASES["walk: uct, certify"] = ("walk", BELOW)
# appended when the completeness test below was written
CASES["walk: dask"] = ("walk, python", SHARP | {"executor": "dask", "workers": 1})
CASES["walk: compiled"] = ("walk", SHARP | {"executor": "compiled"})
CASES["custom operator: smoothcruiser"] = ("custom operator", SHARP)
CASES["custom operator: certified"] = ("custom operator", SEARCH)
CASES["turns: sparse-sampling"] = ("turns", SPARSE)
CASES["turns: reference"] = ("turns, python", SHARP | {"executor": "reference"})
CASES["turns: python"] = ("turns, python", SHARP | {"executor": "python"})
for _method in ("uct", "ments", "rents", "tents", "bts", "dents"):
    CASES[f"turns: {_method}"] = ("turns", TREE | {"method": _method})
for _method in ("puct", "gumbel"):
    for _problem in ("walk", "turns"):
        CASES[f"{_problem}: {_method}"] = (_problem, TREE | {"method": _method})


def answer(name: str) -> sc.Estimate:
    problem, asked = CASES[name]
    return sc.plan(problems()[problem], seed=7, **asked)


NUMBERS = (
    "value interval q_values policy action num_calls epsilon delta method price seed"
)
PROMISED = "kind interval q_intervals confidence bound policy_loss best_actions"


def record(estimate: sc.Estimate) -> dict[str, Any]:
    """Numbers of an answer that depend neither on the clock nor on threads.

    ``bits`` are sixteen digits over those that count to the last bit.
    """
    data = estimate.to_dict()
    promised = data["certificate"] or {}
    numbers = {name: data[name] for name in NUMBERS.split()}
    numbers |= {f"certificate {n}": promised.get(n) for n in PROMISED.split()}
    exact = {n: x for n, x in numbers.items() if n.split()[-1] not in PROVEN}
    text = json.dumps(exact, sort_keys=True).encode()
    return {
        "value": estimate.value,
        "bits": hashlib.sha256(text).hexdigest()[:16],
        "proven": flatten([numbers[name] for name in numbers if name not in exact]),
    }


def flatten(numbers: Any) -> list[float | None]:
    """The numbers of nested lists in one list."""
    if not isinstance(numbers, list):
        return [numbers]
    return [number for part in numbers for number in flatten(part)]


def compare(estimate: sc.Estimate, recorded: dict[str, Any]) -> None:
    """Bits are equal, numbers of proofs agree to nine digits."""
    computed = record(estimate)
    assert computed["bits"] == recorded["bits"], (estimate.value, recorded["value"])
    assert len(computed["proven"]) == len(recorded["proven"])
    for now, before in zip(computed["proven"], recorded["proven"], strict=True):
        assert now == before or now == pytest.approx(before, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", list(CASES))
def test_answers_are_the_same_to_the_last_bit(name):
    recorded = json.loads(FILE.read_text())
    if recorded["platform"] != HERE:
        pytest.skip(f"recorded on {recorded['platform']}, this is {HERE}")
    found, before = answer(name), recorded["answers"][name]
    if found.method == "exact":  # NumPy's linear solver: its bits vary by processor
        assert found.value == pytest.approx(before["value"], rel=1e-13)
        return
    compare(found, before)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", [n for n in CASES if n.endswith(": certified")])
def test_certified_answers_have_one_value_in_both_forms(name, compiled):
    """Interpreted and compiled; a plain step has the answers of a compiled one."""
    recorded = json.loads(FILE.read_text())
    if recorded["platform"] != HERE:
        pytest.skip(f"recorded on {recorded['platform']}, this is {HERE}")
    made, before = problems(), recorded["answers"][name]
    with (
        CERTIFIED.use_form(compiled=compiled),
        STEP_LOOPS.use_form(compiled=compiled),
        TABLE_LOOPS.use_form(compiled=compiled),
    ):
        for problem in (CASES[name][0], f"{CASES[name][0]}, python"):
            if problem in made:
                found = sc.plan(made[problem], seed=7, **SEARCH)
                compare(found, before)


def test_the_executors_agree():
    """One answer from all that run the same step; batched ones are over arrays."""
    recorded = json.loads(FILE.read_text())["answers"]
    same = [
        "walk: smoothcruiser",
        *(f"walk: {name}" for name in EXECUTORS if name != "batched"),
    ]
    assert len({json.dumps(recorded[name]) for name in same}) == 1


def test_every_case_is_recorded():
    assert list(json.loads(FILE.read_text())["answers"]) == list(CASES)


def planned() -> list[tuple[sc.Problem, dict[str, Any]]]:
    made = problems()
    return [(made[problem], asked) for problem, asked in CASES.values()]


def operators(base: type[sc.Operator] = sc.Operator) -> set[type[sc.Operator]]:
    """Every operator that the package defines; not the classes between."""
    own = [
        c for c in base.__subclasses__() if c.__module__.startswith("smoothcruiser")
    ]
    return set().union(*map(operators, own)) if own else {base}


@pytest.mark.parametrize(("kind", "lacking"), [(sc.MDP, set()), (sc.Game, {"paper"})])
def test_every_method_has_an_answer(kind, lacking):
    """For a game all but the printed algorithm, which is for one player only."""
    rows = [asked for problem, asked in planned() if isinstance(problem, kind)]
    found = {asked.get("method", "auto") for asked in rows}
    assert set(METHODS) - found == lacking, "append a case to CASES, and its answer"


def test_every_executor_has_an_answer():
    found = {
        asked.get("executor") or default_executor(problem)
        for problem, asked in planned()
    }
    assert set(EXECUTORS) - found == set(), "append a case to CASES, and its answer"


def test_every_operator_has_an_answer_of_a_schedule_and_of_a_search():
    for method in ("smoothcruiser", "certified"):
        found = {
            type(problem.operator)
            for problem, asked in planned()
            if asked.get("method") == method
        }
        assert operators() - found == set(), "append a case to CASES, and its answer"


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    answers = {name: record(answer(name)) for name in CASES}
    FILE.write_text(
        json.dumps({"platform": HERE, "answers": answers}, indent=1) + "\n"
    )
    print(f"{len(answers)} answers")
