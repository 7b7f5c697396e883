"""CLIP: a placeholder until its moments are there."""

from __future__ import annotations

from smoothcruiser.schedule.kinds.base import Kind, Walk
from smoothcruiser.schedule.kinds.blind import Blind


class Clip(Blind):
    """A level brought into an interval."""

    kind = Kind.CLIP
    word = "clip"
    in_paper = False

    def offer(self, walk: Walk) -> None:
        """Propose nothing."""
