"""How strong searches with evaluators are: connect four, sailing and IPPC domains.

    python -m benchmarks.tree.strength [simulations] [time] [time-uct] [constants]
                                  [heuristics] [--quick] [--out FILE]

simulations  PUCT and Gumbel MuZero with the network that
             examples/connect_four_network.py trains, against our UCT with as many
             simulations for each move
time         the same PUCT against OpenSpiel's C++ MCTS, each with as many simulations as
             fit into the same processor seconds per move
time-uct     our UCT against it, likewise
constants    UCT with other constants against UCT with 1.4: whether the opponent above
             was a weak one
heuristics   UCT and BTS with a few lines of a user's knowledge as ``value=`` against
             the same search without, at equal calls for each decision
             (``strength_heuristics.py``)

Games begin with a few random moves; each beginning is played twice, with colours
exchanged. Every move is searched afresh. A draw counts half, and intervals are
Wilson's, 95%, as if games were independent. Everything depends on seeds alone, except
how many simulations fit into a second: that is measured first, in processor time, so
that a busy machine makes no difference, and is printed. A part that is not run again
keeps its section of FILE.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # processor time is that of one thread
os.environ["SMOOTHCRUISER_TIER"] = "inlined"  # and nothing is compiled meanwhile

import numpy as np
from benchmarks.timing import signed
from benchmarks.tree.strength_heuristics import heuristics
from benchmarks.tree.tree_search import EXPLORATION, spiel_bot

import smoothcruiser as sc
from smoothcruiser.playing.episodes import wilson

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
import connect_four_network as example  # noqa: E402

OPENING = 4  # random moves at the beginning of a game
SLICE = 0.006  # processor seconds for a move, in games at equal time
Chooser = Callable[[list[int], Any, int], int]  # moves so far, state, seed -> column


@dataclass
class Player:
    """Chooses columns; counts its moves and the processor seconds that they take."""

    name: str
    simulations: int
    begin: Callable[[int], Chooser]  # by the number of the game
    spent: list[float] = field(default_factory=list)  # processor seconds of its moves

    def move(self, choose: Chooser, *position: Any) -> int:
        began = time.process_time()
        action = choose(*position)
        self.spent.append(time.process_time() - began)
        return action

    @property
    def each(self) -> float:
        """Processor seconds of a move."""
        return statistics.mean(self.spent)


@dataclass
class Score:
    """Games of one player against another."""

    wins: int = 0
    draws: int = 0
    losses: int = 0

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    def __str__(self) -> str:
        points = self.wins + 0.5 * self.draws
        low, high = wilson(points, self.games)
        return (
            f"{points / self.games:.3f} [{low:.3f}, {high:.3f}] | {self.wins} | "
            f"{self.draws} | {self.losses}"
        )


def searcher(name: str, problem: Any, method: Any, simulations: int) -> Player:
    """A tree search of ours, with a new tree for each move."""

    def choose(moves: list[int], state: Any, seed: int) -> int:
        tree = sc.Tree(problem, state, method=method, seed=seed)
        return int(tree.grow(simulations=simulations).action())

    return Player(name, simulations, lambda number: choose)


def open_spiel(solve: bool, simulations: int) -> Player:
    """OpenSpiel's C++ MCTS, which keeps no tree between moves either."""
    import pyspiel

    game = pyspiel.load_game("connect_four")

    def begin(number: int) -> Chooser:
        bot = spiel_bot(game, simulations, number, solve=solve)

        def choose(moves: list[int], state: Any, seed: int) -> int:
            board = game.new_initial_state()
            for move in moves:
                board.apply_action(move)
            return int(bot.step(board))

        return choose

    name = f"OpenSpiel's MCTS{' with its solver' if solve else ''}"
    return Player(name, simulations, begin)


def openings(problem: Any, count: int, moves: int = OPENING) -> list[list[int]]:
    """Beginnings of games: legal moves at random, after which nobody has won."""
    rng, found = np.random.default_rng(2026), []
    while len(found) < count:
        state, over, played = problem.initial_state, False, []
        while len(played) < moves and not over:
            played.append(int(rng.choice(problem.legal_actions(state))))
            _, state, over = problem.oracle(state, played[-1], None)
        if not over:
            found.append(played)
    return found


def game(problem: Any, sides: tuple[Player, Player], opening: list[int], number: int):
    """What the game is worth for the first of two players, who moves first."""
    state, over, reward, moves = problem.initial_state, False, 0.0, []
    choosers = [side.begin(number) for side in sides]
    while not over:
        mover = len(moves) % 2
        if len(moves) < len(opening):
            action = opening[len(moves)]
        else:
            seed = 100 * number + len(moves)
            action = sides[mover].move(choosers[mover], moves, state, seed)
        reward, state, over = problem.oracle(state, action, None)
        moves.append(action)
    return reward


def match(problem: Any, one: Player, other: Player, begun: list[list[int]]) -> Score:
    """Each beginning twice, with colours exchanged; the score is that of ``one``."""
    score = Score()
    for number, opening in enumerate(begun):
        for turned in (False, True):
            sides = (other, one) if turned else (one, other)
            reward = game(problem, sides, opening, number)
            reward = -reward if turned else reward
            score.wins += reward > 0
            score.draws += reward == 0
            score.losses += reward < 0
    return score


@cache
def world() -> tuple[Any, Any]:
    """Connect four, and the example's network, trained once per run."""
    problem = example.connect_four()
    return problem, example.compiled(example.trained(problem))


def against_uct(problem: Any, players: dict[str, Any], quick: bool) -> list[str]:
    """Games of searches against UCT with as many simulations for each move.

    ``players`` has a method and numbers of simulations for each name.
    """
    begun = openings(problem, 2 if quick else 100)
    uct = sc.UCT(exploration=EXPLORATION)
    lines = [
        "| player | simulations per move | score against UCT | wins | draws | losses | "
        "ms per move | of UCT |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (method, counts) in players.items():
        for count in counts:
            one = searcher(name, problem, method, count)
            other = searcher("UCT", problem, uct, count)
            for player in (one, other):  # what is compiled once is not timed
                player.begin(0)([], problem.initial_state, 0)
            score = match(problem, one, other, begun)
            lines.append(
                f"| {name} | {count} | {score} | {1e3 * one.each:.1f} | "
                f"{1e3 * other.each:.1f} |"
            )
            print(lines[-1], flush=True)
    return lines


def simulations(quick: bool) -> list[str]:
    """Games at equal simulations."""
    problem, network = world()
    some = (50,) if quick else (100, 400, 800)
    players = {
        "PUCT, mix=0.3": (sc.PUCT(network=network, exploration=1.5, mix=0.3), some),
        "PUCT": (sc.PUCT(network=network, exploration=1.5), some[:2]),
        "Gumbel, mix=0.3": (sc.Gumbel(network=network, noise=0.0, mix=0.3), some),
    }
    return against_uct(problem, players, quick)


def constants(quick: bool) -> list[str]:
    """UCT with other constants, at 400 simulations."""
    players = {
        f"UCT, exploration={c:g}": (sc.UCT(exploration=c), (50 if quick else 400,))
        for c in (0.7, 1.0, 2.0)
    }
    return against_uct(example.connect_four(), players, quick)


def fitting(problem: Any, make: Callable[[int], Player], begun: list[Any]) -> int:
    """How many simulations fit into a move of ``SLICE`` processor seconds."""
    count = 100
    make(count).begin(0)([], problem.initial_state, 0)  # compiles
    for _ in range(4):
        player = make(count)
        for number, opening in enumerate(begun):
            state = problem.initial_state
            for action in opening:
                _, state, _ = problem.oracle(state, action, None)
            player.move(player.begin(number), opening, state, number)
        count = max(1, round(count * SLICE / statistics.median(player.spent)))
    return count


def against_open_spiel(problem: Any, players: list[Any], quick: bool) -> list[str]:
    """Games at equal processor time; ``players``: name, method, the other's solver."""
    begun = openings(problem, 2 if quick else 100)
    few = 4 if quick else 20
    samples = [o for moves in (4, 12, 20) for o in openings(problem, few, moves)]
    lines = [
        "| player | against | score | wins | draws | losses | simulations per move of "
        "both | ms per move of both |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, method, solve in players:
        makers = partial(searcher, name, problem, method), partial(open_spiel, solve)
        both = [make(fitting(problem, make, samples)) for make in makers]
        score = match(problem, *both, begun)
        counts = " and ".join(f"{player.simulations:,}" for player in both)
        spent = " and ".join(f"{1e3 * player.each:.1f}" for player in both)
        lines.append(f"| {name} | {both[1].name} | {score} | {counts} | {spent} |")
        print(lines[-1], flush=True)
    return lines


def time_games(quick: bool) -> list[str]:
    """PUCT with the network, at equal time."""
    problem, network = world()
    puct = sc.PUCT(network=network, exploration=1.5, mix=0.3)
    players = [("PUCT, mix=0.3", puct, solve) for solve in (True, False)]
    return against_open_spiel(problem, players, quick)


def time_uct(quick: bool) -> list[str]:
    """UCT without a network, at equal time."""
    players = [("UCT", sc.UCT(exploration=EXPLORATION), True)]
    return against_open_spiel(example.connect_four(), players, quick)


PARTS = {
    "simulations": ("Connect four at equal simulations", simulations),
    "time": ("Connect four at equal time", time_games),
    "time-uct": ("Connect four at equal time, without a network", time_uct),
    "constants": ("Connect four, other constants of UCT", constants),
    "heuristics": ("Heuristics at equal calls", heuristics),
}


HEAD = """# How strong searches with evaluators are

Connect four: games begin with 4 random moves, and each beginning is played twice, with
colours exchanged; every move is searched afresh, by both. A draw counts half. Intervals
are Wilson's, 95%. UCT and OpenSpiel's MCTS have the constant 1.4; times are processor
time. PUCT's constant 1.5 and mix=0.3 were chosen before, in matches of 50 games with other
networks of this kind, from a quarter of these beginnings. The heuristics were revised after
a look at four to six of their episodes."""


def sections(text: str) -> dict[str, str]:
    """The sections of a page by their titles."""
    found = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    page = sections(given.out.read_text()) if given.out and given.out.exists() else {}
    for part in given.parts or PARTS:
        title, run = PARTS[part]
        command = (
            f"python -m benchmarks.tree.strength {part}{' --quick' * given.quick}"
        )
        how, began = f"`{command}`, {signed()}", sum(os.times()[:4])
        lines = run(given.quick)
        spent = f"It took {sum(os.times()[:4]) - began:.0f} processor seconds."
        page[title] = "\n".join([f"{how} {spent}", "", *lines])
        print(f"## {title}\n\n{page[title]}", flush=True)
        if given.out is not None:
            known = [title for title, _ in PARTS.values() if title in page]
            shown = [f"## {title}\n\n{page[title].strip()}" for title in known]
            given.out.write_text("\n\n".join([HEAD, *shown]) + "\n")


if __name__ == "__main__":
    main()
