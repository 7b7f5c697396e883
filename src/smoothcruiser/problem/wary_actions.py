"""Actions that refuse to be compared with a name: for steps that expect one.

``actions=["left", "right"]`` names actions for people; functions get their numbers. A
function that tests ``action == "left"`` takes every action for the other one, and its
problem is another than the one that was meant. So a few calls get a ``WaryAction``: an
int in every respect, but that ``==`` with text, a member of an Enum or a tuple, which no
number equals, raises one sentence.

A name that comes from the state may say that no action was taken yet, and a class may
define ``==`` of its members itself: neither is refused.

The refusal lasts as long as the call. If the function catches it, it is raised again
after the call.
Whatever holds the action then, such as the next state, is replaced by a copy that holds a
plain int. A function that accepts nothing but ``int`` itself (as JAX does) gets one, and
so does one whose text tests ``action is 1`` or ``type(action)``. Numba takes a comparison
with a name for False when it compiles it, so that the text of compiled code is searched
(``refuse_names``; not of code without source). Lookups in a dict or a set of names are
not noticed, which compare hashes, nor are arrays of names, for which NumPy makes a number
of its own.
"""

from __future__ import annotations

import ast
import copy
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import Hung, OracleError, SmoothcruiserError
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.problem.batched import Batched
from smoothcruiser.problem.fingerprint.objects import wrapped_function
from smoothcruiser.problem.fingerprint.source_text import named_values, source_node

if TYPE_CHECKING:
    from smoothcruiser.problem.facts import ProblemFields

WARY_CALLS = 16  # of a search that has no inspection: so many calls get wary actions
# functions that accept nothing but ``int`` itself, and those that seem to accept more
_INSISTING: weakref.WeakSet[Any] = weakref.WeakSet()
_SEARCHED: weakref.WeakSet[Any] = weakref.WeakSet()
MOST_SEARCHED = 64  # functions behind a step that are searched
MOST_PARTS = 1000  # of a state that are compared with a name


class NamedAction(OracleError):
    """A function compares its action, which is a number, with a name."""


class InsistsOnInt(Exception):
    """A call failed with a wary action, perhaps because of it; call again without."""


def named_action(
    who: str, verb: str, action: object, name: object, labels: Sequence[str] | None
) -> NamedAction:
    """The sentence on an action that is compared with ``name``."""
    name_text = f"{name!r:.60}"
    if labels is not None and name in labels:
        remedy = (
            f"write action == {list[object](labels).index(name)}, or compare "
            "problem.actions[action], its name"
        )
    else:
        remedy = (
            "compare it with a number, or name the actions (actions=['left', 'right']) "
            "and compare problem.actions[action]"
        )
    return NamedAction(
        f"{who} {verb} its action, {action}, with {name_text}, which it can never "
        f"equal: actions are numbers from 0 on; {remedy}."
    )


class WaryAction(int):
    """An action that raises ``NamedAction`` where it is compared with a name."""

    who = "The oracle"
    labels: Sequence[str] | None = None
    function: Any = None  # of the call
    state: Any = None  # likewise
    armed = False
    refusal: NamedAction | None = None  # which the function may have caught

    def __eq__(self, other: object) -> bool:
        self._refuse(other)
        return int.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        self._refuse(other)
        return int.__ne__(self, other)

    __hash__ = int.__hash__

    def __reduce__(self) -> tuple[type[int], tuple[int]]:  # copies are plain numbers
        return int, (int(self),)

    def _refuse(self, other: object) -> None:
        if self.armed and isinstance(other, str | bytes | tuple | Enum):
            if isinstance(other, int):  # a member of an IntEnum
                return
            if isinstance(type(other).__eq__, FunctionType):  # its class knows better
                return
            if _holds(self.state, other) and not _is_written(other, self.function):
                return
            number_text = f"the number {int(self)}"
            self.refusal = named_action(
                self.who, "compared", number_text, other, self.labels
            )
            raise self.refusal


def _is_written(name: object, step: Any) -> bool:
    """Whether a text compares a variable that is no state with the name, written out."""
    for function in _functions_behind(step):
        node, values = source_node(function), named_values(function)
        state_name = next(iter(function.__code__.co_varnames), None)
        for sides in [] if node is None else _list_comparisons(node):
            variables = {side.id for side in sides if isinstance(side, ast.Name)}
            if variables - {state_name} and any(
                type(value) is type(name) and value == name
                for side in sides
                for value in _written_values(side, values)
            ):
                return True
    return False


def _list_comparisons(node: ast.AST) -> list[list[ast.expr]]:
    """The sides of the comparisons in a text, as far as they are side by side."""
    return [
        [inner.left, *inner.comparators]
        for inner in ast.walk(node)
        if isinstance(inner, ast.Compare)
    ]


def _written_values(side: ast.expr, values: dict[str, Any]) -> list[Any]:
    """The constants that one side of a comparison is, or lists."""
    if isinstance(side, ast.Constant):
        return [side.value]
    if isinstance(side, ast.Name):
        value = values.get(side.id)
        return [value, *value] if isinstance(value, tuple | frozenset) else [value]
    elements = getattr(side, "elts", [])
    return [
        value for element in elements for value in _written_values(element, values)
    ]


def _holds(state: Any, name: object) -> bool:
    """Whether a state is, or holds, the name that an action is compared with."""
    unvisited, num_visited = [state], 0
    while unvisited and num_visited < MOST_PARTS:
        element = unvisited.pop()
        num_visited += 1
        if element is name or (type(element) is type(name) and element == name):
            return True
        if isinstance(element, dict):
            unvisited += [*element, *element.values()]
        elif isinstance(element, list | tuple | set | frozenset):
            unvisited += element
        else:
            unvisited += getattr(element, "__dict__", {}).values()
    return False


def is_wary(problem: ProblemFields) -> bool:
    """Whether a problem's step may get wary actions: a plain Python step may."""
    if problem.numbering is not None or isinstance(problem.oracle, Batched):
        return False
    if problem.tables is not None:  # the step is this library's own
        return False
    return takes_wary(problem.oracle)


def takes_wary(function: Any) -> bool:
    """Whether a function may get wary actions: plain Python that tests no types."""
    if is_compiled(function):
        return False
    with suppress(TypeError):  # not hashable, or without weak references
        if function in _INSISTING:
            return False
        if function not in _SEARCHED:
            (_INSISTING if tells_types_apart(function) else _SEARCHED).add(function)
        return function not in _INSISTING
    return not tells_types_apart(function)


def tells_types_apart(step: Any) -> bool:
    """Whether the text of a function depends on the identity or type of its arguments.

    ``action is 1`` and ``type(action) is int`` hold for an int alone. The functions that
    it calls by a name are searched as well. Without text, the names have to say it.
    """
    return any(map(_asks_identity, _functions_behind(step)))


def _functions_behind(step: Any) -> list[FunctionType]:
    """A plain function and those that its text names, as far as they are searched."""
    functions: list[FunctionType] = []
    waiting_functions = [step]
    while waiting_functions and len(functions) < MOST_SEARCHED:
        function = waiting_functions.pop()
        function = getattr(function, "func", function)  # of functools.partial
        if not hasattr(function, "__code__"):
            function = type(function).__call__
        function = getattr(function, "__func__", function)
        if isinstance(function, FunctionType) and function not in functions:
            functions.append(function)
            waiting_functions += [
                value
                for value in named_values(function).values()
                if isinstance(value, FunctionType)
            ]
    return functions


def _asks_identity(function: FunctionType) -> bool:
    """Whether a text has ``x is y``, ``type(x)`` or ``x.__class__`` of its arguments."""
    node = source_node(function)
    if node is None:
        return not {"type", "__class__"}.isdisjoint(function.__code__.co_names)
    arguments = {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr == "__class__":
            return True
        sides: list[ast.expr] = []
        if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "type":
            sides = inner.args
        if isinstance(inner, ast.Compare) and isinstance(
            inner.ops[0], ast.Is | ast.IsNot
        ):
            sides = [inner.left, *inner.comparators]
        constants = [side.value for side in sides if isinstance(side, ast.Constant)]
        if all(isinstance(value, int) for value in constants) and any(
            isinstance(side, ast.Name) and side.id in arguments for side in sides
        ):
            return True
    return False


def refuse_named_legal(problem: ProblemFields, state: Any) -> None:
    """Refuse a function ``legal`` of plain Python that compares actions with names."""
    legal = problem.legal
    if legal is None or is_compiled(legal) or isinstance(problem.oracle, Batched):
        return
    for action in range(min(problem.num_actions, WARY_CALLS)):
        with suppress(InsistsOnInt):
            call_warily(legal, state, make_wary(problem, action, "legal"))


def make_wary(
    problem: ProblemFields, action: int, who: str = "The oracle"
) -> WaryAction:
    """An action that ``call_warily`` takes."""
    wary_action = WaryAction(action)
    wary_action.who, wary_action.labels = who, problem.actions
    return wary_action


def call_warily(
    function: Callable[..., Any], state: Any, action: WaryAction, *rng: Any
) -> Any:
    """The answer of ``function(state, action, *rng)``, called with a wary action.

    Raises ``NamedAction`` for a comparison with a name, and ``InsistsOnInt`` where
    the function fails: it may accept plain numbers alone. It gets such ones from then
    on.
    """
    wary_action = WaryAction(action)
    wary_action.who, wary_action.labels = action.who, action.labels
    wary_action.function, wary_action.state = function, state
    wary_action.armed = True
    try:
        answer = function(state, wary_action, *rng)
    except (SmoothcruiserError, KeyboardInterrupt, Hung):
        raise
    except BaseException as error:
        if wary_action.refusal is not None:
            raise wary_action.refusal from error
        with suppress(TypeError):
            _INSISTING.add(function)
        raise InsistsOnInt from error
    finally:
        wary_action.armed, wary_action.state = False, None
    if wary_action.refusal is not None:  # the function caught it
        raise wary_action.refusal
    if sys.getrefcount(wary_action) > _ALONE:
        with suppress(Exception):  # left as it is, equal to a plain number
            answer = copy.deepcopy(answer)
    return answer


def _references() -> int:
    """The reference count of a wary action that nobody else holds."""
    wary_action = WaryAction(0)
    return sys.getrefcount(wary_action)


_ALONE = _references()


def refuse_names(who: str, function: Any, labels: Sequence[str] | None) -> None:
    """Refuse a compiled function of (state, action, …) that names actions.

    Numba takes a comparison of a number with text for False without a word.
    """
    inner_function = wrapped_function(function)
    if not (is_compiled(function) and isinstance(inner_function, FunctionType)):
        return
    node, code = source_node(inner_function), inner_function.__code__
    if node is None or code.co_argcount < 2:
        return
    action_name, values = code.co_varnames[1], named_values(inner_function)
    variables = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    if any(
        inner.id == action_name and not isinstance(inner.ctx, ast.Load)
        for inner in variables
    ):
        return  # it may be something else there, its name perhaps
    for sides in _list_comparisons(node):
        if any(
            isinstance(side, ast.Name) and side.id == action_name for side in sides
        ):
            for side in sides:
                for value in _written_values(side, values):
                    if isinstance(value, str):
                        raise named_action(who, "compares", "a number", value, labels)
