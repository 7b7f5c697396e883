"""Fixtures of the command line's tests: ``run`` calls it in this process,
``own`` writes a user's module into the current folder.
"""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest

(COMMAND,) = entry_points(group="console_scripts", name="smoothcruiser")
OWN = '''
import os, signal
from dataclasses import replace
from typing import NamedTuple
import smoothcruiser as sc

calls = 0

def step(state, action, rng):
    return 0.5 * rng.random() + 0.5 * action, (state[0] + 1, action)

def hit(after):
    """A step that presses Ctrl-C at its call number `after`."""
    def pressing(state, action, rng):
        global calls
        calls += 1
        if calls == after:
            os.kill(os.getpid(), signal.SIGINT)
        return float(rng.integers(2)), state
    return pressing

def build(step, temperature=10.0, discount=0.2):
    facts = {"discount": discount, "operator": sc.Entropy(temperature), "name": "own"}
    return sc.MDP(step, num_actions=2, initial_state=(0, 0), **facts)

problem = build(step)

def hot(temperature=5.0):
    return build(step, temperature)

def cold():
    return build(step, 1.0, 0.9)

def unhashable():
    return replace(cold(), initial_state=[0, 0])

def early():
    return build(hit(10), 1.0, 0.5)

def late():
    return build(hit(4_000), 1.0, 0.5)

def pressed():
    return build(hit(1_500), 1.0, 0.5)

def outcomes():
    def model(state, action):
        return [(0.5, 0.0, state), (0.5, 1.0, 1 - state)]
    def draw(state, action, rng):
        p, reward, after = model(state, action)[rng.integers(2)]
        return reward, after
    facts = {"discount": 0.5, "operator": sc.Entropy(1.0), "outcomes": model}
    return sc.MDP(draw, num_actions=2, initial_state=0, **facts)

class Point(NamedTuple):
    x: int
    y: int

def points():
    def move(point, action, rng):
        return rng.random(), Point(point.x + action, point.y)
    facts = {"discount": 0.2, "operator": sc.Entropy(10.0)}
    return sc.MDP(move, num_actions=2, initial_state=Point(0, 0), **facts)

def nowhere():
    return sc.MDP(step, num_actions=2, discount=0.2, operator=sc.Entropy(10.0))

def broken():
    raise RuntimeError("no licence")

def number():
    return 3
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The name of a module in the current folder; a new one for each test,
    because Python remembers modules.
    """
    name = f"own_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


class Done:
    """Exit code and text of a command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        self.words = " ".join(out.split())

    @property
    def data(self) -> dict[str, Any]:
        assert self.out.count("\n") == 1, "exactly one JSON object on standard output"
        return json.loads(self.out)


@pytest.fixture
def run(monkeypatch, capsys):
    """A command line, split as a shell does, with further words as they are."""

    def command(line: str, *words: str, columns: int | str = 80) -> Done:
        monkeypatch.setattr(sys, "argv", ["smoothcruiser", *shlex.split(line), *words])
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit) as left:
            COMMAND.load()()
        caught = capsys.readouterr()
        code = left.value.code
        return Done(code if isinstance(code, int) else 0, caught.out, caught.err)

    return command
