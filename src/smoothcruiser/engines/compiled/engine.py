"""Executor ``compiled``: Numba over the schedule table, for tabular problems
and for users' ``numba.njit`` oracles.

Tabular problems share one machine with their tables as arguments, cached on
disk. A user's oracle is compiled into its own machine (a few seconds, reported
apart as ``compile_seconds``). Kernels release the GIL, so shards run in a pool
of threads; errors inside a kernel come back as a code, and the shard is
replayed in ``reference`` to name the state and action at fault.
"""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np

from smoothcruiser.engines.compiled import kernel
from smoothcruiser.engines.reference import ReferenceEngine
from smoothcruiser.engines.shards import Partial, Shard
from smoothcruiser.errors import (
    Interrupted,
    InvalidInput,
    OracleError,
    SmoothcruiserError,
)
from smoothcruiser.jit import streams
from smoothcruiser.jit.build import compiled
from smoothcruiser.jit.streams import STREAM, Stream, from_words, missing_method, stream
from smoothcruiser.operators import Operator
from smoothcruiser.operators.parts import parts_of
from smoothcruiser.problem.problem import Game, Problem
from smoothcruiser.problem.states import Guard, is_fixed
from smoothcruiser.schedule.schedule import Schedule

# about half a second in plain Python; a single root draw that costs more is
# replayed whole
REPLAYED_CALLS = 20_000

RAISED = -1  # beside the kernel's own endings

_machines: dict[Any, Any] = {}


class CompiledEngine:
    """Runs shards of one (problem, schedule, state) as machine code."""

    name = "compiled"
    looks = 0  # machine code is not looked at while it runs

    def __init__(
        self, problem: Problem, schedule: Schedule, state: Any, *, center: float = 0.0
    ) -> None:
        if not problem.is_compiled:
            raise InvalidInput(
                "The compiled executor needs a tabular problem, or step, legal, "
                "terminal and player that are numba.njit functions; "
                "decorate them, or use executor='reference'."
            )
        self.problem, self.schedule, self.center = problem, schedule, center
        self.flag = np.zeros(1, np.int64)
        self._replaying: list[ReferenceEngine] = []
        begin = time.perf_counter()
        self.machine, self.data, self.state, state_words = _machine(problem, state)
        self.plan, self.columns = plan_of(problem, schedule, state_words)
        self.room = kernel.scratch_words(
            problem.num_actions, state_words, schedule.depth
        )
        self.python_state = state
        self._warm_up()
        self.compile_seconds = time.perf_counter() - begin

    def _warm_up(self) -> None:
        """Compile (or load) the machine: a shard of no draws makes no oracle call."""
        try:
            self._draws(0, 0, stream(0))
        except SmoothcruiserError:
            raise
        except Exception as error:
            raise InvalidInput(
                "The oracle could not be compiled into the engine: "
                f"{_first_line(error)} Check that step, legal, terminal and player "
                "take the states that step returns, or use executor='reference'."
            ) from error

    def stop(self) -> None:
        """Ask running shards to end."""
        self.flag[0] = 1
        for reference in self._replaying:
            reference.stop()

    def _draws(
        self, action: int, count: int, rng: Stream
    ) -> tuple[int, int, float, float]:
        """What the machine returns for ``count`` root draws: how it ended,
        calls, sum, sum of squares.
        """
        # one a call: several threads run this engine at once
        scratch = np.empty(self.room, np.int64)
        if self.schedule.root.target == "value":
            action = -1
        result: tuple[int, int, float, float] = self.machine(
            self.plan,
            self.data,
            self.state,
            action,
            count,
            self.center,
            rng,
            self.flag.ctypes.data,
            scratch.ctypes.data,
        )
        return result

    def run_shard(self, shard: Shard, seed: int) -> Partial:
        """The sums of one shard."""
        try:
            status, calls, total, square = self._draws(
                shard.action, shard.count, stream(seed, shard.action, shard.index)
            )
        except Exception as error:
            self._replay(shard, seed)
            raise OracleError(
                f"The oracle raised {type(error).__name__}: {error}; mend the "
                "simulator."
            ) from error
        if status == kernel.STOPPED:
            raise Interrupted(
                "The run was stopped before this shard was finished.", calls=calls
            )
        if status != kernel.DONE:
            self._replay(shard, seed)
            raise OracleError(
                "The oracle returned something it must not, and did not do so "
                "again when replayed; is it deterministic?"
            )
        return Partial(shard.count, total, square, calls)

    def _replay(self, shard: Shard, seed: int) -> None:
        """Raise with the state and action at fault: find the failed draws at
        full speed, run only those in plain Python.
        """
        reference = ReferenceEngine(
            self.problem, self.schedule, self.python_state, center=self.center
        )
        reference.guard = Guard(always=True)
        rng = stream(seed, shard.action, shard.index)
        block = max(
            1,
            REPLAYED_CALLS // (1 + self.schedule.level_calls[self.schedule.root.child]),
        )
        for first in range(0, shard.count, block):
            count = min(block, shard.count - first)
            before = from_words(rng.words)
            try:
                status = self._draws(shard.action, count, rng)[0]
            except Exception:
                status = RAISED
            if status == kernel.STOPPED:
                raise Interrupted("The run was stopped before this shard was finished.")
            if status != kernel.DONE:
                self._replaying.append(reference)
                if self.flag[0] != 0:
                    reference.stop()
                reference.run_draws(shard.action, count, before)
                return


COLUMNS: dict[str, Any] = {
    "kind": np.int64,
    "samples": np.int64,
    "query": np.int64,
    "continuation": np.int64,
    "constant": np.float64,
    "shift": np.float64,
}


def plan_of(
    problem: Problem, schedule: Schedule, state_words: int
) -> tuple[kernel.Plan, dict[str, Any]]:
    """The schedule's table and the facts it needs in the machine's form, and
    the arrays that its addresses point to.
    """
    facts, operator = schedule.facts, problem.operator
    K = facts.num_actions
    clip = schedule.clip or (0.0, 0.0)
    columns = {
        name: np.array([getattr(level, name) for level in schedule.levels], dtype=kind)
        for name, kind in COLUMNS.items()
    }
    columns["center"] = np.array(schedule.centers, dtype=np.float64)
    columns["weights"] = np.array(operator.weights(K), dtype=np.float64)
    columns["blind_head"] = np.array(
        [0.0] + [operator.value([0.0] * k, weights=[1.0] * k) for k in range(1, K + 1)]
    )
    plan = kernel.Plan(
        **{name: int(column.ctypes.data) for name, column in columns.items()},
        num_actions=K,
        fewest=facts.min_actions,
        root_row=schedule.root.child,
        state_words=state_words,
        discount=facts.discount,
        low=facts.reward_range[0],
        high=facts.reward_range[1],
        clips=schedule.clip is not None,
        clip_low=clip[0],
        clip_high=clip[1],
        operator=operator.code,
        weighted=operator.weighted,
        uniform_at_zero=operator.uniform_at_zero,
        temperature=operator.strength,
        unit=operator.shift_invariant,
        varies=problem.legal is not None,
        ends=facts.terminals,
        game=problem.is_game,
    )
    return plan, columns


def _machine(problem: Problem, state: Any) -> tuple[Any, Any, Any, int]:
    """(machine, its data argument, the root state in its form, its words); one
    machine for all tabular problems, one a user oracle.
    """
    parts = _operator_parts(problem.operator)
    if problem.tables is not None:
        return (
            compiled(kernel.run_shard, nogil=True, **parts),
            problem.tables.sampling,
            int(state),
            1,
        )
    import numba

    kind = state_type(state)
    player = problem.player if isinstance(problem, Game) else None
    terminal = problem.terminal if callable(problem.terminal) else None
    shape = np.shape(state) if isinstance(kind, numba.types.Array) else None
    own = tuple(parts.values())
    key = (problem.oracle, problem.legal, terminal, player, own, kind, shape)
    if key not in _machines:
        from smoothcruiser.jit.state_words import words

        form = words(next_state_type(problem.oracle, kind), state)
        parts |= _oracle_parts(
            problem.oracle, problem.legal, terminal, player, kind, state
        )
        parts |= {
            "FRAGILE": not is_fixed(state),
            "LOAD": form.load,
            "STORE": form.store,
            "KEEP": form.keep,
        }
        _machines[key] = compiled(kernel.run_shard, nogil=True, **parts), form.size
    machine, size = _machines[key]
    return machine, (), state, size


def _oracle_parts(
    oracle: Any, legal: Any, terminal: Any, player: Any, kind: Any, state: Any
) -> dict[str, Any]:
    """The user's functions in the engine's form: the data argument first, steps
    with an end flag, states stored by type.
    """
    import numba
    from numba import njit

    from smoothcruiser.jit.state_columns import storage

    returned = _returned_type(oracle, (kind, numba.types.int64, STREAM))
    after = returned[1]
    store = storage(after, state)
    if len(returned) == 2:

        @njit(inline="always")
        def step(data: Any, state: Any, action: Any, rng: Any) -> Any:
            reward, after = oracle(state, action, rng)
            return float(reward), after, False

    else:

        @njit(inline="always")
        def step(data: Any, state: Any, action: Any, rng: Any) -> Any:
            reward, after, over = oracle(state, action, rng)
            return float(reward), after, bool(over)

    legal_function = legal if legal is not None else _always_legal()
    terminal_function = terminal if terminal is not None else _never_terminal()
    player_function = player if player is not None else _always_max()

    @njit(inline="always")
    def allowed(data: Any, state: Any, action: Any) -> Any:
        return legal_function(state, action)

    @njit(inline="always")
    def over(data: Any, state: Any) -> Any:
        return terminal_function(state)

    @njit(inline="always")
    def mover(data: Any, state: Any) -> Any:
        return player_function(state)

    return {
        "STEP": step,
        "LEGAL": allowed,
        "TERMINAL": over,
        "PLAYER": mover,
        "ALLOCATE": store.allocate,
        "LOAD": store.load,
        "STORE": store.store,
        "KEEP": store.keep,
    }


def state_type(state: Any) -> Any:
    """The Numba type of a state."""
    import numba

    try:
        return numba.typeof(state)
    except ValueError as error:
        raise InvalidInput(
            "Compiled oracles take states of numbers, tuples, NamedTuples and arrays "
            f"of fixed shape, got {type(state).__name__}; "
            "use one of these, or drop numba.njit from the step to run it in plain "
            "Python."
        ) from error


def next_state_type(oracle: Any, kind: Any) -> Any:
    """The Numba type of the states that the step returns for states of type
    ``kind``.
    """
    import numba

    return _returned_type(oracle, (kind, numba.types.int64, STREAM))[1]


def _returned_type(oracle: Any, signature: tuple[Any, ...]) -> Any:
    """The Numba types that the step returns for a state of the given type,
    found by compiling it, without calling it.
    """
    try:
        oracle.compile(signature)
        returned = oracle.overloads[signature].signature.return_type
        if len(returned) in (2, 3):
            return returned
    except Exception as error:
        kind, why = signature[0], _first_line(error)
        told = (
            "step(state, action, rng) could not be compiled for a state of type "
            f"{kind}: {why}"
        )
        if _about_rng(error) is None:  # what is said of rng names its own remedy
            told += " Check the state that was asked for, "
            told += "or drop numba.njit to run the step in plain Python."
        raise InvalidInput(told) from error
    raise InvalidInput(
        "step must return (reward, next_state) or (reward, next_state, "
        f"terminated), but it returns {returned}."
    )


def _operator_parts(operator: Operator) -> dict[str, Any]:
    own = parts_of(operator)
    if own is None:
        return {}
    if not own.compiled:
        raise InvalidInput(
            "The compiled executor needs the custom operator's value and gradient "
            "as numba.njit functions; decorate them, or use executor='reference'."
        )
    return {"VALUE": own.value, "BOTH": own.both}


def _constant(result: Any) -> Any:
    from numba import njit

    @njit
    def constant(*_arguments: Any) -> Any:
        return result

    return constant


def _always_legal() -> Any:
    return _machines.setdefault("legal", _constant(True))


def _never_terminal() -> Any:
    return _machines.setdefault("terminal", _constant(False))


def _always_max() -> Any:
    return _machines.setdefault("player", _constant(1))


def _about_rng(error: Exception) -> str | None:
    """What a compile error says about the use of ``rng``, if that is what is wrong."""
    text = str(error)
    if missing := re.search(r"Unknown attribute '(\w+)' of type Stream", text):
        return missing_method(missing[1])
    if own := re.search(r"TypingError: (rng\..*)", text):
        return own[1]
    if wrong := re.search(r">>> _(\w+)_method\(Stream(?:, )?(.*)\)", text):
        return (
            f"rng.{wrong[1]} does not take the arguments ({wrong[2]}); rng has "
            f"{streams.METHODS}"
        )
    return None


def _first_line(error: Exception) -> str:
    about = _about_rng(error)
    if about is not None:
        return about.rstrip(".") + "."
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    useful = [
        line
        for line in lines
        if "Failed in nopython" not in line and "During:" not in line
    ]
    return (useful or lines or [type(error).__name__])[0].rstrip(".") + "."
