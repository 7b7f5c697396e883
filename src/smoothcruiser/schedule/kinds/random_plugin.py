"""RANDOM_PLUGIN: a placeholder until its moments are there."""

from __future__ import annotations

from smoothcruiser.schedule.kinds.base import Kind, Walk
from smoothcruiser.schedule.kinds.plug_in import PlugIn


class RandomPlugIn(PlugIn):
    """A plug-in with corrections."""

    kind = Kind.RANDOM_PLUGIN
    word = "random plug-in"
    in_paper = False

    def offer(self, walk: Walk) -> None:
        """Propose nothing."""
