"""Law: whatever a user gets wrong, the error is one of ours, names the value
that came, and says what to change (design, Promises).
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import smoothcruiser as sc

NAN, INF = math.nan, math.inf
P = np.full((2, 2, 2), 0.5)
R = np.full((2, 2), 0.5)


def step(state, action, rng):
    return 0.5, state


FACTS = {"discount": 0.2, "operator": sc.Entropy(10.0)}
ONE = FACTS | {"num_actions": 2, "initial_state": 0}


def mdp(oracle=step, **changes):
    return sc.MDP(oracle, **ONE | changes)


def game(**changes):
    return sc.Game(step, **ONE | {"player": lambda s: 1} | changes)


def table(P=P, R=R, **changes):
    return sc.tabular(P, R, **FACTS | changes)


def made(text="chain:n=5", **changes):
    return sc.make(text, **{"discount": 0.2, "temperature": 10.0} | changes)


def explained(**changes):
    return sc.explain(made(), **{"epsilon": "20%", "delta": 0.1} | changes)


def planned(problem=None, **changes):
    request = {"epsilon": "20%", "delta": 0.1, "executor": "reference"}
    request |= {"method": "smoothcruiser"} | changes
    return sc.plan(mdp() if problem is None else problem, **request)


def solved(**options):
    return sc.solve(made(), **options)


HALF = {"value_function": max, "gradient_function": max, "smooth": 1.0}
BOTH = {"method": "paper", "delta_prime": 0.1}
NO_MODULE = "no_such_module_at_all"
PARAMETERS = [
    # operators
    (sc.Entropy, {"temperature": 0.0}, "0.0", "Max()"),
    (sc.KL, {"temperature": 1.0, "prior": (0.5, 0.0)}, "0.0", "legal="),
    (sc.Sparsemax, {"temperature": INF}, "inf", "finite"),
    (sc.SquareRoot, {"temperature": "hot"}, "'hot'", "temperature"),
    (sc.CustomOperator, HALF | {"value_function": 1}, "cannot be called", "functions"),
    (sc.CustomOperator, HALF | {"smooth": -1.0}, "-1.0", ">= 0"),
    # problems
    (mdp, {"oracle": "walk"}, "'walk'", "step(state, action, rng)"),
    (mdp, {"num_actions": 0}, "0", "at least 1"),
    (mdp, {"num_actions": 2.5}, "2.5", "whole number"),
    (mdp, {"discount": -0.1}, "-0.1", "at least 0"),
    (mdp, {"discount": NAN}, "nan", "discount"),
    (mdp, {"discount": 1.5, "horizon": 3}, "1.5", "[0, 1]"),
    (mdp, {"terminal": 3}, "3", "terminal(state)"),
    (mdp, {"outcomes": {0: 1}}, "{0: 1}", "outcomes(state, action)"),
    (mdp, {"value_bounds": (2.0, 1.0)}, "(2.0, 1.0)", "low <= high"),
    (mdp, {"value_bounds": (-9.0, -8.0)}, "-9.0", "widen"),
    (mdp, {"horizon": 0}, "0", "at least 1"),
    (mdp, {"min_actions": 3}, "3", "from 1 to"),
    (mdp, {"operator": sc.KL(1.0, prior=(1.0, 1.0, 1.0))}, "3 weights", "2 actions"),
    (game, {"discount": 2.0}, "2.0", "[0, 1)"),
    (game, {"player": 1}, "1", "player(state)"),
    # tables
    (table, {"P": np.full((2, 2, 2), NAN)}, "state 0, action 0", "probabilities"),
    (table, {"R": np.ones(3)}, "(3,)", "(S, A)"),
    (table, {"players": [1, 3]}, "players", "1 (max) and 2 (min)"),
    (table, {"terminal": [True]}, "(1,)", "(2,)"),
    (table, {"legal": np.ones((2, 3), bool)}, "(2, 3)", "(2, 2)"),
    (table, {"legal": np.zeros((2, 2), bool)}, "State 0", "terminal"),
    (table, {"players": [1, 2], "alternating": True}, "state 0", "drop alternating="),
    # make
    (made, {"text": ""}, "''", "chain:n=5"),
    (made, {"text": "chain:n"}, "'n'", "name=value"),
    (made, {"text": "chain:n=1"}, "1", "at least 2"),
    (made, {"text": "chain:m=5"}, "'m'", "n=5"),
    (made, {"text": "garnet:seed=-1"}, "-1", "at least 0"),
    (made, {"text": f"{NO_MODULE}:thing"}, repr(NO_MODULE), "gridworld"),
    (made, {"text": "math:thing"}, "'thing'", "Problem"),
    (made, {"text": "math:pi"}, "float", "Problem"),
    (made, {"discount": None}, "chain", "discount="),
    (made, {"temperature": None}, "entropy", "temperature="),
    (made, {"operator": "softest"}, "'softest'", "sparsemax"),
    # the promise
    (explained, {"epsilon": -0.1}, "-0.1", "above 0"),
    (explained, {"epsilon": INF}, "inf", "finite"),
    (explained, {"epsilon": "-5%"}, "-0.0625", "above 0"),
    (explained, {"epsilon": "small"}, "'small'", "5%"),
    (explained, {"delta": 0.0}, "0.0", "between 0 and 1"),
    (explained, {"delta": "0,1"}, "'0,1'", "between 0 and 1"),
    (explained, {"delta": None}, "delta", "delta=0.1"),
    (explained, {"method": "exact", "shards": 2}, "shards", "drop it"),
    (explained, {"delta_prime": 0.1}, "delta_prime", "method 'paper'"),
    (explained, BOTH, "delta_prime", "one of the two"),
    (explained, BOTH | {"delta": None, "delta_prime": 2.0}, "2.0", "(0, 1)"),
    # the run
    (planned, {"problem": 3}, "int", "MDP"),
    (planned, {"method": "UCT"}, "'UCT'", "did you mean 'uct'"),
    (planned, {"method": sc.UCT}, "class", "UCT()"),
    (planned, {"executor": "compiled"}, "compiled", "numba.njit"),
    (planned, {"seed": 0.5}, "0.5", "whole number"),
    (planned, {"budget": NAN}, "nan", "at least 1"),
    (planned, {"seconds": 0.0}, "0.0", "above 0"),
    (planned, {"method": "exact", "executor": None}, "tabular()", "outcomes="),
    (planned, {"problem": mdp(initial_state=None)}, "initial_state", "state="),
    (planned, {"problem": made(), "state": "here"}, "'here'", "from 0 to 4"),
    # the exact solver
    (solved, {"tolerance": -1.0}, "-1.0", "above 0"),
    (solved, {"method": "guess"}, "'guess'", "policy-iteration"),
    (solved, {"max_sweeps": 0}, "0", "at least 1"),
    # the edges of numbers, names and types
    (mdp, {"discount": 1.0}, "1.0", "horizon="),
    (mdp, {"reward_range": (1.0, 0.0)}, "(1.0, 0.0)", "low <= high"),
    (mdp, {"reward_range": (0.0, INF)}, "inf", "finite"),
    (mdp, {"legal": True}, "True", "legal(state, action)"),
    (table, {"P": np.ones((2, 2))}, "(2, 2)", "(S, A, S)"),
    (table, {"P": np.full((2, 2, 2), 0.4)}, "0.8", "sum"),
    (table, {"operator": None}, "None", "Entropy(1.0)"),
    (planned, {"problem": mdp(legal=lambda s, a: False)}, "0", "terminal="),
    (planned, {"problem": game(player=lambda s: 3)}, "3", "1 (max) or 2 (min)"),
]


@pytest.mark.parametrize(("call", "given", "value", "remedy"), PARAMETERS)
def test_a_bad_parameter_is_named_with_its_remedy(call, given, value, remedy):
    with pytest.raises(sc.SmoothcruiserError) as caught:
        call(**given)
    message = str(caught.value)
    assert value in message
    assert remedy in message
    assert len(message.split("\n")[0]) < 400, "one clear sentence"


def _raises(state: int, action: int, rng):
    raise KeyError("engine off")


# other bad answers are in mistakes.toml
ANSWERS = [
    (lambda s, a, r: (INF, s), "inf", "declare the range"),
    (lambda s, a, r: (0.5,), "(0.5,)", "(reward, next_state)"),
    (lambda s, a, r: (0.5, s, True), "state 0", "terminal=True"),
    (_raises, "KeyError", "fix the simulator"),
    (lambda s, a, r: (1.5, s), "1.5", "declare the range"),
    (lambda s, a, r: 0.5, "0.5", "(reward, next_state)"),
    (lambda s, a, r: (0.5, s, False, {}), "{}", "(reward, next_state)"),
]


@pytest.mark.parametrize(("oracle", "value", "remedy"), ANSWERS)
def test_a_bad_answer_of_a_plain_oracle_is_named_with_state_and_action(
    oracle, value, remedy
):
    with pytest.raises(sc.OracleError) as caught:
        planned(mdp(oracle=oracle))
    message = str(caught.value)
    assert value in message
    assert remedy in message
    assert re.search(r"state 0, action [01]", message)


@pytest.mark.compiles
def test_compiled_oracles_report_the_state_and_action_of_a_bad_answer():
    """NaN, out of range, an exception in the middle: one oracle with three
    faults, since compiling takes seconds.
    """
    import numba

    @numba.njit
    def faulty(state, action, rng):
        if state == 23:
            raise ValueError("lost")
        return (math.nan if state == 3 else 1.5 if state == 13 else 0.5), state + 1

    problem = mdp(oracle=faulty, operator=sc.Entropy(0.5), discount=0.5)
    for state, value in ((3, "nan"), (13, "1.5"), (23, "lost")):
        with pytest.raises(sc.OracleError, match=value) as caught:
            planned(
                problem, state=state - 1, executor="compiled", epsilon="10%", workers=1
            )
        assert re.search(rf"state {state}, action [01]", str(caught.value))


@pytest.mark.compiles
def test_a_compiled_oracle_of_the_wrong_shape_is_refused_before_the_run():
    import numba

    @numba.njit
    def only_reward(state, action, rng):
        return 0.5

    @numba.njit
    def fields(state, action, rng):
        return 0.5, state.stock

    for oracle in (only_reward, fields):
        with pytest.raises(sc.InvalidInput, match="step"):
            planned(mdp(oracle=oracle), executor="compiled")
