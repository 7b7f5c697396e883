"""The C kernel as a Python function.

It is compiled with the system's compiler and called through ctypes on the
engine's own plan.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from smoothcruiser.engines.compiled.schedule_table import ScheduleTable
from smoothcruiser.engines.root_scores import BINNED, BINS, LOGGED
from smoothcruiser.operators import Max

HERE = Path(__file__).parent
FLAGS = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
COLUMNS = (
    "kind",
    "samples",
    "query",
    "continuation",
    "constant",
    "shift",
    "center",
    "blind_head",
    "rungs",
    "first_rung",
)


def build(*, walk: bool = False) -> ctypes.CDLL:
    target = HERE / "build" / ("walk.so" if walk else "tabular.so")
    target.parent.mkdir(exist_ok=True)
    source = HERE / "kernel.c"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(
            [
                "cc",
                *FLAGS,
                *(["-DWALK"] if walk else []),
                str(source),
                "-o",
                str(target),
                "-lm",
            ],
            check=True,
        )
    return ctypes.CDLL(str(target))


class CPlan(ctypes.Structure):
    _fields_ = (
        [(name, ctypes.c_void_p) for name in COLUMNS]
        + [("num_actions", ctypes.c_int64), ("root_row", ctypes.c_int64)]
        + [(name, ctypes.c_double) for name in ("discount", "low", "high")]
        + [
            ("clips", ctypes.c_int64),
            ("clip_low", ctypes.c_double),
            ("clip_high", ctypes.c_double),
        ]
        + [("maximum", ctypes.c_int64), ("temperature", ctypes.c_double)]
        + [
            (name, ctypes.c_void_p)
            for name in ("start", "next_state", "alias", "reward", "accept")
        ]
        + [("score", ctypes.c_int64)]
        + [(name, ctypes.c_double) for name in ("score_half", "score_scale")]
    )


class CKernel:
    """Runs one shard; the same bits as the engine."""

    def __init__(
        self,
        plan: ScheduleTable,
        tables: Any,
        state: tuple[int, ...],
        *,
        walk: bool = False,
    ) -> None:
        self.library = build(walk=walk)
        self.keep = [plan, tables]
        self.plan = CPlan()
        for name in COLUMNS:
            setattr(self.plan, name, getattr(plan, name))
        for name in (
            "num_actions",
            "root_row",
            "discount",
            "low",
            "high",
            "clip_low",
            "clip_high",
            "temperature",
            "score",
            "score_half",
            "score_scale",
        ):
            setattr(self.plan, name, getattr(plan, name))
        self.plan.clips = int(plan.clips)
        self.plan.maximum = int(plan.operator == Max.code)
        if tables is not None:
            accept, alias = tables.alias_form
            for name in ("start", "next_state", "reward"):
                setattr(self.plan, name, getattr(tables, name).ctypes.data)
            self.plan.accept, self.plan.alias = accept.ctypes.data, alias.ctypes.data
        self.state = np.array(state, dtype=np.int64)

    def run(
        self, action: int, count: int, center: float, seed: int, key: tuple[int, ...]
    ) -> tuple[int, float, float, tuple[int, ...] | tuple[float, ...]]:
        words = np.random.SeedSequence(seed, spawn_key=key).generate_state(
            4, np.uint64
        )
        out, sums = np.zeros(2, np.int64), np.zeros(3)
        bins = np.zeros(BINS + 1, np.int64)
        pointer = ctypes.c_void_p
        self.library.run_shard(
            ctypes.byref(self.plan),
            pointer(self.state.ctypes.data),
            ctypes.c_int64(action),
            ctypes.c_int64(count),
            ctypes.c_double(center),
            pointer(words.ctypes.data),
            pointer(out.ctypes.data),
            pointer(sums.ctypes.data),
            pointer(bins.ctypes.data),
        )
        assert out[1] == 0, "the C kernel met a reward outside its range"
        scores = {BINNED: tuple(bins.tolist()), LOGGED: (float(sums[2]),)}
        score = scores.get(self.plan.score, ())
        return int(out[0]), float(sums[0]), float(sums[1]), score
