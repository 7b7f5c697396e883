"""``evaluate(value=W)``: whatever W is, the mean of a path is the value of the policy.

Means are exact: every path of a small world is played, with every number of its stream
and every length, and weighed with its probability.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

import smoothcruiser as sc
from smoothcruiser.errors import InvalidInput
from smoothcruiser.evaluation.critics import read_critic
from smoothcruiser.evaluation.evaluate import rollout_setting
from smoothcruiser.evaluation.path_fitting import Fit, Stakes, Worth
from smoothcruiser.evaluation.path_rules import LOWER, UPPER, X
from smoothcruiser.evaluation.plain_rollouts import PlainRollouts
from smoothcruiser.evaluation.rollouts import RolloutTask

DEPTH = 3  # steps after which everything has ended
HALVES = (0.25, 0.75)  # the numbers of a scripted stream: one half each


class Script:
    """A stream whose numbers are tried one after the other."""

    def __init__(self):
        self.numbers, self.place = [], 0

    def random(self):
        if self.place == len(self.numbers):
            self.numbers.append(0)
        self.place += 1
        return HALVES[self.numbers[self.place - 1]]

    def next_path(self):
        """Whether there is another path; its numbers, in the order of an odometer."""
        while self.numbers and self.numbers[-1] == 1:
            self.numbers.pop()
        if self.numbers:
            self.numbers[-1] = 1
        self.place = 0
        return bool(self.numbers)


class TinyWorld:
    """States (depth, place); two outcomes per pair; a random policy, value and critic."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.horizon = DEPTH if seed % 3 == 0 else None
        self.discount = (0.3, 0.8, 0.95)[seed % 5 % 3]
        self.low, self.high = -2.0 * (seed % 2), 1.0 + seed % 4
        self.operator = (sc.Max(), sc.Entropy(0.3), sc.Sparsemax(0.5))[seed % 7 % 3]
        self.game = seed % 4 == 1
        self.laws, self.policies, self.critic = {}, {}, {}
        facts = {
            "num_actions": 2,
            "discount": self.discount,
            "operator": self.operator,
            "initial_state": (0, 0),
            "reward_range": (self.low, self.high),
            "horizon": self.horizon,
            "outcomes": self.outcomes if seed % 2 else None,
        }
        if self.horizon is None or seed % 2:
            facts["terminal"] = lambda state: state[1] == 3 or state[0] == DEPTH
        if self.game:
            self.problem = sc.Game(self.step, player=self.player, **facts)
        else:
            self.problem = sc.MDP(self.step, **facts)
        self.ends = "terminal" in facts

    def player(self, state):
        return 1 + (state[0] + state[1]) % 2

    def law(self, state, action):
        """Two outcomes of one half each."""
        if (state, action) not in self.laws:
            places = self.rng.integers(0, 4 if self.ends else 3, 2)
            rewards = self.rng.uniform(self.low, self.high, 2)
            self.laws[state, action] = [
                (float(r), (state[0] + 1, int(z)))
                for r, z in zip(rewards, places, strict=True)
            ]
        return self.laws[state, action]

    def outcomes(self, state, action):
        return [(0.5, r, z) for r, z in self.law(state, action)]

    def step(self, state, action, rng):
        return self.law(state, action)[int(rng.random() >= 0.5)]

    def policy(self, state):
        """One of three distributions whose sums a scripted stream can tell apart."""
        if state not in self.policies:
            rows = ([1.0, 0.0], [0.0, 1.0], [0.5, 0.5])
            self.policies[state] = rows[self.rng.choice(3, p=[0.4, 0.4, 0.2])]
        return self.policies[state]

    def value(self, state):
        """V_pi by recursion."""
        if state[0] == DEPTH or (self.ends and state[1] == 3):
            return 0.0
        shares = np.array(self.policy(state))
        sign = 1.0 if not self.game or self.player(state) == 1 else -1.0
        gains = [
            np.mean([r + self.discount * self.value(z) for r, z in self.law(state, a)])
            for a in range(2)
        ]
        return float(shares @ gains) - sign * self.operator.omega(
            shares.tolist(), [0.5, 0.5]
        )

    def guess(self, state):
        """W: any numbers at all, also where nothing is left."""
        if state not in self.critic:
            self.critic[state] = float(self.rng.normal(0.0, 3.0))
        return self.critic[state]


def play_all(world, critic, rule):
    """(probabilities, samples) of all paths of a rule."""
    problem = world.problem
    task = RolloutTask(problem, (0, 0), rollout_setting(problem, 99), 0, critic=critic)
    rollouts = PlainRollouts(task, lambda: lambda state, action: world.policy(state))
    chances, rows = [], []
    first = DEPTH if rule.fixed else rule.head + 1
    for length in range(first, max(first, DEPTH) + 1):
        alive = rule.discount ** (length - rule.head - 1)
        chance = alive if length >= DEPTH else alive * (1.0 - rule.discount)
        rollouts.coins = Coins(rule, length)
        script = rollouts.rng = Script()
        while True:
            rows.append(rollouts.run_paths(1, 10**9, rule)[0])
            chances.append((1.0 if rule.fixed else chance) * 0.5**script.place)
            script.numbers = script.numbers[: script.place]
            if not script.next_path():
                break
    return np.array(chances), np.array(rows)


class Coins:
    """Coins by which a path has this length."""

    def __init__(self, rule, length):
        self.number = 1.0 - rule.discount ** (length - rule.head - 0.5)

    def random(self):
        return self.number


def rules_of(world, critic):
    """Rules that a run may use for the world: each head, with far cuts and near ones."""
    is_exact = world.problem.outcomes is not None
    start = critic.value_at((0, 0))
    stakes = Stakes(world.problem, world.horizon, Worth(start, is_exact))
    truth = world.value((0, 0))
    for head in (0, 1, DEPTH):
        if head == DEPTH and world.horizon is None:
            continue
        fit = Fit(0.7, truth, 0.5, 2.0)
        rule = stakes.rule(head, fit, 100.0, 3.0)
        yield stakes, rule, truth
        if rule.fixed and not rule.from_start:
            continue  # nothing is cut where all rewards are added up
        lowest = min(truth, rule.control + start)
        highest = max(truth, rule.control + start)
        near = rule._replace(floor=lowest - 0.2, ceiling=highest + 0.2)
        yield stakes, near, truth


def test_the_mean_is_the_value_in_110_worlds():
    """Five facts of each rule: the mean of X, cuts to their sides, the range, the end."""
    cut_lower = cut_upper = num_rules = num_exact = 0
    for seed in range(110):
        world = TinyWorld(seed)
        critic = read_critic(world.problem, world.guess)
        for stakes, rule, truth in rules_of(world, critic):
            chances, rows = play_all(world, critic, rule)
            assert chances.sum() == pytest.approx(1.0, abs=1e-12)
            x, lower, upper = (chances @ rows[:, c] for c in (X, LOWER, UPPER))
            assert x == pytest.approx(truth, abs=1e-11), (seed, rule)
            assert lower <= truth + 1e-11
            assert upper >= truth - 1e-11
            bottom, top = stakes.range_of(rule)
            assert bottom <= rows[:, LOWER].min() + 1e-12, (seed, rule)
            assert rows[:, UPPER].max() <= top + 1e-12, (seed, rule)
            cut_lower += lower < truth - 1e-6
            cut_upper += upper > truth + 1e-6
            num_rules, num_exact = num_rules + 1, num_exact + rule.from_start
    assert min(cut_lower, cut_upper) > 80
    assert num_exact > 150
    assert num_rules > 400


def variance(world, guess, is_exact):
    critic = read_critic(world.problem, guess)
    worth = Worth(critic.value_at((0, 0)), is_exact)
    stakes = Stakes(world.problem, None, worth)
    rule = stakes.rule(0, Fit(0.0, 0.0, 1.0, 2.0), 100.0, 3.0)
    rule = rule._replace(floor=-math.inf, ceiling=math.inf, worth_low=-9, worth_high=9)
    chances, rows = play_all(world, critic, rule._replace(from_start=is_exact))
    mean = chances @ rows[:, X]
    return chances @ (rows[:, X] - mean) ** 2, mean


def test_an_error_of_the_critic_costs_its_own_square():
    """Prop. 2a: W = V_pi leaves sum d sigma^2; W = V_pi + c at states that are no ends
    adds gamma (1 - gamma) sum d E[c^2 where z is no end] and moves no mean. Where the law
    is known and the policy draws no lots, W = V_pi leaves nothing at all.
    """
    world = TinyWorld(35)
    assert world.horizon is None
    world.problem = sc.MDP(
        world.step,
        num_actions=2,
        discount=world.discount,
        operator=sc.Max(),
        initial_state=(0, 0),
        reward_range=(world.low, world.high),
        outcomes=world.outcomes,
        terminal=lambda state: state[0] == DEPTH,
    )
    world.operator, world.game, world.ends = sc.Max(), False, False
    world.laws, world.policies = {}, {}
    least, mean = variance(world, world.value, False)
    assert mean == pytest.approx(world.value((0, 0)), abs=1e-12)
    gamma, c = world.discount, 1.5
    more, moved = variance(world, lambda state: world.value(state) + c, False)
    assert moved == pytest.approx(mean, abs=1e-12)
    alive = sum(gamma**t for t in range(DEPTH - 1))  # discounted visits of z, no ends
    assert more - least == pytest.approx(gamma * (1 - gamma) * alive * c**2, abs=1e-12)
    world.policies = {state: [1.0, 0.0] for state in world.policies}
    nothing, exact_mean = variance(world, world.value, True)
    assert nothing == pytest.approx(0.0, abs=1e-20)
    assert exact_mean == pytest.approx(world.value((0, 0)), abs=1e-12)


def ring_of(size=40, gamma=0.95):
    """A ring of seasons, one of ten steps stands still. Table and values."""
    P, places = np.zeros((size, 1, size)), np.arange(size)
    P[places, 0, places], P[places, 0, (places + 1) % size] = 0.1, 0.9
    R = np.cos(2.0 * np.pi * places / size)[:, None]
    facts = {"discount": gamma, "operator": sc.Max(), "reward_range": (-1.0, 1.0)}
    values = np.linalg.solve(np.eye(size) - gamma * P[:, 0], R[:, 0])
    return sc.tabular(P, R, **facts), values


@pytest.mark.compiles
def test_every_form_is_one_critic_compiled_and_interpreted_and_helps():
    """Array, dict, function, batch and solution: the same bits; a third of the error."""
    problem, values = ring_of()
    forms = [values, dict(enumerate(values)), lambda s: values[s]]
    forms.append(sc.batched(lambda states: values[states]))
    policy, facts = np.ones((40, 1)), {"state": 20, "budget": 3000}
    answers = [
        sc.evaluate(problem, policy, value=form, executor=executor, **facts)
        for form in forms
        for executor in ("compiled", "reference")
    ]
    assert len({(a.interval, a.value) for a in answers}) == 1
    low, high = answers[0].interval
    assert low <= values[20] <= high
    solved = sc.evaluate(problem, policy, value=sc.solve(problem), **facts)
    assert solved.interval == pytest.approx((low, high), rel=1e-6)
    bare = sc.evaluate(problem, policy, **facts)
    assert bare.standard_error > 3.0 * answers[0].standard_error
    assert bare.interval[1] - bare.interval[0] > 1.2 * (high - low)


def test_a_bad_critic_is_refused_by_name():
    world = TinyWorld(35)
    evaluate = lambda value: sc.evaluate(  # noqa: E731
        world.problem, world.policy, value=value, budget=200
    )
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidInput, match=r"finite number .* nan at state \(1, "):
        evaluate(lambda state: math.nan if state[0] else 0.0)
    with pytest.raises(InvalidInput, match="different answers"):
        evaluate(lambda state: rng.random())
    with pytest.raises(InvalidInput, match="has no horizon"):
        evaluate(lambda state, steps_left: 0.0)
    with pytest.raises(InvalidInput, match="value must be a number, a function"):
        evaluate(object())


def rare_world():
    """A ring of five states; a breakdown of probability .0008 costs 90 a step until
    repair. (Table, policy, its exact values.)
    """
    rng, P, R = np.random.default_rng(4), np.zeros((6, 1, 6)), np.zeros((6, 1, 6))
    for state in range(5):
        chance, costs = 0.3 + 0.4 * rng.random(), rng.integers(1, 9, 2)
        for k, share in enumerate((chance, 1.0 - chance)):
            P[state, 0, (state + 1 + k) % 5] = 0.9992 * share
            R[state, 0, (state + 1 + k) % 5] = -costs[k]
        P[state, 0, 5], R[state, 0, 5] = 0.0008, -90.0
    P[5, 0, [5, 0]], R[5, 0, [5, 0]] = (0.9, 0.1), -90.0
    values = np.linalg.solve(np.eye(6) - 0.95 * P[:, 0], (P * R)[:, 0].sum(axis=1))
    facts = {"discount": 0.95, "operator": sc.Max(), "reward_range": (-90.0, 0.0)}
    return sc.tabular(P, R, **facts), np.ones((6, 1)), values


@pytest.mark.compiles
def test_it_covers_where_normal_quantiles_fail():
    """300 runs of 3,000 calls, delta = .1, W without an idea of breakdowns: more than 47
    misses would have probability below 1e-3. The usual 90% interval has them.
    """
    problem, policy, values = rare_world()
    critic = np.full(6, values[:5].mean())
    misses = usual_misses = 0
    for seed in range(300):
        answer = sc.evaluate(
            problem, policy, value=critic, budget=3000, delta=0.1, seed=seed
        )
        misses += not answer.interval[0] <= values[0] <= answer.interval[1]
        usual_misses += abs(answer.value - values[0]) > 1.645 * answer.standard_error
    assert binom.sf(47, 300, 0.1) < 1e-3
    assert misses <= 47 < usual_misses
