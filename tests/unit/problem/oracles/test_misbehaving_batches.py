"""Batched oracles that misbehave: the row at fault is named, and what cannot be
batched is refused.
"""

import numpy as np
import pytest
from worlds import PROMISE, mdp

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


def rows(states, actions, rng):
    return rng.random(len(states)), (states + actions) % 5


def spoiled(change):
    def step(states, actions, rng):
        rewards, after = rows(states, actions, rng)
        return change(rewards, after, states)

    return step


def _raise_at_three(rewards, after, states):
    if np.any(states == 3):
        raise ValueError("three")
    return rewards, after


BATCHED = {
    "NaN": (
        lambda r, z, s: (np.where(s == 3, np.nan, r), z),
        "nan at state 3, action",
    ),
    "an exception": (
        _raise_at_three,
        r"ValueError: three at state 3, action [01]; fix",
    ),
    "a column": (lambda r, z, s: (r[:, None], z), r"rewards of shape .*, got .*, 1\)"),
    "too few states": (lambda r, z, s: (r, z[:-1]), r"with \d+ rows, got shape"),
    "one state": (lambda r, z, s: (r, 3), r"next states with \d+ rows, got int 3"),
    "nothing": (lambda r, z, s: None, r"must return \(rewards, next_states\)"),
    "words": (lambda r, z, s: (["much"] * len(r), z), r"an array of \d+ numbers"),
    "an undeclared end": (
        lambda r, z, s: (r, z, s == 3),
        r"at state 3.*pass terminal=",
    ),
}


@pytest.mark.parametrize("fault", list(BATCHED))
def test_a_bad_batch_is_named_by_the_row_at_fault(fault):
    change, message = BATCHED[fault]
    problem = mdp(sc.batched(spoiled(change)))
    with pytest.raises(sc.OracleError, match=message):
        sc.plan(problem, 2, **PROMISE)


def test_batched_companions_have_to_return_one_answer_a_row():
    refusal = r"must answer for every row of a batch.*shape \(1,\)"
    for wrong in ({"legal": lambda s, a: True}, {"terminal": lambda s: False}):
        with pytest.raises(sc.InvalidInput, match=refusal):
            sc.plan(mdp(sc.batched(rows), **wrong), 2, **PROMISE)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (({"step": 3}), "takes a function"),
        (({"step": rows, "backend": "torch"}), "backend must be"),
        (({"step": rows, "each": True}), "needs backend='jax'"),
        (({"step": rows, "max_batch": 0}), "max_batch must be"),
    ],
)
def test_what_cannot_be_batched_is_refused(arguments, message):
    with pytest.raises(sc.InvalidInput, match=message):
        sc.batched(**arguments)
