"""The run of ``evaluate``: a pilot that chooses the paths, then paths until a limit.

Pilot paths are counted as calls and used for nothing but choices. The paths after
them come in eras that double: the rule of an era is fixed from earlier paths. A path
that a limit interrupts is dropped, and the run is over (``Rollouts.run_paths``).
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np

from smoothcruiser.evaluation.evaluation_notes import (
    RolloutSummary,
    delta_of,
    is_unlimited,
)
from smoothcruiser.evaluation.path_fitting import Fit, MeanBound, Stakes
from smoothcruiser.evaluation.path_rules import (
    BALANCE,
    COLUMNS,
    LOWER,
    UPPER,
    PathRule,
    X,
    check_totals,
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
        min_value, max_value = stakes.values
        alpha = 0.5 * delta_of(query)
        self.below, self.above = (
            MeanBound(alpha, min_value, max_value),
            MeanBound(alpha, -max_value, -min_value),
        )
        self.level = self.below.level
        self.count, self.mean, self.squares = 0, 0.0, 0.0  # of X
        self.lost = 0.0  # sum of its possible rounding errors
        self.window = np.empty((0, COLUMNS))  # of paths under the current head
        self.crossed = False
        self.shown = stakes.values  # the last interval that was not empty
        self.rule = PathRule()
        self.head = stakes.heads()[0]
        self.fit = stakes.first_fit(self.head)
        self.warned = False
        self.started, self.calls_before = time.perf_counter(), rollouts.calls

    def run_paths(self) -> RolloutSummary:
        """The mean of X and the interval of V_pi, when a limit or a stop came."""
        phases = self.phases
        if phases.refused or phases.begin("evaluating", price=self.price):
            return self.summary()
        was_piloted, is_refused = self._pilot()
        next_check, era_end, used_up = FIRST_CHECK, 0, is_refused
        epsilon = self.query.promise.epsilon
        check_ratio = IDLE_RATIO if epsilon is None else RATIO
        while not used_up:
            if self.count >= era_end:
                self._begin_era()
                era_end = max(FIRST_ERA[was_piloted], 2 * self.count)
            num_paths = min(next_check, era_end, self.count + MOST_PATHS) - self.count
            used_up = self._take_paths(num_paths)
            lower_bound, upper_bound = self.interval()
            is_due = self.count >= next_check
            is_narrow = (
                is_due
                and epsilon is not None
                and (upper_bound - lower_bound) / 2.0 <= epsilon
            )
            if self.crossed or is_narrow:
                break
            if is_due:
                next_check = math.ceil(next_check * check_ratio)
        return self.summary()

    def interval(self) -> tuple[float, float]:
        """The interval of V_pi so far.

        Ends that cross are a failure that delta allows: the last interval that was
        not empty stands. It is empty (low > high) where an end crosses a declared
        bound.
        """
        return self.shown

    def _narrow(self) -> bool:
        """Bring the ends up to date; whether they cross."""
        lower_bound, upper_bound = self.below.raise_low(), -self.above.raise_low()
        min_value, max_value = self.stakes.values
        if (
            lower_bound <= upper_bound
            or lower_bound > max_value
            or upper_bound < min_value
        ):
            self.shown = lower_bound, upper_bound
        return lower_bound > upper_bound

    def summary(self) -> RolloutSummary:
        """The estimate, its standard error and the interval."""
        (lower_bound, upper_bound), count, mean = (
            self.interval(),
            self.count,
            self.mean,
        )
        standard_error = None
        if count >= FEWEST_PATHS:
            standard_error = (
                math.sqrt(self.squares / (count - 1) / count) + self.lost / count
            )
        if count == 0:  # the best guess of the pilot
            mean = self.fit.mean
            if len(self.window) >= FEWEST_PATHS:
                standard_error = self.fit.sd / math.sqrt(len(self.window))
        mean = min(max(mean, lower_bound), upper_bound)
        return RolloutSummary(count, mean, (lower_bound, upper_bound), standard_error)

    def _late(self) -> bool:
        return time.perf_counter() >= self.rollouts.deadline

    def _take_paths(self, num_paths: int) -> bool:
        """Bet on so many paths at once; whether the run is over.

        They are played in parts that last as long as a report may wait. The sums of
        the samples do not depend on the parts, and so not on the clock.
        """
        sample_parts, num_taken, is_over = [np.empty((0, COLUMNS))], 0, False
        while num_taken < num_paths and not is_over:
            speed = (self.count + num_taken) / max(
                time.perf_counter() - self.started, 1e-9
            )
            batch_size = min(num_paths - num_taken, max(1, int(BATCH_SECONDS * speed)))
            sample_parts.append(
                self.rollouts.run_paths(batch_size, self.most_calls, self.rule)
            )
            num_taken += len(sample_parts[-1])
            is_over = len(sample_parts[-1]) < batch_size or self._late()
            is_over = is_over or (num_taken < num_paths and self._report())
        self._take(np.concatenate(sample_parts))
        self.crossed = self._narrow()
        return is_over or self._report()

    def _report(self) -> bool:
        """Report the progress; whether the callback wants a stop."""
        elapsed_seconds, (lower_bound, upper_bound) = (
            time.perf_counter() - self.started,
            self.interval(),
        )
        if self.query.progress is None:
            self._warn_of_length(elapsed_seconds)
            return False
        seconds_left = self.rollouts.deadline - time.perf_counter()
        time_limit = None if seconds_left == math.inf else seconds_left
        return self.phases.tell(
            calls=self.rollouts.calls - self.reserved,
            seconds=elapsed_seconds,
            seconds_left=time_left(
                self.rollouts.calls, self.price, elapsed_seconds, time_limit
            ),
            interval=(lower_bound, upper_bound)
            if lower_bound <= upper_bound
            else None,
            half_width=(upper_bound - lower_bound) / 2.0
            if lower_bound <= upper_bound
            else None,
        )

    def _warn_of_length(self, spent: float) -> None:
        """Warn once of a long run without limits and without a bar."""
        if self.warned or spent < WARNED_FROM or not is_unlimited(self.query):
            return
        seconds_left = time_left(self.rollouts.calls, self.price, spent) or 0.0
        self.warned = spent + seconds_left > LONG_SECONDS
        if self.warned:
            warnings.warn(
                f"evaluate makes {self.most_calls:,} calls where no limit is set, which "
                f"takes about {spent + seconds_left:,.0f} s here; give seconds= or budget= for "
                "less, or progress=True for a bar.",
                stacklevel=2,
            )

    # --- the pilot --------------------------------------------------------------

    def _pilot(self) -> tuple[bool, bool]:
        """(whether a rule was chosen from pilot paths, whether the run is over)."""
        heads = self.stakes.heads()
        self.head, self.fit = heads[0], self.stakes.first_fit(heads[0])
        if self.stakes.horizon is not None and self.stakes.worth is None:
            return False, False
        if self.stakes.worth is None:  # a critic says about where values are
            self._scout()
        calls_before, deadline = self.rollouts.calls, self.rollouts.deadline
        call_share = (self.most_calls - calls_before) // PILOT_SHARE
        time_share = (deadline - time.perf_counter()) / PILOT_SHARE
        best_cost, has_choice, first_fit = math.inf, False, self.fit
        for head_number, head in enumerate(heads, start=1):
            max_calls = min(
                self.most_calls, calls_before + call_share * head_number // len(heads)
            )
            end_time = self.started + time_share * head_number / len(heads)
            rule = self.stakes.rule(head, first_fit, 1.0, self.level)
            samples, is_over = self._pilot_paths(rule, max_calls, end_time)
            self.stakes.note_worth(samples)
            if is_over and not has_choice and len(samples):
                self.window, self.fit = samples, self.stakes.fit(rule, samples)
            if is_over or len(samples) < FEWEST_PILOTS:
                return has_choice, is_over
            fit = self.stakes.fit(rule, samples)
            cost = self._cost(head, fit)
            if cost < best_cost:
                best_cost, has_choice = cost, True
                self.head, self.fit, self.rule = head, fit, rule
                self.window = samples
        return has_choice, False

    def _scout(self) -> None:
        """Guess the control variate from some steps, before the first path.

        Where a limit allows few paths, those that finish are short: the control
        variate has to be about right from the first one on.
        """
        start_time, calls = time.perf_counter(), self.rollouts.calls
        call_share = (self.most_calls - calls) // SCOUT_SHARE
        time_share = (self.rollouts.deadline - start_time) / SCOUT_SHARE
        longest_path = math.ceil(1.0 / (1.0 - self.stakes.discount))
        steps, guesses = min(longest_path, FIRST_STEPS, call_share), []
        for _ in range(SCOUTS + 1):
            if steps < 1 or time.perf_counter() - start_time > time_share:
                break
            rule = PathRule(steps, True, self.stakes.discount)
            samples = self.rollouts.run_paths(1, self.most_calls, rule)
            check_totals(self.stakes.problem, samples)
            guesses += [self.stakes.carried_on(rule, row) for row in samples]
            if time_share < math.inf:
                elapsed_seconds = max(time.perf_counter() - start_time, 1e-9)
                call_share = min(call_share, int(steps * time_share / elapsed_seconds))
            steps = min(longest_path, (call_share - FIRST_STEPS) // SCOUTS)
        if guesses:
            best_guesses = guesses[1:] or guesses
            guess = self.stakes.clip_value(sum(best_guesses) / len(best_guesses))
            self.fit = self.fit._replace(control=guess, mean=guess)

    def _pilot_paths(
        self, rule: PathRule, most_calls: int, late: float
    ) -> tuple[Any, bool]:
        """(samples of a rule, whether the run is over: a stop or a limit of its own)."""
        sample_parts, num_taken, report_time = (
            [np.empty((0, COLUMNS))],
            0,
            time.perf_counter(),
        )
        while num_taken < PILOT_PATHS and time.perf_counter() < late:
            samples = self.rollouts.run_paths(PILOT_BATCH, most_calls, rule)
            check_totals(self.stakes.problem, samples)
            sample_parts.append(samples)
            num_taken += len(samples)
            if len(samples) < PILOT_BATCH:
                is_over = self.rollouts.calls < most_calls or self._late()
                return np.concatenate(sample_parts), is_over
            if time.perf_counter() - report_time > BATCH_SECONDS:
                report_time = time.perf_counter()
                if self._report():
                    return np.concatenate(sample_parts), True
        return np.concatenate(sample_parts), False

    def _cost(self, head: int, fit: Fit) -> float:
        """The cost of a head: half-width at equal calls, or calls to epsilon."""
        num_paths, is_limited = self._paths_left(fit)
        if is_limited:
            return self.stakes.forecast(head, fit, max(1.0, num_paths), self.level)
        epsilon = self.query.promise.epsilon or 0.0
        return fit.steps * self.stakes.paths_needed(head, fit, epsilon, self.level)

    def _paths_left(self, fit: Fit) -> tuple[float, bool]:
        """The number of paths that the limits still allow, about; whether any is set."""
        calls_left = math.inf
        if self.most_calls != NO_LIMIT:
            calls_left = self.most_calls - self.rollouts.calls
        if self.rollouts.deadline < math.inf:
            now = time.perf_counter()
            calls_since = self.rollouts.calls - self.calls_before
            speed = calls_since / max(now - self.started, 1e-9)
            calls_left = min(
                calls_left, speed * max(0.0, self.rollouts.deadline - now)
            )
        return calls_left / max(1.0, fit.steps), calls_left < math.inf

    # --- eras -------------------------------------------------------------------

    def _begin_era(self) -> None:
        """Fix rule and poles of the next paths from those before."""
        if len(self.window) and self.count:
            self.fit = self.stakes.fit(self.rule, self.window)
            sd = math.sqrt(self.squares / max(1, self.count - 1))
            self.fit = self.fit._replace(sd=max(sd, self.fit.sd))
        paths_left, is_limited = self._paths_left(self.fit)
        aimed_paths = self.count + paths_left if is_limited else math.inf
        epsilon = self.query.promise.epsilon
        if epsilon is not None:
            needed_paths = self.stakes.paths_needed(
                self.head, self.fit, epsilon, self.level
            )
            aimed_paths = min(aimed_paths, max(needed_paths, 1.1 * self.count))
        aimed_paths = max(1.0, aimed_paths)
        rule = self.stakes.rule(self.head, self.fit, aimed_paths, self.level)
        self._rebase(rule)
        lower_pole, upper_pole = self.stakes.poles(
            rule, self.fit, aimed_paths, self.level
        )
        self.below.begin_era(lower_pole)
        self.above.begin_era(-upper_pole)

    def _rebase(self, rule: PathRule) -> None:
        """Let the window's X be those of ``rule``, which a fit takes apart again."""
        self.window = self.window.copy()
        control_change = rule.control - self.rule.control
        self.window[:, X] += control_change * self.window[:, BALANCE]
        self.rule = rule

    def _take(self, samples: Any) -> None:
        """Count samples and bet on them."""
        if not len(samples):
            return
        check_totals(self.stakes.problem, samples)
        self.stakes.note_worth(samples)
        errors = self.stakes.errors(self.rule, samples)
        self.below.take(samples[:, LOWER] - errors)
        self.above.take(-samples[:, UPPER] - errors)
        self.lost += float(np.sum(errors))
        x, count_before = samples[:, X], self.count
        self.count += len(x)
        mean, deviations = float(x.mean()), x - x.mean()
        mean_shift = mean - self.mean
        self.mean += mean_shift * len(x) / self.count
        self.squares += float(np.sum(deviations * deviations))
        self.squares += mean_shift * mean_shift * count_before * len(x) / self.count
        self.window = np.concatenate((self.window, samples))[-WINDOW:]
