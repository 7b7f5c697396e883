"""The exact mean of a level: all outcomes of the reference engine, each with its chance.

The engine's own code runs with uniforms that are not yet known. Comparing one
with a number asks on which side it lies: both answers are followed, each with
the chance that it has given the answers before. So nothing of the engine is
replaced, and what is averaged is what a run would sample.
"""

from __future__ import annotations

import math

from smoothcruiser import Root, Schedule
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.interpreted.reference import ReferenceEngine


class Paths:
    """All sequences of answers, one after the other, depth first."""

    def __init__(self):
        self.answers: list[bool] = []  # those to give again, then the first new one
        self.given = 0
        self.chance = 1.0

    def ask(self, chance):
        """Whether an event of this chance happens on the path under way."""
        if chance >= 1.0 or chance <= 0.0:
            return chance >= 1.0
        if self.given == len(self.answers):
            self.answers.append(True)
        answer = self.answers[self.given]
        self.given += 1
        self.chance *= chance if answer else 1.0 - chance
        return answer

    def advance(self):
        """Turn to the next path; False after the last."""
        while self.answers and not self.answers[-1]:
            self.answers.pop()
        if self.answers:
            self.answers[-1] = False
        self.given, self.chance = 0, 1.0
        return bool(self.answers)

    def random(self):
        """A new uniform, as a stream has them."""
        return Uniform(self)


class Uniform:
    """A number in [0, scale) of which the answers so far are known."""

    def __init__(self, paths, scale=1.0):
        self.paths, self.scale = paths, scale
        self.low, self.high = 0.0, 1.0

    def __mul__(self, scale):
        return Uniform(self.paths, self.scale * scale)

    def __lt__(self, bound):
        cut = min(max(bound / self.scale, self.low), self.high)
        below = self.paths.ask((cut - self.low) / (self.high - self.low))
        if below:
            self.high = cut
        else:
            self.low = cut
        return below


def exact_mean(problem, levels, state, engine=ReferenceEngine):
    """The mean of the last level of a table at ``state``."""
    root = Root("value", 1, len(levels) - 1, "none")
    plan = Schedule("enumerated", problem.facts, levels, root, math.inf, 1.0)
    machine = engine(Job(problem, plan, state))
    paths = Paths()
    terms, chances = [], []
    more = True
    while more:
        machine.rng = paths
        value = machine.sample_v(root.child, state)
        terms.append(paths.chance * value)
        chances.append(paths.chance)
        more = paths.advance()
    assert math.isclose(math.fsum(chances), 1.0, rel_tol=1e-12)
    return math.fsum(terms)
