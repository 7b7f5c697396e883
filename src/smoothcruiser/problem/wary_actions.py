"""Actions that refuse to be compared with a name: for steps that expect one.

``actions=["left", "right"]`` names actions for people; functions get their numbers. A
function that tests ``action == "left"`` takes every action for the other one, and its
problem is another than the one that was meant. So a few calls get a ``WaryAction``: an
int in every respect, but that ``==`` with text, a member of an Enum or a tuple, which no
number equals, raises one sentence.

The refusal lasts as long as the call. Whatever holds the action afterwards, such as the
next state, is replaced by a copy that holds a plain int. A function that accepts nothing
but ``int`` itself (as JAX does) gets one. Numba takes such a comparison for False when
it compiles it, so that the source of compiled code is searched (``refuse_names``).
Lookups in a dict or a set of names are not noticed: they compare hashes.
"""

from __future__ import annotations

import copy
import dis
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import Hung, OracleError, SmoothcruiserError
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.problem.batched import Batched

if TYPE_CHECKING:
    from smoothcruiser.problem.problem import Problem

WARY_CALLS = 16  # of a search that has no inspection: so many calls get wary actions
# functions that accept nothing but ``int`` itself
_INSISTING: weakref.WeakSet[Any] = weakref.WeakSet()


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
            f"write action == {list(labels).index(str(name))}, or compare "
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
    armed = False

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
            number = f"the number {int(self)}"
            raise named_action(self.who, "compared", number, other, self.labels)


def is_wary(problem: Problem) -> bool:
    """Whether a problem's step may get wary actions: one of plain Python does."""
    step = problem.oracle
    if is_compiled(step) or problem.numbering is not None or isinstance(step, Batched):
        return False
    with suppress(TypeError):  # not hashable, or without weak references
        return step not in _INSISTING
    return True


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
    found = WaryAction(action)
    found.who, found.labels = who, problem.actions
    return found


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
    try:
        answer = function(state, wary, *rng)
    except (SmoothcruiserError, KeyboardInterrupt, Hung):
        raise
    except BaseException as error:
        with suppress(TypeError):
            _INSISTING.add(function)
        raise InsistsOnInt from error
    finally:
        wary.armed = False
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
