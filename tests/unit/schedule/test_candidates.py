"""The walk ends where no level to come can count: walking on changes no candidate."""

import pytest

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler import candidates as module
from smoothcruiser.schedule.compiler.candidates import candidates, frontier_of
from smoothcruiser.schedule.compiler.optimizer import ALL_KINDS, SPARSE_SAMPLING_KINDS


def facts(actions, discount, operator):
    return Facts(
        num_actions=actions,
        min_actions=actions,
        discount=discount,
        operator=operator,
        reward_range=(0.0, 1.0),
    )


CASES = [
    (facts(2, 0.2, sc.Entropy(10.0)), 0.05, "q_values", ALL_KINDS),
    (facts(2, 0.5, sc.Entropy(0.5)), 0.05, "q_values", ALL_KINDS),
    (facts(4, 0.5, sc.Entropy(0.5)), 0.05, "value", ALL_KINDS),
    (facts(3, 0.6, sc.Max()), 0.1, "q_values", ALL_KINDS),
    (facts(3, 0.4, sc.Sparsemax(1.0)), 0.1, "value", ALL_KINDS),
    (facts(2, 0.7, sc.Entropy(1.0)), 0.1, "q_values", SPARSE_SAMPLING_KINDS),
]


@pytest.mark.parametrize(
    ("known", "share", "target", "kinds"),
    CASES,
    ids=[str(i) for i in range(len(CASES))],
)
def test_walking_on_changes_no_candidate_that_counts(
    known, share, target, kinds, monkeypatch
):
    asked = (known, frozenset(kinds), share * known.value_span(), 0.1, target)
    early = _counting(candidates(*asked))
    frontier = frontier_of(known, frozenset(kinds))
    stops = len(frontier.stops)
    monkeypatch.setattr(module, "_is_over", _until(4 + stops))
    assert _counting(candidates(*asked)) == early
    assert len(frontier.stops) > stops  # it did walk on


def _until(number):
    """A rule that ends the walk at its ``number``-th stop."""
    calls = []
    return lambda found, later: bool(calls.append(1)) or len(calls) >= number


def _counting(found):
    """Those that are polished: all of plain kinds, and the cheapest of the others."""
    plain = [c for c in found if c.has_range]
    random = [c for c in found if not c.has_range]
    dear = plain[0].log_price + module.PROMISING
    counting = [*plain, *(c for c in random[:1] if c.log_price <= dear)]
    return [(c.log_price, c.target, c.index) for c in counting]
