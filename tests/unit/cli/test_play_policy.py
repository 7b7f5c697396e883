"""``play``: a policy of a module or of a file is played; a planner has plan's delta."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import smoothcruiser as sc
from smoothcruiser.cli.app import app

pytestmark = pytest.mark.compiles

PLAY = ["play", "chain:n=4", "--discount", "0.9", "--operator", "max", "--steps", "3"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "written_policies.py").write_text(
        "def onward(state): return 'right'\n"
        "class Table:\n    rows = [1, 1, 1, 1]\n"
        "def wrong(state): return 5\n"
    )
    np.save(tmp_path / "values.npy", np.tile([0.1, 0.7], (4, 1)))
    return tmp_path


def played(*options):
    return CliRunner().invoke(app, [*PLAY, "--episodes", "2", *options])


@pytest.mark.parametrize(
    "text", ["written_policies:onward", "written_policies:Table.rows", "values.npy"]
)
def test_a_policy_is_played(here, text):
    done = played("--policy", text, "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert (summary["actions"], summary["method"]) == ({"right": 6}, "policy")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--policy", "written_policies:wrong"], "got 5: there is no such action"),
        (["--policy", "written_policies:none"], "could not be found (AttributeError"),
        (["--policy", "nowhere.npy"], "could not be found (FileNotFoundError"),
        (["--policy", "onward"], "it names no module); name what is in a module"),
        (["--policy", "values.npy", "--method", "uct"], "--method uct was given as"),
        (["--policy", "values.npy", "--budget", "9"], "policy does not use budget="),
    ],
)
def test_what_cannot_be_played_is_told_in_a_sentence(here, options, words):
    done = played(*options)
    assert isinstance(done.exception, sc.InvalidInput)
    assert words in str(done.exception)


def test_a_planner_has_the_default_delta_of_plan_and_says_so(here):
    """A limit is enough, as it is for ``plan``; a schedule has no default."""
    (here / "thrown_coins.py").write_text(
        "import smoothcruiser as sc\n"
        "def step(s, a, rng): return float(rng.random() < 0.5), s\n"
        "problem = sc.MDP(step, num_actions=2, discount=0.5, operator=sc.Max(),"
        " initial_state=0)\n"
    )
    once = ["play", "thrown_coins:problem", "--episodes", "1", "--steps", "1"]
    limits = (["--budget", "99"], ["--seconds-total", "0.2"])
    for options in (*limits, ["--method", "certified", *limits[0]]):
        done = CliRunner().invoke(app, [*once, *options])
        assert done.exit_code == 0, done.exception
        assert "No delta was named: 0.05" in done.stdout
    done = CliRunner().invoke(app, [*once, *limits[0], "--delta", "0.1"])
    assert "No delta" not in done.stdout
    done = CliRunner().invoke(app, ["explain", once[1], "--epsilon", "30%"])
    assert "with probability 0.95" in " ".join(done.stdout.split())
    warm = ["plan", once[1], "--temperature", "1", "--budget", "99"]
    assert "plain max" in str(CliRunner().invoke(app, warm).exception)
    done = CliRunner().invoke(app, [*once, *limits[0], "--method", "smoothcruiser"])
    assert "--delta 0.1" in str(done.exception)
