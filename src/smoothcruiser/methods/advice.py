"""What an answer says of its own request: is the promise worth something, is it dear?

Each piece of advice is one short sentence among the notes of an Estimate, at most
``MOST`` of them. They follow from the problem's facts, the request and the price of
the schedule alone, so the same request gets the same advice.

  span       a share of a value span that adds up a reward in every step, where
             episodes end: the total may be far smaller than that
  coarse     a promise above a quarter of what is possible
  wide       an interval that covers more than half of what is possible
  dear       a schedule that tighter bounds would make at least twice as cheap

What this file leaves out: whether chance was seen at all (certified search and
``check`` say so), and the choice between methods (``auto``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.estimate import ADVICE, Estimate
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.problem.facts import Facts
from smoothcruiser.query import Query, remark_on_delta
from smoothcruiser.schedule.numbers import about, short

MOST = 2
COARSE = 0.25  # of what is possible: a promise above it says little
WIDE = 0.5  # of what is possible: an interval above it says little
SAVING = 2.0  # advice on a price has to save this factor
# A price takes 0.1 to 0.3 s to compute, which a run of so many calls does not notice: in
# plain Python, and as machine code.
DEAR, DEAR_COMPILED = 10**6, 10**8
LONGEST = 12  # steps of a horizon for which it takes no longer

Sentence = Callable[[Query, Any, Estimate], str | None]


def advice(query: Query, explanation: Any, estimate: Estimate) -> tuple[str, ...]:
    """The sentences that are worth adding to the notes of ``estimate``.

    Args:
        query: what was asked.
        explanation: what was run; a Schedule has a price that bounds can lower.
        estimate: the answer; advice that it has already counts.
    """
    if estimate.certificate is None or estimate.interval is None:
        return ()
    if estimate.delta == 0.0 and not estimate.num_calls:  # solved, not sampled
        return ()
    found: list[str] = []
    room = MOST - sum(note.startswith(ADVICE) for note in estimate.notes)
    sentences: tuple[Sentence, ...] = (_span, _dear, _coarse, _wide)
    for sentence in sentences:
        note = sentence(query, explanation, estimate)
        if note is not None and ADVICE + note not in estimate.notes:
            found.append(ADVICE + note)
    return tuple(found[: max(0, room)])


def remarks(query: Query, estimate: Estimate) -> tuple[str, ...]:
    """Sentences on arguments that do not do what they seem to."""
    found = [remark_on_delta(query.promise.delta) if estimate.delta else None]
    if "workers" in query.given and not _has_workers(query, estimate):
        found.append(
            f"workers={query.compute.workers} is not used: "
            + (
                "nothing is sampled; drop it."
                if not estimate.num_calls
                else "a plain Python step runs in this process; give executor='processes' "
                "for workers, or drop it."
            )
        )
    return tuple(x for x in found if x is not None and x not in estimate.notes)


def _has_workers(query: Query, estimate: Estimate) -> bool:
    """Whether workers may have had something to do."""
    executor = estimate.executor or query.compute.executor
    if executor is None:
        executor = "compiled" if query.problem.is_compiled else "python"
    return estimate.num_calls > 0 and executor not in ("python", "reference")


def _possible(query: Query) -> tuple[float, float]:
    problem = query.problem
    return problem.facts.value_bounds(problem.mover(query.place))


def _covered(query: Query, estimate: Estimate) -> float:
    """The interval's share of what is possible."""
    assert estimate.interval is not None
    low, high = _possible(query)
    return (estimate.interval[1] - estimate.interval[0]) / (high - low or math.inf)


def _promised(query: Query) -> float:
    """The width of the promise as a share of what is possible."""
    low, high = _possible(query)
    return (query.promise.epsilon or 0.0) / (high - low or math.inf)


def _ends_alone(facts: Facts) -> Facts | None:
    """The facts if only ends paid, where that may be so and is not known."""
    low, high = facts.reward_range
    unknown = facts.total_range is None and facts.given_bounds is None
    if not (facts.terminals and unknown and low <= 0.0 <= high):
        return None
    paid = replace(facts, total_range=(low, high))
    return paid if SAVING * paid.value_span() <= facts.value_span() else None


def _span(query: Query, explanation: Any, estimate: Estimate) -> str | None:
    facts = query.problem.facts
    paid = _ends_alone(facts)
    share = isinstance(query.promise.words, str) and query.promise.relative is None
    says_little = _covered(query, estimate) > WIDE or _promised(query) > COARSE
    if paid is None or not (share or says_little):
        return None
    price = _cheaper(query, explanation, paid)
    costs = "" if price is None else f", and this epsilon would cost {price}"
    return (
        f"the value span {facts.value_span():.3g} adds up a reward in every step. If "
        "only the step that ends an episode pays, payoffs='end' makes it "
        f"{paid.value_span():.3g}{costs}; total_reward_range= or value_bounds= narrow "
        "it too."
    )


def _dear(query: Query, explanation: Any, estimate: Estimate) -> str | None:
    facts = query.problem.facts
    if _ends_alone(facts) is not None:
        return None
    low, high = _possible(query)
    middle, quarter = 0.5 * (low + high), 0.25 * (high - low)
    half = replace(facts, given_bounds=(middle - quarter, middle + quarter))
    price = _cheaper(query, explanation, half)
    if price is None:
        return None
    return f"value_bounds half as wide would cost {price}."


def _coarse(query: Query, explanation: Any, estimate: Estimate) -> str | None:
    share, (low, high) = _promised(query), _possible(query)
    if share <= COARSE:
        return None
    return (
        f"epsilon = {query.promise.epsilon:.3g} is {share:.0%} of what is possible, "
        f"from {low:.3g} to {high:.3g}; a smaller one says more."
    )


def _wide(query: Query, explanation: Any, estimate: Estimate) -> str | None:
    share, (low, high) = _covered(query, estimate), _possible(query)
    if share <= WIDE or _promised(query) > COARSE:
        return None
    assert estimate.certificate is not None
    if estimate.certificate.kind == "policy":  # its upper end is what rewards allow
        return None
    covers = (
        f"the interval covers {share:.0%} of what is possible, from {low:.3g} to "
        f"{high:.3g}"
    )
    if estimate.certificate.kind == "schedule":  # its price grows too fast for more
        return (
            f"{covers}, and the value may be as far off; a tree search (method='uct') or "
            "evaluate() of a policy of yours may estimate better from as many calls."
        )
    return f"{covers}; give it more calls, or value_bounds that are closer."


def _cheaper(query: Query, explanation: Any, facts: Facts) -> str | None:
    """The price with ``facts`` against that of the schedule; None if not worth it."""
    price, problem = explanation.num_calls, query.problem
    fast = problem.tables is not None or is_compiled(problem.oracle)
    least = DEAR_COMPILED if fast else DEAR
    if price is None or price < least or (facts.horizon or 0) > LONGEST:
        return None
    from smoothcruiser.schedule.schedule import Schedule

    if not isinstance(explanation, Schedule) or explanation.delta_prime is not None:
        return None
    promise = (explanation.epsilon, explanation.delta, explanation.root.target)
    found = _log_price(facts, *promise)
    if found is None or found > math.log(price) - math.log(SAVING):
        return None
    return f"about {about(found)} calls, not {short(price)}"


@lru_cache(maxsize=64)
def _log_price(facts: Facts, epsilon: float, delta: float, target: Any) -> float | None:
    """The logarithm of the price of the sharp schedule, within some percent."""
    from smoothcruiser.schedule.compiler.candidates import candidates
    from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS

    try:
        kinds = frozenset(ALL_KINDS)
        return candidates(facts, kinds, epsilon, delta, target)[0].log_price
    except SmoothcruiserError:  # bounds that no rewards allow
        return None
