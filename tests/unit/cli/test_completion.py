"""What Tab offers.

Laws: every name of the tables is offered where it can stand; what is offered can be
used; no adapter's library is imported for it.
"""

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from fresh_process import run_python
from smoothcruiser.cli.app import app
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
        "from smoothcruiser.cli.completion import problem_names\n"
        "assert problem_names(None, None, 'gym:')\n"
        "assert not {'gymnasium', 'pyspiel', 'numba'} & set(sys.modules)\n"
    )
    run_python(script)
