"""One report on a run, for every method: what ``progress=`` is called with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a run is. What a method does not know is None."""

    calls: int  # oracle calls so far
    seconds: float  # since the run began, without compiling
    price: int | None = None  # calls of the whole run at the most
    interval: tuple[float, float] | None = None  # of the value: what holds already
    half_width: float | None = None  # certified search: what epsilon is compared with
    states: int | None = None  # certified search: states met
    simulations: int | None = None  # tree search
    value: float | None = None  # tree search: the root's, without a promise
