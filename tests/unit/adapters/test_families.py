"""Families of environments by name: ALE, MiniGrid, Box2D.

Laws: Box2D is refused by name whether or not it is installed; a missing package is
named with its extra; where it is installed, a name works without an import.
"""

import sys

import pytest

import smoothcruiser as sc

pytest.importorskip("gymnasium")
pytestmark = pytest.mark.compiles
OPTIONS = {"discount": 0.9, "operator": "max"}


@pytest.mark.parametrize("name", ["LunarLander-v3", "CarRacing-v3"])
def test_box2d_is_refused_by_name(name):
    with pytest.raises(sc.InvalidInput, match=f"{name} runs on Box2D, whose bodies"):
        sc.make(f"gym:{name}", **OPTIONS)


@pytest.mark.parametrize(
    "name, module, extra",
    [
        ("ALE/Pong-v5", "ale_py", "ale"),
        ("MiniGrid-Empty-5x5-v0", "minigrid", "minigrid"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(name, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(sc.MissingExtra, match=rf"pip install 'smoothcruiser\[{extra}"):
        sc.make(f"gym:{name}", **OPTIONS)


@pytest.mark.slow
def test_minigrid_by_name():
    pytest.importorskip("minigrid")
    grid = sc.make("gym:MiniGrid-Empty-5x5-v0,deterministic=true", **OPTIONS)
    assert grid.reward_range == (0.0, 1.0)
    assert grid.labels(grid.initial_state)[:3] == ("left", "right", "forward")
    assert sc.check(grid, epsilon="50%").ok
    # forward, forward, right, forward, forward: 1 - 0.9 * 5 / 100 after four discounts
    found = sc.plan(grid, method="certified", epsilon=0.05, delta=0.1)
    assert found.interval[0] <= 0.9**4 * (1 - 0.9 * 5 / 100) <= found.interval[1]


@pytest.mark.slow
def test_ale_by_name():
    pytest.importorskip("ale_py")
    name = "gym:ALE/Pong-v5,reward_low=-1,reward_high=1,repeat_action_probability=0"
    pong = sc.make(name, **OPTIONS)
    assert pong.labels(pong.initial_state)[0] == "NOOP"
    assert sc.plan(pong, method="uct", budget=60).num_calls <= 60
