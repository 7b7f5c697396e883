"""Checks of the schedule and the shards of a stored run.

Seals tell a damaged row from a whole one. These checks hold for any sealed row, also
of a stranger: a schedule is verified again as every schedule is when it is built, and
has to be written as this library writes it; the sums of a shard have to be sums of
as many samples as the cut gives it, each within the range that the schedule has
proved.

    draws  =  the shard's count
    calls  =  count (calls of a sample), or at most that where states end early; any
              number where corrections are made by chance
    |total|  <=  draws R          R: the farthest that a sample is from the centre
    total**2 / draws  <=  square  <=  draws R**2
    bins   =  weights of at least 0 that add up to the draws and, at the grid points,
              to the total

The problem of a stored run, rebuilt or passed again: it must be the same.

A store may come from elsewhere, so nothing that it names is imported without
trust (docs/security.md).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from smoothcruiser.engines.root_scores import BINNED, BINS, LOGGED, WHOLE, Score
from smoothcruiser.engines.shards import Partial, cut_shards
from smoothcruiser.engines.stopping_rule import StoppingRule
from smoothcruiser.errors import InvalidInput, SmoothcruiserError, describe_error
from smoothcruiser.problem.arguments import is_whole
from smoothcruiser.problem.facts import Facts
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.problem.make import from_spec, imports_of
from smoothcruiser.problem.problem import Problem
from smoothcruiser.schedule.kinds import kind_named
from smoothcruiser.schedule.schedule import Level, Root, Schedule
from smoothcruiser.store.record import StoredRun

# the facts are the problem's; calls beside the samples belong to one request
NOT_STORED = ("schema", "kind", "facts", "calls_beside", "piloted_calls")
ROUNDING = 1e-6  # relative: sums of millions of floats are exact to far less


def schedule_from(plan: Mapping[str, Any], facts: Facts) -> Schedule:
    """The schedule of a stored run, verified again as every schedule is when built."""
    try:
        levels = tuple(
            Level(
                kind_named(level_data["kind"]),
                level_data["samples"],
                level_data["query"],
                level_data["continuation"],
                level_data["constant"],
                level_data["shift"],
                tuple(level_data["rungs"]),
            )
            for level_data in plan["levels"]
        )
        root_data = plan["root"]
        root = Root(
            root_data["target"],
            root_data["samples"],
            root_data["child"],
            root_data["bound"],
            tuple(root_data["looks"]),
            root_data["adaptive_delta"],
        )
        clip_range = (
            None if plan["clip"] is None else (plan["clip"][0], plan["clip"][1])
        )
        _check_root(root)
        schedule = Schedule(
            plan["method"],
            facts,
            levels,
            root,
            plan["epsilon"],
            plan["delta"],
            clip_range,
            plan["delta_prime"],
        )
        if plain(schedule) != plan:
            raise InvalidInput("its numbers do not follow from its levels")
    except SmoothcruiserError as error:
        raise _schedule_error(str(error)) from error
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise _schedule_error(f"{type(error).__name__} at {error}") from error
    return schedule


def plain(schedule: Schedule) -> dict[str, Any]:
    """A schedule as the store has it: ``to_dict`` after a pass through JSON.

    The facts are those of the run's problem, and a store has a version of its own.
    """
    stored_schedule = replace(schedule, calls_beside=0, piloted_calls=None)
    schedule_data: dict[str, Any] = json.loads(stored_schedule.to_json())
    return {
        name: schedule_data[name] for name in schedule_data if name not in NOT_STORED
    }


def _check_root(root: Root) -> None:
    checkpoints = root.looks
    if root.target not in ("q_values", "value"):
        raise InvalidInput(f"its target is {root.target!r}")
    if not all(map(is_whole, (root.samples, root.child, *checkpoints))):
        raise InvalidInput("a count of its root is no whole number")
    if list(checkpoints) != sorted(set(checkpoints)) or any(
        not 1 <= checkpoint < root.samples for checkpoint in checkpoints
    ):
        raise InvalidInput("its checkpoints do not increase up to the samples")


def _schedule_error(why: str) -> InvalidInput:
    return InvalidInput(
        f"The schedule of the stored run keeps no promise ({why.rstrip('.')}); the "
        "store was left untouched: start the run anew."
    )


def check_parts(
    rule: StoppingRule,
    shards: int | None,
    actions: Iterable[int],
    finished_shards: Mapping[tuple[int, int], Partial],
) -> None:
    """Refuse shards that no run of the schedule can have left behind."""
    schedule = rule.schedule
    calls_per_sample = schedule.level_calls[schedule.root.child] + (
        1 if schedule.root.target == "q_values" else 0
    )
    samples_by_shard = {
        shard.index: shard.count
        for segment in cut_shards(schedule, shards=shards)
        for shard in segment
    }
    farthest = rule.farthest
    legal_actions = set(actions)
    for (action, index), shard_sums in finished_shards.items():
        num_samples = samples_by_shard.get(index, 0)
        most_calls = num_samples * calls_per_sample
        is_possible = (
            action in legal_actions
            and shard_sums.draws == num_samples > 0
            and is_whole(shard_sums.calls)
            and (shard_sums.calls == most_calls or not schedule.price_is_exact)
            and shard_sums.calls >= 0
            and (shard_sums.calls <= most_calls or schedule.randomized)
            and _are_sums(shard_sums, farthest)
            and _are_scores(shard_sums, rule.score, farthest)
        )
        if not is_possible:
            raise InvalidInput(
                f"Shard {index} of action {action} in the store has sums that no run "
                "of its schedule gives; the store was left untouched: start the run "
                "anew."
            )


def _are_sums(shard_sums: Partial, farthest: float) -> bool:
    """Whether numbers can be the sum and the sum of squares of bounded samples."""
    if not (math.isfinite(shard_sums.total) and math.isfinite(shard_sums.square)):
        return False
    rounding_factor = 1.0 + ROUNDING
    smallest_square = shard_sums.total * (shard_sums.total / shard_sums.draws)
    slack = ROUNDING * farthest * farthest if farthest < math.inf else 0.0
    return (
        smallest_square <= shard_sums.square * rounding_factor + slack
        and abs(shard_sums.total) <= shard_sums.draws * farthest * rounding_factor
        and 0.0
        <= shard_sums.square
        <= shard_sums.draws * farthest * farthest * rounding_factor
    )


def _are_scores(shard_sums: Partial, score: Score, farthest: float) -> bool:
    """Whether numbers can be the scores of samples with these sums."""
    if len(shard_sums.score) != len(score.none):
        return False
    if score.kind == BINNED:
        if not all(is_whole(weight) and weight >= 0 for weight in shard_sums.score):
            return False
        if sum(shard_sums.score) != shard_sums.draws * WHOLE:
            return False
        grid_points = (k / score.scale - score.half for k in range(BINS + 1))
        score_sum = (
            sum(
                w * grid_point
                for w, grid_point in zip(shard_sums.score, grid_points, strict=True)
            )
            / WHOLE
        )
        # a weight is rounded down, by at most 1/WHOLE of a bin
        slack = shard_sums.draws * (ROUNDING * farthest + 1.0 / (WHOLE * score.scale))
        return abs(score_sum - shard_sums.total) <= slack
    if score.kind == LOGGED:
        (score_sum,) = shard_sums.score
        if not (isinstance(score_sum, float) and math.isfinite(score_sum)):
            return False
        # |psi(x)| <= |x|, and the sum of |d| is at most the root of n times that of d^2
        largest_sum = score.scale * math.sqrt(shard_sums.draws * shard_sums.square)
        return abs(score_sum) <= largest_sum * (1.0 + ROUNDING)
    return True


def same_problem(
    stored: StoredRun, problem: Problem | None, trust: bool
) -> tuple[Problem, tuple[str, ...]]:
    """The problem of a stored run, built from its spec or passed again; and notes.

    Its fingerprint must be the stored one. The notes name the parts that no fingerprint
    sees.
    """
    if problem is None:
        if stored.spec is None:
            raise InvalidInput(
                f"Run {stored.id} is of a problem made in Python ({stored.problem}); "
                "pass the same problem to resume()."
            )
        imports = imports_of(stored.spec)
        if imports is not None and not trust:
            raise InvalidInput(
                f"To rebuild its problem, run {stored.id} would import and run "
                f"{imports}; if you trust the store, say so with "
                "trust=True, or pass the problem."
            )
        problem = _rebuild_problem(stored.spec)
    problem_fingerprint = fingerprint(problem)
    changes = problem_fingerprint.changes(stored.fingerprint)
    if changes:
        raise InvalidInput(
            f"Run {stored.id} was made for another problem than this one: "
            f"{_list_names(changes)} changed; pass the problem it was started with, or "
            "start a new run."
        )
    if not problem_fingerprint.unseen:
        return problem, ()
    return problem, (
        "Resumed without being able to compare "
        f"{_list_names(problem_fingerprint.unseen)} with the first session: if that "
        "changed, the answer is of two problems.",
    )


def _rebuild_problem(spec: dict[str, Any]) -> Problem:
    try:
        return from_spec(spec)
    except SmoothcruiserError:
        raise
    except Exception as error:  # of the user's module, or of a name that is none
        raise InvalidInput(
            f"The problem {spec['problem']!r} could not be made again: {describe_error(error)}."
        ) from error


def _list_names(names: tuple[str, ...]) -> str:
    """Names in a sentence, the first few of many."""
    first_names = ", ".join(names[:5])
    return (
        first_names if len(names) <= 5 else f"{first_names} and {len(names) - 5} more"
    )
