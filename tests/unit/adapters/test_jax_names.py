"""gymnax and Pgx by name, without JAX: parsing, refusals, tables.

Laws: a game of hidden information is refused by its name, with the reason, whether the
library is there or not; where it is not, the message names the extra; the ranges that the
tables claim follow from the parameters they are computed from.
"""

import math
import sys
from types import SimpleNamespace

import pytest

import smoothcruiser as sc
from smoothcruiser.adapters.gymnax.task_ranges import known_range, meanings
from smoothcruiser.adapters.pgx.known_games import GAMES, HIDDEN, unknown

HERE = {"discount": 0.9, "operator": "max"}
ROOT = "smoothcruiser"


@pytest.fixture
def without(monkeypatch):
    """Neither library, nor JAX."""
    for name in ("gymnax", "pgx", "jax"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("jax", "worlds", "trees"):
        monkeypatch.delitem(
            sys.modules, f"{ROOT}.problem.batched.{name}", raising=False
        )
    for name in ("gymnax.tasks", "pgx.boards"):
        monkeypatch.delitem(sys.modules, f"{ROOT}.adapters.{name}", raising=False)


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_information_is_refused_by_name(name, without):
    with pytest.raises(sc.InvalidInput, match=f"{name} of Pgx .* it hides") as caught:
        sc.make(f"pgx:{name}", **HERE)
    assert all(game in str(unknown("ludo")) for game in GAMES)
    assert "\n" not in str(caught.value)


def test_what_would_be_downloaded_is_refused_by_name(without):
    with pytest.raises(sc.InvalidInput, match="downloads"):
        sc.make("gymnax:MNISTBandit-bsuite", **HERE)


@pytest.mark.parametrize("adapter", ["gymnax", "pgx"])
def test_only_what_there_is_can_be_imported_from_an_adapter(adapter, without):
    module = getattr(__import__(f"smoothcruiser.adapters.{adapter}").adapters, adapter)
    with pytest.raises(AttributeError, match="no attribute 'problems'"):
        _ = module.problems
    with pytest.raises(sc.MissingExtra):
        _ = module.problem


def test_ranges_follow_from_parameters():
    torque = SimpleNamespace(max_speed=8.0, max_torque=2.0)
    low, high = known_range("Pendulum-v1", None, torque, [0.0])
    assert -low == pytest.approx(math.pi**2 + 6.4 + 0.004, rel=2e-5)
    assert -low >= math.pi**2 + 6.4 + 0.004
    assert high == 0.0
    noisy = SimpleNamespace(deterministic=False, unscaled_move_cost=0.01)
    sure = SimpleNamespace(deterministic=True, unscaled_move_cost=0.01)
    sea = SimpleNamespace(size=8)
    assert known_range("DeepSea-bsuite", sea, noisy, []) is None
    low, high = known_range("DeepSea-bsuite", sea, sure, [])
    assert low < -0.01 / 8 < 0 < 1 <= high
    maze = SimpleNamespace(reward=10.0, punishment=-1.0)
    low, high = known_range("MetaMaze-misc", None, maze, [])
    assert low < -1 < 10 < high
    dense = SimpleNamespace(dense_reward=True)
    assert known_range("PointRobot-misc", None, dense, []) is None
    assert known_range("GaussianBandit-misc", None, None, []) is None
    assert known_range("", None, None, []) is None
    farthest = known_range("MountainCarContinuous-v0", None, None, [-0.5, 2.0])
    assert farthest[0] == pytest.approx(-0.4, rel=2e-5)


def test_actions_have_names():
    assert meanings("CartPole-v1", None, 2) == ("push left", "push right")
    assert meanings("CartPole-v1", None, 3) is None
    game = SimpleNamespace(action_set=[0, 1, 3])
    assert meanings("Breakout-MinAtar", game, 3) == ("no-op", "left", "right")
    assert meanings("Pendulum-v1", None, 3) is None
