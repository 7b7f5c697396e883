"""The commands ``play`` and ``check`` as a user calls them: answers on standard
output; the refusals are in test_cli_errors.py.
"""

import pytest

pytest.importorskip("gymnasium")

OWN = """
import random
import smoothcruiser as sc

def first(state, problem, rng):
    return problem.legal_actions(state)[0]

def step(state, action, rng):
    return random.random(), state

def problem(discount, temperature):
    facts = {"discount": discount, "operator": sc.Entropy(temperature)}
    return sc.MDP(step, num_actions=2, initial_state=0, **facts)
"""


def test_play_frozen_lake(run):
    lake = "gym:FrozenLake-v1 --discount 0.99 --operator max"
    summary = run(f"play {lake} --episodes 60 --json").data
    assert summary["episodes"] == 60
    # the best policy reaches the goal in 82% of episodes
    assert 0.6 < summary["mean_return"] < 0.95
    assert summary["win_rate"] is None


def test_play_a_game_and_read_the_summary(run):
    pytest.importorskip("pyspiel")
    game = "openspiel:connect_four --discount 0.99 --operator max --episodes 2"
    done = run(f"play {game} --method uct --budget 500")
    assert done.code == 0, done.err
    assert "win rate" in done.out
    assert "method uct against random" in done.out
    assert "calls per decision" in done.out


def test_play_against_a_function_of_the_users_own(run, tmp_path, monkeypatch):
    pytest.importorskip("pyspiel")
    (tmp_path / "rivals_of_play.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    game = "openspiel:tic_tac_toe --discount 0.9 --operator max --episodes 2"
    rival = "--opponent rivals_of_play:first --side 1"
    assert run(f"play {game} --method exact {rival} --json").data["wins"] == 2


def test_check_passes_and_fails_with_its_codes(run, tmp_path, monkeypatch):
    facts = "--discount 0.5 --temperature 1"
    good = run(f"check gym:CartPole-v1 {facts}")
    assert good.code == 0, good.err
    assert "usable" in good.out
    assert "calls per second" in good.out
    (tmp_path / "checked_world.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    bad = run(f"check checked_world:problem {facts} --json")
    assert bad.code == 1
    assert bad.data["ok"] is False
    sentences = [finding["sentence"] for finding in bad.data["findings"]]
    assert any("draw every number from the rng" in sentence for sentence in sentences)
