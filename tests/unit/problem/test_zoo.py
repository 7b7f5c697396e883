"""Built-in problems: the definitions of theory, section 2, item 7; seeds; what
`make` understands and refuses.
"""

import sys
import types

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.problem.zoo import ZOO


def outcomes(problem, state, action):
    """Next state -> (probability, reward)."""
    return {z: (p, r) for p, r, z in problem.tables.outcomes(state, action)}


def grid(n):
    problem = sc.make(f"gridworld:n={n}", discount=0.2, temperature=10)
    return problem, lambda row, column: row * n + column


# --- definitions --------------------------------------------------------------


def test_chain():
    """Action 0 left (stays at 0), 1 right, reward 1 on n-2 -> n-1 only, the
    last state loops.
    """
    problem = sc.make("chain:n=4", discount=0.2, temperature=10)
    assert problem.start() == 0
    assert outcomes(problem, 0, 0) == {0: (1.0, 0.0)}
    assert outcomes(problem, 2, 0) == {1: (1.0, 0.0)}
    assert outcomes(problem, 1, 1) == {2: (1.0, 0.0)}
    assert outcomes(problem, 2, 1) == {3: (1.0, 1.0)}
    assert outcomes(problem, 3, 0) == outcomes(problem, 3, 1) == {3: (1.0, 0.0)}
    assert not problem.facts.terminals


def test_grid_moves():
    """A valid move succeeds with 0.75, the rest is split over the other valid
    neighbours; an invalid move stays.
    """
    problem, at = grid(5)
    left, right, up, down = range(4)
    # The corner (0, 0) has two neighbours.
    assert outcomes(problem, at(0, 0), right) == {
        at(0, 1): (0.75, 0.0),
        at(1, 0): (0.25, 0.0),
    }
    assert outcomes(problem, at(0, 0), left) == {at(0, 0): (1.0, 0.0)}
    assert outcomes(problem, at(0, 0), up) == {at(0, 0): (1.0, 0.0)}
    # The wall is column 2, open at row 2.
    assert outcomes(problem, at(1, 1), right) == {at(1, 1): (1.0, 0.0)}
    through = outcomes(problem, at(2, 1), right)
    assert through[at(2, 2)] == (0.75, 0.0)
    assert sorted(through) == sorted([at(2, 2), at(1, 1), at(3, 1), at(2, 0)])
    assert through[at(2, 0)][0] == pytest.approx(0.25 / 3.0)
    # In the gap only left and right are valid.
    assert outcomes(problem, at(2, 2), left) == {
        at(2, 1): (0.75, 0.0),
        at(2, 3): (0.25, 0.0),
    }
    assert outcomes(problem, at(2, 2), down) == {at(2, 2): (1.0, 0.0)}


def test_grid_rewards_every_arrival_in_the_far_corner():
    problem, at = grid(5)
    corner = at(4, 4)
    assert outcomes(problem, at(3, 4), 3)[corner] == (0.75, 1.0)
    # an invalid move there stays, and arrives
    assert outcomes(problem, corner, 1) == {corner: (1.0, 1.0)}
    assert outcomes(problem, corner, 0) == {
        at(4, 3): (0.75, 0.0),
        at(3, 4): (0.25, 0.0),
    }
    assert not problem.facts.terminals
    assert problem.start() == 0


@pytest.mark.parametrize(
    "name",
    [
        "garnet:states=12,actions=4,branching=5,seed=7",
        "random-game:states=12,actions=4,branching=5,seed=7",
    ],
)
def test_random_problems_have_the_branching_asked_for(name):
    tables = sc.make(name, discount=0.5, temperature=1.0).tables
    assert np.all(np.diff(tables.start) == 5)
    assert (tables.num_states, tables.num_actions) == (12, 4)
    for row in range(48):
        part = tables.next_state[tables.start[row] : tables.start[row + 1]]
        assert len(set(part.tolist())) == 5
    assert tables.prob.reshape(48, 5).sum(axis=1) == pytest.approx(1.0, abs=1e-15)
    assert np.all((tables.reward >= 0.0) & (tables.reward <= 1.0))
    few = sc.make("garnet:states=2,branching=9", discount=0.5, temperature=1.0).tables
    assert np.all(np.diff(few.start) == 2)  # no more than there are states


def test_alternating_games_pass_the_turn_with_every_move():
    game = sc.make(
        "random-game:states=9,seed=2,alternating=true", discount=0.5, temperature=1.0
    )
    assert isinstance(game, sc.Game)
    assert game.facts.alternating
    tables = game.tables
    row = np.repeat(np.arange(27), np.diff(tables.start))
    assert np.all(tables.player[row // 3] != tables.player[tables.next_state])
    assert set(tables.player.tolist()) == {1, 2}


@pytest.mark.parametrize("name", ["garnet", "random-game"])
def test_seeds_decide_everything(name):
    def arrays(seed):
        tables = sc.make(f"{name}:seed={seed}", discount=0.5, temperature=1.0).tables
        fields = (tables.prob, tables.reward, tables.next_state, tables.player)
        return [x for field in fields for x in field.tolist()]

    assert arrays(3) == arrays(3)
    assert arrays(3) != arrays(4)


# --- make ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ZOO)
def test_every_entry_builds_with_its_defaults(name):
    problem = sc.make(name, discount=0.9, temperature=0.5)
    assert problem.operator == sc.Entropy(0.5)
    assert problem.discount == 0.9
    assert problem.name.startswith(name)
    assert ZOO[name].summary


def test_operators_and_horizons():
    for given, expected in (
        ({"temperature": 2.0, "operator": "sparsemax"}, sc.Sparsemax(2.0)),
        ({"operator": "max"}, sc.Max()),
        ({"temperature": 0}, sc.Max()),
        ({"operator": sc.Entropy(3.0)}, sc.Entropy(3.0)),
    ):
        assert sc.make("chain", discount=0.5, **given).operator == expected
    assert sc.make("chain:n=3,horizon=4", discount=1.0, temperature=1.0).horizon == 4


@pytest.mark.parametrize(
    "text, least", [("gridworld:n=2", 3), ("random-game:states=1", 2)]
)
def test_a_size_has_a_least_value(text, least):
    """tests/unit/test_api_bad_input.py has other names that are refused."""
    with pytest.raises(sc.InvalidInput, match=f"at least {least}"):
        sc.make(text, discount=0.5, temperature=1.0)


def test_a_module_of_ones_own(monkeypatch):
    """A Problem, a function with some of the parameters, a function that
    returns something else.
    """
    module = types.ModuleType("my_problems")
    module.ready = sc.make("chain", discount=0.5, temperature=1.0)
    module.build = lambda discount=0.3: sc.make(
        "chain:n=3", discount=discount, temperature=1.0
    )
    module.wrong = lambda: 5
    monkeypatch.setitem(sys.modules, "my_problems", module)
    ready = sc.make("my_problems:ready", discount=0.8, temperature=2.0)
    assert (ready.discount, ready.operator) == (0.8, sc.Entropy(2.0))
    assert ready.name == "my_problems:ready"
    built = sc.make("my_problems:build", discount=0.4)
    assert built.discount == 0.4
    spec = {"problem": "my_problems:build", "discount": 0.4}
    assert built.spec == spec | {"temperature": None, "operator": None}
    assert sc.make("my_problems:build").discount == 0.3
    with pytest.raises(sc.InvalidInput, match="takes no 'temperature'"):
        sc.make("my_problems:build", temperature=1.0)
    with pytest.raises(sc.InvalidInput, match="must return a Problem"):
        sc.make("my_problems:wrong")
