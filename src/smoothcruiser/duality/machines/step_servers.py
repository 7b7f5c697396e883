"""The server of a problem and of a W in machine code (``calls_kernel.serve``).

Tables with W in a table share one, which comes from the disk. For a user's step, W or
key it is compiled once per process.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.duality.machines import calls_kernel, path_kernel
from smoothcruiser.duality.machines.path_tasks import PathCritic, PathTask
from smoothcruiser.errors import InvalidInput
from smoothcruiser.jit.build import compile_function, is_compiled
from smoothcruiser.jit.oracle import first_line, next_state_type, oracle_parts
from smoothcruiser.problem.problem import Game
from smoothcruiser.states.codec import NEGATIVE_ZERO, StateCodec, codec_of, hashing

_servers: dict[Any, Any] = {}


class Server(NamedTuple):
    """A server with its data."""

    function: Any  # a Numba dispatcher
    address: int  # of its machine code
    codec: StateCodec | None  # None: states are numbers
    data: Any  # arrays that the server reads
    owned: Any  # alive as long as the server

    @property
    def size(self) -> int:
        """The words of a state."""
        return 1 if self.codec is None else self.codec.size

    def words_of(self, state: Any) -> Any:
        """A state in memory."""
        if self.codec is None:
            return np.array([int(state)], np.int64)
        return np.ascontiguousarray(self.codec.encode([state])[0])

    def state_of(self, states: Any, row: int) -> Any:
        """The state in a row."""
        return self.states_of(states[row : row + 1])[0]

    def states_of(self, rows: Any) -> list[Any]:
        """The states in rows."""
        if self.codec is None:
            return rows[:, 0].tolist()  # type: ignore[no-any-return]
        return self.codec.decode(rows)

    def request(
        self, setting: Any, batch: Any, paper: Any, rng: int, stop: int
    ) -> Any:
        """The words of a request that Python writes."""
        words = np.zeros(calls_kernel.REQUEST_WORDS, np.int64)
        words[:2] = setting.num_actions, setting.fewest
        words[2:4].view(np.float64)[:] = setting.low, setting.high
        words[4:6] = setting.varies, setting.ends
        arrays = (*batch, paper.meta, paper.fault)
        words[calls_kernel.REWARDS : calls_kernel.RNG] = [
            a.ctypes.data for a in arrays
        ]
        words[calls_kernel.RNG], words[calls_kernel.STOP] = rng, stop
        words[calls_kernel.DATA] = self.data[0].ctypes.data
        words[calls_kernel.CRITIC_DATA] = self.data[1].ctypes.data
        return words


def build_server(task: PathTask, critic: PathCritic) -> Server:
    """The server for a problem and a W."""
    kind = state_type(task)
    worth, worth_data = critic.compiled_parts(kind) or (None, ())
    problem = task.problem
    is_tabular = problem.tables is not None
    own_key = problem.key if is_compiled(problem.key) else None
    codec = None if is_tabular else codec_of(kind, task.state)
    in_table = worth is path_kernel.table_value and is_tabular
    owned: list[Any] = [worth_data, problem.tables]
    if in_table or (worth is None and is_tabular):
        table = np.ascontiguousarray(worth_data if in_table else [[0.0]], np.float64)
        values = np.array([table.ctypes.data, *table.shape], np.int64)
        owned.append(table)
        value_type: Any = None
    else:
        values, value_type = write_data(worth_data, owned)
    data = np.array(
        [0] if problem.tables is None else problem.tables.sampling, np.int64
    )
    server_key = (
        problem.oracle if not is_tabular else None,
        problem.legal if not is_tabular else None,
        _terminal(task),
        problem.player if isinstance(problem, Game) and not is_tabular else None,
        own_key,
        kind,
        codec,
        worth,
        value_type,
        is_tabular,
    )
    if server_key not in _servers:
        try:
            parts = _parts(task, kind, codec, own_key, worth, value_type)
            _servers[server_key] = (*_compile(parts), parts)
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(
                f"The oracle could not be compiled into paths: {first_line(error)} "
                "Check that step, legal, terminal, player, key and value take the states "
                "that step returns, or use executor='reference'."
            ) from error
    function, address, _ = _servers[server_key]
    return Server(function, address, codec, (data, values), owned)


def _terminal(task: PathTask) -> Any:
    problem = task.problem
    is_own = problem.tables is None and callable(problem.terminal)
    return problem.terminal if is_own else None


def _parts(
    task: PathTask, kind: Any, codec: Any, own_key: Any, worth: Any, value_type: Any
) -> dict[str, Any]:
    """The functions of a problem and of W by their names in the server."""
    from smoothcruiser.jit.memory import value_at

    problem, parts = task.problem, dict[str, Any]()
    if codec is None:
        parts |= {
            "LOAD": compile_function(calls_kernel.load_number),
            "STORE": compile_function(calls_kernel.store_number),
        }
    else:
        player = problem.player if isinstance(problem, Game) else None
        parts = oracle_parts(
            problem.oracle, problem.legal, _terminal(task), player, kind
        )
        del parts["LEAF"]
        parts |= _row_parts(codec) | hashing(kind)
        parts["READ_DATA"] = compile_function(calls_kernel.read_nothing)
        parts["EQUAL"] = parts["SAME"]
        if codec.is_exact:
            parts["hash_row"] = word_hash(codec.size)
    if own_key is not None:
        parts.pop("hash_row", None)
        parts |= _key_functions(own_key, kind)
    if value_type is not None:
        parts["READ_CRITIC"] = value_at(value_type)
        parts["CRITIC"] = worth if worth is not None else _no_value()
        if not is_compiled(parts["CRITIC"]):
            parts["CRITIC"] = compile_function(parts["CRITIC"])
    else:
        parts["CRITIC"] = compile_function(calls_kernel.table_worth)
    if set(parts) == {"LOAD", "STORE", "CRITIC"}:
        parts["salt"] = calls_kernel.name_parts()
    return parts


def _compile(parts: dict[str, Any]) -> tuple[Any, int]:
    """The server, and the address of its machine code."""
    from numba import types

    signature = (types.int64,) * 5
    function = compile_function(calls_kernel.serve, nogil=True, **parts)
    function.compile(signature)
    compiled = function.overloads[signature]
    address = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return function, int(address)


def write_data(worth_data: Any, owned: list[Any]) -> tuple[Any, Any]:
    """The data of a W in memory, and its Numba type."""
    from numba import typeof
    from numba.core.registry import cpu_target

    kind, context = typeof(worth_data), cpu_target.target_context
    if not _is_plain(kind):
        raise InvalidInput(
            f"The data of a compiled W are arrays and numbers, got {kind}; use tuples "
            "of these."
        )
    num_bytes = context.get_abi_sizeof(context.get_value_type(kind))
    values = np.zeros(1 + num_bytes // 8, np.int64)
    if num_bytes:
        writer = compile_function(calls_kernel.write_value)
        writer(values.ctypes.data, worth_data)
        owned.append(worth_data)
    return values, kind


def _is_plain(kind: Any) -> bool:
    """Whether machine code has a value's own memory, not a copy."""
    from numba import types

    if isinstance(kind, types.BaseTuple):
        return all(map(_is_plain, kind.types))
    return isinstance(kind, types.Array | types.Number | types.Boolean)


@lru_cache(maxsize=1)
def _no_value() -> Any:
    from numba import njit

    def no_value(data: Any, steps_left: int, state: Any) -> float:
        return 0.0

    return njit(no_value)


@lru_cache(maxsize=64)
def _row_parts(codec: StateCodec) -> dict[str, Any]:
    """A state at a row of words whose address is known."""
    from numba import njit

    row_bytes, (load, store, _) = 8 * codec.size, codec.words

    def load_row(states: int, row: int) -> Any:
        return load(states + row * row_bytes)

    def store_row(states: int, row: int, state: Any) -> None:
        store(states + row * row_bytes, state)

    return {"LOAD": njit(load_row), "STORE": njit(store_row)}


@lru_cache(maxsize=64)
def word_hash(size: int) -> Any:
    """A hash of the words of a state, where equal states have equal words.

    Hashes of Python's floats take longer than some steps. -0.0 is 0.0.
    """
    from numba import njit

    from smoothcruiser.jit.memory import int_at

    golden, shift = path_kernel.GOLDEN, path_kernel.U29

    def hash_words(data: Any, states: int, row: int) -> Any:
        bits = np.uint64(0)
        for k in range(size):
            word = int_at(states, row * size + k)
            if word != NEGATIVE_ZERO:
                bits = (bits ^ np.uint64(word)) * golden
            bits ^= bits >> shift
        return bits

    return njit(hash_words)


@lru_cache(maxsize=64)
def _key_functions(key: Any, kind: Any) -> dict[str, Any]:
    """The functions that tell states apart by their key."""
    from numba import njit

    key.compile((kind,))
    functions = hashing(key.overloads[kind,].signature.return_type)
    hash_key, same_key = functions["HASH"], functions["SAME"]

    def key_hash(state: Any) -> Any:
        return hash_key(key(state))

    def key_same(first: Any, second: Any) -> Any:
        return same_key(key(first), key(second))

    return {"HASH": njit(key_hash), "SAME": njit(key_same)}


def state_type(task: PathTask) -> Any:
    """The Numba type of the states in memory."""
    import numba

    if task.problem.tables is not None:
        return numba.int64
    return next_state_type(task.problem.oracle, numba.typeof(task.state))
