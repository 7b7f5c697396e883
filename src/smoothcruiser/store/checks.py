"""What the schedule and the shards of a stored run can be.

Seals tell a damaged row from a whole one. These checks hold for any row, whoever
sealed it: a schedule is verified again as every schedule is when it is built, and
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
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from smoothcruiser.engines.scores import BINNED, BINS, LOGGED, WHOLE, Score
from smoothcruiser.engines.shards import Partial, cut
from smoothcruiser.engines.stopping import StoppingRule
from smoothcruiser.errors import InvalidInput, SmoothcruiserError
from smoothcruiser.problem.arguments import is_whole
from smoothcruiser.problem.facts import Facts
from smoothcruiser.schedule.kinds import kind_named
from smoothcruiser.schedule.schedule import Level, Root, Schedule

# the facts are the problem's; calls beside the samples belong to one request
NOT_STORED = ("schema", "kind", "facts", "calls_beside", "piloted_calls")
ROUNDING = 1e-6  # relative: sums of millions of floats are exact to far less


def schedule_from(plan: Mapping[str, Any], facts: Facts) -> Schedule:
    """The schedule of a stored run, verified again as every schedule is when built."""
    try:
        levels = tuple(
            Level(
                kind_named(row["kind"]),
                row["samples"],
                row["query"],
                row["continuation"],
                row["constant"],
                row["shift"],
                tuple(row["rungs"]),
            )
            for row in plan["levels"]
        )
        top = plan["root"]
        root = Root(
            top["target"],
            top["samples"],
            top["child"],
            top["bound"],
            tuple(top["looks"]),
            top["adaptive_delta"],
        )
        clip = None if plan["clip"] is None else (plan["clip"][0], plan["clip"][1])
        _check_root(root)
        schedule = Schedule(
            plan["method"],
            facts,
            levels,
            root,
            plan["epsilon"],
            plan["delta"],
            clip,
            plan["delta_prime"],
        )
        if plain(schedule) != plan:
            raise InvalidInput("its numbers do not follow from its levels")
    except SmoothcruiserError as error:
        raise _no_schedule(str(error)) from error
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise _no_schedule(f"{type(error).__name__} at {error}") from error
    return schedule


def plain(schedule: Schedule) -> dict[str, Any]:
    """A schedule as the store has it: what JSON makes of ``to_dict``.

    The facts are those of the run's problem, and a store has a version of its own.
    """
    table = replace(schedule, calls_beside=0, piloted_calls=None)
    found: dict[str, Any] = json.loads(table.to_json())
    return {name: found[name] for name in found if name not in NOT_STORED}


def _check_root(root: Root) -> None:
    looks = root.looks
    if root.target not in ("q_values", "value"):
        raise InvalidInput(f"its target is {root.target!r}")
    if not all(map(is_whole, (root.samples, root.child, *looks))):
        raise InvalidInput("a count of its root is no whole number")
    if list(looks) != sorted(set(looks)) or any(
        not 1 <= look < root.samples for look in looks
    ):
        raise InvalidInput("its checkpoints do not increase up to the samples")


def _no_schedule(why: str) -> InvalidInput:
    return InvalidInput(
        f"The schedule of the stored run keeps no promise ({why.rstrip('.')}); the "
        "store was left untouched: start the run anew."
    )


def check_parts(
    rule: StoppingRule,
    shards: int | None,
    actions: Iterable[int],
    parts: Mapping[tuple[int, int], Partial],
) -> None:
    """Refuse shards that no run of the schedule can have left behind."""
    schedule = rule.schedule
    per_sample = schedule.level_calls[schedule.root.child] + (
        1 if schedule.root.target == "q_values" else 0
    )
    counts = {
        shard.index: shard.count
        for segment in cut(schedule, shards=shards)
        for shard in segment
    }
    farthest = rule.farthest
    possible = set(actions)
    for (action, index), part in parts.items():
        count = counts.get(index, 0)
        most = count * per_sample
        fair = (
            action in possible
            and part.draws == count > 0
            and is_whole(part.calls)
            and (part.calls == most or not schedule.price_is_exact)
            and part.calls >= 0
            and (part.calls <= most or schedule.randomized)
            and _are_sums(part, farthest)
            and _are_scores(part, rule.score, farthest)
        )
        if not fair:
            raise InvalidInput(
                f"Shard {index} of action {action} in the store has sums that no run "
                "of its schedule gives; the store was left untouched: start the run "
                "anew."
            )


def _are_sums(part: Partial, farthest: float) -> bool:
    """Whether numbers can be the sum and the sum of squares of bounded samples."""
    if not (math.isfinite(part.total) and math.isfinite(part.square)):
        return False
    more = 1.0 + ROUNDING
    least = part.total * (part.total / part.draws)
    slack = ROUNDING * farthest * farthest if farthest < math.inf else 0.0
    return (
        least <= part.square * more + slack
        and abs(part.total) <= part.draws * farthest * more
        and 0.0 <= part.square <= part.draws * farthest * farthest * more
    )


def _are_scores(part: Partial, score: Score, farthest: float) -> bool:
    """Whether numbers can be the scores of samples with these sums."""
    if len(part.score) != len(score.none):
        return False
    if score.kind == BINNED:
        if not all(is_whole(weight) and weight >= 0 for weight in part.score):
            return False
        if sum(part.score) != part.draws * WHOLE:
            return False
        places = (k / score.scale - score.half for k in range(BINS + 1))
        total = sum(w * x for w, x in zip(part.score, places, strict=True)) / WHOLE
        # a weight is rounded down, by at most 1/WHOLE of a bin
        slack = part.draws * (ROUNDING * farthest + 1.0 / (WHOLE * score.scale))
        return abs(total - part.total) <= slack
    if score.kind == LOGGED:
        (total,) = part.score
        if not (isinstance(total, float) and math.isfinite(total)):
            return False
        # |psi(x)| <= |x|, and the sum of |d| is at most the root of n times that of d^2
        most = score.scale * math.sqrt(part.draws * part.square)
        return abs(total) <= most * (1.0 + ROUNDING)
    return True
