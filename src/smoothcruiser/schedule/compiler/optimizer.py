"""The schedule compiler: the cheapest table of levels that keeps a promise.

It also finds the best promise that a budget keeps.

  frontier   the cheapest estimator of every width, whatever epsilon is
             (``frontier``, ``frontier_horizon``)
  root       for each of them the samples that close epsilon at delta; the
             cheapest few of all become drafts (``candidates``)
  polish     counts moved together, then lowered until the promise holds with
             nothing to spare (``draft``)
  bets       where an early stop can pay: checkpoints at which bets on the data may
             end an action's sampling, and counts for the likely price of a run;
             the worst case is at most twice the least (measured: 10-25% above)

legend   symbol    name
  epsilon, delta   the promise: |answer - truth| <= epsilon with probability
                   1 - delta, for every action value or the value
  target           "q_values" or "value"; for "value" the root may sample
                   either, whichever is cheaper

This file leaves out running the table (``engines``), refusing a price
(``methods``), and the proofs (docs/theory.md, section 6).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache

from smoothcruiser.errors import BrokenPromise, InvalidInput, Unpayable
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.candidates import (
    POLISHED,
    PROMISING,
    Candidate,
    affordable,
    candidates,
    frontier_of,
    level_of,
)
from smoothcruiser.schedule.compiler.draft import Draft
from smoothcruiser.schedule.compiler.frontier import LOG_HOPELESS, Frontier
from smoothcruiser.schedule.compiler.frontier_horizon import StagedFrontier
from smoothcruiser.schedule.compiler.polishing import polish, tighten
from smoothcruiser.schedule.kinds import KINDS, Kind, Kinds, estimator_of
from smoothcruiser.schedule.number_text import short
from smoothcruiser.schedule.reach import MOST_ROWS, USEFUL, check_reach, is_staged
from smoothcruiser.schedule.schedule import (
    Level,
    Root,
    Schedule,
    Target,
    most_calls,
    price,
)
from smoothcruiser.schedule.schedule_cache import ScheduleRequest, load_or_search
from smoothcruiser.theory.analysis import ground
from smoothcruiser.theory.bets import (
    DEVIATION,
    choose_checkpoints,
    likely_calls,
    likely_samples,
)

# Those of this package. A kind from elsewhere is compiled only where ``kinds`` names
# it, so that registering one changes nobody's schedules.
ALL_KINDS: Kinds = frozenset(kind for kind in Kind if kind in KINDS)
SPARSE_SAMPLING_KINDS: Kinds = frozenset({Kind.CONSTANT, Kind.PLUGIN, Kind.MIDDLE})

# Of delta, for the bets on the data. It raises log(2K/delta) of the fixed promise by
# log 2, some 10-20% of the price, and a quiet problem pays a fifth of that or less; a
# share of 0.3 saves 7% of the price and adds 8% to the calls of a run (measured).
_ADAPTIVE_SHARE = 0.5
# Beyond, a count is no longer a float, and rounding alone may break a promise by one
# sample.
LARGEST_EXACT = 2**53
# The largest worst-case price of a root that bets, in percent of the least. It is an
# integer, because prices are integers beyond 10^1000.
_ADAPTIVE_PERCENT = 200
_LONG = 24  # rows beyond which only the cheapest plan is polished
# Halvings of the interval (0.85, 1) times the frontier's answer, in logarithms: they
# find it to within 1%.
_INVERSE_STEPS = 4


def compile_schedule(
    facts: Facts,
    *,
    epsilon: float,
    delta: float,
    target: Target = "q_values",
    kinds: Iterable[IntEnum] = ALL_KINDS,
    adaptive: bool = True,
    method: str = "smoothcruiser",
) -> Schedule:
    """Return the cheapest schedule found that keeps (epsilon, delta).

    It keeps it on every problem with these facts, and it is verified when it is
    built. A schedule is frozen data, so a repeated request returns the same object.
    """
    _check_promise(facts, epsilon, delta, target)
    promise = (float(epsilon), float(delta), target)
    check_reach(facts, *promise)
    return _compile_cached(
        ScheduleRequest(facts, _with_constant(kinds), *promise, bool(adaptive), method)
    )


@lru_cache(maxsize=64)
def _compile_cached(request: ScheduleRequest) -> Schedule:
    return load_or_search(request, lambda: _search_schedule(request))


def _search_schedule(request: ScheduleRequest) -> Schedule:
    facts, kinds, epsilon, delta, target, adaptive, method = request
    draft, random_draft = _best_drafts(facts, kinds, epsilon, delta, target)
    fixed_closed = _close_draft(draft, delta, 0.0)
    random_closed = (
        None if random_draft is None else _close_draft(random_draft, delta, 0.0)
    )
    if not adaptive:
        cheapest_closed = min(
            (closed for closed in (fixed_closed, random_closed) if closed),
            key=lambda closed: closed.num_calls,
        )
        return _build_schedule(cheapest_closed, delta, method)
    bets_delta = _ADAPTIVE_SHARE * delta
    drafts = (
        [draft]
        if _is_hopeless(draft)
        else [draft, _likely_draft(draft, delta, bets_delta)]
    )
    betting_closed = [
        _close_draft(plain_or_likely, delta, bets_delta) for plain_or_likely in drafts
    ]
    price_limit = _ADAPTIVE_PERCENT * fixed_closed.num_calls // 100
    payable_choices = [
        closed
        for closed in betting_closed
        if closed.root.looks and closed.num_calls <= price_limit
    ]
    best_closed = min(
        payable_choices, key=lambda closed: closed.expected_calls, default=fixed_closed
    )
    # a run of a randomized schedule pays its price, whatever the problem's noise is
    if (
        random_closed is not None
        and random_closed.num_calls < best_closed.expected_calls
    ):
        best_closed = random_closed
    return _build_schedule(best_closed, delta, method)


def _likely_draft(draft: Draft, delta: float, bets: float) -> Draft:
    """Return the draft with counts for the likely price of a run, if the root bets.

    Such a table has a coarser child and more root samples: these cost less where the
    data end the run early.
    """
    facts, target = draft.base.facts, draft.target
    fixed_level, bets_level = (
        level_of(facts, target, share) for share in (delta - bets, bets)
    )
    return polish(replace(draft, level=fixed_level, bets=bets_level))


def sparse_sampling(
    facts: Facts,
    *,
    epsilon: float,
    delta: float,
    target: Target = "q_values",
    adaptive: bool = True,
    method: str = "sparse-sampling",
) -> Schedule:
    """Return the cheapest schedule found of plug-ins alone, which end at no cost.

    This is Kearns, Mansour and Ng's sparse sampling in the same sharp form.
    """
    return compile_schedule(
        facts,
        epsilon=epsilon,
        delta=delta,
        target=target,
        kinds=SPARSE_SAMPLING_KINDS,
        adaptive=adaptive,
        method=method,
    )


def smallest_epsilon(
    facts: Facts,
    *,
    budget: int,
    delta: float,
    target: Target = "q_values",
    kinds: Iterable[IntEnum] = ALL_KINDS,
    adaptive: bool = False,
) -> float:
    """Return the smallest epsilon found with a schedule within ``budget``."""
    epsilon_high = affordable_epsilon(
        facts, budget=budget, delta=delta, target=target, kinds=kinds
    )
    all_kinds = _with_constant(kinds)
    if epsilon_high <= 0.0:
        return 0.0

    def payable(epsilon: float) -> bool:
        draft, random_draft = _best_drafts(
            facts, all_kinds, epsilon, float(delta), target
        )
        if random_draft is not None:
            random_closed = _close_draft(random_draft, float(delta), 0.0)
            rows, root = random_closed.draft.rows, random_closed.root
            if most_calls(rows, root, facts.num_actions) <= budget:
                return True
        plain_closed = _close_draft(
            draft, float(delta), _ADAPTIVE_SHARE * float(delta) if adaptive else 0.0
        )
        return plain_closed.num_calls <= budget

    # the frontier's answer ignores the checkpoints and the rounding at the root
    while not payable(epsilon_high):
        epsilon_high *= 1.02
    epsilon_low = 0.85 * epsilon_high
    # Polishing makes a plan cheaper than its place on the frontier, so a smaller
    # epsilon may still fit.
    for _ in range(_INVERSE_STEPS):
        middle_epsilon = math.sqrt(epsilon_low * epsilon_high)
        epsilon_low, epsilon_high = (
            (epsilon_low, middle_epsilon)
            if payable(middle_epsilon)
            else (middle_epsilon, epsilon_high)
        )
    return epsilon_high


def affordable_epsilon(
    facts: Facts,
    *,
    budget: int,
    delta: float,
    target: Target = "q_values",
    kinds: Iterable[IntEnum] = ALL_KINDS,
) -> float:
    """Return an epsilon at a price of about ``budget``, by the frontier alone."""
    _check_promise(facts, 1.0, delta, target)
    if budget < facts.num_actions:
        raise InvalidInput(
            f"A budget must allow one call an action, {facts.num_actions} here, "
            f"got {budget}; raise the budget."
        )
    if is_staged(facts):  # its stages would be built in vain
        check_reach(facts, USEFUL * facts.value_span() or 1.0, float(delta), target)
    return affordable(
        facts, _with_constant(kinds), math.log(budget), float(delta), target
    )


def _with_constant(kinds: Iterable[IntEnum]) -> Kinds:
    """Return ``kinds``, all known, with the constant in which every table ends."""
    return frozenset(estimator_of(kind).kind for kind in (*kinds, Kind.CONSTANT))


def _check_promise(facts: Facts, epsilon: float, delta: float, target: Target) -> None:
    if not (isinstance(epsilon, int | float) and 0.0 < epsilon < math.inf):
        raise InvalidInput(
            f"epsilon must be a finite number above 0, got {epsilon!r}; it is the "
            "largest error you accept."
        )
    if not (isinstance(delta, int | float) and 0.0 < delta < 1.0):
        raise InvalidInput(
            f"delta must lie strictly between 0 and 1, got {delta!r}; it is the "
            "probability that the promise may fail."
        )
    if target not in ("q_values", "value"):
        raise InvalidInput(f"target must be 'q_values' or 'value', got {target!r}.")
    ground(facts)  # refuses operators and discounts that the analysis does not cover


# --- from a level to a table --------------------------------------------------


def _best_drafts(
    facts: Facts, kinds: Kinds, epsilon: float, delta: float, target: Target
) -> tuple[Draft, Draft | None]:
    """Return the cheapest draft of plain kinds, and one with randomized levels.

    The second is None where no randomized level can pay.
    """
    frontier = frontier_of(facts, kinds)
    found_candidates = candidates(facts, kinds, epsilon, delta, target)
    plain_candidates, random_candidates = (
        [
            candidate
            for candidate in found_candidates
            if candidate.has_range is is_bounded
        ]
        for is_bounded in (True, False)
    )
    best_plain = _polish_best(facts, frontier, plain_candidates, epsilon, delta)
    if (
        not random_candidates
        or random_candidates[0].log_price > plain_candidates[0].log_price + PROMISING
    ):
        return best_plain, None
    return best_plain, _polish_best(
        facts, frontier, random_candidates[:1], epsilon, delta
    )


def _polish_best(
    facts: Facts,
    front: Frontier | StagedFrontier,
    chosen_candidates: list[Candidate],
    epsilon: float,
    delta: float,
) -> Draft:
    drafts = [
        _build_draft(facts, front, candidate, epsilon, delta)
        for candidate in chosen_candidates
    ]
    if _is_hopeless(drafts[0]):
        return drafts[0]
    drafts = [
        polish(draft)
        for draft in drafts[: 1 if len(drafts[0].rows) > _LONG else POLISHED]
    ]
    return min(drafts, key=lambda draft: float(draft.log_price()[0]))


def _build_draft(
    facts: Facts,
    front: Frontier | StagedFrontier,
    candidate: Candidate,
    epsilon: float,
    delta: float,
) -> Draft:
    """Return the rows under ``candidate``, once for every number of remaining steps.

    Children come first, and wide rows before narrow ones.
    """
    needed_levels: dict[tuple[int, int], Level] = {}
    horizon = (
        facts.horizon
        if candidate.target == "value" or facts.horizon is None
        else facts.horizon - 1
    )
    stack = [(candidate.table, candidate.index, horizon or 0)]
    stage_step = 0 if horizon is None else 1
    while stack:
        table, index, stage = stack.pop()
        # no steps left: the exact constant
        index = 0 if horizon is not None and stage == 0 else index
        if (stage, index) in needed_levels:
            continue
        level = Level(Kind.CONSTANT) if index == 0 else table.levels[index]
        needed_levels[stage, index] = level
        if len(needed_levels) > MOST_ROWS:
            raise Unpayable(
                f"The schedule for epsilon={epsilon:g} needs a table of more than "
                f"{MOST_ROWS} levels and "
                f"10^{candidate.log_price / math.log(10.0):.1f} oracle calls; ask for "
                "a larger epsilon or temperature, or a shorter horizon."
            )
        stack.extend(
            (front.child_table(table), child, stage - stage_step)
            for child in (level.query, level.continuation)
            if child >= 0
        )
    row_index = {node: i for i, node in enumerate(sorted(needed_levels))}
    rows: list[Level] = []
    for stage, index in sorted(needed_levels):
        level = needed_levels[stage, index]
        stage_below = stage - stage_step
        query, continuation = (
            i
            if i < 0
            else row_index[stage_below, 0 if stage_step and stage_below == 0 else i]
            for i in (level.query, level.continuation)
        )
        rows.append(replace(level, query=query, continuation=continuation))
    return Draft(
        ground(facts),
        tuple(rows),
        tuple(
            None if horizon is None else stage for stage, _ in sorted(needed_levels)
        ),
        candidate.target,
        epsilon,
        level_of(facts, candidate.target, delta),
    )


@dataclass(frozen=True)
class ClosedDraft:
    """A draft with its root, from which a schedule is built."""

    draft: Draft
    root: Root

    @property
    def num_calls(self) -> int:
        """The price, exactly."""
        return price(self.draft.rows, self.root, self.draft.base.facts.num_actions)

    @property
    def expected_calls(self) -> int:
        """The likely calls of a run, if the root bets."""
        bias, spread, variance = (float(x[0]) for x in self.draft.draws()[:3])
        level = level_of(
            self.draft.base.facts, self.root.target, self.root.adaptive_delta
        )
        num_likely = likely_samples(
            self.draft.epsilon - bias, spread, DEVIATION**2 * variance, level
        )
        return likely_calls(self.num_calls, self.root.samples, num_likely)


def _close_draft(draft: Draft, delta: float, adaptive_delta: float) -> ClosedDraft:
    """Return ``draft`` with the fewest root samples, tightened.

    With an ``adaptive_delta`` above 0 it has checkpoints as well, where one can
    pay.
    """
    facts = draft.base.facts
    draft = draft.at_level(level_of(facts, draft.target, delta - adaptive_delta))
    root_choice = draft.root()
    assert root_choice is not None  # only drafts with a finite price come here
    samples, bound = root_choice
    checkpoint_counts: tuple[int, ...] = ()
    if adaptive_delta > 0.0:
        bias, spread = (float(x[0]) for x in draft.draws()[:2])
        num_means = facts.num_actions if draft.target == "q_values" else 1
        checkpoint_counts = choose_checkpoints(
            draft.epsilon - bias, spread, num_means, samples, adaptive_delta
        )
    if not _is_hopeless(draft):
        draft = tighten(draft, samples)
    return ClosedDraft(
        draft,
        Root(
            draft.target,
            samples,
            len(draft.rows) - 1,
            bound,
            checkpoint_counts,
            adaptive_delta if checkpoint_counts else 0.0,
        ),
    )


def _is_hopeless(draft: Draft) -> bool:
    """Return whether nobody will run it, so that its counts need not be polished."""
    return float(draft.log_price()[0]) > LOG_HOPELESS


def _build_schedule(closed: ClosedDraft, delta: float, method: str) -> Schedule:
    draft = closed.draft
    levels = [
        KINDS[row.kind].finish_row(row, moments)
        for row, moments in zip(draft.rows, draft.row_moments, strict=True)
    ]
    facts = draft.base.facts
    try:
        return Schedule(
            method=method,
            facts=facts,
            levels=tuple(levels),
            root=closed.root,
            epsilon=draft.epsilon,
            delta=delta,
        )
    except BrokenPromise as error:
        if closed.num_calls <= LARGEST_EXACT:
            raise
        raise Unpayable(
            f"epsilon={draft.epsilon:g} asks for about {short(closed.num_calls)} "
            "oracle calls, more than can be counted exactly; ask for a larger epsilon."
        ) from error
