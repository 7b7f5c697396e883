"""Random models as UMB files: what is read is what was written, and solved rightly.

Laws, for MDPs, games and chains with deadlocks, self-loops and end components:

- every row of the tables is the written choice, with the sum of what its state, choice
  and branch pay;
- the exact probability of reaching is the least solution of V = TV, found by value
  iteration from below on arrays that are built from the same lists apart from the
  reader (``verification_worlds.least``), for max, min and both sides of a game;
- a bounded total is backward induction's.
"""

from fractions import Fraction

import numpy as np
import pytest
from benchmarks.exact.verification_worlds import induction, least

import smoothcruiser as sc

pytest.importorskip("umbi")
from benchmarks.exact.umb_files import save


def lists(rng):
    """Choices with probabilities in eighths, rewards, labels and players."""
    size = int(rng.integers(2, 9))
    choices = []
    for _ in range(size):
        here = []
        for _ in range(int(rng.integers(0, 4))):
            count = int(rng.integers(1, 4))
            cuts = np.sort(rng.choice(np.arange(1, 8), size=count - 1, replace=False))
            shares = np.diff([0, *cuts.tolist(), 8])
            targets = rng.integers(size, size=count)
            here.append(
                [
                    (int(z), Fraction(int(p), 8))
                    for z, p in zip(targets, shares, strict=True)
                ]
            )
        choices.append(here)
    goal = rng.random(size) < 0.25
    goal[0] = False
    return choices, goal


def dense(choices, goal, rewards, stop):
    """(P, R, legal, terminal) with R of (S, A): the mean of what a choice pays."""
    size, width = len(choices), max(1, *map(len, choices))
    P, R = np.zeros((size, width, size)), np.zeros((size, width))
    legal = np.zeros((size, width), dtype=bool)
    state, choice, branch = (iter(rewards[k]) for k in ("state", "choice", "branch"))
    for s, here in enumerate(choices):
        pays = next(state)
        for a, branches in enumerate(here):
            legal[s, a], R[s, a] = True, pays + next(choice)
            for z, p in branches:
                P[s, a, z] += float(p)
                R[s, a] += float(p) * next(branch)
        if not here:  # play stays in a deadlock
            legal[s, 0], P[s, 0, s], R[s, 0] = True, 1.0, pays
    terminal = goal if stop else np.zeros(size, dtype=bool)
    return P, R, legal, terminal


def arrived(goal, shape):
    R = np.zeros(shape)
    R[:, :, goal] = 1.0
    return R


@pytest.mark.parametrize("seed", range(24))
def test_random_models_are_read_and_solved(seed, tmp_path):
    rng = np.random.default_rng([21, seed])
    choices, goal = lists(rng)
    size, players = len(choices), rng.integers(2, size=len(choices))
    counts = [len(choices), sum(map(len, choices))]
    counts.append(sum(len(c) for here in choices for c in here))
    rewards = {
        where: rng.integers(0, 4, size=n).tolist()
        for where, n in zip(("state", "choice", "branch"), counts, strict=True)
    }
    if counts[1] == 0:
        pytest.skip("a model without any choice")
    path = tmp_path / "model.umb"
    is_game = bool(seed % 2)
    save(
        path,
        choices,
        labels={"goal": goal.tolist()},
        rewards={"r": rewards},
        num_players=2 if is_game else 1,
        players=players.tolist() if is_game else None,
        player_names=["one", "two"] if is_game else None,
    )
    opt = ("max", "min")[seed // 2 % 2]
    problem = sc.make(f"umb:{path},reach=goal,opt={opt}")
    _check_rows(problem, choices, goal)
    P, R, legal, terminal = dense(choices, goal, rewards, stop=True)
    movers = np.zeros(size, dtype=int) if not is_game else players
    sides = np.where((movers == 0) == (opt == "max"), 1, 2)
    values = least(P, arrived(goal, P.shape), legal, terminal, sides)
    found = sc.solve(problem).values
    assert np.where(goal, 0.0, values) == pytest.approx(found, abs=1e-9)

    total = sc.make(f"umb:{path},total=r,opt={opt},bounded=6")
    P, R, legal, terminal = dense(choices, goal, rewards, stop=False)
    spread = np.repeat(R[:, :, None], size, axis=2)
    stages, _ = induction(
        P, spread, legal, terminal, sides, discount=1.0, horizon=6, temperature=0.0
    )
    answer = sc.plan(total, method="exact").value
    assert answer == pytest.approx(stages[6][0], abs=1e-9)


def _check_rows(problem, choices, goal):
    for s, here in enumerate(choices):
        if goal[s] or not here:
            assert problem.is_terminal(s)
            continue
        assert problem.legal_actions(s) == list(range(len(here)))
        for a, branches in enumerate(here):
            listed = [(float(p), float(goal[z]), z) for z, p in branches]
            assert problem.outcomes(s, a) == listed
