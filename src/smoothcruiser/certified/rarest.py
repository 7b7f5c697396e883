"""A declared least probability, compared with the samples.

``min_probability=p`` says that no outcome of a step is less likely than p. Bounds rely
on it as soon as the outcomes of a pair are complete (docs/certified.md, section 2b). It
is seen to be false where a pair has more than 1/p outcomes, where a further one turns
up after they were complete, or where an outcome is so rare that its probability is
below p on the event behind the bounds. Each of these is an error; the event itself
fails with probability at most delta.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from smoothcruiser.certified.memory import Memory
from smoothcruiser.errors import OracleError
from smoothcruiser.problem.answers import at_pair
from smoothcruiser.problem.tabular import Ints

ROUNDING = 1e-9
# of nu above 1, in the bound on the probability of an outcome: any of them holds
OFFSETS = np.geomspace(1e-4, 1e4, 41)


def check_rarest(memory: Memory, least_probability: float, pairs: Ints) -> None:
    """Refuse samples of ``pairs`` that prove ``min_probability`` false."""
    pair_rows = memory.graph.pairs[pairs]
    too_many = pair_rows["length"] * least_probability > 1.0 + ROUNDING
    too_late = np.zeros(len(pairs), dtype=bool)
    if "law_complete" in pair_rows.dtype.names:
        has_more = (pair_rows["law_complete"] == 1) & (
            pair_rows["length"] > pair_rows["law_length"]
        )
        too_late = has_more | (pair_rows["law_complete"] == -1)
    for flaw_name, is_wrong in (("many", too_many), ("late", too_late)):
        if is_wrong.any():
            raise _false(memory, least_probability, pair_rows[is_wrong][0], flaw_name)
    # few have an outcome that could be too rare
    lengths = pair_rows["length"].astype(np.int64)
    for pair in pair_rows[
        (lengths > 1) & (pair_rows["total"] * least_probability > 1.0)
    ]:
        largest_share = _largest_share(memory, pair)
        if largest_share < least_probability * (1.0 - ROUNDING):
            raise _false(memory, least_probability, pair, "rare")


def _largest_share(memory: Memory, pair: Any) -> float:
    """The most that the probability of the pair's rarest outcome can be.

    It is Lemma K for the function that is 1 at this outcome and 0 elsewhere, with
    the share that was computed last; nothing is said where that is not up to date.
    """
    if "law_share" not in pair.dtype.names or pair["law_total"] < 0.5 * pair["total"]:
        return 1.0
    num_repeats = pair["law_total"] - pair["law_length"]
    if (
        pair["law_length"] != pair["length"]
        or num_repeats < 1.0
        or pair["law_share"] <= 0
    ):
        return 1.0
    weights = memory.graph.entries["weight"][
        pair["start"] : pair["start"] + pair["length"]
    ]
    # counts have grown since, so this share is at least that of then
    count_share = min(1.0, max(0.0, float(weights.min()) - 1.0) / num_repeats)
    log_share = math.log(pair["law_share"])
    log_bounds = (
        count_share * np.log(OFFSETS)
        + (1.0 - count_share) * np.log1p(OFFSETS)
        + log_share
    )
    return float((1.0 + OFFSETS - np.exp(log_bounds)).min())


def _false(
    memory: Memory, least_probability: float, pair: Any, flaw_name: str
) -> OracleError:
    state = memory.states[int(pair["node"])]
    flaw_text = {
        "many": f"{int(pair['length'])} outcomes were seen",
        "late": (
            f"outcome {int(pair['length'])} turned up when the others were complete"
        ),
        "rare": "an outcome is less likely than that",
    }[flaw_name]
    return OracleError(
        f"min_probability={least_probability:g} is false "
        f"{at_pair(state, int(pair['action']))}: {flaw_text}; "
        "declare the least probability of any outcome, or drop it."
    )
