"""Nodes per second of compiled paths against a C loop of the same recursion.

    python -m benchmarks.gap.node_speed --out docs/evidence/gap-speed.md

Both play storage with a mean-reverting price (level 0..10, x' = .9 x + .2 N, sell, keep
or buy, H = 100) with W linear in the level times the price, m mirrored inner samples,
one path after the other: layers, merging of equal states by a hash table, Qhat, U
backward; no walk. The C program is written for this problem, with its states in a
struct and its W in the loop, and is compiled with ``cc -O3 -march=native``. It takes the
same random numbers, so the means of U agree to rounding.

The bar is 0.7. ``--python`` measures the interpreted paths as well.

Compiling is measured in processes of their own, with an empty cache on disk and with one
that has the driver. Tables are a random problem of 5 states.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np

import smoothcruiser as sc
from smoothcruiser.duality.machines import path_kernel
from smoothcruiser.duality.machines.gap_rules import NODES, UPPER, GapRule
from smoothcruiser.duality.machines.path_machines import build_machine
from smoothcruiser.jit.random.mirrored_streams import first_words

HORIZON, NUM_INNER, PATHS = 100, 10, 200
NO_LIMIT = 10**15

PROGRAM = r"""
#include <stdint.h>
#include <stdlib.h>
#include <math.h>
typedef uint64_t u64;
typedef struct { int64_t level; double x; } State;
typedef struct { u64 s[4], mask; } Stream;
static inline u64 rotl(u64 x, int k) { return (x << k) | (x >> (64 - k)); }
static inline u64 raw(Stream *r) {
  u64 *s = r->s, result = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
  s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3]; s[2] ^= t;
  s[3] = rotl(s[3], 45);
  return result ^ r->mask;
}
static inline double uniform(Stream *r) { return (raw(r) >> 11) * 0x1p-53; }
static double normal(Stream *r) {
  for (;;) {
    double x = 2 * uniform(r) - 1, y = 2 * uniform(r) - 1, s = x * x + y * y;
    if (s > 0 && s < 1) return x * sqrt(-2 * log(s) / s);
  }
}
static inline u64 mix(u64 z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u; z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}
static const u64 G = 0x9E3779B97F4A7C15u;
static Stream at(const u64 *first, u64 role, u64 path, u64 time, u64 index, int flips) {
  Stream r;
  for (int i = 0; i < 2; i++) {
    u64 c = first[i];
    c = mix(c + (role + 1) * G); c = mix(c + (path + 1) * G);
    c = mix(c + (time + 1) * G); c = mix(c + (index + 1) * G);
    r.s[2 * i] = mix(c + G); r.s[2 * i + 1] = mix(c + G + G);
  }
  r.mask = flips ? ~(u64)0 : 0;
  return r;
}
static inline double step(State z, int a, Stream *r, State *next) {
  int64_t sold = a == 0 ? (z.level > 0) : a == 2 ? -(z.level < 10) : 0;
  double price = 1 + z.x;
  if (price < 0) price = 0;
  if (price > 3) price = 3;
  next->level = z.level - sold;
  next->x = .9 * z.x + .2 * normal(r);
  return sold * price;
}
static inline double W(State z, int64_t left) {
  return left > 0 ? z.level * (.9 + .4 * z.x) : 0;
}
double paths(const u64 *first, int64_t count, int H, int m, int64_t *nodes_out) {
  enum { K = 3 };
  int64_t cap = 1 << 16, slots = 1 << 18, serial = 0, nodes = 0;
  State *states = malloc(cap * sizeof *states);
  int64_t *child = malloc(cap * K * sizeof *child), *layer = malloc((H + 2) * 8);
  double *q = malloc(cap * K * 8), *edge = malloc(cap * K * 8), *U = malloc(cap * 8);
  double *score = malloc(cap * 8), *offset = malloc(cap * 8), *w = malloc(cap * 8);
  int64_t *slot = malloc(slots * 8), *stamp = calloc(slots, 8);
  Stream *streams = malloc((m + 1) * sizeof *streams);
  double total = 0;
  for (int64_t path = 0; path < count; path++) {
    State root = {5, 0};
    int64_t n = 1;
    states[0] = root; w[0] = W(root, H); score[0] = 0; offset[0] = -w[0];
    layer[0] = 0; layer[1] = 1;
    for (int t = 0; t < H; t++) {
      int last = t + 1 == H;
      int64_t size = 8;
      while (size < 2 * K * (layer[t + 1] - layer[t])) size *= 2;
      serial++;
      streams[0] = at(first, 0, path, t, 0, 0);
      for (int j = 0; j < m; j++)
        streams[1 + j] = at(first, 1, path, t, j - j % 2, j % 2);
      for (int64_t i = layer[t]; i < layer[t + 1]; i++)
        for (int a = 0; a < K; a++) {
          double sum = 0;
          State next;
          for (int j = 1; j <= m; j++) {
            Stream r = streams[j];
            double reward = step(states[i], a, &r, &next);
            double v = W(next, H - t - 1);
            if (!(v > -1e300 && v < 1e300)) return NAN;
            if (!(reward >= -3 && reward <= 3)) return NAN;
            v = v < -100 ? -100 : v > 100 ? 100 : v;
            sum += reward + v;
          }
          q[i * K + a] = sum / m;
          edge[i * K + a] = 0;
          child[i * K + a] = -1;
          if (last) continue;
          Stream r = streams[0];
          step(states[i], a, &r, &next);
          double v = W(next, H - t - 1);
          edge[i * K + a] = v;
          union { double d; u64 u; } b = {next.x + 0.0};
          u64 h = mix(next.level * G ^ b.u), k = h & (size - 1);
          int64_t c = -1;
          while (stamp[k] == serial) {
            State z = states[slot[k]];
            if (z.level == next.level && z.x == next.x) { c = slot[k]; break; }
            k = (k + 1) & (size - 1);
          }
          if (c < 0) {
            c = n++; stamp[k] = serial; slot[k] = c; states[c] = next; w[c] = v;
            score[c] = offset[c] = -INFINITY;
          }
          child[i * K + a] = c;
          double s = offset[i] + q[i * K + a];
          if (s > score[c]) score[c] = s;
          if (s - v > offset[c]) offset[c] = s - v;
        }
      layer[t + 2] = n;
    }
    for (int64_t i = n - 1; i >= 0; i--) {
      double best = -INFINITY;
      for (int a = 0; a < K; a++) {
        double x = q[i * K + a];
        int64_t c = child[i * K + a];
        if (c >= 0) x += U[c] - edge[i * K + a];
        if (x > best) best = x;
      }
      U[i] = best;
    }
    total += U[0];
    nodes += n;
  }
  *nodes_out = nodes;
  return total / count;
}
"""


@numba.njit
def storage(state: Any, action: int, rng: Any) -> Any:
    """Sell, keep or buy one unit at a mean-reverting price."""
    level, x = state
    sold = 0
    if action == 0 and level > 0:
        sold = 1
    elif action == 2 and level < 10:
        sold = -1
    price = min(max(1.0 + x, 0.0), 3.0)
    return sold * price, (level - sold, 0.9 * x + 0.2 * rng.normal())


@numba.njit
def worth(data: Any, steps_left: int, state: Any) -> float:
    """W: the level times a price."""
    return state[0] * (0.9 + 0.4 * state[1]) if steps_left > 0 else 0.0


class LinearCritic:
    """W in both forms."""

    def values(self, states: Any, steps_left: int | None) -> list[float]:
        """W of states."""
        return [float(worth.py_func((), steps_left, state)) for state in states]

    def compiled_parts(self, state_type: Any) -> Any:
        """W in machine code."""
        return worth, ()


def best_seconds(call: Any, repeats: int = 5) -> float:
    """The least CPU seconds of some calls."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def build_problem() -> sc.MDP:
    """Storage."""
    return sc.MDP(
        storage, num_actions=3, discount=1.0, horizon=HORIZON, operator=sc.Max(),
        initial_state=(5, 0.0), reward_range=(-3.0, 3.0),
    )  # fmt: skip


class TableCritic:
    """W of a table, 0."""

    def values(self, states: Any, steps_left: int | None) -> Any:
        """W of states."""
        return np.zeros(len(states))

    def compiled_parts(self, state_type: Any) -> Any:
        """W in machine code."""
        return path_kernel.table_value, np.zeros((1, 5))


def first_block_seconds(of_tables: bool) -> float:
    """The CPU seconds until the first path is there, after the imports."""
    rule = GapRule(1.0, HORIZON, num_inner=NUM_INNER, mirrored=True)
    times = np.array([[-100.0, 100.0, -300.0, 300.0, -300.0, 300.0]])
    problem: Any = build_problem()
    if of_tables:
        P, R = np.full((5, 3, 5), 0.2), np.zeros((5, 3))
        problem = sc.tabular(P, R, discount=1.0, horizon=HORIZON, operator=sc.Max())
    state, critic = (0, TableCritic()) if of_tables else ((5, 0.0), LinearCritic())
    start = time.process_time()
    machine = build_machine(problem, state, critic, None, 0, compiled=True)
    machine.play_paths(0, 1, rule, times, NO_LIMIT)
    return time.process_time() - start


def measure_compiling() -> list[str]:
    """Rows of a table: with an empty cache, then with what that left there."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for what, cache_name in (
            ("tables", "empty"), ("tables", "filled by tables"),
            ("step", "filled by tables"), ("step", "empty"),
        ):  # fmt: skip
            cache = Path(folder, "used" if "tables" in what + cache_name else "other")
            command = [
                sys.executable,
                "-m",
                "benchmarks.gap.node_speed",
                "--first",
                what,
            ]
            environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
            answer = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            rows.append(f"| {what} | {cache_name} | {float(answer.stdout):.2f} |")
    return rows


def read_commit() -> str:
    """The commit of this tree."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Measure and write the ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--first", choices=["step", "tables"])
    arguments = parser.parse_args()
    if arguments.first:
        print(first_block_seconds(arguments.first == "tables"))
        return
    problem = build_problem()
    rule = GapRule(1.0, HORIZON, num_inner=NUM_INNER, mirrored=True)
    times = np.tile([[-100.0, 100.0, -300.0, 300.0, -300.0, 300.0]], (1, 1))
    machine = build_machine(problem, (5, 0.0), LinearCritic(), None, 0, compiled=True)
    samples = machine.play_paths(0, PATHS, rule, times, NO_LIMIT)
    nodes = samples[:, NODES].sum()
    ours = nodes / best_seconds(
        lambda: machine.play_paths(0, PATHS, rule, times, NO_LIMIT)
    )
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "paths.c"), Path(folder, "paths.so")
        source.write_text(PROGRAM)
        flags = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, source, "-o", library, "-lm"], check=True)
        play = ctypes.CDLL(str(library)).paths
    play.restype = ctypes.c_double
    words = (ctypes.c_uint64 * 2)(*first_words(0, 1))
    c_nodes = ctypes.c_int64(0)
    arrays = [words, ctypes.c_int64(PATHS), HORIZON, NUM_INNER, ctypes.byref(c_nodes)]
    mean = play(*arrays)
    assert c_nodes.value == nodes, (c_nodes.value, nodes)
    assert abs(mean - samples[:, UPPER].mean()) < 1e-9, (
        mean,
        samples[:, UPPER].mean(),
    )
    c_speed = nodes / best_seconds(lambda: play(*arrays))
    lines = [
        "# Speed of `gap`'s paths",
        "",
        f"`python {' '.join(['-m benchmarks.gap.node_speed', *sys.argv[1:]])}`,"
        f" {datetime.date.today()}, commit {read_commit()}",
        "",
        f"Storage, H = 100, m = 10 mirrored, {nodes / PATHS:.0f} nodes per path",
        "",
        "| | nodes per CPU second | ratio |",
        "|---|---|---|",
        f"| C, written for this problem | {c_speed:.3g} | 1 |",
        f"| compiled | {ours:.3g} | {ours / c_speed:.2f} |",
    ]
    if arguments.python:
        plain = build_machine(
            problem, (5, 0.0), LinearCritic(), None, 0, compiled=False
        )
        seconds = best_seconds(
            lambda: plain.play_paths(0, 1, rule, times, NO_LIMIT), 1
        )
        speed = samples[0, NODES] / seconds
        lines.append(f"| plain Python | {speed:.3g} | {speed / c_speed:.4f} |")
    lines += [
        "",
        "CPU seconds until the first path, after the imports:",
        "",
        "| problem | cache on disk | seconds |",
        "|---|---|---|",
        *measure_compiling(),
    ]
    print("\n".join(lines))
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
