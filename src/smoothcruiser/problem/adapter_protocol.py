"""Adapters turn other libraries' simulators into problems; ``make`` finds them here.

``make("gym:FrozenLake-v1,map_name=8x8", …)`` splits the text at its first colon
and asks the adapter ``gym`` for the rest. An adapter gets into the table in one
of two ways:

  ``register(adapter)``   the adapters of ``smoothcruiser.adapters``, and your
                          own in a script or a notebook
  an entry point          of the group ``smoothcruiser.problems`` in an
                          installed package: its name is the prefix, its value
                          names the adapter. It is read when a prefix is not in
                          the table, or when all are listed.

An adapter may name the top-level packages that it imports (``modules``): then
``list_adapters`` knows, without importing any, whether its library is installed.

This file decides the meaning of a prefix. Our own adapters are imported by name when a
prefix is first looked up. An adapter imports its library only when a problem is
built, so that listing the adapters is fast and needs no extra.

Adapters with a library that is imported when a first problem is built.

Such an adapter is a package. Its ``__init__`` has the class, which is cheap to import;
one module of it imports the library, and has two functions:

  build_by_name(text, parameters, *, discount, operator)   the problem of a name
  problem(simulator, …)                            that of a simulator at hand

The class names that module, and holds the peculiarities of the library. A package ends
with ``__getattr__ = late_problem(register(MyAdapter()))``, so that
``smoothcruiser.adapters.my_package.problem`` is the second function.

The problem of a running simulator that was passed in the place of a problem.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from smoothcruiser.errors import InvalidInput, SmoothcruiserError, describe_error
from smoothcruiser.operators import Operator
from smoothcruiser.problem.declarations import DECLARATIONS
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


GROUP = "smoothcruiser.problems"  # the group of entry points


@runtime_checkable
class Adapter(Protocol):
    """An adapter turns the names of another library's simulators into problems.

    Four more attributes are optional. With ``has_discount = True`` the simulators have a
    discount of their own, and ``build`` gets None where the user gave none. ``positional``
    names parameters that may be written without their words, in this order, right after
    the text. ``default_operator`` names the operator where the user gave neither one nor a
    temperature. With ``declares = True`` the declarations that ``make`` gets by keyword
    come among the parameters too (``problem.declarations``); otherwise ``make`` applies
    them to the problem that was built.
    """

    name: str  # the prefix, before the colon
    summary: str  # the simulators that it adapts, for ``smoothcruiser problems``
    example: str  # a text that may follow the colon
    needs: str  # a requirement for pip; "" if there is none

    def build(
        self,
        text: str,
        parameters: dict[str, Any],
        *,
        discount: float,
        operator: Operator,
    ) -> Problem:
        """The problem that ``name:text,parameter=value,…`` stands for.

        Args:
            text: the text between the colon and the first comma; never empty.
            parameters: those after it, read as JSON where possible; may be changed.
            discount: weight of the next step's value.
            operator: the smooth maximum.
        """


@runtime_checkable
class LiveAdapter(Adapter, Protocol):
    """An adapter of simulators that run on their own, in which an Agent can act.

    The oracle of its problems is a ``LiveOracle``: it reads the simulator's state.
    """

    options: tuple[str, ...]  # the keywords of ``problem``

    def accepts(self, simulator: Any) -> bool:
        """Whether ``simulator`` is one of this adapter's."""

    def problem(self, simulator: Any, **options: Any) -> Problem:
        """The problem of a simulator, starting where it is."""


AnyAdapter = TypeVar("AnyAdapter", bound=Adapter)

ADAPTERS: dict[str, Adapter] = {}  # by prefix; ``load_adapters`` fills in ours
# why a file of ``smoothcruiser.adapters`` could not be imported, by its name: the
# prefix that it would have registered is not known
FAULTS: dict[str, str] = {}


def load_adapters() -> dict[str, Adapter]:
    """The table with the adapters of this package, which are imported late."""
    import_module("smoothcruiser.adapters")
    return ADAPTERS


def register(adapter: AnyAdapter) -> AnyAdapter:
    """Put an adapter into the table, and return it.

    Args:
        adapter: an object with the attributes of ``Adapter``.

    Example:
        ``ADAPTER = register(Dice())`` lets ``make("dice:…")`` find it.
    """
    if not isinstance(adapter, Adapter):
        raise InvalidInput(
            "An adapter has the attributes name, summary, example, needs and a "
            f"method build, and {adapter!r} has not."
        )
    for attribute_name in ("name", "summary", "example", "needs"):
        if not isinstance(getattr(adapter, attribute_name), str):
            raise InvalidInput(
                f"An adapter's {attribute_name} is a text, got "
                f"{getattr(adapter, attribute_name)!r}."
            )
    if isinstance(module_names := getattr(adapter, "modules", ()), str):
        raise InvalidInput(f"An adapter's modules are a tuple, got {module_names!r}.")
    adapter_name = adapter.name
    if not re.fullmatch(r"[A-Za-z][\w-]*", adapter_name):
        raise InvalidInput(
            "An adapter's name is a prefix of letters, digits, - and _, got "
            f"{adapter_name!r}."
        )
    from smoothcruiser.problem.zoo import ZOO

    if (
        adapter_name in ZOO
        or load_adapters().get(adapter_name, adapter) is not adapter
    ):
        prefix_owner = (
            "a built-in problem"
            if adapter_name in ZOO
            else f"{ADAPTERS[adapter_name]!r}"
        )
        raise InvalidInput(
            f"The prefix {adapter_name!r} is taken by {prefix_owner}; give the adapter "
            "another name."
        )
    ADAPTERS[adapter_name] = adapter
    return adapter


def keep_fault(name: str, module: str, error: Exception) -> None:
    """Remember that a file of ``smoothcruiser.adapters`` cannot be imported."""
    FAULTS[name] = (
        f"The adapter {name!r} ({module}) cannot be imported: {describe_error(error)}; fix or "
        "remove its file."
    )


def find_adapter(prefix: str) -> Adapter | None:
    """The adapter of a prefix: registered or installed; None if there is none."""
    if prefix not in load_adapters():
        entry_points = _entry_points().get(prefix)
        if entry_points:
            return _load_adapter(entry_points)
        if prefix in FAULTS:
            raise InvalidInput(FAULTS[prefix])
    return ADAPTERS.get(prefix)


def live_adapter(simulator: Any) -> LiveAdapter | None:
    """The adapter that accepts a running simulator; None if none does.

    An adapter that cannot tell is passed over. It is named where no other accepts.
    """
    adapter, failures = _find_accepting(simulator)
    if adapter is None:
        _load_all()
        adapter, failures = _find_accepting(simulator)
    if adapter is None and failures:
        raise InvalidInput(
            f"No adapter accepts the {type(simulator).__name__}, and "
            f"{'; '.join(failures)}; fix accepts, or give a Problem."
        )
    return adapter


def _find_accepting(simulator: Any) -> tuple[LiveAdapter | None, list[str]]:
    """The adapter that accepts a simulator, and which ones before it failed."""
    failures: list[str] = []
    for adapter_name, adapter in load_adapters().items():
        try:
            if isinstance(adapter, LiveAdapter) and adapter.accepts(simulator):
                return adapter, failures
        except Exception as error:
            failures.append(
                f"the adapter {adapter_name!r} cannot tell ({describe_error(error)})"
            )
    return None, failures


def prefixes() -> list[str]:
    """The prefixes of all adapters, without importing those of other packages."""
    return sorted({*load_adapters(), *_entry_points()})


@dataclass(frozen=True)
class AdapterListing:
    """An adapter's description, available without building a problem."""

    name: str  # the prefix
    summary: str
    example: str  # a whole name, such as gym:FrozenLake-v1
    needs: str  # a requirement for pip; "" if there is none
    # modules of its library that cannot be found; None where it does not name any
    missing: tuple[str, ...] | None
    fault: str = ""  # why the adapter itself cannot be imported

    @property
    def installed(self) -> bool | None:
        """Whether its library can be imported; None where that is not known."""
        if self.fault:
            return False
        return None if self.missing is None else not self.missing

    def __str__(self) -> str:
        if self.fault:
            return self.fault
        install_notes = {
            True: f"installed, {self.needs}",
            None: f"pip install '{self.needs}'",
        }
        not_installed = f"not installed: pip install '{self.needs}'"
        requirement = (
            f" ({install_notes.get(self.installed, not_installed)})"
            if self.needs
            else ""
        )
        return f"{self.summary}: {self.example}{requirement}"


def list_adapters() -> dict[str, AdapterListing]:
    """All adapters by prefix, listed without importing any of their libraries."""
    faults = _load_all()
    importable_adapters = {
        prefix: AdapterListing(
            prefix,
            adapter.summary,
            f"{prefix}:{adapter.example}",
            adapter.needs,
            _missing_modules(adapter),
        )
        for prefix, adapter in load_adapters().items()
    }
    broken_adapters = {
        prefix: AdapterListing(prefix, "", "", "", None, sentence)
        for prefix, sentence in faults.items()
    }
    return importable_adapters | broken_adapters


def _missing_modules(adapter: Adapter) -> tuple[str, ...] | None:
    """The modules of an adapter's library that are not installed."""
    module_names = getattr(adapter, "modules", None)
    if module_names is None:
        return None if adapter.needs else ()
    return tuple(
        module_name for module_name in module_names if not _is_installed(module_name)
    )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):  # a module that was put there without a spec
        return False


def descriptions() -> dict[str, str]:
    """One line per adapter, by prefix: its simulators and its requirements.

    For an adapter that cannot be imported, the text says why.
    """
    return {prefix: str(listing) for prefix, listing in list_adapters().items()}


def suggest_name(name: str) -> str:
    """A question that suggests the known name that ``name`` resembles most."""
    from smoothcruiser.problem.zoo import ZOO

    known_names = [*ZOO, *(f"{prefix}:" for prefix in prefixes())]
    names_by_prefix = {
        known_name.rstrip(":"): known_name for known_name in known_names
    }
    close_matches = difflib.get_close_matches(
        name.partition(":")[0], names_by_prefix, 1
    )
    return (
        f"; did you mean {names_by_prefix[close_matches[0]]!r}?"
        if close_matches
        else ""
    )


# --- entry points -------------------------------------------------------------


def _entry_points() -> dict[str, list[EntryPoint]]:
    """Installed adapters by prefix; two packages may have chosen the same one."""
    from importlib.metadata import entry_points  # slow, and most runs need none

    points_by_prefix: dict[str, list[EntryPoint]] = {}
    for entry_point in entry_points(group=GROUP):
        points_by_prefix.setdefault(entry_point.name, []).append(entry_point)
    return points_by_prefix


def _load_all() -> dict[str, str]:
    """Put all installed adapters into the table; return why some are not there."""
    load_adapters()
    faults = dict(FAULTS)
    for prefix, entry_points in _entry_points().items():
        if prefix not in ADAPTERS:
            try:
                _load_adapter(entry_points)
            except SmoothcruiserError as error:
                faults[prefix] = str(error)
        elif type(ADAPTERS[prefix]).__module__.startswith("smoothcruiser.adapters."):
            for entry_point in entry_points:
                faults[f"{prefix} of {_package_name(entry_point)}"] = (
                    f"{_point_text(entry_point)} is not used: the prefix {prefix!r} is "
                    "taken by smoothcruiser's own adapter; its package should choose "
                    "another."
                )
    return faults


def _package_name(entry_point: EntryPoint) -> str:
    return "an unnamed package" if entry_point.dist is None else entry_point.dist.name


def _point_text(entry_point: EntryPoint) -> str:
    package_name = _package_name(entry_point)
    return f"The adapter {entry_point.name!r} of {package_name} ({entry_point.value})"


def _load_adapter(entry_points: list[EntryPoint]) -> Adapter:
    """The adapter of a prefix, which exactly one installed package may claim."""
    entry_point, *rival_points = entry_points
    if rival_points:
        claiming_packages = ", ".join(
            f"{_package_name(claim)} ({claim.value})" for claim in entry_points
        )
        raise InvalidInput(
            f"The prefix {entry_point.name!r} is claimed by {len(entry_points)} "
            f"installed packages: {claiming_packages}; uninstall all but one."
        )
    point_text = _point_text(entry_point)
    try:
        adapter = entry_point.load()
    except Exception as error:
        raise InvalidInput(
            f"{point_text} cannot be imported: {describe_error(error)}; update or uninstall its "
            "package."
        ) from error
    if not isinstance(adapter, Adapter) or adapter.name != entry_point.name:
        raise InvalidInput(
            f"{point_text} is not an adapter called {entry_point.name!r}, but "
            f"{adapter!r}; update or uninstall its package."
        )
    try:
        return register(adapter)
    except InvalidInput as error:
        raise InvalidInput(f"{point_text} cannot be used: {error}") from error


# keywords of ``problem`` that every running simulator has
LIVE_OPTIONS = ("discount", "operator", "reward_range", "call_seconds", *DECLARATIONS)


class LateAdapter:
    """The common part of this project's adapters; ``Adapter`` lists the rest."""

    module = "environments"  # that which imports the library
    declares = True  # ``problem`` takes declarations (``problem.declarations``)

    @property
    def library(self) -> Any:
        """The module; its import names the extra where its library is missing."""
        return import_module(f"{type(self).__module__}.{self.module}")

    def build(
        self,
        text: str,
        parameters: dict[str, Any],
        *,
        discount: float | None,
        operator: Operator,
    ) -> Problem:
        """The problem of a name; parameters that are not the adapter's own go on."""
        problem: Problem = self.library.build_by_name(
            text, parameters, discount=discount, operator=operator
        )
        return problem

    def problem(self, simulator: Any, **options: Any) -> Problem:
        """The problem of a simulator, starting where it is."""
        problem: Problem = self.library.problem(simulator, **options)
        return problem


def late_problem(adapter: LateAdapter) -> Callable[[str], Any]:
    """The ``__getattr__`` of an adapter's package, which imports ``problem`` late."""

    def attribute(name: str) -> Any:
        if name != "problem":
            package_name = type(adapter).__module__
            raise AttributeError(f"module {package_name!r} has no attribute {name!r}")
        return adapter.library.problem

    return attribute


def live_problem(
    verb: str, simulator: Any, options: dict[str, Any]
) -> tuple[Problem, dict[str, Any]]:
    """The problem of a simulator, and the options that were not its adapter's."""
    refuse_parts(simulator)
    adapter = live_adapter(simulator)
    if adapter is None:
        known_prefixes = ", ".join(f"{prefix}:" for prefix in prefixes())
        raise InvalidInput(
            f"{verb} a Problem (MDP, Game, tabular, make) or a running simulator that "
            f"an adapter accepts (installed: {known_prefixes}), got "
            f"{type(simulator).__name__}."
        )
    adapter_options = {
        option_name: options[option_name]
        for option_name in adapter.options
        if option_name in options
    }
    if "discount" not in adapter_options or "operator" not in adapter_options:
        raise InvalidInput(
            f"{verb} an environment, which needs discount= and operator=, such as "
            "discount=0.9, operator=Max()."
        )
    other_options = {
        option_name: value
        for option_name, value in options.items()
        if option_name not in adapter_options
    }
    return adapter.problem(simulator, **adapter_options), other_options


def refuse_parts(part: Any) -> None:
    """Refuse the ingredients of a problem: a name, a step, arrays, a class."""
    if isinstance(part, str):
        hint = f"make it first: problem = make({part!r}, discount=0.9, operator='max')"
    elif isinstance(part, type):
        hint = f"{part.__name__} is a class; give an object of it"
    elif (
        isinstance(part, tuple | list) and part and hasattr(part[0], "shape")
    ) or hasattr(part, "shape"):
        hint = "of arrays make one: tabular(P, R, discount=0.9, operator=Max())"
    elif callable(part) and not hasattr(part, "step"):
        hint = "of a step make one: MDP(step, num_actions=2, discount=0.9, operator=Max())"
    else:
        return
    raise InvalidInput(
        "A problem (MDP, Game, tabular or make) was expected, got "
        f"{type(part).__name__}; {hint}."
    )
