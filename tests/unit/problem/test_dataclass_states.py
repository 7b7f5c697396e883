"""Dataclasses as states of plain Python simulators.

Laws: certified search, trees and the exact solution take frozen ones, with the bits
that the same states have as tuples; one that is not frozen, or holds what has no hash,
is refused in a sentence that says what to write; stores and memories hold them.
"""

from dataclasses import dataclass

import pytest
from worlds import mdp

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


@dataclass(frozen=True)
class Car:
    place: int
    fuel: int = 2


@dataclass
class Open:
    place: int
    fuel: int = 2


@dataclass(frozen=True)
class Listing:
    place: list
    fuel: int = 2


@dataclass(frozen=True, eq=False)
class Single:
    place: int
    fuel: int = 2


def drive(kind, place=lambda x: x, number=lambda x: x):
    """A ring of three places, on which action 1 pays more often."""

    def step(car, action, rng):
        paid = float(rng.random() < 0.3 + 0.4 * action)
        return paid, kind(place((number(car.place) + 1) % 3), car.fuel)

    return mdp(step, initial_state=kind(place(0)))


def ring():
    def step(car, action, rng):
        paid = float(rng.random() < 0.3 + 0.4 * action)
        return paid, ((car[0] + 1) % 3, car[1])

    return mdp(step, initial_state=(0, 2))


@pytest.mark.parametrize(
    "options",
    [
        {"method": "certified", "epsilon": 0.3, "delta": 0.1},
        {"method": "uct", "budget": 500},
        {"method": "smoothcruiser", "epsilon": 0.5, "delta": 0.1},
    ],
)
def test_a_frozen_one_is_as_good_as_a_tuple(options):
    cars, tuples = (sc.plan(problem, **options) for problem in (drive(Car), ring()))
    facts = [(x.value, x.interval, x.num_calls) for x in (cars, tuples)]
    assert facts[0] == facts[1]
    if options["method"] == "certified":
        assert any(note.startswith("3 states") for note in cars.notes)


def test_stores_and_memories_hold_them(tmp_path):
    problem = drive(Car)
    promise = {"epsilon": 0.3, "delta": 0.1}
    first = sc.plan(problem, method="certified", store=tmp_path / "runs.db", **promise)
    assert sc.resume(first.run, tmp_path / "runs.db", problem).value == first.value
    memory = sc.Certified(problem, delta=0.1)
    told = memory.query(Car(1), epsilon=0.3)
    memory.save(tmp_path / "memory")
    again = sc.Certified.load(tmp_path / "memory", problem).query(Car(1), epsilon=0.3)
    assert again.interval == told.interval


@pytest.mark.parametrize(
    "problem, said",
    [
        (
            drive(Open),
            "(Open is a dataclass that is not frozen); write @dataclass(frozen=True), "
            "or give key=",
        ),
        (
            drive(Listing, lambda x: [x], lambda x: x[0]),
            "(its field place is a list); let it be a tuple, or give key=",
        ),
        (drive(Single), "write @dataclass(frozen=True) above Single, without eq="),
    ],
)
def test_others_are_refused_with_what_to_write(problem, said):
    with pytest.raises(sc.InvalidInput) as caught:
        sc.plan(problem, method="certified", epsilon=0.3, delta=0.1)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    # schedules never ask which states are the same
    assert sc.plan(problem, method="smoothcruiser", epsilon=0.9, delta=0.1).value > 0.0
