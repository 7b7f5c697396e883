"""Values and priors at leaves, in every form, on the plain tree; wrong ones are refused."""

import math
import subprocess
import sys

import numpy as np
import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

GAME = sc.make("random-game:states=9,actions=3,seed=2", discount=0.7, operator="max")
MAZE = sc.make("garnet:states=12,actions=3,seed=1", discount=0.8, operator="max")


def grown(problem, method, simulations=60, **more):
    tree = sc.Tree(problem, method=method, seed=3, executor="reference", **more)
    return tree.grow(simulations=simulations)


def test_exact_values_need_no_rollouts():
    """With V at the leaves every simulation of depth 1 is exact in the mean, and no
    call is spent beyond the new leaf.
    """
    for problem in (MAZE, GAME):
        exact = sc.solve(problem)
        state = problem.initial_state
        tree = grown(problem, sc.UCT(value=exact, max_nodes=2), simulations=3000)
        assert tree.num_calls < 2 * 3000
        assert tree.q_values() == pytest.approx(exact.q_values[state], abs=0.06)


@pytest.mark.parametrize("problem", [MAZE, GAME], ids=["mdp", "game"])
def test_all_forms_of_one_value_grow_one_tree(problem):
    exact = sc.solve(problem)
    values, policy = exact.values, np.full(exact.q_values.shape, 0.5)
    forms = [
        (values, policy),
        (lambda s: values[s], lambda s: policy[s]),
        (lambda s: np.array([values[s]]), lambda s: list(policy[s])),
        (sc.batched(lambda s: values[s]), sc.batched(lambda s: policy[s])),
        (exact, policy.tolist()),
    ]
    trees = [grown(problem, sc.PUCT(value=v, prior=p)) for v, p in forms]
    network = sc.batched(lambda s: (policy[s], values[s]))
    trees.append(grown(problem, sc.PUCT(network=network)))
    trees.append(grown(problem, sc.PUCT(network=lambda s: (policy[s], values[s]))))
    assert len({(t.node(0).edge_visits, t.node(0).edge_totals) for t in trees}) == 1


def test_the_prior_is_kept_and_masked():
    oracle = lambda s, a, rng: (0.0, s + 1)  # noqa: E731
    problem = sc.MDP(
        oracle,
        num_actions=3,
        discount=0.5,
        operator=sc.Max(),
        legal=lambda s, a: a != 1,
        initial_state=0,
    )
    tree = grown(problem, sc.PUCT(prior=lambda s: [3.0, 100.0, 1.0]))
    assert tree.node(0).prior == (0.75, 0.25)
    assert tree.node(0).edge_visits == pytest.approx((45, 15), abs=2)


def test_the_mix_with_rollouts():
    """mix = 1 is a rollout, whatever the value says."""
    rolled = grown(MAZE, sc.UCT(value=lambda s: 4.9, mix=1.0))
    asked = grown(MAZE, sc.UCT(value=lambda s: 4.9))
    plain = grown(MAZE, sc.UCT())
    half = grown(MAZE, sc.UCT(value=lambda s: 4.9, mix=0.5))
    assert rolled.num_calls == plain.num_calls > asked.num_calls
    assert asked.estimate().value > half.estimate().value > rolled.estimate().value


def test_values_outside_the_bounds_are_clipped_with_a_note():
    tree = grown(MAZE, sc.UCT(value=lambda s: 1e9))
    assert tree.estimate().value <= MAZE.facts.value_hull()[1]
    assert any("61 of 61 values lay outside" in note for note in tree.notes())


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (lambda: sc.UCT(value=lambda s: math.nan), "value must be a finite number"),
        (lambda: sc.UCT(value=lambda s: [1.0, 2.0]), "one number per state"),
        (lambda: sc.UCT(value=np.zeros(5)), "has no row for|one row for each"),
        (lambda: sc.PUCT(prior=lambda s: [1.0, -1.0, 1.0]), "at least 0"),
        (lambda: sc.PUCT(prior=lambda s: [0.0, 0.0, 0.0]), "not all 0"),
        (lambda: sc.PUCT(prior=lambda s: [1.0]), "one number per action, 3"),
        (lambda: sc.PUCT(network=lambda s: 1.0), "network must return"),
        (lambda: sc.UCT(value=sc.batched(lambda s: s[:0])), "shape"),
        (lambda: sc.UCT(initial_q=lambda s: [math.inf] * 3), "initial_q must give"),
        (lambda: sc.UCT(value=lambda s: None), "is a return missing"),
        (lambda: sc.UCT(value=sc.batched(lambda s: s * 1j)), "of shape"),
        (lambda: sc.PUCT(prior=lambda s: [1e308] * 3), "a finite sum"),
        (lambda: sc.UCT(value=len, solve=True), "solve= is not for trees with"),
        (lambda: sc.UCT(value=len, trees=2), "trees= is not for trees with"),
        (lambda: sc.UCT(value=len, leaf_rollouts=2), "leaf_rollouts= is not for"),
        (lambda: sc.UCT(value=len, samples=1), "samples= is not for trees with"),
        (lambda: sc.UCT(value=3), "must be a function of the state"),
        (lambda: sc.UCT(value="nowhere:f"), "could not be found"),
        (lambda: sc.UCT(mix=0.5), "without value="),
        (lambda: sc.UCT(value=len, mix=1.5), "from 0 to 1"),
        (lambda: sc.UCT(leaf_batch=8), "needs something to ask"),
        (lambda: sc.UCT(leaf_batch=0, value=len), "leaf_batch must be"),
        (lambda: sc.PUCT(network=len, value=len), "give either"),
        (lambda: sc.PUCT(expansion=2), "expansion must be 1"),
        (lambda: sc.PUCT(exploration=-1.0), "exploration must be"),
        (lambda: sc.Gumbel(considered=0), "considered must be"),
        (lambda: sc.RENTS(prior="parent", value=len, leaf_batch=2), "one path at a"),
    ],
)
def test_what_is_wrong_is_one_sentence(method, sentence):
    with pytest.raises(sc.InvalidInput, match=sentence) as error:
        grown(MAZE, method())
    assert "\n" not in str(error.value)


def test_an_error_of_the_function_names_the_state():
    with pytest.raises(
        sc.OracleError, match=r"value raised ZeroDivisionError.*at state 0"
    ):
        grown(MAZE, sc.UCT(value=lambda s: 1 / 0))


def test_a_compiled_function_that_is_wrong_is_not_the_oracles_fault():
    """One sentence, of Numba's pages too."""
    import numba

    two = numba.njit(lambda state, time: 0.0)
    field = numba.njit(lambda state: state.energy)
    for function, words in (
        (two, "not enough arguments"),
        (field, "Unknown attribute"),
    ):
        with pytest.raises(sc.OracleError, match=f"value raised .*{words}") as error:
            grown(MAZE, sc.UCT(value=function))
        assert "\n" not in str(error.value)
    with pytest.raises(
        sc.InvalidInput, match="value must return one number per state"
    ):
        grown(MAZE, sc.UCT(value=numba.njit(lambda state: (0.0, 1.0))))


def test_leaf_batches_ask_for_many_at_once():
    sizes = []

    def value(states):
        sizes.append(len(states))
        return np.zeros(len(states)) + 2.5

    tree = grown(MAZE, sc.UCT(value=sc.batched(value), leaf_batch=16), 800)
    assert tree.simulations == 800
    assert max(sizes) == 16
    assert sum(sizes) <= 801
    # some next states end nowhere new; most batches are full all the same
    assert sum(sizes) / len(sizes) > 8
    K, floats = MAZE.num_actions, tree.backend.nodes.floats[: tree.num_nodes]
    assert not floats[:, 2 * K + 4 :].any()  # visits that wait


def test_a_warm_start_orders_what_is_untried():
    firsts = {s: [0.1, 0.9, 0.5] for s in range(12)}
    tree = sc.Tree(
        MAZE, method=sc.UCT(initial_q=firsts.get), seed=1, executor="reference"
    )
    assert tree.q_values() == [0.1, 0.9, 0.5]
    order = []
    for _ in range(3):
        before = tree.node(0).edge_visits
        tree.grow(simulations=1)
        after = tree.node(0).edge_visits
        order += [a for a in range(3) if after[a] > before[a]]
    assert order == [1, 2, 0]


def test_the_search_policy():
    tree = grown(MAZE, sc.PUCT(value=sc.solve(MAZE)))
    n = tree.node(0).edge_visits
    assert tree.search_policy() == [m / sum(n) for m in n]
    gumbel = grown(MAZE, sc.Gumbel(value=sc.solve(MAZE), planned=60, noise=0.0))
    policy = gumbel.search_policy()
    assert sum(policy) == pytest.approx(1.0)
    assert int(np.argmax(policy)) == int(np.argmax(sc.solve(MAZE).q_values[0]))
    assert gumbel.action() == int(np.argmax(sc.solve(MAZE).q_values[0]))


def test_gumbel_halves_at_the_root_of_a_tree():
    tree = grown(MAZE, sc.Gumbel(value=sc.solve(MAZE), considered=3), simulations=24)
    # 3 actions in ceil(log2 3) = 2 phases: 4 visits each, then 6 each of two
    assert sorted(tree.node(0).edge_visits) == [4, 10, 10]


LIES = {
    "huge": lambda s: 1e12,
    "constant": lambda s: 2.0,
    "adversarial": lambda s: -10.0 * sc.solve(MAZE).values[s],
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
@pytest.mark.parametrize("method", [sc.UCT, sc.PUCT, sc.Gumbel], ids=lambda m: m.name)
def test_a_lying_evaluator_cannot_break_the_bound_from_below(method, lie):
    """V is never excluded; the truth of a bad policy is certified, not the lie."""
    exact, values = sc.solve(MAZE).values[0], [lie(s) for s in range(12)]
    for seed in range(4):
        found = sc.plan(
            MAZE,
            method=method(value=lambda s: values[s]),
            certify=True,
            delta=0.1,
            budget=1500,
            seed=seed,
            executor="reference",
        )
        assert found.interval[0] <= exact <= found.interval[1]
        assert found.certificate.confidence >= 0.9


def test_the_command_line_names_a_function(tmp_path):
    (tmp_path / "nets_of_this_test.py").write_text("def value(state): return 0.7\n")
    words = "plan chain:n=3 --discount 0.5 --operator max --method puct --executor "
    words += "reference --simulations 20 --option value=nets_of_this_test:value"
    command = [sys.executable, "-m", "smoothcruiser", *words.split()]
    found = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "puct(value=value)" in found.stdout
