"""A simulator that waits two milliseconds per call, for runs that are to be killed.

It costs no processor time, so that many workers can wait side by side.
"""

from __future__ import annotations

import time
from typing import Any

import smoothcruiser as sc


def step(state: int, action: int, rng: Any) -> tuple[float, int]:
    time.sleep(0.002)
    return 0.5 * rng.random() + 0.5 * (state == action), int(rng.random() * 4)


def problem() -> sc.Problem:
    return sc.MDP(
        step, num_actions=2, discount=0.2, operator=sc.Entropy(1.0), initial_state=0
    )
