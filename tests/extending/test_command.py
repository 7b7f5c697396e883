"""A command in one file: found in the folder, listed, run, and its errors answered."""

import json
import sys

import pytest
from recipes import recipe

from smoothcruiser import cli
from smoothcruiser.cli.app import main


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    (tmp_path / "worth.py").write_text(recipe("A command"))
    monkeypatch.setattr(cli, "__path__", [*cli.__path__, str(tmp_path)])

    def command(*words):
        monkeypatch.setattr(sys, "argv", ["smoothcruiser", *words])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, *capsys.readouterr()

    yield command
    sys.modules.pop("smoothcruiser.cli.worth", None)


def test_a_new_command_is_listed_and_runs(run):
    code, out, _ = run("--help")
    assert code == 0
    assert "worth" in out
    words = ("worth", "chain:n=3", "--discount", "0.5", "--operator", "max")
    code, out, _ = run(*words, "--json")
    assert code == 0
    assert abs(json.loads(out)["value"] - 0.5) < 0.6
    code, out, _ = run(*words, "--state", "1")
    assert code == 0
    assert float(out) > 0.0


def test_its_mistakes_are_answered_in_one_sentence(run):
    code, out, err = run("worth", "nowhere:n=3")
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
