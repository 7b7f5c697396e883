"""Messages name Python's arguments; the command line spells them as options."""

import copy
import pickle
import sys

import pytest

import smoothcruiser as sc
from smoothcruiser.cli import exit_codes as ending
from smoothcruiser.cli.app import _code as run
from smoothcruiser.errors import MissingExtra

WORDS = ("epsilon", "delta_prime", "discount", "certify", "tls")
OPTIONS = {word: f"--{word.replace('_', '-')}" for word in WORDS}


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("give epsilon=0.1, or epsilon='5%'.", "give --epsilon 0.1, or --epsilon 5%."),
        ("drop delta_prime=; or not", "drop --delta-prime; or not"),
        ("certify=True bounds it.", "--certify bounds it."),
        ("as in MDP(step, discount=0.9)", "as in MDP(step, discount=0.9)"),
        ("f(x) has discount=0.9.", "f(x) has --discount 0.9."),
        ("give tls=(ca, cert, key).", "give --tls CA CERT KEY."),
        ("horizon= and problem.epsilon=1", "horizon= and problem.epsilon=1"),
        ("use resume(3, store='my runs.db').", "use --resume 3 --store 'my runs.db'."),
    ],
)
def test_arguments_become_options(monkeypatch, python, shell):
    monkeypatch.setattr(ending, "OPTIONS", OPTIONS)
    assert ending.spell_options(python) == shell


def test_errors_of_a_users_file_keep_its_arguments(monkeypatch, tmp_path, capsys):
    (tmp_path / "bare_shop.py").write_text(
        "import smoothcruiser as sc\n"
        "problem = sc.MDP(lambda s, a, rng: (0.0, s), num_actions=2, discount=0.5)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["smoothcruiser", "explain", "bare_shop:problem"])
    assert run() == ending.REFUSED
    assert "MDP needs operator=, as in MDP(" in capsys.readouterr().err


@pytest.mark.compiles
def test_hints_on_attributes_break_nothing():
    answer = sc.plan(sc.make("chain:n=5", discount=0.5, temperature=1))
    assert pickle.loads(pickle.dumps(answer)) == answer == copy.deepcopy(answer)
    assert not hasattr(answer, "q")
    assert getattr(answer, "ci", None) is None
    with pytest.raises(AttributeError, match=r"'__nothing__'$"):
        getattr(answer, "__nothing__")  # noqa: B009


def test_an_import_error_underneath_is_shown():
    def shown(cause):
        try:
            raise MissingExtra("It needs gymnasium: pip install it.") from cause
        except MissingExtra as error:
            return str(error)

    absent = ModuleNotFoundError("No module named 'gymnasium'", name="gymnasium")
    assert shown(absent) == "It needs gymnasium: pip install it."
    broken = ImportError("libGL.so.1: cannot open shared object file")
    assert "libGL.so.1" in shown(broken)
    other = ModuleNotFoundError("No module named 'cloudpickle'", name="cloudpickle")
    assert "cloudpickle" in shown(other)
