"""A block of paths on one machine, or on twins of it in threads.

A block is split into chunks by counts alone, and every chunk may make the same number
of calls, so that nothing depends on the number of workers or on who is fast. The rows
come back in the order of their paths. What ends a block early is

  a stop or the clock   the paths before the first one that is missing count, no other
  calls of a chunk      the missing paths are played again, one by one, with all calls
                        that are left: the same streams, the same numbers

A path under way when the calls, the clock or a stop end it is dropped with everything
after it: which paths count never depends on what they would be worth.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.duality.machines.gap_rules import GapRule
from smoothcruiser.duality.machines.path_machines import PathMachine
from smoothcruiser.duality.runs.path_samples import play_tables
from smoothcruiser.engines.pools.threads import Threads
from smoothcruiser.run_control.stop_requests import StopRequest

Floats = NDArray[np.float64]

PARTS = 32  # chunks of a block, about: at its end one of two workers waits for one
CHUNK_CALLS = {
    "compiled": 4_000_000,
    "reference": 20_000,
}  # about: a tenth of a second


FEWEST_SHARE = 40  # of a chunk's calls, below which a block is not split


class Chunk(NamedTuple):
    """Paths that one worker plays in one go."""

    first: int
    num_paths: int
    calls: int  # at the most
    rules: tuple[GapRule, ...]
    times: Floats


class PathCrew:
    """Machines that play the paths of a block."""

    def __init__(self, machine: PathMachine, workers: int, hold: StopRequest) -> None:
        self.hold, self.name = hold, machine.name
        num_twins = workers - 1 if runs_in_machine_code(machine) else 0
        self.machines = [machine, *(machine.twin() for _ in range(num_twins))]
        self.calls_before = sum(twin.calls for twin in self.machines[1:])
        self.idle: SimpleQueue[PathMachine] = SimpleQueue()
        for player in self.machines:
            self.idle.put(player)
        self.threads: Threads | None = None
        if num_twins:
            self.threads = Threads(len(self.machines), self.idle, self._interrupt)

    @property
    def calls(self) -> int:
        """Calls of all machines, those of dropped paths included."""
        return sum(player.calls for player in self.machines) - self.calls_before

    def set_deadline(self, deadline: float) -> None:
        """No step begins after it, in the clock of ``perf_counter``."""
        for player in self.machines:
            player.deadline = deadline

    def replace_critic(self, critic: Any) -> None:
        """Play all later paths with another W."""
        for player in self.machines:
            player.replace_critic(critic)

    def is_stopped(self) -> bool:
        """Whether the time is up or a stop by hand came."""
        is_late = time.perf_counter() >= self.machines[0].deadline
        return self.hold.came or is_late

    def play_block(
        self,
        first: int,
        count: int,
        plan: tuple[tuple[GapRule, ...], Floats],
        calls: int,
        calls_per_path: float,
        report: Callable[[], bool],
    ) -> tuple[list[Floats], bool]:
        """The tables of the paths that count, and whether the run is over.

        Args:
            first: The number of the first path.
            count: How many to play.
            plan: The rules of the passes, and their ``times``.
            calls: Calls that are left.
            calls_per_path: About; it decides how the block is split.
            report: Called now and then; True ends the run.
        """
        chunks = self._split(first, count, plan, calls, calls_per_path)
        results: dict[int, list[Floats]] = {}
        is_refused = False

        def take(chunk: Chunk, tables: list[Floats]) -> bool:
            nonlocal is_refused
            results[chunk.first] = tables
            is_refused = is_refused or report()
            is_short = len(tables[0]) < chunk.num_paths
            return is_refused or (is_short and self.is_stopped())

        calls_at_start = self.calls
        self._play_chunks(chunks, take)
        tables, is_over = [], is_refused
        for chunk in chunks:
            part = results.get(chunk.first)
            num_rows = 0 if part is None else len(part[0])
            if part is not None:
                tables.append(part)
            while num_rows < chunk.num_paths and not is_over:
                calls_left = calls - (self.calls - calls_at_start)
                is_over = self.is_stopped() or calls_left <= 0
                if is_over:
                    break
                single = chunk._replace(
                    first=chunk.first + num_rows, num_paths=1, calls=calls_left
                )
                self._play_chunks([single], take)
                row_tables = results.get(single.first, [np.empty((0, 0))])
                is_over = is_refused or len(row_tables[0]) == 0
                if len(row_tables[0]):
                    tables.append(row_tables)
                    num_rows += 1
            if num_rows < chunk.num_paths:
                is_over = True
                break
        num_passes = len(plan[0])
        joined = [
            np.concatenate([part[i] for part in tables])
            if tables
            else np.empty((0, 0))
            for i in range(num_passes)
        ]
        return joined, is_over

    def _split(
        self,
        first: int,
        count: int,
        plan: tuple[tuple[GapRule, ...], Floats],
        calls: int,
        calls_per_path: float,
    ) -> list[Chunk]:
        """Chunks of equal size, but for the last; no clock decides anything here."""
        largest = int(CHUNK_CALLS[self.name] / max(1.0, calls_per_path))
        size = max(-(-count // PARTS), largest // FEWEST_SHARE)
        size = max(1, min(largest, size))
        num_chunks = -(-count // size)
        return [
            Chunk(
                first + i * size,
                min(size, count - i * size),
                calls // num_chunks,
                *plan,
            )
            for i in range(num_chunks)
        ]

    def _play_chunks(
        self, chunks: Sequence[Chunk], take: Callable[[Chunk, list[Floats]], bool]
    ) -> None:
        """Play chunks until ``take`` is True, or a stop by hand comes."""
        try:
            if self.threads is None or len(chunks) == 1:
                for chunk in chunks:
                    if take(chunk, _play_chunk(self.idle, chunk)):
                        return
                return
            with self.hold.opened():
                self.threads.map(_play_chunk, iter(chunks), take)
        except KeyboardInterrupt:
            if not self.hold.came:
                raise

    def _interrupt(self) -> None:
        for player in self.machines:
            flag: Any = getattr(player, "stop", None)  # machine code reads it
            if flag is not None:
                flag[0] = 1

    def close(self) -> None:
        """End the threads; the first machine is its owner's."""
        if self.threads is not None:
            self.threads.close()
        for player in self.machines[1:]:
            player.close()


def runs_in_machine_code(machine: PathMachine) -> bool:
    """Whether threads help: no part of a path needs Python's lock."""
    if machine.name != "compiled":
        return False
    from smoothcruiser.duality.machines.compiled_machine import MixedMachine

    return not isinstance(machine, MixedMachine)


def _play_chunk(idle: SimpleQueue[PathMachine], chunk: Chunk) -> list[Floats]:
    """The tables of a chunk, by whichever machine is idle."""
    player = idle.get()
    try:
        return play_tables(
            player, chunk.first, chunk.num_paths, chunk.rules, chunk.times, chunk.calls
        )
    finally:
        idle.put(player)
