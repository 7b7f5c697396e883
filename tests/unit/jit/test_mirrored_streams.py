"""Mirrored streams: flipped bits, new beginnings, the same bits in machine code."""

import copy
import pickle

import numpy as np
import pytest

from smoothcruiser.jit.random.mirrored_streams import (
    FLIPPED,
    MirroredStream,
    first_words,
    position_words,
)
from smoothcruiser.jit.random.streams import from_words

WORDS = position_words(first_words(3, 1), 0, 5, 2, 1)


def pair():
    return MirroredStream(WORDS), MirroredStream(WORDS, FLIPPED)


def test_without_a_mask_it_is_the_plain_stream_and_with_one_its_complement():
    stream, mirror = pair()
    plain = from_words(WORDS)
    for _ in range(50):
        bits = plain.raw()
        assert stream.raw() == bits
        assert mirror.raw() == bits ^ FLIPPED


def test_laws_are_mirrored():
    stream, mirror = pair()
    assert stream.normal() == pytest.approx(-mirror.normal(), abs=1e-12)
    assert stream.random() + mirror.random() == pytest.approx(1.0)
    assert stream.integers(6) + mirror.integers(6) == 5
    assert stream.integers(-2, 2**40) + mirror.integers(-2, 2**40) > -4


@pytest.mark.compiles
def test_it_begins_anew_under_a_generator_of_numpy_too():
    stream, _ = pair()
    first = stream.random()
    generator = stream.numpy()
    generator.integers(7, dtype=np.uint8)
    for mask, number in ((0, first), (FLIPPED, 1.0 - 2.0**-53 - first)):
        stream.restart((*WORDS, mask))
        assert generator.random() == number
        stream.restart((*WORDS, mask))
        assert stream.random() == number


def test_copies_keep_the_mask():
    _, mirror = pair()
    mirror.random()
    copies = [copy.copy(mirror), copy.deepcopy(mirror)]
    copies.append(pickle.loads(pickle.dumps(mirror)))
    bits = mirror.raw()
    assert [each.raw() for each in copies] == [bits] * 3


@pytest.mark.compiles
def test_machine_code_draws_the_same():
    import numba

    from smoothcruiser.jit.memory import bit_words, start_stream

    @numba.njit
    def draw(rng, address):
        table = bit_words(address)
        start_stream(rng, table, 0)
        first = rng.random(), rng.normal(), rng.integers(6)
        start_stream(rng, table, 1)
        return first, (rng.random(), rng.normal(), rng.integers(6))

    table = np.array([[*WORDS, 0], [*WORDS, FLIPPED]], dtype=np.uint64)
    stream, mirror = pair()
    expected = [(s.random(), s.normal(), s.integers(6)) for s in (stream, mirror)]
    assert list(draw(MirroredStream(WORDS), table.ctypes.data)) == expected
