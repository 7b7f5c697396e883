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
so does one that tests ``action is 1`` or ``type(action)`` (``tells_types_apart``). Numba
takes such a comparison for False when it compiles it, so that the source of compiled code
is searched (``refuse_names``). Lookups in a dict or a set of names are not noticed, which
compare hashes, nor are arrays of names, for which NumPy makes a number of its own.
"""

from __future__ import annotations

import copy
import dis
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import Hung, OracleError, SmoothcruiserError
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.problem.batched import Batched

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
    state: Any = None  # of the call
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
            if not _is_written(other, sys._getframe(2)) and _holds(self.state, other):
                return
            number_text = f"the number {int(self)}"
            self.refusal = named_action(
                self.who, "compared", number_text, other, self.labels
            )
            raise self.refusal


def _is_written(name: object, frame: FrameType) -> bool:
    """Whether the comparison under way has the name, or a constant, in its own code."""
    code, recent_values = frame.f_code, [None, None]
    for instruction in dis.get_instructions(code):
        if instruction.offset >= frame.f_lasti:
            break
        value = instruction.argval if instruction.opname == "LOAD_CONST" else None
        if instruction.opname == "LOAD_GLOBAL":
            value = frame.f_globals.get(instruction.argval)
        recent_values = [recent_values[-1], value]
    return any(
        type(value) is type(name) and value == name
        for constant in recent_values
        for value in (constant, *(constant if isinstance(constant, tuple) else ()))
    )


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
    """Whether the code of a function depends on the identity or type of its arguments.

    ``action is 1`` and ``type(action) is int`` hold for an int alone. The functions that
    it calls by a global name are searched as well.
    """
    waiting_functions: list[Any] = [step]
    seen_codes: set[CodeType] = set()
    while waiting_functions and len(seen_codes) < MOST_SEARCHED:
        function = waiting_functions.pop()
        function = getattr(function, "func", function)  # of functools.partial
        if not hasattr(function, "__code__"):
            function = type(function).__call__
        code = getattr(function, "__code__", None)
        if code is None or code in seen_codes:
            continue
        seen_codes.add(code)
        codes = _with_inner(code)
        if any(_asks_identity(candidate) for candidate in codes):
            return True
        global_names = getattr(function, "__globals__", {})
        nearby_values = [
            global_names.get(global_name)
            for candidate in codes
            for global_name in candidate.co_names
        ]
        for cell in getattr(function, "__closure__", None) or ():
            with suppress(ValueError):  # a cell that is not filled yet
                nearby_values.append(cell.cell_contents)
        waiting_functions += [
            candidate
            for candidate in nearby_values
            if isinstance(candidate, FunctionType)
        ]
    return False


def _asks_identity(code: CodeType) -> bool:
    """Whether code has ``x is y``, ``type(x)`` or ``x.__class__`` of its arguments."""
    arguments = code.co_varnames[: code.co_argcount]
    recent_steps: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        loads_argument = [
            recent_step.opname.startswith("LOAD_FAST")
            and recent_step.argval in arguments
            for recent_step in recent_steps
        ]
        if instruction.opname == "IS_OP" and any(loads_argument):
            constants = [
                recent_step.argval
                for recent_step in recent_steps
                if recent_step.opname == "LOAD_CONST"
            ]
            if all(isinstance(value, int) for value in constants):
                return True
        loads_own = (
            instruction.opname.startswith("LOAD_FAST")
            and instruction.argval in arguments
        )
        if loads_own and recent_steps and recent_steps[-1].argval == "type":
            return True
        if instruction.opname == "LOAD_ATTR" and instruction.argval == "__class__":
            return True
        recent_steps = [*recent_steps[-1:], instruction]
    return False


def _with_inner(code: CodeType) -> list[CodeType]:
    """The code of a function, and of the functions that are written in it."""
    inner = [
        inner_code for inner_code in code.co_consts if isinstance(inner_code, CodeType)
    ]
    return [
        code,
        *(deeper for inner_code in inner for deeper in _with_inner(inner_code)),
    ]


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
    wary_action.who, wary_action.labels, wary_action.armed = (
        action.who,
        action.labels,
        True,
    )
    wary_action.state = state
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
    source_function = getattr(function, "py_func", None)
    code = getattr(source_function, "__code__", None)
    if code is None or code.co_argcount < 2:
        return
    action_name = code.co_varnames[1]
    recent_steps: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        if (
            instruction.opname.startswith("STORE_FAST")
            and instruction.argval == action_name
        ):
            return  # from here on it is something else, its name perhaps
        compared_name = _compared_name(
            instruction, recent_steps, action_name, source_function
        )
        if compared_name is not None:
            raise named_action(who, "compares", "a number", compared_name, labels)
        recent_steps = [*recent_steps[-1:], instruction]


def _compared_name(
    instruction: dis.Instruction,
    recent_steps: list[dis.Instruction],
    action_name: str,
    source_function: Any,
) -> object:
    """The name that an instruction compares the action with; None where it does not."""
    is_equality = instruction.opname == "COMPARE_OP" and str(instruction.argval).strip(
        "bol()"
    ) in (*("==", "!="),)
    if (
        not (is_equality or instruction.opname == "CONTAINS_OP")
        or len(recent_steps) < 2
    ):
        return None
    operands = [
        _loaded_value(recent_step, action_name, source_function)
        for recent_step in recent_steps
    ]
    if operands[0] is not _ACTION and operands[1] is not _ACTION:
        return None
    operand = operands[1] if operands[0] is _ACTION else operands[0]
    if instruction.opname == "CONTAINS_OP":
        names = operand if isinstance(operand, tuple | frozenset) else ()
        return next((name for name in names if isinstance(name, str)), None)
    return operand if isinstance(operand, str) else None


_ACTION = object()  # stands for the action among the values that code loads


def _loaded_value(
    instruction: dis.Instruction, action_name: str, source_function: Any
) -> object:
    """The constant that an instruction loads, ``_ACTION`` for the action."""
    if (
        instruction.opname.startswith("LOAD_FAST")
        and instruction.argval == action_name
    ):
        return _ACTION
    if instruction.opname == "LOAD_CONST":
        return instruction.argval
    if instruction.opname == "LOAD_GLOBAL":
        return source_function.__globals__.get(instruction.argval)
    return None
