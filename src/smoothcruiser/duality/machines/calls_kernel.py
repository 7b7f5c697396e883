"""Paths in machine code as two functions: the driver, and a problem's server.

The driver (``play_at``) is ``path_kernel`` without a problem in it: layers, merging, U
backward, walks. It calls a problem's states, steps and W by the address of one function
(``serve``). So the driver is the same for all problems, and comes ready from the disk;
only the server is compiled for a user's step. Where W or a policy is Python's, the driver
calls Python back.

All arrays go by address. Memory of states is rows of words (``states.codec``); the words
of a request are written partly by Python, once for a block of paths, and partly by the
driver.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

from smoothcruiser.duality.machines.gap_rules import GapRule
from smoothcruiser.duality.machines.path_kernel import (
    PYTHON_POLICY,
    PathGraph,
    PathNotes,
    PathWorld,
    StepBatch,
    StepSetting,
    expand_nodes,
    fill_values,
    hash_row,
    is_one_node,
    is_same,
    play_paths,
)
from smoothcruiser.engines.compiled.kernel import load
from smoothcruiser.jit.build import compile_function, source_fingerprint
from smoothcruiser.jit.primitives import (
    address_of_word,
    bit_words,
    call_back,
    float_at,
    float_words,
    int_at,
    int_words,
    invoke,
    mirrored_at,
    put_int,
    put_value,
    tabular_player,
)

# requests to a server
EXPAND, FILL, HASH_ROW, ONE_NODE, SAME_STATE, MOVER = range(6)
# questions to Python
VALUES, SHARES, BEGIN, ACTION = range(4)
# words of a request: the problem in numbers, and addresses; all written by Python
NUM_ACTIONS, FEWEST, LOW, HIGH, VARIES, ENDS = range(6)
REWARDS, FLAGS, W_VALUES, NEXT_STATES, META, FAULT, RNG, STOP = range(6, 14)
DATA, CRITIC_DATA = 14, 15
# written by the driver
STATES, FIRST, LAST, ONE_ACTION, STREAMS, STREAM_BEGIN, STREAM_END = range(16, 23)
REQUEST_WORDS = 23


# --- the server of a problem --------------------------------------------------------


def read_nothing(address: int) -> int:
    """No data: the user's functions take none."""
    return 0


def read_tables(address: int) -> Any:
    """The addresses of a tabular problem (``jit.primitives``)."""
    return (
        int_at(address, 0),
        int_at(address, 1),
        int_at(address, 2),
        int_at(address, 3),
        int_at(address, 4),
        int_at(address, 5),
        int_at(address, 6),
        int_at(address, 7),
        int_at(address, 8),
    )


def read_table_critic(address: int) -> Any:
    """The address of a table of W, its rows and its columns."""
    return int_at(address, 0), int_at(address, 1), int_at(address, 2)


def table_worth(table: Any, steps_left: int, state: int) -> float:
    """``path_kernel.table_value`` by address."""
    row = min(steps_left, table[1] - 1)
    if row < 0:  # -1 is the last row
        row += table[1]
    return float_at(table[0], row * table[2] + state)


def load_number(states: int, row: int) -> int:
    """A state that is a number."""
    return int_at(states, row)


def store_number(states: int, row: int, state: int) -> None:
    """Write a state that is a number."""
    put_int(states, row, state)


READ_DATA, READ_CRITIC = read_tables, read_table_critic
LOAD, PLAYER = load, tabular_player


def read_batch(request: Any) -> StepBatch:
    """The batch of a request."""
    return StepBatch(
        float_words(request[REWARDS]),
        int_words(request[FLAGS]),
        float_words(request[W_VALUES]),
        request[NEXT_STATES],
    )


def serve(which: int, first: int, second: int, third: int, fourth: int) -> int:
    """The answer of a problem to a request of the driver."""
    if which == EXPAND:
        request, numbers = int_words(first), float_words(first)
        setting = StepSetting(
            request[NUM_ACTIONS],
            request[FEWEST],
            numbers[LOW],
            numbers[HIGH],
            request[VARIES] != 0,
            request[ENDS] != 0,
            False,
        )
        return expand_nodes(
            setting, READ_DATA(request[DATA]), request[STATES], request[FIRST],
            request[LAST], request[ONE_ACTION], bit_words(request[STREAMS]),
            request[STREAM_BEGIN], request[STREAM_END], read_batch(request),
            mirrored_at(request[RNG]), int_words(request[META]),
            float_words(request[FAULT]), request[STOP],
        )  # fmt: skip
    if which == FILL:
        request = int_words(first)
        critic = READ_CRITIC(request[CRITIC_DATA])
        return fill_values(0, 0, critic, second, read_batch(request), third)  # type: ignore[arg-type]
    if which == HASH_ROW:
        return np.int64(hash_row(0, first, second))  # type: ignore[return-value]
    if which == ONE_NODE:
        return 1 if is_one_node(0, first, second, third, fourth) else 0
    if which == SAME_STATE:
        return 1 if is_same(0, first, second, third, fourth) else 0
    mover = PLAYER(READ_DATA(int_words(first)[DATA]), LOAD(second, third))
    return 1 if mover == 1 else 2 if mover == 2 else 0


def write_value(address: int, value: Any) -> None:
    """Write data of W where its server reads it."""
    put_value(address, value)


# --- the driver -----------------------------------------------------------------------


def call_expand(
    setting: Any, data: Any, states: int, first: int, last: int, one_action: int,
    words: Any, begin: int, end: int, batch: Any, rng: Any, meta: Any, fault: Any, stop: int,
) -> int:  # fmt: skip
    """``path_kernel.expand_nodes`` by the server."""
    request = int_words(data[1])
    request[STATES], request[FIRST], request[LAST] = states, first, last
    request[ONE_ACTION], request[STREAMS] = one_action, address_of_word(words, 0)
    request[STREAM_BEGIN], request[STREAM_END] = begin, end
    return invoke(data[0], EXPAND, data[1], 0, 0, 0)


def call_fill(
    world: PathWorld, data: Any, critic: int, steps_left: int, batch: Any, count: int
) -> int:  # fmt: skip
    """W of a batch, by the server or by Python."""
    if world.asks_values:
        return call_back(critic, VALUES, steps_left, count)
    return invoke(data[0], FILL, data[1], steps_left, count, 0)


def call_hash(data: Any, states: int, row: int) -> int:
    """The hash of a state."""
    return invoke(data[0], HASH_ROW, states, row, 0, 0)


def call_one_node(data: Any, states: int, node: int, others: int, row: int) -> bool:
    """Whether two states are one node."""
    return invoke(data[0], ONE_NODE, states, node, others, row) != 0


def call_same(data: Any, states: int, node: int, others: int, row: int) -> bool:
    """Whether two states are the same."""
    return invoke(data[0], SAME_STATE, states, node, others, row) != 0


def call_mover(setting: Any, data: Any, states: int, node: int) -> float:
    """+1 where the max player moves, -1 where the min player does, 0 otherwise."""
    if not setting.game:
        return 1.0
    mover = invoke(data[0], MOVER, data[1], states, node, 0)
    return 1.0 if mover == 1 else -1.0 if mover == 2 else 0.0


def move_words(target: int, to: int, source: int, row: int, size: int) -> None:
    """Copy a state of so many words."""
    for k in range(size):
        put_int(target, to * size + k, int_at(source, row * size + k))


def place_words(batch: Any, root: int, size: int) -> None:
    """Write the root's state into the first row of a batch."""
    for k in range(size):
        put_int(batch.states, k, int_at(root, k))


def read_row(setting: Any, policy: Any, states: int, node: int, shares: Any) -> None:
    """The row of a table policy, for states that are numbers."""
    K = setting.num_actions
    row = int_at(states, node)
    for a in range(K):
        shares[node * K + a] = policy[row * K + a]


def call_begin(world: PathWorld, critic: int, path: int, first_action: int) -> None:
    """Begin a walk in Python."""
    if world.policy == PYTHON_POLICY:
        call_back(critic, BEGIN, path, first_action)


def call_note(world: PathWorld, critic: int, action: int) -> None:
    """Tell Python's policy of its action."""
    if world.policy == PYTHON_POLICY:
        call_back(critic, ACTION, action, 0)


def call_policy(critic: int, graph: Any, node: int) -> int:
    """Ask Python's policy."""
    return call_back(critic, SHARES, node, 0)


def play_at(
    setting: StepSetting, rule: GapRule, world: PathWorld, data: Any, critic: int,
    policy: int, times: int, graph: PathGraph, batch: StepBatch, paper: PathNotes,
    root: int, first_path: int, most_calls: int, count: int, samples: int, rng: Any,
) -> int:  # fmt: skip
    """``path_kernel.play_paths`` over addresses; ``data``: of the server, a request."""
    return play_paths(
        setting, rule, world, data, critic, float_words(policy), float_words(times),
        PathGraph(
            graph.states,
            int_words(graph.children),
            float_words(graph.edges),
            float_words(graph.q),
            float_words(graph.shares),
            float_words(graph.scores),
            float_words(graph.offsets),
            float_words(graph.values),
            float_words(graph.w),
            float_words(graph.signs),
            int_words(graph.layers),
            int_words(graph.slots),
            int_words(graph.serials),
        ),
        StepBatch(
            float_words(batch.rewards),
            int_words(batch.flags),
            float_words(batch.values),
            batch.states,
        ),
        PathNotes(
            bit_words(paper.words),
            bit_words(paper.look_words),
            bit_words(paper.spot),
            bit_words(paper.first),
            int_words(paper.meta),
            float_words(paper.extremes),
            float_words(paper.spans),
            float_words(paper.fault),
            float_words(paper.weight),
            float_words(paper.x),
            float_words(paper.y),
            float_words(paper.p),
            float_words(paper.weights),
            float_words(paper.w),
            int_words(paper.ids),
            float_words(paper.walk),
        ),
        root, first_path, most_calls, count, float_words(samples), rng, 0,
    )  # fmt: skip


CALLS_BY_ADDRESS = {
    "expand_nodes": call_expand,
    "fill_values": call_fill,
    "hash_row": call_hash,
    "is_one_node": call_one_node,
    "is_same": call_same,
    "mover_sign": call_mover,
    "move_state": move_words,
    "place_root": place_words,
    "read_table": read_row,
    "begin_walk": call_begin,
    "note_action": call_note,
    "ask_policy": call_policy,
}


@cache
def name_parts() -> str:
    """The salt of the driver and of the server of tables."""
    return f"paths_{source_fingerprint(play_at)}_{version('numba')}"


def build_driver(operator_parts: dict[str, Any]) -> Any:
    """The driver; ready on the disk where the operator is a built-in one."""
    parts = {
        name: compile_function(function) for name, function in CALLS_BY_ADDRESS.items()
    }
    salt = None if operator_parts else name_parts()
    return compile_function(play_at, nogil=True, salt=salt, **parts, **operator_parts)
