"""Agents that follow a policy, and policies as the other player."""

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


def coin(state, action, rng):
    return float(action), state + 1


def walk(**more):
    return mdp(coin, **({"discount": 0.9, "operator": sc.Max()} | more))


def take(state, action, rng):
    """Who takes the last of seven stones wins; 1 or 2 stones per turn."""
    stones, mover = state
    left = stones - 1 - action
    won = 1.0 if mover == 1 else -1.0
    return (won if left <= 0 else 0.0), (max(left, 0), 3 - mover)


def stones():
    return sc.Game(
        take, player=lambda s: s[1], alternating=True, num_actions=2, discount=1.0,
        horizon=8, operator=sc.Max(), initial_state=(7, 1), reward_range=(-1.0, 1.0),
        legal=lambda s, a: a < s[0], terminal=lambda s: s[0] == 0, deterministic=True,
        actions=["one", "two"],
    )  # fmt: skip


def best(state):
    return "one" if state[0] % 3 == 1 else "two" if state[0] % 3 == 2 else 0


def test_an_agent_samples_the_actions_of_its_policy():
    agent = sc.Agent(walk(), lambda s: [0.25, 0.75], seed=3)
    summary = sc.play(agent, episodes=100, steps=10, seed=1)
    assert 0.70 <= summary.mean_return / 10 <= 0.80  # 1,000 lots, s.d. 0.014
    assert agent.estimate.policy == (0.25, 0.75)
    assert agent.policy(5) == (0.25, 0.75)


def test_a_function_with_a_stream_draws_anew_at_every_decision():
    agent = sc.Agent(walk(), lambda s, rng: int(rng.random() < 0.75), seed=3)
    summary = sc.play(agent, episodes=100, steps=10, seed=1)
    assert 0.70 <= summary.mean_return / 10 <= 0.80
    with pytest.raises(sc.InvalidInput, match="has no fixed probabilities"):
        agent.policy(0)


@pytest.mark.parametrize("form", ["label", "dict", "three arguments"])
def test_the_other_player_may_be_any_policy(form):
    places = {(n, p): best((n, p)) for n in range(1, 8) for p in (1, 2)}
    policy = {
        "label": best,
        "dict": places,
        "three arguments": lambda s, problem, rng: ["one", "two"].index(
            best(s) or "one"
        ),
    }[form]
    weak = sc.Agent(stones(), lambda s: 0)
    summary = sc.play(weak, episodes=4, opponent=policy, side=2)
    assert summary.losses == 4  # 7 = 1 mod 3 wins for who begins
    strong = sc.play(sc.Agent(stones(), best), episodes=4, opponent=policy, side=1)
    assert strong.wins == 4


def test_a_problem_and_a_policy_are_played_as_an_agent_is():
    summary = sc.play(walk(), lambda s: 1, episodes=2, steps=3)
    assert (summary.mean_return, summary.method) == (3.0, "policy")
    with pytest.raises(sc.InvalidInput, match="an Agent, or a Problem and a policy"):
        sc.play(sc.Agent(walk(), lambda s: 1), lambda s: 0, episodes=2)


def test_what_a_policy_has_no_use_for_is_refused():
    with pytest.raises(sc.InvalidInput, match="policy does not use budget"):
        sc.Agent(walk(), lambda s: 1, budget=100)
    with pytest.raises(
        sc.InvalidInput, match="certify= belongs to a method that plans"
    ):
        sc.Agent(walk(), lambda s: 1, certify=True)
    with pytest.raises(sc.InvalidInput, match="takes no time limit"):
        sc.Agent(walk(), lambda s: 1, seconds_total=1.0)
    tree = sc.Tree(walk(), method="uct").grow(simulations=5)
    for answer in (tree, tree.estimate()):
        with pytest.raises(sc.InvalidInput, match="knows its own place alone"):
            sc.Agent(walk(), answer)
    sampled = sc.MDP(
        coin, sample_action=lambda s, rng: rng.random(), discount=0.5, operator=sc.Max(),
        initial_state=0,
    )  # fmt: skip
    with pytest.raises(sc.InvalidInput, match="this problem samples its actions"):
        sc.Agent(sampled, lambda s: 0.3)


def test_objects_that_act_name_continuous_actions():
    class Control:
        def predict(self, observation, state=None, deterministic=False):
            return np.array(0.25 * observation if deterministic else 9.0), None

    problem = sc.MDP(
        lambda x, u, rng: (float(u), x), sample_action=lambda x, rng: rng.random(),
        discount=0.5, horizon=2, operator=sc.Max(), initial_state=1.0, deterministic=True,
    )  # fmt: skip
    assert sc.evaluate(problem, Control(), budget=100).value == pytest.approx(0.375)
