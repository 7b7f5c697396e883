"""Steps that remember: refused where it can be seen, named in the certificate
where it cannot.
"""

import dataclasses
import functools

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.errors import OracleError

pytestmark = pytest.mark.compiles

# longer than the walk of the look, so that what happens at its end is met late
RING = 12
TRUTH = 0.8 / (1.0 - 0.9)


def coin(step, **more):
    return sc.MDP(
        step, num_actions=2, discount=0.3, operator=sc.Max(), initial_state=0, **more
    )


def first_draws_kept():
    kept = {}

    def step(state, action, rng):
        if (state, action) not in kept:
            kept[state, action] = float(rng.random() < 0.5)
        return kept[state, action], state

    return step


def remembered_by_stream():
    @functools.cache
    def step(state, action, rng):
        return float(rng.random() < 0.5), state

    return step


@pytest.mark.parametrize("world", [first_draws_kept, remembered_by_stream])
@pytest.mark.parametrize("method", ["certified", "sparse-sampling"])
def test_a_memo_of_random_answers_is_refused(world, method):
    """Whether a call takes anything from its stream depends on state and action
    alone, so a second call that takes nothing tells.
    """
    with pytest.raises(OracleError):
        sc.plan(coin(world()), method=method, epsilon=0.25, delta=0.05, seed=1)


@pytest.mark.parametrize("world", [first_draws_kept, remembered_by_stream])
def test_check_finds_a_memo_of_random_answers(world):
    assert any(
        finding.verdict == "wrong" for finding in sc.check(coin(world())).findings
    )


class Walker:
    """Carries no key yet."""

    def __init__(self, pos):
        self.pos, self.hits, self.key = pos, 0, None


@dataclasses.dataclass
class Uncompared:
    pos: int
    hits: int = dataclasses.field(default=0, compare=False)


class CopiesAreItself:
    def __init__(self, pos):
        self.pos, self.hits = pos, 0

    def __deepcopy__(self, memo):
        return self


class Tuple(tuple):
    hits = 0
    pos = property(lambda self: self[0])


class List(list):
    hits = 0
    pos = property(lambda self: self[0])


class Private:
    def __init__(self, pos):
        self.pos, self._hit = pos, None

    @property
    def hits(self):
        return self._hit or 0

    @hits.setter
    def hits(self, value):
        self._hit = 1


class Record:
    """A row of a structured array, which is a NumPy scalar and yet can be
    written into.
    """

    def __new__(cls, pos):
        return np.rec.array([(pos, 0)], dtype=[("pos", "i8"), ("hits", "i8")])[0]


FORMS = {
    "an attribute named key": Walker,
    "a field that == leaves out": Uncompared,
    "a copy that is no copy": CopiesAreItself,
    "an attribute of a tuple": lambda pos: Tuple((pos,)),
    "an attribute of a list": lambda pos: List([pos]),
    "a private field that was None": Private,
    "a row of a structured array": Record,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_write_met_late_is_seen_or_said_to_be_unseen(form):
    """A state of any form that pays only once, at the far end of a ring; the
    certificate must not count looks that see nothing.
    """
    make = FORMS[form]

    def step(state, action, rng):
        paid = float(rng.random() < 0.8)
        if state.pos == RING - 1:
            paid = 0.0 if state.hits else paid
            state.hits += 1
        return paid, make((int(state.pos) + 1) % RING)

    problem = sc.MDP(
        step,
        num_actions=1,
        discount=0.9,
        operator=sc.Max(),
        initial_state=make(0),
        key=lambda state: int(state.pos),
    )
    try:
        found = sc.plan(
            problem,
            method="certified",
            epsilon=0.15,
            delta=0.05,
            seed=1,
            budget=300_000,
        )
    except OracleError:
        return
    # what no look can tell
    assert form in ("a copy that is no copy", "a private field that was None")
    assert any(
        "go unseen" in said or "taken for caches" in said
        for said in found.certificate.assumptions
    )


def test_a_budget_too_small_for_a_look_still_names_what_was_not_looked_at():
    """Four calls: nothing is repeated, yet the interval is a point, and the
    step does remember.
    """
    calls = []

    def step(state, action, rng):
        calls.append(action)
        return float(len(calls) == 1), state

    problem = sc.MDP(
        step,
        num_actions=2,
        discount=1.0,
        horizon=1,
        operator=sc.Max(),
        initial_state=0,
        deterministic=True,
    )
    found = sc.plan(problem, method="certified", epsilon=0.1, delta=0.05, budget=2)
    said = " ".join(found.certificate.assumptions)
    assert "remembers nothing" in said
    assert "drawn twice" not in said  # none of the two pairs was


def test_the_certificate_names_player_legal_and_terminal():
    """An interval rests on them as on the step; one that answers differently
    later makes it false without a word.
    """
    asked = [0]

    def player(state):
        asked[0] += state == RING - 1
        return 2 if state == RING - 1 and asked[0] > 1 else 1

    def step(state, action, rng):
        return float(rng.random() < (0.9 if action else 0.1)), (state + 1) % RING

    game = sc.Game(
        step,
        num_actions=2,
        discount=0.9,
        operator=sc.Max(),
        initial_state=0,
        player=player,
    )
    try:
        found = sc.plan(
            game,
            method="certified",
            epsilon=0.15,
            delta=0.05,
            seed=0,
            budget=1_000_000,
        )
    except OracleError:
        return
    assert any("player" in sentence for sentence in found.certificate.assumptions)
