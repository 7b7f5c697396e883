"""Shards: a cut of the root draws that the schedule alone decides."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smoothcruiser as sc
from smoothcruiser import Kind, Level, Root, Schedule
from smoothcruiser.engines.shards import CALLS_PER_SHARD, MOST_SHARDS, cut_shards
from smoothcruiser.problem.facts import Facts


def schedule(samples, *, leaf=1, looks=(), target="q_values", K=2):
    facts = Facts(K, K, 0.5, sc.Entropy(1.0), (0.0, 1.0))
    levels = (Level(Kind.CONSTANT), Level(Kind.PLUGIN, samples=leaf, query=0))
    return Schedule(
        "hand",
        facts,
        levels,
        Root(target, samples, 1, "none", looks=looks),
        math.inf,
        1.0,
    )


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    samples=st.integers(1, 10**12),
    leaf=st.integers(1, 10**9),
    fractions=st.lists(st.floats(0.001, 0.999), max_size=5),
    shards=st.none() | st.integers(1, 10**5),
    target=st.sampled_from(["q_values", "value"]),
    K=st.integers(1, 20),
)
def test_every_draw_is_in_one_shard(samples, leaf, fractions, shards, target, K):
    """Contiguous, in order, none across a look, at most 4,096 over all actions
    (plus one for each look).
    """
    looks = tuple(
        sorted({n for n in (int(f * samples) for f in fractions) if 0 < n < samples})
    )
    segments = cut_shards(
        schedule(samples, leaf=leaf, looks=looks, target=target, K=K), shards=shards
    )
    assert len(segments) == len(looks) + 1
    first = 0
    for segment, end in zip(segments, (*looks, samples), strict=True):
        for shard in segment:
            assert shard.first == first
            assert shard.count >= 1
            first += shard.count
        assert first == end
    every = [shard for segment in segments for shard in segment]
    assert [shard.index for shard in every] == list(range(len(every)))
    actions = K if target == "q_values" else 1
    assert actions * len(every) <= MOST_SHARDS + actions * (len(looks) + 1)


def test_a_shard_is_worth_about_a_million_calls():
    """10,000 draws of 1 + 2*500 calls are 10,010,000 calls: eleven shards of at
    most 910 draws.
    """
    (segment,) = cut_shards(schedule(10_000, leaf=500))
    assert len(segment) == 11
    assert max(shard.count for shard in segment) * 1001 <= CALLS_PER_SHARD


def test_an_override_cuts_finer_but_never_below_one_draw():
    (segment,) = cut_shards(schedule(10), shards=4)
    assert [shard.count for shard in segment] == [3, 3, 3, 1]
    (segment,) = cut_shards(schedule(3), shards=8)
    assert [shard.count for shard in segment] == [1, 1, 1]


def test_a_number_of_shards_below_one_is_refused():
    with pytest.raises(sc.InvalidInput, match="at least 1, got 0"):
        cut_shards(schedule(10), shards=0)
