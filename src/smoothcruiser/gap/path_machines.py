"""The machines that play paths with a learned value W, and the choice among them.

  compiled    all in machine code: a compiled step, W and policy
  mixed       the driver in Python over a compiled step, with W or the policy in Python
  reference   all in Python: any step, any state

All play the paths of ``path_kernel`` and give the same bits. A path is known by its
number: machines of other threads (``twin``) play other numbers of the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation.evaluate import rollout_setting
from smoothcruiser.evaluation.path_rules import LONGEST
from smoothcruiser.gap import path_kernel
from smoothcruiser.gap.path_rules import GapRule
from smoothcruiser.jit.build import is_compiled
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


class PathMachine(Protocol):
    """A source of paths."""

    name: str
    deadline: float  # no step begins after it, in the clock of ``perf_counter``
    calls: int  # of the step, so far, those of dropped paths included
    notes: tuple[str, ...]
    assumed: tuple[str, ...]

    @property
    def value_spans(self) -> Floats:
        """(T, 2) The lowest and highest W seen at a time, before it is clipped."""

    @property
    def looks(self) -> int:
        """The number of checks that the step does not write into its state."""

    @property
    def doubts(self) -> str:
        """The questions that these checks could not decide."""

    def play_paths(
        self,
        first: int,
        count: int,
        rule: GapRule,
        times: Floats,
        most_calls: int,
        *,
        pilot: bool = False,
    ) -> Floats:
        """The samples of paths first, first + 1, ...: one row each (``path_rules``).

        There are fewer than ``count`` where the calls of this run of the function are
        used up, the time is up, or the run was stopped by hand. The path under way is
        then dropped, and no other follows.
        """

    def twin(self) -> PathMachine:
        """A machine for another thread: the same bits for the same paths."""

    def replace_critic(self, critic: PathCritic) -> None:
        """Play with another W from now on: between blocks of paths."""

    def close(self) -> None:
        """Release threads, where there are any."""


def build_machine(
    problem: Problem,
    state: Any,
    critic: PathCritic,
    policy: Any,
    seed: int,
    *,
    compiled: bool | None = None,
    hold: StopRequest | None = None,
    steps_left: int | None = None,
) -> PathMachine:
    """The machine for a problem, W and a policy.

    Args:
        problem: Its step; machine code where that is compiled.
        state: Where paths start. It is no end.
        critic: W.
        policy: An array (S, K) of a tabular problem, a function that starts a ``Walk``,
            LOOKAHEAD, or None for no walks. In a game it moves for the player who does
            not know the noise, and for both in walks.
        seed: The seed of all streams.
        compiled: Whether the step runs in machine code; None: where it can.
        hold: Says whether Ctrl-C was pressed.
        steps_left: At ``state``; the problem's horizon by default.
    """
    own_steps = problem.horizon if steps_left is None else steps_left
    task = PathTask(
        problem,
        state,
        critic,
        policy,
        seed,
        -1 if own_steps is None else own_steps,
        StopRequest() if hold is None else hold,
    )
    can_compile = problem.tables is not None or is_compiled(problem.oracle)
    if compiled and not can_compile:
        raise InvalidInput(
            "executor='compiled' needs a step compiled by numba.njit or a table; leave "
            "executor= out to run the step in Python."
        )
    if compiled or (compiled is None and can_compile):
        from smoothcruiser.gap.compiled_machine import compile_machine

        return compile_machine(task)
    from smoothcruiser.gap.plain_machine import ReferenceMachine

    return ReferenceMachine(task)


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
