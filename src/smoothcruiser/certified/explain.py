"""The forecast of certified search before it runs: bounds on its price.

Its price depends on the problem: how many pairs matter, how noisy they are, how early
the bounds meet. For a number of pairs there is a number of calls that certainly
suffices (``certified.price``). It is twice the number that equal samples need under the
worst law, because the search steers half of them and makes the other half equal; with a
horizon a third part allows for pairs that are sampled anew. Steered samples usually
need a small part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from smoothcruiser.certified.bounds import DEFAULT, bound_of
from smoothcruiser.certified.price import price_bound
from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.problem.facts import Facts
from smoothcruiser.records.data import Data
from smoothcruiser.records.numbers import count_data
from smoothcruiser.records.shapes import Count
from smoothcruiser.shown import Shown, brief

PAIRS = (10, 100, 1_000, 10_000, 100_000)


@dataclass(frozen=True)
class MostCalls:
    """Calls that certainly suffice for a number of pairs: a row in JSON."""

    pairs: int
    most_calls: Count


@dataclass(frozen=True)
class CertifiedForecast(Shown, Data):
    """The promise of a certified search and the most that it can cost.

    ``str()`` is a small table.
    """

    json_kind: ClassVar[str] = "certified-forecast"
    json_left_out: ClassVar[tuple[str, ...]] = ("num_calls", "levels")
    json_more: ClassVar[Mapping[str, Any]] = {
        "num_calls": Count | None,
        "bounds": tuple[MostCalls, ...],
    }

    facts: Facts
    epsilon: float | None  # None: the search stops at its budget or its seconds
    delta: float
    looks: int = 0  # calls that inspect the step before and after the search
    method: str = "certified"
    num_calls: None = None  # not known before the run
    levels: tuple[()] = ()  # it follows no schedule
    relative: float | None = None  # share of |V|, in place of epsilon
    bound: str = DEFAULT  # a word of ``certified.bounds.BOUNDS``
    priced: bool = True  # whether a bound on the price is known
    part: float = 1.0  # of delta, given out in the order in which pairs are met

    def most_calls(self, num_pairs: int) -> int | None:
        """Calls that certainly suffice if ``num_pairs`` pairs are met.

        None without an epsilon: the search then ends at its budget or its seconds. None
        too where no number is certain: at discount 1 without a horizon, and with
        ``min_probability``, because those bounds rest on the outcomes that are met.
        """
        if self.epsilon is None or not self.priced:
            return None
        return self.looks + price_bound(
            self.facts,
            epsilon=self.epsilon,
            delta=self.part * self.delta,
            num_pairs=num_pairs,
            bound=bound_of(self.bound),
        )

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """Tuples (pairs, calls that certainly suffice); empty without an epsilon."""
        call_bounds = [(num_pairs, self.most_calls(num_pairs)) for num_pairs in PAIRS]
        return [
            (num_pairs, num_calls)
            for num_pairs, num_calls in call_bounds
            if num_calls is not None
        ]

    def json_flaw(self) -> str | None:
        """Why there is no price."""
        try:
            self.most_calls(1)
        except SmoothcruiserError as error:
            return str(error).rstrip(".")
        return None

    def more_data(self) -> dict[str, Any]:
        """Bounds on the price, by the number of pairs that are met."""
        bounds = [
            {"pairs": num_pairs, **count_data("most_calls", num_calls)}
            for num_pairs, num_calls in self.bounds
        ]
        return {"num_calls": None, "bounds": bounds}

    def __repr__(self) -> str:
        return brief("CertifiedForecast", epsilon=self.epsilon, delta=self.delta)

    @property
    def sentence(self) -> str:
        """The promise and the price in words; with an epsilon a table of bounds."""
        if self.relative is not None:
            return (
                "certified search: the value and every action value within "
                f"{100.0 * self.relative:g}% of the value with probability "
                f"{1 - self.delta:g}\n\nIts price depends on the problem and is not "
                "known before the run. It cannot end while the interval of\nthe value "
                "holds 0: it then runs to its budget or its seconds.\n"
            )
        if self.epsilon is None:
            return (
                "certified search: intervals that hold with probability "
                f"{1 - self.delta:g}, as narrow as the budget or the seconds allow\n"
            )
        if not self.priced:
            return (
                "certified search: the value and every action value within "
                f"±{self.epsilon:g} with probability {1 - self.delta:g}\n\n"
                "Its price depends on the problem, and no number of calls is certain to "
                "suffice: at discount 1 without a horizon,\n"
                "and with min_probability=, it depends on what the calls show. Give "
                "budget or seconds to end it.\n"
            )
        table_rows = "\n".join(
            f"  {num_pairs:>11,}  {num_calls:>22,}"
            for num_pairs, num_calls in self.bounds
        )
        return (
            "certified search: the value and every action value within "
            f"±{self.epsilon:g} with probability {1 - self.delta:g}\n\n"
            "Its price depends on the problem and is not known before the run: it "
            "draws where the bounds are wide and stops\n"
            "when they meet. States must come back and be told apart (by ==, or by "
            "key=). Calls that certainly suffice, by\n"
            "the number of state-action pairs that it meets; what is needed is usually "
            "a small part of that:\n\n"
            f"  {'pairs':>11}  {'calls at the most':>22}\n{table_rows}\n"
        )
