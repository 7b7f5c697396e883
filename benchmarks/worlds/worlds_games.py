"""OpenSpiel's games by name: exact values against OpenSpiel's own minimax.

    python -m benchmarks.worlds.worlds_games [--positions 5] [--seconds 60]
        [--out docs/evidence/worlds-games.md] [game ...]

Two comparisons, both at discount 1 with plain max and min, value of player 0:

*Whole games.* Boards that are small enough to be solved (``SMALL``): ``exact`` on
``openspiel:NAME`` against ``alpha_beta_search`` of OpenSpiel's Python library, and where
there is chance against its ``expectiminimax`` at the depth of the longest game.

*Every game of the adapter's class.* Positions one or two moves before the end of random
playouts, with as many moves left as ``DEPTH`` says: ``exact`` with that horizon against
``expectiminimax`` at that depth, where a position that is not over counts 0. These are
the games as they are, with boards that nobody solves.

OpenSpiel's functions know nothing of the adapter's keys, horizons or merged chance
nodes, so an agreement tests all of these. The exit code is 1 if any two values differ by
more than 1e-9.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspiel
from benchmarks.timing import signed
from benchmarks.worlds.scan_openspiel import usable
from open_spiel.python.algorithms import minimax

import smoothcruiser as sc
from smoothcruiser.errors import SmoothcruiserError

AGREES = 1e-9
DEPTH = 2
MANY_ACTIONS = 1000  # games with more are looked at one move deep
LONGEST_PLAYOUT = 5000

# the smallest boards that OpenSpiel allows, or the largest that both solve in seconds
SMALL = (
    "breakthrough(rows=4,columns=3)",
    "clobber(rows=3,columns=4)",
    "connect_four(rows=3,columns=4,x_in_row=3)",
    "dots_and_boxes(num_rows=2,num_cols=2)",
    "go(board_size=2,komi=0.5,max_game_length=8)",
    "gomoku(size=3,connect=3)",
    "havannah(board_size=2)",
    "hex(board_size=3)",
    "mnk(m=3,n=3,k=3)",
    "nim(pile_sizes=1;3;5)",
    "oware(num_houses_per_player=2,num_seeds_per_house=1)",
    "pig(winscore=8,horizon=8,diceoutcomes=3)",
    "tic_tac_toe",
    "y(board_size=3)",
)


@dataclass(frozen=True)
class Compared:
    """Two values of one position, and what they cost."""

    game: str
    ours: float
    theirs: float
    states: int
    seconds: tuple[float, float]

    @property
    def agree(self) -> bool:
        """Whether both say the same."""
        return abs(self.ours - self.theirs) <= AGREES


class TooLong(Exception):
    """One of the two solvers did not come to an end."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """``TooLong`` after so many seconds."""

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def whole(name: str, seconds: float) -> Compared | str:
    """A small game, solved from its first move; or why it was not."""
    try:
        game = pyspiel.load_game(name)
        begin = time.perf_counter()
        with limited(seconds):
            theirs = reference(game)
        between = time.perf_counter()
        problem = sc.make(f"openspiel:{name}", discount=1, operator="max")
        with limited(seconds):
            solution = sc.solve(problem)
    except TooLong:
        return f"not solved within {seconds:g} s"
    except (pyspiel.SpielError, SmoothcruiserError, NotImplementedError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
    return Compared(
        name,
        float(solution.values[solution.index(problem.start())]),
        theirs,
        len(solution.values),
        (time.perf_counter() - between, between - begin),
    )


def reference(game: Any) -> float:
    """OpenSpiel's own value of a whole game for player 0."""
    longest = game.max_game_length()
    if game.get_type().chance_mode == pyspiel.GameType.ChanceMode.DETERMINISTIC:
        value, _ = minimax.alpha_beta_search(
            game, maximum_depth=longest, maximizing_player_id=0
        )
        return float(value)
    return looked_ahead(game.new_initial_state(), longest)


def looked_ahead(state: Any, depth: int) -> float:
    """OpenSpiel's expectiminimax; positions that are not over count 0."""

    def rest(position: Any) -> float:
        if position.is_terminal():
            return float(position.returns()[0])
        if not position.is_chance_node():
            return 0.0
        return sum(p * rest(position.child(o)) for o, p in position.chance_outcomes())

    if state.is_chance_node():
        law = state.chance_outcomes()
        return sum(p * looked_ahead(state.child(o), depth) for o, p in law)
    value, _ = minimax.expectiminimax(state, depth, rest, 0)
    return float(value)


def late(name: str, positions: int) -> list[Compared]:
    """Positions near the ends of random playouts, a few moves deep."""
    game = pyspiel.load_game(name)
    depth = DEPTH if game.num_distinct_actions() <= MANY_ACTIONS else 1
    problem = sc.make(f"openspiel:{name},horizon={depth}", discount=1, operator="max")
    found = []
    for seed in range(positions):
        state = near_the_end(game, random.Random(seed), 1 + seed % depth)
        begin = time.perf_counter()
        theirs = looked_ahead(state, depth)
        between = time.perf_counter()
        here = problem.start([int(move) for move in state.history()])
        solution = sc.solve(dataclasses.replace(problem, initial_state=here))
        ours = float(solution.values[solution.index(here)])
        spent = (time.perf_counter() - between, between - begin)
        found.append(Compared(name, ours, theirs, len(solution.values), spent))
    return found


def near_the_end(game: Any, rng: random.Random, back: int) -> Any:
    """The position so many of the players' moves before the end of a random game."""
    state, line = game.new_initial_state(), []
    while not state.is_terminal() and len(line) < LONGEST_PLAYOUT:
        if not state.is_chance_node():
            line.append(state.clone())
        state.apply_action(rng.choice(state.legal_actions()))
    return line[-min(back, len(line))]


# --- the page -----------------------------------------------------------------


def whole_table(found: dict[str, Compared | str]) -> list[str]:
    lines = [
        "| small game | value, exact | value, OpenSpiel | agree | states | seconds here "
        "| seconds there |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, each in found.items():
        if isinstance(each, str):
            lines.append(f"| {name} | {each} | | | | | |")
            continue
        lines.append(
            f"| {name} | {each.ours:.10g} | {each.theirs:.10g} | "
            f"{'yes' if each.agree else 'NO'} | {each.states:,} | "
            f"{each.seconds[0]:.2f} | {each.seconds[1]:.2f} |"
        )
    return lines


def late_table(found: dict[str, list[Compared]]) -> list[str]:
    lines = [
        "| game | late positions | agree | not 0 | values | largest difference |",
        "|---|---|---|---|---|---|",
    ]
    for name, each in found.items():
        values = sorted({round(one.theirs, 6) for one in each})
        shown = ", ".join(f"{value:g}" for value in values)
        off = max((abs(one.ours - one.theirs) for one in each), default=0.0)
        lines.append(
            f"| {name} | {len(each)} | {sum(one.agree for one in each)} | "
            f"{sum(one.theirs != 0.0 for one in each)} | {shown} | {off:.1e} |"
        )
    return lines


def table(
    solved: dict[str, Compared | str], looked: dict[str, list[Compared]]
) -> list[str]:
    """The lines of both tables, in Markdown."""
    return [*whole_table(solved), "", *late_table(looked)]


def summary(
    solved: dict[str, Compared | str], looked: dict[str, list[Compared]]
) -> str:
    """How many agree."""
    done = [each for each in solved.values() if isinstance(each, Compared)]
    every = [one for each in looked.values() for one in each]
    return (
        f"{sum(each.agree for each in done)} of {len(done)} small games that were solved "
        f"have OpenSpiel's value; {sum(one.agree for one in every)} of {len(every)} late "
        f"positions of {len(looked)} games have it, {sum(one.theirs != 0 for one in every)} "
        f"of them not 0 (to {AGREES:g})."
    )


def measured(
    games: list[str], positions: int, seconds: float
) -> tuple[dict[str, Compared | str], dict[str, list[Compared]]]:
    """Both comparisons; each line is printed when it is known."""
    solved: dict[str, Compared | str] = {}
    looked: dict[str, list[Compared]] = {}
    for name in SMALL:
        if name.partition("(")[0] in games:
            solved[name] = whole(name, seconds)
            print(whole_table({name: solved[name]})[-1], flush=True)
    for name in games:
        looked[name] = late(name, positions)
        print(late_table({name: looked[name]})[-1], flush=True)
    return solved, looked


def main() -> int:
    """Print the tables, and write them where requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("games", nargs="*")
    parser.add_argument("--positions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    solved, looked = measured(
        options.games or usable(), options.positions, options.seconds
    )
    print(summary(solved, looked))
    if options.out is not None:
        version = importlib.metadata.version("open_spiel")
        head = [
            "# OpenSpiel's games by name, against its own minimax",
            "",
            f"`python {' '.join(sys.argv)}`, OpenSpiel {version}",
            "",
            signed(),
            "",
            summary(solved, looked),
            "",
            "A late position is one or two moves before the end of a random playout, with "
            f"{DEPTH} moves left (1 in games of more than {MANY_ACTIONS:,} actions); what "
            "is not over then counts 0.",
            "",
        ]
        options.out.write_text("\n".join([*head, *table(solved, looked), ""]))
    done = [each for each in solved.values() if isinstance(each, Compared)]
    every = [*done, *(one for each in looked.values() for one in each)]
    return int(not all(each.agree for each in every))


if __name__ == "__main__":
    sys.exit(main())
