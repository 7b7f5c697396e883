"""Trees and certified searches by address, with the step in the machine, and from one to
the other.
"""

import dataclasses
from typing import NamedTuple

import pytest
from numba import njit
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified.sampling import step_loops
from smoothcruiser.certified.snapshots.snapshot import restore, to_bytes
from smoothcruiser.engines.compiled import tiers as handover
from smoothcruiser.evaluation import rollouts
from smoothcruiser.tree.kernels import compiled_tree as compiled
from smoothcruiser.tree.kernels.compiled_tree import Machine
from smoothcruiser.tree.kernels.shared_machine import RowMachine

pytestmark = pytest.mark.compiles


class Spot(NamedTuple):
    x: int
    height: float
    lit: bool


@njit
def wander(state, action, rng):
    """Zeros of both signs, and an end of its own."""
    x = (state.x + action + rng.integers(2)) % 5
    height = 0.5 * rng.integers(2) * (1.0 if rng.random() < 0.5 else -1.0)
    return rng.random(), Spot(x, height, x % 2 == 0), x == 4 and rng.random() < 0.2


@njit
def mover(state):
    return 1 + state.x % 2


@njit
def allowed(state, action):
    return action == 0 or state.lit


@njit
def faulty(state, action, rng):
    if state > 40:
        raise ValueError("too far")
    return 0.5, state + 1


ROOT = Spot(0, 0.0, True)
GAME = sc.Game(
    wander,
    player=mover,
    legal=allowed,
    terminal=True,
    num_actions=3,
    discount=0.8,
    operator=sc.Entropy(0.5),
    initial_state=ROOT,
)


@pytest.fixture
def fresh(monkeypatch):
    for name in ("_machines", "_spoken", "_handovers"):
        monkeypatch.setattr(compiled, name, {})


def grown(monkeypatch, tier, method="ments"):
    monkeypatch.setenv(handover.VARIABLE, tier)
    tree = sc.Tree(GAME, ROOT, method=method, seed=3)
    tree.grow(simulations=700)
    return tree


def shown(tree):
    nodes = [tree.backend.node(i) for i in range(tree.num_nodes)]
    return [
        (
            *map(repr, node.state),
            node.player,
            node.visits,
            node.value.hex(),
            node.edge_visits,
        )
        for node in nodes
    ]


@pytest.mark.slow
def test_bits_do_not_depend_on_the_machine(fresh, monkeypatch):
    inlined = grown(monkeypatch, "inlined")
    first = shown(inlined)
    assert isinstance(inlined.backend.machine, Machine)
    by_address = grown(monkeypatch, "address")
    assert isinstance(by_address.backend.machine, RowMachine)
    assert shown(by_address) == first

    changing = grown(monkeypatch, "")
    assert isinstance(changing.backend.machine, RowMachine)
    monkeypatch.setattr(handover, "PAYS", 1)
    changing.grow(simulations=1)
    assert isinstance(changing.backend.machine, Machine)
    for tree in (inlined, by_address):
        tree.grow(simulations=1)
    for tree in (inlined, by_address, changing):
        tree.grow(simulations=2_000)
    assert shown(inlined) == shown(by_address) == shown(changing)

    # moves, and what is found of the states that Python knows
    for tree in (inlined, by_address):
        node = tree.backend.children(0)
        action, child = next(node)
        state = tree.backend.node(child).state
        assert tree.backend.child(0, action, state) == child
        assert tree.backend.child(0, action, state._replace(x=77)) is None
        assert tree.backend.child(0, action, state._replace(x=0.5)) is None
        tree.backend.advance(child)
        tree.backend.grow_to(3_000, 10**9)
    assert shown(inlined) == shown(by_address)


@pytest.mark.slow
def test_a_policy_of_a_tree_by_address_is_evaluated(fresh, monkeypatch):
    found, moved = {}, []
    with_functions = rollouts._with_functions

    def moving(*policy):
        moved.append(tier)
        return with_functions(*policy)

    monkeypatch.setattr(rollouts, "_with_functions", moving)
    for tier in ("inlined", "address", ""):
        tree = grown(monkeypatch, tier, "uct")
        # the last one changes between two rounds of paths
        monkeypatch.setattr(handover, "PAYS", 5_000)
        answer = sc.evaluate(GAME, tree, ROOT, delta=0.1, budget=20_000)
        found[tier] = (answer.value.hex(), answer.interval, answer.num_calls)
        monkeypatch.undo()
        monkeypatch.setattr(rollouts, "_with_functions", moving)
    assert moved == [""]
    assert found["inlined"] == found["address"] == found[""]


@pytest.mark.slow
def test_errors_of_the_step_come_by_address(fresh, monkeypatch):
    said = []
    for tier in ("inlined", "address"):
        monkeypatch.setenv(handover.VARIABLE, tier)
        problem = sc.MDP(
            faulty, num_actions=2, discount=0.9, operator=sc.Entropy(1.0), horizon=60
        )
        with pytest.raises(sc.OracleError, match="too far") as error:
            sc.plan(problem, 0, method="uct", budget=1_000)
        said.append(str(error.value))
    assert said[0] == said[1]


class Place(NamedTuple):
    x: int
    height: float


@njit
def named(state, action, rng):
    x = (state.x + action + rng.integers(3)) % 5
    height = 0.5 * rng.integers(3)
    return height, Place(x, height), x == 4 and height == 1.0


@njit
def ring(state, action, rng):
    if state == 7:
        raise ValueError("state seven")
    return rng.random(), (state + action + rng.integers(2)) % 6


STARTS = {named: Place(0, 0.0), ring: 0}


def problem_of(step):
    return mdp(step, terminal=step is named, initial_state=STARTS[step])


def run_search(problem, state, monkeypatch, tier="", forms=(None, None)):
    """A search in two queries, in a process that has compiled nothing for this step."""
    monkeypatch.setattr(step_loops, "_loops", {})
    monkeypatch.setenv(handover.VARIABLE, tier)
    search = sc.Certified(problem, delta=0.1, seed=3)
    for form, budget in zip(forms, (3_000, 30_000), strict=True):
        with (
            step_loops.STEP_LOOPS.use_form(compiled=form),
            step_loops.TABLE_LOOPS.use_form(compiled=form),
        ):
            search.query(state, budget=budget)
    return search


@pytest.mark.parametrize("step", STARTS, ids=lambda step: step.__name__)
def test_bits_do_not_depend_on_the_loop(step, monkeypatch):
    problem, state = problem_of(step), STARTS[step]
    snapshots = set()
    for tier in ("inlined", "address"):
        search = run_search(problem, state, monkeypatch, tier)
        snapshots.add(to_bytes(search))
    for forms in ((False, False), (False, True)):
        search = run_search(problem, state, monkeypatch, forms=forms)
        assert (search.loop.sampler.loop is not None) == forms[1]
        snapshots.add(to_bytes(search))
    monkeypatch.setattr(handover, "PAYS", 1_000)
    search = run_search(problem, state, monkeypatch, forms=(True, True))
    assert search.loop.sampler.loop.later is None  # the loop that was built is in use
    snapshots.add(to_bytes(search))
    assert len(snapshots) == 1


@pytest.mark.parametrize("horizon", [None, 4])
def test_bits_of_a_table_do_not_depend_on_the_loop(horizon, monkeypatch):
    """With and without kept streams; forgotten places and snapshots change nothing."""
    facts = {"discount": 0.7, "temperature": 0.5}
    problem = sc.make("garnet:states=9,actions=3", **facts)
    if horizon is not None:
        problem = dataclasses.replace(problem, horizon=horizon)
    snapshots = set()
    for forms in ((True, True), (False, False), (False, True), (True, False)):
        search = run_search(problem, 0, monkeypatch, forms=forms)
        snapshots.add(to_bytes(search))
    first, again = (sc.Certified(problem, delta=0.1, seed=3) for _ in range(2))
    with step_loops.TABLE_LOOPS.use_form(compiled=False):
        first.query(0, budget=3_000)
        restore(again, to_bytes(first))
        again.query(0, budget=30_000)
    assert again.loop.sampler.loop is None
    snapshots.add(to_bytes(again))
    assert len(snapshots) == 1


def test_errors_of_a_search_come_by_address(monkeypatch):
    said = []
    for tier in ("inlined", "address"):
        monkeypatch.setenv(handover.VARIABLE, tier)
        with pytest.raises(sc.OracleError, match="state seven") as error:
            sc.plan(problem_of(ring), 7, method="certified", epsilon=0.1, delta=0.1)
        said.append(str(error.value))
    assert said[0] == said[1]
