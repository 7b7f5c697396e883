"""What all machines of paths with a learned value share: the task, W, faults.

The machines themselves are in ``path_machines``, which chooses among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.duality.machines import path_kernel
from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation.evaluate import rollout_setting
from smoothcruiser.evaluation.path_rules import LONGEST
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import bad_player
from smoothcruiser.run_control.stop_requests import StopRequest
from smoothcruiser.tree.search_numbers import Setting

Floats = NDArray[np.float64]
# (state, the action that led here or None) -> probabilities of all K actions, or None
# for the blind policy; one for each walk
Walk = Callable[[Any, int | None], Any]
LOOKAHEAD = "lookahead"  # the policy that is greedy on W, by inner samples of its own


class PathCritic(Protocol):
    """W, as machines use it."""

    def values(self, states: Sequence[Any], steps_left: int | None) -> Any:
        """W of some states, one number each."""

    def compiled_parts(self, state_type: Any) -> tuple[Any, Any] | None:
        """A compiled ``value(data, steps_left, state)`` and its data; None: Python only.

        ``steps_left`` is -1 without a horizon.
        """


@dataclass(frozen=True)
class PathTask:
    """The data that all machines of one run share."""

    problem: Problem
    state: Any  # where paths start; no end
    critic: PathCritic
    policy: Any  # an array (S, K), a function that starts a Walk, LOOKAHEAD or None
    seed: int
    steps_left: int  # at the state; -1 without a horizon
    hold: StopRequest = field(default_factory=StopRequest)
    # a test may give streams other words (``plain_machine``)
    position_words: Callable[..., tuple[int, ...]] | None = None

    @property
    def setting(self) -> Setting:
        """The problem in numbers."""
        steps = self.steps_left
        return rollout_setting(self.problem, LONGEST if steps < 0 else steps)

    @property
    def policy_kind(self) -> int:
        """How ``path_kernel`` knows the policy."""
        if self.policy is None:
            return path_kernel.NO_POLICY
        if self.start_walk is not None:
            return path_kernel.PYTHON_POLICY
        is_table = isinstance(self.policy, np.ndarray)
        return path_kernel.TABLE_POLICY if is_table else path_kernel.GREEDY_POLICY

    @property
    def start_walk(self) -> Callable[[], Walk] | None:
        """The policy where it is Python's."""
        is_walk = callable(self.policy) and not isinstance(self.policy, np.ndarray)
        return self.policy if is_walk else None


def fault_error(task: PathTask, status: int, fault: PathFault) -> Exception:
    """The error that a kernel could only report by a number."""
    from smoothcruiser.tree.kernels import kernel
    from smoothcruiser.tree.kernels.array_tree import complain

    if status == path_kernel.BAD_VALUE:
        return InvalidInput(
            "W must be a finite number in every state that is no end, got "
            f"{fault.number!r} at state {fault.next_state!r:.80}; fix value= there."
        )
    if status == path_kernel.BAD_STATE:
        return InvalidInput(
            "States have to be recognized when they come back, but state "
            f"{fault.next_state!r:.80} is not equal to itself: it holds NaN."
        )
    if status == kernel.BAD_PLAYER:
        return bad_player(fault.state, "another number")
    try:
        complain(
            task.problem, task.setting, status, fault.state, fault.action, fault.number
        )
    except Exception as error:
        return error
    raise AssertionError(status)


@dataclass(frozen=True)
class PathFault:
    """Where a path failed."""

    state: Any
    action: int
    number: float  # the reward, or W
    next_state: Any = None
