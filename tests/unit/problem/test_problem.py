"""Problems and facts: every parameter refused once with its value and remedy;
bounds on V by hand (theory, section 3).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numba
import numpy as np
import pytest

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import KL, CustomOperator, Entropy, Max, Sparsemax
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import MDP, Game


def step(state: Any, action: int, rng: Any) -> tuple[float, Any]:
    return 0.0, state


GOOD: dict[str, Any] = {"num_actions": 2, "discount": 0.5, "operator": Entropy(1.0)}

BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"num_actions": 0}, "num_actions", "at least 1"),
    ({"num_actions": 2.0}, "num_actions", "whole number"),
    ({"num_actions": True}, "num_actions", "whole number"),
    ({"discount": -0.1}, "discount", "at least 0"),
    ({"discount": math.nan}, "discount", "number"),
    ({"discount": "0.5"}, "discount", "number"),
    ({"discount": 1.0}, "discount", "give horizon="),
    ({"discount": 1.1, "horizon": 3}, "discount", "[0, 1]"),
    ({"operator": "entropy"}, "operator", "Entropy(1.0)"),
    ({"operator": Entropy}, "operator", "Max()"),
    ({"operator": KL(1.0, (0.2, 0.3, 0.5))}, "prior", "one weight per action"),
    ({"reward_range": (1.0, 0.0)}, "reward_range", "low <= high"),
    ({"reward_range": (0.0, math.inf)}, "reward_range", "finite"),
    ({"reward_range": 1.0}, "reward_range", "two finite numbers"),
    ({"value_bounds": (0.0,)}, "value_bounds", "two finite numbers"),
    ({"value_bounds": (100.0, 200.0)}, "value_bounds", "widen"),
    ({"legal": [True, False]}, "legal", "function"),
    ({"terminal": "end"}, "terminal", "function"),
    ({"horizon": 0}, "horizon", "at least 1"),
    ({"horizon": 2.5}, "horizon", "whole number"),
    ({"min_actions": 0}, "min_actions", "from 1 to num_actions = 2"),
    ({"min_actions": 3}, "min_actions", "from 1 to num_actions = 2"),
]


@pytest.mark.parametrize(
    ("changes", "name", "remedy"), BAD, ids=[str(case[0]) for case in BAD]
)
def test_each_bad_parameter_is_named_with_its_value_and_remedy(
    changes: dict[str, Any], name: str, remedy: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        MDP(step, **{**GOOD, **changes})
    message = str(caught.value)
    assert name in message
    assert remedy in message
    if name != "prior":
        assert repr(changes[name]) in message
    assert message.endswith(".")


def test_an_oracle_has_to_be_a_function() -> None:
    with pytest.raises(InvalidInput, match=r"step\(state, action, rng\), got 3"):
        MDP(3, **GOOD)  # type: ignore[arg-type]


def test_numpy_numbers_are_numbers() -> None:
    problem = MDP(
        step,
        num_actions=np.int64(3),
        discount=np.float32(0.5),
        operator=Max(),
        horizon=np.int32(4),
    )  # type: ignore[arg-type]
    assert (problem.num_actions, problem.discount, problem.horizon) == (3, 0.5, 4)
    assert all(
        type(x) in (int, float)
        for x in (problem.num_actions, problem.discount, problem.horizon)
    )


def test_a_problem_is_frozen_and_prints_briefly() -> None:
    problem = MDP(step, name="mine", **GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.discount = 0.9  # type: ignore[misc]
    assert (
        repr(problem)
        == "MDP(name='mine', num_actions=2, discount=0.5, operator=Entropy(temperature=1.0))"
    )


def test_legal_actions_terminals_and_players() -> None:
    game = Game(
        step,
        player=lambda s: s,
        legal=lambda s, a: a == 0 or s == 1,
        terminal=lambda s: s == 9,
        **GOOD,
    )
    assert game.legal_actions(1) == [0, 1]
    assert game.legal_actions(2) == [0]
    assert game.mover(2) == 2
    assert game.is_terminal(9)
    assert not game.is_terminal(1)
    with pytest.raises(
        InvalidInput, match=r"player\(7\) must be 1 \(max\) or 2 \(min\), got 7"
    ):
        game.mover(7)
    stuck = MDP(step, legal=lambda s, a: False, **GOOD)
    with pytest.raises(InvalidInput, match=r"State 5 has no legal action.*terminal="):
        stuck.legal_actions(5)


def test_the_start_state() -> None:
    assert MDP(step, initial_state="a", **GOOD).start() == "a"
    assert MDP(step, initial_state="a", **GOOD).start("b") == "b"
    with pytest.raises(InvalidInput, match="initial_state"):
        MDP(step, **GOOD).start()


def test_a_problem_is_compiled_if_all_its_functions_are() -> None:
    fast = numba.njit(step)
    assert MDP(fast, **GOOD).is_compiled
    assert not MDP(step, **GOOD).is_compiled
    assert not MDP(fast, terminal=lambda s: False, **GOOD).is_compiled
    assert MDP(fast, terminal=True, **GOOD).is_compiled


def test_facts_say_what_the_problem_says() -> None:
    assert MDP(step, **GOOD).facts.min_actions == 2
    # nothing is known: the worst case
    assert MDP(step, legal=lambda s, a: True, **GOOD).facts.min_actions == 1
    assert (
        MDP(step, legal=lambda s, a: True, min_actions=2, **GOOD).facts.min_actions
        == 2
    )
    assert MDP(step, terminal=True, **GOOD).facts.terminals
    assert not MDP(step, terminal=False, **GOOD).facts.terminals
    game = Game(step, player=lambda s: 1, alternating=True, **GOOD)
    assert game.facts.game
    assert game.facts.alternating


# --- bounds on V by hand: gamma = 1/2, lambda = 1, K = 2, rewards in [0, 1], M = log 2 ---

M = math.log(2.0)


def facts(**changes: Any) -> Facts:
    base: dict[str, Any] = {
        "num_actions": 2,
        "min_actions": 2,
        "discount": 0.5,
        "operator": Entropy(1.0),
        "reward_range": (0.0, 1.0),
    }
    return Facts(**{**base, **changes})


def test_the_regularizer_moves_the_value_and_does_not_widen_it() -> None:
    assert facts().value_range() == pytest.approx((2.0 * M, 2.0 * (1.0 + M)))
    assert facts().value_span() == pytest.approx(2.0)
    assert facts().q_bounds() == pytest.approx((M, 2.0 + M))


def test_varying_actions_take_the_offset_of_the_fewest_and_the_most() -> None:
    assert facts(min_actions=1).value_range() == pytest.approx((0.0, 2.0 * (1.0 + M)))
    assert not facts(min_actions=1).price_is_exact


def test_terminals_pull_the_bounds_to_zero() -> None:
    assert facts(terminals=True).value_range() == pytest.approx((0.0, 2.0 * (1.0 + M)))
    assert facts(
        terminals=True, reward_range=(-5.0, -4.0)
    ).value_range() == pytest.approx((2.0 * (M - 5.0), 0.0))
    assert not facts(terminals=True).price_is_exact
    assert facts().price_is_exact


def test_games_carry_the_regularizer_on_both_sides() -> None:
    assert facts(game=True).value_range() == pytest.approx((-2.0 * M, 2.0 * (1.0 + M)))


def test_strictly_alternating_games_do_not() -> None:
    """Offsets +-M/(1 + gamma) = +-2M/3, around them the span 1/(1 - gamma)."""
    game = facts(game=True, alternating=True)
    assert game.player_offset() == pytest.approx(M / 1.5)
    assert game.value_span() == pytest.approx(2.0)
    assert game.value_bounds(1) == pytest.approx((M / 1.5, 2.0 + M / 1.5))
    assert game.value_bounds(2) == pytest.approx((-M / 1.5, 2.0 - M / 1.5))
    # after max, min moves
    assert game.q_bounds(1) == pytest.approx((-M / 3.0, 2.0 - M / 3.0))
    assert facts(game=True, alternating=True, terminals=True).player_offset() == 0.0


def test_horizons_sum_what_is_left() -> None:
    """Three steps at discount 1: V in [3M, 3 + 3M]; two left: [2M, 2 + 2M];
    alternating offsets M - M + M.
    """
    finite = facts(discount=1.0, horizon=3)
    assert finite.value_range() == pytest.approx((3.0 * M, 3.0 * (1.0 + M)))
    assert finite.value_range(2) == pytest.approx((2.0 * M, 2.0 * (1.0 + M)))
    assert finite.value_range(0) == (0.0, 0.0)
    assert finite.q_bounds() == pytest.approx((2.0 * M, 3.0 + 2.0 * M))
    assert facts(discount=0.5, horizon=2).steps(2) == pytest.approx(1.5)
    assert facts(
        discount=1.0, horizon=3, game=True, alternating=True
    ).player_offset() == pytest.approx(M)


def test_given_bounds_tighten_and_never_bind_an_empty_horizon() -> None:
    assert facts(given_bounds=(2.0, 3.0)).value_range() == pytest.approx((2.0, 3.0))
    assert facts(given_bounds=(-9.0, 9.0)).value_range() == facts().value_range()
    assert facts(discount=1.0, horizon=2, given_bounds=(1.5, 3.0)).q_bounds(
        remaining=1
    ) == (0.0, 1.0)


def test_operators_without_shift_invariance_get_symmetric_bounds() -> None:
    half = CustomOperator(
        lambda q: 0.5 * float(max(q)) + 0.25, lambda q: q, smooth=1.0
    )
    # (1 + 0.25)/(1 - 0.5)
    assert facts(
        operator=half, reward_range=(0.0, 1.0)
    ).value_range() == pytest.approx((-2.5, 2.5))


def test_the_distance_from_plain_max() -> None:
    assert facts().relaxation_bound() == pytest.approx(2.0 * M)
    assert facts(operator=Max()).relaxation_bound() == 0.0
    assert facts(operator=Sparsemax(1.0)).relaxation_bound() == pytest.approx(
        2.0 * 0.25
    )
    # mellowmax lies below by log K
    assert facts(operator=KL(1.0)).relaxation_bound() == pytest.approx(2.0 * M)
    assert facts(operator=KL(1.0, (0.1, 0.9))).relaxation_bound() == pytest.approx(
        2.0 * math.log(10.0)
    )
    assert (
        facts(operator=CustomOperator(max, max, smooth=1.0)).relaxation_bound()
        == math.inf
    )


def test_small_facts() -> None:
    found = facts(reward_range=(-3.0, 1.0), operator=Entropy(2.0))
    assert (found.reward_span, found.reward_bound) == (4.0, 3.0)
    assert found.regularizer_bound == pytest.approx(2.0 * M)
    assert (found.smoothness, found.curvature) == (0.5, 0.5)


def test_a_class_may_be_the_function_itself() -> None:
    """``tuple`` of a state is its key; a class whose objects are called is refused."""

    class Over:
        def __call__(self, state: Any) -> bool:
            return False

    problem = MDP(step, key=tuple, terminal=bool, initial_state=[], **GOOD)
    assert problem.key_of([1, 2]) == (1, 2)
    with pytest.raises(InvalidInput, match="terminal is a class, Over"):
        MDP(step, terminal=Over, initial_state=0, **GOOD)
