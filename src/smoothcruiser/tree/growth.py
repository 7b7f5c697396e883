"""One growth of a tree: its limits, and the reports on it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import check_seconds, is_whole
from smoothcruiser.progress import Callback, Phases, time_left
from smoothcruiser.tree.widening import limits_chance

if TYPE_CHECKING:
    from smoothcruiser.tree.tree import Tree

UNLIMITED = 2**62


class Growth:
    """The checked limits of one growth, and its progress function.

    The limit that is reached first ends it. ``refused`` says whether the progress
    function ended it.
    """

    def __init__(
        self,
        *,
        simulations: int | None = None,
        calls: int | None = None,
        seconds: float | None = None,
        progress: Callback | None = None,
    ) -> None:
        if simulations is None and calls is None and seconds is None:
            raise InvalidInput("grow needs a limit: simulations=, calls= or seconds=.")
        for name, value in (("simulations", simulations), ("calls", calls)):
            if value is not None and (not is_whole(value) or value < 0):
                raise InvalidInput(
                    f"{name} must be a whole number of at least 0, got {value!r}."
                )
        check_seconds(seconds)
        self.simulations, self.calls, self.seconds = simulations, calls, seconds
        self.progress, self.phases = progress, Phases(progress)
        self._before = (0, 0)  # simulations and calls of the tree when it began
        self._begin = 0.0

    @property
    def refused(self) -> bool:
        """Whether the progress function returned False."""
        return self.phases.refused

    def start(self, tree: Tree) -> tuple[int, int]:
        """(the last simulation, the last call) of a tree that begins to grow."""
        self._before = tree.simulations, tree.num_calls
        self._begin = time.perf_counter()
        most_allowed = self.simulations, self.calls
        if limits_chance(tree.setting) and self.simulations is None:
            # A simulation along stored next states may make no call at all: each
            # counts as one towards this limit, so that it is reached.
            most_allowed = self.calls, self.calls
        last_counts = (
            UNLIMITED if limit is None else before + int(limit)
            for before, limit in zip(self._before, most_allowed, strict=True)
        )
        return next(last_counts), next(last_counts)

    def begin(self, tree: Tree) -> bool:
        """Report that sampling begins; return whether to stop."""
        return self.phases.begin("sampling", **self.facts(tree))

    def tell(self, tree: Tree) -> bool:
        """Report how large the tree is; return whether to stop."""
        return self.progress is not None and self.phases.tell(**self.facts(tree))

    def facts(self, tree: Tree) -> dict[str, Any]:
        """The facts about a tree that reports contain."""
        simulations = tree.simulations - self._before[0]
        num_calls = tree.num_calls - self._before[1]
        seconds_spent = time.perf_counter() - self._begin
        share_done = max(
            simulations / self.simulations if self.simulations else 0.0,
            seconds_spent / self.seconds if self.seconds else 0.0,
            1e-9,
        )
        # the calls allowed, or as many as the limit will do for at this speed
        price = self.calls
        if price is None and num_calls > 0:
            price = max(num_calls, round(num_calls / min(1.0, share_done)))
        seconds_until = None if self.seconds is None else self.seconds - seconds_spent
        return {
            "calls": num_calls,
            "price": price,
            "seconds": seconds_spent,
            "seconds_left": time_left(num_calls, price, seconds_spent, seconds_until),
            "simulations": tree.simulations,
            "nodes": tree.num_nodes,
            "value": tree.node(0).value if tree.simulations else None,
        }
