"""``check``: is this oracle usable, and are the claims of the problem true?

The report names every fault and how to fix it.

A promise rests on claims that no planner can test in full while it runs:
samples are independent and follow one law for each (state, action), all
randomness comes from ``rng``, a state is a value that nobody changes
afterwards. Here they are tested on states met by random walks:

  same stream, same answer           (s, a) sampled twice from equal streams
                                     gives equal rewards, ends and next states
  no memory between samples          n samples repeated in the opposite order
                                     give the same n answers, stream by stream
  states are not changed or shared   a state is the same after a step from it;
                                     an answer is the same after the next answer
  claims                             reward_range, legal, player, alternating,
                                     terminal, deterministic, outcomes, key,
                                     value_bounds, payoffs,
                                     total_reward_range, min_probability,
                                     episodes_end, a user's own operator

Next states are compared by value, and by their futures under equal streams
where their values differ or cannot be seen. Each test is exact but for
``outcomes`` and ``value_bounds``, which use Hoeffding's bound at
``probe.FALSE_ALARM``, and ``episodes_end``, which fails a true claim with
probability ``chances.FALSE_ALARM``. A check can find faults and never proves their absence.
``plan`` itself checks a few of these things on every run
(``engines.inspection``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from smoothcruiser.checks import claims, contract
from smoothcruiser.checks import probe as chances
from smoothcruiser.checks.probe import Finding, Probe, Verdict
from smoothcruiser.displayable import Shown, brief
from smoothcruiser.errors import SmoothcruiserError
from smoothcruiser.jit.build import is_compiled
from smoothcruiser.methods.unbounded_rewards import capped_problem
from smoothcruiser.problem.arguments import check_call_seconds, check_seed
from smoothcruiser.problem.declaration_checks import is_undiscounted
from smoothcruiser.problem.problem import Problem
from smoothcruiser.query import Promise, check_delta, check_problem, named_keywords
from smoothcruiser.records.data import Data, Framed
from smoothcruiser.records.shapes import Count
from smoothcruiser.run_control.stop_requests import stoppable
from smoothcruiser.schedule.number_text import duration, short


@dataclass(frozen=True)
class Check(Shown, Data, Framed):
    """What a check found; ``ok`` if nothing is wrong."""

    json_kind: ClassVar[str] = "check"
    json_more: ClassVar[Mapping[str, Any]] = {"ok": bool}
    frame_columns: ClassVar[tuple[str, ...]] = ("name", "verdict", "sentence")

    problem: str
    findings: tuple[Finding, ...]
    calls: int
    calls_per_second: float | None
    price: Count | None  # oracle calls of the promise
    price_seconds: float | None  # and its time on one core

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.verdict != "wrong" for finding in self.findings)

    def more_data(self) -> dict[str, Any]:
        """Whether nothing is wrong."""
        return {"ok": self.ok}

    def records(self) -> list[dict[str, Any]]:
        """One row per finding."""
        return [
            {
                "name": finding.name,
                "verdict": finding.verdict,
                "sentence": finding.sentence,
            }
            for finding in self.findings
        ]

    def __repr__(self) -> str:
        return brief(
            "Check",
            problem=self.problem,
            ok=self.ok,
            findings=len(self.findings),
            calls=self.calls,
        )


TESTS: tuple[tuple[str, Callable[[Probe], Finding]], ...] = (
    ("states", contract.check_states),
    ("randomness", contract.check_randomness),
    ("rows", contract.check_rows),
    ("independence", contract.check_independence),
    ("rewards", contract.check_reward_range),
    ("operator", claims.check_own_operator),
    ("chance", claims.check_determinism),
    ("outcomes", claims.check_outcomes),
    ("memory", claims.check_keys),
    ("bounds", claims.check_value_bounds),
    ("totals", claims.check_totals),
    ("ends", claims.check_ends),
    ("rarity", chances.check_rarity),
    ("lengths", chances.check_lengths),
)


WIDEST = 1e12  # in the place of an open end of reward_range


@named_keywords
@stoppable()
def check(
    problem: Problem,
    state: Any = None,
    *,
    epsilon: float | str = "10%",
    delta: float | str = 0.1,
    seed: int = 0,
    call_seconds: float = 10.0,
) -> Check:
    """A Check of the problem's oracle, and on the price of a promise.

    It makes some 700 calls, fewer if they take long.

    Args:
        problem: the MDP or game to check.
        state: where to begin; the default is the problem's initial state.
        epsilon: accuracy of the promise that is priced, in units of reward or
            as a share of the span of values; "10%" by default.
        delta: its probability of failure, 0.1 by default; "10%" is the same.
        seed: of the streams used here; 0 by default.
        call_seconds: a call that takes longer counts as hanging, where the
            problem sets no limit itself; 10 by default.

    Example:
        >>> import smoothcruiser as sc
        >>> sc.check(sc.make("chain:n=5", discount=0.5, temperature=1)).ok
        True
    """
    check_problem(problem)
    if None in problem.reward_range:  # any finite number is in such a range
        problem = capped_problem(problem, WIDEST)
    check_call_seconds(call_seconds)
    check_seed(seed)
    failure_probability = Promise(delta=check_delta(delta)).failure()
    probe = Probe(problem, seed, float(problem.call_seconds or call_seconds))
    findings: list[Finding] = []
    start_state = problem.start(state)
    _compile_step(problem, start_state)
    with _limit_calls(probe):
        walks_passed = _run_test(
            findings, "walks", lambda: contract.check_walks(probe, start_state)
        )
        if walks_passed:
            for name, test in TESTS:
                passed = _run_test(findings, name, lambda test=test: test(probe))  # type: ignore[misc]
                if not passed:
                    break  # a later test would only fail for the same reason
    is_usable = all(finding.verdict != "wrong" for finding in findings)
    calls_per_second, price = (
        (
            _measure_speed(problem, start_state),
            _price(problem, epsilon, failure_probability),
        )
        if is_usable
        else (None, None)
    )
    price_seconds = (
        None
        if calls_per_second is None or price is None
        else _price_seconds(price, calls_per_second)
    )
    if calls_per_second is not None:
        findings.append(
            Finding(
                "speed", "ok", f"{calls_per_second:,.0f} calls per second on one core."
            )
        )
    if is_usable and is_undiscounted(problem):
        model_known = claims.is_model_known(probe)
        planner_text = (
            "exact solves the model" if model_known else "certified search plans it"
        )
        price_text = f"discount 1 without a horizon: {planner_text}, no schedule does."
        findings.append(Finding("price", "ok", price_text))
    elif is_usable:
        price_finding = _price_finding(
            price, price_seconds, epsilon, failure_probability
        )
        if price_finding.verdict == "warning":
            way_out = _way_out(probe, findings)
            price_finding = replace(
                price_finding, sentence=f"{price_finding.sentence[:-1]}; {way_out}."
            )
        findings.append(price_finding)
    return Check(
        problem.name,
        tuple(findings),
        probe.calls,
        calls_per_second,
        price,
        price_seconds,
    )


def _compile_step(problem: Problem, start_state: Any) -> None:
    """Compile the step before its calls are timed: on a busy machine that takes long.

    A step that cannot be compiled is found by the walks.
    """
    if not is_compiled(problem.oracle):
        return
    from smoothcruiser.jit.oracle import returned_type, state_type

    with suppress(SmoothcruiserError):
        returned_type(problem.oracle, state_type(start_state))


@contextmanager
def _limit_calls(probe: Probe) -> Iterator[None]:
    """Watch for a call that hangs, as the engines do."""
    from smoothcruiser.run_control.call_seconds import limit_call_seconds

    with limit_call_seconds(probe, probe.call_seconds):
        yield


def _run_test(findings: list[Finding], name: str, test: Callable[[], Finding]) -> bool:
    """Whether a test passed; its finding is stored, and an error becomes one."""
    try:
        finding = test()
    except SmoothcruiserError as error:
        finding = Finding(name, "wrong", str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # legal, terminal or player of the user's own
        finding = Finding(
            name,
            "wrong",
            (
                f"A function of the problem raised {type(error).__name__}: {error}; "
                "fix it."
            ),
        )
    findings.append(finding)
    return finding.verdict != "wrong"


# --- speed and price ----------------------------------------------------------


def _measure_speed(problem: Problem, state: Any) -> float | None:
    from smoothcruiser.api import calibrate

    try:
        return calibrate(problem, state)
    except SmoothcruiserError:
        return None


def _price(problem: Problem, epsilon: float | str, delta: float) -> int | None:
    from smoothcruiser.api import explain

    try:
        price: int = explain(problem, epsilon=epsilon, delta=delta).num_calls
        return price
    except SmoothcruiserError:
        return None


def _price_finding(
    price: int | None, seconds: float | None, epsilon: float | str, delta: float
) -> Finding:
    promise_text = f"epsilon {epsilon}, delta {delta:g}"
    if price is None:
        return Finding("price", "warning", f"no schedule keeps {promise_text}.")
    time_text = "" if seconds is None else f", {duration(seconds)} on one core"
    verdict: Verdict = "ok" if seconds is None or seconds < 3600.0 else "warning"
    return Finding(
        "price",
        verdict,
        f"a schedule for {promise_text} makes {short(price)} calls{time_text}.",
    )


def _way_out(probe: Probe, findings: list[Finding]) -> str:
    """Advice about a price that is too high."""
    if claims.is_model_known(probe):
        return "plan solves the known model instead, or searches it, with 0 calls"
    remembers_states = any(
        finding.name == "memory" and finding.verdict == "ok" for finding in findings
    )
    if remembers_states:
        return "certified search needs far fewer where states come back"
    return "try a larger epsilon, or key= for certified search"


def _price_seconds(price: int, speed: float) -> float:
    return price / speed if price < 10**300 else math.inf
