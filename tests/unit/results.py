"""Results made by hand, for tests of what is done with them."""

from __future__ import annotations

import math
from typing import Any

import smoothcruiser as sc
from smoothcruiser.comparison import Comparison, PlannerRun, Truth
from smoothcruiser.estimate import NOWHERE


def an_estimate(**changes) -> sc.Estimate:
    """Four actions: one excluded, one recommended, one illegal, one open."""
    boxes = ((0.0, 1.0), (2.0, 3.0), NOWHERE, (1.5, 2.5))
    certificate = sc.Certificate(
        kind="search",
        interval=(2.2, 3.4),
        q_intervals=boxes,
        confidence=0.9,
        bound="by hand",
        assumptions=("none",),
        best_actions=(1, 3),
    )
    fields: dict[str, Any] = {
        "value": 2.8,
        "interval": (2.2, 3.4),
        "q_values": (0.5, 2.5, math.nan, 2.0),
        "policy": (0.1, 0.6, 0.0, 0.3),
        "action": 1,
        "num_calls": 1234,
        "epsilon": 0.6,
        "delta": 0.1,
        "method": "certified",
        "certificate": certificate,
        "seconds": 0.5,
        "compile_seconds": 0.25,
        "problem": "shop",
        "state": (3, "open"),
        "seed": 7,
        "labels": ("wait", "buy", "sell", "ask"),
    }
    return sc.Estimate(**(fields | changes))


def a_run(method: str, budget: int, seed: int, error: float) -> PlannerRun:
    return PlannerRun(
        method,
        budget,
        seed,
        value=1.0 + error,
        interval=(0.5, 2.0),
        action=0,
        error=error,
        action_regret=0.0,
        policy_regret=0.1 * error,
        num_calls=budget,
        estimates="entropy(1)",
        truth_bound=1e-12,
    )


def a_comparison() -> Comparison:
    """Two planners with two budgets and two seeds; a third that refused."""
    runs = [
        a_run(method, budget, seed, factor * (1.0 + seed) / budget)
        for method, factor in (("certified", 10.0), ("uct", 40.0))
        for budget in (100, 1000)
        for seed in (0, 1)
    ]
    refused = PlannerRun("smoothcruiser", 100, 0, note="cannot be paid")
    truth = Truth(
        value=1.0,
        q_values={0: 0.5, 2: 0.25},
        player=1,
        operator=sc.KL(1.0, (0.2, 0.5, 0.3)),
        num_actions=3,
        bound=1e-12,
    )
    return Comparison((*runs, refused), truth, "shop")
