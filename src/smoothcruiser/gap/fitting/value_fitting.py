"""W where nobody passes one: fitted value iteration on states that rollouts visit.

  states    rollouts under the policy and under uniformly random actions, half each
  form      ``features=``: least squares on them. Else a grid, where states have up to
            three continuous fields and the combinations of the discrete ones are few
            enough (a table where all are discrete); else least squares on the fields,
            their squares and products
  budget    a share of the calls; every call of the step is counted

Any W is valid. A good one makes paths narrow: about as narrow as a policy that is greedy
on W is good. This file decides where W is fitted; ``grid_values`` and ``linear_values``
how.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.evaluation.critics import ConstantCritic, Critic
from smoothcruiser.evaluation.policy_reading import read_policy
from smoothcruiser.gap.fitting.grid_values import fit_grid
from smoothcruiser.gap.fitting.linear_values import fit_linear
from smoothcruiser.gap.fitting.model_samples import StepSampler
from smoothcruiser.gap.fitting.state_fields import Floats, StateForm, rows_of_numbers
from smoothcruiser.jit.random import Key
from smoothcruiser.jit.random.streams import Stream, stream
from smoothcruiser.problem.problem import Problem

FORMS = ("auto", "grid", "linear")
EXPLORING_SHARE = 16  # of the calls: at most so small a part visits states
MOST_VISITS, FEWEST_VISITS = 20_000, 200  # calls that visit states
LONGEST_WALK = 2000  # steps of a rollout without a horizon
# of two fits: the share of calls of the first, and of the walks that lead to the second
FIRST_SHARE, MOST_GREEDY_STEPS = 0.25, 3000
LOOKAHEAD, RANDOM_SHARE = 4, 0.25  # samples per action of a greedy walk; random steps
GREEDY = 1  # after WALKS: the streams of greedy walks
WALKS = 2**20  # place of the streams of walks; those of samples come before


class FittedValue(NamedTuple):
    """A fitted W, and the calls of the step that it took."""

    critic: Critic
    calls: int


def fit_value(
    problem: Problem,
    state: Any = None,
    *,
    calls: int,
    policy: Any = None,
    features: Any = None,
    form: str = "auto",
    seed: int = 0,
) -> FittedValue:
    """A critic for ``problem``, fitted with at most so many calls.

    Args:
        problem: any simulator; with a discount below 1, or a horizon.
        state: where rollouts start; by default the initial state.
        calls: most calls of the step.
        policy: whose states are visited beside those of random actions.
        features: state -> row of numbers, or ``sc.batched`` of a function of many.
        form: "grid", "linear", or "auto", which chooses; the critic's notes say what.
        seed: of the samples.

    Example:
        >>> import smoothcruiser as sc
        >>> def walk(x, action, rng):
        ...     return -x * x, 0.8 * x + 0.3 * (action - 1) + 0.1 * rng.normal()
        >>> problem = sc.MDP(walk, num_actions=3, discount=0.9, operator=sc.Max(),
        ...                  reward_range=(-25.0, 0.0), initial_state=1.0)
        >>> fitted = fit_value(problem, calls=20_000)
        >>> bool(fitted.critic.value_at(0.0) > fitted.critic.value_at(1.0))
        True
    """
    if form not in FORMS:
        raise InvalidInput(f"form must be one of {FORMS}, got {form!r}.")
    if problem.horizon is None and problem.discount >= 1.0:
        raise InvalidInput(
            "A value is fitted at a discount below 1, or with a horizon; declare one."
        )
    sampler = StepSampler(problem, seed, calls)
    start = problem.start(state)
    bounds = np.array(problem.facts.value_hull(), np.float64)
    if problem.is_terminal(start):
        return FittedValue(ConstantCritic(0.0), 0)
    states = visit_states(sampler, start, policy)
    if features is not None:
        critic = fit_twice(sampler, states, bounds, features)
    else:
        critic = fit_fields(sampler, states, bounds, form)
    return FittedValue(critic, sampler.calls)


def fit_fields(
    sampler: StepSampler, states: list[Any], bounds: Floats, form: str
) -> Critic:
    """The critic of the fields of states: a grid where it fits, else a sum."""
    rows = rows_of_numbers(states)
    state_form = StateForm.of(states[0], rows)
    reason = ""
    if form != "linear":
        try:
            return fit_grid(sampler, state_form, rows, bounds)
        except SmoothcruiserError as error:  # too large, or a node that is no state
            if form == "grid":
                raise
            reason = str(error)
    critic = fit_twice(sampler, states, bounds, None)
    if reason:
        critic.notes += (f"No grid of values: {reason}",)
    return critic


def fit_twice(
    sampler: StepSampler, states: list[Any], bounds: Floats, features: Any
) -> Critic:
    """Least squares on visited states, then on those that the first fit leads to.

    A sum of features is good where it was fitted. Random actions go elsewhere than
    good ones, which pay for a bound.
    """
    problem, most_calls = sampler.problem, sampler.most_calls
    first_calls = sampler.calls + int(FIRST_SHARE * sampler.calls_left)
    sampler.most_calls = first_calls
    try:
        critic = fit_linear(sampler, states, bounds, features)
    except InvalidInput:  # too few calls for two fits
        sampler.most_calls = most_calls
        return fit_linear(sampler, states, bounds, features)
    finally:
        sampler.most_calls = most_calls
    price = 1 + LOOKAHEAD * problem.num_actions
    num_steps = int(FIRST_SHARE * sampler.calls_left / price)
    num_steps = min(num_steps, MOST_GREEDY_STEPS)
    if num_steps < FEWEST_VISITS:
        return critic
    good_states = follow_critic(sampler, critic, states[0], num_steps)
    num_random = len(good_states) // 3
    places = np.linspace(0, len(states) - 1, num_random).astype(np.int64)
    return fit_linear(
        sampler, good_states + [states[i] for i in places], bounds, features
    )


def follow_critic(
    sampler: StepSampler, critic: Critic, start: Any, num_steps: int
) -> list[Any]:
    """States of rollouts that are greedy on W, but for a share of random actions."""
    problem = sampler.problem
    length = problem.horizon or 10 + int(4.0 / (1.0 - problem.discount))
    states, walk = [start], 0
    while num_steps > 0:
        rng = stream(sampler.seed, Key.FITTING, WALKS, GREEDY, walk)
        state, walk = start, walk + 1
        for depth in range(length):
            steps_left = None if problem.horizon is None else length - depth - 1
            actions = problem.legal_actions(state)
            action = actions[rng.integers(len(actions))]
            if rng.random() >= RANDOM_SHARE:
                action = choose_greedily(sampler, critic, state, steps_left)
            _, state, is_over = sampler.call_step(state, action, rng)
            num_steps -= 1
            if is_over or num_steps <= 0:
                break
            states.append(state)
    return states


def choose_greedily(
    sampler: StepSampler, critic: Critic, state: Any, steps_left: int | None
) -> int:
    """The action of the largest mean r + gamma W (of the least, for the min player)."""
    problem = sampler.problem
    actions = problem.legal_actions(state)
    gains, next_states, places = np.zeros(len(actions)), [], []
    words = sampler.words(LOOKAHEAD)
    for i, action in enumerate(actions):
        for first_words in words.tolist():
            answer = sampler.call_step(state, action, Stream(first_words))
            reward, next_state, is_over = answer
            gains[i] += reward
            if not is_over and steps_left != 0:
                next_states.append(next_state)
                places.append(i)
    if next_states:
        worths = problem.discount * critic.values(next_states, steps_left)
        np.add.at(gains, places, worths)
    sign = 1.0 if problem.mover(state) == 1 else -1.0
    return actions[int((sign * gains).argmax())]


def visit_states(sampler: StepSampler, start: Any, policy: Any) -> list[Any]:
    """States of rollouts from ``start``, that one first; no end is among them."""
    problem = sampler.problem
    budget = min(
        MOST_VISITS, max(FEWEST_VISITS, sampler.calls_left // EXPLORING_SHARE)
    )
    budget = min(budget, sampler.calls_left // 2)
    length = LONGEST_WALK if problem.horizon is None else problem.horizon
    if problem.horizon is None:
        length = min(length, 10 + int(4.0 / (1.0 - problem.discount)))
    rule = read_rule(problem, policy)
    states, walk = [start], 0
    begun = sampler.calls
    while sampler.calls - begun < budget:
        rng = stream(sampler.seed, Key.FITTING, WALKS, walk)
        state = start
        for _ in range(length):
            if sampler.calls - begun >= budget:
                break
            actions = problem.legal_actions(state)
            action = actions[rng.integers(len(actions))]
            if rule is not None and walk % 2 == 0:
                shares = np.cumsum(rule(state, rng))
                place = int(
                    np.searchsorted(shares, rng.random() * shares[-1], "right")
                )
                action = min(place, problem.num_actions - 1)
            _, state, is_over = sampler.call_step(state, action, rng)
            if is_over:
                break
            states.append(state)
        walk += 1
    return states


def read_rule(problem: Problem, policy: Any) -> Any:
    """(state, rng) -> probabilities; None where the policy has no such form."""
    if policy is None:
        return None
    try:
        return read_policy(problem, policy).shares
    except InvalidInput:  # a tree's or an estimate's: random actions must do
        return None
