"""Spawn keys: one registry, and no two users of one stream."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.jit.random import CheckKey, Key

SOURCE = Path(sc.__file__).parent
INTERPRETED = ("reference", "python", "batched")
SHARDS = {f"engines/interpreted/{name}.py" for name in INTERPRETED} | {
    "engines/compiled/engine.py"
}


def test_keys_are_distinct() -> None:
    """Aliases would be silent: an enumeration drops a member of equal value."""
    for kind in (Key, CheckKey):
        assert len(kind.__members__) == len(set(kind)) == len(list(kind))
    assert min(set(Key) - {Key.CERTIFIED}) > Key.CERTIFIED


def test_no_key_is_written_as_a_number() -> None:
    """Outside the registry every spawn key is a name or a position in the work.
    (A stream that is only made to be compiled has a seed and no key.)
    """
    found = []
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        for call in re.findall(r"spawn_key=\(([^)]*)\)", text):
            found += [(path.name, call)] if re.search(r"(^|[\s,])\d", call) else []
        for call in re.findall(r"\bstream\(([^()]*)\)", text):
            key = call.split(",")[1:]
            wrong = any(part.strip().isdigit() for part in key[:1])
            found += [(path.name, call)] if wrong else []
    assert found == []


class Spy:
    """Who asked for which stream: (seed, key) -> files of the package."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.users: dict[tuple[Any, tuple[int, ...]], set[str]] = defaultdict(set)
        plain = np.random.SeedSequence

        class Spied(plain):  # type: ignore[misc, valid-type]
            def __init__(inner, entropy: Any = None, *, spawn_key: Any = ()) -> None:
                super().__init__(entropy, spawn_key=spawn_key)
                self.note(entropy, tuple(int(part) for part in spawn_key))

        monkeypatch.setattr(np.random, "SeedSequence", Spied)

    def note(self, seed: Any, key: tuple[int, ...]) -> None:
        if key == ():  # made to be compiled; nobody reads its numbers
            return
        frame = sys._getframe(2)
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if SOURCE in path.parents and path.name != "streams.py":
                self.users[seed, key].add(path.relative_to(SOURCE).as_posix())
                return
            frame = frame.f_back  # type: ignore[assignment]


def step(state: int, action: int, rng: Any) -> tuple[float, int]:
    return rng.random(), (state + action + int(rng.integers(3))) % 5


def problem() -> sc.Problem:
    facts = {"num_actions": 12, "discount": 0.2, "operator": sc.Entropy(1.0)}
    return sc.MDP(step, initial_state=0, **facts)


def play() -> None:
    agent = sc.Agent(problem(), **PROMISE | {"method": "smoothcruiser"})
    sc.play(agent, episodes=2, steps=2, seed=3)


PROMISE: dict[str, Any] = {"epsilon": "60%", "delta": 0.5, "seed": 3}
SHARP = PROMISE | {"method": "smoothcruiser", "epsilon": "40%", "shards": 3}
LOOSE = PROMISE | {"epsilon": 0.5}
USES: dict[str, Any] = {
    "schedule": lambda: sc.plan(problem(), **SHARP),
    "certified": lambda: sc.plan(problem(), **PROMISE, method="certified"),
    "tree": lambda: sc.plan(problem(), method="uct", simulations=20, seed=3),
    "evaluate": lambda: sc.evaluate(problem(), lambda state: [1 / 12] * 12, **LOOSE),
    "check": lambda: sc.check(problem(), seed=3),
    "play": play,
}


@pytest.mark.compiles
@pytest.mark.parametrize("use", USES)
def test_a_stream_has_one_user(use: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No (seed, key) is asked for by two files, and keys of the form (action,
    shard) are used by others only under seeds that no shard has.
    """
    spy = Spy(monkeypatch)
    USES[use]()
    assert spy.users
    shared = {pair: files for pair, files in spy.users.items() if len(files) > 1}
    assert shared == {}
    shards = {pair for pair, files in spy.users.items() if files & SHARDS}
    assert bool(shards) is (use in ("schedule", "check", "play"))
    alike = {  # a shard of some action could have such a key
        seed
        for seed, key in spy.users.keys() - shards
        if len(key) == 2 and key[0] < Key.INSPECTION
    }
    assert alike.isdisjoint(seed for seed, _ in shards)
