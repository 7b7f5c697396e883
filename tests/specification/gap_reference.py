"""One path of ``gap``, written to be read: the specification of the path machine.

Nothing is fast here and nothing is shared with ``gap/path_kernel.py``: layers are dicts,
values are recursions, and every formula stands once.

  W(t, s)        0 after an end, at a terminal state and at the horizon; else the critic,
                 clipped to the range of time t
  Qhat(t, s, a)  the mean over inner samples j of r + gamma W(t + 1, s')
  layer 0        the root; layer t + 1: the next states of all actions of all states of
                 layer t that are not cut, by the noise w_t. States with one key are one
                 node; the first one that is met stands for it.
  score          of a node: the largest sum of D_u p (Qhat(u, s_u, a_u) - W(u, s_u)) over
                 the ways to it; p is +1 for relaxed player 1 and -1 for 2
  cut            at t >= 1, where the score is at least c: U is the a priori bound. States
                 beyond the first ``most_nodes`` of a layer have it too.
  x(t, s, a)     Qhat, and where the step does not end + g_t (U(t + 1, node of s') -
                 W(t + 1, s')), with W of s' itself and not of the node
  U(t, s)        F(x) where the relaxed player moves, p F(p x) for player 2; else the mean
                 of x under the other player's policy minus sign Omega
  L              W(0, s_0) + sum_t D_t (sum_a pi(a) Qhat(t, s_t, a) - sign Omega(pi) -
                 W(t, s_t)) along the states that the noise and the policy's lots choose

In the head g_t = gamma and D_t = gamma^t; after it g_t = 1 and D_t = gamma^head, and one
coin per path says how long it is. Every call of the step begins from the first number
of its stream: (role, path, time, index).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from smoothcruiser.duality.machines.gap_rules import (
    CLIP_HIGH,
    CLIP_LOW,
    POLICY_HIGH,
    POLICY_LOW,
    VALUE_HIGH,
    VALUE_LOW,
    GapRule,
    Role,
)
from smoothcruiser.jit.random.mirrored_streams import (
    FLIPPED,
    MirroredStream,
    position_words,
)
from smoothcruiser.problem.problem import Problem

Policy = Callable[[Any], list[float]]  # state -> a share for every action


@dataclass
class Node:
    """A state of a layer, with its estimates."""

    state: Any
    score: float
    is_cut: bool = False
    # by action: Qhat; and (key of the next node, W of the next state), if not over
    means: dict[int, float] = field(default_factory=dict)
    edges: dict[int, tuple[Hashable, float]] = field(default_factory=dict)


@dataclass
class PathReference:
    """A path of ``problem`` from ``root``, with W = ``critic(state, steps_left)``.

    ``policy``: a function of the state, "lookahead" for greedy on W, or None.
    """

    problem: Problem
    root: Any
    critic: Callable[[Any, int | None], float]
    policy: Policy | str | None
    rule: GapRule
    times: Any
    first_words: Any
    path: int

    def __post_init__(self) -> None:
        self.sign = 1.0 if self.rule.relaxed == 1 else -1.0
        self.noise_calls = self.inner_calls = self.num_cut = 0
        self.known: dict[tuple[int, Hashable], float] = {}  # U, once computed
        self.length = self._length()
        self.layers = self._layers()

    # --- streams ----------------------------------------------------------------

    def stream(self, role: Role, time: int, index: int = 0) -> MirroredStream:
        """The stream of a position; odd inner samples mirror those before them."""
        flips = self.rule.mirrored and index % 2 == 1
        index = index - 1 if flips else index
        words = position_words(self.first_words, int(role), self.path, time, index)
        return MirroredStream(words, FLIPPED if flips else 0)

    def step(self, state: Any, action: int, rng: MirroredStream) -> tuple[float, Any]:
        """The reward and the next state, None where the episode is over."""
        answer = self.problem.oracle(state, action, rng)
        is_over = len(answer) > 2 and answer[2]
        if is_over or self.problem.is_terminal(answer[1]):
            return answer[0], None
        return answer[0], answer[1]

    def _length(self) -> int:
        if self.rule.fixed:
            return self.rule.head
        luck = 1.0 - self.stream(Role.COIN, 0).random()
        if self.rule.discount == 0.0:
            return 1
        more = math.floor(math.log(luck) / math.log(self.rule.discount))
        return self.rule.head + 1 + more

    # --- weights and W ----------------------------------------------------------

    def weight(self, time: int) -> float:
        """D_t."""
        return self.rule.discount ** min(time, self.rule.head)

    def row(self, time: int) -> Any:
        """The declared numbers of a time."""
        return self.times[min(time, len(self.times) - 1)]

    def is_horizon(self, time: int) -> bool:
        """Whether nothing can be earned from this time on."""
        return self.rule.fixed and self.rule.ends_at_horizon and time == self.rule.head

    def worth(self, time: int, state: Any) -> float:
        """W."""
        if state is None or self.is_horizon(time):
            return 0.0
        horizon = self.problem.horizon
        value = self.critic(state, None if horizon is None else horizon - time)
        return min(max(value, self.row(time)[CLIP_LOW]), self.row(time)[CLIP_HIGH])

    def means(self, time: int, state: Any, role: Role, count: int) -> dict[int, float]:
        """The mean of r + gamma W(s') by legal action, over ``count`` streams."""
        result = {}
        for action in self.problem.legal_actions(state):
            total = 0.0
            for j in range(count):
                reward, after = self.step(state, action, self.stream(role, time, j))
                total += reward + self.rule.discount * self.worth(time + 1, after)
            result[action] = total / count
        return result

    # --- forward ----------------------------------------------------------------

    def has_bound(self, time: int) -> bool:
        """Whether the path stops at this time with something still to be earned."""
        return time == self.length and self.rule.fixed and not self.is_horizon(time)

    def _layers(self) -> list[dict[Hashable, Node]]:
        root_key = self.problem.key_of(self.root)
        layers = [{root_key: Node(self.root, 0.0)}]
        for time in range(self.length):
            layers.append({})
            for node in layers[time].values():
                if time > 0 and node.score >= self.rule.upper_cut:
                    node.is_cut = True
                    self.num_cut += 1
                else:
                    self._open_node(time, node, layers[time + 1])
        return layers

    def _open_node(self, time: int, node: Node, after: dict[Hashable, Node]) -> None:
        node.means = self.means(time, node.state, Role.INNER, self.rule.num_inner)
        self.inner_calls += len(node.means) * self.rule.num_inner
        goes_on = time + 1 < self.length
        if not goes_on and not self.has_bound(time + 1):
            return
        own_worth = self.worth(time, node.state)
        for action, mean in node.means.items():
            _, state = self.step(node.state, action, self.stream(Role.NOISE, time))
            self.noise_calls += 1
            if state is None:
                continue
            key = self.problem.key_of(state)
            node.edges[action] = key, self.worth(time + 1, state)
            if not goes_on:
                continue
            if key not in after:
                if len(after) >= self.rule.most_nodes:
                    self.num_cut += 1
                    continue
                after[key] = Node(state, -math.inf)
            gain = self.sign * self.weight(time) * (mean - own_worth)
            after[key].score = max(after[key].score, node.score + gain)

    # --- backward ---------------------------------------------------------------

    def bound(self, time: int) -> float:
        """What V cannot pass, for the relaxed player."""
        return float(self.row(time)[VALUE_HIGH if self.sign > 0 else VALUE_LOW])

    def pathwise(self, time: int, key: Hashable) -> float:
        """U."""
        if (time, key) not in self.known:
            self.known[time, key] = self._pathwise(time, key)
        return self.known[time, key]

    def _pathwise(self, time: int, key: Hashable) -> float:
        node = self.layers[time].get(key) if time < self.length else None
        if node is None or node.is_cut:
            return self.bound(time)
        x = self.action_values(time, node)
        sign = 1.0 if self.problem.mover(node.state) == 1 else -1.0
        operator, weights = self.problem.operator, self.weights(x)
        if sign == self.sign:
            player = 1 if sign > 0 else 2
            return operator.value(list(x.values()), player=player, weights=weights)
        shares = self.shares(time, node.state)
        mean = sum(shares[action] * value for action, value in x.items())
        return mean - sign * operator.omega([shares[a] for a in x], weights)

    def action_values(self, time: int, node: Node) -> dict[int, float]:
        """x by legal action."""
        gain = self.rule.discount if time < self.rule.head else 1.0
        values = dict(node.means)
        for action, (key, worth) in node.edges.items():
            values[action] += gain * (self.pathwise(time + 1, key) - worth)
        return values

    def weights(self, by_action: dict[int, float]) -> list[float]:
        """The prior weights of the legal actions."""
        prior = self.problem.operator.weights(self.problem.num_actions)
        return [prior[action] for action in by_action]

    # --- the walk ---------------------------------------------------------------

    def shares(self, time: int, state: Any) -> dict[int, float]:
        """The policy at a state, by legal action."""
        if self.policy != "lookahead":
            row = self.policy(state)
            return {a: row[a] for a in self.problem.legal_actions(state)}
        q = self.means(time, state, Role.LOOKAHEAD, self.rule.num_lookahead)
        policy = self.problem.operator.gradient(
            list(q.values()), player=self.problem.mover(state), weights=self.weights(q)
        )
        return dict(zip(q, policy, strict=True))

    def income(self, time: int, state: Any, q: dict[int, float]) -> float:
        """The mean of Qhat under the policy, minus sign Omega."""
        shares = self.shares(time, state)
        sign = 1.0 if self.problem.mover(state) == 1 else -1.0
        omega = self.problem.operator.omega([shares[a] for a in q], self.weights(q))
        return sum(shares[a] * q[a] for a in q) - sign * omega

    def lots(self, time: int, state: Any) -> int:
        """The action that the policy takes."""
        shares = self.shares(time, state)
        luck = self.stream(Role.LOTS, time).random() * sum(shares.values())
        for action, share in shares.items():
            luck -= share
            if luck < 0.0:
                return action
        return max(a for a, share in shares.items() if share > 0.0)

    def walk(self, first_action: int | None = None) -> tuple[float, float]:
        """L with its cuts from below, and L with those from above."""
        state, total = self.root, self.worth(0, self.root)
        low = high = None
        start = total
        for time in range(self.length):
            worth, weight = self.worth(time, state), self.weight(time)
            if time > 0 and low is None and total - start <= -self.rule.lower_cut:
                low = total + weight * (self.row(time)[POLICY_LOW] - worth)
            if time > 0 and high is None and total - start >= self.rule.lower_cut:
                high = total + weight * (self.row(time)[POLICY_HIGH] - worth)
            q = self.means(time, state, Role.INNER, self.rule.num_inner)
            if time == 0 and first_action is not None:
                income, action = q[first_action], first_action
            else:
                income, action = self.income(time, state, q), self.lots(time, state)
            total += weight * (income - worth)
            _, state = self.step(state, action, self.stream(Role.NOISE, time))
            if state is None:
                break
        else:
            if self.has_bound(self.length):
                worth, weight = (
                    self.worth(self.length, state),
                    self.weight(self.length),
                )
                row = self.row(self.length)
                low = (
                    total + weight * (row[POLICY_LOW] - worth) if low is None else low
                )
                if high is None:
                    high = total + weight * (row[POLICY_HIGH] - worth)
        return total if low is None else low, total if high is None else high

    # --- the row ----------------------------------------------------------------

    def results(self) -> dict[str, Any]:
        """What the machine writes into a row: numbers by name."""
        root = next(iter(self.layers[0].values()))
        answer: dict[str, Any] = {
            "upper": self.pathwise(0, self.problem.key_of(self.root)),
            "actions": self.action_values(0, root),
            "nodes": sum(map(len, self.layers)),
            "cut": self.num_cut,
            "noise calls": self.noise_calls,
            "inner calls": self.inner_calls,
        }
        if self.policy is None:
            return answer
        if not self.rule.walks_every_action:
            return answer | dict(
                zip(("lower", "policy upper"), self.walk(), strict=True)
            )
        walks = {action: self.walk(action) for action in root.means}
        shares = self.shares(0, self.root)
        own_mean = sum(shares[a] * root.means[a] for a in walks)
        regular = self.income(0, self.root, root.means) - own_mean
        ends = [
            sum(shares[a] * ends[k] for a, ends in walks.items()) + regular
            for k in (0, 1)
        ]
        return answer | {
            "lower": ends[0],
            "policy upper": ends[1],
            "walks": {
                action: ends[self.rule.relaxed - 1] for action, ends in walks.items()
            },
        }
