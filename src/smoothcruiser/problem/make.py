"""``make``: a problem from a line of text.

The command line names problems this way, and runs are rebuilt from it
elsewhere.

  ``chain:n=5``                   a built-in problem (``zoo``) with parameters
  ``gym:…``, ``openspiel:…``, …   a simulator of another library, by its adapter;
                                  parameters follow after a comma
  ``package.module:attribute``    your own: a Problem, or a function that
                                  returns one and may take ``discount``,
                                  ``temperature``, ``operator`` and parameters

Facts that a problem does not state itself are declared by keywords of ``make``, or by
parameters of the name (``problem.declarations``).

Problems as text, from which run stores and worker processes rebuild them.

A spec is a dict of plain values, and ``make`` puts it into every problem that
it builds: the text, and the options beside it (names of actions and declarations,
if any). It names the operator and holds its temperature, but no prior and nothing
that was changed with ``dataclasses.replace``; whoever rebuilds a problem compares
its facts or its fingerprint with the original's.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Any, Unpack

from smoothcruiser.errors import (
    InvalidInput,
    MissingExtra,
    SmoothcruiserError,
    describe_error,
)
from smoothcruiser.operators import Max, Operator, make_operator
from smoothcruiser.problem.adapter_protocol import (
    FAULTS,
    Adapter,
    find_adapter,
    prefixes,
    suggest_name,
)
from smoothcruiser.problem.arguments import check_keywords, read_parameters, split_name
from smoothcruiser.problem.declaration_checks import action_labels
from smoothcruiser.problem.declarations import (
    DECLARATIONS,
    Declarations,
    declare,
    merge_declarations,
    pop_declarations,
    write_declarations,
)
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.zoo import ZOO, build


def make(
    text: str,
    *,
    discount: float | None = None,
    temperature: float | None = None,
    operator: str | Operator | None = None,
    **more: Unpack[Declarations],
) -> Problem:
    """The problem that ``text`` names.

    Args:
        text: a built-in problem, a simulator behind an adapter's prefix, or
            ``module:attribute``; parameters follow as ``name=value,name=value``.
            ``smoothcruiser problems`` lists them.
        discount: weight of the next step's value, in [0, 1), or 1 with a horizon or,
            for plain max, with a known model or a bounded total; needed unless the
            problem, ``module:attribute`` or an adapter has its own.
        temperature: strength of the regularizer, in units of reward; 0 is plain max.
            Needed by every operator that is named, but for "max".
        operator: the smooth maximum, or its name: "entropy" (the default; of built-in
            problems with a discount of their own it is "max"), "kl", "sparsemax",
            "square-root" or "max".
        actions: the names of the actions in answers, such as ["left", "right"]; by
            default as the problem itself names them.
        horizon: steps until the end; "none" for no limit where the problem has one.
        payoffs: "end" if only the step that ends an episode pays, as in ``MDP``. This
            and the following declarations replace the problem's own, and "none" takes
            them back. Names take all of them too: "gym:…,payoffs=end".
        total_reward_range: (low, high) of the sum of rewards, as in ``MDP``.
        episodes_end: (steps, probability) of the ends of episodes, as in ``MDP``.
        value_bounds: (low, high) of V, as in ``MDP``: numbers, functions of the state, or
            their names "module:function".
        value_gap: the most that two such functions are apart.
        min_probability: least probability of an outcome, as in ``MDP``.
        key: the key that tells states apart, as in ``MDP``: a function, its name
            "module:function", or an adapter's name for it.
        deterministic: whether a pair (state, action) always has one outcome.
        minimize: whether rewards are costs, which one player minimizes, as in ``MDP``.

    Example:
        >>> import smoothcruiser as sc
        >>> sc.make("chain:n=5", discount=0.2, temperature=10).num_actions
        2
        >>> sc.make("chain:n=5", discount=1, temperature=0, horizon=9).horizon
        9
    """
    if not isinstance(text, str) or not text:
        raise InvalidInput(
            f"A problem is named by text such as 'chain:n=5', got {text!r}; "
            "`smoothcruiser problems` lists them."
        )
    check_keywords(
        "make", more, ("discount", "temperature", "operator", *DECLARATIONS)
    )
    declared_words = {
        option_name: value for option_name, value in more.items() if value is not None
    }
    actions: Any = declared_words.pop("actions", None)
    if actions is not None:
        actions = action_labels(actions)
    plain_words = write_declarations(declared_words)
    spec = spec_of(
        text,
        discount=discount,
        temperature=temperature,
        operator=operator,
        actions=actions,
        declared=plain_words,
    )
    changes: dict[str, Any] = {} if actions is None else {"actions": actions}
    if plain_words is None:  # a function without a name: nobody else could rebuild it
        changes["spec"] = None
    problem = _build_problem(text, spec, operator, declared_words)
    return dataclasses.replace(problem, **changes) if changes else problem


def _build_problem(
    text: str, spec: Spec, operator: str | Operator | None, words: dict[str, Any]
) -> Problem:
    """The problem that ``make`` returns, with the problem's own names of actions."""
    prefix, _, after_colon = text.partition(":")
    discount = spec["discount"]
    if is_built_in(text):
        if discount is None and not ZOO[prefix].has_discount:
            raise InvalidInput(f"{prefix} needs a discount in [0, 1); give discount=.")
        if ZOO[prefix].has_discount and operator is None:
            operator = "max" if spec["temperature"] is None else None
        chosen_operator = _choose_operator(operator, spec["temperature"])
        zoo_parameters = _merge_words(text, read_parameters(after_colon), words)
        return build(
            prefix,
            zoo_parameters,
            discount=discount,
            operator=chosen_operator,
            spec=spec,
        )
    adapter = find_adapter(prefix)
    if adapter is not None:
        return _build_adapted(adapter, after_colon, spec, operator, words)
    if prefix and after_colon:
        return _import_problem(prefix, after_colon, spec, operator, words)
    if text.endswith(".py"):
        module_path = PurePath(text).with_suffix("")
        is_relative = not module_path.is_absolute() and ".." not in module_path.parts
        module_name = ".".join(module_path.parts) if is_relative else module_path.name
        folder_hint = (
            "" if is_relative else f", and go to its folder, {module_path.parent}"
        )
        raise InvalidInput(
            f"{text!r} is a file; name the problem in it as module:attribute, such as "
            f"{module_name}:problem{folder_hint}."
        )
    if re.search(r"-v\d+$", text):
        raise InvalidInput(
            f"Unknown problem {text!r}; an environment of Gymnasium is named 'gym:{text}'."
        )
    own_hint = f"name your own as module:attribute{suggest_name(text) or '.'}"
    if _is_module(prefix):
        parent_module, dot, attribute_name = prefix.rpartition(".")
        example_names = (
            f"{prefix}:problem or {parent_module}:{attribute_name}"
            if dot
            else f"{prefix}:problem"
        )
        own_hint = f"name what a module holds, such as {example_names}."
    raise InvalidInput(
        f"Unknown problem {text!r}; choose one of {', '.join(ZOO)}, or {own_hint}"
    )


def _is_module(name: str) -> bool:
    """Whether a module, or the package that it would be in, can be found."""
    top_package = name.partition(".")[0]  # looking deeper would import it
    with suppress(ImportError, ValueError):
        return (
            top_package.isidentifier()
            and importlib.util.find_spec(top_package) is not None
        )
    return False


def _merge_words(
    text: str, given: dict[str, Any], words: dict[str, Any]
) -> dict[str, Any]:
    """The parameters of a name with the keywords of ``make``, each from one of both."""
    repeated_names = sorted(given.keys() & words.keys())
    if repeated_names:
        raise InvalidInput(
            f"{repeated_names[0]} is declared in {text!r} and as {repeated_names[0]}=; "
            "drop one of both."
        )
    return given | words


def is_built_in(text: str) -> bool:
    """Whether ``text`` names a problem of the zoo: no module is imported for it."""
    return text.partition(":")[0] in ZOO


def _choose_operator(
    operator: str | Operator | None, temperature: float | None
) -> Operator:
    if isinstance(operator, Operator):
        return operator
    return make_operator(operator or "entropy", temperature)


def _build_adapted(
    adapter: Adapter,
    after_colon: str,
    spec: Spec,
    operator: str | Operator | None,
    words: dict[str, Any],
) -> Problem:
    """The problem of a simulator of another library."""
    simulator_name, name_parameters = split_name(
        after_colon, getattr(adapter, "positional", ())
    )
    problem_text, late_words = spec["problem"], words
    if getattr(adapter, "declares", False):  # it builds the problem with them
        name_parameters, late_words = (
            _merge_words(problem_text, name_parameters, words),
            {},
        )
    elif words.keys() & name_parameters.keys():
        _merge_words(problem_text, name_parameters, words)
    has_discount = getattr(adapter, "has_discount", False)
    if has_discount and not simulator_name:
        raise InvalidInput(
            f"{adapter.name}: needs the name of a simulator, as in "
            f"{adapter.name}:{adapter.example}."
        )
    if not simulator_name or (spec["discount"] is None and not has_discount):
        raise InvalidInput(
            f"{adapter.name}: needs the name of a simulator and a discount, as in "
            f"make('{adapter.name}:{adapter.example}', discount=0.9, temperature=0.1)."
        )
    adapter_title = f"The adapter {adapter.name!r}"
    if operator is None and spec["temperature"] is None:
        operator = getattr(adapter, "default_operator", None)
    chosen_operator = _choose_operator(operator, spec["temperature"])
    try:
        problem: Any = adapter.build(
            simulator_name,
            name_parameters,
            discount=spec["discount"],
            operator=chosen_operator,
        )
    except SmoothcruiserError:
        raise
    except ImportError as error:
        remedy = f"pip install '{adapter.needs}'" if adapter.needs else "install it"
        raise MissingExtra(
            f"{adapter_title} cannot import what it needs: {describe_error(error)}; {remedy}."
        ) from error
    except Exception as error:
        raise InvalidInput(
            f"{adapter_title} cannot build {spec['problem']!r}: {describe_error(error)}; check "
            f"its parameters, as in {adapter.name}:{adapter.example}."
        ) from error
    if not isinstance(problem, Problem):
        raise InvalidInput(
            f"{adapter_title} must build a Problem (MDP, Game or tabular), got "
            f"{type(problem).__name__} for {spec['problem']!r}."
        )
    return dataclasses.replace(
        declare(problem, pop_declarations(dict(late_words))), spec=spec
    )


def _import_problem(
    module_name: str,
    after_colon: str,
    spec: Spec,
    operator: str | Operator | None,
    words: dict[str, Any],
) -> Problem:
    """The user's own problem, or the one that the user's function returns."""
    attribute_name, name_parameters = split_name(after_colon)
    name_parameters = _merge_words(spec["problem"], name_parameters, words)
    imported_value = _import_attribute(module_name, attribute_name)
    full_name = f"{module_name}:{attribute_name}"
    if isinstance(imported_value, Problem):
        declared = pop_declarations(name_parameters)
        if name_parameters:
            raise InvalidInput(
                f"{full_name} is a Problem and takes no "
                f"{next(iter(name_parameters))!r}; it takes {', '.join(DECLARATIONS)}."
            )
        return _change_problem(imported_value, full_name, spec, operator, declared)
    if not callable(imported_value):
        raise InvalidInput(
            f"{full_name} must be a Problem or a function that returns one, got "
            f"{type(imported_value).__name__}."
        )
    options = {
        "discount": spec["discount"],
        "temperature": spec["temperature"],
        "operator": operator,
    }
    options = {
        option_name: value
        for option_name, value in options.items()
        if value is not None
    }
    accepted_parameters = inspect.signature(imported_value).parameters
    # words that the function takes itself go there, all others are declared
    declared = pop_declarations(
        {
            word: name_parameters.pop(word)
            for word in DECLARATIONS
            if word in name_parameters.keys() - accepted_parameters
        }
    )
    options |= name_parameters
    needed_names = [
        parameter.name
        for parameter in accepted_parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.name not in options
    ]
    if needed_names:
        raise InvalidInput(
            f"{full_name} is a function that needs {needed_names[0]}; give "
            f"{needed_names[0]}=… after a comma, or name the problem that is made of "
            f"it, such as {module_name}:problem."
        )
    unused_options = [
        option_name
        for option_name in options
        if option_name not in accepted_parameters
    ]
    if unused_options:
        raise InvalidInput(
            f"{full_name} takes no {unused_options[0]!r}; drop the option or add the "
            "parameter to the function."
        )
    try:
        problem = imported_value(**options)
    except SystemExit as error:
        raise _exit_error(full_name) from error
    if not isinstance(problem, Problem):
        raise InvalidInput(
            f"{full_name} must return a Problem (MDP, Game or tabular), got "
            f"{type(problem).__name__}."
        )
    return dataclasses.replace(declare(problem, declared), spec=spec, name=full_name)


def _import_attribute(module_name: str, attribute: str) -> Any:
    """``attribute`` of the module, which is imported."""
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        adapter_prefixes = ", ".join(f"{prefix}:" for prefix in prefixes())
        broken_note = f"; cannot be imported: {', '.join(FAULTS)}" if FAULTS else ""
        raise InvalidInput(
            f"No problem and no module is called {module_name!r} "
            f"({error}{suggest_name(module_name)}); built-in problems: "
            f"{', '.join(ZOO)}; adapters: {adapter_prefixes}{broken_note}."
        ) from error
    except SystemExit as error:
        raise _exit_error(module_name) from error
    except SmoothcruiserError as error:
        error.in_module = True
        raise
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        close_matches = difflib.get_close_matches(attribute, dir(module), 1)
        hint = f" (did you mean {close_matches[0]!r}?)" if close_matches else ""
        raise InvalidInput(
            f"Module {module_name!r} ({_module_file(module_name)}) has no attribute "
            f"{attribute!r}{hint}; name a Problem or a function that returns one. A "
            "file of the current folder needs a name that no installed module has."
        ) from error


def _exit_error(name: str) -> InvalidInput:
    """The error of a module or function that ends the process instead of answering."""
    return InvalidInput(
        f"{name} calls sys.exit while it makes the problem; a script's own calls "
        'belong under if __name__ == "__main__":.'
    )


def _module_file(module_name: str) -> str:
    """The file of an imported module."""
    module_file = getattr(sys.modules.get(module_name), "__file__", None)
    return module_file or "built into Python"


def _change_problem(
    problem: Problem,
    name: str,
    spec: Spec,
    operator: str | Operator | None,
    declared: dict[str, Any],
) -> Problem:
    """The user's problem, with the options of ``make`` in place of its own."""
    changes: dict[str, Any] = {"spec": spec, "name": name}
    if spec["discount"] is not None:
        changes["discount"] = spec["discount"]
        if spec["discount"] != problem.discount:  # declared sums and values are void
            changes |= {
                "total_reward_range": None,
                "value_bounds": None,
                "value_gap": None,
            }
    if operator is None and spec["temperature"] and isinstance(problem.operator, Max):
        raise InvalidInput(
            f"{name} has plain max, which has no temperature; give operator= as well, "
            "such as entropy, or drop temperature=."
        )
    if operator is not None or spec["temperature"] is not None:
        base_operator = operator if operator is not None else problem.operator.name
        changes["operator"] = _choose_operator(base_operator, spec["temperature"])
        if changes["operator"] != problem.operator:
            changes |= {"value_bounds": None, "value_gap": None}
    own_fields = {
        problem_field.name: getattr(problem, problem_field.name)
        for problem_field in dataclasses.fields(problem)
    }
    if declared:  # with the discount at once: 1 may need them
        changes = {
            **changes,
            **_changed_fields(
                own_fields, merge_declarations(own_fields | changes, declared)
            ),
        }
    return dataclasses.replace(problem, **changes)


def _changed_fields(
    own_fields: dict[str, Any], merged_fields: dict[str, Any]
) -> dict[str, Any]:
    return {
        field_name: value
        for field_name, value in merged_fields.items()
        if value is not own_fields[field_name]
    }


Spec = dict[str, Any]


def spec_of(
    text: str,
    *,
    discount: float | None,
    temperature: float | None,
    operator: str | Operator | None,
    actions: Sequence[str] | None = None,
    declared: Mapping[str, Any] | None = None,
) -> Spec:
    """The spec of the problem that ``make`` builds from these arguments.

    It holds names of actions if ``make`` was given any (most problems have their own),
    and declarations by keyword, as plain values.
    """
    optional_entries: Spec = {} if actions is None else {"actions": list(actions)}
    if declared:
        optional_entries["declared"] = dict(declared)
    return {
        "problem": text,
        "discount": discount,
        "temperature": temperature,
        "operator": operator.name if isinstance(operator, Operator) else operator,
        **optional_entries,
    }


def is_spec(value: Any) -> bool:
    """Whether plain data from elsewhere has the form of a spec."""

    from smoothcruiser.problem.declarations import DECLARATIONS

    def is_option(x: Any) -> bool:
        return x is None or (isinstance(x, int | float) and not isinstance(x, bool))

    def is_labels(x: Any) -> bool:
        return x is None or (
            isinstance(x, list) and all(isinstance(y, str) for y in x)
        )

    def is_declared(x: Any) -> bool:
        return isinstance(x, dict) and x.keys() <= set(DECLARATIONS) - {"actions"}

    return (
        isinstance(value, dict)
        and value.keys() - {"actions", "declared"}
        == {"problem", "discount", "temperature", "operator"}
        and isinstance(value["problem"], str)
        and is_option(value["discount"])
        and is_option(value["temperature"])
        and isinstance(value["operator"], str | None)
        and is_labels(value.get("actions"))
        and is_declared(value.get("declared", {}))
    )


def imports_of(spec: Spec) -> str | None:
    """The module or adapter that rebuilding a problem imports; None if it is built in.

    Nothing is imported to find that out.
    """
    from importlib.machinery import PathFinder

    from smoothcruiser.problem.adapter_protocol import prefixes
    from smoothcruiser.problem.zoo import ZOO

    prefix, _, after_colon = spec["problem"].partition(":")
    if prefix in ZOO:
        return None
    if prefix in prefixes():
        return f"the adapter {prefix!r}, with {after_colon!r}"
    module_spec = PathFinder.find_spec(prefix.partition(".")[0])
    origin_text = (
        "not found here" if module_spec is None else f"found at {module_spec.origin}"
    )
    return f"the module {prefix!r} ({origin_text}), for its {after_colon!r}"


def from_spec(spec: Spec) -> Problem:
    """The problem that ``spec`` describes, built anew by ``make``."""

    return make(
        spec["problem"],
        discount=spec["discount"],
        temperature=spec["temperature"],
        operator=spec["operator"],
        actions=spec.get("actions"),
        **spec.get("declared", {}),
    )
