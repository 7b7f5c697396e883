"""Problems: every parameter refused once with its value and remedy; what a problem
says of itself.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numba
import numpy as np
import pytest

import smoothcruiser as sc


def step(state: Any, action: int, rng: Any) -> tuple[float, Any]:
    return 0.0, state


GOOD: dict[str, Any] = {"num_actions": 2, "discount": 0.5, "operator": sc.Entropy(1.0)}

BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"num_actions": 0}, "num_actions", "at least 1"),
    ({"num_actions": True}, "num_actions", "whole number"),
    ({"discount": -0.1}, "discount", "at least 0"),
    ({"discount": math.nan}, "discount", "number"),
    ({"discount": "0.5"}, "discount", "number"),
    ({"discount": 1.0}, "discount", "give horizon="),
    ({"discount": 1.1, "horizon": 3}, "discount", "[0, 1]"),
    ({"operator": "entropy"}, "operator", "Entropy(1.0)"),
    ({"operator": sc.Entropy}, "operator", "Max()"),
    ({"operator": sc.KL(1.0, (0.2, 0.3, 0.5))}, "prior", "one weight per action"),
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
    with pytest.raises(sc.InvalidInput) as caught:
        sc.MDP(step, **{**GOOD, **changes})
    message = str(caught.value)
    assert name in message
    assert remedy in message
    if name != "prior":
        assert repr(changes[name]) in message
    assert message.endswith(".")


def test_an_oracle_has_to_be_a_function() -> None:
    with pytest.raises(sc.InvalidInput, match=r"step\(state, action, rng\), got 3"):
        sc.MDP(3, **GOOD)  # type: ignore[arg-type]


def test_numpy_numbers_are_numbers() -> None:
    numbers: Any = {"num_actions": np.int64(3), "discount": np.float32(0.5)}
    problem = sc.MDP(step, **(GOOD | numbers), horizon=np.int32(4))  # type: ignore[arg-type]
    plain = (problem.num_actions, problem.discount, problem.horizon)
    assert plain == (3, 0.5, 4)
    assert [type(number) for number in plain] == [int, float, int]


def test_a_problem_is_frozen_and_prints_briefly() -> None:
    problem = sc.MDP(step, name="mine", **GOOD)
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.discount = 0.9  # type: ignore[misc]
    numbers = "num_actions=2, discount=0.5, operator=Entropy(temperature=1.0)"
    assert repr(problem) == f"MDP(name='mine', {numbers})"


def test_legal_actions_terminals_and_players() -> None:
    functions: Any = {
        "player": lambda s: s,
        "legal": lambda s, a: a == 0 or s == 1,
        "terminal": lambda s: s == 9,
    }
    game = sc.Game(step, **functions, **GOOD)
    assert [game.legal_actions(s) for s in (1, 2)] == [[0, 1], [0]]
    assert game.mover(2) == 2
    assert [game.is_terminal(s) for s in (9, 1)] == [True, False]
    with pytest.raises(sc.InvalidInput, match=r"player\(7\) must be 1 \(max\) or 2"):
        game.mover(7)
    stuck = sc.MDP(step, legal=lambda s, a: False, **GOOD)
    with pytest.raises(
        sc.InvalidInput, match=r"State 5 has no legal action.*terminal="
    ):
        stuck.legal_actions(5)


def test_the_start_state() -> None:
    assert sc.MDP(step, initial_state="a", **GOOD).start() == "a"
    assert sc.MDP(step, initial_state="a", **GOOD).start("b") == "b"
    with pytest.raises(sc.InvalidInput, match="initial_state"):
        sc.MDP(step, **GOOD).start()


def test_a_problem_is_compiled_if_all_its_functions_are() -> None:
    fast = numba.njit(step)
    assert not sc.MDP(step, **GOOD).is_compiled
    for ends, compiled in ((None, True), (True, True), (lambda s: False, False)):
        assert sc.MDP(fast, terminal=ends, **GOOD).is_compiled is compiled


def test_a_class_may_be_the_function_itself() -> None:
    """``tuple`` of a state is its key; a class whose objects are called is refused."""

    class Over:
        def __call__(self, state: Any) -> bool:
            return False

    problem = sc.MDP(step, key=tuple, terminal=bool, initial_state=[], **GOOD)
    assert problem.key_of([1, 2]) == (1, 2)
    with pytest.raises(sc.InvalidInput, match="terminal is a class, Over"):
        sc.MDP(step, terminal=Over, initial_state=0, **GOOD)
