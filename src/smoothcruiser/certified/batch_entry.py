"""Entry of batches of samples in the memory, and the comparisons with declarations.

A batch is entered in parts of ``PART`` samples: the new states of a part get their nodes
together, so where batches and parts are cut is part of the result. How arrays grow is
not.

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
from typing import Any

import numpy as np

from smoothcruiser.certified.graph import END, END_RAW
from smoothcruiser.certified.sample_batches import CHUNK, Batch
from smoothcruiser.certified.sampling.sampler import Sampler
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.sweeps.compiled_loops import Loops
from smoothcruiser.errors import OracleError
from smoothcruiser.jit.random import SALT, Key
from smoothcruiser.problem.facts import AT_THE_END
from smoothcruiser.problem.model.tabular import Ints
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.step_errors import at_pair

PART = 1 << 13  # samples entered at a time: at most so many new states, some 0.1 s


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
    weights = memory.graph.entries.weight[
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
