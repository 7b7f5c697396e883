"""Steps that remember: refused where it can be seen, named in the certificate
where it cannot.
"""

import dataclasses
import functools

import numpy as np
import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

# longer than the walk of the look, so that what happens at its end is met late
RING = 12


def ring_problem(kind, step, **more):
    facts = {"num_actions": 2, "discount": 0.9, "operator": sc.Max()}
    return kind(step, **facts | {"initial_state": 0} | more)


SEARCH = {"method": "certified", "epsilon": 0.15, "delta": 0.05, "seed": 1}
SEARCH["budget"] = 1_000_000


def memo_of_first_answers():
    memo = {}

    def step(state, action, rng):
        if (state, action) not in memo:
            memo[state, action] = float(rng.random() < 0.5)
        return memo[state, action], state

    return step


def memo_by_stream():
    return functools.cache(lambda state, action, rng: (rng.random() < 0.5, state))


@pytest.mark.parametrize("make", [memo_of_first_answers, memo_by_stream])
def test_a_memo_of_random_answers_is_refused(make):
    """Whether a call takes anything from its stream depends on state and action
    alone, so a second call that takes nothing tells.
    """
    for method in ("certified", "sparse-sampling"):
        problem = ring_problem(sc.MDP, make(), discount=0.3)
        with pytest.raises(sc.OracleError):
            sc.plan(problem, method=method, epsilon=0.25, delta=0.05, seed=1)
    report = sc.check(ring_problem(sc.MDP, make(), discount=0.3))
    assert any(finding.verdict == "wrong" for finding in report.findings)


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

    facts = {"num_actions": 1, "initial_state": make(0)}
    problem = ring_problem(sc.MDP, step, key=lambda state: int(state.pos), **facts)
    try:
        found = sc.plan(problem, **SEARCH | {"budget": 300_000})
    except sc.OracleError:
        return
    # what no look can tell
    assert form in ("a copy that is no copy", "a private field that was None")
    said = " ".join(found.certificate.assumptions)
    assert "go unseen" in said or "taken for caches" in said


def test_a_budget_too_small_for_a_look_still_names_what_was_not_looked_at():
    """Four calls: nothing is repeated, yet the interval is a point, and the
    step does remember.
    """
    calls = []

    def step(state, action, rng):
        calls.append(action)
        return float(len(calls) == 1), state

    facts = {"discount": 1.0, "horizon": 1, "deterministic": True}
    problem = ring_problem(sc.MDP, step, **facts)
    found = sc.plan(problem, **SEARCH | {"epsilon": 0.1, "budget": 2})
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

    try:
        found = sc.plan(ring_problem(sc.Game, step, player=player), **SEARCH)
    except sc.OracleError:
        return
    assert any("player" in sentence for sentence in found.certificate.assumptions)
