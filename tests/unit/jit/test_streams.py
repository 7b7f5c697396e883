"""Random streams: published bits, the same bits from Python and compiled code, keys, and
the distributions that the promises rest on.

Distribution tests have fixed seeds: they pass or fail for good. Each p-value must be
above 1e-4, so a correct stream would have failed any one of them with that probability
when its seed was chosen.
"""

from __future__ import annotations

import copy
import math
import pickle
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from scipy import stats

import smoothcruiser as sc
from smoothcruiser.jit.build import compile_function
from smoothcruiser.jit.random import CheckKey, Key, streams
from smoothcruiser.jit.random.streams import compile_unbroken, from_words, stream
from smoothcruiser.run_control.stop_requests import stoppable_run

pytestmark = pytest.mark.compiles


FALSE_ALARM = 1e-4


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


def test_a_stream_is_a_key_of_a_position():
    """Keys do not depend on the order streams are made in, and different keys
    are different streams.
    """
    keys = [(action, shard) for action in range(4) for shard in range(5)]
    forwards = {key: stream(9, *key).raw() for key in keys}
    backwards = {key: stream(9, *key).raw() for key in reversed(keys)}
    assert forwards == backwards
    assert len(set(forwards.values())) == len(keys)
    sequence = np.random.SeedSequence(9, spawn_key=(0, 1))
    words = sequence.generate_state(4, np.uint64).tolist()
    assert stream(9, 0, 1).words.tolist() == words
    assert stream(10, 0, 0).raw() != stream(9, 0, 0).raw()


def test_categorical_follows_its_weights_and_never_takes_a_zero():
    rng = stream(6)
    weights = [0, 1, 0, 6, 3, 0]
    numbers = [rng.categorical(weights) for _ in range(100_000)]
    counts = np.bincount(numbers, minlength=6)
    assert counts[[0, 2, 5]].tolist() == [0, 0, 0]
    expected = 100_000 * np.array([0.1, 0.6, 0.3])
    assert stats.chisquare(counts[[1, 3, 4]], expected).pvalue > FALSE_ALARM
    assert {rng.categorical([0.0, 2.0, 0.0]) for _ in range(100)} == {1}
    assert rng.categorical([5.0]) == 0


def test_neighbours_are_independent():
    """The bits of two neighbouring shards agree half of the time; numbers that follow
    each other are uniform and uncorrelated.
    """
    rngs = stream(0, 0, 0), stream(0, 0, 1)
    left, right = (np.array([rng.random() for _ in range(50_000)]) for rng in rngs)
    agree = int(np.sum((left < 0.5) == (right < 0.5)))
    assert stats.binomtest(agree, 50_000, 0.5).pvalue > FALSE_ALARM
    assert stats.kstest(left, stats.uniform().cdf).pvalue > FALSE_ALARM
    pairs = np.corrcoef(left[:-1], left[1:])[0, 1] * math.sqrt(len(left))
    assert abs(pairs) < stats.norm.isf(FALSE_ALARM / 2)


def test_nothing_breaks_off_what_a_method_compiles():
    """Its first use is in a step that a time limit may end; LLVM must not be."""

    def one_more(address: int) -> int:
        return address + 1

    law, seen = compile_unbroken(compile_function(one_more)), []
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


LAW_CALLS = [
    ("uniform", (-2.5, 7)),
    ("normal", (1.0, 3.0)),
    ("exponential", (2.5,)),
    *(("gamma", (shape, 2.0)) for shape in (0.01, 0.7, 3.5, 1e4)),
    *(("beta", pair) for pair in ((0.5, 2.0), (1e-300, 1e-300), (1e-5, 1e5))),
    *(("poisson", (mean,)) for mean in (0.3, 9.0, 12.5, 1e9)),
    *(("binomial", pair) for pair in ((10, 0.9), (100, 0.4), (2**33, 0.5))),
    *(("geometric", (chance,)) for chance in (0.3, 1e-17)),
    ("categorical", ([0.0, 2.0, 1.0],)),
    ("choice", (3, [0.5, 0.25, 0.25])),
    ("permutation", (9,)),
]


@pytest.mark.parametrize("name, arguments", LAW_CALLS)
def test_a_law_gives_the_same_bits_in_both_forms(monkeypatch, name, arguments):
    """A process that samples many numbers changes over in the middle of a stream."""
    rng, samples = stream(13, 2), []
    for most_in_python in (10**9, -1):
        monkeypatch.setattr(streams, "LAWS_IN_PYTHON", most_in_python)
        rng.words[:] = stream(13, 2).words
        numbers = [getattr(rng, name)(*arguments) for _ in range(300)]
        samples.append([repr(number) for number in numbers] + rng.words.tolist())
    assert samples[0] == samples[1]


def test_large_binomial_counts_follow_their_law():
    """A peak of 2**32: its square wraps to zero in 64 bits, which once made the
    logarithm of its probability NaN and rejected all but the middle.
    """
    n, rng = 2**33, stream(4)
    numbers = [rng.binomial(n, 0.5) for _ in range(20_000)]
    law = stats.norm(n / 2, math.sqrt(n / 4))  # the skewness is 0
    assert stats.kstest(numbers, law.cdf).pvalue > FALSE_ALARM


def test_a_state_moves_between_python_and_memory():
    """Each reader finds the state where the last one left it."""
    rng, twin = stream(7), stream(7)
    expected = [twin.random() for _ in range(7)]
    numbers = [rng.random(), next_uniform(rng), next_uniform(rng), rng.random()]
    generator = rng.numpy()  # from now on the state stays in memory
    numbers += [rng.random(), generator.random(), rng.random()]
    assert numbers == expected
    assert rng.words.tolist() == twin.words.tolist()
    rng.words[:] = [1, 2, 3, 4]
    assert [rng.raw(), rng.integers(2**63)] == [41943041, 58720359]


@njit
def next_uniform(rng):
    return rng.random()


def test_plain_streams_need_no_numba():
    """Every method but ``numpy()``, which draws its bits in compiled code."""
    code = (
        "import sys; from smoothcruiser.jit.random.streams import stream; "
        "rng = stream(0); rng.random(), rng.integers(6), rng.raw(), rng.normal(), "
        "rng.uniform(), rng.exponential(), rng.gamma(2.0), rng.beta(1.0, 2.0), "
        "rng.poisson(3.0), rng.binomial(9, 0.5), rng.geometric(0.5), rng.choice([1, 2]), "
        "rng.permutation(4), rng.shuffle([1, 2]), rng.categorical([1.0]), rng.words; "
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- keys ---------------------------------------------------------------------


SOURCE = Path(sc.__file__).parent
INTERPRETED = ("reference", "python", "batched")
SHARDS = {f"engines/interpreted/{name}.py" for name in INTERPRETED} | {
    "engines/compiled/engine.py"
}


def test_keys_are_distinct() -> None:
    """Aliases would be silent: an enumeration drops a member of equal value."""
    for kind in (Key, CheckKey):
        assert len(kind.__members__) == len(set(kind)) == len(list(kind))
    assert min(set(Key) - {Key.CERTIFIED}) > Key.CERTIFIED


def test_no_key_is_written_as_a_number() -> None:
    """Outside the registry every spawn key is a name or a position in the work.
    (A stream that is only made to be compiled has a seed and no key.)
    """
    found = []
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        for call in re.findall(r"spawn_key=\(([^)]*)\)", text):
            found += [(path.name, call)] if re.search(r"(^|[\s,])\d", call) else []
        for call in re.findall(r"\bstream\(([^()]*)\)", text):
            key = call.split(",")[1:]
            wrong = any(part.strip().isdigit() for part in key[:1])
            found += [(path.name, call)] if wrong else []
    assert found == []


class Spy:
    """Who asked for which stream: (seed, key) -> files of the package."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.users: dict[tuple[Any, tuple[int, ...]], set[str]] = defaultdict(set)
        plain = np.random.SeedSequence

        class Spied(plain):  # type: ignore[misc, valid-type]
            def __init__(inner, entropy: Any = None, *, spawn_key: Any = ()) -> None:
                super().__init__(entropy, spawn_key=spawn_key)
                self.note(entropy, tuple(int(part) for part in spawn_key))

        monkeypatch.setattr(np.random, "SeedSequence", Spied)

    def note(self, seed: Any, key: tuple[int, ...]) -> None:
        if key == ():  # made to be compiled; nobody reads its numbers
            return
        frame = sys._getframe(2)
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if SOURCE in path.parents and path.name != "streams.py":
                self.users[seed, key].add(path.relative_to(SOURCE).as_posix())
                return
            frame = frame.f_back  # type: ignore[assignment]


def step(state: int, action: int, rng: Any) -> tuple[float, int]:
    return rng.random(), (state + action + int(rng.integers(3))) % 5


def problem() -> sc.Problem:
    facts = {"num_actions": 12, "discount": 0.2, "operator": sc.Entropy(1.0)}
    return sc.MDP(step, initial_state=0, **facts)


def play() -> None:
    agent = sc.Agent(problem(), **PROMISE | {"method": "smoothcruiser"})
    sc.play(agent, episodes=2, steps=2, seed=3)


PROMISE: dict[str, Any] = {"epsilon": "60%", "delta": 0.5, "seed": 3}
SHARP = PROMISE | {"method": "smoothcruiser", "epsilon": "40%", "shards": 3}
LOOSE = PROMISE | {"epsilon": 0.5}
USES: dict[str, Any] = {
    "schedule": lambda: sc.plan(problem(), **SHARP),
    "certified": lambda: sc.plan(problem(), **PROMISE, method="certified"),
    "tree": lambda: sc.plan(problem(), method="uct", simulations=20, seed=3),
    "evaluate": lambda: sc.evaluate(problem(), lambda state: [1 / 12] * 12, **LOOSE),
    "check": lambda: sc.check(problem(), seed=3),
    "play": play,
}


@pytest.mark.parametrize("use", USES)
def test_a_stream_has_one_user(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No (seed, key) is asked for by two files, and keys of the form (action,
    shard) are used by others only under seeds that no shard has.
    """
    spy = Spy(monkeypatch)
    USES[use]()
    assert spy.users
    shared = {pair: files for pair, files in spy.users.items() if len(files) > 1}
    assert shared == {}
    shards = {pair for pair, files in spy.users.items() if files & SHARDS}
    assert bool(shards) is (use in ("schedule", "check", "play"))
    alike = {  # a shard of some action could have such a key
        seed
        for seed, key in spy.users.keys() - shards
        if len(key) == 2 and key[0] < Key.INSPECTION
    }
    assert alike.isdisjoint(seed for seed, _ in shards)
