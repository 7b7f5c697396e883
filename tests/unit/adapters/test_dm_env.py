"""``dm_env`` environments and bsuite's experiments.

Laws: a step is the environment's own, under the planner's stream; ends, cut-offs and
discounts are told apart; the environment is left as it is; its value is covered.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from worlds import given_streams

import smoothcruiser as sc

dm_env = pytest.importorskip("dm_env")
pytest.importorskip("gymnasium")
from dm_env import specs  # noqa: E402

adapter = sc.adapters.dm_env

pytestmark = pytest.mark.compiles
OPTIONS = {"discount": 0.5, "operator": sc.Max()}
BY_NAME = {"discount": 0.5, "operator": "max"}


class Slope(dm_env.Environment):
    """Places 0 … 3: action 1 goes up with probability 0.8; the top pays 1 and ends."""

    def __init__(self, own=1.0, cut=False):
        self.own, self.cut, self.place = own, cut, None

    def reset(self):
        self.rng = np.random.RandomState(7)
        self.place = 0
        return dm_env.restart(self.place)

    def step(self, action):
        if self.place is None:
            return self.reset()
        self.place += int(action == 1 and self.rng.random_sample() < 0.8)
        if self.place < 3:
            return dm_env.transition(0.0, self.place, discount=self.own)
        if self.cut:
            return dm_env.truncation(1.0, self.place)
        return dm_env.termination(1.0, self.place)

    def observation_spec(self):
        return specs.DiscreteArray(4)

    def action_spec(self):
        return specs.DiscreteArray(2)

    def reward_spec(self):
        return specs.BoundedArray((), float, 0.0, 1.0)


def value(place):
    """V with discount 0.5: v = 0.8 (r + 0.5 v') + 0.2 * 0.5 v."""
    v = 0.0
    for n in reversed(range(place, 3)):
        v = 0.8 * (float(n == 2) + 0.5 * v) / 0.9
    return v


def running(**options):
    env = Slope(**options)
    env.reset()
    return env


def test_an_interval_covers_the_value_and_the_environment_is_left_alone():
    env, twin = running(), running()
    problem = adapter.problem(env, **OPTIONS)
    assert problem.reward_range == (0.0, 1.0)
    for seed in range(3):
        found = sc.plan(problem, epsilon=0.1, delta=0.1, method="certified", seed=seed)
        assert found.interval[0] <= value(0) <= found.interval[1]
    assert sc.Agent(env, "certified", epsilon=0.2, delta=0.1, **OPTIONS).act() == 1
    env.step(1), twin.step(1)
    there = problem.start(env)
    assert there.env.inside.place == env.place
    assert [env.step(1) for _ in range(4)] == [twin.step(1) for _ in range(4)]


@pytest.mark.parametrize("cut", [False, True])
def test_ends_and_cut_offs_end(cut):
    env = running(cut=cut)
    env.place = 2
    problem = adapter.problem(env, **OPTIONS)
    ends = [problem.oracle(problem.initial_state, 1, rng) for rng in given_streams(50)]
    assert {(reward, over) for reward, _, over in ends} == {(1.0, True), (0.0, False)}


def test_a_discount_of_its_own_is_refused():
    with pytest.raises(sc.OracleError, match=r"a discount of its own \(0.9\)"):
        adapter.problem(running(own=0.9), **OPTIONS)


def test_an_environment_that_was_not_reset_is_reset_in_a_copy():
    env = Slope()
    assert adapter.problem(env, **OPTIONS).initial_state.env.inside.place == 0
    assert env.place is None


def test_classes_by_name(tmp_path, monkeypatch):
    name = f"{__name__}:Slope"
    problem = sc.make(f"dm_env:{name}", discount=0.5, operator="max")
    assert problem.name == f"dm_env:{name}"
    for text, sentence in (
        ("Slope", "have no names; give dm_env:module:Class"),
        (f"{__name__}:Hill", "makes no environment: AttributeError"),
        (f"{name},slope=3", "makes no environment: TypeError"),
    ):
        with pytest.raises(sc.InvalidInput, match=sentence):
            sc.make(f"dm_env:{text}", discount=0.5, operator="max")


def test_the_example_of_the_page_of_worlds():
    page = (Path(__file__).parents[3] / "docs" / "worlds.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    (block,) = (text for text in blocks if "Slope" in text)
    exec(compile(block, "worlds.md", "exec"), {"__name__": "worlds"})


@pytest.mark.slow
def test_bsuite_by_name():
    pytest.importorskip("bsuite")
    name = "bsuite:catch/0,deterministic=true"
    catch = sc.make(name, discount=0.95, operator="max")
    assert catch.facts.reward_range == (-1.0, 1.0)
    found = sc.plan(catch, method="certified", epsilon=0.01, delta=0.1)
    low, high = found.interval
    assert low <= 0.95**8 <= high  # caught at the ninth step


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["catch/0", "cartpole/0", "deep_sea_stochastic/0,reward_low=-9,reward_high=9"],
)
def test_experiments_are_usable(name):
    pytest.importorskip("bsuite")
    assert sc.check(sc.make(f"bsuite:{name}", **BY_NAME), epsilon="50%").ok
    with pytest.raises(sc.InvalidInput, match="did you mean catch/"):
        sc.make("bsuite:catch/99", **BY_NAME)
    with pytest.raises(sc.InvalidInput, match="does not say in which range"):
        sc.make("bsuite:catch_noise/0", **BY_NAME)
