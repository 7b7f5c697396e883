"""Random models as UMB files: what is read is what was written.

Law, for MDPs, games and chains with deadlocks, self-loops and end components: every row
of the tables is the written choice; it pays the arrival at the goal, or the sum of what
its state, choice and branch pay; and each state has its mover. That such tables are
solved rightly is in ``test_exact_laws`` and ``test_undiscounted_laws``.
"""

from fractions import Fraction

import numpy as np
import pytest

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


@pytest.mark.parametrize("seed", range(24))
def test_random_models_are_read_as_they_were_written(seed, tmp_path):
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
    movers = players if is_game else np.zeros(size, dtype=int)
    sides = np.where((movers == 0) == (opt == "max"), 1, 2)
    reach = sc.make(f"umb:{path},reach=goal,opt={opt}")
    total = sc.make(f"umb:{path},total=r,opt={opt},bounded=6")
    assert total.horizon == 6
    state, choice, branch = (iter(rewards[k]) for k in ("state", "choice", "branch"))
    for s, here in enumerate(choices):
        pays = next(state)
        assert total.is_terminal(s) or total.mover(s) == sides[s]
        assert reach.is_terminal(s) == bool(goal[s] or not here)
        for a, branches in enumerate(here):
            paid = pays + next(choice)
            listed = [(float(p), float(goal[z]), z) for z, p in branches]
            assert reach.is_terminal(s) or reach.outcomes(s, a) == listed
            written = [(p, paid + next(branch), z) for p, _, z in listed]
            assert total.outcomes(s, a) == written
