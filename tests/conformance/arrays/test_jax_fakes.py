"""JAX environments made to deceive the adapters of gymnax and Pgx.

Laws: what cannot be planned in is refused in one sentence (not zero-sum, NaN, more than
two players, a key in the state, calls back into Python, no legal move); what can has the
value that counting by hand gives, whether it resets by itself, draws its mask, or
rounds; the precision that the user's program has set changes nothing.
"""

import math

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.problem.fingerprint import fingerprint

pytestmark = pytest.mark.slow
jax = pytest.importorskip("jax")
pytest.importorskip("gymnax")
pytest.importorskip("pgx")

import jax_fakes as fakes  # noqa: E402

from smoothcruiser.adapters.gymnax.tasks import problem as gymnax_problem  # noqa: E402
from smoothcruiser.adapters.pgx.boards import problem as pgx_problem  # noqa: E402
from smoothcruiser.jit.random.streams import stream  # noqa: E402


def game(env, **more):
    facts = {"discount": 1.0, "operator": sc.Max(), "reward_range": (-1.0, 1.0)}
    return pgx_problem(env, **facts | {"horizon": 20} | more)


def ladder(env, **more):
    facts = {"discount": 0.9, "operator": sc.Max(), "reward_range": (0.0, 1.0)}
    return gymnax_problem(env, **facts | more)


def test_an_honest_game_has_its_value():
    nim = game(fakes.Nim())
    assert {leaf.name for leaf in nim.oracle.layout.leaves} == {
        "current_player",
        "terminated",
        "truncated",
        "legal_action_mask",
        "heap",
    }
    assert nim.deterministic
    # 7 is no multiple of 4: the first player leaves 4 and wins
    answer = sc.plan(nim, method="exact")
    assert (answer.value, answer.action) == (1.0, 2)
    lost = sc.plan(nim, [2], method="exact")  # the second player's turn, at 4
    assert lost.value == 1.0
    assert nim.mover(nim.start([2])) == 2
    assert nim.mover(nim.initial_state) == 1


@pytest.mark.parametrize("seed", range(4))
def test_the_player_who_begins_maximizes(seed):
    nim = game(fakes.Nim(), seed=seed)
    assert nim.mover(nim.initial_state) == 1
    answer = sc.plan(nim, method="exact")
    # taking 2 would win for who wants the other one to take the last match
    assert (answer.value, answer.action) == (1.0, 2)
    rng = stream(seed + 100)
    starts = [nim.oracle.reset(rng) for _ in range(20)]
    assert {nim.mover(state) for state in starts} == {1}


def test_the_number_that_begins_differs():
    firsts = {game(fakes.Nim(), seed=seed).oracle.first for seed in range(8)}
    assert firsts == {0, 1}


@pytest.mark.parametrize("env", [fakes.NotZeroSum(), fakes.PaysNaN()])
def test_a_game_that_is_not_zero_sum_is_refused_where_it_shows(env):
    unfair = game(env)
    with pytest.raises(sc.OracleError, match="does not sum to 0"):
        sc.plan(unfair, method="exact")
    with pytest.raises(sc.OracleError, match="does not sum to 0"):
        sc.plan(unfair, method="uct", budget=2000)
    with pytest.raises(sc.OracleError, match="does not sum to 0"):
        sc.plan(game(env, horizon=4), method="smoothcruiser", epsilon="60%", delta=0.1)


def test_a_game_that_starts_again_is_another_world():
    # it pays and goes on: 7 matches, 7 again; the loser of the first begins the second
    endless = game(fakes.Restarts(), discount=0.5, horizon=None)
    one, _ = sc.plan(endless, method="certified", epsilon=0.01, delta=0.1), None
    exact = sc.plan(game(fakes.Restarts(), discount=0.5, horizon=12), method="exact")
    assert one.interval[0] - 1e-3 <= exact.value <= one.interval[1] + 1e-3
    told = game(fakes.Nim(), discount=0.5, horizon=None)
    assert sc.plan(told, method="exact").value == 0.25  # won with the third move


def test_a_mask_that_is_drawn_is_a_part_of_the_state():
    fickle = game(fakes.FickleMask())
    assert not fickle.deterministic
    after = {
        bytes(fickle.oracle(fickle.initial_state, 0, stream(i))[1].words)
        for i in range(40)
    }
    assert len(after) == 4  # of one heap: take 1, and 2 and 3 or not
    answer = sc.plan(fickle, method="certified", epsilon=0.6, delta=0.1)
    value = nim_value(7, (1, 2, 3), {})
    assert answer.interval[0] <= value <= answer.interval[1]


def nim_value(heap, takes, known):
    """The value for the mover by counting, where 2 and 3 are allowed at random after."""
    best = -1.0
    for take in takes:
        left = heap - take
        if left < 0:
            continue
        if left == 0:
            best = max(best, 1.0)
            continue
        if left not in known:
            options = [
                [
                    1,
                    *([2] if two and left >= 2 else []),
                    *([3] if three and left >= 3 else []),
                ]
                for two in (0, 1)
                for three in (0, 1)
            ]
            known[left] = sum(nim_value(left, o, known) for o in options) / 4
        best = max(best, -known[left])
    return best


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: game(fakes.ThreePlayers()), "3 players"),
        (lambda: game(fakes.CallsBack()), "calls Python from inside its step"),
        (lambda: game(fakes.OwnKey()), "keeps its random key in its state"),
        (lambda: game(fakes.Nim(), x64="yes"), "x64 must be true or false"),
        (lambda: game(fakes.Nim(), reward_range=None), "reward_range"),
        (lambda: game(object()), "has no init"),
        (lambda: ladder(fakes.Growing()), "x of ladder has shape"),
        (lambda: ladder(fakes.Ladder(), reward_range=None), "reward_range"),
        (lambda: ladder(fakes.Ladder(), actions=[0, 2]), "actions from 0 to 1"),
        (lambda: ladder(object()), "has no step_env"),
        (lambda: game(fakes.Nim()).start([9]), "Move 9 of"),
        (lambda: game(fakes.Nim()).start({"heap": 3}), "needs 'current_player'"),
        (lambda: game(fakes.FickleMask()).start([0]), "chance has a part"),
        (
            lambda: ladder(fakes.Ladder()).start({"x": 0, "time": -1, "ended": False}),
            "time of ladder counts steps",
        ),
    ],
)
def test_what_cannot_be_planned_in_is_refused_in_one_sentence(make, said):
    with pytest.raises(sc.InvalidInput, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_state_without_a_legal_move_is_an_error():
    with pytest.raises(sc.SmoothcruiserError, match="no legal action"):
        sc.plan(game(fakes.Stuck()), method="exact")


# --- rounding -----------------------------------------------------------------


@pytest.mark.parametrize("x64, steps", [(False, 10), (True, 11)])
@pytest.mark.parametrize("outside", [False, True])
def test_a_chain_that_rounding_decides_has_the_value_of_its_precision(
    x64, steps, outside
):
    was = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", outside)
    try:
        climb = ladder(fakes.Ladder(), x64=x64)
        assert climb.deterministic
        value = 0.9 ** (steps - 1)
        assert sc.plan(climb, method="exact").value == pytest.approx(value, abs=1e-9)
        answer = sc.plan(climb, method="certified", epsilon=0.01, delta=0.1)
        assert answer.interval[0] <= value <= answer.interval[1]
        assert any("float" in line for line in answer.certificate.assumptions)
        # rows of a batch go the same way
        backend, oracle = climb.oracle.backend, climb.oracle
        rows = backend.take(backend.one(climb.initial_state), np.zeros(100, np.int64))
        keys = backend.random(np.random.SeedSequence(0))
        for step in range(steps):
            paid, rows, _ = backend.step(
                oracle.function, rows, np.ones(100, int), keys
            )
            assert (paid == (step == steps - 1)).all()
        assert jax.config.jax_enable_x64 is outside
    finally:
        jax.config.update("jax_enable_x64", was)


def test_an_environment_that_resets_by_itself_ends_where_it_says():
    assert sc.plan(ladder(fakes.AutoReset()), method="exact").value == pytest.approx(
        0.9**9, abs=1e-9
    )


def test_fingerprints_tell_environments_apart():
    class Tall(fakes.Ladder):
        def __init__(self, height):
            self.height = np.array([height])

    prints = [fingerprint(ladder(Tall(h))).parts for h in (1, 1, 2)]
    assert prints[0] == prints[1] != prints[2]


def test_nan_is_named():
    with pytest.raises(sc.OracleError, match="ladder paid NaN at state ladder"):
        sc.plan(ladder(fakes.NaNLadder()), method="exact")


def test_a_counter_is_dropped_with_its_limit():
    limited = ladder(fakes.Ladder())
    free = ladder(fakes.Ladder(), time_limit=False)
    names = [[x.name for x in p.oracle.layout.leaves] for p in (limited, free)]
    assert names == [["x", "time", "ended"], ["x", "ended"]]
    short = fakes.Knobs(max_steps_in_episode=9)
    cut = gymnax_problem(
        fakes.Ladder(), short, discount=0.9, operator=sc.Max(), reward_range=(0, 1)
    )
    assert sc.plan(cut, method="exact").value == 0.0


def test_chance_has_its_law():
    noisy = ladder(fakes.Noisy(), time_limit=False)
    assert not noisy.deterministic
    answer = sc.plan(noisy, method="certified", epsilon=0.1, delta=0.1)
    # ten successes, each worth 0.9 p / (1 - 0.9 (1 - p)); the last one pays 1 at once
    each = 0.9 * 0.7 / (1 - 0.9 * 0.3)
    assert answer.interval[0] <= each**10 / 0.9 <= answer.interval[1]
    assert math.isfinite(answer.value)
