"""Every OpenSpiel game of the adapter's class.

For each its key, and what random play and ``check`` say.

For each game: the key that is chosen when the problem is built, and the time
that takes; pairs of positions with equal keys whose futures were compared in
more playouts than at make, for the chosen key and for the bare observation;
whole playouts through the adapter, where every reward must lie in its range,
rewards must add up to the returns, no position may be without a legal move, and
no game may outlast what OpenSpiel calls the longest; and ``check``. Exit code 1
if anything is wrong.

Run: .venv/bin/python -m benchmarks.worlds.scan_openspiel [--moves 10000] [--out
FILE.md] [game …]
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path

import pyspiel

import smoothcruiser as sc
from smoothcruiser.adapters.openspiel import games as openspiel
from smoothcruiser.adapters.openspiel.keys import SpielKey, compare_futures
from smoothcruiser.jit.random.streams import stream

PLAYOUT_SECONDS = 2.0
HEAD = (
    "| game | key | s to make | pairs at make | pairs compared | the observation "
    "alone | playouts | longest (limit) | rewards | check |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass
class Play:
    """What whole playouts showed."""

    games: int = 0
    longest: int = 0
    low: float = 0.0
    high: float = 0.0


def usable() -> list[str]:
    """The registered games that the adapter accepts with their default parameters."""
    found = []
    for kind in pyspiel.registered_games():
        perfect = kind.information == pyspiel.GameType.Information.PERFECT_INFORMATION
        if not (perfect and kind.default_loadable):
            continue
        try:
            openspiel._check(pyspiel.load_game(kind.short_name))
        except (pyspiel.SpielError, sc.InvalidInput):
            continue
        found.append(kind.short_name)
    return sorted(found)


def played(problem: sc.Game, game: pyspiel.Game) -> Play:
    """Random playouts through the adapter; a broken law is an AssertionError."""
    seen, rng = Play(), random.Random(0)
    low, high = problem.reward_range
    begin = time.perf_counter()
    while seen.games < 200 and (
        seen.games == 0 or time.perf_counter() - begin < PLAYOUT_SECONDS
    ):
        state, total, moves, oracle_rng = (
            problem.start(),
            0.0,
            0,
            stream(1, seen.games),
        )
        while not problem.is_terminal(state):
            assert state.state.current_player() in (0, 1), "a mover is neither 0 nor 1"
            assert state.actions, "a position has no legal move"
            assert max(state.actions) < problem.num_actions, (
                "a move lies outside the action range"
            )
            reward, state = problem.oracle(
                state, rng.choice(sorted(state.actions)), oracle_rng
            )
            assert low <= reward <= high, (
                f"reward {reward} lies outside [{low}, {high}]"
            )
            total, moves = total + reward, moves + 1
        assert abs(total - state.state.returns()[0]) < 1e-9, (
            "rewards do not add up to the return"
        )
        assert abs(sum(state.state.returns())) < 1e-9, "returns do not add up to zero"
        assert moves <= game.max_game_length(), f"a game lasted {moves} moves"
        low_seen, high_seen = min(seen.low, total), max(seen.high, total)
        seen = Play(seen.games + 1, max(seen.longest, moves), low_seen, high_seen)
    return seen


def row(name: str, moves: int) -> tuple[str, bool]:
    """One line of the table, and whether all is well."""
    game = pyspiel.load_game(name)
    begin = time.perf_counter()
    problem = openspiel.problem(game, discount=0.9, operator=sc.Entropy(0.1))
    took = time.perf_counter() - begin
    key = problem.key
    pairs, fault = 0, None
    if key.merge != "history":
        pairs, fault = compare_futures(game, SpielKey(key.merge), moves, moves, seed=1)
    bare, hidden = compare_futures(game, SpielKey("observation"), moves, moves, seed=1)
    alone = f"{bare} pairs" if hidden is None else f"wrong, found after {bare} pairs"
    try:
        play, law = played(problem, game), "ok"
    except AssertionError as error:
        play, law = Play(), str(error)
    report = sc.check(problem)
    wrong = [f.sentence for f in report.findings if f.verdict == "wrong"]
    verdict = "usable" if report.ok else f"NOT USABLE: {wrong[0]}"
    rewards = f"[{play.low:g}, {play.high:g}]" if law == "ok" else f"WRONG: {law}"
    agreed = f"{pairs} ok" if fault is None else f"WRONG: {fault}"
    compared_pairs = "-" if key.merge == "history" else agreed
    cells = (
        name,
        key.merge,
        f"{took:.2f}",
        key.checked or "-",
        compared_pairs,
        alone,
        play.games,
        f"{play.longest:,} ({game.max_game_length():,})",
        rewards,
        verdict,
    )
    return (
        f"| {' | '.join(map(str, cells))} |",
        fault is None and law == "ok" and report.ok,
    )


def main() -> int:
    """Print the table, and write it where requested."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("games", nargs="*")
    parser.add_argument(
        "--moves",
        type=int,
        default=10_000,
        help="moves to collect positions, and to compare",
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines, good = [HEAD], True
    print(HEAD)
    for name in options.games or usable():
        line, fine = row(name, options.moves)
        print(line, flush=True)
        lines.append(line)
        good = good and fine
    total = f"{len(lines) - 1} games, {'all well' if good else 'NOT ALL WELL'}."
    print(f"\n{total}")
    if options.out is not None:
        import importlib.metadata

        version = importlib.metadata.version("open_spiel")
        head = (
            "# OpenSpiel games of the adapter's class\n"
            "\n"
            f"{datetime.date.today()}, OpenSpiel {version}, load "
            f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores:\n"
            f"`python -m benchmarks.worlds.scan_openspiel --moves {options.moves} --out "
            f"{options.out}`. {total}\n"
            "\n"
            "Pairs are positions with equal keys and different histories, played on "
            "with the same moves\n"
            "and rolls. *The observation alone* is the key that merges most, for "
            "comparison: where it is\n"
            "not found wrong although `history` is used, no playout met the rule that "
            "needs it, and the\n"
            "grounds are in `adapters/openspiel/keys.py`. Rewards are the totals seen.\n"
        )
        options.out.write_text("\n".join([head, *lines, ""]))
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
