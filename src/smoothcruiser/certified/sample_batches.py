"""Batches of samples on their way into the memory, which can wait.

A round is a list of jobs, (pair, number of samples). Its samples are taken in
batches of at most ``CHUNK``, and a batch is entered in the memory in parts of
``PART`` samples: the new states of a part get their nodes together, so where batches
and parts are cut is part of the result. How arrays grow is not. A batch may be
sampled in slices of any size, because every pair has a stream of its own. So the
clock may decide where a slice ends, and a snapshot between two slices loses nothing.

How many samples a slice has, its duration decides (``SlicePace``): the clock may, since
it changes no bit.

A memory that is full (``MemoryFull``) leaves samples in their batch. They are never
dropped because of their outcomes: the entered samples of a pair are always the
beginning of its stream, and a bound that holds for all n holds there
(docs/certified.md, section 9).

Entering also compares samples with declarations. ``min_probability=p`` says that no
outcome of a step is less likely than p. Bounds rely on it as soon as the outcomes of a
pair are complete (docs/certified.md, section 2b). It is seen to be false where a pair has
more than 1/p outcomes, where a further one turns up after they were complete, or where an
outcome is so rare that its probability is below p on the event behind the bounds. Each of
these is an error; the event itself fails with probability at most delta.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcruiser.certified.graph import END, END_RAW
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.sweeps.compiled_loops import Loops
from smoothcruiser.errors import OracleError
from smoothcruiser.jit.random import SALT, Key
from smoothcruiser.problem.facts import AT_THE_END
from smoothcruiser.problem.model.tabular import Floats, Ints
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import at_pair

if TYPE_CHECKING:
    from smoothcruiser.certified.sampling.sampler import Sampler


CHUNK = 1 << 20  # samples held in buffers at a time: 16 MB
PART = 1 << 13  # samples entered at a time: at most so many new states, some 0.1 s


Jobs = tuple[Ints, Ints]  # pairs, and the samples of each


@dataclass
class Batch:
    """Samples on their way into the memory, job after job."""

    pairs: Ints  # (J,)
    counts: Ints  # (J,): samples of each
    raws: Ints = field(init=False)  # (size,): next states as whole numbers
    rewards: Floats = field(init=False)  # (size,)
    drawn: int = 0  # samples that are there
    entered: int = 0  # samples that are in the memory
    watched: bool = False  # whether the job that was begun is compared at its end

    def __post_init__(self) -> None:
        self.ends: Ints = np.cumsum(self.counts)
        self.raws = np.empty(self.size, dtype=np.int64)
        self.rewards = np.empty(self.size)

    @property
    def size(self) -> int:
        """The number of samples when it is whole."""
        return int(self.ends[-1])

    def next_samples(self, max_samples: int) -> tuple[int, Ints]:
        """Return the first job that is not done, and the samples to take next.

        There are at most ``max_samples`` of them, as counts of that job and of those
        that follow.
        """
        first_job = int(np.searchsorted(self.ends, self.drawn, side="right"))
        stop_sample = min(self.size, self.drawn + max_samples)
        return first_job, self.jobs_between(self.drawn, stop_sample)[1]

    def jobs_between(self, first_sample: int, end_sample: int) -> Jobs:
        """The pairs and counts of samples ``first_sample`` .. ``end_sample - 1``."""
        first_job = int(np.searchsorted(self.ends, first_sample, side="right"))
        last_job = int(np.searchsorted(self.ends, end_sample, side="left"))
        counts = self.counts[first_job : last_job + 1].copy()
        counts[-1] -= self.ends[last_job] - end_sample
        counts[0] -= first_sample - (self.ends[first_job] - self.counts[first_job])
        return self.pairs[first_job : last_job + 1], counts

    def truncate(self) -> None:
        """Drop the samples that were not taken."""
        last_job = int(np.searchsorted(self.ends, self.drawn, side="left"))
        num_jobs = last_job + 1 if self.drawn else 0
        self.pairs, self.counts = self.pairs[:num_jobs], self.counts[:num_jobs].copy()
        if num_jobs:
            self.counts[-1] -= self.ends[last_job] - self.drawn
        self.ends = np.cumsum(self.counts)
        self.raws, self.rewards = self.raws[: self.drawn], self.rewards[: self.drawn]


MOST_GROWTH = 16  # of a slice against the one before


class SlicePace:
    """How many samples take how long."""

    def __init__(self) -> None:
        self.last_samples = 0  # samples of the last slice
        self.sample_seconds = 0.0  # seconds per sample there

    def samples_within(self, seconds: float, entry_seconds: float = 0.0) -> int:
        """The samples that take about so long, with ``entry_seconds`` for each.

        The first slice is one sample, and none is much larger than the one before.
        """
        max_samples = max(1, MOST_GROWTH * self.last_samples)
        sample_seconds = self.sample_seconds + entry_seconds
        return (
            max_samples
            if sample_seconds <= 0.0
            else max(1, min(max_samples, int(seconds / sample_seconds)))
        )

    def learn(self, samples: int, seconds: float) -> None:
        """Learn from a slice."""
        if samples:
            self.last_samples, self.sample_seconds = samples, seconds / samples


def _never() -> None:
    """No reason to stop."""


class BatchEntry:
    """Enters batches in one memory."""

    def __init__(
        self,
        problem: Problem,
        memory: Memory,
        sampler: Sampler,
        loops: Loops,
        seed: int,
    ) -> None:
        self.problem, self.memory, self.sampler = problem, memory, sampler
        self.loops = loops
        seed_sequence = np.random.SeedSequence(seed, spawn_key=(Key.CERTIFIED, SALT))
        # The range on which many-valued rewards are rounded; empty where none is. A
        # declared least probability allows few outcomes, and is compared with them.
        is_declared = problem.min_probability is not None
        self.reward_grid = (0.0, 0.0) if is_declared else problem.facts.reward_range
        self.salt = seed_sequence.generate_state(1, np.uint64)[0]
        self.batch: Batch | None = None  # samples that are not all in the memory
        self.entry_seconds = 0.0  # per sample, when some were last entered

    @property
    def num_waiting(self) -> int:
        """The number of samples that are there and not in the memory."""
        return 0 if self.batch is None else self.batch.drawn - self.batch.entered

    def begin_batch(self, pairs: Ints, counts: Ints) -> tuple[Ints, Ints]:
        """Make a batch of the first jobs, and return those that are left."""
        num_jobs = int(np.searchsorted(np.cumsum(counts), CHUNK, side="right"))
        if num_jobs == 0:  # one job larger than the buffers: sample a part
            self.batch = Batch(pairs[:1], np.array([CHUNK]))
            counts_left = counts.copy()
            counts_left[0] -= CHUNK
            return pairs, counts_left
        self.batch = Batch(pairs[:num_jobs], counts[:num_jobs])
        return pairs[num_jobs:], counts[num_jobs:]

    def enter_batch(
        self, stop_reason: Callable[[], str | None] = _never
    ) -> str | None:
        """Enter the samples that the batch has; the others are not taken any more.

        Raises ``MemoryFull`` where the memory has no room, and returns the reason where
        ``stop_reason`` gives one; the rest then waits. Between two parts of a batch the
        memory is whole, and entering may go on from there. Rows of a known model are
        entered when they are read (``model_rows``).
        """
        start_time, batch, memory = time.perf_counter(), self.batch, self.memory
        if batch is None or batch.drawn == batch.entered:
            self.batch = None
            return None
        entered_before = batch.entered
        batch.truncate()
        are_nodes, reason = self.sampler.gives_nodes, None
        if batch.entered == 0:
            if self.problem.payoffs == AT_THE_END:
                self._check_payoffs(batch, END if are_nodes else END_RAW)
            if not are_nodes and memory.is_crowded(batch.drawn):
                memory.admit(batch.raws)
        while batch.entered < batch.drawn and reason is None:
            self._enter_part(batch)
            if batch.entered < batch.drawn:
                reason = stop_reason()
        if self.problem.deterministic:
            self._check_deterministic(batch.pairs)
        if reason is None:
            self.batch = None
        num_entered = batch.entered - entered_before
        self.entry_seconds = (time.perf_counter() - start_time) / num_entered
        return reason

    def _enter_part(self, batch: Batch) -> None:
        """Enter the samples up to the next cut; ``MemoryFull`` leaves some of them."""
        memory, first_sample = self.memory, batch.entered
        end_sample = min(batch.drawn, (first_sample // PART + 1) * PART)
        pairs, counts = batch.jobs_between(first_sample, end_sample)
        targets = batch.raws[first_sample:end_sample]
        if not self.sampler.gives_nodes:
            targets = memory.target_nodes(targets)
        memory.check_turns(np.repeat(pairs, counts), targets)
        while True:
            num_recorded = self.loops.record(
                memory.graph,
                pairs,
                counts,
                targets,
                batch.rewards[first_sample:end_sample],
                batch.entered - first_sample,
                *self.reward_grid,
                self.salt,
            )
            batch.entered = first_sample + int(num_recorded)
            if batch.entered == end_sample:
                break
            memory.make_room(self.loops)
        if self.problem.min_probability is not None:
            check_rarest(memory, self.problem.min_probability, pairs)

    def _check_payoffs(self, batch: Batch, end_mark: int) -> None:
        """Refuse rewards on steps that do not end the episode."""
        paid_samples = np.flatnonzero(
            (batch.rewards != 0.0) & (batch.raws != end_mark)
        )
        if end_mark == END_RAW:  # states, some of which may be terminal
            raws, first_places = np.unique(batch.raws[paid_samples], return_index=True)
            are_terminal = [self.problem.is_terminal(int(raw)) for raw in raws]
            paid_samples = paid_samples[
                first_places[~np.array(are_terminal, dtype=bool)]
            ]
        if len(paid_samples):
            pair = batch.pairs[
                int(np.searchsorted(batch.ends, paid_samples[0], side="right"))
            ]
            raise self.sampler.early_payoff(
                float(batch.rewards[paid_samples[0]]), int(pair)
            )

    def _check_deterministic(self, pairs: Ints) -> None:
        g = self.memory.graph
        bad_pairs = pairs[g.pairs["length"][pairs] > 1]
        if len(bad_pairs):
            pair = g.pairs[bad_pairs[0]]
            raise OracleError(
                f"deterministic=True, but action {pair['action']} in state "
                f"{self.memory.states[pair['node']]!r} gave two outcomes; "
                "drop deterministic=, or fix the simulator."
            )


ROUNDING = 1e-9
# of nu above 1, in the bound on the probability of an outcome: any of them holds
OFFSETS = np.geomspace(1e-4, 1e4, 41)


def check_rarest(memory: Memory, least_probability: float, pairs: Ints) -> None:
    """Refuse samples of ``pairs`` that prove ``min_probability`` false."""
    pair_rows = memory.graph.pairs[pairs]
    too_many = pair_rows["length"] * least_probability > 1.0 + ROUNDING
    too_late = np.zeros(len(pairs), dtype=bool)
    if "law_complete" in pair_rows.dtype.names:
        has_more = (pair_rows["law_complete"] == 1) & (
            pair_rows["length"] > pair_rows["law_length"]
        )
        too_late = has_more | (pair_rows["law_complete"] == -1)
    for flaw_name, is_wrong in (("many", too_many), ("late", too_late)):
        if is_wrong.any():
            raise _false(memory, least_probability, pair_rows[is_wrong][0], flaw_name)
    # few have an outcome that could be too rare
    lengths = pair_rows["length"].astype(np.int64)
    for pair in pair_rows[
        (lengths > 1) & (pair_rows["total"] * least_probability > 1.0)
    ]:
        largest_share = _largest_share(memory, pair)
        if largest_share < least_probability * (1.0 - ROUNDING):
            raise _false(memory, least_probability, pair, "rare")


def _largest_share(memory: Memory, pair: Any) -> float:
    """The most that the probability of the pair's rarest outcome can be.

    It is Lemma K for the function that is 1 at this outcome and 0 elsewhere, with
    the share that was computed last; nothing is said where that is not up to date.
    """
    if "law_share" not in pair.dtype.names or pair["law_total"] < 0.5 * pair["total"]:
        return 1.0
    num_repeats = pair["law_total"] - pair["law_length"]
    if (
        pair["law_length"] != pair["length"]
        or num_repeats < 1.0
        or pair["law_share"] <= 0
    ):
        return 1.0
    weights = memory.graph.entries["weight"][
        pair["start"] : pair["start"] + pair["length"]
    ]
    # counts have grown since, so this share is at least that of then
    count_share = min(1.0, max(0.0, float(weights.min()) - 1.0) / num_repeats)
    log_share = math.log(pair["law_share"])
    log_bounds = (
        count_share * np.log(OFFSETS)
        + (1.0 - count_share) * np.log1p(OFFSETS)
        + log_share
    )
    return float((1.0 + OFFSETS - np.exp(log_bounds)).min())


def _false(
    memory: Memory, least_probability: float, pair: Any, flaw_name: str
) -> OracleError:
    state = memory.states[int(pair["node"])]
    flaw_text = {
        "many": f"{int(pair['length'])} outcomes were seen",
        "late": (
            f"outcome {int(pair['length'])} turned up when the others were complete"
        ),
        "rare": "an outcome is less likely than that",
    }[flaw_name]
    return OracleError(
        f"min_probability={least_probability:g} is false "
        f"{at_pair(state, int(pair['action']))}: {flaw_text}; "
        "declare the least probability of any outcome, or drop it."
    )
