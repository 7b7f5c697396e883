"""Certified search where ``outcomes=`` returns None for some pairs: what is sampled,
what is said of it, and what exact, auto and check make of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numba
import pytest
from worlds import mdp

import smoothcruiser as sc


def row(state: int, action: int) -> list[tuple[float, float, int]]:
    up = 0.4 if action == 0 else 0.7
    high, low = min(20, state + 1), max(0, state - 1)
    return [(up, high / 20.0, high), (1.0 - up, low / 20.0, low)]


def step(state: int, action: int, rng: Any) -> tuple[float, int]:
    (up, paid, high), (_, other, low) = row(state, action)
    return (paid, high) if rng.random() < up else (other, low)


@numba.njit
def fast_step(state: int, action: int, rng: Any) -> tuple[float, int]:
    up = 0.4 if action == 0 else 0.7
    after = min(20, state + 1) if rng.random() < up else max(0, state - 1)
    return after / 20.0, after


def half(state: int, action: int) -> Any:
    return row(state, action) if (state + action) % 2 else None


def problem(oracle: Any = step, **changes: Any) -> sc.MDP:
    given = {"discount": 0.8, "operator": sc.Entropy(0.1), "initial_state": 10}
    return mdp(oracle, **given | {"outcomes": half} | changes)


@pytest.mark.compiles
@pytest.mark.parametrize("oracle", [step, fast_step], ids=["plain", "compiled"])
def test_rows_are_read_and_the_rest_is_sampled(oracle: Any) -> None:
    """Fewer calls than without rows; all bounds hold; the certificate says what is what."""
    exact = sc.solve(problem(outcomes=row))
    calls = {}
    for name, outcomes in (("none", None), ("half", half)):
        memory = sc.Certified(problem(oracle, outcomes=outcomes), delta=0.1, seed=1)
        found = memory.query(epsilon=0.4)
        calls[name] = found.num_calls
        for bound in memory.table():
            value = float(exact.values[exact.index(bound.state)])
            assert bound.interval[0] <= value <= bound.interval[1]
    assert calls["half"] < 0.7 * calls["none"]
    pairs = memory.memory.graph.pairs[: memory.memory.num_pairs]
    told = (pairs["cost"] == 0.0) & (pairs["total"] > 0.0)
    assert memory.num_rows == told.sum() > 0
    assert (pairs["total"][told] == 1.0).all()
    assert found.delta == 0.1
    assert found.certificate.confidence == 0.9
    law = found.certificate.assumptions[0]
    assert f"where it lists one ({memory.num_rows} rows read)" in law
    assert "elsewhere draws of the oracle are independent" in law
    assert f"{found.num_calls:,} calls where there is none" in found.notes[-1]


@pytest.mark.compiles
def test_a_pair_without_a_row_that_does_not_matter_costs_nothing() -> None:
    """Delta stays 0 where every pair that the answer needs has a row."""

    def near(state: int, action: int) -> Any:
        return row(state, action) if state < 18 else None

    found = sc.Certified(problem(outcomes=near), delta=0.1).query(epsilon=1.0)
    assert (found.num_calls, found.delta, found.certificate.confidence) == (
        0,
        0.0,
        1.0,
    )


@pytest.mark.compiles
def test_the_budget_counts_rows_and_calls() -> None:
    memory = sc.Certified(problem(), delta=0.1)
    memory.query(budget=200)
    assert 100 < memory.num_calls <= 200
    assert 0 < memory.num_rows < memory.num_calls


@pytest.mark.compiles
def test_equal_samples_leave_rows_alone() -> None:
    """Where steering is of no use, pairs are brought to equal numbers, rows are not."""
    memory = sc.Certified(problem(), delta=0.1)
    memory.query(epsilon=0.5)

    class Enough:
        def samples_per_pair(self, num_pairs: int) -> float:
            return 1e6

    pairs = memory.memory.graph.pairs[: memory.memory.num_pairs]
    was_read = (pairs["cost"] == 0.0) & (pairs["total"] > 0.0)
    pairs["total"][~was_read] += 1.0  # so that a row has the fewest samples
    assert was_read.any()
    for enough in (None, Enough()):
        equal = memory.loop.steering.equal_jobs(enough, 10**7)[0]  # type: ignore[arg-type]
        assert len(equal) > 0
        assert not was_read[equal].any()


@pytest.mark.compiles
def test_workers_sample_what_has_no_row() -> None:
    """The same bits as in one process."""
    here = sc.plan(problem(), method="certified", epsilon=0.5, delta=0.1)
    there = sc.plan(
        problem(),
        method="certified",
        epsilon=0.5,
        delta=0.1,
        executor="processes",
        workers=2,
    )
    assert there.interval == here.interval
    assert there.num_calls == here.num_calls > 0
    assert not any("were not used" in note for note in there.notes)


@pytest.mark.compiles
def test_one_call_is_a_row_where_the_step_is_deterministic() -> None:
    """No delta is needed, calls are counted apart from rows, a lie is found out."""

    def certain(state: int, action: int, rng: Any) -> tuple[float, int, bool]:
        after = (3 * state + action) % 50
        return after / 50.0, after, after == 49

    def some(state: int, action: int) -> Any:
        reward, after, ended = certain(state, action, None)
        return None if state % 3 or ended else [(1.0, reward, after)]

    world = problem(
        certain, outcomes=some, deterministic=True, terminal=lambda s: s == 49
    )
    memory = sc.Certified(world)
    found = memory.query(epsilon=1e-6)
    alone = sc.Certified(replace(world, outcomes=None), delta=0.1).query(epsilon=1e-6)
    assert abs(found.value - alone.value) <= 2e-6
    assert found.delta == 0.0
    assert 0 < found.num_calls < alone.num_calls
    assert memory.num_rows > 0
    lying = replace(
        world, oracle=lambda s, a, rng: (float(rng.random()), (s + 1) % 49, False)
    )
    with pytest.raises(sc.OracleError, match="answered differently"):
        sc.Certified(lying).query(epsilon=0.01)


@pytest.mark.compiles
@pytest.mark.parametrize("appears", [True, False])
def test_answers_that_come_and_go_are_refused(appears: bool) -> None:
    """A pair that had no row and has one when it is asked again, or the other way."""
    asked: set[tuple[int, int]] = set()

    def fickle(state: int, action: int) -> Any:
        first = (state, action) not in asked
        asked.add((state, action))
        return row(state, action) if first != appears else None

    with pytest.raises(sc.OracleError, match="asked again"):
        sc.Certified(problem(outcomes=fickle), delta=0.1).query(budget=100)


def test_exact_names_the_pair_and_what_to_do() -> None:
    for ask in (
        lambda: sc.solve(problem()),
        lambda: sc.plan(problem(), method="exact"),
    ):
        with pytest.raises(
            sc.InvalidInput, match=r"outcomes\(10, 0\) is None, so the"
        ):
            ask()


@pytest.mark.compiles
def test_auto_does_not_choose_exact_and_says_why() -> None:
    found = sc.plan(problem(), epsilon=0.5, delta=0.1)
    assert found.method != "exact"
    assert any("outcomes(10, 0) is None" in note for note in found.notes)
    assert sc.plan(problem(outcomes=row), epsilon=0.5, delta=0.1).method == "exact"


def test_explaining_says_what_is_sampled() -> None:
    found = sc.explain(problem(), epsilon=0.1, delta=0.1, method="certified")
    assert (found.num_calls, found.delta) == (None, 0.1)
    assert "It has none for action 0 of this state" in str(found)
    assert sc.explain(problem(), epsilon=0.1, method="certified").delta == 0.05


@pytest.mark.compiles
def test_check_compares_the_rows_that_there_are() -> None:
    said = str(sc.check(problem()))
    assert "have no row and are sampled" in said
    assert "solves the known model" not in said

    def swapped(state: int, action: int) -> Any:
        return None if action else row(state, 1)

    assert "differ" in str(sc.check(problem(outcomes=swapped)))
