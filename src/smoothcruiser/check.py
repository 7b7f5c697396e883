"""``check``: is this oracle usable, and is what the problem claims true? Says what is wrong and how to mend it.

A promise rests on claims that no planner can test while it runs: draws are independent and follow one law for each (state, action), all
randomness comes from ``rng``, a state is a value that nobody changes afterwards. Here they are tested on states met by random walks:

  same stream, same answer             (s, a) drawn twice from equal streams gives equal (reward, next state)
  no memory between draws              n draws repeated in the opposite order give the same n answers, stream by stream
  states are not changed or shared     a state looks the same after a step from it; an answer looks the same after the next answer
  claims                               reward_range, num_actions, legal, player, alternating, terminal, deterministic, outcomes

Each test is exact but for ``outcomes``, whose frequencies are compared with Hoeffding's bound at ``FALSE_ALARM``. A check can find faults
and never proves their absence. What it leaves out: ``value_bounds`` (nothing short of a solution tests them).
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from smoothcruiser.errors import Hung, InvalidInput, OracleError, SmoothcruiserError
from smoothcruiser.problem.answers import at, hung, outside, raised, undeclared_end, unpacked
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.states import by_identity, is_opaque, same_state

FALSE_ALARM = 1e-6  # of the only statistical test
WALKS, STEPS, DRAWS = 8, 10, 16  # random walks, steps of each, draws of a pair: some 700 calls in all, fewer for slow oracles
ENOUGH_SECONDS = 5.0  # after which no further state is looked at
CHECK = 104  # spawn key of the streams used here

Verdict = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One question and its answer."""

    name: str
    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class Report:
    """What a check found; ``ok`` if nothing is wrong."""

    problem: str
    findings: tuple[Finding, ...]
    calls: int
    calls_per_second: float | None
    price: int | None  # oracle calls of the promise asked about
    price_seconds: float | None  # and its time on one core

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(finding.verdict != "wrong" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        marks = {"ok": "ok     ", "warning": "warning", "wrong": "WRONG  "}
        rows = [f"{self.problem}: {'usable' if self.ok else 'not usable as it is'} ({self.calls:,} calls)"]
        rows += [f"  {marks[f.verdict]}  {f.name}: {f.sentence}" for f in self.findings]
        return "\n".join(rows)


@dataclass
class _Probe:
    """Draws with named faults, and what was seen."""

    problem: Problem
    seed: int
    call_seconds: float
    calls: int = 0
    rewards: tuple[float, float] = (math.inf, -math.inf)
    ends: int = 0
    pairs: list[tuple[Any, int]] = field(default_factory=list)  # (state, action) met by the walks
    spent: float = 0.0

    def stream(self, *key: int) -> Any:
        """A stream of its own for every use."""
        from smoothcruiser.execute.streams import stream

        return stream(self.seed, CHECK, *key)

    def draw(self, state: Any, action: int, rng: Any) -> tuple[float, Any, bool]:
        """One checked call."""
        self.calls += 1
        begin = time.perf_counter()
        try:
            answer = self.problem.oracle(state, action, rng)
        except SmoothcruiserError:
            raise
        except Exception as error:
            if isinstance(error, Hung):
                raise hung(self.call_seconds, at(state, action)) from error
            raise raised(error, at(state, action)) from error
        finally:
            self.spent += time.perf_counter() - begin
        reward, after, ended = unpacked(answer, state, action)
        if not math.isnan(reward):
            self.rewards = (min(self.rewards[0], reward), max(self.rewards[1], reward))
        low, high = self.problem.facts.reward_range
        if not low <= reward <= high:
            raise outside(reward, at(state, action), low, high)
        if ended and not self.problem.facts.terminals:
            raise undeclared_end(at(state, action))
        ended = ended or self.problem.is_terminal(after)
        self.ends += ended
        return reward, after, ended


def check(
    problem: Problem,
    state: Any = None,
    *,
    epsilon: float | str = "10%",
    delta: float = 0.1,
    seed: int = 0,
    call_seconds: float = 10.0,
) -> Report:
    """A Report on the problem's oracle, from some 700 calls (fewer if they take long), and the price of a promise in seconds."""
    if not isinstance(problem, Problem):
        raise InvalidInput(f"A problem (MDP, Game, tabular or make) was expected, got {type(problem).__name__}.")
    probe = _Probe(problem, seed, float(problem.call_seconds or call_seconds))
    findings: list[Finding] = []
    start = problem.start(state)
    with _limited(probe):
        walked = _asked(findings, "walks", lambda: _walks(probe, start))
        if walked:
            for name, test in TESTS:
                if not _asked(findings, name, lambda test=test: test(probe)):  # type: ignore[misc]
                    break  # a later test would only fail for the same reason
    findings.append(_hashable(probe))
    good = all(finding.verdict != "wrong" for finding in findings)
    speed, price = (_speed(problem, start), _price(problem, epsilon, delta)) if good else (None, None)
    seconds = None if speed is None or price is None else price / speed
    if speed is not None:
        findings.append(Finding("speed", "ok", f"{speed:,.0f} calls a second on one core."))
    if good:
        findings.append(_price_finding(price, seconds, epsilon, delta))
    return Report(problem.name, tuple(findings), probe.calls, speed, price, seconds)


@contextmanager
def _limited(probe: _Probe) -> Iterator[None]:
    """The watch over a call that hangs, as the engines have it."""
    from smoothcruiser.execute.python_engine import watched

    with watched(probe, probe.call_seconds):
        yield


def _asked(findings: list[Finding], name: str, test: Callable[[], Finding]) -> bool:
    """Whether a test passed; its finding is kept, an error becomes one."""
    try:
        finding = test()
    except SmoothcruiserError as error:
        finding = Finding(name, "wrong", str(error))
    except Exception as error:  # legal, terminal or player of the user's own
        finding = Finding(name, "wrong", f"A function of the problem raised {type(error).__name__}: {error}; mend it.")
    findings.append(finding)
    return finding.verdict != "wrong"


# --- the tests -----------------------------------------------------------------------------------------------------------------


def _walks(probe: _Probe, start: Any) -> Finding:
    """Every action at the asked state, then random walks: next states are accepted again."""
    problem = probe.problem
    if problem.is_terminal(start):
        raise InvalidInput(f"The asked state {start!r} is terminal; pass a state where something can be done.")
    for action in problem.legal_actions(start):
        probe.draw(start, action, probe.stream(0, action))
        probe.pairs.append((start, action))
    begin, longest = time.perf_counter(), 0
    for walk in range(WALKS):
        state, rng = start, probe.stream(1, walk)
        for step in range(STEPS if problem.horizon is None else min(STEPS, problem.horizon)):
            actions = problem.legal_actions(state)
            problem.mover(state)
            action = actions[int(rng.integers(len(actions)))]
            probe.pairs.append((state, action))
            _, after, ended = probe.draw(state, action, rng)
            if not ended and getattr(problem, "alternating", False) and problem.mover(after) == problem.mover(state):
                raise OracleError(f"alternating=True, but state {state!r} led to a state of the same player; drop alternating=.")
            longest = max(longest, step + 1)
            if ended or time.perf_counter() - begin > ENOUGH_SECONDS:
                break
            state = after
    ends = f", {probe.ends} of {probe.calls} draws ended the episode" if problem.facts.terminals else ""
    return Finding(
        "walks", "ok", f"all {len(problem.legal_actions(start))} actions and walks of up to {longest} steps were accepted{ends}."
    )


def _some(probe: _Probe, most: int) -> list[tuple[Any, int]]:
    """Pairs to look at: spread over those met, fewer if calls are slow."""
    per_call = probe.spent / max(1, probe.calls)
    affordable = max(2, int(ENOUGH_SECONDS / max(per_call * DRAWS * 2, 1e-9)))
    count = min(most, affordable, len(probe.pairs))
    return [probe.pairs[i * len(probe.pairs) // count] for i in range(count)]


def _deterministic_stream(probe: _Probe) -> Finding:
    for i, (state, action) in enumerate(_some(probe, 40)):
        first, second = (probe.draw(state, action, probe.stream(2, i)) for _ in range(2))
        if first[0] != second[0] or not (same_state(first[1], second[1]) or is_opaque(first[1])):
            raise OracleError(
                f"Two draws at state {state!r}, action {action} from equal streams differ: {first[:2]!r} and {second[:2]!r}. "
                "The oracle takes randomness from elsewhere (a global generator, the clock) or remembers earlier calls; "
                "draw every number from the rng that step is given."
            )
    return Finding("randomness", "ok", "equal streams gave equal answers: all randomness comes from rng.")


def _independent(probe: _Probe) -> Finding:
    for i, (state, action) in enumerate(_some(probe, 12)):
        order = list(range(DRAWS))
        there = [probe.draw(state, action, probe.stream(3, i, k)) for k in order]
        back = [probe.draw(state, action, probe.stream(3, i, k)) for k in reversed(order)][::-1]
        for one, other in zip(there, back, strict=True):
            if one[0] != other[0] or one[2] != other[2] or not (same_state(one[1], other[1]) or is_opaque(one[1])):
                raise OracleError(
                    f"Draws at state {state!r}, action {action} depend on the draws before them: {one[:2]!r} became {other[:2]!r} "
                    "in another order. The oracle keeps something between calls; make each call start from its state alone."
                )
    return Finding("independence", "ok", "draws do not depend on earlier draws.")


def _untouched(probe: _Probe) -> Finding:
    for i, (state, action) in enumerate(_some(probe, 20)):
        try:
            before = copy.deepcopy(state)
        except Exception:
            return Finding("states", "warning", f"states of type {type(state).__name__} cannot be copied, so changes to them go unseen.")
        _, first, _ = probe.draw(state, action, probe.stream(4, i, 0))
        if not (same_state(before, state) or is_opaque(state)):
            raise OracleError(
                f"The oracle changed the state it was given: {before!r} became {state!r} under action {action}. "
                "A planner asks about one state many times; copy the state before changing it."
            )
        kept = copy.deepcopy(first)
        probe.draw(state, action, probe.stream(4, i, 1))
        if not (same_state(kept, first) or is_opaque(first)):
            raise OracleError(
                f"A next state changed when the oracle was called again: {kept!r} became {first!r} at state {state!r}, action {action}. "
                "Draws share one object; return a fresh state from every call."
            )
    return Finding("states", "ok", "states are neither changed by a step nor shared between draws.")


def _reward_range(probe: _Probe) -> Finding:
    low, high = probe.problem.facts.reward_range
    seen = f"rewards seen in [{probe.rewards[0]:g}, {probe.rewards[1]:g}], declared [{low:g}, {high:g}]"
    width = probe.rewards[1] - probe.rewards[0]
    if high > low and width < 0.25 * (high - low):
        return Finding("rewards", "warning", f"{seen}: if no state pays more, declare a narrower range; the price grows with its square.")
    return Finding("rewards", "ok", f"{seen}.")


def _claims_of_determinism(probe: _Probe) -> Finding:
    for i, (state, action) in enumerate(_some(probe, 20)):
        first, second = (probe.draw(state, action, probe.stream(5, i, k)) for k in range(2))
        if first[0] != second[0] or not (same_state(first[1], second[1]) or is_opaque(first[1])):
            if probe.problem.deterministic:
                raise OracleError(
                    f"deterministic=True, but state {state!r}, action {action} gave {first[:2]!r} and {second[:2]!r}; drop deterministic=."
                )
            return Finding("chance", "ok", "the oracle is random.")
    if probe.problem.deterministic:
        return Finding("chance", "ok", "deterministic=True holds on the states met.")
    return Finding(
        "chance", "warning", "no chance was seen: if the oracle is deterministic, say deterministic=True and searches need one draw a pair."
    )


def _claims_of_outcomes(probe: _Probe) -> Finding:
    outcomes = probe.problem.outcomes
    if outcomes is None:
        return Finding("outcomes", "ok", "no known model is claimed.")
    pairs = _some(probe, 12)
    draws = 20 * DRAWS if probe.spent / max(1, probe.calls) < 1e-3 else DRAWS
    for i, (state, action) in enumerate(pairs):
        model = list(outcomes(state, action))
        total = math.fsum(p for p, _, _ in model)
        if abs(total - 1.0) > 1e-8:
            raise OracleError(f"outcomes({state!r}, {action}) has probabilities that sum to {total:.9g}; they must sum to 1.")
        counts = [0] * len(model)
        for k in range(draws):
            reward, after, _ = probe.draw(state, action, probe.stream(6, i, k))
            hits = [j for j, (_, r, z) in enumerate(model) if math.isclose(r, reward, abs_tol=1e-12) and same_state(z, after)]
            if not hits:
                raise OracleError(
                    f"The oracle gave ({reward!r}, {after!r}) at state {state!r}, action {action}, which outcomes= does not list."
                )
            counts[hits[0]] += 1
        radius = math.sqrt(math.log(2 * len(model) * len(pairs) / FALSE_ALARM) / (2 * draws))
        for (p, r, z), count in zip(model, counts, strict=True):
            if abs(count / draws - p) > radius and len({j for j, o in enumerate(model) if o[1] == r and same_state(o[2], z)}) == 1:
                raise OracleError(
                    f"At state {state!r}, action {action} the outcome ({r!r}, {z!r}) has probability {p:g} in outcomes= but came "
                    f"{count} times in {draws} draws; the model and the oracle differ."
                )
    return Finding("outcomes", "ok", f"outcomes= agrees with {draws} draws of {len(pairs)} pairs.")


TESTS: tuple[tuple[str, Callable[[_Probe], Finding]], ...] = (
    ("states", _untouched),
    ("randomness", _deterministic_stream),
    ("independence", _independent),
    ("rewards", _reward_range),
    ("chance", _claims_of_determinism),
    ("outcomes", _claims_of_outcomes),
)


# --- what follows from them ------------------------------------------------------------------------------------------------------


def _hashable(probe: _Probe) -> Finding:
    if not probe.pairs:
        return Finding("memory", "ok", "no state was met.")
    state = probe.pairs[-1][0]
    try:
        hash(state)
    except TypeError:
        return Finding(
            "memory",
            "warning",
            f"states of type {type(state).__name__} cannot be hashed: certified search and trees need tuples or the like.",
        )
    if is_opaque(state) or by_identity(state):
        return Finding("memory", "warning", "states are told apart by identity only, so searches never recognize one that comes back.")
    return Finding("memory", "ok", "states can be recognized when they come back.")


def _speed(problem: Problem, state: Any) -> float | None:
    from smoothcruiser.api import calibrate

    try:
        return calibrate(problem, state)
    except SmoothcruiserError:
        return None


def _price(problem: Problem, epsilon: float | str, delta: float) -> int | None:
    from smoothcruiser.api import explain

    try:
        return explain(problem, epsilon=epsilon, delta=delta).num_calls
    except SmoothcruiserError:
        return None


def _price_finding(price: int | None, seconds: float | None, epsilon: float | str, delta: float) -> Finding:
    promise = f"epsilon {epsilon}, delta {delta:g}"
    if price is None:
        return Finding("price", "warning", f"no schedule keeps {promise}; try a larger epsilon, or certified search.")
    from smoothcruiser.schedule.text import short

    took = "" if seconds is None else f", about {_duration(seconds)} on one core"
    verdict: Verdict = "ok" if seconds is None or seconds < 3600.0 else "warning"
    return Finding("price", verdict, f"a schedule for {promise} makes {short(price)} calls{took}.")


def _duration(seconds: float) -> str:
    for size, unit in ((31_557_600.0, "years"), (86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{max(seconds, 0.001):.2g} s"
