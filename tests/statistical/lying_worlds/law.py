"""The law of the gallery: a world, a way to ask about it, and the verdict on one run.

``plan`` itself, without a call of ``check``, either refuses with a sentence
that names the fault, or its intervals hold the truth: the value of the world as
it is honestly meant. Where a lie cannot be seen in principle, the certificate
names the assumption and, where that is possible, ``check`` finds it.

  ending       of one run
  refused      a SmoothcruiserError whose sentence matches ``says``
  covered      the intervals of the value and of every action value hold the truth
  named        they do not (or there is no truth), but an assumption matches ``names``,
               and ``check`` finds what matches ``check``
  EXCLUDED     none of these: a false certificate
  unnamed      EXCLUDED although the world may be named: no assumption matches
  unfound      EXCLUDED although it is named: ``check`` finds nothing
  misspoken    refused, in a sentence that does not name the fault
  crashed      an error that is not one of ours
  short        covered, but wider than the epsilon that had to be reached
"""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import smoothcruiser as sc

from .truth import Truth

# Were every bound exact, 5,000 runs would see an honest exclusion with probability
# 0.4; they are conservative.
DELTA = 1e-4
ROUNDING = 4 * 2.0**-52  # of the truth's own size

Build = Callable[[], sc.Problem]
REFUSED, COVERED, NAMED = "refused", "covered", "named"
MAYBE, ANY = (REFUSED, COVERED), (REFUSED, COVERED, NAMED)


@dataclass(frozen=True)
class Ask:
    """One way to ask: a method of ``plan`` or ``evaluate`` of a blind policy."""

    method: str = "smoothcruiser"
    epsilon: float | None = 0.25
    budget: int | None = None
    executor: str | None = None
    certify: bool = False
    target: str = "q_values"
    reaches: bool = False  # whether the answer has to be as narrow as epsilon

    @property
    def label(self) -> str:
        """What a reader sees."""
        more = [
            self.executor or "",
            "certify" if self.certify else "",
            "value" if self.target == "value" else "",
        ]
        return ", ".join([self.method, *filter(None, more)])

    def run(self, problem: sc.Problem, seed: int) -> sc.Estimate:
        """The library's answer."""
        if self.method == "evaluate":
            blind = [1.0 / problem.num_actions] * problem.num_actions
            limits = {"delta": DELTA, "budget": self.budget}
            return sc.evaluate(problem, lambda state: blind, seed=seed, **limits)
        promise: dict[str, Any] = {"epsilon": self.epsilon, "target": self.target}
        if self.certify or self.method == "exact":
            promise = {}
        workers = {"executor": self.executor, "workers": 1} if self.executor else {}
        delta = {} if self.method == "exact" else {"delta": DELTA}
        return sc.plan(
            problem,
            method=self.method,
            seed=seed,
            budget=self.budget,
            certify=self.certify,
            **promise,
            **delta,
            **workers,
        )


SCHEDULE = Ask()
CERTIFIED = Ask("certified", epsilon=0.1, budget=5_000)
PROCESSES = Ask(executor="processes")
EVALUATE = Ask("evaluate", budget=3_000)
TREE = Ask("uct", budget=3_000, certify=True)
EXACT = Ask("exact")
AUTO = Ask("auto", budget=20_000)
VALUE = Ask(target="value")
BOTH = (SCHEDULE, CERTIFIED)
EVALUATED, GROWN = (*BOTH, EVALUATE), (*BOTH, TREE)
ALL_WAYS = (*BOTH, EVALUATE, TREE)


@dataclass(frozen=True)
class World:
    """One entry of the gallery."""

    about: str  # its name, and after a colon what lies, in a few words
    kind: str  # the class of lie; "honest" for worlds that must be answered
    build: Build  # a fresh problem each time: some worlds remember
    truth: Truth | None  # None: the lie leaves no honest value
    says: str = r"$^"  # what a refusal has to say (a pattern; case does not matter)
    asks: tuple[Ask, ...] = (SCHEDULE,)
    ends: tuple[str, ...] = (REFUSED,)  # the endings that are allowed
    names: str = r"$^"  # what the certificate has to name where it excludes the truth
    check: str | None = None  # what ``check`` has to find then; None where nothing can

    @property
    def name(self) -> str:
        return self.about.partition(": ")[0]

    @property
    def lie(self) -> str:
        return self.about.partition(": ")[2]


def worlds_of(
    kind: str, usual_truth: Truth | None = None, **usual: Any
) -> Callable[..., World]:
    """Make worlds of one kind, asked both ways and refused or covered unless told."""

    def make(
        about: str, build: Build, truth=usual_truth, says="", **more: Any
    ) -> World:
        fields = {"asks": BOTH, "ends": MAYBE, **usual, **more}
        fields |= {"says": says} if says else {}
        return World(about, kind, build, truth, **fields)

    return make


def named(names: str, check: str | None = None) -> dict[str, Any]:
    """The fields of a world that may exclude the truth if its certificate says why."""
    return {"ends": ANY, "names": names, "check": check}


@dataclass(frozen=True)
class Verdict:
    """How one run ended."""

    ending: str
    told: str
    where: str = ""


def attempt(world: World, ask: Ask, seed: int) -> Verdict:
    """Ask once, and judge."""
    try:
        estimate = ask.run(world.build(), seed)
    except sc.SmoothcruiserError as error:
        named = re.search(world.says, str(error), re.IGNORECASE)
        ending = REFUSED if named else "misspoken"
        return Verdict(ending, f"{type(error).__name__}: {error}", _raised_in(error))
    except Exception as error:
        return Verdict(
            "crashed", f"{type(error).__name__}: {error}", _raised_in(error)
        )
    if world.truth is not None and covers(estimate, world.truth, ask):
        wide = ask.reaches and half_width(estimate) > (ask.epsilon or 0.0) + 1e-12
        return Verdict("short" if wide else COVERED, _shown(estimate, world.truth))
    told = _shown(estimate, world.truth)
    if NAMED not in world.ends or estimate.certificate is None:
        return Verdict("EXCLUDED", told)
    assumed = estimate.certificate.assumptions
    named = [text for text in assumed if re.search(world.names, text, re.IGNORECASE)]
    if not named:
        return Verdict("unnamed", f"{told}; assumptions: {assumed}")
    found = "" if world.check is None else finding(world)
    if found is None:
        return Verdict("unfound", f"{told}; assumed: {named[0]}")
    return Verdict(
        NAMED,
        f"assumed: {named[0]}",
        "certificate" if world.check is None else f"certificate; check: {found}",
    )


def covers(estimate: sc.Estimate, truth: Truth, ask: Ask) -> bool:
    """Whether every interval holds its truth.

    Where there is a choice, ``evaluate`` promises of V its lower end alone.
    """
    assert estimate.interval is not None
    low, high = estimate.interval
    slack = 1e-12 + ROUNDING * abs(truth.value)
    if ask.method == "evaluate" and len(truth.q_values) > 1:
        return low <= high and low <= truth.value + slack
    if not low - slack <= truth.value <= high + slack:
        return False
    boxes = () if estimate.certificate is None else estimate.certificate.q_intervals
    pairs = [
        (q, box)
        for q, box in zip(truth.q_values, boxes, strict=False)
        if not math.isnan(q)
    ]
    return all(box[0] - slack <= q <= box[1] + slack for q, box in pairs)


def half_width(estimate: sc.Estimate) -> float:
    """Half the width of the widest interval, or the value's where there is no other."""
    assert estimate.interval is not None
    assert estimate.certificate is not None
    boxes = [box for box in estimate.certificate.q_intervals if not math.isnan(box[0])]
    boxes = boxes or [estimate.interval]
    return max(high - low for low, high in boxes) / 2.0


def finding(world: World) -> str | None:
    """The first finding of ``check`` that is not fine and matches; None if
    there is none.
    """
    return _found(world.build, world.check or "")


@cache
def _found(build: Callable[[], sc.Problem], pattern: str) -> str | None:
    try:
        report = sc.check(build(), epsilon="50%")
    except sc.SmoothcruiserError as error:
        return str(error) if re.search(pattern, str(error), re.IGNORECASE) else None
    told = [f"{f.name}: {f.sentence}" for f in report.findings if f.verdict != "ok"]
    return next(
        (text for text in told if re.search(pattern, text, re.IGNORECASE)), None
    )


def _shown(estimate: sc.Estimate, truth: Truth | None) -> str:
    assert estimate.interval is not None
    low, high = estimate.interval
    said = "none" if truth is None else f"{truth.value:.6g}"
    return (
        f"interval [{low:.6g}, {high:.6g}], truth {said}, {estimate.num_calls:,} calls"
    )


def _raised_in(error: BaseException) -> str:
    """The function of the library that raised, past the files that only write
    sentences.
    """
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        f
        for f in frames
        if "smoothcruiser/" in f.filename and "/tests/" not in f.filename
    ]
    if not ours:
        return ""
    last: Any = ours[-1]
    return f"{last.filename.rsplit('smoothcruiser/', 1)[1]}: {last.name}"
