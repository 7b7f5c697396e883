"""The run of ``gap``: a pilot, then blocks of paths in order, until a limit.

The limits of all statements hold at every count of paths at once (``mixture_bounds``),
so any rule may end the run: the accuracy, a budget, a clock, Ctrl-C, a progress
function. Blocks grow with the number of paths, and a limit is computed after each. What
is computed depends on the committed paths alone, and so do the sizes of blocks: the
bits are the same for any number of workers (``path_crew``).

Between blocks a *refit* may replace W. The pilot then plays a few fresh paths with
the new W, which choose its clip, its cuts and so the ranges of the next era; they
count as calls and as nothing else.

Calls: the inspections of the step, the pilot, the paths that count, those that were
dropped, and the fit. Their sum never exceeds the budget.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.duality.machines.path_machines import PathMachine
from smoothcruiser.duality.runs.path_crew import PathCrew
from smoothcruiser.duality.runs.path_pilot import (
    PathPilot,
    PathPlan,
    forecast_from_facts,
    pilot_rules,
)
from smoothcruiser.duality.runs.path_ranges import (
    check_ranges,
    rounding_losses,
    value_rows,
)
from smoothcruiser.duality.runs.path_samples import (
    CALL_COLUMNS,
    PathRequest,
    read_samples,
)
from smoothcruiser.duality.runs.path_summary import (
    FIRST_MOMENT,
    GAP_COLUMN,
    POLICY_COLUMN,
    PathRefit,
    PathStatements,
    PathSummary,
    first_interval,
    policy_bounds,
    sum_calls_by_role,
)
from smoothcruiser.engines.inspection import (
    LOOK_SECONDS,
    Looks,
    describe_inspections,
    look,
)
from smoothcruiser.errors import InvalidInput
from smoothcruiser.estimate import Interval
from smoothcruiser.progress import Phases, time_left
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.run_control.call_seconds import warn_if_overdue
from smoothcruiser.run_control.clock import pause_clock
from smoothcruiser.run_control.control import Control, StopReason
from smoothcruiser.run_control.stop_requests import StopRequest

Floats = NDArray[np.float64]
# (paths so far) -> (the next W, calls that its fit made), or None to go on as it is
Refit = Callable[[int], "tuple[Any, int] | None"]

NO_LIMIT = 2**62  # calls: more than any run makes
# where no limit is set: some seconds of compiled code, ten of Python
DEFAULT_CALLS = {"compiled": 100_000_000, "reference": 1_000_000}
FIRST_CHECK = 16  # paths before the limits are computed first
RATIO = 1.1  # between two blocks: at most 10% more paths than needed
FIRST_REFIT, REFIT_RATIO = 256, 4  # paths at which W may be fitted anew
BLOCK_SHARE = 4  # a block costs at most a quarter of the calls that are left
INSPECTED_SHARE, PILOT_SHARE = 8, 8  # of the calls; the pilot also of the seconds
BEFORE_SHARE, AFTER_SHARE = 0.1, 0.05  # of the seconds, for the inspections
HAND_SECONDS, LEAST_SECONDS = 0.2, 0.1
REPORT_SECONDS = 0.5


class GapRun:
    """One run of paths, up to ``most_calls`` calls."""

    def __init__(
        self,
        task: PathRequest,
        machine: PathMachine,
        phases: Phases,
        control: Control,
        *,
        most_calls: int = NO_LIMIT,
        workers: int = 1,
        refit: Refit | None = None,
    ) -> None:
        """A run on ``machine``, whose owner closes it.

        Args:
            task: What is asked.
            machine: Plays the paths.
            phases: Where progress is reported.
            control: Clock and stops of the run.
            most_calls: Calls of the step at the most, all purposes together.
            workers: Threads, where the machine is compiled.
            refit: Called between blocks; returns a new W and the calls of its fit.
        """
        follows_critic = task.num_lookahead > 0 and task.problem.num_actions > 1
        if refit is not None and follows_critic and task.has_policy:
            raise InvalidInput(
                "A policy that is greedy on W is another one after a refit of W, so that "
                "nothing can be said of its value; give policy=, or ask for V alone."
            )
        self.task, self.machine, self.phases = task, machine, phases
        self.control, self.most_calls, self.refit = control, most_calls, refit
        self.workers = workers
        self.price = None if most_calls == NO_LIMIT else most_calls
        self.calls_at_start = machine.calls
        self.look_calls, self.reserved, self.fit_calls = 0, 0, 0
        self.role_calls = np.zeros(len(CALL_COLUMNS))
        self.largest_path, self.num_cut, self.num_nodes = 0.0, 0, 0.0
        self.refits: list[PathRefit] = []
        self.statements: PathStatements | None = None
        self.plan: PathPlan | None = None
        self.pilot = PathPilot(machine, task)
        self.reported_at = time.perf_counter()
        self.is_reached, self.next_check, self.num_refits = False, FIRST_CHECK, 0
        self.crew: PathCrew | None = None

    @property
    def count(self) -> int:
        """The paths that count, so far."""
        return 0 if self.statements is None else self.statements.bounds.count

    @property
    def calls(self) -> int:
        """All calls so far, and those that the last inspection will make."""
        return self.look_calls + self.reserved + self.fit_calls + self._path_calls()

    def _path_calls(self) -> int:
        crew_calls = self.machine.calls if self.crew is None else self.crew.calls
        return crew_calls - self.calls_at_start

    def run_paths(self) -> PathSummary:
        """The limits and estimates, when a limit or a stop came."""
        control, time_limit = self.control, self.control.limits.seconds
        self._compile()
        pairs = self._inspect_before()
        if time_limit is not None:
            last_look = min(LOOK_SECONDS, AFTER_SHARE * time_limit)
            self.machine.deadline = control.deadline - last_look
        if not self._must_stop() and not self.phases.begin(
            "evaluating", price=self.price
        ):
            with warn_if_overdue(time_limit):
                self._play()
        run_seconds = control.clock.elapsed()
        inspection = self._inspect_after(pairs)
        return self._summarize(inspection, run_seconds)

    def _must_stop(self) -> bool:
        return self.control.check(self.calls) is not None

    def _compile(self) -> None:
        """Compile the machine by playing no path; the clock stands still meanwhile."""
        rule = pilot_rules(self.task)[0]
        times = value_rows(self.task.problem, self.task.steps_left, 2)
        with pause_clock():
            self.machine.play_paths(0, 0, rule, times, 0, pilot=True)

    # --- inspections ------------------------------------------------------------

    def _inspect_before(self) -> Looks:
        """Pairs inspected; each is called once more at the end."""
        task, control = self.task, self.control
        time_limit = control.limits.seconds
        look_calls = self.price and self.price // INSPECTED_SHARE
        seconds = LOOK_SECONDS
        if time_limit is not None:
            seconds = min(seconds, max(LEAST_SECONDS, BEFORE_SHARE * time_limit))
        self.phases.begin("inspecting")
        ledger, pairs = CallLedger(look_calls), Looks()
        if not self.phases.refused:
            with suppress(KeyboardInterrupt), control.hold.opened():
                pairs = look(
                    task.problem, task.state, task.seed, ledger, None, seconds
                )
        self.look_calls, self.reserved = ledger.total, len(pairs)
        self.call_seconds = control.clock.elapsed() / max(1, ledger.total)
        return pairs

    def _inspect_after(self, pairs: Looks) -> str:
        """Call the inspected pairs once more; what is known of the step, in words."""
        control, task = self.control, self.task
        is_by_hand = control.check() is StopReason.HAND
        seconds = HAND_SECONDS if is_by_hand else LOOK_SECONDS
        seconds = min(seconds, max(LEAST_SECONDS, control.clock.left()))
        repeated = CallLedger()
        if pairs and self.call_seconds <= seconds:
            hold = StopRequest() if is_by_hand else control.hold
            with suppress(KeyboardInterrupt), hold.opened():
                look(task.problem, task.state, task.seed, repeated, pairs, seconds)
        self.look_calls += repeated.total
        self.reserved = 0
        machine: Any = self.machine
        return describe_inspections(
            len(pairs),
            repeated.total,
            getattr(machine, "looks", 0),
            getattr(machine, "doubts", ""),
        )

    # --- blocks -----------------------------------------------------------------

    def _play(self) -> None:
        """The pilot, then blocks until a limit."""
        calls_left = self.most_calls - self.calls
        seconds_left = self.machine.deadline - time.perf_counter()
        late = time.perf_counter() + seconds_left / PILOT_SHARE
        run_calls = float(calls_left) if self.price is not None else math.inf
        self.plan = self.pilot.choose_plan(
            calls_left // PILOT_SHARE, late, run_calls, seconds_left
        )
        if self.plan is None:
            return
        self.largest_path = self.plan.stats.calls
        self.statements = PathStatements(self.task, self.plan)
        crew = PathCrew(self.machine, self.workers, self.control.hold)
        with closing(crew):
            self.crew = crew
            crew.set_deadline(self.machine.deadline)
            while not self._must_stop() and not self._play_block(crew):
                pass
            self._narrow()

    def _play_block(self, crew: PathCrew) -> bool:
        """Play one block and bring the limits up to date; whether the run is over."""
        assert self.plan is not None
        assert self.statements is not None
        self._refit(crew)
        calls_left = self.most_calls - self.calls
        if calls_left <= 0:
            return True
        affordable = int(calls_left / (BLOCK_SHARE * max(1.0, self.largest_path)))
        block_size = max(1, min(self.next_check - self.count, affordable))
        tables, is_over = crew.play_block(
            self.count,
            block_size,
            (self.plan.rules, self.plan.times),
            calls_left,
            self.largest_path,
            self._report,
        )
        if len(tables[0]):
            self._commit(tables)
        if self.count >= self.next_check:
            is_over = self._narrow() or is_over
        return is_over or self._report()

    def _narrow(self) -> bool:
        """Bring the limits up to date; whether nothing more is wanted."""
        assert self.statements is not None
        self.next_check = max(FIRST_CHECK, math.ceil(RATIO * self.count))
        has_crossed = self.statements.narrow()
        low, high = self.statements.last_interval
        promise = self.task.promise
        half_width = 0.5 * (high - low)
        if promise.target == "q_values":
            half_width = max(half_width, self.statements.action_half_width())
        self.is_reached = promise.asked and not promise.is_missed(
            half_width, (low, high)
        )
        return has_crossed or self.is_reached

    def _commit(self, tables: list[Floats]) -> None:
        """Take the paths of a block in, in the order of their numbers."""
        assert self.plan is not None
        assert self.statements is not None
        problem, plan = self.task.problem, self.plan
        losses = np.zeros(len(tables[0]))
        for rule, ranges, table in zip(plan.rules, plan.passes, tables, strict=True):
            own_losses = rounding_losses(problem, rule, plan.times, ranges, table)
            check_ranges(table, own_losses, ranges, rule)
            losses = np.maximum(losses, own_losses)
        samples = read_samples(self.task, tables)
        self.statements.take_samples(samples, losses)
        self.role_calls += samples.role_calls
        self.largest_path = max(self.largest_path, float(samples.calls.max()))
        self.num_cut += int(samples.is_cut.sum())
        self.num_nodes += float(samples.nodes.sum())

    def _refit(self, crew: PathCrew) -> None:
        """Ask for a new W where it is time, and begin an era with its ranges."""
        assert self.plan is not None
        assert self.statements is not None
        due = FIRST_REFIT * REFIT_RATIO**self.num_refits
        if self.refit is None or self.count < due:
            return
        self.num_refits += 1
        answer = self.refit(self.count)
        if answer is None:
            return
        critic, fit_calls = answer
        self.fit_calls += fit_calls
        old_critic, old_task = self.task.critic, self.task
        crew.replace_critic(critic)
        self._set_task(critic)
        calls_left = self.most_calls - self.calls
        new_plan = self.pilot.refit_plan(self.plan, calls_left // PILOT_SHARE)
        if new_plan is None:  # no calls or no time for it: W stays
            crew.replace_critic(old_critic)
            self.task = self.pilot.task = old_task
            return
        self.plan = new_plan
        self.statements.begin_era(new_plan)
        self.refits.append(
            PathRefit(self.count, new_plan.ranges, new_plan.clip, new_plan.root_value)
        )

    def _set_task(self, critic: Any) -> None:
        self.task = self.pilot.task = replace(self.task, critic=critic)

    def _report(self) -> bool:
        """Report the progress now and then; whether the callback wants a stop."""
        now = time.perf_counter()
        if self.control.hold.came:
            return True
        if now - self.reported_at < REPORT_SECONDS:
            return self.phases.refused
        self.reported_at = now
        elapsed = self.control.clock.elapsed()
        seconds_left = self.machine.deadline - now
        low, high = self._interval()
        is_empty = low > high
        return self.phases.tell(
            calls=self.calls - self.reserved,
            seconds=elapsed,
            seconds_left=time_left(
                self.calls,
                self.price,
                elapsed,
                None if seconds_left == math.inf else seconds_left,
            ),
            interval=None if is_empty else (low, high),
            half_width=None if is_empty else 0.5 * (high - low),
        )

    def _interval(self) -> Interval:
        if self.statements is None:
            return first_interval(self.task)
        return self.statements.last_interval

    # --- the answer -------------------------------------------------------------

    def _summarize(self, inspection: str, seconds: float) -> PathSummary:
        task, statements, plan = self.task, self.statements, self.plan
        counted = int(self.role_calls.sum())
        pilot_calls = self.pilot.calls
        calls = sum_calls_by_role(
            tuple(CALL_COLUMNS),
            self.role_calls,
            inspection=self.look_calls,
            fit=self.fit_calls,
            pilot=pilot_calls,
            dropped=self._path_calls() - pilot_calls - counted,
        )
        stop = None if self.is_reached else self._stop_reason()
        forecast = forecast_from_facts(task) if plan is None else plan.forecast
        num_paths = self.count
        common: dict[str, Any] = {
            "num_paths": num_paths,
            "cut_paths": self.num_cut,
            "nodes_per_path": self.num_nodes / max(1, num_paths),
            "calls": calls,
            "shares": task.shares,
            "plan": plan,
            "refits": tuple(self.refits),
            "stop": stop,
            "forecast": forecast,
            "executor": self.machine.name,
            "inspection": inspection,
            "seconds": seconds,
        }
        if statements is None:
            return _empty_summary(task, common)
        value, error = statements.estimate()
        policy_value, policy_error = statements.column_estimate(POLICY_COLUMN)
        gap, gap_error = statements.column_estimate(GAP_COLUMN)
        q_values, q_errors = statements.q_estimates()
        covariances = statements.moments.covariances()
        return PathSummary(
            interval=statements.last_interval,
            policy_interval=statements.policy_interval(),
            regret=statements.regret(),
            q_intervals=statements.q_intervals(),
            value=value,
            standard_error=error,
            policy_value=policy_value,
            policy_error=policy_error,
            gap=gap,
            gap_error=gap_error,
            q_values=q_values,
            q_errors=q_errors,
            action_means=statements.moments.means[FIRST_MOMENT:],
            action_covariances=(
                None
                if covariances is None
                else covariances[FIRST_MOMENT:, FIRST_MOMENT:]
            ),
            **common,
        )

    def _stop_reason(self) -> StopReason | None:
        reason = self.control.check(self.calls)
        if reason is None and self.phases.refused:
            return StopReason.CALLBACK
        if reason is None and time.perf_counter() >= self.machine.deadline:
            return StopReason.SECONDS
        if reason is None and self.price is not None:
            return StopReason.BUDGET
        return reason


def _empty_summary(task: PathRequest, common: dict[str, Any]) -> PathSummary:
    """The answer where no path was affordable: declared bounds."""
    low, high = first_interval(task)
    policy_low, policy_high = policy_bounds(task)
    num_actions, nowhere = task.problem.num_actions, math.nan
    regret = policy_high - policy_low
    if not task.has_policy:
        policy_low = policy_high = regret = nowhere
    return PathSummary(
        interval=(low, high),
        policy_interval=(policy_low, policy_high),
        regret=regret,
        q_intervals=((nowhere, nowhere),) * num_actions,
        value=0.5 * (low + high),
        standard_error=None,
        policy_value=nowhere,
        policy_error=None,
        gap=nowhere,
        gap_error=None,
        q_values=(nowhere,) * num_actions,
        q_errors=(nowhere,) * num_actions,
        action_means=np.zeros(0),
        action_covariances=None,
        **common,
    )
