"""Schedules with the paper's printed constants: Alg. 1-3 as a table.

There is one row per accuracy.

  case 1   e >= V_max    CONSTANT 0
  case 2   kappa <= e    PLUGIN    samples N(e), query e/sqrt(gamma)
  case 3   e < kappa     ROLLOUT   samples N(sqrt(kappa e)), query
                                   sqrt(kappa e/gamma), continuation e/sqrt(gamma)
  root     N(eps) samples per action over e = eps/sqrt(gamma)

legend   symbol   public name
  delta'          ``delta_prime``: failure probability of one Q-hat;
                  delta' (1 + K N(eps) n(eps/sqrt(gamma))) <= ``delta``
  V_max           (r_max + M)/(1 - gamma)
  the rest        see ``theory.paper_constants_ladder``

Two things are repaired, because the promise would break. One is the box that
Q-hat is clipped to: the printed [0, V_max] is wrong wherever Q can be negative
(games, negative rewards, terminal states). The other is the count of calls that
enters delta'. With a horizon a row is an accuracy with its steps left; at 0
steps left the constant 0 is exact, so there are at most ``horizon`` levels.
``delta = 1.0`` on a schedule means that there is no probabilistic promise,
because the requested delta' times the number of calls exceeds 1.

This file decides which tables are too large to build. It leaves out their check
(``schedule.verify.paper_promise``).
"""

from __future__ import annotations

import math

from smoothcruiser.errors import InvalidInput, Unpayable
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.schedule import Kind, Level, Root, Schedule
from smoothcruiser.theory.paper_constants import (
    PaperSetting,
    delta_prime,
    failure_probability,
    log_delta_prime,
    oracle_calls,
    sparse_sampling,
    value_bound,
)
from smoothcruiser.theory.paper_ladder import (
    MAX_LEVELS,
    Rung,
    child_accuracy,
    exact_counts,
    kappa,
    ladder,
    log_counts,
    log_term,
    samples_at,
)

# Python refuses to print integers of more than 4300 digits, and a price must stay
# printable.
MAX_DIGITS = 4000
# stages with boxes that are joined one by one; beyond, [-V_max, V_max] holds them all
MAX_STAGES = 64
CASES = {1: Kind.CONSTANT, 2: Kind.PLUGIN, 3: Kind.ROLLOUT}
REMEDY = "raise epsilon, or use the method 'smoothcruiser'"


def paper_schedule(
    facts: Facts,
    *,
    epsilon: float,
    delta: float | None = None,
    delta_prime: float | None = None,
) -> Schedule:
    """Return SmoothCruiser as printed, for the promise ``delta`` or for a fixed delta'.

    For ``delta``, delta' is the largest that keeps it.
    """
    setting = PaperSetting.of(facts)
    if kappa(setting) == math.inf:
        raise InvalidInput(
            "The method 'paper' divides by the smoothness L of the operator and needs "
            f"L > 0, got L = {setting.L!r} ({facts.operator.name}, {facts.num_actions} "
            "actions); use the method 'smoothcruiser' or 'sparse-sampling'."
        )
    return _fill("paper", facts, setting, epsilon, delta, delta_prime)


def paper_sparse_sampling(
    facts: Facts,
    *,
    epsilon: float,
    delta: float | None = None,
    delta_prime: float | None = None,
) -> Schedule:
    """Return sparse sampling (Kearns et al.) with the paper's constants.

    It is the same table with kappa = 0, so every level is a plug-in.
    """
    return _fill(
        "paper-sparse-sampling",
        facts,
        sparse_sampling(PaperSetting.of(facts)),
        epsilon,
        delta,
        delta_prime,
    )


def _fill(
    method: str,
    facts: Facts,
    setting: PaperSetting,
    epsilon: float,
    delta: float | None,
    fixed_delta_prime: float | None,
) -> Schedule:
    _check_promise(epsilon, delta, fixed_delta_prime)
    remaining = None if facts.horizon is None else facts.horizon - 1
    rungs = ladder(setting, child_accuracy(setting, epsilon), remaining)
    if rungs is None:
        raise Unpayable(
            _too_long(
                method, setting, epsilon, delta, fixed_delta_prime, facts.horizon
            )
        )
    per_node = (
        fixed_delta_prime
        if fixed_delta_prime is not None
        else delta_prime(setting, epsilon, delta or 0.0, facts.horizon)
    )
    ell = log_term(setting, per_node)
    log10_calls = log_counts(setting, rungs, ell)[-1] / math.log(10.0)
    if log10_calls > MAX_DIGITS:
        raise Unpayable(
            f"The {method} schedule for epsilon {epsilon:g} takes more than "
            f"10^{log10_calls:.1f} oracle calls; {REMEDY}."
        )
    root_samples = samples_at(setting, epsilon, ell)
    num_calls = setting.K * root_samples * exact_counts(setting, rungs, ell)[-1]
    failure_bound = failure_probability(per_node, num_calls)
    return Schedule(
        method=method,
        facts=facts,
        levels=tuple(_level(setting, rung, ell) for rung in rungs),
        root=Root("q_values", root_samples, len(rungs) - 1, "paper"),
        epsilon=epsilon,
        delta=delta
        if delta is not None
        else float(failure_bound)
        if failure_bound < 1
        else 1.0,
        clip=clip_box(facts, rungs),
        delta_prime=per_node,
    )


def _check_promise(
    epsilon: float, delta: float | None, fixed_delta_prime: float | None
) -> None:
    if not 0.0 < epsilon < math.inf:
        raise InvalidInput(f"epsilon must be positive and finite, got {epsilon!r}.")
    if (delta is None) == (fixed_delta_prime is None):
        raise InvalidInput(
            "Give either delta or delta_prime, not both or neither; got "
            f"delta={delta!r}, delta_prime={fixed_delta_prime!r}."
        )
    for name, value in (("delta", delta), ("delta_prime", fixed_delta_prime)):
        if value is not None and not 0.0 < value < 1.0:
            raise InvalidInput(f"{name} must lie in (0, 1), got {value!r}.")


def _level(setting: PaperSetting, rung: Rung, ell: float) -> Level:
    if rung.case == 1:
        return Level(Kind.CONSTANT, constant=0.0)
    return Level(
        CASES[rung.case],
        samples_at(setting, rung.zeta, ell),
        rung.query,
        rung.continuation,
    )


def _too_long(
    method: str,
    setting: PaperSetting,
    epsilon: float,
    delta: float | None,
    fixed_delta_prime: float | None,
    horizon: int | None,
) -> str:
    """Return the sentence of a refusal, with an upper bound on the price in log10."""
    if fixed_delta_prime is not None:
        log10_calls = oracle_calls(setting, epsilon, fixed_delta_prime, horizon).log10
    else:
        log10_calls = log_delta_prime(setting, epsilon, delta or 0.0, horizon)[
            1
        ] / math.log(10.0)
    return (
        f"The {method} schedule for epsilon {epsilon:g} has over {MAX_LEVELS} "
        f"levels and up to 10^{log10_calls:.4g} oracle calls; {REMEDY}."
    )


def clip_box(facts: Facts, rungs: tuple[Rung, ...]) -> tuple[float, float]:
    """Return the smallest box that holds Q(s, a) wherever a Q-hat is estimated.

    It holds for every mover at every stage. Clipping to it never moves Q-hat
    away from Q, and |box| <= V_max, so both uses of the printed box in Lemma 2
    stay valid.
    """
    stages = {facts.horizon} | {rung.remaining for rung in rungs if rung.case != 1}
    if len(stages) > MAX_STAGES:
        value_cap = value_bound(PaperSetting.of(facts))
        return -value_cap, value_cap
    q_intervals = [
        facts.q_bounds(player, stage) for stage in stages for player in facts.players
    ]
    return min(q_low for q_low, _ in q_intervals), max(
        q_high for _, q_high in q_intervals
    )
