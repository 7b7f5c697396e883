"""Advice on a request, in the notes of its answer: a weak promise, a high price.

Each piece of advice is one short sentence among the notes of an Estimate, at most
``MOST`` of them. They follow from the problem's facts, the request and the price of
the schedule alone, so the same request gets the same advice.

  span       a share of a value span that adds up a reward in every step, where
             episodes end: the total may be far smaller than that
  coarse     a promise above a quarter of the possible range of values
  wide       an interval that covers more than half of that range
  dear       a schedule that tighter bounds would make at least twice as cheap

This file leaves out whether chance was seen at all (certified search and ``check``
report that) and the choice between methods (``auto``).

Prices and times that ``auto`` knows before anything is run.

All of them are rough but the schedule's own price. They decide only on the method,
never on the promise. Constants stand in place of measurements, so that no decision
depends on the clock (measured: docs/evidence/portfolio.md).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.estimate import ADVICE, Estimate
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Promise, Query, remark_on_delta
from smoothcruiser.schedule.number_text import format_log_count, power_of_ten, short
from smoothcruiser.schedule.reach import OutOfReach, OutOfTime

if TYPE_CHECKING:
    from smoothcruiser.engines.pilot import Pilot


MOST = 2
COARSE = 0.25  # of the possible range: a promise above it says little
WIDE = 0.5  # of the possible range: an interval above it says little
SAVING = 2.0  # advice on a price has to save this factor
# A price takes 0.1 to 0.3 s to compute, which a run of so many calls does not notice: in
# plain Python, and as machine code.
DEAR, DEAR_COMPILED = 10**6, 10**8
LONGEST = 12  # steps of a horizon for which it takes no longer


def advice(query: Query, explanation: Any, estimate: Estimate) -> tuple[str, ...]:
    """The sentences that are worth adding to the notes of ``estimate``.

    Args:
        query: the request.
        explanation: the plan that was run; bounds can lower the price of a Schedule.
        estimate: the answer; advice among its notes counts towards the limit.
    """
    if estimate.certificate is None or estimate.interval is None:
        return ()
    if estimate.delta == 0.0 and not estimate.num_calls:  # solved, not sampled
        return ()
    low, high = possible_values = query.problem.facts.value_bounds(
        query.problem.mover(query.place)
    )
    possible_width = high - low or math.inf
    interval_width = estimate.interval[1] - estimate.interval[0]
    covered_share = interval_width / possible_width
    epsilon = query.promise.epsilon or 0.0
    is_coarse, is_wide = epsilon / possible_width > COARSE, covered_share > WIDE
    possible_text = f"of what is possible, from {low:.3g} to {high:.3g}"
    sentences: list[str | None] = [
        _advise_on_rewards(query, explanation, possible_values, is_coarse or is_wide)
    ]
    if is_coarse:
        sentences.append(
            f"epsilon = {epsilon:.3g} is {epsilon / possible_width:.0%} {possible_text}; "
            "a smaller one says more."
        )
    # the upper end of a policy's interval is the range of the rewards
    elif is_wide and estimate.certificate.kind != "policy":
        coverage_text = f"the interval covers {covered_share:.0%} {possible_text}"
        sentences.append(
            # the price of a schedule grows too fast for more
            f"{coverage_text}, and the value may be as far off; a tree search "
            "(method='uct') or evaluate() of a policy of yours may estimate better from "
            "as many calls."
            if estimate.certificate.kind == "schedule"
            else f"{coverage_text}; give it more calls, or value_bounds that are closer."
        )
    notes = [ADVICE + sentence for sentence in sentences if sentence is not None]
    num_free = MOST - sum(note.startswith(ADVICE) for note in estimate.notes)
    new_notes = [note for note in notes if note not in estimate.notes]
    return tuple(new_notes[: max(0, num_free)])


def remarks(query: Query, estimate: Estimate) -> tuple[str, ...]:
    """Sentences on arguments that have no effect, or another one than expected."""
    new_remarks = [remark_on_delta(query.promise.delta) if estimate.delta else None]
    if "workers" in query.given and not _has_workers(query, estimate):
        new_remarks.append(
            f"workers={query.compute.workers} is not used: "
            + (
                "nothing is sampled; drop it."
                if not estimate.num_calls
                else "a plain Python step runs in this process; give executor='processes' "
                "for workers, or drop it."
            )
        )
    return tuple(x for x in new_remarks if x is not None and x not in estimate.notes)


def _has_workers(query: Query, estimate: Estimate) -> bool:
    """Whether workers may have had something to do."""
    executor = estimate.executor or query.compute.executor
    if executor is None:
        executor = "compiled" if query.problem.is_compiled else "python"
    return estimate.num_calls > 0 and executor not in ("python", "reference")


def _ends_alone(facts: Facts) -> Facts | None:
    """The facts if only ends paid, where that is possible and not declared."""
    lower_bound, upper_bound = facts.reward_range
    is_unknown = facts.total_range is None and facts.given_bounds is None
    if not (facts.terminals and is_unknown and lower_bound <= 0.0 <= upper_bound):
        return None
    end_facts = replace(facts, total_range=(lower_bound, upper_bound))
    return end_facts if SAVING * end_facts.value_span() <= facts.value_span() else None


def _advise_on_rewards(
    query: Query,
    explanation: Any,
    possible_values: tuple[float, float],
    says_little: bool,
) -> str | None:
    """Advice on declared rewards or bounds that would make the request cheaper."""
    facts = query.problem.facts
    end_facts = _ends_alone(facts)
    if end_facts is None and explanation.num_calls is None:
        return None
    if end_facts is None:
        middle = 0.5 * (possible_values[0] + possible_values[1])
        quarter = 0.25 * (possible_values[1] - possible_values[0])
        half_facts = replace(facts, given_bounds=(middle - quarter, middle + quarter))
        price_text = _cheaper_price(query, explanation, half_facts)
        if price_text is None:
            return None
        return f"value_bounds half as wide would cost {price_text}."
    is_share = isinstance(query.promise.words, str) and query.promise.relative is None
    if not (is_share or says_little):
        return None
    price_text = _cheaper_price(query, explanation, end_facts)
    price_clause = (
        "" if price_text is None else f", and this epsilon would cost {price_text}"
    )
    return (
        f"the value span {facts.value_span():.3g} adds up a reward in every step. If "
        "only the step that ends an episode pays, payoffs='end' makes it "
        f"{end_facts.value_span():.3g}{price_clause}; total_reward_range= or "
        "value_bounds= narrow it too."
    )


def _cheaper_price(query: Query, explanation: Any, facts: Facts) -> str | None:
    """The price with ``facts``, in words; None where it saves too little."""
    price, problem = explanation.num_calls, query.problem
    is_fast = problem.tables is not None or is_compiled(problem.oracle)
    min_price = DEAR_COMPILED if is_fast else DEAR
    if price is None or price < min_price or (facts.horizon or 0) > LONGEST:
        return None
    from smoothcruiser.schedule.schedule import Schedule

    if not isinstance(explanation, Schedule) or explanation.delta_prime is not None:
        return None
    promise = (explanation.epsilon, explanation.delta, explanation.root.target)
    log_price = _log_price(facts, *promise)
    if log_price is None or log_price > math.log(price) - math.log(SAVING):
        return None
    return f"about {format_log_count(log_price)} calls, not {short(price)}"


@lru_cache(maxsize=64)
def _log_price(
    facts: Facts, epsilon: float, delta: float, target: Any
) -> float | None:
    """The logarithm of the price of the sharp schedule, within some percent."""
    from smoothcruiser.schedule.compiler.candidates import candidates
    from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS

    try:
        kinds = frozenset(ALL_KINDS)
        return candidates(facts, kinds, epsilon, delta, target)[0].log_price
    except SmoothcruiserError:  # bounds that no rewards allow
        return None


# The time of a call of certified search over that of a schedule. In plain Python the
# step itself takes most of the time.
COMPILED_RATIO, PYTHON_RATIO = 25, 1
# calls that a search may take in any case, if the schedule takes more: 0.1 s compiled
WORTH_A_TRY = 20_000
# calls per second, for the times that ``explain`` shows
COMPILED_SPEED = 2e7
PYTHON_OVERHEAD = 3e-6  # seconds per call, beside the step itself
LOG_LONGEST = 700.0  # of seconds: a longer time is no number of float64
MOST_CALLS = 1e300  # that are printed as a number


def call_ratio(problem: Problem) -> int:
    """The time of a call of certified search over that of a schedule."""
    return COMPILED_RATIO if problem.is_compiled else PYTHON_RATIO


def worth_a_try(problem: Problem) -> int:
    """Calls that a search may take whatever the schedule costs."""
    return WORTH_A_TRY if problem.is_compiled else 0


def least_of_search(problem: Problem, promise: Promise) -> int:
    """Calls that a search needs at the least to keep the promise, roughly.

    After n samples of one outcome another one may still have the probability
    l/n, l = log(1/(share of delta)), so a pair needs about l times its range over
    the requested width. A deterministic pair needs one.
    """
    facts = problem.facts
    if problem.deterministic:
        return facts.num_actions
    log_level = math.log(4.0 * facts.num_actions / promise.failure())
    calls_per_action = (
        log_level * facts.discount * facts.value_span() / (2.0 * promise.half_width())
    )
    return facts.num_actions * max(1, math.ceil(min(calls_per_action, MOST_CALLS)))


def steps_that_matter(problem: Problem, promise: Promise, most: int) -> int:
    """Steps after which all that follows moves the value by less than the promise.

    A search goes about as deep, so it is there that states have to come back.
    """
    facts = problem.facts
    if promise.epsilon is None or facts.discount >= 1.0:
        return most
    relative_width = (
        2.0 * promise.epsilon / max(facts.value_span(), 2.0 * promise.epsilon)
    )
    if facts.discount <= relative_width:
        return 1
    return min(most, math.ceil(math.log(relative_width) / math.log(facts.discount)))


def seconds_of(
    problem: Problem, pilot: Pilot | None, method: str, calls: int
) -> float | None:
    """The time of the calls of a method; None where it is unknown or no number."""
    if problem.is_compiled:
        call_seconds = 1.0 / COMPILED_SPEED
    elif pilot is not None and pilot.seconds is not None:
        call_seconds = pilot.seconds + PYTHON_OVERHEAD
    else:
        return None
    call_seconds *= call_ratio(problem) if method == "certified" else 1
    log_seconds = math.log(max(1, calls)) + math.log(call_seconds)
    return math.exp(log_seconds) if log_seconds < LOG_LONGEST else None


def suggestion(
    problem: Problem, promise: Promise, pilot: Pilot | None
) -> tuple[str, ...]:
    """The saving by declaring the step deterministic, if it looks so.

    With one outcome per pair, the pairs of a tree of depth d settle the value
    within gamma**d of its span.
    """
    facts = problem.facts
    if pilot is None or pilot.by_chance or problem.deterministic:
        return ()
    epsilon = promise.epsilon
    price_text = "one call for each pair that it meets"
    if epsilon is not None and 0.0 < facts.discount < 1.0:
        depth = steps_that_matter(problem, promise, 60)
        num_pairs = sum(facts.num_actions**d for d in range(1, depth + 1))
        price_text += f", here at most {short(num_pairs)}"
    return (
        f"No chance was seen in {pilot.calls:,} calls. If the step is "
        "deterministic, say so: with deterministic=True certified search takes "
        f"{price_text}.",
    )


def no_schedule(error: Exception) -> str:
    """Why there is no schedule, within a sentence."""
    if isinstance(error, OutOfTime):
        return "the time is too short to look for a schedule"
    if isinstance(error, OutOfReach):
        return f"a schedule would cost at least {power_of_ten(error.log_calls)} calls"
    first_line = str(error).splitlines()[0].rstrip(".:")
    return f"there is no schedule ({first_line})"
