"""The command line: what Tab offers, how messages spell options, streams that fail, and
policies that are played.

Laws: every name of the tables is offered where it can stand; what is offered can be
used; no adapter's library is imported for it.
"""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import smoothcruiser
import smoothcruiser as sc
from fresh_process import run_python
from smoothcruiser.cli import exit_codes as ending
from smoothcruiser.cli.app import _code as run
from smoothcruiser.cli.app import app
from smoothcruiser.cli.exit_codes import AnswerStream, LostOutput
from smoothcruiser.errors import MissingExtra
from smoothcruiser.methods import METHODS
from smoothcruiser.operators import OPERATORS
from smoothcruiser.problem.arguments import read_parameters
from smoothcruiser.problem.zoo import ZOO

pytestmark = pytest.mark.compiles

COMPLETION = ShellComplete(app, {}, "smoothcruiser", "_SMOOTHCRUISER_COMPLETE")


def offered(*words):
    """What is offered for the last of ``words``."""
    return [
        item.value for item in COMPLETION.get_completions(list(words[:-1]), words[-1])
    ]


def test_problems():
    found = offered("plan", "")
    assert set(ZOO) <= set(found)
    assert {"gym:", "openspiel:"} <= set(found)
    assert offered("plan", "frozen") == ["frozen-lake"]
    assert offered("explain", "no-such") == []
    (whole,) = offered("exact", "garnet:")
    assert read_parameters(whole.partition(":")[2]) == ZOO["garnet"].defaults
    assert offered("check", "openspiel:") == ["openspiel:tic_tac_toe"]


def test_methods():
    for command in ("plan", "explain", "play"):
        assert offered(command, "chain", "--method", "") == list(METHODS)
    found = offered("compare", "chain", "--methods", "uct,")
    assert "uct,ments" in found
    assert "uct,uct" not in found


def test_operators_executors_and_others():
    assert offered("plan", "chain", "--operator", "") == list(OPERATORS)
    executors = offered("plan", "chain", "--executor", "")
    assert {"compiled", "python", "batched", "processes", "dask"} <= set(executors)
    assert offered("plan", "chain", "--target", "") == ["q_values", "value"]
    assert offered("play", "chain", "--opponent", "r") == ["random", "rents"]


def test_commands_and_options():
    assert offered("pl") == ["plan", "play"]
    assert "--epsilon" in offered("plan", "chain", "--e")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_with_what_it_is_given(tmp_path):
    """The line of the docs, in a real shell."""
    command = tmp_path / "smoothcruiser"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m smoothcruiser "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(_SMOOTHCRUISER_COMPLETE=bash_source smoothcruiser)"\n'
        "COMP_WORDS=(smoothcruiser plan frozen); COMP_CWORD=2\n"
        "_smoothcruiser_completion smoothcruiser\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    path = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    shown = subprocess.check_output(["bash", "-c", script], text=True, env=path)
    assert shown.strip() == "frozen-lake"


def test_no_library_is_imported_for_it():
    script = (
        "import sys\n"
        "from smoothcruiser.cli.options import problem_names\n"
        "assert problem_names(None, None, 'gym:')\n"
        "assert not {'gymnasium', 'pyspiel', 'numba'} & set(sys.modules)\n"
    )
    run_python(script)


# --- messages name Python's arguments, here as options ------------------------


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


# --- streams that are closed or full; modules named like a dependency ---------


LINE = [sys.executable, "-m", "smoothcruiser"]


def shell(script: str, folder: Path, **environment: str) -> tuple[int, str, str]:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script, "bash", *LINE],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("script", "code", "told"),
    [
        ('"$@" problems | head -1 > /dev/null', 141, ""),
        ('"$@" problems > /dev/full', 2, "No space left"),
        ('"$@" problems >&-', 2, "closed"),
        ('"$@" plam 2> /dev/full', 2, ""),
        ('"$@" plam 2>&-', 2, ""),
    ],
)
def test_a_stream_that_takes_nothing_is_a_sentence_and_a_code(
    script, code, told, tmp_path
):
    found, _, err = shell(script, tmp_path)
    assert (found, told in err) == (code, True)
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    assert err.count("\n") == (1 if told else 0)


def test_a_file_named_like_a_dependency_is_not_executed(tmp_path):
    for name in ("numpy", "numba", "click", "rich", "json", "random", "scipy"):
        (tmp_path / f"{name}.py").write_text("open('executed', 'w').close()\n1 / 0\n")
    own = "import numpy\nimport smoothcruiser as sc\n"
    own += "problem = sc.make('chain:n=3', discount=0.5, temperature=1.0)\n"
    (tmp_path / "mine.py").write_text(own)
    problem = "chain:n=3 --discount 0.5 --temperature 1"
    script = f'"$@" problems && "$@" exact {problem} --json && "$@" exact mine:problem'
    code, _, err = shell(script, tmp_path)
    assert (code, err) == (0, "")
    assert not (tmp_path / "executed").exists()
    code, _, err = shell('"$@" exact numpy:problem', tmp_path)
    assert (code, "has no attribute 'problem'" in err) == (2, True)
    assert not (tmp_path / "executed").exists()


def test_a_program_of_the_users_own_keeps_its_folder(tmp_path):
    """``python -m mine`` finds the modules beside it, though mine imports us early."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("import smoothcruiser\n")
    (tmp_path / "mine" / "__main__.py").write_text("import beside\n")
    (tmp_path / "beside.py").write_text("print('found')\n")
    source = Path(smoothcruiser.__file__).parents[1]
    script = f'"{sys.executable}" -m mine'
    assert shell(script, tmp_path, PYTHONPATH=str(source)) == (0, "found\n", "")


def test_output_that_a_simulator_closed_is_told_as_lost():
    closed = io.StringIO()
    closed.close()
    with pytest.raises(LostOutput):
        AnswerStream(closed).write("x")


# --- play takes a policy of a module or of a file -----------------------------


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
