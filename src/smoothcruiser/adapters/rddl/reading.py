"""An instance as pyRDDLGym reads it: the model, the simulator, its fluents.

Only this module imports pyRDDLGym. The simulator is one of our own, never that of an
environment that runs, and it gets its random numbers from the planner's stream at every
step (``machines``), so planning does not change the samples of a real environment.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import lru_cache
from io import StringIO
from itertools import product
from typing import Any

import numpy as np

from smoothcruiser.adapters.rddl.expressions import KINDS
from smoothcruiser.adapters.rddl.fluents import Fluent, State
from smoothcruiser.adapters.rddl.repository import Texts
from smoothcruiser.errors import InvalidInput, MissingExtra, describe_error

try:
    with redirect_stdout(StringIO()):  # pygame greets
        import pyRDDLGym
        from ply.yacc import NullLogger
        from pyRDDLGym.core.compiler.model import RDDLLiftedModel
        from pyRDDLGym.core.constraints import RDDLConstraints
        from pyRDDLGym.core.parser.parser import RDDLParser
        from pyRDDLGym.core.simulator import RDDLSimulator
except ImportError as error:
    raise MissingExtra(
        "RDDL problems need pyRDDLGym and rddlrepository: "
        "pip install 'smoothcruiser[rddl]'."
    ) from error

LIBRARY = pyRDDLGym  # for fingerprints: the library by its version


@dataclass(frozen=True)
class Instance:
    """A domain and an instance, read."""

    name: str  # the instance's own
    texts: Texts
    model: Any  # pyRDDLGym's lifted model
    simulator: Any  # pyRDDLGym's, for this model
    states: tuple[Fluent, ...]
    actions: tuple[Fluent, ...]
    initial: State
    horizon: int
    discount: float
    at_once: int  # max-nondef-actions


def read_instance(texts: Texts) -> Instance:
    """The instance that two texts describe; a POMDP is refused."""
    try:
        with _quiet():
            model = RDDLLiftedModel(_parser().parse(_join_texts(texts)))
            simulator = RDDLSimulator(
                model,
                rng=np.random.default_rng(0),  # replaced before every step
                keep_tensors=True,
                objects_as_strings=False,
            )
    except Exception as error:
        _parser.cache_clear()  # it stopped in the middle of a text
        raise InvalidInput(
            f"pyRDDLGym cannot read this domain and instance: {_first_line(error)}; "
            "check the RDDL files."
        ) from error
    if model.observ_fluents:
        observed_names = ", ".join(list(model.observ_fluents)[:3])
        raise InvalidInput(
            f"The domain {model.domain_name} is a POMDP: its agent sees only "
            f"{observed_names}, and here planners see the state; choose an MDP domain "
            "(…_MDP_…)."
        )
    states = tuple(_fluents(model, model.state_fluents))
    return Instance(
        name=str(model.instance_name),
        texts=texts,
        model=model,
        simulator=simulator,
        states=states,
        actions=tuple(_limit_actions(model, simulator)),
        initial=flatten_values(simulator.init_values, model.state_fluents),
        horizon=int(model.horizon),
        discount=float(model.discount),
        at_once=int(model.max_allowed_actions),
    )


@lru_cache(maxsize=1)
def _parser() -> Any:
    """pyRDDLGym's parser; its tables take a second and are not written to disk."""
    parser = RDDLParser(lexer=None, verbose=False)
    parser.build(write_tables=False, debug=False, errorlog=NullLogger())
    return parser


def flatten_values(arrays: Any, names: Iterable[str]) -> State:
    """The values of fluents, one after the other, as plain Python."""
    flat_values: list[Any] = []
    for fluent_name in names:
        values = np.asarray(arrays[fluent_name])
        flat_values += [values.item()] if values.ndim == 0 else values.ravel().tolist()
    return tuple(flat_values)


def _fluents(model: Any, names: Iterable[str]) -> Iterator[Fluent]:
    for fluent_name in names:
        fluent_range = model.variable_ranges[fluent_name]
        range_objects = (
            () if fluent_range in KINDS else tuple(model.type_to_objects[fluent_range])
        )
        declared_default = model.variable_defaults.get(fluent_name)
        if isinstance(declared_default, str):
            declared_default = range_objects.index(declared_default)
        default_value = (
            declared_default
            if declared_default is not None
            else {"bool": False}.get(fluent_range, 0)
        )
        object_lists = [
            model.type_to_objects[type_name]
            for type_name in model.variable_params[fluent_name]
        ]
        for grounding in product(*object_lists):
            yield Fluent(
                fluent_name,
                tuple(grounding),
                fluent_range,
                range_objects,
                default_value,
            )


def _limit_actions(model: Any, simulator: Any) -> Iterator[Fluent]:
    """The action fluents, with the limits of those that are whole numbers.

    pyRDDLGym reads limits from preconditions such as ``force <= 1``. In any case the
    preconditions themselves decide which actions are legal.
    """
    fluents = list(_fluents(model, model.action_fluents))
    if any(fluent.range == "int" for fluent in fluents):
        with _quiet():
            action_bounds = RDDLConstraints(simulator).bounds
    for fluent in fluents:
        if fluent.range == "int":
            lower_bound, upper_bound = (
                float(end) for end in action_bounds[fluent.ground_name]
            )
            if math.isfinite(lower_bound) and math.isfinite(upper_bound):
                whole_limits = math.ceil(lower_bound), math.floor(upper_bound)
                fluent = replace(fluent, limits=whole_limits)
        yield fluent


def _join_texts(texts: Texts) -> str:
    """Domain and instance as one text, without comments, as the parser wants it."""
    lines = f"{texts.domain}\n{texts.instance}\n".splitlines()
    return "\n".join(line.partition("//")[0] for line in lines) + "\n"


def _first_line(error: Exception) -> str:
    """The first line of an error, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", describe_error(error)).split("\n")[0][:300]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without pyRDDLGym's and ply's own lines: an exception says enough."""
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        yield
