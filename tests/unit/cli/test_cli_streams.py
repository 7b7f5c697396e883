"""Standard streams that are closed, full or left by their reader; modules of the
current folder that are named like a dependency.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import smoothcruiser
from smoothcruiser.cli.exit_codes import AnswerStream, LostOutput

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


@pytest.mark.compiles
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


@pytest.mark.compiles
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


@pytest.mark.compiles
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
