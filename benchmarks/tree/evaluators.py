"""Evaluators at leaves, measured: the speed of batches against mctx.

    python -m benchmarks.tree.evaluators [speed] [--quick] [--out FILE]

speed       simulations per second of one tree with leaf_batch=128 on tic-tac-toe and of
            mctx with a batch of 128 searches, with the same small network in NumPy and in
            JAX; interleaved, best of several, by the wall clock and by processor time
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.tree.board_games import tic_tac_toe

import smoothcruiser as sc

ROOT = Path(__file__).resolve().parents[2]
BATCH, HIDDEN = 128, 64
OURS, THEIRS = "smoothcruiser, leaf_batch=128", "mctx, batch 128"


def weights():
    rng = np.random.default_rng(0)
    return rng.normal(size=(18, HIDDEN)) / 4.0, rng.normal(size=(HIDDEN, 10)) / 8.0


def our_network():
    """The network over our states: whole numbers, 9 bits for each player."""
    first, second = weights()
    first, second = first.astype(np.float32), second.astype(np.float32)
    shifts = np.arange(18)

    def network(states):
        bits = ((states[:, None] >> shifts) & 1).astype(np.float32)
        out = np.tanh(bits @ first) @ second
        return np.exp(out[:, :9]), np.tanh(out[:, 9])

    return network


def mctx_run(simulations):
    """A function of a seed: mctx on tic-tac-toe, a batch of 128 searches."""
    import jax
    import jax.numpy as jnp
    import mctx

    first, second = (jnp.asarray(w, jnp.float32) for w in weights())
    lines = jnp.array(
        [
            (0, 1, 2),
            (3, 4, 5),
            (6, 7, 8),
            (0, 3, 6),
            (1, 4, 7),
            (2, 5, 8),
            (0, 4, 8),
            (2, 4, 6),
        ]
    )

    def evaluate(board):
        bits = jnp.concatenate([board == 1, board == -1], axis=1)
        out = jnp.tanh(bits.astype(jnp.float32) @ first) @ second
        return out[:, :9], jnp.tanh(out[:, 9])

    def recurrent(params, key, action, embedding):
        board, turn, over = embedding
        rows = jnp.arange(board.shape[0])
        new = board.at[rows, action].set(turn)
        new = jnp.where(over[:, None], board, new)
        won = jnp.any(jnp.all(new[:, lines] == turn[:, None, None], axis=2), axis=1)
        reward = jnp.where(~over & won, 1.0, 0.0)
        done = over | won | jnp.all(new != 0, axis=1)
        logits, value = evaluate(new)
        logits = jnp.where(new == 0, logits, -1e9)
        discount = jnp.where(done, 0.0, -1.0)
        return mctx.RecurrentFnOutput(
            reward=reward, discount=discount, prior_logits=logits, value=value
        ), (new, -turn, done)

    board = jnp.zeros((BATCH, 9), jnp.int32)
    logits, value = evaluate(board)
    root = mctx.RootFnOutput(
        prior_logits=logits,
        value=value,
        embedding=(board, jnp.ones(BATCH, jnp.int32), jnp.zeros(BATCH, bool)),
    )
    run = jax.jit(
        lambda key: mctx.muzero_policy((), key, root, recurrent, simulations).action
    )
    run(jax.random.PRNGKey(0)).block_until_ready()
    return lambda seed: run(jax.random.PRNGKey(seed)).block_until_ready()


def speed(quick):
    rounds, ours = (2, 20_000) if quick else (5, 50_000)
    theirs = 50 if quick else 200
    problem = tic_tac_toe()
    method = sc.PUCT(network=sc.batched(our_network()), leaf_batch=BATCH)
    sc.Tree(problem, method=method).grow(simulations=10)
    has_mctx = importlib.util.find_spec("mctx") is not None
    run = mctx_run(theirs) if has_mctx else None
    best: dict[str, list[float]] = {}

    def measure(name, count, work):
        clocks = time.perf_counter, time.process_time
        begin = [clock() for clock in clocks]
        work()
        rates = [count / (c() - b) for c, b in zip(clocks, begin, strict=True)]
        known = best.get(name, [0.0, 0.0])
        best[name] = [max(pair) for pair in zip(known, rates, strict=True)]

    for seed in range(rounds):
        tree = sc.Tree(problem, method=method, seed=seed)
        measure(OURS, ours, lambda t=tree: t.grow(simulations=ours))
        if run is not None:
            measure(THEIRS, BATCH * theirs, lambda s=seed: run(s))
    lines = [f"| {name} | {w:,.0f} | {p:,.0f} |" for name, (w, p) in best.items()]
    if run is not None:
        pairs = zip(best[OURS], best[THEIRS], strict=True)
        wall, busy = (own / other for own, other in pairs)
        lines.append(f"| ratio | {wall:.2f} | {busy:.2f} |")
    head = "| simulations per second of | wall time | processor time |"
    return [head, "|---|---|---|", *lines]


PARTS = {"speed": speed}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    ).stdout.strip()  # fmt: skip
    text = [
        "# Evaluators at leaves",
        "",
        f"`python -m benchmarks.tree.evaluators {' '.join(sys.argv[1:])}`, "
        f"{datetime.date.today()}, commit {commit}, load {os.getloadavg()[0]:.1f} on "
        f"{os.cpu_count()} cores.",
    ]
    for name in given.parts or PARTS:
        text += ["", f"## {name.capitalize()}", "", *PARTS[name](given.quick)]
        print("\n".join(text[-40:]), flush=True)
    if given.out:
        given.out.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
