"""Alg. 4-5: the template computes discounted returns, and sampleV of the paper
is one of its instances, to the last bit.
"""

import math

import pytest
from tree_worlds import mdp
from worlds import unverified_schedule

import smoothcruiser as sc
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.interpreted.reference import ReferenceEngine
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.schedule.paper_schedule import paper_schedule
from smoothcruiser.tree.sample_v import SampleV
from smoothcruiser.tree.template import Selection, generic_search, search


class Line:
    """A walk 0, 1, 2, ... with reward s + 1: every number below is computed by hand."""

    def __init__(self, leaf_depth, end=None, head=0.0, norm=1.0):
        self.leaf_depth, self.end, self.head, self.norm, self.seen = (
            leaf_depth,
            end,
            head,
            norm,
            [],
        )

    def oracle(self, state, action):
        return float(state + action), state + 1, state + 1 == self.end

    def is_leaf(self, state, depth):
        return depth >= self.leaf_depth

    def select_action(self, state, depth):
        return Selection(1, self.head, self.norm)

    def evaluate_leaf(self, state, depth):
        return 100.0 * state

    def backup(self, path, leaf_value):
        self.seen.append(([(s.state, s.reward, s.ended) for s in path], leaf_value))


def test_alg_5_to_the_letter():
    """1 + 2/2 + 3/4 + 300/8, with head 0 and norm 1."""
    rules = Line(3)
    assert search(rules, 0, 0.5) == 1.0 + 1.0 + 0.75 + 300.0 / 8.0
    assert rules.seen == [([(0, 1.0, False), (1, 2.0, False), (2, 3.0, False)], 300.0)]


def test_an_ended_episode_has_no_leaf():
    rules = Line(3, end=2)
    assert search(rules, 0, 0.5) == 1.0 + 1.0
    assert rules.seen == [([(0, 1.0, False), (1, 2.0, True)], 0.0)]


def test_heads_and_norms_multiply_down():
    """h + w (R + gamma (h + w (R + gamma leaf))) with h = 10, w = 1/2."""
    inner = 10.0 + 0.5 * (2.0 + 0.5 * 200.0)
    assert search(Line(2, head=10.0, norm=0.5), 0, 0.5) == 10.0 + 0.5 * (
        1.0 + 0.5 * inner
    )


def test_alg_4_repeats_until_told():
    tally = generic_search(Line(1), 0, 0.5, until=lambda done: done >= 5)
    assert (tally.simulations, tally.mean) == (5, 1.0 + 50.0)
    assert generic_search(Line(1), 0, 0.5, until=lambda done: True).simulations == 1


def tiny_paper_schedule(facts, rollouts=3, samples=2):
    """A table of the paper's shape, rollouts over a plug-in over the constant,
    cut down to a few draws a level.

    The paper's own counts start at 10^6; what is tested is the mapping, which
    does not depend on them. The schedule is built without the verifier, which
    would rightly refuse it: it promises nothing.
    """
    full = paper_schedule(facts, epsilon=0.3, delta_prime=0.1)
    levels = [
        sc.Level(sc.Kind.CONSTANT),
        sc.Level(sc.Kind.PLUGIN, samples, 0),
        sc.Level(sc.Kind.PLUGIN, samples, 1),
    ]
    for _ in range(rollouts):
        levels.append(sc.Level(sc.Kind.ROLLOUT, samples, 1, len(levels) - 1))
    return unverified_schedule(facts, levels, full.clip)


GARNET, GAME = (
    "garnet:states=6,actions=3,seed=4",
    "random-game:states=6,actions=2,seed=1",
)
PROBLEMS = [
    sc.make(GARNET, discount=0.5, temperature=0.7),
    sc.make(GARNET, discount=0.5, temperature=0.7, operator="square-root"),
    sc.make(GARNET, discount=0.5, operator=sc.KL(0.3, (0.2, 0.3, 0.5))),
    sc.make(GAME, discount=0.4, temperature=0.5),
]


def both_ways(problem, schedule, seed, count):
    """Samples and calls of Alg. 2 (the reference engine) and of Alg. 5, on one stream."""
    row = schedule.root.child
    direct, host = (ReferenceEngine(Job(problem, schedule, 0)) for _ in range(2))
    direct.rng, host.rng = stream(seed, 0, 0), stream(seed, 0, 0)
    expected = [direct.sample_v(row, 0) for _ in range(count)]
    # lends its checked, counted oracle and its stream
    rules = SampleV(problem, schedule, row, host.oracle, host.rng.random)
    samples = [search(rules, 0, problem.discount) for _ in range(count)]
    assert host.calls == direct.calls
    return samples, expected, host.calls


@pytest.mark.compiles
@pytest.mark.parametrize(
    "problem", PROBLEMS, ids=lambda p: f"{p.name}-{p.operator.name}"
)
def test_sample_v_is_an_instance(problem):
    """The engine sums around a centre and the template does not, so the last digits of
    the same samples may differ.
    """
    schedule = tiny_paper_schedule(problem.facts)
    samples, expected, calls = both_ways(problem, schedule, 11, 20)
    assert samples == pytest.approx(expected, rel=1e-14)
    assert calls > 20
    assert len(set(expected)) > 1


def test_a_terminal_state_ends_the_descent():
    """Two steps of reward 1/2 and two of entropy log 2, since both actions look alike."""
    known = {"operator": sc.Entropy(1.0), "terminal": True}
    problem = mdp(lambda s, a, rng: (0.5, s + 1, s + 1 == 2), **known)
    samples, expected, _ = both_ways(problem, tiny_paper_schedule(problem.facts), 0, 1)
    assert samples == expected
    assert expected == [pytest.approx(1.5 * (0.5 + math.log(2.0)))]


def test_blind_levels_are_no_part_of_sample_v():
    levels = (sc.Level(sc.Kind.CONSTANT), sc.Level(sc.Kind.BLIND, continuation=0))
    schedule = unverified_schedule(PROBLEMS[0].facts, levels, (0.0, 1.0))
    with pytest.raises(sc.InvalidInput, match="blind"):
        SampleV(PROBLEMS[0], schedule, 1, lambda s, a: (0.0, s, False), lambda: 0.5)
