"""Exact values of problems with a known model, with a proven bound.

``solve`` finds the optimal ones, ``policy_value`` those of a fixed policy.
"""

from __future__ import annotations

from smoothcruiser.exact.policy_value import policy_value
from smoothcruiser.exact.reachable import TooLarge, explore, known_model
from smoothcruiser.exact.solution import Solution
from smoothcruiser.exact.solver import METHODS, solve

__all__ = [
    "METHODS",
    "Solution",
    "TooLarge",
    "explore",
    "known_model",
    "policy_value",
    "solve",
]
