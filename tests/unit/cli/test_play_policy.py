"""``play --policy``: what is in a module, or an array in a file, is played."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from smoothcruiser.cli.app import app
from smoothcruiser.errors import InvalidInput

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
        (
            ["--policy", "values.npy", "--method", "uct"],
            "--method uct was given as well",
        ),
        (["--policy", "values.npy", "--budget", "9"], "policy does not use budget="),
    ],
)
def test_what_cannot_be_played_is_told_in_a_sentence(here, options, words):
    done = played(*options)
    assert isinstance(done.exception, InvalidInput)
    assert words in str(done.exception)
