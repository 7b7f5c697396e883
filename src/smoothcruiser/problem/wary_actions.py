"""Actions that refuse to be compared with a name: for steps that expect one.

``actions=["left", "right"]`` names actions for people; functions get their numbers. A
function that tests ``action == "left"`` takes every action for the other one, and its
problem is another than the one that was meant. So a few calls get a ``WaryAction``: an
int in every respect, but that ``==`` with text, a member of an Enum or a tuple, which no
number equals, raises one sentence.

A name that comes from the state may say that no action was taken yet, and a class may
say itself what its members equal: neither is refused.

The refusal lasts as long as the call, and a function that catches it gets it afterwards.
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
    from smoothcruiser.problem.problem import Problem

WARY_CALLS = 16  # of a search that has no inspection: so many calls get wary actions
# functions that accept nothing but ``int`` itself, and those whose code does not say so
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
    shown = f"{name!r:.60}"
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
        f"{who} {verb} its action, {action}, with {shown}, which it can never "
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
            number = f"the number {int(self)}"
            self.refusal = named_action(
                self.who, "compared", number, other, self.labels
            )
            raise self.refusal


def _is_written(name: object, frame: FrameType) -> bool:
    """Whether the comparison under way has the name, or a constant, in its own code."""
    code, before = frame.f_code, [None, None]
    for step in dis.get_instructions(code):
        if step.offset >= frame.f_lasti:
            break
        value = step.argval if step.opname == "LOAD_CONST" else None
        if step.opname == "LOAD_GLOBAL":
            value = frame.f_globals.get(step.argval)
        before = [before[-1], value]
    return any(
        type(value) is type(name) and value == name
        for constant in before
        for value in (constant, *(constant if isinstance(constant, tuple) else ()))
    )


def _holds(state: Any, name: object) -> bool:
    """Whether a state is, or holds, what an action is compared with."""
    waiting, count = [state], 0
    while waiting and count < MOST_PARTS:
        part = waiting.pop()
        count += 1
        if part is name or (type(part) is type(name) and part == name):
            return True
        if isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            waiting += part
        else:
            waiting += getattr(part, "__dict__", {}).values()
    return False


def is_wary(problem: Problem) -> bool:
    """Whether a problem's step may get wary actions: one of plain Python does."""
    if problem.numbering is not None or isinstance(problem.oracle, Batched):
        return False
    return takes_wary(problem.oracle)


def takes_wary(function: Any) -> bool:
    """Whether a function may get wary actions: of plain Python, and not of types."""
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
    """Whether the code of a function asks what its arguments are, not what they equal.

    ``action is 1`` and ``type(action) is int`` hold for an int alone. The functions that
    it calls by a global name are searched as well.
    """
    waiting: list[Any] = [step]
    seen: set[CodeType] = set()
    while waiting and len(seen) < MOST_SEARCHED:
        function = waiting.pop()
        function = getattr(function, "func", function)  # of functools.partial
        if not hasattr(function, "__code__"):
            function = type(function).__call__
        code = getattr(function, "__code__", None)
        if code is None or code in seen:
            continue
        seen.add(code)
        codes = _with_inner(code)
        if any(_asks_identity(each) for each in codes):
            return True
        scope = getattr(function, "__globals__", {})
        near = [scope.get(name) for each in codes for name in each.co_names]
        for cell in getattr(function, "__closure__", None) or ():
            with suppress(ValueError):  # a cell that is not filled yet
                near.append(cell.cell_contents)
        waiting += [each for each in near if isinstance(each, FunctionType)]
    return False


def _asks_identity(code: CodeType) -> bool:
    """Whether code has ``x is y``, ``type(x)`` or ``x.__class__`` of its arguments."""
    arguments = code.co_varnames[: code.co_argcount]
    before: list[dis.Instruction] = []
    for step in dis.get_instructions(code):
        own = [
            x.opname.startswith("LOAD_FAST") and x.argval in arguments for x in before
        ]
        if step.opname == "IS_OP" and any(own):
            constants = [x.argval for x in before if x.opname == "LOAD_CONST"]
            if all(isinstance(value, int) for value in constants):
                return True
        loads_own = step.opname.startswith("LOAD_FAST") and step.argval in arguments
        if loads_own and before and before[-1].argval == "type":
            return True
        if step.opname == "LOAD_ATTR" and step.argval == "__class__":
            return True
        before = [*before[-1:], step]
    return False


def _with_inner(code: CodeType) -> list[CodeType]:
    """The code of a function, and of the functions that are written in it."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [code, *(deeper for each in inner for deeper in _with_inner(each))]


def refuse_named_legal(problem: Problem, state: Any) -> None:
    """Refuse a function ``legal`` of plain Python that compares actions with names."""
    legal = problem.legal
    if legal is None or is_compiled(legal) or isinstance(problem.oracle, Batched):
        return
    for action in range(min(problem.num_actions, WARY_CALLS)):
        with suppress(InsistsOnInt):
            call_warily(legal, state, wary(problem, action, "legal"))


def wary(problem: Problem, action: int, who: str = "The oracle") -> WaryAction:
    """An action that ``call_warily`` takes."""
    wary_action = WaryAction(action)
    wary_action.who, wary_action.labels = who, problem.actions
    return wary_action


def call_warily(
    function: Callable[..., Any], state: Any, action: WaryAction, *rng: Any
) -> Any:
    """What ``function(state, action, *rng)`` returns, called with a wary action.

    Raises ``NamedAction`` for a comparison with a name, and ``InsistsOnInt`` where
    the function fails: it may accept plain numbers alone. It gets such ones from then
    on.
    """
    wary = WaryAction(action)
    wary.who, wary.labels, wary.armed = action.who, action.labels, True
    wary.state = state
    try:
        answer = function(state, wary, *rng)
    except (SmoothcruiserError, KeyboardInterrupt, Hung):
        raise
    except BaseException as error:
        if wary.refusal is not None:
            raise wary.refusal from error
        with suppress(TypeError):
            _INSISTING.add(function)
        raise InsistsOnInt from error
    finally:
        wary.armed, wary.state = False, None
    if wary.refusal is not None:  # the function caught it
        raise wary.refusal
    if sys.getrefcount(wary) > _ALONE:
        with suppress(Exception):  # left as it is, equal to a plain number
            answer = copy.deepcopy(answer)
    return answer


def _references() -> int:
    """How often a wary action is referred to that nobody else holds."""
    wary = WaryAction(0)
    return sys.getrefcount(wary)


_ALONE = _references()


def refuse_names(who: str, function: Any, labels: Sequence[str] | None) -> None:
    """Refuse a compiled function of (state, action, …) that names actions.

    Numba takes a comparison of a number with text for False without a word.
    """
    source = getattr(function, "py_func", None)
    code = getattr(source, "__code__", None)
    if code is None or code.co_argcount < 2:
        return
    action = code.co_varnames[1]
    loaded: list[dis.Instruction] = []
    for step in dis.get_instructions(code):
        if step.opname.startswith("STORE_FAST") and step.argval == action:
            return  # from here on it is something else, its name perhaps
        name = _compared_name(step, loaded, action, source)
        if name is not None:
            raise named_action(who, "compares", "a number", name, labels)
        loaded = [*loaded[-1:], step]


def _compared_name(
    step: dis.Instruction, loaded: list[dis.Instruction], action: str, source: Any
) -> object:
    """The name that an instruction compares the action with; None where it does not."""
    equality = step.opname == "COMPARE_OP" and str(step.argval).strip("bol()") in (
        *("==", "!="),
    )
    if not (equality or step.opname == "CONTAINS_OP") or len(loaded) < 2:
        return None
    operands = [_loaded_value(each, action, source) for each in loaded]
    if operands[0] is not _ACTION and operands[1] is not _ACTION:
        return None
    other = operands[1] if operands[0] is _ACTION else operands[0]
    if step.opname == "CONTAINS_OP":
        names = other if isinstance(other, tuple | frozenset) else ()
        return next((name for name in names if isinstance(name, str)), None)
    return other if isinstance(other, str) else None


_ACTION = object()  # stands for the action among the values that code loads


def _loaded_value(step: dis.Instruction, action: str, source: Any) -> object:
    """The constant that an instruction loads, ``_ACTION`` for the action."""
    if step.opname.startswith("LOAD_FAST") and step.argval == action:
        return _ACTION
    if step.opname == "LOAD_CONST":
        return step.argval
    if step.opname == "LOAD_GLOBAL":
        return source.__globals__.get(step.argval)
    return None
