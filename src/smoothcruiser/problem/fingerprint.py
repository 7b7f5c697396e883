"""Temporary: replaced by the branch finger."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from smoothcruiser.problem.problem import Problem


@dataclass(frozen=True)
class Fingerprint:
    """A problem's fingerprint."""

    parts: dict[str, str]
    unseen: tuple[str, ...] = ()

    def changes(self, stored: Mapping[str, str]) -> tuple[str, ...]:
        """Names of the parts that differ."""
        names = {*self.parts, *stored}
        return tuple(sorted(n for n in names if self.parts.get(n) != stored.get(n)))


def fingerprint(problem: Problem) -> Fingerprint:
    """The fingerprint."""
    parts = {"facts": hashlib.sha256(repr(problem.facts).encode()).hexdigest()}
    if problem.tables is not None:
        t = problem.tables
        digest = hashlib.sha256()
        for array in (
            t.start,
            t.next_state,
            t.prob,
            t.reward,
            t.player,
            t.terminal,
            t.legal,
        ):
            digest.update(np.ascontiguousarray(array).tobytes())
        parts["tables"] = digest.hexdigest()
    else:
        for name in ("oracle", "legal", "terminal", "player"):
            parts[name] = hashlib.sha256(
                _code(getattr(problem, name, None))
            ).hexdigest()
    return Fingerprint(parts)


def _code(function: Any) -> bytes:
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    if code is None:
        return (
            type(function).__qualname__.encode()
            if callable(function)
            else repr(function).encode()
        )
    constants = [
        c.co_code if hasattr(c, "co_code") else repr(c).encode() for c in code.co_consts
    ]
    return b"".join([code.co_code, *constants, repr(code.co_names).encode()])
