"""The types that users of the library see.

Laws: a program that uses the public surface passes ``mypy --strict``, where
``assert_type`` refuses Any; wrong calls are found. mypy reads the package as an
installed one (``py.typed``), without this repository's settings.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import smoothcruiser as sc

pytest.importorskip("mypy")

HERE = Path(__file__).resolve().parent
USER = HERE / "typed_user.py"
SOURCE = HERE.parents[1] / "src"

pytestmark = pytest.mark.compiles

# of other libraries that have no types; they are users' business
FOREIGN = """
[mypy]
[mypy-numba.*,gymnasium.*,pyspiel.*,jax.*]
ignore_missing_imports = True
follow_imports = skip
"""


def checked(program, folder):
    settings = folder / "mypy.ini"
    settings.write_text(FOREIGN)
    line = "-m mypy --strict --no-error-summary --cache-dir .mypy_cache/users"
    return subprocess.run(
        [sys.executable, *line.split(), "--config-file", str(settings), str(program)],
        capture_output=True,
        text=True,
        cwd=HERE.parents[1],
        env={**os.environ, "MYPYPATH": str(SOURCE)},
        check=False,
    )


def test_a_users_program_has_types(tmp_path):
    done = checked(USER, tmp_path)
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr


WRONG = {
    "sc.plan(chain, epsilom=0.1)": "epsilom",
    'sc.solve(chain, method="newton")': "newton",
    "sc.solve(chain).valuse": "valuse",
    "sc.tabular([[[1.0]]], [[0.0]])": "overload",
    "sc.compare(chain)": "budgets",
    "sc.MDP(print, discount=0.5)": "operator",
    'sc.plan(chain, progress="yes, please")': "progress",
    "sc.no_such_name": "no_such_name",
    'sc.resume(1, "runs.db", chain, epsilom=0.1)': "epsilom",
    "sc.check(chain).to_jsno()": "to_jsno",
}


def test_the_program_uses_every_public_name():
    """And every way in which a result leaves the library."""
    found = list(ast.walk(ast.parse(USER.read_text("utf-8"))))
    attributes = [node for node in found if isinstance(node, ast.Attribute)]
    used = {
        node.attr
        for node in attributes
        if isinstance(node.value, ast.Name) and node.value.id == "sc"
    }
    assert set(sc.__all__) - used == set()
    ways = {"summary", "_repr_html_", "records", "to_frame", "plot"}
    ways |= {"to_dict", "from_dict", "to_json", "from_json"}
    assert ways <= {node.attr for node in attributes}


def test_wrong_calls_are_found(tmp_path):
    """``__getattr__`` of the package must not hide a name that does not exist."""
    lines = ["import smoothcruiser as sc", 'chain = sc.make("chain", discount=0.5)']
    program = tmp_path / "wrong.py"
    program.write_text("\n".join([*lines, *WRONG, ""]))
    said = checked(program, tmp_path).stdout.splitlines()
    for number, (call, word) in enumerate(WRONG.items(), start=3):
        # without its folder: mypy's cache remembers that of an earlier run
        found = [line for line in said if f"{program.name}:{number}:" in line]
        assert any(word in line for line in found), (call, said)
