"""Random streams: published bits, the same bits from Python and compiled code,
and the distributions that the promises rest on.

Distribution tests have fixed seeds: they pass or fail for good. Each p-value
must be above 1e-4, so a correct stream would have failed any one of them with
that probability when its seed was chosen.
"""

import copy
import math
import pickle

import numpy as np
import pytest
from numba import njit
from scipy import stats

from smoothcruiser.jit.interrupts import stoppable_run
from smoothcruiser.jit.random.streams import compile_unbroken, from_words, stream

pytestmark = pytest.mark.compiles

FALSE_ALARM = 1e-4


@njit
def many(rng, method, n, size):
    out = np.empty(size)
    weights = np.array([0.0, 0.1, 0.0, 0.6, 0.3, 0.0])
    for i in range(size):
        if method == 0:
            out[i] = rng.random()
        elif method == 1:
            out[i] = rng.integers(n)
        elif method == 2:
            out[i] = rng.normal()
        elif method == 3:
            out[i] = rng.exponential()
        else:
            out[i] = rng.categorical(weights)
    return out


METHODS = {"random": 0, "integers": 1, "normal": 2, "exponential": 3, "categorical": 4}


def test_published_vectors():
    """Xoshiro256++ from the state 1, 2, 3, 4: the first ten outputs of Blackman
    and Vigna's reference program.
    """
    rng = from_words([1, 2, 3, 4])
    assert [rng.raw() for _ in range(10)] == [
        41943041,
        58720359,
        3588806011781223,
        3591011842654386,
        9228616714210784205,
        9973669472204895162,
        14011001112246962877,
        12406186145184390807,
        15849039046786891736,
        10450023813501588000,
    ]


def plain_words(words):
    """Xoshiro256++ in Python integers, from the published recurrence."""
    mask = (1 << 64) - 1
    s = list(words)

    def rotl(x, k):
        return ((x << k) | (x >> (64 - k))) & mask

    while True:
        yield (rotl((s[0] + s[3]) & mask, 23) + s[0]) & mask
        t = (s[1] << 17) & mask
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 45)


def test_copies_have_memory_of_their_own():
    """A copied address would draw from the original's words, or from memory
    that is gone.
    """
    rng = stream(3)
    rng.random()
    twins = [copy.deepcopy(rng), copy.copy(rng), pickle.loads(pickle.dumps(rng))]
    expected = [rng.random() for _ in range(5)]
    for twin in twins:
        assert twin.address != rng.address
        assert [twin.random() for _ in range(5)] == expected


def test_uniforms_and_integers_follow_their_definitions():
    """random() is the top 53 bits times 2**-53; integers(n) is Lemire's
    multiply-shift on the top 32 bits, with his rejection.
    """
    words = [int(w) for w in stream(5, 1, 2).words]
    source, rng = plain_words(words), stream(5, 1, 2)
    assert [rng.random() for _ in range(1000)] == [
        (next(source) >> 11) * 2.0**-53 for _ in range(1000)
    ]
    for n in (1, 2, 3, 1000, 3_000_000_000):  # the last rejects 30% of the words
        for _ in range(200):
            while True:
                product = (next(source) >> 32) * n
                if product & 0xFFFFFFFF >= (2**32 - n) % n:
                    break
            assert rng.integers(n) == product >> 32
    for n in (0, -1, 2**63 + 1):
        with pytest.raises(ValueError, match=f"needs n from 1 to 2\\*\\*63, got {n}"):
            rng.integers(n)


def test_large_integers_normals_and_exponentials_follow_their_definitions():
    """64 bits modulo n with rejection; Marsaglia's polar method; inversion."""
    source, rng = plain_words([int(w) for w in stream(5, 3).words]), stream(5, 3)

    def uniform():
        return (next(source) >> 11) * 2.0**-53

    for n in (2**32, 2**32 + 1, 3 * 2**61, 2**63):
        for _ in range(100):
            while (bits := next(source)) < 2**64 % n:
                pass
            assert rng.integers(n) == bits % n
    for _ in range(500):
        while True:
            x, y = 2.0 * uniform() - 1.0, 2.0 * uniform() - 1.0
            s = x * x + y * y
            if 0.0 < s < 1.0:
                break
        assert rng.normal() == x * math.sqrt(-2.0 * math.log(s) / s)
        assert rng.exponential() == -math.log(1.0 - uniform())


@pytest.mark.parametrize("method", METHODS)
def test_the_same_bits_from_python_and_compiled_code(method):
    inside, outside = stream(3, 0, 1), stream(3, 0, 1)
    expected = many(inside, METHODS[method], 7, 500)
    arguments = {
        "integers": (7,),
        "categorical": ([0.0, 0.1, 0.0, 0.6, 0.3, 0.0],),
    }.get(method, ())
    assert [
        getattr(outside, method)(*arguments) for _ in range(500)
    ] == expected.tolist()
    assert inside.words.tolist() == outside.words.tolist()


def test_a_stream_is_a_key_of_a_position():
    """Keys do not depend on the order streams are made in, and different keys
    are different streams.
    """
    keys = [(action, shard) for action in range(4) for shard in range(5)]
    forwards = {key: stream(9, *key).raw() for key in keys}
    backwards = {key: stream(9, *key).raw() for key in reversed(keys)}
    assert forwards == backwards
    assert len(set(forwards.values())) == len(keys)
    assert (
        stream(9, 0, 1).words.tolist()
        == np.random.SeedSequence(9, spawn_key=(0, 1))
        .generate_state(4, np.uint64)
        .tolist()
    )
    assert stream(10, 0, 0).raw() != stream(9, 0, 0).raw()


@pytest.mark.parametrize(
    "method, law",
    [
        ("random", stats.uniform()),
        ("normal", stats.norm()),
        ("exponential", stats.expon()),
    ],
    ids=lambda x: str(x)[:11],
)
def test_continuous_distributions(method, law):
    draws = many(stream(1, 2, 3), METHODS[method], 0, 200_000)
    assert stats.kstest(draws, law.cdf).pvalue > FALSE_ALARM
    pairs = np.corrcoef(draws[:-1], draws[1:])[0, 1] * math.sqrt(len(draws))
    assert abs(pairs) < stats.norm.isf(FALSE_ALARM / 2)  # neighbours are uncorrelated


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 10, 97, 1000])
def test_integers_are_uniform(n):
    draws = many(stream(4, n), METHODS["integers"], n, 100_000).astype(np.int64)
    assert draws.min() >= 0
    assert draws.max() <= n - 1
    if n > 1:
        assert stats.chisquare(np.bincount(draws, minlength=n)).pvalue > FALSE_ALARM


def test_integers_are_unbiased_for_awkward_sizes():
    """Without rejection, 32 bits spread over n = 3 * 2**30 values would make
    multiples of 3 twice as likely as others.
    """
    n = 3 * 2**30
    draws = many(stream(8), METHODS["integers"], n, 300_000)
    assert (
        stats.chisquare(np.bincount((draws % 3).astype(np.int64), minlength=3)).pvalue
        > FALSE_ALARM
    )
    assert stats.kstest(draws / n, stats.uniform().cdf).pvalue > FALSE_ALARM


def test_categorical_follows_its_weights_and_never_takes_a_zero():
    draws = many(stream(6), METHODS["categorical"], 0, 100_000).astype(np.int64)
    counts = np.bincount(draws, minlength=6)
    assert counts[[0, 2, 5]].tolist() == [0, 0, 0]
    assert (
        stats.chisquare(counts[[1, 3, 4]], 100_000 * np.array([0.1, 0.6, 0.3])).pvalue
        > FALSE_ALARM
    )
    rng = stream(7)
    assert {rng.categorical([0.0, 2.0, 0.0]) for _ in range(100)} == {1}
    assert rng.categorical([5.0]) == 0
    unnormalized = np.bincount(
        [rng.categorical([1, 3]) for _ in range(4000)], minlength=2
    )
    assert stats.binomtest(int(unnormalized[1]), 4000, 0.75).pvalue > FALSE_ALARM


def test_streams_of_neighbouring_shards_are_independent():
    """The bits of two neighbouring shards agree half of the time."""
    left = many(stream(0, 0, 0), METHODS["random"], 0, 50_000) < 0.5
    right = many(stream(0, 0, 1), METHODS["random"], 0, 50_000) < 0.5
    assert (
        stats.binomtest(int(np.sum(left == right)), 50_000, 0.5).pvalue > FALSE_ALARM
    )


def test_nothing_breaks_off_what_a_method_compiles():
    """Its first use is in a step that a time limit may end; LLVM must not be."""

    def one_more(address: int) -> int:
        return address + 1

    law, seen = compile_unbroken(one_more), []
    build = law._compiler.compile
    with stoppable_run() as hold:

        def noted(*given):
            seen.append(hold.open)
            return build(*given)

        law._compiler.compile = noted
        hold.begin()
        assert law(2) == 3
        seen.append(hold.open)
    assert seen == [False, True]
