"""Laws of exact values on random problems of every shape: the proven bound
holds, methods agree, bounds on V (theory, section 3) hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothcruiser as sc
from smoothcruiser import exact

LAWS = settings(derandomize=True, deadline=None, max_examples=120)


@dataclass(frozen=True)
class Case:
    """A random problem beside the arrays it was made of."""

    problem: sc.Problem
    P: np.ndarray
    R: np.ndarray
    players: np.ndarray
    terminal: np.ndarray
    legal: np.ndarray

    def sweep(self, value: np.ndarray) -> np.ndarray:
        """One sweep of T in Python, from the definition."""
        q = (
            np.einsum("sat,sat->sa", self.P, self.R)
            + self.problem.discount * self.P @ value
        )
        out = np.zeros(len(value))
        for s in np.flatnonzero(~self.terminal):
            live = self.legal[s]
            weights = np.array(self.problem.operator.weights(len(live)))[live]
            out[s] = self.problem.operator.value(
                list(q[s, live]), player=int(self.players[s]), weights=list(weights)
            )
        return out

    def reference(self) -> np.ndarray:
        """V* by plain value iteration: until gamma^n times the first step is
        below 1e-14, or for the horizon.
        """
        value = np.zeros(len(self.P))
        gamma, horizon = self.problem.discount, self.problem.horizon
        if horizon is None:
            decay = np.log(max(gamma, 1e-15))
            horizon = int(np.ceil(np.log(1e-15 * (1.0 - gamma)) / decay))
        for _ in range(horizon):
            value = self.sweep(value)
        return value


@st.composite
def cases(draw: st.DrawFn, *, horizon: bool | None = None) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    states, actions = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    temperature = draw(st.sampled_from([0.01, 0.3, 2.0, 50.0]))
    prior = tuple(rng.dirichlet(np.ones(actions)) * 0.9 + 0.1 / actions)
    kinds = [kind(temperature) for kind in (sc.Entropy, sc.Sparsemax, sc.SquareRoot)]
    kinds += [sc.KL(temperature, prior), sc.Max()]
    shapes = ["mdp", "game", "alternating"] if states > 1 else ["mdp"]
    shape = draw(st.sampled_from(shapes))
    players = np.ones(states, dtype=int)
    P = rng.dirichlet(np.full(states, 0.3), size=(states, actions))
    if shape == "game":
        players = rng.integers(1, 3, size=states)
    if shape == "alternating":
        players = np.arange(states) % 2 + 1
        P = (P + 1e-3) * (players[:, None, None] != players[None, None, :])
    P = P / P.sum(axis=2, keepdims=True)
    ranges = [(0.0, 1.0), (-3.0, 2.0), (1.0, 0.0), (-2.0, 1.0)]
    low, span = draw(st.sampled_from(ranges))
    R = low + span * rng.random((states, actions, states))
    terminal = rng.random(states) < (0.3 if draw(st.booleans()) else 0.0)
    legal = rng.random((states, actions)) < (0.6 if draw(st.booleans()) else 2.0)
    legal[np.arange(states), rng.integers(0, actions, size=states)] = True
    finite = draw(st.booleans()) if horizon is None else horizon
    length = draw(st.integers(1, 8)) if finite else None
    discount = draw(st.sampled_from([0.0, 0.5, 0.9] + ([1.0] if finite else [])))
    problem = sc.tabular(
        P,
        R,
        discount=discount,
        operator=draw(st.sampled_from(kinds)),
        players=None if shape == "mdp" else players,
        alternating=shape == "alternating",
        terminal=terminal if terminal.any() else None,
        legal=legal,
        horizon=length,
    )
    return Case(problem, P, R, players, terminal, legal)


@LAWS
@given(cases(), st.sampled_from([None, 1e-3, 1e-6, 1e-9]))
def test_the_bound_holds_for_every_method(case, tolerance):
    """|values - V*| <= residual_bound <= tolerance, and so are action values."""
    truth = case.reference()
    # rounding of the reference itself
    scale = (
        1e-13 * (1.0 + np.max(np.abs(truth))) / (1.0 - min(case.problem.discount, 0.9))
    )
    for method in exact.METHODS:
        found = sc.solve(case.problem, method=method, tolerance=tolerance)
        assert tolerance is None or found.residual_bound <= tolerance
        assert np.max(np.abs(found.values - truth)) <= found.residual_bound + scale
        live = case.legal & ~case.terminal[:, None]
        assert np.array_equal(np.isnan(found.q_values), ~live)
        assert np.all(found.policy[~live] == 0.0)
        assert found.policy.sum(axis=1)[~case.terminal] == pytest.approx(1.0, abs=1e-9)
        if case.problem.horizon is None:
            q = (
                np.einsum("sat,sat->sa", case.P, case.R)
                + case.problem.discount * case.P @ truth
            )
            assert (
                np.max(np.abs(found.q_values - q)[live], initial=0.0)
                <= found.residual_bound + scale
            )


@LAWS
@given(cases())
def test_values_lie_within_the_facts(case):
    """Bounds of theory, section 3: V(s) in value_bounds(mover), Q(s, a) in
    q_bounds(mover), stage by stage with a horizon.
    """
    facts, found = case.problem.facts, sc.solve(case.problem)
    horizon = case.problem.horizon
    slack = found.residual_bound + 1e-11
    stages = (
        {None: found.values}
        if found.stages is None
        else {h: found.stages[h] for h in range(1, horizon + 1)}
    )
    for remaining, values in stages.items():
        for s in np.flatnonzero(~case.terminal):
            low, high = facts.value_bounds(int(case.players[s]), remaining)
            assert low - slack <= values[s] <= high + slack
    for s in np.flatnonzero(~case.terminal):
        low, high = facts.q_bounds(int(case.players[s]))
        q = found.q_values[s, case.legal[s]]
        assert np.all(low - slack <= q)
        assert np.all(q <= high + slack)


@LAWS
@given(cases(horizon=False))
def test_the_policy_attains_the_value(case):
    """V_pi = V* at the solver's policy: first-order optimal for both players,
    so the loss is of second order in the bound (sc.Max: linear).
    """
    found = sc.solve(case.problem)
    value = exact.policy_value(case.problem, found.policy)
    scale = 1.0 / (1.0 - case.problem.discount)
    rounding = 1e-11 * scale * (1.0 + np.max(np.abs(value)))
    loss = np.max(np.abs(value - found.values))
    assert loss <= 4.0 * scale * found.residual_bound + rounding
