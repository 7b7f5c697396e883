"""What a root adds up beside its sums."""

import math
import random
from array import array

import pytest

from smoothcruiser.engines.root_scores import (
    BINNED,
    BINS,
    LOGGED,
    WHOLE,
    Score,
    add_scores,
    add_sums,
    bin_of,
)
from smoothcruiser.theory.stopping import psi

HALF = 1.3
SCORE = Score(BINNED, HALF, BINS / (2.0 * HALF))


def test_a_sample_is_spread_over_its_two_neighbours():
    """Law: the weights add up to one sample, and their mean is the sample, rounded
    down by less than 1/WHOLE of a bin; what lies outside is taken to the end.
    """
    width = 2.0 * HALF / BINS
    for x in [random.Random(1).uniform(-HALF, HALF) for _ in range(500)]:
        k, above = bin_of(x, HALF, SCORE.scale)
        assert 0 <= k < BINS
        assert 0 <= above <= WHOLE
        mean = (k + above / WHOLE) * width - HALF
        assert -1e-12 < x - mean < width / WHOLE + 1e-12
    assert bin_of(-HALF - 1.0, HALF, SCORE.scale) == (0, 0)
    assert bin_of(HALF + 1.0, HALF, SCORE.scale) == (BINS - 1, WHOLE)
    assert bin_of(0.0, HALF, SCORE.scale) == (BINS // 2, 0)


@pytest.mark.parametrize("score", [SCORE, Score(LOGGED, 0.0, 0.7), Score()])
def test_sums_in_pieces_are_those_at_once(score):
    """Law: a shard that is resumed has the bits of one that is run at once, and whole
    numbers add up in any order.
    """
    numbers = random.Random(2)
    x = array("d", [numbers.uniform(-1.4, 1.4) for _ in range(300)])
    whole = add_scores(score, x)
    assert add_scores(score, x[120:], add_scores(score, x[:120])) == whole
    assert len(whole) == len(score.none)
    if score.kind == BINNED:
        assert add_sums(add_scores(score, x[7:]), add_scores(score, x[:7])) == whole
        assert sum(whole) == 300 * WHOLE
    assert add_sums((), whole) == add_sums(whole, ()) == whole


def test_psi():
    """Law: e^psi(x) = 1 + x + x^2/2 for x >= 0, and psi is odd."""
    for x in (0.0, 1e-9, 0.3, 40.0):
        assert math.exp(psi(x)) == pytest.approx(1.0 + x + x * x / 2.0)
        assert psi(-x) == -psi(x)
