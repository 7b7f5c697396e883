"""Doors that tests of many packages use: a planner's stream, the command line, stores,
requests, specs, built-in problems, and processes of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys

from smoothcruiser.cli.app import app
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.problem.make import from_spec, is_spec
from smoothcruiser.problem.zoo import ZOO
from smoothcruiser.query import Query
from smoothcruiser.store import Store

__all__ = ["ZOO", "Query", "Store", "app", "from_spec", "is_spec"]
__all__ += ["run_python", "run_words", "stream"]


def run_python(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, which has to end well, and its output."""
    done = run_words("-c", program, **variables)
    assert done.returncode == 0, done.stderr
    return done


def run_words(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python with these words in a process of its own, and its output."""
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | variables,
    )
