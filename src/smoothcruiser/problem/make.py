"""``make``: a problem from a line of text.

The command line names problems this way, and runs are rebuilt from it
elsewhere.

  ``chain:n=5``                   a built-in problem (``zoo``) with parameters
  ``gym:…``, ``openspiel:…``, …   a simulator of another library, by its adapter;
                                  parameters follow after a comma
  ``package.module:attribute``    your own: a Problem, or a function that
                                  returns one and may take ``discount``,
                                  ``temperature``, ``operator`` and parameters

What a problem does not say of itself is declared by keywords of ``make``, or by
parameters of the name (``problem.declarations``).
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib.util
import inspect
import re
import sys
from contextlib import suppress
from pathlib import PurePath
from typing import Any, Unpack

from smoothcruiser.errors import InvalidInput, MissingExtra, SmoothcruiserError, said
from smoothcruiser.operators import Max, Operator, make_operator
from smoothcruiser.problem.adapter import (
    FAULTS,
    Adapter,
    find_adapter,
    near,
    prefixes,
)
from smoothcruiser.problem.arguments import check_keywords
from smoothcruiser.problem.declarations import (
    DECLARATIONS,
    Declarations,
    declare,
    merged,
    taken,
    written,
)
from smoothcruiser.problem.declared import action_labels
from smoothcruiser.problem.names import named, parameters
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.spec import Spec, spec_of
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
            ``smoothcruiser problems`` lists what there is.
        discount: weight of the next step's value, in [0, 1), or 1 with a horizon or,
            for plain max, with a known model or a bounded total; needed unless
            ``module:attribute`` or an adapter has its own.
        temperature: strength of the regularizer, in units of reward; 0 is plain max.
            Needed by every operator that is named, but for "max".
        operator: the smooth maximum, or its name: "entropy" (the default), "kl",
            "sparsemax", "square-root" or "max".
        actions: what the actions are called in answers, such as ["left", "right"]; by
            default as the problem itself names them.
        horizon: steps until the end; "none" for no limit where the problem has one.
        payoffs: "end" if only the step that ends an episode pays, as in ``MDP``. This
            and what follows is declared in place of what the problem says of itself,
            and "none" takes that back. Names take all of it too: "gym:…,payoffs=end".
        total_reward_range: (low, high) of the sum of rewards, as in ``MDP``.
        episodes_end: (steps, probability) of the ends of episodes, as in ``MDP``.
        value_bounds: (low, high) of V, as in ``MDP``: numbers, functions of the state, or
            their names "module:function".
        value_gap: the most that two such functions are apart.
        min_probability: least probability of an outcome, as in ``MDP``.
        key: what tells states apart, as in ``MDP``: a function, its name
            "module:function", or what an adapter calls it.
        deterministic: whether a pair (state, action) always has one outcome.

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
    check_keywords("make", more, ("discount", "temperature", "operator", *DECLARATIONS))
    words = {name: value for name, value in more.items() if value is not None}
    actions: Any = words.pop("actions", None)
    if actions is not None:
        actions = action_labels(actions)
    plain = written(words)
    spec = spec_of(
        text,
        discount=discount,
        temperature=temperature,
        operator=operator,
        actions=actions,
        declared=plain,
    )
    changes: dict[str, Any] = {} if actions is None else {"actions": actions}
    if plain is None:  # a function without a name: nobody else could rebuild it
        changes["spec"] = None
    problem = _made(text, spec, operator, words)
    return dataclasses.replace(problem, **changes) if changes else problem


def _made(
    text: str, spec: Spec, operator: str | Operator | None, words: dict[str, Any]
) -> Problem:
    """What ``make`` returns, with the names of actions that the problem has itself."""
    name, _, rest = text.partition(":")
    discount = spec["discount"]
    if is_built_in(text):
        if discount is None:
            raise InvalidInput(f"{name} needs a discount in [0, 1); give discount=.")
        chosen = _operator(operator, spec["temperature"])
        given = _with_words(text, parameters(rest), words)
        return build(name, given, discount=discount, operator=chosen, spec=spec)
    adapter = find_adapter(name)
    if adapter is not None:
        return _adapted(adapter, rest, spec, operator, words)
    if name and rest:
        return _imported(name, rest, spec, operator, words)
    if text.endswith(".py"):
        path = PurePath(text).with_suffix("")
        inside = not path.is_absolute() and ".." not in path.parts
        where = "" if inside else f", and go to its folder, {path.parent}"
        raise InvalidInput(
            f"{text!r} is a file; name the problem in it as module:attribute, such as "
            f"{'.'.join(path.parts) if inside else path.name}:problem{where}."
        )
    if re.search(r"-v\d+$", text):
        raise InvalidInput(
            f"Unknown problem {text!r}; an environment of Gymnasium is named 'gym:{text}'."
        )
    own = f"name your own as module:attribute{near(text) or '.'}"
    if _is_module(name):
        module, dot, last = name.rpartition(".")
        meant = f"{name}:problem or {module}:{last}" if dot else f"{name}:problem"
        own = f"name what a module holds, such as {meant}."
    raise InvalidInput(
        f"Unknown problem {text!r}; choose one of {', '.join(ZOO)}, or {own}"
    )


def _is_module(name: str) -> bool:
    """Whether a module, or the package that it would be in, can be found."""
    first = name.partition(".")[0]  # looking deeper would import it
    with suppress(ImportError, ValueError):
        return first.isidentifier() and importlib.util.find_spec(first) is not None
    return False


def _with_words(
    text: str, given: dict[str, Any], words: dict[str, Any]
) -> dict[str, Any]:
    """The parameters of a name with the keywords of ``make``, each from one of both."""
    twice = sorted(given.keys() & words.keys())
    if twice:
        raise InvalidInput(
            f"{twice[0]} is declared in {text!r} and as {twice[0]}=; drop one of both."
        )
    return given | words


def is_built_in(text: str) -> bool:
    """Whether ``text`` names a problem of the zoo: no module is imported for it."""
    return text.partition(":")[0] in ZOO


def _operator(operator: str | Operator | None, temperature: float | None) -> Operator:
    if isinstance(operator, Operator):
        return operator
    return make_operator(operator or "entropy", temperature)


def _adapted(
    adapter: Adapter,
    rest: str,
    spec: Spec,
    operator: str | Operator | None,
    words: dict[str, Any],
) -> Problem:
    """The problem of a simulator of another library."""
    what, given = named(rest, getattr(adapter, "positional", ()))
    text, late = spec["problem"], words
    if getattr(adapter, "declares", False):  # it builds the problem with them
        given, late = _with_words(text, given, words), {}
    elif words.keys() & given.keys():
        _with_words(text, given, words)
    own = getattr(adapter, "has_discount", False)
    if own and not what:
        raise InvalidInput(
            f"{adapter.name}: needs the name of a simulator, as in "
            f"{adapter.name}:{adapter.example}."
        )
    if not what or (spec["discount"] is None and not own):
        raise InvalidInput(
            f"{adapter.name}: needs the name of a simulator and a discount, as in "
            f"make('{adapter.name}:{adapter.example}', discount=0.9, temperature=0.1)."
        )
    who = f"The adapter {adapter.name!r}"
    if operator is None and spec["temperature"] is None:
        operator = getattr(adapter, "default_operator", None)
    chosen = _operator(operator, spec["temperature"])
    try:
        problem: Any = adapter.build(
            what, given, discount=spec["discount"], operator=chosen
        )
    except SmoothcruiserError:
        raise
    except ImportError as error:
        remedy = f"pip install '{adapter.needs}'" if adapter.needs else "install it"
        raise MissingExtra(
            f"{who} cannot import what it needs: {said(error)}; {remedy}."
        ) from error
    except Exception as error:
        raise InvalidInput(
            f"{who} cannot build {spec['problem']!r}: {said(error)}; check its "
            f"parameters, as in {adapter.name}:{adapter.example}."
        ) from error
    if not isinstance(problem, Problem):
        raise InvalidInput(
            f"{who} must build a Problem (MDP, Game or tabular), got "
            f"{type(problem).__name__} for {spec['problem']!r}."
        )
    return dataclasses.replace(declare(problem, taken(dict(late))), spec=spec)


def _imported(
    module_name: str,
    rest: str,
    spec: Spec,
    operator: str | Operator | None,
    words: dict[str, Any],
) -> Problem:
    """The user's own problem, or what the user's function returns."""
    attribute, given = named(rest)
    given = _with_words(spec["problem"], given, words)
    found = _attribute(module_name, attribute)
    name = f"{module_name}:{attribute}"
    if isinstance(found, Problem):
        declared = taken(given)
        if given:
            raise InvalidInput(
                f"{name} is a Problem and takes no {next(iter(given))!r}; it takes "
                f"{', '.join(DECLARATIONS)}."
            )
        return _changed(found, name, spec, operator, declared)
    if not callable(found):
        raise InvalidInput(
            f"{name} must be a Problem or a function that "
            f"returns one, got {type(found).__name__}."
        )
    options = {
        "discount": spec["discount"],
        "temperature": spec["temperature"],
        "operator": operator,
    }
    options = {key: value for key, value in options.items() if value is not None}
    accepted = inspect.signature(found).parameters
    # what the function takes by its own words goes there, and the rest is declared
    declared = taken(
        {k: given.pop(k) for k in DECLARATIONS if k in given.keys() - accepted}
    )
    options |= given
    needed = [
        each.name
        for each in accepted.values()
        if each.default is each.empty
        and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        and each.name not in options
    ]
    if needed:
        raise InvalidInput(
            f"{name} is a function that needs {needed[0]}; give {needed[0]}=… after a "
            f"comma, or name the problem that is made of it, such as "
            f"{module_name}:problem."
        )
    unused = [key for key in options if key not in accepted]
    if unused:
        raise InvalidInput(
            f"{name} takes no {unused[0]!r}; drop the option or "
            "add the parameter to the function."
        )
    try:
        problem = found(**options)
    except SystemExit as error:
        raise _exits(name) from error
    if not isinstance(problem, Problem):
        raise InvalidInput(
            f"{name} must return a Problem (MDP, Game or "
            f"tabular), got {type(problem).__name__}."
        )
    return dataclasses.replace(declare(problem, declared), spec=spec, name=name)


def _attribute(module_name: str, attribute: str) -> Any:
    """``attribute`` of the module, which is imported."""
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        adapters = ", ".join(f"{prefix}:" for prefix in prefixes())
        broken = f"; cannot be imported: {', '.join(FAULTS)}" if FAULTS else ""
        raise InvalidInput(
            f"No problem and no module is called {module_name!r} "
            f"({error}{near(module_name)}); "
            f"built-in problems: {', '.join(ZOO)}; adapters: {adapters}{broken}."
        ) from error
    except SystemExit as error:
        raise _exits(module_name) from error
    except SmoothcruiserError as error:
        error.in_module = True
        raise
    try:
        return getattr(module, attribute)
    except AttributeError as error:
        close = difflib.get_close_matches(attribute, dir(module), 1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise InvalidInput(
            f"Module {module_name!r} ({_place(module_name)}) has no attribute "
            f"{attribute!r}{hint}; name a Problem or a function that returns one. A file of "
            "the current folder needs a name that no installed module has."
        ) from error


def _exits(name: str) -> InvalidInput:
    """The error of a module or function that ends the process instead of answering."""
    return InvalidInput(
        f"{name} calls sys.exit while it makes the problem; a script's own calls "
        'belong under if __name__ == "__main__":.'
    )


def _place(module_name: str) -> str:
    """Where a module that was imported comes from."""
    found = getattr(sys.modules.get(module_name), "__file__", None)
    return found or "built into Python"


def _changed(
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
        if spec["discount"] != problem.discount:  # what was declared of sums and values
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
        base = operator if operator is not None else problem.operator.name
        changes["operator"] = _operator(base, spec["temperature"])
        if changes["operator"] != problem.operator:
            changes |= {"value_bounds": None, "value_gap": None}
    own = {
        each.name: getattr(problem, each.name) for each in dataclasses.fields(problem)
    }
    if declared:  # with the discount at once: 1 may need them
        changes = {**changes, **_news(own, merged(own | changes, declared))}
    return dataclasses.replace(problem, **changes)


def _news(own: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not own[name]}
