"""Tic-tac-toe in plain Python with deterministic=True.

Its regularized value is certified, and compared with backward induction.

A state is a string of nine characters. X (player 1) maximizes, O (player 2)
minimizes; a win pays 1 or -1 when it happens. One sample of a move is exact, so
the search spends one call per move (and a few more to check that), and its
intervals hold for sure.

    python examples/tictactoe.py
"""

from __future__ import annotations

from functools import cache

from smoothcruiser.certified.search import Certified
from smoothcruiser.operators import Entropy
from smoothcruiser.problem.problem import Game

LINES = [
    (0, 1, 2),
    (3, 4, 5),
    (6, 7, 8),
    (0, 3, 6),
    (1, 4, 7),
    (2, 5, 8),
    (0, 4, 8),
    (2, 4, 6),
]
OPERATOR = Entropy(0.1)


def winner(board: str) -> str:
    for a, b, c in LINES:
        if board[a] != "." and board[a] == board[b] == board[c]:
            return board[a]
    return ""


def terminal(board: str) -> bool:
    return "." not in board or winner(board) != ""


def player(board: str) -> int:
    return 1 if board.count("X") == board.count("O") else 2


def legal(board: str, action: int) -> bool:
    return board[action] == "."


def step(board: str, action: int, rng: object) -> tuple[float, str]:
    after = board[:action] + ("X" if player(board) == 1 else "O") + board[action + 1 :]
    return {"X": 1.0, "O": -1.0, "": 0.0}[winner(after)], after


@cache
def backward_induction(board: str) -> float:
    """The regularized value, by recursion over all games."""
    if terminal(board):
        return 0.0
    q = []
    for action in range(9):
        if legal(board, action):
            reward, after = step(board, action, None)
            q.append(reward + backward_induction(after))
    return OPERATOR.value(q, player=player(board))


def problem() -> Game:
    return Game(
        step,
        player=player,
        legal=legal,
        terminal=terminal,
        num_actions=9,
        discount=1.0,
        horizon=9,
        operator=OPERATOR,
        reward_range=(-1.0, 1.0),
        initial_state="." * 9,
        deterministic=True,
        name="tic-tac-toe",
    )


def main() -> None:
    for epsilon in (0.05, 1e-6):
        found = Certified(problem(), delta=0.05).query(epsilon=epsilon)
        exact = backward_induction("." * 9)
        low, high = found.interval
        print(
            (
                f"epsilon {epsilon:g}: [{low:.9f}, {high:.9f}] in "
                f"{found.num_calls:,} calls, {found.seconds:.2f} s,"
            ),
            end=" ",
        )
        print(
            f"confidence {found.certificate.confidence:g}; backward "
            f"induction {exact:.9f}, inside: {low <= exact <= high}"
        )
        print(
            "  moves that may be best: "
            f"{found.certificate.best_actions}; {found.notes[-1]}"
        )
    print("  assumption:", found.certificate.assumptions[0])


if __name__ == "__main__":
    main()
