"""What an environment shows in a state: what its own step showed there, or a refusal."""

import numpy as np
import pytest

import smoothcruiser as sc

gymnasium = pytest.importorskip("gymnasium")

pytestmark = pytest.mark.compiles

ENVIRONMENTS = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Blackjack-v1"]


class Doubled(gymnasium.ObservationWrapper):
    def observation(self, observation):
        return 2 * observation


class Tripled(gymnasium.Wrapper):
    """Changes what a step shows, where only its step can tell."""

    def step(self, action):
        shown, *more = self.env.step(action)
        return (3 * shown, *more)


class Model:
    """Keeps what it was shown and acts by the sign of its second number."""

    def __init__(self):
        self.seen = []

    def predict(self, observation):
        self.seen.append(observation)
        return int(np.ravel(observation)[1] > 0)


def problem_of(env, **more):
    usual = {"discount": 0.9, "operator": sc.Max()}
    return sc.adapters.gymnasium.problem(env, **usual, **more)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_predict_gets_the_observation_of_the_environment(name):
    env, model = gymnasium.make(name), Model()
    problem = problem_of(env)
    answer = sc.evaluate(problem, model, budget=120)
    assert answer.interval[0] <= answer.value <= answer.interval[1]
    assert all(env.observation_space.contains(shown) for shown in model.seen)


def test_an_observation_is_what_the_step_showed():
    for env in (gymnasium.make("Acrobot-v1"), Doubled(gymnasium.make("CartPole-v1"))):
        problem = problem_of(env)
        rng = sc.jit.random.streams.stream(1)
        _, state, _ = problem.oracle(problem.initial_state, 1, rng)
        after, shown = problem.oracle.shown_last
        assert after is state
        assert np.array_equal(problem.oracle.observe(state), shown)


def test_an_observation_that_cannot_be_computed_is_refused():
    env = Tripled(gymnasium.make("CartPole-v1"))
    problem = problem_of(env, reward_range=(0.0, 1.0))
    with pytest.raises(sc.InvalidInput, match="shows in a state is not known to the"):
        sc.evaluate(problem, Model(), budget=120)
    assert sc.plan(problem, method="uct", budget=40).num_calls > 0


def test_predict_answers_in_the_actions_of_the_environment():
    pushes = [np.array([-2.0], np.float32), np.array([2.0], np.float32)]
    problem = problem_of(gymnasium.make("Pendulum-v1"), actions=pushes)

    class Push:
        strength = 2.0

        def predict(self, observation):
            push = self.strength if observation[1] > 0 else -2.0
            return np.array([push], np.float32)

    agent, model = sc.Agent(problem, Push()), Push()
    up, down = (0.5, 0.0), (-0.5, 0.0)  # angle, speed; the sine is the second number
    assert [agent.act(up), agent.act(down)] == [1, 0]
    model.strength = 0.3
    with pytest.raises(sc.InvalidInput, match="which is none of the 2 actions"):
        sc.Agent(problem, model).act(up)


def test_a_table_of_a_toy_text_needs_no_row_for_the_end_that_was_added():
    name = "gym:FrozenLake-v1,is_slippery=False"
    problem = sc.make(name, discount=0.5, operator="max")
    # right, right, down, down, down, right
    path = {0: 2, 1: 2, 2: 1, 6: 1, 10: 1, 14: 2}
    actions = np.array([path.get(s, 0) for s in range(16)])
    values = np.eye(4)[actions] * 0.7

    class Walker:
        def predict(self, observation, deterministic=False):
            return path[observation], None

    for policy in (actions, values, np.eye(4)[actions], path, Walker()):
        answer = sc.evaluate(problem, policy, budget=4000)
        assert answer.interval[0] <= 0.5**5 <= answer.interval[1]
        assert answer.value == pytest.approx(0.5**5, abs=0.01)
        assert sc.play(sc.Agent(problem, policy), episodes=2).mean_return == 1.0
