"""Shards: contiguous ranges of root samples that depend on the schedule alone.

A shard is worth about a million oracle calls, there are at most 4,096 of them,
and none crosses a checkpoint. Its stream is ``SeedSequence(seed,
spawn_key=(action, shard))``, and its partial sums are combined in shard order.
So the result is the same to the last bit for any number of workers, any order
of completion and any resume.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from smoothcruiser.engines.root_scores import Sums
from smoothcruiser.errors import InvalidInput

if TYPE_CHECKING:
    from smoothcruiser.schedule.schedule import Schedule

# 0.01 to 0.1 s compiled: often enough for progress and stops, and so rare that
# a hand-over costs nothing.
CALLS_PER_SHARD = 1_000_000
MOST_SHARDS = 4096


class Partial(NamedTuple):
    """The sums over a shard's root samples: all that it leaves behind."""

    draws: int
    total: float
    square: float  # of the distance to the middle of the root's range
    calls: int
    score: Sums = ()  # the sums that the root's bound needs (``engines.root_scores``)


class Piece(NamedTuple):
    """The first samples of a shard, or all of them, and where its stream is then."""

    shard: Shard
    # of the samples that were completed; its calls are also those of one that was not
    part: Partial
    words: tuple[int, ...] = ()  # of the stream; none where it is not taken up again

    @property
    def whole(self) -> bool:
        """Whether these are all of the shard's samples."""
        return self.part.draws == self.shard.count


@dataclass(frozen=True)
class Shard:
    """Root samples ``first`` to ``first + count`` (exclusive) of one action.

    The action is 0 where only the value is requested.
    """

    action: int
    index: int
    first: int
    count: int


def cut_shards(
    schedule: Schedule, *, shards: int | None = None
) -> tuple[tuple[Shard, ...], ...]:
    """The shards of one action, for each segment between checkpoints.

    Every action is cut in the same way. ``shards`` overrides how many an action
    gets (for slow simulators); it changes the streams, so a run records it.
    """
    root = schedule.root
    num_actions = schedule.facts.num_actions if root.target == "q_values" else 1
    calls_per_sample = schedule.level_calls[root.child] + (
        1 if root.target == "q_values" else 0
    )
    if shards is not None and shards < 1:
        raise InvalidInput(
            f"shards must be a whole number of at least 1, got {shards!r}."
        )
    max_shards = max(1, MOST_SHARDS // num_actions - len(root.looks))
    wanted_shards = (
        -(-root.samples * max(calls_per_sample, 1) // CALLS_PER_SHARD)
        if shards is None
        else shards
    )
    shard_size = max(1, -(-root.samples // max(1, min(max_shards, wanted_shards))))
    segments: list[tuple[Shard, ...]] = []
    index, first_sample = 0, 0
    for segment_end in (*root.looks, root.samples):
        segment_shards: list[Shard] = []
        while first_sample < segment_end:
            num_samples = min(shard_size, segment_end - first_sample)
            segment_shards.append(Shard(0, index, first_sample, num_samples))
            index, first_sample = index + 1, first_sample + num_samples
        segments.append(tuple(segment_shards))
    return tuple(segments)
