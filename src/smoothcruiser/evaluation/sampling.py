"""The run of ``evaluate``: a pilot that chooses the paths, then paths until a limit.

Pilot paths are counted as calls and used for nothing but choices. The paths after
them come in eras that double: what an era uses is fixed from earlier paths. A path
that a limit interrupts is dropped, and the run is over (``Rollouts.run``).
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np

from smoothcruiser.evaluation.confidence import MeanBound
from smoothcruiser.evaluation.fitting import Fit, Stakes
from smoothcruiser.evaluation.incomes import check_totals
from smoothcruiser.evaluation.notes import RolloutSummary, delta_of, is_unlimited
from smoothcruiser.evaluation.path_rules import (
    BALANCE,
    COLUMNS,
    LOWER,
    UPPER,
    PathRule,
    X,
)
from smoothcruiser.evaluation.rollouts import Rollouts
from smoothcruiser.progress import Phases, time_left
from smoothcruiser.query import Query

NO_LIMIT = 2**62  # calls: more than any run makes
FIRST_CHECK = 16  # paths before the first check whether epsilon is reached
RATIO = 1.1  # between two such checks: at most 10% more paths than needed
IDLE_RATIO = 1.5  # where no epsilon waits for it
BATCH_SECONDS = 0.5  # of paths between two reports
# a run without limits that would take LONG_SECONDS warns of it, at the speed so far
WARNED_FROM, LONG_SECONDS = 1.0, 15.0
MOST_PATHS = 2**18  # that are bet on at once
# at most a sixteenth goes into a first guess: a look at the speed, then four walks
SCOUT_SHARE, SCOUTS, FIRST_STEPS = 16, 4, 8
PILOT_SHARE = 8  # at most an eighth of the calls, or of the time, goes into a pilot
PILOT_PATHS, PILOT_BATCH = 24, 4  # of each rule that a pilot compares
FEWEST_PILOTS = 8  # below so many paths of a rule nothing is compared
FIRST_ERA = {True: 16, False: 4}  # paths, after a pilot and without one
# paths below which no error is usual: a limit drops the path under way, a long one most
# likely, so the few that finished are short and may agree
FEWEST_PATHS = 8
WINDOW = 4096  # latest paths that a fit looks at


class PathRun:
    """One evaluation by paths, up to ``most_calls`` calls."""

    def __init__(
        self,
        rollouts: Rollouts,
        stakes: Stakes,
        query: Query,
        phases: Phases,
        most_calls: int,
        reserved: int,
    ) -> None:
        """``reserved`` calls are counted that the inspection at the end will make."""
        self.rollouts, self.stakes = rollouts, stakes
        self.query, self.phases, self.reserved = query, phases, reserved
        self.most_calls = most_calls
        self.price = None if most_calls == NO_LIMIT else most_calls
        low, high = stakes.values
        alpha = 0.5 * delta_of(query)
        self.below, self.above = (
            MeanBound(alpha, low, high),
            MeanBound(alpha, -high, -low),
        )
        self.level = self.below.level
        self.count, self.mean, self.squares = 0, 0.0, 0.0  # of X
        self.lost = 0.0  # sum of what rounding may have done to it
        self.window = np.empty((0, COLUMNS))  # of paths under the current head
        self.crossed = False
        self.shown = stakes.values  # the last interval that was not empty
        self.rule = PathRule()
        self.head, self.fit = 0, stakes.first_fit(0)
        self.warned = False
        self.started, self.calls_before = time.perf_counter(), rollouts.calls

    def run(self) -> RolloutSummary:
        """The mean of X and the interval of V_pi, when a limit or a stop came."""
        phases = self.phases
        if phases.refused or phases.begin("evaluating", price=self.price):
            return self.summary()
        piloted, refused = self._pilot()
        next_check, era_end, used_up = FIRST_CHECK, 0, refused
        epsilon = self.query.promise.epsilon
        ratio = IDLE_RATIO if epsilon is None else RATIO
        while not used_up:
            if self.count >= era_end:
                self._begin_era()
                era_end = max(FIRST_ERA[piloted], 2 * self.count)
            num_paths = min(next_check, era_end, self.count + MOST_PATHS) - self.count
            used_up = self._take_paths(num_paths)
            low, high = self.interval()
            due = self.count >= next_check
            narrow = due and epsilon is not None and (high - low) / 2.0 <= epsilon
            if self.crossed or narrow:
                break
            if due:
                next_check = math.ceil(next_check * ratio)
        return self.summary()

    def interval(self) -> tuple[float, float]:
        """What is known of V_pi so far.

        Ends that cross are a failure that delta allows: the last interval that was
        not empty stands. It is empty (low > high) where an end crosses what was
        declared.
        """
        return self.shown

    def _narrow(self) -> bool:
        """Bring the ends up to date; whether they cross."""
        low, high = self.below.raise_low(), -self.above.raise_low()
        least, most = self.stakes.values
        if low <= high or low > most or high < least:
            self.shown = low, high
        return low > high

    def summary(self) -> RolloutSummary:
        """The estimate, its standard error and the interval."""
        (low, high), count, mean = self.interval(), self.count, self.mean
        error = None
        if count >= FEWEST_PATHS:
            error = math.sqrt(self.squares / (count - 1) / count) + self.lost / count
        if count == 0:  # the best guess of the pilot
            mean = self.fit.mean
            if len(self.window) >= FEWEST_PATHS:
                error = self.fit.sd / math.sqrt(len(self.window))
        mean = min(max(mean, low), high)
        refused = self.phases.refused
        return RolloutSummary(count, mean, (low, high), error, refused=refused)

    def _late(self) -> bool:
        return time.perf_counter() >= self.rollouts.deadline

    def _take_paths(self, num_paths: int) -> bool:
        """Bet on so many paths at once; whether the run is over.

        They are played in parts that last as long as a report may wait. What the
        samples add up to does not depend on the parts, and so not on the clock.
        """
        parts, count, over = [np.empty((0, COLUMNS))], 0, False
        while count < num_paths and not over:
            speed = (self.count + count) / max(time.perf_counter() - self.started, 1e-9)
            batch = min(num_paths - count, max(1, int(BATCH_SECONDS * speed)))
            parts.append(self.rollouts.run(batch, self.most_calls, self.rule))
            count += len(parts[-1])
            over = len(parts[-1]) < batch or self._late()
            over = over or (count < num_paths and self._report())
        self._take(np.concatenate(parts))
        self.crossed = self._narrow()
        return over or self._report()

    def _report(self) -> bool:
        """Tell how far it is; whether the callback wants a stop."""
        spent, (low, high) = time.perf_counter() - self.started, self.interval()
        if self.query.progress is None:
            self._warn_of_length(spent)
            return False
        until = self.rollouts.deadline - time.perf_counter()
        limit = None if until == math.inf else until
        return self.phases.tell(
            calls=self.rollouts.calls - self.reserved,
            seconds=spent,
            seconds_left=time_left(self.rollouts.calls, self.price, spent, limit),
            interval=(low, high) if low <= high else None,
            half_width=(high - low) / 2.0 if low <= high else None,
        )

    def _warn_of_length(self, spent: float) -> None:
        """Warn once of a long run that nobody limited and that shows no bar."""
        if self.warned or spent < WARNED_FROM or not is_unlimited(self.query):
            return
        left = time_left(self.rollouts.calls, self.price, spent) or 0.0
        self.warned = spent + left > LONG_SECONDS
        if self.warned:
            warnings.warn(
                f"evaluate makes {self.most_calls:,} calls where no limit is set, which "
                f"takes about {spent + left:,.0f} s here; give seconds= or budget= for "
                "less, or progress=True for a bar.",
                stacklevel=2,
            )

    # --- the pilot --------------------------------------------------------------

    def _pilot(self) -> tuple[bool, bool]:
        """(whether a rule was chosen from pilot paths, whether the run is over)."""
        heads = self.stakes.heads()
        self.head, self.fit = heads[0], self.stakes.first_fit(heads[0])
        if self.stakes.horizon is not None:
            return False, False
        self._scout()
        calls, until = self.rollouts.calls, self.rollouts.deadline
        share = (self.most_calls - calls) // PILOT_SHARE
        seconds = (until - time.perf_counter()) / PILOT_SHARE
        best, chosen, first = math.inf, False, self.fit
        for number, head in enumerate(heads, start=1):
            most = min(self.most_calls, calls + share * number // len(heads))
            late = self.started + seconds * number / len(heads)
            rule = self.stakes.rule(head, first, 1.0, self.level)
            samples, over = self._pilot_paths(rule, most, late)
            if over and not chosen and len(samples):
                self.window, self.fit = samples, self.stakes.fit(rule, samples)
            if over or len(samples) < FEWEST_PILOTS:
                return chosen, over
            fit = self.stakes.fit(rule, samples)
            cost = self._cost(head, fit)
            if cost < best:
                best, chosen = cost, True
                self.head, self.fit, self.rule = head, fit, rule
                self.window = samples
        return chosen, False

    def _scout(self) -> None:
        """Guess the control variate from some steps, before the first path.

        Where a limit allows few paths, those that finish are short: the control
        variate has to be about right from the first one on.
        """
        begin, calls = time.perf_counter(), self.rollouts.calls
        share = (self.most_calls - calls) // SCOUT_SHARE
        seconds = (self.rollouts.deadline - begin) / SCOUT_SHARE
        longest = math.ceil(1.0 / (1.0 - self.stakes.discount))
        steps, guesses = min(longest, FIRST_STEPS, share), []
        for _ in range(SCOUTS + 1):
            if steps < 1 or time.perf_counter() - begin > seconds:
                break
            rule = PathRule(steps, True, self.stakes.discount)
            samples = self.rollouts.run(1, self.most_calls, rule)
            check_totals(self.stakes.problem, samples)
            guesses += [self.stakes.carried_on(rule, row) for row in samples]
            if seconds < math.inf:
                spent = max(time.perf_counter() - begin, 1e-9)
                share = min(share, int(steps * seconds / spent))
            steps = min(longest, (share - FIRST_STEPS) // SCOUTS)
        if guesses:
            best = guesses[1:] or guesses
            guess = self.stakes.clipped(sum(best) / len(best))
            self.fit = self.fit._replace(control=guess, mean=guess)

    def _pilot_paths(
        self, rule: PathRule, most_calls: int, late: float
    ) -> tuple[Any, bool]:
        """(samples of a rule, whether the run is over: a stop or a limit of its own)."""
        parts, count, told = [np.empty((0, COLUMNS))], 0, time.perf_counter()
        while count < PILOT_PATHS and time.perf_counter() < late:
            samples = self.rollouts.run(PILOT_BATCH, most_calls, rule)
            check_totals(self.stakes.problem, samples)
            parts.append(samples)
            count += len(samples)
            if len(samples) < PILOT_BATCH:
                over = self.rollouts.calls < most_calls or self._late()
                return np.concatenate(parts), over
            if time.perf_counter() - told > BATCH_SECONDS:
                told = time.perf_counter()
                if self._report():
                    return np.concatenate(parts), True
        return np.concatenate(parts), False

    def _cost(self, head: int, fit: Fit) -> float:
        """What a head would cost: half-width at equal calls, or calls to epsilon."""
        count, known = self._paths_left(fit)
        if known:
            return self.stakes.forecast(head, fit, max(1.0, count), self.level)
        epsilon = self.query.promise.epsilon or 0.0
        return fit.steps * self.stakes.paths_needed(head, fit, epsilon, self.level)

    def _paths_left(self, fit: Fit) -> tuple[float, bool]:
        """How many more paths the limits allow, about, and whether there are any."""
        calls = math.inf
        if self.most_calls != NO_LIMIT:
            calls = self.most_calls - self.rollouts.calls
        if self.rollouts.deadline < math.inf:
            now = time.perf_counter()
            calls_since = self.rollouts.calls - self.calls_before
            speed = calls_since / max(now - self.started, 1e-9)
            calls = min(calls, speed * max(0.0, self.rollouts.deadline - now))
        return calls / max(1.0, fit.steps), calls < math.inf

    # --- eras -------------------------------------------------------------------

    def _begin_era(self) -> None:
        """Fix rule and poles of the next paths from those before."""
        if len(self.window) and self.count:
            self.fit = self.stakes.fit(self.rule, self.window)
            sd = math.sqrt(self.squares / max(1, self.count - 1))
            self.fit = self.fit._replace(sd=max(sd, self.fit.sd))
        more, known = self._paths_left(self.fit)
        aim = self.count + more if known else math.inf
        epsilon = self.query.promise.epsilon
        if epsilon is not None:
            needed = self.stakes.paths_needed(self.head, self.fit, epsilon, self.level)
            aim = min(aim, max(needed, 1.1 * self.count))
        aim = max(1.0, aim)
        rule = self.stakes.rule(self.head, self.fit, aim, self.level)
        self._rebase(rule)
        below, above = self.stakes.poles(rule, self.fit, aim, self.level)
        self.below.begin_era(below)
        self.above.begin_era(-above)

    def _rebase(self, rule: PathRule) -> None:
        """Let the window's X be those of ``rule``, which a fit takes apart again."""
        self.window = self.window.copy()
        change = rule.control - self.rule.control
        self.window[:, X] += change * self.window[:, BALANCE]
        self.rule = rule

    def _take(self, samples: Any) -> None:
        """Count samples and bet on them."""
        if not len(samples):
            return
        check_totals(self.stakes.problem, samples)
        errors = self.stakes.errors(self.rule, samples)
        self.below.take(samples[:, LOWER] - errors)
        self.above.take(-samples[:, UPPER] - errors)
        self.lost += float(np.sum(errors))
        x, before = samples[:, X], self.count
        self.count += len(x)
        mean, apart = float(x.mean()), x - x.mean()
        away = mean - self.mean
        self.mean += away * len(x) / self.count
        self.squares += float(np.sum(apart * apart))
        self.squares += away * away * before * len(x) / self.count
        self.window = np.concatenate((self.window, samples))[-WINDOW:]
