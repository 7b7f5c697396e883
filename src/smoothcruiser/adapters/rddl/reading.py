"""An instance as pyRDDLGym reads it: the model, the simulator, its fluents.

Only this module imports pyRDDLGym. The simulator is one of our own, never that of an
environment that runs, and it gets its random numbers from the planner's stream at every
step (``machines``), so planning does not change the samples of a real environment.

Which files a name stands for: domains of rddlrepository, or one's own.

    rddl:SysAdmin_MDP_ippc2011,1          a domain of rddlrepository and its instance
    rddl:domain.rddl,instance.rddl        two files

The domains of rddlrepository are folders of its package, each with a description, a
domain and instances. They are read as files here. The package's own manager would do
the same through a list that it first writes into its folder; that fails where packages
cannot be written to, and two processes that begin at once read half a list.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from functools import lru_cache
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from smoothcruiser.adapters.rddl.expressions import KINDS
from smoothcruiser.adapters.rddl.fluents import Fluent, State
from smoothcruiser.errors import InvalidInput, MissingExtra, describe_error
from smoothcruiser.problem.arguments import shorten_value

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


try:
    import rddlrepository
except ImportError as error:
    raise MissingExtra(
        "RDDL problems need pyRDDLGym and rddlrepository: "
        "pip install 'smoothcruiser[rddl]'."
    ) from error


@dataclass(frozen=True)
class Texts:
    """The text of a domain and of an instance."""

    domain: str
    instance: str


@lru_cache(maxsize=1)
def domains() -> dict[str, Path]:
    """The folders of rddlrepository's domains, by name."""
    folders = {}
    for path in Path(rddlrepository.__file__).parent.rglob("domain.rddl"):
        description_file = path.with_name("__init__.py")
        if description_file.exists() and (
            description := _read_description(
                description_file.read_text("utf-8", "replace")
            )
        ):
            domain_name, context = description.get("name"), description.get("context")
            folders[f"{domain_name}_{context}" if context else f"{domain_name}"] = (
                path.parent
            )
    return dict(sorted(folders.items()))


def _read_description(text: str) -> dict[str, Any]:
    """The dict ``info`` of a domain's description."""
    for line in ast.parse(text).body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "info":
            description: dict[str, Any] = ast.literal_eval(line.value)
            return description
    return {}


def instances(folder: Path) -> list[str]:
    """The numbers of a domain's instances, in order."""
    instance_numbers = (
        path.stem.removeprefix("instance") for path in folder.glob("instance*.rddl")
    )
    return sorted(instance_numbers, key=lambda name: (len(name), name))


def texts(domain: str, instance: Any) -> Texts:
    """The files that a domain and an instance name."""
    if domain.endswith(".rddl"):
        if not isinstance(instance, str):
            raise InvalidInput(
                f"{domain} is a domain; name the file of an instance too, as in "
                "rddl:domain.rddl,instance.rddl."
            )
        return Texts(_read_text(domain), _read_text(instance))
    folder = domains().get(domain)
    if folder is None:
        raise InvalidInput(
            "rddlrepository has no domain "
            f"{shorten_value(domain)}{_suggest_domains(domain)}; your own files are "
            "written rddl:domain.rddl,instance.rddl."
        )
    instance_numbers = instances(folder)
    if isinstance(instance, str) and instance.endswith(".rddl"):
        return Texts(
            (folder / "domain.rddl").read_text("utf-8", "replace"),
            _read_text(instance),
        )
    if str(instance) not in instance_numbers:
        fault = (
            "needs the number of an instance"
            if instance is None
            else f"has no instance {shorten_value(instance)}"
        )
        raise InvalidInput(
            f"{domain} {fault}; it has {', '.join(instance_numbers)}, as in "
            f"rddl:{domain},{instance_numbers[0]}."
        )
    return Texts(
        _read_text(str(folder / "domain.rddl")),
        _read_text(str(folder / f"instance{instance}.rddl")),
    )


def _suggest_domains(name: str) -> str:
    """Which domains may have been meant."""
    lower_names = {domain_name.lower(): domain_name for domain_name in domains()}
    close_names = difflib.get_close_matches(name.lower(), lower_names, n=4, cutoff=0.4)
    close_names = (
        close_names
        or [domain_name for domain_name in lower_names if name.lower() in domain_name][
            :4
        ]
    )
    suggestions = ", ".join(lower_names[domain_name] for domain_name in close_names)
    return (
        f" (did you mean {suggestions}?)"
        if suggestions
        else f"; it has {len(lower_names)} others"
    )


def _read_text(path: str) -> str:
    try:
        return Path(path).expanduser().read_text("utf-8", "replace")
    except OSError as error:
        raise InvalidInput(
            f"The RDDL file {shorten_value(path)} cannot be read: {error}."
        ) from error
