"""The machines that play paths with a learned value W, and the choice among them.

  compiled    all in machine code: a compiled step, W and policy
  mixed       the driver in Python over a compiled step, with W or the policy in Python
  reference   all in Python: any step, any state

All play the paths of ``path_kernel`` and give the same bits. A path is known by its
number: machines of other threads (``twin``) play other numbers of the same run.
"""

from __future__ import annotations

from typing import Any, Protocol

from smoothcruiser.duality.machines.gap_rules import GapRule
from smoothcruiser.duality.machines.path_tasks import LOOKAHEAD as LOOKAHEAD
from smoothcruiser.duality.machines.path_tasks import Floats as Floats
from smoothcruiser.duality.machines.path_tasks import PathCritic as PathCritic
from smoothcruiser.duality.machines.path_tasks import PathTask as PathTask
from smoothcruiser.duality.machines.path_tasks import Walk as Walk
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.problem.problem import Problem
from smoothcruiser.run_control.stop_requests import StopRequest


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
        """The samples of paths first, first + 1, ...: one row each (``gap_rules``).

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
        from smoothcruiser.duality.machines.compiled_machine import compile_machine

        return compile_machine(task)
    from smoothcruiser.duality.machines.plain_machine import ReferenceMachine

    return ReferenceMachine(task)
