"""A plain Python simulator that takes some milliseconds per call.

Process workers are meant for such simulators.
"""

from __future__ import annotations

import math
from typing import Any

import smoothcruiser as sc

ROUNDS = 24_000  # some milliseconds of arithmetic


def step(state: int, action: int, rng: Any) -> tuple[float, int]:
    x = 0.0
    for i in range(ROUNDS):
        x += math.sqrt(i)
    u = rng.random()
    return (0.5 * u + 0.5 * (state == action)) if x > 0 else 0.0, int(rng.random() * 4)


def _build(own_step: Any, discount: float, name: str) -> sc.Problem:
    return sc.MDP(
        own_step,
        num_actions=2,
        discount=discount,
        operator=sc.Entropy(1.0),
        initial_state=0,
        name=f"slow_oracle:{name}",
    )


def problem() -> sc.Problem:
    return _build(step, 0.2, "problem")


def quick_step(state: int, action: int, rng: Any) -> tuple[float, int]:
    return 0.5 * rng.random() + 0.5 * (state == action), int(rng.random() * 4)


def broken_step(state: int, action: int, rng: Any) -> tuple[float, int]:
    return 1.0 / (1 - action), int(rng.random() * 4)


def quick() -> sc.Problem:
    return _build(quick_step, 0.3, "quick")


def broken() -> sc.Problem:
    return _build(broken_step, 0.3, "broken")
