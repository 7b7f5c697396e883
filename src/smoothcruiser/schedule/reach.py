"""Promises for which no table is searched: nobody could pay it, or wait for it.

A search for a table takes a second for some hundred levels, and hours for a horizon of
a million steps. Lower bounds on every table are known before (``theory.least_price``),
so a promise beyond ``LOG_FARTHEST`` calls or ``MOST_ROWS`` rows is refused at once. A
caller with a time limit gives the search a time of its own:

  with patience(0.1, clock): compile_schedule(…)     # OutOfTime when clock() >= 0.1

Neither changes a table: a search ends with the same one, or with none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from smoothcruiser.errors import Unpayable
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.number_text import power_of_ten
from smoothcruiser.theory.least_price import least_price

MOST_ROWS = 5000  # of a table; a longer one is refused with its price
LOG_FARTHEST = 100.0 * math.log(
    10.0
)  # of the least price, for which a table is sought
# of the value span: where every table for that has too many rows, a horizon's stages
# are not built for a wider promise either
USEFUL = 0.45
# in units of 1/(1 - gamma): there the value bounds are within e^-3 = 5% of those
# without a horizon
LONG_HORIZON = 3.0


class OutOfReach(Unpayable):
    """No table is searched; ``log_calls`` is the logarithm of the least price."""

    def __init__(self, message: str, log_calls: float) -> None:
        super().__init__(message)
        self.log_calls = log_calls


class OutOfTime(Unpayable):
    """The search for a table took longer than the time that it was given."""


def is_staged(facts: Facts) -> bool:
    """Whether levels are chosen for every number of remaining steps by itself."""
    return (
        facts.horizon is not None
        and facts.horizon * (1.0 - facts.discount) < LONG_HORIZON
    )


def check_reach(facts: Facts, epsilon: float, delta: float, target: str) -> None:
    """Refuse a promise that no table of a payable price and length could keep."""
    lower_bound = least_price(facts, epsilon, delta, target)
    useful_epsilon = USEFUL * facts.value_span()
    if is_staged(facts) and epsilon > useful_epsilon > 0.0:
        lower_bound = least_price(facts, useful_epsilon, delta, target)
    if lower_bound.log_calls <= LOG_FARTHEST and lower_bound.depth <= MOST_ROWS:
        return
    rows_text = (
        f", in a table of more than {MOST_ROWS:,} levels"
        if lower_bound.depth > MOST_ROWS
        else ""
    )
    raise OutOfReach(
        f"No schedule for epsilon={epsilon:g} at discount {facts.discount:.12g} can be "
        f"paid: every one costs at least {power_of_ten(lower_bound.log_calls)} oracle "
        f"calls{rows_text}; ask for a larger epsilon or temperature, or a smaller "
        "discount or horizon.",
        lower_bound.log_calls,
    )


# --- time ---------------------------------------------------------------------

Clock = Callable[[], float]
_limits: ContextVar[tuple[tuple[float, Clock], ...]] = ContextVar(
    "_limits", default=()
)


@contextmanager
def patience(seconds: float, clock: Clock) -> Iterator[None]:
    """End searches for tables with ``OutOfTime`` once ``clock`` shows ``seconds``."""
    token = _limits.set((*_limits.get(), (seconds, clock)))
    try:
        yield
    finally:
        _limits.reset(token)


def check_patience() -> None:
    """Raise ``OutOfTime`` where the time of the search is over."""
    for seconds, clock in _limits.get():
        if clock() >= seconds:
            raise OutOfTime("There was not enough time to look for a schedule.")
