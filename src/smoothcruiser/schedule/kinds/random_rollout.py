"""RANDOM_ROLLOUT: a placeholder until its moments are there."""

from __future__ import annotations

from smoothcruiser.schedule.kinds.base import Kind, Walk
from smoothcruiser.schedule.kinds.rollout import Rollout


class RandomRollout(Rollout):
    """A rollout with corrections."""

    kind = Kind.RANDOM_ROLLOUT
    word = "random rollout"
    in_paper = False

    def offer(self, walk: Walk) -> None:
        """Propose nothing."""
