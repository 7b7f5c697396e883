"""Exact means of paths with a learned value, over all noise of small random problems.

    python -m benchmarks.gap.enumeration --problems 400 --out docs/evidence/gap-enumeration.md

A step of these worlds reads one bit. The machine gets its words from a function that
writes the digits of the path's number into them, so that paths 0 .. n - 1 are all noise
there is: every w_t, inner sample, lot of the policy and length of a killed path. The
weighted mean over the paths is the expectation, up to rounding.

Checked for the five built-in operators, KL with a prior, MDPs and games from both sides,
random ends, legal actions that vary, keys that merge states, horizons, truncations with
bounds, killed paths and cuts:

  E U >= V of the relaxed player against the other one's policy (<= for player 2)
  E L = V_pi where nothing is cut, E LOWER <= V_pi <= E POLICY_UPPER otherwise
  E x_a >= Q(s_0, a) and E walk_a = Q_pi(s_0, a) (<= where cut)
  W = V gives U = V on every path, with exact Qhat

A mutation is the kernel with one wrong line; each must break a law on some problem.
"""

from __future__ import annotations

import argparse
import inspect
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import smoothcruiser as sc
from smoothcruiser.duality.machines import path_kernel
from smoothcruiser.duality.machines.gap_rules import (
    LOWER,
    POLICY_UPPER,
    TIME_COLUMNS,
    UPPER,
    GapRule,
    Role,
    upper_columns,
    walk_columns,
)
from smoothcruiser.duality.machines.path_machines import LOOKAHEAD, PathTask
from smoothcruiser.duality.machines.plain_machine import ReferenceMachine
from smoothcruiser.jit.forms import bind_parts

DEPTH, STATES = 3, 4  # a state is (time, number)
NO_LIMIT = 10**9
TOLERANCE = 1e-12
KINDS = ("horizon", "tails", "killed")


def words_of_bits(bits: int) -> tuple[int, int, int, int]:
    """Words of a stream whose first raw number is ``bits``."""
    low64 = (1 << 64) - 1
    return 0, 1, 2, (bits >> 23 | bits << 41) & low64


@dataclass(repr=False)
class World:
    """A random problem: all tables by (time, state, action, bit)."""

    operator: Any
    discount: float
    kind: str
    head: int
    reward: np.ndarray
    successor: np.ndarray
    ends: np.ndarray
    legal: np.ndarray  # (time, state, action)
    player: np.ndarray  # (time, state)
    policy: np.ndarray  # (time, state, action), multiples of 1/4
    W: np.ndarray  # (time, state)
    relaxed: int = 1
    is_game: bool = False
    by_key: bool = False
    steps: int = DEPTH
    problem: Any = field(init=False)

    def __post_init__(self) -> None:
        K = self.reward.shape[2]
        low, high = float(self.reward.min()), float(self.reward.max())
        keywords: dict[str, Any] = {
            "num_actions": K,
            "discount": self.discount,
            "operator": self.operator,
            "initial_state": (0, 0),
            "reward_range": (low, high),
            "legal": lambda state, action: bool(self.legal[state][action]),
            "horizon": self.steps if self.kind == "horizon" else None,
        }
        if self.kind != "horizon":
            keywords["terminal"] = lambda state: state[0] >= self.steps
        elif self.ends.any():
            keywords["terminal"] = lambda state: False
        if self.by_key:
            keywords["key"] = lambda state: (state[0], min(state[1], STATES - 2))
        if self.is_game:
            self.problem = sc.Game(
                self.step, player=lambda s: int(self.player[s]), **keywords
            )
        else:
            self.problem = sc.MDP(self.step, **keywords)

    def step(self, state: Any, action: int, rng: Any) -> Any:
        """One sample, by one bit."""
        t, s = state
        bit = int(rng.integers(2))
        place = (t, s, action, bit)
        next_state = (t + 1, int(self.successor[place]))
        return float(self.reward[place]), next_state, bool(self.ends[place])

    # --- the truth, slowly ----------------------------------------------------------

    def sign(self, t: int, s: int) -> int:
        """+1 for the max player."""
        return 1 if self.player[t, s] == 1 else -1

    def legal_actions(self, t: int, s: int) -> list[int]:
        """The legal actions."""
        return np.flatnonzero(self.legal[t, s]).tolist()

    def worth(self, value: Any, t: int, s: int, a: int) -> float:
        """E[r + gamma value(s')]."""
        total = 0.0
        for bit in range(2):
            place = (t, s, a, bit)
            total += 0.5 * self.reward[place]
            if t + 1 < self.steps and not self.ends[place]:
                total += 0.5 * self.discount * value[t + 1, self.successor[place]]
        return total

    def mix(self, p: Any, q: Any, t: int, s: int) -> float:
        """<p, q> with the regularizer of the mover."""
        actions = self.legal_actions(t, s)
        weights = [self.operator.weights(len(self.legal[t, s]))[a] for a in actions]
        shares = [float(p[a]) for a in actions]
        mean = sum(x * y for x, y in zip(shares, q, strict=True))
        return mean - self.sign(t, s) * self.operator.omega(shares, weights)

    def best(self, q: Any, t: int, s: int) -> float:
        """F of the mover."""
        actions = self.legal_actions(t, s)
        weights = [self.operator.weights(len(self.legal[t, s]))[a] for a in actions]
        player = int(self.player[t, s])
        return self.operator.value(q, player=player, weights=weights)

    def values(self, free: tuple[int, ...], policy: Any = None) -> Any:
        """The values where the players ``free`` play best and the others ``policy``."""
        value = np.zeros((self.steps + 1, STATES))
        for t, s in product(reversed(range(self.steps)), range(STATES)):
            actions = self.legal_actions(t, s)
            q = [self.worth(value, t, s, a) for a in actions]
            if self.player[t, s] in free:
                value[t, s] = self.best(q, t, s)
            elif policy is None:
                value[t, s] = self.mix(self.policy[t, s], q, t, s)
            else:  # several policies with equal chances
                shares = policy(t, s)
                value[t, s] = np.mean([self.mix(p, q, t, s) for p in shares])
        return value

    def greedy_policies(self, t: int, s: int) -> list[Any]:
        """Both policies that are greedy on W by one inner sample."""
        policies = []
        for bit in range(2):
            p = np.zeros(len(self.legal[t, s]))
            actions = self.legal_actions(t, s)
            q = []
            for a in actions:
                place = (t, s, a, bit)
                number = self.reward[place]
                if t + 1 < self.steps and not self.ends[place]:
                    number += self.discount * self.W[t + 1, self.successor[place]]
                q.append(float(number))
            weights = [self.operator.weights(len(p))[a] for a in actions]
            player = int(self.player[t, s])
            p[actions] = self.operator.gradient(q, player=player, weights=weights)
            policies.append(p)
        return policies


class TableCritic:
    """W of a world."""

    def __init__(self, W: Any) -> None:
        self.W = W

    def values(self, states: Any, steps_left: int | None) -> list[float]:
        """W of states (time, number)."""
        return [float(self.W[state]) for state in states]

    def compiled_parts(self, state_type: Any) -> None:
        """Python only."""


def make_world(rng: Any, kind: str, **more: Any) -> World:
    """A random world."""
    K, steps = int(rng.integers(2, 4)), DEPTH + (kind == "tails")
    shape = (steps + 1, STATES, K)
    prior = tuple(rng.dirichlet(np.ones(K)) * 0.8 + 0.2 / K)
    strength = float(rng.choice([0.2, 1.0]))
    operators = [
        sc.Max(),
        sc.Entropy(strength),
        sc.KL(strength),
        sc.KL(strength, prior),
        sc.Sparsemax(strength),
        sc.SquareRoot(strength),
    ]
    operator = operators[int(rng.integers(len(operators)))]
    reward = rng.normal(size=(*shape, 2))
    successor = rng.integers(0, STATES, size=(*shape, 2))
    ends = rng.random((*shape, 2)) < rng.choice([0.0, 0.25])
    legal = rng.random(shape) < rng.choice([0.6, 2.0])
    legal[..., 0] |= ~legal.any(axis=2)
    is_game = bool(rng.random() < 0.4)
    player = rng.integers(1, 3, size=shape[:2]) if is_game else np.ones(shape[:2], int)
    by_key = bool(rng.random() < 0.3)
    if by_key:  # the last two states are equal in law
        for table in (reward, successor, ends, legal, player):
            table[:, -1] = table[:, -2]
    policy = np.zeros(shape)
    for place in np.ndindex(*shape[:2]):
        actions = np.flatnonzero(legal[place])
        for a in rng.choice(actions, size=4 if rng.random() < 0.5 else 1):
            policy[(*place, a)] += 1.0
    policy /= policy.sum(axis=2, keepdims=True)
    if by_key:
        policy[:, -1] = policy[:, -2]
    discount = float(rng.choice([0.5, 0.9] + ([1.0] if kind == "horizon" else [])))
    keywords: dict[str, Any] = {
        "head": DEPTH if kind != "killed" else int(rng.integers(0, 2)),
        "W": 2.0 * rng.normal(size=shape[:2]),
        "relaxed": int(rng.integers(1, 3)) if is_game else 1,
        "is_game": is_game,
        "by_key": by_key,
        "steps": steps,
    }
    keywords |= more
    return World(
        operator, discount, kind, reward=reward, successor=successor, ends=ends,
        legal=legal, player=player, policy=policy, **keywords,
    )  # fmt: skip


class TablePolicy:
    """The policy of a world, as a walk."""

    def __init__(self, world: World) -> None:
        self.world = world

    def __call__(self) -> Any:
        """Begin a walk."""
        return lambda state, action: self.world.policy[state]


@dataclass
class Enumeration:
    """All noise of a world: digits of the path's number."""

    world: World
    rule: GapRule
    inner: bool  # whether inner samples are random: else both bits are taken
    lots: bool
    looks: bool = False
    ignores_path: bool = False  # a mutation: J without the number of the path

    def __post_init__(self) -> None:
        world, steps = self.world, range(self.world.head)
        if world.kind == "killed":
            steps = range(DEPTH)
        self.places: list[tuple[tuple[Role, int], int]] = []
        for t in steps:
            if world.kind == "tails" or t + 1 < len(steps):
                self.places.append(((Role.NOISE, t), 2))
                if self.lots:
                    self.places.append(((Role.LOTS, t), 4))
            if self.inner:
                self.places.append(((Role.INNER, t), 2))
            if self.looks:
                self.places.append(((Role.LOOKAHEAD, t), 2))
        if world.kind == "killed":
            self.places.append(((Role.COIN, 0), DEPTH - world.head))
        self.count = math.prod(radix for _, radix in self.places)

    def digit(self, path: int, role: Role, time: int) -> int:
        """The digit of a stream in the number of a path."""
        for place, radix in self.places:
            if place == (role, time):
                return path % radix
            path //= radix
        return 0

    def words(self, first: Any, role: int, path: int, time: int, index: int) -> Any:
        """The words of a stream, as ``position_words`` gives them."""
        if self.ignores_path and role == Role.INNER:
            path = self.fixed_path
        digit = self.digit(path, Role(role), time)
        if role == Role.COIN:
            luck = self.world.discount**digit * (1 + self.world.discount) / 2
            return words_of_bits(int((1.0 - luck) * 2**64))
        bits = 2 if role == Role.LOTS else 1
        return words_of_bits((2 * digit + 1) << (63 - bits))

    fixed_path = 0

    def weights(self) -> Any:
        """The chances of all paths."""
        weights = np.full(self.count, 1.0)
        if self.world.kind == "killed":
            gamma, lengths = self.world.discount, DEPTH - self.world.head
            chances = [gamma**k * (1 - gamma) for k in range(lengths - 1)]
            chances.append(gamma ** (lengths - 1))
            for path in range(self.count):
                weights[path] = chances[self.digit(path, Role.COIN, 0)]
        return weights / weights.sum()


def time_rows(world: World, slack: float, V: Any, V_pi: Any) -> Any:
    """Bounds on V and on the policy's value at each time, and no clip that matters."""
    rows = np.zeros((world.steps + 1, TIME_COLUMNS))
    for t in range(world.steps + 1):
        rows[t] = (
            -1e6, 1e6, V[t].min() - slack, V[t].max() + slack,
            V_pi[t].min() - slack, V_pi[t].max() + slack,
        )  # fmt: skip
    return rows


class MutantMachine(ReferenceMachine):
    """A machine with other functions in its kernel."""

    mutants: ClassVar[dict[str, Any]] = {}

    def kernel_parts(self) -> dict[str, Any]:
        """The parts, with the mutants among them."""
        parts = super().kernel_parts()
        return parts | {n: bind_parts(f, parts) for n, f in self.mutants.items()}


def mutate(name: str, *changes: tuple[str, str], **scope: Any) -> dict[str, Any]:
    """A function of the kernel with some text replaced."""
    source = inspect.getsource(getattr(path_kernel, name))
    for before, after in changes:
        assert before in source, (name, before)
        source = source.replace(before, after)
    namespace = vars(path_kernel) | scope
    exec(source, namespace)
    return {name: namespace[name]}


def play(
    enumeration: Enumeration, times: Any, policy: Any, mutants: Any = None
) -> Any:
    """The samples of all paths."""
    world = enumeration.world
    steps_left = world.steps if world.kind == "horizon" else -1
    task = PathTask(
        world.problem, (0, 0), TableCritic(world.W), policy, 0, steps_left,
        position_words=enumeration.words,
    )  # fmt: skip
    machine_type = type("Mutant", (MutantMachine,), {"mutants": mutants or {}})
    machine = machine_type(task)
    return machine.play_paths(0, enumeration.count, enumeration.rule, times, NO_LIMIT)


def rule_of(world: World, **more: Any) -> GapRule:
    """The rule of a world's paths."""
    return GapRule(
        discount=world.discount,
        head=world.head,
        fixed=world.kind != "killed",
        ends_at_horizon=world.kind == "horizon",
        relaxed=world.relaxed,
        **({"num_inner": 1} | more),
    )


Margins = Iterator[tuple[str, float]]


def check_world(world: World, rng: Any, mutants: Any = None) -> Margins:
    """(law, margin): a margin below -1e-12 breaks the law."""
    sign = 1.0 if world.relaxed == 1 else -1.0
    V_pi = world.values(())
    V = world.values((world.relaxed,))  # the other player's policy is fixed
    s0 = (0, 0)
    times = time_rows(world, float(rng.choice([0.0, 0.5])), V, V_pi)
    cut = float(rng.choice([math.inf, math.inf, 0.0, 0.7]))
    lots = bool((world.policy[:DEPTH].max(axis=2) < 1).any())
    every = bool(rng.random() < 0.5)
    rule = rule_of(
        world, upper_cut=cut, lower_cut=cut, walks_every_action=every,
        most_nodes=int(rng.choice([1, 2, 2**40])),
    )  # fmt: skip
    enumeration = Enumeration(world, rule, inner=True, lots=lots)
    samples = play(enumeration, times, TablePolicy(world), mutants)
    weights = enumeration.weights()
    yield "E U >= V", sign * (weights @ samples[:, UPPER] - V[s0])
    lower, upper = weights @ samples[:, LOWER], weights @ samples[:, POLICY_UPPER]
    yield "E LOWER <= V_pi", V_pi[s0] - lower
    yield "E POLICY_UPPER >= V_pi", upper - V_pi[s0]
    if cut == math.inf and world.kind != "tails":
        yield "E L = V_pi", -abs(lower - V_pi[s0]) + TOLERANCE / 2
    K = world.reward.shape[2]
    actions = world.legal_actions(0, 0)
    x = weights @ samples[:, upper_columns(K)]
    for a in actions:
        yield "E x_a >= Q", sign * (x[a] - world.worth(V, 0, 0, a))
    if every:
        walks = weights @ samples[:, walk_columns(K)]
        for a in actions:
            far = world.worth(V_pi, 0, 0, a) - walks[a]  # cut at the far end of Q
            yield "E walk_a <= Q_pi", sign * far
    # the policy that is greedy on W, by one sample of its own
    V_greedy = world.values((), world.greedy_policies)
    if not world.is_game and world.kind == "horizon" and world.operator.name == "max":
        rule = rule_of(world, num_lookahead=1)
        enumeration = Enumeration(world, rule, inner=True, lots=False, looks=True)
        samples = play(enumeration, times, LOOKAHEAD, mutants)
        lower = enumeration.weights() @ samples[:, LOWER]
        yield "E L = V_greedy", -abs(lower - V_greedy[s0]) + TOLERANCE / 2


def check_exact(world: World) -> Margins:
    """W = V and exact Qhat: U = V on every path."""
    V = world.values((world.relaxed,))
    world.W = V
    times = time_rows(world, 0.0, V, V)
    rule = rule_of(world, num_inner=2, mirrored=True, walks=False)
    enumeration = Enumeration(world, rule, inner=False, lots=False)
    if world.kind == "tails":  # its bound is V itself where all states are worth one
        return
    samples = play(enumeration, times, TablePolicy(world))
    worst = float(np.abs(samples[:, UPPER] - V[0, 0]).max())
    yield "U = V on every path", TOLERANCE - worst


def check_problems(count: int, seed: int = 0) -> dict[str, tuple[int, float]]:
    """The number of checks and the least margin of each law, over random problems."""
    worst: dict[str, tuple[int, float]] = {}
    for number in range(count):
        rng = np.random.default_rng((seed, number))
        world = make_world(rng, KINDS[number % 3])
        margins = [*check_world(world, rng), *check_exact(world)]
        for law, margin in margins:
            checks, least = worst.get(law, (0, math.inf))
            worst[law] = checks + 1, min(least, margin)
    return worst


# --- mutations ------------------------------------------------------------------------


MUTATIONS = (
    "D-form: the edge subtracts W of the state that stands for s'",
    "an action is cut by its own Qhat",
    "min(U, Vbar)",
    "J_t from w_{t-1}",
    "greedy on the Qhat of the control variate",
)


def mutations() -> dict[str, Callable[[World], Any]]:
    """For each mutation the functions that it puts into the kernel of a world."""

    def action_cut(world: World) -> Any:
        V = world.values((1,))

        def exact(state: Any, action: int) -> float:
            return world.worth(V, *state, action)

        return mutate(
            "absorb_nodes",
            (
                "            q[at] = mean\n",
                "            q[at] = mean\n"
                "            if mean > EXACT(LOAD(states, node), a):\n"
                "                q[at] = EXACT(LOAD(states, node), a)\n"
                "                continue\n",
            ),
            EXACT=exact,
        )

    def clipped_above(world: World) -> Any:
        V = world.values((1,))
        return mutate(
            "fold_layers",
            (
                "            if node == 0:\n",
                "            state = LOAD(graph.states, node)\n"
                "            values[node] = min(values[node], V[state])\n"
                "            if node == 0:\n",
            ),
            V=V,
        )

    functions: list[Callable[[World], Any]] = [
        lambda w: mutate(
            "absorb_nodes",
            (
                "            children[at] = child\n",
                "            children[at] = child\n            edges[at] = w[child]\n",
            ),
        ),
        action_cut,
        clipped_above,
        lambda w: mutate(
            "write_words",
            (
                "write_position(paper.words, 1 + j, first, INNER, path, time, index, flips)",
                "write_position(paper.words, 1 + j, first, NOISE if time else INNER,"
                " path, max(time - 1, 0), index, flips)",
            ),
        ),
        lambda w: mutate("write_words", ("LOOKAHEAD, path", "INNER, path")),
    ]
    return dict(zip(MUTATIONS, functions, strict=True))


def break_laws(name: str, tries: int = 200) -> tuple[str, float, int]:
    """(the law that a mutation breaks, by how much at most, problems tried)."""
    make, worst = mutations()[name], ("", 0.0)
    fresh = {"is_game": False, "relaxed": 1}
    for number in range(tries):
        rng = np.random.default_rng((1, number))
        world = make_world(rng, "horizon", **fresh)
        world.player[:] = 1
        if name.startswith("D-form") and not world.by_key:
            continue
        for law, margin in check_world(world, rng, make(world)):
            if margin < worst[1]:
                worst = law, margin
        if worst[1] < -1e-3:
            break
    return *worst, number + 1


def break_policy_bound(tries: int = 200) -> tuple[float, int]:
    """How far E LOWER exceeds V_pi where its bound is one of V only."""
    for number in range(tries):
        rng = np.random.default_rng((2, number))
        world = make_world(rng, "tails", is_game=False, relaxed=1)
        world.player[:] = 1
        V, V_pi = world.values((1,)), world.values(())
        times = time_rows(world, 0.0, V, V)  # the bounds of V for V_pi
        enumeration = Enumeration(world, rule_of(world), inner=True, lots=True)
        samples = play(enumeration, times, TablePolicy(world))
        excess = float(enumeration.weights() @ samples[:, LOWER] - V_pi[0, 0])
        if excess > 1e-3:
            return excess, number + 1
    return 0.0, tries


def break_shared_inner(tries: int = 200) -> tuple[float, int]:
    """How far E[U given J] lies below V, where all paths have the inner samples of one."""
    for number in range(tries):
        rng = np.random.default_rng((3, number))
        world = make_world(rng, "horizon", is_game=False, relaxed=1)
        world.player[:] = 1
        V = world.values((1,))
        rule = rule_of(world, walks=False)
        enumeration = Enumeration(world, rule, True, False, ignores_path=True)
        times = time_rows(world, 0.0, V, V)
        for path in range(enumeration.count):
            enumeration.fixed_path = path
            samples = play(enumeration, times, TablePolicy(world))
            lack = float(V[0, 0] - enumeration.weights() @ samples[:, UPPER])
            if lack > 1e-3:
                return lack, number + 1
    return 0.0, tries


def main() -> None:
    """Check many problems and all mutations; write a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=400)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    start = time.process_time()
    lines = [
        "# Exact enumeration of `gap`'s paths",
        "",
        f"`python {' '.join(['-m benchmarks.gap.enumeration', *sys.argv[1:]])}`",
        "",
        f"{arguments.problems} random problems; a law holds where no margin is below -1e-12.",
        "",
        "| law | checks | least margin |",
        "|---|---|---|",
    ]
    for law, (checks, least) in check_problems(arguments.problems).items():
        lines.append(f"| {law} | {checks} | {least:.1e} |")
        assert least > -TOLERANCE, (law, least)
    lines += ["", "| mutation | breaks | by | problems tried |", "|---|---|---|---|"]
    for name in mutations():
        law, margin, tries = break_laws(name)
        assert margin < -1e-3, name
        lines.append(f"| {name} | {law} | {-margin:.2g} | {tries} |")
    excess, tries = break_policy_bound()
    lines.append(
        f"| bounds of V for V_pi | E LOWER <= V_pi | {excess:.2g} | {tries} |"
    )
    lack, tries = break_shared_inner()
    lines.append(f"| J without the path's number | E U >= V | {lack:.2g} | {tries} |")
    assert min(excess, lack) > 1e-3
    lines += ["", f"{time.process_time() - start:.0f} CPU seconds."]
    print("\n".join(lines))
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
