"""RDDL problems by name: facts derived of an instance, and facts to be declared.

horizon, discount   the instance's, unless the name (``horizon=``) or ``discount=``
                    say otherwise; ``horizon=none`` is no limit
actions             all joint actions (``actions``), legal where the preconditions hold
ends                termination conditions and broken state invariants
reward range        by interval analysis (``laws``) where the instance can be
                    translated and the analysis ends in finite numbers; otherwise the
                    name has to declare it, ``reward_range=[a,b]``
outcomes            the exact law (``laws``) where the instance can be translated
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, Unpack

from smoothcruiser.adapters.rddl.expressions import ANYTHING, Interval, Untranslatable
from smoothcruiser.adapters.rddl.fluents import State, list_actions
from smoothcruiser.adapters.rddl.grounding import GroundInstance, ground
from smoothcruiser.adapters.rddl.laws import (
    StepLaw,
    own_range,
    reward_range,
    state_ranges,
)
from smoothcruiser.adapters.rddl.machines import (
    InstanceMachine,
    InterpretedMachine,
    RDDLOracle,
    Settings,
    TranslatedMachine,
    conditions_of,
)
from smoothcruiser.adapters.rddl.reading import Instance, Texts, read_instance, texts
from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import Operator
from smoothcruiser.problem.arguments import check_keywords, shorten_value
from smoothcruiser.problem.declarations import (
    DECLARATIONS,
    Declarations,
    merge_declarations,
    pop_declarations,
)
from smoothcruiser.problem.problem import MDP, Problem

# relative to the largest reward: sums of a thousand terms differ by 1e-13 of them
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
    declared_options: dict[str, Any] = dict(more)
    horizon = declared_options.pop("horizon", "instance")
    declarations = pop_declarations(declared_options)
    oracle = oracle_of(texts(domain, instance), settings or Settings())
    rddl_instance = oracle.instance
    has_preconditions, has_ends = conditions_of(rddl_instance)
    facts = {
        "actions": oracle.joint.labels,
        "discount": rddl_instance.discount if discount is None else discount,
        "operator": operator,
        "horizon": _horizon(rddl_instance, horizon),
        "reward_range": oracle.reward_range,
        "legal": oracle.legal if has_preconditions else None,
        "terminal": oracle.terminal if has_ends else None,
        "initial_state": rddl_instance.initial,
        "deterministic": oracle.deterministic,
        "outcomes": None if oracle.law is None else oracle.outcomes,
        "name": name or f"rddl:{rddl_instance.name}",
    }
    return MDP(oracle, **merge_declarations(facts, declarations))


def build_by_name(
    text: str,
    parameters: dict[str, Any],
    *,
    discount: float | None,
    operator: Operator,
) -> Problem:
    """The problem of ``rddl:text,instance,name=value,…``."""
    instance = parameters.pop("instance", None)
    quiet_words = [word for word in DECLARATIONS if word != "horizon"]
    shown_parameters = "".join(
        f",{k}={v}" for k, v in parameters.items() if k not in quiet_words
    )
    declarations: Any = {k: parameters.pop(k) for k in DECLARATIONS if k in parameters}
    unknown_words = [word for word in parameters if word not in SETTINGS]
    if unknown_words:
        raise InvalidInput(
            f"rddl: knows no parameter {shorten_value(unknown_words[0])}; it has instance, "
            f"{', '.join(SETTINGS)}, {', '.join(DECLARATIONS)}."
        )
    return problem(
        text,
        instance,
        operator=operator,
        discount=discount,
        settings=Settings(**parameters),
        name=f"rddl:{text},{instance}{shown_parameters}",
        **declarations,
    )


def oracle_of(files: Texts, settings: Settings) -> RDDLOracle:
    """The oracle of an instance."""
    instance = read_instance(files)
    joint_actions = list_actions(
        instance.actions, instance.at_once, settings.max_actions
    )
    ground_instance: GroundInstance | None = None
    reason = ""
    try:
        ground_instance = ground(
            instance.model, instance.simulator, instance.states, instance.actions
        )
        machine: InstanceMachine = TranslatedMachine(ground_instance)
    except Untranslatable as error:
        if settings.access == "translate":
            raise InvalidInput(
                f"{instance.name} cannot be translated: it has {error}; use "
                "access=interpret."
            ) from error
        ground_instance, reason = None, str(error)
    if ground_instance is None or settings.access == "interpret":
        machine = InterpretedMachine(instance)
    fluent_ranges, reward_bounds = _ranges(
        instance, settings, ground_instance, joint_actions.values, reason
    )
    return RDDLOracle(
        instance,
        settings,
        machine,
        joint_actions,
        fluent_ranges,
        reward_bounds,
        _law(ground_instance, settings.max_outcomes),
    )


def _law(ground_instance: GroundInstance | None, max_outcomes: int) -> StepLaw | None:
    return (
        None
        if ground_instance is None or max_outcomes == 0
        else StepLaw(ground_instance, max_outcomes)
    )


def _ranges(
    instance: Instance,
    settings: Settings,
    ground_instance: GroundInstance | None,
    actions: tuple[State, ...],
    reason: str,
) -> tuple[list[Interval], Interval]:
    """Intervals of the state's fluents, and the range of rewards from there."""
    declared_range = settings.reward_range
    if declared_range is not None:
        return [
            own_range(fluent) or ANYTHING for fluent in instance.states
        ], declared_range
    remedy = "declare it as reward_range=[a,b] in the name"
    if ground_instance is None:
        raise InvalidInput(
            f"The range of {instance.name}'s rewards cannot be derived, because it has "
            f"{reason}; {remedy}."
        )
    fluent_ranges = state_ranges(ground_instance, instance.initial, actions)
    lower_bound, upper_bound = reward_range(ground_instance, fluent_ranges, actions)
    if not (math.isfinite(lower_bound) and math.isfinite(upper_bound)):
        raise InvalidInput(
            f"The rewards of {instance.name} lie in [{lower_bound:g}, {upper_bound:g}] "
            f"for all that interval analysis can tell; {remedy}."
        )
    if settings.access == "interpret":  # sums in another order, rounded differently
        rounding_slack = REORDERING * (1.0 + max(abs(lower_bound), abs(upper_bound)))
        lower_bound, upper_bound = (
            lower_bound - rounding_slack,
            upper_bound + rounding_slack,
        )
    return fluent_ranges, (lower_bound, upper_bound)


def _horizon(instance: Instance, horizon: Any) -> int | None:
    if horizon == "instance":
        return instance.horizon
    if horizon is None or horizon == "none":
        return None
    return horizon  # type: ignore[no-any-return]  # the problem checks it
