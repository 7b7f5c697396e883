"""Checks of numbers in arguments, and of the arguments that all planners take.

Python's and NumPy's numbers are alike; True and False are none.

Checks of a problem's functions: their arguments, and that they return an answer.

The grammar of names, which ``make`` reads and messages propose.

    name        built-in[:parameters]   prefix:text[,parameters]   module:attribute
                (an adapter may let its first parameters do without their words)
    parameters  word=value,word=value,…
    value       JSON, a Python literal in brackets or quotes, or a word

Commas inside brackets and quotes do not separate: ``actions=[-2,0,2]`` is one
parameter, ``breakthrough(rows=4,columns=4)`` one name. This file leaves out
the meaning of the names (``make``, the adapters).
"""

from __future__ import annotations

import ast
import difflib
import inspect
import json
import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.wary_actions import refuse_names

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import ProblemFields


# keywords of problems, which callers often pass to planners by mistake
DECLARED = (
    "discount",
    "operator",
    "temperature",
    "num_actions",
    "horizon",
    "terminal",
    "minimize",
)
# keywords of planners, which callers often pass to other verbs by mistake
PLANNED = (
    "method",
    "epsilon",
    "delta",
    "budget",
    "seconds",
    "simulations",
    "executor",
)
# Names of the same keywords elsewhere: in textbooks, Gymnasium, Stable-Baselines3,
# scikit-learn, SciPy, mctx, QuantEcon. The first word that is known is meant.
_ELSEWHERE = {
    "discount": "gamma beta discount_factor df gam",
    "temperature": "lambda lambd lam tau temp reg_weight entropy_coef",
    "operator": "backup regularizer aggregator",
    "num_actions": "n_actions nactions num_action action_count a n_a k action_space",
    "oracle": "step simulator transition dynamics model env step_fn transition_fn",
    "P": "transitions transition transition_matrix transition_probabilities t p",
    "R": "rewards reward reward_matrix r q c costs cost_matrix",
    "reward_range": (
        "rewards reward_bounds reward_bound r_range rmax r_max cost_range cost_bounds "
        "costs_range"
    ),
    "minimize": "minimise minimization is_cost cost costs sense",
    "initial_state": "s0 start init initial start_state state0 init_state x0",
    "terminal": "done is_terminal terminals is_done absorbing end ends terminated",
    "legal": "legal_actions valid_actions mask action_mask is_legal available_actions",
    "horizon": "h max_steps episode_length max_depth depth time_horizon num_steps",
    "actions": "labels action_names names action_labels",
    "player": "turn to_move current_player players mover",
    "key": "hash hash_state state_key",
    "epsilon": "eps tol accuracy error precision half_width atol",
    "delta": "confidence conf alpha failure_probability level",
    "simulations": (
        "n_simulations num_simulations iterations n_iter num_iterations iters rollouts "
        "playouts n_rollouts n_iterations max_iter"
    ),
    "max_sweeps": "iterations n_iter max_iter iters num_iterations n_iterations",
    "tolerance": "tol eps epsilon atol",
    "seconds": "timeout time time_limit max_time max_seconds limit deadline timelimit",
    "seed": "random_state rng random_seed key",
    "workers": "n_jobs num_workers threads processes cores n_workers nthreads n_threads",
    "budget": (
        "max_calls calls samples num_samples n_samples num_calls max_samples "
        "total_timesteps iterations n_iter num_simulations"
    ),
    "progress": "verbose callback show_progress tqdm progress_bar",
    "method": "algorithm algo solver planner strategy",
    "executor": "backend device engine",
    "store": "filename path db file checkpoint",
    "policy": "pi agent actor",
    "episodes": "n_episodes num_episodes n_eval_episodes",
    "steps": "max_steps num_steps n_steps",
    "state": "obs observation s initial_state start x",
}
SYNONYMS: dict[str, tuple[str, ...]] = {}
for _word, _names in _ELSEWHERE.items():
    for _name in _names.split():
        SYNONYMS[_name] = (*SYNONYMS.get(_name, ()), _word)
# further remarks on a name
REMARKS = {
    "confidence": ", the probability of failure: delta=0.05 is a confidence of 0.95",
    "conf": ", the probability of failure: delta=0.05 is a confidence of 0.95",
    "level": ", the probability of failure: delta=0.05 is a confidence of 0.95",
    "cost_range": ": with minimize=True it is the range of costs",
    "cost": ": minimize=True says that the step returns costs",
    "costs": ": minimize=True says that the step returns costs",
    "sense": ": minimize=True says that the step returns costs",
    "verbose": ": progress=True shows a bar",
    "num_states": ": states are not counted, drop it; tabular reads them from P",
    "n_states": ": states are not counted, drop it; tabular reads them from P",
    "states": ": states are not listed, drop it; tabular reads them from P",
}
# Threads can wait for 292 years (2**63 ns) and no longer.
MOST_SECONDS = 1e9
# A watching thread wakes four times in this; more often and it takes the time it guards.
LEAST_CALL_SECONDS = 1e-3


def is_whole(value: object) -> bool:
    """Whether ``value`` is a whole number."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether ``value`` is a real number."""
    return isinstance(value, Real) and not isinstance(value, bool)


def shorten_value(value: Any) -> str:
    """A value as text for a sentence; long numbers and texts are abbreviated."""
    if is_whole(value) and abs(value) >= 10**30:
        sign = "-" if value < 0 else ""
        return f"about {sign}10^{math.log10(abs(int(value))):.0f}"
    value_text = repr(value)
    return value_text if len(value_text) <= 100 else f"{value_text[:100]}…"


def check_seed(seed: Any) -> int:
    """The seed of a run as a Python number; anything else is refused."""
    if not is_whole(seed) or seed < 0:
        raise InvalidInput(
            f"seed must be a whole number of at least 0, got {shorten_value(seed)}."
        )
    return int(seed)


def check_seconds(seconds: Any, name: str = "seconds") -> None:
    """Refuse anything but a time; None means no limit."""
    if seconds is not None and not (
        is_number(seconds) and 0 < seconds <= MOST_SECONDS
    ):
        raise InvalidInput(
            f"{name} must be a number above 0 and at most {MOST_SECONDS:g} (30 years), "
            f"or left out for no limit, got {shorten_value(seconds)}."
        )


def check_call_seconds(limit: Any) -> None:
    """Refuse anything that cannot limit one call; None means no limit."""
    if limit is not None and not (
        is_number(limit) and LEAST_CALL_SECONDS <= limit <= MOST_SECONDS
    ):
        raise InvalidInput(
            f"call_seconds must be a number of seconds from {LEAST_CALL_SECONDS:g} to "
            f"{MOST_SECONDS:g}, or None for no limit, got {shorten_value(limit)}."
        )


def check_keywords(verb: str, keywords: Iterable[str], options: Iterable[str]) -> None:
    """Refuse a keyword that does not exist, and suggest the intended one."""
    options = tuple(options)
    for keyword in keywords:
        if keyword not in options:
            raise InvalidInput(
                f"{verb} has no option {keyword!r}; {suggest_keyword(keyword, options)}"
            )


def suggest_keyword(name: str, options: tuple[str, ...]) -> str:
    """A suggestion for an unknown keyword, as the end of a sentence."""
    synonyms = SYNONYMS.get(name.lower().strip("_"), ())
    known_synonyms = [word for word in synonyms if word in options]
    close_matches = difflib.get_close_matches(name, options, 1)
    if "minimize" in (name, *synonyms) and "player" in options:
        return "player= says who minimizes; with one player it is an MDP."
    if known_synonyms:
        return f"{name}= is called {known_synonyms[0]}= here{REMARKS.get(name, '')}."
    if "temperature" in (name, *synonyms):
        return f"{name}= belongs to the operator, as in operator=Entropy(1.0)."
    if name == "states" and "epsilon" in options:
        return "plan_many(problem, states) plans in many states, plan in one."
    if name in DECLARED or any(word in DECLARED for word in synonyms):
        word = name if name in DECLARED else synonyms[0]
        return (
            f"{word}= belongs to the problem: give it to MDP, Game, tabular or make."
        )
    if name in PLANNED and f"{name}s" not in options:
        return (
            f"{name}= belongs to those who plan: give it to plan, or to an agent, as in "
            "Agent(problem, 'uct', budget=10_000)."
        )
    if name in REMARKS:
        return f"{REMARKS[name].removeprefix(': ')}."
    return (
        f"did you mean {close_matches[0]}=?"
        if close_matches
        else f"it has {', '.join(options)}."
    )


def check_call(
    verb: str,
    signature: inspect.Signature,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
) -> None:
    """Refuse arguments that ``signature`` does not take, and too few of them."""
    parameters = signature.parameters.values()
    positional_names = [
        parameter.name
        for parameter in parameters
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    required_names = [
        parameter.name if parameter.name in positional_names else f"{parameter.name}=…"
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_KEYWORD
    ]
    example_call = f"{verb}({', '.join(required_names or positional_names[:1])})"
    if len(arguments) > len(positional_names):
        raise InvalidInput(
            f"{verb} takes {' and '.join(positional_names)} by position, got "
            f"{len(arguments)} arguments; give the others by name, such as seed=0."
        )
    if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
        check_keywords(verb, keywords, signature.parameters)
    by_position = positional_names[: len(arguments)]
    for argument_name in by_position:
        if argument_name in keywords:
            raise InvalidInput(
                f"{verb} got {argument_name} twice; drop one of the two."
            )
    for argument_name in required_names:
        if argument_name.removesuffix("=…") not in (*by_position, *keywords):
            raise InvalidInput(
                f"{verb} needs {argument_name.removesuffix('…')}, as in {example_call}."
            )


def pop_reward_range(parameters: dict[str, Any]) -> tuple[float, float] | None:
    """The range of rewards, removed from the parameters of a name.

    It is ``reward_range=[low,high]``, or ``reward_low=`` and ``reward_high=``; None where
    there is neither.
    """
    declared_range = parameters.pop("reward_range", None)
    reward_low, reward_high = (
        parameters.pop(parameter_name, None)
        for parameter_name in ("reward_low", "reward_high")
    )
    if (reward_low is None) != (reward_high is None):
        raise InvalidInput("Give reward_low= and reward_high= together.")
    reward_range = declared_range if reward_low is None else (reward_low, reward_high)
    if reward_range is None:
        return None
    if (
        not isinstance(reward_range, list | tuple)
        or len(reward_range) != 2
        or not all(is_number(bound) for bound in reward_range)
    ):
        raise InvalidInput(
            "The range of rewards is two numbers, as in reward_range=[-1,1], got "
            f"{shorten_value(reward_range)}."
        )
    return float(reward_range[0]), float(reward_range[1])


# how each function is called
CALLS = {
    "oracle": "step(state, action, rng)",
    "legal": "legal(state, action)",
    "terminal": "terminal(state)",
    "player": "player(state)",
    "outcomes": "outcomes(state, action)",
    "key": "key(state)",
    "sample_action": "sample_action(state, rng)",
}
# names of the first two arguments that say the action comes first
SWAPPED = (("action", "state"), ("a", "s"))


def check_functions(problem: ProblemFields) -> None:
    """Refuse functions of other arguments, coroutines, and compiled names of actions."""
    for field_name, call_form in CALLS.items():
        function = getattr(problem, field_name, None)
        if field_name == "oracle":
            function = problem.given_step
        if callable(function) and not isinstance(function, Batched):
            _check_function(field_name, function, call_form)
    if problem.sample_action is None:
        refuse_names("The oracle", problem.oracle, problem.actions)
        refuse_names("legal", problem.legal, problem.actions)


def _makes_functions(kind: type) -> bool:
    """Whether objects of a class can be called: tuple and bool are functions themselves."""
    return any("__call__" in vars(base_class) for base_class in kind.__mro__)


def _check_function(name: str, function: Any, call: str) -> None:
    if isinstance(function, type) and (name == "oracle" or _makes_functions(function)):
        raise InvalidInput(
            f"{name} is a class, {function.__name__}; give an object of it, as in "
            f"{function.__name__}(), that can be called as {call}."
        )
    source_function = getattr(function, "py_func", function)
    inner_function = (
        source_function
        if inspect.isroutine(source_function)
        else type(source_function).__call__
    )
    if inspect.iscoroutinefunction(inner_function) or inspect.isasyncgenfunction(
        inner_function
    ):
        raise InvalidInput(
            f"{name} is an async function, which returns a coroutine and no answer; "
            f"define {call} without async, or run the coroutine inside it."
        )
    if inspect.isgeneratorfunction(inner_function) and name != "outcomes":
        raise InvalidInput(
            f"{name} is a generator, which yields and does not return; write return in "
            f"place of yield in {call}."
        )
    try:
        signature = inspect.signature(source_function)
    except (TypeError, ValueError):  # built into an extension: nobody knows
        return
    try:
        signature.bind(*call.partition("(")[2].rstrip(")").split(", "))
    except TypeError:
        raise InvalidInput(
            f"{name} must be a function {call}, got one of {signature}; add or drop "
            "arguments, also those that it does not use."
        ) from None
    if tuple(signature.parameters)[:2] in SWAPPED and "(state, action" in call:
        raise InvalidInput(
            f"{name} is called as {call}, and its arguments are named {signature}: the "
            "state comes first, then the action; swap them."
        )


CLOSING = {"(": ")", "[": "]", "{": "}"}
QUOTES = "\"'"


def split_pieces(text: str) -> list[str]:
    """``text`` cut at its commas, but not at those inside brackets or quotes."""
    segments, segment_start = [], 0
    expected_closers: list[str] = []  # closing brackets, and the quote that is open
    for position, character in enumerate(text):
        if expected_closers and expected_closers[-1] in QUOTES:
            if character == expected_closers[-1]:
                expected_closers.pop()
        elif character in CLOSING:
            expected_closers.append(CLOSING[character])
        elif character in QUOTES and _begins_value(text, position):
            expected_closers.append(character)
        elif character in ")]}":
            if not expected_closers or expected_closers.pop() != character:
                raise _unmatched_error(text)
        elif character == "," and not expected_closers:
            segments.append(text[segment_start:position])
            segment_start = position + 1
    if expected_closers:
        raise _unmatched_error(text)
    return [*segments, text[segment_start:]]


def _begins_value(text: str, position: int) -> bool:
    """Whether a quote begins a value, and is no apostrophe inside a word."""
    return position > 0 and text[:position].rstrip()[-1:] in ("=", ",", ":", *CLOSING)


def _unmatched_error(text: str) -> InvalidInput:
    return InvalidInput(
        f"The brackets and quotes of {shorten_value(text)} must match, as in "
        "actions=[-2,0,2]; close what is open."
    )


def split_name(text: str, words: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
    """The text before the first comma, and the parameters after it.

    ``words`` name parameters that may be written without them, in this order and
    before all others: ``SysAdmin,1`` is ``SysAdmin,instance=1`` for ("instance",).
    """
    subject, *raw_parameters = split_pieces(text)
    for position, parameter_name in enumerate(words[: len(raw_parameters)]):
        if "=" in raw_parameters[position] or not raw_parameters[position].strip():
            break
        raw_parameters[position] = (
            f"{parameter_name}={raw_parameters[position].strip()}"
        )
    return subject.strip(), read_parameters(",".join(raw_parameters))


def read_parameters(text: str) -> dict[str, Any]:
    """``n=5,seed=1`` as a dict of values."""
    values_by_name: dict[str, Any] = {}
    for piece in split_pieces(text):
        if not piece.strip():
            continue
        key, equals, value = piece.partition("=")
        parameter_name = key.strip()
        if not equals or not parameter_name or not value.strip():
            raise InvalidInput(
                f"Parameters are written name=value,name=value; got {piece!r}."
            )
        if parameter_name in values_by_name:
            raise InvalidInput(
                f"The parameter {parameter_name!r} is given twice; drop one."
            )
        values_by_name[parameter_name] = _read_value(value.strip())
    return values_by_name


def pop_own_options(
    parameters: dict[str, Any], names: tuple[str, ...]
) -> dict[str, Any]:
    """The options of an adapter, removed from the parameters of a name.

    ``reward_low=`` and ``reward_high=`` are another way to write ``reward_range=``.
    """
    options = {
        option_name: parameters.pop(option_name)
        for option_name in names
        if option_name in parameters
    }
    reward_low, reward_high = (
        parameters.pop(option_name, None)
        for option_name in ("reward_low", "reward_high")
    )
    if (reward_low is None) != (reward_high is None):
        raise InvalidInput("Give reward_low= and reward_high= together.")
    if reward_low is not None:
        options["reward_range"] = (float(reward_low), float(reward_high))
    elif isinstance(options.get("reward_range"), list):
        options["reward_range"] = tuple(options["reward_range"])
    return options


def _read_value(text: str) -> Any:
    """The value of a parameter: JSON, a Python literal, or a word."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # a word, or a number of 5,000 digits
        pass
    if text[0] in (*CLOSING, *QUOTES):
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            pass
    return text
