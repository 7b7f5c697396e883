"""The arguments that every tree begins with, compiled or plain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.kernel import Setting
from smoothcruiser.tree.pruning import KnownBounds
from smoothcruiser.tree.searches import TreeRule


@dataclass(frozen=True, eq=False)
class TreeStart:
    """The search in numbers, its root and its stream."""

    problem: Problem
    rule: TreeRule
    setting: Setting
    head: Any  # F(0) over k actions, k = 0..K
    weights: Any  # of the actions, where the problem's operator has a prior
    state: Any  # the root
    rng: Any
    bounds: KnownBounds  # which exclude actions
