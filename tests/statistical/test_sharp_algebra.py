"""The estimator algebra against the truth: lemmas by exact enumeration, levels
by simulation on problems made to attain the bounds.

Lemmas: draws are Bernoulli, so Q-hat lives on a grid of binomial outcomes and E
F(Q-hat), E D are finite sums, exact to rounding. A bound below such a sum is
wrong, whatever the sample size. Levels: a plain recursive sampler draws each
level of a compiled schedule in every state; its mean must lie in the claimed
bias interval up to five standard errors (false alarm below 1e-6 a check), its
variance and range within their claims.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import binom

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.kinds import KINDS, Kind
from smoothcruiser.schedule.verify.sharp import row_moments
from smoothcruiser.theory import noise as noise_bounds
from smoothcruiser.theory.analysis import ground
from smoothcruiser.theory.moments import Moments, backup, constant, plug_in

# --- the lemmas, exactly ------------------------------------------------------

OPERATORS = [
    sc.Entropy(0.3),
    sc.Entropy(1.0),
    sc.KL(0.5),
    sc.KL(0.4, (0.2, 0.3, 0.5)),
    sc.Sparsemax(0.7319),
    sc.SquareRoot(0.6),
    sc.Max(),
]


def outcomes(probabilities: list[float], n: int) -> tuple[np.ndarray, np.ndarray]:
    """(weights, noise) of all binomial outcomes: noise has shape (outcomes, K),
    the mean of n Bernoulli draws minus p.
    """
    axes = [np.arange(n + 1)] * len(probabilities)
    grids = np.array(list(itertools.product(*axes)))
    weight = np.prod(
        [binom.pmf(grids[:, a], n, p) for a, p in enumerate(probabilities)], axis=0
    )
    return weight, grids / n - np.array(probabilities)


def variants(k: int) -> list[tuple[list[float], list[float]]]:
    """Bernoulli parameters and gaps of Q: symmetric, skewed, unequal noise;
    equal and separated actions.
    """
    laws = [[0.5] * k, [0.25] * k, [0.1] * k, [0.9] * k, [0.5] + [0.02] * (k - 1)]
    gaps = [[0.0] * k, [0.3 * a for a in range(k)], [-0.4] + [0.0] * (k - 1)]
    return [(law, gap) for law in laws for gap in gaps]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda o: f"{o.name}-{o.strength}")
@pytest.mark.parametrize("n", [1, 2, 5])
def test_noise_bounds_hold_exactly(operator, n):
    """S1, S2, S4, S5, S9-S11: phi, E D and Var F(Q-hat) are never below the
    exact values, with and without a tilt of the bias.
    """
    for k in (2, 3):
        op = (
            sc.KL(operator.strength)
            if k == 2 and isinstance(operator, sc.KL)
            else operator
        )
        rule = noise_bounds.OperatorRule.of(op, k)
        for law, gap in variants(k):
            weight, noise = outcomes(law, n)
            variance = max(p * (1 - p) for p in law)
            mean = np.array(gap)
            values = np.array([op.value(list(mean + h)) for h in noise])
            centre = op.value(list(mean))
            phi = float(weight @ values) - centre
            assert phi <= noise_bounds.plug_in_noise(rule, n, 1.0, variance) + 1e-12
            spread = float(weight @ (values - weight @ values) ** 2)
            assert (
                spread <= noise_bounds.plug_in_variance(rule, n, 1.0, variance) + 1e-12
            )
            for tilt in (0.0, 0.5):
                truth = mean - tilt * (np.arange(k) % 2)
                loss = weight @ np.array(
                    [remainder(op, truth, mean + h) for h in noise]
                )
                bound = noise_bounds.bregman_noise(rule, n, 1.0, variance, tilt)
                assert float(loss) <= bound + 1e-12


@pytest.mark.parametrize(
    ("temperature", "k", "n", "share"), [(0.5, 2, 40, 0.97), (1.0, 3, 24, 0.88)]
)
def test_entropy_noise_is_nearly_attained(temperature, k, n, share):
    """S11 (two actions) within 3%, S10 (no factor K) within 12%."""
    op = sc.Entropy(temperature)
    weight, noise = outcomes([0.5] * k, n)
    phi = float(weight @ np.array([op.value(list(h)) for h in noise]))
    phi -= op.value([0.0] * k)
    bound = float(
        noise_bounds.plug_in_noise(noise_bounds.OperatorRule.of(op, k), n, 1.0, 0.25)
    )
    assert share * bound <= phi <= bound


def remainder(op, truth, base):
    """D(truth, base)."""
    slope = np.dot(op.gradient(list(base)), np.array(truth) - base)
    return op.value(list(truth)) - op.value(list(base)) - slope


def test_bias_and_noise_do_not_mix():
    """S9: with a tilt as large as the noise E D is within 10% of the bound,
    which lies well below Minkowski's (a + b)^2.
    """
    n, t = 40, 2.0
    weight, noise = outcomes([0.5, 0.5], n)
    tilt = math.sqrt(2 * 0.25 / n)
    losses = np.array([remainder(sc.Entropy(t), [tilt, 0.0], h) for h in noise])
    loss = float(weight @ losses)
    rule = noise_bounds.OperatorRule.of(sc.Entropy(t), 2)
    bound = float(noise_bounds.bregman_noise(rule, n, 1.0, 0.25, tilt))
    assert 0.9 * bound <= loss <= bound
    assert bound < 0.55 * (tilt + tilt) ** 2 / (8 * t)


@pytest.mark.parametrize(
    "operator",
    [
        sc.Entropy(0.5),
        sc.Sparsemax(0.5),
        sc.SquareRoot(0.5),
        sc.KL(0.5, (0.1, 0.2, 0.7)),
    ],
    ids=lambda o: o.name,
)
def test_blind_loss_is_the_maximum(operator):
    """S6: no Q in the box loses more than the bound, and a vertex loses exactly
    that.
    """
    inside = 1.3 * np.random.default_rng(5).random((1000, 3))
    vertices = 1.3 * np.array(list(itertools.product((0, 1), repeat=3)))
    bound, base = noise_bounds.blind_loss(operator, 3, 3, 1.3), np.zeros(3)
    loss, most = (
        max(remainder(operator, q, base) for q in x) for x in (inside, vertices)
    )
    assert loss <= bound + 1e-12
    assert most == pytest.approx(bound, rel=1e-12)


# --- the levels, by simulation ------------------------------------------------


@dataclass(frozen=True)
class Toy:
    """A tabular problem; reward(s, a, z) is paid on arrival."""

    transition: np.ndarray  # (S, K, S)
    reward: np.ndarray  # (S, K, S)
    players: np.ndarray  # (S,) of +1 and -1
    legal: np.ndarray  # (S, K) of bool
    terminal: np.ndarray  # (S,) of bool
    facts: Facts
    # (S,), of bounds on V that depend on the state; None: there are none
    middles: np.ndarray | None = None
    values: dict[int | None, np.ndarray] = field(default_factory=dict)

    def exact(self, remaining: int | None) -> np.ndarray:
        """V with ``remaining`` steps left, by value iteration (to a fixed point
        without a horizon).
        """
        if remaining not in self.values:
            v = np.zeros(len(self.players))
            for _ in range(remaining if remaining is not None else 400):
                paid = self.reward + self.facts.discount * v
                q = np.sum(self.transition * paid, axis=2)
                live = np.flatnonzero(~self.terminal)
                v = np.zeros(len(v))
                v[live] = [self.operate(s, q[s]) for s in live]
            self.values[remaining] = v
        return self.values[remaining]

    def operate(self, s: int, q: np.ndarray) -> float:
        player = 1 if self.players[s] > 0 else 2
        return self.facts.operator.value(list(q[self.legal[s]]), player=player)


def toy(transition, reward, operator, gamma, **options):
    """A Toy with its Facts; options: players, legal, terminal, and any of
    Facts' own.
    """
    states, k, _ = transition.shape
    players = np.array(options.pop("players", np.ones(states)))
    legal = np.array(options.pop("legal", np.ones((states, k), bool)))
    terminal = np.array(options.pop("terminal", np.zeros(states, bool)))
    span = (float(min(reward.min(), 0.0)), float(max(reward.max(), 1.0)))
    options["game"] = bool((players < 0).any())
    options["terminals"] = bool(terminal.any())
    least = int(legal[~terminal].sum(axis=1).min())
    facts = Facts(k, least, gamma, operator, span, **options)
    return Toy(transition, reward, players, legal, terminal, facts)


def coin(operator: sc.Operator, gamma: float, k: int = 2) -> Toy:
    """One state, all actions alike, reward a fair coin: the noise bounds are
    attained.
    """
    transition = np.zeros((3, k, 3))
    transition[:, :, 1] = transition[:, :, 2] = 0.5
    reward = np.zeros((3, k, 3))
    reward[:, :, 1] = 1.0
    return toy(transition, reward, operator, gamma)


def good_bad(operator: sc.Operator, gamma: float) -> Toy:
    """Action 0 leads to the good or the bad state for ever, by a coin; action 1
    does as well: V differs by the whole span.
    """
    transition = np.zeros((3, 2, 3))
    transition[0, :, 1] = transition[0, :, 2] = 0.5
    transition[1, :, 1] = transition[2, :, 2] = 1.0
    reward = np.zeros((3, 2, 3))
    reward[:, :, 1] = 1.0
    return toy(transition, reward, operator, gamma)


def hidden(operator: sc.Operator, gamma: float) -> Toy:
    """A chain whose reward is at its end, behind the right actions: biases pull
    actions apart.
    """
    transition = np.zeros((4, 2, 4))
    for s in range(4):
        transition[s, 0, max(s - 1, 0)] = 1.0
        transition[s, 1, min(s + 1, 3)] = 1.0
    reward = np.zeros((4, 2, 4))
    reward[:, :, 3] = 1.0
    return toy(transition, reward, operator, gamma)


def turns(operator, gamma, **options):
    """Two players, random transitions; strictly alternating or in any order."""
    rng = np.random.default_rng(11)
    players = np.array([1.0, -1.0, 1.0, -1.0])
    transition = rng.random((4, 3, 4)) ** 3
    if options["alternating"]:
        transition *= (players[:, None] != players[None, :])[:, None, :]
    transition /= transition.sum(axis=2, keepdims=True)
    reward = (rng.random((4, 3, 4)) < 0.5).astype(float)
    return toy(transition, reward, operator, gamma, players=players, **options)


def ragged(operator: sc.Operator, gamma: float) -> Toy:
    """Legal actions vary from one to three, and one state ends the episode."""
    rng = np.random.default_rng(3)
    transition = rng.random((4, 3, 4)) ** 3
    transition /= transition.sum(axis=2, keepdims=True)
    reward = (rng.random((4, 3, 4)) < 0.5).astype(float)
    legal = np.array([[1, 1, 1], [1, 0, 0], [1, 0, 1], [1, 1, 1]], bool)
    ends = [False, False, False, True]
    return toy(transition, reward, operator, gamma, legal=legal, terminal=ends)


def bounded(problem: Toy, gap: float) -> Toy:
    """The same problem with bounds ``gap`` apart, V at one end of them or the other:
    their middle is off by as much as it can be.
    """
    exact = problem.exact(None)
    side = np.where(np.arange(len(exact)) % 2, 0.5, -0.5)
    facts = replace(problem.facts, given_gap=gap)
    bottom, top = facts.value_hull()
    lower, upper = exact + gap * (side - 0.5), exact + gap * (side + 0.5)
    middles = 0.5 * (np.maximum(lower, bottom) + np.minimum(upper, top))
    return replace(problem, facts=facts, middles=middles, values={})


def pick(cumulative, chance):
    """The column in which the chance of each row falls."""
    column = (chance[:, None] > cumulative).sum(axis=1)
    return column.clip(max=cumulative.shape[1] - 1)


class Sampler:
    """Draws levels by the definition in ``schedule.schedule``, one recursion a
    level, vectorized over states.
    """

    def __init__(self, problem: Toy, levels: tuple[sc.Level, ...], seed: int):
        self.problem, self.levels = problem, levels
        self.rng = np.random.default_rng(seed)
        self.cumulative = np.cumsum(problem.transition, axis=2)

    def step(self, states, actions):
        chance = self.rng.random(len(states))
        after = pick(self.cumulative[states, actions], chance)
        return self.problem.reward[states, actions, after], after

    def backup(self, child, states, actions):
        reward, after = self.step(states, actions)
        return reward + self.problem.facts.discount * self.draw(child, after)

    def draw(self, index: int, states: np.ndarray) -> np.ndarray:
        level, p = self.levels[index], self.problem
        out = np.zeros(len(states))
        for s in np.unique(states):
            here = np.nonzero(states == s)[0]
            if not p.terminal[s]:
                drawn = self._at(level, int(s), len(here))
                out[here] = drawn + p.players[s] * level.shift
        return out

    def _at(self, level: sc.Level, s: int, m: int) -> np.ndarray:
        p, sign = self.problem, self.problem.players[s]
        if level.kind is sc.Kind.CONSTANT:
            return np.full(m, level.constant)
        if level.kind is sc.Kind.MIDDLE:
            assert p.middles is not None
            return np.full(m, p.middles[s])
        actions = np.nonzero(p.legal[s])[0]
        q = np.zeros((m, len(actions)))
        if level.kind is not sc.Kind.BLIND:
            q = self._means(level, s, m, level.samples)
        if level.kind in (sc.Kind.RANDOM_PLUGIN, sc.Kind.RANDOM_ROLLOUT):
            plain = sc.Kind.PLUGIN if level.continuation < 0 else sc.Kind.ROLLOUT
            base = self._at(replace(level, kind=plain), s, m)
            return base + self._corrections(level, s, m)
        player = 1 if sign > 0 else 2
        operator = p.facts.operator
        value = np.array([operator.value(list(row), player=player) for row in q])
        if level.kind is sc.Kind.PLUGIN:
            return value
        policy = np.array([operator.gradient(list(row), player=player) for row in q])
        chosen = pick(np.cumsum(policy, axis=1), self.rng.random(m))
        onward = self.backup(level.continuation, np.full(m, s), actions[chosen])
        return value - (q * policy).sum(axis=1) + onward

    def _means(self, level: sc.Level, s: int, m: int, samples: int) -> np.ndarray:
        """m times Q-hat over the query of ``level``."""
        actions = np.nonzero(self.problem.legal[s])[0]
        q = np.zeros((m, len(actions)))
        for column, a in enumerate(actions):
            states = np.full(m * samples, s)
            draws = self.backup(level.query, states, np.full(m * samples, a))
            q[:, column] = draws.reshape(m, samples).mean(axis=1)
        return q

    def _corrections(self, level: sc.Level, s: int, m: int) -> np.ndarray:
        """What the rungs add: 0 for most, and rarely a correction over its chance."""
        out = np.zeros(m)
        rung = np.searchsorted(
            np.cumsum(level.rungs), self.rng.random(m), side="right"
        )
        for j, chance in enumerate(level.rungs):
            here = np.nonzero(rung == j)[0]
            if len(here):
                first, second = (
                    self._means(level, s, len(here), 2**j * level.samples)
                    for _ in range(2)
                )
                out[here] = self._correction(level, s, first, second) / chance
        return out

    def _correction(self, level, s, first, second):
        p, sign = self.problem, self.problem.players[s]
        operator = p.facts.operator

        def parts(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """(sign F, policy) in the coordinates of the mover."""
            values = np.array([operator.value(list(sign * row)) for row in q])
            policies = np.array([operator.gradient(list(sign * row)) for row in q])
            return sign * values, policies

        means = (first + second) / 2.0, first, second
        sides = [parts(q) for q in means]
        (middle, left, right) = (value for value, _ in sides)
        if level.continuation < 0:
            return middle - 0.5 * left - 0.5 * right
        heads = [
            value - (q * policy).sum(axis=1)
            for (value, policy), q in zip(sides, means, strict=True)
        ]
        delta = sides[0][1] - 0.5 * sides[1][1] - 0.5 * sides[2][1]
        norm = np.abs(delta).sum(axis=1)
        share = np.abs(delta) / np.where(norm > 0.0, norm, 1.0)[:, None]
        column = pick(np.cumsum(share, axis=1), self.rng.random(len(norm)))
        actions = np.nonzero(p.legal[s])[0]
        states = np.full(len(norm), s)
        onward = self.backup(level.continuation, states, actions[column])
        signed = np.sign(delta[np.arange(len(norm)), column])
        head = heads[0] - 0.5 * heads[1] - 0.5 * heads[2]
        return head + norm * signed * (onward - level.constant)


def misses(problem, draws, s, truth, claim):
    """Which claim the draws of a state leave by more than five standard errors."""
    player, runs = 0 if problem.players[s] > 0 else 1, len(draws)
    error = 5.0 * float(draws.std()) / math.sqrt(runs) + 1e-9
    bias = float(draws.mean()) - truth
    low, high = claim.bias_low[player, 0], claim.bias_high[player, 0]
    if not low - error <= bias <= high + error:
        yield f"bias {bias} of [{low}, {high}] in state {s}"
    fourth = float(((draws - draws.mean()) ** 4).mean())
    if draws.var() > claim.variance[player, 0] + 5.0 * math.sqrt(fourth / runs) + 1e-9:
        yield f"variance {draws.var()} in state {s}"
    lowest, highest = claim.low[player, 0] - 1e-9, claim.high[player, 0] + 1e-9
    if (
        not np.any(claim.rare > 0.0)
        and not lowest <= draws.min() <= draws.max() <= highest
    ):
        yield f"range [{draws.min()}, {draws.max()}] in state {s}"


def check_levels(problem, schedule, budget):
    """Assert bias, variance and range of every level in every state."""
    sampler = Sampler(problem, schedule.levels, seed=1)
    for (index, remaining), claim in row_moments(schedule).items():
        truth = problem.exact(remaining)
        # a few seconds of plain Python; deeper levels are made of the same pieces
        if schedule.level_calls[index] > 400:
            continue
        runs = max(150, min(3000, budget // (1 + schedule.level_calls[index])))
        for s in np.nonzero(~problem.terminal)[0]:
            draws = sampler.draw(index, np.full(runs, s))
            assert not list(misses(problem, draws, s, truth[s], claim)), index


CASES = [
    ("coin", coin(sc.Entropy(0.2), 0.5), 0.2),
    ("coin, strong", coin(sc.Entropy(3.0), 0.5), 0.05),
    ("coin, five actions", coin(sc.Entropy(0.5), 0.3, k=5), 0.1),
    ("coin, max", coin(sc.Max(), 0.3), 0.2),
    ("good or bad", good_bad(sc.Entropy(0.5), 0.5), 0.15),
    ("good or bad, sparsemax", good_bad(sc.Sparsemax(1.9137), 0.5), 0.15),
    ("good or bad, square root", good_bad(sc.SquareRoot(4.0), 0.5), 0.15),
    ("hidden reward", hidden(sc.Entropy(1.0), 0.6), 0.12),
    ("hidden reward, mellowmax", hidden(sc.KL(2.0), 0.6), 0.12),
    ("alternating game", turns(sc.Entropy(1.0), 0.5, alternating=True), 0.15),
    ("game", turns(sc.Entropy(1.0), 0.5, alternating=False), 0.15),
    ("game, sparsemax", turns(sc.Sparsemax(1.9137), 0.4, alternating=False), 0.15),
    ("ragged", ragged(sc.Entropy(1.0), 0.5), 0.15),
    ("ragged, max", ragged(sc.Max(), 0.4), 0.2),
    ("good or bad, bounds", bounded(good_bad(sc.Entropy(0.5), 0.5), 0.5), 0.05),
    ("ragged, bounds", bounded(ragged(sc.Entropy(1.0), 0.5), 0.8), 0.1),
    (
        "game, bounds",
        bounded(turns(sc.Entropy(1.0), 0.5, alternating=False), 0.8),
        0.1,
    ),
    ("game, horizon", turns(sc.Entropy(1.0), 1.0, alternating=False, horizon=3), 0.15),
]


PLAIN = frozenset(kind for kind in sc.Kind if not KINDS[kind].randomized)


@lru_cache(maxsize=32)
def compiled(facts: Facts, share: float) -> sc.Schedule:
    promise = {"epsilon": share * facts.value_span(), "delta": 0.1}
    return compile_schedule(facts, **promise, adaptive=False, kinds=PLAIN)


@pytest.mark.parametrize("name, problem, share", CASES, ids=[c[0] for c in CASES])
def test_levels_keep_their_claims(name, problem, share):
    """Section 3: bias, variance and range of every level of the compiled
    schedule, in every state.
    """
    check_levels(problem, compiled(problem.facts, share), budget=5_000)


def test_every_kind_is_simulated():
    """The cases above are no empty promise: together they contain every kind of
    level, in MDPs and in games.
    """
    seen: dict[bool, set[sc.Kind]] = {False: set(), True: set()}
    for _, problem, share in CASES:
        schedule = compiled(problem.facts, share)
        seen[problem.facts.game] |= {level.kind for level in schedule.levels}
    assert seen[False] == PLAIN
    assert seen[True] >= {sc.Kind.CONSTANT, sc.Kind.BLIND, sc.Kind.MIDDLE}


def test_forgetting_the_recentring_is_seen():
    """A plug-in over the coin overestimates by phi: without its shift the mean
    leaves the claimed interval, with it it does not.
    """
    facts = coin(sc.Max(), 0.0).facts
    base = ground(facts)
    n = np.array([4.0])
    claim = plug_in(base, backup(base, constant(base, None), None), n)
    middle = sc.Level(sc.Kind.CONSTANT, constant=0.5)
    for shift, inside in ((float(claim.shift[0]), True), (0.0, False)):
        problem, levels = (
            coin(sc.Max(), 0.0),
            (middle, sc.Level(sc.Kind.PLUGIN, 4, 0, shift=shift)),
        )
        draws = Sampler(problem, levels, seed=2).draw(1, np.zeros(4000, dtype=int))
        told = " ".join(misses(problem, draws, 0, 0.5, claim))
        assert ("bias" not in told) == inside


RUNS = 700
RUNGS = (0.3, 0.15, 0.05)


def table(problem, kind, first=1):
    """A constant, a rollout or plug-in over it, and two randomized levels over both."""
    base = ground(problem.facts)
    smooth = problem.facts.curvature < math.inf
    levels: list[sc.Level] = []
    made: list[Moments] = []

    def add(level: sc.Level):
        query, onward = (
            backup(base, made[child], None) if child >= 0 else None
            for child in (level.query, level.continuation)
        )
        n = np.array([float(level.samples)])
        estimator = KINDS[level.kind]
        moments = estimator.of_row(base, level, n, None, query, onward, None)
        levels.append(estimator.finish_row(level, moments))
        made.append(moments)

    add(sc.Level(Kind.CONSTANT))
    add(sc.Level(Kind.ROLLOUT, 2, 0, 0) if smooth else sc.Level(Kind.PLUGIN, 2, 0))
    onward = 1 if kind == Kind.RANDOM_ROLLOUT else -1
    add(sc.Level(kind, first, 1, onward, rungs=RUNGS))
    if (
        kind == Kind.RANDOM_ROLLOUT
    ):  # a chain: corrections that continue at corrections
        add(sc.Level(kind, first, 1, 2, rungs=RUNGS))
        add(sc.Level(Kind.ROLLOUT, 2, 1, 3))
    return levels, made


def check_level(problem, sampler, index, claim, runs=RUNS):
    truth = problem.exact(None)
    for s in np.nonzero(~problem.terminal)[0]:
        draws = sampler.draw(index, np.full(runs, s))
        assert not list(misses(problem, draws, s, truth[s], claim))


RANDOMIZED = {
    "coin": coin(sc.Entropy(0.5), 0.5),
    "coin, ten actions": coin(sc.Entropy(1.0), 0.4, k=10),
    "good or bad": good_bad(sc.Entropy(0.5), 0.5),
    "good or bad, sparsemax": good_bad(sc.Sparsemax(1.9137), 0.5),
    "good or bad, square root": good_bad(sc.SquareRoot(2.0), 0.5),
    "hidden reward, KL": hidden(sc.KL(1.0, (0.3, 0.7)), 0.6),
    "alternating game": turns(sc.Entropy(0.7), 0.5, alternating=True),
    "game": turns(sc.Entropy(0.7), 0.5, alternating=False),
    "ragged": ragged(sc.Entropy(0.7), 0.5),
}


SLOW = {"coin, ten actions", "alternating game", "good or bad, square root"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(x, marks=[pytest.mark.slow] if x in SLOW else [])
        for x in RANDOMIZED
    ],
)
@pytest.mark.parametrize("kind", [Kind.RANDOM_ROLLOUT, Kind.RANDOM_PLUGIN])
def test_randomized_levels_keep_their_claims(kind, name):
    problem = RANDOMIZED[name]
    levels, made = table(problem, kind)
    sampler = Sampler(problem, tuple(levels), seed=5)
    for index in range(2, len(levels)):
        check_level(problem, sampler, index, made[index], RUNS // index)


def test_a_randomized_plug_in_serves_plain_max():
    problem = coin(sc.Max(), 0.4, k=3)
    levels, made = table(problem, Kind.RANDOM_PLUGIN)
    sampler = Sampler(problem, tuple(levels), seed=2)
    check_level(problem, sampler, 2, made[2])
