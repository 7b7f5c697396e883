"""RDDL problems by name: what is derived of an instance, and what has to be declared.

horizon, discount   the instance's, unless the name (``horizon=``) or ``discount=``
                    say otherwise; ``horizon=none`` is no limit
actions             all joint actions (``actions``), legal where the preconditions hold
ends                termination conditions and broken state invariants
reward range        by interval analysis (``intervals``) where the instance can be
                    translated and the analysis ends in finite numbers; otherwise the
                    name has to declare it, ``reward_range=[a,b]``
outcomes            the exact law (``laws``) where the instance can be translated
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, Unpack

from smoothcruiser.adapters.rddl.actions import listed
from smoothcruiser.adapters.rddl.expressions import Untranslatable
from smoothcruiser.adapters.rddl.fluents import State
from smoothcruiser.adapters.rddl.grounding import GroundInstance, ground
from smoothcruiser.adapters.rddl.intervals import own_range, reward_range, state_ranges
from smoothcruiser.adapters.rddl.laws import StepLaw
from smoothcruiser.adapters.rddl.machines import (
    InstanceMachine,
    Interpreted,
    Translated,
    conditions_of,
)
from smoothcruiser.adapters.rddl.operations import ANYTHING, Interval
from smoothcruiser.adapters.rddl.oracles import RDDLOracle, Settings
from smoothcruiser.adapters.rddl.reading import Instance, read
from smoothcruiser.adapters.rddl.repository import Texts, texts
from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import check_keywords, shortened
from smoothcruiser.problem.declarations import (
    DECLARATIONS,
    Declarations,
    merged,
    taken,
)
from smoothcruiser.problem.problem import MDP, Problem

# relative to the largest reward: sums of a thousand terms differ by 1e-13 of their terms
REORDERING = 1e-9
SETTINGS = tuple(each.name for each in fields(Settings))  # parameters of names


def problem(
    domain: str,
    instance: Any = None,
    *,
    operator: Operator,
    discount: float | None = None,
    settings: Settings | None = None,
    name: str | None = None,
    **more: Unpack[Declarations],
) -> Problem:
    """The Problem of an instance of an RDDL domain.

    Args:
        domain: a domain of rddlrepository, such as "SysAdmin_MDP_ippc2011", or a file.
        instance: the number of an instance, or a file.
        operator: the smooth maximum, such as ``Entropy(0.1)``.
        discount: weight of the next step's value; by default the instance's.
        settings: how the instance is run: ``Settings(access=, max_actions=,
            max_outcomes=, reward_range=)``.
        name: shown in answers.
        more: declarations, as for ``make``. ``horizon`` is by default the instance's;
            None is no limit.

    Example:
        >>> import smoothcruiser as sc
        >>> from smoothcruiser.adapters.rddl import problem
        >>> sysadmin = problem("SysAdmin_MDP_ippc2011", 1, operator=sc.Max())
        >>> sysadmin.horizon, sysadmin.reward_range, sysadmin.actions[:2]
        (40, (-0.75, 10.0), ('noop', 'reboot(c1)'))
    """
    check_keywords("problem", more, DECLARATIONS)
    options: dict[str, Any] = dict(more)
    horizon = options.pop("horizon", "instance")
    declared = taken(options)
    oracle = oracle_of(texts(domain, instance), settings or Settings())
    found = oracle.instance
    has_preconditions, has_ends = conditions_of(found)
    facts = {
        "actions": oracle.joint.labels,
        "discount": found.discount if discount is None else discount,
        "operator": operator,
        "horizon": _horizon(found, horizon),
        "reward_range": oracle.reward_range,
        "legal": oracle.legal if has_preconditions else None,
        "terminal": oracle.terminal if has_ends else None,
        "initial_state": found.initial,
        "deterministic": oracle.deterministic,
        "outcomes": None if oracle.law is None else oracle.outcomes,
        "name": name or f"rddl:{found.name}",
    }
    return MDP(oracle, **merged(facts, declared))


def named(
    text: str,
    parameters: dict[str, Any],
    *,
    discount: float | None,
    operator: Operator,
) -> Problem:
    """The problem of ``rddl:text,instance,name=value,…``."""
    instance = parameters.pop("instance", None)
    quiet = [word for word in DECLARATIONS if word != "horizon"]
    shown = "".join(f",{k}={v}" for k, v in parameters.items() if k not in quiet)
    declared: Any = {k: parameters.pop(k) for k in DECLARATIONS if k in parameters}
    unknown = [word for word in parameters if word not in SETTINGS]
    if unknown:
        raise InvalidInput(
            f"rddl: knows no parameter {shortened(unknown[0])}; it has instance, "
            f"{', '.join(SETTINGS)}, {', '.join(DECLARATIONS)}."
        )
    return problem(
        text,
        instance,
        operator=operator,
        discount=discount,
        settings=Settings(**parameters),
        name=f"rddl:{text},{instance}{shown}",
        **declared,
    )


def oracle_of(files: Texts, settings: Settings) -> RDDLOracle:
    """The oracle of an instance."""
    instance = read(files)
    joint = listed(instance.actions, instance.at_once, settings.max_actions)
    translated: GroundInstance | None = None
    why = ""
    try:
        translated = ground(
            instance.model, instance.simulator, instance.states, instance.actions
        )
        machine: InstanceMachine = Translated(translated)
    except Untranslatable as error:
        if settings.access == "translate":
            raise InvalidInput(
                f"{instance.name} cannot be translated: it has {error}; use "
                "access=interpret."
            ) from error
        translated, why = None, str(error)
    if translated is None or settings.access == "interpret":
        machine = Interpreted(instance)
    ranges, rewards = _ranges(instance, settings, translated, joint.values, why)
    return RDDLOracle(
        instance,
        settings,
        machine,
        joint,
        ranges,
        rewards,
        _law(translated, settings.max_outcomes),
    )


def _law(translated: GroundInstance | None, most: int) -> StepLaw | None:
    return None if translated is None or most == 0 else StepLaw(translated, most)


def _ranges(
    instance: Instance,
    settings: Settings,
    translated: GroundInstance | None,
    actions: tuple[State, ...],
    why: str,
) -> tuple[list[Interval], Interval]:
    """Intervals of the state's fluents, and the range of rewards from there."""
    declared = settings.reward_range
    if declared is not None:
        return [own_range(each) or ANYTHING for each in instance.states], declared
    remedy = "declare it as reward_range=[a,b] in the name"
    if translated is None:
        raise InvalidInput(
            f"The range of {instance.name}'s rewards cannot be derived, because it has "
            f"{why}; {remedy}."
        )
    ranges = state_ranges(translated, instance.initial, actions)
    low, high = reward_range(translated, ranges, actions)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidInput(
            f"The rewards of {instance.name} lie in [{low:g}, {high:g}] for all that "
            f"interval analysis can tell; {remedy}."
        )
    if settings.access == "interpret":  # sums in another order, rounded differently
        slack = REORDERING * (1.0 + max(abs(low), abs(high)))
        low, high = low - slack, high + slack
    return ranges, (low, high)


def _horizon(instance: Instance, horizon: Any) -> int | None:
    if horizon == "instance":
        return instance.horizon
    if horizon is None or horizon == "none":
        return None
    return horizon  # type: ignore[no-any-return]  # the problem checks it
