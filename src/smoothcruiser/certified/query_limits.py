"""When a query of certified search ends: at its goal, at its limits, or without room.

The goal is a half-width, requested as epsilon or as a share of |V|, and never below the
one that rounding allows. A search from samples has radii far above rounding. One from
rows of a known model has none, and its intervals must hold the value of the model as it
was given, to the last bit. Sweeps allow for the rounding of a mean and of F
(``sweeps_kernel``), and ``Facts`` for that of the first bounds. So the half-width
that is certainly reached is twice the sum of these allowances over all steps
(``model_floor``; docs/certified.md, section 4).

The limits are calls, seconds, a callback and Ctrl-C (``QueryLimits``). A search that
meets more states than fit ends too, with the interval it has; that limit changes no bit
of a search that does not reach it (``MemoryLimit``):

  max_states   the states kept, ends included; by default no number is set
  max_bytes    the limit of the memory: ``SHARE`` of the bytes available when the
               search begins, ``LARGE_SHARE`` where ``max_states`` was given. It
               counts the arrays with their free room, the array that replaces
               one that grows, and states that are Python objects

The available bytes are the least that the system, the control group and the process
limit leave.

This file decides when to stop, and leaves out the handling of samples that do not fit
(``sample_batches``).
"""

from __future__ import annotations

import math
import os
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from smoothcruiser.certified.bounds.base import UNIT, value_rounding
from smoothcruiser.certified.price_forecast import (
    DeltaShares,
    EqualSamples,
    delta_in_order,
)
from smoothcruiser.certified.sweeps.ranges import largest_value
from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import is_whole
from smoothcruiser.problem.declaration_checks import is_undiscounted
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, Phases
from smoothcruiser.query import nearest_to_zero
from smoothcruiser.run_control.control import Control, Limits
from smoothcruiser.run_control.stop_requests import StopRequest

SHARE = 0.5  # the rest is for other programs, and for a snapshot of the search
LARGE_SHARE = 0.9
# of a search that is stored: SQLite keeps 1e9 bytes in one place, and numbers may take
# more as text
STORE_BYTES = 7 * 10**8
UNKNOWN = 2**30  # bytes taken for available where no system says
# a place in a list and in a dict that is two thirds full at the most, and the boxes of
# two whole numbers
PYTHON_BYTES = 200
# why a search keeps no more, and the remedy
FULL = {
    "max_states": (
        "it keeps all the states that max_states allows (allow more, or merge states "
        "with key=)"
    ),
    "memory": (
        "no more fits in the memory at hand (free some, take a larger machine, or "
        "merge states with key=)"
    ),
    "store": (
        "no more fits in a store, which keeps 1 GB of one search (plan without a "
        "store, or merge states with key=)"
    ),
    "indices": (
        "a memory numbers at most 2**31 states, actions and outcomes (merge states with "
        "key=)"
    ),
}
MEMINFO = Path("/proc/meminfo")
OWN_GROUP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


class MemoryFull(Exception):
    """The memory has no room for the samples; ``reason`` is the limit it met.

    ``calls`` counts the calls without an entered sample.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(FULL[reason])
        self.reason, self.calls = reason, 0


@dataclass(frozen=True)
class MemoryLimit:
    """The limits of a memory, in states and in bytes."""

    max_states: int | None = None
    max_bytes: int = 2**63
    why: str = "memory"  # the limit that sets ``max_bytes``

    @classmethod
    def at_hand(cls, max_states: int | None) -> MemoryLimit:
        """The room of a search that begins now."""
        memory_share = SHARE if max_states is None else LARGE_SHARE
        return cls(max_states, int(memory_share * available_bytes()))

    def in_store(self) -> MemoryLimit:
        """The same for a search of which a store keeps snapshots."""
        if self.max_bytes <= STORE_BYTES:
            return self
        return MemoryLimit(self.max_states, STORE_BYTES, "store")


def check_max_states(max_states: Any) -> int | None:
    """Return a number of states, or None for as many as fit."""
    if max_states is None:
        return None
    if not is_whole(max_states) or max_states < 1:
        raise InvalidInput(
            f"max_states must be a whole number of at least 1, got {max_states!r}."
        )
    return int(max_states)


def available_bytes() -> int:
    """The bytes that this process can still take without harm."""
    known_limits = [*_system(), *_groups(), *_process()]
    return min(known_limits) if known_limits else UNKNOWN


def _system() -> list[int]:
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return [1024 * int(line.split()[1])]
    except (OSError, ValueError, IndexError):
        pass  # no Linux
    try:  # half of the machine: the use by others is not known
        return [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2]
    except (AttributeError, OSError, ValueError):
        return []


def _groups() -> list[int]:
    """The bytes that each control group of this process leaves, up to the root."""
    try:
        group_lines = OWN_GROUP.read_text().splitlines()
    except OSError:
        return []
    bytes_left = []
    for line in group_lines:  # hierarchy:controllers:path
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        is_version_two = controllers == ""  # version 2 has one hierarchy for all
        if not is_version_two and "memory" not in controllers.split(","):
            continue
        groups_root = GROUPS if is_version_two else GROUPS / "memory"
        group_path = Path(path.lstrip("/"))
        for group in (group_path, *group_path.parents):
            group_left = _left(groups_root / group, *(V2 if is_version_two else V1))
            bytes_left += [] if group_left is None else [group_left]
    return bytes_left


# names of the limit, of the bytes in use, and of the droppable ones among these
V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _left(group: Path, limit: str, used: str, cached: str) -> int | None:
    """The bytes that one control group leaves; None where it sets no limit."""
    try:
        limit_bytes, used_bytes = (
            int((group / limit).read_text()),
            int((group / used).read_text()),
        )
    except (OSError, ValueError):  # no such file, or "max"
        return None
    try:
        stat_rows = [
            stat_row.split()
            for stat_row in (group / "memory.stat").read_text().splitlines()
        ]
        used_bytes -= sum(
            int(stat_row[1]) for stat_row in stat_rows if stat_row[0] == cached
        )
    except (OSError, ValueError, IndexError):
        pass
    return max(0, limit_bytes - used_bytes)


def _process() -> list[int]:
    try:
        import resource

        limit_bytes = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit_bytes in (resource.RLIM_INFINITY, -1):
            return []
        num_pages = int(Path("/proc/self/statm").read_text().split()[0])
        return [max(0, limit_bytes - num_pages * os.sysconf("SC_PAGE_SIZE"))]
    except (ImportError, OSError, ValueError, IndexError):
        return []


def size_of(value: Any) -> int:
    """The bytes of a state as a Python object, its parts included."""
    num_bytes, waiting_members, seen_ids = 0, [value], set[int]()
    while waiting_members:
        member = waiting_members.pop()
        if id(member) in seen_ids:
            continue
        seen_ids.add(id(member))
        num_bytes += sys.getsizeof(member)
        if isinstance(member, tuple | list | set | frozenset):
            waiting_members += member
        elif isinstance(member, dict):
            waiting_members += [*member.keys(), *member.values()]
        elif isinstance(getattr(member, "__dict__", None), dict) and not callable(
            member
        ):
            waiting_members.append(member.__dict__)
    return num_bytes


USUAL_ROW = 16  # outcomes of a pair, for a half-width that can be reached


def model_floor(facts: Facts) -> float:
    """Return a half-width that can be reached in spite of rounding, with usual rows.

    A backup widens an interval by the allowances of a mean and of F on either side,
    and a sweep that moves a bound by less than one unit does not move it: twice
    their sum over all steps is certainly reached. Nothing is known at discount 1
    without a horizon.
    """
    if facts.steps(facts.horizon) == math.inf:
        return 0.0
    scale = largest_value(facts)
    mean_rounding = (USUAL_ROW + 4.0) * UNIT * scale
    backup_rounding = value_rounding(
        facts.num_actions, scale, float(facts.operator.strength)
    )
    return 2.0 * facts.steps(facts.horizon) * (mean_rounding + backup_rounding)


DEFAULT_BUDGET = 10**9
LARGEST = sys.float_info.max
HAND_SECONDS = 0.4  # for the answer, after Ctrl-C

Target = Literal["q_values", "value"]


@dataclass(frozen=True)
class QueryLimits:
    """When a query ends."""

    epsilon: float | None
    goal: float | None  # epsilon, or the half-width of double precision if larger
    # equal numbers of samples for epsilon; None where nothing is estimated
    equal: EqualSamples | None
    budget: int
    callback: Callback | None
    target: Target
    # the share of |V| that half-widths may have, in place of epsilon
    relative: float | None = None
    floor: float = 0.0  # the half-width that double precision can reach
    phases: Phases = field(default_factory=lambda: Phases(None))
    control: Control = field(default_factory=Control)

    @property
    def seconds(self) -> float | None:
        """The time limit."""
        return self.control.limits.seconds

    def in_run(self, hold: StopRequest, budget: int) -> QueryLimits:
        """The same limits in a stoppable run, which reports its phases.

        ``budget`` is what inspections of the step leave of the calls.
        """
        phases = Phases(self.callback, hold)
        control = Control(self.control.limits, hold, phases)
        return replace(self, phases=phases, control=control, budget=budget)

    def closing_limits(self) -> QueryLimits:
        """The limits of the work after a stop, which only the answer needs."""
        seconds = self.control.clock.left()
        if self.control.hold.came:
            seconds = min(seconds, HAND_SECONDS)
        limits = Limits(seconds=None if seconds == math.inf else seconds)
        return replace(self, phases=Phases(None), control=Control(limits))

    def goal_at(self, interval: tuple[float, float]) -> float | None:
        """The half-width that ends the query where V is known to lie in ``interval``.

        A share of |V| is a share of the smallest |v| in there: all that is known of
        |V| from below. None where there is no goal (yet).
        """
        if self.relative is None:
            return self.goal
        smallest_value = nearest_to_zero(interval)
        goal = max(self.relative * smallest_value, self.floor)
        is_narrow = 0.5 * (interval[1] - interval[0]) <= goal
        return goal if smallest_value > 0.0 or is_narrow else None

    def promised_width(self, interval: tuple[float, float]) -> float | None:
        """How far from V the answer may be where V is known to lie in ``interval``."""
        if self.relative is not None:
            return self.relative * nearest_to_zero(interval)
        return self.epsilon

    def is_reached(self, half_width: float, interval: tuple[float, float]) -> bool:
        """Whether the promise itself is kept, whatever double precision can reach."""
        promised_width = self.promised_width(interval)
        return promised_width is not None and half_width <= promised_width


def make_limits(
    epsilon: float | None,
    budget: float | None,
    seconds: float | None,
    callback: Callback | None,
    target: str,
    relative: float | None = None,
) -> QueryLimits:
    """The limits of a query that begins now, where outcomes are exact."""
    if epsilon is not None and relative is not None:
        raise InvalidInput("Give epsilon or relative, one of the two.")
    accuracy_arguments = {"epsilon": epsilon, "relative": relative}
    for name, value in (
        accuracy_arguments | {"budget": budget, "seconds": seconds}
    ).items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and (not is_number or not 0.0 < value <= LARGEST):
            is_text = isinstance(value, str) and name == "epsilon"
            hint = "; percentages are for plan" if is_text else ""
            raise InvalidInput(
                f"{name} must be a finite number above 0, got {value!r:.60}{hint}."
            )
    # a bar ends nothing
    stop_callback = None if isinstance(callback, AbstractContextManager) else callback
    if all(x is None for x in (epsilon, relative, budget, seconds, stop_callback)):
        raise InvalidInput(
            "Certified search has to know when to stop: give epsilon, relative, "
            "budget, seconds, or a progress function that returns False."
        )
    if target not in ("q_values", "value"):
        raise InvalidInput(f"target must be 'q_values' or 'value', got {target!r}.")
    return QueryLimits(
        epsilon=epsilon,
        goal=epsilon,
        equal=None,
        budget=DEFAULT_BUDGET if budget is None else int(budget),
        callback=callback,
        target=target,  # type: ignore[arg-type]
        relative=relative,
        control=Control(Limits(seconds=seconds)),
    )


def limits_for_rows(limits: QueryLimits, facts: Facts) -> QueryLimits:
    """Return the limits where rows of a known model are read.

    The goal is never below the half-width that rounding allows.
    """
    if limits.epsilon is None:
        return limits
    return replace(limits, goal=max(limits.epsilon, model_floor(facts)))


def is_priced(problem: Problem) -> bool:
    """Whether a number of calls is known before that certainly suffices."""
    return not is_undiscounted(problem) and problem.min_probability is None


def limits_for_samples(limits: QueryLimits, shares: DeltaShares) -> QueryLimits:
    """Return the limits where outcomes are estimated from samples.

    The goal is never below the half-width that rounding allows. The price has a bound
    if one is known before.
    """
    problem, facts = shares.problem, shares.problem.facts
    if is_undiscounted(problem):
        return limits
    limits = replace(limits, floor=shares.bound.floor(facts))
    if limits.epsilon is None:
        return limits
    goal = max(limits.epsilon, limits.floor)
    equal_samples = None
    if is_priced(problem):
        pair_delta = delta_in_order(problem, shares.delta)
        equal_samples = EqualSamples(shares.bound, facts, limits.epsilon, pair_delta)
    return replace(limits, goal=goal, equal=equal_samples)
