"""The readable program of one path keeps the theorems, and the machine computes the same.

Eight small worlds: ends, legal sets, five operators, a prior, games, keys, cuts, full
layers, mirrors, tails, killed paths, policies by lookahead.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from gap_reference import PathReference

import smoothcruiser as sc
from smoothcruiser.duality.machines.gap_rules import (
    INNER_CALLS,
    LOWER,
    NODES,
    NOISE_CALLS,
    POLICY_UPPER,
    UPPER,
    GapRule,
    upper_columns,
    walk_columns,
)
from smoothcruiser.jit.random.mirrored_streams import first_words

pytestmark = pytest.mark.compiles
MAIN = 1  # the part of a run that is not its pilot
FOREVER = 40  # rows of ``times``: more than any path has steps here


def step(state, action, rng):
    """Levels 0..3 that the action moves, and a price that it does not."""
    level, price = state
    noise, luck = rng.normal(), rng.random()
    reward = 0.2 * level - 0.3 * action + price * (action == 2) + 0.1 * luck
    after = (level + action) % 4, max(-1.0, min(1.0, 0.6 * price + 0.4 * noise))
    return max(-2.0, min(2.0, reward)), after, luck < 0.1 * (1 + action)


def endless(state, action, rng):
    return step(state, action, rng)[:2]


def legal(state, action):
    return action != 1 or state[0] % 2 == 0


def player(state):
    return 1 + state[0] % 2


def far_key(state):
    """States that differ in the sign of the price count as one."""
    return state[0], abs(state[1])


def mirrored_step(state, action, rng):
    """A step to which the sign of the price is nothing: ``far_key`` is true of it."""
    level, price = state
    sign = 1.0 if (rng.random() < 0.5) == (action == 0) else -1.0
    size = min(1.0, 0.6 * abs(price) + 0.3 * rng.random())
    return 0.2 * level - abs(price) * action, ((level + action) % 4, sign * size)


def critic(state, steps_left):
    return 0.7 * state[0] + state[1] + 0.1 * (0 if steps_left is None else steps_left)


def policy(state):
    p = 0.2 + 0.1 * state[0]
    return [p, 0.0, 1.0 - p] if state[0] % 2 else [p, 0.3, 0.7 - p]


def signed_policy(state):
    """A policy that tells states apart which ``far_key`` merges: walks go on in them."""
    return [0.1, 0.2, 0.7] if state[1] > 0.0 else [0.6, 0.4, 0.0]


@dataclass
class Case:
    """A problem, and the rule of its paths."""

    oracle: Any = step
    operator: Any = field(default_factory=sc.Max)
    head: int = 4
    more: dict[str, Any] = field(default_factory=dict)
    rule: dict[str, Any] = field(default_factory=dict)
    policy: Any = field(default_factory=lambda: policy)
    is_game: bool = False

    def problem(self):
        horizon = self.head if self.rule.get("ends_at_horizon", True) else None
        words = {"terminal": True} if self.oracle is step else {}
        words |= {"player": player} if self.is_game else {}
        return (sc.Game if self.is_game else sc.MDP)(
            self.oracle,
            num_actions=3,
            discount=0.8,
            operator=self.operator,
            reward_range=(-2.0, 2.0),
            initial_state=(0, 0.25),
            horizon=horizon,
            **(words | self.more),
        )

    def path_rule(self, **changes):
        own = {"discount": 0.8, "head": self.head, "num_inner": 2, **self.rule}
        return GapRule(**(own | changes))

    def times(self):
        """Bounds that hold for every policy, and a clip that bites."""
        rows = np.tile([-1.0, 2.5, -20.0, 20.0, -20.0, 20.0], (FOREVER, 1))
        return rows + 0.01 * np.arange(FOREVER)[:, None]


LOOKS = {"num_lookahead": 2}
TAIL = {"ends_at_horizon": False}
CUTS = {"upper_cut": 0.5, "lower_cut": 0.3}
CASES = {
    "max, ends": Case(),
    "entropy, legal sets": Case(endless, sc.Entropy(0.3), more={"legal": legal}),
    "sparsemax, killed": Case(
        operator=sc.Sparsemax(0.5), head=2, rule={"fixed": False, **TAIL}
    ),
    "game": Case(operator=sc.Entropy(0.2), is_game=True, more={"legal": legal}),
    "game, player 2 relaxed": Case(
        endless, is_game=True, rule={"relaxed": 2, "walks_every_action": True, **CUTS}
    ),
    "key": Case(mirrored_step, policy=signed_policy, more={"key": far_key}),
    "prior, tails, cuts": Case(
        operator=sc.KL(0.4, (0.2, 0.5, 0.3)), rule={**TAIL, **CUTS}
    ),
    "lookahead, mirrors, full layers": Case(
        operator=sc.SquareRoot(0.1),
        policy="lookahead",
        rule={"mirrored": True, "most_nodes": 3, "num_inner": 4, **LOOKS},
    ),
}


def play_reference(case, path, **changes):
    case_policy = case.policy
    return PathReference(
        case.problem(),
        (0, 0.25),
        critic,
        case_policy,
        case.path_rule(**changes),
        case.times(),
        first_words(5, MAIN),
        path,
    ).results()


@pytest.mark.parametrize("name", CASES)
def test_the_machine_computes_the_path_of_the_reference(name):
    machines = pytest.importorskip("smoothcruiser.duality.machines.path_machines")
    case = CASES[name]
    rows = machine_rows(machines, case, 12)
    for path, row in enumerate(rows):
        own = play_reference(case, path)
        assert row[UPPER] == pytest.approx(own["upper"], rel=1e-12)
        assert row[LOWER] == pytest.approx(own["lower"], rel=1e-12)
        assert row[POLICY_UPPER] == pytest.approx(own["policy upper"], rel=1e-12)
        if "key" not in case.more:  # a machine may merge fewer states
            assert row[[NODES, NOISE_CALLS, INNER_CALLS]].tolist() == [
                own["nodes"],
                own["noise calls"],
                own["inner calls"],
            ]
        for columns, part in ((upper_columns, "actions"), (walk_columns, "walks")):
            for action, number in enumerate(row[columns(3)]):
                wanted = own.get(part, {}).get(action, math.nan)
                assert number == pytest.approx(wanted, rel=1e-12, nan_ok=True)


class OwnCritic:
    """W in Python, as machines ask for it."""

    def values(self, states, steps_left):
        return np.array([critic(state, steps_left) for state in states])

    def compiled_parts(self, state_type):
        return None


def machine_rows(machines, case, count):
    def start_walk():
        return lambda state, action: case.policy(state)

    machine = machines.build_machine(
        case.problem(),
        (0, 0.25),
        OwnCritic(),
        machines.LOOKAHEAD if case.policy == "lookahead" else start_walk,
        5,
        compiled=False,
    )
    try:
        return machine.play_paths(0, count, case.path_rule(), case.times(), 10**6)
    finally:
        machine.close()


@pytest.mark.parametrize("relaxed", [1, 2])
def test_the_means_of_the_reference_bracket_the_exact_value(relaxed):
    """A game with a known law: E U is on its side of V, E L is the policies' value."""
    rows = np.array([[[0.7, 0.3], [0.2, 0.8]], [[0.5, 0.5], [0.9, 0.1]]])
    rewards = np.array([[1.0, 0.0], [0.3, -0.5]])

    def known_step(state, action, rng):
        after = int(rng.random() >= rows[state, action, 0])
        return float(rewards[state, action]), after

    game = sc.Game(
        known_step,
        player=lambda state: state + 1,
        num_actions=2,
        discount=0.9,
        operator=sc.Entropy(0.5),
        reward_range=(-0.5, 1.0),
        initial_state=0,
        horizon=3,
    )
    shares, tables = [0.4, 0.6], np.tile([-9.0, 9.0] * 3, (4, 1))
    entropy = -sum(p * math.log(p) for p in shares)
    exact, played = np.zeros(2), np.zeros(2)
    for _ in range(3):
        q, own = rewards + 0.9 * rows @ exact, rewards + 0.9 * rows @ played
        exact = np.array(
            [game.operator.value(q[s].tolist(), player=s + 1) for s in (0, 1)]
        )
        played = own @ shares + 0.5 * entropy * np.array([1.0, -1.0])
    ends = [
        PathReference(
            game,
            0,
            lambda state, left: 1.5 * left - 0.5 * state,
            lambda _: shares,
            GapRule(discount=0.9, head=3, num_inner=1, relaxed=relaxed),
            tables,
            first_words(11, MAIN),
            path,
        ).results()
        for path in range(1500)
    ]
    upper, lower = (np.array([end[k] for end in ends]) for k in ("upper", "lower"))
    error = 4.0 / math.sqrt(len(ends))
    assert abs(lower.mean() - played[0]) < error * lower.std()
    side = 1.0 if relaxed == 1 else -1.0
    assert side * (upper.mean() - exact[0]) > -error * upper.std()


def test_a_key_merges_states_whose_w_differs():
    """Both states of a layer are worth 0, one node stands for them, W says 0 and 5.

    With W of the node in the place of W of the next state, paths would differ.
    """

    def toss(state, action, rng):
        return 0.0, (rng.random() < 0.5) == (action == 0)

    def path_value(path, **words):
        coin = sc.MDP(
            toss,
            num_actions=2,
            discount=1.0,
            operator=sc.Max(),
            initial_state=True,
            horizon=2,
            **words,
        )
        rule, times = GapRule(discount=1.0, head=2), np.tile([-9.0, 9.0] * 3, (3, 1))
        words_0 = first_words(3, MAIN)
        worth = {True: 5.0, False: 0.0}
        return PathReference(
            coin, True, lambda s, _: worth[s], None, rule, times, words_0, path
        ).results()

    ends = [(path_value(p), path_value(p, key=lambda _: 0)) for p in range(40)]
    assert {plain["upper"] - merged["upper"] for plain, merged in ends} == {0.0}
    assert max(plain["nodes"] for plain, _ in ends) == 3
    assert {merged["nodes"] for _, merged in ends} == {2}
    assert {plain["upper"] for plain, _ in ends} == {0.0, 5.0}
