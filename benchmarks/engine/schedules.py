"""The schedules that the engine and the C kernel are timed on.

Printed, hand-written and sharp ones; shallow, deep and wide; K = 2, 4, 10, 16.

A leaf whose next state is unused lets a compiler drop the transition, so every
list but the first is dominated by non-constant children or by rollouts, which
need their next state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import smoothcruiser as sc
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.paper_schedule import paper_schedule
from smoothcruiser.schedule.schedule import Kind, Level, Root, Schedule

CONSTANT = Level(Kind.CONSTANT, constant=0.5)


@dataclass(frozen=True)
class Case:
    """A schedule with a name and what it stands for."""

    name: str
    schedule: Schedule


def facts(discount: float, temperature: float, num_actions: int) -> Facts:
    operator = sc.Entropy(temperature) if temperature > 0 else sc.Max()
    return Facts(num_actions, num_actions, discount, operator, (0.0, 1.0))


def hand(name: str, ground: Facts, levels: list[Level]) -> Case:
    return Case(
        name,
        Schedule(
            "hand",
            ground,
            tuple(levels),
            Root("q_values", 1, len(levels) - 1, "none"),
            math.inf,
            1.0,
        ),
    )


def plug_ins(counts: tuple[int, ...]) -> list[Level]:
    return [
        CONSTANT,
        *(Level(Kind.PLUGIN, samples=n, query=i) for i, n in enumerate(counts)),
    ]


def rollouts(counts: tuple[int, ...], query: int = 0) -> list[Level]:
    return [
        CONSTANT,
        *(
            Level(Kind.ROLLOUT, samples=n, query=query, continuation=i)
            for i, n in enumerate(counts)
        ),
    ]


def mixture() -> list[Level]:
    """Blind tails, plug-ins over them, rollouts that ask both."""
    return [
        CONSTANT,
        Level(Kind.BLIND, continuation=0),
        Level(Kind.BLIND, continuation=1),
        Level(Kind.PLUGIN, samples=3, query=1, shift=-0.01),
        Level(Kind.ROLLOUT, samples=4, query=2, continuation=3, shift=0.02),
        Level(Kind.ROLLOUT, samples=2, query=3, continuation=4),
        Level(Kind.PLUGIN, samples=2, query=4),
        Level(Kind.ROLLOUT, samples=3, query=5, continuation=6),
    ]


def randomized_cases() -> list[Case]:
    """Randomized kinds: over leaves, over each other, with rare and frequent rungs."""
    rare, often = (0.02, 0.007, 0.0025), (0.3, 0.15, 0.05)

    def rollout(
        samples: int, query: int, onward: int, rungs: tuple[float, ...]
    ) -> Level:
        return Level(
            Kind.RANDOM_ROLLOUT, samples, query, onward, constant=0.8, rungs=rungs
        )

    def plug_in(samples: int, query: int, rungs: tuple[float, ...]) -> Level:
        return Level(Kind.RANDOM_PLUGIN, samples, query, rungs=rungs)

    def chain(length: int, samples: int, rungs: tuple[float, ...]) -> list[Level]:
        return [CONSTANT, *(rollout(samples, 0, i, rungs) for i in range(length))]

    two, four, ten = (facts(0.5, 1.0, K) for K in (2, 4, 10))
    return [
        hand("random rollouts over leaves, rare, K=2", two, chain(5, 4, rare)),
        hand("random rollouts over leaves, often, K=10", ten, chain(3, 3, often)),
        hand(
            "random plug-ins over each other, K=4",
            four,
            [
                CONSTANT,
                plug_in(4, 0, often),
                plug_in(2, 1, often),
                plug_in(1, 2, rare),
            ],
        ),
        hand(
            "random rollouts over rollouts, rare, K=2",
            two,
            [*rollouts((2, 2)), rollout(3, 2, 1, rare), rollout(2, 2, 3, rare)],
        ),
        hand(
            "random rollouts over each other, often, K=2",
            two,
            [
                CONSTANT,
                rollout(2, 0, 0, often),
                rollout(2, 1, 1, often),
                rollout(2, 2, 2, often),
            ],
        ),
        hand(
            "random rollouts over each other, K=4",
            four,
            [
                CONSTANT,
                rollout(4, 0, 0, rare),
                rollout(2, 1, 1, often),
                rollout(3, 1, 2, rare),
                rollout(4, 2, 3, rare),
            ],
        ),
        hand(
            "mixture of plain and randomized kinds, K=4",
            four,
            [
                *mixture(),
                plug_in(2, 1, often),
                rollout(2, 8, 4, often),
                rollout(3, 3, 9, rare),
            ],
        ),
        hand(
            "random rollouts over plug-ins, K=10",
            ten,
            [
                CONSTANT,
                plug_in(2, 0, rare),
                rollout(2, 1, 1, rare),
                rollout(1, 1, 2, often),
            ],
        ),
    ]


def written_cases() -> list[Case]:
    """Printed and hand-written schedules."""
    printed = paper_schedule(facts(0.2, 1.0, 2), epsilon=0.9, delta_prime=0.1)
    deep = [CONSTANT, *(Level(Kind.BLIND, continuation=i) for i in range(40))]
    return [
        Case("paper, 2,828,268 calls, K=2", printed),
        hand(
            "sparse, tiny counts 1,2,2,2, K=2",
            facts(0.5, 1.0, 2),
            plug_ins((1, 2, 2, 2)),
        ),
        hand("sparse, counts 8,8,8, K=4", facts(0.5, 1.0, 4), plug_ins((8, 8, 8))),
        hand(
            "sparse with max, counts 4,4, K=16", facts(0.5, 0.0, 16), plug_ins((4, 4))
        ),
        hand(
            "rollouts over leaves, deep, K=2", facts(0.9, 1.0, 2), rollouts((2,) * 12)
        ),
        hand("rollouts over leaves, K=16", facts(0.5, 1.0, 16), rollouts((3, 3, 3))),
        hand(
            "rollouts over rollouts, K=4",
            facts(0.5, 1.0, 4),
            [
                *rollouts((2, 2)),
                Level(Kind.ROLLOUT, samples=3, query=2, continuation=1),
            ],
        ),
        hand("mixture of all kinds, K=4", facts(0.5, 1.0, 4), mixture()),
        hand("blind, forty deep, K=16", facts(0.9, 50.0, 16), deep),
    ]


SHARP = (
    (0.2, 0.1, 2, 0.02),
    (0.5, 1.0, 2, 0.05),
    (0.5, 10.0, 4, 0.02),
    (0.5, 1.0, 10, 0.1),
    (0.7, 1.0, 2, 0.1),
    (0.9, 50.0, 4, 0.1),
)


def sharp_cases() -> list[Case]:
    """The optimizer's schedules for rows of theory section 5."""
    cases = []
    for discount, temperature, num_actions, share in SHARP:
        ground = facts(discount, temperature, num_actions)
        schedule = compile_schedule(
            ground, epsilon=share * ground.value_span(), delta=0.1, adaptive=False
        )
        cases.append(
            Case(
                f"sharp γ={discount:g} λ={temperature:g} K={num_actions} ε={share:.0%}",
                schedule,
            )
        )
    return cases


def ring(num_actions: int, discount: float, operator: sc.Operator) -> sc.Problem:
    """The problem they run on: 1024 states, three successors per pair.

    With 24 MB of tables the memory alone would be measured.
    """
    rng = np.random.default_rng(1)
    from scipy import sparse

    states, successors = 1024, 3
    rows = np.repeat(np.arange(states * num_actions), successors)
    columns = (
        rng.integers(0, states, len(rows) // successors)[:, None] + np.array([0, 1, 7])
    ).reshape(-1) % states
    weights = rng.random(len(rows)) + 0.1
    matrix = sparse.csr_matrix(
        (weights, (rows, columns)), shape=(states * num_actions, states)
    )
    matrix = sparse.diags(1.0 / np.asarray(matrix.sum(axis=1)).reshape(-1)) @ matrix
    return sc.tabular(
        matrix.tocsr(), rng.random(len(rows)), discount=discount, operator=operator
    )
