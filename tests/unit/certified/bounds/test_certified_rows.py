"""Certified search over a known model: rows of ``outcomes=`` are read, nothing is
sampled, and delta is 0.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser import exact


def never(state: Any, action: int, rng: Any) -> Any:
    raise AssertionError("the step was called")


def walk(state: int, action: int) -> list[tuple[float, float, int]]:
    """A walk on 0..60 with repeated next states, other rewards, and a zero."""
    up = 0.4 if action == 0 else 0.7
    high, low = min(60, state + 1), max(0, state - 1)
    return [
        (up / 2, high / 60.0, high),
        (up / 2, 0.0, high),
        (0.0, 1.0, -1),
        (1.0 - up, low / 60.0, low),
    ]


problem = partial(
    mdp, never, discount=0.9, operator=sc.Entropy(0.1), initial_state=20, outcomes=walk
)


@dataclasses.dataclass(frozen=True)
class Place:
    """A state that is no plain value."""

    x: int


def placed(state: Place, action: int) -> list[tuple[float, float, Place]]:
    return [(p, r, Place(z)) for p, r, z in walk(state.x, action)]


def many(state: int, action: int) -> list[tuple[float, float, int]]:
    """A hundred outcomes, some of them the same."""
    return [(0.01, i % 3 / 2.0, (state + action + i % 40) % 41) for i in range(100)]


WORLDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "max": {"operator": sc.Max()},
    "horizon": {"horizon": 7, "discount": 1.0},
    "one step": {"horizon": 1},
    "ends": {"terminal": lambda s: s >= 23},
    "legal": {"legal": lambda s, a: a == 0 or s % 3 == 0},
    "key": {"key": lambda s: s // 1},
    "objects": {"outcomes": placed, "initial_state": Place(20)},
    "many": {"outcomes": many},
    "deterministic": {"outcomes": lambda s, a: [(1, s / 60.0, (s + a) % 60)]},
}


@pytest.mark.compiles
@pytest.mark.parametrize("name", WORLDS)
def test_every_bound_holds_the_exact_value(name: str) -> None:
    """All states met, against the exact solver, at two half-widths; no calls."""
    world = problem(**WORLDS[name])
    memory, solution = sc.Certified(world), sc.solve(world)
    for epsilon in (0.2, 1e-7):
        found = memory.query(epsilon=epsilon)
        assert (found.method, found.num_calls, found.delta) == ("certified", 0, 0.0)
        assert found.certificate.confidence == 1.0
        assert "outcomes= is the model" in found.certificate.assumptions[0]
        assert 0.5 * (found.interval[1] - found.interval[0]) <= epsilon
        assert f"{memory.num_calls} rows of outcomes= read" in found.notes[-1]
    slack = solution.residual_bound
    for row in memory.table():
        if row.remaining != world.horizon:
            continue  # the solver's rows are those of the first stage
        value = float(solution.values[solution.index(row.state)])
        low, high = row.interval
        assert low - slack <= value <= high + slack


@pytest.mark.compiles
def test_a_game_is_searched_as_it_is_solved() -> None:
    """The min player moves at odd places; plain max has ties there."""
    game = sc.Game(
        never,
        player=lambda s: 1 + s % 2,
        num_actions=2,
        discount=0.9,
        operator=sc.Max(),
        initial_state=20,
        outcomes=lambda s, a: walk(s, a if s % 4 else 0),
    )
    exact, memory = sc.solve(game), sc.Certified(game)
    memory.query(epsilon=1e-6)
    for node in range(1, memory.memory.num_nodes):
        value = exact.values[exact.index(memory.memory.states[node])]
        low, high = memory.memory.interval(node)
        assert low - exact.residual_bound <= value <= high + exact.residual_bound


@pytest.mark.compiles
def test_a_small_part_of_a_huge_graph_is_enough() -> None:
    """A percent of the span on ten million states, of which a few thousand are read."""

    def stock(state: tuple[int, int], action: int) -> list[tuple[float, float, Any]]:
        held = [
            min(3_000, state[0] + 2 * (action == 0)),
            min(3_000, state[1] + 2 * action),
        ]
        sold = [(max(0, held[0] - d), max(0, held[1] - 1 + d)) for d in (0, 1)]
        return [(0.5, min(1.0, sum(held) / 100.0), after) for after in sold]

    world = problem(outcomes=stock, initial_state=(5, 5), operator=sc.Max())
    found = sc.plan(world, method="certified", epsilon="1%")
    assert found.interval[1] - found.interval[0] <= 0.2
    rows = int(found.notes[-1].split("; ")[1].split(" ")[0].replace(",", ""))
    assert rows < 20_000


@pytest.mark.compiles
def test_limits_end_a_search_with_an_interval_that_holds() -> None:
    """The budget counts rows; states are limited too, and a callback may say stop."""
    truth = sc.plan(problem(), method="exact").value
    for limit, reason in (
        ({"budget": 10}, "budget"),
        ({"max_states": 5}, "max_states"),
        ({"progress": lambda report: report.calls < 20}, "callback"),
    ):
        found = sc.plan(problem(), method="certified", epsilon=1e-6, **limit)
        assert found.interval[0] <= truth <= found.interval[1]
        assert found.epsilon > 1e-6
        assert found.num_calls == 0
        if reason == "budget":
            assert "10 rows of outcomes= read" in found.notes[-1]
    memory = sc.Certified(problem(), max_states=5)
    memory.query(epsilon=1e-6)
    assert memory.memory.num_kept <= 5
    assert memory.reason == "max_states"


@pytest.mark.compiles
def test_a_stored_search_goes_on_with_the_same_bits(tmp_path: Any) -> None:
    """Saved in slices, stopped by its budget, loaded, and asked again; rows of a
    hundred outcomes too.
    """
    for rows in (walk, many):
        world, path = problem(outcomes=rows), tmp_path / f"{rows.__name__}.db"
        whole = sc.Certified(world)
        first, second = whole.query(epsilon=0.5), whole.query(epsilon=1e-3)
        begun = sc.Certified(world)
        begun.keep(lambda data, calls: None)  # someone waits: rows are read in slices
        assert begun.query(epsilon=0.5).interval == first.interval
        assert begun.memory.states == whole.memory.states[: begun.memory.num_nodes]
        begun.save(path)
        again = sc.Certified.load(path, world).query(epsilon=1e-3)
        assert again.interval == second.interval
        assert again.q_values == second.q_values
        cut = sc.plan(world, method="certified", epsilon=1e-3, budget=20, store=path)
        rest = sc.resume(cut.run, path, problem=world, budget=10**6)
        assert rest.interval is not None
        assert rest.interval[1] - rest.interval[0] <= 2e-3


def writing(state: Any, action: int) -> list[Any]:
    state[0] += 1.0
    return [(1.0, 0.0, np.array([0.0]))]


class Fickle:
    """A model that answers differently when it is asked again."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, state: int, action: int) -> list[Any]:
        self.asked += 1
        return [(1.0, 1.0 / self.asked, state)]


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"terminal": True}, sc.InvalidInput, "terminal="),
        ({"outcomes": lambda s, a: [(0.9, 0.0, s)]}, sc.InvalidInput, "sum to 1"),
        ({"outcomes": lambda s, a: []}, sc.InvalidInput, "sum to 1"),
        (
            {"outcomes": lambda s, a: [(math.inf, 0.0, s), (-math.inf, 0.0, s)]},
            sc.InvalidInput,
            "sum to 1",
        ),
        ({"outcomes": lambda s, a: 3}, sc.InvalidInput, "must list"),
        # nothing is listed: the step is sampled, at the default delta
        ({"outcomes": lambda s, a: None}, sc.OracleError, "the step was called"),
        (
            {"deterministic": True},
            sc.InvalidInput,
            "lists 3 outcomes, but deterministic",
        ),
        ({"outcomes": lambda s, a: [(1.0, 2.0, s)]}, sc.OracleError, "reward_range"),
        ({"outcomes": lambda s, a: [(1.0, 0.0, [s])]}, sc.InvalidInput, "told apart"),
        ({"outcomes": lambda s, a: 1 / 0}, sc.OracleError, "ZeroDivisionError"),
        (
            {"outcomes": writing, "initial_state": np.array([0.0])},
            sc.OracleError,
            "changed the state",
        ),
        (
            {"payoffs": "end", "terminal": lambda s: s == 60},
            sc.OracleError,
            "payoffs=",
        ),
        (
            {"value_bounds": (9.0, 9.5)},
            sc.OracleError,
            "so something that was assumed",
        ),
    ],
)
def test_a_bad_model_gets_one_sentence(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sc.plan(problem(**changes), method="certified", epsilon=0.01)


@pytest.mark.compiles
def test_a_model_that_changes_its_answers_is_found_out() -> None:
    with pytest.raises(sc.OracleError, match="asked again"):
        sc.plan(problem(outcomes=Fickle()), method="certified", epsilon=0.5)


@pytest.mark.compiles
def test_workers_are_of_no_use_and_a_note_says_so() -> None:
    found = sc.plan(
        problem(), method="certified", epsilon=0.5, executor="processes", workers=2
    )
    assert any("Executor and workers were not used" in note for note in found.notes)
    assert found.num_calls == 0


def test_explaining_says_that_nothing_is_sampled() -> None:
    found = sc.explain(problem(), epsilon=0.1, method="certified")
    assert found.num_calls == 0
    assert found.delta == 0.0
    assert "outcomes= is the model" in str(found)


def test_exploring_stops_at_a_limit_of_its_own() -> None:
    """``auto`` looks at a model before it takes exact for it."""
    with pytest.raises(exact.TooLarge, match="More than 40 states") as found:
        exact.explore(problem(), most_states=40)
    assert found.value.states == 40
    clock = SimpleNamespace(left=lambda: -1.0)
    late: Any = SimpleNamespace(begin=lambda phase: None, clock=clock)
    with pytest.raises(exact.TooLarge, match="time was up"):
        exact.explore(problem(), watch=late)
    assert len(exact.explore(problem(), most_states=61).states or ()) == 61


def loop(unit: float, high: float) -> sc.MDP:
    """One state that pays ``unit`` in 7 of 10 steps: V = 0.7 unit/(1 - gamma)."""
    return mdp(
        never,
        num_actions=1,
        discount=0.3,
        operator=sc.Max(),
        reward_range=(0.0, high),
        outcomes=lambda s, a: [(0.7, unit, 0), (0.3, 0.0, 0)],
    )


@pytest.mark.compiles
@pytest.mark.parametrize("unit", [3 * 5e-324, 1e-39, 1.7, 1e49])
def test_the_interval_holds_at_every_scale_that_is_allowed(unit: float) -> None:
    """5e-324 is the smallest number, and half of it is lost in every product."""
    share = Fraction(0.7) / (Fraction(0.7) + Fraction(0.3))
    exact = Fraction(unit) * share / (1 - Fraction(0.3))
    found = sc.Certified(loop(unit, max(unit, 1e-39))).query(budget=100)
    low, high = map(Fraction, found.interval)
    assert low <= exact <= high


@pytest.mark.parametrize(
    ("unit", "word"), [(3 * 5e-324, "smaller"), (1e-60, "smaller"), (1e60, "larger")]
)
def test_scales_for_which_rounding_is_not_proved_are_refused(unit, word) -> None:
    with pytest.raises(sc.InvalidInput, match=f"measure rewards in a {word} unit"):
        sc.Certified(loop(unit, unit)).query(budget=100)
