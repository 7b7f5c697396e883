"""A request as one frozen object: its promise, its limits, and where it is computed.

``Query.of(problem, state, **keywords)`` is the only place that checks the arguments
of ``plan``, ``explain``, ``Agent`` and the command line. Methods get a Query and
can rely on it: epsilon is a number ("5%" was read here), or ``relative`` is the
requested share of |V| ("2% of value"), counts are whole, seconds are above 0.
``given`` has the keywords that the caller set, so that an option that a method does
not use can be refused (``methods.base``). This file leaves out whether a method needs
a missing keyword, and the names of executors.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, cast

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.adapter_protocol import refuse_parts
from smoothcruiser.problem.arguments import (
    check_call,
    check_keywords,
    check_seconds,
    check_seed,
    is_number,
    is_whole,
)
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import Callback, Progress, say_costs
from smoothcruiser.progress import progress_callback as read_progress
from smoothcruiser.run_control.call_ledger import CallLedger
from smoothcruiser.run_control.control import NO_LIMITS, Limits

if TYPE_CHECKING:
    from smoothcruiser.schedule.schedule import Target
else:  # imported by whoever needs it; so ``typing.get_type_hints`` finds a name
    Target = str

Function = TypeVar("Function", bound=Callable[..., Any])
_OF_VALUE = re.compile(r"(\S+)\s*%\s*of\s+(?:the\s+)?value", re.IGNORECASE)
# a smaller one cannot be shared out among the levels of a plan: float64 ends at 5e-324
LEAST_DELTA = 1e-250
DEFAULT_DELTA = 0.05  # of methods that have one: a failure in twenty answers


class ComputeKeywords(TypedDict, total=False):
    """The keywords of the place of a computation."""

    executor: str | None
    workers: int | None
    scheduler: str | None
    tls: tuple[str | Path, str | Path, str | Path] | None


class PlanKeywords(TypedDict, total=False):
    """The keywords of ``plan``, ``explain``, ``Agent`` and the command line."""

    epsilon: float | str | None
    delta: float | str | None
    target: Target
    budget: float | None
    seconds: float | None
    simulations: int | None
    max_states: int | None
    seed: int
    executor: str | None
    workers: int | None
    scheduler: str | None
    tls: tuple[str | Path, str | Path, str | Path] | None
    shards: int | None
    store: str | Path | None
    progress: bool | Callable[[Progress], object] | None


KEYWORDS = tuple(PlanKeywords.__annotations__)
# The value of a keyword that is not set; a keyword at its default was not given.
DEFAULTS: dict[str, Any] = dict.fromkeys(KEYWORDS) | {"target": "q_values", "seed": 0}


# keywords that are whole numbers of at least 1
COUNTS = ("simulations", "max_states", "workers", "shards")


@dataclass(frozen=True, kw_only=True)
class Promise:
    """How exact and how sure the answer has to be."""

    epsilon: float | None = None  # half-width, in units of value
    delta: float | None = None  # allowed probability of failure
    target: Target = "q_values"
    # epsilon in the caller's own words: a share means another number where the value
    # span is another one, as with fewer steps left of a horizon
    words: float | str | None = None
    # the share of |V| that half-widths may have, where that was requested: those of
    # all action values too, with target "q_values". ``epsilon`` is then a number that
    # is surely small enough, or None where the bounds on V do not exclude 0.
    relative: float | None = None

    @property
    def asked(self) -> bool:
        """Whether an accuracy was requested, in numbers or as a share."""
        return self.epsilon is not None or self.relative is not None

    def is_missed(self, half_width: float, interval: tuple[float, float]) -> bool:
        """Whether half-widths of so much, around V in ``interval``, are too large."""
        if self.relative is not None:
            return half_width > self.relative * nearest_to_zero(interval)
        return self.epsilon is not None and half_width > self.epsilon

    def half_width(self) -> float:
        """Epsilon, for a method that cannot do without it."""
        if self.epsilon is None and self.relative is not None:
            raise InvalidInput(
                f"epsilon={self.words!r} needs a method that learns the value while it "
                "runs: use certified search (method='certified'), give epsilon as a "
                "number, or give value_bounds that exclude 0."
            )
        if self.epsilon is None:
            raise InvalidInput(
                "This method needs epsilon, the half-width of the promised interval "
                "(epsilon=0.1, or epsilon='5%')."
            )
        return self.epsilon

    def failure(self) -> float:
        """Delta, for a method that cannot do without it."""
        if self.delta is None:
            raise InvalidInput(
                "This method needs delta, the allowed probability of failure "
                "(delta=0.1)."
            )
        return self.delta


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Where a run is computed; nothing here changes its result but ``shards``."""

    executor: str | None = None  # None: the fastest that can
    workers: int | None = None  # None: all cores
    scheduler: str | None = None  # address of a Dask cluster
    tls: tuple[str, str, str] | None = None  # PEM files: CA, certificate, key
    shards: int | None = None  # parts per action; a store records it
    store: Path | None = None

    @classmethod
    def of(cls, verb: str, where: ComputeKeywords) -> Compute:
        """The place that keywords of ``verb`` describe; their values are checked."""
        check_keywords(verb, where, ComputeKeywords.__annotations__)
        return cls(
            executor=where.get("executor"),
            workers=where.get("workers"),
            scheduler=where.get("scheduler"),
            tls=None if where.get("tls") is None else check_tls(where["tls"]),
        )


@dataclass(frozen=True, kw_only=True)
class Query:
    """A checked request. Make one with ``Query.of``."""

    problem: Problem
    state: Any = None  # None: the problem has no initial state and none was named
    promise: Promise = Promise()
    limits: Limits = NO_LIMITS
    compute: Compute = Compute()
    seed: int = 0
    progress: Callback | None = None
    given: frozenset[str] = frozenset()
    # calls that preparing the answer made
    ledger: CallLedger = field(default_factory=CallLedger, compare=False, repr=False)

    @classmethod
    def of(
        cls, problem: Problem, state: Any = None, **keywords: Unpack[PlanKeywords]
    ) -> Query:
        """The request that the keywords describe, or an error that names the fault."""
        check_problem(problem)
        progress = read_progress(keywords.get("progress"))
        if problem.minimizes:
            say_costs(progress)
        check_keywords("plan", keywords, KEYWORDS)
        values: dict[str, Any] = {**DEFAULTS, **keywords}
        epsilon, relative = None, None
        for name, read in READERS.items():
            if name == "epsilon":
                epsilon, relative = read_epsilon(values[name], problem.facts)
            elif values[name] is not DEFAULTS[name]:
                values[name] = read(values[name])
        has_state = state is not None or problem.initial_state is not None
        return cls(
            problem=problem,
            state=problem.start(state) if has_state else None,
            promise=Promise(
                epsilon=epsilon,
                delta=values["delta"],
                target=values["target"],
                words=values["epsilon"],
                relative=relative,
            ),
            limits=Limits(
                calls=values["budget"],
                **{
                    name: values[name]
                    for name in ("seconds", "simulations", "max_states")
                },
            ),
            compute=Compute(
                **{part.name: values[part.name] for part in fields(Compute)}
            ),
            seed=values["seed"],
            progress=progress,
            # progress=False asks for nothing
            given=frozenset(
                name
                for name, value in {**keywords, "progress": progress}.items()
                if value != DEFAULTS[name]
            ),
        )

    @property
    def place(self) -> Any:
        """The state in question; an error where none is known."""
        return self.problem.start(None) if self.state is None else self.state

    def on(self, problem: Problem) -> Query:
        """The same request about another problem, its shares of the span read anew."""
        epsilon, relative = read_epsilon(self.promise.words, problem.facts)
        promise = replace(self.promise, epsilon=epsilon, relative=relative)
        return replace(self, problem=problem, promise=promise)

    def at(self, state: Any, seed: int) -> Query:
        """The same request about another state, with a seed and calls of its own."""
        return replace(self, state=state, seed=seed, ledger=CallLedger())


def named_keywords(function: Function) -> Function:
    """Wrap a verb so that a call that does not fit raises an error with a remedy."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked_call(*arguments: Any, **keywords: Any) -> Any:
        try:
            signature.bind(*arguments, **keywords)
        except TypeError:
            check_call(function.__name__, signature, arguments, keywords)
            raise
        return function(*arguments, **keywords)

    return cast(Function, checked_call)


def check_problem(problem: object) -> None:
    """Refuse an object that is no problem."""
    if not isinstance(problem, Problem):
        refuse_parts(problem)
        raise InvalidInput(
            "A problem (MDP, Game, tabular or make) was expected, got "
            f"{type(problem).__name__}."
        )


def read_epsilon(
    epsilon: float | str | None, facts: Facts
) -> tuple[float | None, float | None]:
    """(epsilon as a number, requested share of |V|).

    "5%" is five percent of the value span B; "5% of value" a share of |V|. The
    number is then the share of the smallest |V| that the bounds allow, None if it is
    0.
    """
    if epsilon is None:
        return None, None
    relative, span_share = None, None
    if isinstance(epsilon, str):
        epsilon_text = epsilon.strip()
        share_match = _OF_VALUE.fullmatch(epsilon_text)
        try:
            if share_match is not None:
                relative = float(share_match[1]) / 100.0
            elif epsilon_text.endswith("%"):
                span_share = float(epsilon_text[:-1]) / 100.0
            else:
                epsilon = float(epsilon_text)
        except ValueError:
            raise InvalidInput(
                "epsilon must be a number above 0, a percentage of the value span such "
                "as 5%, or a share of the value such as '2% of value', got "
                f"{epsilon_text!r}."
            ) from None
        if span_share is not None:
            epsilon = span_share * _finite_span(facts, epsilon_text)
            if span_share > 0.0 and epsilon == 0.0:
                raise InvalidInput(
                    f"epsilon {epsilon_text} is a share of the value span, and what is "
                    "declared "
                    "of rewards and values leaves no span; give epsilon as a number."
                )
    stated_number = epsilon if relative is None else relative
    if not is_number(stated_number) or not 0.0 < stated_number < math.inf:  # type: ignore[operator]
        raise InvalidInput(
            f"epsilon must be a finite number above 0, got {epsilon!r}."
        )
    if relative is None:
        return float(epsilon), None
    smallest_value = min(
        nearest_to_zero(facts.value_bounds(player)) for player in facts.players
    )
    return relative * smallest_value or None, relative


def _finite_span(facts: Facts, words: str) -> float:
    """The value span that a percentage refers to; an infinite one is refused."""
    value_span = facts.value_span()
    if math.isfinite(value_span):
        return value_span
    raise InvalidInput(
        f"epsilon={words!r} is a share of the value span, which is infinite at "
        "discount "
        "1 without a horizon; give a number, or bound the values: payoffs='end', "
        "total_reward_range=, episodes_end= or value_bounds=."
    )


def nearest_to_zero(interval: tuple[float, float]) -> float:
    """The smallest |v| of an interval."""
    return max(interval[0], -interval[1], 0.0)


def check_delta(delta: float | str | None) -> float | None:
    """Delta, if it is a probability strictly between 0 and 1 or not set.

    Text is read too: "0.1" and "10%" are the same.
    """
    if delta is None:
        return None
    probability: Any = delta
    if isinstance(delta, str):
        delta_text = delta.strip()
        try:
            probability = (
                float(delta_text[:-1]) / 100.0
                if delta_text.endswith("%")
                else float(delta_text)
            )
        except ValueError:
            probability = None
    if not is_number(probability) or not LEAST_DELTA <= probability < 1.0:
        raise InvalidInput(
            "delta must be a probability strictly between 0 and 1, such as 0.1 or 10%, "
            f"and at least {LEAST_DELTA:g}, got {delta!r}{_suggest_delta(probability)}."
        )
    return float(probability)


def _suggest_delta(probability: Any) -> str:
    """A suggestion in place of a delta that looks like a confidence, such as 95."""
    if is_number(probability) and 1.0 < probability < 100.0:
        return (
            f"; for a confidence of {probability:g}% write "
            f"delta={1.0 - probability / 100.0:.3g}"
        )
    return ""


def remark_on_delta(delta: float | None) -> str | None:
    """A question about a delta that looks like a confidence."""
    if delta is None or delta <= 0.5:
        return None
    return (
        f"delta={delta:g} lets the promise fail with probability {delta:g}; did you "
        f"mean {1.0 - delta:.3g}?"
    )


def check_budget(budget: float) -> int:
    """The budget as a whole number of oracle calls."""
    if not is_number(budget) or not 1 <= budget < math.inf:
        raise InvalidInput(
            f"budget must be a number of oracle calls of at least 1, got {budget!r}."
        )
    return int(budget)


def check_tls(files: Any) -> tuple[str, str, str] | None:
    """The three files that secure the connection to a scheduler, or None."""
    if files is None:
        return None
    is_triple = isinstance(files, list | tuple) and len(files) == 3
    if not is_triple or not all(isinstance(file, str | Path) for file in files):
        raise InvalidInput(
            "tls takes three files, those of the CA, of a certificate and of its key, "
            f"got {files!r}."
        )
    for file in files:
        if not Path(file).is_file():
            raise InvalidInput(
                f"The file {str(file)!r} of tls=(ca, cert, key) does not exist; "
                "give the PEM files that the cluster was started with."
            )
    ca_file, certificate_file, key_file = map(str, files)
    return ca_file, certificate_file, key_file


def check_store(store: Any) -> Path:
    """The path of a run store; a name that no file can have is refused."""
    if not isinstance(store, str | Path) or not str(store).strip():
        raise InvalidInput(f"store must be the name of a file, got {store!r}.")
    if str(store) == ":memory:" or "\0" in str(store):
        raise InvalidInput(
            f"store must be the name of a file that can be kept, got {str(store)!r}; "
            "give another name to store=."
        )
    return Path(store)


def _read_target(target: Any) -> Any:
    """The values that are promised."""
    if target not in ("q_values", "value"):
        raise InvalidInput(f"target must be 'q_values' or 'value', got {target!r}.")
    return target


def _read_seconds(seconds: Any) -> Any:
    """A time limit as it was given."""
    check_seconds(seconds)
    return seconds


def _read_count(name: str, value: Any) -> int:
    """A whole number of at least 1."""
    if not is_whole(value) or value < 1:
        raise InvalidInput(
            f"{name} must be a whole number of at least 1, got {value!r}."
        )
    return int(value)


# How a keyword that was set is read, in the order in which faults are reported.
# ``read_epsilon`` needs the problem too.
READERS: dict[str, Callable[[Any], Any]] = {
    "target": _read_target,
    "seconds": _read_seconds,
    **{name: functools.partial(_read_count, name) for name in COUNTS},
    "epsilon": float,
    "delta": check_delta,
    "budget": check_budget,
    "tls": check_tls,
    "store": check_store,
    "seed": check_seed,
}
